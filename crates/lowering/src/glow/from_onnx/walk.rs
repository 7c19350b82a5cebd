//! Walks an ONNX program operator by operator, in execution order.
//!
//! Functions are inlined at their calls, branches where they are taken, and loops are unrolled. The types of values are
//! inferred during the walk, so that the operands of shape computations are known and need no nodes.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::{AttributeValue, DType, Model, Op, Parameter, Program, Tensor, ValueType};
use lodstone_schema::glow::Storage;
use lodstone_schema::onnx::infer::{self, NoBodies, ValueInfo, Work};
use lodstone_schema::onnx::scopes::Scopes;
use lodstone_schema::onnx::{NEWEST_OPSET, domain_name, formal_inputs, quoted};
use lodstone_schema::{Code, Finding, Findings};

use crate::glow::kinds;

use super::finish::{self, Saved};
use super::graph::{Graph, Node, Source, Value};
use super::known::{dims_from, is_known, known_type, value_of};
use super::names::Names;
use super::op::{Cx, Entry, Fault};
use super::{prepare, rules, storage};

/// An operator without an equivalent.
#[derive(Debug)]
struct Failure {
    place: String,
    /// The reason; `None` if it is only an input without an equivalent.
    what: Option<Finding>,
    /// The failure of an input, by index: it need not be among the operator's inputs, since blocks see values around them.
    cause: Option<usize>,
    /// The entries that the operator reads.
    needs: Vec<usize>,
}

/// The maximum number of values beyond those that follow from the size of the program: functions and loops create values
/// each time. Two hundred thousand values take about 100 MB.
const MAX_VALUES: usize = 200_000;

/// The reason why a walk stops early.
const TOO_MUCH: &str = "the program exceeds the work limit for its size";

pub(super) struct Walk<'p> {
    opset: i64,
    pub(super) graph: Graph,
    pub(super) entries: Vec<Entry>,
    /// The entries of names; `None` for an omitted input.
    scopes: Scopes<'p, Option<usize>>,
    failures: Vec<Failure>,
    /// Constants inside blocks and functions, which all iterations and calls share: by the block and the index in it.
    constants: HashMap<(usize, Inside), usize>,
    work: Work,
    /// The maximum number of values.
    most: usize,
    /// The number of inlined function calls.
    pub(super) calls: usize,
    findings: Findings,
    /// The entries of the main graph by name.
    named: Vec<(String, usize)>,
}

/// A constant of a block, by its index there.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Inside {
    Initializer(usize),
    Operator(usize),
}

/// Operators that only move elements.
const MOVES: &[&str] = &[
    "Concat",
    "Expand",
    "Flatten",
    "Gather",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// Whether a value has a type in which shapes are computed.
fn is_wide(info: &ValueInfo) -> bool {
    !matches!(info.dtype(), DType::Int8 | DType::Uint8 | DType::Int16)
}

/// The result of the walk.
pub(crate) struct Walked {
    pub(crate) graph: Graph,
    /// The saved outputs.
    pub(crate) outputs: Vec<Saved>,
    pub(crate) calls: usize,
    /// Values of the main graph by their names in the source.
    pub(crate) named: Vec<(String, Value)>,
    /// Values of the main graph that are constants rather than nodes.
    pub(crate) constants: Vec<(String, Arc<Tensor>)>,
}

/// Walks the program of a model that [`prepare`](super::prepare) returned.
pub(super) fn walk(model: &Model) -> Result<Walked, Findings> {
    let mut findings = Findings::default();
    let Some(program) = model.main() else { return Err(findings) };
    let Some(main) = program.blocks.first() else {
        findings.add("the model", "expected a graph, found none");
        return Err(findings);
    };
    let mut walk = Walk::new(program);
    walk.graph.kinds = kinds::take(&mut model.metadata.clone());
    // Inputs and outputs get their names first, since these are the names that users refer to.
    let inputs = walk.inputs(model, main);
    let names: Vec<_> = main.outputs.iter().map(|name| walk.graph.names.give(name)).collect();
    let outputs = match walk.graph(model, inputs) {
        Ok(outputs) => outputs,
        Err(fault) => {
            let what = match fault {
                Fault::What(what) => what,
                Fault::Before(_) => "has no equivalent".into(),
            };
            walk.findings.add("the graph", what);
            return Err(walk.findings);
        }
    };
    let mut saved = Vec::new();
    let mut reached = Vec::new();
    for ((original, name), entry) in main.outputs.iter().zip(names).zip(outputs) {
        let value = match entry {
            Some(entry) => value_of(&mut walk.graph, &mut walk.entries, entry),
            None => Err(Fault::from("the value does not exist")),
        };
        match value {
            Ok(value) => saved.push(Saved { original: original.clone(), name, value }),
            Err(Fault::Before(place)) => reached.push(place),
            Err(Fault::What(what)) => {
                walk.findings.add(format!("the graph, output {}", quoted(original)), what);
            }
        }
    }
    let is_reached = !reached.is_empty();
    let acting = walk.graph.nodes.iter().filter(|node| finish::acts(node)).flat_map(Node::reads);
    let required = saved.iter().map(|saved| saved.value).chain(acting).collect();
    walk.report_failures(reached, required);
    if is_reached && walk.findings.is_empty() {
        let finding = Finding::internal("an output has no equivalent, and no reason was reported");
        walk.findings.add("the graph", finding);
    }
    if !walk.findings.is_empty() {
        return Err(walk.findings);
    }
    let (mut named, mut constants) = (Vec::new(), Vec::new());
    for (name, entry) in walk.named {
        let Some(entry) = walk.entries.get(entry) else {
            walk.findings.add("the graph", Finding::internal("a value has no entry"));
            return Err(walk.findings);
        };
        match (entry.value, &entry.tensor) {
            (Some(value), _) => named.push((name, value)),
            (None, Some(tensor)) => constants.push((name, Arc::new(tensor.clone()))),
            (None, None) => {
                constants.extend(entry.info.constant().map(|tensor| (name, Arc::new(tensor))));
            }
        }
    }
    Ok(Walked { graph: walk.graph, outputs: saved, calls: walk.calls, named, constants })
}

impl<'p> Walk<'p> {
    fn new(program: &'p Program) -> Self {
        let operators = program.ops().count();
        let initializers = program.blocks.iter().map(|block| block.initializers.len());
        let values = program.ops().map(|op| op.writes().count()).chain(initializers).sum::<usize>();
        let names = program.ops().map(|op| op.name.clone()).filter(|name| !name.is_empty());
        Self {
            opset: NEWEST_OPSET,
            graph: Graph::new(Names::new(names), operators),
            entries: Vec::new(),
            scopes: Scopes::new(program),
            failures: Vec::new(),
            constants: HashMap::new(),
            work: Work::of(program),
            most: values.saturating_mul(16).saturating_add(MAX_VALUES),
            calls: 0,
            findings: Findings::default(),
            named: Vec::new(),
        }
    }

    /// Adds the inputs of the graph. Those with a parameter of their name are constants.
    fn inputs(&mut self, model: &'p Model, main: &'p lodstone_model::Block) -> Vec<Option<usize>> {
        let hints = storage::hints(model, main);
        let vars: HashMap<_, _> = main.vars.iter().map(|var| (var.name.as_str(), var)).collect();
        let constants: HashMap<_, _> =
            model.parameters.iter().map(|p| (p.name.as_str(), p)).collect();
        let mut entries = Vec::new();
        for name in &main.inputs {
            if let Some(parameter) = constants.get(name.as_str()) {
                entries.push(Some(self.tensor(parameter, &hints)));
                continue;
            }
            let var = vars.get(name.as_str()).copied();
            let info = var.map(|var| ValueInfo::from(var.value.clone())).unwrap_or_default();
            let entry = match storage::placeholder(&mut self.graph, name, var, &info, &hints) {
                Ok(value) => {
                    Entry { name: name.clone(), info, value: Some(value), ..Entry::default() }
                }
                Err(what) => {
                    let place = format!("the graph, input {}", quoted(name));
                    self.findings.add(&place, what);
                    let (cause, needs) = (None, Vec::new());
                    let fault = Some(self.fail(Failure { place, what: None, cause, needs }));
                    Entry { name: name.clone(), info, fault, ..Entry::default() }
                }
            };
            entries.push(Some(self.add(entry)));
        }
        entries
    }

    /// Walks the main graph; all parameters are constants.
    fn graph(
        &mut self,
        model: &'p Model,
        inputs: Vec<Option<usize>>,
    ) -> Result<Vec<Option<usize>>, Fault> {
        self.scopes.graph()?;
        let main = self.scopes.innermost()?.block;
        let hints = storage::hints(model, main);
        for parameter in &model.parameters {
            if !main.inputs.contains(&parameter.name) {
                let entry = self.tensor(parameter, &hints);
                self.keep(&parameter.name, Some(entry))?;
            }
        }
        let outputs = self.entered(inputs)?;
        let main = self.scopes.leave()?;
        let entry = |(name, entry): (&str, Option<usize>)| Some((name.to_owned(), entry?));
        self.named = main.names.into_iter().filter_map(entry).collect();
        Ok(outputs)
    }

    fn tensor(&mut self, parameter: &Parameter, hints: &storage::Hints<'_>) -> usize {
        let (name, info) = (parameter.name.clone(), ValueInfo::of(&parameter.tensor));
        let tensor = Some(parameter.tensor.clone());
        let storage = storage::of_tensor(&parameter.tensor, hints.get(parameter.name.as_str()));
        self.add(Entry { name, info, tensor, storage, ..Entry::default() })
    }

    pub(super) fn add(&mut self, entry: Entry) -> usize {
        self.entries.push(entry);
        self.entries.len() - 1
    }

    fn fail(&mut self, failure: Failure) -> usize {
        self.failures.push(failure);
        self.failures.len() - 1
    }

    /// Walks the entered block and leaves it; returns its outputs.
    fn block(&mut self, inputs: Vec<Option<usize>>) -> Result<Vec<Option<usize>>, Fault> {
        let done = self.entered(inputs);
        self.scopes.leave()?;
        done
    }

    fn entered(&mut self, inputs: Vec<Option<usize>>) -> Result<Vec<Option<usize>>, Fault> {
        let scope = self.scopes.innermost()?;
        let (block, number, is_function) = (scope.block, scope.number, !scope.sees_around());
        let formal = match number {
            0 => block.inputs.iter().collect(),
            _ => formal_inputs(block, inputs.len()),
        };
        // Missing arguments of a function are omitted; a branch sees the values around it instead.
        let left_out = std::iter::repeat(None).take_while(|_| is_function);
        for (name, entry) in formal.into_iter().zip(inputs.into_iter().chain(left_out)) {
            self.keep(name, entry)?;
        }
        self.work.enter(block).ok_or(TOO_MUCH)?;
        for (index, parameter) in block.initializers.iter().enumerate() {
            let at = (number, Inside::Initializer(index));
            let entry = match self.constants.get(&at) {
                Some(entry) => *entry,
                None => self.tensor(parameter, &HashMap::new()),
            };
            self.constants.insert(at, entry);
            self.keep(&parameter.name, Some(entry))?;
        }
        let mut last = 0;
        for (index, op) in block.ops.iter().enumerate() {
            last = prepare::number(op).unwrap_or(last);
            let before = self.entries.len();
            let within = self.work.apply(op);
            if within.is_some() && !self.known_constant((number, Inside::Operator(index)), op)? {
                self.scopes.reach(last, op)?;
                self.operator(op)?;
                self.remember((number, Inside::Operator(index)), op);
            }
            let within = within.and_then(|()| self.afford(before)).and(self.graph.room);
            within.ok_or(TOO_MUCH)?;
        }
        Ok(block.outputs.iter().map(|name| self.see(name).flatten()).collect())
    }

    /// Binds an operator that is a constant of an earlier iteration or call; returns whether it is one.
    fn known_constant(&mut self, at: (usize, Inside), op: &'p Op) -> Result<bool, Finding> {
        let known = self.constants.get(&at).copied();
        if let (Some(entry), Some(name)) = (known, op.output("").first()) {
            self.keep(name, Some(entry))?;
        }
        Ok(known.is_some())
    }

    /// Records an operator whose constant does not depend on the arguments of its function.
    fn remember(&mut self, at: (usize, Inside), op: &Op) {
        let is_given = |value: &AttributeValue| matches!(value, AttributeValue::Reference { .. });
        let is_fixed = !op.attributes.iter().any(|attribute| is_given(&attribute.value));
        let name = op.output("").first().filter(|_| op.kind == "Constant" && is_fixed);
        let entry = name.and_then(|name| self.see(name).flatten());
        let is_tensor =
            |entry: &usize| self.entries.get(*entry).is_some_and(|entry| entry.tensor.is_some());
        if let Some(entry) = entry.filter(is_tensor) {
            self.constants.insert(at, entry);
        }
    }

    /// Charges the values from index `before`; `None` if the limit is exceeded.
    fn afford(&mut self, before: usize) -> Option<()> {
        // The size for which a cell of the work limit stands.
        const BYTES: usize = 16;
        let room = |entry: &Entry| {
            let dims = entry.info.shape().unwrap_or_default().len();
            let elements = entry.info.contents.iter().map(|contents| contents.len()).sum::<usize>();
            dims.saturating_add(elements).saturating_add(entry.name.len() / BYTES)
        };
        let cells = self.entries.iter().skip(before).map(room).fold(0, usize::saturating_add);
        self.work.keep(cells).filter(|()| self.entries.len() <= self.most)
    }

    /// Looks up a name: the outer `None` if it is not defined, the inner one if it is omitted.
    fn see(&self, name: &str) -> Option<Option<usize>> {
        self.scopes.see(name).copied()
    }

    fn keep(&mut self, name: &'p str, entry: Option<usize>) -> Result<(), Finding> {
        self.scopes.keep(name, entry).map(|_| ())
    }

    fn operator(&mut self, original: &'p Op) -> Result<(), Finding> {
        let scope = self.scopes.innermost()?;
        let (op, place) = (prepare::resolved(original, scope), scope.op_place());
        let mut inputs = Vec::new();
        let mut absent = None;
        for name in op.input("") {
            match (name.as_str(), self.see(name)) {
                ("", _) => inputs.push(None),
                (_, Some(entry)) => inputs.push(entry),
                (name, None) => {
                    absent = Some(format!("value {} does not exist", quoted(name)));
                    inputs.push(None);
                }
            }
        }
        let needs: Vec<usize> = inputs.iter().copied().flatten().collect();
        let outputs = match absent {
            Some(what) => Err(Fault::What(what.into())),
            None => self.outputs(original, &op, &inputs),
        };
        let names = original.output("");
        match outputs {
            Ok(outputs) => {
                for (name, entry) in names.iter().zip(outputs) {
                    if let Some(entry) = entry.filter(|_| !name.is_empty()) {
                        self.keep(name, Some(entry))?;
                    }
                }
            }
            Err(fault) => {
                // The outputs keep their inferred types.
                let infos = self.infer(&op, &inputs).unwrap_or_default();
                let (what, cause) = match fault {
                    Fault::What(what) => (Some(what), None),
                    Fault::Before(cause) => (None, Some(cause)),
                };
                let failure = self.fail(Failure { place, what, cause, needs });
                let mut infos = infos.into_iter();
                for name in names.iter() {
                    let info = infos.next().unwrap_or_default();
                    let value = known_type(&info).map(|of| self.graph.untranslated(failure, of));
                    let entry = Entry {
                        name: name.clone(),
                        info,
                        value,
                        fault: Some(failure),
                        ..Entry::default()
                    };
                    let entry = self.add(entry);
                    self.keep(name, Some(entry))?;
                }
            }
        }
        Ok(())
    }

    /// Infers the outputs of an operator.
    fn infer(&self, op: &Op, inputs: &[Option<usize>]) -> Result<Vec<ValueInfo>, Finding> {
        let info = |entry: &Option<usize>| entry.and_then(|e| self.entries.get(e)).map(|e| &e.info);
        let inputs: Vec<_> = inputs.iter().map(info).collect();
        infer::infer_op(op, self.opset, &inputs, &mut NoBodies)
    }

    /// Translates an operator; returns its outputs by position.
    fn outputs(
        &mut self,
        original: &'p Op,
        op: &Op,
        inputs: &[Option<usize>],
    ) -> Result<Vec<Option<usize>>, Fault> {
        if let Some(function) = self.scopes.function_of(original) {
            self.calls += 1;
            self.scopes.call(original, function)?;
            return self.block(inputs.to_vec());
        }
        let domain = domain_name(&op.domain);
        match (domain, op.kind.as_str()) {
            // An alias of the same value.
            ("ai.onnx", "Identity") => return Ok(inputs.to_vec()),
            ("ai.onnx", "If") => return self.branch(op, inputs),
            ("ai.onnx", "Loop") => return self.unroll(op, inputs),
            _ => {}
        }
        let infos = self.infer(op, inputs)?;
        if let Some(tensor) = rules::constant(op)? {
            let info = ValueInfo::of(&tensor);
            let name = op.output("").first().cloned().unwrap_or_default();
            let storage = Storage::default();
            let entry = Entry { name, info, tensor: Some(tensor), storage, ..Entry::default() };
            return Ok(vec![Some(self.add(entry))]);
        }
        let has_kind = self.graph.kinds.contains_key(&op.name);
        let is_made = has_kind || rules::is_made_even_if_known(domain, &op.kind);
        let read_plain = self.reads_plain(op, inputs)?;
        let folds = !is_made && read_plain;
        if folds && !infos.is_empty() && infos.iter().all(|info| is_known(info) && is_wide(info)) {
            let names = op.output("").iter();
            let known = infos.into_iter().zip(names).map(|(info, name)| {
                Some(self.add(Entry { name: name.clone(), info, ..Entry::default() }))
            });
            return Ok(known.collect());
        }
        let Some(rule) = rules::rule(domain, &op.kind) else {
            let what = format!("Glow has no operator {}", quoted(&op.kind));
            return Err(Finding::new(Code::NoEquivalent, what).into());
        };
        let base = match op.name.as_str() {
            "" => format!("{}_{}", op.kind, op.output("").first().map_or("", String::as_str)),
            name => name.to_owned(),
        };
        let (inputs, outputs) = (inputs.to_vec(), infos.clone());
        let mut cx =
            Cx { graph: &mut self.graph, entries: &mut self.entries, op, base, inputs, outputs };
        let values = rule(&mut cx)?;
        let mut infos = infos.into_iter();
        let mut entries = Vec::new();
        for (index, name) in op.output("").iter().enumerate() {
            let info = infos.next().unwrap_or_default();
            let Some(value) = values.get(index).copied().flatten() else {
                if name.is_empty() {
                    entries.push(None);
                    continue;
                }
                return Err(
                    format!("Glow does not compute output {index}, {}", quoted(name)).into()
                );
            };
            let of = self.graph.type_of(value);
            if let Some(shape) = dims_from(&info).filter(|shape| *shape != of.shape) {
                let found = of.shape;
                return Err(format!("expected the output shape {shape:?}, found {found:?}").into());
            }
            let is_tensor = matches!(info.value, ValueType::Tensor(_));
            let info = match is_tensor && dims_from(&info).is_some() {
                true => info,
                false => ValueInfo { contents: info.contents, ..storage::info_of(&of) },
            };
            if has_kind || !read_plain {
                self.graph.computed.insert(value);
            }
            let entry = Entry { name: name.clone(), info, value: Some(value), ..Entry::default() };
            entries.push(Some(self.add(entry)));
        }
        Ok(entries)
    }

    /// Whether results that are computed from these values need no nodes if they are known.
    fn reads_plain(&self, op: &Op, inputs: &[Option<usize>]) -> Result<bool, Finding> {
        let mut entries = inputs.iter().flatten();
        entries.try_fold(true, |all, number| {
            let entry = self.entries.get(*number);
            let absent = || Finding::internal(format!("entry {number} does not exist"));
            Ok(all && self.is_plain(entry.ok_or_else(absent)?, op))
        })
    }

    fn is_plain(&self, entry: &Entry, op: &Op) -> bool {
        // Quantized integers keep their nodes if they are only moved; constants with Glow's storage properties
        // are operands of Glow's computations.
        let is_moved = MOVES.contains(&op.kind.as_str());
        let is_own = entry.storage.layout.is_some();
        let is_made = entry.value.is_some_and(|value| self.graph.computed.contains(&value));
        !(is_moved && entry.storage.quantization.is_some() || is_own || is_made)
    }

    /// Translates a block of an operator, which sees the values around it.
    pub(super) fn body(
        &mut self,
        block: i32,
        inputs: Vec<Option<usize>>,
    ) -> Result<Vec<Option<usize>>, Fault> {
        self.scopes.body(block)?;
        let expected = formal_inputs(self.scopes.innermost()?.block, inputs.len()).len();
        if expected < inputs.len() {
            self.scopes.leave()?;
            let (expected, found) = (inputs.len(), expected);
            return Err(format!("expected a graph of {expected} inputs, found {found}").into());
        }
        self.block(inputs)
    }

    /// Reports all failures that the given values depend on.
    fn report_failures(&mut self, mut failed: Vec<usize>, mut values: Vec<Value>) {
        let mut seen_nodes = vec![false; self.graph.nodes.len()];
        let mut seen = vec![false; self.failures.len()];
        loop {
            while let Some(value) = values.pop() {
                match self.graph.source(value) {
                    Source::Result(node, _) => {
                        let node_seen = seen_nodes.get_mut(node);
                        if node_seen.is_some_and(|seen| !std::mem::replace(seen, true))
                            && let Some(node) = self.graph.nodes.get(node)
                        {
                            values.extend(node.reads());
                        }
                    }
                    Source::Untranslated(failure) => failed.push(failure),
                    Source::Placeholder(_) | Source::Constant(_) => {}
                }
            }
            let Some(number) = failed.pop() else { break };
            if seen.get_mut(number).is_some_and(|seen| std::mem::replace(seen, true)) {
                continue;
            }
            let Some(failure) = self.failures.get(number) else {
                let finding = Finding::internal("a value is missing, and no reason was reported");
                self.findings.add("the graph", finding);
                continue;
            };
            failed.extend(failure.cause);
            for entry in failure.needs.iter().filter_map(|entry| self.entries.get(*entry)) {
                values.extend(entry.value);
                failed.extend(entry.fault);
            }
        }
        let computed = self.failures.iter().zip(seen).filter(|(_, seen)| *seen);
        for (failure, _) in computed {
            if let Some(what) = &failure.what {
                self.findings.add(&failure.place, what.clone());
            }
        }
    }
}

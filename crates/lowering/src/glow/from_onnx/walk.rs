//! Through a program of ONNX, operator by operator, in the order in which they run.
//!
//! Functions are said where they are called, branches where they are taken, loops as often as they run.
//! What each value is is asked of the rules of ONNX as the walk goes: what shapes are computed from is
//! known then, and needs no nodes.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::{AttributeValue, DType, Model, Op, Parameter, Program, Tensor, ValueType};
use lodstone_schema::glow::Storage;
use lodstone_schema::onnx::infer::{self, NoBodies, ValueInfo, Work};
use lodstone_schema::onnx::scopes::Scopes;
use lodstone_schema::onnx::{NEWEST_OPSET, domain_name, formal_inputs, quoted};
use lodstone_schema::{Finding, Findings};

use crate::glow::kinds;

use super::finish::{self, Saved};
use super::graph::{Graph, Node, Source, Value};
use super::known::{extents, is_known, known_type, value_of};
use super::names::Names;
use super::op::{Cx, Entry, Fault};
use super::{prepare, rules, storage};

/// An operator that cannot be said.
#[derive(Debug)]
struct Failure {
    place: String,
    /// Nothing if it is only because of what is before it.
    what: Option<Finding>,
    /// What is before it, by number: it need not be among the inputs, because blocks see what is around them.
    cause: Option<usize>,
    /// The entries that it reads.
    needs: Vec<usize>,
}

/// Values that a program may have beyond those that follow from its size: functions and loops have theirs
/// each time. Two hundred thousand are some 100 MB.
const MOST_VALUES: usize = 200_000;

/// Why a program is not gone through to the end.
const TOO_MUCH: &str = "it asks for more work than its size warrants";

pub(super) struct Walk<'p> {
    opset: i64,
    pub(super) graph: Graph,
    pub(super) entries: Vec<Entry>,
    /// Entries that names stand for; none where an input is left out.
    scopes: Scopes<'p, Option<usize>>,
    failures: Vec<Failure>,
    /// Constants inside blocks and functions, which are the same ones in each turn and call: by the block, and
    /// the number in it.
    constants: HashMap<(usize, Inside), usize>,
    work: Work,
    /// Values that there may be.
    most: usize,
    /// How many calls of functions were said in full.
    pub(super) calls: usize,
    findings: Findings,
    /// Entries of the main graph by name.
    named: Vec<(String, usize)>,
}

/// A constant of a block, by its number there.
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

/// Whether a value is of a type that shapes are computed in.
fn is_wide(info: &ValueInfo) -> bool {
    !matches!(info.dtype(), DType::Int8 | DType::Uint8 | DType::Int16)
}

/// What a program becomes.
pub(super) struct Walked {
    pub(super) graph: Graph,
    /// What is saved.
    pub(super) outputs: Vec<Saved>,
    pub(super) calls: usize,
    /// Values of the main graph by the names that they have in the source.
    pub(super) named: Vec<(String, Value)>,
    /// Those that are constants and no nodes.
    pub(super) constants: Vec<(String, Arc<Tensor>)>,
}

/// Goes through the program of a model that [`prepare`](super::prepare) gave.
pub(super) fn walk(model: &Model) -> Result<Walked, Findings> {
    let mut findings = Findings::default();
    let Some(program) = model.main() else { return Err(findings) };
    let Some(main) = program.blocks.first() else {
        findings.add("the model", "expected a graph, found none");
        return Err(findings);
    };
    let mut walk = Walk::new(program);
    walk.graph.kinds = kinds::take(&mut model.metadata.clone());
    // The names of what goes in and comes out are those that people know it by.
    let inputs = walk.inputs(model, main);
    let names: Vec<_> = main.outputs.iter().map(|name| walk.graph.names.give(name)).collect();
    let outputs = match walk.graph(model, inputs) {
        Ok(outputs) => outputs,
        Err(fault) => {
            let what = match fault {
                Fault::What(what) => what,
                Fault::Before(_) => "cannot be said".into(),
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
            None => Err(Fault::from("there is no such value")),
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
    let asked = saved.iter().map(|saved| saved.value).chain(acting).collect();
    walk.tell(reached, asked);
    if is_reached && walk.findings.is_empty() {
        let finding = Finding::internal("an output cannot be said, and nothing tells why");
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
            most: values.saturating_mul(16).saturating_add(MOST_VALUES),
            calls: 0,
            findings: Findings::default(),
            named: Vec::new(),
        }
    }

    /// What goes into the graph. Tensors that are inputs, too, are constants.
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

    /// Goes through the main graph, of which all parameters are constants.
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

    /// Goes through the block that was entered, and leaves it; gives what comes out.
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
        // What a function is not given is left out; what a branch is not given it sees around it.
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

    /// Whether an operator is a constant that was there in a turn or a call before; then it is there again.
    fn known_constant(&mut self, at: (usize, Inside), op: &'p Op) -> Result<bool, Finding> {
        let known = self.constants.get(&at).copied();
        if let (Some(entry), Some(name)) = (known, op.output("").first()) {
            self.keep(name, Some(entry))?;
        }
        Ok(known.is_some())
    }

    /// Remembers an operator that gives a constant, whatever its function is given.
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

    /// Takes the room of the values from number `before` on; `None` if there is not so much left.
    fn afford(&mut self, before: usize) -> Option<()> {
        // What a cell of the work is sized for.
        const BYTES: usize = 16;
        let room = |entry: &Entry| {
            let extents = entry.info.shape().map_or(0, |shape| shape.len());
            let elements = entry.info.contents.as_ref().map_or(0, |contents| contents.len());
            extents.saturating_add(elements).saturating_add(entry.name.len() / BYTES)
        };
        let cells = self.entries.iter().skip(before).map(room).fold(0, usize::saturating_add);
        self.work.keep(cells).filter(|()| self.entries.len() <= self.most)
    }

    /// What a name stands for: nothing if there is none, none if it is left out.
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
                    absent = Some(format!("there is no value {}", quoted(name)));
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
                // The types go on, as far as they are known.
                let infos = self.infer(&op, &inputs).unwrap_or_default();
                let (what, cause) = match fault {
                    Fault::What(what) => (Some(what), None),
                    Fault::Before(cause) => (None, Some(cause)),
                };
                let failure = self.fail(Failure { place, what, cause, needs });
                let mut infos = infos.into_iter();
                for name in names.iter() {
                    let info = infos.next().unwrap_or_default();
                    let value = known_type(&info).map(|of| self.graph.unsaid(failure, of));
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

    /// What comes out by the rules of ONNX.
    fn infer(&self, op: &Op, inputs: &[Option<usize>]) -> Result<Vec<ValueInfo>, Finding> {
        let info = |entry: &Option<usize>| entry.and_then(|e| self.entries.get(e)).map(|e| &e.info);
        let inputs: Vec<_> = inputs.iter().map(info).collect();
        infer::infer_op(op, self.opset, &inputs, &mut NoBodies)
    }

    /// What an operator gives, by position.
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
            // Another name for the same value.
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
        let is_told = self.graph.kinds.contains_key(&op.name);
        let is_made = is_told || rules::is_made_even_if_known(domain, &op.kind);
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
            return Err(format!("Glow has no operator {}", quoted(&op.kind)).into());
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
                    format!("Glow does not give its output {index}, {}", quoted(name)).into()
                );
            };
            let of = self.graph.type_of(value);
            if let Some(shape) = extents(&info).filter(|shape| *shape != of.shape) {
                let found = of.shape;
                return Err(
                    format!("expected it to give the shape {shape:?}, found {found:?}").into()
                );
            }
            let is_tensor = matches!(info.value, ValueType::Tensor(_));
            let info = match is_tensor && extents(&info).is_some() {
                true => info,
                false => ValueInfo { contents: info.contents, ..storage::info_of(&of) },
            };
            if is_told || !read_plain {
                self.graph.told.insert(value);
            }
            let entry = Entry { name: name.clone(), info, value: Some(value), ..Entry::default() };
            entries.push(Some(self.add(entry)));
        }
        Ok(entries)
    }

    /// Whether what is computed of all these values need not be computed by nodes, if they are known.
    fn reads_plain(&self, op: &Op, inputs: &[Option<usize>]) -> Result<bool, Finding> {
        let mut entries = inputs.iter().flatten();
        entries.try_fold(true, |all, number| {
            let entry = self.entries.get(*number);
            let absent = || Finding::internal(format!("there is no entry {number}"));
            Ok(all && self.is_plain(entry.ok_or_else(absent)?, op))
        })
    }

    fn is_plain(&self, entry: &Entry, op: &Op) -> bool {
        // Integers that stand for numbers go on doing so where they are only moved; constants of Glow are
        // what it computes with.
        let is_moved = MOVES.contains(&op.kind.as_str());
        let is_own = entry.storage.layout.is_some();
        let is_made = entry.value.is_some_and(|value| self.graph.told.contains(&value));
        !(is_moved && entry.storage.quantization.is_some() || is_own || is_made)
    }

    /// A block that the operator runs, which sees what is around it.
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

    /// Tells what cannot be said of all that is asked for.
    fn tell(&mut self, mut failed: Vec<usize>, mut values: Vec<Value>) {
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
                    Source::Unsaid(failure) => failed.push(failure),
                    Source::Placeholder(_) | Source::Constant(_) => {}
                }
            }
            let Some(number) = failed.pop() else { break };
            if seen.get_mut(number).is_some_and(|seen| std::mem::replace(seen, true)) {
                continue;
            }
            let Some(failure) = self.failures.get(number) else {
                let finding = Finding::internal("a value was not made, and nothing tells why");
                self.findings.add("the graph", finding);
                continue;
            };
            failed.extend(failure.cause);
            for entry in failure.needs.iter().filter_map(|entry| self.entries.get(*entry)) {
                values.extend(entry.value);
                failed.extend(entry.fault);
            }
        }
        let told = self.failures.iter().zip(seen).filter(|(_, seen)| *seen);
        for (failure, _) in told {
            if let Some(what) = &failure.what {
                self.findings.add(&failure.place, what.clone());
            }
        }
    }
}

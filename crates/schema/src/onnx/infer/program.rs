//! Inference of a whole program, block by block.
//!
//! Subgraphs are inferred when their operator is, with its inputs; functions at each call. If a block is inferred several
//! times, the result is what all times have in common. [`Work`] limits how often that may happen.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{Block, Dim, Model, Op, Program, Tensor, TensorType, ValueType};

use super::super::scopes::{MAX_DEPTH, Scope, Scopes};
use super::super::{formal_inputs, introduced, place_of, quoted};
use super::apply;
use super::dims::{MAX_RANK, common_type, merged_types, show_type};
use super::node::Bodies;
use super::value::ValueInfo;
use super::work::{Fresh, Work};
use crate::onnx::blocks::block_of;
use crate::{Code, Finding, Findings, Located};

/// Options of inference.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Types or contents of inputs of the graph, instead of the declared types.
    pub inputs: HashMap<String, ValueInfo>,
    /// Whether unknown dims get symbols of their own, so that equal ones can be recognized.
    pub fresh_symbols: bool,
    /// Whether a run may replace initializers that are also inputs of the graph, so that only their declared types
    /// are certain. If `false`, they are constants. Up to IR version 3, where every initializer must be an input, they
    /// always are.
    pub overridable: bool,
    /// Whether contradictions inside subgraphs and functions are left out of the findings: a subgraph may never run, for
    /// example the branch of an `If` for other shapes.
    pub graph_only: bool,
    /// Whether branches that are never taken get element types, too, without shapes: runtimes check them.
    pub dead_branches: bool,
}

lodstone_model::with_fields!(Options {
    with_inputs(inputs: HashMap<String, ValueInfo>),
    with_fresh_symbols(fresh_symbols: bool),
    with_overridable(overridable: bool),
    with_graph_only(graph_only: bool),
    with_dead_branches(dead_branches: bool),
});

/// The result of inference.
#[derive(Clone, Debug, Default)]
pub struct Inference {
    /// The values of each block, by the index of the block and by name. Blocks that are never run have
    /// none, or only types if [`Options::dead_branches`] requests them.
    pub blocks: Vec<HashMap<String, ValueInfo>>,
    /// The contradictions.
    pub findings: Findings,
    /// Whether the whole program was inferred: inference stops at the work limit for the size of the program, and
    /// values that it did not reach are unknown.
    pub complete: bool,
}

/// The value of a name; `None` for an omitted input.
type Binding = Option<Arc<ValueInfo>>;

struct Walk<'p> {
    model: &'p Model,
    program: &'p Program,
    parameters: HashMap<&'p str, &'p Tensor>,
    scopes: Scopes<'p, Binding>,
    work: Work,
    fresh: Option<Fresh>,
    graph_only: bool,
    dead_branches: bool,
    /// Whether the innermost block is in a branch that is never taken.
    is_dead: bool,
    found: Inference,
    reported: HashSet<(String, String)>,
}

/// Infers the values of a program and finds contradictions.
///
/// Small integer constants are read. A model without a program has no values.
pub fn infer(model: &Model, options: &Options) -> Inference {
    let Some(program) = model.main() else {
        return Inference { complete: true, ..Inference::default() };
    };
    let mut walk = Walk::of(model, program, options);
    if let Some(main) = program.blocks.first() {
        let inputs = walk.graph_inputs(main, options);
        if let Err(finding) = walk.block(0, inputs, Scopes::graph) {
            walk.add_finding(finding.at("the graph"));
        }
    }
    walk.found
}

impl<'p> Walk<'p> {
    fn of(model: &'p Model, program: &'p Program, options: &Options) -> Self {
        let found = Inference {
            blocks: vec![HashMap::new(); program.blocks.len()],
            complete: true,
            ..Inference::default()
        };
        Self {
            model,
            program,
            parameters: model.parameters.iter().map(|p| (p.name.as_str(), &p.tensor)).collect(),
            scopes: Scopes::new(program),
            work: Work::of(program),
            fresh: options.fresh_symbols.then(|| Fresh::of(program)),
            graph_only: options.graph_only,
            dead_branches: options.dead_branches,
            is_dead: false,
            found,
            reported: HashSet::new(),
        }
    }

    /// Returns the inputs of the graph: from the options, the initializer of the name, or the declared type.
    fn graph_inputs(&mut self, main: &'p Block, options: &Options) -> Vec<Option<ValueInfo>> {
        let (declared, given) = (declared(main), &options.inputs);
        let is_old =
            self.program.version.is_none_or(|version| version < introduced::FREE_INITIALIZERS);
        let mut inputs = Vec::new();
        for name in &main.inputs {
            let mut input = match (given.get(name), declared.get(name.as_str())) {
                (Some(given), _) => given.clone(),
                (None, Some(declared)) => (*declared).clone().into(),
                (None, None) => ValueInfo::default(),
            };
            let constant = self.parameters.get(name.as_str()).filter(|_| !given.contains_key(name));
            if let Some(constant) = constant.map(|tensor| ValueInfo::of(tensor)) {
                let what = || format!("the graph, input {}", quoted(name));
                let agreed = self.agreed(constant, Some(&input.value), TypeSource::Constant, what);
                if is_old || !options.overridable {
                    input = agreed;
                }
            }
            inputs.push(Some(input));
        }
        inputs
    }

    /// Infers the block that `enter` enters; returns its outputs.
    fn block(
        &mut self,
        number: i32,
        inputs: Vec<Option<ValueInfo>>,
        enter: impl FnOnce(&mut Scopes<'p, Binding>) -> Result<(), Finding>,
    ) -> Result<Vec<ValueInfo>, Finding> {
        if self.scopes.depth() >= MAX_DEPTH {
            self.found.complete = false;
            let outputs = block_of(self.program, number).into_iter().flat_map(|it| &it.outputs);
            return Ok(outputs.map(|_| ValueInfo::default()).collect());
        }
        enter(&mut self.scopes)?;
        let outputs = self.entered(inputs);
        let scope = self.scopes.leave()?;
        if outputs.is_ok() {
            self.record(scope);
        }
        outputs
    }

    fn entered(&mut self, inputs: Vec<Option<ValueInfo>>) -> Result<Vec<ValueInfo>, Finding> {
        let scope = self.scopes.innermost()?;
        let (block, number, place) = (scope.block, scope.number, Arc::clone(&scope.place));
        let names = match number {
            0 => block.inputs.iter().collect(),
            _ => formal_inputs(block, inputs.len()),
        };
        if inputs.len() > names.len() {
            let (expected, found) = (names.len(), inputs.len());
            return Err(format!("expected {expected} inputs, found {found}").into());
        }
        if self.work.enter(block).is_none() {
            self.found.complete = false;
            return Ok(vec![ValueInfo::default(); block.outputs.len()]);
        }
        let declared = declared(block);
        if number == 0 {
            self.model.parameters.iter().try_for_each(|p| self.constant(&p.name, &p.tensor))?;
        }
        block.initializers.iter().try_for_each(|p| self.constant(&p.name, &p.tensor))?;
        let left_out = std::iter::repeat_with(|| None);
        for (name, input) in names.into_iter().zip(inputs.into_iter().chain(left_out)) {
            let known = declared.get(name.as_str()).copied().filter(|_| number != 0);
            let what = || format!("{place}, input {}", quoted(name));
            let input = input.map(|input| {
                let input = as_declared(input, known);
                self.agreed(input, known, TypeSource::Given, what)
            });
            self.keep(name, input)?;
        }
        for (number, op) in block.ops.iter().enumerate() {
            if self.work.apply(op).is_none() {
                self.found.complete = false;
                break;
            }
            self.scopes.reach(number, op)?;
            self.operator(op, &declared)?;
        }
        let outputs = block.outputs.iter().map(|name| {
            let seen = self.scopes.see(name).cloned().flatten();
            seen.map_or_else(ValueInfo::default, Arc::unwrap_or_clone)
        });
        Ok(outputs.collect())
    }

    fn operator(
        &mut self,
        op: &'p Op,
        declared: &HashMap<&'p str, &'p ValueType>,
    ) -> Result<(), Finding> {
        let outputs = match self.outputs(op) {
            Ok(outputs) => outputs,
            Err(wrong) => {
                let place = self.scopes.innermost()?.op_place();
                self.add_finding(wrong.at(place));
                Vec::new()
            }
        };
        let scope = self.scopes.innermost()?;
        let (number, _) = scope.at.ok_or_else(|| Finding::internal("no operator is reached"))?;
        let block = Arc::clone(&scope.place);
        let mut outputs = outputs.into_iter();
        for name in op.output("") {
            let mut info = outputs.next().unwrap_or_default();
            if name.is_empty() {
                continue;
            }
            let known = declared.get(name.as_str()).copied();
            let place = || format!("{}, output {}", place_of(&block, number, op), quoted(name));
            info = self.agreed(info, known, TypeSource::Inferred, place);
            self.name_unknown(&mut info);
            self.keep(name, Some(info))?;
        }
        Ok(())
    }

    /// Infers the outputs of an operator.
    fn outputs(&mut self, op: &'p Op) -> Result<Vec<ValueInfo>, Finding> {
        // Inputs that are not defined (yet) are unknown.
        let inputs: Vec<Option<Arc<ValueInfo>>> = op
            .input("")
            .iter()
            .map(|name| match name.as_str() {
                "" => None,
                name => self.scopes.see(name).cloned().unwrap_or_else(|| Some(Arc::default())),
            })
            .collect();
        if let Some(function) = self.scopes.function_of(op) {
            let inputs = inputs.iter().map(|input| input.as_deref().cloned()).collect();
            return self.block(function.block, inputs, |scopes| scopes.call(op, function));
        }
        let scope = self.scopes.innermost()?;
        let opset = scope.version(&op.domain);
        let bindings = Arc::clone(&scope.bindings);
        let inputs: Vec<_> = match self.is_dead {
            // What a dead branch computes contradicts the shapes for which it is dead.
            true => {
                inputs.iter().map(|input| input.as_deref().map(type_only).map(Arc::new)).collect()
            }
            false => inputs,
        };
        let inputs: Vec<_> = inputs.iter().map(Option::as_deref).collect();
        apply(op, opset, &inputs, &bindings, self)
    }

    fn constant(&mut self, name: &'p str, tensor: &'p Tensor) -> Result<(), Finding> {
        self.keep(name, Some(ValueInfo::of(tensor)))
    }

    /// Binds a name in the innermost block.
    fn keep(&mut self, name: &'p str, mut info: Option<ValueInfo>) -> Result<(), Finding> {
        if let Some(info) = &mut info {
            let is_too_much = rank(info) > MAX_RANK;
            if is_too_much || self.work.keep(cells(info)).is_none() {
                self.found.complete = false;
                info.contents = None;
                info.value.tensors_mut().into_iter().for_each(|tensor| tensor.shape = None);
            }
        }
        self.scopes.keep(name, info.map(Arc::new)).map(|_| ())
    }

    /// Merges an inferred type with the declared one; adds a finding if they contradict each other.
    fn agreed(
        &mut self,
        info: ValueInfo,
        declared: Option<&ValueType>,
        source: TypeSource,
        place: impl Fn() -> String,
    ) -> ValueInfo {
        let Some(declared) = declared else { return info };
        match merged_types(declared, &info.value) {
            Some(value) => ValueInfo { value, contents: info.contents },
            None => {
                let (expected, found) = (show_type(declared), show_type(&info.value));
                let code =
                    match merged_types(&without_shapes(declared), &without_shapes(&info.value)) {
                        Some(_) if source != TypeSource::Constant => Code::Inconsistent,
                        None if source == TypeSource::Inferred => Code::Declared,
                        _ => Code::Rule,
                    };
                let what = format!("declared as {expected}, {} as {found}", source.word());
                self.add_finding(Finding::new(code, what).at(place()));
                info
            }
        }
    }

    fn add_finding(&mut self, located: Located) {
        if self.graph_only && self.scopes.depth() > 1 {
            return;
        }
        // A block that is inferred several times repeats its findings.
        let key = (located.place.clone(), located.finding.message.clone());
        if self.reported.contains(&key) {
            return;
        }
        if self.found.findings.more + self.found.findings.more_inconsistent == 0 {
            self.reported.insert(key);
        }
        self.found.findings.push(located);
    }

    fn name_unknown(&mut self, info: &mut ValueInfo) {
        let Some(fresh) = &mut self.fresh else { return };
        let tensors = info.value.tensors_mut().into_iter();
        let shapes = tensors.filter_map(|tensor| tensor.shape.as_mut());
        for dim in shapes.flatten().filter(|dim| **dim == Dim::Unknown) {
            *dim = Dim::Symbol(fresh.symbol());
        }
    }

    /// Records the values of a block.
    fn record(&mut self, scope: Scope<'p, Binding>) {
        let Some(known) = self.found.blocks.get_mut(scope.number) else {
            return self.add_finding(
                Finding::internal("a block does not belong to the program").at(&*scope.place),
            );
        };
        // Of several times, only what all have in common is kept.
        if !known.is_empty() {
            let cells = scope.names.values().flatten().map(|info| cells(info));
            self.work.release(cells.fold(0, usize::saturating_add));
        }
        for (name, info) in scope.names {
            let Some(info) = info else { continue };
            match known.get_mut(name) {
                None => {
                    known.insert(name.to_owned(), Arc::unwrap_or_clone(info));
                }
                Some(before) => {
                    let same = before.contents == info.contents;
                    before.value = common_type(&before.value, &info.value).unwrap_or_default();
                    before.contents = before.contents.take().filter(|_| same);
                }
            }
        }
    }
}

impl Bodies for Walk<'_> {
    fn body(&mut self, block: i32, inputs: Vec<ValueInfo>) -> Result<Vec<ValueInfo>, Finding> {
        let Some(contents) = block_of(self.program, block) else {
            return Err(format!("expected a block {block}, found none").into());
        };
        let formal = formal_inputs(contents, inputs.len());
        if formal.len() != inputs.len() {
            let (expected, found) = (formal.len(), inputs.len());
            return Err(format!("expected {expected} values for its graph, found {found}").into());
        }
        self.block(block, inputs.into_iter().map(Some).collect(), |scopes| scopes.body(block))
    }

    fn dead(&mut self, block: i32) -> Result<(), Finding> {
        if self.dead_branches {
            let is_dead = std::mem::replace(&mut self.is_dead, true);
            let outputs = self.body(block, Vec::new());
            self.is_dead = is_dead;
            outputs?;
        }
        Ok(())
    }
}

/// A value without its shape and elements.
fn type_only(info: &ValueInfo) -> ValueInfo {
    without_shapes(&info.value).into()
}

/// Returns the number of dims of a value.
fn rank(info: &ValueInfo) -> usize {
    let tensors = info.value.tensors();
    tensors.into_iter().filter_map(|tensor| tensor.shape.as_ref()).map(Vec::len).sum()
}

/// Returns the number of dims and elements of a value.
fn cells(info: &ValueInfo) -> usize {
    rank(info).saturating_add(info.contents.iter().map(|contents| contents.len()).sum())
}

/// Converts a scalar to a vector of one element, as many exporters declare trip counts and conditions of loops.
fn as_declared(mut input: ValueInfo, declared: Option<&ValueType>) -> ValueInfo {
    let declared = declared.and_then(|value| value.tensor_type()?.shape.as_deref());
    if declared == Some(&[Dim::Known(1)])
        && let Some(TensorType { shape: Some(shape), .. }) = input.value.tensor_type_mut()
        && shape.is_empty()
    {
        shape.push(Dim::Known(1));
    }
    input
}

/// Returns the types that a block declares, by name.
fn declared(block: &Block) -> HashMap<&str, &ValueType> {
    block.vars.iter().map(|var| (var.name.as_str(), &var.value)).collect()
}

/// The source of a type that is compared with the declared one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TypeSource {
    Constant,
    Given,
    Inferred,
}

impl TypeSource {
    fn word(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Given => "given",
            Self::Inferred => "inferred",
        }
    }
}

/// A type without the shapes of its tensors.
fn without_shapes(value: &ValueType) -> ValueType {
    let mut value = value.clone();
    value.tensors_mut().into_iter().for_each(|tensor| tensor.shape = None);
    value
}

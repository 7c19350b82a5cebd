//! The walk over the operators of the nets.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use lodstone_model::{AttributeValue, Block, DType, Kind, Model, Op, Programs, TensorType};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::quoted;
use lodstone_schema::{Finding, Findings, caffe2};

use super::inputs::{dims_by_use, dtype_by_use};
use super::node::{Blob, Node, Outcome, Rule};
use super::signed::{SHIFT, signed};
use super::{RULES, missing};
use crate::frame::{At, Dialect, Frame, Scope, Step};
use crate::onnx::Value;
use crate::onnx::quantization::Grid;

/// Where the operators of the net that runs first are.
const STARTUP: &str = "the startup net";

/// Nets that are being translated.
pub(super) type Walk<'m> = Frame<'m, Nets<'m>>;

/// What only nets have.
#[derive(Default)]
pub(super) struct Nets<'m> {
    /// The names of the inputs and of the parameters, which no result may have.
    given: HashSet<&'m str>,
    /// The operators of the startup net that are no constants.
    computed: Vec<(At, &'m Op)>,
    /// The operators that write a blob last.
    last: HashMap<&'m str, (&'static str, usize)>,
}

impl<'m> Dialect<'m> for Nets<'m> {
    type Item = Blob;

    type Rule = Rule;

    const PROGRAM: &'static str = "the net";

    const IS_OPEN: bool = true;

    fn value(blob: &Blob) -> Option<&Value> {
        Some(&blob.value)
    }

    fn rule(op: &Op) -> Outcome<Rule> {
        RULES.get(&op.kind).ok_or_else(|| missing(&op.kind))
    }

    fn bind_results(
        walk: &mut Walk<'m>,
        at: At,
        op: &'m Op,
        results: Vec<Value>,
        scope: &mut Scope<Blob>,
    ) -> Step {
        let results: Vec<Blob> = results.into_iter().map(Blob::from).collect();
        walk.bind(at, op, &results, scope)
    }

    fn apply(walk: &mut Walk<'m>, rule: Rule, at: At, op: &'m Op, scope: &mut Scope<Blob>) -> Step {
        let mut inputs = Vec::new();
        for (place, name) in op.input("").iter().enumerate() {
            let blob = scope.find(name).map_err(|halt| halt.about_input(place))?;
            let absent = || format!("value {} does not exist", quoted(name));
            let blob = blob.ok_or_else(|| Finding::from(absent()).about_input(place))?;
            inputs.push(blob.clone());
        }
        caffe2::check_arguments(op)?;
        let all = |results: Vec<Value>| results.into_iter().map(Blob::from).collect();
        let results: Vec<Blob> = match rule {
            Rule::One(rule) => vec![rule(&mut walk.node(op, inputs))?.into()],
            Rule::Many(rule) => all(rule(&mut walk.node(op, inputs))?),
            Rule::Quantized(rule) => vec![rule(&mut walk.node(op, inputs))?],
            Rule::Control(rule) => all(rule(walk, op, &inputs, scope)?),
        };
        walk.bind(at, op, &results, scope)
    }
}

impl<'m> Walk<'m> {
    /// Starts to translate the nets of a model.
    ///
    /// # Errors
    /// If there is no net, or it has no outputs.
    pub(super) fn of(model: &'m Model, covers: bool) -> Result<Self, Findings> {
        let mut walk = Self::begin(model, Nets::default(), covers)?;
        if walk.main_block().outputs.is_empty() {
            walk.findings.add("the net", "expected `external_output`, found none");
            return Err(walk.findings);
        }
        let startup = model.programs.get(Programs::STARTUP);
        let startup = startup.and_then(|startup| startup.blocks.first());
        startup.into_iter().for_each(|startup| walk.reserve(startup));
        let names = model.parameters.iter().map(|parameter| parameter.name.as_str());
        names.for_each(|name| walk.graph.names.take(name));
        walk.constants(startup);
        walk.fed();
        Ok(walk)
    }

    /// Returns an operator for its rule.
    pub(super) fn node<'n>(&'n mut self, op: &'n Op, inputs: Vec<Blob>) -> Node<'n>
    where
        'm: 'n,
    {
        Node { graph: &mut self.graph, op, inputs, parameters: &self.parameters }
    }

    /// Binds the parameters, and finds the operators of the startup net that compute other blobs.
    fn constants(&mut self, startup: Option<&'m Block>) {
        let main = self.main_block();
        let ops = startup.map_or(&[][..], |startup| startup.ops.as_slice());
        let fills: HashMap<&str, &Op> =
            ops.iter().flat_map(|op| op.writes().map(move |name| (name, op))).collect();
        let fed: HashSet<&str> =
            main.vars.iter().filter(|it| !it.persistable).map(|it| it.name.as_str()).collect();
        let unfed = self.model.parameters.iter().filter(|it| !fed.contains(it.name.as_str()));
        let mut kept = HashSet::new();
        for parameter in unfed {
            let (name, tensor) = (parameter.name.as_str(), &parameter.tensor);
            let fill = fills.get(name);
            if !matches!(tensor.kind, Kind::Dense) || fill.is_some_and(|op| op.reads().count() > 0)
            {
                continue;
            }
            kept.insert(name);
            let is_unsigned = fill.is_some_and(|fill| fill.kind == "Int8GivenTensorFill")
                && tensor.dtype == DType::Uint8;
            let tensor = match is_unsigned {
                true => Cow::Owned(signed(tensor)),
                false => Cow::Borrowed(tensor),
            };
            match grid_of(fill.copied(), tensor.dtype) {
                Ok(grid) => {
                    let value = Value::new(name, ValueInfo::of(&tensor));
                    self.dialect.given.insert(name);
                    self.parameters.insert(name, tensor);
                    self.scope.bind(name, Blob { value, grid });
                }
                Err(finding) => self.scope.refuse(name, finding),
            }
        }
        // A blob that is fed needs no fill.
        let is_done = |op: &Op| {
            op.reads().count() == 0
                && op.writes().all(|name| kept.contains(name) || fed.contains(name))
        };
        let computed = ops.iter().enumerate().filter(|(_, op)| !is_done(op));
        let computed = computed.map(|(number, op)| (At { part: STARTUP, block: 0, number }, op));
        self.dialect.computed = computed.collect();
        let steps = [self.dialect.computed.clone(), self.steps(0)].concat();
        let writes =
            |(at, op): (At, &'m Op)| op.writes().map(move |name| (name, (at.part, at.number)));
        self.dialect.last = steps.into_iter().flat_map(writes).collect();
    }

    /// Binds the inputs.
    fn fed(&mut self) {
        let main = self.main_block();
        let outputs = main.outputs.iter().map(String::as_str);
        let read: HashSet<&str> = main.ops.iter().flat_map(Op::reads).chain(outputs).collect();
        for var in main.vars.iter().filter(|var| !var.persistable) {
            let name = var.name.as_str();
            let mut tensor = var.value.tensor_type().cloned().unwrap_or_else(TensorType::default);
            if tensor.shape.is_none() {
                let rank_of = |name: &str| self.parameters.get(name).map(|it| it.shape.len());
                tensor.shape = dims_by_use(main, name, rank_of);
            }
            if tensor.shape.is_none() && !read.contains(name) {
                continue;
            }
            if tensor.dtype == DType::Unspecified {
                tensor.dtype = dtype_by_use(&self.program.blocks, name);
            }
            let dtype = tensor.dtype;
            self.dialect.given.insert(name);
            let value = self.input(name, tensor);
            // What is fed has no scale in the net: its integers are its numbers.
            let grid = (dtype == DType::Int8).then_some(Grid { scale: 1.0, zero: 0, dtype });
            self.scope.bind(name, Blob { value, grid });
        }
    }

    /// Translates the nets.
    pub(super) fn nets(&mut self) {
        let steps = [self.dialect.computed.clone(), self.steps(0)].concat();
        self.steps_in_main(steps);
    }

    /// Binds the outputs of an operator to its results.
    fn bind(&mut self, at: At, op: &Op, results: &[Blob], scope: &mut Scope<Blob>) -> Step {
        for (place, name) in op.output("").iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let Some(blob) = results.get(place) else {
                let what = format!("output {place}, {}, is not computed", quoted(name));
                scope.refuse(name, what.into());
                continue;
            };
            let own = match (place, op.name.as_str()) {
                (0, "") => name.as_str(),
                (0, own) => own,
                _ => "",
            };
            let is_last = self.dialect.last.get(name.as_str()) == Some(&(at.part, at.number));
            let is_free = is_last && !self.dialect.given.contains(name.as_str());
            let unique = if is_free { name.clone() } else { self.graph.names.fresh(name) };
            let value = self.named(at, &unique, own, &blob.value)?;
            scope.bind(name, Blob { value, grid: blob.grid });
        }
        Ok(())
    }
}

/// Returns the grid of a constant that a quantized fill holds, by default of scale 1 and zero point 0.
fn grid_of(fill: Option<&Op>, dtype: DType) -> Outcome<Option<Grid>> {
    let Some(fill) = fill.filter(|fill| fill.kind.starts_with("Int8Given")) else {
        return Ok(None);
    };
    let scale = match fill.attribute("Y_scale") {
        None => 1.0,
        Some(AttributeValue::Float(scale)) => *scale,
        Some(_) => return Err("expected a float as `Y_scale`".into()),
    };
    let zero = match fill.attribute("Y_zero_point") {
        None => 0,
        Some(AttributeValue::Long(zero)) => *zero,
        Some(_) => return Err("expected an integer as `Y_zero_point`".into()),
    };
    let shift = if dtype == DType::Int8 { SHIFT } else { 0 };
    Grid::new(scale, zero.saturating_sub(shift.into()), dtype).map(Some)
}

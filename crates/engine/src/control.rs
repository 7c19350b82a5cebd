//! Operators that run subgraphs: `If`, `Loop`, `Scan`, `SequenceMap` and `FlexAttention`.
//!
//! A subgraph becomes a program of its own. Its inputs are those of the subgraph, followed by the outer values that it
//! reads; outer constants become constants of the program. It is planned for the types of its inputs when it runs, as the
//! main graph is ([`Routine`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use lodstone_model::{AttributeValue, Block, DType, Dim, Model, Op, Parameter, Program, ValueType};
use lodstone_schema::numbers::known;
use lodstone_schema::onnx::infer::{self, Inference, ValueInfo, infer};
use lodstone_schema::onnx::scopes::Scopes;
use lodstone_schema::onnx::{formal_inputs, subprogram};
use lodstone_schema::{Code, Finding};

use crate::budget::Charge;
use crate::context::Context;
use crate::dims::{axis, count};
use crate::error::{Outcome, Result};
use crate::fast::PackCache;
use crate::kernels::flexible;
use crate::plan::{Mode, Plan, Registers};
use crate::tensor::Dense;
use crate::value::{STRING, Strings, VALUE, Value};

/// The maximum number of plans that a program keeps, one for each combination of input types.
const MAX_PLANS: usize = 16;

/// A program that is planned for the types of its inputs when it runs.
///
/// The plans of the most recent types are cached; the cache does not change results.
pub(crate) struct Routine {
    /// A model with only this program, whose constants are initializers of its main graph.
    model: Model,
    mode: Mode,
    /// The packed constants of all plans.
    packed: PackCache,
    /// The cached plans; the most recently used one is last.
    plans: Mutex<Vec<(Vec<ValueType>, Arc<Plan>)>>,
}

impl Routine {
    pub(crate) fn new(program: Program, mode: Mode) -> Self {
        let mut model = Model::default();
        model.set_main(program);
        Self { model, mode, packed: PackCache::default(), plans: Mutex::default() }
    }

    /// Returns the main graph.
    pub(crate) fn graph(&self) -> Outcome<&Block> {
        let program = self.model.main().and_then(|program| program.blocks.first());
        program.ok_or_else(|| Finding::internal("a program has no graph"))
    }

    /// Computes the outputs.
    pub(crate) fn run(&self, inputs: Vec<Value>, context: Context<'_>) -> Result<Vec<Value>> {
        let types = inputs.iter().map(Value::value_type).collect::<Outcome<Vec<_>>>()?;
        self.plan(types, context)?.run(inputs, context)
    }

    /// Returns the plan for inputs of the given types.
    pub(crate) fn plan(&self, types: Vec<ValueType>, context: Context<'_>) -> Result<Arc<Plan>> {
        let plans = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut plans = plans();
            if let Some(at) = plans.iter().rposition(|(known, _)| *known == types) {
                if at + 1 < plans.len() {
                    release_last(&plans);
                }
                let found = plans.remove(at);
                let plan = Arc::clone(&found.1);
                plans.push(found);
                return Ok(plan);
            }
        }
        let inference = self.infer(&types)?;
        let program = self.model.main();
        let program = program.ok_or_else(|| Finding::internal("there is no program"))?;
        let plan = Plan::with_packed(program, &inference.blocks, self.mode, &self.packed, context)?;
        let plan = Arc::new(plan);
        let mut plans = plans();
        release_last(&plans);
        if plans.len() >= MAX_PLANS {
            plans.remove(0);
        }
        plans.push((types, Arc::clone(&plan)));
        Ok(plan)
    }

    /// Infers the types of all values for inputs of the given types.
    fn infer(&self, types: &[ValueType]) -> Result<Inference> {
        let names = self.graph()?.inputs.iter().cloned();
        let inputs = names.zip(types.iter().cloned().map(ValueInfo::from)).collect();
        // Subgraphs are inferred again when they run, with the types that they then have.
        let options = infer::Options::default().with_inputs(inputs).with_graph_only(true);
        let inference = infer(&self.model, &options);
        // Declared types of results are documentation: operators define the types.
        let breaks = |found: &&lodstone_schema::Located| {
            !matches!(found.finding.code, Code::Inconsistent | Code::Declared)
        };
        match inference.findings.located.iter().find(breaks) {
            Some(found) => Err(found.clone().into()),
            None => Ok(inference),
        }
    }

    /// Returns the types of the outputs, as far as they are known before a run.
    fn output_types(&self, types: &[ValueType]) -> Result<Vec<ValueInfo>> {
        let inference = self.infer(types)?;
        let known = inference.blocks.first();
        let info = |name: &String| known.and_then(|known| known.get(name)).cloned();
        Ok(self.graph()?.outputs.iter().map(|name| info(name).unwrap_or_default()).collect())
    }
}

/// Frees the memory that the most recently used plan keeps: one plan at a time keeps some.
fn release_last(plans: &[(Vec<ValueType>, Arc<Plan>)]) {
    if let Some((_, plan)) = plans.last() {
        plan.release();
    }
}

/// The subgraphs of an operator, ready to run.
pub(crate) struct Control {
    kind: Kind,
    /// `then_branch` and `else_branch`, or `body`, or those of `score_mod` and `prob_mod` that are there.
    bodies: Vec<Body>,
}

/// The operators that run subgraphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    FlexAttention,
    If,
    Loop,
    Scan,
    SequenceMap,
}

/// A subgraph.
struct Body {
    routine: Routine,
    /// The number of inputs, without the outer values that it reads.
    formal: usize,
    /// The indices of the outer values that it reads, among all outer values that the operator's subgraphs read.
    captured: Vec<usize>,
}

impl Control {
    /// Returns how an operator uses its subgraphs, or `None` if it has none.
    pub(crate) fn kind(domain: &str, kind: &str) -> Option<Kind> {
        match kind {
            "FlexAttention" if domain == "ai.onnx.preview" => Some(Kind::FlexAttention),
            _ if !matches!(domain, "" | "ai.onnx") => None,
            "If" => Some(Kind::If),
            "Loop" => Some(Kind::Loop),
            "Scan" => Some(Kind::Scan),
            "SequenceMap" => Some(Kind::SequenceMap),
            _ => None,
        }
    }

    /// Collects the subgraphs of the operator that a walk has reached, and the registers that they read.
    pub(crate) fn new<'p>(
        kind: Kind,
        op: &'p Op,
        scopes: &mut Scopes<'p, usize>,
        constants: &Registers,
        mode: Mode,
    ) -> Outcome<(Self, Vec<usize>)> {
        let names: &[&str] = match kind {
            Kind::If => &["then_branch", "else_branch"],
            Kind::Loop | Kind::Scan | Kind::SequenceMap => &["body"],
            Kind::FlexAttention => &["score_mod", "prob_mod"],
        };
        let (mut bodies, mut registers) = (Vec::new(), Vec::new());
        for name in names {
            let Some(AttributeValue::Block(number)) = op.attribute(name) else {
                if kind == Kind::FlexAttention {
                    continue;
                }
                return Err(format!("expected a graph in `{name}`, found none").into());
            };
            bodies.push(Body::new(*number, scopes, constants, &mut registers, mode)?);
        }
        Ok((Self { kind, bodies }, registers))
    }

    /// Runs an operator. `around` holds the outer values that its subgraphs read.
    pub(crate) fn run(
        &self,
        op: &Op,
        inputs: Vec<Option<Value>>,
        around: &[Value],
        context: Context<'_>,
    ) -> Result<Vec<Value>> {
        match self.kind {
            Kind::FlexAttention => self.attend(op, &inputs, around, context),
            Kind::If => self.branch(&inputs, around, context),
            Kind::Loop => self.repeat(op, inputs, around, context),
            Kind::Scan => self.scan(op, inputs, around, context),
            Kind::SequenceMap => self.map(op, &inputs, around, context),
        }
    }

    fn body(&self, at: usize) -> Outcome<&Body> {
        self.bodies.get(at).ok_or_else(|| Finding::internal("a subgraph is missing"))
    }

    /// Runs `FlexAttention`: its subgraphs change the scores, and their softmax.
    fn attend(
        &self,
        op: &Op,
        inputs: &[Option<Value>],
        around: &[Value],
        context: Context<'_>,
    ) -> Result<Vec<Value>> {
        let mut bodies = self.bodies.iter();
        let mut modified = |name: &str, value: Value| -> Result<Value> {
            if op.attribute(name).is_none() {
                return Ok(value);
            }
            let body = bodies.next().ok_or_else(|| Finding::internal("a subgraph is missing"))?;
            let mut made = body.run(vec![value], around, context)?;
            expect(made.len(), 1)?;
            Ok(made.remove(0))
        };
        let query = inputs.first().and_then(Option::as_ref);
        let query = query.ok_or_else(|| Finding::from("an input is missing").about_input(0))?;
        let scores = flexible::workspace(inputs)?.saturating_add(query.nbytes());
        let _scores = context.budget.reserve(scores)?;
        let scores = context.threads.run(|| flexible::scores(op, inputs))??;
        let scores = modified("score_mod", scores)?;
        let shares = context.threads.run(|| flexible::shares(&scores))??;
        let shares = modified("prob_mod", shares)?;
        Ok(vec![context.threads.run(|| flexible::weighted(inputs, &shares))??])
    }

    fn branch(
        &self,
        inputs: &[Option<Value>],
        around: &[Value],
        context: Context<'_>,
    ) -> Result<Vec<Value>> {
        let condition = inputs.first().and_then(Option::as_ref);
        let condition = truth(condition.ok_or_else(|| Finding::from("the condition is missing"))?)?;
        self.body(usize::from(!condition))?.run(Vec::new(), around, context)
    }

    /// Runs `Loop`. Inputs are the trip count and the condition, then the loop-carried values; outputs are these values,
    /// then the stacked results of each iteration.
    fn repeat(
        &self,
        op: &Op,
        inputs: Vec<Option<Value>>,
        around: &[Value],
        context: Context<'_>,
    ) -> Result<Vec<Value>> {
        let body = self.body(0)?;
        let mut inputs = inputs.into_iter();
        let trips = inputs.next().flatten().map(|value| integer(&value)).transpose()?;
        let condition = inputs.next().flatten().map(|value| truth(&value)).transpose()?;
        let mut state = present(inputs)?;
        let count = state.len();
        let scans = op.output("").len().saturating_sub(count);
        let mut stacks = Stacks::new(scans, context);
        let mut goes_on = condition.unwrap_or(true);
        let mut trip = 0;
        while goes_on && trips.is_none_or(|trips| trip < trips) {
            let number = Dense::new(DType::Int64, body.scalar(0)?, bytes_of(trip))?;
            let truth_in = Dense::new(DType::Bool, body.scalar(1)?, Bytes::from_static(&[1]))?;
            let mut given = vec![number.into(), truth_in.into()];
            given.append(&mut state);
            state = body.turn(given, 1 + count, &mut stacks, around, context)?;
            let next = state.remove(0);
            // Without a condition input, the condition that the body returns has no meaning.
            goes_on = condition.is_none() || truth(&next)?;
            trip += 1;
        }
        let mut outputs = state;
        if trip == 0 && scans > 0 {
            let scalar = |dtype, at| {
                let dims: Vec<Dim> =
                    body.scalar(at)?.iter().map(|dim| Dim::Known(*dim as u64)).collect();
                Ok::<_, Finding>(ValueInfo::tensor(dtype, Some(dims)).value)
            };
            let mut types = vec![scalar(DType::Int64, 0)?, scalar(DType::Bool, 1)?];
            for value in &outputs {
                types.push(value.value_type()?);
            }
            let returned = body.output_types(types, around)?;
            outputs.extend(empty_stacks(returned.iter().skip(1 + count), |_| Ok(0))?);
            return Ok(outputs);
        }
        outputs.extend(stacks.finish(|_| Ok((0, false)))?);
        Ok(outputs)
    }

    /// Runs `Scan`. Inputs are the state values, then the tensors that are scanned along an axis; outputs are the state
    /// values, then the stacked results of each step.
    fn scan(
        &self,
        op: &Op,
        inputs: Vec<Option<Value>>,
        around: &[Value],
        context: Context<'_>,
    ) -> Result<Vec<Value>> {
        let body = self.body(0)?;
        let all = present(inputs.into_iter())?;
        let taken = match op.attribute("num_scan_inputs") {
            Some(AttributeValue::Long(count @ 1..)) => usize::try_from(*count).ok(),
            _ => None,
        };
        let count = taken.and_then(|taken| all.len().checked_sub(taken));
        let wrong = || format!("expected `num_scan_inputs` from 1 to {}", all.len());
        let count = count.ok_or_else(|| Finding::from(wrong()))?;
        let mut state = all;
        let scanned = state.split_off(count);
        let mut parts = Vec::new();
        for (at, value) in scanned.iter().enumerate() {
            let dense = value.dense()?;
            let axis = axis(long_at(op, "scan_input_axes", at)?, dense.dims().len())?;
            parts.push((dense, axis, long_at(op, "scan_input_directions", at)? != 0));
        }
        let length = |(dense, axis, _): &(&Dense, usize, bool)| dense.dims().get(*axis).copied();
        let steps = parts.first().and_then(length);
        let steps = steps.ok_or_else(|| Finding::internal("a scan has no inputs"))?;
        if parts.iter().any(|part| length(part) != Some(steps)) {
            return Err(Finding::from("scan inputs have different lengths along their axes").into());
        }
        let scans = op.output("").len().saturating_sub(count);
        let mut stacks = Stacks::new(scans, context);
        let along = |at| long_at(op, "scan_output_axes", at);
        for step in 0..steps {
            let mut given = std::mem::take(&mut state);
            for (dense, axis, is_reversed) in &parts {
                let at = if *is_reversed { steps - 1 - step } else { step };
                given.push(dense.index(*axis, at)?.into());
            }
            state = body.turn(given, count, &mut stacks, around, context)?;
        }
        let mut outputs = state;
        if steps == 0 && scans > 0 {
            let mut types = outputs.iter().map(Value::value_type).collect::<Outcome<Vec<_>>>()?;
            for (dense, axis, _) in &parts {
                let mut dims = dense.dims().to_vec();
                dims.remove(*axis);
                let dims = dims.iter().map(|dim| Dim::Known(*dim as u64)).collect();
                types.push(ValueInfo::tensor(dense.dtype(), Some(dims)).value);
            }
            let returned = body.output_types(types, around)?;
            outputs.extend(empty_stacks(returned.iter().skip(count), along)?);
            return Ok(outputs);
        }
        outputs.extend(
            stacks
                .finish(|at| Ok((along(at)?, long_at(op, "scan_output_directions", at)? != 0)))?,
        );
        Ok(outputs)
    }

    /// Runs `SequenceMap`: the subgraph once for each value of the first sequence, with the values of other sequences at
    /// the same index; inputs that are not sequences are the same each time.
    fn map(
        &self,
        op: &Op,
        inputs: &[Option<Value>],
        around: &[Value],
        context: Context<'_>,
    ) -> Result<Vec<Value>> {
        let inputs = present(inputs.iter().cloned())?;
        let Some(Value::Sequence(first)) = inputs.first() else {
            return Err(Finding::from("expected a sequence, found none").about_input(0).into());
        };
        let count = op.output("").len();
        let lists = (first.len() as u64).saturating_mul(VALUE).saturating_mul(count as u64);
        let mut handles = context.budget.reserve(lists)?;
        let mut outputs = vec![Vec::with_capacity(first.len()); count];
        for at in 0..first.len() {
            context.step()?;
            let given = inputs.iter().map(|input| match input {
                Value::Sequence(values) => values.get(at).cloned().ok_or_else(|| {
                    Finding::from(format!("a sequence of {} values is too short", values.len()))
                }),
                other => Ok(other.clone()),
            });
            let made = self.body(0)?.run(given.collect::<Outcome<_>>()?, around, context)?;
            expect(made.len(), outputs.len())?;
            for (all, one) in outputs.iter_mut().zip(made) {
                context.budget.extend(&mut handles, one.handles())?;
                all.push(one);
            }
        }
        Ok(outputs.into_iter().map(Value::Sequence).collect())
    }
}

impl Body {
    /// Creates a subgraph of the operator that a walk has reached, and adds the registers that it reads to the operator's.
    fn new<'p>(
        number: i32,
        scopes: &mut Scopes<'p, usize>,
        constants: &Registers,
        registers: &mut Vec<usize>,
        mode: Mode,
    ) -> Outcome<Self> {
        let depth = scopes.depth();
        let mut read = BTreeMap::new();
        scopes.body(number)?;
        let block = scopes.innermost()?.block;
        captures(scopes, depth, &mut read)?;
        let formal: Vec<String> = formal_inputs(block, usize::MAX).into_iter().cloned().collect();
        let mut program = subprogram(scopes.program(), number);
        let main = program.blocks.first_mut();
        let main = main.ok_or_else(|| Finding::internal("a subgraph has no block"))?;
        main.inputs.clone_from(&formal);
        let mut captured = Vec::new();
        for (name, register) in read {
            if let Some(constant) = constants.get(register).and_then(Option::as_ref)
                && let Ok(tensor) = constant.tensor()
            {
                main.initializers.push(Parameter { name: name.to_owned(), tensor });
                continue;
            }
            main.inputs.push(name.to_owned());
            let known = registers.iter().position(|known| *known == register);
            captured.push(known.unwrap_or(registers.len()));
            if known.is_none() {
                registers.push(register);
            }
        }
        let routine = Routine::new(program.into(), mode);
        Ok(Self { routine, formal: formal.len(), captured })
    }

    fn run(
        &self,
        mut inputs: Vec<Value>,
        around: &[Value],
        context: Context<'_>,
    ) -> Result<Vec<Value>> {
        if inputs.len() != self.formal {
            let (expected, found) = (self.formal, inputs.len());
            let wrong = format!("expected {expected} values for its graph, found {found}");
            return Err(Finding::from(wrong).into());
        }
        inputs.extend(self.around(around)?);
        let handles = inputs.iter().map(Value::handles).fold(0, u64::saturating_add);
        let _handles = context.budget.reserve(handles)?;
        self.routine.run(inputs, context)
    }

    /// Runs the body of a loop once. Returns its first `count` values, and adds the others to the stacks.
    fn turn(
        &self,
        given: Vec<Value>,
        count: usize,
        stacks: &mut Stacks<'_>,
        around: &[Value],
        context: Context<'_>,
    ) -> Result<Vec<Value>> {
        context.step()?;
        let mut made = self.run(given, around, context)?.into_iter();
        let state: Vec<Value> = made.by_ref().take(count).collect();
        expect(state.len(), count)?;
        let handles = state.iter().map(Value::handles).fold(0, u64::saturating_add);
        stacks.state = context.budget.charge(handles);
        stacks.push(made)?;
        Ok(state)
    }

    /// Returns the outer values that this subgraph reads.
    fn around(&self, around: &[Value]) -> Outcome<Vec<Value>> {
        let value = |at: &usize| around.get(*at).cloned();
        let values = self.captured.iter().map(value).collect::<Option<Vec<_>>>();
        values.ok_or_else(|| Finding::internal("a value around a subgraph is missing"))
    }

    /// Returns the types of the outputs.
    fn output_types(&self, mut types: Vec<ValueType>, around: &[Value]) -> Result<Vec<ValueInfo>> {
        for value in self.around(around)? {
            types.push(value.value_type()?);
        }
        self.routine.output_types(&types)
    }

    /// Returns the dims of the iteration number or condition: a scalar, or `[1]` where the subgraph declares that.
    fn scalar(&self, input: usize) -> Outcome<Vec<usize>> {
        let graph = self.routine.graph()?;
        let declared = graph.inputs.get(input);
        let declared = declared.and_then(|name| graph.vars.iter().find(|var| var.name == *name));
        let shape = declared.and_then(|var| var.value.tensor_type()?.shape.as_ref());
        Ok(if shape.is_some_and(|shape| !shape.is_empty()) { vec![1] } else { Vec::new() })
    }
}

/// Leaves the block that was entered, and returns the outer values that it and its subgraphs read, with their registers.
fn captures<'p>(
    scopes: &mut Scopes<'p, usize>,
    outside: usize,
    read: &mut BTreeMap<&'p str, usize>,
) -> Outcome<()> {
    let block = scopes.innermost()?.block;
    let own = block.inputs.iter().chain(block.initializers.iter().map(|constant| &constant.name));
    for name in own {
        scopes.keep(name, 0)?;
    }
    for (number, op) in block.ops.iter().enumerate() {
        scopes.reach(number, op)?;
        op.reads().for_each(|name| note(scopes, outside, read, name));
        for body in op.blocks() {
            scopes.body(body)?;
            captures(scopes, outside, read)?;
        }
        for name in op.writes() {
            scopes.keep(name, 0)?;
        }
    }
    block.outputs.iter().for_each(|name| note(scopes, outside, read, name));
    scopes.leave().map(|_| ())
}

/// Records a name that is read, if it refers to an outer value.
fn note<'p>(
    scopes: &Scopes<'p, usize>,
    outside: usize,
    read: &mut BTreeMap<&'p str, usize>,
    name: &'p str,
) {
    if let Some((depth, register)) = scopes.find(name)
        && depth < outside
    {
        read.insert(name, *register);
    }
}

/// The results of loop iterations, until they are stacked.
struct Stacks<'a> {
    values: Vec<Vec<Value>>,
    charge: Charge,
    /// The charge for handles of values in the state of the loop.
    state: Charge,
    context: Context<'a>,
}

impl<'a> Stacks<'a> {
    fn new(count: usize, context: Context<'a>) -> Self {
        let [charge, state] = [0; 2].map(|bytes| context.budget.charge(bytes));
        Self { values: vec![Vec::new(); count], charge, state, context }
    }

    /// Adds the results of an iteration, within the budget.
    fn push(&mut self, mut made: impl Iterator<Item = Value>) -> Outcome<()> {
        let expected = self.values.len();
        for (at, values) in self.values.iter_mut().enumerate() {
            let Some(value) = made.next() else { return expect(at, expected) };
            // The elements have a charge of their own; the stack needs the same amount again. A list that grows is copied.
            let stacked = match &value {
                Value::Strings(strings) => (strings.elements().len() as u64).saturating_mul(STRING),
                value => value.nbytes(),
            };
            let bytes = stacked.saturating_add(2 * VALUE);
            self.context.budget.extend(&mut self.charge, bytes)?;
            values.push(value);
        }
        Ok(())
    }

    /// Stacks all results, each along its axis, in the order of iterations or in reverse.
    fn finish(self, along: impl Fn(usize) -> Outcome<(i64, bool)>) -> Outcome<Vec<Value>> {
        let stack = |(at, mut values): (usize, Vec<Value>)| {
            let (along, is_reversed) = along(at)?;
            if is_reversed {
                values.reverse();
            }
            stacked(&values, along)
        };
        let Self { values, charge, .. } = self;
        let made = values.into_iter().enumerate().map(stack).collect();
        drop(charge);
        made
    }
}

/// Stacks tensors along a new axis.
fn stacked(values: &[Value], along: i64) -> Outcome<Value> {
    if let Some(Value::Strings(first)) = values.first() {
        let mut elements = Vec::with_capacity(values.len().saturating_mul(first.elements().len()));
        for value in values {
            match value {
                Value::Strings(one) if one.dims() == first.dims() => {
                    elements.extend_from_slice(one.elements());
                }
                other => {
                    return Err(format!(
                        "expected the dims of the first iteration, found {other:?}"
                    )
                    .into());
                }
            }
        }
        let dims = [&[values.len()], first.dims()].concat();
        return Ok(Value::Strings(Strings::new(dims, elements)?));
    }
    let all = values.iter().map(Value::dense).collect::<Outcome<Vec<_>>>()?;
    let first = all.first().ok_or_else(|| Finding::internal("there is nothing to stack"))?;
    Ok(Dense::stacked(&all, axis(along, first.dims().len() + 1)?)?.into())
}

/// Returns the stacks of a loop without iterations, each along its axis: empty, with the inferred dims, or 0 for unknown
/// ones.
fn empty_stacks<'i>(
    returned: impl Iterator<Item = &'i ValueInfo>,
    along: impl Fn(usize) -> Outcome<i64>,
) -> Outcome<Vec<Value>> {
    let empty = |(at, info): (usize, &ValueInfo)| {
        let size = |dim: &Dim| known(dim)?.map_or(Ok(0), count);
        let dims = info.shape().unwrap_or_default().iter().map(size);
        let mut dims: Vec<usize> = dims.collect::<Outcome<_>>()?;
        dims.insert(axis(along(at)?, dims.len() + 1)?, 0);
        match info.dtype() {
            DType::String => Ok(Value::Strings(Strings::new(dims, Vec::new())?)),
            dtype => Ok(Dense::new(dtype, dims, Bytes::new())?.into()),
        }
    };
    returned.enumerate().map(empty).collect()
}

fn expect(found: usize, expected: usize) -> Outcome<()> {
    match found >= expected {
        true => Ok(()),
        false => Err(format!("expected {expected} values from the graph, found {found}").into()),
    }
}

fn present(values: impl Iterator<Item = Option<Value>>) -> Outcome<Vec<Value>> {
    values.map(|value| value.ok_or_else(|| Finding::from("an input is missing"))).collect()
}

fn bytes_of(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

fn truth(value: &Value) -> Outcome<bool> {
    match value.dense()?.to_truths()?.as_slice() {
        [one] => Ok(*one),
        other => Err(format!("expected one boolean, found {} values", other.len()).into()),
    }
}

fn integer(value: &Value) -> Outcome<i64> {
    match value.dense()?.to_longs()?.as_slice() {
        [one] => Ok(*one),
        other => Err(format!("expected one integer, found {} values", other.len()).into()),
    }
}

/// Returns an element of an integer list attribute, which are all 0 if it is absent.
fn long_at(op: &Op, name: &str, at: usize) -> Outcome<i64> {
    let Some(AttributeValue::Longs(all)) = op.attribute(name) else { return Ok(0) };
    all.get(at).copied().ok_or_else(|| {
        let wrong = format!("expected at least {} elements, found {}", at + 1, all.len());
        Finding::from(wrong).about_attribute(name)
    })
}

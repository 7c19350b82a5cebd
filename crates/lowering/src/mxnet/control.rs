//! Operators that run subgraphs.
//!
//! | operator | subgraphs | inputs of a subgraph |
//! |---|---|---|
//! | `_foreach` | body | slices (`in_data_locs`), states (`in_state_locs`), others (`remain_locs`) |
//! | `_while_loop` | condition, body | by `cond_input_locs` and `func_input_locs`, indices of inputs of the operator |
//! | `_cond` | condition, then, else | by `cond_input_locs`, `then_input_locs` and `else_input_locs` |
//! | `_CachedOp`, `_sg_*` | the operators that are fused | those of the operator |
//!
//! Loops and choices become operators with blocks. Other inputs are values of the graph around a block, which ONNX allows
//! a block to read.

use std::collections::HashSet;

use lodstone_model::{Attribute, AttributeValue, Block, DType, Dim, Op};
use lodstone_schema::Finding;
use lodstone_schema::numbers::{exact, length};
use lodstone_schema::onnx::infer::{ValueInfo, common_type};

use super::attributes::{Attributes, wrong};
use super::families::quantized::{Levels, Quantized};
use super::node::{Node, Outcome, rank};
use super::walk::Walk;
use super::{families, scans};
use crate::onnx::{Value, blocks, int, ints};
use crate::rules::RuleName;

/// The rule of an operator that runs subgraphs. It returns the outputs, or `None` if an operator of a subgraph could
/// not be translated, which has been reported.
pub(super) type ControlRule =
    for<'m> fn(&mut Walk<'m>, &'m Op, Vec<Value>) -> Outcome<Option<Vec<Value>>>;

const RULES: &[(&str, ControlRule)] = &[
    ("_CachedOp", inline),
    ("_CachedOpThreadSafe", inline),
    ("_cond", choose),
    ("_foreach", for_each),
    ("_sg_onednn_conv", fused),
    ("_sg_onednn_fully_connected", fused),
    ("_while_loop", repeat),
];

/// The maximum number of iterations whose results are stacked.
const MAX_ITERATIONS: i64 = 1 << 24;

/// Returns the rule of an operator that runs subgraphs, or becomes one.
pub(super) fn rule(kind: &str) -> Option<ControlRule> {
    let mut all = RULES.iter().chain(scans::RULES);
    all.find(|(known, _)| *known == kind).map(|(_, rule)| *rule)
}

/// Returns the names of the rules.
pub(super) fn names() -> impl Iterator<Item = RuleName> {
    let all = RULES.iter().chain(scans::RULES).map(|(kind, _)| *kind);
    let own = all.filter(|kind| families::rule(kind).is_none());
    own.map(|kind| RuleName { family: "control", kind })
}

/// Returns the indices of the subgraphs of an operator.
fn subgraphs<const N: usize>(walk: &Walk<'_>, op: &Op) -> Outcome<[usize; N]> {
    let found: Vec<usize> = op.blocks().filter_map(|block| usize::try_from(block).ok()).collect();
    let count = found.len();
    let all: [usize; N] =
        found.try_into().map_err(|_| format!("expected {N} subgraphs, found {count}"))?;
    match all.iter().all(|block| *block > 0 && *block < walk.program.blocks.len()) {
        true => Ok(all),
        false => Err("a subgraph does not exist".into()),
    }
}

/// Returns the inputs of a subgraph with values, by their order.
fn bound(walk: &Walk<'_>, block: usize, values: Vec<Value>) -> Outcome<Vec<(String, Value)>> {
    let vars = walk.program.blocks.get(block).map_or(&[][..], |block| &block.vars);
    match vars.len() == values.len() {
        true => Ok(vars.iter().map(|var| var.name.clone()).zip(values).collect()),
        false => {
            Err(format!("a subgraph has {} inputs, but gets {}", vars.len(), values.len()).into())
        }
    }
}

/// Returns the values at indices.
fn picked(values: &[Value], places: &[i64], name: &str) -> Outcome<Vec<Value>> {
    let one = |place: &i64| {
        let value = usize::try_from(*place).ok().and_then(|place| values.get(place));
        let expected =
            || wrong(name, &format!("places of {} inputs", values.len()), &place.to_string());
        value.cloned().ok_or_else(expected)
    };
    places.iter().map(one).collect()
}

/// Returns a count that is an attribute.
fn count(attributes: &Attributes<'_>, name: &str, default: Option<i64>) -> Outcome<usize> {
    let count = attributes.int(name, default)?;
    let few = usize::try_from(count).ok().filter(|count| *count <= 1 << 16);
    few.ok_or_else(|| wrong(name, "a small number", &count.to_string()))
}

/// Fails if an operator has an attribute that is not understood.
pub(super) fn check_read(attributes: &Attributes<'_>) -> Outcome<()> {
    attributes.ignore(&["subgraphs", "num_args"]);
    match attributes.unread() {
        Some(name) => Err(format!("the attribute `{name}` is unknown").into()),
        None => Ok(()),
    }
}

impl<'m> Walk<'m> {
    /// Emits operators into a list of their own.
    pub(super) fn apart<T>(
        &mut self,
        name: &str,
        make: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Outcome<(Vec<Op>, T)> {
        let around = std::mem::take(&mut self.graph.ops);
        self.graph.begin(name);
        let made = make(self);
        let ops = std::mem::replace(&mut self.graph.ops, around);
        self.graph.begin(name);
        Ok((ops, made?))
    }

    /// Adds a block of the result, whose outputs get names of their own; returns its attribute.
    pub(super) fn block(
        &mut self,
        name: &str,
        inputs: &[Value],
        ops: Vec<Op>,
        results: &[Value],
    ) -> Outcome<AttributeValue> {
        let written: HashSet<String> = ops.iter().flat_map(Op::writes).map(str::to_owned).collect();
        let mut seen = HashSet::new();
        let (copies, outputs) = self.apart(name, |walk| {
            let one = |value: &Value| {
                let is_own = written.contains(value.name()) && seen.insert(value.name().to_owned());
                if is_own { Ok(value.clone()) } else { walk.graph.call("Identity", &[value], []) }
            };
            results.iter().map(one).collect::<Outcome<Vec<_>>>()
        })?;
        let names = |values: &[Value]| values.iter().map(|it| it.name().to_owned()).collect();
        self.blocks.push(Block {
            name: self.graph.names.fresh("block"),
            vars: inputs.iter().chain(&outputs).map(blocks::declared).collect(),
            inputs: names(inputs),
            outputs: names(&outputs),
            ops: ops.into_iter().chain(copies).collect(),
            ..Block::default()
        });
        Ok(AttributeValue::Block(exact(self.blocks.len())?))
    }

    /// Creates an input of a block.
    pub(super) fn block_input(&mut self, base: &str, info: ValueInfo) -> Value {
        Value::new(&self.graph.names.fresh(base), info)
    }
}

fn body(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}

/// Returns the type of a value, without its contents.
fn type_of(value: &Value) -> ValueInfo {
    ValueInfo::from(value.value_type().clone())
}

/// Returns the type of a slice along the first dim.
fn slice_of(value: &Value) -> Outcome<ValueInfo> {
    let dims = value.shape()?.get(1..).ok_or("expected data of at least rank 1")?;
    Ok(ValueInfo::tensor(value.dtype(), Some(dims.to_vec())))
}

/// Returns the type of stacked values.
fn stacked(value: &Value, count: Dim) -> Outcome<ValueInfo> {
    let dims = std::iter::once(count).chain(value.shape()?.iter().cloned()).collect();
    Ok(ValueInfo::tensor(value.dtype(), Some(dims)))
}

/// Fails if the next value of a state has another type.
fn check_state(before: &Value, after: &Value) -> Outcome<()> {
    match before.dtype() == after.dtype() && before.rank().ok() == after.rank().ok() {
        true => Ok(()),
        false => Err("a state of a loop changes its type".into()),
    }
}

/// Runs a subgraph for each slice of the data, and passes states on.
fn for_each<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    inputs: Vec<Value>,
) -> Outcome<Option<Vec<Value>>> {
    let [block] = subgraphs(walk, op)?;
    let attributes = Attributes::new(op);
    let slices = attributes.required_ints("in_data_locs")?;
    let states = attributes.ints("in_state_locs")?;
    let others = attributes.ints("remain_locs")?;
    let outputs = count(&attributes, "num_out_data", None)?;
    attributes.ignore(&["num_outputs", "cut_graph"]);
    check_read(&attributes)?;
    let (data, rest) = inputs.split_at_checked(slices.len()).ok_or("an input is missing")?;
    let (first, outer) = rest.split_at_checked(states.len()).ok_or("a state is missing")?;
    if outer.len() != others.len() || data.is_empty() {
        return Err(format!("expected {} other inputs, found {}", others.len(), outer.len()).into());
    }
    let own: Vec<Value> =
        first.iter().map(|value| walk.block_input("state", type_of(value))).collect();
    let mut parts = Vec::new();
    for value in data {
        parts.push(walk.block_input("slice", slice_of(value)?));
    }
    let mut values: Vec<Option<Value>> = vec![None; slices.len() + states.len() + others.len()];
    let places = slices.iter().chain(&states).chain(&others);
    for (place, value) in places.zip(parts.iter().chain(&own).chain(outer)) {
        let slot = usize::try_from(*place).ok().and_then(|place| values.get_mut(place));
        *slot.ok_or("a place of an input does not exist")? = Some(value.clone());
    }
    let values =
        values.into_iter().collect::<Option<Vec<_>>>().ok_or("two inputs have one place")?;
    let values = bound(walk, block, values)?;
    let (ops, results) = walk.apart(&op.name, |walk| walk.subgraph(block, values))?;
    let Some(results) = results else { return Ok(None) };
    let (made, next) = results.split_at_checked(outputs).ok_or("a result is missing")?;
    if next.len() != own.len() {
        return Err(format!("expected {} states, found {}", own.len(), next.len()).into());
    }
    own.iter().zip(next).try_for_each(|(before, after)| check_state(before, after))?;
    let own: Vec<Value> = own.into_iter().chain(parts).collect();
    let returned: Vec<Value> = next.iter().chain(made).cloned().collect();
    let length = data.first().and_then(|data| data.shape().ok()?.first().cloned());
    let length = length.unwrap_or(Dim::Unknown);
    let mut infos: Vec<ValueInfo> = first.iter().map(type_of).collect();
    for value in made {
        infos.push(stacked(value, length.clone())?);
    }
    let given: Vec<&Value> = first.iter().chain(data).collect();
    let mut all = scan(walk, op, (ops, &own, &returned), &given, data.len(), infos, false)?;
    all.rotate_left(first.len());
    Ok(Some(all))
}

/// Emits a `Scan` of a block with operators, inputs and results, whose last `scanned` inputs are slices.
pub(super) fn scan(
    walk: &mut Walk<'_>,
    op: &Op,
    (ops, inputs, results): (Vec<Op>, &[Value], &[Value]),
    given: &[&Value],
    scanned: usize,
    infos: Vec<ValueInfo>,
    is_reverse: bool,
) -> Outcome<Vec<Value>> {
    let block = walk.block(&op.name, inputs, ops, results)?;
    let outputs = results.len().saturating_sub(given.len().saturating_sub(scanned));
    let count = length(scanned);
    let mut attributes = vec![body("body", block), int("num_scan_inputs", count)];
    if is_reverse {
        attributes.push(ints("scan_input_directions", &vec![1; scanned]));
        attributes.push(ints("scan_output_directions", &vec![1; outputs]));
    }
    let given: Vec<Option<&Value>> = given.iter().copied().map(Some).collect();
    Ok(walk.graph.emit_typed("Scan", &given, attributes, infos))
}

/// Returns a condition as a Boolean scalar.
fn truth(walk: &mut Walk<'_>, values: &[Value]) -> Outcome {
    let [value] = values else {
        return Err(format!("expected one condition, found {}", values.len()).into());
    };
    let value = walk.graph.cast(value, DType::Bool)?;
    walk.graph.reshape(&value, &[])
}

/// Runs a subgraph while another one returns true.
fn repeat<'m>(walk: &mut Walk<'m>, op: &'m Op, inputs: Vec<Value>) -> Outcome<Option<Vec<Value>>> {
    let [condition, block] = subgraphs(walk, op)?;
    let attributes = Attributes::new(op);
    let of_condition = attributes.ints("cond_input_locs")?;
    let of_body = attributes.ints("func_input_locs")?;
    let variables = attributes.ints("func_var_locs")?;
    let outputs = count(&attributes, "num_out_data", None)?;
    let most = attributes.int("max_iterations", None)?;
    attributes.ignore(&["num_outputs", "cut_graph"]);
    check_read(&attributes)?;
    if !(0..=MAX_ITERATIONS).contains(&most) {
        return Err(wrong("max_iterations", "a number of iterations", &most.to_string()));
    }
    // The variables of the loop, as inputs of the operator.
    let place = |at: &i64| usize::try_from(*at).ok().and_then(|at| of_body.get(at)).copied();
    let changed = variables.iter().map(place).collect::<Option<Vec<i64>>>();
    let changed = changed.ok_or_else(|| wrong("func_var_locs", "places of inputs", "others"))?;
    let first = picked(&inputs, &changed, "func_var_locs")?;
    let values = bound(walk, condition, picked(&inputs, &of_condition, "cond_input_locs")?)?;
    let Some(begins) = walk.subgraph(condition, values)? else { return Ok(None) };
    walk.graph.begin(&op.name);
    let begins = truth(walk, &begins)?;
    let own: Vec<Value> =
        first.iter().map(|value| walk.block_input("state", type_of(value))).collect();
    let replaced = |values: &[Value]| {
        let mut all = inputs.clone();
        for (place, value) in changed.iter().zip(values) {
            if let Some(slot) = usize::try_from(*place).ok().and_then(|place| all.get_mut(place)) {
                *slot = value.clone();
            }
        }
        all
    };
    let values = bound(walk, block, picked(&replaced(&own), &of_body, "func_input_locs")?)?;
    let (mut ops, results) = walk.apart(&op.name, |walk| walk.subgraph(block, values))?;
    let Some(results) = results else { return Ok(None) };
    let (made, next) = results.split_at_checked(outputs).ok_or("a result is missing")?;
    if next.len() != own.len() {
        return Err(format!("expected {} variables, found {}", own.len(), next.len()).into());
    }
    own.iter().zip(next).try_for_each(|(before, after)| check_state(before, after))?;
    let values =
        bound(walk, condition, picked(&replaced(next), &of_condition, "cond_input_locs")?)?;
    let (more, goes_on) = walk.apart(&op.name, |walk| {
        let Some(goes_on) = walk.subgraph(condition, values)? else { return Ok(None) };
        truth(walk, &goes_on).map(Some)
    })?;
    let Some(goes_on) = goes_on else { return Ok(None) };
    ops.extend(more);
    let number = walk.block_input("iteration", ValueInfo::tensor(DType::Int64, Some(Vec::new())));
    let flag = walk.block_input("condition", ValueInfo::tensor(DType::Bool, Some(Vec::new())));
    let own: Vec<Value> = [number, flag].into_iter().chain(own).collect();
    let returned: Vec<Value> = std::iter::once(&goes_on).chain(next).chain(made).cloned().collect();
    let value = walk.block(&op.name, &own, ops, &returned)?;
    let mut infos: Vec<ValueInfo> = first.iter().map(type_of).collect();
    for value in made {
        infos.push(stacked(value, Dim::Unknown)?);
    }
    let limit = walk.graph.long(most);
    let operands: Vec<Option<&Value>> =
        [&limit, &begins].into_iter().chain(&first).map(Some).collect();
    let mut all = walk.graph.emit_typed("Loop", &operands, [body("body", value)], infos);
    let made = all.split_off(first.len());
    let padded = made.iter().map(|value| padded(walk, value, most)).collect::<Outcome<Vec<_>>>()?;
    Ok(Some(padded.into_iter().chain(all).collect()))
}

/// Pads stacked results with zeros to the maximum number of iterations.
fn padded(walk: &mut Walk<'_>, value: &Value, most: i64) -> Outcome {
    let graph = &mut walk.graph;
    let (limit, count) = (graph.longs(&[most]), graph.dim(value, 0)?);
    let missing = graph.sub(&limit, &count)?;
    let rank = value.rank()?;
    let before = graph.longs(&vec![0; rank.count()]);
    let after = graph.longs(&vec![0; rank.count().saturating_sub(1)]);
    let pads = graph.concat(&[&before, &missing, &after], 0)?;
    let padded = graph.call("Pad", &[value, &pads], [])?;
    let dims: Option<Vec<i64>> =
        (1..rank.number()).map(|axis| super::node::dim_of(value, axis)).collect();
    match dims {
        Some(dims) => graph.reshape(&padded, &[vec![most], dims].concat()),
        None => Ok(padded),
    }
}

/// Runs one of two subgraphs.
fn choose<'m>(walk: &mut Walk<'m>, op: &'m Op, inputs: Vec<Value>) -> Outcome<Option<Vec<Value>>> {
    let [condition, then, other] = subgraphs(walk, op)?;
    let attributes = Attributes::new(op);
    let of_condition = attributes.ints("cond_input_locs")?;
    let branches = [
        (then, attributes.ints("then_input_locs")?, "then_branch"),
        (other, attributes.ints("else_input_locs")?, "else_branch"),
    ];
    attributes.ignore(&["num_outputs", "cut_graph"]);
    check_read(&attributes)?;
    let values = bound(walk, condition, picked(&inputs, &of_condition, "cond_input_locs")?)?;
    let Some(found) = walk.subgraph(condition, values)? else { return Ok(None) };
    walk.graph.begin(&op.name);
    let condition = truth(walk, &found)?;
    let (mut bodies, mut results) = (Vec::new(), Vec::new());
    for (block, places, name) in &branches {
        let values = bound(walk, *block, picked(&inputs, places, name)?)?;
        let (ops, made) = walk.apart(&op.name, |walk| walk.subgraph(*block, values))?;
        let Some(made) = made else { return Ok(None) };
        let value = walk.block(&op.name, &[], ops, &made)?;
        bodies.push(body(name, value));
        results.push(made);
    }
    let [then, other] = results.as_slice() else { return Err("a branch was lost".into()) };
    if then.len() != other.len() {
        return Err(format!("the branches have {} and {} results", then.len(), other.len()).into());
    }
    let common = |(a, b): (&Value, &Value)| {
        let common = common_type(a.value_type(), b.value_type()).filter(|_| a.dtype() == b.dtype());
        let other = || format!("the branches return {} and {}", a.dtype(), b.dtype());
        Ok(ValueInfo::from(common.ok_or_else(other)?))
    };
    let infos = then.iter().zip(other).map(common).collect::<Result<Vec<_>, Finding>>()?;
    Ok(Some(walk.graph.emit_typed("If", &[Some(&condition)], bodies, infos)))
}

/// Replaces an operator by those of its subgraph.
fn inline<'m>(walk: &mut Walk<'m>, op: &'m Op, inputs: Vec<Value>) -> Outcome<Option<Vec<Value>>> {
    let [block] = subgraphs(walk, op)?;
    let values = bound(walk, block, inputs)?;
    let results = walk.subgraph(block, values)?;
    walk.graph.begin(&op.name);
    Ok(results)
}

/// Replaces an operator of oneDNN by those of its subgraph. If it is quantized, integers are dequantized before, with the
/// ranges that follow the other inputs, and the result is quantized.
fn fused<'m>(walk: &mut Walk<'m>, op: &'m Op, inputs: Vec<Value>) -> Outcome<Option<Vec<Value>>> {
    let [block] = subgraphs(walk, op)?;
    let attributes = Attributes::new(op);
    if !attributes.flag("quantized", false)? {
        return inline(walk, op, inputs);
    }
    let own = walk.program.blocks.get(block).ok_or("the subgraph is missing")?;
    let count = own.vars.len();
    let (own, ranges) = inputs.split_at_checked(count).ok_or("an input is missing")?;
    let mut ranges = ranges.iter();
    let mut values = Vec::new();
    let mut node = Node::new(&mut walk.graph, op, Vec::new());
    for value in own {
        if value.dtype().is_float() {
            values.push(value.clone());
            continue;
        }
        let (least, most) = ranges.next().zip(ranges.next()).ok_or("a range is missing")?;
        let (least, most) = (least.clone(), most.clone());
        values.push(node.numbers(&Quantized { data: value.clone(), least, most }, Levels::HALVED)?);
    }
    let values = bound(walk, block, values)?;
    let Some(results) = walk.subgraph(block, values)? else { return Ok(None) };
    walk.graph.begin(&op.name);
    let [result] = results.as_slice() else { return Err("expected one result".into()) };
    if attributes.flag("enable_float_output", false)? {
        return Ok(Some(results));
    }
    let least = attributes.float_or_none("min_calib_range")?;
    let range = least.zip(attributes.float_or_none("max_calib_range")?);
    rank(result)?;
    let mut node = Node::new(&mut walk.graph, op, Vec::new());
    let quantized = node.quantized(result, range)?;
    Ok(Some(vec![quantized.data, quantized.least, quantized.most]))
}

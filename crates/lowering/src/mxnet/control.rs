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

use lodstone_model::Op;

use super::attributes::{Attributes, wrong};
use super::families::quantized::{Levels, Quantized};
use super::node::{Node, Outcome, rank};
use super::walk::Walk;
use super::{families, scans};
use crate::frame::Step;
use crate::frame::control::{Slices, Turn};
use crate::onnx::Value;
use crate::rules::RuleName;

/// The rule of an operator that runs subgraphs; it returns the outputs.
pub(super) type ControlRule = for<'m> fn(&mut Walk<'m>, &'m Op, Vec<Value>) -> Step<Vec<Value>>;

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

/// Runs a subgraph for each slice of the data, and passes states on.
fn for_each<'m>(walk: &mut Walk<'m>, op: &'m Op, inputs: Vec<Value>) -> Step<Vec<Value>> {
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
    let body = |walk: &mut Walk<'m>, own: &[Value], parts: &[Value]| {
        let mut values: Vec<Option<Value>> = vec![None; slices.len() + states.len() + others.len()];
        let places = slices.iter().chain(&states).chain(&others);
        for (place, value) in places.zip(parts.iter().chain(own).chain(outer)) {
            let slot = usize::try_from(*place).ok().and_then(|place| values.get_mut(place));
            *slot.ok_or("a place of an input does not exist")? = Some(value.clone());
        }
        let values = values.into_iter().collect::<Option<Vec<_>>>();
        let values = bound(walk, block, values.ok_or("two inputs have one place")?)?;
        let results = walk.subgraph(block, values)?;
        let (made, next) = results.split_at_checked(outputs).ok_or("a result is missing")?;
        Ok((next.to_vec(), made.to_vec()))
    };
    let slices = Slices { data, is_reverse: false };
    let looped = walk.scan(&op.name, first, slices, body)?;
    Ok([looped.stacked, looped.states].concat())
}

/// Returns the only result of a condition as a Boolean scalar.
fn truth(walk: &mut Walk<'_>, values: &[Value]) -> Step<Value> {
    match values {
        [value] => walk.truth(value),
        _ => Err(format!("expected one condition, found {}", values.len()).into()),
    }
}

/// Runs a subgraph while another one returns true.
fn repeat<'m>(walk: &mut Walk<'m>, op: &'m Op, inputs: Vec<Value>) -> Step<Vec<Value>> {
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
        return Err(wrong("max_iterations", "a number of iterations", &most.to_string()).into());
    }
    // The variables of the loop, as inputs of the operator.
    let place = |at: &i64| usize::try_from(*at).ok().and_then(|at| of_body.get(at)).copied();
    let changed = variables.iter().map(place).collect::<Option<Vec<i64>>>();
    let changed = changed.ok_or_else(|| wrong("func_var_locs", "places of inputs", "others"))?;
    let first = picked(&inputs, &changed, "func_var_locs")?;
    let values = bound(walk, condition, picked(&inputs, &of_condition, "cond_input_locs")?)?;
    let begins = walk.subgraph(condition, values)?;
    walk.graph.begin(&op.name);
    let begins = truth(walk, &begins)?;
    let replaced = |values: &[Value]| {
        let mut all = inputs.clone();
        for (place, value) in changed.iter().zip(values) {
            if let Some(slot) = usize::try_from(*place).ok().and_then(|place| all.get_mut(place)) {
                *slot = value.clone();
            }
        }
        all
    };
    let body = |walk: &mut Walk<'m>, own: &[Value]| {
        let values = picked(&replaced(own), &of_body, "func_input_locs")?;
        let values = bound(walk, block, values)?;
        let results = walk.subgraph(block, values)?;
        let (made, next) = results.split_at_checked(outputs).ok_or("a result is missing")?;
        walk.graph.begin(&op.name);
        let values = picked(&replaced(next), &of_condition, "cond_input_locs")?;
        let values = bound(walk, condition, values)?;
        let goes_on = walk.subgraph(condition, values)?;
        let goes_on = truth(walk, &goes_on)?;
        Ok(Turn { goes_on, next: next.to_vec(), made: made.to_vec() })
    };
    let limit = walk.graph.long(most);
    let looped = walk.repeat(&op.name, (Some(&limit), &begins), &first, body)?;
    let made = looped.stacked.iter().map(|value| padded(walk, value, most));
    Ok([made.collect::<Outcome<Vec<_>>>()?, looped.states].concat())
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
fn choose<'m>(walk: &mut Walk<'m>, op: &'m Op, inputs: Vec<Value>) -> Step<Vec<Value>> {
    let [condition, then, other] = subgraphs(walk, op)?;
    let attributes = Attributes::new(op);
    let of_condition = attributes.ints("cond_input_locs")?;
    let then = (then, attributes.ints("then_input_locs")?, "then_input_locs");
    let other = (other, attributes.ints("else_input_locs")?, "else_input_locs");
    attributes.ignore(&["num_outputs", "cut_graph"]);
    check_read(&attributes)?;
    let values = bound(walk, condition, picked(&inputs, &of_condition, "cond_input_locs")?)?;
    let found = walk.subgraph(condition, values)?;
    walk.graph.begin(&op.name);
    let condition = truth(walk, &found)?;
    walk.choose(&op.name, &condition, |walk, is_then| {
        let (block, places, name) = if is_then { &then } else { &other };
        let values = bound(walk, *block, picked(&inputs, places, name)?)?;
        walk.subgraph(*block, values)
    })
}

/// Replaces an operator by those of its subgraph.
fn inline<'m>(walk: &mut Walk<'m>, op: &'m Op, inputs: Vec<Value>) -> Step<Vec<Value>> {
    let [block] = subgraphs(walk, op)?;
    let values = bound(walk, block, inputs)?;
    let results = walk.subgraph(block, values)?;
    walk.graph.begin(&op.name);
    Ok(results)
}

/// Replaces an operator of oneDNN by those of its subgraph. If it is quantized, integers are dequantized before, with the
/// ranges that follow the other inputs, and the result is quantized.
fn fused<'m>(walk: &mut Walk<'m>, op: &'m Op, inputs: Vec<Value>) -> Step<Vec<Value>> {
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
    let results = walk.subgraph(block, values)?;
    walk.graph.begin(&op.name);
    let [result] = results.as_slice() else { return Err("expected one result".into()) };
    if attributes.flag("enable_float_output", false)? {
        return Ok(results);
    }
    let least = attributes.float_or_none("min_calib_range")?;
    let range = least.zip(attributes.float_or_none("max_calib_range")?);
    rank(result)?;
    let mut node = Node::new(&mut walk.graph, op, Vec::new());
    let quantized = node.quantized(result, range)?;
    Ok(vec![quantized.data, quantized.least, quantized.most])
}

//! Control flow of TorchScript: subgraphs that read the values around them.
//!
//! | operator | arguments | ONNX |
//! |---|---|---|
//! | `prim::If` | `cond`; the blocks of two branches | `If`; with a known condition, the operators of a branch |
//! | `prim::Loop` | `max_trip_count`, `cond`, `states`; the block of the body: (number, states) to (condition, states) | `Loop` |

use lodstone_model::{AttributeValue, DType, Dim, Op, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{ValueInfo, common_type};

use super::arguments::{Item, Number};
use super::control::{ControlRule, body, like, type_of};
use super::node::Outcome;
use super::walk::{Scope, Walk};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, ControlRule)] = &[("prim::If", choose), ("prim::Loop", repeat)];

/// The maximum number of times that the body of a loop is translated until the types of its states are known.
const MAX_PASSES: usize = 4;

/// The maximum number of repetitions of a loop that are translated one by one.
const MAX_UNROLLED: i64 = 4096;

/// Returns the only value in a slot; `None` if it could not be computed.
fn only<'m>(
    walk: &mut Walk<'m>,
    op: &Op,
    slot: &str,
    scope: &mut Scope<'m>,
) -> Outcome<Option<Item>> {
    match op.input(slot) {
        [name] => walk.item(name, scope),
        names => Err(format!("expected one value as `{slot}`, found {}", names.len()).into()),
    }
}

/// Runs one of two branches.
fn choose<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    scope: &mut Scope<'m>,
) -> Outcome<Option<Vec<Value>>> {
    let blocks: Vec<usize> = match op.attribute("blocks") {
        Some(AttributeValue::Blocks(blocks)) => {
            blocks.iter().filter_map(|block| usize::try_from(*block).ok()).collect()
        }
        _ => Vec::new(),
    };
    let [then, other] = blocks.as_slice() else {
        return Err(format!("expected two blocks, found {}", blocks.len()).into());
    };
    let Some(condition) = only(walk, op, "cond", scope)? else { return Ok(None) };
    if let Some(number) = condition.number() {
        let block = if number != Number::Bool(false) { *then } else { *other };
        let results = walk.inner(block, &mut scope.clone())?;
        walk.graph.begin(&op.name);
        return Ok(results);
    }
    let condition = walk.value(&condition)?;
    let condition = walk.truth(&condition)?;
    let (mut bodies, mut results) = (Vec::new(), Vec::new());
    for (block, name) in [(*then, "then_branch"), (*other, "else_branch")] {
        let (ops, made) = walk.apart(&op.name, |walk| walk.inner(block, &mut scope.clone()))?;
        let Some(made) = made else { return Ok(None) };
        bodies.push((name, ops, made.clone()));
        results.push(made);
    }
    let [left, right] = results.as_slice() else {
        return Err(Finding::internal("a branch was lost"));
    };
    if left.len() != right.len() {
        return Err(format!("the branches have {} and {} results", left.len(), right.len()).into());
    }
    let mut infos = Vec::new();
    for (left, right) in left.iter().zip(right) {
        let common = common_type(left.value_type(), right.value_type());
        let common = common.filter(|_| left.dtype() == right.dtype());
        let common = common.ok_or_else(|| {
            Finding::from(format!("the branches return {} and {}", left.dtype(), right.dtype()))
        })?;
        infos.push(ValueInfo::from(common));
    }
    let mut attributes = Vec::new();
    for (name, ops, made) in bodies {
        let value = walk.block(&op.name, &[], ops, &made)?;
        attributes.push(body(name, value));
    }
    Ok(Some(walk.graph.emit_typed("If", &[Some(&condition)], attributes, infos)))
}

/// Returns the type that a state has before and after the body: dims that differ are unknown.
fn joined(before: &ValueInfo, after: &Value) -> Outcome<ValueInfo> {
    if matches!(before.value, ValueType::List(_)) {
        // The elements of a list: an empty one has the type of what is appended.
        return Ok(ValueInfo::from(after.value_type().clone()));
    }
    let own = before.value.tensor_type().map(|tensor| tensor.dtype);
    if own != Some(after.dtype()) {
        return Err(format!("a state of a loop becomes {}", after.dtype()).into());
    }
    let (Some(dims), Ok(next)) = (before.shape(), after.shape()) else {
        return Ok(ValueInfo::tensor(after.dtype(), None));
    };
    if dims.len() != next.len() {
        return Err("a state of a loop changes its rank".into());
    }
    let join = |(before, after): (&Dim, &Dim)| match before == after {
        true => before.clone(),
        false => Dim::Unknown,
    };
    Ok(ValueInfo::tensor(after.dtype(), Some(dims.iter().zip(next).map(join).collect())))
}

/// A loop, with what its operands are.
struct Repeated {
    block: usize,
    /// The names of the number and the states in the block.
    inputs: Vec<String>,
    /// The maximum number of repetitions.
    most: Item,
    /// Whether it begins.
    begins: Item,
    states: Vec<Item>,
}

/// Repeats a block: as `Loop`, or one time after the other where that has no rule, such as for states whose rank changes,
/// and the number of times is known.
fn repeat<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    scope: &mut Scope<'m>,
) -> Outcome<Option<Vec<Value>>> {
    let block = match op.attribute("body") {
        Some(AttributeValue::Block(block)) => usize::try_from(*block).ok(),
        _ => None,
    };
    let block = block.ok_or("expected the block of a loop")?;
    let Some(most) = only(walk, op, "max_trip_count", scope)? else { return Ok(None) };
    let Some(begins) = only(walk, op, "cond", scope)? else { return Ok(None) };
    let mut states = Vec::new();
    for name in op.input("states") {
        let Some(item) = walk.item(name, scope)? else { return Ok(None) };
        states.push(item);
    }
    let inputs = walk.program.blocks.get(block).map_or(&[][..], |block| &block.inputs).to_vec();
    if inputs.len() != states.len() + 1 {
        return Err(format!("expected {} inputs of the body", states.len() + 1).into());
    }
    let repeated = Repeated { block, inputs, most, begins, states };
    let before = walk.mark();
    let looped = looped(walk, op, scope, &repeated);
    match repeated.most.number() {
        Some(Number::Int(count)) if count <= MAX_UNROLLED && !matches!(looped, Ok(Some(_))) => {
            let reported = walk.back_to(&before);
            let unrolled = unrolled(walk, scope, &repeated, count)?;
            if unrolled.is_none() {
                // What was found first says more.
                walk.back_to(&before);
                walk.findings = reported;
                return looped;
            }
            Ok(unrolled)
        }
        _ => looped,
    }
}

/// Translates the body of a loop for each repetition; `None` if it cannot be, or only the program knows how often.
fn unrolled<'m>(
    walk: &mut Walk<'m>,
    scope: &Scope<'m>,
    repeated: &Repeated,
    count: i64,
) -> Outcome<Option<Vec<Value>>> {
    let mut states = repeated.states.clone();
    let mut goes_on = repeated.begins.number();
    for number in 0..count {
        match goes_on {
            Some(Number::Bool(true)) => {}
            Some(_) => break,
            None => return Ok(None),
        }
        let number = Item::Constant(AttributeValue::Long(number));
        let items: Vec<Item> = std::iter::once(number).chain(states.iter().cloned()).collect();
        let mut inner = scope.clone();
        for (name, bound) in repeated.inputs.iter().zip(walk.all_bound(&items)) {
            inner.insert(name.clone(), bound);
        }
        let Some(results) = walk.inner(repeated.block, &mut inner)? else { return Ok(None) };
        let Some((flag, next)) = results.split_first() else { return Ok(None) };
        goes_on = Item::Number(flag.clone()).number();
        states = states.iter().zip(next).map(|(item, value)| like(item, value.clone())).collect();
    }
    states.iter().map(|state| walk.value(state)).collect::<Outcome<_>>().map(Some)
}

/// Translates a loop to `Loop`.
fn looped<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    scope: &Scope<'m>,
    repeated: &Repeated,
) -> Outcome<Option<Vec<Value>>> {
    let Repeated { block, inputs, most, begins, states } = repeated;
    let is_endless = most.number() == Some(Number::Int(i64::MAX));
    let most = if is_endless { None } else { Some(walk.value(most)?) };
    let begins = walk.value(begins)?;
    let begins = walk.truth(&begins)?;
    let first: Vec<Value> = states.iter().map(|it| walk.value(it)).collect::<Outcome<_>>()?;
    let mut types: Vec<ValueInfo> = first.iter().map(type_of).collect();
    for _ in 0..MAX_PASSES {
        let number =
            walk.block_input("iteration", ValueInfo::tensor(DType::Int64, Some(Vec::new())));
        let own: Vec<Value> =
            types.iter().map(|info| walk.block_input("state", info.clone())).collect();
        let mut inner = scope.clone();
        let items = states.iter().zip(&own).map(|(item, value)| like(item, value.clone()));
        let items: Vec<Item> = std::iter::once(Item::Number(number.clone())).chain(items).collect();
        for (name, bound) in inputs.iter().zip(walk.all_bound(&items)) {
            inner.insert(name.clone(), bound);
        }
        let (mut ops, next) = walk.apart(&op.name, |walk| walk.inner(*block, &mut inner))?;
        let Some(next) = next else { return Ok(None) };
        let Some((goes_on, next)) = next.split_first() else {
            return Err("a loop has no condition".into());
        };
        if next.len() != own.len() {
            return Err(format!("expected {} states, found {}", own.len(), next.len()).into());
        }
        let wider = types.iter().zip(next).map(|(info, next)| joined(info, next));
        let wider = wider.collect::<Outcome<Vec<_>>>()?;
        let is_stable = wider.iter().zip(&types).all(|(wide, own)| wide.value == own.value);
        if !is_stable {
            types = wider;
            continue;
        }
        let (more, goes_on) = walk.apart(&op.name, |walk| walk.truth(goes_on))?;
        ops.extend(more);
        let flag = walk.block_input("condition", ValueInfo::tensor(DType::Bool, Some(Vec::new())));
        let inputs: Vec<Value> = [number, flag].into_iter().chain(own).collect();
        let returned: Vec<Value> = std::iter::once(&goes_on).chain(next).cloned().collect();
        let value = walk.block(&op.name, &inputs, ops, &returned)?;
        let operands: Vec<Option<&Value>> =
            [most.as_ref(), Some(&begins)].into_iter().chain(first.iter().map(Some)).collect();
        return Ok(Some(walk.graph.emit_typed("Loop", &operands, [body("body", value)], types)));
    }
    Err("the types of the states of a loop do not settle".into())
}

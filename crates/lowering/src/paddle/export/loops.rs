//! Loops, whose block is translated again until the types of its variables no longer change.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Attribute, DType, Op, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{ValueInfo, common_type};
use lodstone_schema::paddle::EMPTY;

use super::control::{Key, assembled, empty_like, fits, parts};
use super::variables::Bound;
use super::walk::{Own, Site, Walk};
use crate::frame::control::type_of;
use crate::frame::{Halt, Step};
use crate::onnx::Value;
use crate::paddle::operator::Outcome;

pub(super) const OPERATORS: &[(&str, Own)] = &[("while", |walk, site| run_while(walk, site))];

/// How often the block of a loop is translated at most, until the types of its variables no longer change: each time,
/// dims that differ become unknown.
const MAX_ROUNDS: usize = 8;

/// Returns the variables of the blocks around it that a block writes.
fn changed<'p>(walk: &Walk<'p>, block: usize) -> Outcome<Vec<Key<'p>>> {
    let (mut keys, mut open, mut seen) = (Vec::new(), vec![block], HashSet::new());
    while let Some(number) = open.pop() {
        let Some(found) = walk.program.blocks.get(number).filter(|_| seen.insert(number)) else {
            continue;
        };
        for op in &found.ops {
            let is_read = |name: &&str| *name != EMPTY && walk.is_read(name);
            for name in op.writes().filter(is_read) {
                let key = walk.key(number, name)?;
                // Blocks inside this one come after it.
                if key.0 < block && !keys.contains(&key) {
                    keys.push(key);
                }
            }
            open.extend(op.blocks().filter_map(|number| usize::try_from(number).ok()));
        }
    }
    keys.sort_unstable();
    Ok(keys)
}

fn run_while<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let number = walk.inner(site)?;
    let name = site.op.input("Condition").first().ok_or("input `Condition` is missing")?;
    let condition = walk.key(site.at.block, name)?;
    let keys = changed(walk, number)?;
    if !keys.contains(&condition) {
        let name = condition.1;
        return Err(format!("the block never changes `{name}`, so the loop would not end").into());
    }
    let outcome = repeated(walk, site, number, condition, &keys);
    if outcome.is_err() {
        keys.iter().for_each(|(_, name)| site.scope.fail(name));
    }
    outcome
}

/// Translates a block until the types of the variables that it changes no longer change, and emits the loop.
fn repeated<'p>(
    walk: &mut Walk<'p>,
    site: &mut Site<'_, 'p>,
    number: usize,
    condition: Key<'p>,
    keys: &[Key<'p>],
) -> Step {
    // What the variables hold before the loop; for those that hold nothing, this follows from the block.
    let mut state: Vec<(Key<'p>, Option<Bound>)> = Vec::new();
    for key in keys {
        let bound = match site.scope.find(key.1)?.cloned() {
            // An array without a value is empty.
            None => walk.declared_array(site.at.block, key.1)?,
            bound => bound,
        };
        state.push((*key, bound));
    }
    let before = state.clone();
    for _ in 0..MAX_ROUNDS {
        let (blocks, names) = (walk.blocks.len(), walk.dialect.given.count());
        let findings = walk.findings.count();
        let (inputs, given) = begin(walk, &state)?;
        let body = walk.body(site, number, &given)?;
        let mut written = HashMap::new();
        for (key, bound) in body.written.into_iter().filter(|(key, _)| keys.contains(key)) {
            written.insert(key, bound?);
        }
        if walk.findings.count() > findings {
            return Err(Halt::Failed);
        }
        let after = |key: &Key<'p>| {
            let unchanged = || given.iter().find(|(given, _)| given == key).map(|(_, bound)| bound);
            written.get(key).or_else(unchanged).cloned()
        };
        let mut next = Vec::new();
        for (key, bound) in &state {
            let after = after(key).ok_or_else(|| format!("`{}` holds nothing", key.1))?;
            let common = match bound {
                Some(bound) => generalized(key.1, bound, &after)?,
                None => after,
            };
            next.push((*key, Some(common)));
        }
        if types(&next) != types(&state) {
            walk.blocks.truncate(blocks);
            walk.dialect.given.truncate(names);
            state = next;
            continue;
        }
        let results: Vec<(Key<'p>, Bound)> =
            state.iter().filter_map(|(key, _)| Some((*key, after(key)?))).collect();
        return close(walk, site, condition, &before, (inputs, given), body.ops, &results);
    }
    Err("the types of the variables change in each iteration".into())
}

/// Returns the types of all parts of the variables of a loop.
fn types(state: &[(Key<'_>, Option<Bound>)]) -> Vec<Option<Vec<ValueType>>> {
    let types = |bound: &Bound| {
        let parts = parts(bound).unwrap_or_default();
        let of = parts.iter().map(|part| part.value_type().clone());
        let element = match bound {
            Bound::Array(_, element) => element.clone().map(ValueType::Tensor),
            _ => None,
        };
        of.chain(element).collect()
    };
    state.iter().map(|(_, bound)| bound.as_ref().map(types)).collect()
}

/// Returns the inputs of a loop's block, and what its variables hold at the beginning of an iteration.
#[expect(clippy::type_complexity, reason = "two lists")]
fn begin<'p>(
    walk: &mut Walk<'p>,
    state: &[(Key<'p>, Option<Bound>)],
) -> Outcome<(Vec<Value>, Vec<(Key<'p>, Bound)>)> {
    let (mut inputs, mut given) = (Vec::new(), Vec::new());
    for (key, bound) in state {
        let Some(bound) = bound else { continue };
        let parts = parts(bound)?;
        let fresh = parts.iter().map(|part| {
            let mut info = type_of(part);
            walk.graph.symbolize(&mut info);
            walk.block_input(&format!("{}_in", key.1), info)
        });
        let fresh: Vec<Value> = fresh.collect();
        inputs.extend(fresh.iter().cloned());
        given.push((*key, assembled(bound, &mut fresh.into_iter())?));
    }
    Ok((inputs, given))
}

/// Returns what a variable holds at the beginning of each iteration, given what it holds before the loop and after an
/// iteration.
fn generalized(name: &str, before: &Bound, after: &Bound) -> Outcome<Bound> {
    let element = match (before, after) {
        (Bound::Array(_, Some(a)), Bound::Array(_, Some(b))) => {
            let common = common_type(&ValueType::Tensor(a.clone()), &ValueType::Tensor(b.clone()));
            common.and_then(|common| common.tensor_type().cloned())
        }
        (Bound::Array(_, a), Bound::Array(_, b)) => a.clone().or_else(|| b.clone()),
        _ => None,
    };
    if !fits(before, after) {
        return Err(format!("`{name}` changes its LoD in the loop").into());
    }
    let (a, b) = (parts(before)?, parts(after)?);
    let common = |(a, b): (&Value, &Value)| {
        let common = match (a.value_type(), b.value_type()) {
            (ValueType::List(_), _) => element.clone().map_or_else(
                || Some(a.value_type().clone()),
                |element| ValueType::list(ValueType::Tensor(unshaped(element))).ok(),
            ),
            (a, b) => common_type(a, b),
        };
        let common = common.filter(|_| a.dtype() == b.dtype());
        let common = common.ok_or_else(|| {
            Finding::from(format!(
                "`{name}` is {} before the loop, and {} after an iteration",
                a.dtype(),
                b.dtype()
            ))
        })?;
        Ok(Value::new(a.name(), ValueInfo::from(common)))
    };
    let merged = a.iter().zip(&b).map(common).collect::<Outcome<Vec<_>>>()?;
    let mut bound = assembled(before, &mut merged.into_iter())?;
    if let Bound::Array(_, of) = &mut bound {
        *of = element;
    }
    Ok(bound)
}

fn unshaped(tensor: TensorType) -> TensorType {
    TensorType { shape: None, ..tensor }
}

/// Emits the `Loop`, and binds the variables that its block changes.
fn close<'p>(
    walk: &mut Walk<'p>,
    site: &mut Site<'_, 'p>,
    condition: Key<'p>,
    before: &[(Key<'p>, Option<Bound>)],
    (state, given): (Vec<Value>, Vec<(Key<'p>, Bound)>),
    mut ops: Vec<Op>,
    results: &[(Key<'p>, Bound)],
) -> Step {
    // The block: iteration, condition, state -> condition, state.
    let scalar = |dtype| ValueInfo::tensor(dtype, Some(Vec::new()));
    let iteration = walk.block_input("iteration", scalar(DType::Int64));
    let goes_on = walk.block_input("goes_on", scalar(DType::Bool));
    let after = results.iter().find(|(key, _)| *key == condition);
    let Some((_, Bound::Tensor(after, _))) = after else {
        return Err("expected a tensor as `Condition`".into());
    };
    let (more, truth) = walk.apart("block", |walk| walk.truth(after))?;
    ops.extend(more);
    let mut returned = vec![truth];
    for (_, bound) in results {
        returned.extend(parts(bound)?);
    }
    let inputs: Vec<Value> =
        [iteration, goes_on].into_iter().chain(state.iter().cloned()).collect();
    let block = walk.block("block", &inputs, ops, &returned)?;
    // The loop.
    walk.graph.begin("while");
    let mut initial = Vec::new();
    for ((key, bound), (_, like)) in before.iter().zip(&given) {
        let bound = match bound {
            Some(bound) => bound.clone(),
            None => empty_like(walk, like)?,
        };
        if !fits(&bound, like) {
            return Err(format!("`{}` changes its LoD in the loop", key.1).into());
        }
        initial.extend(parts(&bound)?);
    }
    let Some((_, Some(Bound::Tensor(first, _)))) = before.iter().find(|(key, _)| *key == condition)
    else {
        return Err("the condition has no value before the loop".into());
    };
    let first = walk.truth(first)?;
    let operands: Vec<Option<&Value>> =
        [None, Some(&first)].into_iter().chain(initial.iter().map(Some)).collect();
    let body = Attribute { name: "body".to_owned(), value: block };
    let infos = state.iter().map(|value| value.info().clone()).collect();
    let made = walk.graph.emit_typed("Loop", &operands, [body], infos);
    let mut made = made.into_iter();
    for ((_, name), like) in given {
        let bound = assembled(&like, &mut made)?;
        walk.set(site, name, bound)?;
    }
    Ok(())
}

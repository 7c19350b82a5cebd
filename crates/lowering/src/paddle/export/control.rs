//! Operators that run blocks, choose between variables, or copy them.
//!
//! The block of a loop is translated again until the types of its variables no longer change.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Attribute, AttributeValue, DType, Op, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{ValueInfo, common_type};
use lodstone_schema::paddle::EMPTY;

use super::walk::{Bound, Own, Site, Walk};
use crate::frame::control::type_of;
use crate::frame::{Halt, Step};
use crate::onnx::{Value, int};
use crate::paddle::operator::Outcome;

pub(super) const OPERATORS: &[(&str, Own)] = &[
    ("assign", |walk, site| assign(walk, site)),
    ("conditional_block", |walk, site| conditional_block(walk, site)),
    ("conditional_block_infer", |walk, site| conditional_block(walk, site)),
    ("increment", |walk, site| increment(walk, site)),
    ("select_input", |walk, site| select_input(walk, site)),
    ("select_output", |walk, site| select_output(walk, site)),
    ("while", |walk, site| run_while(walk, site)),
];

/// How often the block of a loop is translated at most, until the types of its variables no longer change: each time,
/// dims that differ become unknown.
const MAX_ROUNDS: usize = 8;

/// A variable: the block that declares it, and its name.
type Key<'p> = (usize, &'p str);

/// A block that was translated.
struct Body<'p> {
    ops: Vec<Op>,
    /// What it left in variables of the blocks around it.
    written: Vec<(Key<'p>, Step<Bound>)>,
}

impl<'p> Walk<'p> {
    /// Translates a block, whose variables hold `given` at first.
    fn body(
        &mut self,
        site: &mut Site<'_, 'p>,
        number: usize,
        given: &[(Key<'p>, Bound)],
    ) -> Step<Body<'p>> {
        let variables = self.dialect.variables.get(number).cloned();
        let variables = variables.ok_or_else(|| Finding::internal("a block was lost"))?;
        site.scope.open(&variables);
        given.iter().for_each(|((_, name), bound)| site.scope.bind(name, bound.clone()));
        let entered = self.apart("block", |walk| walk.enter(number, site.scope));
        let assigned = site.scope.close()?;
        let (ops, ()) = entered?;
        let mut written = Vec::new();
        for (name, bound) in assigned {
            // A name that nothing declares has been reported.
            if let Ok(key) = self.key(site.at.block, &name) {
                written.push((key, bound));
            }
        }
        written.sort_by_key(|(key, _)| *key);
        Ok(Body { ops, written })
    }

    /// Returns the variable that a name refers to in a block.
    fn key(&self, block: usize, name: &str) -> Outcome<Key<'p>> {
        self.declaration(block, name).map(|(block, var)| (block, var.name.as_str()))
    }

    /// Returns the block that an operator runs.
    fn inner(&self, site: &Site<'_, 'p>) -> Outcome<usize> {
        let number = site.op.blocks().next().ok_or("the operator has no block")?;
        let number = usize::try_from(number).ok().filter(|it| *it < self.program.blocks.len());
        let number = number.ok_or("the block does not exist")?;
        let parent = self.program.blocks.get(number).map(|block| block.parent);
        let parent = parent.and_then(|parent| usize::try_from(parent).ok());
        if number <= site.at.block || parent != Some(site.at.block) {
            let what = format!("the operator runs block {number}, which has another parent");
            return Err(what.into());
        }
        Ok(number)
    }

    /// Emits a choice between two lists of operators with their results.
    pub(super) fn either(
        &mut self,
        condition: &Value,
        (then_ops, then): (Vec<Op>, Vec<Value>),
        (else_ops, other): (Vec<Op>, Vec<Value>),
    ) -> Step<Vec<Value>> {
        let then_block = self.block("block", &[], then_ops, &then)?;
        let else_block = self.block("block", &[], else_ops, &other)?;
        self.graph.begin("conditional_block");
        self.branch(condition, (then_block, then), (else_block, other))
    }
}

/// Returns the tensors and sequences that a variable holds, in a fixed order.
fn parts(bound: &Bound) -> Outcome<Vec<Value>> {
    match bound {
        Bound::Tensor(value, lod) => {
            Ok(std::iter::once(value.clone()).chain(lod.iter().cloned()).collect())
        }
        Bound::Array(value, _) => Ok(vec![value.clone()]),
        Bound::Ranks(..) => Err("expected a tensor or an array".into()),
    }
}

/// The inverse of [`parts`].
fn assembled(like: &Bound, parts: &mut impl Iterator<Item = Value>) -> Outcome<Bound> {
    let mut next = || parts.next().ok_or_else(|| Finding::internal("a block lost a result"));
    Ok(match like {
        Bound::Tensor(_, lod) => {
            let value = next()?;
            Bound::Tensor(value, lod.iter().map(|_| next()).collect::<Outcome<_>>()?)
        }
        Bound::Array(_, element) => Bound::Array(next()?, element.clone()),
        Bound::Ranks(..) => {
            return Err(Finding::internal("a block returned a value of another kind"));
        }
    })
}

fn assign<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let bound = walk.read(site, "X")?;
    match (walk.result(site, "Out"), bound) {
        (Some(name), Bound::Tensor(value, lod)) => walk.bind(site, name, &value, lod),
        (Some(name), bound) => walk.set(site, name, bound),
        (None, _) => Ok(()),
    }
}

fn increment<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let (x, lod) = walk.tensor(site, "X")?;
    let step = match site.op.attribute("step") {
        Some(AttributeValue::Float(step)) => f64::from(*step),
        _ => 1.0,
    };
    let step = walk.graph.number(x.dtype(), step)?;
    let sum = walk.graph.add(&x, &step)?;
    match walk.result(site, "Out") {
        Some(name) => walk.bind(site, name, &sum, lod),
        None => Ok(()),
    }
}

/// Binds variables to the results of an `If`. `else` is what the variables hold if the branch is not taken; a variable
/// that holds nothing gets an empty tensor, which no operator reads in a correct program.
fn merge<'p>(
    walk: &mut Walk<'p>,
    site: &mut Site<'_, 'p>,
    condition: &Value,
    then: Body<'p>,
) -> Step {
    let mut chosen = Vec::new();
    let (mut results, mut others) = (Vec::new(), Vec::new());
    let (other_ops, ()) = walk.apart("block", |walk| {
        for ((_, name), bound) in then.written {
            if !walk.is_read(name) {
                continue;
            }
            let before = site.scope.find(name).map(|before| before.cloned());
            let (Ok(bound), Ok(before)) = (bound, before) else {
                site.scope.fail(name);
                continue;
            };
            let is_new = before.is_none();
            let other = match before {
                Some(before) if fits(&before, &bound) => before,
                before => match (before, empty_like(walk, &bound)?) {
                    // The tensor has other LoD levels.
                    (Some(Bound::Tensor(value, _)), Bound::Tensor(_, lod)) => {
                        Bound::Tensor(value, lod)
                    }
                    (_, empty) => empty,
                },
            };
            results.extend(parts(&bound)?);
            others.extend(parts(&other)?);
            chosen.push((name, bound, is_new));
        }
        Ok(())
    })?;
    if chosen.is_empty() {
        return Ok(());
    }
    let types: Vec<ValueInfo> = results.iter().map(|value| value.info().clone()).collect();
    let made = walk.either(condition, (then.ops, results), (other_ops, others))?;
    let mut made = made.into_iter().zip(types);
    for (name, like, is_new) in chosen {
        // A variable that held nothing before is only read where the branch was taken.
        let mut values = made.by_ref().map(|(value, info)| match is_new {
            true => Value::new(value.name(), ValueInfo::from(info.value)),
            false => value,
        });
        let bound = assembled(&like, &mut values)?;
        walk.set(site, name, bound)?;
    }
    Ok(())
}

/// Whether two variables have the same parts.
fn fits(a: &Bound, b: &Bound) -> bool {
    match (a, b) {
        (Bound::Tensor(_, a), Bound::Tensor(_, b)) => a.len() == b.len(),
        (Bound::Array(..), Bound::Array(..)) => true,
        _ => false,
    }
}

/// Returns a value of the same type with as few elements as its dims permit.
fn empty_like(walk: &mut Walk<'_>, bound: &Bound) -> Outcome<Bound> {
    /// Tensors with more elements are replaced by empty ones.
    const LARGEST: i64 = 1 << 16;
    Ok(match bound {
        Bound::Tensor(value, lod) => {
            let known = value.known_dims().filter(|dims| {
                dims.iter().try_fold(1_i64, |all, dim| all.checked_mul(*dim)) <= Some(LARGEST)
            });
            let dims = match known {
                Some(dims) => dims,
                None => vec![0; value.rank()?.count()],
            };
            let empty = walk.graph.filled(value.dtype(), 0.0, &dims)?;
            let zero = walk.graph.longs(&[0]);
            Bound::Tensor(empty, lod.iter().map(|_| zero.clone()).collect())
        }
        Bound::Array(_, element) => {
            let dtype = element.as_ref().map_or(DType::Float32, |element| element.dtype);
            Bound::Array(walk.empty_sequence(dtype)?, element.clone())
        }
        Bound::Ranks(..) => return Err("expected a tensor or an array".into()),
    })
}

fn conditional_block<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let name = site.op.input("Cond").first().ok_or("input `Cond` is missing")?;
    let Bound::Tensor(condition, _) = walk.bound(site, name, "Cond")? else {
        return Err("expected a tensor as `Cond`".into());
    };
    let number = walk.inner(site)?;
    let scalar = site.op.attribute("is_scalar_condition");
    walk.graph.begin("conditional_block");
    let condition = match scalar {
        Some(AttributeValue::Bool(true)) => walk.truth(&condition)?,
        _ => {
            let size = walk.graph.call("Size", &[&condition], [])?;
            walk.graph.cast(&size, DType::Bool)?
        }
    };
    let then = walk.body(site, number, &[])?;
    merge(walk, site, &condition, then)
}

/// Chooses between the variables of `X` by an index.
fn select_input<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let (mask, _) = walk.tensor(site, "Mask")?;
    let Some(name) = walk.result(site, "Out") else { return Ok(()) };
    let choices = site.op.input("X").iter().map(|name| walk.bound(site, name, "X"));
    let mut choices = choices.collect::<Step<Vec<_>>>()?.into_iter();
    let mut chosen = choices.next().ok_or("input `X` is missing")?;
    for (index, choice) in (1_i64..).zip(choices) {
        if !fits(&chosen, &choice) {
            return Err("expected variables of one kind as `X`".into());
        }
        walk.graph.begin("select_input");
        let condition = match mask.dtype() {
            DType::Bool => walk.truth(&mask)?,
            _ => {
                #[expect(clippy::cast_precision_loss, reason = "there are few choices")]
                let index = walk.graph.number(mask.dtype(), index as f64)?;
                let is_it = walk.graph.call("Equal", &[&mask, &index], [])?;
                walk.truth(&is_it)?
            }
        };
        let (then, other) = (parts(&choice)?, parts(&chosen)?);
        let made = walk.either(&condition, (Vec::new(), then), (Vec::new(), other))?;
        chosen = assembled(&choice, &mut made.into_iter())?;
    }
    walk.set(site, name, chosen)
}

/// Writes one of several variables. The others are read only by blocks that do not run.
fn select_output<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let bound = walk.read(site, "X")?;
    for name in site.op.output("Out") {
        walk.declaration(site.at.block, name)?;
        site.scope.bind(name, bound.clone());
    }
    Ok(())
}

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

impl<'p> Walk<'p> {
    /// Returns an empty array if a variable is declared as one.
    pub(super) fn declared_array(&mut self, block: usize, name: &str) -> Outcome<Option<Bound>> {
        let (_, var) = self.declaration(block, name)?;
        if !var.value.is_array() {
            return Ok(None);
        }
        let declared = var.value.tensor_type().map(|tensor| tensor.dtype);
        let dtype = declared.filter(|dtype| *dtype != DType::Unspecified);
        let empty = self.empty_sequence(dtype.unwrap_or(DType::Float32))?;
        Ok(Some(Bound::Array(empty, None)))
    }

    /// Creates an empty sequence of tensors.
    pub(super) fn empty_sequence(&mut self, dtype: DType) -> Outcome<Value> {
        let code = lodstone_schema::onnx::dtype::code(dtype);
        let code = code.ok_or_else(|| format!("ONNX does not have type {dtype}"))?;
        self.graph.call("SequenceEmpty", &[], [int("dtype", i64::from(code))])
    }
}

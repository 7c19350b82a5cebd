//! Operators that run blocks, choose between variables, or copy them.
//!
//! The block of a loop is translated again until the types of its variables no longer change.

use std::collections::HashSet;

use lodstone_model::{Attribute, AttributeValue, Block, DType, Op, TensorType, ValueType};
use lodstone_schema::numbers::exact;
use lodstone_schema::onnx::infer::{ValueInfo, common_type};
use lodstone_schema::paddle::EMPTY;
use lodstone_schema::{Code, Finding};

use super::scope::{Bound, Key};
use super::walk::{Own, Site, Walk};
use crate::onnx::blocks::declared;
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

/// The maximum depth of blocks, the main one included, as in ONNX's checker.
const DEEPEST: usize = 64;

/// A block that was translated.
struct Body<'p> {
    ops: Vec<Op>,
    /// What it left in variables of the blocks around it.
    written: Vec<(Key<'p>, Bound)>,
}

impl<'p> Walk<'p> {
    /// Translates a block, whose variables hold `given` at first.
    fn body(&mut self, number: usize, given: &[(Key<'p>, Bound)]) -> Body<'p> {
        let around = std::mem::take(&mut self.graph.ops);
        self.scope.open();
        given.iter().for_each(|(key, bound)| self.scope.set(*key, bound.clone()));
        self.operators(number);
        let written = self.scope.close().into_iter().filter(|((block, _), _)| *block != number);
        let mut written: Vec<_> = written.collect();
        written.sort_by_key(|(key, _)| *key);
        let ops = std::mem::replace(&mut self.graph.ops, around);
        Body { ops, written }
    }

    /// Returns the block that an operator runs.
    fn inner(&self, site: &Site<'p>) -> Outcome<usize> {
        let number = site.op.blocks().next().ok_or("the operator has no block")?;
        let number = usize::try_from(number).ok().filter(|it| *it < self.program.blocks.len());
        let number = number.ok_or("the block does not exist")?;
        let parent = self.program.blocks.get(number).map(|block| block.parent);
        if number <= site.block
            || parent.and_then(|at| usize::try_from(at).ok()) != Some(site.block)
        {
            return Err(
                format!("the operator runs block {number}, which has another parent").into()
            );
        }
        if self.scope.depth() >= DEEPEST {
            let deep = format!("blocks are nested deeper than {DEEPEST}");
            return Err(Finding::new(Code::Limit, deep));
        }
        Ok(number)
    }

    /// Emits operators into a list of their own.
    pub(super) fn apart<T>(
        &mut self,
        make: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Outcome<(Vec<Op>, T)> {
        let around = std::mem::take(&mut self.graph.ops);
        self.graph.begin("block");
        let made = make(self);
        let ops = std::mem::replace(&mut self.graph.ops, around);
        Ok((ops, made?))
    }

    /// Adds a block of the result; returns its index.
    pub(super) fn add_block(
        &mut self,
        ops: Vec<Op>,
        inputs: &[Value],
        outputs: &[Value],
    ) -> Outcome<i32> {
        let var = |value: &Value| declared(value);
        let names = |values: &[Value]| values.iter().map(|it| it.name().to_owned()).collect();
        let name = self.graph.names.fresh("block");
        self.blocks.push(Block {
            name,
            vars: inputs.iter().chain(outputs).map(var).collect(),
            inputs: names(inputs),
            outputs: names(outputs),
            ops,
            ..Block::default()
        });
        exact(self.blocks.len())
    }

    /// Returns results of a block under names of its own: a block cannot return values of the blocks around it, nor a
    /// value twice.
    pub(super) fn returned(
        &mut self,
        ops: &[Op],
        results: &[Value],
    ) -> Outcome<(Vec<Op>, Vec<Value>)> {
        let written: HashSet<&str> = ops.iter().flat_map(Op::writes).collect();
        let mut seen = HashSet::new();
        self.apart(|walk| {
            let one = |value: &Value| {
                let is_own = written.contains(value.name()) && seen.insert(value.name().to_owned());
                match is_own {
                    true => Ok(value.clone()),
                    false => walk.graph.call("Identity", &[value], []),
                }
            };
            results.iter().map(one).collect()
        })
    }

    /// Emits `If`: each branch is a list of operators and its results.
    pub(super) fn branch(
        &mut self,
        condition: &Value,
        then: (Vec<Op>, Vec<Value>),
        other: (Vec<Op>, Vec<Value>),
    ) -> Outcome<Vec<Value>> {
        let mut infos = Vec::new();
        for (index, (a, b)) in then.1.iter().zip(&other.1).enumerate() {
            let common = common_type(a.value_type(), b.value_type());
            let dtypes = [a, b].map(|value| value.value_type().tensor_type().map(|it| it.dtype));
            let common = common.filter(|_| dtypes[0] == dtypes[1]).ok_or_else(|| {
                format!(
                    "expected one type of result {index} from both branches, found {} and {}",
                    a.dtype(),
                    b.dtype()
                )
            })?;
            infos.push(ValueInfo::from(common));
        }
        let mut attributes = Vec::new();
        for (name, (mut ops, results)) in [("then_branch", then), ("else_branch", other)] {
            let (copies, results) = self.returned(&ops, &results)?;
            ops.extend(copies);
            let block = AttributeValue::Block(self.add_block(ops, &[], &results)?);
            attributes.push(Attribute { name: name.to_owned(), value: block });
        }
        self.graph.begin("conditional_block");
        Ok(self.graph.emit_typed("If", &[Some(condition)], attributes, infos))
    }

    /// Returns a Boolean scalar.
    fn truth(&mut self, value: &Value) -> Outcome<Value> {
        let value = self.graph.cast(value, DType::Bool)?;
        self.graph.reshape(&value, &[])
    }
}

/// Returns the tensors and sequences that a variable holds, in a fixed order.
fn parts(bound: &Bound) -> Outcome<Vec<Value>> {
    match bound {
        Bound::Tensor(value, lod) => {
            Ok(std::iter::once(value.clone()).chain(lod.iter().cloned()).collect())
        }
        Bound::Array(value, _) => Ok(vec![value.clone()]),
        Bound::Ranks(..) | Bound::Failed => Err("expected a tensor or an array".into()),
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
        Bound::Ranks(..) | Bound::Failed => {
            return Err(Finding::internal("a block returned a value of another kind"));
        }
    })
}

fn assign<'p>(walk: &mut Walk<'p>, site: &Site<'p>) -> Outcome {
    let bound = walk.read(site, "X")?;
    let Some(name) = walk.output(site, "Out") else { return Ok(()) };
    if let Bound::Tensor(value, lod) = bound {
        walk.graph.begin("assign");
        return walk.bind(site, name, &value, lod);
    }
    let key = walk.scope.key(site.block, name)?;
    walk.scope.set(key, bound);
    Ok(())
}

fn increment<'p>(walk: &mut Walk<'p>, site: &Site<'p>) -> Outcome {
    let (x, lod) = walk.tensor(site, "X")?;
    let step = match site.op.attribute("step") {
        Some(AttributeValue::Float(step)) => f64::from(*step),
        _ => 1.0,
    };
    walk.graph.begin("increment");
    let step = walk.graph.number(x.dtype(), step)?;
    let sum = walk.graph.add(&x, &step)?;
    match walk.output(site, "Out") {
        Some(name) => walk.bind(site, name, &sum, lod),
        None => Ok(()),
    }
}

/// Binds variables to the results of an `If`. `else` is what the variables hold if the branch is not taken; a variable
/// that holds nothing gets an empty tensor, which no operator reads in a correct program.
fn merge<'p>(walk: &mut Walk<'p>, site: &Site<'p>, condition: &Value, then: Body<'p>) -> Outcome {
    let mut keys = Vec::new();
    let (mut results, mut others) = (Vec::new(), Vec::new());
    let (other_ops, ()) = walk.apart(|walk| {
        for (key, bound) in &then.written {
            if !walk.is_read(key.1) {
                continue;
            }
            if matches!(bound, Bound::Failed) || matches!(walk.scope.get(*key), Some(Bound::Failed))
            {
                walk.scope.set(*key, Bound::Failed);
                continue;
            }
            let before = walk.scope.get(*key).cloned();
            let other = match before {
                Some(before) if fits(&before, bound) => before,
                before => match (before, empty_like(walk, bound)?) {
                    // The tensor has other LoD levels.
                    (Some(Bound::Tensor(value, _)), Bound::Tensor(_, lod)) => {
                        Bound::Tensor(value, lod)
                    }
                    (_, empty) => empty,
                },
            };
            let is_new = walk.scope.get(*key).is_none();
            results.extend(parts(bound)?);
            others.extend(parts(&other)?);
            keys.push((*key, bound.clone(), is_new));
        }
        Ok(())
    })?;
    if keys.is_empty() {
        return Ok(());
    }
    let types: Vec<ValueInfo> = results.iter().map(|value| value.info().clone()).collect();
    let made = walk.branch(condition, (then.ops, results), (other_ops, others))?;
    let mut made = made.into_iter().zip(types);
    for (key, like, is_new) in keys {
        // A variable that held nothing before is only read where the branch was taken.
        let mut values = made.by_ref().map(|(value, info)| match is_new {
            true => Value::new(value.name(), ValueInfo::from(info.value)),
            false => value,
        });
        let bound = assembled(&like, &mut values)?;
        let bound = match bound {
            Bound::Tensor(value, lod) => Bound::Tensor(walk.named(site, key, &value)?, lod),
            other => other,
        };
        walk.scope.set(key, bound);
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
        Bound::Ranks(..) | Bound::Failed => return Err("expected a tensor or an array".into()),
    })
}

fn conditional_block<'p>(walk: &mut Walk<'p>, site: &Site<'p>) -> Outcome {
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
    let then = walk.body(number, &[]);
    merge(walk, site, &condition, then)
}

/// Chooses between the variables of `X` by an index.
fn select_input<'p>(walk: &mut Walk<'p>, site: &Site<'p>) -> Outcome {
    let (mask, _) = walk.tensor(site, "Mask")?;
    let Some(name) = walk.output(site, "Out") else { return Ok(()) };
    let choices = site.op.input("X").iter().map(|name| walk.bound(site, name, "X"));
    let mut choices = choices.collect::<Outcome<Vec<_>>>()?.into_iter();
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
        let made = walk.branch(&condition, (Vec::new(), then), (Vec::new(), other))?;
        chosen = assembled(&choice, &mut made.into_iter())?;
    }
    let key = walk.scope.key(site.block, name)?;
    if let Bound::Tensor(value, lod) = chosen {
        chosen = Bound::Tensor(walk.named(site, key, &value)?, lod);
    }
    walk.scope.set(key, chosen);
    Ok(())
}

/// Writes one of several variables. The others are read only by blocks that do not run.
fn select_output<'p>(walk: &mut Walk<'p>, site: &Site<'p>) -> Outcome {
    let bound = walk.read(site, "X")?;
    for name in site.op.output("Out") {
        let key = walk.scope.key(site.block, name)?;
        walk.scope.set(key, bound.clone());
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
                let key = walk.scope.key(number, name)?;
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

fn run_while<'p>(walk: &mut Walk<'p>, site: &Site<'p>) -> Outcome {
    let number = walk.inner(site)?;
    let name = site.op.input("Condition").first().ok_or("input `Condition` is missing")?;
    let condition = walk.scope.key(site.block, name)?;
    let keys = changed(walk, number)?;
    if !keys.contains(&condition) {
        let name = condition.1;
        return Err(format!("the block never changes `{name}`, so the loop would not end").into());
    }
    // What the variables hold before the loop; for those that hold nothing, this follows from the block.
    let mut state: Vec<(Key<'p>, Option<Bound>)> = Vec::new();
    for key in &keys {
        let bound = match walk.scope.get(*key).cloned() {
            // An array without a value is empty.
            None => walk.declared_array(*key)?,
            bound => bound,
        };
        state.push((*key, bound));
    }
    if state.iter().any(|(_, bound)| matches!(bound, Some(Bound::Failed))) {
        state.iter().for_each(|(key, _)| walk.scope.set(*key, Bound::Failed));
        return Ok(());
    }
    let before = state.clone();
    for _ in 0..MAX_ROUNDS {
        let mark = walk.mark();
        let (inputs, given) = begin(walk, &state)?;
        let body = walk.body(number, &given);
        if body
            .written
            .iter()
            .any(|(key, bound)| matches!(bound, Bound::Failed) && keys.contains(key))
            || walk.has_failed(&mark)
        {
            state.iter().for_each(|(key, _)| walk.scope.set(*key, Bound::Failed));
            return Ok(());
        }
        let after = |key: &Key<'p>| {
            let written = body.written.iter().find(|(written, _)| written == key);
            written.map(|(_, bound)| bound.clone()).or_else(|| {
                given.iter().find(|(given, _)| given == key).map(|(_, bound)| bound.clone())
            })
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
        let types = |state: &[(Key<'p>, Option<Bound>)]| -> Vec<Option<Vec<ValueType>>> {
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
        };
        if types(&next) != types(&state) {
            walk.back(&mark);
            state = next;
            continue;
        }
        let results: Vec<(Key<'p>, Bound)> =
            state.iter().filter_map(|(key, _)| Some((*key, after(key)?))).collect();
        return close(walk, site, condition, &before, (inputs, given), body.ops, &results);
    }
    Err("the types of the variables change in each iteration".into())
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
            let name = walk.graph.names.fresh(&format!("{}_in", key.1));
            let mut info = ValueInfo::from(part.value_type().clone());
            walk.graph.symbolize(&mut info);
            Value::new(&name, info)
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
    site: &Site<'p>,
    condition: Key<'p>,
    before: &[(Key<'p>, Option<Bound>)],
    (state, given): (Vec<Value>, Vec<(Key<'p>, Bound)>),
    mut ops: Vec<Op>,
    results: &[(Key<'p>, Bound)],
) -> Outcome {
    // The block: iteration, condition, state -> condition, state.
    let scalar = |name: &str, dtype| Value::new(name, ValueInfo::tensor(dtype, Some(Vec::new())));
    let number = scalar(&walk.graph.names.fresh("iteration"), DType::Int64);
    let goes_on = scalar(&walk.graph.names.fresh("goes_on"), DType::Bool);
    let after = results.iter().find(|(key, _)| *key == condition);
    let Some((_, Bound::Tensor(after, _))) = after else {
        return Err("expected a tensor as `Condition`".into());
    };
    let (more, truth) = walk.apart(|walk| walk.truth(after))?;
    ops.extend(more);
    let mut returned = vec![truth];
    for (_, bound) in results {
        returned.extend(parts(bound)?);
    }
    let (copies, returned) = walk.returned(&ops, &returned)?;
    ops.extend(copies);
    let inputs: Vec<Value> = [number, goes_on].into_iter().chain(state.iter().cloned()).collect();
    let block = walk.add_block(ops, &inputs, &returned)?;
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
    let body = Attribute { name: "body".to_owned(), value: AttributeValue::Block(block) };
    let infos = state.iter().map(|value| value.info().clone()).collect();
    let made = walk.graph.emit_typed("Loop", &operands, [body], infos);
    let mut made = made.into_iter();
    for (key, like) in given {
        let bound = match assembled(&like, &mut made)? {
            Bound::Tensor(value, lod) => Bound::Tensor(walk.named(site, key, &value)?, lod),
            other => other,
        };
        walk.scope.set(key, bound);
    }
    Ok(())
}

impl<'p> Walk<'p> {
    /// Returns an empty array if a variable is declared as one.
    pub(super) fn declared_array(&mut self, key: Key<'p>) -> Outcome<Option<Bound>> {
        let Some(var) = self.scope.declaration(key).filter(|var| var.value.is_array()) else {
            return Ok(None);
        };
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

//! Operators that run blocks, choose between variables, or copy them.

use lodstone_model::{AttributeValue, DType, Op};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::ValueInfo;

use super::variables::Bound;
use super::walk::{Own, Site, Walk};
use crate::frame::Step;
use crate::onnx::{Value, int};
use crate::paddle::operator::Outcome;

pub(super) const OPERATORS: &[(&str, Own)] = &[
    ("assign", |walk, site| assign(walk, site)),
    ("conditional_block", |walk, site| conditional_block(walk, site)),
    ("conditional_block_infer", |walk, site| conditional_block(walk, site)),
    ("increment", |walk, site| increment(walk, site)),
    ("select_input", |walk, site| select_input(walk, site)),
    ("select_output", |walk, site| select_output(walk, site)),
];

/// A variable: the block that declares it, and its name.
pub(super) type Key<'p> = (usize, &'p str);

/// A block that was translated.
pub(super) struct Body<'p> {
    pub(super) ops: Vec<Op>,
    /// What it left in variables of the blocks around it.
    pub(super) written: Vec<(Key<'p>, Step<Bound>)>,
}

impl<'p> Walk<'p> {
    /// Translates a block, whose variables hold `given` at first.
    pub(super) fn body(
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
    pub(super) fn key(&self, block: usize, name: &str) -> Outcome<Key<'p>> {
        self.declaration(block, name).map(|(block, var)| (block, var.name.as_str()))
    }

    /// Returns the block that an operator runs.
    pub(super) fn inner(&self, site: &Site<'_, 'p>) -> Outcome<usize> {
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
pub(super) fn parts(bound: &Bound) -> Outcome<Vec<Value>> {
    match bound {
        Bound::Tensor(value, lod) => {
            Ok(std::iter::once(value.clone()).chain(lod.iter().cloned()).collect())
        }
        Bound::Array(value, _) => Ok(vec![value.clone()]),
        Bound::Ranks(..) => Err("expected a tensor or an array".into()),
    }
}

/// The inverse of [`parts`].
pub(super) fn assembled(like: &Bound, parts: &mut impl Iterator<Item = Value>) -> Outcome<Bound> {
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
pub(super) fn fits(a: &Bound, b: &Bound) -> bool {
    match (a, b) {
        (Bound::Tensor(_, a), Bound::Tensor(_, b)) => a.len() == b.len(),
        (Bound::Array(..), Bound::Array(..)) => true,
        _ => false,
    }
}

/// Returns a value of the same type with as few elements as its dims permit.
pub(super) fn empty_like(walk: &mut Walk<'_>, bound: &Bound) -> Outcome<Bound> {
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

//! Operators of PaddlePaddle 3 alone, as several operators of PaddlePaddle 2.

use lodstone_model::{AttributeValue, DType, Op, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::numbers::{Rank, exact};

use super::attributes;
use super::special::{Rule, arg, result};
use super::walk::{Bound, Walk, attribute, new_op, operand};
use crate::frame::Step;

/// Rules by operator.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("pd_op.copysign", |walk, op| copysign(walk, op)),
    ("pd_op.masked_fill", |walk, op| masked_fill(walk, op)),
    ("pd_op.repeat_interleave", |walk, op| repeat_interleave(walk, op)),
    ("pd_op.swiglu", |walk, op| swiglu(walk, op)),
];

impl Walk<'_> {
    /// Appends an operator of two tensors, and returns its output.
    fn binary(&mut self, kind: &str, x: &str, y: &str, value: ValueType) -> String {
        self.call(kind, &[("X", x), ("Y", y)], vec![attribute("axis", -1)], value)
    }
}

fn boolean(value: &ValueType) -> ValueType {
    let tensor = value.tensor_type().cloned().unwrap_or_default();
    ValueType::Tensor(TensorType { dtype: DType::Bool, ..tensor })
}

/// The magnitude of a tensor with the sign of another one, whose zeros have signs too.
fn copysign<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let (x, y) = (walk.variable(arg(op, 0)?)?, walk.variable(arg(op, 1)?)?);
    let value = result(op)?;
    let (of_y, whole) = (walk.type_of(arg(op, 1)?), walk.type_of(value));
    let zero = |walk: &mut Walk<'_>, of: &str, value: &ValueType| {
        walk.call("fill_any_like", &[("X", of)], vec![attribute("value", 0.0_f32)], value.clone())
    };
    let zeros = zero(walk, &y, &of_y);
    let below = walk.binary("less_than", &y, &zeros, boolean(&of_y));
    let inverse = walk.call("reciprocal", &[("X", &y)], Vec::new(), of_y.clone());
    let beneath = walk.binary("less_than", &inverse, &zeros, boolean(&of_y));
    let sign =
        walk.call("logical_or", &[("X", &below), ("Y", &beneath)], Vec::new(), boolean(&of_y));
    // The sign of each element of the result.
    let size = walk.call("abs", &[("X", &x)], Vec::new(), walk.type_of(arg(op, 0)?));
    let none = zero(walk, &y, &of_y);
    let positive = walk.binary("elementwise_add", &size, &none, whole.clone());
    let signs = walk.cast(&sign, DType::Float32)?;
    let kept = walk.cast(&signs, whole.tensor_type().map_or(DType::Float32, |it| it.dtype))?;
    let factor = walk.call(
        "scale",
        &[("X", &kept)],
        vec![
            attribute("scale", -2.0_f32),
            attribute("bias", 1.0_f32),
            attribute("bias_after_scale", true),
        ],
        of_y,
    );
    let name = walk.result(op, value);
    let axis = vec![attribute("axis", -1)];
    walk.emit(new_op(
        "elementwise_mul",
        &[("X", &positive), ("Y", &factor)],
        &[("Out", &name)],
        axis,
    ));
    Ok(())
}

/// Replaces the elements where a mask is true by a number.
fn masked_fill<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let (x, mask) = (walk.variable(arg(op, 0)?)?, walk.variable(arg(op, 1)?)?);
    let (number, value) = (walk.variable(arg(op, 2)?)?, result(op)?);
    let whole = walk.type_of(value);
    let mask = expanded(walk, &mask, &x, &boolean(&whole))?;
    let number = expanded(walk, &number, &x, &whole)?;
    let name = walk.result(op, value);
    let inputs = [("Condition", mask.as_str()), ("X", &number), ("Y", &x)];
    walk.emit(new_op("where", &inputs, &[("Out", &name)], Vec::new()));
    Ok(())
}

/// Repeats each element along an axis: along a new axis after it, which is then merged into it.
fn repeat_interleave<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let (x, value) = (arg(op, 0)?, result(op)?);
    let integer = |name: &str| op.attribute(name).and_then(attributes::long);
    let repeats = integer("repeats").and_then(|it| i32::try_from(it).ok()).filter(|it| *it > 0);
    let repeats = repeats.ok_or("expected a positive integer as `repeats`")?;
    let of_x = walk.type_of(x);
    let mut tensor = of_x.tensor_type().cloned().unwrap_or_default();
    let dims = tensor.shape.clone().ok_or("rank must be known")?;
    let axis = integer("axis").ok_or("expected an integer as `axis`")?;
    let place = Rank::of(&dims).axis(axis)?.index();
    let axis: i32 = exact(place)?;
    let mut times = vec![1; dims.len() + 1];
    let mut shape = dims;
    shape.insert(place + 1, lodstone_model::Dim::Known(1));
    tensor.shape = Some(shape.clone());
    let x = walk.variable(x)?;
    let apart = walk.fresh("unsqueeze2", ValueType::Tensor(tensor.clone()));
    let axes = vec![attribute("axes", vec![axis + 1])];
    let mut new = new_op("unsqueeze2", &[("X", &x)], &[("Out", &apart)], axes);
    walk.add_shape_output(&mut new, &x);
    walk.emit(new);
    for (at, (time, dim)) in times.iter_mut().zip(&mut shape).enumerate() {
        if at == place + 1 {
            (*time, *dim) = (repeats, lodstone_model::Dim::Known(repeats.unsigned_abs().into()));
        }
    }
    tensor.shape = Some(shape);
    let times = vec![attribute("repeat_times", times)];
    let tiled = walk.call("tile", &[("X", &apart)], times, ValueType::Tensor(tensor));
    let name = walk.result(op, value);
    let axes = vec![attribute("start_axis", axis), attribute("stop_axis", axis + 1)];
    let mut new = new_op("flatten_contiguous_range", &[("X", &tiled)], &[("Out", &name)], axes);
    walk.add_shape_output(&mut new, &tiled);
    walk.emit(new);
    Ok(())
}

/// Expands a tensor to the shape of another one.
fn expanded(walk: &mut Walk<'_>, x: &str, like: &str, value: &ValueType) -> Step<String> {
    let shape = value.tensor_type().and_then(|tensor| tensor.shape.clone()).unwrap_or_default();
    let shape = shape.iter().map(|dim| match dim {
        lodstone_model::Dim::Known(dim) => exact(*dim),
        _ => Ok(-1),
    });
    let shape = AttributeValue::Ints(shape.collect::<Result<_, Finding>>()?);
    let shape = vec![attribute("target_shape", shape)];
    Ok(walk.call("expand_as_v2", &[("X", x), ("Y", like)], shape, value.clone()))
}

/// Multiplies the sigmoid linear unit of a tensor by another one; without it, the halves of the last axis.
fn swiglu<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let mut x = walk.variable(arg(op, 0)?)?;
    let value = result(op)?;
    let whole = walk.type_of(value);
    let y = match op.input("").get(1).filter(|arg| !arg.is_empty()) {
        Some(y) => walk.variable(y)?,
        None => {
            let halves = [walk.fresh("split", whole.clone()), walk.fresh("split", whole.clone())];
            let mut split = new_op(
                "split",
                &[("X", &x)],
                &[],
                vec![
                    attribute("num", 2),
                    attribute("axis", -1),
                    attribute("sections", Vec::<i32>::new()),
                ],
            );
            split.outputs.push(operand("Out", halves.to_vec()));
            walk.emit(split);
            let [first, second] = halves;
            x = first;
            second
        }
    };
    let gate = walk.call("silu", &[("X", &x)], Vec::new(), whole);
    let name = walk.result(op, value);
    let inputs = [("X", gate.as_str()), ("Y", &y)];
    walk.emit(new_op("elementwise_mul", &inputs, &[("Out", &name)], vec![attribute("axis", -1)]));
    Ok(())
}

/// Adds an operand that is a list of integers: returns them if they are constant, and otherwise adds the slot of a tensor
/// or of a list of numbers.
pub(super) fn numbers(
    walk: &mut Walk<'_>,
    op: &Op,
    index: usize,
    new: &mut Op,
    (_, tensor, list): (&str, &str, &str),
) -> Step<Option<Vec<i64>>> {
    let value = super::special::arg(op, index)?;
    match walk.bound(value)? {
        Bound::Variable(name) => {
            let known = walk.constants.get(&name).and_then(|it| attributes::longs(&it.value()));
            if known.is_none() {
                new.inputs.push(operand(tensor, vec![name]));
            }
            Ok(known)
        }
        Bound::List(names) => {
            let names: Vec<String> = names.into_iter().flatten().collect();
            let each =
                names.iter().map(|name| attributes::long(&walk.constants.get(name)?.scalar()?));
            let known = each.collect::<Option<Vec<i64>>>();
            if known.is_none() {
                new.inputs.push(operand(list, names));
            }
            Ok(known)
        }
    }
}

/// Adds an operand that is an integer, as an attribute or in a slot.
pub(super) fn number(
    walk: &mut Walk<'_>,
    op: &Op,
    index: usize,
    new: &mut Op,
    (name, tensor): (&str, &str),
) -> Step {
    let variable = walk.variable(super::special::arg(op, index)?)?;
    let known = walk.constants.get(&variable).and_then(|it| attributes::long(&it.scalar()?));
    match known.map(i32::try_from) {
        Some(Ok(number)) => new.attributes.push(attribute(name, number)),
        Some(Err(_)) => return Err(format!("expected 32 bits as `{name}`").into()),
        None => new.inputs.push(operand(tensor, vec![variable])),
    }
    Ok(())
}

//! Tensors that are generated from scalars and dims.

use lodstone_model::{AttributeValue, DType, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;
use lodstone_schema::onnx::dtype;
use lodstone_store::Blob;

use crate::call::{Call, Outputs, one};
use crate::dims::{MAX_ELEMENTS, at_mut, axis, bounded, dims_from, elements, long};
use crate::narrow::supported;
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Constant", constant),
    Operator::dense("ConstantOfShape", constant_of_shape),
    Operator::dense("EyeLike", eye_like).working(0, 8),
    Operator::dense("OneHot", one_hot).working(0, 2),
    Operator::dense("Range", range).working(0, 16),
];

fn constant(call: &Call<'_>) -> Outputs {
    let made = call.op.attributes.iter().find_map(|attribute| {
        let floats = |values: &[f32], shape: &[usize]| Dense::from_vec(values.to_vec(), shape);
        Some(match (attribute.name.as_str(), &attribute.value) {
            ("value", AttributeValue::Tensor(value)) => {
                Dense::of(value).and_then(|value| supported(&value).cloned())
            }
            ("value_float", AttributeValue::Float(value)) => floats(&[*value], &[]),
            ("value_floats", AttributeValue::Floats(values)) => floats(values, &[values.len()]),
            ("value_int", AttributeValue::Long(value)) => Dense::longs(&[*value]).reshaped([]),
            ("value_ints", AttributeValue::Longs(values)) => Ok(Dense::longs(values)),
            _ => return None,
        })
    });
    one(made.ok_or("no value is a dense tensor of numbers")??)
}

fn constant_of_shape(call: &Call<'_>) -> Outputs {
    let dims = dims_from(&call.list(0)?)?;
    let zero = || Tensor::dense(DType::Float32, vec![1], Blob::memory(vec![0; 4]));
    let value = match call.op.attribute("value") {
        Some(AttributeValue::Tensor(value)) => Tensor::clone(value),
        _ => zero(),
    };
    if value.shape != [1] {
        return Err(format!("expected `value` of the shape [1], found {:?}", value.shape).into());
    }
    let element = supported(&Dense::of(&value)?)?.reshaped(vec![1; dims.len()])?;
    one(element.expanded(&dims)?)
}

/// Returns 1 on a diagonal.
fn eye_like(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let shape = x.shape();
    let [rows, columns] = *shape.as_slice() else {
        return Err(format!("expected a matrix, found {shape:?}").into());
    };
    let to = match call.op.attribute("dtype") {
        Some(AttributeValue::Long(code)) => {
            let to = i32::try_from(*code).ok().and_then(dtype::from_code);
            to.ok_or("expected an element type")?
        }
        _ => x.dtype(),
    };
    let offset = call.int("k", 0);
    let mut values = vec![0.0; bounded(&[rows, columns])?];
    for (row, line) in (0_i64..).zip(values.chunks_mut(columns.max(1))) {
        let column = row.checked_add(offset).and_then(|column| usize::try_from(column).ok());
        if let Some(slot) = column.and_then(|column| line.get_mut(column)) {
            *slot = 1.0;
        }
    }
    one(Dense::numbers(values, to, &shape)?)
}

/// Returns one of two values, the second where the index along the new axis equals the input.
fn one_hot(call: &Call<'_>) -> Outputs {
    let (numbers, values) = (call.input(0)?, call.input(2)?);
    let depth = call.input(1)?.to_doubles()?.first().copied().ok_or("the depth is missing")?;
    if !(0.0..=MAX_ELEMENTS as f64).contains(&depth) {
        return Err(format!("depth {depth} is out of range").into());
    }
    // An index with a fraction never matches.
    let depth = depth.trunc();
    let shape = numbers.shape();
    let at = axis(call.int("axis", -1), shape.len() + 1)?;
    let mut dims = shape.clone();
    dims.insert(at, elements(depth));
    let mut mask = vec![false; bounded(&dims)?];
    let behind: usize = shape.iter().skip(at).product();
    for (place, number) in numbers.to_doubles()?.into_iter().enumerate() {
        let number = if number < 0.0 { number + depth } else { number };
        if !(0.0..depth).contains(&number) {
            continue;
        }
        let (outer, inner) = (place / behind.max(1), place % behind.max(1));
        let target = (outer * elements(depth) + elements(number)) * behind + inner;
        *at_mut(&mut mask, target)? = true;
    }
    let of = |number: usize| {
        let one = values.cut(0, number, number + 1)?;
        one.reshaped([])?.expanded(&dims)
    };
    let (off, on) = (of(0)?, of(1)?);
    if mask.is_empty() {
        return one(off);
    }
    one(off.masked(&Dense::truths(&mask, &dims)?, &on)?)
}

fn range(call: &Call<'_>) -> Outputs {
    let (start, limit, step) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let to = start.dtype();
    if !to.is_float() {
        let number = |item: &Dense| {
            item.to_longs()?.first().copied().ok_or_else(|| Finding::from("the tensor is empty"))
        };
        let (start, limit, step) = (number(start)?, number(limit)?, number(step)?);
        if step == 0 {
            return Err("the step is 0".into());
        }
        let distance = i128::from(limit) - i128::from(start);
        let step_wide = i128::from(step);
        let count = (distance / step_wide + i128::from(distance % step_wide != 0)).max(0);
        let count = exact(if (distance > 0) == (step > 0) { count } else { 0 })?;
        let values = (0..long(bounded(&[count])?))
            .map(|number| start.wrapping_add(number.wrapping_mul(step)));
        let values: Vec<i64> = values.collect();
        return one(Dense::longs(&values).cast_to(to)?);
    }
    let number = |item: &Dense| {
        item.to_doubles()?.first().copied().ok_or_else(|| Finding::from("the tensor is empty"))
    };
    let (start, limit, step) = (number(start)?, number(limit)?, number(step)?);
    let count = ((limit - start) / step).ceil().max(0.0);
    if !count.is_finite() || count > MAX_ELEMENTS as f64 {
        return Err(format!("invalid range from {start} to {limit} by {step}").into());
    }
    let values: Vec<f64> =
        (0..elements(count)).map(|number| start + number as f64 * step).collect();
    let dims = [values.len()];
    one(Dense::numbers(values, to, &dims)?)
}

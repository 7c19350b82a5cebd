//! Assignment to slices.

use lodstone_model::{AttributeValue, DType, Scalar, Tensor};
use lodstone_schema::numbers::Axis;
use lodstone_schema::places::at;
use lodstone_store::Blob;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;
use crate::onnx::indexing::{Bounds, Spans};

pub(super) const RULES: &[(&str, Rule)] = &[("set_value", set_value)];

/// Replaces the elements of a slice: scatters the values to the indices, among all elements, that the slice has.
fn set_value(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("Input")?;
    let axes = op.ints("axes")?;
    let indices = op.element_places(&x)?;
    let slice = if axes.is_empty() {
        indices
    } else {
        let starts = op.numbers("StartsTensorList", "", "starts")?;
        let ends = op.numbers("EndsTensorList", "", "ends")?;
        let steps = op.numbers("StepsTensorList", "", "steps")?;
        let steps = match steps.info().ints() {
            Some(none) if none.is_empty() => op.longs(&vec![1; axes.len()]),
            _ => steps,
        };
        let spans = Spans { axes, starts, ends, steps: Some(steps) };
        op.sliced(&indices, &spans, Bounds::BeforeFirst)?
    };
    let values = values(op, x.dtype())?;
    let values = broadcast(op, &values, &slice)?;
    let y = op.written_at(&x, &slice, &values)?;
    op.put("Out", &y)
}

/// Broadcasts values to the dims of a slice: without those that indices removed, and with those that `None` inserted.
fn broadcast(op: &mut Operator<'_>, values: &Value, slice: &Value) -> Outcome<Value> {
    let (removed, inserted) = (op.ints("decrease_axes")?, op.ints("none_axes")?);
    let rank = slice.rank()?;
    let kept = rank.axes().filter(|axis| !removed.contains(&axis.number()));
    let mut places: Vec<Option<Axis>> = Vec::new();
    let mut none = inserted.iter().copied().peekable();
    for (number, axis) in (0..).zip(kept) {
        while none.next_if(|place| *place <= number).is_some() {
            places.push(None);
        }
        places.push(Some(axis));
    }
    places.extend(none.map(|_| None));
    let dims = match slice.known_dims() {
        Some(dims) => {
            let dim = |place: &Option<Axis>| place.map_or(Ok(1), |axis| at(&dims, axis.index()));
            let dims = places.iter().map(dim).collect::<Outcome<Vec<i64>>>()?;
            op.longs(&dims)
        }
        None => {
            // The last of these dims is that of `None`.
            let (dims, one) = (op.call("Shape", &[slice], [])?, op.longs(&[1]));
            let dims = op.concat(&[&dims, &one], 0)?;
            let places = places.iter().map(|place| place.map_or(rank.number(), Axis::number));
            let places: Vec<i64> = places.collect();
            let places = op.longs(&places);
            op.gather(&dims, &places, 0)?
        }
    };
    op.call("Expand", &[values, &dims], [])
}

/// Returns the values: a tensor, or those of the attribute that belongs to the type.
fn values(op: &mut Operator<'_>, dtype: DType) -> Outcome<Value> {
    if let Some(values) = op.optional("ValueTensor")? {
        return op.cast(&values, dtype);
    }
    let names =
        ["values", "fp32_values", "fp64_values", "int32_values", "int64_values", "bool_values"];
    let found = names.iter().filter_map(|name| op.attribute(name)).find_map(numbers);
    let numbers = found.ok_or("expected values, as a tensor or an attribute")?;
    let shape = op.ints("shape")?;
    let shape = match shape.is_empty() {
        true if numbers.len() == 1 => Vec::new(),
        true => vec![numbers.len() as u64],
        false => {
            let shape = shape.iter().map(|dim| u64::try_from(*dim)).collect::<Result<_, _>>();
            shape.map_err(|_| "expected dims of at least 0 as `shape`")?
        }
    };
    let count = shape.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim));
    if count != Some(numbers.len() as u64) {
        let count = numbers.len();
        return Err(format!("expected {shape:?} values, found {count}").into());
    }
    let (dtype_of, bytes) = match numbers {
        Numbers::Doubles(values) => {
            (DType::Float64, values.iter().flat_map(|value| value.to_le_bytes()).collect())
        }
        Numbers::Longs(values) => {
            (DType::Int64, values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
        }
    };
    let values = op.tensor(Tensor::dense(dtype_of, shape, Blob::memory(bytes)), "values");
    op.cast(&values, dtype)
}

/// Numbers of an attribute.
enum Numbers {
    Doubles(Vec<f64>),
    Longs(Vec<i64>),
}

impl Numbers {
    fn len(&self) -> usize {
        match self {
            Self::Doubles(values) => values.len(),
            Self::Longs(values) => values.len(),
        }
    }
}

/// Returns the numbers of an attribute; `None` if it has none.
fn numbers(attribute: &AttributeValue) -> Option<Numbers> {
    let found = match attribute {
        AttributeValue::Floats(values) => {
            Numbers::Doubles(values.iter().copied().map(f64::from).collect())
        }
        AttributeValue::Doubles(values) => Numbers::Doubles(values.clone()),
        AttributeValue::Ints(values) => {
            Numbers::Longs(values.iter().copied().map(i64::from).collect())
        }
        AttributeValue::Longs(values) => Numbers::Longs(values.clone()),
        AttributeValue::Bools(values) => {
            Numbers::Longs(values.iter().copied().map(i64::from).collect())
        }
        AttributeValue::Scalars(values) => scalars(values)?,
        _ => return None,
    };
    (found.len() > 0).then_some(found)
}

/// Returns scalars as one type: integers, unless there are floats.
fn scalars(values: &[Scalar]) -> Option<Numbers> {
    let long = |value: &Scalar| match value {
        Scalar::Bool(value) => Some(i64::from(*value)),
        Scalar::Long(value) => Some(*value),
        _ => None,
    };
    if let Some(longs) = values.iter().map(long).collect() {
        return Some(Numbers::Longs(longs));
    }
    #[expect(clippy::cast_precision_loss, reason = "one of the others is a float, too")]
    let double = |value: &Scalar| match value {
        Scalar::Double(value) => Some(*value),
        other => long(other).map(|value| value as f64),
    };
    values.iter().map(double).collect::<Option<_>>().map(Numbers::Doubles)
}

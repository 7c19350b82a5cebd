//! Tensors that are generated: filled, ranges, assigned values.

use lodstone_model::{AttributeValue, DType, Tensor};
use lodstone_schema::Finding;
use lodstone_store::Blob;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::indexing::Hot;
use crate::onnx::{Size, Value, tensor};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("assign_value", assign_value),
    ("eye", eye),
    ("fill_any_like", fill_like),
    ("fill_constant", fill),
    ("fill_constant_batch_size_like", fill_batch),
    ("fill_zeros_like", |op| {
        let x = op.input("X")?;
        let y = op.constant_like(&x, x.dtype(), 0.0)?;
        op.put("Out", &y)
    }),
    ("linspace", linspace),
    ("one_hot", |op| one_hot(op, true)),
    ("one_hot_v2", |op| one_hot(op, false)),
    ("range", range),
    ("sequence_mask", sequence_mask),
];

impl Operator<'_> {
    /// Returns a tensor of dims that is filled with the value of the attributes: `str_value` if it is set, since it is
    /// exact, else `value`.
    fn filled_as_set(&mut self, dtype: DType, dims: &Value) -> Outcome<Value> {
        let text = self.text("str_value")?;
        let number: f64 = match text.trim() {
            "" => self.float("value")?.into(),
            text if dtype == DType::Int64 => {
                let value = leading_integer(text).ok_or_else(|| no_number(text))?;
                let value =
                    Tensor::dense(dtype, vec![1], Blob::memory(value.to_le_bytes().to_vec()));
                return self.call("ConstantOfShape", &[dims], [tensor("value", value)]);
            }
            text => text.parse().map_err(|_| no_number(text))?,
        };
        match integers(dtype) {
            Some((least, most)) if !(least..=most).contains(&number.trunc()) => {
                Err(format!("{number} is out of range for {dtype}").into())
            }
            _ => self.filled_by(dtype, number, dims),
        }
    }

    pub(super) fn required_dtype(&self, name: &str) -> Outcome<DType> {
        self.dtype(name)?.ok_or_else(|| format!("expected an element type as `{name}`").into())
    }
}

fn no_number(text: &str) -> Finding {
    format!("expected a number as `str_value`, found `{text}`").into()
}

/// Returns the integer that a text begins with, as C++ reads it from a stream.
fn leading_integer(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = unsigned.find(|one: char| !one.is_ascii_digit()).unwrap_or(unsigned.len());
    text.get(..text.len() - unsigned.len() + digits)?.parse().ok()
}

/// Returns the smallest and the largest integer of an element type.
fn integers(dtype: DType) -> Option<(f64, f64)> {
    Some(match dtype {
        DType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DType::Uint8 => (0.0, u8::MAX.into()),
        DType::Uint16 => (0.0, u16::MAX.into()),
        DType::Uint32 => (0.0, u32::MAX.into()),
        _ => return None,
    })
}

/// Reads the elements from an attribute.
fn assign_value(op: &mut Operator<'_>) -> Outcome {
    let (shape, dtype) = (op.ints("shape")?, op.required_dtype("dtype")?);
    let name = match dtype {
        DType::Bool => "bool_values",
        DType::Int32 => "int32_values",
        DType::Int64 => "int64_values",
        DType::Float32 => "fp32_values",
        DType::Float64 => "fp64_values",
        other => return Err(format!("element type {other} has no values").into()),
    };
    let bytes: Vec<u8> = match (dtype, op.attribute(name)) {
        (DType::Bool, Some(AttributeValue::Ints(values))) => {
            values.iter().map(|value| u8::from(*value != 0)).collect()
        }
        (_, Some(AttributeValue::Bools(values))) => values.iter().map(|v| u8::from(*v)).collect(),
        (_, Some(AttributeValue::Ints(values))) => {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        (_, Some(AttributeValue::Longs(values))) => {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        (_, Some(AttributeValue::Floats(values))) => {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        (_, Some(AttributeValue::Doubles(values))) => {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        _ => return Err(format!("expected values as `{name}`").into()),
    };
    let shape = shape.iter().map(|dim| u64::try_from(*dim)).collect::<Result<Vec<u64>, _>>();
    let shape = shape.map_err(|_| "expected dims of at least 0")?;
    if dtype.size_of(&shape) != Some(bytes.len() as u64) {
        return Err(format!("expected {dtype}{shape:?}, found {} bytes", bytes.len()).into());
    }
    let y = op.tensor(Tensor::dense(dtype, shape, Blob::memory(bytes)), "values");
    op.put("Out", &y)
}

fn fill(op: &mut Operator<'_>) -> Outcome {
    let dtype = op.required_dtype("dtype")?;
    let dims = op.numbers("ShapeTensorList", "ShapeTensor", "shape")?;
    let y = match op.optional("ValueTensor")? {
        Some(value) => {
            let value = op.cast(&value, dtype)?;
            let value = op.reshape(&value, &[])?;
            op.call("Expand", &[&value, &dims], [])?
        }
        None => op.filled_as_set(dtype, &dims)?,
    };
    op.put("Out", &y)
}

fn fill_like(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let (number, dtype) = (op.float("value")?, op.dtype("dtype")?.unwrap_or(x.dtype()));
    let dims = op.call("Shape", &[&x], [])?;
    let y = op.filled_by(dtype, number.into(), &dims)?;
    op.put("Out", &y)
}

/// Copies the batch dim from an input.
fn fill_batch(op: &mut Operator<'_>) -> Outcome {
    let (x, dtype) = (op.input("Input")?, op.required_dtype("dtype")?);
    let (shape, from) = (op.ints("shape")?, op.int("input_dim_idx")?);
    let to = usize::try_from(op.int("output_dim_idx")?).ok();
    let Some((front, [_, back @ ..])) = to.and_then(|to| shape.split_at_checked(to)) else {
        return Err("expected a dim of the result as `output_dim_idx`".into());
    };
    let front = op.longs(front);
    // The number of sequences is the number of offsets minus 1.
    let batch = match op.offsets("Input").filter(|_| from == 0) {
        Some(offsets) => {
            let (count, one) = (op.dim(&offsets, 0)?, op.longs(&[1]));
            op.call("Sub", &[&count, &one], [])?
        }
        None => op.dim(&x, from)?,
    };
    let back = op.longs(back);
    let dims = op.concat(&[&front, &batch, &back], 0)?;
    let y = op.filled_as_set(dtype, &dims)?;
    op.put("Out", &y)
}

/// Indices out of range are rows of zeros. PaddlePaddle raises an error unless that is allowed, which ONNX cannot express.
fn one_hot(op: &mut Operator<'_>, column: bool) -> Outcome {
    let x = op.input("X")?;
    let x: Value = if column {
        let last = op.longs(&[-1]);
        op.call("Squeeze", &[&x, &last], [])?
    } else {
        x
    };
    let depth = match op.optional("depth_tensor")? {
        Some(depth) => Size::Value(op.reshape(&depth, &[])?),
        None => Size::Known(op.int("depth")?),
    };
    let hot = Hot::ones(op.required_dtype("dtype")?);
    let y = op.one_hot(&x, &depth, hot)?;
    op.put("Out", &y)
}

/// Marks the first elements of rows of the given lengths. The rows are as long as the longest, unless that is set.
fn sequence_mask(op: &mut Operator<'_>) -> Outcome {
    let (x, dtype) = (op.input("X")?, op.required_dtype("out_dtype")?);
    let lengths = op.cast(&x, DType::Int64)?;
    let end = match (op.optional("MaxLenTensor")?, op.int("maxlen")?) {
        (Some(end), _) => {
            let end = op.reshape(&end, &[])?;
            op.cast(&end, DType::Int64)?
        }
        (None, end @ 0..) => op.long(end),
        (None, _) => {
            let list = op.reshape(&lengths, &[-1])?;
            op.reduce("ReduceMax", &list, &[0], false)?
        }
    };
    let numbers = op.counting(&end, DType::Int64)?;
    let lengths = op.unsqueeze(&lengths, &[-1])?;
    let y = op.call("Less", &[&numbers, &lengths], [])?;
    let y = op.cast(&y, dtype)?;
    op.put("Y", &y)
}

fn range(op: &mut Operator<'_>) -> Outcome {
    let mut one = |slot: &str| {
        let value = op.input(slot)?;
        op.reshape(&value, &[])
    };
    let (start, end, step) = (one("Start")?, one("End")?, one("Step")?);
    let y = op.call("Range", &[&start, &end, &step], [])?;
    op.put("Out", &y)
}

fn eye(op: &mut Operator<'_>) -> Outcome {
    let (rows, columns, dtype) =
        (op.int("num_rows")?, op.int("num_columns")?, op.required_dtype("dtype")?);
    let columns = if columns == -1 { rows } else { columns };
    let none = op.filled(dtype, 0.0, &[rows, columns])?;
    let y = op.call("EyeLike", &[&none], [])?;
    op.put("Out", &y)
}

/// Evenly spaced values, of which the first half is computed from the start, the other from the end; in
/// `float64`.
fn linspace(op: &mut Operator<'_>) -> Outcome {
    let dtype = op.required_dtype("dtype")?;
    let mut one = |slot: &str| {
        let value = op.input(slot)?;
        let value = op.reshape(&value, &[])?;
        op.cast(&value, DType::Float64)
    };
    let (start, stop, count) = (one("Start")?, one("Stop")?, one("Num")?);
    let numbers = {
        let (zero, one) = (op.number(DType::Float64, 0.0)?, op.number(DType::Float64, 1.0)?);
        op.call("Range", &[&zero, &count, &one], [])?
    };
    let last = op.plus(&count, -1.0)?;
    let one = op.number(DType::Float64, 1.0)?;
    let steps = op.call("Max", &[&last, &one], [])?;
    let whole = op.sub(&stop, &start)?;
    let step = op.div(&whole, &steps)?;
    let half = op.times(&count, 0.5)?;
    let half = op.call("Floor", &[&half], [])?;
    let half = op.call("Max", &[&half, &one], [])?;
    let is_first = op.call("Less", &[&numbers, &half], [])?;
    let forward = op.mul(&numbers, &step)?;
    let forward = op.add(&start, &forward)?;
    let left = op.sub(&last, &numbers)?;
    let back = op.mul(&left, &step)?;
    let back = op.sub(&stop, &back)?;
    let y = op.choose(&is_first, &forward, &back)?;
    let y = op.cast(&y, dtype)?;
    op.put("Out", &y)
}

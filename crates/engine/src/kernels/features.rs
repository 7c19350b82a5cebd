//! Features of `ai.onnx.ml`: selection, thresholds, and labels.

use std::collections::HashMap;

use bytes::Bytes;
use lodstone_model::{AttributeValue, DType, Op};
use lodstone_schema::Finding;

use super::indexing::places;
use super::sequence::value;
use crate::budget::Memory;
use crate::call::{Call, Outputs, one};
use crate::dims::bounded;
use crate::error::Outcome;
use crate::operator::{ML, Operator};
use crate::tensor::Dense;
use crate::tensor::element::bits;
use crate::value::{STRING, Strings, Value};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("ArrayFeatureExtractor", extract).domain(ML).working(0, 4).moves(),
    Operator::dense("Binarizer", binarize).domain(ML).working(0, 16),
    Operator::values("LabelEncoder", encode).domain(ML),
];

/// Selects elements of the last axis; a vector is one row.
fn extract(call: &Call<'_>) -> Outputs {
    let (x, numbers) = (call.input(0)?.clone(), call.input(1)?);
    let shape = x.shape();
    let Some((dim, before)) = shape.split_last() else {
        return Err("expected at least one dim".into());
    };
    let made = x.selected(before.len(), &places(numbers, *dim)?)?;
    let whole = if before.is_empty() { [vec![1], made.shape()].concat() } else { made.shape() };
    one(made.reshaped(whole)?)
}

/// Returns 1 where elements are above a threshold, and 0 elsewhere.
fn binarize(call: &Call<'_>) -> Outputs {
    let (x, threshold) = (call.input(0)?, f64::from(call.float("threshold", 0.0)));
    let above = |value: f64| f64::from(u8::from(value > threshold));
    let made = x.to_doubles()?.into_iter().map(above).collect();
    one(Dense::numbers(made, x.dtype(), &x.shape())?)
}

/// A label: its bytes, which are equal for equal keys.
type Label = Bytes;

/// A list of labels of one type.
struct Labels {
    dtype: DType,
    list: Vec<Label>,
}

impl Labels {
    /// Reads the list whose attribute begins with `prefix`: `keys_int64s`, for one.
    fn of(op: &Op, prefix: &str) -> Outcome<Self> {
        let found = ["tensor", "strings", "int64s", "floats"]
            .iter()
            .find_map(|kind| op.attribute(&format!("{prefix}_{kind}")));
        let (dtype, list) = match found {
            Some(AttributeValue::Strings(texts)) => {
                let bytes = |text: String| Bytes::from(text.into_bytes());
                (DType::String, texts.iter().map(|text| bytes(text.to_string())).collect())
            }
            Some(AttributeValue::Longs(values)) => {
                let bytes = |value: &i64| Bytes::copy_from_slice(&value.to_le_bytes());
                (DType::Int64, values.iter().map(bytes).collect())
            }
            Some(AttributeValue::Floats(values)) => {
                let bytes = |value: &f32| Bytes::copy_from_slice(&value.to_le_bytes());
                (DType::Float32, values.iter().map(bytes).collect())
            }
            Some(AttributeValue::Tensor(tensor)) => return Self::from_value(&Value::of(tensor)?),
            _ => return Err(format!("`{prefix}` is missing").into()),
        };
        Ok(Self { dtype, list })
    }

    fn from_value(value: &Value) -> Outcome<Self> {
        Ok(match value {
            Value::Strings(strings) => {
                Self { dtype: DType::String, list: strings.elements().to_vec() }
            }
            value => {
                let dense = value.dense()?;
                let size = (dense.bits() as usize / 8).max(1);
                let bytes = dense.bytes()?;
                let list = bytes.chunks_exact(size).map(Bytes::copy_from_slice).collect();
                Self { dtype: dense.dtype(), list }
            }
        })
    }

    /// Makes all NaNs equal, and both zeros.
    fn normalized(mut self) -> Self {
        for label in &mut self.list {
            let number = match (self.dtype, label.as_ref()) {
                (DType::Float32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
                (DType::Float64, &[a, b, c, d, e, f, g, h]) => {
                    f64::from_le_bytes([a, b, c, d, e, f, g, h])
                }
                _ => continue,
            };
            if number.is_nan() {
                *label = Bytes::from_static(b"NaN");
            } else if number == 0.0 {
                *label = vec![0; label.len()].into();
            }
        }
        self
    }
}

/// Replaces keys by values, and other elements by a default.
fn encode(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let x = value(inputs, 0)?;
    let (keys, values) = match op.attribute("classes_strings") {
        Some(AttributeValue::Strings(_)) => classes(op, x)?,
        _ => (Labels::of(op, "keys")?.normalized(), Labels::of(op, "values")?),
    };
    let count = match x {
        Value::Strings(strings) => strings.elements().len(),
        x => x.dense()?.count(),
    };
    // A label and its value, and the bytes of values.
    let _labels = memory.reserve((count as u64).saturating_mul(2 * STRING + 8))?;
    let (labels, dims) = (Labels::from_value(x)?.normalized(), dims(x)?);
    if labels.dtype != keys.dtype {
        return Err(format!("keys of {} do not match {}", keys.dtype, labels.dtype).into());
    }
    let default = default(op, values.dtype)?;
    let mut table = HashMap::new();
    for (key, value) in keys.list.into_iter().zip(values.list) {
        table.entry(key).or_insert(value);
    }
    let found = labels.list.iter().map(|label| table.get(label).unwrap_or(&default).clone());
    if values.dtype == DType::String {
        return Ok(vec![Value::Strings(Strings::new(dims, found.collect())?)]);
    }
    bounded(&dims)?;
    let bytes: Vec<Bytes> = found.collect();
    Ok(vec![Dense::new(values.dtype, dims, bytes.concat().into())?.into()])
}

/// Returns the strings and their indices of version 1, in the direction of the input's type.
fn classes(op: &Op, x: &Value) -> Outcome<(Labels, Labels)> {
    let texts = Labels::of(op, "classes")?;
    let indices = (0_i64..).take(texts.list.len());
    let list = indices.map(|index| Bytes::copy_from_slice(&index.to_le_bytes())).collect();
    let indices = Labels { dtype: DType::Int64, list };
    Ok(if matches!(x, Value::Strings(_)) { (texts, indices) } else { (indices, texts) })
}

fn dims(value: &Value) -> Outcome<Vec<usize>> {
    let dims = match value {
        Value::Strings(strings) => strings.dims(),
        value => value.dense()?.dims(),
    };
    bounded(dims)?;
    Ok(dims.to_vec())
}

/// Returns the value of elements that are not keys.
fn default(op: &Op, dtype: DType) -> Outcome<Label> {
    if let Some(AttributeValue::Tensor(tensor)) = op.attribute("default_tensor") {
        let labels = Labels::from_value(&Value::of(tensor)?)?;
        return match (labels.dtype == dtype, labels.list.first()) {
            (true, Some(label)) => Ok(label.clone()),
            _ => Err(Finding::from(format!("expected one {dtype} in `default_tensor`"))),
        };
    }
    Ok(match (dtype, op.attribute(&format!("default_{}", name(dtype)))) {
        (DType::String, Some(AttributeValue::String(text))) => text.to_string().into_bytes().into(),
        (DType::String, _) => Bytes::from_static(b"_Unused"),
        (DType::Int64, Some(AttributeValue::Long(value))) => {
            Bytes::copy_from_slice(&value.to_le_bytes())
        }
        (DType::Int64, _) => Bytes::copy_from_slice(&(-1_i64).to_le_bytes()),
        (DType::Float32, Some(AttributeValue::Float(value))) => {
            Bytes::copy_from_slice(&value.to_le_bytes())
        }
        (DType::Float32, _) => Bytes::copy_from_slice(&(-0.0_f32).to_le_bytes()),
        (other, _) => vec![0; bits(other)? as usize / 8].into(),
    })
}

fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::String => "string",
        DType::Int64 => "int64",
        _ => "float",
    }
}

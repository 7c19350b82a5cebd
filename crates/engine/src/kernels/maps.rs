//! Maps of `ai.onnx.ml`: from labels to scores, and to vectors.

use std::collections::HashMap;

use bytes::Bytes;
use lodstone_model::{AttributeValue, DType, Op};
use lodstone_schema::Finding;

use super::sequence::{attribute, value};
use crate::budget::Memory;
use crate::call::Outputs;
use crate::dims::{bounded, count, dim_at, whole};
use crate::error::Outcome;
use crate::operator::{ML, Operator};
use crate::tensor::Dense;
use crate::value::{Map, STRING, Strings, VALUE, Value};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("CastMap", cast).domain(ML),
    Operator::values("DictVectorizer", vectorize).domain(ML),
    Operator::values("ZipMap", zip).domain(ML),
];

/// The maximum number of values of a sparse map, which only an attribute determines.
const MAX_CELLS: usize = 1 << 24;

/// The memory of a key or a value in a list or a table, in bytes, with that of a row of results.
const ENTRY: u64 = 2 * size_of::<Scalar>() as u64 + STRING;

/// A key or a value of a map.
#[derive(Clone)]
enum Scalar {
    Number(f64),
    Long(i64),
    Text(Bytes),
}

impl Scalar {
    /// Returns bytes that are equal for equal keys alone.
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Number(value) => [&[0][..], &value.to_le_bytes()].concat(),
            Self::Long(value) => [&[1][..], &value.to_le_bytes()].concat(),
            Self::Text(text) => [&[2][..], text].concat(),
        }
    }
}

/// Returns the elements of a tensor.
fn scalars(value: &Value) -> Outcome<Vec<Scalar>> {
    match value {
        Value::Strings(texts) => {
            Ok(texts.elements().iter().map(|text| Scalar::Text(text.clone())).collect())
        }
        value => {
            let dense = value.dense()?;
            match dense.dtype() {
                DType::Float32 | DType::Float64 => {
                    Ok(dense.to_f64()?.into_iter().map(Scalar::Number).collect())
                }
                _ => Ok(dense.to_longs()?.into_iter().map(Scalar::Long).collect()),
            }
        }
    }
}

fn scalar(value: &Value) -> Outcome<Scalar> {
    match scalars(value)?.as_slice() {
        [one] => Ok(one.clone()),
        other => Err(format!("expected one value of each key, found {}", other.len()).into()),
    }
}

/// Returns the entries of a map.
fn entries(value: &Value) -> Outcome<Vec<(Scalar, Scalar)>> {
    let Value::Map(map) = value else {
        return Err(format!("expected a map, found {}", value.kind()).into());
    };
    let values = map.values.iter().map(scalar).collect::<Outcome<Vec<_>>>()?;
    Ok(scalars(&map.keys)?.into_iter().zip(values).collect())
}

/// Returns a list attribute.
fn list(op: &Op, name: &str) -> Option<Value> {
    match op.attribute(name)? {
        AttributeValue::Strings(texts) if !texts.is_empty() => {
            let texts: Vec<Bytes> =
                texts.iter().map(|text| Bytes::copy_from_slice(&text.0)).collect();
            Strings::new(vec![texts.len()], texts).ok().map(Value::Strings)
        }
        AttributeValue::Longs(numbers) if !numbers.is_empty() => {
            Some(Value::Dense(Dense::longs(numbers)))
        }
        _ => None,
    }
}

/// Returns a row of values of one type.
fn row(values: &[Scalar], dtype: DType) -> Outcome<Value> {
    let dims = vec![1, values.len()];
    bounded(&dims)?;
    let wrong = || Finding::from("the values of the map differ in type");
    if dtype == DType::String {
        let text = |value: &Scalar| match value {
            Scalar::Text(text) => Ok(text.clone()),
            _ => Err(wrong()),
        };
        let texts = values.iter().map(text).collect::<Outcome<_>>()?;
        return Ok(Value::Strings(Strings::new(dims, texts)?));
    }
    let kind = dtype;
    let longs = values.iter().map(|value| match value {
        Scalar::Long(value) => Some(*value),
        _ => None,
    });
    if let Some(longs) = longs.collect::<Option<Vec<i64>>>().filter(|_| !kind.is_float()) {
        return Ok(Dense::longs(&longs).reshaped(dims)?.cast_to(kind)?.into());
    }
    let number = |value: &Scalar| match value {
        Scalar::Number(value) => Ok(*value),
        _ => Err(wrong()),
    };
    let numbers = values.iter().map(number).collect::<Outcome<_>>()?;
    Ok(Dense::numbers(numbers, kind, &dims)?.into())
}

/// Returns the number of entries of a map.
fn pairs_of(value: &Value) -> u64 {
    match value {
        Value::Map(map) => map.values.len() as u64,
        _ => 0,
    }
}

/// Returns the number of elements of a list attribute.
fn length(op: &Op, name: &str) -> u64 {
    match op.attribute(name) {
        Some(AttributeValue::Strings(texts)) => texts.len() as u64,
        Some(AttributeValue::Longs(numbers)) => numbers.len() as u64,
        _ => 0,
    }
}

/// Returns the values of the keys of a vocabulary; those of missing keys are 0 or empty.
fn vectorize(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let input = value(inputs, 0)?;
    let words = ["string_vocabulary", "int64_vocabulary"].iter().map(|name| length(op, name));
    let entries_of = pairs_of(input).saturating_add(words.sum());
    let _entries = memory.reserve(entries_of.saturating_mul(4 * ENTRY))?;
    let map = entries(input)?;
    let vocabulary = list(op, "string_vocabulary").or_else(|| list(op, "int64_vocabulary"));
    let keys = scalars(&vocabulary.ok_or("expected a vocabulary, found none")?)?;
    let dtype = match input {
        Value::Map(map) => map
            .values
            .first()
            .map_or(Ok(DType::Float32), |value| Ok::<_, Finding>(value.info()?.dtype()))?,
        _ => DType::Float32,
    };
    let default = match dtype {
        DType::String => Scalar::Text(Bytes::new()),
        DType::Float32 | DType::Float64 => Scalar::Number(0.0),
        _ => Scalar::Long(0),
    };
    let known: HashMap<Vec<u8>, &Scalar> =
        map.iter().map(|(key, value)| (key.bytes(), value)).collect();
    let find = |key: &Scalar| (*known.get(&key.bytes()).unwrap_or(&&default)).clone();
    let values: Vec<Scalar> = keys.iter().map(find).collect();
    Ok(vec![row(&values, dtype)?])
}

/// Returns the values of a map in the order of their integer keys; in the sparse form, a key is the index of its value.
fn cast(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let text = |name: &str| match op.attribute(name) {
        Some(AttributeValue::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let mut map = Vec::new();
    let input = value(inputs, 0)?;
    let _entries = memory.reserve(pairs_of(input).saturating_mul(2 * ENTRY))?;
    for (key, value) in entries(input)? {
        let Scalar::Long(key) = key else { return Err("expected keys that are integers".into()) };
        map.push((key, value));
    }
    map.sort_by_key(|(key, _)| *key);
    let (dtype, pad) = match text("cast_to").as_str() {
        "" | "TO_FLOAT" => (DType::Float32, Scalar::Number(0.0)),
        "TO_INT64" => (DType::Int64, Scalar::Long(0)),
        "TO_STRING" => (DType::String, Scalar::Text(Bytes::from_static(b"0.f"))),
        other => return Err(format!("`cast_to` `{other}` is not known").into()),
    };
    let _cells;
    let values = match text("map_form").as_str() {
        "" | "DENSE" => map.iter().map(|(_, value)| converted(value, dtype)).collect(),
        "SPARSE" => {
            let cells = count(attribute(op, "max_map", 1))?;
            if cells > MAX_CELLS {
                return Err(format!("`max_map` {cells} exceeds the limit of {MAX_CELLS}").into());
            }
            _cells = memory.reserve((cells as u64).saturating_mul(ENTRY))?;
            let mut values = vec![pad; cells];
            for (key, value) in map {
                let cell = count(key)?;
                if let Some(cell) = values.get_mut(cell) {
                    *cell = converted(&value, dtype)?;
                }
            }
            Ok(values)
        }
        other => Err(format!("`map_form` `{other}` is not known").into()),
    };
    Ok(vec![row(&values?, dtype)?])
}

/// Converts a value of a map.
fn converted(value: &Scalar, to: DType) -> Outcome<Scalar> {
    let wrong = |text: &Bytes| format!("`{}` is not a number", String::from_utf8_lossy(text));
    Ok(match (value, to) {
        (Scalar::Text(text), DType::String) => Scalar::Text(text.clone()),
        (Scalar::Number(value), DType::String) => Scalar::Text(format!("{value:.6}").into()),
        (Scalar::Number(value), DType::Int64) => Scalar::Long(whole(*value)),
        (Scalar::Number(value), _) => Scalar::Number(*value),
        (Scalar::Text(text), to) => {
            let found = std::str::from_utf8(text).map_err(|_| wrong(text))?.trim_start();
            match to {
                DType::Int64 => Scalar::Long(found.parse().map_err(|_| wrong(text))?),
                _ => Scalar::Number(found.parse().map_err(|_| wrong(text))?),
            }
        }
        (Scalar::Long(_), _) => return Err("expected floats or strings".into()),
    })
}

/// Returns a sequence of maps from labels to scores, one for each row.
fn zip(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let x = value(inputs, 0)?.dense()?;
    let keys = list(op, "classlabels_strings").or_else(|| list(op, "classlabels_int64s"));
    let keys = keys.ok_or("expected labels, found none")?;
    let labels = scalars(&keys)?.len();
    if x.dims().last() != Some(&labels) {
        return Err(format!("expected {labels} scores in each row, found {:?}", x.dims()).into());
    }
    // A list of rows, and in each map the keys and a value for each of them.
    let count = if x.dims().len() == 2 { dim_at(x.dims(), 0)? } else { 1 };
    let handles = bounded(&[count, labels.saturating_add(4)])? as u64;
    let _handles = memory.reserve(handles.saturating_mul(VALUE))?;
    let rows: Vec<Dense> = match x.dims().len() {
        1 => vec![x.clone()],
        2 => (0..count).map(|at| x.index(0, at)).collect::<Outcome<_>>()?,
        rank => return Err(format!("expected 1 or 2 dims, found {rank}").into()),
    };
    let map = |row: Dense| {
        let score = |at| row.index(0, at).map(Value::from);
        let scores = (0..labels).map(score).collect::<Outcome<_>>()?;
        Ok::<_, Finding>(Value::Map(Map::new(keys.clone(), scores)))
    };
    Ok(vec![Value::Sequence(rows.into_iter().map(map).collect::<Outcome<_>>()?)])
}

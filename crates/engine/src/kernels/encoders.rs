//! Scaling and encoding of features, of `ai.onnx.ml`.

use std::collections::HashMap;

use bytes::Bytes;
use lodstone_model::{AttributeValue, DType, Op};
use lodstone_schema::Finding;

use super::scores::{Rows, scored};
use super::sequence::{attribute, value};
use crate::budget::Memory;
use crate::call::{Call, Outputs, one};
use crate::dims::{bounded, count};
use crate::error::Outcome;
use crate::operator::{ML, Operator};
use crate::tensor::Dense;
use crate::value::{Strings, Value};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("CategoryMapper", map_categories).domain(ML),
    Operator::dense("FeatureVectorizer", join).domain(ML).working(8, 8),
    Operator::dense("Imputer", impute).domain(ML).working(0, 16),
    Operator::dense("Normalizer", normalize).domain(ML).working(0, 16),
    Operator::values("OneHotEncoder", one_hot).domain(ML),
    Operator::dense("Scaler", scale).domain(ML).working(0, 20),
];

/// Returns the number of features of a row.
fn features(shape: &[usize]) -> Outcome<usize> {
    match *shape {
        [] => Err("expected rows of features, found a scalar".into()),
        [features] => Ok(features),
        [_, features, ..] => Ok(features),
    }
}

/// Subtracts an offset and multiplies by a scale, one for all or one for each feature.
fn scale(call: &Call<'_>) -> Outputs {
    let (x, offsets, scales) = (call.input(0)?, call.floats("offset"), call.floats("scale"));
    let features = features(&x.shape())?;
    if offsets.len() != scales.len() || ![1, features].contains(&scales.len()) {
        let found = (offsets.len(), scales.len());
        return Err(format!("expected 1 or {features} offsets and scales, found {found:?}").into());
    }
    let pairs: Vec<(f64, f64)> =
        offsets.iter().zip(scales).map(|(a, b)| (f64::from(*a), f64::from(*b))).collect();
    let is_single = x.dtype() != DType::Float64;
    let of = |(value, (offset, scale)): (f64, &(f64, f64))| match is_single {
        true => f64::from(single(value - offset)) * scale,
        false => (value - offset) * scale,
    };
    let numbers = if is_single { x.cast_to(DType::Float32)? } else { x.clone() };
    let made = numbers.to_doubles()?.into_iter().zip(pairs.iter().cycle()).map(of).collect();
    one(Dense::numbers(made, DType::Float32, &x.shape())?)
}

#[expect(clippy::cast_possible_truncation, reason = "it rounds to single precision")]
fn single(value: f64) -> f32 {
    value as f32
}

/// Divides each row by its maximum or a norm; rows of 0 stay the same.
fn normalize(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let norm = call.text("norm").unwrap_or_else(|| "MAX".to_owned());
    let of = |row: &[f32]| -> Outcome<Vec<f32>> {
        let whole = match norm.as_str() {
            "MAX" => row.iter().copied().fold(f32::MIN, f32::max),
            "L1" => row.iter().map(|value| value.abs()).sum(),
            "L2" => row.iter().map(|value| value * value).sum(),
            other => return Err(format!("`norm` `{other}` is not known").into()),
        };
        let share = |value: &f32| match norm.as_str() {
            _ if whole == 0.0 => *value,
            "L2" => (value * value / whole).sqrt().copysign(*value),
            _ => value / whole,
        };
        Ok(row.iter().map(share).collect())
    };
    let rows = Rows::of(x)?;
    let made = rows.each().map(of).collect::<Outcome<Vec<_>>>()?;
    one(scored(made, rows.features)?.reshaped(x.shape())?)
}

/// Replaces one value, which may be NaN, by another one: one for all, or one for each feature.
fn impute(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let (shape, kind) = (x.shape(), x.dtype());
    let features = features(&shape)?;
    let empty = || Finding::from("expected imputed values, found none");
    if !kind.is_float() {
        let new = call.ints("imputed_value_int64s").filter(|new| !new.is_empty());
        let new = new.ok_or_else(empty)?;
        let new = if new.len() == features { new } else { new.get(..1).unwrap_or_default() };
        let old = call.int("replaced_value_int64", 0);
        let pairs = x.to_longs()?.into_iter().zip(new.iter().cycle());
        let made: Vec<i64> = pairs.map(|(x, new)| if x == old { *new } else { x }).collect();
        return one(Dense::longs(&made).reshaped(shape)?.cast_to(kind)?);
    }
    let new = call.floats("imputed_value_floats");
    let new = if new.len() == features { new } else { new.get(..1).ok_or_else(empty)? };
    let old = f64::from(call.float("replaced_value_float", 0.0));
    let pairs = x.to_doubles()?.into_iter().zip(new.iter().cycle());
    let is_old = |x: f64| x == old || (x.is_nan() && old.is_nan());
    let made = pairs.map(|(x, new)| if is_old(x) { f64::from(*new) } else { x }).collect();
    one(Dense::numbers(made, kind, &shape)?)
}

/// Concatenates the first features of each input, as many as the attribute has; missing ones are 0.
fn join(call: &Call<'_>) -> Outputs {
    let parts = call.all().iter().map(flat).collect::<Outcome<Vec<_>>>()?;
    let widths = call.ints("inputdimensions").unwrap_or_default();
    let widths = widths.iter().map(|width| count(*width)).collect::<Outcome<Vec<_>>>()?;
    let rows = parts.first().ok_or("the inputs are missing")?.count;
    if parts.len() != widths.len() || parts.iter().any(|part| part.count != rows) {
        return Err(format!("expected {} inputs of {rows} rows", widths.len()).into());
    }
    let width = widths.iter().try_fold(0_usize, |sum, width| sum.checked_add(*width));
    let width = width.ok_or("there are too many features")?;
    bounded(&[rows, width])?;
    let mut made = vec![Vec::new(); rows];
    for (part, width) in parts.iter().zip(&widths) {
        for (row, found) in made.iter_mut().zip(part.each()) {
            row.extend(found.iter().copied().chain(std::iter::repeat(0.0)).take(*width));
        }
    }
    one(scored(made, width)?)
}

/// Returns rows of all elements behind the first dim.
fn flat(x: &Dense) -> Outcome<Rows> {
    let shape = x.shape();
    match shape.as_slice() {
        [rows, behind @ ..] if behind.len() != 1 && !behind.is_empty() => {
            Rows::of(&x.reshaped(vec![*rows, behind.iter().product()])?)
        }
        _ => Rows::of(x),
    }
}

/// The categories of an operator.
struct Categories {
    texts: Vec<Bytes>,
    numbers: Vec<i64>,
}

impl Categories {
    fn of(op: &Op) -> Self {
        let texts = match op.attribute("cats_strings") {
            Some(AttributeValue::Strings(texts)) => {
                texts.iter().map(|text| Bytes::copy_from_slice(&text.0)).collect()
            }
            _ => Vec::new(),
        };
        let numbers = match op.attribute("cats_int64s") {
            Some(AttributeValue::Longs(numbers)) => numbers.clone(),
            _ => Vec::new(),
        };
        Self { texts, numbers }
    }
}

/// Returns the index of each key; of equal keys, the last one counts.
fn table<K: std::hash::Hash + Eq>(keys: &[K]) -> HashMap<&K, usize> {
    keys.iter().enumerate().map(|(at, key)| (key, at)).collect()
}

/// The memory of the index of a category and of two copies of its number, in bytes.
const INDEX: u64 = size_of::<Option<usize>>() as u64 + 16;

/// Returns the number of elements of a tensor.
fn elements(x: &Value) -> u64 {
    match x {
        Value::Strings(x) => x.elements().len() as u64,
        Value::Dense(x) => x.count() as u64,
        _ => 0,
    }
}

/// Returns the index of the category of each element, and the dims.
fn indices(x: &Value, categories: &Categories) -> Outcome<(Vec<Option<usize>>, Vec<usize>)> {
    match x {
        Value::Strings(x) => {
            let known = table(&categories.texts);
            let places = x.elements().iter().map(|text| known.get(text).copied()).collect();
            Ok((places, x.dims().to_vec()))
        }
        x => {
            let known = table(&categories.numbers);
            let numbers = x.dense()?.cast_to(DType::Int64)?;
            let places = numbers.to_longs()?.iter().map(|it| known.get(it).copied()).collect();
            Ok((places, numbers.shape()))
        }
    }
}

/// Strings to integers, and integers to strings.
fn map_categories(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let (x, categories) = (value(inputs, 0)?, Categories::of(op));
    let _places = memory.reserve(elements(x).saturating_mul(INDEX))?;
    let (places, dims) = indices(x, &categories)?;
    if let Value::Strings(_) = x {
        let default = attribute(op, "default_int64", -1);
        let number = |at: Option<usize>| at.and_then(|at| categories.numbers.get(at).copied());
        let made: Vec<i64> = places.into_iter().map(|at| number(at).unwrap_or(default)).collect();
        return Ok(vec![Dense::longs(&made).reshaped(dims)?.into()]);
    }
    let default = match op.attribute("default_string") {
        Some(AttributeValue::String(text)) => Bytes::copy_from_slice(&text.0),
        _ => Bytes::from_static(b"_Unused"),
    };
    let text = |at: Option<usize>| at.and_then(|at| categories.texts.get(at)).unwrap_or(&default);
    let made = places.into_iter().map(|at| text(at).clone()).collect();
    Ok(vec![Value::Strings(Strings::new(dims, made)?)])
}

/// Adds a dim with a 1 for the category of each element, and zeros for the others.
fn one_hot(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let categories = Categories::of(op);
    let number = categories.numbers.len().max(categories.texts.len());
    let x = value(inputs, 0)?;
    let _places = memory.reserve(elements(x).saturating_mul(INDEX))?;
    let (places, mut dims) = indices(x, &categories)?;
    if attribute(op, "zeros", 1) == 0 && places.contains(&None) {
        return Err("an element has no category".into());
    }
    dims.push(number);
    let _numbers = memory.reserve((bounded(&dims)? as u64).saturating_mul(16))?;
    let mut made = vec![0_i64; bounded(&dims)?];
    for (row, place) in made.chunks_mut(number.max(1)).zip(places) {
        place.and_then(|at| row.get_mut(at)).into_iter().for_each(|cell| *cell = 1);
    }
    Ok(vec![Dense::longs(&made).reshaped(dims)?.cast_to(DType::Float32)?.into()])
}

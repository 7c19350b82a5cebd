//! Values of attributes.

use std::borrow::Cow;

use lodstone_model::{
    Attribute, AttributeValue, ByteString, Complex, MAX_DEPTH, Scalar, ValueType,
};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use serde_json::{Error, Result, Value};

use super::json::Typed;
use super::types::value_type;

/// Maximum bytes of a value of an attribute whose type is not supported, and of the flags of a parameter: there are
/// no large ones, and their values may be of any kind.
const MAX_OTHER: usize = 64 << 10;

/// Parses a part of a type or a value.
pub(super) fn part<'a, T: Deserialize<'a>>(text: Option<&'a RawValue>) -> Result<T> {
    let text = text.ok_or_else(|| Error::custom("missing field `D`"))?;
    serde_json::from_str(text.get())
}

/// Parses values of any kind, if there are few.
pub(super) fn few(text: Option<&RawValue>) -> Result<Value> {
    match text.map(RawValue::get) {
        Some(text) if text.len() > MAX_OTHER => {
            Err(Error::custom(format!("expected at most {MAX_OTHER} bytes, found {}", text.len())))
        }
        Some(text) => serde_json::from_str(text),
        None => Ok(Value::Null),
    }
}

/// Returns the value of an attribute. Lists of one type become lists of numbers or strings.
pub(super) fn attribute_value(typed: &Typed<'_>) -> Result<AttributeValue> {
    value_at(typed, 0)
}

/// Fails with the parser's own message if types and values are nested deeper than [`MAX_DEPTH`]: each level is parsed
/// separately, so the parser cannot count them.
pub(super) fn check_depth(depth: usize) -> Result<()> {
    match depth <= MAX_DEPTH {
        true => Ok(()),
        false => Err(Error::custom("recursion limit exceeded")),
    }
}

fn value_at(typed: &Typed<'_>, depth: usize) -> Result<AttributeValue> {
    check_depth(depth)?;
    let data = typed.data;
    Ok(match &*typed.id {
        "NULL" => AttributeValue::None,
        "0.a_bool" => AttributeValue::Bool(part(data)?),
        // Which integers have 32 bits differs between the versions of the format.
        "0.a_i32" | "0.a_i64" | "0.a_index" => AttributeValue::Long(part(data)?),
        #[expect(clippy::cast_possible_truncation, reason = "the file holds a widened float")]
        "0.a_f32" => AttributeValue::Float(double(typed)? as f32),
        "0.a_f64" => AttributeValue::Double(double(typed)?),
        "0.a_str" | "0.a_tensorname" | "1.a_dtype" | "1.a_layout" => {
            AttributeValue::String(text(data)?)
        }
        "0.a_c64" | "0.a_c128" => {
            let [re, im] = part(data)?;
            AttributeValue::Scalar(Scalar::Complex(Complex { re, im }))
        }
        "0.a_type" => AttributeValue::Type(Box::new(type_of(data)?)),
        "0.a_array" => array(data, depth)?,
        "1.a_intarray" => AttributeValue::Longs(part(data)?),
        "1.a_scalar" => scalar(data)?,
        // The kind of memory, the number of the device, and its type.
        "1.a_place" => plain(&few(data)?)?,
        _ => other(typed)?,
    })
}

fn text(data: Option<&RawValue>) -> Result<ByteString> {
    let text: Cow<'_, str> = part(data)?;
    Ok(ByteString::from(&*text))
}

fn type_of(data: Option<&RawValue>) -> Result<ValueType> {
    value_type(&part(data)?, 0)
}

/// Returns a number. PaddlePaddle writes numbers that JSON cannot express as text; its own reader expects NaN in
/// capitals.
fn double(typed: &Typed<'_>) -> Result<f64> {
    match typed.special.as_deref() {
        None => part(typed.data),
        Some("NaN" | "NAN") => Ok(f64::NAN),
        Some("INF") => Ok(f64::INFINITY),
        Some("-INF") => Ok(f64::NEG_INFINITY),
        Some(other) => Err(Error::custom(format!("expected a number, found `{other}`"))),
    }
}

/// Returns a scalar: its type, and one number, or two if it is complex.
fn scalar(data: Option<&RawValue>) -> Result<AttributeValue> {
    let parts: Vec<Value> = match few(data)? {
        Value::Array(parts) => parts,
        _ => return Err(Error::custom("expected a scalar as a list")),
    };
    let number = |value: &Value| match value {
        Value::String(text) => match text.as_str() {
            "NaN" | "NAN" => Some(f64::NAN),
            "INF" => Some(f64::INFINITY),
            "-INF" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        other => other.as_f64(),
    };
    let scalar = match parts.as_slice() {
        [Value::String(_), Value::Bool(value)] => Some(Scalar::Bool(*value)),
        [Value::String(_), value] if value.is_i64() => value.as_i64().map(Scalar::Long),
        [Value::String(_), value] => number(value).map(Scalar::Double),
        [Value::String(_), re, im] => {
            number(re).zip(number(im)).map(|(re, im)| Scalar::Complex(Complex { re, im }))
        }
        _ => None,
    };
    scalar.map(AttributeValue::Scalar).ok_or_else(|| Error::custom("expected a type and a number"))
}

fn array(data: Option<&RawValue>, depth: usize) -> Result<AttributeValue> {
    let members: Vec<Typed<'_>> = part(data)?;
    let Some(first) = members.first() else {
        return AttributeValue::list(Vec::new()).map_err(Error::custom);
    };
    let id = first.id.clone();
    let is_uniform = members.iter().all(|member| member.id == id);
    fn all<'a, T: Deserialize<'a>>(members: &[Typed<'a>]) -> Result<Vec<T>> {
        members.iter().map(|member| part(member.data)).collect()
    }
    Ok(match &*id {
        "0.a_bool" if is_uniform => AttributeValue::Bools(all(&members)?),
        "0.a_i32" | "0.a_i64" | "0.a_index" if is_uniform => AttributeValue::Longs(all(&members)?),
        #[expect(clippy::cast_possible_truncation, reason = "the file holds widened floats")]
        "0.a_f32" if is_uniform => {
            let floats = members.iter().map(|member| Ok(double(member)? as f32));
            AttributeValue::Floats(floats.collect::<Result<_>>()?)
        }
        "0.a_f64" if is_uniform => {
            AttributeValue::Doubles(members.iter().map(double).collect::<Result<_>>()?)
        }
        "0.a_str" if is_uniform => {
            let strings = members.iter().map(|member| text(member.data));
            AttributeValue::Strings(strings.collect::<Result<_>>()?)
        }
        _ => {
            let values = members.iter().map(|member| value_at(member, depth + 1));
            let values = values.collect::<Result<_>>()?;
            AttributeValue::list(values).map_err(Error::custom)?
        }
    })
}

/// Returns a value whose type is not supported: its type and its JSON.
fn other(typed: &Typed<'_>) -> Result<AttributeValue> {
    let kind = AttributeValue::from(&*typed.id);
    let entries = vec![
        Attribute { name: "type".to_owned(), value: kind },
        Attribute { name: "value".to_owned(), value: plain(&few(typed.data)?)? },
    ];
    AttributeValue::dict(entries).map_err(Error::custom)
}

fn plain(value: &Value) -> Result<AttributeValue> {
    Ok(match value {
        Value::Null => AttributeValue::None,
        Value::Bool(value) => AttributeValue::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(value) => AttributeValue::Long(value),
            None => AttributeValue::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => AttributeValue::from(text.as_str()),
        Value::Array(values) => {
            let values = values.iter().map(plain).collect::<Result<_>>()?;
            AttributeValue::list(values).map_err(Error::custom)?
        }
        Value::Object(entries) => {
            let entry = |(name, value): (&String, &Value)| {
                Ok(Attribute { name: name.clone(), value: plain(value)? })
            };
            let entries = entries.iter().map(entry).collect::<Result<_>>()?;
            AttributeValue::dict(entries).map_err(Error::custom)?
        }
    })
}

//! Plain values as JSON, bounded by the size of the file.

use std::collections::HashSet;

use half::f16;
use lodstone_model::DType;

use super::array::Number;
use super::shapes::{Shapes, Value};
use super::tree::Id;
use crate::error::Result;

/// The remaining output. Shared values are stored once in a pickle, but repeated in JSON.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The number of values.
    steps: usize,
    /// Bytes of text.
    text: u64,
}

impl Budget {
    /// Creates a budget that suffices for honest pickles, which share names, element types and a few tensors.
    pub(crate) fn of(shapes: &Shapes) -> Self {
        /// Bytes of text that are allowed for any file. A growing string needs several times its size.
        const TEXT: u64 = 256 << 10;
        let steps = shapes.tree.len().saturating_mul(16).saturating_add(65_536);
        let text = shapes.tree.blob().len().saturating_mul(8).saturating_add(TEXT);
        Self { steps, text }
    }

    /// Counts a value.
    ///
    /// # Errors
    /// Fails if the budget is exhausted.
    pub(crate) fn step(&mut self, shapes: &Shapes, id: Id) -> Result<()> {
        match self.steps.checked_sub(1) {
            Some(left) => self.steps = left,
            None => {
                let expected = "values that are not shared excessively";
                return Err(shapes.tree.error(id, expected, "many times the stored values"));
            }
        }
        Ok(())
    }

    /// Counts `len` bytes of text.
    ///
    /// # Errors
    /// Fails if the budget is exhausted.
    pub(crate) fn say(&mut self, shapes: &Shapes, id: Id, len: u64) -> Result<()> {
        match self.text.checked_sub(len) {
            Some(left) => self.text = left,
            None => {
                let expected = "texts that are not shared excessively";
                return Err(shapes.tree.error(id, expected, "many times the stored text"));
            }
        }
        Ok(())
    }
}

/// Appends a value without tensors; the caller has bounded its depth.
pub(crate) fn json(shapes: &Shapes, id: Id, out: &mut String, budget: &mut Budget) -> Result<()> {
    budget.step(shapes, id)?;
    let before = out.len();
    match shapes.value(id)? {
        Value::None => out.push_str("null"),
        Value::Bool(value) => out.push_str(if value { "true" } else { "false" }),
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Big(digits) => out.push_str(&quoted(&digits)),
        Value::Float(value) => out.push_str(&float(value)),
        Value::Complex(re, im) => out.push_str(&pair([float(re), float(im)])),
        Value::Text(span, encoding) => {
            budget.say(shapes, id, span.len)?;
            out.push_str(&quoted(&shapes.tree.text(id, span, encoding)?));
            return Ok(());
        }
        Value::Bytes(data) => {
            budget.say(shapes, id, data.span.len.saturating_mul(2))?;
            out.push_str("{\"__bytes__\":\"");
            shapes.decoded(data)?.iter().for_each(|byte| out.push_str(&format!("{byte:02x}")));
            out.push_str("\"}");
            return Ok(());
        }
        Value::Number(value) => out.push_str(&number(shapes, id, value)?),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                out.push_str(if number > 0 { "," } else { "" });
                json(shapes, *item, out, budget)?;
            }
            out.push(']');
            return budget.say(shapes, id, items.len() as u64 + 2);
        }
        Value::Dict(pairs) => return object(shapes, id, None, pairs, out, budget),
        Value::Record(class, pairs) => {
            return object(shapes, id, Some(&class), pairs, out, budget);
        }
        Value::Array(_) => {
            return Err(shapes.tree.error(id, "a value other than a tensor", "a tensor"));
        }
    }
    budget.say(shapes, id, (out.len() - before) as u64)
}

fn object(
    shapes: &Shapes,
    id: Id,
    class: Option<&str>,
    pairs: &[(Id, Id)],
    out: &mut String,
    budget: &mut Budget,
) -> Result<()> {
    out.push('{');
    if let Some(class) = class {
        out.push_str(&format!("\"__class__\":{}", quoted(class)));
    }
    let mut keys = HashSet::new();
    for (number, (key, value)) in pairs.iter().enumerate() {
        out.push_str(if number > 0 || class.is_some() { "," } else { "" });
        let name = self::key(shapes, *key, budget)?;
        out.push_str(&quoted(&name));
        out.push(':');
        json(shapes, *value, out, budget)?;
        if let Some(name) = keys.replace(name) {
            return Err(again(shapes, *key, &name));
        }
    }
    out.push('}');
    let class = class.unwrap_or_default();
    budget.say(shapes, id, (pairs.len() * 4 + class.len() + 16) as u64)
}

/// Returns the key of a dict: a string as it is, any other key as JSON.
pub(crate) fn key(shapes: &Shapes, id: Id, budget: &mut Budget) -> Result<String> {
    if let Value::Text(span, encoding) = shapes.value(id)? {
        budget.step(shapes, id)?;
        budget.say(shapes, id, span.len)?;
        return shapes.tree.text(id, span, encoding);
    }
    let mut text = String::new();
    json(shapes, id, &mut text, budget)?;
    Ok(text)
}

/// Returns a string as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn pair([re, im]: [String; 2]) -> String {
    format!("[{re},{im}]")
}

/// Returns the error for a duplicate key, of which readers could use different values.
pub(crate) fn again(shapes: &Shapes, id: Id, name: &str) -> crate::error::Error {
    let name: String = name.chars().take(64).collect();
    shapes.tree.error(id, "unique keys", format!("`{}` twice", name.escape_debug()))
}

/// Returns a float as JSON; infinities and NaN, which JSON lacks, are strings.
fn float(value: f64) -> String {
    match serde_json::Number::from_f64(value) {
        Some(number) => number.to_string(),
        None => quoted(&value.to_string()),
    }
}

/// Returns a NumPy scalar as JSON.
fn number(shapes: &Shapes, id: Id, Number { dtype, swap, data }: Number) -> Result<String> {
    let mut bytes = shapes.decoded(data)?.to_vec();
    if let Some(size) = swap {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    let (low, high) = bytes.split_at(bytes.len() / 2);
    let complex = |part| Some(pair([decode(part, low)?, decode(part, high)?]));
    let decoded = match dtype {
        DType::Complex64 => complex(DType::Float32),
        DType::Complex128 => complex(DType::Float64),
        dtype => decode(dtype, &bytes),
    };
    decoded.ok_or_else(|| {
        let found = format!("{} bytes", bytes.len());
        shapes.tree.error(id, format!("a number of type {dtype}"), found)
    })
}

/// Formats a little-endian value; `None` if its size does not match.
fn decode(dtype: DType, bytes: &[u8]) -> Option<String> {
    macro_rules! number {
        ($type:ty) => {
            <$type>::from_le_bytes(bytes.try_into().ok()?).to_string()
        };
    }
    Some(match dtype {
        DType::Bool if bytes.len() == 1 => (bytes != [0]).to_string(),
        DType::Int8 => number!(i8),
        DType::Int16 => number!(i16),
        DType::Int32 => number!(i32),
        DType::Int64 => number!(i64),
        DType::Uint8 => number!(u8),
        DType::Uint16 => number!(u16),
        DType::Uint32 => number!(u32),
        DType::Uint64 => number!(u64),
        DType::Float16 => float(f16::from_le_bytes(bytes.try_into().ok()?).into()),
        DType::Float32 => float(f32::from_le_bytes(bytes.try_into().ok()?).into()),
        DType::Float64 => float(f64::from_le_bytes(bytes.try_into().ok()?)),
        _ => return None,
    })
}

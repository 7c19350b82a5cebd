//! Casts from and to strings.
//!
//! Numbers are written as ONNX Runtime writes them: integers in decimal, floats of any precision like C's `%.8g`,
//! `NaN`, `INF` and `-INF`, booleans as `0` and `1`.

use bytes::Bytes;
use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::budget::Memory;
use crate::dims::whole;
use crate::error::Outcome;
use crate::narrow::supported;
use crate::tensor::{Dense, Order, elements};
use crate::value::{STRING, Strings, Value};

/// Casts strings to numbers, numbers to strings, or strings to strings.
pub(super) fn cast(x: &Value, to: DType, memory: Memory<'_>) -> Outcome<Value> {
    match (x, to) {
        (Value::Strings(_), DType::String) => Ok(x.clone()),
        (Value::Strings(texts), to) => {
            // A number in two types.
            let _numbers = memory.reserve((texts.elements().len() as u64).saturating_mul(16))?;
            parsed(texts, to)
        }
        (x, _) => {
            let x = x.dense()?;
            let _texts = memory.reserve((x.count() as u64).saturating_mul(WRITTEN))?;
            written(x)
        }
    }
}

/// The memory of a number that is written, in bytes: two copies of the number, two handles, and characters.
const WRITTEN: u64 = 16 + 24 + STRING + 24;

fn parsed(texts: &Strings, to: DType) -> Outcome<Value> {
    let kind = to;
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    let float = |text: &str| -> Outcome<f64> {
        text.parse().map_err(|_| format!("`{text}` is not a number").into())
    };
    let dims = texts.dims();
    let all = texts.elements().iter().map(text);
    let item = match kind.is_float() {
        true => {
            let numbers = all.map(|text| float(&text)).collect::<Outcome<_>>()?;
            Dense::numbers(numbers, kind, dims)?
        }
        false => {
            // Fractions are cut off.
            let long = |text: String| text.parse().or_else(|_| float(&text).map(whole));
            let numbers = all.map(long).collect::<Outcome<Vec<i64>>>()?;
            Dense::longs(&numbers).reshaped(dims)?.cast_to(kind)?
        }
    };
    Ok(item.into())
}

fn written(x: &Dense) -> Outcome<Value> {
    let item = supported(x)?;
    let texts: Vec<String> = match x.dtype() {
        DType::Bool => item.to_truths()?.iter().map(|it| u8::from(*it).to_string()).collect(),
        DType::Float64 | DType::Float32 | DType::Float16 | DType::BFloat16 => {
            item.to_doubles()?.iter().map(|it| general(*it)).collect::<Outcome<_>>()?
        }
        DType::Uint64 => {
            let all = elements::<u64>(item, Order::RowMajor)?;
            all.iter().map(ToString::to_string).collect()
        }
        _ => item.to_longs()?.iter().map(ToString::to_string).collect(),
    };
    let texts = texts.into_iter().map(Bytes::from).collect();
    Ok(Value::Strings(Strings::new(x.dims().to_vec(), texts)?))
}

/// The number of significant digits of a float.
const DIGITS: u8 = 8;

/// Writes a number: in decimal notation, or in scientific notation if it is very large or small.
fn general(value: f64) -> Outcome<String> {
    if value.is_nan() {
        return Ok("NaN".to_owned());
    }
    if value.is_infinite() {
        return Ok(if value > 0.0 { "INF" } else { "-INF" }.to_owned());
    }
    let text = format!("{value:.*e}", usize::from(DIGITS - 1));
    let parts = text.split_once('e');
    let parts = parts.and_then(|(fraction, power)| Some((fraction, power.parse::<i32>().ok()?)));
    let (fraction, power) = parts.ok_or_else(|| Finding::internal("a number has no exponent"))?;
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    // The number of decimal places.
    let places = i32::from(DIGITS - 1) - power;
    Ok(match usize::try_from(places) {
        Ok(places) if power >= -4 => short(&format!("{value:.places$}")),
        _ => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", short(fraction), power.unsigned_abs())
        }
    })
}

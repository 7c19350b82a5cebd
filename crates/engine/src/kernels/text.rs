//! Tensors of strings.

use bytes::Bytes;
use lodstone_model::Op;
use lodstone_schema::Finding;
use regex::Regex;

use super::sequence::value;
use super::tensor::{bounded, common, long};
use super::{Call, Made, RunValues, elementwise};
use crate::budget::probe;
use crate::item::{Item, Outcome};
use crate::value::{Strings, Value};

pub(super) fn kernel(kind: &str) -> Option<RunValues> {
    Some(match kind {
        "Equal" => equal,
        "RegexFullMatch" => matches,
        "StringConcat" => concat,
        "StringNormalizer" => normalize,
        "StringSplit" => split,
        _ => return None,
    })
}

/// The maximum size of a compiled regular expression in bytes.
const MAX_PATTERN: usize = 1 << 22;

/// The memory of a string without its characters, in bytes.
const STRING: u64 = 32;

fn strings(inputs: &[Option<Value>], number: usize) -> Outcome<&Strings> {
    match value(inputs, number)? {
        Value::Strings(strings) => Ok(strings),
        other => {
            let wrong = format!("expected strings, found {}", other.kind());
            Err(Finding::from(wrong).about_input(number))
        }
    }
}

fn utf8(text: &Bytes) -> Outcome<&str> {
    std::str::from_utf8(text).map_err(|_| "a string is not UTF-8".into())
}

/// Strings of two tensors.
type Pairs<'a> = Vec<(&'a Bytes, &'a Bytes)>;

/// Returns the pairs of strings that have the same index after broadcasting, and the dims.
fn pairs<'a>(a: &'a Strings, b: &'a Strings) -> Outcome<(Pairs<'a>, Vec<usize>)> {
    let dims = common(a.dims(), b.dims())?;
    let spread = |strings: &'a Strings| -> Outcome<Vec<&'a Bytes>> {
        let places: Vec<i64> = (0_i64..).take(strings.elements().len()).collect();
        let places = Item::longs(&places).reshaped(strings.dims().to_vec()).expanded(&dims);
        let all = strings.elements();
        let found = |place: i64| usize::try_from(place).ok().and_then(|place| all.get(place));
        let list = places.to_longs()?.into_iter().map(found).collect::<Option<_>>();
        list.ok_or_else(|| Finding::internal("a string is missing"))
    };
    let count = bounded(&dims)?;
    if count == 0 {
        return Ok((Vec::new(), dims));
    }
    probe((count as u64).saturating_mul(2 * STRING))?;
    Ok((spread(a)?.into_iter().zip(spread(b)?).collect(), dims))
}

/// Compares strings; other elements are compared by the kernel for dense tensors.
fn equal(op: &Op, inputs: &[Option<Value>]) -> Made {
    if let (Value::Strings(a), Value::Strings(b)) = (value(inputs, 0)?, value(inputs, 1)?) {
        let (pairs, dims) = pairs(a, b)?;
        let truths = pairs.into_iter().map(|(a, b)| a == b).collect();
        return Ok(vec![Item::truths(truths, &dims).dense()?.into()]);
    }
    let inputs: Vec<Option<&Value>> = inputs.iter().map(Option::as_ref).collect();
    let run = elementwise::kernel("Equal").ok_or_else(|| Finding::internal("no kernel"))?;
    run(&Call::new(op, &inputs)?)
}

fn concat(_: &Op, inputs: &[Option<Value>]) -> Made {
    let (pairs, dims) = pairs(strings(inputs, 0)?, strings(inputs, 1)?)?;
    let joined = pairs.into_iter().map(|(a, b)| Bytes::from([&a[..], &b[..]].concat()));
    Ok(vec![Value::Strings(Strings::new(dims, joined.collect())?)])
}

/// Returns whether a regular expression matches each whole string.
fn matches(op: &Op, inputs: &[Option<Value>]) -> Made {
    let (x, call) = (strings(inputs, 0)?, Call::new(op, &[])?);
    let pattern = call.text("pattern").ok_or("`pattern` is missing")?;
    let whole =
        regex::RegexBuilder::new(&format!(r"\A(?:{pattern})\z")).size_limit(MAX_PATTERN).build();
    let whole: Regex = whole.map_err(|error| format!("invalid pattern `{pattern}`: {error}"))?;
    let is_match = |text: &Bytes| Ok(whole.is_match(utf8(text)?));
    let truths = x.elements().iter().map(is_match).collect::<Outcome<Vec<bool>>>()?;
    Ok(vec![Item::truths(truths, x.dims()).dense()?.into()])
}

/// Removes stop words and changes the case of the others: [words] or [1, words].
fn normalize(op: &Op, inputs: &[Option<Value>]) -> Made {
    let (x, call) = (strings(inputs, 0)?, Call::new(op, &[])?);
    if !matches!(x.dims(), [_] | [1, _]) {
        return Err(format!("expected 1 row of strings, found dims {:?}", x.dims()).into());
    }
    let is_sensitive = call.int("is_case_sensitive", 0) != 0;
    let plain = |word: &str| if is_sensitive { word.to_owned() } else { word.to_lowercase() };
    let stops: Vec<String> =
        call.texts("stopwords").unwrap_or_default().iter().map(|word| plain(word)).collect();
    let changed = |word: &str| match call.text("case_change_action").as_deref() {
        Some("LOWER") => Ok(word.to_lowercase()),
        Some("UPPER") => Ok(word.to_uppercase()),
        None | Some("NONE") => Ok(word.to_owned()),
        Some(other) => Err(Finding::from(format!("case `{other}` is not supported"))),
    };
    let mut kept: Vec<Bytes> = Vec::new();
    for word in x.elements() {
        let word = utf8(word)?;
        if !stops.contains(&plain(word)) {
            kept.push(changed(word)?.into());
        }
    }
    if kept.is_empty() {
        kept.push(Bytes::new());
    }
    let dims = if x.dims().len() == 2 { vec![1, kept.len()] } else { vec![kept.len()] };
    Ok(vec![Value::Strings(Strings::new(dims, kept)?)])
}

/// Splits each string at a delimiter, or at white space; also returns the number of parts of each.
fn split(op: &Op, inputs: &[Option<Value>]) -> Made {
    let (x, call) = (strings(inputs, 0)?, Call::new(op, &[])?);
    let delimiter = call.text("delimiter").filter(|delimiter| !delimiter.is_empty());
    let most = call.maybe_int("maxsplit").and_then(|most| usize::try_from(most).ok());
    let parts = |text: &Bytes| -> Outcome<Vec<Bytes>> {
        let text = utf8(text)?;
        let parts: Vec<&str> = match (&delimiter, most) {
            (Some(delimiter), None) => text.split(delimiter).collect(),
            (Some(delimiter), Some(most)) => {
                text.splitn(most.saturating_add(1), delimiter).collect()
            }
            (None, None) => text.split_whitespace().collect(),
            (None, Some(most)) => words(text, most),
        };
        Ok(parts.into_iter().map(|part| Bytes::copy_from_slice(part.as_bytes())).collect())
    };
    let lists = x.elements().iter().map(parts).collect::<Outcome<Vec<_>>>()?;
    let width = lists.iter().map(Vec::len).max().unwrap_or(0);
    let whole = [x.dims(), &[width]].concat();
    probe((bounded(&whole)? as u64).saturating_mul(STRING))?;
    let counts: Vec<i64> = lists.iter().map(|list| long(list.len())).collect();
    let padded = lists.into_iter().flat_map(|mut list| {
        list.resize(width, Bytes::new());
        list
    });
    let padded = Value::Strings(Strings::new(whole, padded.collect())?);
    Ok(vec![padded, Item::longs(&counts).reshaped(x.dims().to_vec()).dense()?.into()])
}

/// Splits at white space at most a number of times; the rest keeps its own.
fn words(text: &str, most: usize) -> Vec<&str> {
    let (mut rest, mut words) = (text.trim_start(), Vec::new());
    while !rest.is_empty() {
        let end = match words.len() < most {
            true => rest.find(char::is_whitespace).unwrap_or(rest.len()),
            false => rest.len(),
        };
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after.trim_start();
    }
    words
}

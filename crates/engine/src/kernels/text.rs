//! Tensors of strings.

use bytes::Bytes;
use lodstone_model::Op;
use lodstone_schema::Finding;
use regex::Regex;

use super::elementwise;
use super::sequence::value;
use crate::budget::{Charge, Memory};
use crate::call::{Call, Outputs};
use crate::dims::{bounded, common, long};
use crate::error::Outcome;
use crate::fused::Rule;
use crate::operator::Operator;
use crate::tensor::Dense;
use crate::value::{STRING, Strings, Value};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("Equal", equal).fused(|_| Some(Rule::comparison(f32::eq))),
    Operator::values("RegexFullMatch", matches),
    Operator::values("StringConcat", concat),
    Operator::values("StringNormalizer", normalize),
    Operator::values("StringSplit", split),
];

/// The maximum size of a compiled regular expression in bytes.
const MAX_PATTERN: usize = 1 << 22;

/// The memory of a compiled regular expression, its caches, and what its compilation takes, in bytes.
const MATCHER: u64 = 2 * MAX_PATTERN as u64;

/// Copies of strings with at most this many bytes are not charged while they are made.
const SHORT: usize = 1 << 12;

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

/// Strings of two tensors, and the charge for the list.
type Pairs<'a> = (Vec<(&'a Bytes, &'a Bytes)>, Option<Charge>);

/// Returns the pairs of strings that have the same index after broadcasting, and the dims.
fn pairs<'a>(
    a: &'a Strings,
    b: &'a Strings,
    memory: Memory<'_>,
) -> Outcome<(Pairs<'a>, Vec<usize>)> {
    let dims = common(a.dims(), b.dims())?;
    let spread = |strings: &'a Strings| -> Outcome<Vec<&'a Bytes>> {
        let places: Vec<i64> = (0_i64..).take(strings.elements().len()).collect();
        let places = Dense::longs(&places).reshaped(strings.dims())?.expanded(&dims)?;
        let all = strings.elements();
        let found = |place: i64| usize::try_from(place).ok().and_then(|place| all.get(place));
        let list = places.to_longs()?.into_iter().map(found).collect::<Option<_>>();
        list.ok_or_else(|| Finding::internal("a string is missing"))
    };
    let count = bounded(&dims)?;
    if count == 0 {
        return Ok(((Vec::new(), None), dims.into_vec()));
    }
    // Two copies of each index, the spread indices, and references alone and in pairs.
    let own = a.elements().len().saturating_add(b.elements().len()) as u64;
    let spread_bytes = (count as u64).saturating_mul(2 * 16 + 16);
    let charge = memory.reserve(own.saturating_mul(16).saturating_add(spread_bytes))?;
    Ok(((spread(a)?.into_iter().zip(spread(b)?).collect(), charge), dims.into_vec()))
}

/// Compares strings; other elements are compared by the kernel for dense tensors.
fn equal(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    if let (Value::Strings(a), Value::Strings(b)) = (value(inputs, 0)?, value(inputs, 1)?) {
        let ((pairs, _list), dims) = pairs(a, b, memory)?;
        let truths: Vec<bool> = pairs.into_iter().map(|(a, b)| a == b).collect();
        return Ok(vec![Dense::truths(&truths, &dims)?.into()]);
    }
    let inputs: Vec<Option<&Value>> = inputs.iter().map(Option::as_ref).collect();
    elementwise::equal(&Call::new(op, &inputs)?.within(memory))
}

fn concat(_: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let ((pairs, _list), dims) = pairs(strings(inputs, 0)?, strings(inputs, 1)?, memory)?;
    let characters = pairs.iter().map(|(a, b)| (a.len() as u64).saturating_add(b.len() as u64));
    let _characters = memory.reserve(characters.fold(0, u64::saturating_add))?;
    let joined = pairs.into_iter().map(|(a, b)| Bytes::from([&a[..], &b[..]].concat()));
    Ok(vec![Value::Strings(Strings::new(dims, joined.collect())?)])
}

/// Returns whether a regular expression matches each whole string.
fn matches(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let (x, call) = (strings(inputs, 0)?, Call::new(op, &[])?);
    let _matcher = memory.reserve(MATCHER)?;
    let pattern = call.text("pattern").ok_or("`pattern` is missing")?;
    let whole =
        regex::RegexBuilder::new(&format!(r"\A(?:{pattern})\z")).size_limit(MAX_PATTERN).build();
    let whole: Regex = whole.map_err(|error| format!("invalid pattern `{pattern}`: {error}"))?;
    let is_match = |text: &Bytes| Ok(whole.is_match(utf8(text)?));
    let truths = x.elements().iter().map(is_match).collect::<Outcome<Vec<bool>>>()?;
    Ok(vec![Dense::truths(&truths, x.dims())?.into()])
}

/// Removes stop words and changes the case of the others: [words] or [1, words].
fn normalize(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
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
    let mut texts = memory.growing();
    let mut kept: Vec<Bytes> = Vec::new();
    for word in x.elements() {
        let word = utf8(word)?;
        // The case of a character may have three times its bytes.
        let most = (word.len() as u64).saturating_mul(3);
        let _copy = if word.len() > SHORT { memory.reserve(most.saturating_mul(2))? } else { None };
        if !stops.contains(&plain(word)) {
            texts.add(word.len() as u64 + 2 * STRING)?;
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
fn split(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let (x, call) = (strings(inputs, 0)?, Call::new(op, &[])?);
    let delimiter = call.text("delimiter").filter(|delimiter| !delimiter.is_empty());
    let most = call.maybe_int("maxsplit").and_then(|most| usize::try_from(most).ok());
    let parts = Parts { delimiter: delimiter.as_deref(), most };
    let (mut width, mut characters) = (0, 0_u64);
    let mut counts = Vec::with_capacity(x.elements().len());
    for text in x.elements() {
        let (mut count, mut kept) = (0, 0);
        for part in parts.of(utf8(text)?) {
            count += 1;
            kept += part.len();
        }
        width = width.max(count);
        characters = characters.saturating_add(kept as u64);
        counts.push(long(count));
    }
    let whole = [x.dims(), &[width]].concat();
    let cells = bounded(&whole)?;
    let handles = (cells as u64).saturating_mul(STRING);
    let _parts = memory.reserve(handles.saturating_add(characters))?;
    let mut padded = Vec::with_capacity(cells);
    for text in x.elements() {
        let end = padded.len() + width;
        let copied = |part: &str| Bytes::copy_from_slice(part.as_bytes());
        padded.extend(parts.of(utf8(text)?).map(copied));
        padded.resize(end, Bytes::new());
    }
    let padded = Value::Strings(Strings::new(whole, padded)?);
    Ok(vec![padded, Dense::longs(&counts).reshaped(x.dims())?.into()])
}

/// How strings are split: at a delimiter or at white space, at most a number of times.
struct Parts<'d> {
    delimiter: Option<&'d str>,
    most: Option<usize>,
}

impl Parts<'_> {
    /// Returns the parts of a string.
    fn of<'t>(&'t self, text: &'t str) -> Box<dyn Iterator<Item = &'t str> + 't> {
        match (self.delimiter, self.most) {
            (Some(delimiter), None) => Box::new(text.split(delimiter)),
            (Some(delimiter), Some(most)) => {
                Box::new(text.splitn(most.saturating_add(1), delimiter))
            }
            (None, None) => Box::new(text.split_whitespace()),
            (None, Some(most)) => Box::new(words(text, most)),
        }
    }
}

/// Splits at white space at most a number of times; the rest keeps its own.
fn words(text: &str, most: usize) -> impl Iterator<Item = &str> {
    let (mut rest, mut count) = (text.trim_start(), 0);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = match count < most {
            true => rest.find(char::is_whitespace).unwrap_or(rest.len()),
            false => rest.len(),
        };
        let (word, after) = rest.split_at(end);
        count += 1;
        rest = after.trim_start();
        Some(word)
    })
}

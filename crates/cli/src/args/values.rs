//! Values of options.

use std::collections::HashSet;

use bytesize::ByteSize;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lodstone::convert::CAST_TYPES;
use lodstone::formats::{FORMATS, capabilities};
use lodstone::model::AttributeValue;
use lodstone::scan::DangerKind;
use lodstone::{DType, Dim, Loss};

/// Maximum number of threads of a run.
const MAX_THREADS: usize = 1024;

pub(crate) fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected a non-negative number".to_owned())
}

pub(crate) fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(format_values())
}

pub(crate) fn formats_or_same() -> PossibleValuesParser {
    let same = PossibleValue::new("same")
        .help("The format of the input, byte for byte (npz: equal arrays)");
    PossibleValuesParser::new(format_values().chain([same]))
}

/// Returns all formats; those that only take unchanged models of their own are not offered.
fn format_values() -> impl Iterator<Item = PossibleValue> {
    let targets: HashSet<&str> =
        capabilities().into_iter().flat_map(|of| [of.program_to, of.weights_to].concat()).collect();
    FORMATS.iter().map(move |format| {
        let is_offered = targets.contains(format.name);
        PossibleValue::new(format.name).help(format.title).hide(!is_offered)
    })
}

/// Returns the element types of a cast by their names; usual short ones are accepted, too.
pub(crate) fn casts() -> impl TypedValueParser<Value = DType> {
    let short = |dtype: DType| match dtype {
        DType::Float16 => &["fp16", "half"][..],
        DType::BFloat16 => &["bf16"],
        DType::Float32 => &["fp32", "float"],
        DType::Float64 => &["fp64", "double"],
        _ => &[],
    };
    let named = move |dtype: &DType| Some((*dtype, dtype.name()?, short(*dtype)));
    let all: Vec<_> = CAST_TYPES.iter().filter_map(named).collect();
    let values = all.iter().map(|(_, name, short)| PossibleValue::new(*name).aliases(*short));
    PossibleValuesParser::new(values.collect::<Vec<_>>()).try_map(move |text| {
        let is_meant = |(_, name, short): &&(DType, &str, &[&str])| {
            *name == text || short.contains(&text.as_str())
        };
        all.iter().find(is_meant).map(|(dtype, ..)| *dtype).ok_or("an unknown element type")
    })
}

pub(crate) fn losses() -> PossibleValuesParser {
    let value = |loss: &Loss| PossibleValue::new(loss.name()).help(loss.describe());
    PossibleValuesParser::new(Loss::ALL.iter().map(value).collect::<Vec<_>>())
}

pub(crate) fn kinds() -> PossibleValuesParser {
    let value = |kind: &DangerKind| PossibleValue::new(kind.name()).help(kind.describe());
    PossibleValuesParser::new(DangerKind::ALL.iter().map(value).collect::<Vec<_>>())
}

pub(crate) fn opset(text: &str) -> Result<i64, String> {
    let newest = lodstone::convert::newest_opset("").filter(|_| text == "newest");
    let version = newest.or_else(|| text.parse().ok().filter(|version| *version > 0));
    version.ok_or_else(|| "expected a version (1 or higher) or `newest`".to_owned())
}

pub(crate) fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=MAX_THREADS).contains(&count) => Ok(count),
        _ => Err(format!("expected a number from 1 to {MAX_THREADS}")),
    }
}

/// Separates a name, which may contain colons, and dims after the last colon: `data:1,3,224,224`, or `data:1x3x224x224`.
fn named_dims(text: &str) -> Option<(&str, Vec<&str>)> {
    let (name, dims) = text.rsplit_once(':')?;
    // `x` alone is a symbol.
    let is_crossed = dims.starts_with(|one: char| one.is_ascii_digit())
        && dims.chars().all(|one| one.is_ascii_digit() || one == 'x');
    let separator = if is_crossed { 'x' } else { ',' };
    let dims = if dims.is_empty() { Vec::new() } else { dims.split(separator).collect() };
    Some((name, dims.into_iter().map(str::trim).collect()))
}

/// Parses a name, which may contain colons, and an element type after the last colon.
pub(crate) fn input_type(text: &str) -> Result<(String, DType), String> {
    let expected = || "expected a name and an element type: `data:float16`".to_owned();
    let (name, dtype) = text.rsplit_once(':').ok_or_else(expected)?;
    Ok((name.to_owned(), DType::from_name(dtype.trim()).ok_or_else(expected)?))
}

/// Parses a name and dims; unknown dims are `?` or `-1`, and symbols are words.
pub(crate) fn declared_shape(text: &str) -> Result<(String, Vec<Dim>), String> {
    let is_word = |text: &str| {
        let is_part = |one: char| one.is_alphanumeric() || one == '_';
        text.starts_with(|one: char| one.is_alphabetic() || one == '_') && text.chars().all(is_part)
    };
    let dim = |text: &str| match text {
        "?" | "-1" => Some(Dim::Unknown),
        word if is_word(word) => Some(Dim::Symbol(word.into())),
        number => number.parse().ok().map(Dim::Known),
    };
    let parsed = named_dims(text).and_then(|(name, dims)| {
        let dims: Option<Vec<Dim>> = dims.into_iter().map(dim).collect();
        Some((name.to_owned(), dims?))
    });
    parsed.ok_or_else(|| {
        "expected a name and dims: `data:1,3,224,224`, or `data:batch,3,?,?`".to_owned()
    })
}

/// Parses a name and a number or truth value.
pub(crate) fn input_value(text: &str) -> Result<(String, AttributeValue), String> {
    let expected = || "expected a name and a number: `rate=16000`, or `exact=true`".to_owned();
    let (name, value) = text.rsplit_once('=').ok_or_else(expected)?;
    let value = match value.trim() {
        "true" => AttributeValue::Bool(true),
        "false" => AttributeValue::Bool(false),
        number => match number.parse() {
            Ok(integer) => AttributeValue::Long(integer),
            Err(_) => AttributeValue::Double(number.parse().map_err(|_| expected())?),
        },
    };
    Ok((name.to_owned(), value))
}

pub(crate) fn alignment(text: &str) -> Result<u64, String> {
    let fits = |bytes: &u64| *bytes == 0 || (bytes.is_power_of_two() && *bytes <= 1024);
    let bytes = text.parse().ok().filter(fits);
    bytes.ok_or_else(|| "expected 0 or a power of two up to 1024".to_owned())
}

/// Parses a size: `1.5GB` is 1.5·10⁹ bytes, `5GiB` is 5·2³⁰; case-insensitive.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bytes = text.trim().parse::<ByteSize>().ok().map(|ByteSize(bytes)| bytes);
    // `ByteSize` saturates: a size that is too large is parsed as the maximum.
    let bytes = bytes.filter(|bytes| (1..u64::MAX).contains(bytes));
    bytes.ok_or_else(|| "expected a size such as 1.5GB or 512MiB".to_owned())
}

/// Parses a share of a list.
pub(crate) fn share(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(index, count)| {
        Some((index.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
    });
    let valid = parts.filter(|(index, count)| index < count);
    valid.ok_or_else(|| "expected I/N with I less than N, such as 0/4".to_owned())
}

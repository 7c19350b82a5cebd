//! Tensors as text, and as JSON.

use std::fmt::Write as _;
use std::io::Write;

use half::{bf16, f16};
use lodstone_model::{DType, Indices, Kind, Lod, Parameter, Tensor};
use lodstone_store::Blob;
use serde_json::json;

use crate::numbers::{decoder, element_count, unpacked};
use crate::{Error, Result};

/// The notation of elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// As NumPy prints them: complex numbers as `(re, im)`.
    Text,
    /// As JSON: complex numbers as arrays, NaN and infinities as strings.
    Json,
}

/// Writes all elements of a tensor as text, nested in brackets like NumPy's, after its LoD offsets.
///
/// # Errors
/// If reading or writing fails, or the element type has no text form.
pub fn write_text(tensor: &Tensor, out: &mut impl Write) -> Result<()> {
    let Lod(levels) = &tensor.lod;
    for level in levels {
        writeln!(out, "lod: {level:?}").map_err(Error::Output)?;
    }
    match &tensor.kind {
        Kind::Vocabulary { tokens } => {
            for (token, id) in tokens {
                writeln!(out, "{id}\t{}", token.escape_debug()).map_err(Error::Output)?;
            }
            return Ok(());
        }
        Kind::Strings { elements } => {
            for text in elements {
                let text = String::from_utf8_lossy(text);
                writeln!(out, "{}", text.escape_debug()).map_err(Error::Output)?;
            }
            return Ok(());
        }
        Kind::SelectedRows { rows, height } => {
            write!(out, "rows of {height}: ").map_err(Error::Output)?;
            nest(out, rows, &[rows.len() / 8], DType::Int64, Style::Text)?;
        }
        Kind::Absent => return Err(Error::NoElements),
        _ => {}
    }
    for (label, indices) in parts(&tensor.kind) {
        let of = if label == "columns" { String::new() } else { format!(" of {:?}", tensor.shape) };
        write!(out, "{label}{of}: ").map_err(Error::Output)?;
        nest(out, &indices.data, &[indices.count()], indices.dtype, Style::Text)?;
    }
    nest(out, &tensor.data, &tensor.stored_shape(), tensor.dtype, Style::Text)
}

/// Writes tensors as JSON, with all of their elements as nested arrays: `{"schema": 1, "tensors": [...]}`.
///
/// Each tensor has `name`, `kind`, `dtype`, `shape` and `data`, and `lod` if it has LoD offsets. Complex numbers are
/// pairs; NaN and infinities are strings. Sparse tensors have their indices under further keys, and their stored
/// elements in `data`.
///
/// # Errors
/// If reading or writing fails, or an element type has no text form.
pub fn write_json(tensors: &[Parameter], out: &mut impl Write) -> Result<()> {
    put(out, "{\"schema\": 1, \"tensors\": [")?;
    for (number, Parameter { name, tensor }) in tensors.iter().enumerate() {
        let head = json!({
            "name": name,
            "kind": tensor.kind.name(),
            "dtype": tensor.dtype.to_string(),
            "shape": tensor.shape,
        });
        let head = head.to_string();
        put(out, if number > 0 { ",\n" } else { "\n" })?;
        // The rest of the object follows.
        put(out, head.strip_suffix('}').unwrap_or(&head))?;
        let Lod(levels) = &tensor.lod;
        if !levels.is_empty() {
            put(out, &format!(", \"lod\": {}", json!(levels)))?;
        }
        write_data(tensor, out)?;
        put(out, "}")?;
    }
    put(out, "\n]}\n")
}

/// Writes the elements of a tensor, and its indices, as members of a JSON object.
fn write_data(tensor: &Tensor, out: &mut impl Write) -> Result<()> {
    match &tensor.kind {
        Kind::Vocabulary { tokens } => {
            return put(out, &format!(", \"data\": {}", json!(tokens)));
        }
        Kind::Strings { elements } => {
            let texts: Vec<_> = elements.iter().map(|text| String::from_utf8_lossy(text)).collect();
            return put(out, &format!(", \"data\": {}", json!(texts)));
        }
        Kind::SelectedRows { rows, height } => {
            put(out, &format!(", \"height\": {height}, \"rows\": "))?;
            nest(out, rows, &[rows.len() / 8], DType::Int64, Style::Json)?;
        }
        Kind::Absent => return Err(Error::NoElements),
        _ => {}
    }
    for (label, indices) in parts(&tensor.kind) {
        put(out, &format!(", {}: ", json!(label)))?;
        nest(out, &indices.data, &[indices.count()], indices.dtype, Style::Json)?;
    }
    put(out, ", \"data\": ")?;
    nest(out, &tensor.data, &tensor.stored_shape(), tensor.dtype, Style::Json)
}

/// Returns the indices of a sparse tensor, each with a label.
fn parts(kind: &Kind) -> Vec<(&'static str, &Indices)> {
    match kind {
        Kind::Coo { indices, linear: true } => vec![("positions", indices)],
        Kind::Coo { indices, linear: false } => vec![("indices", indices)],
        Kind::RowSparse { indices } => vec![("rows", indices)],
        Kind::Csr { indptr, indices } => vec![("row offsets", indptr), ("columns", indices)],
        _ => Vec::new(),
    }
}

fn put(out: &mut impl Write, text: &str) -> Result<()> {
    out.write_all(text.as_bytes()).map_err(Error::Output)
}

fn no_text(dtype: DType) -> Error {
    Error::NotSupported { operation: format!("writing {dtype} elements as text"), why: None }
}

/// Writes elements with brackets at the start and end of each dim.
fn nest(
    out: &mut impl Write,
    data: &Blob,
    shape: &[u64],
    dtype: DType,
    style: Style,
) -> Result<()> {
    let size = dtype.bits().map(|bits| bits.div_ceil(8));
    let size = size.and_then(|size| usize::try_from(size).ok()).ok_or_else(|| no_text(dtype))?;
    let data = unpacked(data, dtype, element_count(shape));
    let sizes = shape.iter().rev().scan(1u64, |size, n| {
        *size = size.saturating_mul(*n);
        Some(*size)
    });
    let strides: Vec<u64> = sizes.collect();
    // Each is a multiple of the previous one.
    let ends = |count: u64| strides.iter().take_while(|size| count.is_multiple_of(**size)).count();
    let (mut index, mut line) = (0, String::new());
    // Chunks hold whole elements: their size is a multiple of any element size.
    data.for_each_chunk(|piece| {
        for element in piece.chunks_exact(size) {
            let opened = ends(index);
            if index > 0 {
                line.push_str(if opened > 0 { ",\n" } else { ", " });
                let indent = if opened > 0 { shape.len() - opened } else { 0 };
                let _ = write!(line, "{:indent$}", "");
            }
            line.push_str(&"[".repeat(opened));
            write_element(&mut line, element, dtype, style)?;
            index += 1;
            line.push_str(&"]".repeat(ends(index)));
        }
        let written = out.write_all(line.as_bytes()).map_err(Error::Output);
        line.clear();
        written
    })?;
    let end = if index == 0 { "[]\n" } else { "\n" };
    out.write_all(end.as_bytes()).map_err(Error::Output)
}

fn write_element(out: &mut String, bytes: &[u8], dtype: DType, style: Style) -> Result<()> {
    macro_rules! number {
        ($type:ty) => {
            number!($type, std::convert::identity)
        };
        ($type:ty, $as:expr) => {
            match bytes.try_into() {
                Ok(array) => spelled(out, $as(<$type>::from_le_bytes(array)), style),
                Err(_) => return Err(no_text(dtype)),
            }
        };
    }
    let written = match dtype {
        DType::Bool => write!(out, "{}", bytes != [0]),
        DType::Int8 => number!(i8),
        DType::Int16 => number!(i16),
        DType::Int32 => number!(i32),
        DType::Int64 => number!(i64),
        DType::Uint8 => number!(u8),
        DType::Uint16 => number!(u16),
        DType::Uint32 => number!(u32),
        DType::Uint64 => number!(u64),
        DType::Float16 => number!(f16, f16::to_f32),
        DType::BFloat16 => number!(bf16, bf16::to_f32),
        DType::Float32 => number!(f32),
        DType::Float64 => number!(f64),
        DType::Complex32 | DType::Complex64 | DType::Complex128 => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            let part = match dtype {
                DType::Complex32 => DType::Float16,
                DType::Complex64 => DType::Float32,
                _ => DType::Float64,
            };
            let (open, close) = if style == Style::Json { ("[", "]") } else { ("(", ")") };
            out.push_str(open);
            write_element(out, re, part, style)?;
            out.push_str(", ");
            write_element(out, im, part, style)?;
            write!(out, "{close}")
        }
        _ => {
            let Some(decoder) = decoder(dtype) else { return Err(no_text(dtype)) };
            match decoder.integer {
                Some(integer) => write!(out, "{}", integer(bytes)),
                // Single precision holds every float of at most 8 bits.
                #[expect(clippy::cast_possible_truncation, reason = "nothing is cut off")]
                None => spelled(out, (decoder.number)(bytes) as f32, style),
            }
        }
    };
    written.map_err(|_| no_text(dtype))
}

/// Writes a number. `Debug` writes the shortest digits that parse to the same value, and exponents.
fn spelled(out: &mut String, number: impl std::fmt::Debug, style: Style) -> std::fmt::Result {
    let text = format!("{number:?}");
    let is_word = text.ends_with(|last: char| last.is_alphabetic());
    match is_word && style == Style::Json {
        true => write!(out, "\"{text}\""),
        false => write!(out, "{text}"),
    }
}

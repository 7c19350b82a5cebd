//! One tensor.

use std::fmt::Write as _;
use std::path::Path;

use half::{bf16, f16};
use lodstone_formats::{Error as FormatError, OpenOptions, paddle_stream};
use lodstone_model::{DType, Kind, Model, Tensor};

use crate::{Error, Result, open_with};

/// The tensor number `index` of a model, counted from 0 in file order, and its name.
///
/// In a file of records without names those before it are hopped over, so that the rest of the
/// file may be damaged.
///
/// # Errors
/// If there is no such tensor.
pub fn open_record(
    path: impl AsRef<Path>,
    index: usize,
    options: &OpenOptions,
) -> Result<(String, Tensor)> {
    let path = path.as_ref();
    match open_with(path, options) {
        Ok(model) => nth(model, index),
        Err(Error::Format(FormatError::Inside { .. } | FormatError::Store(_)))
            if !lodstone_store::is_dir(path) && lodstone_store::exists(path) =>
        {
            let blob = options.file(path)?;
            let tensor = paddle_stream::read_record(&blob, index, &options.limits)?;
            Ok((String::new(), tensor))
        }
        Err(error) => Err(error),
    }
}

/// The tensor called `name`, and its name.
///
/// # Errors
/// If there is no such tensor: with the names that are closest.
pub fn open_named(
    path: impl AsRef<Path>,
    name: &str,
    options: &OpenOptions,
) -> Result<(String, Tensor)> {
    let model = open_with(path, options)?;
    if let Some(tensor) = model.parameter(name) {
        return Ok((name.to_owned(), tensor.clone()));
    }
    let part = name.split(['.', '_']).next().unwrap_or(name);
    let names = model.parameters.iter().map(|parameter| parameter.name.as_str());
    let similar: Vec<_> = names.filter(|known| known.starts_with(part)).take(5).collect();
    let similar = match similar.as_slice() {
        [] => String::new(),
        names => format!("; there are `{}`", names.join("`, `")),
    };
    Err(Error::Absent(format!("there is no tensor `{name}`{similar}")))
}

fn nth(model: Model, index: usize) -> Result<(String, Tensor)> {
    let count = model.parameters.len();
    match model.parameters.into_iter().nth(index) {
        Some(parameter) => Ok((parameter.name, parameter.tensor)),
        None => Err(Error::Absent(format!(
            "there is no tensor number {index}: there are {count}, counted from 0"
        ))),
    }
}

/// The elements of a tensor as text, nested in brackets like NumPy's, all of them.
///
/// # Errors
/// What reading gives, or if its element type has no text form.
pub fn text(tensor: &Tensor) -> Result<String> {
    let mut out = String::new();
    if let Kind::Vocabulary { tokens } = &tensor.kind {
        for (token, id) in tokens {
            let _ = writeln!(out, "{id}\t{}", token.escape_debug());
        }
        return Ok(out);
    }
    if let Kind::SelectedRows { rows, height } = &tensor.kind {
        let rows = rows.bytes()?;
        let _ = write!(out, "rows of {height}: ");
        nest(&mut out, &rows, 8, &[rows.len() as u64 / 8], DType::Int64)?;
        out.push('\n');
    }
    let size = tensor.dtype.bits().filter(|bits| bits % 8 == 0).map(|bits| bits / 8);
    let size = size.and_then(|size| usize::try_from(size).ok());
    let size = size.ok_or_else(|| no_text(tensor.dtype))?;
    nest(&mut out, &tensor.data.bytes()?, size, &tensor.shape, tensor.dtype)?;
    out.push('\n');
    Ok(out)
}

fn no_text(dtype: DType) -> Error {
    Error::Absent(format!("elements of {dtype} have no text form"))
}

/// Writes elements with a bracket for each dimension that begins or ends before them.
fn nest(out: &mut String, data: &[u8], size: usize, shape: &[u64], dtype: DType) -> Result<()> {
    let strides: Vec<u64> = (1..=shape.len())
        .map(|axis| shape.iter().rev().take(axis).fold(1, |all: u64, n| all.saturating_mul(*n)))
        .collect();
    let ends = |count: u64| strides.iter().filter(|stride| count.is_multiple_of(**stride)).count();
    if data.is_empty() {
        out.push_str("[]");
        return Ok(());
    }
    for (index, element) in (0u64..).zip(data.chunks_exact(size)) {
        let opened = ends(index);
        if index > 0 {
            out.push_str(if opened > 0 { ",\n" } else { ", " });
            let _ = write!(out, "{:1$}", "", if opened > 0 { shape.len() - opened } else { 0 });
        }
        out.push_str(&"[".repeat(opened));
        write_element(out, element, dtype)?;
        out.push_str(&"]".repeat(ends(index + 1)));
    }
    Ok(())
}

fn write_element(out: &mut String, bytes: &[u8], dtype: DType) -> Result<()> {
    macro_rules! number {
        ($type:ty) => {
            number!($type, std::convert::identity)
        };
        // `Debug` gives the shortest digits that read back as the same, and exponents.
        ($type:ty, $as:expr) => {
            match bytes.try_into() {
                Ok(array) => write!(out, "{:?}", $as(<$type>::from_le_bytes(array))),
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
        DType::Complex64 | DType::Complex128 => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            let part = if dtype == DType::Complex64 { DType::Float32 } else { DType::Float64 };
            out.push('(');
            write_element(out, re, part)?;
            out.push_str(", ");
            write_element(out, im, part)?;
            write!(out, ")")
        }
        // Eight bits without a common decimal form are shown as they are.
        _ if bytes.len() == 1 => bytes.iter().try_for_each(|byte| write!(out, "0x{byte:02x}")),
        _ => return Err(no_text(dtype)),
    };
    written.map_err(|_| no_text(dtype))
}

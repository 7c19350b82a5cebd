//! One tensor.

use std::fmt::Write as _;
use std::io::Write;

use half::{bf16, f16};
use lodstone_formats::{Error as FormatError, FORMATS, OpenOptions};
use lodstone_model::{DType, Indices, Kind, Model, Parameter, Tensor};
use lodstone_store::{Blob, Location};

use crate::{Error, Names, Result, open_with};

/// One tensor of a model.
#[derive(Clone, Debug)]
pub struct One {
    /// Its name; empty if it has none.
    pub name: String,
    /// The tensor.
    pub tensor: Tensor,
    /// What was noticed when the model was opened.
    pub warnings: Vec<String>,
}

/// The tensor number `index` of a model, counted from 0 in file order, and its name.
///
/// In a file of records without names those before it are hopped over, so that the rest of the
/// file may be damaged.
///
/// # Errors
/// If there is no such tensor.
pub fn open_record(path: impl Into<Location>, index: usize, options: &OpenOptions) -> Result<One> {
    let path = path.into();
    let whole = match open_with(&path, options) {
        Ok(model) => return nth(model, index),
        // What is in the file was read; it is not to be had.
        Err(error @ Error::Format(FormatError::Unsealed { .. })) => return Err(error),
        Err(error) => error,
    };
    // The error of the whole file says more than that of a record that cannot be found in it.
    let mut records = FORMATS.iter().filter_map(|format| format.record);
    let found = records.find_map(|record| record(&path, index, options).ok().flatten());
    let one = |tensor| One { name: String::new(), tensor, warnings: Vec::new() };
    found.map(one).ok_or(whole)
}

/// The tensor of a model that has only one, and its name.
///
/// # Errors
/// If there are more, or none.
pub fn open_only(path: impl Into<Location>, options: &OpenOptions) -> Result<One> {
    let model = open_with(path, options)?;
    match model.parameters.len() {
        1 => nth(model, 0),
        count => Err(Error::Absent(format!("there are {count} tensors; name one, or its number"))),
    }
}

/// The tensor called `name`, and its name.
///
/// # Errors
/// As [`Names::find`].
pub fn open_named(path: impl Into<Location>, name: &str, options: &OpenOptions) -> Result<One> {
    let model = open_with(path, options)?;
    let names = model.parameters.iter().map(|parameter| parameter.name.as_str().into());
    let names = Names::new(&model.format, names);
    if name.parse::<usize>().is_ok() && !names.contains(name) {
        let what = format!("there is no tensor `{name}`; `--index` takes a number");
        return Err(Error::Absent(what));
    }
    nth(model, names.find(name)?)
}

fn nth(model: Model, index: usize) -> Result<One> {
    let count = model.parameters.len();
    match model.parameters.into_iter().nth(index) {
        Some(Parameter { name, tensor }) => {
            Ok(One { name, tensor, warnings: model.report.warnings })
        }
        None => Err(Error::Absent(format!(
            "there is no tensor number {index}: there are {count}, counted from 0"
        ))),
    }
}

/// Writes the elements of a tensor as text, nested in brackets like NumPy's, all of them.
///
/// # Errors
/// What reading and writing give, or if its element type has no text form.
pub fn write_text(tensor: &Tensor, out: &mut impl Write) -> Result<()> {
    if let Kind::Vocabulary { tokens } = &tensor.kind {
        for (token, id) in tokens {
            writeln!(out, "{id}\t{}", token.escape_debug()).map_err(Error::Output)?;
        }
        return Ok(());
    }
    if let Kind::Strings { elements } = &tensor.kind {
        for text in elements {
            writeln!(out, "{}", String::from_utf8_lossy(text).escape_debug())
                .map_err(Error::Output)?;
        }
        return Ok(());
    }
    if let Kind::SelectedRows { rows, height } = &tensor.kind {
        write!(out, "rows of {height}: ").map_err(Error::Output)?;
        nest(out, rows, &[rows.len() / 8], DType::Int64)?;
    }
    let mut numbers = |label: &str, indices: &Indices| {
        write!(out, "{label}: ").map_err(Error::Output)?;
        nest(out, &indices.data, &[indices.count()], indices.dtype)
    };
    match &tensor.kind {
        Kind::Coo { indices, linear } => {
            let what = if *linear { "positions in" } else { "places in" };
            numbers(&format!("{what} {:?}", tensor.shape), indices)?;
        }
        Kind::Absent => {
            return Err(Error::Absent("the files have no elements of it".to_owned()));
        }
        Kind::RowSparse { indices } => {
            numbers(&format!("rows of {:?}", tensor.shape), indices)?;
        }
        Kind::Csr { indptr, indices } => {
            numbers(&format!("offsets of the rows of {:?}", tensor.shape), indptr)?;
            numbers("columns", indices)?;
        }
        _ => {}
    }
    nest(out, &tensor.data, &tensor.stored_shape(), tensor.dtype)
}

fn no_text(dtype: DType) -> Error {
    Error::Absent(format!("elements of {dtype} have no text form"))
}

/// Writes elements with a bracket for each dimension that begins or ends before them.
fn nest(out: &mut impl Write, data: &Blob, shape: &[u64], dtype: DType) -> Result<()> {
    let size = dtype.bits().filter(|bits| bits % 8 == 0).map(|bits| bits / 8);
    let size = size.and_then(|size| usize::try_from(size).ok()).ok_or_else(|| no_text(dtype))?;
    let sizes = shape.iter().rev().scan(1u64, |size, n| {
        *size = size.saturating_mul(*n);
        Some(*size)
    });
    let strides: Vec<u64> = sizes.collect();
    // Each is a multiple of the one before.
    let ends = |count: u64| strides.iter().take_while(|size| count.is_multiple_of(**size)).count();
    let (mut index, mut line) = (0, String::new());
    // Pieces are of whole elements: their size is a multiple of that of any element.
    data.for_each_chunk(|piece| {
        for element in piece.chunks_exact(size) {
            let opened = ends(index);
            if index > 0 {
                line.push_str(if opened > 0 { ",\n" } else { ", " });
                let indent = if opened > 0 { shape.len() - opened } else { 0 };
                let _ = write!(line, "{:indent$}", "");
            }
            line.push_str(&"[".repeat(opened));
            write_element(&mut line, element, dtype)?;
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

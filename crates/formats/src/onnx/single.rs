//! A file with a single `TensorProto`, as in the test data of ONNX models.

use std::sync::Arc;

use lodstone_model::{Kind, Limits, Model, Parameter, Residual};
use lodstone_store::{Blob, Location};

use super::external::{External, Layout};
use super::tensor::Fields;
use super::write::encode_tensor;
use super::{BINARY, VERBATIM, schema};
use crate::byte_map::{self, Mapper};
use crate::encoding::protobuf::glance::Glance;
use crate::encoding::protobuf::holes::without_elements;
use crate::encoding::protobuf::map::map;
use crate::encoding::protobuf::wire::{Message, Source};
use crate::error::{Error, Result};
use crate::format::{Format, Probe};
use crate::options::{Holds, OpenOptions, WriteOptions};
use crate::staged::Staged;

/// A single tensor.
pub static TENSOR: Format = Format {
    name: NAME,
    title: "ONNX tensor (`TensorProto`)",
    holds: Holds { program: None, metadata: false, unnamed: true, coo: false, ..BINARY.holds },
    alone: None,
    aligns: false,
    externals: false,
    extension: "",
    byte_maps: &[&BYTE_MAP],
    detect,
    read,
    stage: write,
    ..BINARY
};

/// Byte maps of files.
static BYTE_MAP: Mapper = Mapper {
    what: "ONNX tensors",
    detect,
    read: |blob, limits| {
        let recorded = byte_map::record(blob, |cursor| {
            cursor.set_tensor(Some(0));
            map(cursor, &schema::TENSOR, limits, |_, _, _| false)
        });
        byte_map::checked(recorded, || read_tensor(blob, &byte_map::origin(blob), limits))
    },
};

const NAME: &str = "onnx-tensor";

/// The fields of `TensorProto`, number and wire type, without `segment`, which no writer has used.
const FIELDS: [(u64, u64); 20] = [
    (1, 0),
    (1, 2),
    (2, 0),
    (4, 2),
    (4, 5),
    (5, 0),
    (5, 2),
    (6, 2),
    (7, 0),
    (7, 2),
    (8, 2),
    (9, 2),
    (10, 1),
    (10, 2),
    (11, 0),
    (11, 2),
    (12, 2),
    (13, 2),
    (14, 0),
    (16, 2),
];

/// The largest plausible type code; 1.23 defines 26.
const MAX_DTYPE: u64 = 40;

/// Returns whether a file looks like a `TensorProto`: only its fields as far as visible, including its type.
fn detect(probe: &Probe<'_>) -> bool {
    let mut glance = Glance { bytes: probe.head, left: probe.len };
    let mut is_typed = false;
    while glance.left > 0 && probe.entries.is_none() {
        let Some((number, wire_type)) = glance.tag() else { return is_typed && glance.is_cut() };
        let hopped = match (number, wire_type) {
            field if !FIELDS.contains(&field) => return false,
            (2, _) => {
                is_typed = glance.varint().is_some_and(|code| (1..=MAX_DTYPE).contains(&code));
                is_typed.then_some(())
            }
            _ => glance.skip(wire_type),
        };
        if hopped.is_none() {
            return is_typed && glance.is_cut();
        }
    }
    is_typed
}

fn read(path: &Location, options: &OpenOptions) -> Result<Model> {
    let (blob, origin) = (options.file(path)?, path.display().to_string());
    let mut files = External::beside(path, options);
    let mut model = read_with(&blob, &origin, &mut files, &options.limits)?;
    model.files.push(blob);
    model.files.extend(files.found().cloned());
    Ok(model)
}

/// Reads a tensor; `origin` names it in messages. External data is not read.
///
/// # Errors
/// Fails if the file is not a tensor, with the offset in the file.
pub fn read_tensor(blob: &Blob, origin: &str, limits: &Limits) -> Result<Model> {
    let mut model = read_with(blob, origin, &mut External::none(), limits)?;
    model.files.push(blob.clone());
    Ok(model)
}

fn read_with(
    blob: &Blob,
    origin: &str,
    files: &mut External<'_>,
    limits: &Limits,
) -> Result<Model> {
    let structure = without_elements(blob, &schema::TENSOR, limits)?;
    let source = Source::with_holes(origin, limits, &structure);
    let message = Message::new(&source, structure.bytes.clone());
    let fields = Fields::read(&message)?;
    // A tensor in a model may lack these fields, but here that indicates a truncated file.
    if fields.code == 0 {
        return Err(message.missing("the type of a tensor"));
    }
    let tensor = fields.tensor(&structure.holes, files)?;
    if matches!(tensor.kind, Kind::Absent) && fields.place().is_none() {
        return Err(message.missing("the elements of a tensor"));
    }
    let parameters = vec![Parameter { name: fields.name.clone(), tensor }];
    let mut model = Model { format: NAME.to_owned(), parameters, ..Model::default() };
    if !structure.is_exact {
        let whole = Arc::from([blob.clone()]);
        model.residual = Residual::with_holes(VERBATIM, structure.bytes.clone(), whole);
    }
    Ok(model)
}

/// Writes a tensor, including its elements.
fn write(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    let [Parameter { name, tensor }] = model.parameters.as_slice() else {
        let what = format!("{} tensors instead of one", model.parameters.len());
        return Err(Error::Incompatible { format: NAME, what });
    };
    // Another file of this format may refer to elements that are missing beside it.
    if matches!(tensor.kind, Kind::Absent) && model.format != NAME {
        let what = format!("`{name}`, whose elements are not in the files of the model");
        return Err(Error::Incompatible { format: NAME, what });
    }
    let (structure, message) = encode_tensor(name, tensor, Layout::Inside)?;
    let then = model.residual.with_holes_of(VERBATIM).map(|(bytes, holes)| (bytes, &**holes));
    if let Some((then, [whole])) = then
        && options.same
        && *then == structure
    {
        return Staged::file(path, options, |out| out.copy(whole));
    }
    Staged::file(path, options, |out| out.copy(&message))
}

//! Blobs in files of their own: a single `BlobProto`, and databases of kind `minidb`.
//!
//! | in a database | |
//! |---|---|
//! | i32, i32 | length of the key, length of the value |
//! | bytes | key: the name of a blob; `#%N` is appended for chunk N of a tensor |
//! | bytes | value: a `BlobProto` |
//!
//! There is no header. A tensor of many elements has several chunks, each with the dims of the whole and the range of
//! its elements. A predictor has a first record `!!META_NET_DEF`, with a `MetaNetDef` as content: its nets and the names
//! of parameters, inputs and outputs.
//!
//! An edited blob is written as one `BlobProto`; the others keep their bytes.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::{DType, Dialect, Kind, Limits, Model, Parameter, Program, Residual, Tensor};
use lodstone_store::{Blob, Cursor, Location};

use super::tensor::{self, Read};
use super::{BINARY, detect, net, schema, weights};
use crate::encoding::protobuf::holes::{content, filled, without_elements};
use crate::encoding::protobuf::wire::{Encoder, Message, Source, Value};
use crate::error::{Error, Result};
use crate::format::{Format, Writes, signed_dims};
use crate::options::{Holds, OpenOptions, WriteOptions};
use crate::staged::Staged;

/// A file of a single blob.
pub static BLOB: Format = Format {
    name: "caffe2-blob",
    title: "Caffe2 blob (`BlobProto`)",
    holds: Holds {
        program: None,
        startup: false,
        dtype: |dtype| tensor::code(dtype).is_some(),
        ..BINARY.holds
    },
    alone: None,
    into_directory: false,
    extension: "",
    prefix: None,
    files: &[],
    detect: |probe| probe.entries.is_none() && detect::is_blob(probe.head, probe.len),
    read: |path, options| open(path, options, false),
    stage: |model, path, options| stage(model, path, options, false),
    ..BINARY
};

/// A database of blobs.
pub static MINIDB: Format = Format {
    name: "caffe2-minidb",
    title: "Caffe2 database (`minidb`)",
    extension: "minidb",
    detect: |probe| probe.entries.is_none() && detect::is_minidb(probe.head, probe.len),
    read: |path, options| open(path, options, true),
    stage: |model, path, options| stage(model, path, options, true),
    ..BLOB
};

/// A database of blobs with the nets of a predictor, which is written back only.
pub static PREDICTOR: Format = Format {
    name: "caffe2-predictor",
    title: "Caffe2 predictor (`minidb`)",
    writes: Writes::Own,
    holds: Holds { program: Some(Dialect::Caffe2), ..MINIDB.holds },
    extension: "",
    // Detected as a database, whose reader determines the actual format.
    detect: |_| false,
    ..MINIDB
};

/// The key of the record with nets.
const META: &str = "!!META_NET_DEF";

/// The separator of the name of a blob and the number of its chunk.
const CHUNK: &str = "#%";

/// The owner of the records of a file.
const OWNER: &str = "caffe2 records";

/// A record: its bytes in the file, and the name of the blob.
struct Record {
    whole: Blob,
    value: Blob,
    /// Without the number of the chunk; empty in a file of a single blob.
    name: String,
}

fn open(path: &Location, options: &OpenOptions, is_database: bool) -> Result<Model> {
    let blob = options.file(path)?;
    read(&blob, &path.display().to_string(), &options.limits, is_database)
}

/// Reads a file of blobs; `origin` names it in messages.
///
/// # Errors
/// Fails if a record is damaged, or chunks do not belong together.
pub fn read(blob: &Blob, origin: &str, limits: &Limits, is_database: bool) -> Result<Model> {
    let records = match is_database {
        true => records(blob, limits)?,
        false => vec![Record { whole: blob.clone(), value: blob.clone(), name: String::new() }],
    };
    let mut model = Model { format: BLOB.name.to_owned(), ..Model::default() };
    if is_database {
        MINIDB.name.clone_into(&mut model.format);
    }
    let mut chunks: Vec<(String, Vec<Read>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (number, record) in records.iter().enumerate() {
        let inside = |error| Error::InRecord { number, source: Box::new(error) };
        match stored(record, origin, limits).map_err(inside)? {
            Stored::Meta(program) => {
                model.set_main(*program);
                PREDICTOR.name.clone_into(&mut model.format);
            }
            Stored::Tensor(name, read) => {
                let index = *known.entry(name.clone()).or_insert(chunks.len());
                match chunks.get_mut(index) {
                    Some((_, chunks)) => chunks.push(*read),
                    None => chunks.push((name, vec![*read])),
                }
            }
        }
    }
    if chunks.len() > limits.tensors {
        return Err(blob.over_limit(0, limits.at_most_tensors("tensors")).into());
    }
    for (name, chunks) in chunks {
        let mut tensor = joined(blob, &name, chunks)?;
        tensor.residual = weights::residual(&tensor.data);
        model.parameters.push(Parameter { name, tensor });
    }
    bind(&mut model);
    let names: Vec<(String, String, Vec<u64>)> = model
        .parameters
        .iter()
        .map(|it| (it.name.clone(), it.tensor.dtype.to_string(), it.tensor.shape.clone()))
        .collect();
    crate::format::remember(&mut model, OWNER, &names)?;
    let json = model.residual.of(OWNER).cloned().unwrap_or_default();
    model.residual = Residual::with_holes(OWNER, json, Arc::from([blob.clone()]));
    model.files.push(blob.clone());
    Ok(model)
}

/// Splits a database into records.
fn records(blob: &Blob, limits: &Limits) -> Result<Vec<Record>> {
    let mut cursor = Cursor::new(blob);
    let mut records = Vec::new();
    while cursor.remaining() > 0 {
        limits.check_cancelled()?;
        let start = cursor.position();
        let sizes = [cursor.i32("the length of a key")?, cursor.i32("the length of a value")?];
        let size = |size: i32| {
            let wrong = || cursor.error_at(start, "a length of 0 or more", size.to_string());
            u64::try_from(size).map_err(|_| wrong())
        };
        let [key_len, value_len] = sizes;
        let (key_len, value_len) = (size(key_len)?, size(value_len)?);
        if key_len > limits.structure_bytes {
            return Err(cursor.over_limit_at(start, "a shorter key").into());
        }
        let key = cursor.bytes(key_len, "a key")?;
        let key = String::from_utf8(key)
            .map_err(|_| cursor.error_at(start, "a key of UTF-8 text", "other bytes"))?;
        let value = cursor.blob(value_len, "a value")?;
        let whole = blob.slice(start, cursor.position() - start)?;
        let name = match key.rsplit_once(CHUNK) {
            Some((name, number)) if number.bytes().all(|it| it.is_ascii_digit()) => name.to_owned(),
            _ => key,
        };
        records.push(Record { whole, value, name });
    }
    Ok(records)
}

/// What a record holds.
enum Stored {
    /// The main net of a predictor.
    Meta(Box<Program>),
    Tensor(String, Box<Read>),
}

fn stored(record: &Record, origin: &str, limits: &Limits) -> Result<Stored> {
    let structure = without_elements(&record.value, &schema::BLOB, limits)?;
    let source = Source::with_holes(origin, limits, &structure);
    let message = Message::new(&source, structure.bytes.clone());
    let holes = &structure.holes;
    message.charge::<Parameter>()?;
    let (mut name, mut text, mut tensor) = (None, None, None);
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => name = Some(field.string()?),
            3 => tensor = Some(tensor::tensor(&field.message()?, holes)?),
            4 => {
                text = Some(match field.value {
                    Value::Group => content(&field, holes)?.clone(),
                    _ => Blob::memory(field.bytes()?),
                });
            }
            5 => tensor = Some(tensor::quantized(&field.message()?, holes)?),
            _ => {}
        }
    }
    if let Some(text) = text.as_ref().filter(|_| record.name == META) {
        return meta(text, origin, limits).map(|program| Stored::Meta(Box::new(program)));
    }
    // The key is the name of the blob, which the message only repeats.
    let named = if record.name.is_empty() { name.unwrap_or_default() } else { record.name.clone() };
    let read = match (tensor, text) {
        (Some(read), _) => read,
        (None, Some(text)) => {
            let mut tensor = Tensor::dense(DType::String, Vec::new(), Blob::default());
            tensor.kind = Kind::Strings { elements: vec![text.read()?] };
            Read { name: named.clone(), tensor, segment: None, quantization: None }
        }
        (None, None) => {
            return Err(message.error("a blob with a tensor or a text", "neither"));
        }
    };
    Ok(Stored::Tensor(named, Box::new(read)))
}

/// The key of the net that computes, in a `MetaNetDef`.
const PREDICT: &str = "PREDICT_NET_TYPE";

/// Reads the main net of a predictor.
fn meta(text: &Blob, origin: &str, limits: &Limits) -> Result<Program> {
    let structure = without_elements(text, &schema::META_NET, limits)?;
    let source = Source::with_holes(origin, limits, &structure);
    let message = Message::new(&source, structure.bytes.clone());
    for field in message.fields() {
        let field = field?;
        if field.number != 2 {
            continue;
        }
        let (mut key, mut value) = (String::new(), None);
        for field in field.message()?.fields() {
            let field = field?;
            match field.number {
                1 => key = field.string()?,
                2 => value = Some(field.message()?.bytes),
                _ => {}
            }
        }
        if let (PREDICT, Some(net)) = (key.as_str(), value) {
            let whole = filled(&schema::NET, &net, &structure.holes)?;
            return Ok(net::read_binary(&whole, origin, limits, false)?.program);
        }
    }
    Err(message.missing("the net `PREDICT_NET_TYPE`"))
}

/// Marks the inputs of a predictor that are parameters.
fn bind(model: &mut Model) {
    let names: Vec<String> = model.parameters.iter().map(|it| it.name.clone()).collect();
    let main = model.programs.main_mut().and_then(|main| main.blocks.first_mut());
    for var in main.into_iter().flat_map(|main| &mut main.vars) {
        var.persistable = names.contains(&var.name);
        var.is_parameter = var.persistable;
    }
}

/// Joins the chunks of a tensor.
fn joined(blob: &Blob, name: &str, mut chunks: Vec<Read>) -> Result<Tensor> {
    let wrong = |expected: &str, found: String| {
        Error::from(blob.malformed(0, expected, found)).inside(format!("`{name}`"))
    };
    chunks.sort_by_key(|chunk| chunk.segment.map(|(begin, _)| begin));
    let mut end = 0;
    for chunk in &chunks {
        match chunk.segment {
            Some((begin, next)) if begin == end => end = next,
            None if chunks.len() == 1 => {}
            Some((begin, _)) => {
                return Err(wrong(
                    "a chunk that continues the one before",
                    format!("element {begin} after {end}"),
                ));
            }
            None => return Err(wrong("one blob of a name", "another".to_owned())),
        }
    }
    let mut chunks = chunks.into_iter();
    let first = chunks.next().ok_or_else(|| Error::internal("a blob has no chunk"))?;
    let has_segment = first.segment.is_some();
    let mut tensor = first.tensor;
    let mut parts = vec![tensor.data];
    for chunk in chunks {
        let other = chunk.tensor;
        if other.dtype != tensor.dtype || other.shape != tensor.shape {
            return Err(wrong("chunks of one type", format!("{} {:?}", other.dtype, other.shape)));
        }
        parts.push(other.data);
        if let (Kind::Strings { elements }, Kind::Strings { elements: more }) =
            (&mut tensor.kind, other.kind)
        {
            elements.extend(more);
        }
    }
    tensor.data = match <[Blob; 1]>::try_from(parts) {
        Ok([only]) => only,
        Err(parts) => Blob::concat(parts),
    };
    let count = match tensor.shape.contains(&0) {
        true => Some(0),
        false => tensor.shape.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim)),
    };
    if has_segment && count != u64::try_from(end).ok() {
        let found = format!("{end} elements");
        return Err(wrong(&format!("chunks of all elements of {:?}", tensor.shape), found));
    }
    Ok(tensor)
}

/// The type that [`read`] remembers of each parameter.
type Types = Vec<(String, String, Vec<u64>)>;

fn stage(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
    is_database: bool,
) -> Result<Staged> {
    let format = if is_database { MINIDB.name } else { BLOB.name };
    let (then, file) = match model.residual.with_holes_of(OWNER) {
        Some((_, holes)) => (
            crate::format::recall::<Types>(model, OWNER)?.unwrap_or_default(),
            holes.first().cloned(),
        ),
        None => (Types::new(), None),
    };
    let known: HashMap<&str, &(String, String, Vec<u64>)> =
        then.iter().map(|it| (it.0.as_str(), it)).collect();
    let is_unedited = |parameter: &Parameter| {
        let tensor = &parameter.tensor;
        let is_same = known.get(parameter.name.as_str()).is_some_and(|(_, dtype, shape)| {
            *dtype == tensor.dtype.to_string() && *shape == tensor.shape
        });
        is_same && weights::is_as_read(tensor)
    };
    let by_name: HashMap<&str, &Parameter> =
        model.parameters.iter().map(|it| (it.name.as_str(), it)).collect();
    let mut parts = Vec::new();
    let mut written: Vec<&str> = Vec::new();
    let limits = Limits::none();
    let was_database = file.as_ref().is_some_and(|_| model.format != BLOB.name);
    let records = match &file {
        Some(file) if was_database == is_database => match is_database {
            true => records(file, &limits)?,
            false => {
                let name = then.first().map(|it| it.0.clone()).unwrap_or_default();
                vec![Record { whole: file.clone(), value: file.clone(), name }]
            }
        },
        _ => Vec::new(),
    };
    if model.main().is_some() && !records.iter().any(|record| record.name == META) {
        let what = "a program: a predictor is only written back".to_owned();
        return Err(Error::Incompatible { format: PREDICTOR.title, what });
    }
    for record in &records {
        match by_name.get(record.name.as_str()) {
            _ if record.name == META => parts.push(record.whole.clone()),
            Some(parameter) if is_unedited(parameter) => {
                written.push(&parameter.name);
                parts.push(record.whole.clone());
            }
            Some(parameter) if !written.contains(&parameter.name.as_str()) => {
                written.push(&parameter.name);
                parts.push(encode(parameter, is_database)?);
            }
            _ => {}
        }
    }
    for parameter in model.parameters.iter().filter(|it| !written.contains(&it.name.as_str())) {
        parts.push(encode(parameter, is_database)?);
    }
    if !is_database && parts.len() != 1 {
        let what = format!("{} tensors: a file has one blob", parts.len());
        return Err(Error::Incompatible { format, what });
    }
    let whole = Blob::concat(parts);
    Staged::file(path, options, |out| out.copy(&whole))
}

/// Encodes a blob, with its key if it is for a database.
fn encode(parameter: &Parameter, is_database: bool) -> Result<Blob> {
    let Parameter { name, tensor } = parameter;
    let code =
        tensor::code(tensor.dtype).ok_or_else(|| Error::dtype(BLOB.title, name, tensor.dtype))?;
    let mut holes = Vec::new();
    let mut out = Encoder::default();
    let dims = signed_dims(BLOB.title, name, &tensor.shape)?;
    dims.iter().for_each(|dim| out.int(1, *dim));
    out.int(2, code);
    elements(name, tensor, &mut out, &mut holes)?;
    out.bytes(7, name.as_bytes());
    let count = signed_count(name, &dims)?;
    // The device is the processor.
    out.message(8, |out| out.int(1, 0));
    out.message(11, |out| {
        out.int(1, 0);
        out.int(2, count);
    });
    let mut blob = Encoder::default();
    blob.bytes(1, name.as_bytes());
    blob.bytes(2, b"Tensor");
    blob.bytes(3, &out.finish());
    let value = filled(&schema::BLOB, &blob.finish().into(), &holes)?;
    if !is_database {
        return Ok(value);
    }
    let key = format!("{name}{CHUNK}0");
    let too_large = || Error::Incompatible {
        format: MINIDB.title,
        what: format!("the tensor `{name}`, which is larger than 2 GiB"),
    };
    let sizes =
        [key.len() as u64, value.len()].map(|size| i32::try_from(size).map_err(|_| too_large()));
    let [key_len, value_len] = sizes;
    let header = [key_len?.to_le_bytes(), value_len?.to_le_bytes()].concat();
    Ok(Blob::concat(vec![Blob::memory(header), Blob::memory(key.into_bytes()), value]))
}

/// Multiplies dims.
fn signed_count(name: &str, dims: &[i64]) -> Result<i64> {
    let count = match dims.contains(&0) {
        true => Some(0),
        false => dims.iter().try_fold(1_i64, |count, dim| count.checked_mul(*dim)),
    };
    let what = || format!("the tensor `{name}` of shape {dims:?}");
    count.ok_or_else(|| Error::Incompatible { format: BLOB.title, what: what() })
}

/// Encodes the elements of a tensor.
fn elements(name: &str, tensor: &Tensor, out: &mut Encoder, holes: &mut Vec<Blob>) -> Result<()> {
    let refuse = |what: &str| {
        let what = format!("the tensor `{name}`, {what}");
        Err(Error::Incompatible { format: BLOB.title, what })
    };
    let varints = |values: Vec<i64>| {
        let mut encoder = Encoder::default();
        values.into_iter().for_each(|value| encoder.varint(value.cast_unsigned()));
        encoder.finish()
    };
    match &tensor.kind {
        Kind::Strings { elements } => elements.iter().for_each(|text| out.bytes(6, text)),
        Kind::Dense => match tensor.dtype {
            DType::Float32 | DType::Float64 => {
                let number = if tensor.dtype == DType::Float32 { 3 } else { 9 };
                match tensor.data.is_empty() {
                    true => out.bytes(number, &[]),
                    false => {
                        out.hole(number, holes.len());
                        holes.push(tensor.data.clone());
                    }
                }
            }
            DType::Int64 => out.bytes(10, &varints(weights::integers(tensor)?)),
            _ => out.bytes(4, &varints(weights::integers(tensor)?)),
        },
        Kind::Absent => return refuse("whose elements are missing"),
        kind => return refuse(&format!("which is {}", kind.name())),
    }
    Ok(())
}

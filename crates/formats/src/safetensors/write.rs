//! Writes tensors as the reference does.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use bytes::Bytes;
use lodstone_model::{DType, Kind, Model, Parameter};
use lodstone_store::{Location, Output};
use serde::Serialize;

use super::aliases::{FRAMEWORK, collapse};
use super::header::Header;
use super::layout::Layout;
use super::{CODES, FORMAT, INDEX, MAX_HEADER, METADATA, NAME, code, numbered, size_of};
use crate::error::{Error, Result};
use crate::options::WriteOptions;
use crate::registry::named;
use crate::sharding::{Item, Shard, ShardFormat, Sharding};
use crate::staged::Staged;

/// Writes one file, or, with [`max_shard_size`](WriteOptions::max_shard_size), several files and
/// an index.
///
/// # Errors
/// Fails if the format cannot represent a tensor, or if reading or writing fails.
pub(super) fn write(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    check(&model.parameters)?;
    let collapsed = if options.repeats { None } else { Some(collapse(model, &recorded(model)?)) };
    let model = collapsed.as_deref().unwrap_or(model);
    let metadata = metadata(model);
    let keep = options.same && options.max_shard_size.is_none();
    let unedited = Layout::unedited(model)?.filter(|_| keep);
    let is_directory = unedited.as_ref().is_some_and(|(layout, _)| layout.directory);
    let file =
        (path.names_directory()? && !is_directory).then(|| FORMAT.file_in(path, model, options));
    let path = file.as_ref().unwrap_or(path);
    if let Some((layout, split)) = unedited {
        return layout.write(&split, path, options);
    }
    let shards = match options.max_shard_size {
        Some(max) => split(model, &metadata, max)?,
        None => Vec::new(),
    };
    if shards.len() > 1 {
        return write_shards(model, &metadata, &shards, path, options);
    }
    let tensors: Vec<&Parameter> = model.parameters.iter().collect();
    let (header, tensors) = match verbatim(model) {
        Some(header) => (header.to_vec(), tensors),
        None => plan(tensors, &metadata)?,
    };
    Staged::file(path, options, |out| put(out, &header, &tensors))
}

/// Returns the metadata of a new file: with the framework of the tensors, without which Hugging Face libraries reject the
/// file.
fn metadata(model: &Model) -> BTreeMap<String, String> {
    let mut metadata = model.metadata.clone();
    if let Some(framework) = named(&model.format).and_then(|format| format.framework_tag) {
        metadata.entry(FRAMEWORK.to_owned()).or_insert_with(|| framework.to_owned());
    }
    metadata
}

/// Returns the metadata of the file that a model was read from.
fn recorded(model: &Model) -> Result<BTreeMap<String, String>> {
    if let Some(layout) = Layout::of(model)? {
        return Ok(layout.metadata);
    }
    let header = model.residual.of(NAME).and_then(|json| Header::decode(json).ok());
    Ok(header.map(|header| header.metadata).unwrap_or_default())
}

/// Writes tensors to a single file, which may be one of several.
///
/// # Errors
/// Fails if the format cannot represent a tensor, or if reading or writing fails.
pub fn write_to(out: &mut Output, tensors: &[Parameter]) -> Result<()> {
    check(tensors)?;
    let (header, tensors) = plan(tensors.iter().collect(), &BTreeMap::new())?;
    put(out, &header, &tensors)
}

fn write_shards(
    model: &Model,
    metadata: &BTreeMap<String, String>,
    shards: &[Vec<&Parameter>],
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".safetensors").unwrap_or(&name);
    let mut staged = Staged::directory(&path.directory(), options)?;
    let mut weight_map = BTreeMap::new();
    for (number, shard) in (1..).zip(shards) {
        let name = numbered::name(stem, number, shards.len(), numbered::WIDTH);
        let (header, tensors) = plan(shard.clone(), metadata)?;
        staged.write(&name, |out| put(out, &header, &tensors))?;
        weight_map.extend(shard.iter().map(|tensor| (tensor.name.as_str(), name.clone())));
    }
    let index = Index { metadata: IndexMetadata { total_size: model.nbytes() }, weight_map };
    let (name, text) = (format!("{stem}{INDEX}"), index_text(&index)?);
    staged.write(&name, |out| out.put(text.as_bytes()))?;
    Ok(staged.opened_by(name))
}

/// Files of whole tensors, and an index.
pub(crate) static SHARDS: ShardFormat = ShardFormat {
    name: NAME,
    divides: false,
    holds: FORMAT.holds,
    spare: &[],
    index: "model.safetensors.index.json",
    file: |number, count| numbered::name("model", number + 1, count, numbered::WIDTH),
    check: |parameter| check(std::slice::from_ref(parameter)),
    write: put_items,
    keep: |_| Ok(None),
    put_index,
};

fn put_items(
    out: &mut Output,
    sharding: &Sharding<'_>,
    items: &[Item<'_>],
) -> Result<Vec<Range<u64>>> {
    let parameters = items.iter().map(Item::parameter).collect::<Result<Vec<_>>>()?;
    let (header, tensors) = plan(parameters.iter().collect(), &metadata(sharding.model))?;
    let mut places = HashMap::new();
    let mut start = SIZE as u64 + header.len() as u64;
    for Parameter { name, tensor } in &tensors {
        places.insert(name.as_str(), start..start + tensor.data.len());
        start += tensor.data.len();
    }
    put(out, &header, &tensors)?;
    Ok(items.iter().filter_map(|item| places.remove(item.name())).collect())
}

fn put_index(out: &mut Output, sharding: &Sharding<'_>, shards: &[Shard<'_>]) -> Result<()> {
    let files = shards.iter().flat_map(|shard| shard.items.iter().map(|item| (item, &shard.file)));
    let weight_map = files.map(|(item, file)| (item.name(), file.clone())).collect();
    let metadata = IndexMetadata { total_size: sharding.model.nbytes() };
    Ok(out.put(index_text(&Index { metadata, weight_map })?.as_bytes())?)
}

pub(super) fn put(out: &mut Output, header: &[u8], tensors: &[&Parameter]) -> Result<()> {
    out.put(&(header.len() as u64).to_le_bytes())?;
    out.put(header)?;
    tensors.iter().try_for_each(|parameter| Ok(out.copy(&parameter.tensor.data)?))
}

/// Fails unless the format can represent every tensor.
fn check(tensors: &[Parameter]) -> Result<()> {
    let mut names = HashSet::new();
    for Parameter { name, tensor } in tensors {
        let refuse = |what: String| Err(Error::Incompatible { format: NAME, what });
        if name.is_empty() {
            return refuse("a tensor without a name".to_owned());
        }
        if name == METADATA {
            return refuse(format!("a tensor called `{METADATA}`, which is a reserved key"));
        }
        if !names.insert(name) {
            return refuse(format!("two tensors called `{name}`"));
        }
        if !matches!(tensor.kind, Kind::Dense) {
            return refuse(format!("the {} tensor `{name}`", tensor.kind.name()));
        }
        if !tensor.lod.is_empty() {
            return refuse(format!("the LoD of the tensor `{name}`"));
        }
        if code(tensor.dtype).is_none() {
            return Err(Error::dtype(NAME, name, tensor.dtype));
        }
        if size_of(tensor.dtype, &tensor.shape) != Some(tensor.data.len()) {
            let (dtype, shape, len) = (tensor.dtype, &tensor.shape, tensor.data.len());
            return refuse(format!("the tensor `{name}`: {dtype} {shape:?} in {len} bytes"));
        }
    }
    Ok(())
}

/// Returns the original header of the model, if it still matches.
fn verbatim(model: &Model) -> Option<&Bytes> {
    let json = model.residual.of(NAME)?;
    let header = Header::decode(json).ok()?;
    let same = header.metadata == model.metadata && header.describes(&model.parameters);
    same.then_some(json)
}

/// Returns the header of a file with these tensors, and the order of their elements in it.
fn plan<'a>(
    mut tensors: Vec<&'a Parameter>,
    metadata: &BTreeMap<String, String>,
) -> Result<(Vec<u8>, Vec<&'a Parameter>)> {
    let rank = |parameter: &Parameter| {
        CODES.iter().rev().position(|(dtype, _)| *dtype == parameter.tensor.dtype)
    };
    tensors.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
    let mut header = String::from("{");
    if !metadata.is_empty() {
        header.push_str(&format!("\"{METADATA}\":{},", json(metadata)?));
    }
    let mut begin = 0;
    for parameter in &tensors {
        let end = begin + parameter.tensor.data.len();
        let Parameter { name, tensor } = parameter;
        header.push_str(&entry(name, tensor.dtype, &tensor.shape, begin, end)?);
        begin = end;
    }
    Ok((close(header, 8)?, tensors))
}

/// The number of bytes before the header.
const SIZE: usize = 8;

/// Ends a header of entries, and pads it so that the elements begin at a multiple of `alignment` bytes, a multiple of 8.
pub(super) fn close(mut header: String, alignment: usize) -> Result<Vec<u8>> {
    if header.ends_with(',') {
        header.pop();
    }
    header.push('}');
    let size = (SIZE + header.len()).next_multiple_of(alignment) - SIZE;
    if size as u64 > MAX_HEADER {
        let what = format!("a header of {size} bytes, more than {MAX_HEADER}");
        return Err(Error::Incompatible { format: NAME, what });
    }
    let mut header = header.into_bytes();
    header.resize(size, b' ');
    Ok(header)
}

/// Returns the entry of a tensor in the header, and a comma.
pub(super) fn entry(
    name: &str,
    dtype: DType,
    shape: &[u64],
    begin: u64,
    end: u64,
) -> Result<String> {
    let dtype = code(dtype).ok_or_else(|| Error::dtype(NAME, name, dtype))?;
    let (name, shape) = (json(&name)?, json(&shape)?);
    Ok(format!(r#"{name}:{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}},"#))
}

/// Splits tensors, in the order of the model, into files of at most `max` bytes; a larger
/// tensor gets its own file.
fn split<'a>(
    model: &'a Model,
    metadata: &BTreeMap<String, String>,
    max: u64,
) -> Result<Vec<Vec<&'a Parameter>>> {
    /// The size field of the header, its braces and its padding.
    const FRAME: u64 = 8 + 2 + 7;
    let metadata = METADATA.len() + json(metadata)?.len() + "\"\":,".len();
    let empty = FRAME + metadata as u64;
    let mut shards: Vec<Vec<&Parameter>> = Vec::new();
    let mut size = u64::MAX;
    for parameter in &model.parameters {
        // With the maximum number of digits of an offset.
        let Parameter { name, tensor } = parameter;
        let entry = entry(name, tensor.dtype, &tensor.shape, u64::MAX, u64::MAX)?.len() as u64;
        let more = parameter.tensor.data.len().saturating_add(entry);
        size = size.saturating_add(more);
        match shards.last_mut() {
            Some(shard) if size <= max => shard.push(parameter),
            _ => {
                size = empty.saturating_add(more);
                shards.push(vec![parameter]);
            }
        }
    }
    Ok(shards)
}

/// Keys in the order of `json.dumps(index, indent=2, sort_keys=True)`.
#[derive(Serialize)]
struct Index<'a> {
    metadata: IndexMetadata,
    weight_map: BTreeMap<&'a str, String>,
}

#[derive(Serialize)]
struct IndexMetadata {
    total_size: u64,
}

/// Formats an index as `transformers` does: indented, ASCII only, with a line feed at the end.
fn index_text(index: &Index<'_>) -> Result<String> {
    let text = serde_json::to_string_pretty(index).map_err(|_| no_json())?;
    let mut ascii = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if matches!(character, ' '..='~' | '\n') {
            ascii.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii.push('\n');
    Ok(ascii)
}

/// Formats strings, integers and maps of strings as compact JSON.
pub(super) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|_| no_json())
}

fn no_json() -> Error {
    Error::internal("strings and numbers cannot be encoded as JSON")
}

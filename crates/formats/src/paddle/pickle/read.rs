//! Reads tensors and metadata. Elements are not read, except for a scan of those that are
//! encoded as strings.

use std::collections::{BTreeMap, HashSet};

use lodstone_model::{DType, Limits, Model, Parameter, Residual, Tensor, some};
use lodstone_store::Blob;

use super::contents::{Found, contents};
use super::{NAME, builds};
use crate::encoding::pickle::{self, Decoded, Id, Kept, Shapes, Span, Spelling, Value};
use crate::error::Result;

/// Returns whether a file begins like a pickle of protocol 2 or later: the protocol, then at least one byte. A pickle
/// ends with `STOP`, so one more byte must follow.
pub(crate) fn is_pickle(head: &[u8]) -> bool {
    matches!(head, [0x80, 2..=5, _, ..])
}

/// Reads a pickle, up to the last byte.
///
/// Element types are those in the pickle: bfloat16 is uint16 there, and float8 int8.
///
/// # Errors
/// Fails if the file is not a pickle, or contains anything but tensors and plain values; the error names the object and
/// its offset.
pub fn read_blob(blob: &Blob, limits: &Limits) -> Result<Model> {
    let tree = pickle::read(blob, 0, limits)?;
    if tree.end() != blob.len() {
        let found = format!("{} bytes more", blob.len() - tree.end());
        return Err(blob
            .malformed(tree.end(), "the end of the file after the pickle", found)
            .into());
    }
    let shapes = Shapes::check(tree, builds)?;
    let contents = contents(&shapes, limits)?;
    let (format, files) = (NAME.to_owned(), vec![blob.clone()]);
    let mut model = Model { format, files, ..Model::default() };
    let mut decoded = Decoded::default();
    // Arrays may share their bytes, but their total size is bounded by the file size.
    let mut left = blob.len().saturating_mul(64).saturating_add(1 << 20);
    for (number, found) in (0u64..).zip(&contents.tensors) {
        let tensor = tensor(&shapes, found, &mut decoded)?;
        let Some(less) = left.checked_sub(tensor.data.len()) else {
            let expected = "tensors that are not shared excessively";
            let found = "many times the stored bytes";
            return Err(blob.malformed(0, expected, found).into());
        };
        left = less;
        let residual = Residual::new(NAME, number.to_le_bytes().to_vec().into());
        let tensor = Tensor { residual, ..tensor };
        model.parameters.push(Parameter { name: found.path.clone(), tensor });
    }
    let parts = contents.tensors.iter().flat_map(|found| &found.parts);
    let elements: Vec<Span> = parts.map(|array| array.data.span).collect();
    model.residual = Residual::new(NAME, Kept::new(blob, &elements, limits)?.encode());
    if !contents.clashes.is_empty() {
        let paths = some(&contents.clashes);
        model.report.warn(format!("values with the same path, of which one is shown: {paths}"));
    }
    if contents.metadata.get("__class__").is_some_and(|class| class.contains(".Metadata")) {
        let what =
            "this file lists the tensors of a distributed checkpoint, which are in `*.distcp`";
        model.report.warn(what);
    }
    model.metadata = contents.metadata;
    Ok(model)
}

fn tensor(shapes: &Shapes, found: &Found, decoded: &mut Decoded) -> Result<Tensor> {
    let mut parts = Vec::with_capacity(found.parts.len());
    for array in &found.parts {
        parts.push(decoded.elements(shapes, array)?);
    }
    let dtype = found.parts.first().map_or(DType::Uint8, |array| array.dtype);
    Ok(Tensor::dense(dtype, found.shape.clone(), Blob::concat(parts)))
}

/// Reads the structured names of `X.pdiparams.info`, by the names of variables: a dict of dicts with a
/// `structured_name` each.
///
/// # Errors
/// Fails if the file is not such a dict; the error names the object and its offset.
pub(crate) fn read_structured_names(
    blob: &Blob,
    limits: &Limits,
) -> Result<BTreeMap<String, String>> {
    let shapes = Shapes::check(pickle::read(blob, 0, limits)?, builds)?;
    let unexpected = |id, expected| shapes.tree.error(id, expected, shapes.tree.describe(id));
    let dict = |id| match shapes.value(id)? {
        Value::Dict(pairs) => Ok(pairs),
        _ => Err(unexpected(id, "a dict")),
    };
    let word = |id| shapes.tree.word(id)?.ok_or_else(|| unexpected(id, "a name"));
    let mut names = BTreeMap::new();
    for (variable, facts) in dict(shapes.tree.root())? {
        for (key, value) in dict(*facts)? {
            if shapes.tree.short(*key).as_deref() == Some("structured_name") {
                names.insert(word(*variable)?, word(*value)?);
            }
        }
    }
    Ok(names)
}

/// The pickled `__model__` of 2017.
pub(crate) struct Early {
    /// The program, a protobuf.
    pub(crate) program: Blob,
    /// The names of inputs and outputs.
    pub(crate) interface: [Vec<String>; 2],
}

/// Reads a program of 2017: a dict of three keys, pickled by Python 2. `None` if the pickle is another object.
///
/// # Errors
/// The errors of [`read_blob`].
pub(crate) fn read_early(blob: &Blob, limits: &Limits) -> Result<Option<Early>> {
    let shapes = Shapes::check(pickle::read(blob, 0, limits)?, builds)?;
    let Value::Dict(pairs) = shapes.value(shapes.tree.root())? else { return Ok(None) };
    let get = |name: &str| {
        let mut found =
            pairs.iter().filter(|(key, _)| shapes.tree.short(*key).as_deref() == Some(name));
        found.next().map(|(_, value)| *value).filter(|_| found.next().is_none())
    };
    let (Some(program), Some(feeds), Some(fetches), 3) =
        (get("program_desc_str"), get("feed_var_names"), get("fetch_var_names"), pairs.len())
    else {
        return Ok(None);
    };
    let Some(data) = shapes.data(program) else { return Ok(None) };
    let names = |id| -> Result<Vec<String>> {
        let (Value::List(items) | Value::Tuple(items)) = shapes.value(id)? else {
            return Err(shapes.tree.error(id, "a list of names", shapes.tree.describe(id)));
        };
        let name = |id: &Id| {
            let odd = || shapes.tree.error(*id, "a name", shapes.tree.describe(*id));
            shapes.tree.word(*id)?.ok_or_else(odd)
        };
        items.iter().map(name).collect()
    };
    // The slice begins at 0, so that offsets in messages are those in the file.
    let program = match data.spelling {
        Spelling::Plain => blob.slice(data.span.start, data.span.len)?,
        _ => Blob::memory(shapes.decoded(data)?),
    };
    Ok(Some(Early { program, interface: [names(feeds)?, names(fetches)?] }))
}

/// Warns about tensors whose actual type may differ from that in the file; `known` are those that
/// a program confirms.
pub(crate) fn warn_bits(model: &mut Model, known: &HashSet<String>) {
    for (dtype, what) in [
        (
            DType::Uint16,
            "uint16, as which PaddlePaddle also pickles bfloat16; no program declares the type",
        ),
        (
            DType::Int8,
            "int8, as which PaddlePaddle also pickles float8; no program declares the type",
        ),
    ] {
        let is = |parameter: &&Parameter| {
            parameter.tensor.dtype == dtype && !known.contains(&parameter.name)
        };
        let names: Vec<String> = model
            .parameters
            .iter()
            .filter(is)
            .map(|parameter| format!("`{}`", parameter.name))
            .collect();
        if !names.is_empty() {
            model.report.warn(format!("tensors of type {what}: {}", some(names)));
        }
    }
}

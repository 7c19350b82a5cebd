//! Writes tensors as MXNet does.

use std::collections::HashSet;

use lodstone_model::{Kind, Model, Parameter, Tensor};
use lodstone_schema::mxnet::type_flag;
use lodstone_store::{Location, Output};

use super::PARAMS;
use super::bools::stored;
use super::detect::MAGIC;
use super::layout::Layout;
use super::record::{Version, as_it_was, encode};
use crate::error::{Error, Result};
use crate::options::WriteOptions;
use crate::staged::Staged;

/// Writes a list if no tensor has a name, and a dict otherwise.
///
/// # Errors
/// Fails if MXNet cannot represent a tensor, or could not load it, or if reading or writing fails.
pub(super) fn write(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    let layout = if options.same { Layout::of(model)? } else { Layout::usual(model) };
    Staged::file(path, options, |out| put(out, &model.parameters, &layout, options.same))
}

/// Writes parameters in the layout of the original file, or as current releases write them.
///
/// # Errors
/// Fails if MXNet cannot represent a tensor, or could not load it, or if reading or writing fails.
pub(crate) fn put(
    out: &mut Output,
    parameters: &[Parameter],
    layout: &Layout,
    same: bool,
) -> Result<()> {
    let version = version(parameters, same)?;
    if !same {
        check_names(parameters)?;
    }
    let count = (parameters.len() + layout.nones.len()) as u64;
    for number in [MAGIC, layout.reserved, count] {
        out.put(&number.to_le_bytes())?;
    }
    let mut nones = layout.nones.iter().peekable();
    for (index, Parameter { name, tensor }) in parameters.iter().enumerate() {
        while let Some(none) = nones.next_if(|none| none.before == index) {
            out.put(&none.record)?;
        }
        put_record(out, name, tensor, version, same)?;
    }
    nones.try_for_each(|none| out.put(&none.record))?;
    if !layout.named {
        out.put(&0u64.to_le_bytes())?;
        return Ok(out.put(&layout.trailing)?);
    }
    out.put(&count.to_le_bytes())?;
    let mut nones = layout.nones.iter().peekable();
    for (index, parameter) in parameters.iter().enumerate() {
        while let Some(none) = nones.next_if(|none| none.before == index) {
            put_name(out, &none.name)?;
        }
        put_name(out, layout.name(index, parameter))?;
    }
    nones.try_for_each(|none| put_name(out, &none.name))?;
    Ok(out.put(&layout.trailing)?)
}

fn put_name(out: &mut Output, name: &[u8]) -> Result<()> {
    out.put(&(name.len() as u64).to_le_bytes())?;
    Ok(out.put(name)?)
}

fn put_record(
    out: &mut Output,
    name: &str,
    tensor: &Tensor,
    version: Version,
    same: bool,
) -> Result<()> {
    let refuse = |what: String| Err(Error::Incompatible { format: PARAMS.name, what });
    if tensor.dtype.size_of(&tensor.stored_shape()) != Some(tensor.data.len()) {
        let (dtype, len) = (tensor.dtype, tensor.data.len());
        let shape = tensor.stored_shape();
        return refuse(format!("the tensor `{name}`: {dtype} {shape:?} in {len} bytes"));
    }
    let as_it_was = if same { as_it_was(tensor) } else { None };
    match as_it_was {
        Some((_, head)) => out.put(head)?,
        None => {
            check(name, tensor)?;
            let head = encode(tensor, version);
            out.put(&head.ok_or_else(|| Error::dtype(PARAMS.name, name, tensor.dtype))?)?;
        }
    }
    out.copy(if same { stored(&tensor.data) } else { &tensor.data })?;
    match &tensor.kind {
        Kind::RowSparse { indices } => out.copy(&indices.data)?,
        Kind::Csr { indptr, indices } => {
            out.copy(&indptr.data)?;
            out.copy(&indices.data)?;
        }
        _ => {}
    }
    Ok(())
}

/// Fails if MXNet cannot represent a tensor.
fn check(name: &str, tensor: &Tensor) -> Result<()> {
    /// MXNet's own limit.
    const MAX_RANK: usize = 32;
    let refuse = |what: String| Err(Error::Incompatible { format: PARAMS.name, what });
    let kind = &tensor.kind;
    if !matches!(kind, Kind::Dense | Kind::RowSparse { .. } | Kind::Csr { .. }) {
        return refuse(format!("the {} tensor `{name}`", kind.name()));
    }
    if !tensor.lod.is_empty() {
        return refuse(format!("the LoD of the tensor `{name}`"));
    }
    if tensor.shape.len() > MAX_RANK {
        let found = tensor.shape.len();
        return refuse(format!("the {found} dims of the tensor `{name}`, more than {MAX_RANK}"));
    }
    if type_flag(tensor.dtype).is_none() {
        return Err(Error::dtype(PARAMS.name, name, tensor.dtype));
    }
    // MXNet trusts the indices, and accesses memory out of bounds.
    match tensor.broken_indices()? {
        Some(broken) => refuse(format!("the indices of the tensor `{name}`: {broken}")),
        None => Ok(()),
    }
}

/// Returns the version of new records in a file. MXNet loads V2 with NumPy shapes disabled and V3
/// with them enabled, so a file must not mix them.
fn version(parameters: &[Parameter], same: bool) -> Result<Version> {
    let was = |tensor| if same { as_it_was(tensor).map(|(version, _)| version) } else { None };
    let dense = |tensor: &Tensor| matches!(tensor.kind, Kind::Dense);
    // Without NumPy shapes, no dims and dims of 0 mean that the shape is unknown.
    let numpy =
        |tensor: &Tensor| dense(tensor) && (tensor.shape.is_empty() || tensor.shape.contains(&0));
    let new: Vec<_> = parameters.iter().filter(|p| was(&p.tensor).is_none()).collect();
    let was_v3 = parameters.iter().any(|p| was(&p.tensor) == Some(Version::V3));
    // Unmodified records keep their version.
    if new.is_empty() || !(was_v3 || new.iter().any(|p| numpy(&p.tensor))) {
        return Ok(Version::V2);
    }
    match parameters.iter().find(|parameter| !dense(&parameter.tensor)) {
        None => Ok(Version::V3),
        Some(Parameter { name, tensor }) => {
            let kind = tensor.kind.name();
            let what = format!(
                "the {kind} tensor `{name}` beside one without elements or dims: MXNet loads \
                 them in different modes"
            );
            Err(Error::Incompatible { format: PARAMS.name, what })
        }
    }
}

fn check_names(parameters: &[Parameter]) -> Result<()> {
    let mut names = HashSet::new();
    let named = parameters.iter().filter(|parameter| !parameter.name.is_empty());
    for Parameter { name, .. } in named {
        let refuse = |what| Err(Error::Incompatible { format: PARAMS.name, what });
        if !names.insert(name) {
            return refuse(format!("two tensors called `{name}`"));
        }
        // MXNet passes names as C strings.
        if name.contains('\0') {
            return refuse(format!("the name {name:?}, which has a zero byte"));
        }
    }
    Ok(())
}

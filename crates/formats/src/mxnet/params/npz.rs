//! Arrays in a NumPy archive, as written by MXNet 2: a sparse array is a folder.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use lodstone_model::{DType, Indices, Kind, Limits, Model, Parameter, Tensor};
use lodstone_store::{Blob, Cursor, Location, Output, SourceFile};

use super::bools::{normalized, stored};
use super::layout::Layout;
use super::{HOLDS, NPZ};
use crate::byte_map::{self, Recorded};
use crate::encoding::zip::{self, Member, Writer, members};
use crate::error::{Error, Result};
use crate::format::Probe;
use crate::numpy::{self, BFLOAT16, encode_as};
use crate::options::{OpenOptions, WriteOptions};
use crate::staged::Staged;

/// The suffix of members that are arrays.
const SUFFIX: &str = ".npy";

/// Returns whether a file may be an archive: a zip file, even without members.
pub(crate) fn is_archive(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

/// Detects archives of MXNet by their name, or by the folder of a sparse array.
pub(super) fn detect(probe: &Probe<'_>) -> bool {
    if !is_archive(probe.head) {
        return false;
    }
    if probe.path.extension().is_some_and(|extension| extension == "params") {
        return true;
    }
    // Sparse arrays come first, so the first member holds the values of one.
    let Ok(file) = SourceFile::open(probe.path, false) else { return false };
    let listed = members(&Blob::file(file.into()), &Limits::default());
    numpy::is_npz(probe.head)
        && listed.is_ok_and(|members| folders(&members).into_iter().next().is_some())
}

pub(super) fn read(path: &Location, options: &OpenOptions) -> Result<Model> {
    read_npz_blob(&options.file(path)?, &options.limits)
}

/// Reads an archive of arrays.
///
/// # Errors
/// Fails if the archive is invalid or ambiguous, or a member is not a supported array.
pub fn read_npz_blob(blob: &Blob, limits: &Limits) -> Result<Model> {
    let (format, files) = (NPZ.name.to_owned(), vec![blob.clone()]);
    let origin = blob.path();
    let members = members(blob, limits)?;
    let checksums = members.iter().map(Member::checksum).collect();
    let mut model = Model { format, files, checksums, ..Model::default() };
    let mut folders = folders(&members);
    let mut done = HashSet::new();
    for member in &members {
        let inside = |error: Error| error.inside(format!("member `{}`", member.name));
        let folder = member.name.rsplit_once('/').map(|(folder, _)| folder);
        if let Some((name, parts)) = folder.and_then(|folder| folders.remove_entry(folder)) {
            let tensor = sparse(&parts, origin).map_err(inside)?;
            model.parameters.push(Parameter { name: name.to_owned(), tensor });
            done.insert(name);
        }
        if folder.is_some_and(|folder| done.contains(folder)) {
            continue;
        }
        let Some(name) = member.name.strip_suffix(SUFFIX) else {
            model
                .report
                .warn(format!("skipped `{}`: its name is not that of an array", member.name));
            continue;
        };
        let tensor = dense(member, origin).map_err(inside)?;
        model.parameters.push(Parameter { name: name.to_owned(), tensor });
    }
    let layout = Layout { archive: true, ..Layout::usual(&model) };
    layout.remember(&mut model)?;
    Ok(model)
}

fn dense(member: &Member, origin: &Path) -> Result<Tensor> {
    let mut tensor = numpy::tensor(member, origin)?;
    tensor.data = normalized(tensor.dtype, tensor.data);
    Ok(tensor)
}

/// Reads an archive with a recording cursor.
pub(super) fn map(blob: &Blob, limits: &Limits) -> Recorded {
    let recorded = byte_map::record(blob, |cursor| {
        zip::map(cursor, blob, limits, arrays, |name, member| {
            // NumPy cannot parse the header of a format.
            if (NPZ.reads_member)(name) { Ok(()) } else { numpy::contents(name, member, blob) }
        })
    });
    byte_map::checked(recorded, || read_npz_blob(blob, limits))
}

/// Returns the number of the array that each member belongs to; those of a folder belong to one.
fn arrays(members: &[Member]) -> Vec<Option<usize>> {
    let folders = folders(members);
    // A folder and an array may have the same name.
    let array = |member: &Member| -> Option<(bool, String)> {
        let folder = member.name.rsplit_once('/').map(|(folder, _)| folder);
        match folder.filter(|folder| folders.contains_key(folder)) {
            Some(folder) => Some((true, folder.to_owned())),
            None => member.name.strip_suffix(SUFFIX).map(|name| (false, name.to_owned())),
        }
    };
    let mut known = HashMap::new();
    let number = |member: &Member| {
        let next = known.len();
        array(member).map(|array| *known.entry(array).or_insert(next))
    };
    members.iter().map(number).collect()
}

/// The members of a folder by their role.
type Folder<'a> = BTreeMap<&'a str, &'a Member>;

/// Returns the folders that contain exactly the parts of a sparse array.
fn folders(members: &[Member]) -> HashMap<&str, Folder<'_>> {
    let mut folders: HashMap<&str, Folder<'_>> = HashMap::new();
    for member in members {
        if let Some((folder, part)) = member.name.rsplit_once('/') {
            folders.entry(folder).or_default().insert(part, member);
        }
    }
    folders.retain(|_, parts| {
        let names: Vec<&str> = parts.keys().copied().collect();
        let row_sparse = ["data.npy", "format.npy", "indices.npy", "shape.npy"];
        let csr = ["data.npy", "format.npy", "indices.npy", "indptr.npy", "shape.npy"];
        names == row_sparse || names == csr
    });
    folders
}

fn sparse(parts: &Folder<'_>, origin: &Path) -> Result<Tensor> {
    let part = |name: &str| {
        let member = parts.get(name).copied();
        let absent = || Error::Incompatible { format: NPZ.name, what: format!("no `{name}`") };
        member.ok_or_else(absent)
    };
    let array = |name: &str| numpy::tensor(part(name)?, origin);
    let numbers = |name: &str| -> Result<Indices> {
        let Tensor { dtype, shape, data, .. } = array(name)?;
        if !matches!(dtype, DType::Int32 | DType::Int64) || shape.len() != 1 {
            let found = format!("{dtype} of shape {shape:?}");
            return Err(data.malformed(0, format!("a list of integers in `{name}`"), found).into());
        }
        Ok(Indices { dtype, data })
    };
    let dims = numbers("shape.npy")?;
    let mut shape = Vec::new();
    if dims.count() <= 64 {
        dims.for_each(|dim| shape.extend(u64::try_from(dim).ok()))?;
    }
    let mut tensor = array("data.npy")?;
    let values = std::mem::replace(&mut tensor.shape, shape);
    let kind = part("format.npy")?;
    let format = format(kind)?;
    tensor.kind = match (format.as_slice(), parts.contains_key("indptr.npy")) {
        (b"row_sparse", false) => Kind::RowSparse { indices: numbers("indices.npy")? },
        (b"csr", true) => {
            Kind::Csr { indptr: Box::new(numbers("indptr.npy")?), indices: numbers("indices.npy")? }
        }
        (other, _) => {
            let found = format!("`{}`", other.escape_ascii());
            let expected = "`row_sparse`, or `csr` with `indptr.npy`";
            return Err(kind.data.malformed(0, expected, found).into());
        }
    };
    let rank = if matches!(tensor.kind, Kind::Csr { .. }) { 2..=2 } else { 1..=64 };
    let complete = dims.count() == tensor.shape.len() as u64;
    if !complete || !rank.contains(&tensor.shape.len()) || tensor.stored_shape() != values {
        let expected = format!("values of shape {values:?} that fit the indices and the shape");
        let found = format!("{:?} of {:?}", tensor.stored_shape(), tensor.shape);
        return Err(tensor.data.malformed(0, expected, found).into());
    }
    // The header belongs to the values.
    tensor.residual.clear();
    Ok(tensor)
}

/// Reads `format.npy`. Its header cannot be parsed, and is skipped by its size.
fn format(member: &Member) -> Result<Vec<u8>> {
    let whole = member.whole();
    let mut cursor = Cursor::new(&whole);
    let [.., major, _] = cursor.array::<8>("the magic of an array")?;
    let size = if major == 1 {
        u64::from(u16::from_le_bytes(cursor.array("the size of the header")?))
    } else {
        u64::from(cursor.u32("the size of the header")?)
    };
    cursor.blob(size, "the header")?;
    /// Longer than any format name.
    const MAX: u64 = 64;
    Ok(cursor.bytes(cursor.remaining().min(MAX), "the format")?)
}

/// Returns whether an element type can be written.
pub(super) fn has_code(dtype: DType) -> bool {
    dtype == DType::BFloat16 || (numpy::NPZ.holds.dtype)(dtype) && (HOLDS.dtype)(dtype)
}

pub(super) fn write(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    let layout = Layout::usual(model);
    Staged::file(path, options, |out| put(out, &model.parameters, &layout, options.same))
}

/// Writes an archive of stored members, sparse arrays as folders.
pub(super) fn put(out: &mut Output, parameters: &[Parameter], _: &Layout, _: bool) -> Result<()> {
    let mut names = HashSet::new();
    let mut writer = Writer::default();
    for parameter in parameters {
        for (name, parts) in files(parameter)? {
            if !names.insert(name.clone()) || name.contains('\0') {
                let what = format!("two members called {name:?}, or one with a zero byte");
                return Err(Error::Incompatible { format: NPZ.name, what });
            }
            writer.add(out, &name, &parts)?;
        }
    }
    writer.finish(out)
}

/// Returns the members of a tensor.
fn files(Parameter { name, tensor }: &Parameter) -> Result<Vec<(String, [Blob; 2])>> {
    let list = |indices: &Indices| {
        Tensor::dense(indices.dtype, vec![indices.count()], indices.data.clone())
    };
    let (format, numbers) = match &tensor.kind {
        Kind::RowSparse { indices } => ("row_sparse", vec![("indices", list(indices))]),
        Kind::Csr { indptr, indices } => {
            ("csr", vec![("indptr", list(indptr)), ("indices", list(indices))])
        }
        _ => return Ok(vec![(format!("{name}{SUFFIX}"), array(name, tensor)?)]),
    };
    if let Some(broken) = tensor.broken_indices()? {
        let what = format!("the indices of the tensor `{name}`: {broken}");
        return Err(Error::Incompatible { format: NPZ.name, what });
    }
    let values = Tensor::dense(tensor.dtype, tensor.stored_shape(), tensor.data.clone());
    let dims: Vec<u8> = tensor.shape.iter().flat_map(|dim| dim.to_le_bytes()).collect();
    let shape = Tensor::dense(DType::Int64, vec![tensor.shape.len() as u64], dims.into());
    let mut files = vec![(format!("{name}/data{SUFFIX}"), array(name, &values)?)];
    for (part, numbers) in numbers.iter().chain(&[("shape", shape)]) {
        files.push((format!("{name}/{part}{SUFFIX}"), array(name, numbers)?));
    }
    // A header that both MXNet and NumPy can read.
    let header = header(name, &format!("'|S{}'", format.len()), &[])?;
    let parts = [Blob::memory(header), Blob::memory(format.as_bytes())];
    files.push((format!("{name}/format{SUFFIX}"), parts));
    Ok(files)
}

/// Returns the header and elements of an array.
fn array(name: &str, tensor: &Tensor) -> Result<[Blob; 2]> {
    let mut tensor = tensor.clone();
    tensor.data = stored(&tensor.data).clone();
    if tensor.dtype != DType::BFloat16 {
        return numpy::parts(NPZ.name, &Parameter { name: name.to_owned(), tensor });
    }
    if tensor.dtype.size_of(&tensor.shape) != Some(tensor.data.len()) || !tensor.lod.is_empty() {
        let what = format!("the tensor `{name}`, whose elements do not fit its shape, or its LoD");
        return Err(Error::Incompatible { format: NPZ.name, what });
    }
    if let Some(parts) = numpy::as_it_was(&tensor) {
        return Ok(parts);
    }
    let header = header(name, &String::from_utf8_lossy(BFLOAT16), &tensor.shape)?;
    Ok([Blob::memory(header), tensor.data])
}

fn header(name: &str, descr: &str, shape: &[u64]) -> Result<Vec<u8>> {
    encode_as(descr, shape).ok_or_else(|| {
        let what = format!("the tensor `{name}`, which has {} dims", shape.len());
        Error::Incompatible { format: NPZ.name, what }
    })
}

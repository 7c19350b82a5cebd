//! The tensors of a model.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use lodstone_model::{DType, Indices, Kind, Parameter, Tensor};
use lodstone_schema::Properties;
use lodstone_store::{Blob, Progress};
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::InspectOptions;
use crate::Result;
use crate::numbers::element_count;

/// A tensor.
#[derive(Clone, Debug, Serialize)]
pub struct TensorInfo {
    /// The name; empty if the files do not contain one.
    pub name: String,
    /// The kind: `dense`, `selected_rows`, `csr` and so on ([`Kind::name`]).
    pub kind: &'static str,
    /// The element type, as NumPy or `ml_dtypes` spell it.
    #[serde(serialize_with = "display")]
    pub dtype: DType,
    /// The dims.
    pub shape: Vec<u64>,
    /// The size of the elements in bytes.
    pub nbytes: u64,
    /// What only some tensors have; see [`details`](Self::details).
    #[serde(flatten)]
    rare: Option<Box<TensorDetails>>,
}

/// What only some tensors have.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TensorDetails {
    /// The hash of the elements, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The structured name that layers use, where files record one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_name: Option<String>,
    /// The first tensor of the file whose bytes overlap with those of this one, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<String>,
    /// The LoD offsets, if any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lod: Vec<Vec<u64>>,
    /// What the files record beside the type.
    #[serde(flatten, serialize_with = "super::properties::serialize")]
    pub properties: Properties,
    /// The number of rows of the whole tensor, for `selected_rows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<i64>,
    /// The parts of a sparse tensor.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<&'static str, PartInfo>,
}

impl TensorInfo {
    /// Returns what only some tensors have; its members are empty for the others.
    pub fn details(&self) -> &TensorDetails {
        static NONE: LazyLock<TensorDetails> = LazyLock::new(TensorDetails::default);
        self.rare.as_deref().unwrap_or_else(|| &NONE)
    }

    /// Returns the number of stored elements; 0 for a vocabulary.
    pub fn elements(&self) -> u64 {
        let shape = self.details().parts.get("data").map_or(&self.shape, |values| &values.shape);
        if self.kind == "vocab" || shape.contains(&0) {
            return 0;
        }
        element_count(shape)
    }
}

/// A part of a sparse tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartInfo {
    /// The element type.
    #[serde(serialize_with = "display")]
    pub dtype: DType,
    /// The dims.
    pub shape: Vec<u64>,
    /// The hash of the elements, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

pub(super) fn describe(
    name: &str,
    tensor: &Tensor,
    mut details: TensorDetails,
    options: &InspectOptions,
) -> Result<TensorInfo> {
    let hashed = |blob: &Blob| {
        if options.hash { sha256(blob, &options.progress).map(Some) } else { Ok(None) }
    };
    let mut info = TensorInfo {
        name: name.to_owned(),
        kind: tensor.kind.name(),
        dtype: tensor.dtype,
        shape: tensor.shape.clone(),
        nbytes: tensor.data.len(),
        rare: None,
    };
    details.sha256 = hashed(&tensor.data)?;
    details.lod.clone_from(&tensor.lod.0);
    let sha256 = details.sha256.clone();
    let data =
        || PartInfo { dtype: tensor.dtype, shape: tensor.stored_shape(), sha256: sha256.clone() };
    let numbers = |indices: &Indices| -> Result<PartInfo> {
        let (dtype, shape) = (indices.dtype, vec![indices.count()]);
        Ok(PartInfo { dtype, shape, sha256: hashed(&indices.data)? })
    };
    match &tensor.kind {
        Kind::Dense => {}
        Kind::SelectedRows { rows, height } => {
            let rows = Indices { dtype: DType::Int64, data: rows.clone() };
            details.parts = BTreeMap::from([("data", data()), ("rows", numbers(&rows)?)]);
            details.height = Some(*height);
        }
        Kind::RowSparse { indices } => {
            details.parts = BTreeMap::from([("data", data()), ("indices", numbers(indices)?)]);
        }
        Kind::Csr { indptr, indices } => {
            details.parts = BTreeMap::from([
                ("data", data()),
                ("indptr", numbers(indptr)?),
                ("indices", numbers(indices)?),
            ]);
        }
        Kind::Coo { indices, .. } => {
            details.parts = BTreeMap::from([("data", data()), ("indices", numbers(indices)?)]);
        }
        Kind::Absent => details.sha256 = None,
        // They have no elements to hash.
        Kind::Strings { .. } | Kind::Vocabulary { .. } => {
            (info.nbytes, details.sha256) = (tensor.nbytes(), None)
        }
    }
    info.rare = (details != TensorDetails::default()).then(|| Box::new(details));
    Ok(info)
}

/// Returns, for each tensor, the index of the first one whose bytes in a file overlap with its own, directly or through
/// others; those of a tensor that is computed are all that it may be computed from.
pub(super) fn shared(tensors: &[Parameter]) -> Vec<Option<usize>> {
    let mut ranges = Vec::new();
    for (index, Parameter { tensor, .. }) in tensors.iter().enumerate() {
        let mut of = tensor.data.file_ranges().filter(|(.., len)| *len > 0);
        // A tensor in several parts is none that others are views of.
        if let (Some((file, start, len)), None) = (of.next(), of.next()) {
            ranges.push((file.path(), start, start.saturating_add(len), index));
        }
    }
    ranges.sort_unstable();
    let mut first = vec![None; tensors.len()];
    let mut at = 0;
    while let Some((path, _, end, _)) = ranges.get(at).copied() {
        let (mut end, mut next, mut least) = (end, at, usize::MAX);
        while let Some((other, start, stop, index)) = ranges.get(next).copied()
            && other == path
            && start < end
        {
            (end, next, least) = (end.max(stop), next + 1, least.min(index));
        }
        for (.., index) in ranges.iter().take(next).skip(at) {
            if let Some(first) = first.get_mut(*index).filter(|_| *index != least) {
                *first = Some(least);
            }
        }
        at = next;
    }
    first
}

/// Returns the SHA-256 of all bytes in hexadecimal.
fn sha256(blob: &Blob, progress: &Progress) -> Result<String> {
    let mut hasher = Sha256::new();
    blob.for_each_chunk(|piece| {
        hasher.update(piece);
        progress.advance(piece.len() as u64)
    })?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn display<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(dtype)
}

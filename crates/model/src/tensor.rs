//! Tensors and their types.

use std::sync::Arc;

use lodstone_store::Blob;

use crate::{DType, Lod, Residual};

/// One extent of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A number of elements.
    Known(u64),
    /// A name that stands for the same number wherever it appears.
    Symbol(Arc<str>),
    /// Anything.
    Unknown,
}

/// What a variable may hold, or a tensor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Type of the elements.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Vec<Dim>,
    /// How many LoD levels the rows are grouped by.
    pub lod_level: u32,
}

/// A tensor with its data.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Type of the elements.
    pub dtype: DType,
    /// Extents, outermost first; of the values for sparse kinds.
    pub shape: Vec<u64>,
    /// How the rows are grouped.
    pub lod: Lod,
    /// The elements, row-major and little-endian.
    pub data: Blob,
    /// How the elements make up the tensor.
    pub kind: Kind,
    /// What the format said beyond this.
    pub residual: Residual,
}

/// How the elements of a tensor are stored.
#[derive(Clone, Debug)]
pub enum Kind {
    /// All elements.
    Dense,
    /// Some rows of a tensor of `height` rows; `shape[0]` is how many. Rows may repeat (their
    /// sum is meant) and need not be sorted.
    SelectedRows {
        /// `i64` row numbers, `shape[0]` of them.
        rows: Blob,
        /// Number of rows of the whole tensor.
        height: i64,
    },
    /// Tokens and their ids, in the order of the file; `shape` is their number.
    Vocabulary {
        /// Each token with its id.
        tokens: Vec<(String, i32)>,
    },
}

impl Tensor {
    /// A dense tensor; `data` must have as many bytes as `dtype` and `shape` ask for.
    pub fn dense(dtype: DType, shape: Vec<u64>, data: Blob) -> Self {
        let (lod, kind, residual) = (Lod::default(), Kind::Dense, Residual::default());
        Self { dtype, shape, lod, data, kind, residual }
    }

    /// Size of all its data in bytes.
    pub fn nbytes(&self) -> u64 {
        match &self.kind {
            Kind::Dense => self.data.len(),
            Kind::SelectedRows { rows, .. } => self.data.len() + rows.len(),
            Kind::Vocabulary { tokens } => {
                tokens.iter().map(|(token, _)| token.len() as u64 + 4).sum()
            }
        }
    }

    /// Fails if the files that its data comes from are not what they were when it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`](lodstone_store::Error::Changed).
    pub fn check_unchanged(&self) -> lodstone_store::Result<()> {
        self.blobs().try_for_each(Blob::check_unchanged)
    }

    /// All the bytes that make it up: the elements, then what its kind adds.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        let more = match &self.kind {
            Kind::SelectedRows { rows, .. } => Some(rows),
            Kind::Dense | Kind::Vocabulary { .. } => None,
        };
        std::iter::once(&self.data).chain(more)
    }
}

impl Kind {
    /// The word for it in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::SelectedRows { .. } => "selected_rows",
            Self::Vocabulary { .. } => "vocab",
        }
    }
}

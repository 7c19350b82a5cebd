//! Tensors and their types.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lodstone_store::Blob;

use crate::{ByteString, DType, Lod, Residual};

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

/// What is known of a tensor without its data; by default nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorType {
    /// Type of the elements.
    pub dtype: DType,
    /// Extents, outermost first; nothing is known of them, not even how many there are, if there is none.
    pub shape: Option<Vec<Dim>>,
    /// How many LoD levels the rows are grouped by.
    pub lod_level: u32,
    /// How the elements are laid out; row by row without gaps if there is none.
    pub layout: Option<Layout>,
    /// Which real numbers the elements stand for, if the type itself defines it.
    pub quantization: Option<Box<Quantization>>,
}

/// How the elements of a tensor are laid out, if not row by row without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Densely, with this many elements between neighbours along each extent.
    Strided(Vec<i64>),
    /// As values and the coordinates of each.
    Coo,
    /// As values, their columns, and where each row begins.
    Csr,
}

/// Which real numbers quantized elements stand for: `scale * (element - zero_point)`.
///
/// This is quantization as a property of a type. Where a framework has operators that quantize and dequantize, those
/// stay operators. A value has one or the other, never both.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantization {
    /// The scale, or one for each place along `axis`; empty if the elements carry them (see `packing`).
    pub scales: Vec<f64>,
    /// The element that stands for zero, or one for each place along `axis`; all are 0 if there is none.
    pub zero_points: Vec<i64>,
    /// The axis that the scales vary along, if there are several.
    pub axis: Option<usize>,
    /// How elements and scales share bytes, if they do.
    pub packing: Option<Packing>,
}

/// How quantized elements, and scales that are stored with them, share bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packing {
    /// Each row ends with a scale and an offset of its own, both of the type `scale`, and has elements of `bits` bits.
    RowwiseFused {
        /// Bits of an element: 8 or 4.
        bits: u8,
        /// Type of the scale and of the offset.
        scale: DType,
    },
    /// Two elements of 4 bits in a byte, the first one in the low bits.
    Int4,
    /// Blocks of `elements` elements, each with scales of its own.
    Blocks {
        /// Elements of a block.
        elements: u32,
        /// Bytes of a block, scales included.
        bytes: u32,
    },
}

/// A tensor with its data.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Type of the elements.
    pub dtype: DType,
    /// Extents, outermost first: of the whole tensor, but for [`Kind::SelectedRows`] of its values.
    pub shape: Vec<u64>,
    /// How the rows are grouped.
    pub lod: Lod,
    /// The elements that are stored, row-major and little-endian.
    pub data: Blob,
    /// How the elements make up the tensor.
    pub kind: Kind,
    /// What the file says about it in words.
    pub doc_string: Option<ByteString>,
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
    /// Some rows of a tensor, the others being zero; `data` has `[stored, shape[1..]]` elements.
    RowSparse {
        /// Numbers of the rows that are stored, strictly increasing.
        indices: Indices,
    },
    /// Some elements of a matrix, the others being zero, row by row.
    Csr {
        /// Where the elements of each row begin in `data`, and where the last row ends:
        /// `shape[0] + 1` numbers, or none if nothing is stored.
        indptr: Indices,
        /// The column of each element.
        indices: Indices,
    },
    /// Some elements of a tensor, the others being zero.
    Coo {
        /// Where each element belongs: its position in the tensor laid out row by row, or a number
        /// for each extent of the tensor.
        indices: Indices,
        /// Whether it is a position.
        linear: bool,
    },
    /// Texts, or any bytes; `data` is empty.
    Strings {
        /// Each element, row by row.
        elements: Vec<Bytes>,
    },
    /// Nothing: the files describe it, and have no elements of it.
    Absent,
    /// Tokens and their ids, in the order of the file; `shape` is their number.
    Vocabulary {
        /// Each token with its id.
        tokens: Vec<(String, i32)>,
    },
}

/// Integers that say where elements belong.
#[derive(Clone, Debug)]
pub struct Indices {
    /// `int32` or `int64`.
    pub dtype: DType,
    /// The numbers, little-endian.
    pub data: Blob,
}

impl TensorType {
    /// A dense tensor of elements of a type; nothing is known of the extents if `shape` is `None`.
    pub fn new(dtype: DType, shape: Option<Vec<Dim>>) -> Self {
        Self { dtype, shape, ..Self::default() }
    }

    /// A tensor of which nothing is known but its layout.
    pub fn with_layout(layout: Layout) -> Self {
        Self { layout: Some(layout), ..Self::default() }
    }

    /// Whether neither elements nor extents are known.
    pub fn is_unspecified(&self) -> bool {
        self.dtype == DType::Unspecified && self.shape.is_none()
    }

    /// The type that a tensor has.
    pub fn of(tensor: &Tensor) -> Self {
        let dims = tensor.shape.iter().map(|extent| Dim::Known(*extent)).collect();
        let levels = u32::try_from(tensor.lod.0.len()).unwrap_or(u32::MAX);
        Self { lod_level: levels, ..Self::new(tensor.dtype, Some(dims)) }
    }

    /// Whether a tensor of this shape may be of the type.
    pub fn admits(&self, shape: &[u64]) -> bool {
        let fits = |(dim, extent): (&Dim, &u64)| !matches!(dim, Dim::Known(n) if n != extent);
        let Some(dims) = &self.shape else { return true };
        dims.len() == shape.len() && dims.iter().zip(shape).all(fits)
    }
}

/// `float32[2, batch, ?]`, or `float32[..]` if nothing is known of the shape.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(dims) = &self.shape else { return write!(f, "{}[..]", self.dtype) };
        let dims: Vec<_> = dims.iter().map(Dim::to_string).collect();
        write!(f, "{}[{}]", self.dtype, dims.join(", "))
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(extent) => write!(f, "{extent}"),
            Self::Symbol(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

impl Tensor {
    /// A dense tensor; `data` must have as many bytes as `dtype` and `shape` ask for.
    pub fn dense(dtype: DType, shape: Vec<u64>, data: Blob) -> Self {
        let (lod, kind) = (Lod::default(), Kind::Dense);
        let (doc_string, residual) = (None, Residual::default());
        Self { dtype, shape, lod, data, kind, doc_string, residual }
    }

    /// Size of all its data in bytes.
    pub fn nbytes(&self) -> u64 {
        match &self.kind {
            Kind::Vocabulary { tokens } => {
                tokens.iter().map(|(token, _)| token.len() as u64 + 4).sum()
            }
            Kind::Strings { elements } => elements.iter().map(|text| text.len() as u64).sum(),
            _ => self.blobs().map(Blob::len).sum(),
        }
    }

    /// Extents of what `data` holds: those of the tensor, but for row-sparse, CSR and COO tensors.
    pub fn stored_shape(&self) -> Vec<u64> {
        match &self.kind {
            Kind::RowSparse { indices } => {
                let rest = self.shape.iter().skip(1).copied();
                std::iter::once(indices.count()).chain(rest).collect()
            }
            Kind::Csr { indices, .. } => vec![indices.count()],
            Kind::Coo { indices, linear } => {
                let each = if *linear { 1 } else { self.shape.len().max(1) as u64 };
                vec![indices.count() / each]
            }
            Kind::Strings { .. } | Kind::Absent => vec![0],
            _ => self.shape.clone(),
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
            Kind::SelectedRows { rows, .. } => [Some(rows), None],
            Kind::RowSparse { indices } | Kind::Coo { indices, .. } => [Some(&indices.data), None],
            Kind::Csr { indptr, indices } => [Some(&indptr.data), Some(&indices.data)],
            Kind::Dense | Kind::Strings { .. } | Kind::Absent | Kind::Vocabulary { .. } => {
                [None; 2]
            }
        };
        std::iter::once(&self.data).chain(more.into_iter().flatten())
    }

    /// The same as [`blobs`](Self::blobs), to be replaced by bytes that are equal.
    pub(crate) fn blobs_mut(&mut self) -> impl Iterator<Item = &mut Blob> {
        let more = match &mut self.kind {
            Kind::SelectedRows { rows, .. } => [Some(rows), None],
            Kind::RowSparse { indices } | Kind::Coo { indices, .. } => {
                [Some(&mut indices.data), None]
            }
            Kind::Csr { indptr, indices } => [Some(&mut indptr.data), Some(&mut indices.data)],
            Kind::Dense | Kind::Strings { .. } | Kind::Absent | Kind::Vocabulary { .. } => {
                [None, None]
            }
        };
        std::iter::once(&mut self.data).chain(more.into_iter().flatten())
    }
}

/// Equal by what they are and where their bytes are; the bytes are not read.
impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        let same_kind = match (&self.kind, &other.kind) {
            (
                Kind::SelectedRows { height, .. },
                Kind::SelectedRows { height: other_height, .. },
            ) => height == other_height,
            (Kind::Coo { linear, .. }, Kind::Coo { linear: other_linear, .. }) => {
                linear == other_linear
            }
            (Kind::Strings { elements }, Kind::Strings { elements: others }) => elements == others,
            (Kind::Vocabulary { tokens }, Kind::Vocabulary { tokens: others }) => tokens == others,
            (kind, other) => std::mem::discriminant(kind) == std::mem::discriminant(other),
        };
        let pairs = || self.blobs().zip(other.blobs());
        (self.dtype, &self.shape, &self.lod) == (other.dtype, &other.shape, &other.lod)
            && self.doc_string == other.doc_string
            && same_kind
            && pairs().all(|(blob, other)| blob.is(other))
    }
}

impl Kind {
    /// The word for it in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::SelectedRows { .. } => "selected_rows",
            Self::RowSparse { .. } => "row_sparse",
            Self::Csr { .. } => "csr",
            Self::Coo { .. } => "coo",
            Self::Strings { .. } => "strings",
            Self::Absent => "absent",
            Self::Vocabulary { .. } => "vocab",
        }
    }
}

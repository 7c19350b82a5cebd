//! Tensors and their types.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lodstone_store::Blob;

use crate::{ByteString, DType, Lod, Recipe, Residual};

/// One dim of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A fixed size.
    Known(u64),
    /// A symbolic size, which is equal wherever the name appears.
    Symbol(Arc<str>),
    /// Any size.
    Unknown,
}

/// The static description of a tensor; empty by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The dims, outermost first; `None` if even the rank is unknown.
    pub shape: Option<Vec<Dim>>,
    /// The number of LoD levels.
    pub lod_level: u32,
    /// The memory layout; `None` for contiguous row-major.
    pub layout: Option<Layout>,
    /// The quantization, if the type itself defines it.
    pub quantization: Option<Box<Quantization>>,
}

/// A memory layout other than contiguous row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Dense, with a stride in elements for each dim.
    Strided(Vec<i64>),
    /// Coordinate format: values and the coordinates of each.
    Coo,
    /// Compressed sparse rows: values, their columns, and the offset of each row.
    Csr,
}

/// The mapping of quantized elements to real values: `scale * (element - zero_point)`.
///
/// This is quantization as a property of a type. In frameworks with operators that quantize and dequantize, those
/// stay operators. A value has one or the other, never both.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantization {
    /// One scale, or one for each index along `axis`; empty if the elements include them (see `packing`).
    pub scales: Vec<f64>,
    /// One zero point, or one for each index along `axis`; empty if all are 0.
    pub zero_points: Vec<i64>,
    /// The axis of per-axis scales.
    pub axis: Option<usize>,
    /// The packing of elements and scales into bytes, if any.
    pub packing: Option<Packing>,
}

/// The packing of quantized elements, and of scales stored with them, into bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packing {
    /// Each row holds elements of `bits` bits, followed by its own scale and offset, both of type `scale`.
    RowwiseFused {
        /// Bits per element: 8 or 4.
        bits: u8,
        /// The type of the scale and of the offset.
        scale: DType,
    },
    /// Two 4-bit elements per byte, the first in the low bits.
    Int4,
    /// Blocks of `elements` elements, each with its own scales.
    Blocks {
        /// Elements per block.
        elements: u32,
        /// Bytes per block, including scales.
        bytes: u32,
    },
}

/// A tensor with its data.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The element type.
    pub dtype: DType,
    /// The dims, outermost first: of the whole tensor, except for [`Kind::SelectedRows`], where they are those of its
    /// values.
    pub shape: Vec<u64>,
    /// The LoD.
    pub lod: Lod,
    /// The stored elements, row-major and little-endian.
    pub data: Blob,
    /// The storage kind.
    pub kind: Kind,
    /// The description in the file.
    pub doc_string: Option<Box<ByteString>>,
    /// Format-specific details.
    pub residual: Residual,
    /// How the elements follow from parameters of a source program.
    pub recipe: Recipe,
}

/// The storage kind of a tensor.
#[derive(Clone, Debug)]
pub enum Kind {
    /// All elements.
    Dense,
    /// Some rows of a tensor of `height` rows; `shape[0]` is their number. Rows may repeat (their values are added)
    /// and need not be sorted.
    SelectedRows {
        /// The `shape[0]` row indices, as `i64`.
        rows: Blob,
        /// The number of rows of the whole tensor.
        height: i64,
    },
    /// The nonzero rows of a tensor; `data` has `[stored, shape[1..]]` elements.
    RowSparse {
        /// The indices of the stored rows, strictly increasing.
        indices: Indices,
    },
    /// The nonzero elements of a matrix, in row-major order.
    Csr {
        /// The offset in `data` at which each row begins, and the end of the last row:
        /// `shape[0] + 1` offsets, or none if nothing is stored.
        indptr: Box<Indices>,
        /// The column of each element.
        indices: Indices,
    },
    /// The nonzero elements of a tensor.
    Coo {
        /// The location of each element: a linear position in the row-major tensor, or one index per dim of the
        /// tensor.
        indices: Indices,
        /// Whether the indices are linear positions.
        linear: bool,
    },
    /// Strings: text, or arbitrary bytes; `data` is empty.
    Strings {
        /// The elements, in row-major order.
        elements: Vec<Bytes>,
    },
    /// No data: the files describe the tensor, but do not contain its elements.
    Absent,
    /// Tokens and their ids, in file order; `shape` is their number.
    Vocabulary {
        /// The tokens, each with its id.
        tokens: Vec<(String, i32)>,
    },
}

/// Integer indices of the elements of a sparse tensor.
#[derive(Clone, Debug)]
pub struct Indices {
    /// `int32` or `int64`.
    pub dtype: DType,
    /// The indices, little-endian.
    pub data: Blob,
}

impl TensorType {
    /// Creates the type of a dense tensor; `shape` is `None` if the rank is unknown.
    pub fn new(dtype: DType, shape: Option<Vec<Dim>>) -> Self {
        Self { dtype, shape, ..Self::default() }
    }

    /// Creates a tensor type of which only the layout is known.
    pub fn with_layout(layout: Layout) -> Self {
        Self { layout: Some(layout), ..Self::default() }
    }

    /// Returns whether neither the element type nor the shape is known.
    pub fn is_unspecified(&self) -> bool {
        self.dtype == DType::Unspecified && self.shape.is_none()
    }

    /// Returns the type of `tensor`.
    pub fn of(tensor: &Tensor) -> Self {
        let dims = tensor.shape.iter().map(|dim| Dim::Known(*dim)).collect();
        let levels = u32::try_from(tensor.lod.0.len()).unwrap_or(u32::MAX);
        Self { lod_level: levels, ..Self::new(tensor.dtype, Some(dims)) }
    }

    /// Returns whether a tensor of `shape` matches the type.
    pub fn admits(&self, shape: &[u64]) -> bool {
        let fits = |(dim, size): (&Dim, &u64)| !matches!(dim, Dim::Known(n) if n != size);
        let Some(dims) = &self.shape else { return true };
        dims.len() == shape.len() && dims.iter().zip(shape).all(fits)
    }
}

/// Formats the type as `float32[2, batch, ?]`, or `float32[..]` if the rank is unknown.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(dims) = &self.shape else { return write!(f, "{}[..]", self.dtype) };
        let dims: Vec<_> = dims.iter().map(Dim::to_string).collect();
        write!(f, "{}[{}]", self.dtype, dims.join(", "))
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RowwiseFused { bits, scale } => write!(f, "rowwise fused, {bits} bits, {scale}"),
            Self::Int4 => f.write_str("int4"),
            Self::Blocks { elements, bytes } => {
                write!(f, "blocks of {elements} elements in {bytes} bytes")
            }
        }
    }
}

impl fmt::Display for Quantization {
    /// Formats the mapping: `scale 0.5, zero point 3`, or the number of scales along an axis.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        match self.scales.as_slice() {
            [] => {}
            [scale] => parts.push(format!("scale {scale}")),
            scales => parts.push(format!("{} scales", scales.len())),
        }
        match self.zero_points.as_slice() {
            [] => {}
            [zero_point] => parts.push(format!("zero point {zero_point}")),
            zero_points => parts.push(format!("{} zero points", zero_points.len())),
        }
        parts.extend(self.axis.map(|axis| format!("axis {axis}")));
        parts.extend(self.packing.map(|packing| packing.to_string()));
        f.write_str(&parts.join(", "))
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(dim) => write!(f, "{dim}"),
            Self::Symbol(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

impl Tensor {
    /// Creates a dense tensor; `data` must have the size in bytes that `dtype` and `shape` imply.
    pub fn dense(dtype: DType, shape: Vec<u64>, data: Blob) -> Self {
        let (lod, kind) = (Lod::default(), Kind::Dense);
        let (doc_string, residual, recipe) = (None, Residual::default(), Recipe::default());
        Self { dtype, shape, lod, data, kind, doc_string, residual, recipe }
    }

    /// Returns the size of all its data in bytes.
    pub fn nbytes(&self) -> u64 {
        match &self.kind {
            Kind::Vocabulary { tokens } => {
                tokens.iter().map(|(token, _)| token.len() as u64 + 4).sum()
            }
            Kind::Strings { elements } => elements.iter().map(|text| text.len() as u64).sum(),
            _ => self.blobs().map(Blob::len).sum(),
        }
    }

    /// Returns the dims of `data`: those of the tensor, except for row-sparse, CSR and COO tensors.
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

    /// Fails if a file that holds the data changed since it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`](lodstone_store::Error::Changed).
    pub fn check_unchanged(&self) -> lodstone_store::Result<()> {
        self.blobs().try_for_each(Blob::check_unchanged)
    }

    /// Returns all bytes of the tensor: the elements, then the data specific to its kind.
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

    /// The mutable counterpart of [`blobs`](Self::blobs), for replacement by equal bytes.
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

/// Compares properties and the locations of the bytes; the bytes are not read.
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
    /// Returns the name of the kind in reports.
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

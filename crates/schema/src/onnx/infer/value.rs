//! Inferred facts about a value: its type, and for small tensors some or all of its elements.

use std::sync::Arc;

use lodstone_model::{DType, Dim, Kind, Tensor, TensorType, ValueType};
use lodstone_store::Blob;

/// The unknown element type, as in a file that does not declare it.
pub const UNDEFINED: DType = DType::Unknown(0);

/// The maximum number of elements of a tensor whose contents are propagated. Shapes, axes and repeats have far fewer.
pub const MAX_ELEMENTS: usize = 1024;

/// The maximum number of floating-point elements of a constant that are read: scales of [`Resize`] for each dim, limits
/// of a range.
///
/// [`Resize`]: https://onnx.ai/onnx/operators/onnx__Resize.html
const MAX_FLOATS: u64 = 16;

/// Inferred facts about a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueInfo {
    /// The type; [`ValueType::Unspecified`] if it is unknown.
    pub value: ValueType,
    /// The elements in row-major order, for a small tensor of which some are known.
    pub contents: Option<Contents>,
}

/// The elements of a tensor, in row-major order.
pub type Contents = Arc<[Element]>;

/// An element, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Element {
    /// An integer, or a Boolean as 0 or 1.
    Int(i64),
    /// A float.
    Float(f64),
    /// The dim of a symbol.
    Symbol(Arc<str>),
    /// Unknown.
    Unknown,
}

impl ValueInfo {
    /// Creates a tensor.
    pub fn tensor(dtype: DType, shape: Option<Vec<Dim>>) -> Self {
        ValueType::tensor(TensorType::new(dtype, shape)).into()
    }

    /// Creates a tensor with its elements, if it is small and of an integer type.
    pub fn of(tensor: &Tensor) -> Self {
        let shape = tensor.shape.iter().map(|dim| Dim::Known(*dim)).collect();
        let of = TensorType::new(tensor.dtype, Some(shape));
        match tensor.kind {
            Kind::Coo { .. } => ValueType::Sparse(of).into(),
            Kind::Dense => Self { value: of.into(), contents: contents(tensor) },
            _ => ValueType::tensor(of).into(),
        }
    }

    /// Returns the element type of a tensor, sparse or dense.
    pub fn dtype(&self) -> DType {
        self.as_tensor().map_or(UNDEFINED, |tensor| tensor.dtype)
    }

    /// Returns the dims of a tensor of known rank.
    pub fn shape(&self) -> Option<&[Dim]> {
        self.as_tensor()?.shape.as_deref()
    }

    /// Returns the size of the elements in bytes, if the dims are known; saturates at the maximum.
    pub fn nbytes(&self) -> Option<u64> {
        let known = |dim: &Dim| match dim {
            Dim::Known(size) => Some(*size),
            _ => None,
        };
        let shape: Vec<u64> = self.shape()?.iter().map(known).collect::<Option<_>>()?;
        // What does not fit 64 bits is the maximum.
        self.dtype().bits().map(|_| self.dtype().size_of(&shape).unwrap_or(u64::MAX))
    }

    /// Returns the integer or Boolean tensor, if all of its elements are known.
    pub fn constant(&self) -> Option<Tensor> {
        let ValueType::Tensor(_) = self.value else { return None };
        let known = |dim: &Dim| match dim {
            Dim::Known(size) => Some(*size),
            _ => None,
        };
        let shape: Vec<u64> = self.shape()?.iter().map(known).collect::<Option<_>>()?;
        let (numbers, dtype) = (self.ints()?, self.dtype());
        let bytes: Vec<u8> = match dtype {
            DType::Int64 => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
            DType::Int32 => {
                let narrow = numbers.iter().map(|number| i32::try_from(*number));
                let narrow = narrow.collect::<Result<Vec<_>, _>>().ok()?;
                narrow.iter().flat_map(|number| number.to_le_bytes()).collect()
            }
            DType::Bool => numbers.iter().map(|number| u8::from(*number != 0)).collect(),
            _ => return None,
        };
        let fits = dtype.size_of(&shape) == Some(bytes.len() as u64);
        fits.then(|| Tensor::dense(dtype, shape, Blob::memory(bytes)))
    }

    fn as_tensor(&self) -> Option<&TensorType> {
        let is_tensor = matches!(self.value, ValueType::Tensor(_) | ValueType::Sparse(_));
        self.value.tensor_type().filter(|_| is_tensor)
    }

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        self.value == ValueType::Unspecified
    }

    /// Returns all elements as integers, if all of them are known integers.
    pub fn ints(&self) -> Option<Vec<i64>> {
        let int = |element: &Element| match element {
            Element::Int(number) => Some(*number),
            _ => None,
        };
        self.contents.as_ref()?.iter().map(int).collect()
    }

    /// Returns all elements as floats, if all of them are known.
    pub fn floats(&self) -> Option<Vec<f64>> {
        self.contents.as_ref()?.iter().map(Element::number).collect()
    }
}

impl From<ValueType> for ValueInfo {
    fn from(value: ValueType) -> Self {
        Self { value, contents: None }
    }
}

impl Element {
    /// Returns the element as a float, if it is known.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(approximate(*number)),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// Converts a dim to an element.
    pub fn of_dim(dim: &Dim) -> Self {
        match dim {
            Dim::Known(size) => i64::try_from(*size).map_or(Self::Unknown, Self::Int),
            Dim::Symbol(name) => Self::Symbol(Arc::clone(name)),
            Dim::Unknown => Self::Unknown,
        }
    }

    /// Converts the element to a dim; `None` for negative values and fractions.
    pub fn dim(&self) -> Option<Dim> {
        match self {
            Self::Int(number) => u64::try_from(*number).ok().map(Dim::Known),
            Self::Float(_) => None,
            Self::Symbol(name) => Some(Dim::Symbol(Arc::clone(name))),
            Self::Unknown => Some(Dim::Unknown),
        }
    }
}

/// Returns the nearest `f64`.
#[expect(clippy::cast_precision_loss, reason = "rounding is intended")]
pub(super) fn approximate(number: i64) -> f64 {
    number as f64
}

/// Reads the elements of a small tensor.
fn contents(tensor: &Tensor) -> Option<Contents> {
    let count = tensor.shape.iter().try_fold(1u64, |count, dim| count.checked_mul(*dim))?;
    let is_float = tensor.dtype.is_float();
    let most = if is_float { MAX_FLOATS } else { MAX_ELEMENTS as u64 };
    let width = tensor.dtype.bits().filter(|bits| bits % 8 == 0 && *bits <= 64)? / 8;
    let size = count.checked_mul(u64::from(width))?;
    if count > most || tensor.data.len() != size {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    // Elements that cannot be read are unknown; the error is reported where the whole tensor is read.
    tensor.data.read_at(0, &mut bytes).ok()?;
    let chunks = bytes.chunks_exact(usize::try_from(width).ok()?);
    chunks.map(|chunk| element(tensor.dtype, chunk)).collect()
}

fn element(dtype: DType, bytes: &[u8]) -> Option<Element> {
    let int = |number: i64| Some(Element::Int(number));
    match (dtype, bytes) {
        (DType::Bool, [byte]) => int(i64::from(*byte != 0)),
        (DType::Uint8, [byte]) => int(i64::from(*byte)),
        (DType::Int8, [byte]) => int(i64::from(byte.cast_signed())),
        (DType::Uint16, bytes) => int(i64::from(u16::from_le_bytes(bytes.try_into().ok()?))),
        (DType::Int16, bytes) => int(i64::from(i16::from_le_bytes(bytes.try_into().ok()?))),
        (DType::Uint32, bytes) => int(i64::from(u32::from_le_bytes(bytes.try_into().ok()?))),
        (DType::Int32, bytes) => int(i64::from(i32::from_le_bytes(bytes.try_into().ok()?))),
        (DType::Int64, bytes) => int(i64::from_le_bytes(bytes.try_into().ok()?)),
        (DType::Uint64, bytes) => {
            let number = u64::from_le_bytes(bytes.try_into().ok()?);
            Some(i64::try_from(number).map_or(Element::Unknown, Element::Int))
        }
        (DType::Float32, bytes) => {
            Some(Element::Float(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))))
        }
        (DType::Float64, bytes) => Some(Element::Float(f64::from_le_bytes(bytes.try_into().ok()?))),
        _ => None,
    }
}

//! Tensors as kernels compute with them: the one place where bytes enter burn and leave it.
//!
//! They are not copied on the way in where they are aligned, and not on the way out where they are contiguous.

use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_backend::{
    AllocationProperty, Backend, BoolStore, DType as BurnType, TensorData, TensorMetadata,
    try_read_sync,
};
use bytes::Bytes;
use lodstone_model::{DType, Dim, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{MOST_ELEMENTS, ValueInfo};
use lodstone_store::Blob;

/// What a kernel fails with.
pub(crate) type Outcome<T> = Result<T, Finding>;

/// A tensor of a backend.
#[derive(Debug)]
pub(crate) enum Item<B: Backend> {
    Float(FloatTensor<B>),
    Int(IntTensor<B>),
    Bool(BoolTensor<B>),
}

impl<B: Backend> Clone for Item<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Float(tensor) => Self::Float(tensor.clone()),
            Self::Int(tensor) => Self::Int(tensor.clone()),
            Self::Bool(tensor) => Self::Bool(tensor.clone()),
        }
    }
}

const TYPES: &[(DType, BurnType)] = &[
    (DType::Float64, BurnType::F64),
    (DType::Float32, BurnType::F32),
    (DType::Float16, BurnType::F16),
    (DType::BFloat16, BurnType::BF16),
    (DType::Int64, BurnType::I64),
    (DType::Int32, BurnType::I32),
    (DType::Int16, BurnType::I16),
    (DType::Int8, BurnType::I8),
    (DType::Uint64, BurnType::U64),
    (DType::Uint32, BurnType::U32),
    (DType::Uint16, BurnType::U16),
    (DType::Uint8, BurnType::U8),
    (DType::Bool, BurnType::Bool(BoolStore::Native)),
];

/// What burn calls an element type.
pub(crate) fn burn_type(dtype: DType) -> Outcome<BurnType> {
    let known = TYPES.iter().find(|(ours, _)| *ours == dtype).map(|(_, theirs)| *theirs);
    known.ok_or_else(|| format!("nothing is computed of {dtype}").into())
}

/// The device that everything is computed on.
pub(crate) fn device<B: Backend>() -> B::Device {
    B::Device::default()
}

/// Bytes of burn, for who wants others'.
struct Left(burn_backend::Bytes);

impl AsRef<[u8]> for Left {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<B: Backend> Item<B> {
    /// A dense tensor whose bytes are in memory.
    pub(crate) fn enter(tensor: &Tensor) -> Outcome<Self> {
        let dtype = burn_type(tensor.dtype)?;
        let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
        let extents = tensor.shape.iter().map(|extent| usize::try_from(*extent));
        let shape: Vec<usize> = extents.collect::<Result<_, _>>().map_err(|_| "it is too large")?;
        if tensor.dtype.size_of(&tensor.shape) != Some(bytes.len() as u64) {
            return Err(format!("{} bytes are not those of {shape:?}", bytes.len()).into());
        }
        if tensor.dtype == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
            return Err("a truth value is neither 0 nor 1".into());
        }
        let aligned = bytes.as_ptr().addr().is_multiple_of(dtype.size().max(1));
        let bytes = match aligned {
            true => burn_backend::Bytes::from_shared(bytes, AllocationProperty::Other),
            false => burn_backend::Bytes::from_bytes_vec(bytes.to_vec()),
        };
        Ok(Self::from_data(TensorData::from_bytes(bytes, shape, dtype)))
    }

    /// Elements of burn's own form.
    pub(crate) fn from_data(data: TensorData) -> Self {
        let device = device::<B>();
        match data.dtype() {
            BurnType::Bool(_) => Self::Bool(B::bool_from_data(data, &device)),
            dtype if dtype.is_float() => Self::Float(B::float_from_data(data, &device)),
            _ => Self::Int(B::int_from_data(data, &device)),
        }
    }

    /// Integers.
    pub(crate) fn longs(values: &[i64]) -> Self {
        Self::from_data(TensorData::new(values.to_vec(), [values.len()]))
    }

    /// The elements in burn's own form.
    pub(crate) fn into_data(self) -> Outcome<TensorData> {
        let read = match self {
            Self::Float(tensor) => try_read_sync(B::float_into_data(tensor)),
            Self::Int(tensor) => try_read_sync(B::int_into_data(tensor)),
            Self::Bool(tensor) => try_read_sync(B::bool_into_data(tensor)),
        };
        let read = read.ok_or("it cannot be read at once")?;
        read.map_err(|error| format!("it cannot be read: {error:?}").into())
    }

    /// A dense tensor in memory.
    pub(crate) fn leave(self) -> Outcome<Tensor> {
        let dtype = self.dtype()?;
        let data = self.into_data()?;
        let (bytes, shape, _) = data.into_parts();
        let bytes = Bytes::from_owner(Left(bytes));
        let shape = shape.iter().map(|extent| *extent as u64).collect();
        Ok(Tensor::dense(dtype, shape, Blob::memory(bytes)))
    }

    /// Its type, with its elements if they are few.
    pub(crate) fn info(&self) -> Outcome<ValueInfo> {
        let shape = self.shape();
        if shape.iter().product::<usize>() <= MOST_ELEMENTS {
            return Ok(ValueInfo::of(&self.clone().leave()?));
        }
        let dims = shape.iter().map(|extent| Dim::Known(*extent as u64)).collect();
        Ok(ValueInfo::tensor(self.dtype()?, Some(dims)))
    }

    /// The type of the elements.
    pub(crate) fn dtype(&self) -> Outcome<DType> {
        let found = self.burn_type();
        let known = TYPES.iter().find(|(_, theirs)| *theirs == found).map(|(ours, _)| *ours);
        known.ok_or_else(|| format!("it has become {found:?}").into())
    }

    fn burn_type(&self) -> BurnType {
        match self {
            Self::Float(tensor) => tensor.dtype(),
            Self::Int(tensor) => tensor.dtype(),
            Self::Bool(tensor) => tensor.dtype(),
        }
    }

    /// Extents, outermost first.
    pub(crate) fn shape(&self) -> Vec<usize> {
        match self {
            Self::Float(tensor) => tensor.shape().to_vec(),
            Self::Int(tensor) => tensor.shape().to_vec(),
            Self::Bool(tensor) => tensor.shape().to_vec(),
        }
    }

    /// Bytes of the elements.
    pub(crate) fn nbytes(&self) -> u64 {
        let elements = self.shape().iter().fold(1usize, |all, dim| all.saturating_mul(*dim));
        elements.saturating_mul(self.burn_type().size()) as u64
    }

    /// The elements as integers, row by row; what is larger than any of them becomes the largest.
    pub(crate) fn to_longs(&self) -> Outcome<Vec<i64>> {
        let data = self.clone().into_data()?;
        Ok(match data.dtype() {
            BurnType::U64 => {
                data.iter::<u64>().map(|it| i64::try_from(it).unwrap_or(i64::MAX)).collect()
            }
            _ => data.iter::<i64>().collect(),
        })
    }

    /// The elements as numbers, row by row.
    pub(crate) fn to_doubles(&self) -> Outcome<Vec<f64>> {
        Ok(self.clone().into_data()?.iter::<f64>().collect())
    }

    /// Numbers with fractions.
    pub(crate) fn float(&self) -> Outcome<FloatTensor<B>> {
        match self {
            Self::Float(tensor) => Ok(tensor.clone()),
            other => {
                Err(format!("expected numbers with fractions, found {:?}", other.burn_type())
                    .into())
            }
        }
    }

    /// Integers.
    pub(crate) fn int(&self) -> Outcome<IntTensor<B>> {
        match self {
            Self::Int(tensor) => Ok(tensor.clone()),
            other => Err(format!("expected integers, found {:?}", other.burn_type()).into()),
        }
    }

    /// Truth values.
    pub(crate) fn bool(&self) -> Outcome<BoolTensor<B>> {
        match self {
            Self::Bool(tensor) => Ok(tensor.clone()),
            other => Err(format!("expected truth values, found {:?}", other.burn_type()).into()),
        }
    }
}

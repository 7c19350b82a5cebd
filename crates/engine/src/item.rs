//! Dense tensors in burn's representation: views that are private to the kernels.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{BoolStore, DType as BurnType, TensorData, TensorMetadata, try_read_sync};
use burn_flex::{Flex, FlexDevice, FlexTensor};
use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::dense::Dense;
use crate::kernels::converted;

/// The result of a kernel.
pub(crate) type Outcome<T> = Result<T, Finding>;

/// A dense tensor in burn's representation, by the class of its elements.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Float(FlexTensor),
    Int(FlexTensor),
    Bool(FlexTensor),
}

pub(crate) const TYPES: &[(DType, BurnType)] = &[
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

/// Returns burn's name of an element type.
pub(crate) fn burn_type(dtype: DType) -> Outcome<BurnType> {
    let known = TYPES.iter().find(|(ours, _)| *ours == dtype).map(|(_, theirs)| *theirs);
    known.ok_or_else(|| format!("element type {dtype} is not supported").into())
}

/// Returns the device of all tensors.
pub(crate) fn device() -> FlexDevice {
    FlexDevice
}

impl Item {
    /// Creates a view of a dense tensor.
    pub(crate) fn of(dense: &Dense) -> Outcome<Self> {
        let view = dense.view()?;
        Ok(match view.dtype() {
            BurnType::Bool(_) => Self::Bool(view),
            dtype if dtype.is_float() => Self::Float(view),
            _ => Self::Int(view),
        })
    }

    /// Converts the item to the dense tensor that a kernel returns.
    pub(crate) fn dense(&self) -> Outcome<Dense> {
        match self {
            Self::Float(tensor) | Self::Int(tensor) | Self::Bool(tensor) => Dense::of_view(tensor),
        }
    }

    /// Creates an item from elements in burn's own form.
    pub(crate) fn from_data(data: TensorData) -> Self {
        let device = device();
        match data.dtype() {
            BurnType::Bool(_) => Self::Bool(Flex::bool_from_data(data, &device)),
            dtype if dtype.is_float() => Self::Float(Flex::float_from_data(data, &device)),
            _ => Self::Int(Flex::int_from_data(data, &device)),
        }
    }

    /// Creates a tensor of integers.
    pub(crate) fn longs(values: &[i64]) -> Self {
        Self::from_data(TensorData::new(values.to_vec(), [values.len()]))
    }

    /// Returns the elements in burn's own form.
    pub(crate) fn into_data(self) -> Outcome<TensorData> {
        let read = match self {
            Self::Float(tensor) => try_read_sync(Flex::float_into_data(tensor)),
            Self::Int(tensor) => try_read_sync(Flex::int_into_data(tensor)),
            Self::Bool(tensor) => try_read_sync(Flex::bool_into_data(tensor)),
        };
        let read = read.ok_or("the tensor cannot be read synchronously")?;
        read.map_err(|error| format!("the tensor cannot be read: {error:?}").into())
    }

    /// Returns the element type.
    pub(crate) fn dtype(&self) -> Outcome<DType> {
        let found = self.burn_type();
        let known = TYPES.iter().find(|(_, theirs)| *theirs == found).map(|(ours, _)| *ours);
        known.ok_or_else(|| format!("unexpected element type {found:?}").into())
    }

    fn burn_type(&self) -> BurnType {
        match self {
            Self::Float(tensor) => tensor.dtype(),
            Self::Int(tensor) => tensor.dtype(),
            Self::Bool(tensor) => tensor.dtype(),
        }
    }

    /// Returns the dims, outermost first.
    pub(crate) fn shape(&self) -> Vec<usize> {
        match self {
            Self::Float(tensor) => tensor.shape().to_vec(),
            Self::Int(tensor) => tensor.shape().to_vec(),
            Self::Bool(tensor) => tensor.shape().to_vec(),
        }
    }

    /// Returns the elements as integers in row-major order. Larger values saturate at the maximum.
    pub(crate) fn to_longs(&self) -> Outcome<Vec<i64>> {
        let data = self.clone().into_data()?;
        Ok(match data.dtype() {
            BurnType::U64 => {
                data.iter::<u64>().map(|it| i64::try_from(it).unwrap_or(i64::MAX)).collect()
            }
            _ => data.as_slice().map_or_else(|_| data.iter::<i64>().collect(), <[i64]>::to_vec),
        })
    }

    /// Returns the elements as floats in row-major order.
    pub(crate) fn to_doubles(&self) -> Outcome<Vec<f64>> {
        Ok(self.clone().into_data()?.iter::<f64>().collect())
    }

    /// Returns the elements in single precision in row-major order.
    pub(crate) fn to_singles(&self) -> Outcome<Vec<f32>> {
        let data = converted(self.clone(), BurnType::F32)?.into_data()?;
        Ok(data.as_slice().map_or_else(|_| data.iter::<f32>().collect(), <[f32]>::to_vec))
    }

    /// Returns the tensor of floats.
    pub(crate) fn float(&self) -> Outcome<FlexTensor> {
        match self {
            Self::Float(tensor) => Ok(tensor.clone()),
            other => Err(format!("expected floats, found {:?}", other.burn_type()).into()),
        }
    }

    /// Returns the tensor of integers.
    pub(crate) fn int(&self) -> Outcome<FlexTensor> {
        match self {
            Self::Int(tensor) => Ok(tensor.clone()),
            other => Err(format!("expected integers, found {:?}", other.burn_type()).into()),
        }
    }

    /// Returns the tensor of booleans.
    pub(crate) fn bool(&self) -> Outcome<FlexTensor> {
        match self {
            Self::Bool(tensor) => Ok(tensor.clone()),
            other => Err(format!("expected booleans, found {:?}", other.burn_type()).into()),
        }
    }
}

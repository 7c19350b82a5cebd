//! Dense tensors as burn computes with them: views, of which nothing outside the kernels knows.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{BoolStore, DType as BurnType, TensorData, TensorMetadata, try_read_sync};
use burn_flex::{Flex, FlexDevice, FlexTensor};
use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::dense::Dense;

/// What a kernel fails with.
pub(crate) type Outcome<T> = Result<T, Finding>;

/// A dense tensor as burn computes with it, by what its elements are.
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

/// What burn calls an element type.
pub(crate) fn burn_type(dtype: DType) -> Outcome<BurnType> {
    let known = TYPES.iter().find(|(ours, _)| *ours == dtype).map(|(_, theirs)| *theirs);
    known.ok_or_else(|| format!("nothing is computed of {dtype}").into())
}

/// The device that everything is computed on.
pub(crate) fn device() -> FlexDevice {
    FlexDevice
}

impl Item {
    /// A view of a dense tensor.
    pub(crate) fn of(dense: &Dense) -> Outcome<Self> {
        let view = dense.view()?;
        Ok(match view.dtype() {
            BurnType::Bool(_) => Self::Bool(view),
            dtype if dtype.is_float() => Self::Float(view),
            _ => Self::Int(view),
        })
    }

    /// The dense tensor that a kernel returns.
    pub(crate) fn dense(&self) -> Outcome<Dense> {
        match self {
            Self::Float(tensor) | Self::Int(tensor) | Self::Bool(tensor) => Dense::of_view(tensor),
        }
    }

    /// Elements of burn's own form.
    pub(crate) fn from_data(data: TensorData) -> Self {
        let device = device();
        match data.dtype() {
            BurnType::Bool(_) => Self::Bool(Flex::bool_from_data(data, &device)),
            dtype if dtype.is_float() => Self::Float(Flex::float_from_data(data, &device)),
            _ => Self::Int(Flex::int_from_data(data, &device)),
        }
    }

    /// Integers.
    pub(crate) fn longs(values: &[i64]) -> Self {
        Self::from_data(TensorData::new(values.to_vec(), [values.len()]))
    }

    /// The elements in burn's own form.
    pub(crate) fn into_data(self) -> Outcome<TensorData> {
        let read = match self {
            Self::Float(tensor) => try_read_sync(Flex::float_into_data(tensor)),
            Self::Int(tensor) => try_read_sync(Flex::int_into_data(tensor)),
            Self::Bool(tensor) => try_read_sync(Flex::bool_into_data(tensor)),
        };
        let read = read.ok_or("it cannot be read at once")?;
        read.map_err(|error| format!("it cannot be read: {error:?}").into())
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
    pub(crate) fn float(&self) -> Outcome<FlexTensor> {
        match self {
            Self::Float(tensor) => Ok(tensor.clone()),
            other => {
                Err(format!("expected numbers with fractions, found {:?}", other.burn_type())
                    .into())
            }
        }
    }

    /// Integers.
    pub(crate) fn int(&self) -> Outcome<FlexTensor> {
        match self {
            Self::Int(tensor) => Ok(tensor.clone()),
            other => Err(format!("expected integers, found {:?}", other.burn_type()).into()),
        }
    }

    /// Truth values.
    pub(crate) fn bool(&self) -> Outcome<FlexTensor> {
        match self {
            Self::Bool(tensor) => Ok(tensor.clone()),
            other => Err(format!("expected truth values, found {:?}", other.burn_type()).into()),
        }
    }
}

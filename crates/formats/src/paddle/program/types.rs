//! `TensorDesc`, which is part of programs and of tensor streams.

use bytes::Bytes;
use lodstone_model::{DType, Dim, TensorType};
use lodstone_schema::paddle::codes;

use crate::encoding::protobuf::wire::{Encoder, Message, Packed};
use crate::error::Result;

/// A `TensorDesc` in its stored form: a dim of -1 means "any".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorDesc {
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<i64>,
}

impl TensorDesc {
    pub(crate) fn read(message: &Message<'_>) -> Result<Self> {
        let (mut dtype, mut dims) = (None, Vec::new());
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => dtype = Some(codes::dtype(field.i32()?)),
                2 => field.each(|field| field.i64(), Packed::Varint, &mut dims)?,
                _ => {}
            }
        }
        let dtype = dtype.ok_or_else(|| message.missing("the element type of a tensor"))?;
        Ok(Self { dtype, dims })
    }

    /// Returns the canonical encoding; `None` if PaddlePaddle has no code for the element type.
    pub(crate) fn write(&self) -> Option<Bytes> {
        let mut encoder = Encoder::default();
        encoder.int(1, codes::dtype_code(self.dtype)?);
        self.dims.iter().for_each(|dim| encoder.int(2, *dim));
        Some(encoder.finish().into())
    }

    /// Creates the description of a tensor type; `None` if a dim overflows.
    pub(crate) fn of(tensor: &TensorType) -> Option<Self> {
        let dims = tensor.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(size) => i64::try_from(*size).ok(),
            Dim::Symbol(_) | Dim::Unknown => Some(-1),
        });
        Some(Self { dtype: tensor.dtype, dims: dims.collect::<Option<_>>()? })
    }

    pub(crate) fn into_type(self, lod_level: u32) -> TensorType {
        let known = |dim: &i64| u64::try_from(*dim).map_or(Dim::Unknown, Dim::Known);
        let shape = Some(self.dims.iter().map(known).collect());
        TensorType { lod_level, ..TensorType::new(self.dtype, shape) }
    }
}

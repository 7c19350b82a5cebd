//! `TensorDesc`, which programs and tensor streams share.

use bytes::Bytes;
use lodstone_model::{DType, Dim, TensorType};
use lodstone_schema::paddle::codes;

use crate::Result;
use crate::encoding::protobuf::wire::{Encoder, Message, Packed};

/// A `TensorDesc` as it is written: extents may be -1 for "any".
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

    /// The canonical encoding; `None` if PaddlePaddle has no code for the element type.
    pub(crate) fn write(&self) -> Option<Bytes> {
        let mut encoder = Encoder::default();
        encoder.int(1, codes::dtype_code(self.dtype)?);
        self.dims.iter().for_each(|dim| encoder.int(2, *dim));
        Some(encoder.finish().into())
    }

    /// What a program says of a tensor; `None` if an extent is too large for it.
    pub(crate) fn of(tensor: &TensorType) -> Option<Self> {
        let dims = tensor.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(extent) => i64::try_from(*extent).ok(),
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

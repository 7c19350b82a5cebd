//! Quantized integers: unsigned in Caffe2, and signed ones here, less by 128, as in Glow.

use std::sync::Arc;

use lodstone_model::{DType, Tensor};
use lodstone_store::{Blob, Derive};

use crate::onnx::recipes;

/// The difference between unsigned and signed integers of 8 bits.
pub(crate) const SHIFT: i32 = 128;

/// Returns a tensor of unsigned bytes as one of signed ones.
pub(crate) fn signed(tensor: &Tensor) -> Tensor {
    let data = Blob::derived(Arc::new(Signed { source: tensor.data.clone() }));
    let shift = Tensor::dense(DType::Int32, Vec::new(), Blob::memory(SHIFT.to_le_bytes().to_vec()));
    let less = recipes::step("Sub", &[&recipes::cast(tensor, DType::Int32), &shift], Vec::new());
    let recipe = recipes::cast(&less, DType::Int8).recipe;
    Tensor { dtype: DType::Int8, data, recipe, ..tensor.clone() }
}

struct Signed {
    source: Blob,
}

impl Derive for Signed {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> lodstone_store::Result<()> {
        self.source.read_at(offset, buffer)?;
        buffer.iter_mut().for_each(|byte| *byte ^= 0x80);
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}

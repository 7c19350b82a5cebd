//! Booleans, which MXNet stores as arbitrary bytes from memory: any byte but 0 is true.

use std::sync::Arc;

use lodstone_model::DType;
use lodstone_store::{Blob, Derive, Result};

/// Returns the elements of an array, with booleans normalized to 0 and 1.
pub(super) fn normalized(dtype: DType, data: Blob) -> Blob {
    if dtype == DType::Bool { Blob::derived(Arc::new(Bools { source: data })) } else { data }
}

/// Returns the stored bytes.
pub(super) fn stored(data: &Blob) -> &Blob {
    data.derivation::<Bools>().map_or(data, |bools| &bools.source)
}

struct Bools {
    source: Blob,
}

impl Derive for Bools {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_at(offset, buffer)?;
        buffer.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}

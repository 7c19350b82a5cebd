//! How much memory tensors may take.
//!
//! Each tensor that an operator makes carries a charge that is given back with its last copy, so shared bytes count
//! once, wherever they are: in variables, in arrays, in the hands of the caller. An operator whose results would not
//! fit is refused before it begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use lodstone_model::Tensor;
use lodstone_store::Blob;

use crate::item::Outcome;

/// The memory that tensors share.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    taken: Arc<AtomicU64>,
    most: u64,
}

impl Budget {
    pub(crate) fn new(most: u64) -> Self {
        Self { taken: Arc::default(), most }
    }

    /// Fails if so many more bytes are too many.
    pub(crate) fn check(&self, more: u64) -> Outcome<()> {
        let taken = self.taken.load(Ordering::Relaxed);
        match taken.checked_add(more).is_some_and(|all| all <= self.most) {
            true => Ok(()),
            false => Err(format!(
                "it would take {more} bytes, where {taken} of at most {} are taken",
                self.most
            )),
        }
    }

    /// The same tensor; its bytes count from now on until the last copy of them is gone.
    pub(crate) fn charged(&self, mut tensor: Tensor) -> Outcome<Tensor> {
        let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
        let charge = self.charge(bytes.len() as u64);
        tensor.data = Blob::memory(Bytes::from_owner(Charged { bytes, _charge: charge }));
        Ok(tensor)
    }

    /// Counts so many bytes until that is gone.
    pub(crate) fn charge(&self, bytes: u64) -> Charge {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        Charge { bytes, taken: Arc::clone(&self.taken) }
    }
}

impl Default for Budget {
    /// All memory of the machine.
    fn default() -> Self {
        Self::new(machine())
    }
}

/// Bytes, and what they were charged.
struct Charged {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that count as long as it is there.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: u64,
    taken: Arc<AtomicU64>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// How much memory the machine has; a terabyte where it does not tell.
fn machine() -> u64 {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    {
        let system = rustix::system::sysinfo();
        system.totalram.saturating_mul(u64::from(system.mem_unit))
    }
    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    {
        1 << 40
    }
}

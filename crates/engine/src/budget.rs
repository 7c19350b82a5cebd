//! The memory limit for tensors.
//!
//! Each tensor that an operator creates carries a charge, which is returned when its last copy is dropped. Shared bytes
//! count once, whether variables, arrays or the caller hold them. An operator whose results would not fit is rejected
//! before it starts.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use lodstone_model::Tensor;
use lodstone_schema::{Code, Finding};
use lodstone_store::Blob;

use crate::item::Outcome;
use crate::memory;

/// Allocations of at least this many bytes are probed before an operator starts. If memory runs out inside an operator,
/// the process aborts.
const TRIED: u64 = 1 << 20;

/// The memory budget that tensors share.
#[derive(Clone, Debug)]
pub struct Budget {
    ledger: Arc<Ledger>,
    most: u64,
}

/// The accounting of a budget.
#[derive(Debug, Default)]
struct Ledger {
    taken: AtomicU64,
    /// Charged bytes, by their address range. An operator that only passes bytes through returns the same range: it is
    /// counted once, and is not wrapped in one more owner each time.
    charged: Mutex<HashMap<Range<usize>, Weak<Charged>>>,
}

impl Ledger {
    fn charged(&self) -> MutexGuard<'_, HashMap<Range<usize>, Weak<Charged>>> {
        self.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budget {
    /// Creates a budget of `most` bytes, or of the memory available to this process if that is less: the available
    /// memory of the machine, the limits of its control groups, and its own limits (`ulimit -v`, `ulimit -d`).
    pub fn new(most: u64) -> Self {
        let most = most.min(memory::available());
        Self { ledger: Arc::default(), most }
    }

    /// Fails if `more` bytes would exceed the budget, or the system cannot provide them.
    ///
    /// # Errors
    /// [`Code::Limit`].
    pub fn check(&self, more: u64) -> Outcome<()> {
        let taken = self.ledger.taken.load(Ordering::Relaxed);
        if taken.checked_add(more).is_none_or(|all| all > self.most) {
            let most = self.most;
            let wrong =
                format!("it would take {more} bytes, where {taken} of at most {most} are taken");
            return Err(Finding::new(Code::Limit, wrong));
        }
        probe(more)
    }

    /// Charges the bytes of a tensor until its last copy is dropped, and returns the tensor.
    ///
    /// # Errors
    /// If its bytes cannot be read.
    pub fn charged(&self, mut tensor: Tensor) -> Outcome<Tensor> {
        let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
        if bytes.is_empty() {
            return Ok(tensor);
        }
        let begin = bytes.as_ptr().addr();
        let range = begin..begin + bytes.len();
        let known = self.ledger.charged().get(&range).and_then(Weak::upgrade);
        let charged = known.unwrap_or_else(|| {
            let charge = self.charge(bytes.len() as u64);
            let charged = Arc::new(Charged { bytes, range: range.clone(), charge });
            self.ledger.charged().insert(range, Arc::downgrade(&charged));
            charged
        });
        tensor.data = Blob::memory(Bytes::from_owner(Shared(charged)));
        Ok(tensor)
    }

    /// Charges `bytes` until the returned charge is dropped, if they fit.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn reserve(&self, bytes: u64) -> Outcome<Charge> {
        self.check(bytes)?;
        Ok(self.charge(bytes))
    }

    /// Charges `bytes` until the returned charge is dropped.
    pub fn charge(&self, bytes: u64) -> Charge {
        self.ledger.taken.fetch_add(bytes, Ordering::Relaxed);
        Charge { bytes, ledger: Arc::clone(&self.ledger) }
    }
}

impl Default for Budget {
    /// Returns a budget of all memory available to this process.
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

/// Bytes and their charge.
#[derive(Debug)]
struct Charged {
    bytes: Bytes,
    range: Range<usize>,
    charge: Charge,
}

impl Drop for Charged {
    fn drop(&mut self) {
        let mut charged = self.charge.ledger.charged();
        // A newer entry may start at the same address by now.
        if charged.get(&self.range).is_some_and(|other| other.strong_count() == 0) {
            charged.remove(&self.range);
        }
    }
}

/// Charged bytes that several owners share.
struct Shared(Arc<Charged>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// Bytes that count until this is dropped.
#[derive(Debug)]
pub struct Charge {
    bytes: u64,
    ledger: Arc<Ledger>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ledger.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Fails if the system cannot provide this many bytes now. They are never written to, and are freed at once.
pub(crate) fn probe(bytes: u64) -> Outcome<()> {
    let mut memory: Vec<u8> = Vec::new();
    let mut is_given =
        || usize::try_from(bytes).is_ok_and(|bytes| memory.try_reserve_exact(bytes).is_ok());
    match bytes < TRIED || is_given() {
        true => Ok(()),
        false => {
            let wrong = format!("it would take {bytes} bytes, which the system cannot provide");
            Err(Finding::new(Code::Limit, wrong))
        }
    }
}

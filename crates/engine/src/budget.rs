//! How much memory tensors may take.
//!
//! Each tensor that an operator makes carries a charge that is given back with its last copy, so shared bytes count
//! once, wherever they are: in variables, in arrays, in the hands of the caller. An operator whose results would not
//! fit is refused before it begins.

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

/// Allocations of this many bytes or more are tried before an operator starts. If memory runs out inside an operator,
/// the process ends.
const TRIED: u64 = 1 << 20;

/// The memory that tensors share.
#[derive(Clone, Debug)]
pub struct Budget {
    ledger: Arc<Ledger>,
    most: u64,
}

/// What is counted.
#[derive(Debug, Default)]
struct Ledger {
    taken: AtomicU64,
    /// Bytes that are charged, by where they begin and how many they are. An operator that only passes bytes on gives
    /// the same ones again: they are counted once, and do not become owners of owners without end.
    charged: Mutex<HashMap<Range<usize>, Weak<Charged>>>,
}

impl Ledger {
    fn charged(&self) -> MutexGuard<'_, HashMap<Range<usize>, Weak<Charged>>> {
        self.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budget {
    /// A budget of so many bytes, or of all that the system gives this process if that is less: what is available in
    /// the machine, the limits of its control groups, and its own (`ulimit -v`, `ulimit -d`).
    pub fn new(most: u64) -> Self {
        let most = most.min(memory::available());
        Self { ledger: Arc::default(), most }
    }

    /// Fails if so many more bytes are too many, or the system does not give them.
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

    /// The same tensor; its bytes count from now on until the last copy of them is gone.
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

    /// Counts so many bytes until that is gone.
    pub fn charge(&self, bytes: u64) -> Charge {
        self.ledger.taken.fetch_add(bytes, Ordering::Relaxed);
        Charge { bytes, ledger: Arc::clone(&self.ledger) }
    }
}

impl Default for Budget {
    /// What the system gives this process.
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

/// Bytes, and what they were charged.
#[derive(Debug)]
struct Charged {
    bytes: Bytes,
    range: Range<usize>,
    charge: Charge,
}

impl Drop for Charged {
    fn drop(&mut self) {
        let mut charged = self.charge.ledger.charged();
        // Others may be there by now that begin where these did.
        if charged.get(&self.range).is_some_and(|other| other.strong_count() == 0) {
            charged.remove(&self.range);
        }
    }
}

/// Charged bytes, for whoever shares them.
struct Shared(Arc<Charged>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// Bytes that count as long as it is there.
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

/// Fails if the system does not give so many bytes now. They are not written to, and given back.
pub(crate) fn probe(bytes: u64) -> Outcome<()> {
    let mut memory: Vec<u8> = Vec::new();
    let mut is_given =
        || usize::try_from(bytes).is_ok_and(|bytes| memory.try_reserve_exact(bytes).is_ok());
    match bytes < TRIED || is_given() {
        true => Ok(()),
        false => {
            let wrong = format!("it would take {bytes} bytes, which the system does not give");
            Err(Finding::new(Code::Limit, wrong))
        }
    }
}

//! The memory limit for tensors.
//!
//! Each tensor that an operator creates carries a charge, which is returned when its last copy is dropped. Shared bytes
//! count once, whether variables, arrays or the caller hold them. An operator whose results and working memory would not
//! fit is rejected before it starts; a kernel whose results depend on elements reserves them before it creates them
//! ([`Memory`]).

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lodstone_model::Tensor;
use lodstone_schema::{Code, Finding};
use lodstone_store::Blob;
use lodstone_store::system::available_memory;

use crate::error::Outcome;

/// Allocations of at least this many bytes are probed before an operator starts. If memory runs out inside an operator,
/// the process aborts.
const TRIED: u64 = 1 << 20;

/// The memory budget that tensors share.
#[derive(Clone, Debug)]
pub struct Budget {
    ledger: Arc<Ledger>,
    most: u64,
}

/// Hashes addresses, which nobody chooses to collide.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, address: usize) {
        // The highest bits of a product depend on all bits of its factors; maps use both ends.
        let product = (self.0 ^ address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }
}

/// The accounting of a budget.
#[derive(Debug, Default)]
struct Ledger {
    taken: AtomicU64,
    /// The maximum of `taken`.
    peak: AtomicU64,
    /// The address ranges of charged bytes. An operator that only passes bytes through returns the same range: it is
    /// counted once, and is not wrapped in one more owner each time.
    charged: Mutex<HashSet<Range<usize>, BuildHasherDefault<AddressHasher>>>,
}

impl Ledger {
    /// Adds bytes; returns the bytes that were taken before.
    fn add(&self, bytes: u64) -> u64 {
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        self.peak.fetch_max(before.saturating_add(bytes), Ordering::Relaxed);
        before
    }
}

impl Budget {
    /// Creates a budget of `most` bytes, or of the memory available to this process if that is less: the available
    /// memory of the machine, the limits of its control groups, and its own limits (`ulimit -v`, `ulimit -d`).
    pub fn new(most: u64) -> Self {
        let most = most.min(available_memory());
        Self { ledger: Arc::default(), most }
    }

    /// Returns the charged bytes.
    pub fn taken(&self) -> u64 {
        self.ledger.taken.load(Ordering::Relaxed)
    }

    /// Returns the maximum of the charged bytes so far.
    pub fn peak(&self) -> u64 {
        self.ledger.peak.load(Ordering::Relaxed)
    }

    /// Returns the bytes that may still be charged.
    pub(crate) fn left(&self) -> u64 {
        self.most.saturating_sub(self.taken())
    }

    /// Fails if `more` bytes would exceed the budget, or the system cannot provide them.
    ///
    /// # Errors
    /// [`Code::Limit`].
    pub fn check(&self, more: u64) -> Outcome<()> {
        self.fits(self.taken(), more)?;
        probe(more)
    }

    fn fits(&self, taken: u64, more: u64) -> Outcome<()> {
        if taken.checked_add(more).is_none_or(|all| all > self.most) {
            let most = self.most;
            let wrong =
                format!("it would take {more} bytes, where {taken} of at most {most} are taken");
            return Err(Finding::new(Code::Limit, wrong));
        }
        Ok(())
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
        if locked(&self.ledger.charged).insert(range.clone()) {
            let charge = self.charge(bytes.len() as u64);
            tensor.data = Blob::memory(Bytes::from_owner(Charged { bytes, range, charge }));
        }
        Ok(tensor)
    }

    /// Charges `bytes` until the returned charge is dropped, if they fit.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn reserve(&self, bytes: u64) -> Outcome<Charge> {
        let mut charge = self.charge(0);
        self.extend(&mut charge, bytes)?;
        Ok(charge)
    }

    /// Adds `bytes` to a charge of this budget, if they fit.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn extend(&self, charge: &mut Charge, bytes: u64) -> Outcome<()> {
        self.check(bytes)?;
        charge.bytes = charge.bytes.saturating_add(bytes);
        self.ledger.add(bytes);
        Ok(())
    }

    /// Charges `bytes` until the returned charge is dropped.
    pub fn charge(&self, bytes: u64) -> Charge {
        self.ledger.add(bytes);
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
struct Charged {
    bytes: Bytes,
    range: Range<usize>,
    charge: Charge,
}

impl Drop for Charged {
    fn drop(&mut self) {
        // The bytes are still there: nothing else has this range.
        locked(&self.charge.ledger.charged).remove(&self.range);
    }
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that count until this is dropped.
#[derive(Debug)]
pub struct Charge {
    bytes: u64,
    ledger: Arc<Ledger>,
}

impl Charge {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ledger.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The memory of a kernel: the budget of its run, or that of the machine while constants are folded without one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory<'a>(pub(crate) Option<&'a Budget>);

impl<'a> Memory<'a> {
    /// Charges bytes that a kernel is about to allocate, for results whose size depends on elements or to compute in, until
    /// the returned charge is dropped.
    ///
    /// # Errors
    /// If they exceed the budget of the run, or the system cannot provide them.
    pub(crate) fn reserve(self, bytes: u64) -> Outcome<Option<Charge>> {
        match self.0 {
            Some(budget) => budget.reserve(bytes).map(Some),
            None => probe(bytes).map(|()| None),
        }
    }

    /// Begins a charge that grows while results are created.
    pub(crate) fn growing(self) -> Growing<'a> {
        Growing { memory: self, charge: self.0.map(|budget| budget.charge(0)) }
    }

    /// Returns the bytes that may still be reserved.
    #[cfg(feature = "images")]
    pub(crate) fn left(self) -> u64 {
        // Without a budget, there is no limit.
        self.0.map_or(u64::MAX, Budget::left)
    }
}

/// A charge for results whose size is not known before they are created.
#[derive(Debug)]
pub(crate) struct Growing<'a> {
    memory: Memory<'a>,
    charge: Option<Charge>,
}

impl Growing<'_> {
    /// Charges bytes that are about to be allocated.
    ///
    /// # Errors
    /// As [`Memory::reserve`].
    pub(crate) fn add(&mut self, bytes: u64) -> Outcome<()> {
        match (self.memory.0, &mut self.charge) {
            (Some(budget), Some(charge)) => budget.extend(charge, bytes),
            _ => probe(bytes),
        }
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

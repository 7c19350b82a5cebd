//! Memory for results, used again: the system would have to clear fresh memory.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use super::aligned::Aligned;
use crate::budget::{Budget, Charge};
use crate::error::Outcome;

/// The memory of results of a run that was released, and may be used again.
#[derive(Debug)]
pub(crate) struct Buffers(Arc<Mutex<Pool>>);

#[derive(Debug)]
struct Pool {
    free: Vec<Aligned<f32>>,
    /// The bytes of all memory that the run took, released or not.
    all: u64,
    /// The bytes that the run reserved for its results.
    reserved: u64,
    /// The charge for what `all` exceeds them by because memory is kept.
    excess: Charge,
    budget: Budget,
}

/// The memory that a plan keeps from run to run, and its charge.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Option<(Vec<Aligned<f32>>, Charge)>>);

/// Memory for the elements of a result. When it is dropped, it can be taken again, if the run has not ended.
#[derive(Debug)]
pub(crate) struct Buffer {
    memory: Aligned<f32>,
    count: usize,
    home: Home,
}

/// Where the memory of a buffer goes when it is dropped.
#[derive(Debug)]
enum Home {
    /// To the system.
    System,
    /// To the run that it is of, if it has not ended.
    Run(Weak<Mutex<Pool>>),
    /// To the thread that drops it, for its next product.
    Thread,
}

thread_local! {
    /// The memory that the last product of this thread packed a matrix into.
    static PACKED: Cell<Option<Aligned<f32>>> = const { Cell::new(None) };
}

/// The number of elements up to which a thread keeps the memory of a packed matrix.
const MAX_KEPT: usize = 2 << 20;

/// Memory may be this many times as large as what it is used for.
const MAX_OVERSIZE: usize = 4;

impl Buffers {
    /// Returns `count` elements of any value.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn take(&self, count: usize) -> Outcome<Buffer> {
        let mut pool = locked(&self.0);
        let fits = |(_, memory): &(usize, &Aligned<f32>)| {
            (count..=count.saturating_mul(MAX_OVERSIZE)).contains(&memory.len())
        };
        let found = pool.free.iter().enumerate().filter(fits);
        let best = found.min_by_key(|(_, memory)| memory.len()).map(|(at, _)| at);
        let memory = best.map(|at| pool.free.swap_remove(at));
        let memory = match memory {
            Some(memory) => memory,
            None => {
                pool.make_room((count as u64).saturating_mul(size_of::<f32>() as u64));
                drop(pool);
                Aligned::zeroed(count)?
            }
        };
        Ok(Buffer { memory, count, home: Home::Run(Arc::downgrade(&self.0)) })
    }

    /// Makes room for results of other memory, of this size, which take their place in what the run reserved.
    pub(crate) fn trim(&self, bytes: u64) {
        locked(&self.0).trim(bytes);
    }

    /// Frees all memory that was released.
    pub(crate) fn clear(&self) {
        let mut pool = locked(&self.0);
        let freed: u64 = pool.free.iter().map(nbytes).sum();
        pool.free.clear();
        pool.all = pool.all.saturating_sub(freed);
        let excess = pool.all.saturating_sub(pool.reserved).min(pool.excess.bytes());
        pool.excess = pool.budget.charge(excess);
    }
}

fn nbytes(memory: &Aligned<f32>) -> u64 {
    memory.bytes().len() as u64
}

impl Pool {
    /// Counts new memory, beside what was released if the budget has room for both.
    fn make_room(&mut self, bytes: u64) {
        self.trim(bytes);
        self.all = self.all.saturating_add(bytes);
    }

    /// Charges what all, with more bytes, exceeds the charges by; frees what was released if the budget has no room for that.
    fn trim(&mut self, more: u64) {
        let missing = self.all.saturating_add(more).saturating_sub(self.charged());
        if missing == 0 || self.budget.extend(&mut self.excess, missing).is_ok() {
            return;
        }
        while self.all.saturating_add(more) > self.charged() {
            let Some(memory) = self.free.pop() else { return };
            self.all = self.all.saturating_sub(nbytes(&memory));
        }
    }

    fn charged(&self) -> u64 {
        self.reserved.saturating_add(self.excess.bytes())
    }

    /// Keeps memory that was released, if the budget has room for it.
    fn keep(&mut self, memory: Aligned<f32>) {
        let more = self.all.saturating_sub(self.charged());
        match more == 0 || self.budget.extend(&mut self.excess, more).is_ok() {
            true => self.free.push(memory),
            false => self.all = self.all.saturating_sub(nbytes(&memory)),
        }
    }
}

impl Buffer {
    /// Returns `count` zeros, of a constant.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn constant(count: usize) -> Outcome<Self> {
        Ok(Self { memory: Aligned::paged(count)?, count, home: Home::System })
    }

    /// Returns `count` zeros, in memory of the heap if they are few.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn own(count: usize) -> Outcome<Self> {
        Ok(Self { memory: Aligned::zeroed(count)?, count, home: Home::System })
    }

    /// Returns `count` elements of any value, for a matrix that is packed for one product: in the memory of the last one that
    /// this thread packed, if it is large enough.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn transient(count: usize) -> Outcome<Self> {
        let memory = match PACKED.take() {
            Some(memory) if memory.len() >= count => memory,
            _ => Aligned::zeroed(count)?,
        };
        Ok(Self { memory, count, home: Home::Thread })
    }
}

fn locked(pool: &Mutex<Pool>) -> MutexGuard<'_, Pool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        match &self.home {
            Home::System => (),
            Home::Run(run) => {
                if let Some(run) = run.upgrade() {
                    locked(&run).keep(memory);
                }
            }
            Home::Thread => {
                if memory.len() <= MAX_KEPT {
                    // A thread that ends has nothing to keep it in.
                    let _ = PACKED.try_with(|kept| kept.set(Some(memory)));
                }
            }
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        self.memory.get(..self.count).unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        self.memory.get_mut(..self.count).unwrap_or_default()
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.memory.bytes().get(..self.count * size_of::<f32>()).unwrap_or_default()
    }
}

impl From<Buffer> for Bytes {
    fn from(buffer: Buffer) -> Self {
        Self::from_owner(buffer)
    }
}

#[cfg(test)]
impl Default for Buffers {
    fn default() -> Self {
        let budget = Budget::default();
        let (free, excess) = (Vec::new(), budget.charge(0));
        Self(Arc::new(Mutex::new(Pool { free, all: 0, reserved: 0, excess, budget })))
    }
}

impl Spare {
    /// Frees all memory.
    pub(crate) fn clear(&self) {
        drop(self.kept());
    }

    fn kept(&self) -> Option<(Vec<Aligned<f32>>, Charge)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes all memory for a run that reserves `reserved` bytes for its results. Returns their charge, too.
    ///
    /// # Errors
    /// If the budget has no room for the results.
    pub(crate) fn take(&self, reserved: u64, budget: &Budget) -> Outcome<(Buffers, Charge)> {
        // The results use this memory: it is not counted beside them. Nothing is kept before the first run.
        let free = self.kept().map(|(free, _)| free).unwrap_or_default();
        let charge = budget.reserve(reserved)?;
        let all: u64 = free.iter().map(nbytes).sum();
        let excess = budget.charge(all.saturating_sub(reserved));
        let pool = Pool { free, all, reserved, excess, budget: budget.clone() };
        Ok((Buffers(Arc::new(Mutex::new(pool))), charge))
    }

    /// Keeps memory for the next run, if the budget has room for it.
    pub(crate) fn put(&self, buffers: &Buffers, budget: &Budget) {
        let free = std::mem::take(&mut locked(&buffers.0).free);
        if let Ok(charge) = budget.reserve(free.iter().map(nbytes).sum()) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((free, charge));
        }
    }
}

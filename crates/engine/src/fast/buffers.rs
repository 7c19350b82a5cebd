//! Memory for results, used again: the system would have to clear fresh memory.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use super::aligned::Aligned;
use crate::budget::{Budget, Charge};
use crate::item::Outcome;

/// Memory that was released.
type Free = Mutex<Vec<Aligned<f32>>>;

/// The memory of results of a run, those that were released.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Arc<Free>);

/// The memory that a plan keeps from run to run, and its charge.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Option<(Vec<Aligned<f32>>, Charge)>>);

/// Memory for the elements of a result. When it is dropped, it can be taken again, if the run has not ended.
#[derive(Debug)]
pub(crate) struct Buffer {
    memory: Aligned<f32>,
    count: usize,
    home: Weak<Free>,
}

/// Memory may be this many times as large as what it is used for.
const LOOSE: usize = 4;

impl Buffers {
    /// Returns `count` elements of any value.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn take(&self, count: usize) -> Outcome<Buffer> {
        let mut free = locked(&self.0);
        let fits = |(_, memory): &(usize, &Aligned<f32>)| {
            (count..=count.saturating_mul(LOOSE)).contains(&memory.len())
        };
        let found = free.iter().enumerate().filter(fits);
        let best = found.min_by_key(|(_, memory)| memory.len()).map(|(at, _)| at);
        let memory = best.map(|at| free.swap_remove(at));
        drop(free);
        let memory = match memory {
            Some(memory) => memory,
            None => Aligned::zeroed(count)?,
        };
        Ok(Buffer { memory, count, home: Arc::downgrade(&self.0) })
    }
}

impl Buffer {
    /// Returns `count` zeros, of a constant.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn constant(count: usize) -> Outcome<Self> {
        Ok(Self { memory: Aligned::paged(count)?, count, home: Weak::new() })
    }
}

fn locked(free: &Free) -> MutexGuard<'_, Vec<Aligned<f32>>> {
    free.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            locked(&home).push(std::mem::take(&mut self.memory));
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

impl Spare {
    /// Frees all memory.
    pub(crate) fn clear(&self) {
        drop(self.take());
    }

    /// Takes all memory.
    pub(crate) fn take(&self) -> Buffers {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let free = kept.map(|(free, _)| free).unwrap_or_default();
        Buffers(Arc::new(Mutex::new(free)))
    }

    /// Keeps memory for the next run, if the budget has room for it.
    pub(crate) fn put(&self, buffers: &Buffers, budget: &Budget) {
        let free = std::mem::take(&mut *locked(&buffers.0));
        let bytes = free.iter().map(|memory| memory.bytes().len() as u64).sum();
        if let Ok(charge) = budget.reserve(bytes) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((free, charge));
        }
    }
}

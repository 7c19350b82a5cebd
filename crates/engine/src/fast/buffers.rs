//! Memory for results, used again: fresh memory would have to be cleared, by the system and here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::budget::{Budget, Charge};
use crate::value::Value;

/// Buffers of results that were released.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<f32>>>);

/// The buffers that a plan keeps from run to run, and their charge.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Option<(Vec<Vec<f32>>, Charge)>>);

/// A buffer may be this many times as large as what it is used for.
const LOOSE: usize = 2;

impl Buffers {
    fn free(&self) -> MutexGuard<'_, Vec<Vec<f32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `count` elements of any value.
    pub(crate) fn take(&self, count: usize) -> Vec<f32> {
        let mut free = self.free();
        let fits = |buffer: &Vec<f32>| (count..=count * LOOSE).contains(&buffer.capacity());
        let found = free.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        let best = found.min_by_key(|(_, buffer)| buffer.capacity()).map(|(at, _)| at);
        let mut buffer = best.map(|at| free.swap_remove(at)).unwrap_or_default();
        drop(free);
        buffer.resize(count, 0.0);
        buffer
    }

    /// Keeps the memory of a value, if nothing else uses it.
    pub(crate) fn give(&self, value: Value) {
        if let Value::Dense(dense) = value
            && let Some(buffer) = dense.into_floats()
        {
            self.free().push(buffer);
        }
    }
}

impl Spare {
    /// Frees all buffers.
    pub(crate) fn clear(&self) {
        drop(self.take());
    }

    /// Takes all buffers.
    pub(crate) fn take(&self) -> Buffers {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        Buffers(Mutex::new(kept.map(|(buffers, _)| buffers).unwrap_or_default()))
    }

    /// Keeps buffers for the next run, if the budget has room for them.
    pub(crate) fn put(&self, buffers: Buffers, budget: &Budget) {
        let buffers = buffers.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let bytes =
            buffers.iter().map(|buffer| (buffer.capacity() * size_of::<f32>()) as u64).sum();
        if let Ok(charge) = budget.reserve(bytes) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((buffers, charge));
        }
    }
}

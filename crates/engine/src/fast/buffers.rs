//! Memory for results, used again: fresh memory would have to be cleared, by the system and here.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::budget::{Budget, Charge};
use crate::value::Value;

/// Buffers of results that were released.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Pool>);

#[derive(Debug, Default)]
struct Pool {
    free: Vec<Vec<f32>>,
    /// The addresses of all buffers from here. Memory from elsewhere is not kept: there would be more of it in each run.
    own: HashSet<usize>,
}

/// The buffers that a plan keeps from run to run, and their charge.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Option<(Vec<Vec<f32>>, Charge)>>);

/// A buffer may be this many times as large as what it is used for.
const LOOSE: usize = 2;

impl Buffers {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `count` elements of any value.
    pub(crate) fn take(&self, count: usize) -> Vec<f32> {
        let mut pool = self.pool();
        let fits = |buffer: &Vec<f32>| (count..=count * LOOSE).contains(&buffer.capacity());
        let found = pool.free.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        let best = found.min_by_key(|(_, buffer)| buffer.capacity()).map(|(at, _)| at);
        let mut buffer = match best {
            Some(at) => pool.free.swap_remove(at),
            None => Vec::with_capacity(count),
        };
        pool.own.insert(buffer.as_ptr().addr());
        drop(pool);
        buffer.resize(count, 0.0);
        buffer
    }

    /// Keeps the memory of a value, if it is from here and nothing else uses it.
    pub(crate) fn give(&self, value: Value) {
        if let Value::Dense(dense) = value
            && let Some(buffer) = dense.into_floats()
        {
            let mut pool = self.pool();
            if pool.own.contains(&buffer.as_ptr().addr()) {
                pool.free.push(buffer);
            }
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
        let free = kept.map(|(buffers, _)| buffers).unwrap_or_default();
        Buffers(Mutex::new(Pool { free, own: HashSet::new() }))
    }

    /// Keeps buffers for the next run, if the budget has room for them.
    pub(crate) fn put(&self, buffers: Buffers, budget: &Budget) {
        let buffers = buffers.0.into_inner().unwrap_or_else(PoisonError::into_inner).free;
        let bytes =
            buffers.iter().map(|buffer| (buffer.capacity() * size_of::<f32>()) as u64).sum();
        if let Ok(charge) = budget.reserve(bytes) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((buffers, charge));
        }
    }
}

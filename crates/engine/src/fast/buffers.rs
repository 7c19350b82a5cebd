//! Memory for results, used again: the system would have to clear fresh memory.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ahead::LINE;
use super::layout::Order;
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

/// Memory for the elements of a result.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(super) memory: Vec<f32>,
    /// Where the elements are.
    pub(super) place: Range<usize>,
}

/// A buffer may be this many times as large as what it is used for.
const LOOSE: usize = 4;

impl Buffers {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `count` elements of any value. Images whose channels are innermost begin at a line of the cache, as most of
    /// their pixels do then; other kernels would copy a tensor that does not begin and end where its memory does.
    pub(crate) fn take(&self, count: usize, order: Order) -> Buffer {
        let room = match order {
            Order::ChannelsLast => count + LINE / size_of::<f32>(),
            Order::RowMajor => count,
        };
        let mut pool = self.pool();
        let fits = |buffer: &Vec<f32>| (room..=room * LOOSE).contains(&buffer.capacity());
        let found = pool.free.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        let best = found.min_by_key(|(_, buffer)| buffer.capacity()).map(|(at, _)| at);
        let mut memory = match best {
            Some(at) => pool.free.swap_remove(at),
            // The system clears fresh memory when it is first written, by the thread that writes it.
            None => vec![0.0; room],
        };
        pool.own.insert(memory.as_ptr().addr());
        drop(pool);
        let begin = match order {
            Order::ChannelsLast => memory.as_ptr().align_offset(LINE).min(room - count),
            Order::RowMajor => 0,
        };
        let place = begin..begin + count;
        match order {
            // What is behind the elements need not be set again later.
            Order::ChannelsLast if memory.len() >= place.end => {}
            _ => memory.resize(place.end, 0.0),
        }
        Buffer { memory, place }
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

impl From<Vec<f32>> for Buffer {
    fn from(memory: Vec<f32>) -> Self {
        Self { place: 0..memory.len(), memory }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        self.memory.get(self.place.clone()).unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        self.memory.get_mut(self.place.clone()).unwrap_or_default()
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

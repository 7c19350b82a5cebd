//! Memory that is requested before it is read: constants beyond the caches would be waited for.

/// The size of a line of the cache in bytes.
pub(crate) const LINE: usize = 64;

/// Elements that are read soon, and how many of them a part of the work requests.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch<'a, T> {
    values: &'a [T],
    per_part: usize,
}

impl<'a, T> Prefetch<'a, T> {
    /// The number of elements in a line of the cache, at least one.
    const STEP: usize = if size_of::<T>() < LINE { LINE / size_of::<T>() } else { 1 };

    /// Returns the first `count` of `values`, for a number of parts of the work before they are read.
    pub(crate) fn new(values: &'a [T], count: usize, parts: usize) -> Self {
        let (values, _) = values.split_at(count.min(values.len()));
        Self { values, per_part: values.len() }.in_parts(parts)
    }

    /// Returns what one of the parts requests.
    #[inline(always)]
    pub(crate) fn part(&self, number: usize) -> Self {
        let (_, values) = self.values.split_at((number * self.per_part).min(self.values.len()));
        let (values, _) = values.split_at(self.per_part.min(values.len()));
        Self { values, ..*self }
    }

    /// Returns the same, for a number of parts.
    #[inline(always)]
    pub(crate) fn in_parts(&self, parts: usize) -> Self {
        let per_part = self.values.len().div_ceil(parts.max(1)).next_multiple_of(Self::STEP);
        Self { per_part, ..*self }
    }

    /// Requests all elements, for the second-level cache.
    #[inline(always)]
    pub(crate) fn issue(&self) {
        #[cfg(target_arch = "x86_64")]
        self.values.iter().step_by(Self::STEP).for_each(safe_arch::prefetch_t1);
    }
}

/// Requests an element that is read or written next, for the first-level cache.
#[inline(always)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "there is no safe request")
)]
pub(crate) fn prefetch<T>(value: Option<&T>) {
    #[cfg(target_arch = "x86_64")]
    value.into_iter().for_each(safe_arch::prefetch_t0);
}

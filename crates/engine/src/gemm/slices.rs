//! Parts of slices, and elements that are a distance apart.

/// Sets a slice to values that are `apart` elements apart.
#[inline(always)]
pub(crate) fn gather<T: Copy>(values: &[T], begin: usize, apart: usize, into: &mut [T]) {
    match apart {
        1 => into.copy_from_slice(part_of(values, begin, into.len())),
        2 => {
            // In vectors, but for the last element, after which there may be no other.
            let (pairs, last) = values.split_at(begin).1.as_chunks::<2>();
            into.iter_mut().zip(pairs).for_each(|(into, [value, _])| *into = *value);
            if let (Some(into), [value, ..]) = (into.get_mut(pairs.len()), last) {
                *into = *value;
            }
        }
        _ => {
            for (number, into) in into.iter_mut().enumerate() {
                if let Some(value) = values.get(begin + number * apart) {
                    *into = *value;
                }
            }
        }
    }
}

/// Returns `count` values from `begin` on.
#[inline(always)]
pub(crate) fn part_of<T>(values: &[T], begin: usize, count: usize) -> &[T] {
    let (_, values) = values.split_at(begin);
    let (values, _) = values.split_at(count);
    values
}

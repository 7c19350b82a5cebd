//! The blocking of products for the vectors and caches of this processor. It does not change results: every element is summed in
//! the same order.

use std::ops::Range;
use std::sync::LazyLock;

use crate::simd::lanes;

/// The minimum number of contiguous elements for rows to be read in place.
const MIN_CONTIGUOUS: usize = 64;

/// The maximum number of columns for which rows are read in place: what is read a few times only is not worth a copy.
const MAX_NARROW: usize = 128;

/// A part of the result that is in registers while it is summed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) rows: usize,
    /// The number of vectors in a row.
    pub(crate) vectors: usize,
    pub(crate) columns: usize,
}

/// How products are divided into blocks, panels and tiles.
struct Blocking {
    /// The maximum number of products that are summed before a tile returns to memory.
    depth: usize,
    /// Whether rows that are contiguous are read in place for any number of columns.
    is_in_place: bool,
    /// The vectors of a tile, its rows, and the time for a vector in percent of that of the fastest tile.
    tiles: Vec<[usize; 3]>,
}

static BLOCKING: LazyLock<Blocking> = LazyLock::new(|| {
    let usual = Blocking {
        depth: 288,
        is_in_place: false,
        tiles: vec![[2, 6, 100], [3, if lanes() == 16 { 4 } else { 3 }, 100], [1, 8, 112]],
    };
    let panel = 2 * usual.depth * lanes() * size_of::<f32>();
    // Four vectors fit the registers of processors with vectors of 16 only.
    if lanes() < 16 || first_level().is_none_or(|size| size >= panel) {
        return usual;
    }
    // Panels are read from the second-level cache: longer sums and wider tiles return to memory less often.
    Blocking {
        depth: 768,
        is_in_place: true,
        tiles: vec![[3, 4, 100], [4, 4, 101], [2, 6, 109], [1, 8, 112]],
    }
});

/// Returns the size of the first-level data cache in bytes, if it is known.
#[cfg(target_arch = "x86_64")]
fn first_level() -> Option<usize> {
    use raw_cpuid::{CacheType, CpuId};
    let mut caches = CpuId::new().get_cache_parameters()?;
    let first = caches.find(|it| it.level() == 1 && it.cache_type() == CacheType::Data)?;
    let lines = first.sets() * first.associativity() * first.physical_line_partitions();
    Some(lines * first.coherency_line_size())
}

/// Returns the size of the first-level data cache in bytes, if it is known.
#[cfg(not(target_arch = "x86_64"))]
const fn first_level() -> Option<usize> {
    None
}

impl Tile {
    /// Returns the tile with which a number of columns takes the least time.
    pub(crate) fn of(columns: usize) -> Self {
        let vectors = columns.div_ceil(lanes()).max(1);
        let cost = |[each, _, percent]: &[usize; 3]| vectors.next_multiple_of(*each) * percent;
        let best = BLOCKING.tiles.iter().copied().min_by_key(cost);
        let [vectors, rows, _] = best.unwrap_or([1, 8, 100]);
        Self { rows, vectors, columns: vectors * lanes() }
    }

    /// Returns the number of elements of packed matrices: the number of matrices, of rows and of columns.
    pub(crate) fn elements(self, [groups, inner, columns]: [usize; 3]) -> usize {
        let width = columns.next_multiple_of(self.columns);
        groups.saturating_mul(inner).saturating_mul(width)
    }
}

/// Returns whether rows that consist of runs of `contiguous` elements are read in place when they are multiplied with a matrix
/// of `inner` rows and `columns` columns.
pub(crate) fn is_read_in_place([inner, columns]: [usize; 2], contiguous: usize) -> bool {
    let is_narrow = columns <= MAX_NARROW;
    if contiguous == inner {
        is_narrow || BLOCKING.is_in_place
    } else {
        is_narrow && contiguous >= MIN_CONTIGUOUS
    }
}

/// Returns the parts of the inner dim that are summed one after the other: parts of `contiguous` elements, or of equal size.
pub(crate) fn blocks(inner: usize, contiguous: usize) -> Vec<Range<usize>> {
    let parts = contiguous.div_ceil(BLOCKING.depth).max(1);
    let depth = contiguous.div_ceil(parts).max(1);
    let contiguous =
        (0..inner).step_by(contiguous.max(1)).map(|begin| begin..inner.min(begin + contiguous));
    let part = |begin: usize, end: usize| begin..end.min(begin + depth);
    contiguous.flat_map(|it| it.clone().step_by(depth).map(move |at| part(at, it.end))).collect()
}

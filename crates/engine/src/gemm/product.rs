//! Products with a constant matrix that is packed once.
//!
//! Rows of the left matrix are read in blocks that stay in the second-level cache; a panel of the constant matrix stays in
//! the first-level cache if that is large enough (`tile.rs`), and a tile of the result in registers. Every element is summed
//! in the order of the inner dim, by one thread: results do not depend on the number of threads.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::buffers::Buffer;
use super::prefetch::{Ahead, request};
use super::slices::part_of;
use super::tile::{Tile, blocks, is_read_in_place};
use crate::error::Outcome;
use crate::simd::{dispatch, load, store};
use crate::threads::{each_chunk, sharing};

/// The number of elements after those of an unfolded row, of which as many are copied at a time.
pub(crate) const SLACK: usize = 16;

/// The number of elements of a row between checks of its length.
const STEP: usize = 8;

/// The minimum number of tiles of a thread for which whole tiles take less time than equal numbers of rows.
const MANY: usize = 8;

/// The minimum number of multiplications of a thread: fewer take less time than asking another one.
const WORTH: usize = 1 << 16;

/// The maximum number of rows that are unfolded at a time.
const UNFOLDED: usize = 132;

/// The left matrices of a product, one for each group.
pub(crate) trait Rows: Sync {
    /// Returns the elements of rows where they are in memory, if that is `direct` and possible; otherwise writes them to
    /// `unfolded`.
    fn read<'r>(&'r self, place: &Place, is_direct: bool, unfolded: &'r mut Vec<f32>) -> Read<'r>;
}

/// The elements `inner` of `count` rows of a group, from row `first` on.
pub(crate) struct Place {
    pub(crate) group: usize,
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) inner: Range<usize>,
}

impl Place {
    /// Returns lines of `unfolded`, one for each of `count` items, that `write` has filled.
    #[inline(always)]
    pub(crate) fn unfold<'u, T>(
        &self,
        count: usize,
        items: impl Iterator<Item = T>,
        unfolded: &'u mut Vec<f32>,
        write: impl Fn(T, &mut [f32]),
    ) -> Read<'u> {
        let len = self.inner.len();
        // Lines have room for what is copied together with the last elements.
        let apart = (len + SLACK).next_multiple_of(SLACK);
        if unfolded.len() < count * apart {
            unfolded.resize(count * apart, 0.0);
        }
        let lines = unfolded.chunks_exact_mut(apart).take(count);
        items.zip(lines).for_each(|(item, into)| write(item, into));
        Read::Regular { values: unfolded, apart, len }
    }
}

/// Rows of equal length in memory.
pub(crate) enum Read<'a> {
    /// The first elements of successive rows are `apart` elements apart.
    Regular {
        values: &'a [f32],
        apart: usize,
        len: usize,
    },
    Each(Vec<&'a [f32]>),
}

impl<'a> Read<'a> {
    /// Returns a row.
    #[inline(always)]
    pub(crate) fn row(&self, number: usize) -> &'a [f32] {
        match self {
            Self::Regular { values, apart, len } => part_of(values, number * apart, *len),
            Self::Each(rows) => rows.get(number).copied().unwrap_or_default(),
        }
    }
}

/// Rows that are contiguous in memory: the columns of a group follow those of the group before.
pub(crate) struct Lines<'a> {
    /// The distance between the first elements of successive rows.
    pub(crate) apart: usize,
    /// The number of columns of a group.
    pub(crate) each: usize,
    pub(crate) values: &'a [f32],
}

impl Rows for Lines<'_> {
    fn read<'r>(&'r self, place: &Place, is_direct: bool, unfolded: &'r mut Vec<f32>) -> Read<'r> {
        let Place { group, first, count, ref inner } = *place;
        let (_, values) =
            self.values.split_at(first * self.apart + group * self.each + inner.start);
        let lines = Read::Regular { values, apart: self.apart, len: inner.len() };
        if is_direct {
            return lines;
        }
        place.unfold(count, 0..count, unfolded, |row, into| {
            let (into, _) = into.split_at_mut(inner.len());
            into.copy_from_slice(lines.row(row));
        })
    }
}

/// Constant matrices in panels that are as wide as a tile, one for each group.
#[derive(Debug)]
pub(crate) struct Packed {
    groups: usize,
    /// The number of rows of each matrix.
    inner: usize,
    /// The number of columns of each matrix.
    columns: usize,
    tile: Tile,
    /// Whether rows are read in place: what is read a few times only is not worth a copy.
    is_direct: bool,
    /// The parts of the inner dim that are summed one after the other.
    blocks: Vec<Range<usize>>,
    /// `[group][block][panel][row of the block][width]`, in the order of the sums: a matrix beyond the caches is read as one
    /// stream. The last panel is filled with zeros.
    panels: Buffer,
}

/// What happens to the sums of a column.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Finish<'a> {
    /// What is added to each column, over all groups.
    pub(crate) bias: Option<&'a [f32]>,
    /// What is added to each result after that.
    pub(crate) added: Option<&'a [f32]>,
    /// The minimum and maximum of the results.
    pub(crate) clamp: Option<[f32; 2]>,
}

impl Packed {
    /// Packs matrices of `inner` rows and `columns` columns. `read` is called with a group, a row and the first of some
    /// columns, and sets a slice to their elements. The rows that are multiplied with them consist of runs of `joined`
    /// elements that are contiguous in memory. `room` returns memory for the panels.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn new(
        size: [usize; 3],
        joined: usize,
        room: impl Fn(usize) -> Outcome<Buffer>,
        mut read: impl FnMut([usize; 3], &mut [f32]),
    ) -> Outcome<Self> {
        Self::together(size, joined, room, |[row, first], groups| {
            let groups = groups.iter_mut().enumerate();
            groups.for_each(|(group, into)| read([group, row, first], into));
        })
    }

    /// Does the same. `read` is called with a row and the first of some columns, and sets a slice for each group.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn together(
        [groups, inner, columns]: [usize; 3],
        joined: usize,
        room: impl Fn(usize) -> Outcome<Buffer>,
        mut read: impl FnMut([usize; 2], &mut [&mut [f32]]),
    ) -> Outcome<Self> {
        let tile = Tile::of(columns);
        let width = tile.columns;
        let is_direct = is_read_in_place([inner, columns], joined);
        let blocks = blocks(inner, if is_direct { joined } else { inner });
        let mut panels = room(tile.elements([groups, inner, columns]))?;
        let size = inner * columns.next_multiple_of(width);
        let each = panels.chunks_exact_mut(size.max(1));
        let mut each: Vec<_> = each.map(|group| group.chunks_exact_mut(width)).collect();
        let mut lines: Vec<&mut [f32]> = Vec::with_capacity(groups);
        for block in &blocks {
            for first in (0..columns).step_by(width) {
                for row in block.clone() {
                    lines.clear();
                    lines.extend(each.iter_mut().filter_map(Iterator::next).map(|line| {
                        let (line, rest) = line.split_at_mut(width.min(columns - first));
                        rest.fill(0.0);
                        line
                    }));
                    read([row, first], &mut lines);
                }
            }
        }
        Ok(Self { groups, inner, columns, tile, is_direct, blocks, panels })
    }

    /// Returns the same, for rows that are always read where they are in memory.
    pub(crate) fn in_place(self) -> Self {
        Self { is_direct: true, ..self }
    }

    /// Returns the number of columns of all groups.
    pub(crate) fn width(&self) -> usize {
        self.groups * self.columns
    }

    /// Returns the size of packed matrices in bytes.
    pub(crate) fn nbytes_of(size: [usize; 3]) -> usize {
        let [_, _, columns] = size;
        Tile::of(columns).elements(size).saturating_mul(size_of::<f32>())
    }

    /// Returns the size of the panels in bytes.
    pub(crate) fn nbytes(&self) -> u64 {
        size_of_val::<[f32]>(&self.panels) as u64
    }

    /// Multiplies rows with the matrices into `out`, which holds the rows one after another. `then` is called with the
    /// offset of each finished part of it.
    pub(crate) fn multiply(
        &self,
        rows: &impl Rows,
        finish: Finish<'_>,
        out: &mut [f32],
        then: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let width = self.width();
        let count = out.len().checked_div(width).unwrap_or(0);
        let panels = self.columns.div_ceil(self.tile.columns);
        let threads = sharing().min(count.saturating_mul(self.panels.len()) / WORTH).max(1);
        if count == 1 && self.groups == 1 && threads > 1 {
            // A single row is split by its columns.
            let each = panels.div_ceil(threads);
            let columns = each * self.tile.columns;
            return each_chunk(out, columns, |unfolded, number, out| {
                let panels = number * each..panels.min(number * each + each);
                let finish = finish.within(number * columns, out.len());
                let groups = 0..self.groups;
                let first = 0;
                let part =
                    Part { packed: self, rows, first, groups, panels, finish, unfolded, out };
                dispatch(part);
                then(number * columns, out)
            });
        }
        // As many parts for each thread, all of the same size: of whole tiles, if there are many.
        let parts = count.div_ceil(UNFOLDED).next_multiple_of(threads).max(1);
        let each = count.div_ceil(parts).max(1);
        let is_many = each >= MANY * self.tile.rows;
        let each = if is_many { each.next_multiple_of(self.tile.rows) } else { each };
        each_chunk(out, each * width, |unfolded, number, out| {
            let first = number * each;
            let finish = finish.within(first * width, out.len());
            let (groups, panels) = (0..self.groups, 0..panels);
            let part = Part { packed: self, rows, first, groups, panels, finish, unfolded, out };
            dispatch(part);
            then(first * width, out)
        })
    }

    /// Multiplies rows from `first` on with the matrices, on this thread.
    pub(crate) fn multiply_alone(
        &self,
        rows: &impl Rows,
        first: usize,
        finish: Finish<'_>,
        unfolded: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        self.multiply_groups(0..self.groups, rows, (first, finish), unfolded, out);
    }

    /// Multiplies rows with the matrix of a group alone, on this thread.
    pub(crate) fn multiply_group(
        &self,
        group: usize,
        rows: &impl Rows,
        unfolded: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        self.multiply_groups(group..group + 1, rows, (0, Finish::default()), unfolded, out);
    }

    fn multiply_groups(
        &self,
        groups: Range<usize>,
        rows: &impl Rows,
        (first, finish): (usize, Finish<'_>),
        unfolded: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        let all = self.columns.div_ceil(self.tile.columns);
        let size = (UNFOLDED * groups.len() * self.columns).max(1);
        for (number, out) in out.chunks_mut(size).enumerate() {
            let (first, panels) = (first + number * UNFOLDED, 0..all);
            let finish = finish.within(number * size, out.len());
            let (groups, unfolded) = (groups.clone(), &mut *unfolded);
            let part = Part { packed: self, rows, first, groups, panels, finish, unfolded, out };
            dispatch(part);
        }
    }
}

/// Consecutive rows of a product; some of the columns of a single row.
struct Part<'a, R> {
    packed: &'a Packed,
    rows: &'a R,
    first: usize,
    groups: Range<usize>,
    panels: Range<usize>,
    finish: Finish<'a>,
    unfolded: &'a mut Vec<f32>,
    out: &'a mut [f32],
}

impl<R: Rows> WithSimd for Part<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.packed.tiled(simd, self);
    }
}

/// Work in tiles of `ROWS` rows, of `LESS`, of `FEW` or of one.
pub(crate) trait Tiled {
    fn run<
        S: Simd,
        const LANES: usize,
        const VECTORS: usize,
        const ROWS: usize,
        const LESS: usize,
        const FEW: usize,
    >(
        self,
        simd: S,
    );
}

impl Packed {
    /// Does work in the tiles of these matrices.
    #[inline(always)]
    pub(crate) fn tiled<S: Simd>(&self, simd: S, work: impl Tiled) {
        match (S::F32_LANES, self.tile.vectors) {
            // Larger tiles would fit the registers, too, but are compiled to code that keeps them in memory.
            (16, 1) => work.run::<S, 16, 1, 8, 7, 4>(simd),
            (16, 2) => work.run::<S, 16, 2, 6, 5, 3>(simd),
            (16, 3) => work.run::<S, 16, 3, 4, 3, 2>(simd),
            (16, _) => work.run::<S, 16, 4, 4, 3, 2>(simd),
            (8, 1) => work.run::<S, 8, 1, 8, 7, 4>(simd),
            (8, 2) => work.run::<S, 8, 2, 6, 5, 3>(simd),
            (8, _) => work.run::<S, 8, 3, 3, 2, 2>(simd),
            (4, 1) => work.run::<S, 4, 1, 8, 7, 4>(simd),
            (4, 2) => work.run::<S, 4, 2, 6, 5, 3>(simd),
            (4, _) => work.run::<S, 4, 3, 3, 2, 2>(simd),
            (_, 1) => work.run::<S, 1, 1, 8, 7, 4>(simd),
            (_, 2) => work.run::<S, 1, 2, 6, 5, 3>(simd),
            _ => work.run::<S, 1, 3, 3, 2, 2>(simd),
        }
    }

    /// Returns whether all of the inner dim is summed at once, for one group.
    pub(crate) fn is_whole(&self) -> bool {
        self.groups == 1 && self.blocks.len() == 1
    }

    /// Returns the panels of whole matrices, with their columns in the result.
    #[inline(always)]
    pub(crate) fn whole<'p, const LANES: usize, const VECTORS: usize>(
        &'p self,
        finish: Finish<'p>,
    ) -> impl Iterator<Item = (&'p Panel<LANES, VECTORS>, At<'p>)> {
        let (width, per) = (self.width(), VECTORS * LANES);
        let columns = (0..self.columns).step_by(per);
        let panels = self.panels.chunks_exact((self.inner * per).max(1));
        columns.zip(panels).map(move |(column, panel)| {
            let columns = per.min(self.columns - column);
            let finish = Some(finish.of(column, columns));
            let panel = panel.as_chunks::<LANES>().0.as_chunks::<VECTORS>().0;
            (panel, At { width, column, columns, is_first: true, finish })
        })
    }
}

/// A panel of a matrix: for each row, the vectors of a tile.
pub(crate) type Panel<const LANES: usize, const VECTORS: usize> = [[[f32; LANES]; VECTORS]];

impl<R: Rows> Tiled for Part<'_, R> {
    #[inline(always)]
    fn run<
        S: Simd,
        const LANES: usize,
        const VECTORS: usize,
        const ROWS: usize,
        const LESS: usize,
        const FEW: usize,
    >(
        self,
        simd: S,
    ) {
        let Self { packed, rows, first, groups, panels, finish, unfolded, out } = self;
        let (width, per) = (groups.len() * packed.columns, VECTORS * LANES);
        let count = out.len().div_ceil(width);
        for group in groups.clone() {
            for inner in &packed.blocks {
                let place = Place { group, first, count, inner: inner.clone() };
                let lines = rows.read(&place, packed.is_direct, unfolded);
                let tiles = tiles::<ROWS>(&lines, count);
                let (all, size) = (packed.columns.div_ceil(per), inner.len() * per);
                let begin = (group * packed.inner + inner.start) * all * per;
                let panel = |number: usize| -> &Panel<LANES, VECTORS> {
                    let panel = part_of(&packed.panels, begin + number * size, size);
                    panel.as_chunks::<LANES>().0.as_chunks::<VECTORS>().0
                };
                let at = |number: usize| {
                    let column = (group - groups.start) * packed.columns + number * per;
                    let columns = per.min(packed.columns - number * per);
                    let finish = (inner.end == packed.inner).then(|| finish.of(column, columns));
                    let (is_first, column) = (inner.start == 0, column - panels.start * per);
                    At { width, column, columns, is_first, finish }
                };
                let mut numbers = panels.clone();
                if count == 1 {
                    while numbers.len() >= AT_ONCE {
                        let several: [usize; AT_ONCE] =
                            std::array::from_fn(|number| numbers.start + number);
                        single(simd, lines.row(0), several.map(panel), several.map(at), out);
                        numbers.start += AT_ONCE;
                    }
                }
                for number in numbers {
                    let (panel, at) = (panel(number), at(number));
                    let later = packed.panels.get(begin + (number + 1) * size..);
                    let ahead = Ahead::new(later.unwrap_or_default(), size, tiles.len());
                    for (number, (row, used, lines)) in tiles.iter().enumerate() {
                        let (row, next) = (*row, ahead.part(number));
                        macro_rules! tile {
                            ($used:expr) => {
                                at.tile::<S, LANES, VECTORS, ROWS, $used>(
                                    simd, lines, panel, next, row, out,
                                )
                            };
                        }
                        match *used {
                            1 => tile!(1),
                            used if used <= FEW => tile!(FEW),
                            used if used <= LESS => tile!(LESS),
                            _ => tile!(ROWS),
                        }
                    }
                }
            }
        }
    }
}

/// Divides `count` rows into tiles of `ROWS` rows or one fewer, or else the last ones into a smaller tile. Returns the first
/// row of each tile, how many rows it has, and these; what it has beyond them is the last row.
fn tiles<'r, const ROWS: usize>(
    lines: &Read<'r>,
    count: usize,
) -> Vec<(usize, usize, [&'r [f32]; ROWS])> {
    let tiles = count.div_ceil(ROWS);
    let missing = tiles * ROWS - count;
    let full = if missing <= tiles { tiles - missing } else { tiles };
    let tile = |number: usize| {
        let first = number * ROWS - number.saturating_sub(full);
        let used = if number < full { ROWS } else { ROWS - 1 }.min(count - first);
        (first, used, std::array::from_fn(|at| lines.row((first + at).min(count - 1))))
    };
    (0..tiles).map(tile).collect()
}

impl<'a> Finish<'a> {
    /// Returns the part for some columns.
    fn of(self, first: usize, count: usize) -> Self {
        Self { bias: self.bias.map(|bias| part_of(bias, first, count)), ..self }
    }

    /// Returns the same for `count` elements of the result, from `first` on.
    pub(crate) fn within(self, first: usize, count: usize) -> Self {
        Self { added: self.added.map(|added| part_of(added, first, count)), ..self }
    }
}

/// The columns of a panel in the result.
pub(crate) struct At<'a> {
    /// The number of columns of the result.
    width: usize,
    column: usize,
    columns: usize,
    /// Whether nothing has been summed yet.
    is_first: bool,
    /// Set when all is summed.
    finish: Option<Finish<'a>>,
}

impl At<'_> {
    /// Adds the products of the first `USED` rows of a tile with a panel to the result. Those beyond the end of the result do
    /// not count.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    fn tile<
        S: Simd,
        const LANES: usize,
        const VECTORS: usize,
        const ROWS: usize,
        const USED: usize,
    >(
        &self,
        simd: S,
        lines: &[&[f32]; ROWS],
        panel: &Panel<LANES, VECTORS>,
        next: Ahead<'_, f32>,
        row: usize,
        out: &mut [f32],
    ) {
        for row in row + USED..row + 2 * USED {
            for vector in 0..VECTORS {
                request(out.get(row * self.width + self.column + vector * LANES));
            }
        }
        let mut sums = self.known::<S, LANES, VECTORS, USED>(simd, row, out);
        let (steps, rest) = panel.as_chunks::<STEP>();
        let next = next.in_parts(steps.len());
        for (step, columns) in steps.iter().enumerate() {
            next.part(step).request();
            let mut values = [&[0.0; STEP]; USED];
            for row in 0..USED {
                let (lines, _) = lines[row].as_chunks::<STEP>();
                values[row] = &lines[step];
            }
            for depth in 0..STEP {
                let mut now = [0.0; USED];
                for row in 0..USED {
                    now[row] = values[row][depth];
                }
                add(simd, &mut sums, now, &columns[depth]);
            }
        }
        for (depth, columns) in (steps.len() * STEP..).zip(rest) {
            let mut now = [0.0; USED];
            for row in 0..USED {
                now[row] = lines[row][depth];
            }
            add(simd, &mut sums, now, columns);
        }
        self.put::<S, LANES, VECTORS, USED>(simd, sums, row, out);
    }

    /// Returns what was summed before, in the tile that begins at a row.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        clippy::needless_range_loop,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    pub(crate) fn known<S: Simd, const LANES: usize, const VECTORS: usize, const USED: usize>(
        &self,
        simd: S,
        row: usize,
        out: &[f32],
    ) -> [[S::f32s; VECTORS]; USED] {
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; USED];
        let begin = row * self.width + self.column;
        if !self.is_first {
            for row in 0..USED {
                let Some(known) = out.get(begin + row * self.width..) else { break };
                sums[row] = self.vectors::<S, LANES, VECTORS>(simd, known);
            }
        }
        sums
    }

    /// Stores the sums of the tile that begins at a row.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        clippy::needless_range_loop,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    pub(crate) fn put<S: Simd, const LANES: usize, const VECTORS: usize, const USED: usize>(
        &self,
        simd: S,
        mut sums: [[S::f32s; VECTORS]; USED],
        row: usize,
        out: &mut [f32],
    ) {
        let begin = row * self.width + self.column;
        if let Some(finish) = self.finish {
            let bias = finish.bias.map(|bias| self.vectors::<S, LANES, VECTORS>(simd, bias));
            finished(simd, &mut sums, bias, None);
            for row in 0..USED {
                let Some(added) = finish.added.and_then(|it| it.get(begin + row * self.width..))
                else {
                    break;
                };
                let added = self.vectors::<S, LANES, VECTORS>(simd, added);
                for vector in 0..VECTORS {
                    sums[row][vector] = simd.add_f32s(sums[row][vector], added[vector]);
                }
            }
            finished(simd, &mut sums, None, finish.clamp);
        }
        for row in 0..USED {
            let Some(into) = out.get_mut(begin + row * self.width..) else { break };
            if self.columns == LANES * VECTORS
                && let Some(into) = into.as_chunks_mut().0.first_chunk_mut::<VECTORS>()
            {
                for vector in 0..VECTORS {
                    store::<S>(simd, sums[row][vector], &mut into[vector] as &mut [f32; LANES]);
                }
                continue;
            }
            let (mut into, _) = into.split_at_mut(self.columns.min(into.len()));
            for vector in 0..VECTORS {
                let (now, rest) = into.split_at_mut(LANES.min(into.len()));
                store(simd, sums[row][vector], now);
                into = rest;
            }
        }
    }

    /// Returns the first elements of `values`, those of the columns, in the vectors of a tile.
    #[inline(always)]
    fn vectors<S: Simd, const LANES: usize, const VECTORS: usize>(
        &self,
        simd: S,
        values: &[f32],
    ) -> [S::f32s; VECTORS] {
        let (mut values, _) = values.split_at(self.columns.min(values.len()));
        let mut vectors = [simd.splat_f32s(0.0); VECTORS];
        for vector in &mut vectors {
            let (now, rest) = values.split_at(LANES.min(values.len()));
            *vector = load(simd, now);
            values = rest;
        }
        vectors
    }
}

/// The number of panels that a single row is multiplied with at a time.
const AT_ONCE: usize = 4;

/// Adds the products of a single row with several panels to the result.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "constant bounds: what is indexed stays in registers")]
fn single<S: Simd, const LANES: usize, const VECTORS: usize>(
    simd: S,
    line: &[f32],
    panels: [&Panel<LANES, VECTORS>; AT_ONCE],
    columns: [At<'_>; AT_ONCE],
    out: &mut [f32],
) {
    let mut sums = [[[simd.splat_f32s(0.0); VECTORS]; 1]; AT_ONCE];
    for at in 0..AT_ONCE {
        sums[at] = columns[at].known::<S, LANES, VECTORS, 1>(simd, 0, out);
    }
    let [a, b, c, d] = panels;
    for ((value, (a, b)), (c, d)) in line.iter().zip(a.iter().zip(b)).zip(c.iter().zip(d)) {
        let panels = [a, b, c, d];
        for at in 0..AT_ONCE {
            add(simd, &mut sums[at], [*value], panels[at]);
        }
    }
    for at in 0..AT_ONCE {
        columns[at].put::<S, LANES, VECTORS, 1>(simd, sums[at], 0, out);
    }
}

/// Adds the products of a value of each row with vectors to the sums of a tile.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "constant bounds: what is indexed stays in registers")]
pub(crate) fn add<S: Simd, const LANES: usize, const VECTORS: usize, const USED: usize>(
    simd: S,
    sums: &mut [[S::f32s; VECTORS]; USED],
    values: [f32; USED],
    columns: &[[f32; LANES]; VECTORS],
) {
    let mut vectors = [simd.splat_f32s(0.0); VECTORS];
    for vector in 0..VECTORS {
        vectors[vector] = load(simd, &columns[vector]);
    }
    for row in 0..USED {
        let value = simd.splat_f32s(values[row]);
        for vector in 0..VECTORS {
            sums[row][vector] = simd.mul_add_e_f32s(vectors[vector], value, sums[row][vector]);
        }
    }
}

/// Adds a bias to the sums of each row, and limits them.
#[inline(always)]
#[expect(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "constant bounds: what is indexed stays in registers"
)]
pub(crate) fn finished<S: Simd, const VECTORS: usize, const ROWS: usize>(
    simd: S,
    sums: &mut [[S::f32s; VECTORS]; ROWS],
    bias: Option<[S::f32s; VECTORS]>,
    clamp: Option<[f32; 2]>,
) {
    if let Some(bias) = bias {
        for row in 0..ROWS {
            for vector in 0..VECTORS {
                sums[row][vector] = simd.add_f32s(sums[row][vector], bias[vector]);
            }
        }
    }
    if let Some(limits) = clamp {
        for row in 0..ROWS {
            for vector in 0..VECTORS {
                sums[row][vector] = limited(simd, sums[row][vector], limits);
            }
        }
    }
}

/// Returns a vector between a minimum and a maximum. NaN remains: the second operand is returned if it is NaN.
#[inline(always)]
fn limited<S: Simd>(simd: S, vector: S::f32s, [least, most]: [f32; 2]) -> S::f32s {
    simd.min_f32s(simd.splat_f32s(most), simd.max_f32s(simd.splat_f32s(least), vector))
}

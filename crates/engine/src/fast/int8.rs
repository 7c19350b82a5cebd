//! Int8 GEMM: products of 8-bit integers with a constant matrix that is packed once.
//!
//! Unsigned bytes of the rows are multiplied with signed bytes of the matrix: by the instruction for that where the
//! processor has it, otherwise in single precision, in sums that are exact. What zero points change is added afterwards, so
//! the results are the same bits on every processor.

use std::ops::Range;

use lodstone_schema::{Finding, numbers};

use super::quantized::exact;
use crate::error::Outcome;
use crate::gemm::{Buffer, Epilogue, PackedMatrix, StridedRows, part_of};
use crate::simd::wide;
use crate::threads::{each_chunk, sharing};

/// The maximum inner dim: sums of as many products fit 32 bits.
pub(crate) const MAX_INNER: usize = 33_000;

/// The number of products that are summed in single precision: whole numbers below 2^24, as each is at most 255 * 128.
const EXACT: usize = 256;

/// The number of bytes that are multiplied by one instruction, and summed.
pub(super) const QUAD: usize = 4;

/// The number of unfolded bytes that stay in the second-level cache.
const MAX_UNFOLDED: usize = 1 << 17;

/// The number of sums that a thread has at a time, if there are not more in a few rows.
const MAX_SUMS: usize = 1 << 19;

/// The maximum number of rows that are multiplied at a time.
const MAX_ROWS: usize = 240;

/// The minimum number of rows of a part that consists of whole tiles.
const MIN_TILED_ROWS: usize = 48;

/// The rows that are multiplied.
pub(super) trait ByteRows: Sync {
    /// Writes the rows of a group, from row `first` on, as unsigned bytes: each to the start of a line of `stride` bytes, of
    /// which the last one may be shorter.
    fn unfold(&self, group: usize, first: usize, stride: usize, into: &mut [u8]);

    /// Returns `count` rows of a single group, from row `first` on, where they are in memory, if they are unsigned bytes in
    /// whole quads.
    fn in_place(&self, _first: usize, _count: usize) -> Option<&[u8]> {
        None
    }
}

/// Rows that are contiguous in memory.
pub(super) struct ContiguousBytes<'a> {
    pub(super) inner: usize,
    pub(super) values: &'a [u8],
    /// The bits that turn the bytes into unsigned ones.
    pub(super) sign: u8,
}

impl ByteRows for ContiguousBytes<'_> {
    fn unfold(&self, _: usize, first: usize, stride: usize, into: &mut [u8]) {
        let lines = self.values.chunks_exact(self.inner.max(1)).skip(first);
        for (into, line) in into.chunks_mut(stride).zip(lines) {
            into.iter_mut().zip(line).for_each(|(into, byte)| *into = byte ^ self.sign);
        }
    }

    fn in_place(&self, first: usize, count: usize) -> Option<&[u8]> {
        let is_so = self.sign == 0 && self.inner == in_quads(self.inner);
        is_so.then(|| part_of(self.values, first * self.inner, count * self.inner))
    }
}

/// Returns the number of bytes of the quads that a row of some bytes takes.
fn in_quads(inner: usize) -> usize {
    inner.next_multiple_of(QUAD).max(QUAD)
}

/// Constant matrices of 8-bit integers, one for each group.
#[derive(Debug)]
pub(super) struct PackedBytes {
    groups: usize,
    /// The number of rows of each matrix.
    inner: usize,
    /// The number of columns of each matrix.
    columns: usize,
    /// The zero points of all columns, as those of signed bytes; empty if all are 0.
    zeros: Vec<i32>,
    /// The sums of all columns.
    sums: Vec<i32>,
    panels: Panels,
}

/// Constant matrices of signed bytes, one for each group.
pub(super) struct ByteMatrices {
    /// The number of groups, of rows and of columns.
    pub(super) size: [usize; 3],
    /// `[group][column][row]`, each column in whole quads.
    bytes: Vec<u8>,
}

/// The packed bytes.
#[derive(Debug)]
enum Panels {
    #[cfg(target_arch = "x86_64")]
    Vnni(super::vnni::Panels),
    /// For each part of the inner dim whose products can be summed exactly.
    Float(Vec<(Range<usize>, PackedMatrix)>),
}

/// The memory in which a thread computes.
#[derive(Default)]
struct Scratch {
    rows: Vec<u8>,
    sums: Vec<i32>,
    floats: FloatScratch,
}

/// The memory for sums in single precision.
#[derive(Default)]
struct FloatScratch {
    numbers: Vec<f32>,
    products: Vec<f32>,
    unfolded: Vec<f32>,
}

impl PackedBytes {
    /// Packs matrices. `zeros` are their zero points, one for each column of all groups.
    ///
    /// # Errors
    /// If there are more or fewer zero points, or memory is insufficient.
    pub(super) fn new(mut matrices: ByteMatrices, zeros: Vec<i32>) -> Outcome<Self> {
        let ByteMatrices { size: [groups, inner, columns], .. } = matrices;
        if zeros.len() != groups * columns {
            return Err(Finding::internal("zero points of other columns"));
        }
        let sum = |column: &mut [u8]| column.iter().map(|byte| i32::from(byte.cast_signed())).sum();
        let mut sums: Vec<i32> = matrices.columns().map(sum).collect();
        sums.resize(groups * columns, 0);
        let panels = Panels::new(&matrices)?;
        let zeros = if zeros.iter().all(|zero| *zero == 0) { Vec::new() } else { zeros };
        Ok(Self { groups, inner, columns, zeros, sums, panels })
    }

    /// Returns the number of columns of all groups.
    pub(super) fn width(&self) -> usize {
        self.groups * self.columns
    }

    /// Returns the number of rows of the matrices.
    pub(super) fn inner(&self) -> usize {
        self.inner
    }

    /// Returns the size of the packed matrices in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        let lists = size_of_val(self.sums.as_slice()) + size_of_val(self.zeros.as_slice());
        let panels: u64 = match &self.panels {
            #[cfg(target_arch = "x86_64")]
            Panels::Vnni(panels) => panels.nbytes(),
            Panels::Float(parts) => parts.iter().map(|(_, packed)| packed.nbytes()).sum(),
        };
        panels + lists as u64
    }

    /// Multiplies rows, whose zero point is `zero`, with the matrices. `epilogue` turns the sums of a strip into results.
    pub(super) fn multiply<T: Send>(
        &self,
        rows: &impl ByteRows,
        zero: i32,
        out: &mut [T],
        epilogue: impl Fn(&Strip, &[i32], &mut [T]) + Sync,
    ) -> Outcome<()> {
        let (width, line) = (self.width().max(1), in_quads(self.inner));
        let whole = (self.groups * line).max(1);
        let count = out.len() / width;
        let most = (MAX_UNFOLDED / whole).min(MAX_SUMS / width).clamp(TILE_ROWS, MAX_ROWS);
        let parts = count.div_ceil(most).next_multiple_of(sharing()).max(1);
        let at_once = count.div_ceil(parts).max(1);
        let at_once =
            if at_once >= MIN_TILED_ROWS { at_once.next_multiple_of(TILE_ROWS) } else { at_once };
        // What the zero points change in every row.
        let product = numbers::exact::<i32, _>(self.inner)?.wrapping_mul(zero);
        let zeros = self.zeros.iter().copied().chain(std::iter::repeat(0));
        let sides = self.sums.iter().zip(zeros);
        let base: Vec<i32> = sides
            .map(|(sum, own)| product.wrapping_mul(own).wrapping_sub(zero.wrapping_mul(*sum)))
            .collect();
        each_chunk(out, at_once * width, |scratch: &mut Scratch, number, out| {
            let (first, count) = (number * at_once, out.len() / width);
            let Scratch { rows: unfolded, sums, floats } = scratch;
            let lines = match rows.in_place(first, count) {
                Some(bytes) => bytes,
                None => {
                    // What fills the quads remains zero.
                    unfolded.resize(unfolded.len().max(count * whole), 0);
                    let (unfolded, _) = unfolded.split_at_mut(count * whole);
                    for group in 0..self.groups {
                        let (_, into) = unfolded.split_at_mut((group * line).min(count * whole));
                        rows.unfold(group, first, whole, into);
                    }
                    unfolded
                }
            };
            let totals = self.totals(lines, [line, whole]);
            let mut finish_strip = |strip: &Strip, sums: &mut [i32]| {
                if !self.zeros.is_empty() {
                    let zeros = part_of(&self.zeros, strip.columns.start, strip.columns.len());
                    let totals = totals.iter().skip(strip.group).step_by(self.groups);
                    for (sums, total) in sums.chunks_exact_mut(strip.stride).zip(totals) {
                        let (_, sums) = sums.split_at_mut(strip.offset);
                        wide!(sums.iter_mut().zip(zeros).for_each(|(sum, zero)| {
                            *sum = sum.wrapping_sub(zero.wrapping_mul(*total));
                        }));
                    }
                }
                epilogue(strip, sums, out);
            };
            match &self.panels {
                #[cfg(target_arch = "x86_64")]
                Panels::Vnni(panels) => panels.multiply(lines, whole, &base, sums, finish_strip),
                Panels::Float(parts) => {
                    sums.clear();
                    (0..count).for_each(|_| sums.extend_from_slice(&base));
                    floats.multiply(lines, parts, [line, whole, width], sums);
                    for group in 0..self.groups {
                        let begin = group * self.columns;
                        let columns = begin..begin + self.columns;
                        finish_strip(
                            &Strip { group, columns, width, stride: width, offset: begin },
                            sums,
                        );
                    }
                }
            }
            Ok(())
        })
    }

    /// Returns the sums of each row of each group, if the zero points of columns need them.
    fn totals(&self, rows: &[u8], [line, whole]: [usize; 2]) -> Vec<i32> {
        let mut totals = Vec::new();
        if !self.zeros.is_empty() {
            let lines = rows.chunks_exact(whole).flat_map(|row| row.chunks_exact(line));
            totals.extend(lines.map(|line| {
                let mut total = 0;
                wide!(total = line.iter().fold(0, |sum, byte| sum + i32::from(*byte)));
                total
            }));
        }
        totals
    }
}

/// Some columns of a group, and where their sums are: `stride` for each row, from `offset` on.
pub(super) struct Strip {
    pub(super) group: usize,
    /// The columns, among `width` columns of all groups.
    pub(super) columns: Range<usize>,
    pub(super) width: usize,
    pub(super) stride: usize,
    pub(super) offset: usize,
}

impl Strip {
    /// Returns the sums of each row, and their places in the rows of a result.
    #[inline(always)]
    pub(super) fn rows<'s, 'o, S, T>(
        &self,
        sums: &'s [S],
        out: &'o mut [T],
    ) -> impl Iterator<Item = (&'s [S], &'o mut [T])> {
        let (first, count, offset) = (self.columns.start, self.columns.len(), self.offset);
        let rows = sums.chunks_exact(self.stride).zip(out.chunks_exact_mut(self.width));
        rows.map(move |(sums, out)| {
            let (_, out) = out.split_at_mut(first);
            (part_of(sums, offset, count), out.split_at_mut(count).0)
        })
    }
}

/// The number of rows of a tile.
pub(super) const TILE_ROWS: usize = 6;

impl Panels {
    fn new(matrices: &ByteMatrices) -> Outcome<Self> {
        #[cfg(target_arch = "x86_64")]
        if super::vnni::is_available() {
            return super::vnni::Panels::new(matrices).map(Self::Vnni);
        }
        Self::float(matrices)
    }

    fn float(matrices: &ByteMatrices) -> Outcome<Self> {
        let [groups, inner, columns] = matrices.size;
        let starts = (0..inner).step_by(EXACT);
        let part = |start: usize| {
            let part = start..inner.min(start + EXACT);
            let read = |[group, row, column]: [usize; 3], into: &mut [f32]| {
                for (column, into) in (column..).zip(into) {
                    let byte = matrices.column(group, column).get(start + row).copied();
                    *into = byte.unwrap_or_default().cast_signed().into();
                }
            };
            let size = [groups, part.len(), columns];
            let packed = PackedMatrix::new(size, part.len(), Buffer::constant, read)?;
            Ok((part, packed))
        };
        starts.map(part).collect::<Outcome<_>>().map(Self::Float)
    }
}

impl ByteMatrices {
    /// Returns matrices of zeros: so many groups, rows and columns.
    pub(super) fn zeroed(size @ [groups, inner, columns]: [usize; 3]) -> Self {
        Self { size, bytes: vec![0; groups * columns * in_quads(inner)] }
    }

    /// Returns the columns of all groups.
    pub(super) fn columns(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let [_, inner, _] = self.size;
        let lines = self.bytes.chunks_exact_mut(in_quads(inner));
        lines.map(move |line| line.split_at_mut(inner).0)
    }

    /// Returns a column of a group in whole quads, which zeros fill.
    pub(super) fn column(&self, group: usize, column: usize) -> &[u8] {
        let [_, inner, columns] = self.size;
        let line = in_quads(inner);
        part_of(&self.bytes, (group * columns + column) * line, line)
    }
}

impl FloatScratch {
    /// Adds the products of rows to sums. The groups of a row are `line` bytes apart, the rows `whole` bytes.
    fn multiply(
        &mut self,
        rows: &[u8],
        parts: &[(Range<usize>, PackedMatrix)],
        [line, whole, width]: [usize; 3],
        sums: &mut [i32],
    ) {
        let count = rows.len() / whole;
        self.numbers.clear();
        wide!(self.numbers.extend(rows.iter().map(|byte| f32::from(*byte))));
        for (part, packed) in parts {
            self.products.clear();
            self.products.resize(count * width, 0.0);
            let values = part_of(&self.numbers, part.start, self.numbers.len() - part.start);
            let lines = StridedRows { stride: whole, group_width: line, values };
            packed.multiply_alone(
                &lines,
                0,
                Epilogue::default(),
                &mut self.unfolded,
                &mut self.products,
            );
            let pairs = sums.iter_mut().zip(&self.products);
            wide!(pairs.for_each(|(sum, product)| *sum = sum.wrapping_add(exact(*product))));
        }
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests fail so")]
mod tests {
    use super::*;

    /// Every kernel gives the sums of plain loops, with any zero points.
    #[test]
    fn sums_are_those_of_plain_loops() {
        let sizes = [
            ([1, 1, 1], 1),
            ([1, 3, 17], 5),
            ([1, 64, 32], 7),
            ([1, 257, 33], 13),
            ([3, 5, 4], 100),
            ([2, 600, 47], 61),
            ([1, 1000, 97], 2),
            ([1, 0, 4], 3),
        ];
        for (size @ [groups, inner, columns], count) in sizes {
            let weight = |group: usize, row: usize, column: usize| {
                ((group * 7 + row * 31 + column * 17) % 256).to_le_bytes()[0].cast_signed()
            };
            let byte = |group: usize, row: usize, at: usize| {
                ((group * 13 + row * 101 + at * 37) % 256).to_le_bytes()[0]
            };
            struct Computed<F>(F, usize);
            impl<F: Fn(usize, usize, usize) -> u8 + Sync> ByteRows for Computed<F> {
                fn unfold(&self, group: usize, first: usize, stride: usize, into: &mut [u8]) {
                    for (row, into) in into.chunks_mut(stride).enumerate() {
                        let into = into.iter_mut().take(self.1).enumerate();
                        into.for_each(|(at, into)| *into = self.0(group, first + row, at));
                    }
                }
            }
            let rows = Computed(byte, inner);
            for (zero, own) in [(0, 0), (128, 0), (3, -128), (255, 7)] {
                let zeros: Vec<i32> = (0..groups * columns)
                    .map(|column| if own == 0 { 0 } else { own + i32::from(column == 1) })
                    .collect();
                let expected: Vec<i32> = (0..count * groups * columns)
                    .map(|at| {
                        let (row, column) = (at / (groups * columns), at % (groups * columns));
                        let (group, within) = (column / columns, column % columns);
                        let terms = (0..inner).map(|at| {
                            (i32::from(byte(group, row, at)) - zero)
                                * (i32::from(weight(group, at, within)) - zeros[column])
                        });
                        terms.sum()
                    })
                    .collect();
                let matrices = || {
                    let mut matrices = ByteMatrices::zeroed(size);
                    for (number, line) in matrices.columns().enumerate() {
                        let (group, column) = (number / columns, number % columns);
                        let rows = line.iter_mut().enumerate();
                        rows.for_each(|(row, into)| {
                            *into = weight(group, row, column).cast_unsigned();
                        });
                    }
                    matrices
                };
                let mut packed = PackedBytes::new(matrices(), zeros).expect("packed");
                for panels in [Panels::new(&matrices()), Panels::float(&matrices())] {
                    packed.panels = panels.expect("packed");
                    let mut out = vec![0; expected.len()];
                    let copied = packed.multiply(&rows, zero, &mut out, |strip, sums, out| {
                        strip.rows(sums, out).for_each(|(sums, out)| out.copy_from_slice(sums));
                    });
                    copied.expect("multiplied");
                    assert_eq!(out, expected, "{size:?} {count} {zero} {own}");
                }
            }
        }
    }
}

//! Matrices whose columns are contiguous in memory.

use pulp::bytemuck::cast_slice_mut;

use super::prefetch::prefetch;
use super::slices::part_of;

/// A number in single precision at any address. A processor reads it as it reads others.
pub(crate) type Raw = [u8; 4];

/// The number of rows that are read at a time: those of a column fill a line of the cache.
const ROWS: usize = 16;

/// A matrix that is read row by row, some columns at a time.
pub(crate) struct Columns<'v> {
    /// The columns, one after another.
    values: &'v [Raw],
    /// The number of rows.
    inner: usize,
    /// The first row and the first column of what is in `block`, and its number of columns.
    place: Option<[usize; 3]>,
    block: Vec<Raw>,
}

impl<'v> Columns<'v> {
    pub(crate) fn new(values: &'v [Raw], inner: usize) -> Self {
        Self { values, inner, place: None, block: Vec::new() }
    }

    /// Sets a slice to the elements of a row, from a column on. Reading the next row of the same columns takes the least time.
    pub(crate) fn read(&mut self, [row, column]: [usize; 2], into: &mut [f32]) {
        let (count, below) = (into.len(), row % ROWS);
        let place = [row - below, column, count];
        if self.place != Some(place) {
            self.place = Some(place);
            self.load(place);
        }
        cast_slice_mut(into).copy_from_slice(part_of(&self.block, below * count, count));
    }

    /// Transposes some rows of columns.
    fn load(&mut self, [first, column, count]: [usize; 3]) {
        self.block.resize(ROWS * count, Raw::default());
        let rows = ROWS.min(self.inner - first);
        for number in 0..count {
            let begin = (column + number) * self.inner + first;
            prefetch(self.values.get(begin + 2 * ROWS));
            let from = part_of(self.values, begin, rows);
            let into = self.block.iter_mut().skip(number).step_by(count);
            into.zip(from).for_each(|(into, value)| *into = *value);
        }
    }
}

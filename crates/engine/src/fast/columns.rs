//! Matrices whose columns are contiguous in memory.

use super::product::part_of;

/// The number of rows that are read at a time: those of a column fill a line of the cache.
const ROWS: usize = 16;

/// A matrix that is read row by row, some columns at a time.
pub(super) struct Columns<'v> {
    /// The columns, one after another.
    values: &'v [f32],
    /// The number of rows.
    inner: usize,
    /// The first row and the first column of what is in `block`, and its number of columns.
    place: Option<[usize; 3]>,
    block: Vec<f32>,
}

impl<'v> Columns<'v> {
    pub(super) fn new(values: &'v [f32], inner: usize) -> Self {
        Self { values, inner, place: None, block: Vec::new() }
    }

    /// Sets a slice to the elements of a row, from a column on. Reading the next row of the same columns takes the least time.
    pub(super) fn read(&mut self, [row, column]: [usize; 2], into: &mut [f32]) {
        let (count, below) = (into.len(), row % ROWS);
        let place = [row - below, column, count];
        if self.place != Some(place) {
            self.place = Some(place);
            self.load(place);
        }
        into.copy_from_slice(part_of(&self.block, below * count, count));
    }

    /// Transposes some rows of columns.
    fn load(&mut self, [first, column, count]: [usize; 3]) {
        self.block.resize(ROWS * count, 0.0);
        let rows = ROWS.min(self.inner - first);
        for number in 0..count {
            let from = part_of(self.values, (column + number) * self.inner + first, rows);
            let into = self.block.iter_mut().skip(number).step_by(count);
            into.zip(from).for_each(|(into, value)| *into = *value);
        }
    }
}

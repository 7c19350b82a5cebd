//! LoD: how the rows of a tensor are grouped into sequences, sequences of sequences, ...

use std::fmt;

/// Level-of-detail offsets of a tensor, outermost level first; empty for an ordinary tensor.
///
/// Level `i` lists the offset at which each of its sequences begins and the end of the last one, counted in
/// entries of level `i + 1`, or in rows (dim 0) for the innermost level: two sequences of 2 and 3 rows are
/// `[[0, 2, 5]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lod(pub Vec<Vec<u64>>);

/// The reason why offsets are not a valid LoD of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LodError {
    level: usize,
    rule: &'static str,
}

impl Lod {
    /// Returns whether there are no levels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks the consistency of the levels, and the innermost one against the number of rows.
    ///
    /// # Errors
    /// [`LodError`] with the first level that violates a rule, and the rule.
    pub fn check(&self, rows: u64) -> Result<(), LodError> {
        let below = self.0.iter().skip(1).map(|next| (next.len() as u64).saturating_sub(1));
        for (level, (offsets, end)) in self.0.iter().zip(below.chain([rows])).enumerate() {
            let broken = |rule| Err(LodError { level, rule });
            if offsets.first() != Some(&0) {
                return broken("does not begin with 0");
            }
            if !offsets.is_sorted() {
                return broken("is not ascending");
            }
            if offsets.last() != Some(&end) {
                return broken("does not end at the size of the level below or of the tensor");
            }
        }
        Ok(())
    }
}

impl fmt::Display for LodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoD level {} {}", self.level, self.rule)
    }
}

impl std::error::Error for LodError {}

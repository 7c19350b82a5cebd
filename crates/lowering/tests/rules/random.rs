//! Random operators: numbers that are the same in every run, and the comparison with what is expected.

use libtest_mimic::Failed;
use lodstone_model::Tensor;

use super::evaluate::difference;

/// Numbers that are the same in every run (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `least` to `most`.
    pub(crate) fn number(&mut self, least: i64, most: i64) -> i64 {
        least + (self.next() % (most - least + 1) as u64).cast_signed()
    }

    /// Returns a size from `least` to `most`.
    pub(crate) fn size(&mut self, least: usize, most: usize) -> usize {
        least + self.next() as usize % (most - least + 1)
    }

    /// Returns sizes whose sum is `total`.
    pub(crate) fn sizes_of(&mut self, total: usize, count: usize) -> Vec<usize> {
        let mut rest = total;
        let mut sizes = Vec::new();
        for _ in 1..count {
            sizes.push(self.size(0, rest));
            rest -= sizes.last().unwrap();
        }
        sizes.push(rest);
        sizes
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }

    /// Returns a number from `least` to `most` with few digits or many.
    pub(crate) fn real(&mut self, least: f64, most: f64) -> f64 {
        let share = (self.next() >> 33) as f64 / (1_u64 << 31) as f64;
        let number = least + (most - least) * share;
        if self.flag() { (number * 20.0).ceil() / 20.0 } else { number }
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.size(0, all.len() - 1)]
    }
}

/// Describes how results differ from the expected ones, of which there may be fewer.
pub(crate) fn differences(found: &[Tensor], expected: &[Tensor], near: f64) -> Option<String> {
    if found.len() < expected.len() {
        return Some("outputs are missing".to_owned());
    }
    let pairs = found.iter().zip(expected).enumerate();
    pairs.into_iter().find_map(|(number, (found, expected))| {
        difference(found, expected, near).map(|what| format!("output {number}: {what}"))
    })
}

/// Fails if some of the tried operators are wrong, or fewer than `least` were tried.
pub(crate) fn judge(wrong: &[String], tried: usize, least: usize) -> Result<(), Failed> {
    match wrong {
        [] if tried < least => Err(format!("only {tried} were tried").into()),
        [] => Ok(()),
        wrong => {
            let first = wrong[..wrong.len().min(5)].join("\n");
            Err(format!("{} of {tried} are wrong:\n{first}", wrong.len()).into())
        }
    }
}

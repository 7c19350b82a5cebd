//! The generator of random numbers.
//!
//! It counts (Philox 4x32, ten rounds; Salmon et al., 2011): the same seed and the same number of draws before give the
//! same bits, on any machine and with any number of threads. Its state is a variable of the scope. PaddlePaddle's own
//! numbers are others.

use lodstone_model::{DType, Tensor};
use lodstone_schema::Finding;
use lodstone_store::Blob;

use crate::executor::scope::Scope;

/// The variable of a scope that the state of random numbers is: seed and counter, two `int64`. A program that
/// declares it reads and writes the state by it.
pub const RANDOM_STATE: &str = "@RANDOM_STATE@";

/// A generator that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Random {
    seed: u64,
    counter: u64,
}

impl Random {
    /// One that has not been drawn from.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, counter: 0 }
    }

    /// That of a scope.
    ///
    /// # Errors
    /// If the variable of the scope is no state.
    pub(crate) fn of(scope: &Scope) -> Result<Self, Finding> {
        let told = scope.get(RANDOM_STATE).map(|value| Self::told(value.tensor()?)).transpose()?;
        Ok(told.unwrap_or(Self::new(0)))
    }

    /// The state that a tensor holds.
    ///
    /// # Errors
    /// If it is not two integers.
    pub(crate) fn told(tensor: &Tensor) -> Result<Self, Finding> {
        let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
        let ([seed, counter], []) = bytes.as_chunks() else {
            let found = format!("{}{:?}", tensor.dtype, tensor.shape);
            return Err(format!("expected the state of random numbers, found {found}").into());
        };
        Ok(Self { seed: u64::from_le_bytes(*seed), counter: u64::from_le_bytes(*counter) })
    }

    /// The state as a tensor.
    pub(crate) fn tensor(self) -> Tensor {
        let bytes = [self.seed.to_le_bytes(), self.counter.to_le_bytes()].concat();
        Tensor::dense(DType::Int64, vec![2], Blob::memory(bytes))
    }

    /// Keeps the state in a scope, if anything was drawn.
    pub(crate) fn keep(self, scope: &mut Scope) -> Result<(), Finding> {
        if self != Self::of(scope)? {
            scope.set(RANDOM_STATE, self.tensor());
        }
        Ok(())
    }

    /// Four random words: those of a counter.
    fn words(seed: u64, counter: u64) -> [u32; 4] {
        const M: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
        const W: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
        let low = |word: u64| word as u32;
        let mut key = [low(seed), low(seed >> 32)];
        let mut block = [low(counter), low(counter >> 32), 0, 0];
        for _ in 0..10 {
            let [a, b, c, d] = block;
            let (first, second) = (M[0] * u64::from(a), M[1] * u64::from(c));
            block = [
                low(second >> 32) ^ b ^ key[0],
                low(second),
                low(first >> 32) ^ d ^ key[1],
                low(first),
            ];
            key = [key[0].wrapping_add(W[0]), key[1].wrapping_add(W[1])];
        }
        block
    }

    pub(crate) fn next(&mut self) -> [u32; 4] {
        let words = Self::words(self.seed, self.counter);
        self.counter = self.counter.wrapping_add(1);
        words
    }

    /// Two numbers from 0 to below 1.
    pub(crate) fn pair(&mut self) -> [f64; 2] {
        let [a, b, c, d] = self.next();
        [(a, b), (c, d)].map(|(high, low)| {
            let bits = (u64::from(high) << 32 | u64::from(low)) >> 11;
            bits as f64 / (1_u64 << 53) as f64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors that come with the paper's own code (Random123, `kat_vectors`).
    #[test]
    fn words_are_those_of_philox() {
        let zero = [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
        assert_eq!(Random::words(0, 0), zero);
    }
}

//! The generator of random numbers.
//!
//! It is counter-based (Philox 4x32, ten rounds; Salmon et al., 2011): the same seed and the same number of previous draws
//! give the same bits, on any machine and with any number of threads. Its state is a variable of the scope. PaddlePaddle's
//! own generator gives other numbers.
//!
//! A program that declares this variable saves the state at its save operator, and a state that it loads or fills
//! applies from there on.

use lodstone_model::{DType, Tensor};
use lodstone_schema::Finding;
use lodstone_store::Blob;

use crate::executor::scope::Scope;

/// The variable of a scope with the state of random numbers: seed and counter, two `int64`. A program that
/// declares it can read and write the state.
pub const RANDOM_STATE: &str = "@RANDOM_STATE@";

/// A counter-based generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Random {
    seed: u64,
    counter: u64,
}

impl Random {
    /// Creates a generator that has not been drawn from.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, counter: 0 }
    }

    /// Reads the generator of a scope.
    ///
    /// # Errors
    /// If the variable of the scope is not a state.
    pub(crate) fn of(scope: &Scope) -> Result<Self, Finding> {
        let from_tensor =
            scope.get(RANDOM_STATE).map(|value| Self::from_tensor(value.tensor()?)).transpose()?;
        Ok(from_tensor.unwrap_or(Self::new(0)))
    }

    /// Reads the state in a tensor.
    ///
    /// # Errors
    /// If it is not two integers.
    pub(crate) fn from_tensor(tensor: &Tensor) -> Result<Self, Finding> {
        let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
        let ([seed, counter], []) = bytes.as_chunks() else {
            let found = format!("{}{:?}", tensor.dtype, tensor.shape);
            return Err(format!("expected the state of random numbers, found {found}").into());
        };
        Ok(Self { seed: u64::from_le_bytes(*seed), counter: u64::from_le_bytes(*counter) })
    }

    /// Returns the state as a tensor.
    pub(crate) fn tensor(self) -> Tensor {
        let bytes = [self.seed.to_le_bytes(), self.counter.to_le_bytes()].concat();
        Tensor::dense(DType::Int64, vec![2], Blob::memory(bytes))
    }

    /// Stores the state in a scope, if anything was drawn.
    pub(crate) fn keep(self, scope: &mut Scope) -> Result<(), Finding> {
        if self != Self::of(scope)? {
            scope.set(RANDOM_STATE, self.tensor());
        }
        Ok(())
    }

    /// Returns the four random words of a counter.
    fn words(seed: u64, counter: u64) -> [u32; 4] {
        const M: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
        const W: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is intended")]
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

    /// Draws two numbers from 0 to 1 (exclusive).
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

//! What parameters are before they are trained: operators of the startup program.

use lodstone_model::DType;

use crate::operator::Operator;

/// How a parameter begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initializer {
    /// Every element is a number.
    Constant(f32),
    /// Drawn evenly from an interval.
    Uniform {
        /// Where it begins.
        low: f32,
        /// Where it ends.
        high: f32,
        /// The seed; 0 for the generator of the run.
        seed: i32,
    },
    /// Drawn from a normal distribution.
    Normal {
        /// Its mean.
        mean: f32,
        /// Its standard deviation.
        deviation: f32,
        /// The seed; 0 for the generator of the run.
        seed: i32,
    },
    /// As normal, within two deviations of the mean.
    TruncatedNormal {
        /// Its mean.
        mean: f32,
        /// Its standard deviation.
        deviation: f32,
        /// The seed; 0 for the generator of the run.
        seed: i32,
    },
    /// Evenly, within what keeps the variance from layer to layer (Glorot and Bengio, 2010).
    Xavier {
        /// The seed; 0 for the generator of the run.
        seed: i32,
    },
    /// Normal, as rectifiers need it (He et al., 2015).
    Kaiming {
        /// The seed; 0 for the generator of the run.
        seed: i32,
    },
}

impl Initializer {
    /// The operator that fills a parameter of a type and extents; its output is still to be given.
    pub(crate) fn operator(self, dtype: DType, shape: &[u64]) -> Operator {
        let dims: Vec<i64> =
            shape.iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect();
        let of = |kind: &str| Operator::new(kind).dtype("dtype", dtype);
        let (into, out_of) = fans(shape);
        match self {
            Self::Constant(value) => {
                of("fill_constant").attribute("shape", dims).attribute("value", value)
            }
            Self::Uniform { low, high, seed } => of("uniform_random")
                .attribute("shape", dims)
                .attribute("min", low)
                .attribute("max", high)
                .attribute("seed", seed),
            Self::Normal { mean, deviation, seed } => of("gaussian_random")
                .attribute("shape", dims)
                .attribute("mean", mean)
                .attribute("std", deviation)
                .attribute("seed", seed),
            Self::TruncatedNormal { mean, deviation, seed } => {
                let dims: Vec<i32> =
                    dims.iter().map(|dim| i32::try_from(*dim).unwrap_or(i32::MAX)).collect();
                of("truncated_gaussian_random")
                    .attribute("shape", dims)
                    .attribute("mean", mean)
                    .attribute("std", deviation)
                    .attribute("seed", seed)
            }
            Self::Xavier { seed } => {
                let limit = (6.0 / (into + out_of).max(1.0)).sqrt();
                Self::Uniform { low: -limit, high: limit, seed }.operator(dtype, shape)
            }
            Self::Kaiming { seed } => {
                let deviation = (2.0 / into.max(1.0)).sqrt();
                Self::Normal { mean: 0.0, deviation, seed }.operator(dtype, shape)
            }
        }
    }
}

/// How many numbers an element of the result is made of, and how many it goes into.
#[expect(clippy::cast_precision_loss, reason = "extents of layers are far below 2^24")]
fn fans(shape: &[u64]) -> (f32, f32) {
    match shape {
        [] => (1.0, 1.0),
        [one] => (*one as f32, *one as f32),
        [rows, columns] => (*rows as f32, *columns as f32),
        // A filter: results, inputs, window.
        [results, inputs, window @ ..] => {
            let window = window.iter().product::<u64>() as f32;
            (*inputs as f32 * window, *results as f32 * window)
        }
    }
}

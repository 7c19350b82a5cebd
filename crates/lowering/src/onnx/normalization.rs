//! Normalization: by which mean and which root elements are moved and divided.
//!
//! Everywhere, the variance is the biased one, and epsilon is added to it inside of the root.
//!
//! | framework and release | what it means there | by |
//! |---|---|---|
//! | PaddlePaddle, `batch_norm` | given statistics if `use_global_stats`, or `is_test` without `trainable_statistics` | `batch_norm_kernel.cc` |
//! | PaddlePaddle, `batch_norm`, running ones | the old one times `momentum`, and that of the batch times the rest | `batch_norm_kernel.cc` |
//! | PaddlePaddle, `SavedVariance` | the inverse deviation, of batches and instances | `instance_norm_kernel.cc` |
//! | PaddlePaddle, `Variance` of layers and groups | the variance; of layers, a list up to 2.5 | `layer_norm_kernel.cc` |
//! | PaddlePaddle, `norm` | epsilon is added to the sum of squares; `Norm` is the root | `norm_kernel.cc` |
//! | PaddlePaddle, `lrn` | `alpha` times the sum of squares | `lrn_kernel.cc` |
//! | MXNet 1.9.1, `BatchNorm` | given statistics; `fix_gamma`, by default: the scale is 1, whatever the file holds | `batch_norm.cc` |
//! | MXNet 1.9.1, `BatchNorm` by cuDNN | epsilon is at least 1e-5, which other kernels do not require: it is taken as it is | `batch_norm.cu` |
//! | MXNet 1.9.1, `GroupNorm` | a scale for each group; later, for each channel | `group_norm-inl.h` |
//! | MXNet 1.9.1, `L2Normalization` | epsilon is added to the sum of squares | `l2_normalization-inl.h` |
//! | MXNet 1.9.1, `LRN` | `alpha` times the mean of squares, over `nsize` even at the ends | `lrn.cc` |
//! | Caffe2, `LayerNorm` | epsilon is 1e-5 by default (Glow: 0.001); the mean and the deviation have one dim for those that are normalized | `layer_norm_op.h` |
//! | Caffe2, `Normalize`, `NormalizeL1` | the norm is at least 1e-12; that of L1 only must not be 0 | `normalize_op.h`, `normalize_l1_op.h` |
//! | PyTorch, results of training | the mean and the inverse deviation; given statistics: empty ones | `Normalization.cpp` |
//! | PyTorch, `rms_norm` | epsilon is by default the spacing of the type at 1 | `rms_norm` |
//! | PyTorch, `_weight_norm` | the norm over all dims but `dim`; over all, if that is -1; no epsilon | `WeightNorm.cpp` |

use lodstone_schema::Finding;

use super::{Graph, Value, float, int};

type Made<T = Value> = Result<T, Finding>;

/// Elements less their mean, and divided by the deviation, with both.
pub(crate) struct Normalized {
    pub(crate) value: Value,
    pub(crate) mean: Value,
    pub(crate) variance: Value,
    pub(crate) deviation: Value,
}

/// What is multiplied by `alpha` in a local response normalization.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Squares {
    Sum,
    Mean,
}

/// A local response normalization over `size` channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalResponse {
    pub(crate) size: i64,
    pub(crate) squares: Squares,
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
    pub(crate) bias: f32,
}

impl Graph {
    /// Returns the elements less their mean, that mean, and the biased variance, over axes that are kept.
    fn moments(&mut self, x: &Value, axes: &[i64]) -> Made<[Value; 3]> {
        let mean = self.reduce("ReduceMean", x, axes, true)?;
        let centred = self.sub(x, &mean)?;
        let squares = self.mul(&centred, &centred)?;
        let variance = self.reduce("ReduceMean", &squares, axes, true)?;
        Ok([centred, mean, variance])
    }

    /// Returns the root of a mean or sum of squares and epsilon.
    pub(crate) fn root(&mut self, squares: &Value, epsilon: f64) -> Made {
        let moved = self.plus(squares, epsilon)?;
        self.call("Sqrt", &[&moved], [])
    }

    /// Normalizes over axes.
    pub(crate) fn normalized(&mut self, x: &Value, axes: &[i64], epsilon: f64) -> Made<Normalized> {
        let [centred, mean, variance] = self.moments(x, axes)?;
        let deviation = self.root(&variance, epsilon)?;
        let value = self.div(&centred, &deviation)?;
        Ok(Normalized { value, mean, variance, deviation })
    }

    /// Normalizes over axes by the inverse deviation, which is returned too.
    pub(crate) fn normalized_by_inverse(
        &mut self,
        x: &Value,
        axes: &[i64],
        epsilon: f64,
    ) -> Made<(Normalized, Value)> {
        let [centred, mean, variance] = self.moments(x, axes)?;
        let deviation = self.root(&variance, epsilon)?;
        let inverse = self.call("Reciprocal", &[&deviation], [])?;
        let value = self.mul(&centred, &inverse)?;
        Ok((Normalized { value, mean, variance, deviation }, inverse))
    }

    /// Returns groups of channels: `[batch, groups, elements]`.
    pub(crate) fn grouped(&mut self, x: &Value, groups: i64) -> Made {
        let elements = self.elements_of_group(x, groups)?;
        let dims = self.longs(&[0, groups, elements]);
        self.call("Reshape", &[x, &dims], [])
    }

    /// Returns the number of elements of a group of channels; -1, if the other dims imply it. An empty batch does not.
    pub(crate) fn elements_of_group(&self, x: &Value, groups: i64) -> Made<i64> {
        if x.size(0)?.is_some_and(|batch| batch > 0) {
            return Ok(-1);
        }
        let mut all = Some(1_i64);
        for axis in 1..x.rank()?.number() {
            all = all.zip(x.size(axis)?).and_then(|(all, dim)| all.checked_mul(dim));
        }
        Ok(match all.filter(|all| *all > 0 && all % groups == 0) {
            Some(all) => all / groups,
            None => -1,
        })
    }

    /// Normalizes channels, the second dim, by given statistics.
    pub(crate) fn batch_normalized(
        &mut self,
        x: &Value,
        [scale, bias, mean, variance]: [&Value; 4],
        epsilon: f32,
    ) -> Made {
        let inputs = [x, scale, bias, mean, variance];
        self.call("BatchNormalization", &inputs, [float("epsilon", epsilon)])
    }

    /// Normalizes the last axes from `axis` on by ONNX's operator; returns the result, and if there are three, the mean and
    /// the inverse deviation.
    pub(crate) fn layer_normalized(
        &mut self,
        x: &Value,
        (scale, bias): (&Value, Option<&Value>),
        axis: i64,
        epsilon: f32,
        results: usize,
    ) -> Made<Vec<Value>> {
        let inputs: Vec<Option<&Value>> =
            [Some(x), Some(scale)].into_iter().chain(bias.map(Some)).collect();
        let attributes = [int("axis", axis), float("epsilon", epsilon)];
        self.emit("LayerNormalization", &inputs, attributes, results)
    }

    /// Multiplies by a scale and adds a bias, as far as they are present; `spread` makes them broadcast.
    pub(crate) fn affine(
        &mut self,
        x: &Value,
        [scale, bias]: [Option<&Value>; 2],
        mut spread: impl FnMut(&mut Self, &Value) -> Made,
    ) -> Made {
        let mut y = x.clone();
        for (kind, value) in [("Mul", scale), ("Add", bias)] {
            let Some(value) = value else { continue };
            let value = spread(self, value)?;
            y = self.call(kind, &[&y, &value], [])?;
        }
        Ok(y)
    }

    /// Reshapes a vector so that it broadcasts along an axis of a rank.
    pub(crate) fn along(&mut self, vector: &Value, axis: i64, rank: i64) -> Made {
        let behind = rank.saturating_sub(axis).saturating_sub(1).clamp(0, 64);
        match behind {
            0 => Ok(vector.clone()),
            _ => self.unsqueeze(vector, &(1..=behind).collect::<Vec<_>>()),
        }
    }

    /// Divides by a power of squares of neighboring channels. ONNX's `alpha` is that of their mean.
    pub(crate) fn local_response(&mut self, x: &Value, how: LocalResponse) -> Made {
        #[expect(clippy::cast_precision_loss, reason = "the number of channels is small")]
        let alpha = match how.squares {
            Squares::Sum => how.alpha * how.size as f32,
            Squares::Mean => how.alpha,
        };
        let attributes = [
            int("size", how.size),
            float("alpha", alpha),
            float("beta", how.beta),
            float("bias", how.bias),
        ];
        self.call("LRN", &[x], attributes)
    }
}

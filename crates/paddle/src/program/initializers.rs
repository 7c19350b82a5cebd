//! Initializers of parameters: operators of the startup program.
//!
//! Source of truth: `nn/initializer` of PaddlePaddle 2.6.2.

use lodstone_model::{DType, Tensor};

use crate::program::error::{Error, Result, variable};
use crate::program::network::Variable;
use crate::program::operator::Operator;

/// An initializer of a parameter. Random ones have a seed: 0 for the generator of the run.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are named like the parameters of the distributions")]
pub enum Initializer {
    /// All elements have the same value.
    Constant(f32),
    /// Drawn from a uniform distribution.
    Uniform { low: f32, high: f32, seed: i32 },
    /// Drawn from a normal distribution.
    Normal { mean: f32, deviation: f32, seed: i32 },
    /// Drawn from a normal distribution, within two standard deviations of the mean.
    TruncatedNormal { mean: f32, deviation: f32, seed: i32 },
    /// Uniform, with a range that preserves the variance from layer to layer (Glorot and Bengio, 2010).
    Xavier { seed: i32 },
    /// Normal, with the same variance.
    XavierNormal { seed: i32 },
    /// Normal, for layers with rectifiers (He et al., 2015); PaddlePaddle also calls it MSRA.
    Kaiming { seed: i32 },
    /// Uniform, with the same variance.
    KaimingUniform { seed: i32 },
    /// Filters that upsample images, with a square window; the values are those of PaddlePaddle, whose rows are
    /// fractions of the window.
    Bilinear,
    /// The given elements, with the dims and the type of the parameter.
    Given(Tensor),
}

fn is_integer(dtype: DType) -> bool {
    matches!(dtype, DType::Int32 | DType::Int64)
}

impl Initializer {
    /// Returns the operator that fills a parameter of a type and dims; the caller sets its output.
    ///
    /// # Errors
    /// If the parameter cannot be initialized in this way.
    pub(crate) fn operator(&self, var: &Variable, dtype: DType, shape: &[u64]) -> Result<Operator> {
        let (into, out_of) = fans(shape);
        Ok(match self {
            // The shortest text of a large number has an exponent, or other digits than its integer.
            Self::Constant(value) if is_integer(dtype) && value.abs() >= 16_777_216.0 => {
                Operator::filled(shape, dtype, f64::from(*value))
            }
            Self::Constant(value) => {
                let value = shortest(*value);
                Operator::filled_as(shape, dtype, value, &format!("{value:?}"))
            }
            Self::Uniform { low, high, seed } => Operator::new("uniform_random")
                .dtype("dtype", dtype)
                .longs("shape", shape)
                .attribute("min", *low)
                .attribute("max", *high)
                .attribute("seed", *seed),
            Self::Normal { mean, deviation, seed } => Operator::new("gaussian_random")
                .dtype("dtype", dtype)
                .longs("shape", shape)
                .attribute("mean", *mean)
                .attribute("std", *deviation)
                .attribute("seed", *seed),
            Self::TruncatedNormal { mean, deviation, seed } => {
                Operator::new("truncated_gaussian_random")
                    .dtype("dtype", dtype)
                    .ints("shape", shape)
                    .attribute("mean", *mean)
                    .attribute("std", *deviation)
                    .attribute("seed", *seed)
            }
            Self::Xavier { seed } => {
                evenly(6.0, into + out_of, *seed).operator(var, dtype, shape)?
            }
            Self::XavierNormal { seed } => {
                normal(2.0, into + out_of, *seed).operator(var, dtype, shape)?
            }
            Self::Kaiming { seed } => normal(2.0, into, *seed).operator(var, dtype, shape)?,
            Self::KaimingUniform { seed } => {
                evenly(6.0, into, *seed).operator(var, dtype, shape)?
            }
            Self::Bilinear => bilinear(var, dtype, shape)?,
            Self::Given(tensor) if (tensor.dtype, tensor.shape.as_slice()) == (dtype, shape) => {
                given(var, tensor)?
            }
            Self::Given(tensor) => {
                let found = format!("{}{:?}", tensor.dtype, tensor.shape);
                let what = format!("a {dtype}{shape:?} cannot be initialized as {found}");
                return variable(var.name(), what);
            }
        })
    }
}

/// A uniform distribution with limit `sqrt(of / among)`.
fn evenly(of: f64, among: f64, seed: i32) -> Initializer {
    let limit = root(of, among);
    Initializer::Uniform { low: -limit, high: limit, seed }
}

/// A normal distribution around 0 with deviation `sqrt(of / among)`.
pub(crate) fn normal(of: f64, among: f64, seed: i32) -> Initializer {
    Initializer::Normal { mean: 0.0, deviation: root(of, among), seed }
}

#[expect(clippy::cast_possible_truncation, reason = "attributes are float32")]
fn root(of: f64, among: f64) -> f32 {
    (of / among.max(1.0)).sqrt() as f32
}

/// Returns the shortest decimal number that rounds to this `f32`: 0.1 stays 0.1.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

/// Returns the fan-in and the fan-out.
#[expect(clippy::cast_precision_loss, reason = "dims of layers are far below 2^53")]
fn fans(shape: &[u64]) -> (f64, f64) {
    match shape {
        [] => (1.0, 1.0),
        [one] => (*one as f64, *one as f64),
        [rows, columns] => (*rows as f64, *columns as f64),
        // A filter: [outputs, inputs, window..].
        [results, inputs, window @ ..] => {
            let window: f64 = window.iter().map(|dim| *dim as f64).product();
            (*inputs as f64 * window, *results as f64 * window)
        }
    }
}

/// The maximum number of elements in an attribute; PaddlePaddle accepts no more.
const MAX_GIVEN: u64 = 1 << 20;

/// Returns the operator that fills a parameter with the elements of a tensor.
pub(crate) fn given(var: &Variable, tensor: &Tensor) -> Result<Operator> {
    let count = tensor.shape.iter().try_fold(1_u64, |all, dim| all.checked_mul(*dim));
    if count.is_none_or(|count| count > MAX_GIVEN) {
        let what = format!("expected at most {MAX_GIVEN} elements, found {:?}", tensor.shape);
        return variable(var.name(), what);
    }
    let bytes = tensor.data.bytes().map_err(Error::from)?;
    let made =
        Operator::new("assign_value").dtype("dtype", tensor.dtype).ints("shape", &tensor.shape);
    Ok(match tensor.dtype {
        DType::Bool => made
            .attribute("bool_values", bytes.iter().map(|b| i32::from(*b != 0)).collect::<Vec<_>>()),
        DType::Int32 => made.attribute("int32_values", elements(&bytes, i32::from_le_bytes)),
        DType::Int64 => made.attribute("int64_values", elements(&bytes, i64::from_le_bytes)),
        DType::Float32 => made.attribute("fp32_values", elements(&bytes, f32::from_le_bytes)),
        DType::Float64 => made.attribute("fp64_values", elements(&bytes, f64::from_le_bytes)),
        other => return variable(var.name(), format!("attributes cannot hold values of {other}")),
    })
}

fn elements<const SIZE: usize, T>(bytes: &[u8], of: impl Fn([u8; SIZE]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().copied().map(of).collect()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the numbers are small"
)]
fn bilinear(var: &Variable, dtype: DType, shape: &[u64]) -> Result<Operator> {
    let (&[results, inputs, height, size], DType::Float32) = (shape, dtype) else {
        return variable(var.name(), "expected a float32 filter of rank 4");
    };
    let count = [results, inputs, height, size].into_iter().try_fold(1_u64, u64::checked_mul);
    let Some(count) = count.filter(|count| height == size && *count <= MAX_GIVEN) else {
        let what = format!("expected a square window and at most {MAX_GIVEN} elements");
        return variable(var.name(), format!("{what}, found {shape:?}"));
    };
    let half = (size as f64 / 2.0).ceil();
    let center = (2.0 * half - 1.0 - half % 2.0) / (2.0 * half);
    let near = |at: f64| 1.0 - (at / half - center).abs();
    let value = |number: u64| {
        let (number, size) = (number as f64, size as f64);
        (near(number % size) * near((number / size) % size)) as f32
    };
    let values: Vec<f32> = (0..count).map(value).collect();
    let made = Operator::new("assign_value").dtype("dtype", dtype);
    Ok(made.ints("shape", shape).attribute("fp32_values", values))
}

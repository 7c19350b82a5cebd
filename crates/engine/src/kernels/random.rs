//! Random numbers.
//!
//! Runs repeat: an operator with the attribute `seed` draws the same numbers each time it runs, and so do all others with
//! this seed. Without it, the seed is 0 and the operator draws from a sequence of its own, chosen by the name of its
//! output. The generator is ChaCha with 8 rounds, as for random inputs.

use std::f64::consts::TAU;

use lodstone_model::{AttributeValue, DType};
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;
use lodstone_store::checksum;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::call::{Call, Outputs, all, one};
use crate::dims::{bounded, count, dims_from, long};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Bernoulli", bernoulli).working(0, 16),
    Operator::dense("Dropout", dropout),
    Operator::dense("Multinomial", multinomial).working(0, 16),
    Operator::dense("RandomNormal", |call| normal(call, &shape(call)?, None)).working(0, 8),
    Operator::dense("RandomNormalLike", |call| like(call, normal)).working(0, 8),
    Operator::dense("RandomUniform", |call| uniform(call, &shape(call)?, None)).working(0, 8),
    Operator::dense("RandomUniformLike", |call| like(call, uniform)).working(0, 8),
];

fn like(call: &Call<'_>, of: fn(&Call<'_>, &[usize], Option<DType>) -> Outputs) -> Outputs {
    let x = call.input(0)?;
    of(call, &x.shape(), Some(x.dtype()))
}

/// Returns the dims of the attribute `shape`.
fn shape(call: &Call<'_>) -> Outcome<Vec<usize>> {
    dims_from(call.ints("shape").ok_or("`shape` is missing")?)
}

/// Returns the element type of the result, single precision if nothing tells.
fn target(call: &Call<'_>, default: Option<DType>) -> Outcome<DType> {
    let Some(code) = call.maybe_int("dtype") else { return Ok(default.unwrap_or(DType::Float32)) };
    let known = i32::try_from(code).ok().and_then(dtype::from_code);
    known.ok_or_else(|| "expected an element type".into())
}

/// Draws numbers of an operator.
struct Draws(ChaCha8Rng);

impl Draws {
    fn of(call: &Call<'_>) -> Self {
        match call.op.attribute("seed") {
            Some(AttributeValue::Float(seed)) => {
                return Self(ChaCha8Rng::seed_from_u64(seed.to_bits().into()));
            }
            Some(AttributeValue::Long(seed)) => {
                return Self(ChaCha8Rng::seed_from_u64(seed.cast_unsigned()));
            }
            _ => {}
        }
        let mut draws = ChaCha8Rng::seed_from_u64(0);
        draws.set_stream(checksum(call.op.writes().next().unwrap_or_default().as_bytes()));
        Self(draws)
    }

    /// Draws a number from 0 to below 1, which single precision holds.
    fn fraction(&mut self) -> f64 {
        f64::from(self.0.next_u32() >> 8) / 16_777_216.0
    }

    /// Draws two numbers of the standard normal distribution (Box and Muller).
    fn normals(&mut self) -> [f64; 2] {
        let (size, angle) = ((-2.0 * (1.0 - self.fraction()).ln()).sqrt(), TAU * self.fraction());
        [size * angle.cos(), size * angle.sin()]
    }
}

fn uniform(call: &Call<'_>, dims: &[usize], default: Option<DType>) -> Outputs {
    let (low, high) = (f64::from(call.float("low", 0.0)), f64::from(call.float("high", 1.0)));
    let mut draws = Draws::of(call);
    let values = (0..bounded(dims)?).map(|_| low + draws.fraction() * (high - low)).collect();
    one(Dense::numbers(values, target(call, default)?, dims)?)
}

fn normal(call: &Call<'_>, dims: &[usize], default: Option<DType>) -> Outputs {
    let (mean, scale) = (f64::from(call.float("mean", 0.0)), f64::from(call.float("scale", 1.0)));
    let (mut draws, count) = (Draws::of(call), bounded(dims)?);
    let mut values: Vec<f64> = (0..count.div_ceil(2)).flat_map(|_| draws.normals()).collect();
    values.truncate(count);
    values.iter_mut().for_each(|value| *value = mean + scale * *value);
    one(Dense::numbers(values, target(call, default)?, dims)?)
}

/// Draws 1 with the probability of each element, and 0 otherwise.
fn bernoulli(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let mut draws = Draws::of(call);
    let draw = |share: f64| f64::from(u8::from(draws.fraction() < share));
    let values = x.to_doubles()?.into_iter().map(draw).collect();
    one(Dense::numbers(values, target(call, Some(x.dtype()))?, &x.shape())?)
}

/// Returns the input and a mask of ones; in training, elements are dropped with a probability, and the others grow so that
/// the mean stays.
fn dropout(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let trains = match call.optional(2) {
        Some(mode) => mode.to_truths()?.contains(&true),
        None => false,
    };
    let ratio = call.double(1, 0.5)?;
    let shape = x.shape();
    if !trains || ratio == 0.0 {
        let one = Dense::truths(&[true], &[])?;
        return all([x.clone(), one.expanded(&shape)?]);
    }
    if !(0.0..=1.0).contains(&ratio) {
        return Err(
            Finding::from(format!("expected a ratio from 0 to 1, found {ratio}")).about_input(1)
        );
    }
    let mut draws = Draws::of(call);
    let stays: Vec<bool> = (0..bounded(&shape)?).map(|_| draws.fraction() >= ratio).collect();
    let mask = Dense::truths(&stays, &shape)?;
    if shape.contains(&0) {
        return all([x.clone(), mask]);
    }
    let zero = x.zeros(&[])?;
    let grown = x.scaled(if ratio < 1.0 { 1.0 / (1.0 - ratio) } else { 0.0 })?;
    all([zero.masked(&mask, &grown)?, mask])
}

/// Draws classes by the logarithms of their probabilities: [batch, classes] to [batch, samples].
fn multinomial(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let (&[batch, classes], samples) = (x.shape().as_slice(), count(call.int("sample_size", 1))?)
    else {
        return Err(format!("expected rows of classes, found {:?}", x.shape()).into());
    };
    bounded(&[batch, samples])?;
    let mut drawn = Vec::new();
    let mut draws = Draws::of(call);
    for row in x.to_doubles()?.chunks_exact(classes.max(1)) {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = |sum: &mut f64, value: &f64| {
            *sum += (value - top).exp();
            Some(*sum)
        };
        let sums: Vec<f64> = row.iter().scan(0.0, sum).collect();
        let whole = sums.last().copied().filter(|whole| whole.is_finite() && *whole > 0.0);
        let whole = whole.ok_or("expected probabilities of at least one class")?;
        for _ in 0..samples {
            let mark = draws.fraction() * whole;
            drawn.push(long(sums.partition_point(|sum| *sum <= mark).min(classes - 1)));
        }
    }
    if drawn.len() != batch * samples {
        return Err(Finding::from("expected at least one class"));
    }
    let to = target(call, Some(DType::Int32))?;
    one(Dense::longs(&drawn).reshaped(vec![batch, samples])?.cast_to(to)?)
}

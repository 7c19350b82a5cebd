//! Gaussian error linear units and their approximations.

use lodstone_schema::Finding;

use crate::call::{Call, Outputs, one};
use crate::curves::Erf;
use crate::dims::dim_at;
use crate::error::Outcome;
use crate::operator::{Operator, RUNTIME};
use crate::tensor::{Dense, floats};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("BiasGelu", |call| biased(call, exact)).domain(RUNTIME).working(0, 24),
    Operator::dense("BiasSplitGelu", split).domain(RUNTIME).working(12, 20),
    Operator::dense("FastGelu", |call| biased(call, fast)).domain(RUNTIME).working(0, 24),
    Operator::dense("Gelu", |call| wide(call.input(0)?, exact)).domain(RUNTIME).working(0, 20),
    Operator::dense("QuickGelu", quick).domain(RUNTIME).working(0, 4),
];

/// Applies a function in at least single precision.
fn wide(x: &Dense, of: impl FnOnce(&Dense) -> Outcome<Dense>) -> Outputs {
    one(of(&x.widened()?)?.cast_to(x.dtype())?)
}

/// Adds the second input, if it is present, before the function.
fn biased(call: &Call<'_>, of: fn(&Dense) -> Outcome<Dense>) -> Outputs {
    let x = call.input(0)?;
    wide(x, |x| match call.optional(1) {
        Some(bias) => of(&x.plus(&bias.widened()?)?),
        None => of(x),
    })
}

/// Returns `x / 2 * (1 + erf(x / sqrt(2)))`.
fn exact(x: &Dense) -> Outcome<Dense> {
    let curve = x.scaled(std::f64::consts::FRAC_1_SQRT_2)?;
    let curve = floats!(&curve, T => |x| Erf::erf(x))?;
    x.scaled(0.5)?.times(&curve.shifted(1.0)?)
}

/// Returns the approximation by the hyperbolic tangent.
fn fast(x: &Dense) -> Outcome<Dense> {
    let cube = x.times(x)?.times(x)?.scaled(0.044_715)?;
    let line = x.plus(&cube)?.scaled((2.0 / std::f64::consts::PI).sqrt())?;
    x.scaled(0.5)?.times(&line.tanh()?.shifted(1.0)?)
}

fn quick(call: &Call<'_>) -> Outputs {
    let alpha = f64::from(call.float("alpha", 1.702));
    wide(call.input(0)?, |x| {
        let gate = x.scaled(alpha)?.sigmoid()?;
        x.times(&gate)
    })
}

/// Adds a bias, and multiplies the first half of the last axis by the function of the second half.
fn split(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    wide(x, |x| {
        let sum = x.plus(&call.input(1)?.widened()?)?;
        let shape = sum.shape();
        let last = shape.len().checked_sub(1).ok_or("expected at least one dim")?;
        let half = dim_at(&shape, last)? / 2;
        if shape.contains(&0) || half * 2 != dim_at(&shape, last)? {
            return Err(Finding::from(format!("{shape:?} has no two halves")));
        }
        let gate = exact(&sum.cut(last, half, 2 * half)?)?;
        sum.cut(last, 0, half)?.times(&gate)
    })
}

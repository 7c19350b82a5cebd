//! Gaussian error linear units and their approximations.

use lodstone_schema::Finding;

use crate::call::{Call, Outputs, one};
use crate::dims::dim_at;
use crate::error::Outcome;
use crate::operator::{Operator, RUNTIME};
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("BiasGelu", |call| biased(call, Dense::gelu)).domain(RUNTIME).working(0, 24),
    Operator::dense("BiasSplitGelu", split).domain(RUNTIME).working(12, 20),
    Operator::dense("FastGelu", |call| biased(call, Dense::gelu_by_tanh))
        .domain(RUNTIME)
        .working(0, 24),
    Operator::dense("Gelu", |call| wide(call.input(0)?, Dense::gelu))
        .domain(RUNTIME)
        .working(0, 20),
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
        let gate = sum.cut(last, half, 2 * half)?.gelu()?;
        sum.cut(last, 0, half)?.times(&gate)
    })
}

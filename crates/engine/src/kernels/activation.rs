//! Activation functions.

use lodstone_model::DType;

use super::Run;
use crate::call::{Call, Outputs, one};
use crate::curves::{Erf, at_least, at_most, sigmoid, softplus};
use crate::dims::{at_mut, axis, dim_at};
use crate::tensor::{Comparison, Dense, Extreme, floats, integers};

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "Elu" => |call| {
            let alpha = call.float("alpha", 1.0);
            one(floats!(call.input(0)?, T => |x| {
                if x < 0.0 { (x.exp() - 1.0) * T::from(alpha) } else { x }
            })?)
        },
        "Gelu" => gelu,
        "HardSigmoid" => |call| {
            let (alpha, beta) = (call.float("alpha", 0.2), call.float("beta", 0.5));
            one(floats!(call.input(0)?, T => |x| {
                at_most(at_least(x * T::from(alpha) + T::from(beta), 0.0), 1.0)
            })?)
        },
        "LeakyRelu" => |call| {
            let alpha = call.float("alpha", 0.01);
            one(call.input(0)?.leaky(alpha)?)
        },
        "Relu" => |call| {
            let x = call.input(0)?;
            one(match x.dtype().is_float() {
                true => floats!(x, T => |x| at_least(x, 0.0))?,
                false => integers!(x, T => |x| x.max(0))?,
            })
        },
        "Sigmoid" => |call| one(call.input(0)?.sigmoid()?),
        "Softplus" => |call| one(floats!(call.input(0)?, T => |x| softplus(x))?),
        "Softsign" => |call| one(floats!(call.input(0)?, T => |x| x / (x.abs() + 1.0))?),
        "ThresholdedRelu" => |call| {
            let alpha = call.float("alpha", 1.0);
            one(floats!(call.input(0)?, T => |x| if x <= T::from(alpha) { 0.0 } else { x })?)
        },
        "Celu" => |call| {
            let alpha = call.float("alpha", 1.0);
            one(floats!(call.input(0)?, T => |x| {
                let alpha = T::from(alpha);
                at_least(x, 0.0) + (at_most(x / alpha, 0.0).exp() - 1.0) * alpha
            })?)
        },
        "Hardmax" => hardmax,
        "HardSwish" => |call| {
            one(floats!(call.input(0)?, T => |x| {
                x * at_most(at_least(x * (1.0 / 6.0) + 0.5, 0.0), 1.0)
            })?)
        },
        "Mish" => |call| one(floats!(call.input(0)?, T => |x| x * softplus(x).tanh())?),
        "PRelu" => |call| {
            let (x, slope) = (call.input(0)?, call.input(1)?);
            let scaled = x.times(&slope.fitted(x.dims())?)?;
            let is_below = x.compared(&x.zeros(&[])?, Comparison::Less)?;
            one(x.masked(&is_below, &scaled)?)
        },
        "Selu" => |call| {
            let alpha = call.float("alpha", 1.673_263_2);
            let gamma = call.float("gamma", 1.050_701);
            one(floats!(call.input(0)?, T => |x| {
                let curve = (at_most(x, 0.0).exp() - 1.0) * T::from(alpha);
                (at_least(x, 0.0) + curve) * T::from(gamma)
            })?)
        },
        "Shrink" => shrink,
        "Swish" => |call| {
            let alpha = call.float("alpha", 1.0);
            one(floats!(call.input(0)?, T => |x| x * sigmoid(x * T::from(alpha)))?)
        },
        _ => return None,
    })
}

fn gelu(call: &Call<'_>) -> Outputs {
    let (x, by_tanh) =
        (call.input(0)?, call.choice("approximate", &[("none", false), ("tanh", true)])?);
    one(match by_tanh {
        true => x.gelu_by_tanh()?,
        false => floats!(x, T => |x| {
            const FACTOR: f64 = std::f64::consts::FRAC_1_SQRT_2;
            #[expect(clippy::cast_possible_truncation, reason = "single precision has its own")]
            let curve = Erf::erf(x * (FACTOR as T));
            x * 0.5 * (curve + 1.0)
        })?,
    })
}

impl Dense {
    /// Returns floats, those below 0 times a factor.
    pub(super) fn leaky(&self, alpha: f32) -> crate::error::Outcome<Self> {
        floats!(self, T => |x| if x < 0.0 { x * T::from(alpha) } else { x })
    }

    /// Returns the approximation of GELU by tanh.
    pub(super) fn gelu_by_tanh(&self) -> crate::error::Outcome<Self> {
        let factor = (2.0 / std::f64::consts::PI).sqrt();
        floats!(self, T => |x| {
            let cube = x * x * x;
            #[expect(clippy::cast_possible_truncation, reason = "single precision has its own")]
            let curve = ((x + cube * 0.044_715) * (factor as T)).tanh();
            x * 0.5 * (curve + 1.0)
        })
    }
}

/// Returns 1 at the first maximum along an axis, and 0 elsewhere.
fn hardmax(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let shape = x.shape();
    let at = axis(call.int("axis", -1), shape.len())?;
    if shape.contains(&0) {
        return one(x.clone());
    }
    let dim = dim_at(&shape, at)?;
    let best = x.places_of_extremes(at, Extreme::Greatest, false)?;
    let mut line = vec![1; shape.len()];
    *at_mut(&mut line, at)? = dim;
    let places: Vec<i64> = (0..).take(dim).collect();
    let places = Dense::longs(&places).reshaped(line)?;
    one(places.compared(&best, Comparison::Equal)?.cast_to(x.dtype())?)
}

/// Returns 0 between `-lambd` and `lambd`, and shrinks other values towards 0.
fn shrink(call: &Call<'_>) -> Outputs {
    let (bias, edge) = (call.float("bias", 0.0), call.float("lambd", 0.5));
    let x = call.input(0)?;
    let wide = x.cast_to(if x.dtype().is_float() { x.dtype() } else { DType::Float64 })?;
    let y = floats!(&wide, T => |x| {
        let (bias, edge) = (T::from(bias), T::from(edge));
        if x < -edge {
            x + bias
        } else if x > edge {
            x - bias
        } else {
            x * 0.0
        }
    })?;
    one(y.cast_to(x.dtype())?)
}

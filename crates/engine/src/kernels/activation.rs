//! Activation functions.

use lodstone_model::DType;
use pulp::bytemuck::Zeroable;

use crate::call::{Call, Outputs, one};
use crate::curves::{Erf, at_least, at_most, sigmoid};
use crate::dims::{around, at_mut, axis, count};
use crate::error::Outcome;
use crate::fused::{EpilogueStep, Rule, maximum, minimum};
use crate::operator::Operator;
use crate::simd::curves;
use crate::tensor::map::map_two;
use crate::tensor::{
    Dense, Extreme, Number, Order, bits_of, bytes_of, check_alike, elements, floats, integers,
    numbers_of, steps, unsupported, zeroed,
};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Celu", celu).working(0, 12),
    Operator::dense("Elu", elu).working(0, 2),
    Operator::dense("Gelu", gelu).fused(fused_gelu).error(5e-7).working(0, 12),
    Operator::dense("HardSigmoid", hard_sigmoid).fused(fused_hard_sigmoid),
    Operator::dense("HardSwish", hard_swish)
        .fused(|_| Some(Rule::unary(|a| a * minimum(maximum(a * (1.0 / 6.0) + 0.5, 0.0), 1.0)))),
    Operator::dense("Hardmax", hardmax).working(2, 16),
    Operator::dense("LeakyRelu", leaky_relu).fused(|call| {
        let alpha = call.float("alpha", 0.01);
        Some(Rule::unary(move |a| if a >= 0.0 { a } else { a * alpha }))
    }),
    Operator::dense("Mish", mish).working(0, 4),
    Operator::dense("PRelu", parametric_relu).working(0, 6),
    Operator::dense("Relu", relu)
        .fused(|_| Some(Rule::unary(|a| maximum(a, 0.0))))
        .epilogue(EpilogueStep::Relu),
    Operator::dense("Selu", selu).working(0, 4),
    Operator::dense("Shrink", shrink).working(0, 12),
    Operator::dense("Sigmoid", |call| one(call.input(0)?.sigmoid()?))
        .fused(|_| Some(Rule::unary(curves::sigmoid)))
        .error(5e-7),
    Operator::dense("Softplus", |call| one(call.input(0)?.softplus()?)).working(0, 4),
    Operator::dense("Softsign", |call| one(call.input(0)?.softsign()?)),
    Operator::dense("Swish", swish),
    Operator::dense("ThresholdedRelu", thresholded_relu).working(0, 2),
];

/// The approximation by the hyperbolic tangent is not fused.
fn fused_gelu(call: &Call<'_>) -> Option<Rule> {
    let gelu = |a| 0.5 * a * (curves::erf(a * std::f32::consts::FRAC_1_SQRT_2) + 1.0);
    (call.text("approximate").as_deref() != Some("tanh")).then(|| Rule::unary(gelu))
}

fn fused_hard_sigmoid(call: &Call<'_>) -> Option<Rule> {
    let (alpha, beta) = (call.float("alpha", 0.2), call.float("beta", 0.5));
    Some(Rule::unary(move |a| minimum(maximum(a * alpha + beta, 0.0), 1.0)))
}

fn elu(call: &Call<'_>) -> Outputs {
    let alpha = call.float("alpha", 1.0);
    one(call.input(0)?.elu(alpha)?)
}

fn hard_sigmoid(call: &Call<'_>) -> Outputs {
    let (alpha, beta) = (call.float("alpha", 0.2), call.float("beta", 0.5));
    one(call.input(0)?.hard_sigmoid(alpha, beta)?)
}

fn leaky_relu(call: &Call<'_>) -> Outputs {
    let alpha = call.float("alpha", 0.01);
    one(call.input(0)?.leaky(alpha)?)
}

#[allow(clippy::unnecessary_min_or_max, reason = "unsigned integers are never below 0")]
fn relu(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    one(match x.dtype().is_float() {
        true => x.relu()?,
        false => integers!(x, T => |x| x.max(0))?,
    })
}

fn thresholded_relu(call: &Call<'_>) -> Outputs {
    let alpha = call.float("alpha", 1.0);
    one(call.input(0)?.thresholded(alpha)?)
}

fn celu(call: &Call<'_>) -> Outputs {
    let alpha = call.float("alpha", 1.0);
    one(floats!(call.input(0)?, T => |x| {
        let alpha = T::from(alpha);
        at_least(x, 0.0) + (at_most(x / alpha, 0.0).exp() - 1.0) * alpha
    })?)
}

fn hard_swish(call: &Call<'_>) -> Outputs {
    one(floats!(call.input(0)?, T => |x| {
        x * at_most(at_least(x * (1.0 / 6.0) + 0.5, 0.0), 1.0)
    })?)
}

fn parametric_relu(call: &Call<'_>) -> Outputs {
    let (x, slope) = (call.input(0)?, call.input(1)?);
    let slope = slope.fitted(x.dims())?;
    check_alike(x, &slope)?;
    let dtype = x.dtype();
    if dtype == DType::Bool {
        return Err(unsupported(dtype));
    }
    one(numbers_of!(
        dtype,
        T => map_two::<T, T, T>(x, &slope, dtype, &|x, slope, into| {
            for ((into, x), slope) in into.iter_mut().zip(x).zip(slope) {
                *into = if *x < T::zeroed() { x.times(*slope) } else { *x };
            }
        }),
        Err(unsupported(dtype))
    )?)
}

fn mish(call: &Call<'_>) -> Outputs {
    one(steps!(
        call.input(0)?,
        |x| (-x.abs()).exp(),
        |_, y| y.ln_1p(),
        |x, y| at_least(x, 0.0) + y,
        |_, y| y.tanh(),
        |x, y| x * y
    )?)
}

fn selu(call: &Call<'_>) -> Outputs {
    let alpha = call.float("alpha", 1.673_263_2);
    let gamma = call.float("gamma", 1.050_701);
    one(floats!(call.input(0)?, T => |x| {
        let curve = (at_most(x, 0.0).exp() - 1.0) * T::from(alpha);
        (at_least(x, 0.0) + curve) * T::from(gamma)
    })?)
}

fn swish(call: &Call<'_>) -> Outputs {
    let alpha = call.float("alpha", 1.0);
    one(floats!(call.input(0)?, T => |x| x * sigmoid(x * T::from(alpha)))?)
}

fn gelu(call: &Call<'_>) -> Outputs {
    let (x, by_tanh) =
        (call.input(0)?, call.choice("approximate", &[("none", false), ("tanh", true)])?);
    one(match by_tanh {
        true => x.gelu_by_tanh()?,
        false => x.gelu()?,
    })
}

/// Activations that other operators have, too.
impl Dense {
    /// Returns floats, and 0 in place of those below it.
    pub(super) fn relu(&self) -> Outcome<Self> {
        floats!(self, T => |x| at_least(x, 0.0))
    }

    /// Returns floats, and an exponential curve in place of those below 0.
    pub(super) fn elu(&self, alpha: f32) -> Outcome<Self> {
        floats!(self, T => |x| if x < 0.0 { (x.exp() - 1.0) * T::from(alpha) } else { x })
    }

    /// Returns a line between 0 and 1.
    pub(super) fn hard_sigmoid(&self, alpha: f32, beta: f32) -> Outcome<Self> {
        floats!(self, T => |x| at_most(at_least(x * T::from(alpha) + T::from(beta), 0.0), 1.0))
    }

    /// Returns floats, and 0 in place of those up to a limit.
    pub(super) fn thresholded(&self, alpha: f32) -> Outcome<Self> {
        floats!(self, T => |x| if x <= T::from(alpha) { 0.0 } else { x })
    }

    /// Returns `log(1 + exp(x))`, without overflow.
    pub(super) fn softplus(&self) -> Outcome<Self> {
        steps!(self, |x| (-x.abs()).exp(), |_, y| y.ln_1p(), |x, y| at_least(x, 0.0) + y)
    }

    /// Returns `x / (1 + |x|)`.
    pub(super) fn softsign(&self) -> Outcome<Self> {
        floats!(self, T => |x| x / (x.abs() + 1.0))
    }

    /// Returns `x / 2 * (1 + erf(x / sqrt(2)))`.
    pub(in crate::kernels) fn gelu(&self) -> Outcome<Self> {
        floats!(self, T => |x| {
            const FACTOR: f64 = std::f64::consts::FRAC_1_SQRT_2;
            #[allow(clippy::cast_possible_truncation, reason = "single precision has its own")]
            let curve = Erf::erf(x * (FACTOR as T));
            x * 0.5 * (curve + 1.0)
        })
    }

    /// Returns floats, those below 0 times a factor.
    pub(super) fn leaky(&self, alpha: f32) -> Outcome<Self> {
        floats!(self, T => |x| if x < 0.0 { x * T::from(alpha) } else { x })
    }

    /// Returns the approximation of GELU by tanh.
    pub(in crate::kernels) fn gelu_by_tanh(&self) -> Outcome<Self> {
        let factor = (2.0 / std::f64::consts::PI).sqrt();
        floats!(self, T => |x| {
            let cube = x * x * x;
            #[allow(clippy::cast_possible_truncation, reason = "single precision has its own")]
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
    let (_, dim, behind) = around(&shape, at)?;
    let inner = behind.iter().product::<usize>();
    let best = x.places_of_extremes(at, Extreme::Greatest, false)?.to_longs()?;
    let one_of_type = Dense::longs(&[1]).cast_to(x.dtype())?;
    one(bits_of!(
        x.dtype().bits(),
        T => {
            let first = elements::<T>(&one_of_type, Order::RowMajor)?.first().copied();
            let mut made = zeroed::<T>(x.count())?;
            for (block, best) in made.chunks_exact_mut(dim * inner).zip(best.chunks_exact(inner)) {
                for (offset, place) in best.iter().enumerate() {
                    *at_mut(block, count(*place)? * inner + offset)? = first.ok_or("no element")?;
                }
            }
            Dense::of_elements(x.dtype(), shape, bytes_of(made))
        },
        Err(unsupported(x.dtype()))
    )?)
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

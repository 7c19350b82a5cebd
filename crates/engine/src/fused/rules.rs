//! The element-wise function of each operator.

use lodstone_model::{DType, Op};
use lodstone_schema::onnx::dtype;

use super::Link;
use crate::call::Call;
use crate::simd::curves::{erf, exp, sigmoid, tanh};
use crate::simd::wide;

/// The class of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Number,
    Truth,
    /// A number for all elements.
    Limit,
}

/// A function over blocks of `N` inputs. A boolean is 1 or 0.
pub(super) type Apply<const N: usize> = Box<dyn Fn([&[f32]; N], &mut [f32]) + Send + Sync>;

/// The function of an operator, and the class of its inputs.
pub(super) enum Takes {
    One([Lane; 1], Apply<1>),
    Two([Lane; 2], Apply<2>),
    Three([Lane; 3], Apply<3>),
}

/// The element-wise function of an operator: its inputs and the class of its result.
pub(super) struct Rule {
    pub(super) takes: Takes,
    pub(super) gives: Lane,
}

impl Takes {
    pub(super) fn lanes(&self) -> &[Lane] {
        match self {
            Self::One(lanes, _) => lanes,
            Self::Two(lanes, _) => lanes,
            Self::Three(lanes, _) => lanes,
        }
    }

    /// Creates the link of an operator with these inputs, or `None` if the number of inputs does not match.
    pub(super) fn link(self, inputs: &[usize]) -> Option<Link> {
        Some(match self {
            Self::One(_, apply) => Link::One(apply, inputs.try_into().ok()?),
            Self::Two(_, apply) => Link::Two(apply, inputs.try_into().ok()?),
            Self::Three(_, apply) => Link::Three(apply, inputs.try_into().ok()?),
        })
    }
}

/// Returns whether an operator may be part of a chain.
pub(crate) fn is_link(op: &Op) -> bool {
    rule(op).is_some()
}

pub(super) fn rule(op: &Op) -> Option<Rule> {
    use Lane::{Limit, Number, Truth};
    let of = |takes, gives| Some(Rule { takes, gives });
    macro_rules! one {
        ($of:expr) => {
            of(Takes::One([Number], Box::new(move |inputs, out| each(inputs, out, $of))), Number)
        };
    }
    macro_rules! two {
        ($of:expr) => {
            of(Takes::Two([Number; 2], Box::new(|inputs, out| both(inputs, out, $of))), Number)
        };
    }
    macro_rules! compare {
        ($of:expr) => {{
            let apply: Apply<2> =
                Box::new(|inputs, out| both(inputs, out, |a, b| truth($of(&a, &b))));
            of(Takes::Two([Number; 2], apply), Truth)
        }};
    }
    macro_rules! logic {
        ($of:expr) => {
            of(Takes::Two([Truth; 2], Box::new(|inputs, out| both(inputs, out, $of))), Truth)
        };
    }
    if !matches!(op.domain.as_str(), "" | "ai.onnx") {
        return None;
    }
    let call = Call::new(op, &[]).ok()?;
    match op.kind.as_str() {
        "Abs" => one!(f32::abs),
        "Add" => two!(|a, b| a + b),
        "And" => logic!(|a, b| a * b),
        "Cast" => {
            let to = i32::try_from(call.maybe_int("to")?).ok()?;
            let is_single = dtype::from_code(to) == Some(DType::Float32);
            if is_single {
                of(Takes::One([Truth], Box::new(|inputs, out| each(inputs, out, |a| a))), Number)
            } else {
                None
            }
        }
        "Clip" => of(Takes::Three([Number, Limit, Limit], Box::new(clip)), Number),
        "Div" => two!(|a, b| a / b),
        "Equal" => compare!(f32::eq),
        "Erf" => one!(erf),
        "Exp" => one!(exp),
        "Gelu" if call.text("approximate").as_deref() != Some("tanh") => {
            one!(|a| 0.5 * a * (erf(a * std::f32::consts::FRAC_1_SQRT_2) + 1.0))
        }
        "Greater" => compare!(f32::gt),
        "GreaterOrEqual" => compare!(f32::ge),
        "HardSigmoid" => {
            let (alpha, beta) = (call.float("alpha", 0.2), call.float("beta", 0.5));
            one!(move |a: f32| least(most(a * alpha + beta, 0.0), 1.0))
        }
        "HardSwish" => one!(|a: f32| a * least(most(a * (1.0 / 6.0) + 0.5, 0.0), 1.0)),
        "LeakyRelu" => {
            let alpha = call.float("alpha", 0.01);
            one!(move |a: f32| if a >= 0.0 { a } else { a * alpha })
        }
        "Less" => compare!(f32::lt),
        "LessOrEqual" => compare!(f32::le),
        "Log" => one!(f32::ln),
        "Max" => two!(most),
        "Min" => two!(least),
        "Mul" => two!(|a, b| a * b),
        "Neg" => one!(|a: f32| -a),
        "Not" => {
            of(Takes::One([Truth], Box::new(|inputs, out| each(inputs, out, |a| 1.0 - a))), Truth)
        }
        "Or" => logic!(f32::max),
        "Relu" => one!(|a: f32| most(a, 0.0)),
        "Sigmoid" => one!(sigmoid),
        "Sqrt" => one!(f32::sqrt),
        "Sub" => two!(|a, b| a - b),
        "Tanh" => one!(tanh),
        "Where" => of(Takes::Three([Truth, Number, Number], Box::new(choose)), Number),
        _ => None,
    }
}

/// Returns the larger of two numbers; NaN if one of them is.
fn most(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// Returns the smaller of two numbers; NaN if one of them is.
fn least(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

pub(super) fn truth(is: bool) -> f32 {
    f32::from(u8::from(is))
}

#[inline(always)]
fn each([a]: [&[f32]; 1], out: &mut [f32], of: impl Fn(f32) -> f32) {
    wide!(out.iter_mut().zip(a).for_each(|(out, a)| *out = of(*a)));
}

#[inline(always)]
fn both([a, b]: [&[f32]; 2], out: &mut [f32], of: impl Fn(f32, f32) -> f32) {
    wide!(out.iter_mut().zip(a).zip(b).for_each(|((out, a), b)| *out = of(*a, *b)));
}

fn clip([values, lowest, highest]: [&[f32]; 3], out: &mut [f32]) {
    let all = out.iter_mut().zip(values).zip(lowest).zip(highest);
    wide!(all.for_each(|(((out, a), low), high)| *out = least(most(*a, *low), *high)));
}

fn choose([which, yes, no]: [&[f32]; 3], out: &mut [f32]) {
    let all = out.iter_mut().zip(which).zip(yes).zip(no);
    let one = |(((out, which), yes), no): (((&mut f32, &f32), &f32), &f32)| {
        *out = if *which != 0.0 { *yes } else { *no };
    };
    wide!(all.for_each(one));
}

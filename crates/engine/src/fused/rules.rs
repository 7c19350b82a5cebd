//! Element-wise functions of operators.

use super::Link;
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
pub(crate) struct Rule {
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

impl Rule {
    /// Creates a function of a number.
    pub(crate) fn unary(of: impl Fn(f32) -> f32 + Copy + Send + Sync + 'static) -> Self {
        let apply: Apply<1> = Box::new(move |inputs, out| each(inputs, out, of));
        Self { takes: Takes::One([Lane::Number], apply), gives: Lane::Number }
    }

    /// Creates a function of two numbers.
    pub(crate) fn binary(of: impl Fn(f32, f32) -> f32 + Copy + Send + Sync + 'static) -> Self {
        let apply: Apply<2> = Box::new(move |inputs, out| both(inputs, out, of));
        Self { takes: Takes::Two([Lane::Number; 2], apply), gives: Lane::Number }
    }

    /// Creates a comparison of two numbers.
    pub(crate) fn comparison(
        of: impl Fn(&f32, &f32) -> bool + Copy + Send + Sync + 'static,
    ) -> Self {
        let apply: Apply<2> =
            Box::new(move |inputs, out| both(inputs, out, move |a, b| truth(of(&a, &b))));
        Self { takes: Takes::Two([Lane::Number; 2], apply), gives: Lane::Truth }
    }

    /// Creates a function of two booleans.
    pub(crate) fn logic(of: impl Fn(f32, f32) -> f32 + Copy + Send + Sync + 'static) -> Self {
        let apply: Apply<2> = Box::new(move |inputs, out| both(inputs, out, of));
        Self { takes: Takes::Two([Lane::Truth; 2], apply), gives: Lane::Truth }
    }

    /// Creates the negation of a boolean.
    pub(crate) fn negation() -> Self {
        let apply: Apply<1> = Box::new(|inputs, out| each(inputs, out, |a| 1.0 - a));
        Self { takes: Takes::One([Lane::Truth], apply), gives: Lane::Truth }
    }

    /// Creates the number of a boolean.
    pub(crate) fn number() -> Self {
        let apply: Apply<1> = Box::new(|inputs, out| each(inputs, out, |a| a));
        Self { takes: Takes::One([Lane::Truth], apply), gives: Lane::Number }
    }

    /// Creates the limits of a number: a minimum, then a maximum.
    pub(crate) fn clamp() -> Self {
        let lanes = [Lane::Number, Lane::Limit, Lane::Limit];
        Self { takes: Takes::Three(lanes, Box::new(clip)), gives: Lane::Number }
    }

    /// Creates the choice between two numbers by a boolean.
    pub(crate) fn selection() -> Self {
        let lanes = [Lane::Truth, Lane::Number, Lane::Number];
        Self { takes: Takes::Three(lanes, Box::new(choose)), gives: Lane::Number }
    }
}

/// Returns the larger of two numbers; NaN if one of them is.
pub(crate) fn maximum(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// Returns the smaller of two numbers; NaN if one of them is.
pub(crate) fn minimum(a: f32, b: f32) -> f32 {
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
    wide!(all.for_each(|(((out, a), low), high)| *out = minimum(maximum(*a, *low), *high)));
}

fn choose([which, yes, no]: [&[f32]; 3], out: &mut [f32]) {
    let all = out.iter_mut().zip(which).zip(yes).zip(no);
    let one = |(((out, which), yes), no): (((&mut f32, &f32), &f32), &f32)| {
        *out = if *which != 0.0 { *yes } else { *no };
    };
    wide!(all.for_each(one));
}

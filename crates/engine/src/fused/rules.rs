//! Element-wise functions of operators.

use crate::simd::wide;

/// The class of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Number,
    Truth,
    /// A number for all elements.
    Limit,
}

/// A function over blocks of `N` inputs. A boolean is 1 or 0.
pub(super) type Apply<const N: usize> = Box<dyn Fn([&[f32]; N], &mut [f32]) + Send + Sync>;

/// The function of an operator, and the class of its inputs.
pub(super) enum Function {
    One([Class; 1], Apply<1>),
    Two([Class; 2], Apply<2>),
    Three([Class; 3], Apply<3>),
}

/// What an operator does in the epilogue of a product, before results are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpilogueStep {
    /// It adds a tensor.
    Sum,
    /// It limits results to numbers from 0 on.
    Relu,
    /// It limits results by its second and third input.
    Clip,
}

/// The element-wise function of an operator: its inputs and the class of its result.
pub(crate) struct Rule {
    pub(super) function: Function,
    pub(super) result: Class,
}

impl Function {
    pub(super) fn classes(&self) -> &[Class] {
        match self {
            Self::One(classes, _) => classes,
            Self::Two(classes, _) => classes,
            Self::Three(classes, _) => classes,
        }
    }
}

impl Rule {
    /// Creates a function of a number.
    pub(crate) fn unary(of: impl Fn(f32) -> f32 + Copy + Send + Sync + 'static) -> Self {
        let apply: Apply<1> = Box::new(move |inputs, out| each(inputs, out, of));
        Self { function: Function::One([Class::Number], apply), result: Class::Number }
    }

    /// Creates a function of two numbers.
    pub(crate) fn binary(of: impl Fn(f32, f32) -> f32 + Copy + Send + Sync + 'static) -> Self {
        let apply: Apply<2> = Box::new(move |inputs, out| both(inputs, out, of));
        Self { function: Function::Two([Class::Number; 2], apply), result: Class::Number }
    }

    /// Creates a comparison of two numbers.
    pub(crate) fn comparison(
        of: impl Fn(&f32, &f32) -> bool + Copy + Send + Sync + 'static,
    ) -> Self {
        let apply: Apply<2> =
            Box::new(move |inputs, out| both(inputs, out, move |a, b| truth(of(&a, &b))));
        Self { function: Function::Two([Class::Number; 2], apply), result: Class::Truth }
    }

    /// Creates a function of two booleans.
    pub(crate) fn logic(of: impl Fn(f32, f32) -> f32 + Copy + Send + Sync + 'static) -> Self {
        let apply: Apply<2> = Box::new(move |inputs, out| both(inputs, out, of));
        Self { function: Function::Two([Class::Truth; 2], apply), result: Class::Truth }
    }

    /// Creates the negation of a boolean.
    pub(crate) fn negation() -> Self {
        let apply: Apply<1> = Box::new(|inputs, out| each(inputs, out, |a| 1.0 - a));
        Self { function: Function::One([Class::Truth], apply), result: Class::Truth }
    }

    /// Creates the number of a boolean.
    pub(crate) fn number() -> Self {
        let apply: Apply<1> = Box::new(|inputs, out| each(inputs, out, |a| a));
        Self { function: Function::One([Class::Truth], apply), result: Class::Number }
    }

    /// Creates the limits of a number: a minimum, then a maximum.
    pub(crate) fn clamp() -> Self {
        let classes = [Class::Number, Class::Limit, Class::Limit];
        Self { function: Function::Three(classes, Box::new(clip)), result: Class::Number }
    }

    /// Creates the choice between two numbers by a boolean.
    pub(crate) fn selection() -> Self {
        let classes = [Class::Truth, Class::Number, Class::Number];
        Self { function: Function::Three(classes, Box::new(choose)), result: Class::Number }
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

//! Fourier transforms, in double precision: [batch, length, real and imaginary part].

use std::sync::Arc;

use rayon::prelude::*;
use rustfft::num_complex::Complex64;
use rustfft::{Fft, FftPlanner};

use crate::budget::probe;
use crate::call::{Call, Outputs, one};
use crate::dims::{around, at_mut, axis, bounded, count, dim_at};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("DFT", transform).working(40, 2).threaded(),
    Operator::dense("STFT", short_transform).working(8, 8).threaded(),
];

/// The bytes of memory for each element of a transform: the elements, and work space for lengths that are not products of
/// small primes.
const BYTES: u64 = 128;

/// A transform of rows.
struct Transform {
    length: usize,
    is_inverse: bool,
    /// Whether only the values are computed (or, by the inverse, read) that do not mirror others.
    is_onesided: bool,
    fft: Arc<dyn Fft<f64>>,
}

impl Transform {
    fn new(length: usize, is_inverse: bool, is_onesided: bool) -> Outcome<Self> {
        if length == 0 {
            return Err("expected a length of at least 1".into());
        }
        bounded(&[length, 2])?;
        probe((length as u64).saturating_mul(BYTES))?;
        let mut planner = FftPlanner::new();
        let fft = match is_inverse {
            true => planner.plan_fft_inverse(length),
            false => planner.plan_fft_forward(length),
        };
        Ok(Self { length, is_inverse, is_onesided, fft })
    }

    /// Returns the number of values of a result.
    fn results(&self) -> usize {
        match self.is_onesided && !self.is_inverse {
            true => self.length / 2 + 1,
            false => self.length,
        }
    }

    /// Returns the number of parts of each value: the inverse of a one-sided transform is real.
    fn parts(&self) -> usize {
        if self.is_onesided && self.is_inverse { 1 } else { 2 }
    }

    /// Transforms a signal, which is cut or padded with 0 to the length, and writes the parts of each value.
    fn run(&self, signal: impl Iterator<Item = Complex64>, made: &mut [f64]) {
        let mut values: Vec<Complex64> = signal.take(self.length).collect();
        values.resize(self.length, Complex64::default());
        if self.parts() == 1 {
            let half = self.length / 2 + 1;
            let mirrored: Vec<Complex64> =
                values.iter().take(half).skip(1).map(Complex64::conj).collect();
            for (slot, mirrored) in values.iter_mut().skip(half).rev().zip(mirrored) {
                *slot = mirrored;
            }
        }
        self.fft.process(&mut values);
        let scale = if self.is_inverse { 1.0 / self.length as f64 } else { 1.0 };
        for (slots, value) in made.chunks_exact_mut(self.parts()).zip(values) {
            let parts = [value.re * scale, value.im * scale];
            slots.iter_mut().zip(parts).for_each(|(slot, part)| *slot = part);
        }
    }
}

/// Reads a value of a real part, and perhaps an imaginary one.
fn complex(parts: &[f64]) -> Complex64 {
    match parts {
        [real, imaginary] => Complex64::new(*real, *imaginary),
        _ => Complex64::from(parts.iter().sum::<f64>()),
    }
}

fn transform(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let shape = x.shape();
    let at = match call.maybe_int("axis") {
        Some(at) => at,
        None => call.long(2, -2)?,
    };
    let at = axis(at, shape.len())?;
    let last = shape.len().saturating_sub(1);
    let parts = dim_at(&shape, last)?;
    if at == last || !matches!(parts, 1 | 2) {
        return Err(format!("{shape:?} has no complex numbers along axis {at}").into());
    }
    let flag = |name: &str| call.int(name, 0) != 0;
    let (is_inverse, is_onesided) = (flag("inverse"), flag("onesided"));
    let (_, dim, _) = around(&shape, at)?;
    let length = match call.optional(1) {
        Some(_) => count(call.long(1, 0)?)?,
        None if is_inverse && is_onesided => 2 * dim.saturating_sub(1),
        None => dim,
    };
    let plan = Transform::new(length, is_inverse, is_onesided)?;
    let mut dims = shape.clone();
    *at_mut(&mut dims, at)? = plan.results();
    *at_mut(&mut dims, last)? = plan.parts();
    if bounded(&dims)? == 0 || shape.contains(&0) {
        return one(Dense::filled(0.0, x.dtype(), &dims)?);
    }
    // The axis last, beside the parts.
    let mut order: Vec<usize> =
        (0..shape.len()).filter(|place| ![at, last].contains(place)).collect();
    order.extend([at, last]);
    let source = x.permuted(&order)?.to_doubles()?;
    let each = plan.results() * plan.parts();
    let mut made = vec![0.0; source.len() / (dim * parts) * each];
    made.par_chunks_exact_mut(each)
        .zip(source.par_chunks_exact(dim * parts))
        .for_each(|(made, row)| plan.run(row.chunks_exact(parts).map(complex), made));
    let turned = order.iter().map(|place| dim_at(&dims, *place)).collect::<Outcome<Vec<_>>>()?;
    let mut back = vec![0; order.len()];
    for (place, from) in order.iter().enumerate() {
        *at_mut(&mut back, *from)? = place;
    }
    one(Dense::from_vec(made, turned)?.permuted(&back)?.cast_to(x.dtype())?)
}

/// Transforms frames of a signal, each times a window: [batch, frames, values, 2].
fn short_transform(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let (batch, signal, parts) = match *x.shape().as_slice() {
        [batch, signal] => (batch, signal, 1),
        [batch, signal, parts @ (1 | 2)] => (batch, signal, parts),
        _ => return Err(format!("expected signals, found {:?}", x.shape()).into()),
    };
    let step = count(call.long(1, 1)?)?;
    let window = call.optional(2).map(Dense::to_doubles).transpose()?;
    let length = match (call.optional(3), &window) {
        (Some(_), _) => count(call.long(3, 0)?)?,
        (None, Some(window)) => window.len(),
        (None, None) => signal,
    };
    if step == 0 || window.as_ref().is_some_and(|window| window.len() != length) {
        return Err(format!("invalid frames of {length} values by steps of {step}").into());
    }
    let plan = Transform::new(length, false, call.int("onesided", 1) != 0)?;
    let frames = if signal < length { 0 } else { (signal - length) / step + 1 };
    let dims = [batch, frames, plan.results(), 2];
    if bounded(&dims)? == 0 {
        return one(Dense::filled(0.0, x.dtype(), &dims)?);
    }
    let source = x.to_doubles()?;
    let factors: Vec<f64> = window.unwrap_or_else(|| vec![1.0; length]);
    let mut made = vec![0.0; bounded(&dims)?];
    let each = plan.results() * 2;
    made.par_chunks_exact_mut(each).enumerate().for_each(|(number, made)| {
        let begin = (number / frames * signal + number % frames * step) * parts;
        let frame = source.get(begin..begin + length * parts).unwrap_or_default();
        let values = frame.chunks_exact(parts).zip(&factors);
        plan.run(values.map(|(value, factor)| complex(value) * factor), made);
    });
    one(Dense::numbers(made, x.dtype(), &dims)?)
}

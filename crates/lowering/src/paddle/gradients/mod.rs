//! Gradient operators: the gradients of inputs, given those of outputs.
//!
//! The gradient operator of `relu` is `relu_grad`; the gradient of the output `Out` is its input `Out@GRAD`, that of the
//! input `X` its output `X@GRAD`. It has the attributes of the forward operator, and reads those of its inputs and outputs
//! that it needs. A gradient that is not requested is not computed.
//!
//! The gradient of an operator that moves elements applies the operator's own rule to element indices, and scatters
//! gradients back by the result.
//!
//! Source of truth: the kernels of PaddlePaddle 2.6.2, and results that they gave.

mod activations;
mod conv;
mod elementwise;
mod indexing;
mod linear;
mod loss;
mod normalize;
mod pool;
mod reduce;
mod reshape;
mod sequences;
mod vision;

use lodstone_model::Dim;
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;
use crate::rules::{Family, families};

/// Families of rules, each a file.
pub(super) const FAMILIES: &[Family<Rule>] = families!["gradients::"; activations, conv, elementwise, indexing, linear, loss, normalize, pool, reduce, reshape, sequences, vision];

impl Operator<'_> {
    /// Returns the gradient of an output.
    fn gradient(&self, slot: &str) -> Outcome<Value> {
        self.input(&format!("{slot}@GRAD"))
    }

    /// Whether the gradient of an input is requested.
    fn wants_gradient(&self, slot: &str) -> bool {
        self.wants(&format!("{slot}@GRAD"))
    }

    /// Sets the gradient of an input.
    fn put_gradient(&mut self, slot: &str, value: &Value) -> Outcome {
        self.put(&format!("{slot}@GRAD"), value)
    }

    /// Sums a gradient over the dims that were broadcast from a tensor of the dims of `like`.
    fn gathered(&mut self, value: &Value, like: &Value) -> Outcome<Value> {
        if value.shape()? == like.shape()? && !value.shape()?.contains(&Dim::Unknown) {
            return Ok(value.clone());
        }
        let (dims, wanted) = (value.dims()?, like.dims()?);
        let more = dims.len().checked_sub(wanted.len());
        let more = more
            .ok_or_else(|| format!("expected dims that {wanted:?} broadcast to, found {dims:?}"))?;
        let pairs = dims.iter().skip(more).zip(&wanted);
        let spread = (0_i64..).zip(pairs).filter(|(_, (dim, wanted))| dim != wanted);
        let ahead = length(more);
        let axes: Vec<i64> = (0..ahead).chain(spread.map(|(axis, _)| axis + ahead)).collect();
        let sum = if axes.is_empty() {
            value.clone()
        } else {
            self.reduce("ReduceSum", value, &axes, true)?
        };
        self.reshape(&sum, &wanted)
    }

    /// Keeps elements where a condition holds, and 0 elsewhere.
    fn only(&mut self, condition: &Value, value: &Value) -> Outcome<Value> {
        let zero = self.number(value.dtype(), 0.0)?;
        self.choose(condition, value, &zero)
    }

    /// Keeps elements where a condition does not hold, and 0 elsewhere.
    fn except(&mut self, condition: &Value, value: &Value) -> Outcome<Value> {
        let zero = self.number(value.dtype(), 0.0)?;
        self.choose(condition, &zero, value)
    }

    /// Returns which elements are greater than a number.
    fn above(&mut self, value: &Value, number: f64) -> Outcome<Value> {
        let number = self.number(value.dtype(), number)?;
        self.call("Greater", &[value, &number], [])
    }

    /// Returns which elements are less than a number.
    fn below(&mut self, value: &Value, number: f64) -> Outcome<Value> {
        let number = self.number(value.dtype(), number)?;
        self.call("Less", &[value, &number], [])
    }

    /// Returns `1 - value`.
    fn one_less(&mut self, value: &Value) -> Outcome<Value> {
        let one = self.number(value.dtype(), 1.0)?;
        self.sub(&one, value)
    }

    /// Squares each element.
    fn squared(&mut self, value: &Value) -> Outcome<Value> {
        self.mul(value, value)
    }

    /// Adds elements at indices along an axis to a tensor of zeros.
    fn scattered(
        &mut self,
        like: &Value,
        places: &Value,
        values: &Value,
        axis: i64,
    ) -> Outcome<Value> {
        let zeros = self.constant_like(like, like.dtype(), 0.0)?;
        self.put_elements(&zeros, places, values, axis, "add")
    }
}

/// The gradient of an operator that moves elements, and may insert zeros: moves the indices of the elements forward, and
/// adds each result to the position that it came from.
fn moved(op: &mut Operator<'_>, forward: Rule, slot: &'static str, out: &str) -> Outcome {
    let (x, given) = (op.input(slot)?, op.gradient(out)?);
    let dims = x.dims()?;
    let count = dims.iter().try_fold(1_i64, |all, dim| all.checked_mul(*dim));
    let count = count.and_then(|count| count.checked_add(1)).ok_or("the input is too large")?;
    // Indices start at 1: 0 marks inserted zeros.
    let (first, end, step) = (op.long(1), op.long(count), op.long(1));
    let numbers = op.call("Range", &[&first, &end, &step], [])?;
    let numbers = op.reshape(&numbers, &dims)?;
    let places = op.follow(forward, slot, &numbers)?;
    let places = places.first().ok_or_else(|| Finding::internal("a rule has no output"))?;
    let (places, given) = (op.reshape(places, &[-1])?, op.reshape(&given, &[-1])?);
    let all = op.filled(given.dtype(), 0.0, &[count])?;
    let sums = op.scattered(&all, &places, &given, 0)?;
    let sums = op.slice(&sums, 0, 1, count)?;
    let y = op.reshape(&sums, &dims)?;
    op.put_gradient(slot, &y)
}

//! Kernels: what operators of ONNX compute, a family a file.
//!
//! A kernel may rely on what the rule of its operator has checked (`lodstone_schema::onnx::infer`, asked with
//! the extents that are there): kinds, element types, ranks, and that extents fit. What depends on elements, as
//! numbers of rows do, it checks itself.

mod activation;
mod arithmetic;
mod arrange;
mod elementwise;
mod generate;
#[cfg(test)]
mod hostile;
mod indexing;
mod integers;
mod linear;
mod loss;
mod normalize;
mod pad;
mod pieces;
mod planes;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod scatter;
mod select;
mod tensor;
#[cfg(test)]
mod tests;
mod vision;
mod windows;

pub(crate) use tensor::converted;

use burn_backend::Backend;
use lodstone_model::{AttributeValue, Op};
use lodstone_schema::Finding;

use crate::item::{Item, Outcome};

/// What an operator computes.
pub(crate) type Run<B> = fn(&Call<'_, B>) -> Outcome<Vec<Item<B>>>;

/// The kernel of an operator, by its set and its kind.
pub(crate) fn kernel<B: Backend>(domain: &str, kind: &str) -> Option<Run<B>> {
    if !domain.is_empty() {
        return None;
    }
    activation::kernel(kind)
        .or_else(|| arrange::kernel(kind))
        .or_else(|| elementwise::kernel(kind))
        .or_else(|| generate::kernel(kind))
        .or_else(|| indexing::kernel(kind))
        .or_else(|| linear::kernel(kind))
        .or_else(|| loss::kernel(kind))
        .or_else(|| normalize::kernel(kind))
        .or_else(|| pad::kernel(kind))
        .or_else(|| pieces::kernel(kind))
        .or_else(|| pool::kernel(kind))
        .or_else(|| quantize::kernel(kind))
        .or_else(|| recurrent::kernel(kind))
        .or_else(|| reduce::kernel(kind))
        .or_else(|| resize::kernel(kind))
        .or_else(|| scatter::kernel(kind))
        .or_else(|| select::kernel(kind))
        .or_else(|| vision::kernel(kind))
        .or_else(|| windows::kernel(kind))
}

/// An operator and what it is given.
pub(crate) struct Call<'a, B: Backend> {
    pub(crate) op: &'a Op,
    pub(crate) inputs: Vec<Option<Item<B>>>,
}

impl<B: Backend> Call<'_, B> {
    /// An input that may be left out.
    pub(crate) fn optional(&self, number: usize) -> Option<&Item<B>> {
        self.inputs.get(number)?.as_ref()
    }

    /// An input.
    pub(crate) fn input(&self, number: usize) -> Outcome<&Item<B>> {
        self.optional(number)
            .ok_or_else(|| Finding::from(format!("it has no input {number}")).about_input(number))
    }

    /// All inputs that are there.
    pub(crate) fn all(&self) -> Vec<Item<B>> {
        self.inputs.iter().flatten().cloned().collect()
    }

    /// An input that is a list of integers.
    pub(crate) fn longs(&self, number: usize) -> Outcome<Option<Vec<i64>>> {
        self.optional(number).map(Item::to_longs).transpose()
    }

    /// An input that is a list of integers, and has to be there.
    pub(crate) fn list(&self, number: usize) -> Outcome<Vec<i64>> {
        self.input(number)?.to_longs()
    }

    /// How many outputs are asked for.
    pub(crate) fn outputs(&self) -> usize {
        self.op.outputs.first().map_or(1, |operand| operand.args.len())
    }

    /// An attribute that is an integer, or what it is otherwise.
    pub(crate) fn int(&self, name: &str, otherwise: i64) -> i64 {
        match self.op.attribute(name) {
            Some(AttributeValue::Long(value)) => *value,
            _ => otherwise,
        }
    }

    /// An attribute that is an integer, if it is there.
    pub(crate) fn maybe_int(&self, name: &str) -> Option<i64> {
        match self.op.attribute(name) {
            Some(AttributeValue::Long(value)) => Some(*value),
            _ => None,
        }
    }

    /// An attribute that is a number, or what it is otherwise.
    pub(crate) fn float(&self, name: &str, otherwise: f32) -> f32 {
        match self.op.attribute(name) {
            Some(AttributeValue::Float(value)) => *value,
            _ => otherwise,
        }
    }

    /// An attribute that is a list of integers.
    pub(crate) fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.op.attribute(name) {
            Some(AttributeValue::Longs(values)) => Some(values),
            _ => None,
        }
    }

    /// An attribute that is a list of numbers.
    pub(crate) fn floats(&self, name: &str) -> &[f32] {
        match self.op.attribute(name) {
            Some(AttributeValue::Floats(values)) => values,
            _ => &[],
        }
    }

    /// An attribute that is a list of texts.
    pub(crate) fn texts(&self, name: &str) -> Option<Vec<String>> {
        match self.op.attribute(name) {
            Some(AttributeValue::Strings(values)) => {
                Some(values.iter().map(ToString::to_string).collect())
            }
            _ => None,
        }
    }

    /// An attribute that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.op.attribute(name) {
            Some(AttributeValue::String(value)) => Some(value.to_string()),
            _ => None,
        }
    }
}

/// An axis, of which negative ones count from the end.
pub(crate) fn axis(axis: i64, rank: usize) -> Outcome<usize> {
    let whole = tensor::long(rank);
    let place = if axis < 0 { axis.saturating_add(whole) } else { axis };
    usize::try_from(place)
        .ok()
        .filter(|place| *place < rank)
        .ok_or_else(|| format!("expected one of {rank} extents, found {axis}").into())
}

/// The extent at a place of a shape that has one there.
pub(crate) fn extent(shape: &[usize], at: usize) -> Outcome<usize> {
    let extent = shape.get(at).copied();
    extent.ok_or_else(|| Finding::internal(format!("{shape:?} has no extent {at}")))
}

/// An integer that is a number of elements.
pub(crate) fn count(number: i64) -> Outcome<usize> {
    usize::try_from(number)
        .map_err(|_| format!("expected a number of elements, found {number}").into())
}

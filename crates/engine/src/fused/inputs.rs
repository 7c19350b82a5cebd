//! The inputs of a chain.

use std::iter::repeat_n;
use std::ops::Range;

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::rules::{Class, truth};
use crate::dims::{Dims, dim_at};
use crate::error::Outcome;
use crate::layout::{Floats, ordered};
use crate::tensor::{Dense, Elements, Order, elements};

/// An input of a chain, whose elements are in the order of the results.
pub(super) enum Input {
    Numbers(Floats),
    Truths(Elements<u8>),
    /// One value for all elements.
    Scalar(f32),
    /// A tensor that is broadcast: each dim of the results, outermost in memory first, with the distance in elements
    /// between its successive indices.
    Broadcast(Floats, Vec<(usize, usize)>),
    /// The results of the operator before the chain, which are in place.
    Produced,
}

impl Input {
    /// Reads a tensor for results of the given dims, in their order.
    pub(super) fn of(
        value: &Dense,
        class: Class,
        dims: &[usize],
        order: Order,
    ) -> Outcome<Option<Self>> {
        if value.count() == 1 {
            let one = match class {
                Class::Number | Class::Limit => ordered(value, Order::RowMajor)?.first().copied(),
                Class::Truth => value.to_f64()?.first().map(|one| truth(*one != 0.0)),
            };
            return Ok(one.map(Self::Scalar));
        }
        Ok(match class {
            Class::Limit => None,
            Class::Number if value.dims() == dims => Some(Self::Numbers(ordered(value, order)?)),
            Class::Number => {
                let own = Order::RowMajor.strides(value.dims());
                let skipped = dims.len() - value.dims().len();
                let step = |(dim, step): (&usize, &isize)| {
                    if *dim > 1 { step.unsigned_abs() } else { 0 }
                };
                let steps = repeat_n(0, skipped).chain(value.dims().iter().zip(&own).map(step));
                let steps: Dims = steps.collect();
                let sides = order.axes(dims.len()).zip(order.dims(dims));
                let sides = sides.map(|(at, dim)| Ok((dim, dim_at(&steps, at)?)));
                let sides = sides.collect::<Outcome<_>>()?;
                Some(Self::Broadcast(ordered(value, Order::RowMajor)?, sides))
            }
            Class::Truth => {
                let is_plain = value.dims() == dims && Order::RowMajor.is_of(value);
                match is_plain && order == Order::RowMajor && value.dtype() == DType::Bool {
                    true => Some(Self::Truths(elements(value, order)?)),
                    false => None,
                }
            }
        })
    }

    /// Copies a block into the scratch space, unless it can be read in place.
    pub(super) fn fill(&self, range: &Range<usize>, into: &mut Vec<f32>) -> Outcome<()> {
        match self {
            Self::Numbers(_) | Self::Produced => {}
            Self::Truths(truths) => {
                into.clear();
                let truths = truths.get(range.clone());
                let truths = truths.ok_or_else(|| {
                    Finding::internal("an input of a chain is too short for a block")
                })?;
                into.extend(truths.iter().map(|truth| f32::from(*truth)));
            }
            // What is produced from the block before is the same value.
            Self::Scalar(value) => into.resize(range.len(), *value),
            Self::Broadcast(numbers, sides) => {
                into.clear();
                broadcast(numbers, sides, range, into);
            }
        }
        Ok(())
    }
}

/// Appends the elements of a tensor that is broadcast: each dim of the results with the distance of its indices. Fewer are
/// appended if the tensor is too short, which a chain reports.
fn broadcast(numbers: &[f32], sides: &[(usize, usize)], range: &Range<usize>, into: &mut Vec<f32>) {
    let Some(((inner, step), outer)) = sides.split_last() else { return };
    let mut at = range.start;
    while at < range.end {
        let (mut line, column) = (at / inner, at % inner);
        let mut begin = column * step;
        for (dim, step) in outer.iter().rev() {
            begin += line % dim * step;
            line /= dim;
        }
        let run = (inner - column).min(range.end - at);
        match step {
            0 => into.extend(numbers.get(begin).into_iter().flat_map(|it| repeat_n(it, run))),
            1 => into.extend_from_slice(numbers.get(begin..begin + run).unwrap_or_default()),
            _ => {
                let from = numbers.get(begin..).unwrap_or_default().iter();
                into.extend(from.step_by(*step).take(run));
            }
        }
        at += run;
    }
}

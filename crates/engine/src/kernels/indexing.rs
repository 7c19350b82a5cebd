//! Indexing.

use crate::call::{Call, Outputs, one};
use crate::dims::{around, axis, dim_at, long};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Gather", gather).shares().moves(),
    Operator::dense("GatherElements", gather_elements).working(0, 16).moves(),
];

/// Returns indices into a dim; negative ones count from the end.
pub(super) fn places(numbers: &Dense, dim: usize) -> Outcome<Vec<i64>> {
    let whole = long(dim);
    let mut places = numbers.to_longs()?;
    for place in &mut places {
        if !(-whole..whole).contains(place) {
            return Err(format!("index {place} is out of range for dim {dim}").into());
        }
        if *place < 0 {
            *place += whole;
        }
    }
    Ok(places)
}

fn gather(call: &Call<'_>) -> Outputs {
    let (x, numbers) = (call.input(0)?.clone(), call.input(1)?);
    let shape = x.shape();
    let at = axis(call.int("axis", 0), shape.len())?;
    let (front, dim, back) = around(&shape, at)?;
    let places = places(numbers, dim)?;
    let whole = [front, &numbers.shape(), back].concat();
    let made = x.selected(at, &places)?;
    one(made.reshaped(whole)?)
}

fn gather_elements(call: &Call<'_>) -> Outputs {
    let (x, numbers) = (call.input(0)?, call.input(1)?);
    let shape = x.shape();
    let at = axis(call.int("axis", 0), shape.len())?;
    let places = places(numbers, dim_at(&shape, at)?)?;
    let over = numbers.shape();
    check_inside(&over, &shape, at)?;
    if over.contains(&0) {
        return one(x.zeros(&over)?);
    }
    one(x.gathered_along(at, &places, &over)?)
}

/// Returns whether the dims of indices are within the dims of the data, except along the indexed axis.
pub(super) fn check_inside(over: &[usize], shape: &[usize], at: usize) -> Outcome<()> {
    let mut sides = over.iter().zip(shape).enumerate();
    match over.len() == shape.len() && sides.all(|(side, (one, dim))| side == at || one <= dim) {
        true => Ok(()),
        false => Err(format!("indices of {over:?} exceed dims {shape:?}").into()),
    }
}

//! Elements by number.

use burn_backend::Backend;

use super::{Call, Run, axis};
use crate::item::{Item, Outcome};

type One<B> = Outcome<Vec<Item<B>>>;

pub(super) fn kernel<B: Backend>(kind: &str) -> Option<Run<B>> {
    Some(match kind {
        "Gather" => gather,
        "GatherElements" => gather_elements,
        _ => return None,
    })
}

/// Numbers of elements of an extent, of which negative ones count from the end.
pub(super) fn places<B: Backend>(numbers: &Item<B>, dim: usize) -> Outcome<Vec<i64>> {
    let whole = i64::try_from(dim).unwrap_or(i64::MAX);
    let mut places = numbers.to_longs()?;
    for place in &mut places {
        if !(-whole..whole).contains(place) {
            return Err(format!("expected a number below {dim}, found {place}"));
        }
        if *place < 0 {
            *place += whole;
        }
    }
    Ok(places)
}

fn gather<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let (x, numbers) = (call.input(0)?.clone(), call.input(1)?);
    let shape = x.shape();
    let at = axis(call.int("axis", 0), shape.len())?;
    let places = places(numbers, shape.get(at).copied().unwrap_or(0))?;
    let front = shape.get(..at).unwrap_or_default();
    let back = shape.get(at + 1..).unwrap_or_default();
    let whole = [front, &numbers.shape(), back].concat();
    let list = Item::<B>::longs(&places).int()?;
    let made = match x {
        Item::Float(x) => Item::Float(B::float_select(x, at, list)),
        Item::Int(x) => Item::Int(B::int_select(x, at, list)),
        Item::Bool(x) => Item::Bool(B::bool_select(x, at, list)),
    };
    Ok(vec![made.reshaped(whole)])
}

fn gather_elements<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let (x, numbers) = (call.input(0)?.clone(), call.input(1)?);
    let shape = x.shape();
    let at = axis(call.int("axis", 0), shape.len())?;
    let places = places(numbers, shape.get(at).copied().unwrap_or(0))?;
    let list = Item::<B>::longs(&places).reshaped(numbers.shape()).int()?;
    Ok(vec![match x {
        Item::Float(x) => Item::Float(B::float_gather(at, x, list)),
        Item::Int(x) => Item::Int(B::int_gather(at, x, list)),
        Item::Bool(x) => Item::Bool(B::bool_gather(at, x, list)),
    }])
}

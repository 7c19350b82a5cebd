//! Updates of caches, for elements of any type.

use lodstone_model::{AttributeValue, Op};
use lodstone_schema::Finding;

use super::sequence::{attribute, value};
use crate::budget::Memory;
use crate::call::Outputs;
use crate::dims::{around, axis, long};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;
use crate::value::Value;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[Operator::values("TensorScatter", scatter)];

/// Writes an update into the cache of each example, from the given index of an axis on.
fn scatter(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let (cache, update) = (value(inputs, 0)?.dense()?, value(inputs, 1)?.dense()?);
    let dims = cache.dims();
    let at = axis(attribute(op, "axis", -2), dims.len())?;
    let (before, length, behind) = around(dims, at)?;
    let (front, new, back) = around(update.dims(), at)?;
    let (Some(&batch), true) = (before.first(), (front, back) == (before, behind)) else {
        return Err(format!("update {:?} does not fit cache {dims:?}", update.dims()).into());
    };
    let bits = cache.dtype().bits().filter(|bits| bits.is_multiple_of(8));
    let Some(bits) = bits.filter(|_| cache.dtype() == update.dtype() && new <= length) else {
        return Err(format!("update {update:?} does not fit cache {cache:?}").into());
    };
    let is_circular = match op.attribute("mode") {
        Some(AttributeValue::String(mode)) => mode.to_string() == "circular",
        _ => false,
    };
    let starts = match inputs.get(2).and_then(Option::as_ref) {
        Some(starts) => starts.dense()?.to_longs()?,
        None => vec![0; batch],
    };
    if starts.len() != batch {
        return Err(Finding::from(format!("expected {batch} indices")).about_input(2));
    }
    let row = behind.iter().product::<usize>() * (bits as usize / 8);
    let _copies = memory.reserve(cache.nbytes().saturating_add(update.nbytes()))?;
    let (mut bytes, source) = (cache.bytes()?.to_vec(), update.bytes()?);
    if bytes.is_empty() || source.is_empty() {
        return Ok(vec![cache.clone().into()]);
    }
    let each = before.iter().skip(1).product::<usize>().max(1);
    let planes = bytes.chunks_exact_mut(length * row).zip(source.chunks_exact(new * row));
    for (plane, (old, rows)) in planes.enumerate() {
        let start = lodstone_schema::places::at(&starts, plane / each)?;
        for (step, line) in (0_i64..).zip(rows.chunks_exact(row)) {
            let place = place(start.saturating_add(step), length, is_circular)?;
            if let Some(slot) = old.get_mut(place * row..(place + 1) * row) {
                slot.copy_from_slice(line);
            }
        }
    }
    Ok(vec![Dense::new(cache.dtype(), dims, bytes.into())?.into()])
}

/// Returns the row that an index writes to.
fn place(index: i64, length: usize, is_circular: bool) -> Outcome<usize> {
    let whole = long(length).max(1);
    let place = if is_circular { index.rem_euclid(whole) } else { index };
    let known = usize::try_from(place).ok().filter(|place| *place < length);
    known.ok_or_else(|| {
        Finding::from(format!("index {index} is out of range for {length} rows")).about_input(2)
    })
}

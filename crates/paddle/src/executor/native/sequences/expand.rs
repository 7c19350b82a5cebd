//! `sequence_expand`: repeats rows, or sequences of rows, as often as the sequences of another variable are long.

use std::ops::Range;

use lodstone_model::{Lod, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;
use lodstone_store::Blob;

use super::super::{Outcome, input, output};
use super::{add, int, made, numbers, width, zeros};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;
use crate::executor::value::rows;

/// Returns the rows that are repeated together, and the number of repeats.
fn repeated(x: &Tensor, y: &Tensor, op: &Op) -> Outcome<Vec<(Range<usize>, u64)>> {
    let level = match usize::try_from(int(op, "ref_level", -1)) {
        Ok(level) => y.lod.0.get(level),
        Err(_) => y.lod.0.last(),
    };
    let counts = level.ok_or("the LoD of `Y` does not have this level")?;
    let own: Vec<Range<usize>> = match x.lod.0.as_slice() {
        [] => (0..exact(rows(x))?).map(|row| row..row + 1).collect(),
        [one] => {
            let own = one.iter().zip(one.iter().skip(1));
            own.map(|(a, b)| Ok(exact(*a)?..exact(*b)?)).collect::<Result<_, Finding>>()?
        }
        _ => return Err("expected at most one level of LoD".into()),
    };
    let pairs = counts.iter().zip(counts.iter().skip(1));
    let times: Option<Vec<u64>> = pairs.map(|(a, b)| b.checked_sub(*a)).collect();
    let times = times.ok_or("the LoD of `Y` is not ascending")?;
    if own.len() != times.len() {
        let (found, wanted) = (own.len(), times.len());
        return Err(format!("expected {wanted} sequences to repeat, found {found}").into());
    }
    Ok(own.into_iter().zip(times).collect())
}

pub(super) fn expand(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let x = frame.tensor(input(step, "X")?)?;
    let y = frame.tensor(input(step, "Y")?)?;
    let bits = x.dtype.bits().ok_or("the elements have no size")?;
    let size = width(x)? * bits.div_ceil(8) as usize;
    let bytes = x.data.bytes()?;
    let (mut made, mut count, mut offsets) = (Vec::new(), 0_u64, vec![0_u64]);
    for (range, times) in repeated(x, y, op)? {
        let piece = bytes.get(range.start * size..range.end * size);
        let piece = piece.ok_or("there are fewer rows than in the LoD")?;
        // Repeats of an empty sequence have offsets.
        frame.reserve((piece.len() as u64 + 8).saturating_mul(times))?;
        for _ in 0..times {
            made.extend_from_slice(piece);
            count += range.len() as u64;
            offsets.push(count);
        }
    }
    let shape = std::iter::once(count).chain(x.shape.iter().skip(1).copied()).collect();
    let mut tensor = Tensor::dense(x.dtype, shape, Blob::memory(made));
    if !x.lod.is_empty() {
        tensor.lod = Lod(vec![offsets]);
    }
    Ok(frame.make(output(step, "Out")?, tensor)?)
}

/// The gradients of all repeats are summed.
pub(super) fn gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let x = frame.tensor(input(step, "X")?)?;
    let repeated = repeated(x, frame.tensor(input(step, "Y")?)?, op)?;
    let width = width(x)?;
    let mut rows = 0_usize;
    for (range, times) in &repeated {
        rows = rows.saturating_add(exact::<usize, _>(*times)?.saturating_mul(range.len()));
    }
    let given = numbers(frame, step, "Out@GRAD", rows.saturating_mul(width))?;
    let count = exact(x.shape.iter().product::<u64>())?;
    let mut values = zeros(frame, count)?;
    let mut rest = given.as_slice();
    for (range, times) in repeated {
        let sums = values.get_mut(range.start * width..range.end * width);
        let sums = sums.ok_or("there are fewer rows than in the LoD")?;
        if sums.is_empty() {
            continue;
        }
        for _ in 0..times {
            add(sums, rest);
            let more = rest.get(sums.len()..);
            rest = more.ok_or_else(|| Finding::internal("a repeat has no gradient"))?;
        }
    }
    let made = made(values, x.shape.clone(), x.lod.clone());
    Ok(frame.make(output(step, "X@GRAD")?, made)?)
}

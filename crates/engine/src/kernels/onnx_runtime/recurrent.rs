//! An LSTM with quantized weights, whose input and state are quantized by their range in each step.

use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::call::{Call, Outputs};
use crate::dims::{count, dim_at};
use crate::error::Outcome;
use crate::kernels::quantize::by_range;
use crate::kernels::recurrent;
use crate::operator::{Operator, RUNTIME};
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] =
    &[Operator::dense("DynamicQuantizeLSTM", lstm).domain(RUNTIME)];

/// Returns weights for the kernel: [directions, inputs, gates * hidden] to [directions, gates * hidden, inputs].
fn weights(call: &Call<'_>, number: usize, scale: usize) -> Outcome<Dense> {
    let packed = call.input(number)?.cast_to(DType::Float32)?;
    if packed.shape().len() != 3 {
        return Err(format!("expected weights of 3 dims, found {:?}", packed.shape()).into());
    }
    // [directions], or [directions, gates * hidden]
    let part = |number: usize| -> Outcome<Dense> {
        let part = call.input(number)?.cast_to(DType::Float32)?;
        let dims = match *part.shape().as_slice() {
            [directions] => vec![directions, 1, 1],
            [directions, columns] => vec![directions, 1, columns],
            _ => return Err(format!("unexpected dims of a scale: {:?}", part.shape()).into()),
        };
        part.reshaped(dims)?.fitted(&packed.shape())
    };
    packed.minus(&part(scale + 1)?)?.times(&part(scale)?)?.permuted(&[0, 2, 1])
}

/// Checks the ranks that the kernel relies on.
fn check(call: &Call<'_>) -> Outcome<()> {
    for (number, rank) in [(0, 3), (1, 3), (2, 3), (3, 2), (4, 1), (5, 3), (6, 3), (7, 2)] {
        let found = call.optional(number).map_or(rank, |item| item.shape().len());
        if found != rank {
            let wrong = format!("expected {rank} dims, found {found}");
            return Err(Finding::from(wrong).about_input(number));
        }
    }
    let (x, inputs) = (call.input(0)?.shape(), call.input(1)?.shape());
    let (directions, state) = (inputs.first(), call.input(2)?.shape());
    let expected = call.optional(3).map(Dense::shape);
    let columns = dim_at(&state, 2)?;
    let fits = x.get(2) == inputs.get(1)
        && directions == state.first()
        && state.get(1).and_then(|hidden| hidden.checked_mul(4)) == Some(columns)
        && inputs.get(2) == Some(&columns)
        && expected
            .is_none_or(|bias| directions == bias.first() && bias.get(1) == Some(&(columns * 2)));
    match fits && directions.is_some_and(|directions| [1, 2].contains(directions)) {
        true => Ok(()),
        false => Err(format!("weights {inputs:?} and {state:?} do not fit {x:?}").into()),
    }
}

fn lstm(call: &Call<'_>) -> Outputs {
    check(call)?;
    let x = call.input(0)?;
    let mut used = x.clone();
    // Steps behind the longest sequence are not part of the range.
    if let Some(lengths) = call.longs(4)? {
        let longest = count(lengths.iter().copied().fold(0, i64::max))?;
        if longest < dim_at(&x.shape(), 0)? && longest > 0 {
            used = used.cut(0, 0, longest)?;
        }
    }
    let (codes, scale) = by_range(&used)?;
    let mut steps = codes.scaled(scale.into())?;
    let (whole, found) = (dim_at(&x.shape(), 0)?, dim_at(&steps.shape(), 0)?);
    if found < whole {
        steps = Dense::joined(&[steps, x.cut(0, found, whole)?], 0)?;
    }
    let mut inputs = vec![Some(steps), Some(weights(call, 1, 8)?), Some(weights(call, 2, 10)?)];
    inputs.extend((3..8).map(|number| call.optional(number).cloned()));
    recurrent::dynamic_lstm(&call.with(call.op, inputs))
}

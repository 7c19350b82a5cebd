//! Sequences in a batch: `[time, batch, ...]`, or `[batch, time, ...]` for `axis` 1.

use lodstone_model::DType;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, rank};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("SequenceLast", Rule::One(last)),
    ("SequenceMask", Rule::One(mask)),
    ("SequenceReverse", Rule::One(reverse)),
];

/// Returns the data, the lengths of the sequences if they are used, and the axis of time.
fn operands(node: &mut Node<'_>) -> Outcome<(Value, Option<Value>, i64)> {
    let x = node.input(0)?;
    let uses_length = node.attributes.flag("use_sequence_length", false)?;
    let axis = node.attributes.int("axis", 0)?;
    if !(0..=1).contains(&axis) || rank(&x)? < 2 {
        return Err(wrong("axis", "0 or 1 of data of at least rank 2", &axis.to_string()));
    }
    if !uses_length {
        node.at_most(2)?;
        return Ok((x, None, axis));
    }
    let [x, lengths] = node.exactly()?;
    let lengths = node.cast(&lengths, DType::Int64)?;
    Ok((x, Some(lengths), axis))
}

/// Sets the elements after the end of each sequence to a number.
fn mask(node: &mut Node<'_>) -> Outcome {
    let number = node.attributes.float("value", 0.0)?;
    let (x, lengths, axis) = operands(node)?;
    let Some(lengths) = lengths else { return Ok(x) };
    let count = node.extent(&x, axis)?;
    let places = node.counting(&count, DType::Int64)?;
    let rank = rank(&x)?;
    let places = node.along(&places, axis, rank)?;
    let lengths = node.along(&lengths, 1 - axis, rank)?;
    let is_inside = node.call("Less", &[&places, &lengths], [])?;
    let number = node.number(x.dtype(), number)?;
    node.choose(&is_inside, &x, &number)
}

fn last(node: &mut Node<'_>) -> Outcome {
    let (x, lengths, axis) = operands(node)?;
    let Some(lengths) = lengths else {
        let end = node.long(-1);
        return node.gather(&x, &end, axis);
    };
    let x = match axis {
        0 => {
            let order: Vec<i64> = [1, 0].into_iter().chain(2..rank(&x)?).collect();
            node.transpose(&x, &order)?
        }
        _ => x,
    };
    let ends = node.plus(&lengths, -1.0)?;
    let ends = node.unsqueeze(&ends, &[1])?;
    node.call("GatherND", &[&x, &ends], [int("batch_dims", 1)])
}

fn reverse(node: &mut Node<'_>) -> Outcome {
    let (x, lengths, axis) = operands(node)?;
    match lengths {
        None => node.reversed(&x, &[axis]),
        Some(lengths) => {
            let attributes = [int("time_axis", axis), int("batch_axis", 1 - axis)];
            node.call("ReverseSequence", &[&x, &lengths], attributes)
        }
    }
}

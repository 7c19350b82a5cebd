//! Gradients of operators that reshape, transpose, concatenate or repeat tensors.

use super::super::operator::{Operator, Outcome, Rule};
use crate::onnx::required::required_dim;
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("concat_grad", concat),
    ("expand_as_v2_grad", expand),
    ("expand_v2_grad", expand),
    ("flatten2_grad", shaped),
    ("flatten_contiguous_range_grad", shaped),
    ("flatten_grad", reshape),
    ("meshgrid_grad", mesh),
    ("reshape2_grad", shaped),
    ("reshape_grad", reshape),
    ("squeeze2_grad", shaped),
    ("squeeze_grad", reshape),
    ("stack_grad", stack),
    ("transpose2_grad", transpose),
    ("transpose_grad", transpose),
    ("unsqueeze2_grad", shaped),
    ("unsqueeze_grad", reshape),
    ("unstack_grad", unstack),
];

/// The dims of the input follow the 0 in `XShape`.
fn shaped(op: &mut Operator<'_>) -> Outcome {
    let (shape, given) = (op.input("XShape")?, op.gradient("Out")?);
    let dims = shape.dims()?;
    let [_, dims @ ..] = dims.as_slice() else {
        return Err("expected dims after a 0 as `XShape`, found none".into());
    };
    let y = op.reshape(&given, dims)?;
    op.put_gradient("X", &y)
}

fn reshape(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Out")?);
    let y = op.reshape_as(&given, &x)?;
    op.put_gradient("X", &y)
}

fn transpose(op: &mut Operator<'_>) -> Outcome {
    let given = op.gradient("Out")?;
    let axes = op.ints("axis")?;
    let axes = axes.iter().map(|axis| op.place(*axis, &given)).collect::<Outcome<Vec<_>>>()?;
    let mut back: Vec<(i64, i64)> = axes.into_iter().zip(0..).collect();
    back.sort_unstable();
    let order: Vec<i64> = back.into_iter().map(|(_, place)| place).collect();
    if order.len() != given.rank()? {
        return Err(
            format!("expected {} dims as `axis`, found {}", given.rank()?, order.len()).into()
        );
    }
    let y = op.transpose(&given, &order)?;
    op.put_gradient("X", &y)
}

fn concat(op: &mut Operator<'_>) -> Outcome {
    let (inputs, given) = (op.inputs("X")?, op.gradient("Out")?);
    let axis = op.axis("AxisTensor", "axis")?;
    let axis = op.place(axis, &given)?;
    let sizes = inputs.iter().map(|input| required_dim(input, axis));
    let sizes = sizes.collect::<Outcome<Vec<_>>>()?;
    let parts = op.longs(&sizes);
    let made = op.emit("Split", &[Some(&given), Some(&parts)], [int("axis", axis)], sizes.len())?;
    op.put_all("X@GRAD", &made)
}

fn stack(op: &mut Operator<'_>) -> Outcome {
    let (inputs, given, axis) = (op.inputs("X")?, op.gradient("Y")?, op.int("axis")?);
    let axis = op.place(axis, &given)?;
    let parts = op.longs(&vec![1; inputs.len()]);
    let made =
        op.emit("Split", &[Some(&given), Some(&parts)], [int("axis", axis)], inputs.len())?;
    let gone = op.longs(&[axis]);
    let part = |part: &Value| op.call("Squeeze", &[part, &gone], []);
    let made = made.iter().map(part).collect::<Outcome<Vec<_>>>()?;
    op.put_all("X@GRAD", &made)
}

fn unstack(op: &mut Operator<'_>) -> Outcome {
    let (parts, axis) = (op.inputs("Y@GRAD")?, op.int("axis")?);
    let one = |part: &Value| op.unsqueeze(part, &[axis]);
    let parts = parts.iter().map(one).collect::<Outcome<Vec<_>>>()?;
    let y = op.concat(&parts.iter().collect::<Vec<_>>(), axis)?;
    op.put_gradient("X", &y)
}

fn expand(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Out")?);
    let y = op.gathered(&given, &x)?;
    op.put_gradient("X", &y)
}

/// The gradient of each list is summed over the dims of the others.
fn mesh(op: &mut Operator<'_>) -> Outcome {
    let (lists, given) = (op.inputs("X")?, op.inputs("outputs@GRAD")?);
    let mut made = Vec::new();
    for ((axis, list), given) in (0_i64..).zip(&lists).zip(&given) {
        let others: Vec<i64> = given.rank()?.numbers().filter(|other| *other != axis).collect();
        let sums = match others.is_empty() {
            true => given.clone(),
            false => op.reduce("ReduceSum", given, &others, false)?,
        };
        made.push(op.reshape_as(&sums, list)?);
    }
    op.put_all("X@GRAD", &made)
}

//! Gradients of resizing: an input element gets the output gradients, weighted by its share in each output element.

use super::super::operator::{Operator, Outcome, Rule};
use super::super::vision::Resizing;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("bicubic_interp_v2_grad", |op| resize(op, "cubic", 2)),
    ("bilinear_interp_grad", |op| resize(op, "linear", 2)),
    ("bilinear_interp_v2_grad", |op| resize(op, "linear", 2)),
    ("linear_interp_v2_grad", |op| resize(op, "linear", 1)),
    ("nearest_interp_grad", |op| resize(op, "nearest", 2)),
    ("nearest_interp_v2_grad", |op| resize(op, "nearest", 2)),
    ("trilinear_interp_v2_grad", |op| resize(op, "linear", 3)),
];

/// The maximum number of elements of a dim: the weights are a matrix of output and input elements.
const MAX_ELEMENTS: i64 = 1 << 12;

fn resize(op: &mut Operator<'_>, mode: &str, spatial: usize) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Out")?);
    let layout = op.layout("data_layout")?;
    let (x, given) = (op.channels_first(&x, layout)?, op.channels_first(&given, layout)?);
    let resizing = Resizing::of(op, &x, mode, spatial)?;
    let (dims, found) = (x.dims()?, given.dims()?);
    if dims.iter().chain(&found).skip(2).any(|dim| *dim > MAX_ELEMENTS) {
        return Err(
            format!("expected at most {MAX_ELEMENTS} elements along a dim of an image").into()
        );
    }
    let mut y = given;
    for (size, dim) in dims.iter().skip(2).enumerate() {
        let shares = resizing.shares(op, size, *dim, y.dtype())?;
        // The dim is moved to the end.
        let mut order: Vec<i64> = (0..).take(dims.len()).collect();
        order.swap(size + 2, dims.len() - 1);
        let lines = op.transpose(&y, &order)?;
        let sums = op.call("MatMul", &[&lines, &shares], [])?;
        y = op.transpose(&sums, &order)?;
    }
    let y = op.in_layout(&y, layout)?;
    op.put_gradient("X", &y)
}

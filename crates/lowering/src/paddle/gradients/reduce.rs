//! Gradients of sums, means and extrema: the gradient of a result goes to all elements that it depends on.

use lodstone_model::DType;
use lodstone_schema::paddle::Release;

use super::super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("argsort_grad", |op| chosen(op, op.int("axis")?)),
    ("cumsum_grad", cumsum),
    ("logsumexp_grad", logsumexp),
    ("mean_grad", |op| {
        let (x, given) = (op.input("X")?, op.gradient("Out")?);
        let ones = vec![1; x.rank()?.count()];
        let given = op.reshape(&given, &ones)?;
        mean(op, &x, &given)
    }),
    ("p_norm_grad", p_norm),
    ("reduce_max_grad", extreme),
    ("reduce_mean_grad", |op| {
        let (x, given) = (op.input("X")?, op.gradient("Out")?);
        let given = kept(op, &x, &given, ["dim", "keep_dim"])?;
        mean(op, &x, &given)
    }),
    ("reduce_min_grad", extreme),
    ("reduce_prod_grad", |op| {
        let (x, out, given) = reduced(op)?;
        let product = op.mul(&given, &out)?;
        let y = op.div(&product, &x)?;
        op.put_gradient("X", &y)
    }),
    ("reduce_sum_grad", |op| {
        let (x, given) = (op.input("X")?, op.gradient("Out")?);
        let given = kept(op, &x, &given, ["dim", "keep_dim"])?;
        let y = spread(op, &given, &x)?;
        let y = op.cast(&y, x.dtype())?;
        op.put_gradient("X", &y)
    }),
    ("squared_l2_norm_grad", |op| {
        let (x, given) = (op.input("X")?, op.gradient("Out")?);
        let given = op.reshape(&given, &[])?;
        let product = op.mul(&x, &given)?;
        let y = op.times(&product, 2.0)?;
        op.put_gradient("X", &y)
    }),
    ("top_k_grad", |op| chosen(op, -1)),
    ("top_k_v2_grad", |op| chosen(op, op.int("axis")?)),
];

/// Broadcasts to the dims of another value.
pub(super) fn spread(op: &mut Operator<'_>, value: &Value, like: &Value) -> Outcome<Value> {
    match like.known_dims() {
        Some(dims) => op.expand(value, &dims),
        None => {
            let dims = op.call("Shape", &[like], [])?;
            op.call("Expand", &[value, &dims], [])
        }
    }
}

/// Restores the reduced dims of `x` as 1.
fn kept(op: &mut Operator<'_>, x: &Value, value: &Value, [dim, keep]: [&str; 2]) -> Outcome<Value> {
    let rank = x.rank()?;
    let dims = op.ints(dim)?;
    if op.flag("reduce_all")? || dims.is_empty() || dims.len() == rank {
        return op.reshape(value, &vec![1; rank.count()]);
    }
    if op.flag(keep)? {
        return Ok(value.clone());
    }
    let axes = dims.iter().map(|axis| op.place(*axis, x)).collect::<Outcome<Vec<_>>>()?;
    op.unsqueeze(value, &axes)
}

/// Returns the input, the output and the output gradient of a reduction, aligned for broadcasting.
fn reduced(op: &mut Operator<'_>) -> Outcome<(Value, Value, Value)> {
    let (x, out, given) = (op.input("X")?, op.input("Out")?, op.gradient("Out")?);
    let out = kept(op, &x, &out, ["dim", "keep_dim"])?;
    let given = kept(op, &x, &given, ["dim", "keep_dim"])?;
    Ok((x, out, given))
}

fn mean(op: &mut Operator<'_>, x: &Value, given: &Value) -> Outcome {
    let all = spread(op, given, x)?;
    let count = |op: &mut Operator<'_>, value: &Value| {
        let size = op.call("Size", &[value], [])?;
        op.cast(&size, x.dtype())
    };
    let (whole, rows) = (count(op, x)?, count(op, given)?);
    let each = op.div(&whole, &rows)?;
    let y = op.div(&all, &each)?;
    op.put_gradient("X", &y)
}

/// The elements that equal the extremum share its gradient, which is NaN if there are none; up to 3.0, each gets all of
/// it.
fn extreme(op: &mut Operator<'_>) -> Outcome {
    let (x, out, given) = reduced(op)?;
    let is_extreme = op.call("Equal", &[&x, &out], [])?;
    if op.is_older_than(Release::new(3, 1)) {
        let y = op.only(&is_extreme, &given)?;
        return op.put_gradient("X", &y);
    }
    let each = op.cast(&is_extreme, x.dtype())?;
    let rank = x.rank()?.number();
    let dims = op.ints("dim")?;
    let axes: Vec<i64> = match op.flag("reduce_all")? || dims.is_empty() {
        true => (0..rank).collect(),
        false => dims,
    };
    let count =
        if axes.is_empty() { each.clone() } else { op.reduce("ReduceSum", &each, &axes, true)? };
    let share = op.mul(&given, &each)?;
    let y = op.div(&share, &count)?;
    op.put_gradient("X", &y)
}

/// The gradient of elements that were selected by their indices along an axis.
fn chosen(op: &mut Operator<'_>, axis: i64) -> Outcome {
    let (x, places, given) = (op.input("X")?, op.input("Indices")?, op.gradient("Out")?);
    let places = op.cast(&places, DType::Int64)?;
    let y = match x.rank()?.count() {
        0 => op.reshape(&given, &[])?,
        _ => op.scattered(&x, &places, &given, axis)?,
    };
    op.put_gradient("X", &y)
}

/// The cumulative sum in the other direction.
fn cumsum(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Out")?);
    if x.known_dims().is_some_and(|dims| dims.iter().all(|dim| *dim == 1)) {
        let y = op.reshape_as(&given, &x)?;
        return op.put_gradient("X", &y);
    }
    let axis = if op.flag("flatten")? { 0 } else { op.int("axis")? };
    let axis = op.long(axis);
    let (exclusive, reverse) = (op.flag("exclusive")?, op.flag("reverse")?);
    let attributes = [int("exclusive", i64::from(exclusive)), int("reverse", i64::from(!reverse))];
    let sums = op.call("CumSum", &[&given, &axis], attributes)?;
    let y = op.reshape_as(&sums, &x)?;
    op.put_gradient("X", &y)
}

fn logsumexp(op: &mut Operator<'_>) -> Outcome {
    let (x, out, given) = (op.input("X")?, op.input("Out")?, op.gradient("Out")?);
    let out = kept(op, &x, &out, ["axis", "keepdim"])?;
    let given = kept(op, &x, &given, ["axis", "keepdim"])?;
    let rest = op.sub(&x, &out)?;
    let shares = op.call("Exp", &[&rest], [])?;
    let y = op.mul(&given, &shares)?;
    op.put_gradient("X", &y)
}

/// `sign(x) (|x| / y)^(porder - 1)`; for infinite orders, 1 where `|x|` is the extremum.
fn p_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, out, given) = (op.input("X")?, op.input("Out")?, op.gradient("Out")?);
    let order = op.float("porder")?;
    if order == 0.0 {
        let y = op.constant_like(&x, x.dtype(), 0.0)?;
        return op.put_gradient("X", &y);
    }
    let lined = |op: &mut Operator<'_>, value: &Value| {
        if op.flag("asvector")? {
            return op.reshape(value, &vec![1; x.rank()?.count()]);
        }
        if op.flag("keepdim")? {
            return Ok(value.clone());
        }
        let axis = op.place(op.int("axis")?, &x)?;
        op.unsqueeze(value, &[axis])
    };
    let (out, given) = (lined(op, &out)?, lined(op, &given)?);
    let (size, sign) = (op.call("Abs", &[&x], [])?, op.call("Sign", &[&x], [])?);
    let slope = if order.is_infinite() {
        let is_extreme = op.call("Equal", &[&size, &out], [])?;
        let is_extreme = op.cast(&is_extreme, x.dtype())?;
        // NaN propagates.
        op.mul(&is_extreme, &sign)?
    } else if order == 1.0 {
        sign
    } else {
        let share = op.div(&size, &out)?;
        let power = op.number(x.dtype(), f64::from(order) - 1.0)?;
        let power = op.call("Pow", &[&share, &power], [])?;
        let slope = op.mul(&sign, &power)?;
        let is_none = op.call("Equal", &[&out, &size], [])?;
        // A norm of 0 has gradient 0; the norm of a single element has its sign.
        op.choose(&is_none, &sign, &slope)?
    };
    let y = op.mul(&given, &slope)?;
    op.put_gradient("X", &y)
}

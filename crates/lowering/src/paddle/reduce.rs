//! Sums, means and extrema.

use lodstone_model::DType;
use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("arg_max", |op| arg(op, "ArgMax")),
    ("arg_min", |op| arg(op, "ArgMin")),
    ("argsort", sort),
    ("clip_by_norm", clip_by_norm),
    ("cumsum", cumsum),
    ("dist", dist),
    ("frobenius_norm", |op| reduce(op, "ReduceL2")),
    ("logsumexp", logsumexp),
    ("mean", mean),
    ("p_norm", p_norm),
    ("reduce_all", |op| truth(op, "ReduceMin")),
    ("reduce_amax", |op| reduce(op, "ReduceMax")),
    ("reduce_amin", |op| reduce(op, "ReduceMin")),
    ("reduce_any", |op| truth(op, "ReduceMax")),
    ("reduce_max", |op| reduce(op, "ReduceMax")),
    ("reduce_mean", |op| reduce(op, "ReduceMean")),
    ("reduce_min", |op| reduce(op, "ReduceMin")),
    ("reduce_prod", |op| reduce(op, "ReduceProd")),
    ("reduce_sum", |op| reduce(op, "ReduceSum")),
    ("size", size),
    ("squared_l2_norm", squared_norm),
    ("top_k", |op| top_k(op, false)),
    ("top_k_v2", |op| top_k(op, true)),
];

impl Operator<'_> {
    /// Returns the result of a full reduction: of rank 0, or up to 2.4 of shape [1].
    pub(super) fn scalar(&mut self, value: &Value) -> Outcome<Value> {
        match value.rank()? == 0 && self.is_older_than(Release::new(2, 5)) {
            true => self.reshape(value, &[1]),
            false => Ok(value.clone()),
        }
    }

    /// Replaces NaN by a number.
    pub(super) fn numbered(&mut self, value: &Value, number: f64) -> Outcome<Value> {
        if self.is_exported() {
            return Ok(value.clone());
        }
        let none = self.call("IsNaN", &[value], [])?;
        let number = self.number(value.dtype(), number)?;
        self.choose(&none, &number, value)
    }

    fn reduced(&mut self, kind: &str, x: &Value) -> Outcome<Value> {
        let (keep, dims) = (self.flag("keep_dim")?, self.ints("dim")?);
        self.reduced_over(kind, x, &dims, keep)
    }

    /// Reduces over dims; over all of them if `reduce_all` is set, or none or all are listed.
    fn reduced_over(&mut self, kind: &str, x: &Value, dims: &[i64], keep: bool) -> Outcome<Value> {
        let all = self.flag("reduce_all")? || dims.is_empty() || dims.len() == x.rank()?;
        let rank = x.rank()?.number();
        let axes: Vec<i64> = if all { (0..rank).collect() } else { dims.to_vec() };
        if axes.is_empty() {
            return Ok(x.clone());
        }
        let y = self.reduce(kind, x, &axes, keep)?;
        self.scalar(&y)
    }
}

fn reduce(op: &mut Operator<'_>, kind: &str) -> Outcome {
    let x = op.input("X")?;
    let to = op.attribute("out_dtype").map_or(Ok(None), |_| op.dtype("out_dtype"))?;
    // Sums of Booleans are counts, and from 2.3 on sums of small integers are int64.
    let grows = match x.dtype() {
        DType::Bool => true,
        DType::Int32 => op.kind() == "reduce_sum" && !op.is_older_than(Release::new(2, 3)),
        _ => false,
    };
    let to = to.or(grows.then_some(DType::Int64));
    let x = to.map_or(Ok(x.clone()), |to| op.cast(&x, to))?;
    let y = op.reduced(kind, &x)?;
    op.put("Out", &y)
}

fn truth(op: &mut Operator<'_>, kind: &str) -> Outcome {
    let x = op.input("X")?;
    let x = op.cast(&x, DType::Uint8)?;
    let y = op.reduced(kind, &x)?;
    let y = op.cast(&y, DType::Bool)?;
    op.put("Out", &y)
}

fn mean(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let axes: Vec<i64> = x.rank()?.numbers().collect();
    let y = if axes.is_empty() { x } else { op.reduce("ReduceMean", &x, &axes, false)? };
    let y = op.scalar(&y)?;
    op.put("Out", &y)
}

fn arg(op: &mut Operator<'_>, kind: &str) -> Outcome {
    let (x, keep, flatten) = (op.input("X")?, op.flag("keepdims")?, op.flag("flatten")?);
    let (value, axis) = match flatten {
        true => (op.reshape(&x, &[-1])?, 0),
        false => (x.clone(), op.int("axis")?),
    };
    // NaN is selected last.
    let value = match value.dtype().is_float() {
        true => {
            let least = if kind == "ArgMax" { f64::NEG_INFINITY } else { f64::INFINITY };
            op.numbered(&value, least)?
        }
        false => value,
    };
    let keep_here = i64::from(keep && !flatten);
    let mut y = op.call(kind, &[&value], [int("axis", axis), int("keepdims", keep_here)])?;
    if flatten && keep {
        y = op.reshape(&y, &vec![1; x.rank()?.count()])?;
    }
    let to = op.dtype("dtype")?.unwrap_or(DType::Int64);
    let y = op.cast(&y, to)?;
    let y = op.scalar(&y)?;
    op.put("Out", &y)
}

fn top_k(op: &mut Operator<'_>, any_axis: bool) -> Outcome {
    let x = op.input("X")?;
    let k = match op.optional("K")? {
        Some(k) => {
            let k = op.reshape(&k, &[1])?;
            op.cast(&k, DType::Int64)?
        }
        None => {
            let k = op.int("k")?;
            op.longs(&[k])
        }
    };
    let (axis, largest) = match any_axis {
        true => (op.int("axis")?, op.flag("largest")?),
        false => (-1, true),
    };
    let attributes = [int("axis", axis), int("largest", i64::from(largest))];
    let [values, numbers] = op.emit_all("TopK", &[Some(&x), Some(&k)], attributes)?;
    op.put("Out", &values)?;
    op.put("Indices", &numbers)
}

/// Sorts along a dim; the order of equal elements is unspecified.
fn sort(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let axis = op.place(op.int("axis")?, &x)?;
    let count = op.dim(&x, axis)?;
    let attributes = [int("axis", axis), int("largest", i64::from(op.flag("descending")?))];
    let [values, numbers] = op.emit_all("TopK", &[Some(&x), Some(&count)], attributes)?;
    op.put("Out", &values)?;
    op.put("Indices", &numbers)
}

fn cumsum(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let (x, axis) = match op.flag("flatten")? {
        true => (op.reshape(&x, &[-1])?, 0),
        false => (x, op.int("axis")?),
    };
    // A single element is copied, whatever the dims.
    if x.known_dims().is_some_and(|dims| dims.iter().all(|dim| *dim == 1)) {
        return op.put("Out", &x);
    }
    let axis = op.long(axis);
    let flag = |name: &str| -> Outcome<_> { Ok(int(name, i64::from(op.flag(name)?))) };
    let attributes: [_; 2] = [flag("exclusive")?, flag("reverse")?];
    let y = op.call("CumSum", &[&x, &axis], attributes)?;
    op.put("Out", &y)
}

fn logsumexp(op: &mut Operator<'_>) -> Outcome {
    let (x, axes, keep) = (op.input("X")?, op.ints("axis")?, op.flag("keepdim")?);
    let y = op.reduced_over("ReduceLogSumExp", &x, &axes, keep)?;
    op.put("Out", &y)
}

fn p_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, order, keep) = (op.input("X")?, op.float("porder")?, op.flag("keepdim")?);
    if !x.dtype().is_float() {
        return Err(format!("expected floats as `X`, found {}", x.dtype()).into());
    }
    let axis = op.int("axis")?;
    let (value, axis) = match op.flag("asvector")? {
        true => (op.reshape(&x, &[-1])?, 0),
        false => (x.clone(), axis),
    };
    let y = norm(op, &value, order, axis, keep)?;
    let y = match keep && op.flag("asvector")? {
        true => op.reshape(&y, &vec![1; x.rank()?.count()])?,
        false => y,
    };
    let y = op.scalar(&y)?;
    op.put("Out", &y)
}

/// Returns the norm along an axis: the `order`th root of the sum of powers; the maximum or the minimum for infinite
/// orders, and the number of non-zero elements for order 0.
fn norm(op: &mut Operator<'_>, value: &Value, order: f32, axis: i64, keep: bool) -> Outcome<Value> {
    let size = op.call("Abs", &[value], [])?;
    Ok(if order == f32::INFINITY {
        op.reduce("ReduceMax", &size, &[axis], keep)?
    } else if order == f32::NEG_INFINITY {
        op.reduce("ReduceMin", &size, &[axis], keep)?
    } else if order == 0.0 {
        let zero = op.number(value.dtype(), 0.0)?;
        let none = op.call("Equal", &[&size, &zero], [])?;
        let some = op.call("Not", &[&none], [])?;
        let some = op.cast(&some, value.dtype())?;
        op.reduce("ReduceSum", &some, &[axis], keep)?
    } else if order == 1.0 {
        op.reduce("ReduceSum", &size, &[axis], keep)?
    } else if order == 2.0 {
        op.reduce("ReduceL2", &size, &[axis], keep)?
    } else {
        let power = op.number(value.dtype(), order.into())?;
        let powers = op.call("Pow", &[&size, &power], [])?;
        let sum = op.reduce("ReduceSum", &powers, &[axis], keep)?;
        let root = op.number(value.dtype(), 1.0 / f64::from(order))?;
        op.call("Pow", &[&sum, &root], [])?
    })
}

/// The norm of the difference of two tensors.
fn dist(op: &mut Operator<'_>) -> Outcome {
    let (x, y, order) = (op.input("X")?, op.input("Y")?, op.float("p")?);
    let way = op.sub(&x, &y)?;
    let way = op.reshape(&way, &[-1])?;
    let y = norm(op, &way, order, 0, false)?;
    let y = op.scalar(&y)?;
    op.put("Out", &y)
}

fn size(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("Input")?;
    let y = op.call("Size", &[&x], [])?;
    let y = op.scalar(&y)?;
    op.put("Out", &y)
}

/// Returns the sum of squares.
fn squares(op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
    let list = op.reshape(x, &[-1])?;
    let squares = op.mul(&list, &list)?;
    op.reduce("ReduceSum", &squares, &[0], true)
}

fn squared_norm(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let y = squares(op, &x)?;
    op.put("Out", &y)
}

/// Scaled down if the norm exceeds `max_norm`.
fn clip_by_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, most) = (op.input("X")?, op.float("max_norm")?);
    let squares = squares(op, &x)?;
    let length = op.call("Sqrt", &[&squares], [])?;
    let most = op.number(x.dtype(), most.into())?;
    let length = op.call("Max", &[&length, &most], [])?;
    let factor = op.div(&most, &length)?;
    let factor = op.reshape(&factor, &[])?;
    let y = op.mul(&x, &factor)?;
    op.put("Out", &y)
}

//! Sums, means and extremes.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("arg_max", |op| arg(op, "ArgMax")),
    ("arg_min", |op| arg(op, "ArgMin")),
    ("mean", mean),
    ("reduce_all", |op| truth(op, "ReduceMin")),
    ("reduce_any", |op| truth(op, "ReduceMax")),
    ("reduce_max", |op| reduce(op, "ReduceMax")),
    ("reduce_mean", |op| reduce(op, "ReduceMean")),
    ("reduce_min", |op| reduce(op, "ReduceMin")),
    ("reduce_prod", |op| reduce(op, "ReduceProd")),
    ("reduce_sum", |op| reduce(op, "ReduceSum")),
    ("top_k", |op| top_k(op, false)),
    ("top_k_v2", |op| top_k(op, true)),
];

impl Operator<'_> {
    /// The result of a reduction to nothing: without extents, or, up to 2.4, with one.
    fn scalar(&mut self, value: &Value) -> Outcome<Value> {
        match value.rank()? == 0 && self.is_older_than(2_005_000) {
            true => self.reshape(value, &[1]),
            false => Ok(value.clone()),
        }
    }

    fn reduced(&mut self, kind: &str, x: &Value) -> Outcome<Value> {
        let (keep, dims) = (self.flag("keep_dim")?, self.ints("dim")?);
        let all = self.flag("reduce_all")? || dims.is_empty() || dims.len() == x.rank()?;
        let rank = i64::try_from(x.rank()?).unwrap_or(i64::MAX);
        let axes: Vec<i64> = if all { (0..rank).collect() } else { dims };
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
    // Sums of truth values are counts.
    let to = to.or((x.dtype() == DType::Bool).then_some(DType::Int64));
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
    let axes: Vec<i64> = (0..).take(x.rank()?).collect();
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
    let keep_here = i64::from(keep && !flatten);
    let mut y = op.call(kind, &[&value], [int("axis", axis), int("keepdims", keep_here)])?;
    if flatten && keep {
        y = op.reshape(&y, &vec![1; x.rank()?])?;
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
    let made = op.emit("TopK", &[Some(&x), Some(&k)], attributes, 2)?;
    let [values, numbers] = made.as_slice() else { return Err("it gives too little".to_owned()) };
    op.put("Out", values)?;
    op.put("Indices", numbers)
}

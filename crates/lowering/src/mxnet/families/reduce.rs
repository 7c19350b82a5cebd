//! Reductions.
//!
//! Without NumPy shapes there are no scalars: the reduction of all dims has the shape `[1]`.

use lodstone_schema::numbers::length;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, place_in, rank};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_npi_mean", Rule::One(|node| numpy(node, "ReduceMean"))),
    ("_square_sum", Rule::One(|node| reduction(node, "ReduceSumSquare"))),
    ("all_finite", Rule::One(all_finite)),
    ("argmax", Rule::One(|node| place(node, "ArgMax"))),
    ("argmax_channel", Rule::One(argmax_channel)),
    ("argmin", Rule::One(|node| place(node, "ArgMin"))),
    ("max", Rule::One(|node| reduction(node, "ReduceMax"))),
    ("mean", Rule::One(|node| reduction(node, "ReduceMean"))),
    ("min", Rule::One(|node| reduction(node, "ReduceMin"))),
    ("moments", Rule::Many(moments)),
    ("multi_sum_sq", Rule::One(sums_of_squares)),
    ("nanprod", Rule::One(|node| without_nan(node, "ReduceProd", 1.0))),
    ("nansum", Rule::One(|node| without_nan(node, "ReduceSum", 0.0))),
    ("norm", Rule::One(norm)),
    ("prod", Rule::One(|node| reduction(node, "ReduceProd"))),
    ("sum", Rule::One(|node| reduction(node, "ReduceSum"))),
];

/// Which dims are reduced.
struct Axes {
    axes: Vec<i64>,
    keeps: bool,
    is_all: bool,
}

impl Axes {
    fn of(node: &Node<'_>, x: &Value) -> Outcome<Self> {
        let rank = rank(x)?;
        let axes = node.attributes.ints_or_none("axis")?.unwrap_or_default();
        let excludes = node.attributes.flag("exclude", false)?;
        let keeps = node.attributes.flag("keepdims", false)?;
        let named = axes.iter().map(|axis| place_in(rank, *axis)).collect::<Outcome<Vec<_>>>()?;
        let is_reduced = |axis: &i64| named.is_empty() || named.contains(axis) != excludes;
        let axes: Vec<i64> = (0..rank).filter(is_reduced).collect();
        let is_all = length(axes.len()) == rank;
        Ok(Self { axes, keeps, is_all })
    }

    /// Reduces by an ONNX operator.
    fn reduce(&self, node: &mut Node<'_>, kind: &str, x: &Value) -> Outcome {
        if self.axes.is_empty() {
            return Ok(x.clone());
        }
        let y = node.reduce(kind, x, &self.axes, self.keeps)?;
        if self.is_all && !self.keeps { node.reshape(&y, &[1]) } else { Ok(y) }
    }
}

fn reduction(node: &mut Node<'_>, kind: &str) -> Outcome {
    let [x] = node.exactly()?;
    node.attributes.flag("safe_accumulation", false)?;
    let dtype = node.attributes.dtype("dtype")?;
    let axes = Axes::of(node, &x)?;
    let x = dtype.map_or(Ok(x.clone()), |dtype| node.cast(&x, dtype))?;
    axes.reduce(node, kind, &x)
}

/// The reduction of NumPy, where scalars exist.
fn numpy(node: &mut Node<'_>, kind: &str) -> Outcome {
    let [x] = node.exactly()?;
    let dtype = node.attributes.dtype("dtype")?;
    node.attributes.float_or_none("initial")?;
    let axes = Axes::of(node, &x)?;
    let to = match dtype {
        Some(dtype) => dtype,
        None if x.dtype().is_float() => x.dtype(),
        None => lodstone_model::DType::Float32,
    };
    let x = node.cast(&x, to)?;
    node.reduce(kind, &x, &axes.axes, axes.keeps)
}

fn without_nan(node: &mut Node<'_>, kind: &str, number: f64) -> Outcome {
    let [x] = node.exactly()?;
    let axes = Axes::of(node, &x)?;
    let is_nan = node.call("IsNaN", &[&x], [])?;
    let number = node.number(x.dtype(), number)?;
    let x = node.choose(&is_nan, &number, &x)?;
    axes.reduce(node, kind, &x)
}

fn norm(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let kind = match node.attributes.int("ord", 2)? {
        1 => "ReduceL1",
        2 => "ReduceL2",
        order => return Err(wrong("ord", "1 or 2", &order.to_string())),
    };
    let to = match node.attributes.find("out_dtype")? {
        None | Some("None") => None,
        Some(_) => node.attributes.dtype("out_dtype")?,
    };
    let axes = Axes::of(node, &x)?;
    let y = axes.reduce(node, kind, &x)?;
    to.map_or(Ok(y.clone()), |to| node.cast(&y, to))
}

/// The index of the largest or smallest element, as a number of the type of the input.
fn place(node: &mut Node<'_>, kind: &str) -> Outcome {
    let [x] = node.exactly()?;
    let axis = node.attributes.int_or_none("axis")?;
    let keeps = node.attributes.flag("keepdims", false)?;
    let rank = rank(&x)?;
    let y = match axis {
        Some(axis) => {
            let axis = place_in(rank, axis)?;
            let y =
                node.call(kind, &[&x], [int("axis", axis), int("keepdims", i64::from(keeps))])?;
            if rank == 1 && !keeps { node.reshape(&y, &[1])? } else { y }
        }
        None => {
            let flat = node.recoded(&x, &[-1])?;
            let y = node.call(kind, &[&flat], [int("axis", 0)])?;
            match keeps {
                true => node.reshape(&y, &vec![1; x.rank()?.count()])?,
                false => y,
            }
        }
    };
    node.cast(&y, x.dtype())
}

fn argmax_channel(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let y = node.call("ArgMax", &[&x], [int("axis", 1), int("keepdims", 0)])?;
    node.cast(&y, x.dtype())
}

/// Returns the mean and the variance.
fn moments(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [x] = node.exactly()?;
    let rank = rank(&x)?;
    let axes = node.attributes.ints("axes")?;
    let keeps = node.attributes.flag("keepdims", false)?;
    let axes = match axes.is_empty() {
        true => (0..rank).collect(),
        false => axes.iter().map(|axis| place_in(rank, *axis)).collect::<Outcome<Vec<_>>>()?,
    };
    let is_all = !keeps && length(axes.len()) == rank;
    let mean = node.reduce("ReduceMean", &x, &axes, true)?;
    let distance = node.sub(&x, &mean)?;
    let square = node.mul(&distance, &distance)?;
    let mut found = Vec::new();
    for of in [&x, &square] {
        let y = node.reduce("ReduceMean", of, &axes, keeps)?;
        found.push(if is_all { node.reshape(&y, &[1])? } else { y });
    }
    Ok(found)
}

/// Returns 1 if all elements are finite, and 0 if not.
fn all_finite(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    node.attributes.flag("init_output", true)?;
    let rest = node.sub(&x, &x)?;
    let zero = node.number(x.dtype(), 0.0)?;
    let is_finite = node.call("Equal", &[&rest, &zero], [])?;
    let marks = node.cast(&is_finite, lodstone_model::DType::Float32)?;
    let flat = node.reshape_to(&marks, &[-1])?;
    node.reduce("ReduceMin", &flat, &[0], true)
}

/// Returns a vector with the sum of the squares of each input.
fn sums_of_squares(node: &mut Node<'_>) -> Outcome {
    let all = node.all()?;
    node.attributes.int("num_arrays", None)?;
    let mut sums = Vec::new();
    for x in &all {
        let flat = node.reshape_to(x, &[-1])?;
        sums.push(node.reduce("ReduceSumSquare", &flat, &[0], true)?);
    }
    node.concat(&sums.iter().collect::<Vec<_>>(), 0)
}

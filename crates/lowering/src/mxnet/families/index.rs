//! Indexing and selection. Indices are often floats.

use lodstone_model::DType;
use lodstone_schema::numbers::length;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, axis_of, rank, required_dim};
use crate::onnx::indexing::{Hot, IndexMode};
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_contrib_boolean_mask", Rule::One(boolean_mask)),
    ("_contrib_index_array", Rule::One(index_array)),
    ("_contrib_index_copy", Rule::One(index_copy)),
    ("_ravel_multi_index", Rule::One(ravel)),
    ("_scatter_set_nd", Rule::One(scatter_set)),
    ("_sparse_retain", Rule::One(retain)),
    ("_unravel_index", Rule::One(unravel)),
    ("batch_take", Rule::One(batch_take)),
    ("gather_nd", Rule::One(gather_nd)),
    ("one_hot", Rule::One(one_hot)),
    ("pick", Rule::One(pick)),
    ("scatter_nd", Rule::One(scatter_nd)),
    ("take", Rule::One(take)),
    ("where", Rule::One(select)),
];

impl Node<'_> {
    /// Returns indices along an axis as integers, by the attribute `mode`.
    fn indices_along(&mut self, x: &Value, axis: i64, ids: &Value, modes: &[&str]) -> Outcome {
        let mode = match self.attributes.word("mode", modes, "clip")? {
            "clip" => IndexMode::Clip,
            "wrap" => IndexMode::Wrap,
            _ => IndexMode::Raise,
        };
        let dim = self.size_of(x, axis)?;
        self.indices(ids, &dim, mode)
    }
}

fn take(node: &mut Node<'_>) -> Outcome {
    let [x, ids] = node.exactly()?;
    let axis = axis_of(&x, node.attributes.int("axis", 0)?)?;
    let ids = node.indices_along(&x, axis, &ids, &["clip", "wrap", "raise"])?;
    node.gather(&x, &ids, axis)
}

/// Takes an element along an axis; indices have the other dims, or a dim of 1 in its place.
fn pick(node: &mut Node<'_>) -> Outcome {
    let [x, ids] = node.exactly()?;
    let axis = match node.attributes.find("axis")? {
        Some("None") => None,
        _ => Some(node.attributes.int("axis", -1)?),
    };
    let keeps = node.attributes.flag("keepdims", false)?;
    let (x, axis) = match axis {
        Some(axis) => (x.clone(), axis_of(&x, axis)?),
        None => (node.recoded(&x, &[-1])?, 0),
    };
    let ids = node.indices_along(&x, axis, &ids, &["clip", "wrap"])?;
    let ids = match rank(&x)? - rank(&ids)? {
        0 => ids,
        1 => node.unsqueeze(&ids, &[axis])?,
        _ => return Err(format!("expected indices of rank {}", rank(&x)? - 1).into()),
    };
    let y = node.call("GatherElements", &[&x, &ids], [int("axis", axis)])?;
    if keeps || x.rank()? == 1 {
        return Ok(y);
    }
    let axes = node.longs(&[axis]);
    node.call("Squeeze", &[&y, &axes], [])
}

fn batch_take(node: &mut Node<'_>) -> Outcome {
    let [x, ids] = node.exactly()?;
    let dim = node.size_of(&x, 1)?;
    let ids = node.indices(&ids, &dim, IndexMode::Clip)?;
    let ids = node.recoded(&ids, &[-1])?;
    let ids = node.unsqueeze(&ids, &[1])?;
    let y = node.call("GatherElements", &[&x, &ids], [int("axis", 1)])?;
    let axes = node.longs(&[1]);
    node.call("Squeeze", &[&y, &axes], [])
}

/// Moves the first dim, which has the parts of an index, to the end.
fn parts_last(node: &mut Node<'_>, ids: &Value) -> Outcome {
    let ids = node.cast(ids, DType::Int64)?;
    let rank = rank(&ids)?;
    if rank < 1 {
        return Err("expected indices, found a scalar".into());
    }
    let order: Vec<i64> = (1..rank).chain([0]).collect();
    node.transpose(&ids, &order)
}

fn gather_nd(node: &mut Node<'_>) -> Outcome {
    let [x, ids] = node.exactly()?;
    let ids = parts_last(node, &ids)?;
    node.call("GatherND", &[&x, &ids], [])
}

fn scatter_nd(node: &mut Node<'_>) -> Outcome {
    let [x, ids] = node.exactly()?;
    let shape = node.attributes.required_ints("shape")?;
    crate::mxnet::node::product(&shape)?;
    let ids = parts_last(node, &ids)?;
    let zeros = node.filled(x.dtype(), 0.0, &shape)?;
    node.put_slices(&zeros, &ids, &x, "none")
}

/// Indices out of range have no element that is on.
fn one_hot(node: &mut Node<'_>) -> Outcome {
    let [ids] = node.exactly()?;
    let depth = node.attributes.int("depth", None)?;
    let on = node.attributes.float("on_value", 1.0)?;
    let off = node.attributes.float("off_value", 0.0)?;
    let dtype = node.attributes.dtype("dtype")?.unwrap_or(DType::Float32);
    if !(0..=i64::from(i32::MAX)).contains(&depth) {
        return Err(wrong("depth", "a number of classes", &depth.to_string()));
    }
    node.one_hot(&ids, &Size::Known(depth), Hot { dtype, on, off })
}

/// Selects by a condition of the same shape, or of rows.
fn select(node: &mut Node<'_>) -> Outcome {
    let [condition, x, y] = node.exactly()?;
    let (given, wanted) = (rank(&condition)?, rank(&x)?);
    let condition = match given {
        1 if wanted > 1 => node.along(&condition, 0, wanted)?,
        _ if given == wanted => condition,
        _ => return Err(format!("expected a condition of rank {wanted}, found {given}").into()),
    };
    let zero = node.number(condition.dtype(), 0.0)?;
    let is_zero = node.call("Equal", &[&condition, &zero], [])?;
    node.choose(&is_zero, &y, &x)
}

fn boolean_mask(node: &mut Node<'_>) -> Outcome {
    let [x, marks] = node.exactly()?;
    let axis = axis_of(&x, node.attributes.int("axis", 0)?)?;
    let marks = node.cast(&marks, DType::Bool)?;
    node.call("Compress", &[&x, &marks], [int("axis", axis)])
}

/// Replaces rows.
fn index_copy(node: &mut Node<'_>) -> Outcome {
    let [x, ids, rows] = node.exactly()?;
    node.put_rows(&x, &ids, &rows, "none")
}

/// Replaces elements of the first input by those of the second.
fn scatter_set(node: &mut Node<'_>) -> Outcome {
    let [x, values, ids] = node.exactly()?;
    node.attributes.ints("shape")?;
    let ids = parts_last(node, &ids)?;
    node.put_slices(&x, &ids, &values, "none")
}

/// Keeps rows, and clears all others.
fn retain(node: &mut Node<'_>) -> Outcome {
    let [x, ids] = node.exactly()?;
    let ids = node.cast(&ids, DType::Int64)?;
    let rows = node.gather(&x, &ids, 0)?;
    let zeros = node.constant_like(&x, x.dtype(), 0.0)?;
    node.put_rows(&zeros, &ids, &rows, "none")
}

/// Returns the index of each element along all axes, or some.
fn index_array(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let axes = node.attributes.ints_or_none("axes")?;
    let rank = rank(&x)?;
    let axes = axes.unwrap_or_else(|| (0..rank).collect());
    let zeros = node.constant_like(&x, DType::Int64, 0.0)?;
    let mut parts = Vec::new();
    for axis in axes {
        let axis = axis_of(&x, axis)?;
        let count = node.extent(&x, axis)?;
        let places = node.counting(&count, DType::Int64)?;
        let places = node.along(&places, axis, rank)?;
        parts.push(node.add(&zeros, &places)?);
    }
    node.stacked(&parts.iter().collect::<Vec<_>>())
}

/// Returns the dims that an index refers to, and the number of elements that a step along each of them skips.
fn strides(node: &Node<'_>) -> Outcome<(Vec<i64>, Vec<i64>)> {
    let dims = node.attributes.required_ints("shape")?;
    crate::mxnet::node::product(dims.get(1..).unwrap_or_default())?;
    let strides = (0..dims.len()).map(|at| dims.iter().skip(at + 1).product());
    Ok((dims.clone(), strides.collect()))
}

/// Returns the places of elements in order, from their indices along each dim, in the first dim of the input.
fn ravel(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let (dims, strides) = strides(node)?;
    if required_dim(&x, 0)? != length(dims.len()) {
        return Err(format!("expected indices of {} dims", dims.len()).into());
    }
    let strides = node.longs(&strides);
    let strides = node.cast(&strides, x.dtype())?;
    let strides = node.along(&strides, 0, rank(&x)?)?;
    let parts = node.mul(&x, &strides)?;
    node.reduce("ReduceSum", &parts, &[0], false)
}

/// Returns the indices along each dim of the places of elements in order.
fn unravel(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let (dims, strides) = strides(node)?;
    let places = node.cast(&x, DType::Int64)?;
    let mut parts = Vec::new();
    for (at, (dim, stride)) in dims.iter().zip(&strides).enumerate() {
        if *stride < 1 || *dim < 1 && at > 0 {
            return Err(wrong("shape", "dims of at least 1", &format!("{dims:?}")));
        }
        let stride = node.long(*stride);
        let mut part = node.div(&places, &stride)?;
        if at > 0 {
            let dim = node.long(*dim);
            part = node.call("Mod", &[&part, &dim], [])?;
        }
        let part = node.cast(&part, x.dtype())?;
        parts.push(node.unsqueeze(&part, &[0])?);
    }
    node.concat(&parts.iter().collect::<Vec<_>>(), 0)
}

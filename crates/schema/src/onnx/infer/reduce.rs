//! Reductions along axes.

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::axes_of;
use super::node::{Node, Numbers, Outcome};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ReduceL1", reduce),
    ("ReduceL2", reduce),
    ("ReduceLogSum", reduce),
    ("ReduceLogSumExp", reduce),
    ("ReduceMax", reduce),
    ("ReduceMean", reduce),
    ("ReduceMin", reduce),
    ("ReduceProd", reduce),
    ("ReduceSum", reduce),
    ("ReduceSumSquare", reduce),
    ("ArgMax", position),
    ("ArgMin", position),
];

/// Reduces along `axes`; along all axes if there are none, unless `noop_with_empty_axes` is set.
fn reduce(node: &mut Node<'_>) -> Outcome {
    let keep = node.int_attribute("keepdims").is_none_or(|keep| keep != 0);
    let axes = match node.numbers("axes", 1) {
        Numbers::Known(axes) if !axes.is_empty() => Numbers::Known(axes),
        Numbers::Unknown => Numbers::Unknown,
        _ if node.flag("noop_with_empty_axes") => Numbers::Known(Vec::new()),
        _ => Numbers::Absent,
    };
    let shape = match (node.shape(0), axes) {
        (Some(shape), Numbers::Known(axes)) => {
            Some(reduced(shape, &axes_of(&axes, shape.len())?, keep))
        }
        (Some(shape), Numbers::Absent) => Some(reduced(shape, &vec![true; shape.len()], keep)),
        (None, Numbers::Absent) if !keep => Some(Vec::new()),
        // The rank is kept.
        (Some(shape), Numbers::Unknown) if keep => Some(vec![Dim::Unknown; shape.len()]),
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// Removes the reduced dims of a shape, or replaces them by 1.
fn reduced(shape: &[Dim], axes: &[bool], keep: bool) -> Vec<Dim> {
    let left = shape.iter().zip(axes).filter_map(|(dim, gone)| match (gone, keep) {
        (true, true) => Some(Dim::Known(1)),
        (true, false) => None,
        (false, _) => Some(dim.clone()),
    });
    left.collect()
}

/// The index of an extreme element along one axis.
fn position(node: &mut Node<'_>) -> Outcome {
    let keep = node.int_attribute("keepdims").is_none_or(|keep| keep != 0);
    let shape = match node.shape(0) {
        Some(shape) => {
            let axis = node.axis("axis", 0, shape.len())?;
            let axes: Vec<_> = (0..shape.len()).map(|place| place == axis).collect();
            Some(reduced(shape, &axes, keep))
        }
        None => None,
    };
    node.tensor(0, DType::Int64, shape);
    Ok(())
}

//! Reductions.

use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::{exact, length};

use super::rules::of_kind;
use crate::glow::from_onnx::graph::{MemberValue, Value};
use crate::glow::from_onnx::op::{Cx, Fault, Outcome, Rule, from_front, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ArgMax", |cx| arg(cx, "ArgMax")),
    ("ArgMin", |cx| arg(cx, "ArgMin")),
    ("AveragedLoss", |cx| first(cx, "BatchedReduceMean")),
    ("ReduceBackMean", |cx| back(cx, "BatchedReduceMean")),
    ("ReduceBackSum", |cx| back(cx, "BatchedReduceAdd")),
    ("ReduceMax", |cx| reduce(cx, "BatchedReduceMax")),
    ("ReduceMean", |cx| reduce(cx, "BatchedReduceMean")),
    ("ReduceMin", |cx| reduce(cx, "BatchedReduceMin")),
    ("ReduceProd", |cx| reduce(cx, "BatchedReduceProd")),
    ("ReduceSum", |cx| reduce(cx, "BatchedReduceAdd")),
    ("TopK", top),
];

/// Removes dims; `axes` are sorted.
fn without(shape: &[i64], axes: &[usize]) -> Vec<i64> {
    let kept = shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    kept.map(|(_, dim)| *dim).collect()
}

/// Adds a reduction over sorted axes: in one node, or one node for each if the kind reduces one axis.
fn reduced(
    cx: &mut Cx<'_>,
    kind: &'static str,
    value: Value,
    axes: &[usize],
) -> Result<Value, Fault> {
    let has_axes = !matches!(kind, "BatchedReduceAdd" | "BatchedReduceProd");
    if has_axes {
        let of: Type = cx.shaped(value, without(&cx.shape(value), axes));
        let axes = axes.iter().map(|axis| length(*axis)).collect();
        return cx.node(kind, "", &[value], vec![("Axes", MemberValue::Ints(axes))], of);
    }
    let mut value = value;
    for axis in axes.iter().rev() {
        let of = cx.shaped(value, without(&cx.shape(value), &[*axis]));
        value = cx.node(kind, "", &[value], vec![("Axis", MemberValue::Int(length(*axis)))], of)?;
    }
    Ok(value)
}

fn reduce(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let mut axes = match cx.longs("axes")? {
        Some(axes) => axes
            .into_iter()
            .map(|axis| from_front(axis, shape.len()))
            .collect::<Result<Vec<_>, _>>()?,
        None => (0..shape.len()).collect(),
    };
    axes.sort_unstable();
    if axes.windows(2).any(|pair| pair.first() == pair.last()) {
        return Err(format!("expected distinct `axes`, found {axes:?}").into());
    }
    if axes.is_empty() {
        return one(value);
    }
    let keeps = cx.flag("keepdims", true)?;
    let result = reduced(cx, kind, value, &axes)?;
    if !keeps {
        return one(result);
    }
    let kept =
        shape.iter().enumerate().map(|(axis, dim)| if axes.contains(&axis) { 1 } else { *dim });
    let kept: Vec<i64> = kept.collect();
    one(cx.reshape_always(result, &kept, "keepdims")?)
}

/// Reduces the last dims.
fn back(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    let rank = cx.rank(value);
    if cx.count() != 1 {
        return Err("Glow reduces without lengths".into());
    }
    let count = cx.int("num_reduce_dim", 1)?;
    if !(1..length(rank)).contains(&count) {
        return Err(format!("expected more than {count} dims, found {rank}").into());
    }
    let count: usize = exact(count)?;
    let axes: Vec<usize> = (rank - count..rank).collect();
    one(reduced(cx, kind, value, &axes)?)
}

fn first(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    if cx.rank(value) == 0 {
        return Err("expected at least one dim, found a scalar".into());
    }
    one(reduced(cx, kind, value, &[0])?)
}

fn arg(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    let mut shape = cx.shape(value);
    // Glow's default is the first axis; that of Caffe2 is the last one.
    let axis = cx.axis("axis", if kind == "ArgMin" { 0 } else { -1 }, shape.len())?;
    let keeps = cx.flag("keepdims", true)?;
    match keeps {
        true => shape.iter_mut().skip(axis).take(1).for_each(|dim| *dim = 1),
        false => drop(shape.remove(axis)),
    }
    let members = vec![
        ("Axis", MemberValue::Int(length(axis))),
        ("KeepDims", MemberValue::Int(keeps.into())),
    ];
    one(cx.node(kind, "", &[value], members, of_kind(ElemKind::Int64I, shape))?)
}

fn top(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let k = match cx.count() {
        1 => cx.int("k", 0)?,
        2 => cx.integer(1)?,
        other => return Err(format!("expected at most 2 inputs, found {other}").into()),
    };
    let mut shape = cx.shape(value);
    let rank = shape.len();
    let axis = cx.axis("axis", -1, rank)?;
    let last = shape.last_mut().filter(|_| axis + 1 == rank);
    let last = last.ok_or("Glow selects along the last axis only")?;
    if !(0..=*last).contains(&k) {
        return Err(format!("expected a `k` of at most {last}, found {k}").into());
    }
    *last = k;
    let results = vec![cx.shaped(value, shape.clone()), of_kind(ElemKind::Int32I, shape)];
    let results = cx.nodes("TopK", "", &[value], vec![("K", MemberValue::Int(k))], results)?;
    Ok(results.into_iter().map(Some).collect())
}

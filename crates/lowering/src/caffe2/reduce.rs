//! Reductions.

use std::collections::BTreeSet;

use super::node::{Node, Outcome, Rule, expect_rank, places_in};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ArgMax", Rule::One(|node| arg(node, "ArgMax"))),
    ("ArgMin", Rule::One(|node| arg(node, "ArgMin"))),
    ("AveragedLoss", Rule::One(loss)),
    ("ReduceBackMean", Rule::One(|node| back(node, "ReduceMean"))),
    ("ReduceBackSum", Rule::One(|node| back(node, "ReduceSum"))),
    ("ReduceBackMax", Rule::One(|node| back(node, "ReduceMax"))),
    ("ReduceFrontMax", Rule::One(|node| front(node, "ReduceMax"))),
    ("ReduceFrontMean", Rule::One(|node| front(node, "ReduceMean"))),
    ("ReduceFrontSum", Rule::One(|node| front(node, "ReduceSum"))),
    ("ReduceL1", Rule::One(|node| reduce(node, "ReduceL1"))),
    ("ReduceL2", Rule::One(|node| reduce(node, "ReduceL2"))),
    ("ReduceMax", Rule::One(|node| reduce(node, "ReduceMax"))),
    ("ReduceMean", Rule::One(|node| reduce(node, "ReduceMean"))),
    ("ReduceMin", Rule::One(|node| reduce(node, "ReduceMin"))),
    ("ReduceProd", Rule::One(|node| reduce(node, "ReduceProd"))),
    ("ReduceSum", Rule::One(|node| reduce(node, "ReduceSum"))),
    ("SumElements", Rule::One(sum)),
    (
        "SumSqrElements",
        Rule::One(|node| {
            let x = node.input(0)?;
            let squares = node.mul(&x, &x)?;
            whole(node, &squares)
        }),
    ),
    ("TopK", Rule::Many(top)),
];

fn reduce(node: &mut Node<'_>, kind: &str) -> Outcome {
    let x = node.input(0)?;
    let rank = x.rank()?;
    let axes = match node.ints("axes")? {
        Some(axes) => places_in(rank, &axes)?,
        None => rank.numbers().collect(),
    };
    if axes.iter().collect::<BTreeSet<_>>().len() != axes.len() {
        return Err(format!("expected distinct `axes`, found {axes:?}").into());
    }
    if axes.is_empty() {
        return Ok(x);
    }
    let keeps = node.flag("keepdims", true)?;
    node.reduce(kind, &x, &axes, keeps)
}

/// Reduces the last dims.
fn back(node: &mut Node<'_>, kind: &str) -> Outcome {
    let [x] = node.exactly()?;
    let rank = x.rank()?.number();
    let count = node.int("num_reduce_dim", 1)?;
    if !(1..rank).contains(&count) {
        return Err(format!("expected more than {count} dims, found {rank}").into());
    }
    let axes: Vec<i64> = (rank - count..rank).collect();
    node.reduce(kind, &x, &axes, false)
}

/// Reduces the first dims.
fn front(node: &mut Node<'_>, kind: &str) -> Outcome {
    let [x] = node.exactly()?;
    let rank = x.rank()?.number();
    let count = node.int("num_reduce_dim", 1)?;
    if !(1..=rank).contains(&count) {
        return Err(format!("expected at least {count} dims, found {rank}").into());
    }
    node.reduce(kind, &x, &(0..count).collect::<Vec<_>>(), false)
}

/// Returns the sum of all elements, or with `average` their mean.
fn whole(node: &mut Node<'_>, x: &Value) -> Outcome {
    let kind = if node.flag("average", false)? { "ReduceMean" } else { "ReduceSum" };
    let flat = node.reshape(x, &[-1])?;
    node.reduce(kind, &flat, &[0], false)
}

fn sum(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    whole(node, &x)
}

fn loss(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let axes: Vec<i64> = x.rank()?.numbers().collect();
    match axes.is_empty() {
        true => Err("expected at least one dim, found a scalar".into()),
        false => node.reduce("ReduceMean", &x, &axes, false),
    }
}

fn arg(node: &mut Node<'_>, kind: &str) -> Outcome {
    let x = node.input(0)?;
    let axis = node.axis("axis", -1, x.rank()?)?;
    let keeps = node.flag("keepdims", true)?;
    node.call(kind, &[&x], [int("axis", axis), int("keepdims", keeps.into())])
}

/// The highest elements, with their indices; the third output counts in the whole tensor.
fn top(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.input(0)?;
    let axis = node.axis("axis", -1, x.rank()?)?;
    let count = match node.count() {
        1 => {
            let k = node.int_in("k", 0..=i64::from(i32::MAX), 0)?;
            match x.size(axis)? {
                Some(dim) if k > dim => {
                    return Err(format!("expected a `k` of at most {dim}, found {k}").into());
                }
                _ => node.longs(&[k]),
            }
        }
        _ => {
            let [_, k] = node.exactly()?;
            expect_rank(&k, 1, "`k`")?;
            node.cast(&k, lodstone_model::DType::Int64)?
        }
    };
    let [values, places] = node.emit_all("TopK", &[Some(&x), Some(&count)], [int("axis", axis)])?;
    Ok(vec![values, places])
}

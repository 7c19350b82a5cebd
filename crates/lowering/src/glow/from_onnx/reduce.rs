//! Reductions along axes.

use lodstone_schema::glow::ElemKind;
use lodstone_schema::numbers::length;

use super::elementwise::filled;
use super::graph::{MemberValue, Value, plain};
use super::op::{Cx, Fault, Outcome, Rule, from_front, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ArgMax", |cx| position(cx, "ArgMax")),
    ("ArgMin", |cx| position(cx, "ArgMin")),
    ("CumSum", cumulative),
    ("ReduceL1", l1),
    ("ReduceL2", l2),
    ("ReduceLogSum", log_sum),
    ("ReduceLogSumExp", log_sum_exp),
    ("ReduceMax", |cx| together(cx, "BatchedReduceMax")),
    ("ReduceMean", |cx| together(cx, "BatchedReduceMean")),
    ("ReduceMin", |cx| together(cx, "BatchedReduceMin")),
    ("ReduceProd", |cx| one_by_one(cx, "BatchedReduceProd")),
    ("ReduceSum", |cx| one_by_one(cx, "BatchedReduceAdd")),
    ("ReduceSumSquare", sum_square),
];

/// Returns the axes, ascending, and whether they are kept as 1; no axes for a reduction that does nothing.
fn axes(cx: &Cx<'_>, rank: usize) -> Result<(Vec<usize>, bool), Fault> {
    let keeps = cx.flag("keepdims", true)?;
    let listed = cx.ints_by("axes", 1)?.unwrap_or_default();
    if listed.is_empty() {
        let does_nothing = cx.flag("noop_with_empty_axes", false)?;
        return Ok((if does_nothing { Vec::new() } else { (0..rank).collect() }, keeps));
    }
    let axes: Result<Vec<_>, _> = listed.iter().map(|axis| from_front(*axis, rank)).collect();
    let mut axes = axes?;
    axes.sort_unstable();
    axes.dedup();
    Ok((axes, keeps))
}

/// Returns a shape without some axes.
fn without(shape: &[i64], axes: &[usize]) -> Vec<i64> {
    let kept = shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    kept.map(|(_, dim)| *dim).collect()
}

/// Returns a shape with 1 at some axes.
fn with_ones(shape: &[i64], axes: &[usize]) -> Vec<i64> {
    let one = |(axis, dim): (usize, &i64)| if axes.contains(&axis) { 1 } else { *dim };
    shape.iter().enumerate().map(one).collect()
}

fn together(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    let (axes, keeps) = axes(cx, cx.rank(value))?;
    if axes.is_empty() {
        return one(value);
    }
    one(reduced(cx, kind, value, &axes, keeps)?)
}

/// Reduces all axes by one node.
fn reduced(
    cx: &mut Cx<'_>,
    kind: &'static str,
    value: Value,
    axes: &[usize],
    keeps: bool,
) -> Result<Value, Fault> {
    let shape = cx.shape(value);
    let of = cx.shaped(value, without(&shape, axes));
    let members = axes.iter().map(|axis| length(*axis)).collect();
    let result = cx.node(kind, "", &[value], vec![("Axes", MemberValue::Ints(members))], of)?;
    match keeps {
        true => cx.reshape_always(result, &with_ones(&shape, axes), "keepdims"),
        false => Ok(result),
    }
}

/// Reduces each axis by its own node, the last first.
fn chain(
    cx: &mut Cx<'_>,
    kind: &'static str,
    value: Value,
    axes: &[usize],
    keeps: bool,
) -> Result<Value, Fault> {
    let mut result = value;
    for axis in axes.iter().rev() {
        let shape = cx.shape(result);
        let of = cx.shaped(result, without(&shape, &[*axis]));
        let members = vec![("Axis", MemberValue::Int(length(*axis)))];
        result = cx.node(kind, "", &[result], members, of)?;
        if keeps {
            result = cx.reshape_always(result, &with_ones(&shape, &[*axis]), "expanddims")?;
        }
    }
    Ok(result)
}

fn one_by_one(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    let (axes, keeps) = axes(cx, cx.rank(value))?;
    one(chain(cx, kind, value, &axes, keeps)?)
}

fn sum_square(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let (axes, keeps) = axes(cx, cx.rank(value))?;
    if let [_] = *axes {
        return one(chain(cx, "BatchedReduceSumSquare", value, &axes, keeps)?);
    }
    let square = cx.pair("Mul", value, value, "square")?;
    one(chain(cx, "BatchedReduceAdd", square, &axes, keeps)?)
}

fn l1(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let (axes, keeps) = axes(cx, cx.rank(value))?;
    let sizes = cx.each("Abs", value, "abs")?;
    one(chain(cx, "BatchedReduceAdd", sizes, &axes, keeps)?)
}

fn l2(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let (axes, keeps) = axes(cx, cx.rank(value))?;
    let square = cx.pair("Mul", value, value, "square")?;
    let sum = chain(cx, "BatchedReduceAdd", square, &axes, keeps)?;
    let half = filled(cx, 0.5, sum, "half")?;
    one(cx.pair("Pow", sum, half, "root")?)
}

fn log_sum(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let (axes, keeps) = axes(cx, cx.rank(value))?;
    let sum = chain(cx, "BatchedReduceAdd", value, &axes, keeps)?;
    one(cx.each("Log", sum, "")?)
}

/// Relative to the maximum, so that exponentials do not overflow.
fn log_sum_exp(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let (axes, keeps) = axes(cx, shape.len())?;
    if axes.is_empty() {
        return one(value);
    }
    let most = reduced(cx, "BatchedReduceMax", value, &axes, true)?;
    let repeated = cx.broadcast(most, &shape, "broadcast")?;
    let less = cx.pair("Sub", value, repeated, "less")?;
    let powers = cx.each("Exp", less, "exp")?;
    let sum = chain(cx, "BatchedReduceAdd", powers, &axes, true)?;
    let logarithm = cx.each("Log", sum, "log")?;
    let result = cx.pair("Add", logarithm, most, "")?;
    let kept = if keeps { with_ones(&shape, &axes) } else { without(&shape, &axes) };
    one(cx.reshape(result, &kept, "shape")?)
}

fn position(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    let axis = cx.axis("axis", 0, cx.rank(value))?;
    let keeps = cx.flag("keepdims", true)?;
    if cx.flag("select_last_index", false)? {
        return Err("Glow returns the first of equal elements, found `select_last_index`".into());
    }
    let of = plain(ElemKind::Int64I, cx.shape_out(0)?);
    let members = vec![
        ("Axis", MemberValue::Int(length(axis))),
        ("KeepDims", MemberValue::Int(keeps.into())),
    ];
    one(cx.node(kind, "", &[value], members, of)?)
}

fn cumulative(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let axis = match cx.ints_by("axis", 1)?.as_deref() {
        Some([axis]) => from_front(*axis, cx.rank(value))?,
        Some(other) => return Err(format!("expected one axis, found {}", other.len()).into()),
        None => 0,
    };
    let of = cx.shaped(value, cx.shape(value));
    let members = vec![
        ("Dim", MemberValue::Int(length(axis))),
        ("Exclusive", MemberValue::Int(cx.flag("exclusive", false)?.into())),
        ("Reverse", MemberValue::Int(cx.flag("reverse", false)?.into())),
    ];
    one(cx.node("CumSum", "", &[value], members, of)?)
}

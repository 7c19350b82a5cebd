//! Sorting.

use lodstone_model::DType;

use crate::onnx::{Value, int};
use crate::torch::arguments::{Size, wrong};
use crate::torch::node::{Node, Outcome, Rule, axis_of, dim_of, rank};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_unique2", Rule::Many(unique)),
    ("aten::argsort", Rule::One(|node| Ok(sorted(node)?.1))),
    ("aten::bucketize", Rule::One(|node| search(node, "boundaries", "self"))),
    ("aten::kthvalue", Rule::Many(kth)),
    ("aten::median", Rule::Many(median)),
    ("aten::msort", Rule::One(|node| Ok(sorted(node)?.0))),
    ("aten::searchsorted", Rule::One(|node| search(node, "sorted_sequence", "self"))),
    ("aten::sort", Rule::Many(|node| sorted(node).map(|(a, b)| vec![a, b]))),
    ("aten::topk", Rule::Many(topk)),
    ("aten::unique_consecutive", Rule::Many(unique_consecutive)),
    ("aten::unique_dim", Rule::Many(unique)),
];

/// Returns the runs of equal elements or slices, the run of each element, and the lengths of the runs. The latter two have no
/// elements unless they are requested; the runs of slices are always computed.
fn unique_consecutive(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let axis = node.arguments.optional_int("dim")?;
    let axis = axis.map(|axis| axis_of(&x, axis)).transpose()?;
    let (numbered, counted) =
        (node.arguments.flag("return_inverse")?, node.arguments.flag("return_counts")?);
    let runs = node.runs(&x, axis)?;
    let numbers = match numbered || axis.is_some() {
        true => {
            let numbers = runs.numbers(node)?;
            if axis.is_none() { node.reshape_as(&numbers, &x)? } else { numbers }
        }
        false => node.longs(&[]),
    };
    let counts = if counted { runs.lengths(node)? } else { node.longs(&[]) };
    Ok(vec![runs.values, numbers, counts])
}

/// Returns the highest or lowest elements along an axis, in a type that ONNX has.
fn ranked(
    node: &mut Node<'_>,
    x: &Value,
    axis: i64,
    count: &Size,
    (largest, sorted): (bool, bool),
) -> Outcome<(Value, Value)> {
    // Runtimes lack the operator for other types.
    let wide = match x.dtype() {
        DType::Bool | DType::Int8 | DType::Int16 | DType::Uint8 => DType::Int32,
        other => other,
    };
    let numbers = node.cast(x, wide)?;
    let count = node.list_of(std::slice::from_ref(count))?;
    let attributes =
        [int("axis", axis), int("largest", i64::from(largest)), int("sorted", i64::from(sorted))];
    let [values, places] = node.emit_all("TopK", &[Some(&numbers), Some(&count)], attributes)?;
    Ok((node.cast(&values, x.dtype())?, places))
}

fn topk(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let count = node.arguments.size("k")?.ok_or("the argument `k` is missing")?;
    let order = (node.arguments.flag("largest")?, node.arguments.flag("sorted")?);
    if rank(&x)? == 0 {
        let place = node.long(0);
        return Ok(vec![x, place]);
    }
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    if let (Size::Known(count), Some(dim)) = (&count, dim_of(&x, axis))
        && !(0..=dim).contains(count)
    {
        return Err(wrong("k", &format!("at most {dim}"), &count.to_string()));
    }
    let (values, places) = ranked(node, &x, axis, &count, order)?;
    Ok(vec![values, places])
}

/// Sorts along an axis; equal elements keep their order, as in `TopK`.
fn sorted(node: &mut Node<'_>) -> Outcome<(Value, Value)> {
    let x = node.tensor("self")?;
    let descending = node.arguments.has("descending") && node.arguments.flag("descending")?;
    if rank(&x)? == 0 {
        let place = node.long(0);
        return Ok((x, place));
    }
    let dim = if node.name() == "msort" { 0 } else { node.arguments.int("dim")? };
    let axis = axis_of(&x, dim)?;
    let count = node.size_of(&x, axis)?;
    ranked(node, &x, axis, &count, (descending, true))
}

/// The k-th smallest element, counted from 1.
fn kth(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let k = node.arguments.int("k")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let keeps = node.arguments.flag("keepdim")?;
    if rank(&x)? == 0 {
        let place = node.long(0);
        return Ok(vec![x, place]);
    }
    if k < 1 {
        return Err(wrong("k", "a positive number", &k.to_string()));
    }
    kth_of(node, &x, axis, &Size::Known(k - 1), keeps)
}

/// Returns the element at a place of the order along an axis, and its index.
fn kth_of(
    node: &mut Node<'_>,
    x: &Value,
    axis: i64,
    place: &Size,
    keeps: bool,
) -> Outcome<Vec<Value>> {
    let count = node.size_of(x, axis)?;
    let (values, places) = ranked(node, x, axis, &count, (false, true))?;
    let place =
        if keeps { node.list_of(std::slice::from_ref(place))? } else { node.scalar_of(place)? };
    [values, places].iter().map(|value| node.gather(value, &place, axis)).collect()
}

/// The lower median.
fn median(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let mut x = node.tensor("self")?;
    let is_flat = node.arguments.overload() == "";
    let (axis, keeps) = match is_flat {
        true => (0, false),
        false => (axis_of(&x, node.arguments.int("dim")?)?, node.arguments.flag("keepdim")?),
    };
    if is_flat {
        x = node.reshape(&x, &[-1])?;
    }
    let size = node.size_of(&x, axis)?;
    let last = node.difference_of(&size, &Size::Known(1))?;
    let middle = node.quotient_of(&last, 2)?;
    let mut found = kth_of(node, &x, axis, &middle, keeps)?;
    if is_flat {
        found.truncate(1);
    }
    Ok(found)
}

fn unique(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    node.arguments.ignore(&["return_inverse", "return_counts", "sorted"]);
    let wide = if x.dtype().is_float() { x.dtype() } else { DType::Int64 };
    let numbers = node.cast(&x, wide)?;
    let mut attributes = vec![int("sorted", 1)];
    if node.name() == "unique_dim" {
        attributes.push(int("axis", axis_of(&x, node.arguments.int("dim")?)?));
    }
    let is_flat = attributes.len() == 1;
    let [values, _, inverse, counts] = node.emit_all("Unique", &[Some(&numbers)], attributes)?;
    let values = node.cast(&values, x.dtype())?;
    let inverse = if is_flat { node.reshape_as(&inverse, &x)? } else { inverse };
    Ok(vec![values, inverse, counts])
}

/// The number of sorted elements below each element; with `right`, below or equal.
fn search(node: &mut Node<'_>, sequence: &str, values: &str) -> Outcome {
    let (bounds, x, _) = node.pair(sequence, values)?;
    let right = node.arguments.flag("right")?;
    let side = if node.arguments.has("side") { node.arguments.text("side")? } else { None };
    let right = match side.as_deref() {
        None => right,
        Some("left") if !right => false,
        Some("right") => true,
        Some("left") => return Err(wrong("side", "`right` with `right=True`", "left")),
        Some(other) => return Err(wrong("side", "`left` or `right`", other)),
    };
    if node.arguments.has("sorter") {
        return Err(wrong("sorter", "`None`", "a tensor"));
    }
    let narrow = node.arguments.flag("out_int32")?;
    let bounds = match rank(&bounds)? {
        1 => bounds,
        _ => node.unsqueeze(&bounds, &[-2])?,
    };
    let spread = node.unsqueeze(&x, &[-1])?;
    let kind = if right { "LessOrEqual" } else { "Less" };
    let below = node.call(kind, &[&bounds, &spread], [])?;
    let numbers = node.cast(&below, DType::Int64)?;
    let last = rank(&numbers)? - 1;
    let count = node.reduce("ReduceSum", &numbers, &[last], false)?;
    node.cast(&count, if narrow { DType::Int32 } else { DType::Int64 })
}

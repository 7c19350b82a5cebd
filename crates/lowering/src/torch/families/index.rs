//! Gathering and scattering by index.

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::numbers::{exact, length};

use super::binary::floored;
use crate::onnx::{Value, int, text};
use crate::torch::arguments::{Size, wrong};
use crate::torch::node::{
    Node, Outcome, Rule, axis_of, dim_of, dims_along, place_in, rank, rank_of, required_dim,
};
use crate::torch::promote::{Category, category};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_index_put_impl", Rule::One(index_put)),
    ("aten::_unsafe_index", Rule::One(index)),
    ("aten::_unsafe_index_put", Rule::One(index_put)),
    ("aten::_unsafe_masked_index", Rule::One(masked_index)),
    ("aten::as_strided", Rule::One(as_strided)),
    ("aten::as_strided_copy", Rule::One(as_strided)),
    ("aten::diag", Rule::One(diag)),
    ("aten::diag_embed", Rule::One(diag_embed)),
    ("aten::diagonal", Rule::One(diagonal)),
    ("aten::diagonal_copy", Rule::One(diagonal)),
    ("aten::diagonal_scatter", Rule::One(|node| scattered(node, diagonal))),
    ("aten::embedding", Rule::One(embedding)),
    ("aten::embedding_renorm", Rule::One(renormed)),
    ("aten::gather", Rule::One(gather)),
    ("aten::index", Rule::One(index)),
    ("aten::index_add", Rule::One(index_add)),
    ("aten::index_copy", Rule::One(index_copy)),
    ("aten::index_fill", Rule::One(index_fill)),
    ("aten::index_put", Rule::One(index_put)),
    ("aten::index_select", Rule::One(index_select)),
    ("aten::masked_scatter", Rule::One(masked_scatter)),
    ("aten::masked_select", Rule::One(masked_select)),
    ("aten::nonzero", Rule::One(nonzero)),
    ("aten::put", Rule::One(put)),
    ("aten::scatter", Rule::One(scatter)),
    ("aten::scatter_add", Rule::One(|node| scatter_with(node, "add"))),
    ("aten::scatter_reduce", Rule::One(scatter_reduce)),
    ("aten::select_scatter", Rule::One(select_scatter)),
    ("aten::slice_scatter", Rule::One(slice_scatter)),
    ("aten::take", Rule::One(take)),
    ("aten::take_along_dim", Rule::One(take_along)),
    ("aten::tril", Rule::One(|node| triangle(node, false))),
    ("aten::triu", Rule::One(|node| triangle(node, true))),
    ("aten::unfold", Rule::One(unfold)),
    ("aten::unfold_copy", Rule::One(unfold)),
];

fn embedding(node: &mut Node<'_>) -> Outcome {
    let (weight, indices) = (node.tensor("weight")?, node.tensor("indices")?);
    node.gather(&weight, &indices, 0)
}

/// Scales the rows that are selected down to a norm that they exceed.
fn renormed(node: &mut Node<'_>) -> Outcome {
    let (weight, indices) = (node.tensor("self")?, node.tensor("indices")?);
    let (most, order) = (node.arguments.float("max_norm")?, node.arguments.float("norm_type")?);
    let kind = match order {
        2.0 => "ReduceL2",
        1.0 => "ReduceL1",
        _ => return Err(wrong("norm_type", "1 or 2", &order.to_string())),
    };
    let norm = node.reduce(kind, &weight, &[1], true)?;
    let indices = node.reshape(&indices, &[-1, 1])?;
    let marks = node.constant_like(&norm, DType::Int64, 0.0)?;
    let ones = node.constant_like(&indices, DType::Int64, 1.0)?;
    let marks = node.call("ScatterElements", &[&marks, &indices, &ones], [int("axis", 0)])?;
    let is_selected = node.cast(&marks, DType::Bool)?;
    let most = node.number(norm.dtype(), most)?;
    let is_long = node.call("Greater", &[&norm, &most], [])?;
    let is_scaled = node.call("And", &[&is_selected, &is_long], [])?;
    // As in PyTorch's kernel.
    let divisor = node.plus(&norm, 1e-7)?;
    let factor = node.div(&most, &divisor)?;
    let scaled = node.mul(&weight, &factor)?;
    node.choose(&is_scaled, &scaled, &weight)
}

fn index_select(node: &mut Node<'_>) -> Outcome {
    let (x, indices) = (node.tensor("self")?, node.tensor("index")?);
    if rank(&x)? == 0 {
        return Ok(x);
    }
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let indices = node.reshape(&indices, &[-1])?;
    node.gather(&x, &indices, axis)
}

/// A scalar counts as a vector of one element.
fn vector(node: &mut Node<'_>, value: &Value) -> Outcome {
    if rank(value)? == 0 { node.reshape(value, &[1]) } else { Ok(value.clone()) }
}

fn gather(node: &mut Node<'_>) -> Outcome {
    let (x, indices) = (node.tensor("self")?, node.tensor("index")?);
    node.arguments.ignore(&["sparse_grad"]);
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let is_scalar = rank(&indices)? == 0;
    let (x, indices) = (vector(node, &x)?, vector(node, &indices)?);
    let y = node.call("GatherElements", &[&x, &indices], [int("axis", axis)])?;
    if is_scalar { node.reshape(&y, &[]) } else { Ok(y) }
}

/// Gathers along an axis, with other axes broadcast; without one, from the flattened tensor.
fn take_along(node: &mut Node<'_>) -> Outcome {
    let (mut x, mut indices) = (node.tensor("self")?, node.tensor("indices")?);
    let axis = match node.arguments.optional_int("dim")? {
        Some(axis) => axis_of(&x, axis)?,
        None => {
            x = node.reshape(&x, &[-1])?;
            indices = node.reshape(&indices, &[-1])?;
            0
        }
    };
    let (mut of_x, mut of_indices) = (Vec::new(), Vec::new());
    for place in 0..rank(&x)? {
        let (own, other) = (node.size_of(&x, place)?, node.size_of(&indices, place)?);
        if place == axis {
            of_x.push(own);
            of_indices.push(other);
        } else {
            let size = if matches!(own, Size::Known(1)) { other } else { own };
            of_x.push(size.clone());
            of_indices.push(size);
        }
    }
    let (x, indices) = (node.expand_to(&x, &of_x)?, node.expand_to(&indices, &of_indices)?);
    node.call("GatherElements", &[&x, &indices], [int("axis", axis)])
}

/// Gathers from the flattened tensor.
fn take(node: &mut Node<'_>) -> Outcome {
    let (x, indices) = (node.tensor("self")?, node.tensor("index")?);
    let flat = node.reshape(&x, &[-1])?;
    node.gather(&flat, &indices, 0)
}

/// The indices of a tensor: for each indexed axis, an integer tensor, all of equal dims.
struct Indexed {
    /// The axes that are indexed, in order.
    axes: Vec<i64>,
    /// The first of them.
    first: i64,
    indices: Vec<Value>,
    /// The rank that the indices have in common.
    rank: i64,
}

/// Returns the indices, in which a mask stands for the places where it is true, one tensor for each of its dims.
fn indexed(node: &mut Node<'_>, x: &Value) -> Outcome<Indexed> {
    let given = node.optional_tensors("indices")?;
    let (mut axes, mut indices, mut axis) = (Vec::new(), Vec::new(), 0);
    for index in given {
        let Some(index) = index else {
            axis += 1;
            continue;
        };
        if matches!(index.dtype(), DType::Bool | DType::Uint8) {
            let mask = node.cast(&index, DType::Bool)?;
            let count = rank(&mask)?;
            if count == 0 {
                return Err("indexing with a scalar mask is not supported".into());
            }
            let places = node.call("NonZero", &[&mask], [])?;
            for place in 0..count {
                let one = node.slice(&places, 0, place, place + 1)?;
                indices.push(node.reshape(&one, &[-1])?);
                axes.push(axis);
                axis += 1;
            }
        } else {
            indices.push(node.cast(&index, DType::Int64)?);
            axes.push(axis);
            axis += 1;
        }
    }
    if axis > rank(x)? {
        return Err(wrong("indices", &format!("at most {} indices", rank(x)?), &axis.to_string()));
    }
    let first = *axes.first().ok_or_else(|| wrong("indices", "an index", "none"))?;
    let ranks = indices.iter().map(rank).collect::<Outcome<Vec<_>>>()?;
    Ok(Indexed { axes, first, indices, rank: ranks.into_iter().fold(0, i64::max) })
}

/// Returns indices as one tensor `[.., count]`; negative ones count from the end.
fn tuples(node: &mut Node<'_>, x: &Value, indexed: &Indexed) -> Outcome {
    let shape = node.broadcast_sizes(&indexed.indices)?;
    let mut columns = Vec::new();
    for (axis, index) in indexed.axes.iter().zip(&indexed.indices) {
        let size = node.extent(x, *axis)?;
        let wrapped = node.add(index, &size)?;
        let zero = node.long(0);
        let is_negative = node.call("Less", &[index, &zero], [])?;
        let index = node.choose(&is_negative, &wrapped, index)?;
        let index = node.expand_to(&index, &shape)?;
        columns.push(node.unsqueeze(&index, &[-1])?);
    }
    super::pieces::concat_all(node, &columns, -1)
}

/// Returns the order of axes with the indexed ones first, and its inverse.
fn fronted(indexed: &Indexed, rank: i64) -> (Vec<i64>, Vec<i64>) {
    let rest = (0..rank).filter(|axis| !indexed.axes.contains(axis));
    let order: Vec<i64> = indexed.axes.iter().copied().chain(rest).collect();
    let mut places: Vec<(i64, i64)> = order.iter().copied().zip(0..).collect();
    places.sort_unstable();
    let inverse = places.into_iter().map(|(_, place)| place).collect();
    (order, inverse)
}

/// Whether indexed axes follow each other, so that the result has the dims of the indices in their place.
fn is_adjacent(axes: &[i64]) -> bool {
    axes.windows(2).all(|pair| matches!(pair, [a, b] if b - a == 1))
}

/// Indexes axes by tensors. The dims of the indices take the place of the axes, or come first if these are apart.
fn index(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    if node.optional_tensors("indices")?.iter().all(Option::is_none) {
        return Ok(x);
    }
    let indexed = indexed(node, &x)?;
    if let ([axis], [index]) = (indexed.axes.as_slice(), indexed.indices.as_slice()) {
        return node.gather(&x, index, *axis);
    }
    let whole = rank(&x)?;
    let (order, _) = fronted(&indexed, whole);
    let turned = node.transpose(&x, &order)?;
    let tuples = tuples(node, &x, &indexed)?;
    let y = node.call("GatherND", &[&turned, &tuples], [])?;
    let first = indexed.first;
    if !is_adjacent(&indexed.axes) || first == 0 {
        return Ok(y);
    }
    // [indices.., rest..] -> [rest before, indices.., rest after]
    let count = length(indexed.axes.len());
    let all = indexed.rank + whole - count;
    let before = (0..first).map(|axis| indexed.rank + axis);
    let after = indexed.rank + first..all;
    let order: Vec<i64> = before.chain(0..indexed.rank).chain(after).collect();
    node.transpose(&y, &order)
}

/// Indexes where a mask is true, and has a number elsewhere.
fn masked_index(node: &mut Node<'_>) -> Outcome {
    let mask = node.tensor("mask")?;
    let x = node.tensor("self")?;
    let fill = node.scalar("fill", x.dtype())?.ok_or("the argument `fill` is missing")?;
    let y = index(node)?;
    node.choose(&mask, &y, &fill)
}

/// Writes values at indices, or adds them.
fn index_put(node: &mut Node<'_>) -> Outcome {
    let (x, values) = (node.tensor("self")?, node.tensor("values")?);
    let adds = node.arguments.flag("accumulate")?;
    node.arguments.ignore(&["unsafe"]);
    let values = node.cast(&values, x.dtype())?;
    let given = node.optional_tensors("indices")?;
    // One mask and one value: a choice.
    if let [Some(mask)] = given.as_slice()
        && mask.dtype() == DType::Bool
        && !adds
        && (rank(&values)? == 0 || values.known_dims().as_deref() == Some(&[1]))
    {
        let value = node.reshape(&values, &[])?;
        let axes: Vec<i64> = (rank(mask)?..rank(&x)?).collect();
        let mask = if axes.is_empty() { mask.clone() } else { node.unsqueeze(mask, &axes)? };
        return node.choose(&mask, &value, &x);
    }
    let indexed = indexed(node, &x)?;
    let whole = rank(&x)?;
    let count = length(indexed.axes.len());
    let (order, inverse) = fronted(&indexed, whole);
    let turned = node.transpose(&x, &order)?;
    let tuples = tuples(node, &x, &indexed)?;
    // The dims of what `index` returns.
    let mut of_indices = Vec::new();
    for axis in 0..indexed.rank {
        of_indices.push(node.size_of(&tuples, axis)?);
    }
    let mut rest = Vec::new();
    for axis in count..whole {
        rest.push(node.size_of(&turned, axis)?);
    }
    let before = if is_adjacent(&indexed.axes) { indexed.first } else { 0 };
    let lost = || Finding::internal("an axis was lost");
    let (lead, tail) = rest.split_at_checked(exact(before)?).ok_or_else(lost)?;
    let shape = [lead, &of_indices[..], tail].concat();
    let values = node.expand_to(&values, &shape)?;
    let all = indexed.rank + whole - count;
    let order: Vec<i64> = (before..before + indexed.rank)
        .chain(0..before)
        .chain(before + indexed.rank..all)
        .collect();
    let values = node.transpose(&values, &order)?;
    let attributes = if adds { vec![text("reduction", "add")] } else { Vec::new() };
    let [done] =
        node.emit_all("ScatterND", &[Some(&turned), Some(&tuples), Some(&values)], attributes)?;
    node.transpose(&done, &inverse)
}

/// Returns an index `[n]` spread over the dims of `like`.
fn spread(node: &mut Node<'_>, index: &Value, like: &Value, axis: i64) -> Outcome {
    let index = node.reshape(index, &dims_along(rank_of(like)?, axis))?;
    let sizes = node.sizes_of(like)?;
    node.expand_to(&index, &sizes)
}

fn index_add(node: &mut Node<'_>) -> Outcome {
    let (x, index, source) = (node.tensor("self")?, node.tensor("index")?, node.tensor("source")?);
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let alpha = node.arguments.number("alpha")?;
    let source = match alpha {
        Some(alpha) => super::binary::multiplied(node, &source, alpha)?,
        None => source,
    };
    let (x, source) = (vector(node, &x)?, vector(node, &source)?);
    let index = spread(node, &index, &source, axis)?;
    let flags = [int("axis", axis), text("reduction", "add")];
    node.call("ScatterElements", &[&x, &index, &source], flags)
}

fn index_copy(node: &mut Node<'_>) -> Outcome {
    let (x, index, source) = (node.tensor("self")?, node.tensor("index")?, node.tensor("source")?);
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let index = spread(node, &index, &source, axis)?;
    node.call("ScatterElements", &[&x, &index, &source], [int("axis", axis)])
}

fn index_fill(node: &mut Node<'_>) -> Outcome {
    let (x, index) = (node.tensor("self")?, node.tensor("index")?);
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let value = node.operand("value")?;
    let value = node.in_type(&value, x.dtype())?;
    let index = node.reshape(&index, &[-1])?;
    let mut sizes = node.sizes_of(&x)?;
    if let Some(size) = usize::try_from(axis).ok().and_then(|axis| sizes.get_mut(axis)) {
        *size = node.size_of(&index, 0)?;
    }
    let values = node.expand_to(&value, &sizes)?;
    let index = spread(node, &index, &values, axis)?;
    node.call("ScatterElements", &[&x, &index, &values], [int("axis", axis)])
}

fn scatter(node: &mut Node<'_>) -> Outcome {
    let kind = match node.arguments.has("reduce") {
        true => node.arguments.text("reduce")?.unwrap_or_default(),
        false => "none".to_owned(),
    };
    match kind.as_str() {
        "none" => scatter_with(node, "none"),
        "add" => scatter_with(node, "add"),
        "multiply" => scatter_with(node, "mul"),
        other => Err(wrong("reduce", "`add` or `multiply`", other)),
    }
}

/// Writes elements of `src`, or one number, along an axis. PyTorch reads as many elements of `src` as there are indices.
fn scatter_with(node: &mut Node<'_>, reduction: &str) -> Outcome {
    let (x, index) = (node.tensor("self")?, node.tensor("index")?);
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let is_scalar = rank(&x)? == 0;
    let (x, index) = (vector(node, &x)?, vector(node, &index)?);
    let sizes = node.sizes_of(&index)?;
    let source = match node.arguments.has("src") {
        true => {
            let source = node.tensor("src")?;
            let mut source = vector(node, &source)?;
            for (place, size) in (0..).zip(&sizes) {
                let bounds = [Size::Known(0), size.clone()];
                source = super::pieces::sliced(node, &source, place, bounds, Size::Known(1))?;
            }
            node.cast(&source, x.dtype())?
        }
        false => {
            let value = node.operand("value")?;
            let value = node.in_type(&value, x.dtype())?;
            node.expand_to(&value, &sizes)?
        }
    };
    let flags = [int("axis", axis), text("reduction", reduction)];
    let y = node.call("ScatterElements", &[&x, &index, &source], flags)?;
    if is_scalar { node.reshape(&y, &[]) } else { Ok(y) }
}

fn scatter_reduce(node: &mut Node<'_>) -> Outcome {
    let kind = node.arguments.text("reduce")?.unwrap_or_default();
    let includes = match node.arguments.has("include_self") {
        true => node.arguments.flag("include_self")?,
        false => true,
    };
    let reduction = match kind.as_str() {
        "sum" => "add",
        "prod" => "mul",
        "amax" => "max",
        "amin" => "min",
        other => return Err(wrong("reduce", "`sum`, `prod`, `amax` or `amin`", other)),
    };
    if includes {
        return scatter_with(node, reduction);
    }
    // Elements that are written begin with the neutral one.
    let (x, index) = (node.tensor("self")?, node.tensor("index")?);
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let is_float = category(x.dtype())? == Category::Float;
    let neutral = match reduction {
        "add" => 0.0,
        "mul" => 1.0,
        _ if !is_float => return Err("`include_self=False` of integers is not supported".into()),
        "max" => f64::NEG_INFINITY,
        _ => f64::INFINITY,
    };
    let sizes = node.sizes_of(&index)?;
    let neutral = node.number(x.dtype(), neutral)?;
    let neutral = node.expand_to(&neutral, &sizes)?;
    let flags = [int("axis", axis)];
    let cleared = node.call("ScatterElements", &[&x, &index, &neutral], flags)?;
    node.with_tensor("self", &cleared, |node| scatter_with(node, reduction))
}

/// Writes values in the order of the places where a mask is true.
fn masked_scatter(node: &mut Node<'_>) -> Outcome {
    let (x, mask, source) = (node.tensor("self")?, node.tensor("mask")?, node.tensor("source")?);
    let sizes = node.sizes_of(&x)?;
    let mask = node.expand_to(&mask, &sizes)?;
    let flat = node.reshape(&mask, &[-1])?;
    let numbers = node.cast(&flat, DType::Int64)?;
    let axis = node.long(0);
    // The number of true places before each place.
    let counts = node.call("CumSum", &[&numbers, &axis], [int("exclusive", 1)])?;
    let values = node.reshape(&source, &[-1])?;
    let last = node.extent(&values, 0)?;
    let minus = node.long(-1);
    let last = node.add(&last, &minus)?;
    let places = node.call("Min", &[&counts, &last], [])?;
    let chosen = node.gather(&values, &places, 0)?;
    let chosen = node.reshape_as(&chosen, &x)?;
    node.choose(&mask, &chosen, &x)
}

fn masked_select(node: &mut Node<'_>) -> Outcome {
    let (x, mask) = (node.tensor("self")?, node.tensor("mask")?);
    // Both are broadcast: adding zeros would change types, so each is expanded to the dims of the other.
    let (of_x, of_mask) = (node.call("Shape", &[&x], [])?, node.call("Shape", &[&mask], [])?);
    let x = node.call("Expand", &[&x, &of_mask], [])?;
    let mask = node.call("Expand", &[&mask, &of_x], [])?;
    let (x, mask) = (node.reshape(&x, &[-1])?, node.reshape(&mask, &[-1])?);
    node.call("Compress", &[&x, &mask], [int("axis", 0)])
}

/// The places of elements other than 0, one in each row.
fn nonzero(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let places = node.call("NonZero", &[&x], [])?;
    node.transpose(&places, &[1, 0])
}

fn put(node: &mut Node<'_>) -> Outcome {
    let (x, index, source) = (node.tensor("self")?, node.tensor("index")?, node.tensor("source")?);
    let adds = node.arguments.flag("accumulate")?;
    let flat = node.reshape(&x, &[-1])?;
    let (index, source) = (node.reshape(&index, &[-1])?, node.reshape(&source, &[-1])?);
    let flags = [int("axis", 0), text("reduction", if adds { "add" } else { "none" })];
    let y = node.call("ScatterElements", &[&flat, &index, &source], flags)?;
    node.reshape_as(&y, &x)
}

/// Writes a tensor where a view of another is: by the view of all places.
fn scattered(node: &mut Node<'_>, view: fn(&mut Node<'_>) -> Outcome) -> Outcome {
    let (x, source) = (node.tensor("self")?, node.tensor("src")?);
    let size = match x.known_dims() {
        Some(dims) => node.long(crate::torch::node::product(&dims)?),
        None => node.call("Size", &[&x], [])?,
    };
    let (zero, one) = (node.long(0), node.long(1));
    let places = node.call("Range", &[&zero, &size, &one], [])?;
    let places = node.reshape_as(&places, &x)?;
    let places = node.with_tensor("self", &places, view)?;
    let source = node.cast(&source, x.dtype())?;
    let sizes = node.sizes_of(&places)?;
    let source = node.expand_to(&source, &sizes)?;
    let (places, source) = (node.reshape(&places, &[-1])?, node.reshape(&source, &[-1])?);
    let flat = node.reshape(&x, &[-1])?;
    let done = node.call("ScatterElements", &[&flat, &places, &source], [int("axis", 0)])?;
    node.reshape_as(&done, &x)
}

fn select_scatter(node: &mut Node<'_>) -> Outcome {
    let rule = super::rule("aten::select");
    scattered(node, view_of(rule)?)
}

fn slice_scatter(node: &mut Node<'_>) -> Outcome {
    let rule = super::rule("aten::slice");
    scattered(node, view_of(rule)?)
}

fn view_of(rule: Option<Rule>) -> Outcome<fn(&mut Node<'_>) -> Outcome> {
    match rule {
        Some(Rule::One(rule)) => Ok(rule),
        _ => Err(Finding::internal("a view has no rule")),
    }
}

fn triangle(node: &mut Node<'_>, upper: bool) -> Outcome {
    let x = node.tensor("self")?;
    let diagonal = node.arguments.int("diagonal")?;
    // Runtimes lack the operator for other types.
    let wide = if x.dtype().is_float() { x.dtype() } else { DType::Int64 };
    let numbers = node.cast(&x, wide)?;
    let diagonal = node.long(diagonal);
    let y = node.call("Trilu", &[&numbers, &diagonal], [int("upper", i64::from(upper))])?;
    node.cast(&y, x.dtype())
}

/// The maximum length of a diagonal, whose places are constants.
const MAX_DIAGONAL: i64 = 1 << 20;

/// Returns a diagonal of two axes as the last axis.
pub(super) fn diagonal_of(
    node: &mut Node<'_>,
    x: &Value,
    offset: i64,
    (first, second): (i64, i64),
) -> Outcome {
    let whole = rank(x)?;
    let (first, second) = (place_in(whole, first)?, place_in(whole, second)?);
    let (rows, columns) = (required_dim(x, first)?, required_dim(x, second)?);
    let (row, column) = match offset.checked_neg() {
        Some(below) if below > 0 => (below, 0),
        Some(_) => (0, offset),
        None => return Err(wrong("offset", "an offset above -2^63", &offset.to_string())),
    };
    let length = (rows - row).min(columns - column).max(0);
    if length > MAX_DIAGONAL {
        return Err(format!("expected a diagonal of at most {MAX_DIAGONAL}, found {length}").into());
    }
    let rest: Vec<i64> = (0..whole).filter(|axis| *axis != first && *axis != second).collect();
    let order: Vec<i64> = [first, second].into_iter().chain(rest).collect();
    let turned = node.transpose(x, &order)?;
    // [rows, columns, ..] -> [rows * columns, ..]
    let mut shape = vec![Size::Known(crate::torch::node::product(&[rows, columns])?)];
    for axis in 2..whole {
        shape.push(node.size_of(&turned, axis)?);
    }
    let flat = node.reshape_to(&turned, &shape)?;
    let places: Vec<i64> = (0..length).map(|step| (row + step) * columns + column + step).collect();
    let places = node.longs(&places);
    let found = node.gather(&flat, &places, 0)?;
    let order: Vec<i64> = (1..whole - 1).chain([0]).collect();
    node.transpose(&found, &order)
}

fn diagonal(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axes = (node.arguments.int("dim1")?, node.arguments.int("dim2")?);
    let offset = node.arguments.int("offset")?;
    diagonal_of(node, &x, offset, axes)
}

/// The diagonal of a matrix, or the matrix with a diagonal.
fn diag(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let offset = node.arguments.int("diagonal")?;
    match rank(&x)? {
        1 => embedded(node, &x, offset, (0, 1)),
        _ => diagonal_of(node, &x, offset, (0, 1)),
    }
}

fn diag_embed(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axes = (node.arguments.int("dim1")?, node.arguments.int("dim2")?);
    let offset = node.arguments.int("offset")?;
    embedded(node, &x, offset, axes)
}

fn embedded(node: &mut Node<'_>, x: &Value, offset: i64, (first, second): (i64, i64)) -> Outcome {
    let whole = rank(x)? + 1;
    let (first, second) = (place_in(whole, first)?, place_in(whole, second)?);
    let length = required_dim(x, rank(x)? - 1)?;
    let size = length + offset.abs();
    let (row, column) = if offset < 0 { (-offset, 0) } else { (0, offset) };
    let (before_row, before_column) = (row.min(size), column.min(size));
    // [.., n] -> [.., n, 1], times the identity.
    let range = node.range(length)?;
    let (down, along) = (node.unsqueeze(&range, &[1])?, node.unsqueeze(&range, &[0])?);
    let same = node.call("Equal", &[&down, &along], [])?;
    let spread = node.unsqueeze(x, &[-1])?;
    let zero = node.number(x.dtype(), 0.0)?;
    let square = node.choose(&same, &spread, &zero)?;
    let lead = exact(whole - 2)?;
    let begins = [vec![0; lead], vec![before_row, before_column]].concat();
    let ends =
        [vec![0; lead], vec![size - length - before_row, size - length - before_column]].concat();
    let pads = node.longs(&[begins, ends].concat());
    let padded = node.call("Pad", &[&square, &pads], [])?;
    // The last two axes move to their places.
    let mut rest = 0..whole - 2;
    let order = (0..whole).map(|axis| match axis {
        _ if axis == first => Some(whole - 2),
        _ if axis == second => Some(whole - 1),
        _ => rest.next(),
    });
    let order = order.collect::<Option<Vec<i64>>>().ok_or("an axis appears twice")?;
    node.transpose(&padded, &order)
}

/// Windows along an axis, as a new last axis.
fn unfold(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dimension")?)?;
    let (size, step) = (node.arguments.int("size")?, node.arguments.int("step")?);
    if size < 0 || step < 1 || size > crate::torch::node::MAX_PARTS {
        return Err(wrong("size", "a size and a positive step", &format!("{size} and {step}")));
    }
    if dim_of(&x, axis).is_some_and(|dim| dim < size) {
        return Err(wrong("size", "at most the dim", &size.to_string()));
    }
    let x = vector(node, &x)?;
    // starts: [n, 1], offsets: [1, size]
    let dim = node.extent(&x, axis)?;
    let (size_value, step_value) = (node.long(size), node.long(step));
    let room = node.sub(&dim, &size_value)?;
    let whole = floored(node, &room, &step_value)?;
    let one = node.long(1);
    let count = node.add(&whole, &one)?;
    let zero = node.long(0);
    let windows = node.call("Range", &[&zero, &count, &one], [])?;
    let starts = node.mul(&windows, &step_value)?;
    let starts = node.unsqueeze(&starts, &[1])?;
    let offsets = node.range(size)?;
    let offsets = node.unsqueeze(&offsets, &[0])?;
    let places = node.add(&starts, &offsets)?;
    let y = node.gather(&x, &places, axis)?;
    // [.., n, size, ..] -> [.., n, .., size]
    let all = rank(&y)?;
    let order: Vec<i64> = (0..all).filter(|place| *place != axis + 1).chain([axis + 1]).collect();
    node.transpose(&y, &order)
}

/// Elements by strides in the memory of a row-major tensor.
fn as_strided(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let (sizes, strides) = (node.arguments.ints("size")?, node.arguments.ints("stride")?);
    // `None` is the first element: a tensor has a memory of its own here.
    let offset = node.arguments.optional_int("storage_offset")?.unwrap_or(0);
    let count = crate::torch::node::product(&sizes)?;
    if sizes.len() != strides.len() || sizes.iter().chain(&strides).any(|it| *it < 0) {
        return Err(wrong("stride", "a stride for each size", &format!("{strides:?}")));
    }
    if count > 1 << 20 {
        return Err(wrong("size", "fewer elements", &format!("{sizes:?}")));
    }
    let mut places = vec![offset];
    for (size, stride) in sizes.iter().zip(&strides) {
        let spread = |place: &i64| {
            let place = *place;
            (0..*size).map(move |step| place.saturating_add(step.saturating_mul(*stride)))
        };
        places = places.iter().flat_map(spread).collect();
    }
    let all = crate::torch::node::product(&x.dims()?)?;
    if places.iter().any(|place| !(0..all).contains(place)) {
        return Err(wrong("size", "places in the tensor", &format!("{sizes:?}")));
    }
    let flat = node.reshape(&x, &[-1])?;
    let places = node.longs(&places);
    let found = node.gather(&flat, &places, 0)?;
    node.reshape(&found, &sizes)
}

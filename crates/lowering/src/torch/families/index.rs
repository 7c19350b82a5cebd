//! Gathering and scattering by index.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::binary::floored;
use crate::onnx::{Value, int};
use crate::torch::arguments::{Size, wrong};
use crate::torch::node::{Node, Outcome, Rule, axis_of, dim_of, rank};
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
    let marks = node.put_elements(&marks, &indices, &ones, 0, "none")?;
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

/// Returns the result of a scalar that counted as a vector.
fn scalar_if(node: &mut Node<'_>, value: &Value, is_scalar: bool) -> Outcome {
    if is_scalar { node.reshape(value, &[]) } else { Ok(value.clone()) }
}

fn gather(node: &mut Node<'_>) -> Outcome {
    let (x, indices) = (node.tensor("self")?, node.tensor("index")?);
    node.arguments.ignore(&["sparse_grad"]);
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let is_scalar = rank(&indices)? == 0;
    let (x, indices) = (vector(node, &x)?, vector(node, &indices)?);
    let y = node.call("GatherElements", &[&x, &indices], [int("axis", axis)])?;
    scalar_if(node, &y, is_scalar)
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

/// Returns the indices, of which bytes are masks.
fn indices(node: &mut Node<'_>) -> Outcome<Vec<Option<Value>>> {
    let mut list = node.optional_tensors("indices")?;
    for index in list.iter_mut().flatten().filter(|index| index.dtype() == DType::Uint8) {
        *index = node.cast(index, DType::Bool)?;
    }
    Ok(list)
}

fn index(node: &mut Node<'_>) -> Outcome {
    let (x, list) = (node.tensor("self")?, indices(node)?);
    if list.iter().all(Option::is_none) {
        return Ok(x);
    }
    let indexed = node.indexed(&x, &list)?;
    node.elements_at(&x, &indexed)
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
    let list = indices(node)?;
    // One mask and one value: a choice.
    if let [Some(mask)] = list.as_slice()
        && mask.dtype() == DType::Bool
        && !adds
        && (rank(&values)? == 0 || values.known_dims().as_deref() == Some(&[1]))
    {
        let value = node.reshape(&values, &[])?;
        let axes: Vec<i64> = (rank(mask)?..rank(&x)?).collect();
        let mask = if axes.is_empty() { mask.clone() } else { node.unsqueeze(mask, &axes)? };
        return node.choose(&mask, &value, &x);
    }
    let indexed = node.indexed(&x, &list)?;
    node.put_at(&x, &indexed, &values, if adds { "add" } else { "none" })
}

fn index_add(node: &mut Node<'_>) -> Outcome {
    let (x, index, source) = (node.tensor("self")?, node.tensor("index")?, node.tensor("source")?);
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let alpha = node.arguments.number("alpha")?;
    let source = match alpha {
        Some(alpha) => super::binary::multiplied(node, &source, alpha)?,
        None => source,
    };
    let is_scalar = rank(&x)? == 0;
    let (x, source) = (vector(node, &x)?, vector(node, &source)?);
    let y = node.put_along(&x, &index, &source, axis, "add")?;
    scalar_if(node, &y, is_scalar)
}

fn index_copy(node: &mut Node<'_>) -> Outcome {
    let (x, index, source) = (node.tensor("self")?, node.tensor("index")?, node.tensor("source")?);
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let is_scalar = rank(&x)? == 0;
    let (x, source) = (vector(node, &x)?, vector(node, &source)?);
    let y = node.put_along(&x, &index, &source, axis, "none")?;
    scalar_if(node, &y, is_scalar)
}

fn index_fill(node: &mut Node<'_>) -> Outcome {
    let (x, index) = (node.tensor("self")?, node.tensor("index")?);
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let value = node.operand("value")?;
    let value = node.in_type(&value, x.dtype())?;
    let index = node.reshape(&index, &[-1])?;
    let is_scalar = rank(&x)? == 0;
    let x = vector(node, &x)?;
    let mut sizes = node.sizes_of(&x)?;
    if let Some(size) = usize::try_from(axis).ok().and_then(|axis| sizes.get_mut(axis)) {
        *size = node.size_of(&index, 0)?;
    }
    let values = node.expand_to(&value, &sizes)?;
    let y = node.put_along(&x, &index, &values, axis, "none")?;
    scalar_if(node, &y, is_scalar)
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
                source = super::pieces::sliced(node, &source, place, [None, Some(size.clone())])?;
            }
            node.cast(&source, x.dtype())?
        }
        false => {
            let value = node.operand("value")?;
            let value = node.in_type(&value, x.dtype())?;
            node.expand_to(&value, &sizes)?
        }
    };
    let y = node.put_elements(&x, &index, &source, axis, reduction)?;
    scalar_if(node, &y, is_scalar)
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
    let cleared = node.put_elements(&x, &index, &neutral, axis, "none")?;
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
    let y = node.put_elements(&flat, &index, &source, 0, if adds { "add" } else { "none" })?;
    node.reshape_as(&y, &x)
}

/// Writes a tensor where a view of another is: by the view of all places.
fn scattered(node: &mut Node<'_>, view: fn(&mut Node<'_>) -> Outcome) -> Outcome {
    let (x, source) = (node.tensor("self")?, node.tensor("src")?);
    let places = node.element_places(&x)?;
    let places = node.with_tensor("self", &places, view)?;
    let source = node.cast(&source, x.dtype())?;
    let source = node.expand_as(&source, &places)?;
    node.written_at(&x, &places, &source)
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

fn diagonal(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axes = [node.arguments.int("dim1")?, node.arguments.int("dim2")?];
    let offset = node.arguments.int("offset")?;
    node.diagonal(&x, axes, offset)
}

/// The diagonal of a matrix, or the matrix with a diagonal.
fn diag(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let offset = node.arguments.int("diagonal")?;
    match rank(&x)? {
        1 => node.on_diagonal(&x, [0, 1], offset, 0.0),
        _ => node.diagonal(&x, [0, 1], offset),
    }
}

fn diag_embed(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axes = [node.arguments.int("dim1")?, node.arguments.int("dim2")?];
    let offset = node.arguments.int("offset")?;
    node.on_diagonal(&x, axes, offset, 0.0)
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

//! Other dims for the same elements.

use lodstone_schema::numbers::{exact, length};
use lodstone_schema::{Code, Finding};

use crate::onnx::{Value, text};
use crate::torch::arguments::{Size, wrong};
use crate::torch::node::{
    Node, Outcome, Rule, axes_of, axis_of, dim_of, expect_rank, known_sizes, place_in, product,
    rank, required_dim,
};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_reshape_alias", Rule::One(reshape_alias)),
    ("aten::_unsafe_view", Rule::One(view)),
    ("aten::adjoint", Rule::One(turned)),
    ("aten::broadcast_tensors", Rule::Many(broadcast_tensors)),
    ("aten::broadcast_to", Rule::One(expand)),
    ("aten::channel_shuffle", Rule::One(channel_shuffle)),
    ("aten::expand", Rule::One(expand)),
    ("aten::expand_as", Rule::One(expand_as)),
    ("aten::expand_copy", Rule::One(expand)),
    ("aten::flatten", Rule::One(flatten)),
    ("aten::mH", Rule::One(turned)),
    ("aten::mT", Rule::One(turned)),
    ("aten::matrix_H", Rule::One(turned)),
    ("aten::movedim", Rule::One(movedim)),
    ("aten::moveaxis", Rule::One(movedim)),
    ("aten::numpy_T", Rule::One(reversed)),
    ("aten::permute", Rule::One(permute)),
    ("aten::permute_copy", Rule::One(permute)),
    ("aten::pixel_shuffle", Rule::One(pixel_shuffle)),
    ("aten::pixel_unshuffle", Rule::One(pixel_unshuffle)),
    ("aten::ravel", Rule::One(ravel)),
    ("aten::repeat", Rule::One(repeat)),
    ("aten::reshape", Rule::One(view)),
    ("aten::reshape_as", Rule::One(view_as)),
    ("aten::squeeze", Rule::One(squeeze)),
    ("aten::squeeze_copy", Rule::One(squeeze)),
    ("aten::swapaxes", Rule::One(transpose)),
    ("aten::swapdims", Rule::One(transpose)),
    ("aten::t", Rule::One(t)),
    ("aten::t_copy", Rule::One(t)),
    ("aten::tile", Rule::One(repeat)),
    ("aten::transpose", Rule::One(transpose)),
    ("aten::transpose_copy", Rule::One(transpose)),
    ("aten::unflatten", Rule::One(unflatten)),
    ("aten::unsqueeze", Rule::One(unsqueeze)),
    ("aten::unsqueeze_copy", Rule::One(unsqueeze)),
    ("aten::view", Rule::One(view)),
    ("aten::view_as", Rule::One(view_as)),
    ("aten::view_copy", Rule::One(view)),
];

fn view(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    if node.arguments.overload() == "dtype" {
        let dtype = node.arguments.dtype("dtype")?;
        return match dtype == Some(x.dtype()) {
            true => Ok(x),
            false => Err("a view with another element type is not supported".into()),
        };
    }
    let name = if node.arguments.has("size") { "size" } else { "shape" };
    let sizes = node.arguments.sizes(name)?;
    sized(node, &x, name, &sizes)
}

/// Reshapes; the strides follow from the sizes and the memory of the tensor.
fn reshape_alias(node: &mut Node<'_>) -> Outcome {
    node.arguments.ignore(&["stride"]);
    view(node)
}

/// Reshapes to sizes, of which one may be -1.
fn sized(node: &mut Node<'_>, x: &Value, name: &str, sizes: &[Size]) -> Outcome {
    let known: Vec<i64> = sizes
        .iter()
        .filter_map(|size| if let Size::Known(size) = size { Some(*size) } else { None })
        .collect();
    let inferred = known.iter().filter(|size| **size == -1).count();
    if inferred > 1 || known.iter().any(|size| *size < -1) {
        return Err(wrong(name, "sizes, and -1 at most once", &format!("{known:?}")));
    }
    product(&known)?;
    // A size that was inferred beside 0 is not allowed in ONNX.
    if inferred == 1
        && known.contains(&0)
        && let Some(dims) = x.known_dims()
    {
        let rest = known.iter().filter(|size| **size != -1).copied().collect::<Vec<_>>();
        let all = product(&dims)?;
        let other = product(&rest)?;
        let missing = if other == 0 { 0 } else { all / other };
        let sizes: Vec<i64> =
            known.iter().map(|size| if *size == -1 { missing } else { *size }).collect();
        return node.reshape(x, &sizes);
    }
    node.reshape_to(x, sizes)
}

fn view_as(node: &mut Node<'_>) -> Outcome {
    let (x, other) = (node.tensor("self")?, node.tensor("other")?);
    node.reshape_as(&x, &other)
}

fn ravel(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    node.reshape(&x, &[-1])
}

fn flatten(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let first = axis_of(&x, node.arguments.int("start_dim")?)?;
    let last = axis_of(&x, node.arguments.int("end_dim")?)?;
    if first > last {
        return Err(format!("expected a range of dims, found {first} to {last}").into());
    }
    if rank(&x)? == 0 {
        return node.reshape(&x, &[1]);
    }
    if first == last {
        return Ok(x);
    }
    let mut shape = Vec::new();
    for axis in 0..rank(&x)? {
        match axis {
            _ if axis == first => {
                let dims: Option<Vec<i64>> = (first..=last).map(|axis| dim_of(&x, axis)).collect();
                shape.push(Size::Known(match dims {
                    Some(dims) => product(&dims)?,
                    // It is inferred.
                    None => -1,
                }));
            }
            _ if axis > first && axis <= last => {}
            _ => shape.push(node.size_of(&x, axis)?),
        }
    }
    node.reshape_to(&x, &shape)
}

fn unflatten(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let sizes = node.arguments.sizes("sizes")?;
    let mut shape = Vec::new();
    for place in 0..rank(&x)? {
        if place == axis {
            shape.extend(sizes.iter().cloned());
        } else {
            shape.push(node.size_of(&x, place)?);
        }
    }
    // Only one size can be inferred: -1 in a list of unknown sizes counts for the axis.
    sized(node, &x, "sizes", &shape)
}

pub(super) fn swapped(node: &mut Node<'_>, x: &Value, first: i64, second: i64) -> Outcome {
    let order = (0..rank(x)?).map(|axis| match axis {
        _ if axis == first => second,
        _ if axis == second => first,
        _ => axis,
    });
    let order: Vec<i64> = order.collect();
    node.transpose(x, &order)
}

fn transpose(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let (first, second) = match node.arguments.has("axis0") {
        true => ("axis0", "axis1"),
        false => ("dim0", "dim1"),
    };
    let first = axis_of(&x, node.arguments.int(first)?)?;
    let second = axis_of(&x, node.arguments.int(second)?)?;
    swapped(node, &x, first, second)
}

fn t(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    expect_rank(&x, &[0, 1, 2])?;
    if rank(&x)? < 2 { Ok(x) } else { node.transpose(&x, &[1, 0]) }
}

fn turned(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    node.turned(&x)
}

fn reversed(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let order: Vec<i64> = (0..rank(&x)?).rev().collect();
    node.transpose(&x, &order)
}

fn permute(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let rank = rank(&x)?;
    let dims = node.arguments.ints("dims")?;
    let order = dims.iter().map(|axis| place_in(rank, *axis)).collect::<Outcome<Vec<_>>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    match sorted.iter().copied().eq(0..rank) {
        true => node.transpose(&x, &order),
        false => Err(wrong("dims", &format!("each axis of rank {rank}"), &format!("{dims:?}"))),
    }
}

fn movedim(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let rank = rank(&x)?;
    let places = |name: &str| -> Outcome<Vec<i64>> {
        node.arguments.ints(name)?.iter().map(|axis| place_in(rank, *axis)).collect()
    };
    let (from, to) = (places("source")?, places("destination")?);
    if from.len() != to.len() {
        return Err(format!("expected pairs of axes, found {from:?} and {to:?}").into());
    }
    let mut rest = (0..rank).filter(|axis| !from.contains(axis));
    let order = (0..rank).map(|place| match to.iter().position(|it| *it == place) {
        Some(at) => from.get(at).copied(),
        None => rest.next(),
    });
    let order = order.collect::<Option<Vec<i64>>>().ok_or("an axis appears twice")?;
    node.transpose(&x, &order)
}

fn unsqueeze(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axis = place_in(rank(&x)?.saturating_add(1), node.arguments.int("dim")?)?;
    node.unsqueeze(&x, &[axis])
}

/// Removes dims of 1; other dims stay.
fn squeeze(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axes = match node.arguments.overload() {
        "" => (0..rank(&x)?).collect(),
        _ => {
            let axes = node.arguments.ints("dim")?;
            if axes.is_empty() { Vec::new() } else { axes_of(&x, &axes)? }
        }
    };
    let mut removed = Vec::new();
    for axis in axes {
        match dim_of(&x, axis) {
            // A scalar has the axis 0, but no dim.
            _ if axis >= rank(&x)? => {}
            Some(1) => removed.push(axis),
            // In exported programs, a dim without a known size is not 1.
            None if !node.arguments.is_declared => {
                let what = format!(
                    "the dim {axis} of `{}` must be known: it is removed if it is 1",
                    x.name()
                );
                return Err(Finding::new(Code::UnknownDims, what));
            }
            _ => {}
        }
    }
    if removed.is_empty() {
        return Ok(x);
    }
    let removed = node.longs(&removed);
    node.call("Squeeze", &[&x, &removed], [])
}

/// Broadcasts; -1 keeps a dim.
fn expand(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let sizes = node.arguments.sizes("size")?;
    let lead = length(sizes.len()) - rank(&x)?;
    if lead < 0 {
        return Err(wrong(
            "size",
            &format!("at least {} sizes", rank(&x)?),
            &sizes.len().to_string(),
        ));
    }
    let mut all = Vec::new();
    for (place, size) in (0..).zip(sizes) {
        all.push(match size {
            Size::Known(-1) if place >= lead => node.size_of(&x, place - lead)?,
            Size::Known(-1) => return Err(wrong("size", "sizes of new dims", "-1")),
            other => other,
        });
    }
    node.expand_to(&x, &all)
}

fn expand_as(node: &mut Node<'_>) -> Outcome {
    let (x, other) = (node.tensor("self")?, node.tensor("other")?);
    let sizes = node.sizes_of(&other)?;
    node.expand_to(&x, &sizes)
}

/// Broadcasts all tensors to their common dims.
fn broadcast_tensors(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let all = node.tensors("tensors")?;
    let sizes = node.broadcast_sizes(&all)?;
    all.iter().map(|value| node.expand_to(value, &sizes)).collect()
}

fn repeat(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let name = if node.arguments.has("repeats") { "repeats" } else { "dims" };
    let mut repeats = node.arguments.sizes(name)?;
    let lead = length(repeats.len()) - rank(&x)?;
    let mut x = x;
    if lead < 0 {
        if name == "repeats" {
            return Err(wrong(name, "a number for each dim", &repeats.len().to_string()));
        }
        let missing = exact(-lead)?;
        repeats.splice(0..0, std::iter::repeat_n(Size::Known(1), missing));
    }
    if lead > 64 {
        return Err(wrong(name, "fewer numbers", &repeats.len().to_string()));
    }
    if lead > 0 {
        let front: Vec<i64> = (0..lead).collect();
        x = node.unsqueeze(&x, &front)?;
    }
    if known_sizes(&repeats).is_some_and(|all| all.iter().any(|count| *count < 0)) {
        return Err(wrong(name, "numbers that are not negative", &format!("{repeats:?}")));
    }
    let repeats = node.list_of(&repeats)?;
    node.call("Tile", &[&x, &repeats], [])
}

/// `[.., c * r * r, h, w]` to `[.., c, h * r, w * r]`.
fn pixel_shuffle(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let factor = node.arguments.int("upscale_factor")?;
    let shape = node.sizes_of(&x)?;
    let flat = images(node, &x)?;
    let mode = text("mode", "CRD");
    let y = node.call("DepthToSpace", &[&flat], [crate::onnx::int("blocksize", factor), mode])?;
    unbatched(node, &y, &shape)
}

/// Joins all dims before the last three.
fn images(node: &mut Node<'_>, x: &Value) -> Outcome {
    let rank = rank(x)?;
    if rank < 3 {
        return Err(format!("expected images, found a tensor of rank {rank}").into());
    }
    if rank == 4 {
        return Ok(x.clone());
    }
    let mut shape = vec![Size::Known(-1)];
    for axis in rank - 3..rank {
        shape.push(node.size_of(x, axis)?);
    }
    node.reshape_to(x, &shape)
}

/// Restores the dims before the last three.
fn unbatched(node: &mut Node<'_>, y: &Value, shape: &[Size]) -> Outcome {
    if shape.len() == 4 {
        return Ok(y.clone());
    }
    let mut all: Vec<Size> = shape.iter().take(shape.len() - 3).cloned().collect();
    for axis in 1..4 {
        all.push(node.size_of(y, axis)?);
    }
    node.reshape_to(y, &all)
}

/// `[.., c, h * r, w * r]` to `[.., c * r * r, h, w]`.
fn pixel_unshuffle(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let factor = node.arguments.int("downscale_factor")?;
    let shape = node.sizes_of(&x)?;
    let flat = images(node, &x)?;
    let dims = (1..4).map(|axis| required_dim(&flat, axis)).collect::<Outcome<Vec<_>>>()?;
    let [channels, height, width] = dims.as_slice() else { return Err("expected images".into()) };
    if factor < 1 || height % factor != 0 || width % factor != 0 {
        return Err(wrong("downscale_factor", "a divisor of the dims", &factor.to_string()));
    }
    let (rows, columns) = (height / factor, width / factor);
    let parts = [-1, *channels, rows, factor, columns, factor];
    let y = node.reshape(&flat, &parts)?;
    let y = node.transpose(&y, &[0, 1, 3, 5, 2, 4])?;
    let y = node.reshape(&y, &[-1, channels * factor * factor, rows, columns])?;
    unbatched(node, &y, &shape)
}

fn channel_shuffle(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let groups = node.arguments.int("groups")?;
    let channels = required_dim(&x, 1)?;
    if groups < 1 || channels % groups != 0 {
        return Err(wrong("groups", &format!("a divisor of {channels}"), &groups.to_string()));
    }
    let batch = node.size_of(&x, 0)?;
    let parts = [batch, Size::Known(groups), Size::Known(channels / groups), Size::Known(-1)];
    let parts = node.reshape_to(&x, &parts)?;
    let turned = node.transpose(&parts, &[0, 2, 1, 3])?;
    node.reshape_as(&turned, &x)
}

//! Operators that consist of several others: distances, bags of embeddings, losses.

use lodstone_model::DType;

use super::linear::matmul;
use crate::onnx::{Value, int, text};
use crate::torch::arguments::{Size, wrong};
use crate::torch::node::{MAX_PARTS, Node, Outcome, Rule, axis_of, rank, required_dim};
use crate::torch::promote::{Category, category};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_cdist_forward", Rule::One(cdist)),
    ("aten::_embedding_bag", Rule::Many(embedding_bag)),
    ("aten::_embedding_bag_forward_only", Rule::Many(embedding_bag)),
    ("aten::_trilinear", Rule::One(trilinear)),
    ("aten::binary_cross_entropy", Rule::One(binary_cross_entropy)),
    ("aten::binary_cross_entropy_with_logits", Rule::One(with_logits)),
    ("aten::cdist", Rule::One(cdist)),
    ("aten::cosine_similarity", Rule::One(cosine_similarity)),
    ("aten::cross", Rule::One(cross)),
    ("aten::cross_entropy_loss", Rule::One(cross_entropy)),
    ("aten::embedding_bag", Rule::Many(embedding_bag)),
    ("aten::kron", Rule::One(kron)),
    ("aten::l1_loss", Rule::One(|node| loss(node, "l1"))),
    ("aten::linalg_cross", Rule::One(cross)),
    ("aten::linalg_det", Rule::One(determinant)),
    ("aten::mse_loss", Rule::One(|node| loss(node, "mse"))),
    ("aten::nll_loss", Rule::One(nll)),
    ("aten::nll_loss_nd", Rule::One(nll)),
    ("aten::pairwise_distance", Rule::One(pairwise_distance)),
    ("aten::repeat_interleave", Rule::One(repeat_interleave)),
    ("aten::smooth_l1_loss", Rule::One(|node| loss(node, "smooth"))),
];

/// Distances of all pairs of rows: `[.., p, m]` and `[.., r, m]` to `[.., p, r]`.
fn cdist(node: &mut Node<'_>) -> Outcome {
    let (left, right) = (node.tensor("x1")?, node.tensor("x2")?);
    let order = node.arguments.float("p")?;
    node.arguments.ignore(&["compute_mode"]);
    let (rows, columns) = (node.unsqueeze(&left, &[-2])?, node.unsqueeze(&right, &[-3])?);
    let difference = node.sub(&rows, &columns)?;
    normed(node, &difference, order, false)
}

/// The norm of the last axis.
fn normed(node: &mut Node<'_>, x: &Value, order: f64, keeps: bool) -> Outcome {
    let axes = [rank(x)? - 1];
    let kind = match () {
        () if order == 2.0 => "ReduceL2",
        () if order == 1.0 => "ReduceL1",
        () if order.is_infinite() => {
            let size = node.call("Abs", &[x], [])?;
            return node.reduce("ReduceMax", &size, &axes, keeps);
        }
        () => {
            let size = node.call("Abs", &[x], [])?;
            let exponent = node.number(x.dtype(), order)?;
            let power = node.call("Pow", &[&size, &exponent], [])?;
            let sum = node.reduce("ReduceSum", &power, &axes, keeps)?;
            let inverse = node.number(x.dtype(), 1.0 / order)?;
            return node.call("Pow", &[&sum, &inverse], []);
        }
    };
    node.reduce(kind, x, &axes, keeps)
}

fn pairwise_distance(node: &mut Node<'_>) -> Outcome {
    let (left, right) = (node.tensor("x1")?, node.tensor("x2")?);
    let (order, eps) = (node.arguments.float("p")?, node.arguments.float("eps")?);
    let keeps = node.arguments.flag("keepdim")?;
    let difference = node.sub(&left, &right)?;
    let shifted = node.plus(&difference, eps)?;
    normed(node, &shifted, order, keeps)
}

fn cosine_similarity(node: &mut Node<'_>) -> Outcome {
    let (left, right) = (node.tensor("x1")?, node.tensor("x2")?);
    let eps = node.arguments.float("eps")?;
    let whole = rank(&left)?.max(rank(&right)?);
    let axis = crate::torch::node::place_in(whole, node.arguments.int("dim")?)?;
    let mut parts = Vec::new();
    for x in [&left, &right] {
        let own = axis - (whole - rank(x)?);
        let norm = node.reduce("ReduceL2", x, &[own], true)?;
        let least = node.number(x.dtype(), eps)?;
        let norm = node.call("Max", &[&norm, &least], [])?;
        parts.push(node.div(x, &norm)?);
    }
    let [left, right] = parts.as_slice() else { return Err("a part was lost".into()) };
    let product = node.mul(left, right)?;
    node.reduce("ReduceSum", &product, &[axis], false)
}

fn cross(node: &mut Node<'_>) -> Outcome {
    let (left, right) = (node.tensor("self")?, node.tensor("other")?);
    let dim = match node.arguments.optional_int("dim")? {
        Some(dim) => dim,
        None => (0..rank(&left)?)
            .find(|axis| crate::torch::node::dim_of(&left, *axis) == Some(3))
            .ok_or("expected a dim of 3")?,
    };
    let axis = axis_of(&left, dim)?;
    let (ahead, behind) = (node.longs(&[1, 2, 0]), node.longs(&[2, 0, 1]));
    let mut products = Vec::new();
    for (first, second) in [(&ahead, &behind), (&behind, &ahead)] {
        let (a, b) = (node.gather(&left, first, axis)?, node.gather(&right, second, axis)?);
        products.push(node.mul(&a, &b)?);
    }
    let [plus, minus] = products.as_slice() else { return Err("a product was lost".into()) };
    node.sub(plus, minus)
}

fn kron(node: &mut Node<'_>) -> Outcome {
    let (left, right, _) = node.pair("self", "other")?;
    let whole = rank(&left)?.max(rank(&right)?);
    let (mut left_dims, mut right_dims, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for axis in 0..whole {
        let of = |node: &mut Node<'_>, x: &Value| {
            let own = axis - (whole - rank(x)?);
            if own < 0 { Ok(Size::Known(1)) } else { node.size_of(x, own) }
        };
        let (a, b) = (of(node, &left)?, of(node, &right)?);
        let (Size::Known(m), Size::Known(n)) = (&a, &b) else {
            return Err("the dims must be known".into());
        };
        left_dims.extend([*m, 1]);
        right_dims.extend([1, *n]);
        all.push(m * n);
    }
    let (left, right) = (node.reshape(&left, &left_dims)?, node.reshape(&right, &right_dims)?);
    let product = node.mul(&left, &right)?;
    node.reshape(&product, &all)
}

/// The product of three tensors with new dims, summed over dims.
fn trilinear(node: &mut Node<'_>) -> Outcome {
    let mut product: Option<Value> = None;
    for place in 1..=3 {
        let x = node.tensor(&format!("i{place}"))?;
        let axes = node.arguments.ints(&format!("expand{place}"))?;
        let x = if axes.is_empty() { x } else { node.unsqueeze(&x, &axes)? };
        product = Some(match product {
            Some(product) => node.mul(&product, &x)?,
            None => x,
        });
    }
    let product = product.ok_or("a factor is missing")?;
    let axes = node.arguments.ints("sumdim")?;
    node.arguments.ignore(&["unroll_dim"]);
    let axes = if axes.is_empty() { axes } else { crate::torch::node::axes_of(&product, &axes)? };
    super::reduce::reduced(node, "ReduceSum", &product, &axes, false)
}

fn determinant(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("A")?;
    node.call("Det", &[&x], [])
}

/// Repeats elements along an axis: by one number, or by a tensor of numbers of known contents.
fn repeat_interleave(node: &mut Node<'_>) -> Outcome {
    if node.arguments.overload() == "Tensor" {
        let repeats = node.tensor("repeats")?;
        node.arguments.ignore(&["output_size"]);
        return repeated_places(node, &repeats);
    }
    let x = node.tensor("self")?;
    let dim = node.arguments.optional_int("dim")?;
    node.arguments.ignore(&["output_size"]);
    let (x, axis) = match dim {
        Some(dim) => (x.clone(), axis_of(&x, dim)?),
        None => (node.reshape(&x, &[-1])?, 0),
    };
    if node.arguments.overload() == "self_Tensor" {
        let repeats = node.tensor("repeats")?;
        let size = node.size_of(&x, axis)?;
        let repeats = node.expand_to(&repeats, &[size])?;
        let places = repeated_places(node, &repeats)?;
        return node.gather(&x, &places, axis);
    }
    let count = node.arguments.int("repeats")?;
    if !(0..=MAX_PARTS).contains(&count) {
        return Err(wrong("repeats", "a number that is not negative", &count.to_string()));
    }
    repeated(node, &x, axis, count)
}

/// Repeats each element along an axis.
pub(super) fn repeated(node: &mut Node<'_>, x: &Value, axis: i64, count: i64) -> Outcome {
    let spread = node.unsqueeze(x, &[axis + 1])?;
    let repeats = spread.rank()?.numbers().map(|other| if other == axis + 1 { count } else { 1 });
    let repeats = node.longs(&repeats.collect::<Vec<_>>());
    let tiled = node.call("Tile", &[&spread, &repeats], [])?;
    let sizes = (0..).zip(node.sizes_of(x)?).map(|(other, size)| match size {
        Size::Known(size) if other == axis => Size::Known(size * count),
        Size::Value(_) if other == axis => Size::Known(-1),
        size => size,
    });
    node.reshape_to(&tiled, &sizes.collect::<Vec<_>>())
}

/// Returns each place as many times as a vector has it: the number of ends that are not after each result.
fn repeated_places(node: &mut Node<'_>, repeats: &Value) -> Outcome {
    let repeats = node.cast(repeats, DType::Int64)?;
    let axis = node.long(0);
    let ends = node.call("CumSum", &[&repeats, &axis], [])?;
    let total = node.reduce("ReduceSum", &repeats, &[0], false)?;
    let places = node.counting(&total, DType::Int64)?;
    let places = node.unsqueeze(&places, &[1])?;
    let passed = node.call("LessOrEqual", &[&ends, &places], [])?;
    let passed = node.cast(&passed, DType::Int64)?;
    node.reduce("ReduceSum", &passed, &[1], false)
}

/// Sums, means or maxima of bags of rows; a bag begins at each offset.
fn embedding_bag(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let (weight, indices) = (node.tensor("weight")?, node.tensor("indices")?);
    let offsets = node.tensor("offsets")?;
    let mode = node.arguments.int("mode")?;
    let per_sample = node.optional("per_sample_weights")?;
    let includes_last = node.arguments.flag("include_last_offset")?;
    if node.arguments.optional_int("padding_idx")?.is_some_and(|index| index >= 0) {
        return Err(wrong("padding_idx", "`None`", "an index"));
    }
    let (indices, offsets) =
        (node.cast(&indices, DType::Int64)?, node.cast(&offsets, DType::Int64)?);
    let count = required_dim(&offsets, 0)? - i64::from(includes_last);
    let starts = node.slice(&offsets, 0, 0, count)?;
    let mut rows = node.gather(&weight, &indices, 0)?;
    if let Some(weights) = per_sample {
        let weights = node.unsqueeze(&weights, &[1])?;
        rows = node.mul(&rows, &weights)?;
    }
    // [bags, rows]: whether a row belongs to a bag.
    let size = node.extent(&indices, 0)?;
    let places = node.counting(&size, DType::Int64)?;
    let places = node.unsqueeze(&places, &[0])?;
    let end = node.reshape(&size, &[1])?;
    let later = node.slice(&starts, 0, 1, crate::torch::node::BEYOND)?;
    let ends = if includes_last {
        node.slice(&offsets, 0, 1, crate::torch::node::BEYOND)?
    } else {
        node.concat(&[&later, &end], 0)?
    };
    let (starts, ends) = (node.unsqueeze(&starts, &[1])?, node.unsqueeze(&ends, &[1])?);
    let from = node.call("GreaterOrEqual", &[&places, &starts], [])?;
    let until = node.call("Less", &[&places, &ends], [])?;
    let belongs = node.call("And", &[&from, &until], [])?;
    let shares = node.cast(&belongs, rows.dtype())?;
    let y = match mode {
        0 | 1 => {
            let sums = matmul(node, &shares, &rows)?;
            match mode {
                0 => sums,
                _ => {
                    let counts = node.reduce("ReduceSum", &shares, &[1], true)?;
                    let least = node.number(rows.dtype(), 1.0)?;
                    let counts = node.call("Max", &[&counts, &least], [])?;
                    node.div(&sums, &counts)?
                }
            }
        }
        2 => {
            let belongs = node.unsqueeze(&belongs, &[2])?;
            let rows = node.unsqueeze(&rows, &[0])?;
            let least = node.number(rows.dtype(), f64::NEG_INFINITY)?;
            let all = node.choose(&belongs, &rows, &least)?;
            let most = node.reduce("ReduceMax", &all, &[1], false)?;
            let counts = node.reduce("ReduceMax", &shares, &[1], true)?;
            let zero = node.number(rows.dtype(), 0.0)?;
            let is_empty = node.call("Equal", &[&counts, &zero], [])?;
            node.choose(&is_empty, &zero, &most)?
        }
        other => return Err(wrong("mode", "0 to 2", &other.to_string())),
    };
    let empty = node.filled(DType::Int64, 0.0, &[0])?;
    Ok(vec![y, empty.clone(), empty.clone(), empty])
}

/// Reduces a loss: 0 not at all, 1 to the mean, 2 to the sum.
fn total(node: &mut Node<'_>, losses: &Value) -> Outcome {
    let axes: Vec<i64> = (0..rank(losses)?).collect();
    match node.arguments.int("reduction")? {
        0 => Ok(losses.clone()),
        1 => super::reduce::reduced(node, "ReduceMean", losses, &axes, false),
        2 => super::reduce::reduced(node, "ReduceSum", losses, &axes, false),
        other => Err(wrong("reduction", "0 to 2", &other.to_string())),
    }
}

fn loss(node: &mut Node<'_>, kind: &str) -> Outcome {
    let (x, target, dtype) = node.pair("self", "target")?;
    let difference = node.sub(&x, &target)?;
    let size = node.call("Abs", &[&difference], [])?;
    let losses = match kind {
        "l1" => size,
        "mse" => node.mul(&difference, &difference)?,
        _ => {
            let beta = node.arguments.float("beta")?;
            if beta == 0.0 {
                return total(node, &size);
            }
            let squares = node.mul(&difference, &difference)?;
            let near = node.times(&squares, 0.5 / beta)?;
            let far = node.plus(&size, -0.5 * beta)?;
            let limit = node.number(dtype, beta)?;
            let is_near = node.call("Less", &[&size, &limit], [])?;
            node.choose(&is_near, &near, &far)?
        }
    };
    total(node, &losses)
}

fn binary_cross_entropy(node: &mut Node<'_>) -> Outcome {
    let (x, target) = (node.tensor("self")?, node.tensor("target")?);
    let weight = node.optional("weight")?;
    let one = node.number(x.dtype(), 1.0)?;
    let least = node.number(x.dtype(), -100.0)?;
    let mut sums = Vec::new();
    let (other, other_target) = (node.sub(&one, &x)?, node.sub(&one, &target)?);
    for (value, share) in [(&x, &target), (&other, &other_target)] {
        let log = node.call("Log", &[value], [])?;
        let log = node.call("Max", &[&log, &least], [])?;
        sums.push(node.mul(&log, share)?);
    }
    let [first, second] = sums.as_slice() else { return Err("a term was lost".into()) };
    let sum = node.add(first, second)?;
    let mut losses = node.call("Neg", &[&sum], [])?;
    if let Some(weight) = weight {
        losses = node.mul(&losses, &weight)?;
    }
    total(node, &losses)
}

/// `(1 - target) * x + weight * log(1 + exp(-x))`, with a weight of 1 and that of positive targets.
fn with_logits(node: &mut Node<'_>) -> Outcome {
    let (x, target) = (node.tensor("self")?, node.tensor("target")?);
    let (weight, positive) = (node.optional("weight")?, node.optional("pos_weight")?);
    let minus = node.call("Neg", &[&x], [])?;
    let mut soft = node.call("Softplus", &[&minus], [])?;
    if let Some(positive) = positive {
        let more = node.plus(&positive, -1.0)?;
        let more = node.mul(&more, &target)?;
        let share = node.plus(&more, 1.0)?;
        soft = node.mul(&share, &soft)?;
    }
    let one = node.number(x.dtype(), 1.0)?;
    let rest = node.sub(&one, &target)?;
    let rest = node.mul(&rest, &x)?;
    let mut losses = node.add(&rest, &soft)?;
    if let Some(weight) = weight {
        losses = node.mul(&losses, &weight)?;
    }
    total(node, &losses)
}

fn reduction(node: &Node<'_>) -> Outcome<&'static str> {
    match node.arguments.int("reduction")? {
        0 => Ok("none"),
        1 => Ok("mean"),
        2 => Ok("sum"),
        other => Err(wrong("reduction", "0 to 2", &other.to_string())),
    }
}

fn nll(node: &mut Node<'_>) -> Outcome {
    let (x, target) = (node.tensor("self")?, node.tensor("target")?);
    let weight = node.optional("weight")?;
    let ignored = node.arguments.int("ignore_index")?;
    let flags = [text("reduction", reduction(node)?), int("ignore_index", ignored)];
    let mut operands = vec![&x, &target];
    operands.extend(weight.as_ref());
    node.call("NegativeLogLikelihoodLoss", &operands, flags)
}

fn cross_entropy(node: &mut Node<'_>) -> Outcome {
    let (x, target) = (node.tensor("self")?, node.tensor("target")?);
    let weight = node.optional("weight")?;
    let ignored = node.arguments.int("ignore_index")?;
    if node.arguments.float("label_smoothing")? != 0.0
        || category(target.dtype())? == Category::Float
    {
        return Err("smoothed and soft labels are not supported".into());
    }
    let flags = [text("reduction", reduction(node)?), int("ignore_index", ignored)];
    let mut operands = vec![&x, &target];
    operands.extend(weight.as_ref());
    node.call("SoftmaxCrossEntropyLoss", &operands, flags)
}

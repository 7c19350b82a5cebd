//! Reductions.

use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::onnx::{Value, int};
use crate::torch::arguments::{Number, wrong};
use crate::torch::node::{Node, Outcome, Rule, axes_of, axis_of, dim_of, rank};
use crate::torch::promote::{Category, category, float_type};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::all", Rule::One(|node| truths(node, "ReduceMin"))),
    ("aten::amax", Rule::One(|node| extremes(node, "ReduceMax"))),
    ("aten::amin", Rule::One(|node| extremes(node, "ReduceMin"))),
    ("aten::aminmax", Rule::Many(both_extremes)),
    ("aten::any", Rule::One(|node| truths(node, "ReduceMax"))),
    ("aten::argmax", Rule::One(|node| place_of(node, "ArgMax"))),
    ("aten::argmin", Rule::One(|node| place_of(node, "ArgMin"))),
    ("aten::count_nonzero", Rule::One(count_nonzero)),
    ("aten::cummax", Rule::Many(|node| running(node, true))),
    ("aten::cummin", Rule::Many(|node| running(node, false))),
    ("aten::cumprod", Rule::One(cumprod)),
    ("aten::cumsum", Rule::One(cumsum)),
    ("aten::frobenius_norm", Rule::One(|node| norm(node, None))),
    ("aten::linalg_norm", Rule::One(linalg_norm)),
    ("aten::linalg_vector_norm", Rule::One(linalg_norm)),
    ("aten::logsumexp", Rule::One(logsumexp)),
    ("aten::mean", Rule::One(mean)),
    ("aten::norm", Rule::One(old_norm)),
    ("aten::prod", Rule::One(|node| total(node, "ReduceProd"))),
    ("aten::std", Rule::One(|node| Ok(spread(node, true)?.0))),
    ("aten::std_mean", Rule::Many(|node| spread(node, true).map(|(a, b)| vec![a, b]))),
    ("aten::sum", Rule::One(|node| total(node, "ReduceSum"))),
    ("aten::trace", Rule::One(trace)),
    ("aten::var", Rule::One(|node| Ok(spread(node, false)?.0))),
    ("aten::var_mean", Rule::Many(|node| spread(node, false).map(|(a, b)| vec![a, b]))),
];

/// Returns the axes in `dim`, of which none stands for all, and whether they are kept.
fn range(node: &Node<'_>, x: &Value) -> Outcome<(Vec<i64>, bool)> {
    let dims = match node.arguments.has("dim") {
        true => node.arguments.ints("dim")?,
        false => Vec::new(),
    };
    let keeps = node.arguments.has("keepdim") && node.arguments.flag("keepdim")?;
    Ok((axes_of(x, &dims)?, keeps))
}

/// Reduces; a scalar has nothing to reduce.
pub(super) fn reduced(
    node: &mut Node<'_>,
    kind: &str,
    x: &Value,
    axes: &[i64],
    keeps: bool,
) -> Outcome {
    if rank(x)? == 0 || axes.is_empty() {
        return match kind {
            "ReduceL1" | "ReduceL2" => node.call("Abs", &[x], []),
            _ => Ok(x.clone()),
        };
    }
    node.reduce(kind, x, axes, keeps)
}

/// A sum or product, of integers in `int64`.
fn total(node: &mut Node<'_>, kind: &str) -> Outcome {
    let x = node.tensor("self")?;
    let (axes, keeps) = range(node, &x)?;
    let dtype = match (node.arguments.dtype("dtype")?, category(x.dtype())?) {
        (Some(dtype), _) => dtype,
        (None, Category::Float) => x.dtype(),
        (None, _) => DType::Int64,
    };
    let x = node.cast(&x, dtype)?;
    reduced(node, kind, &x, &axes, keeps)
}

fn mean(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let (axes, keeps) = range(node, &x)?;
    let dtype = node.arguments.dtype("dtype")?.unwrap_or(x.dtype());
    if category(dtype)? != Category::Float {
        return Err(format!("the mean of {dtype} needs a type of floats").into());
    }
    let x = node.cast(&x, dtype)?;
    reduced(node, "ReduceMean", &x, &axes, keeps)
}

/// `all` and `any`.
fn truths(node: &mut Node<'_>, kind: &str) -> Outcome {
    let x = node.tensor("self")?;
    let (axes, keeps) = range(node, &x)?;
    let is_byte = x.dtype() == DType::Uint8;
    let truth = node.cast(&x, DType::Bool)?;
    let numbers = node.cast(&truth, DType::Int32)?;
    let found = reduced(node, kind, &numbers, &axes, keeps)?;
    // The result of bytes is bytes.
    node.cast(&found, if is_byte { DType::Uint8 } else { DType::Bool })
}

/// Reduces truth values and small integers in a type that ONNX has.
fn extreme(node: &mut Node<'_>, kind: &str, x: &Value, axes: &[i64], keeps: bool) -> Outcome {
    let wide = match x.dtype() {
        DType::Bool | DType::Int16 | DType::Uint16 => DType::Int32,
        other => other,
    };
    let wide = node.cast(x, wide)?;
    let found = reduced(node, kind, &wide, axes, keeps)?;
    node.cast(&found, x.dtype())
}

fn extremes(node: &mut Node<'_>, kind: &str) -> Outcome {
    let x = node.tensor("self")?;
    let (axes, keeps) = range(node, &x)?;
    extreme(node, kind, &x, &axes, keeps)
}

fn both_extremes(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    Ok(vec![extremes(node, "ReduceMin")?, extremes(node, "ReduceMax")?])
}

/// The maximum (`Max`) or minimum of all elements.
pub(super) fn extreme_of_all(node: &mut Node<'_>, x: &Value, kind: &str) -> Outcome {
    let axes: Vec<i64> = (0..rank(x)?).collect();
    extreme(node, &format!("Reduce{kind}"), x, &axes, false)
}

/// The maximum or minimum along an axis, and its place.
pub(super) fn extreme_along(node: &mut Node<'_>, kind: &str) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let dim = node.arguments.int("dim")?;
    let keeps = node.arguments.flag("keepdim")?;
    if rank(&x)? == 0 {
        axis_of(&x, dim)?;
        let place = node.long(0);
        return Ok(vec![x, place]);
    }
    let axis = axis_of(&x, dim)?;
    let values = extreme(node, &format!("Reduce{kind}"), &x, &[axis], keeps)?;
    let places = arg(node, &format!("Arg{kind}"), &x, axis, keeps)?;
    Ok(vec![values, places])
}

fn arg(node: &mut Node<'_>, kind: &str, x: &Value, axis: i64, keeps: bool) -> Outcome {
    let wide = match x.dtype() {
        DType::Bool | DType::Int16 | DType::Uint16 => DType::Int32,
        other => other,
    };
    let wide = node.cast(x, wide)?;
    node.call(kind, &[&wide], [int("axis", axis), int("keepdims", i64::from(keeps))])
}

fn place_of(node: &mut Node<'_>, kind: &str) -> Outcome {
    let x = node.tensor("self")?;
    let keeps = node.arguments.flag("keepdim")?;
    match node.arguments.optional_int("dim")? {
        Some(_) if rank(&x)? == 0 => Ok(node.long(0)),
        Some(dim) => {
            let axis = axis_of(&x, dim)?;
            arg(node, kind, &x, axis, keeps)
        }
        None => {
            let flat = node.reshape(&x, &[-1])?;
            let place = arg(node, kind, &flat, 0, false)?;
            match keeps {
                true => node.reshape(&place, &vec![1; x.rank()?.count()]),
                false => Ok(place),
            }
        }
    }
}

fn count_nonzero(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let (axes, _) = range(node, &x)?;
    let truth = node.cast(&x, DType::Bool)?;
    let numbers = node.cast(&truth, DType::Int64)?;
    reduced(node, "ReduceSum", &numbers, &axes, false)
}

/// Returns the number of elements along axes as a scalar of a type.
fn count(node: &mut Node<'_>, x: &Value, axes: &[i64], dtype: DType) -> Outcome {
    let mut all = node.number(dtype, 1.0)?;
    let known: Option<Vec<i64>> = axes.iter().map(|axis| dim_of(x, *axis)).collect();
    if let Some(known) = known {
        #[expect(clippy::cast_precision_loss, reason = "as PyTorch converts counts")]
        return node.number(dtype, crate::torch::node::product(&known)? as f64);
    }
    for axis in axes {
        let size = node.extent_as(x, *axis, dtype)?;
        all = node.mul(&all, &size)?;
    }
    Ok(all)
}

/// The variance or deviation, and the mean. `correction` is subtracted from the count.
fn spread(node: &mut Node<'_>, roots: bool) -> Outcome<(Value, Value)> {
    let x = node.tensor("self")?;
    let (axes, keeps) = range(node, &x)?;
    let correction = match node.arguments.has("correction") {
        // `None` is 1, as in PyTorch.
        true => node.arguments.optional_float("correction")?.unwrap_or(1.0),
        false if node.arguments.has("unbiased") => {
            f64::from(u8::from(node.arguments.flag("unbiased")?))
        }
        false => 1.0,
    };
    let mean = reduced(node, "ReduceMean", &x, &axes, true)?;
    let centered = node.sub(&x, &mean)?;
    let squares = node.mul(&centered, &centered)?;
    let sum = reduced(node, "ReduceSum", &squares, &axes, keeps)?;
    let all = count(node, &x, &axes, x.dtype())?;
    let rest = node.plus(&all, -correction)?;
    let zero = node.number(x.dtype(), 0.0)?;
    let rest = node.call("Max", &[&rest, &zero], [])?;
    let mut variance = node.div(&sum, &rest)?;
    if roots {
        variance = node.call("Sqrt", &[&variance], [])?;
    }
    let mean = match keeps || rank(&x)? == 0 {
        true => mean,
        false => {
            let axes = node.longs(&axes);
            node.call("Squeeze", &[&mean, &axes], [])?
        }
    };
    Ok((variance, mean))
}

fn cumsum(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let dtype = match (node.arguments.dtype("dtype")?, category(x.dtype())?) {
        (Some(dtype), _) => dtype,
        (None, Category::Float) => x.dtype(),
        (None, _) => DType::Int64,
    };
    let x = node.cast(&x, dtype)?;
    if rank(&x)? == 0 {
        return Ok(x);
    }
    let axis = node.long(axis);
    node.call("CumSum", &[&x, &axis], [])
}

/// The places up to each place of an axis: `[n, n]`, true where the column is not after the row.
fn until(node: &mut Node<'_>, x: &Value, axis: i64) -> Outcome {
    let size = node.extent(x, axis)?;
    let places = node.counting(&size, DType::Int64)?;
    let (rows, columns) = (node.unsqueeze(&places, &[1])?, node.unsqueeze(&places, &[0])?);
    node.call("GreaterOrEqual", &[&rows, &columns], [])
}

/// Running products: the product of each row of `[.., n, n]`, in which later elements are 1.
fn cumprod(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let dtype = match (node.arguments.dtype("dtype")?, category(x.dtype())?) {
        (Some(dtype), _) => dtype,
        (None, Category::Float) => x.dtype(),
        (None, _) => DType::Int64,
    };
    let x = node.cast(&x, dtype)?;
    if rank(&x)? == 0 {
        return Ok(x);
    }
    let last = rank(&x)? - 1;
    let turned = super::reshape::swapped(node, &x, axis, last)?;
    let mask = until(node, &x, axis)?;
    let spread = node.unsqueeze(&turned, &[last])?;
    let one = node.number(dtype, 1.0)?;
    let factors = node.choose(&mask, &spread, &one)?;
    let products = node.reduce("ReduceProd", &factors, &[last + 1], false)?;
    super::reshape::swapped(node, &products, axis, last)
}

/// Running maxima or minima, and their places.
fn running(node: &mut Node<'_>, largest: bool) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    if rank(&x)? == 0 {
        let place = node.long(0);
        return Ok(vec![x, place]);
    }
    if category(x.dtype())? != Category::Float {
        return Err("running extremes of integers are not supported".into());
    }
    let last = rank(&x)? - 1;
    let turned = super::reshape::swapped(node, &x, axis, last)?;
    let mask = until(node, &x, axis)?;
    let spread = node.unsqueeze(&turned, &[last])?;
    let bound = node.number(x.dtype(), if largest { f64::NEG_INFINITY } else { f64::INFINITY })?;
    let candidates = node.choose(&mask, &spread, &bound)?;
    let kind = if largest { ("ReduceMax", "ArgMax") } else { ("ReduceMin", "ArgMin") };
    let values = node.reduce(kind.0, &candidates, &[last + 1], false)?;
    // Of equal elements, the last counts.
    let flags = [int("axis", last + 1), int("keepdims", 0), int("select_last_index", 1)];
    let places = node.call(kind.1, &[&candidates], flags)?;
    let values = super::reshape::swapped(node, &values, axis, last)?;
    Ok(vec![values, super::reshape::swapped(node, &places, axis, last)?])
}

fn logsumexp(node: &mut Node<'_>) -> Outcome {
    let x = node.floats("self")?;
    let (axes, keeps) = range(node, &x)?;
    reduced(node, "ReduceLogSumExp", &x, &axes, keeps)
}

/// A norm of vectors.
fn norm(node: &mut Node<'_>, order: Option<f64>) -> Outcome {
    let x = node.tensor("self")?;
    let (axes, keeps) = range(node, &x)?;
    let dtype = match node.arguments.has("dtype") {
        true => node.arguments.dtype("dtype")?,
        false => None,
    };
    let dtype = match dtype {
        Some(dtype) => dtype,
        None => float_type(x.dtype())?,
    };
    let x = node.cast(&x, dtype)?;
    // `None` is the Euclidean norm.
    let order = order.unwrap_or(2.0);
    let size = |node: &mut Node<'_>| node.call("Abs", &[&x], []);
    match () {
        () if order == 2.0 => reduced(node, "ReduceL2", &x, &axes, keeps),
        () if order == 1.0 => reduced(node, "ReduceL1", &x, &axes, keeps),
        () if order == f64::INFINITY => {
            let x = size(node)?;
            reduced(node, "ReduceMax", &x, &axes, keeps)
        }
        () if order == f64::NEG_INFINITY => {
            let x = size(node)?;
            reduced(node, "ReduceMin", &x, &axes, keeps)
        }
        () if order == 0.0 => {
            let truth = node.cast(&x, DType::Bool)?;
            let numbers = node.cast(&truth, dtype)?;
            reduced(node, "ReduceSum", &numbers, &axes, keeps)
        }
        () => {
            let x = size(node)?;
            let exponent = node.number(dtype, order)?;
            let powers = node.call("Pow", &[&x, &exponent], [])?;
            let sum = reduced(node, "ReduceSum", &powers, &axes, keeps)?;
            let inverse = node.number(dtype, 1.0 / order)?;
            node.call("Pow", &[&sum, &inverse], [])
        }
    }
}

fn linalg_norm(node: &mut Node<'_>) -> Outcome {
    if node.arguments.overload() == "ord_str" {
        let order = node.arguments.text("ord")?.unwrap_or_default();
        return match order.as_str() {
            "fro" => norm(node, None),
            _ => Err(wrong("ord", "`fro`", &order)),
        };
    }
    let order = node.arguments.number("ord")?.map(Number::float);
    if node.name() == "linalg_norm" && order.is_some() {
        let x = node.tensor("self")?;
        let count = match node.arguments.has("dim") {
            true => node.arguments.ints("dim")?.len(),
            false => x.rank()?.count(),
        };
        if count > 1 {
            return Err("norms of matrices are not supported".into());
        }
    }
    norm(node, order)
}

fn old_norm(node: &mut Node<'_>) -> Outcome {
    let order = node.arguments.number("p")?.map(Number::float);
    norm(node, order)
}

fn trace(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let dtype = if category(x.dtype())? == Category::Float { x.dtype() } else { DType::Int64 };
    let diagonal = node.diagonal(&x, [0, 1], 0)?;
    let diagonal = node.cast(&diagonal, dtype)?;
    if rank(&diagonal)? != 1 {
        return Err(Finding::from("expected a matrix"));
    }
    node.reduce("ReduceSum", &diagonal, &[0], false)
}

//! Tensors made of numbers.

use lodstone_model::DType;
use lodstone_schema::numbers::length;

use crate::onnx::Value;
use crate::onnx::indexing::Hot;
use crate::torch::arguments::{Number, Size, wrong};
use crate::torch::node::{MAX_PARTS, Node, Outcome, Rule, known_sizes, product, rank};
use crate::torch::promote::DEFAULT;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::arange", Rule::One(arange)),
    ("aten::bartlett_window", Rule::One(window)),
    ("aten::blackman_window", Rule::One(window)),
    ("aten::empty", Rule::One(|node| filled(node, "size", Number::Float(0.0)))),
    ("aten::empty_like", Rule::One(|node| like(node, Number::Int(0)))),
    ("aten::empty_permuted", Rule::One(|node| filled(node, "size", Number::Float(0.0)))),
    ("aten::empty_strided", Rule::One(|node| filled(node, "size", Number::Float(0.0)))),
    ("aten::eye", Rule::One(eye)),
    ("aten::fill", Rule::One(fill)),
    ("aten::full", Rule::One(full)),
    ("aten::full_like", Rule::One(full_like)),
    ("aten::hamming_window", Rule::One(window)),
    ("aten::hann_window", Rule::One(window)),
    ("aten::lift_fresh_copy", Rule::One(|node| node.tensor("self"))),
    ("aten::linspace", Rule::One(linspace)),
    ("aten::meshgrid", Rule::Many(meshgrid)),
    ("aten::new_empty", Rule::One(|node| new(node, Number::Int(0)))),
    ("aten::new_empty_strided", Rule::One(|node| new(node, Number::Int(0)))),
    ("aten::new_full", Rule::One(new_full)),
    ("aten::new_ones", Rule::One(|node| new(node, Number::Int(1)))),
    ("aten::new_zeros", Rule::One(|node| new(node, Number::Int(0)))),
    ("aten::one_hot", Rule::One(one_hot)),
    ("aten::ones", Rule::One(|node| filled(node, "size", Number::Float(1.0)))),
    ("aten::ones_like", Rule::One(|node| like(node, Number::Int(1)))),
    ("aten::scalar_tensor", Rule::One(scalar_tensor)),
    ("aten::tril_indices", Rule::One(|node| triangle(node, false))),
    ("aten::triu_indices", Rule::One(|node| triangle(node, true))),
    ("aten::zero", Rule::One(|node| like(node, Number::Int(0)))),
    ("aten::zeros", Rule::One(|node| filled(node, "size", Number::Float(0.0)))),
    ("aten::zeros_like", Rule::One(|node| like(node, Number::Int(0)))),
];

/// A window of a known length: of a period, or symmetric.
fn window(node: &mut Node<'_>) -> Outcome {
    let length = node.arguments.int("window_length")?;
    if !(0..=MAX_PARTS).contains(&length) {
        return Err(wrong("window_length", &format!("at most {MAX_PARTS}"), &length.to_string()));
    }
    let is_periodic = node.arguments.optional_flag("periodic")?.unwrap_or(true);
    let name = node.name();
    let mut weights = (0.54, 0.46);
    for (number, weight) in [("alpha", &mut weights.0), ("beta", &mut weights.1)] {
        if name == "hamming_window" && node.arguments.has(number) {
            *weight = node.arguments.number(number)?.map_or(*weight, Number::float);
        }
    }
    let dtype = node.arguments.dtype("dtype")?.unwrap_or(DEFAULT);
    let steps = if is_periodic { length } else { length - 1 };
    let value = |at: i64| {
        #[expect(clippy::cast_precision_loss, reason = "at most MAX_PARTS")]
        let (at, steps) = (at as f64, steps.max(1) as f64);
        let turn = 2.0 * std::f64::consts::PI * at / steps;
        match name {
            "bartlett_window" => 1.0 - (2.0 * at / steps - 1.0).abs(),
            "blackman_window" => 0.42 - 0.5 * turn.cos() + 0.08 * (2.0 * turn).cos(),
            "hamming_window" => weights.0 - weights.1 * turn.cos(),
            _ => 0.5 - 0.5 * turn.cos(),
        }
    };
    // A window of one element is 1.
    let values: Vec<f64> =
        (0..length).map(|at| if length == 1 { 1.0 } else { value(at) }).collect();
    let values = node.doubles(&values);
    node.cast(&values, dtype)
}

/// A tensor of sizes that is filled with a value.
fn of_sizes(node: &mut Node<'_>, sizes: &[Size], dtype: DType, number: Number) -> Outcome {
    if let Some(known) = known_sizes(sizes) {
        product(&known)?;
        if known.iter().any(|size| *size < 0) {
            return Err(wrong("size", "sizes that are not negative", &format!("{known:?}")));
        }
        if known.is_empty() {
            return node.number_of(dtype, number);
        }
    }
    if let (DType::Int64, Number::Int(value)) = (dtype, number)
        && value.unsigned_abs() > 1 << 52
    {
        let value = node.long(value);
        return node.expand_to(&value, sizes);
    }
    node.filled_to(dtype, number.float(), sizes)
}

fn filled(node: &mut Node<'_>, name: &str, number: Number) -> Outcome {
    let sizes = node.arguments.sizes(name)?;
    let dtype = node.arguments.dtype("dtype")?.unwrap_or(DEFAULT);
    node.arguments.ignore(&["stride", "physical_layout", "names"]);
    of_sizes(node, &sizes, dtype, number)
}

/// Fills with a number, or one that the program computes.
pub(super) fn with_value(
    node: &mut Node<'_>,
    sizes: &[Size],
    dtype: Option<DType>,
    name: &str,
) -> Outcome {
    match node.operand(name)? {
        crate::torch::promote::Operand::Number(number) => {
            of_sizes(node, sizes, dtype.unwrap_or(number.dtype()), number)
        }
        operand => {
            let own = match &operand {
                crate::torch::promote::Operand::Tensor(value)
                | crate::torch::promote::Operand::Computed(value) => value.dtype(),
                crate::torch::promote::Operand::Number(number) => number.dtype(),
            };
            let value = node.in_type(&operand, dtype.unwrap_or(own))?;
            node.expand_to(&value, sizes)
        }
    }
}

fn full(node: &mut Node<'_>) -> Outcome {
    let sizes = node.arguments.sizes("size")?;
    let dtype = node.arguments.dtype("dtype")?;
    node.arguments.ignore(&["names"]);
    with_value(node, &sizes, dtype, "fill_value")
}

fn full_like(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let dtype = node.arguments.dtype("dtype")?.unwrap_or(x.dtype());
    let sizes = node.sizes_of(&x)?;
    with_value(node, &sizes, Some(dtype), "fill_value")
}

fn fill(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let sizes = node.sizes_of(&x)?;
    with_value(node, &sizes, Some(x.dtype()), "value")
}

fn new_full(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let sizes = node.arguments.sizes("size")?;
    let dtype = node.arguments.dtype("dtype")?.unwrap_or(x.dtype());
    with_value(node, &sizes, Some(dtype), "fill_value")
}

fn new(node: &mut Node<'_>, number: Number) -> Outcome {
    let x = node.tensor("self")?;
    let sizes = node.arguments.sizes("size")?;
    node.arguments.ignore(&["stride"]);
    let dtype = node.arguments.dtype("dtype")?.unwrap_or(x.dtype());
    of_sizes(node, &sizes, dtype, number)
}

fn like(node: &mut Node<'_>, number: Number) -> Outcome {
    let x = node.tensor("self")?;
    let dtype = match node.arguments.has("dtype") {
        true => node.arguments.dtype("dtype")?.unwrap_or(x.dtype()),
        false => x.dtype(),
    };
    let sizes = node.sizes_of(&x)?;
    of_sizes(node, &sizes, dtype, number)
}

fn scalar_tensor(node: &mut Node<'_>) -> Outcome {
    let dtype = node.arguments.dtype("dtype")?.unwrap_or(DEFAULT);
    with_value(node, &[], Some(dtype), "s")
}

/// Numbers from `start` to `end` with a step: integers if all three are, otherwise floats.
fn arange(node: &mut Node<'_>) -> Outcome {
    let names = ["start", "end", "step"];
    let given: Vec<Option<Number>> = names
        .iter()
        .map(|name| {
            if node.arguments.has(name) { node.arguments.number(name).ok().flatten() } else { None }
        })
        .collect();
    let floats = given.iter().any(|number| matches!(number, Some(Number::Float(_))));
    let dtype = node.arguments.dtype("dtype")?;
    let dtype = dtype.unwrap_or(if floats { DEFAULT } else { DType::Int64 });
    let wide = match dtype {
        _ if floats => DType::Float64,
        DType::Float32 | DType::Float64 | DType::Float16 | DType::BFloat16 => DType::Int64,
        DType::Int64 | DType::Int32 | DType::Int16 | DType::Int8 | DType::Uint8 => DType::Int64,
        other => return Err(format!("numbers of {other} are not supported").into()),
    };
    let defaults = [Some(0.0), None, Some(1.0)];
    let mut bounds = Vec::new();
    for (name, default) in names.into_iter().zip(defaults) {
        let value = match node.arguments.has(name) {
            true => node.scalar(name, wide)?,
            false => None,
        };
        bounds.push(match (value, default) {
            (Some(value), _) => value,
            (None, Some(default)) => node.number(wide, default)?,
            (None, None) => return Err(format!("the argument `{name}` is missing").into()),
        });
    }
    let known = names.iter().zip(given).zip(defaults).map(|((name, given), default)| match given {
        Some(number) => Some(number.float()),
        // It is computed.
        None if node.arguments.has(name) => None,
        None => default,
    });
    if let [Some(start), Some(end), Some(step)] = *known.collect::<Vec<_>>() {
        let count = (end - start) / step;
        if step == 0.0 || !count.is_finite() || count > f64::from(1 << 30) {
            return Err(wrong("step", "a step that leads to the end", &step.to_string()));
        }
    }
    let numbers = node.call("Range", &bounds.iter().collect::<Vec<_>>(), [])?;
    node.cast(&numbers, dtype)
}

/// Equal steps from both ends, as PyTorch computes them.
#[expect(clippy::cast_precision_loss, reason = "numbers of steps are small")]
fn linspace(node: &mut Node<'_>) -> Outcome {
    // `None` is 100, as in releases of PyTorch that allow it.
    let steps = node.arguments.optional_int("steps")?.unwrap_or(100);
    let dtype = node.arguments.dtype("dtype")?.unwrap_or(DEFAULT);
    if !(0..=1 << 24).contains(&steps) {
        return Err(wrong("steps", "a number of steps", &steps.to_string()));
    }
    let wide = if dtype.is_float() { dtype } else { DType::Float32 };
    let start = node.scalar("start", wide)?.ok_or("the argument `start` is missing")?;
    let end = node.scalar("end", wide)?.ok_or("the argument `end` is missing")?;
    if steps == 1 {
        let one = node.reshape(&start, &[1])?;
        return node.cast(&one, dtype);
    }
    let difference = node.sub(&end, &start)?;
    let count = node.number(wide, (steps - 1).max(1) as f64)?;
    let step = node.div(&difference, &count)?;
    let places = node.range(steps)?;
    let up = node.cast(&places, wide)?;
    let down = node.sub(&count, &up)?;
    let rise = node.mul(&up, &step)?;
    let from_start = node.add(&start, &rise)?;
    let fall = node.mul(&down, &step)?;
    let from_end = node.sub(&end, &fall)?;
    let half = node.long(steps / 2);
    let is_first = node.call("Less", &[&places, &half], [])?;
    let y = node.choose(&is_first, &from_start, &from_end)?;
    node.cast(&y, dtype)
}

fn eye(node: &mut Node<'_>) -> Outcome {
    let rows = node.arguments.size("n")?.ok_or("the argument `n` is missing")?;
    let columns = match node.arguments.has("m") {
        true => node.arguments.size("m")?.unwrap_or(rows.clone()),
        false => rows.clone(),
    };
    let dtype = node.arguments.dtype("dtype")?.unwrap_or(DEFAULT);
    let (zero, one) = (node.long(0), node.long(1));
    let mut ranges = Vec::new();
    for size in [&rows, &columns] {
        let end = node.scalar_of(size)?;
        ranges.push(node.call("Range", &[&zero, &end, &one], [])?);
    }
    let [rows, columns] = ranges.as_slice() else { return Err("a range was lost".into()) };
    let (rows, columns) = (node.unsqueeze(rows, &[1])?, node.unsqueeze(columns, &[0])?);
    let same = node.call("Equal", &[&rows, &columns], [])?;
    node.cast(&same, dtype)
}

/// The grids of vectors, each with the dims of all.
fn meshgrid(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let all = node.tensors("tensors")?;
    let indexing = match node.arguments.has("indexing") {
        true => node.arguments.text("indexing")?.unwrap_or_default(),
        false => "ij".to_owned(),
    };
    let count = all.len();
    let swaps = match indexing.as_str() {
        "ij" => false,
        "xy" => count > 1,
        other => return Err(wrong("indexing", "`ij` or `xy`", other)),
    };
    let place = |index: usize| match index {
        0 | 1 if swaps => 1 - index,
        other => other,
    };
    let mut sizes = vec![Size::Known(1); count];
    for (index, value) in all.iter().enumerate() {
        let size = if rank(value)? == 0 { Size::Known(1) } else { node.size_of(value, 0)? };
        if let Some(slot) = sizes.get_mut(place(index)) {
            *slot = size;
        }
    }
    let mut grids = Vec::new();
    for (index, value) in all.iter().enumerate() {
        let mut dims = vec![1; count];
        if let Some(dim) = dims.get_mut(place(index)) {
            *dim = -1;
        }
        let value = node.reshape(value, &dims)?;
        grids.push(node.expand_to(&value, &sizes)?);
    }
    Ok(grids)
}

fn one_hot(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let classes = node.arguments.int("num_classes")?;
    if !(1..=1 << 24).contains(&classes) {
        return Err(wrong("num_classes", "a number of classes", &classes.to_string()));
    }
    node.one_hot(&x, &Size::Known(classes), Hot::ones(DType::Int64))
}

fn triangle(node: &mut Node<'_>, upper: bool) -> Outcome {
    let (rows, columns) = (node.arguments.int("row")?, node.arguments.int("col")?);
    let offset = node.arguments.int("offset")?;
    let dtype = node.arguments.dtype("dtype")?.unwrap_or(DType::Int64);
    if !(0..=1 << 12).contains(&rows) || !(0..=1 << 12).contains(&columns) {
        return Err(wrong("row", "a size", &format!("{rows} and {columns}")));
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for row in 0..rows {
        for column in 0..columns {
            let belongs = match upper {
                true => column - row >= offset,
                false => column - row <= offset,
            };
            if belongs {
                first.push(row);
                second.push(column);
            }
        }
    }
    let count = length(first.len());
    let list = node.longs(&[first, second].concat());
    let y = node.reshape(&list, &[2, count])?;
    node.cast(&y, dtype)
}

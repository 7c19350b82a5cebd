//! Random numbers, of the same distribution as in MXNet, but others.

use lodstone_model::{Attribute, DType};
use lodstone_schema::onnx::dtype::code;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, product, rank};
use crate::onnx::{Value, float, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_random_exponential", Rule::One(|node| drawn(node, exponential))),
    ("_random_exponential_like", Rule::One(|node| drawn_like(node, exponential))),
    ("_random_normal", Rule::One(|node| drawn(node, normal))),
    ("_random_normal_like", Rule::One(|node| drawn_like(node, normal))),
    ("_random_randint", Rule::One(|node| drawn(node, whole))),
    ("_random_uniform", Rule::One(|node| drawn(node, uniform))),
    ("_random_uniform_like", Rule::One(|node| drawn_like(node, uniform))),
    ("_sample_exponential", Rule::One(|node| sampled(node, exponential, exponential_by))),
    ("_sample_multinomial", Rule::Many(multinomial)),
    ("_sample_normal", Rule::One(|node| sampled(node, normal, normal_by))),
    ("_sample_uniform", Rule::One(|node| sampled(node, uniform, uniform_by))),
    ("_shuffle", Rule::One(shuffle)),
];

/// Where numbers go: a constant shape, or the shape of a value.
enum Target {
    Shape(Vec<i64>),
    Like(Value),
}

/// Draws numbers of a distribution, whose parameters are attributes.
type Draw = fn(&mut Node<'_>, &Target) -> Outcome;

fn drawn(node: &mut Node<'_>, draw: Draw) -> Outcome {
    node.at_most(0)?;
    let shape = node.attributes.required_ints("shape")?;
    if shape.iter().any(|dim| *dim <= 0) {
        return Err(wrong("shape", "known dims", &format!("{shape:?}")));
    }
    product(&shape)?;
    let default = if node.kind() == "_random_randint" { DType::Int32 } else { DType::Float32 };
    let dtype = node.attributes.dtype("dtype")?.unwrap_or(default);
    node.attributes.ignore(&["ctx"]);
    let numbers = draw(node, &Target::Shape(shape))?;
    node.cast(&numbers, dtype)
}

fn drawn_like(node: &mut Node<'_>, draw: Draw) -> Outcome {
    let [like] = node.exactly()?;
    let dtype = like.dtype();
    let numbers = draw(node, &Target::Like(like))?;
    node.cast(&numbers, dtype)
}

fn dtype_attribute(dtype: DType) -> Outcome<Attribute> {
    let code = code(dtype).ok_or_else(|| format!("ONNX does not have type {dtype}"))?;
    Ok(int("dtype", i64::from(code)))
}

/// Emits a random operator.
fn emit(node: &mut Node<'_>, kind: &str, target: &Target, numbers: [(&str, f64); 2]) -> Outcome {
    #[expect(clippy::cast_possible_truncation, reason = "attributes of ONNX are single floats")]
    let [first, second] = numbers.map(|(name, number)| float(name, number as f32));
    let dtype = dtype_attribute(DType::Float32)?;
    match target {
        Target::Shape(shape) => node.call(kind, &[], [first, second, dtype, ints("shape", shape)]),
        Target::Like(like) => node.call(&format!("{kind}Like"), &[like], [first, second, dtype]),
    }
}

fn uniform(node: &mut Node<'_>, target: &Target) -> Outcome {
    let (low, high) = (node.attributes.float("low", 0.0)?, node.attributes.float("high", 1.0)?);
    emit(node, "RandomUniform", target, [("low", low), ("high", high)])
}

fn normal(node: &mut Node<'_>, target: &Target) -> Outcome {
    let (mean, scale) = (node.attributes.float("loc", 0.0)?, node.attributes.float("scale", 1.0)?);
    emit(node, "RandomNormal", target, [("mean", mean), ("scale", scale)])
}

fn exponential(node: &mut Node<'_>, target: &Target) -> Outcome {
    let rate = node.attributes.float("lam", 1.0)?;
    let numbers = emit(node, "RandomUniform", target, [("low", 0.0), ("high", 1.0)])?;
    let numbers = exponential_of(node, &numbers)?;
    node.times(&numbers, 1.0 / rate)
}

/// Whole numbers from `low` up to, but without, `high`.
fn whole(node: &mut Node<'_>, target: &Target) -> Outcome {
    let (low, high) = (node.attributes.int("low", None)?, node.attributes.int("high", None)?);
    if low >= high {
        return Err(wrong("high", &format!("more than {low}"), &high.to_string()));
    }
    let numbers =
        emit(node, "RandomUniform", target, [("low", low as f64), ("high", high as f64)])?;
    node.call("Floor", &[&numbers], [])
}

/// Turns numbers between 0 and 1 into exponentially distributed ones.
fn exponential_of(node: &mut Node<'_>, numbers: &Value) -> Outcome {
    let rest = node.times(numbers, -1.0)?;
    let rest = node.plus(&rest, 1.0)?;
    let logs = node.call("Log", &[&rest], [])?;
    node.times(&logs, -1.0)
}

fn exponential_by(node: &mut Node<'_>, [rate]: [&Value; 1]) -> Outcome {
    let numbers = node.call("RandomUniformLike", &[rate], [])?;
    let numbers = exponential_of(node, &numbers)?;
    node.div(&numbers, rate)
}

fn normal_by(node: &mut Node<'_>, [mean, deviation]: [&Value; 2]) -> Outcome {
    let numbers = node.call("RandomNormalLike", &[mean], [])?;
    let numbers = node.mul(&numbers, deviation)?;
    node.add(&numbers, mean)
}

fn uniform_by(node: &mut Node<'_>, [low, high]: [&Value; 2]) -> Outcome {
    let numbers = node.call("RandomUniformLike", &[low], [])?;
    let range = node.sub(high, low)?;
    let numbers = node.mul(&numbers, &range)?;
    node.add(&numbers, low)
}

/// Draws `shape` numbers for each element of the parameters.
fn sampled<const N: usize>(
    node: &mut Node<'_>,
    single: Draw,
    draw: fn(&mut Node<'_>, [&Value; N]) -> Outcome,
) -> Outcome {
    // Until MXNet 0.11, the parameters were attributes.
    if node.count() == 0 {
        return drawn(node, single);
    }
    let given: [Value; N] = node.exactly()?;
    let shape = node.attributes.ints("shape")?;
    let dtype = node.attributes.dtype("dtype")?;
    product(&shape)?;
    let first = given.first().ok_or("a parameter is missing")?;
    let (dtype, before) = (dtype.unwrap_or(first.dtype()), first.rank()?);
    let axes: Vec<i64> = (before.number()..).take(shape.len()).collect();
    let mut wide = Vec::new();
    for value in &given {
        let value = node.cast(value, DType::Float32)?;
        let value = node.unsqueeze(&value, &axes)?;
        let dims = [vec![1; before.count()], shape.clone()].concat();
        wide.push(node.expand(&value, &dims)?);
    }
    let wide: Vec<&Value> = wide.iter().collect();
    let all: [&Value; N] = wide.as_slice().try_into().map_err(|_| "a parameter is missing")?;
    let numbers = draw(node, all)?;
    node.cast(&numbers, dtype)
}

/// Draws classes by their probabilities, which are along the last axis.
fn multinomial(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [chances] = node.exactly()?;
    let shape = node.attributes.ints("shape")?;
    let with_chance = node.attributes.flag("get_prob", false)?;
    let dtype = node.attributes.dtype("dtype")?.unwrap_or(DType::Int32);
    let count = product(&shape)?;
    let before = rank(&chances)? - 1;
    let logs = node.call("Log", &[&chances], [])?;
    let table = node.call("Flatten", &[&logs], [int("axis", before)])?;
    let attributes = [dtype_attribute(DType::Int64)?, int("sample_size", count)];
    let drawn = node.call("Multinomial", &[&table], attributes)?;
    let dims = node.call("Shape", &[&chances], [])?;
    let outer = node.slice(&dims, 0, 0, before)?;
    let own = node.longs(&shape);
    let dims = node.concat(&[&outer, &own], 0)?;
    let made = node.call("Reshape", &[&drawn, &dims], [])?;
    let mut results = vec![node.cast(&made, dtype)?];
    if with_chance {
        let found = node.call("GatherElements", &[&table, &drawn], [int("axis", 1)])?;
        results.push(node.call("Reshape", &[&found, &dims], [])?);
    }
    Ok(results)
}

/// Puts the slices along the first axis into a random order.
fn shuffle(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let count = node.dim(&x, 0)?;
    let like = node.filled_as(DType::Float32, 0.0, &count)?;
    let keys = node.call("RandomUniformLike", &[&like], [])?;
    let sorted = node.emit_all::<2>("TopK", &[Some(&keys), Some(&count)], [int("axis", 0)])?;
    let [_, order] = &sorted;
    node.gather(&x, order, 0)
}

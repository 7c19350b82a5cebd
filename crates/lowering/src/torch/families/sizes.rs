//! Sizes, and arithmetic with them.

use lodstone_model::DType;

use super::binary::floored;
use super::unary::truncated;
use crate::onnx::Value;
use crate::torch::node::{Node, Outcome, Rule, axis_of, rank};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_operator::add", Rule::Number(|node| numbers(node, |node, a, b| node.add(a, b)))),
    ("_operator::and_", Rule::Number(|node| truths(node, "And"))),
    ("_operator::eq", Rule::Number(|node| compare(node, "Equal", false))),
    ("_operator::floordiv", Rule::Number(|node| numbers(node, floored))),
    ("_operator::ge", Rule::Number(|node| compare(node, "GreaterOrEqual", false))),
    ("_operator::gt", Rule::Number(|node| compare(node, "Greater", false))),
    ("_operator::le", Rule::Number(|node| compare(node, "LessOrEqual", false))),
    ("_operator::lt", Rule::Number(|node| compare(node, "Less", false))),
    ("_operator::mod", Rule::Number(|node| numbers(node, modulo))),
    ("_operator::mul", Rule::Number(|node| numbers(node, |node, a, b| node.mul(a, b)))),
    ("_operator::ne", Rule::Number(|node| compare(node, "Equal", true))),
    ("_operator::neg", Rule::Number(negative)),
    ("_operator::or_", Rule::Number(|node| truths(node, "Or"))),
    ("_operator::pos", Rule::Number(one)),
    (
        "_operator::pow",
        Rule::Number(|node| numbers(node, |node, a, b| node.call("Pow", &[a, b], []))),
    ),
    ("_operator::sub", Rule::Number(|node| numbers(node, |node, a, b| node.sub(a, b)))),
    ("_operator::truediv", Rule::Number(quotient)),
    ("aten::sym_numel", Rule::Number(numel)),
    ("aten::sym_size", Rule::Number(size)),
    ("aten::numel", Rule::Number(numel)),
    ("aten::size", Rule::Numbers(sizes)),
    ("math::ceil", Rule::Number(|node| rounded(node, "Ceil"))),
    ("math::floor", Rule::Number(|node| rounded(node, "Floor"))),
    ("math::trunc", Rule::Number(to_int)),
    ("torch::sym_float", Rule::Number(to_float)),
    ("torch::sym_int", Rule::Number(to_int)),
    ("torch::sym_ite", Rule::Number(choose)),
    (
        "torch::sym_max",
        Rule::Number(|node| numbers(node, |node, a, b| node.call("Max", &[a, b], []))),
    ),
    (
        "torch::sym_min",
        Rule::Number(|node| numbers(node, |node, a, b| node.call("Min", &[a, b], []))),
    ),
    ("torch::sym_not", Rule::Number(not)),
    ("torch::_sym_sqrt", Rule::Number(root)),
];

/// Returns the operands of a function of numbers, whatever their names.
fn operands(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let slots = node.op.inputs.iter().map(|operand| operand.slot.as_str());
    let constants = node.op.attributes.iter().map(|attribute| attribute.name.as_str());
    let mut names: Vec<&str> = slots.chain(constants).collect();
    // `a` and `b`, or `x`; or positions.
    names.sort_unstable();
    let mut values = Vec::new();
    for name in names {
        values.push(node.tensor(name)?);
    }
    Ok(values)
}

fn one(node: &mut Node<'_>) -> Outcome {
    let values = operands(node)?;
    values.into_iter().next().ok_or_else(|| "an operand is missing".into())
}

/// Applies a function to two numbers; if one is a float, to floats.
fn numbers(
    node: &mut Node<'_>,
    act: impl FnOnce(&mut Node<'_>, &Value, &Value) -> Outcome,
) -> Outcome {
    let (left, right) = pair(node)?;
    act(node, &left, &right)
}

fn pair(node: &mut Node<'_>) -> Outcome<(Value, Value)> {
    let values = operands(node)?;
    let [left, right] = values.as_slice() else {
        return Err(format!("expected two operands, found {}", values.len()).into());
    };
    let is_float = left.dtype().is_float() || right.dtype().is_float();
    let to = if is_float { DType::Float64 } else { DType::Int64 };
    Ok((node.cast(left, to)?, node.cast(right, to)?))
}

fn modulo(node: &mut Node<'_>, left: &Value, right: &Value) -> Outcome {
    if left.dtype() == DType::Int64 {
        return node.call("Mod", &[left, right], []);
    }
    let whole = floored(node, left, right)?;
    let taken = node.mul(&whole, right)?;
    node.sub(left, &taken)
}

fn quotient(node: &mut Node<'_>) -> Outcome {
    let (left, right) = pair(node)?;
    let (left, right) = (node.cast(&left, DType::Float64)?, node.cast(&right, DType::Float64)?);
    node.div(&left, &right)
}

fn compare(node: &mut Node<'_>, kind: &str, negated: bool) -> Outcome {
    let (left, right) = pair(node)?;
    let truth = node.call(kind, &[&left, &right], [])?;
    if negated { node.call("Not", &[&truth], []) } else { Ok(truth) }
}

fn truths(node: &mut Node<'_>, kind: &str) -> Outcome {
    let values = operands(node)?;
    let values = values.iter().map(|it| node.cast(it, DType::Bool)).collect::<Outcome<Vec<_>>>()?;
    node.call(kind, &values.iter().collect::<Vec<_>>(), [])
}

fn not(node: &mut Node<'_>) -> Outcome {
    let truth = one(node)?;
    let truth = node.cast(&truth, DType::Bool)?;
    node.call("Not", &[&truth], [])
}

fn negative(node: &mut Node<'_>) -> Outcome {
    let x = one(node)?;
    node.call("Neg", &[&x], [])
}

fn to_float(node: &mut Node<'_>) -> Outcome {
    let x = one(node)?;
    node.cast(&x, DType::Float64)
}

fn to_int(node: &mut Node<'_>) -> Outcome {
    let x = one(node)?;
    let x = truncated(node, &x)?;
    node.cast(&x, DType::Int64)
}

fn rounded(node: &mut Node<'_>, kind: &str) -> Outcome {
    let x = one(node)?;
    let x = if x.dtype().is_float() { node.call(kind, &[&x], [])? } else { x };
    node.cast(&x, DType::Int64)
}

fn root(node: &mut Node<'_>) -> Outcome {
    let x = one(node)?;
    let x = node.cast(&x, DType::Float64)?;
    node.call("Sqrt", &[&x], [])
}

fn choose(node: &mut Node<'_>) -> Outcome {
    let condition = node.tensor("b")?;
    let (left, right) = (node.tensor("t")?, node.tensor("f")?);
    node.choose(&condition, &left, &right)
}

/// Returns all dims.
fn sizes(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let dim = |axis| {
        let size = node.size_of(&x, axis)?;
        node.scalar_of(&size)
    };
    (0..rank(&x)?).map(dim).collect()
}

fn size(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let size = node.size_of(&x, axis)?;
    node.scalar_of(&size)
}

fn numel(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let mut all = node.long(1);
    for axis in 0..rank(&x)? {
        let size = node.extent(&x, axis)?;
        all = node.mul(&all, &size)?;
    }
    Ok(all)
}

//! Operators that only TorchScript has: queries, numbers of tensors, and operators of old archives, which had another
//! meaning.

use lodstone_model::{AttributeValue, DType, ValueType};
use lodstone_schema::numbers;
use lodstone_schema::torch::{script_code, script_type};

use super::create::with_value;
use super::unary::truncated;
use crate::onnx::Value;
use crate::torch::arguments::{Item, Size};
use crate::torch::node::{Node, Outcome, Rule, rank};
use crate::torch::promote::{Category, category};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::__getitem__", Rule::One(item)),
    ("aten::dim", Rule::Number(dim)),
    ("aten::is_floating_point", Rule::Number(is_floating_point)),
    ("aten::len", Rule::Number(length)),
    ("aten::tensor", Rule::One(tensor)),
    ("prim::NumToTensor", Rule::One(|node| node.tensor("a"))),
    ("prim::dtype", Rule::Number(dtype)),
    ("upgrader::div_Scalar_0_3", Rule::One(divide)),
    ("upgrader::div_Tensor_0_3", Rule::One(divide)),
    ("upgrader::full_0_4", Rule::One(full)),
];

/// Makes a tensor of numbers, one after the other, and its dims.
fn tensor(node: &mut Node<'_>) -> Outcome {
    let dtype = node.arguments.dtype("dtype")?;
    let shape = node.arguments.optional_ints("shape")?.unwrap_or_default();
    node.arguments.ignore(&["requires_grad", "device"]);
    let items = node.arguments.items("data").map(<[Item]>::to_vec);
    let (numbers, own) = match items {
        Some(items) => {
            let mut parts = Vec::new();
            for item in &items {
                parts.push(match (item, item.number()) {
                    (Item::Tensor(value) | Item::Number(value), _) => value.clone(),
                    (_, Some(number)) => node.number_of(number.dtype(), number)?,
                    _ => return Err("expected numbers".into()),
                });
            }
            let is_float = parts.iter().any(|it| it.dtype().is_float());
            let own = if is_float { DType::Float32 } else { DType::Int64 };
            let mut columns = Vec::new();
            for part in parts {
                let part = node.cast(&part, own)?;
                columns.push(node.reshape(&part, &[1])?);
            }
            (node.concat(&columns.iter().collect::<Vec<_>>(), 0)?, own)
        }
        None => match node.arguments.constant("data")? {
            Some(AttributeValue::Longs(values)) => (node.longs(&values), DType::Int64),
            Some(AttributeValue::Bools(values)) => {
                let values: Vec<i64> = values.into_iter().map(i64::from).collect();
                (node.longs(&values), DType::Bool)
            }
            Some(AttributeValue::Doubles(values)) => (node.doubles(&values), DType::Float32),
            _ => return Err("expected numbers".into()),
        },
    };
    let numbers = node.cast(&numbers, dtype.unwrap_or(own))?;
    node.reshape(&numbers, &shape)
}

/// Returns the list that an operator reads: a value of the program, or its tensors.
fn listed(node: &Node<'_>) -> Outcome<Result<Value, Vec<Value>>> {
    let all = node.tensors("self")?;
    match all.as_slice() {
        [list] if matches!(list.value_type(), ValueType::List(_)) => Ok(Ok(list.clone())),
        _ => Ok(Err(all)),
    }
}

fn length(node: &mut Node<'_>) -> Outcome {
    match listed(node)? {
        Ok(list) => node.call("SequenceLength", &[&list], []),
        Err(all) => Ok(node.long(numbers::length(all.len()))),
    }
}

fn item(node: &mut Node<'_>) -> Outcome {
    let place = node.arguments.size("idx")?.ok_or("the argument `idx` is missing")?;
    let list = match (listed(node)?, &place) {
        (Ok(list), _) => list,
        (Err(all), Size::Known(place)) => {
            let count = numbers::length(all.len());
            let at = if *place < 0 { place.saturating_add(count) } else { *place };
            let found = usize::try_from(at).ok().and_then(|at| all.get(at)).cloned();
            return found.ok_or_else(|| format!("there is no item {place} of {count}").into());
        }
        (Err(all), Size::Value(_)) => {
            node.call("SequenceConstruct", &all.iter().collect::<Vec<_>>(), [])?
        }
    };
    let place = node.scalar_of(&place)?;
    node.call("SequenceAt", &[&list, &place], [])
}

fn dim(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let rank = rank(&x)?;
    Ok(node.long(rank))
}

fn dtype(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let code = script_code(x.dtype()).ok_or("the element type is not PyTorch's")?;
    Ok(node.long(code))
}

fn is_floating_point(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    node.number(DType::Bool, f64::from(u8::from(x.dtype().is_float())))
}

/// Until version 3, the quotient of integers is an integer.
fn divide(node: &mut Node<'_>) -> Outcome {
    let (left, right, dtype) = node.pair("self", "other")?;
    let quotient = node.div(&left, &right)?;
    if category(dtype)? == Category::Float { Ok(quotient) } else { truncated(node, &quotient) }
}

/// Until version 4, a tensor that is filled with an integer has floats.
fn full(node: &mut Node<'_>) -> Outcome<Value> {
    let sizes = node.arguments.sizes("size")?;
    let dtype = node.arguments.dtype("dtype")?;
    node.arguments.ignore(&["names"]);
    with_value(node, &sizes, dtype.or_else(|| script_type(6)), "fill_value")
}

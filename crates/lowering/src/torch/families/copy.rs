//! Copies, casts, and numbers of tensors.

use lodstone_model::DType;

use crate::onnx::Value;
use crate::torch::arguments::Item;
use crate::torch::node::{Node, Outcome, Rule};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::Bool", Rule::Number(|node| number(node, DType::Bool))),
    ("aten::Float", Rule::Number(|node| number(node, DType::Float64))),
    ("aten::Int", Rule::Number(|node| number(node, DType::Int64))),
    ("aten::_assert_async", Rule::None),
    ("aten::_assert_scalar", Rule::None),
    ("aten::_assert_tensor_metadata", Rule::None),
    ("aten::_conj", Rule::One(same)),
    ("aten::_local_scalar_dense", Rule::Number(item)),
    ("aten::_to_copy", Rule::One(to)),
    ("aten::alias", Rule::One(same)),
    ("aten::alias_copy", Rule::One(same)),
    ("aten::clone", Rule::One(same)),
    ("aten::conj", Rule::One(same)),
    ("aten::conj_physical", Rule::One(same)),
    ("aten::contiguous", Rule::One(same)),
    ("aten::copy", Rule::One(copy)),
    ("aten::cpu", Rule::One(same)),
    ("aten::cuda", Rule::One(same)),
    ("aten::detach", Rule::One(same)),
    ("aten::detach_copy", Rule::One(same)),
    ("aten::item", Rule::Number(item)),
    ("aten::lift", Rule::One(same)),
    ("aten::lift_fresh", Rule::One(same)),
    ("aten::real", Rule::One(same)),
    ("aten::resolve_conj", Rule::One(same)),
    ("aten::resolve_neg", Rule::One(same)),
    ("aten::sym_constrain_range", Rule::None),
    ("aten::sym_constrain_range_for_size", Rule::None),
    ("aten::to", Rule::One(to)),
    ("aten::type_as", Rule::One(type_as)),
    ("prims::convert_element_type", Rule::One(convert)),
    ("prims::view_of", Rule::One(|node| node.tensor("a"))),
];

fn same(node: &mut Node<'_>) -> Outcome {
    node.tensor("self")
}

/// Casts to the type of a `dtype`, or of another tensor.
fn to(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    if node.arguments.has("other") {
        let other = node.tensor("other")?;
        return cast(node, &x, other.dtype());
    }
    match node.arguments.has("dtype") {
        true => {
            let dtype = node.arguments.dtype("dtype")?.unwrap_or(x.dtype());
            cast(node, &x, dtype)
        }
        false => Ok(x),
    }
}

/// Casts; what ONNX leaves open for numbers that the type does not have stays open.
pub(super) fn cast(node: &mut Node<'_>, x: &Value, to: DType) -> Outcome {
    node.cast(x, to)
}

fn type_as(node: &mut Node<'_>) -> Outcome {
    let (x, other) = (node.tensor("self")?, node.tensor("other")?);
    cast(node, &x, other.dtype())
}

fn convert(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("a")?;
    let dtype = node.arguments.dtype("dtype")?.unwrap_or(x.dtype());
    cast(node, &x, dtype)
}

/// The elements of `src`, in the type and dims of `self`.
fn copy(node: &mut Node<'_>) -> Outcome {
    let (x, source) = (node.tensor("self")?, node.tensor("src")?);
    let source = cast(node, &source, x.dtype())?;
    let sizes = node.sizes_of(&x)?;
    node.expand_to(&source, &sizes)
}

/// Returns the only element of a tensor as a number.
fn item(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let to = match x.dtype() {
        DType::Bool => DType::Bool,
        dtype if dtype.is_float() => DType::Float64,
        _ => DType::Int64,
    };
    let x = node.reshape(&x, &[])?;
    node.cast(&x, to)
}

fn number(node: &mut Node<'_>, to: DType) -> Outcome {
    let known = node.arguments.items("a").and_then(|items| match items {
        [item @ (Item::Number(_) | Item::Constant(_))] => item.number(),
        _ => None,
    });
    if let Some(known) = known {
        return node.number_of(to, known);
    }
    let x = node.tensor("a")?;
    let x = node.reshape(&x, &[])?;
    node.cast(&x, to)
}

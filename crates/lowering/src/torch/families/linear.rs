//! Products of matrices.

use lodstone_model::DType;
use lodstone_schema::numbers::Axis;
use lodstone_schema::places::at;
use lodstone_schema::places::at_mut;

use crate::onnx::{Value, int, text};
use crate::torch::arguments::Number;
use crate::torch::node::{Node, Outcome, Rule, axis_of, expect_rank, rank};
use crate::torch::promote::{Category, category};

use super::binary::multiplied;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::addbmm", Rule::One(addbmm)),
    ("aten::addmm", Rule::One(|node| added(node, "mat1", "mat2"))),
    ("aten::addmv", Rule::One(|node| added(node, "mat", "vec"))),
    ("aten::addr", Rule::One(addr)),
    ("aten::baddbmm", Rule::One(|node| added(node, "batch1", "batch2"))),
    ("aten::bilinear", Rule::One(bilinear)),
    ("aten::bmm", Rule::One(|node| product(node, "self", "mat2"))),
    ("aten::chain_matmul", Rule::One(chain)),
    ("aten::dot", Rule::One(|node| product(node, "self", "tensor"))),
    ("aten::einsum", Rule::One(einsum)),
    ("aten::ger", Rule::One(|node| outer(node, "self", "vec2"))),
    ("aten::inner", Rule::One(inner)),
    ("aten::linalg_multi_dot", Rule::One(chain)),
    ("aten::linalg_vecdot", Rule::One(vecdot)),
    ("aten::linear", Rule::One(linear)),
    ("aten::matmul", Rule::One(|node| product(node, "self", "other"))),
    ("aten::linalg_matmul", Rule::One(|node| product(node, "self", "other"))),
    ("aten::mm", Rule::One(|node| product(node, "self", "mat2"))),
    ("aten::mv", Rule::One(|node| product(node, "self", "vec"))),
    ("aten::outer", Rule::One(|node| outer(node, "self", "vec2"))),
    ("aten::tensordot", Rule::One(tensordot)),
    ("aten::vdot", Rule::One(|node| product(node, "self", "other"))),
];

/// Multiplies matrices, by the rules of NumPy. Integers of other types than those of ONNX are cast.
pub(super) fn matmul(node: &mut Node<'_>, left: &Value, right: &Value) -> Outcome {
    let dtype = left.dtype();
    let wide = match category(dtype)? {
        Category::Int if !matches!(dtype, DType::Int32 | DType::Int64) => DType::Int64,
        _ => dtype,
    };
    let (left, right) = (node.cast(left, wide)?, node.cast(right, wide)?);
    let y = node.call("MatMul", &[&left, &right], [])?;
    node.cast(&y, dtype)
}

fn product(node: &mut Node<'_>, left: &str, right: &str) -> Outcome {
    let (left, right) = (node.tensor(left)?, node.tensor(right)?);
    matmul(node, &left, &right)
}

/// `x @ weight.T + bias`: `[.., in]`, `[out, in]`, `[out]`.
pub(super) fn linear_of(
    node: &mut Node<'_>,
    x: &Value,
    weight: &Value,
    bias: Option<&Value>,
) -> Outcome {
    expect_rank(weight, &[1, 2])?;
    let rank_of_x = rank(x)?;
    if let (2, 2, Some(bias)) = (rank_of_x, rank(weight)?, bias)
        && category(x.dtype())? == Category::Float
    {
        return node.call("Gemm", &[x, weight, bias], [int("transB", 1)]);
    }
    let turned = if rank(weight)? == 2 { node.transpose(weight, &[1, 0])? } else { weight.clone() };
    let y = matmul(node, x, &turned)?;
    match bias {
        Some(bias) => node.add(&y, bias),
        None => Ok(y),
    }
}

fn linear(node: &mut Node<'_>) -> Outcome {
    let (x, weight) = (node.tensor("input")?, node.tensor("weight")?);
    let bias = node.optional("bias")?;
    linear_of(node, &x, &weight, bias.as_ref())
}

/// `beta * self + alpha * product`; with a `beta` of 0, `self` is not read.
fn weighted(node: &mut Node<'_>, product: &Value) -> Outcome {
    let x = node.tensor("self")?;
    let beta = node.arguments.number("beta")?.unwrap_or(Number::Int(1));
    let alpha = node.arguments.number("alpha")?.unwrap_or(Number::Int(1));
    let y = multiplied(node, product, alpha)?;
    if beta.float() == 0.0 {
        return Ok(y);
    }
    let x = multiplied(node, &x, beta)?;
    node.add(&x, &y)
}

fn added(node: &mut Node<'_>, left: &str, right: &str) -> Outcome {
    let (left, right) = (node.tensor(left)?, node.tensor(right)?);
    let product = matmul(node, &left, &right)?;
    weighted(node, &product)
}

fn addbmm(node: &mut Node<'_>) -> Outcome {
    let (left, right) = (node.tensor("batch1")?, node.tensor("batch2")?);
    let product = matmul(node, &left, &right)?;
    let sum = node.reduce("ReduceSum", &product, &[0], false)?;
    weighted(node, &sum)
}

fn outer_of(node: &mut Node<'_>, left: &Value, right: &Value) -> Outcome {
    let (left, right) = (node.unsqueeze(left, &[1])?, node.unsqueeze(right, &[0])?);
    node.mul(&left, &right)
}

fn outer(node: &mut Node<'_>, left: &str, right: &str) -> Outcome {
    let (left, right, _) = node.pair(left, right)?;
    outer_of(node, &left, &right)
}

fn addr(node: &mut Node<'_>) -> Outcome {
    let (left, right) = (node.tensor("vec1")?, node.tensor("vec2")?);
    let product = outer_of(node, &left, &right)?;
    weighted(node, &product)
}

fn inner(node: &mut Node<'_>) -> Outcome {
    let (left, right) = (node.tensor("self")?, node.tensor("other")?);
    if rank(&left)? == 0 || rank(&right)? == 0 {
        return node.mul(&left, &right);
    }
    let (a, b) = (left.rank()?.last()?, right.rank()?.last()?);
    contracted(node, (&left, &[a]), (&right, &[b]))
}

fn chain(node: &mut Node<'_>) -> Outcome {
    let name = if node.arguments.has("matrices") { "matrices" } else { "tensors" };
    let all = node.tensors(name)?;
    let (first, rest) = all.split_first().ok_or("expected matrices")?;
    let mut y = first.clone();
    for matrix in rest {
        y = matmul(node, &y, matrix)?;
    }
    Ok(y)
}

fn vecdot(node: &mut Node<'_>) -> Outcome {
    let (left, right) = (node.tensor("x")?, node.tensor("y")?);
    let product = node.mul(&left, &right)?;
    let axis = axis_of(&product, node.arguments.int("dim")?)?;
    node.reduce("ReduceSum", &product, &[axis], false)
}

/// `x1 * weight[k] * x2`, summed, for each output.
fn bilinear(node: &mut Node<'_>) -> Outcome {
    let (left, right) = (node.tensor("input1")?, node.tensor("input2")?);
    let weight = node.tensor("weight")?;
    let bias = node.optional("bias")?;
    let equation = text("equation", "...i,oij,...j->...o");
    let y = node.call("Einsum", &[&left, &weight, &right], [equation])?;
    match bias {
        Some(bias) => node.add(&y, &bias),
        None => Ok(y),
    }
}

/// Multiplies and sums over pairs of axes.
fn contracted(
    node: &mut Node<'_>,
    (left, left_axes): (&Value, &[Axis]),
    (right, right_axes): (&Value, &[Axis]),
) -> Outcome {
    let (m, n) = (left.rank()?.count(), right.rank()?.count());
    if m + n > 52 {
        return Err("expected fewer dims".into());
    }
    let mut letters = ('a'..='z').chain('A'..='Z');
    let first: Vec<char> = letters.by_ref().take(m).collect();
    let mut second: Vec<char> = letters.take(n).collect();
    for (a, b) in left_axes.iter().zip(right_axes) {
        *at_mut(&mut second, b.index())? = at(&first, a.index())?;
    }
    let kept = first.iter().filter(|it| !second.contains(it));
    let kept: String = kept.chain(second.iter().filter(|it| !first.contains(it))).collect();
    let (first, second): (String, String) =
        (first.into_iter().collect(), second.into_iter().collect());
    node.call("Einsum", &[left, right], [text("equation", &format!("{first},{second}->{kept}"))])
}

fn tensordot(node: &mut Node<'_>) -> Outcome {
    let (left, right) = (node.tensor("self")?, node.tensor("other")?);
    let (a, b) = (node.arguments.ints("dims_self")?, node.arguments.ints("dims_other")?);
    if a.len() != b.len() {
        return Err(format!("expected pairs of axes, found {a:?} and {b:?}").into());
    }
    let (of_left, of_right) = (left.rank()?, right.rank()?);
    let a = a.iter().map(|axis| of_left.axis(*axis)).collect::<Outcome<Vec<_>>>()?;
    let b = b.iter().map(|axis| of_right.axis(*axis)).collect::<Outcome<Vec<_>>>()?;
    contracted(node, (&left, &a), (&right, &b))
}

fn einsum(node: &mut Node<'_>) -> Outcome {
    let equation = node.arguments.text("equation")?.ok_or("the argument `equation` is missing")?;
    let all = node.tensors("tensors")?;
    node.arguments.ignore(&["path"]);
    let equation: String = equation.chars().filter(|it| !it.is_whitespace()).collect();
    node.call("Einsum", &all.iter().collect::<Vec<_>>(), [text("equation", &equation)])
}

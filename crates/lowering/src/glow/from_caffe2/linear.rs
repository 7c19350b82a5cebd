//! Products of matrices.

use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;

use super::rules::{flattened, of_kind, product, quantized, transposed};
use crate::glow::from_onnx::graph::{MemberValue, Value};
use crate::glow::from_onnx::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchMatMul", batch),
    ("FC", |cx| connected(cx, Kind::Plain)),
    ("FCTransposed", |cx| connected(cx, Kind::Transposed)),
    ("FbFCPacked", |cx| connected(cx, Kind::Packed)),
    ("Int8FC", |cx| connected(cx, Kind::Quantized)),
    ("MatMul", matmul),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// The weight has a row for each input.
    Transposed,
    /// Computed in half precision.
    Packed,
    Quantized,
}

/// Reads an axis argument, of which negative ones count from the end. It may be the rank, behind the last axis.
fn axis(cx: &Cx<'_>, name: &str, rank: usize) -> Result<usize, Fault> {
    match cx.int(name, 1)? == length(rank) {
        true => Ok(rank),
        false => Ok(cx.axis(name, 1, rank)?),
    }
}

fn connected(cx: &mut Cx<'_>, kind: Kind) -> Outcome {
    if cx.count() != 3 {
        return Err(format!("expected 3 inputs, found {}", cx.count()).into());
    }
    let (mut value, mut weight, mut bias) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let shape = cx.shape(value);
    let axis_of = axis(cx, "axis", shape.len())?;
    let weight_axis = axis(cx, "axis_w", cx.rank(weight))?;
    let [rows, columns] = flattened(&cx.shape(weight), weight_axis)?;
    if cx.rank(weight) > 2 {
        weight = cx.reshape_always(weight, &[rows, columns], "weights_reshape")?;
    }
    if cx.rank(weight) != 2 {
        return Err(format!("expected a matrix as weight, found {:?}", cx.shape(weight)).into());
    }
    if kind != Kind::Transposed {
        weight = transposed(cx, weight, &[1, 0], "weights")?;
    }
    let (inner, depth) = if kind == Kind::Transposed { (rows, columns) } else { (columns, rows) };
    let [batch, found] = flattened(&shape, axis_of)?;
    if found != inner || cx.shape(bias) != [depth] {
        let bias = cx.shape(bias);
        return Err(format!(
            "a weight of {inner} inputs and {depth} outputs does not match {found} inputs and a bias of {bias:?}"
        )
        .into());
    }
    if kind == Kind::Packed {
        let found = cx.type_of(weight).kind;
        if found != ElemKind::Float16 {
            return Err(format!("expected a weight of float16, found {}", found.name()).into());
        }
        value = cx.convert(value, ElemKind::Float16, "ConvertInput")?;
        bias = cx.convert(bias, ElemKind::Float16, "ConvertBias")?;
    }
    let is_dynamic = kind == Kind::Quantized && cx.int("dequantize_output", 0)? == 1;
    if shape.len() != 2 && !is_dynamic {
        value = cx.reshape_always(value, &[batch, found], "reshape2D")?;
    }
    let operands = [value, weight, bias];
    let mut result = match kind {
        Kind::Quantized if is_dynamic => {
            quantized(cx, Vec::new())?;
            if shape.len() != 2 {
                return Err(format!("expected a matrix, found {shape:?}").into());
            }
            let of = cx.shaped(value, vec![batch, depth]);
            let members = vec![
                ("IsSymmetric", MemberValue::Int(1)),
                ("IsPerBatchElement", MemberValue::Int(1)),
            ];
            cx.node("DynamicQuantizedFullyConnected", "", &operands, members, of)?
        }
        Kind::Quantized => {
            let of = quantized(cx, vec![batch, depth])?;
            expect_quantized(cx, &operands)?;
            cx.node("FullyConnected", "", &operands, Vec::new(), of)?
        }
        Kind::Packed => {
            let of = of_kind(ElemKind::Float16, vec![batch, depth]);
            let result = cx.node("FullyConnected", "", &operands, Vec::new(), of)?;
            cx.convert(result, ElemKind::Float, "ConvertOutput")?
        }
        Kind::Plain | Kind::Transposed => {
            for value in operands {
                let found = cx.type_of(value).kind;
                if found != ElemKind::Float {
                    return Err(format!("expected floats, found {}", found.name()).into());
                }
            }
            let of = of_kind(ElemKind::Float, vec![batch, depth]);
            cx.node("FullyConnected", "", &operands, Vec::new(), of)?
        }
    };
    if axis_of != 1 {
        let mut dims: Vec<i64> = shape.into_iter().take(axis_of).collect();
        dims.push(depth);
        result = cx.reshape_always(result, &dims, "fc_out")?;
    }
    one(result)
}

fn expect_quantized(cx: &Cx<'_>, operands: &[Value]) -> Result<(), Fault> {
    let is_other = |value: &&Value| {
        let kind = cx.type_of(**value).kind;
        !kind.is_quantized() && kind != ElemKind::Float
    };
    let is_real = operands.iter().take(2).any(|value| !cx.type_of(*value).kind.is_quantized());
    match is_real || operands.iter().any(|value| is_other(&value)) {
        false => Ok(()),
        true => Err("expected quantized operands".into()),
    }
}

/// Reads two matrices, or stacks of matrices, and transposes those that the arguments name.
fn matrices(cx: &mut Cx<'_>) -> Result<[Value; 2], Fault> {
    let mut operands = [cx.input(0)?, cx.input(1)?];
    for (value, name) in operands.iter_mut().zip(["trans_a", "trans_b"]) {
        let rank = cx.rank(*value);
        if rank < 2 {
            return Err(format!("expected matrices, found rank {rank}").into());
        }
        if cx.int(name, 0)? == 1 {
            let order: Vec<usize> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
            *value = transposed(cx, *value, &order, "transpose")?;
        }
    }
    Ok(operands)
}

/// Splits a shape into the dims of a stack, rows and columns.
fn split(shape: &[i64]) -> Result<(&[i64], i64, i64), Fault> {
    match shape {
        [stack @ .., rows, columns] => Ok((stack, *rows, *columns)),
        _ => Err("expected matrices".into()),
    }
}

fn check_inner(columns: i64, rows: i64) -> Result<(), Fault> {
    match columns == rows {
        true => Ok(()),
        false => Err(format!("{columns} columns do not match {rows} rows").into()),
    }
}

fn matmul(cx: &mut Cx<'_>) -> Outcome {
    let operands = matrices(cx)?;
    let [left, right] = operands.map(|value| cx.shape(value));
    let (&[rows, inner], &[other, columns]) = (&*left, &*right) else {
        return Err(format!("expected matrices, found {left:?} and {right:?}").into());
    };
    check_inner(inner, other)?;
    let of = cx.shaped(operands[0], vec![rows, columns]);
    one(cx.node("MatMul", "", &operands, Vec::new(), of)?)
}

fn batch(cx: &mut Cx<'_>) -> Outcome {
    let [mut left, mut right] = matrices(cx)?;
    let (outer, inner) = (cx.shape(left), cx.shape(right));
    let (left_stack, rows, shared) = split(&outer)?;
    let (right_stack, other, columns) = split(&inner)?;
    check_inner(shared, other)?;
    if left_stack.is_empty() && right_stack.is_empty() {
        let of = cx.shaped(left, vec![rows, columns]);
        return one(cx.node("MatMul", "", &[left, right], Vec::new(), of)?);
    }
    // From the innermost dim of the stacks outwards, as Glow adds nodes.
    let mut stack = Vec::new();
    let longest = left_stack.len().max(right_stack.len());
    for place in 0..longest {
        let at = |stack: &[i64]| {
            stack.len().checked_sub(place + 1).map(|at| (at, stack.get(at).copied()))
        };
        match (at(left_stack), at(right_stack)) {
            (Some((_, Some(a))), Some((_, Some(b)))) if a == b => stack.push(a),
            (Some((at, Some(1))), Some((_, Some(b)))) => {
                left = tiled(cx, left, at, b)?;
                stack.push(b);
            }
            (Some((_, Some(a))), Some((at, Some(1)))) => {
                right = tiled(cx, right, at, a)?;
                stack.push(a);
            }
            (Some((_, Some(a))), None) => {
                right = grown(cx, right, a)?;
                stack.push(a);
            }
            (None, Some((_, Some(b)))) => {
                left = grown(cx, left, b)?;
                stack.push(b);
            }
            _ => return Err(format!("{left_stack:?} and {right_stack:?} do not broadcast").into()),
        }
    }
    stack.reverse();
    let count = product(&stack)?;
    if stack.len() > 1 {
        left = cx.reshape_always(left, &[count, rows, shared], "reshapeLHS3D")?;
        right = cx.reshape_always(right, &[count, shared, columns], "reshapeRHS3D")?;
    }
    let of: Type = cx.shaped(left, vec![count, rows, columns]);
    let mut result = cx.node("BatchMatMul", "", &[left, right], Vec::new(), of)?;
    if stack.len() != 1 {
        stack.extend([rows, columns]);
        result = cx.reshape_always(result, &stack, "reshapeResult")?;
    }
    one(result)
}

/// Repeats a value along an axis.
pub(super) fn tiled(
    cx: &mut Cx<'_>,
    value: Value,
    axis: usize,
    count: i64,
) -> Result<Value, Fault> {
    let mut shape = cx.shape(value);
    let dim = shape.get_mut(axis).ok_or_else(|| format!("there is no axis {axis}"))?;
    *dim = dim.checked_mul(count).ok_or("the shape is too large")?;
    let of = cx.shaped(value, shape);
    let members =
        vec![("Count", MemberValue::Int(count)), ("Axis", MemberValue::Int(length(axis)))];
    cx.node("Tile", "tileDim", &[value], members, of)
}

/// Repeats a value along a new first axis.
fn grown(cx: &mut Cx<'_>, value: Value, count: i64) -> Result<Value, Fault> {
    let mut shape = vec![1];
    shape.extend(cx.shape(value));
    let value = cx.reshape_always(value, &shape, "addDim")?;
    tiled(cx, value, 0, count)
}

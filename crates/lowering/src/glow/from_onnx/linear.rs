//! Matrix products.

use super::elementwise::together;
use super::graph::{Graph, MemberValue, Node, Value};
use super::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[("Gemm", gemm), ("MatMul", matmul)];

fn gemm(cx: &mut Cx<'_>) -> Outcome {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let result = cx.shape_out(0)?;
    let [rows, columns] = *result else {
        return Err("expected two matrices".into());
    };
    let (alpha, beta) = (cx.float("alpha", 1.0)?, cx.float("beta", 1.0)?);
    let (left, right) = (cx.flag("transA", false)?, cx.flag("transB", false)?);
    let c = match cx.optional(2)? {
        Some(c) => match *cx.shape(c) {
            [n] if n == columns => c,
            [m, n] if [m, n] == [rows, columns] => c,
            [1, n] if n == columns => cx.reshape(c, &[columns], "row")?,
            _ => cx.broadcast(c, &[rows, columns], "broadcast")?,
        },
        None => cx.splat(0.0, cx.shaped(a, vec![columns]), "SplatC")?,
    };
    let of = cx.shaped(a, vec![rows, columns]);
    if cx.was("FullyConnected") && is_row(cx.graph, c, columns) {
        let is_plain = (alpha, beta, left, right) == (1.0, 1.0, false, false);
        if is_plain {
            return one(cx.node("FullyConnected", "", &[a, b, c], Vec::new(), of)?);
        }
    }
    let members = vec![
        ("Alpha", MemberValue::Float(alpha)),
        ("Beta", MemberValue::Float(beta)),
        ("TransposeA", MemberValue::Int(left.into())),
        ("TransposeB", MemberValue::Int(right.into())),
    ];
    one(cx.node("Gemm", "", &[a, b, c], members, of)?)
}

/// Whether a value has one element for each column.
fn is_row(graph: &Graph, value: Value, columns: i64) -> bool {
    graph.shape(value) == [columns]
}

/// Whether a `Gemm` node is the product of two matrices, the second one transposed or not, plus one bias row for all
/// rows.
pub(super) fn is_fully_connected(graph: &Graph, node: &Node, transposed: bool) -> bool {
    let plain = [
        ("Alpha", MemberValue::Float(1.0)),
        ("Beta", MemberValue::Float(1.0)),
        ("TransposeA", MemberValue::Int(0)),
        ("TransposeB", MemberValue::Int(transposed.into())),
    ];
    let columns = node.results.first().and_then(|result| graph.shape(*result).get(1));
    let bias = node.inputs.get(2).zip(columns);
    node.members == plain && bias.is_some_and(|(bias, columns)| is_row(graph, *bias, *columns))
}

/// Splits a shape into the dims of the stack, rows and columns.
fn stack(shape: &[i64]) -> Option<(&[i64], i64, i64)> {
    match shape {
        [stack @ .., rows, columns] => Some((stack, *rows, *columns)),
        _ => None,
    }
}

fn matmul(cx: &mut Cx<'_>) -> Outcome {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    one(product(cx, a, b)?)
}

/// Multiplies two stacks of matrices, by NumPy's rules.
pub(super) fn product(cx: &mut Cx<'_>, a: Value, b: Value) -> Result<Value, Fault> {
    let (whole_a, whole_b) = (cx.shape(a), cx.shape(b));
    // A vector is a row on the left, and a column on the right.
    let a = match *whole_a {
        [n] => cx.reshape(a, &[1, n], "row")?,
        _ => a,
    };
    let b = match *whole_b {
        [n] => cx.reshape(b, &[n, 1], "column")?,
        _ => b,
    };
    let (shape_a, shape_b) = (cx.shape(a), cx.shape(b));
    let matrices = stack(&shape_a).zip(stack(&shape_b));
    let ((stack_a, rows, inner), (stack_b, other, columns)) =
        matrices.ok_or("expected matrices, found scalars")?;
    if inner != other {
        return Err(format!("{inner} columns do not match {other} rows").into());
    }
    let all = together(&[stack_a, stack_b])?;
    let result = match (stack_a, stack_b) {
        ([], []) => {
            let of = cx.shaped(a, vec![rows, columns]);
            cx.node("MatMul", "", &[a, b], Vec::new(), of)?
        }
        // All rows of the stack are multiplied by the same matrix.
        (_, []) => {
            let count = super::graph::count(stack_a)?.checked_mul(rows);
            let count = count.ok_or("the shape is too large")?;
            let flat = cx.reshape(a, &[count, inner], "rows")?;
            let of = cx.shaped(a, vec![count, columns]);
            cx.node("MatMul", "", &[flat, b], Vec::new(), of)?
        }
        _ => {
            let with = |tail: [i64; 2]| all.iter().copied().chain(tail).collect::<Vec<_>>();
            let a = cx.broadcast(a, &with([rows, inner]), "broadcast")?;
            let b = cx.broadcast(b, &with([inner, columns]), "broadcast")?;
            let count = super::graph::count(&all)?;
            let a = cx.reshape(a, &[count, rows, inner], "stack")?;
            let b = cx.reshape(b, &[count, inner, columns], "stack")?;
            let of = cx.shaped(a, vec![count, rows, columns]);
            cx.node("BatchMatMul", "", &[a, b], Vec::new(), of)?
        }
    };
    let mut shape = all;
    shape.extend((whole_a.len() > 1).then_some(rows));
    shape.extend((whole_b.len() > 1).then_some(columns));
    cx.reshape(result, &shape, "shape")
}

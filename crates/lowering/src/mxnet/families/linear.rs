//! Matrix products and embeddings.

use crate::mxnet::node::{Node, Outcome, Rule, rank, required_dim};
use crate::onnx::indexing::IndexMode;
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Embedding", Rule::One(embedding)),
    ("FullyConnected", Rule::One(fully_connected)),
    ("_contrib_SparseEmbedding", Rule::One(embedding)),
    ("batch_dot", Rule::One(batch_dot)),
    ("dot", Rule::One(dot)),
    ("khatri_rao", Rule::One(khatri_rao)),
];

fn fully_connected(node: &mut Node<'_>) -> Outcome {
    let (x, weight, bias) = (node.input(0)?, node.input(1)?, node.bias(2, false)?);
    let hidden = node.attributes.int("num_hidden", None)?;
    let found = required_dim(&weight, 0)?;
    if hidden != found {
        return Err(format!("expected weights of {hidden} units, found {found}").into());
    }
    let rank = rank(&x)?;
    if !node.attributes.flag("flatten", true)? && rank != 2 {
        let weight = node.turned(&weight)?;
        let y = node.call("MatMul", &[&x, &weight], [])?;
        return bias.map_or(Ok(y.clone()), |bias| node.add(&y, &bias));
    }
    let x = if rank == 2 { x } else { node.call("Flatten", &[&x], [int("axis", 1)])? };
    let inputs = [Some(&x), Some(&weight), bias.as_ref()];
    let inputs = if bias.is_some() { &inputs[..] } else { &inputs[..2] };
    let [y] = node.emit_all("Gemm", inputs, [int("transB", 1)])?;
    Ok(y)
}

/// Looks up rows. Indices outside of the table are those of its first or last row.
pub(super) fn embedding(node: &mut Node<'_>) -> Outcome {
    let [ids, table] = node.exactly()?;
    let rows = node.attributes.int("input_dim", None)?;
    let columns = node.attributes.int("output_dim", None)?;
    node.attributes.dtype("dtype")?;
    node.attributes.flag("deterministic", false)?;
    let found = (required_dim(&table, 0)?, required_dim(&table, 1)?);
    if (rows, columns) != found || rows < 1 {
        return Err(format!("expected a table of {rows} times {columns}, found {found:?}").into());
    }
    let ids = node.indices(&ids, &Size::Known(rows), IndexMode::Clip)?;
    node.gather(&table, &ids, 0)
}

impl Node<'_> {
    /// Transposes the last two dims if a flag is set.
    pub(super) fn turned_if(&mut self, x: Value, flag: &str) -> Outcome {
        match self.attributes.flag(flag, false)? {
            true => self.turned(&x),
            false => Ok(x),
        }
    }
}

/// Contracts the last dim of the left operand with the first one of the right operand. To transpose is to reverse all
/// dims.
fn dot(node: &mut Node<'_>) -> Outcome {
    let [a, b] = node.exactly()?;
    node.attributes.ignore(&["forward_stype"]);
    let (turn_a, turn_b) =
        (node.attributes.flag("transpose_a", false)?, node.attributes.flag("transpose_b", false)?);
    let a = if turn_a { rotated(node, &a, true)? } else { a };
    let b = if turn_b { rotated(node, &b, false)? } else { b };
    let (left, right) = (rank(&a)?, rank(&b)?);
    if left == 0 || right == 0 {
        return Err("expected tensors, found a scalar".into());
    }
    if left == 1 && right == 1 {
        let y = node.call("MatMul", &[&a, &b], [])?;
        // Without NumPy shapes there are no scalars.
        return node.reshape(&y, &[1]);
    }
    if right <= 2 {
        return node.call("MatMul", &[&a, &b], []);
    }
    let flat = node.call("Flatten", &[&b], [int("axis", 1)])?;
    let y = node.call("MatMul", &[&a, &flat], [])?;
    let front = node.call("Shape", &[&a], [int("end", left - 1)])?;
    let back = node.call("Shape", &[&b], [int("start", 1)])?;
    let dims = node.concat(&[&front, &back], 0)?;
    node.call("Reshape", &[&y, &dims], [int("allowzero", 1)])
}

/// Moves the first dim to the end, or the last one to the front: for matrices both are the transpose.
fn rotated(node: &mut Node<'_>, x: &Value, is_left: bool) -> Outcome {
    let rank = rank(x)?;
    let order: Vec<i64> = match is_left {
        true => (1..rank).chain([0]).take(x.rank()?.count()).collect(),
        false => [rank - 1].into_iter().chain(0..rank - 1).take(x.rank()?.count()).collect(),
    };
    node.transpose(x, &order)
}

fn batch_dot(node: &mut Node<'_>) -> Outcome {
    let [a, b] = node.exactly()?;
    node.attributes.ignore(&["forward_stype"]);
    if rank(&a)? < 3 || rank(&a)? != rank(&b)? {
        let found = (rank(&a)?, rank(&b)?);
        return Err(
            format!("expected two operands of one rank of at least 3, found {found:?}").into()
        );
    }
    let (a, b) = (node.turned_if(a, "transpose_a")?, node.turned_if(b, "transpose_b")?);
    node.call("MatMul", &[&a, &b], [])
}

/// The Kronecker products of corresponding columns.
fn khatri_rao(node: &mut Node<'_>) -> Outcome {
    let all = node.all()?;
    let mut product: Option<Value> = None;
    for factor in all {
        let columns = required_dim(&factor, 1)?;
        product = Some(match product {
            None => factor,
            Some(left) => {
                let left = node.unsqueeze(&left, &[1])?;
                let right = node.unsqueeze(&factor, &[0])?;
                let pairs = node.mul(&left, &right)?;
                node.reshape_to(&pairs, &[-1, columns])?
            }
        });
    }
    product.ok_or_else(|| "expected matrices".into())
}

//! Operators of ONNX Runtime, domain `com.microsoft`. Operators without a rule have outputs of unknown type.

use lodstone_model::{DType, Dim};

use super::Rule;
use super::conv::conv;
use super::dims::broadcast;
use super::linear::product;
use super::node::{Node, Outcome};
use super::pool::{global, pool};
use super::quantize::{dequantize, quantize};
use super::value::UNDEFINED;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BiasGelu", same),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLSTM", recurrent),
    ("DynamicQuantizeMatMul", float_product),
    ("EmbedLayerNormalization", embedding),
    ("FastGelu", same),
    ("FusedConv", conv),
    ("FusedGemm", gemm),
    ("Gelu", same),
    ("GroupNorm", same),
    ("MatMulIntegerToFloat", float_product),
    ("MatMulNBits", few_bits),
    ("MultiHeadAttention", multi_head),
    ("QGemm", quantized_gemm),
    ("QLinearAdd", pair),
    ("QLinearAveragePool", |node| pooled(node, pool)),
    ("QLinearGlobalAveragePool", |node| pooled(node, global)),
    ("QLinearLeakyRelu", same),
    ("QLinearMul", pair),
    ("QLinearSigmoid", same),
    ("QLinearSoftmax", same),
    ("QuantizeLinear", quantize),
    ("QuickGelu", same),
    ("RotaryEmbedding", same),
    ("SimplifiedLayerNormalization", simplified),
    ("SkipLayerNormalization", skip),
    ("SkipSimplifiedLayerNormalization", skip),
];

/// Rules of operators that ONNX Runtime writes into ONNX's own domain.
pub(super) const OWN: &[(&str, Rule)] = &[("SimplifiedLayerNormalization", simplified)];

fn same(node: &mut Node<'_>) -> Outcome {
    node.like(0, 0);
    Ok(())
}

/// The second output has the dims before the axis, and dims of 1 from it on.
fn simplified(node: &mut Node<'_>) -> Outcome {
    node.like(0, 0);
    let shape = match node.shape(0) {
        Some(shape) => {
            let axis = node.axis("axis", -1, shape.len())?;
            let ones = shape.iter().skip(axis).map(|_| Dim::Known(1));
            Some(shape.iter().take(axis).cloned().chain(ones).collect())
        }
        None => None,
    };
    // Statistics are in double precision if the input is.
    let dtype = match node.dtype(0) {
        dtype @ (UNDEFINED | DType::Float64) => dtype,
        _ => DType::Float32,
    };
    node.tensor(1, dtype, shape);
    Ok(())
}

/// The fourth output is the sum of the inputs.
fn skip(node: &mut Node<'_>) -> Outcome {
    node.like(0, 0);
    node.like(3, 0);
    Ok(())
}

/// Quantized inputs 0 and 3.
fn pair(node: &mut Node<'_>) -> Outcome {
    let shape = match (node.shape(0), node.shape(3)) {
        (Some(a), Some(b)) => broadcast(&[Some(a), Some(b)])?,
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// Dims are those of the pooling, unless channels are the last axis.
fn pooled(node: &mut Node<'_>, rule: Rule) -> Outcome {
    match node.flag("channels_last") {
        true => node.tensor(0, node.dtype(0), None),
        false => rule(node)?,
    }
    Ok(())
}

fn float_product(node: &mut Node<'_>) -> Outcome {
    let shape = product(node, 0, 1)?;
    node.tensor(0, DType::Float32, shape);
    Ok(())
}

/// Returns the dims of a product of matrices that may be transposed.
fn matrix(node: &Node<'_>, right: usize) -> Result<Option<Vec<Dim>>, crate::Finding> {
    let (a, b) = (node.ranked(0, 2)?, node.ranked(right, 2)?);
    let (Some([first, second]), Some([third, fourth])) = (a, b) else { return Ok(None) };
    let rows = if node.flag("transA") { second } else { first };
    let columns = if node.flag("transB") { third } else { fourth };
    Ok(Some(vec![rows.clone(), columns.clone()]))
}

fn gemm(node: &mut Node<'_>) -> Outcome {
    let shape = matrix(node, 1)?;
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// The result is quantized if it has a scale.
fn quantized_gemm(node: &mut Node<'_>) -> Outcome {
    let shape = matrix(node, 3)?;
    let dtype = match (node.has(7), node.has(8)) {
        (true, true) => node.dtype(8),
        (true, false) => node.dtype(0),
        (false, _) => DType::Float32,
    };
    node.tensor(0, dtype, shape);
    Ok(())
}

/// The last dim becomes `N`.
fn few_bits(node: &mut Node<'_>) -> Outcome {
    let columns = node.int_attribute("N").and_then(|columns| u64::try_from(columns).ok());
    let columns = columns.map_or(Dim::Unknown, Dim::Known);
    let shape = match node.at_least(0, 1)? {
        Some([front @ .., _]) => Some(front.iter().cloned().chain([columns]).collect()),
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// [batch, length] to [batch, length, hidden]; the second output has a count for each row.
fn embedding(node: &mut Node<'_>) -> Outcome {
    let hidden = match node.ranked(2, 2)? {
        Some([_, hidden]) => hidden.clone(),
        _ => Dim::Unknown,
    };
    let (batch, length) = match node.ranked(0, 2)? {
        Some([batch, length]) => (batch.clone(), length.clone()),
        _ => (Dim::Unknown, Dim::Unknown),
    };
    let whole = vec![batch.clone(), length, hidden];
    node.tensor(0, node.dtype(2), Some(whole.clone()));
    node.tensor(1, DType::Int32, Some(vec![batch]));
    node.tensor(2, node.dtype(2), Some(whole));
    Ok(())
}

/// Query [batch, queries, heads * size] and values [batch, keys, heads * value size].
fn multi_head(node: &mut Node<'_>) -> Outcome {
    let shape = match (node.shape(0), node.shape(2)) {
        (Some([batch, queries, _]), Some([_, _, hidden])) => {
            Some(vec![batch.clone(), queries.clone(), hidden.clone()])
        }
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// Weights are [directions, inputs, gates * hidden].
fn recurrent(node: &mut Node<'_>) -> Outcome {
    let hidden = node.int_attribute("hidden_size").and_then(|size| u64::try_from(size).ok());
    let hidden = hidden.map_or(Dim::Unknown, Dim::Known);
    let directions = match node.ranked(1, 3)? {
        Some([directions, ..]) => directions.clone(),
        _ => Dim::Unknown,
    };
    let (steps, batch) = match node.ranked(0, 3)? {
        Some([steps, batch, _]) => (steps.clone(), batch.clone()),
        _ => (Dim::Unknown, Dim::Unknown),
    };
    let last = vec![directions.clone(), batch.clone(), hidden.clone()];
    node.tensor(0, node.dtype(0), Some(vec![steps, directions, batch, hidden]));
    node.tensor(1, node.dtype(0), Some(last.clone()));
    node.tensor(2, node.dtype(0), Some(last));
    Ok(())
}

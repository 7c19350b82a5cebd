//! Operators of ONNX Runtime, domain `com.microsoft`. Operators without a rule have outputs of unknown type.

use lodstone_model::{DType, Dim};

use super::Rule;
use super::conv::{convolved, convolved_shape, weights};
use super::dims::{Checked, broadcast, merged, merged_shapes, show};
use super::linear::{matrix, product, product_of};
use super::node::{Node, Outcome};
use super::pool::{global, pool};
use super::quantize::{dequantize, quantize};
use super::value::UNDEFINED;
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BiasGelu", same),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLSTM", recurrent),
    ("DynamicQuantizeMatMul", float_product),
    ("EmbedLayerNormalization", embedding),
    ("FastGelu", same),
    ("FusedConv", fused_conv),
    ("FusedGemm", gemm),
    ("FusedMatMul", turned_product),
    ("Gelu", same),
    ("GroupNorm", same),
    ("MatMulIntegerToFloat", float_product),
    ("MatMulNBits", few_bits),
    ("MultiHeadAttention", multi_head),
    ("NhwcConv", channels_last_conv),
    ("QGemm", quantized_gemm),
    ("QLinearAdd", pair),
    ("QLinearAveragePool", |node| pooled(node, pool)),
    ("QLinearConv", quantized_conv),
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
    ("TransposeMatMul", turned_product),
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

/// Fails unless an input is broadcast to a shape without changing it.
fn fits(node: &Node<'_>, input: usize, shape: Option<&[Dim]>) -> Outcome {
    // An unknown shape contradicts nothing.
    let (Some(found), Some(shape)) = (node.shape(input), shape) else { return Ok(()) };
    let whole = broadcast(&[Some(found), Some(shape)])?;
    match whole.is_none_or(|whole| merged_shapes(&whole, shape).is_some()) {
        true => Ok(()),
        false => {
            let wrong = format!("expected dims that fit {}, found {}", show(shape), show(found));
            Err(Finding::from(wrong).about_input(input))
        }
    }
}

/// Batches of matrices, the last two axes of which may be swapped, and the batches be the last but one.
fn turned_product(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype(0..2)?;
    let side = |input: usize, last: &str, batches: &str| -> Checked<Option<Vec<Dim>>> {
        let Some(shape) = node.at_least(input, 1)? else { return Ok(None) };
        let mut shape = shape.to_vec();
        let rank = shape.len();
        if let [front @ .., _] = shape.as_mut_slice()
            && front.len() > 1
            && node.flag(batches)
        {
            front.rotate_left(1);
        }
        if rank > 1 && node.flag(last) {
            shape.swap(rank - 2, rank - 1);
        }
        Ok(Some(shape))
    };
    let (a, b) = (side(0, "transA", "transBatchA")?, side(1, "transB", "transBatchB")?);
    let shape = match (a, b) {
        (Some(a), Some(b)) => product_of(&a, &b)?,
        _ => None,
    };
    node.tensor(0, dtype, shape);
    Ok(())
}

/// A bias has a number for each filter; a fourth input is added.
fn fused_conv(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype([0, 1])?;
    let shape = convolved(node, 0, 1)?;
    has_filters(node, 2, shape.as_ref().and_then(|shape| shape.get(1)))?;
    fits(node, 3, shape.as_deref())?;
    node.tensor(0, dtype, shape);
    Ok(())
}

/// Fails unless a bias has a number for each filter.
fn has_filters(node: &Node<'_>, bias: usize, filters: Option<&Dim>) -> Outcome {
    if let (Some([found]), Some(filters)) = (node.ranked(bias, 1)?, filters)
        && merged(found, filters).is_none()
    {
        let wrong = format!("expected {filters} numbers, one for each filter, found {found}");
        return Err(Finding::from(wrong).about_input(bias));
    }
    Ok(())
}

/// Returns dims with the last axis moved behind the first, or behind all others.
fn moved(shape: Option<&[Dim]>, to_front: bool) -> Option<Vec<Dim>> {
    let mut shape = shape?.to_vec();
    let behind = shape.get_mut(1..)?;
    if !behind.is_empty() {
        match to_front {
            true => behind.rotate_right(1),
            false => behind.rotate_left(1),
        }
    }
    Some(shape)
}

/// Channels are the last axis of the input, of the weights and of the result.
fn channels_last_conv(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype([0, 1])?;
    let x = moved(node.at_least(0, 3)?, true);
    let weights = moved(weights(node, 1, x.as_deref())?, true);
    let shape = convolved_shape(node, x.as_deref(), weights.as_deref())?;
    has_filters(node, 2, shape.as_ref().and_then(|shape| shape.get(1)))?;
    node.tensor(0, dtype, moved(shape.as_deref(), false));
    Ok(())
}

/// Channels may be the last axis of the input and of the result, but not of the weights. The element type is that of the
/// output's zero point.
fn quantized_conv(node: &mut Node<'_>) -> Outcome {
    let last = node.flag("channels_last");
    let x = node.at_least(0, 3)?;
    let x = if last { moved(x, true) } else { x.map(<[Dim]>::to_vec) };
    let shape = convolved_shape(node, x.as_deref(), weights(node, 3, x.as_deref())?)?;
    has_filters(node, 8, shape.as_ref().and_then(|shape| shape.get(1)))?;
    node.tensor(0, node.dtype(7), if last { moved(shape.as_deref(), false) } else { shape });
    Ok(())
}

fn gemm(node: &mut Node<'_>) -> Outcome {
    let shape = matrix(node, 0, 1)?;
    fits(node, 2, shape.as_deref())?;
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// The result is quantized if it has a scale.
fn quantized_gemm(node: &mut Node<'_>) -> Outcome {
    let shape = matrix(node, 0, 3)?;
    fits(node, 6, shape.as_deref())?;
    let dtype = match (node.has(7), node.has(8)) {
        (true, true) => node.dtype(8),
        (true, false) => node.dtype(0),
        (false, _) => DType::Float32,
    };
    node.tensor(0, dtype, shape);
    Ok(())
}

/// The last dim is `K`, and becomes `N`.
fn few_bits(node: &mut Node<'_>) -> Outcome {
    let dim = |name: &str| node.int_attribute(name).and_then(|dim| u64::try_from(dim).ok());
    let columns = dim("N").map_or(Dim::Unknown, Dim::Known);
    let x = node.at_least(0, 1)?;
    if let (Some([.., Dim::Known(found)]), Some(inner)) = (x, dim("K"))
        && inner != *found
    {
        let wrong = format!("expected {inner} numbers in rows, found {found}");
        return Err(Finding::from(wrong).about_input(0));
    }
    let shape = match x {
        Some([front @ .., _]) => Some(front.iter().cloned().chain([columns]).collect()),
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// [batch, length] to [batch, length, hidden]; the second output has a count for each row. Without numbers of positions, there
/// is an embedding for each position.
fn embedding(node: &mut Node<'_>) -> Outcome {
    let hidden = match node.ranked(2, 2)? {
        Some([_, hidden]) => hidden.clone(),
        _ => Dim::Unknown,
    };
    let (batch, length) = match node.ranked(0, 2)? {
        Some([batch, length]) => (batch.clone(), length.clone()),
        _ => (Dim::Unknown, Dim::Unknown),
    };
    if let (Dim::Known(found), Some([Dim::Known(positions), _])) = (&length, node.ranked(3, 2)?)
        && !node.has(8)
        && found > positions
    {
        let wrong = format!("expected at most {positions} words, found {found}");
        return Err(Finding::from(wrong).about_input(0));
    }
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
    let mut hidden = hidden.map_or(Dim::Unknown, Dim::Known);
    let [mut steps, mut batch, mut width, mut directions, mut gates] = [const { Dim::Unknown }; 5];
    node.unify(0, &mut [&mut steps, &mut batch, &mut width])?;
    node.unify(1, &mut [&mut directions, &mut width, &mut gates])?;
    node.unify(2, &mut [&mut directions, &mut hidden, &mut gates])?;
    node.unify(5, &mut [&mut directions, &mut batch, &mut hidden])?;
    node.unify(6, &mut [&mut directions, &mut batch, &mut hidden])?;
    let last = vec![directions.clone(), batch.clone(), hidden.clone()];
    node.tensor(0, node.dtype(0), Some(vec![steps, directions, batch, hidden]));
    node.tensor(1, node.dtype(0), Some(last.clone()));
    node.tensor(2, node.dtype(0), Some(last));
    Ok(())
}

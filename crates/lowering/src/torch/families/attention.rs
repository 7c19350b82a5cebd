//! Attention.

use lodstone_model::DType;

use super::activations::{lowest, softmax_of};
use super::linear::{linear_of, matmul};
use crate::onnx::{Value, float, int, text};
use crate::torch::arguments::{Size, wrong};
use crate::torch::node::{Node, Outcome, Rule, expect_rank, rank, required_dim};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_native_multi_head_attention", Rule::Many(multi_head)),
    ("aten::_scaled_dot_product_attention_math", Rule::Many(|node| Ok(vec![dot_product(node)?]))),
    (
        "aten::_scaled_dot_product_efficient_attention",
        Rule::Many(|node| Ok(vec![dot_product(node)?])),
    ),
    ("aten::_scaled_dot_product_flash_attention", Rule::Many(|node| Ok(vec![dot_product(node)?]))),
    (
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        Rule::Many(|node| Ok(vec![dot_product(node)?])),
    ),
    ("aten::_transformer_encoder_layer_fwd", Rule::One(encoder_layer)),
    ("aten::scaled_dot_product_attention", Rule::One(dot_product)),
];

/// What is added to scores, and how they are scaled.
struct Scores {
    mask: Option<Value>,
    causal: bool,
    scale: Option<f64>,
}

/// `softmax(query @ key.T * scale + mask) @ value`: `[.., queries, head]`, `[.., keys, head]`, `[.., keys, out]`.
fn attended(node: &mut Node<'_>, [query, key, value]: [&Value; 3], scores: &Scores) -> Outcome {
    // PyTorch multiplies both factors by the root of the scale.
    let last = rank(query)? - 1;
    let root = match scores.scale {
        Some(scale) => node.number(query.dtype(), scale.abs().sqrt())?,
        None => {
            let head = node.extent_as(query, last, DType::Float64)?;
            let head = node.call("Sqrt", &[&head], [])?;
            let scale = node.call("Reciprocal", &[&head], [])?;
            let root = node.call("Sqrt", &[&scale], [])?;
            node.cast(&root, query.dtype())?
        }
    };
    let query = node.mul(query, &root)?;
    let turned = node.turned(key)?;
    let turned = node.mul(&turned, &root)?;
    let mut all = matmul(node, &query, &turned)?;
    if scores.scale.is_some_and(|scale| scale < 0.0) {
        all = node.call("Neg", &[&all], [])?;
    }
    let least = node.number(all.dtype(), lowest(all.dtype()))?;
    if scores.causal {
        let (queries, keys) = (node.extent(&all, last - 1)?, node.extent(&all, last)?);
        let rows = node.counting(&queries, DType::Int64)?;
        let columns = node.counting(&keys, DType::Int64)?;
        let (rows, columns) = (node.unsqueeze(&rows, &[1])?, node.unsqueeze(&columns, &[0])?);
        let keeps = node.call("GreaterOrEqual", &[&rows, &columns], [])?;
        all = node.choose(&keeps, &all, &least)?;
    }
    let mut can_be_empty = false;
    if let Some(mask) = &scores.mask {
        if mask.dtype() == DType::Bool {
            all = node.choose(mask, &all, &least)?;
            can_be_empty = true;
        } else {
            let mask = node.cast(mask, all.dtype())?;
            all = node.add(&all, &mask)?;
            can_be_empty = true;
        }
    }
    let mut weights = softmax_of(node, "Softmax", &all, -1)?;
    if can_be_empty {
        // A query that may read no key has the result 0.
        let is_nan = node.call("IsNaN", &[&weights], [])?;
        let zero = node.number(weights.dtype(), 0.0)?;
        weights = node.choose(&is_nan, &zero, &weights)?;
    }
    matmul(node, &weights, value)
}

/// Repeats the heads of keys and values for groups of queries.
fn grouped(node: &mut Node<'_>, x: &Value, query: &Value) -> Outcome {
    let axis = rank(x)? - 3;
    if axis < 0 {
        return Err("expected heads".into());
    }
    let (own, wanted) = (required_dim(x, axis)?, required_dim(query, axis)?);
    if own == wanted {
        return Ok(x.clone());
    }
    if own < 1 || wanted % own != 0 {
        return Err(format!("{wanted} heads cannot share {own}").into());
    }
    super::compose::repeated(node, x, axis, wanted / own)
}

fn dot_product(node: &mut Node<'_>) -> Outcome {
    let (query, mut key, mut value) =
        (node.tensor("query")?, node.tensor("key")?, node.tensor("value")?);
    if node.arguments.float("dropout_p")? != 0.0 {
        return Err(wrong("dropout_p", "0", "another number"));
    }
    let mut mask = None;
    for name in ["attn_mask", "attn_bias"] {
        if node.arguments.has(name) {
            mask = node.optional(name)?;
        }
    }
    node.arguments.ignore(&["return_debug_mask", "compute_log_sumexp", "dropout_mask"]);
    let causal = node.arguments.flag("is_causal")?;
    let scale = node.arguments.optional_float("scale")?;
    if node.arguments.has("enable_gqa") && node.arguments.flag("enable_gqa")? {
        key = grouped(node, &key, &query)?;
        value = grouped(node, &value, &query)?;
    }
    attended(node, [&query, &key, &value], &Scores { mask, causal, scale })
}

/// The weights of an attention with its projections.
struct Projections {
    width: i64,
    heads: i64,
    in_weight: Value,
    in_bias: Value,
    out_weight: Value,
    out_bias: Value,
}

/// `[batch, length, heads * head]` to `[batch, heads, length, head]`.
fn by_head(node: &mut Node<'_>, x: &Value, projections: &Projections) -> Outcome {
    let head = projections.width / projections.heads;
    let (batch, length) = (node.size_of(x, 0)?, node.size_of(x, 1)?);
    let parts = [batch, length, Size::Known(projections.heads), Size::Known(head)];
    let parts = node.reshape_to(x, &parts)?;
    node.transpose(&parts, &[0, 2, 1, 3])
}

/// Attends with packed projections; a mask that is true excludes keys.
fn projected(
    node: &mut Node<'_>,
    [query, key, value]: [&Value; 3],
    projections: &Projections,
    mask: Option<Value>,
) -> Outcome {
    expect_rank(query, &[3])?;
    let (width, heads) = (projections.width, projections.heads);
    if heads < 1 || width % heads != 0 {
        return Err(wrong("num_heads", &format!("a divisor of {width}"), &heads.to_string()));
    }
    let mut parts = Vec::new();
    for (place, x) in (0..).zip([query, key, value]) {
        let weight = node.slice(&projections.in_weight, 0, place * width, (place + 1) * width)?;
        let bias = node.slice(&projections.in_bias, 0, place * width, (place + 1) * width)?;
        let x = linear_of(node, x, &weight, Some(&bias))?;
        parts.push(by_head(node, &x, projections)?);
    }
    let [query, key, value] = parts.as_slice() else { return Err("a projection was lost".into()) };
    let mask = match mask {
        Some(mask) if mask.dtype() == DType::Bool => Some(node.call("Not", &[&mask], [])?),
        other => other,
    };
    let y = attended(node, [query, key, value], &Scores { mask, causal: false, scale: None })?;
    let turned = node.transpose(&y, &[0, 2, 1, 3])?;
    let (batch, length) = (node.size_of(&turned, 0)?, node.size_of(&turned, 1)?);
    let joined = node.reshape_to(&turned, &[batch, length, Size::Known(width)])?;
    linear_of(node, &joined, &projections.out_weight, Some(&projections.out_bias))
}

/// Returns a mask in the dims of scores, by its type: 0 of queries and keys, 1 of keys.
fn shaped_mask(
    node: &mut Node<'_>,
    mask: Option<Value>,
    kind: Option<i64>,
) -> Outcome<Option<Value>> {
    let Some(mask) = mask else { return Ok(None) };
    let axes: &[i64] = match (kind, rank(&mask)?) {
        (Some(1), 2) => &[1, 2],
        (Some(0), 2) => &[0, 1],
        (_, 4) => &[],
        (_, 3) => &[1],
        (_, found) => return Err(format!("a mask of rank {found} is not supported").into()),
    };
    if axes.is_empty() { Ok(Some(mask)) } else { node.unsqueeze(&mask, axes).map(Some) }
}

fn multi_head(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let (query, key, value) = (node.tensor("query")?, node.tensor("key")?, node.tensor("value")?);
    let projections = Projections {
        width: node.arguments.int("embed_dim")?,
        heads: node.arguments.int("num_head")?,
        in_weight: node.tensor("qkv_weight")?,
        in_bias: node.tensor("qkv_bias")?,
        out_weight: node.tensor("proj_weight")?,
        out_bias: node.tensor("proj_bias")?,
    };
    let mask = node.optional("mask")?;
    let kind = node.arguments.optional_int("mask_type")?;
    let mask = shaped_mask(node, mask, kind)?;
    node.arguments.ignore(&["need_weights", "average_attn_weights"]);
    Ok(vec![projected(node, [&query, &key, &value], &projections, mask)?])
}

#[expect(clippy::cast_possible_truncation, reason = "attributes of ONNX are single floats")]
fn normalized(node: &mut Node<'_>, x: &Value, part: &str, eps: f64) -> Outcome {
    let weight = node.tensor(&format!("norm_weight_{part}"))?;
    let bias = node.tensor(&format!("norm_bias_{part}"))?;
    let flags = [int("axis", -1), float("epsilon", eps as f32)];
    node.call("LayerNormalization", &[x, &weight, &bias], flags)
}

/// A layer of an encoder: attention and two linear layers, each with a residual and a normalization.
fn encoder_layer(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("src")?;
    let projections = Projections {
        width: node.arguments.int("embed_dim")?,
        heads: node.arguments.int("num_heads")?,
        in_weight: node.tensor("qkv_weight")?,
        in_bias: node.tensor("qkv_bias")?,
        out_weight: node.tensor("proj_weight")?,
        out_bias: node.tensor("proj_bias")?,
    };
    let (gelu, norm_first) = (node.arguments.flag("use_gelu")?, node.arguments.flag("norm_first")?);
    let eps = node.arguments.float("eps")?;
    let mask = node.optional("mask")?;
    let kind = node.arguments.optional_int("mask_type")?;
    let mask = shaped_mask(node, mask, kind)?;
    let source = if norm_first { normalized(node, &x, "1", eps)? } else { x.clone() };
    let y = projected(node, [&source, &source, &source], &projections, mask)?;
    let mut x = node.add(&x, &y)?;
    if !norm_first {
        x = normalized(node, &x, "1", eps)?;
    }
    let source = if norm_first { normalized(node, &x, "2", eps)? } else { x.clone() };
    let (weight, bias) = (node.tensor("ffn_weight_1")?, node.tensor("ffn_bias_1")?);
    let hidden = linear_of(node, &source, &weight, Some(&bias))?;
    let hidden = match gelu {
        true => node.call("Gelu", &[&hidden], [text("approximate", "none")])?,
        false => node.call("Relu", &[&hidden], [])?,
    };
    let (weight, bias) = (node.tensor("ffn_weight_2")?, node.tensor("ffn_bias_2")?);
    let y = linear_of(node, &hidden, &weight, Some(&bias))?;
    let x = node.add(&x, &y)?;
    if norm_first { Ok(x) } else { normalized(node, &x, "2", eps) }
}

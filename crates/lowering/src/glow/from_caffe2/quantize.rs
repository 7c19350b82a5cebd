//! Quantized operators that are neither convolutions nor products.

use lodstone_schema::glow::ElemKind;

use super::rules::{of_kind, quantized};
use crate::glow::from_onnx::op::{Cx, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Int8Dequantize", dequantize),
    ("Int8Quantize", quantize),
    ("Int8Relu", relu),
    ("Int8SumRelu", sum),
    ("Int8AddRelu", sum),
    ("Int8Add", add),
    ("Int8Sum", add),
];

fn quantize(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    if cx.count() != 1 {
        return Err(format!("expected 1 input, found {}", cx.count()).into());
    }
    if cx.type_of(value).kind.is_quantized() {
        return Err("expected floats, found quantized integers".into());
    }
    let of = quantized(cx, cx.shape(value))?;
    one(cx.node("Quantize", "", &[value], Vec::new(), of)?)
}

fn dequantize(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    if !cx.type_of(value).kind.is_quantized() {
        return Err("expected quantized integers, found floats".into());
    }
    let of = of_kind(ElemKind::Float, cx.shape(value));
    one(cx.node("Dequantize", "", &[value], Vec::new(), of)?)
}

fn relu(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let of = quantized(cx, cx.shape(value))?;
    one(cx.node("Relu", "", &[value], Vec::new(), of)?)
}

fn sum(cx: &mut Cx<'_>) -> Outcome {
    let sum = added(cx, "sum")?;
    let of = cx.type_of(sum);
    one(cx.node("Relu", "relu", &[sum], Vec::new(), of)?)
}

fn add(cx: &mut Cx<'_>) -> Outcome {
    one(added(cx, "")?)
}

fn added(
    cx: &mut Cx<'_>,
    suffix: &str,
) -> Result<crate::glow::from_onnx::graph::Value, crate::glow::from_onnx::op::Fault> {
    if cx.count() != 2 {
        return Err(format!("expected 2 inputs, found {}", cx.count()).into());
    }
    let (left, right) = (cx.input(0)?, cx.input(1)?);
    let (shape, other) = (cx.shape(left), cx.shape(right));
    if shape != other {
        return Err(format!("expected operands of one shape, found {shape:?} and {other:?}").into());
    }
    if [left, right].iter().any(|value| !cx.type_of(*value).kind.is_quantized()) {
        return Err("expected quantized operands".into());
    }
    let of = quantized(cx, shape)?;
    cx.node("Add", suffix, &[left, right], Vec::new(), of)
}

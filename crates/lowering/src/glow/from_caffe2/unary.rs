//! Operators of one operand, element by element, and those that only pass a value on.

use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Type};

use super::rules::of_kind;
use crate::glow::from_onnx::activations::exact_gelu;
use crate::glow::from_onnx::graph::{MemberValue, Value};
use crate::glow::from_onnx::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Abs", |cx| each(cx, "Abs")),
    ("Acos", |cx| each(cx, "Acos")),
    ("Alias", alias),
    ("Asin", |cx| each(cx, "Asin")),
    ("Atan", |cx| each(cx, "Atan")),
    ("Bucketize", bucketize),
    ("Cast", cast),
    ("Ceil", |cx| each(cx, "Ceil")),
    ("Clip", clip),
    ("Copy", copy),
    ("CopyCPUToMKL", copy),
    ("CopyMKLToCPU", copy),
    ("Cos", |cx| each(cx, "Cos")),
    ("Dropout", alias),
    ("Elu", elu),
    ("EnsureCPUOutput", copy),
    ("EnsureDense", copy),
    ("Erf", |cx| each(cx, "Erf")),
    ("Exp", |cx| each(cx, "Exp")),
    ("Floor", |cx| each(cx, "Floor")),
    ("Free", |_| Ok(Vec::new())),
    ("Gelu", gelu),
    ("HalfToFloat", |cx| convert(cx, ElemKind::Float)),
    ("FloatToHalf", |cx| convert(cx, ElemKind::Float16)),
    ("Identity", alias),
    ("LeakyRelu", leaky),
    ("Log", |cx| each(cx, "Log")),
    ("Log1p", log1p),
    ("Logit", logit),
    ("Mod", modulo),
    ("Neg", |cx| each(cx, "Neg")),
    ("Negative", |cx| each(cx, "Neg")),
    ("Not", |cx| each(cx, "Not")),
    ("Reciprocal", |cx| power_of(cx, -1.0)),
    ("Relu", |cx| each(cx, "Relu")),
    ("ReplaceNaN", replace),
    ("Rsqrt", |cx| each(cx, "Rsqrt")),
    ("Scale", scale),
    ("ScaleGradient", alias),
    ("Selu", selu),
    ("Sigmoid", |cx| each(cx, "Sigmoid")),
    ("Sign", sign),
    ("Sin", |cx| each(cx, "Sin")),
    ("Softsign", softsign),
    ("Softplus", |cx| each(cx, "SoftPlus")),
    ("Sqr", |cx| power_of(cx, 2.0)),
    ("Sqrt", |cx| power_of(cx, 0.5)),
    ("StopGradient", alias),
    ("Swish", |cx| each(cx, "Swish")),
    ("Tanh", |cx| each(cx, "Tanh")),
];

fn each(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    let of = cx.type_of(value);
    one(cx.node(kind, "", &[value], Vec::new(), of)?)
}

/// Glow's own node is the approximation by a hyperbolic tangent, which Caffe2 computes with `fast_gelu` only.
fn gelu(cx: &mut Cx<'_>) -> Outcome {
    match cx.flag("fast_gelu", false)? {
        true => each(cx, "Gelu"),
        false => {
            let value = cx.input(0)?;
            one(exact_gelu(cx, value)?)
        }
    }
}

fn alias(cx: &mut Cx<'_>) -> Outcome {
    one(cx.input(0)?)
}

/// Copies a value, by a reshape to its own shape, as in Glow.
fn copy(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    one(cx.reshape_always(value, &shape, "")?)
}

fn convert(cx: &mut Cx<'_>, kind: ElemKind) -> Outcome {
    let value = cx.input(0)?;
    one(cx.convert(value, kind, "ConvertInput")?)
}

/// Element kinds by their codes in `TensorProto.DataType`.
const TYPES: &[(i64, &str, ElemKind)] = &[
    (1, "FLOAT", ElemKind::Float),
    (2, "INT32", ElemKind::Int32I),
    (5, "BOOL", ElemKind::Bool),
    (10, "INT64", ElemKind::Int64I),
    (12, "FLOAT16", ElemKind::Float16),
];

/// Casts; a cast to the same type is no node.
fn cast(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let is_named = matches!(cx.op.attribute("to"), Some(lodstone_model::AttributeValue::String(_)));
    let found = match is_named {
        true => {
            let name = cx.text("to", "")?;
            TYPES.iter().find(|(_, known, _)| known.eq_ignore_ascii_case(&name))
        }
        false => {
            let code = cx.int("to", 0)?;
            TYPES.iter().find(|(known, ..)| *known == code)
        }
    };
    let known = || TYPES.iter().map(|(code, name, _)| format!("{code} (`{name}`)"));
    let (.., kind) = found.ok_or_else(|| {
        let known = known().collect::<Vec<_>>().join(", ");
        Finding::from(format!("expected one of {known} as `to`")).about_attribute("to")
    })?;
    let from = cx.type_of(value).kind;
    if from == *kind {
        return one(value);
    }
    if from.is_quantized() {
        return Err(format!("Glow does not convert {} to {}", from.name(), kind.name()).into());
    }
    one(cx.convert(value, *kind, "")?)
}

/// Raises the operand to a constant power.
pub(super) fn power_of(cx: &mut Cx<'_>, exponent: f32) -> Outcome {
    let value = cx.input(0)?;
    let of = cx.type_of(value);
    let exponent = cx.splat(exponent, of.clone(), "exp")?;
    one(cx.node("Pow", "", &[value, exponent], Vec::new(), of)?)
}

fn clip(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let members = vec![
        ("Min", MemberValue::Float(cx.float("min", f32::MIN)?)),
        ("Max", MemberValue::Float(cx.float("max", f32::MAX)?)),
    ];
    let of = cx.type_of(value);
    one(cx.node("Clip", "", &[value], members, of)?)
}

fn leaky(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let members = vec![("Alpha", MemberValue::Float(cx.float("alpha", 0.01)?))];
    let of = cx.type_of(value);
    one(cx.node("LeakyRelu", "", &[value], members, of)?)
}

/// Numbers above 0, and `alpha * (exp(x) - 1)` below.
fn exponential(cx: &mut Cx<'_>, alpha: f32) -> Result<Value, Fault> {
    let value = cx.input(0)?;
    let of = cx.type_of(value);
    let above = cx.node("Relu", "above", &[value], Vec::new(), of.clone())?;
    let zero = cx.splat(0.0, of.clone(), "zero")?;
    let below = cx.node("Min", "below", &[value, zero], Vec::new(), of.clone())?;
    let below = cx.node("Exp", "exp", &[below], Vec::new(), of.clone())?;
    let ones = cx.splat(1.0, of.clone(), "ones")?;
    let below = cx.node("Sub", "less", &[below, ones], Vec::new(), of.clone())?;
    let alpha = cx.splat(alpha, of.clone(), "alpha")?;
    let below = cx.node("Mul", "scaled", &[below, alpha], Vec::new(), of.clone())?;
    cx.node("Add", "", &[above, below], Vec::new(), of)
}

fn elu(cx: &mut Cx<'_>) -> Outcome {
    let alpha = cx.float("alpha", 1.0)?;
    one(exponential(cx, alpha)?)
}

fn selu(cx: &mut Cx<'_>) -> Outcome {
    // As in Caffe2.
    let (alpha, scale) = (cx.float("alpha", 1.673_263_2)?, cx.float("scale", 1.050_701)?);
    let value = exponential(cx, alpha)?;
    let of = cx.type_of(value);
    let scale = cx.splat(scale, of.clone(), "scale")?;
    one(cx.node("Mul", "scale", &[value, scale], Vec::new(), of)?)
}

fn softsign(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let of = cx.type_of(value);
    let size = cx.node("Abs", "abs", &[value], Vec::new(), of.clone())?;
    let ones = cx.splat(1.0, of.clone(), "ones")?;
    let divisor = cx.node("Add", "add", &[size, ones], Vec::new(), of.clone())?;
    one(cx.node("Div", "", &[value, divisor], Vec::new(), of)?)
}

fn logit(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let members = vec![("Epsilon", MemberValue::Float(cx.float("eps", 1e-6)?))];
    let of = cx.type_of(value);
    one(cx.node("Logit", "", &[value], members, of)?)
}

fn replace(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let members = vec![("Value", MemberValue::Float(cx.float("value", 0.0)?))];
    let of = cx.type_of(value);
    one(cx.node("ReplaceNaN", "", &[value], members, of)?)
}

fn modulo(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let divisor = cx.int("divisor", 0)?;
    if divisor < 1 {
        return Err(format!("expected a `divisor` of at least 1, found {divisor}").into());
    }
    let members = vec![
        ("Divisor", MemberValue::Int(divisor)),
        ("SignFollowDivisor", MemberValue::Int(cx.flag("sign_follow_divisor", false)?.into())),
    ];
    let of = cx.type_of(value);
    one(cx.node("Modulo", "", &[value], members, of)?)
}

fn bucketize(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let boundaries = match cx.op.attribute("boundaries") {
        Some(lodstone_model::AttributeValue::Floats(numbers)) => numbers.clone(),
        _ => return Err("expected floats as `boundaries`".into()),
    };
    let of = of_kind(ElemKind::Int32I, cx.shape(value));
    one(cx.node(
        "Bucketize",
        "",
        &[value],
        vec![("Boundaries", MemberValue::Floats(boundaries))],
        of,
    )?)
}

fn scale(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let of = of_kind(ElemKind::Float, cx.shape(value));
    let factor = cx.float("scale", 1.0)?;
    let factor = cx.splat(factor, of, "scales")?;
    let of = cx.type_of(value);
    one(cx.node("Mul", "", &[value, factor], Vec::new(), of)?)
}

fn log1p(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let of = cx.type_of(value);
    let ones = cx.splat(1.0, of.clone(), "ones")?;
    let sum = cx.node("Add", "add", &[value, ones], Vec::new(), of.clone())?;
    one(cx.node("Log", "log", &[sum], Vec::new(), of)?)
}

fn sign(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let of = cx.type_of(value);
    let bools: Type = of_kind(ElemKind::Bool, of.shape.clone());
    let zeros = cx.splat(0.0, of.clone(), "zeroes")?;
    let is_above = cx.node("CmpLT", "isPos", &[zeros, value], Vec::new(), bools.clone())?;
    let is_below = cx.node("CmpLT", "isNeg", &[value, zeros], Vec::new(), bools)?;
    let ones = cx.splat(1.0, of.clone(), "posOnes")?;
    let negative = cx.splat(-1.0, of.clone(), "negOnes")?;
    let above = cx.node("Select", "fillPos", &[is_above, ones, zeros], Vec::new(), of.clone())?;
    one(cx.node("Select", "fillNeg", &[is_below, negative, above], Vec::new(), of)?)
}

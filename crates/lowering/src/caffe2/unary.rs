//! Operators of one operand, element by element, and those that only pass a value on.

use lodstone_model::{AttributeValue, DType};
use lodstone_schema::Finding;

use super::node::{Node, Outcome, Rule};
use crate::onnx::{Value, float, int, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Abs", Rule::One(|node| each(node, "Abs"))),
    ("Acos", Rule::One(|node| each(node, "Acos"))),
    ("Alias", Rule::One(same)),
    ("Asin", Rule::One(|node| each(node, "Asin"))),
    ("Atan", Rule::One(|node| each(node, "Atan"))),
    ("Bucketize", Rule::One(bucketize)),
    ("Cast", Rule::One(cast)),
    ("Ceil", Rule::One(|node| each(node, "Ceil"))),
    ("Clip", Rule::One(clip)),
    ("Copy", Rule::One(same)),
    ("CopyCPUToGPU", Rule::One(same)),
    ("CopyCPUToMKL", Rule::One(same)),
    ("CopyMKLToCPU", Rule::One(same)),
    ("CopyFromCPUInput", Rule::One(same)),
    ("CopyGPUToCPU", Rule::One(same)),
    ("Cos", Rule::One(|node| each(node, "Cos"))),
    ("Cosh", Rule::One(|node| each(node, "Cosh"))),
    (
        "Cube",
        Rule::One(|node| {
            let x = node.input(0)?;
            let square = node.mul(&x, &x)?;
            node.mul(&square, &x)
        }),
    ),
    ("Dropout", Rule::One(same)),
    ("Elu", Rule::One(elu)),
    ("EnsureCPUOutput", Rule::One(same)),
    ("EnsureDense", Rule::One(same)),
    ("Erf", Rule::One(|node| each(node, "Erf"))),
    ("Exp", Rule::One(|node| each(node, "Exp"))),
    ("FloatToHalf", Rule::One(|node| convert(node, DType::Float16))),
    ("Floor", Rule::One(|node| each(node, "Floor"))),
    ("Free", Rule::Many(|_| Ok(Vec::new()))),
    ("Gelu", Rule::One(gelu)),
    ("HalfToFloat", Rule::One(|node| convert(node, DType::Float32))),
    ("HardSigmoid", Rule::One(hard_sigmoid)),
    ("Identity", Rule::One(same)),
    ("LeakyRelu", Rule::One(leaky)),
    ("Log", Rule::One(|node| each(node, "Log"))),
    ("Log1p", Rule::One(log1p)),
    ("Logit", Rule::One(logit)),
    ("Mod", Rule::One(modulo)),
    ("Neg", Rule::One(|node| each(node, "Neg"))),
    ("Negative", Rule::One(|node| each(node, "Neg"))),
    ("Not", Rule::One(|node| each(node, "Not"))),
    ("Reciprocal", Rule::One(|node| each(node, "Reciprocal"))),
    ("Relu", Rule::One(|node| each(node, "Relu"))),
    ("ReplaceNaN", Rule::One(replace)),
    (
        "Rsqrt",
        Rule::One(|node| {
            let root = each(node, "Sqrt")?;
            node.call("Reciprocal", &[&root], [])
        }),
    ),
    ("Scale", Rule::One(scale)),
    ("ScaleGradient", Rule::One(same)),
    ("Selu", Rule::One(selu)),
    ("Sigmoid", Rule::One(|node| each(node, "Sigmoid"))),
    ("Sign", Rule::One(|node| each(node, "Sign"))),
    ("Sin", Rule::One(|node| each(node, "Sin"))),
    ("Sinh", Rule::One(|node| each(node, "Sinh"))),
    ("Softplus", Rule::One(|node| each(node, "Softplus"))),
    ("Softsign", Rule::One(|node| each(node, "Softsign"))),
    (
        "Sqr",
        Rule::One(|node| {
            let x = node.input(0)?;
            node.mul(&x, &x)
        }),
    ),
    ("Sqrt", Rule::One(|node| each(node, "Sqrt"))),
    ("StopGradient", Rule::One(same)),
    (
        "Swish",
        Rule::One(|node| {
            let (x, gate) = (node.input(0)?, each(node, "Sigmoid")?);
            node.mul(&x, &gate)
        }),
    ),
    ("Tan", Rule::One(|node| each(node, "Tan"))),
    ("Tanh", Rule::One(|node| each(node, "Tanh"))),
    ("ThresholdedRelu", Rule::One(thresholded)),
];

fn each(node: &mut Node<'_>, kind: &str) -> Outcome {
    let x = node.input(0)?;
    node.call(kind, &[&x], [])
}

fn same(node: &mut Node<'_>) -> Outcome {
    node.input(0)
}

fn convert(node: &mut Node<'_>, to: DType) -> Outcome {
    let x = node.input(0)?;
    node.cast(&x, to)
}

/// Element types by their codes in `TensorProto.DataType`.
const TYPES: &[(i64, &str, DType)] = &[
    (1, "FLOAT", DType::Float32),
    (2, "INT32", DType::Int32),
    (5, "BOOL", DType::Bool),
    (6, "UINT8", DType::Uint8),
    (7, "INT8", DType::Int8),
    (8, "UINT16", DType::Uint16),
    (9, "INT16", DType::Int16),
    (10, "INT64", DType::Int64),
    (12, "FLOAT16", DType::Float16),
    (13, "DOUBLE", DType::Float64),
];

fn cast(node: &mut Node<'_>) -> Outcome {
    let found = match node.op.attribute("to") {
        Some(AttributeValue::Long(code)) => TYPES.iter().find(|(known, ..)| known == code),
        Some(AttributeValue::String(name)) => {
            let name = name.to_string().to_uppercase();
            TYPES.iter().find(|(_, known, _)| *known == name)
        }
        _ => None,
    };
    let (.., to) = found.ok_or_else(|| {
        let known = TYPES.iter().map(|(code, name, _)| format!("`{code}` (`{name}`)"));
        let known = known.collect::<Vec<_>>().join(", ");
        Finding::from(format!("expected one of {known} as `to`")).about_attribute("to")
    })?;
    convert(node, *to)
}

/// Clips elements; a bound that is absent is the end of the range of floats.
fn clip(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let (least, most) = (node.float("min", f32::MIN)?, node.float("max", f32::MAX)?);
    node.clamp(&x, least.into(), most.into())
}

/// `fast_gelu` is the approximation by a hyperbolic tangent.
fn gelu(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let approximate = if node.flag("fast_gelu", false)? { "tanh" } else { "none" };
    node.call("Gelu", &[&x], [text("approximate", approximate)])
}

fn leaky(node: &mut Node<'_>) -> Outcome {
    let (x, alpha) = (node.input(0)?, node.float("alpha", 0.01)?);
    node.call("LeakyRelu", &[&x], [float("alpha", alpha)])
}

fn hard_sigmoid(node: &mut Node<'_>) -> Outcome {
    let (alpha, beta) = (node.float("alpha", 0.2)?, node.float("beta", 0.5)?);
    let x = node.input(0)?;
    node.call("HardSigmoid", &[&x], [float("alpha", alpha), float("beta", beta)])
}

fn thresholded(node: &mut Node<'_>) -> Outcome {
    let (x, alpha) = (node.input(0)?, node.float("alpha", 1.0)?);
    node.call("ThresholdedRelu", &[&x], [float("alpha", alpha)])
}

fn elu(node: &mut Node<'_>) -> Outcome {
    let (x, alpha) = (node.input(0)?, node.float("alpha", 1.0)?);
    node.call("Elu", &[&x], [float("alpha", alpha)])
}

fn selu(node: &mut Node<'_>) -> Outcome {
    let (alpha, gamma) = (node.float("alpha", 1.673_263_2)?, node.float("scale", 1.050_701)?);
    let x = node.input(0)?;
    node.call("Selu", &[&x], [float("alpha", alpha), float("gamma", gamma)])
}

/// The logarithm of the odds of numbers, which are clipped to `eps` and `1 - eps`.
fn logit(node: &mut Node<'_>) -> Outcome {
    let (x, epsilon) = (node.input(0)?, f64::from(node.float("eps", 1e-6)?));
    let x = node.clamp(&x, epsilon, 1.0 - epsilon)?;
    let one = node.number(x.dtype(), 1.0)?;
    let rest = node.sub(&one, &x)?;
    let odds = node.div(&x, &rest)?;
    node.call("Log", &[&odds], [])
}

fn replace(node: &mut Node<'_>) -> Outcome {
    let (x, value) = (node.input(0)?, node.float("value", 0.0)?);
    let is_nan = node.call("IsNaN", &[&x], [])?;
    let value = node.number(x.dtype(), value.into())?;
    node.choose(&is_nan, &value, &x)
}

/// The rest of a division, of the sign of the dividend or of the divisor.
fn modulo(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let divisor = node.int("divisor", 0)?;
    if divisor < 1 {
        return Err(format!("expected a `divisor` of at least 1, found {divisor}").into());
    }
    let follows_divisor = node.flag("sign_follow_divisor", false)?;
    let divisor = node.long(divisor);
    let divisor = node.cast(&divisor, x.dtype())?;
    node.call("Mod", &[&x, &divisor], [int("fmod", i64::from(!follows_divisor))])
}

/// The number of boundaries below each element.
fn bucketize(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let Some(AttributeValue::Floats(boundaries)) = node.op.attribute("boundaries") else {
        return Err("expected floats as `boundaries`".into());
    };
    let boundaries = node.singles(boundaries);
    let x = node.unsqueeze(&x, &[-1])?;
    let is_above = node.call("Greater", &[&x, &boundaries], [])?;
    let is_above = node.cast(&is_above, DType::Int32)?;
    node.reduce("ReduceSum", &is_above, &[-1], false)
}

fn scale(node: &mut Node<'_>) -> Outcome {
    let (x, factor) = (node.input(0)?, node.float("scale", 1.0)?);
    node.times(&x, factor.into())
}

fn log1p(node: &mut Node<'_>) -> Outcome {
    let x: Value = node.input(0)?;
    let sum = node.plus(&x, 1.0)?;
    node.call("Log", &[&sum], [])
}

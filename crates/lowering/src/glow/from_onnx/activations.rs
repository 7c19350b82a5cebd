//! Activation functions.

use lodstone_schema::glow::ElemKind;

use super::elementwise::{clipped, filled, together, unary};
use super::graph::{MemberValue, Value, plain};
use super::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Celu", celu),
    ("Elu", elu),
    ("Gelu", gelu),
    ("HardSigmoid", hard_sigmoid),
    ("HardSwish", |cx| unary(cx, "HardSwish")),
    ("IsInf", is_inf),
    ("IsNaN", is_nan),
    ("LeakyRelu", leaky_relu),
    ("Mish", mish),
    ("PRelu", p_relu),
    ("Relu", |cx| unary(cx, "Relu")),
    ("Selu", selu),
    ("Shrink", shrink),
    ("Sigmoid", |cx| unary(cx, "Sigmoid")),
    ("Softplus", |cx| unary(cx, "SoftPlus")),
    ("Softsign", softsign),
    ("Swish", swish),
    ("Tan", tangent),
    ("Tanh", |cx| unary(cx, "Tanh")),
    ("ThresholdedRelu", thresholded),
];

/// Selects between two values for each element, by whether it is positive.
fn where_positive(
    cx: &mut Cx<'_>,
    value: Value,
    threshold: f32,
    yes: Value,
    no: Value,
) -> Result<Value, Fault> {
    let limit = filled(cx, threshold, value, "limit")?;
    let of = plain(ElemKind::Bool, cx.shape(value));
    let is_above = cx.node("CmpLT", "is_above", &[limit, value], Vec::new(), of)?;
    let of = cx.shaped(value, cx.shape(value));
    cx.node("Select", "", &[is_above, yes, no], Vec::new(), of)
}

/// `alpha * (exp(x) - 1)` of each element.
fn exponential(cx: &mut Cx<'_>, value: Value, alpha: f32) -> Result<Value, Fault> {
    let power = cx.each("Exp", value, "exp")?;
    let ones = filled(cx, 1.0, value, "one")?;
    let less = cx.pair("Sub", power, ones, "less")?;
    let alpha = filled(cx, alpha, value, "alpha")?;
    cx.pair("Mul", alpha, less, "scaled")
}

fn elu(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let alpha = cx.float("alpha", 1.0)?;
    let below = exponential(cx, value, alpha)?;
    one(where_positive(cx, value, 0.0, value, below)?)
}

fn selu(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let (alpha, gamma) = (cx.float("alpha", 1.673_263_2)?, cx.float("gamma", 1.050_701)?);
    let below = exponential(cx, value, alpha)?;
    let gamma = filled(cx, gamma, value, "gamma")?;
    let (above, below) =
        (cx.pair("Mul", gamma, value, "above")?, cx.pair("Mul", gamma, below, "below")?);
    one(where_positive(cx, value, 0.0, above, below)?)
}

fn thresholded(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let alpha = cx.float("alpha", 1.0)?;
    let zeros = filled(cx, 0.0, value, "zero")?;
    one(where_positive(cx, value, alpha, value, zeros)?)
}

/// Glow's own node is the approximation by a hyperbolic tangent.
fn gelu(cx: &mut Cx<'_>) -> Outcome {
    match cx.text("approximate", "none")?.as_str() {
        "tanh" => return unary(cx, "Gelu"),
        "none" => {}
        other => {
            return Err(
                format!("expected `none` or `tanh` as `approximate`, found `{other}`").into()
            );
        }
    }
    let value = cx.input(0)?;
    one(exact_gelu(cx, value)?)
}

/// Adds `0.5 * x * (1 + erf(x / sqrt(2)))`.
pub(crate) fn exact_gelu(cx: &mut Cx<'_>, value: Value) -> Result<Value, Fault> {
    let root = filled(cx, std::f32::consts::SQRT_2, value, "root")?;
    let share = cx.pair("Div", value, root, "scaled")?;
    let share = cx.each("Erf", share, "erf")?;
    let ones = filled(cx, 1.0, value, "one")?;
    let share = cx.pair("Add", ones, share, "more")?;
    let half = filled(cx, 0.5, value, "half")?;
    let half = cx.pair("Mul", half, value, "halved")?;
    cx.pair("Mul", half, share, "")
}

fn mish(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let soft = cx.each("SoftPlus", value, "softplus")?;
    let soft = cx.each("Tanh", soft, "tanh")?;
    one(cx.pair("Mul", value, soft, "")?)
}

fn swish(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let alpha = cx.float("alpha", 1.0)?;
    if (alpha - 1.0).abs() < f32::EPSILON {
        return one(cx.each("Swish", value, "")?);
    }
    let alpha = filled(cx, alpha, value, "alpha")?;
    let gate = cx.pair("Mul", alpha, value, "scaled")?;
    let gate = cx.each("Sigmoid", gate, "gate")?;
    one(cx.pair("Mul", value, gate, "")?)
}

fn tangent(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let (sine, cosine) = (cx.each("Sin", value, "sin")?, cx.each("Cos", value, "cos")?);
    one(cx.pair("Div", sine, cosine, "")?)
}

fn softsign(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let size = cx.each("Abs", value, "abs")?;
    let ones = filled(cx, 1.0, value, "one")?;
    let more = cx.pair("Add", ones, size, "more")?;
    one(cx.pair("Div", value, more, "")?)
}

fn hard_sigmoid(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let (alpha, beta) = (cx.float("alpha", 0.2)?, cx.float("beta", 0.5)?);
    let alpha = filled(cx, alpha, value, "alpha")?;
    let scaled = cx.pair("Mul", alpha, value, "mul")?;
    let beta = filled(cx, beta, value, "beta")?;
    let moved = cx.pair("Add", scaled, beta, "add")?;
    one(clipped(cx, moved, 0.0, 1.0, "clip")?)
}

fn is_nan(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let of = plain(ElemKind::Bool, cx.shape(value));
    one(cx.node("IsNaN", "", &[value], Vec::new(), of)?)
}

fn leaky_relu(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let alpha = cx.float("alpha", 0.01)?;
    let of = cx.shaped(value, cx.shape(value));
    one(cx.node("LeakyRelu", "", &[value], vec![("Alpha", MemberValue::Float(alpha))], of)?)
}

fn p_relu(cx: &mut Cx<'_>) -> Outcome {
    let (value, slope) = (cx.input(0)?, cx.input(1)?);
    let shape = cx.shape(value);
    let together = together(&[&shape, cx.graph.shape(slope)])?;
    if together != shape {
        return Err(format!(
            "expected a slope that broadcasts to {shape:?}, found {:?}",
            cx.shape(slope)
        )
        .into());
    }
    let slope = cx.broadcast_always(slope, &shape, "slope")?;
    one(cx.pair("PRelu", value, slope, "")?)
}

/// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`
fn celu(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let alpha = cx.float("alpha", 1.0)?;
    let divisor = filled(cx, alpha, value, "divisor")?;
    let scaled = cx.pair("Div", value, divisor, "divided")?;
    let below = exponential(cx, scaled, alpha)?;
    let zeros = filled(cx, 0.0, value, "zero")?;
    let above = cx.pair("Max", zeros, value, "above")?;
    let below = cx.pair("Min", zeros, below, "below")?;
    one(cx.pair("Add", above, below, "")?)
}

fn is_inf(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let signs = (cx.flag("detect_negative", true)?, cx.flag("detect_positive", true)?);
    let (value, limit) = match signs {
        (true, true) => (cx.each("Abs", value, "abs")?, f32::INFINITY),
        (true, false) => (value, f32::NEG_INFINITY),
        (false, true) => (value, f32::INFINITY),
        (false, false) => return Err("expected `detect_negative` or `detect_positive`".into()),
    };
    let limit = filled(cx, limit, value, "limit")?;
    let of = plain(ElemKind::Bool, cx.shape(value));
    one(cx.node("CmpEQ", "", &[value, limit], Vec::new(), of)?)
}

/// Elements near zero become zero, others move towards zero.
fn shrink(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let (limit, bias) = (cx.float("lambd", 0.5)?, cx.float("bias", 0.0)?);
    let bias = filled(cx, bias, value, "bias")?;
    let (less, more) = (cx.pair("Sub", value, bias, "less")?, cx.pair("Add", value, bias, "more")?);
    let zeros = filled(cx, 0.0, value, "zero")?;
    let above = where_positive(cx, value, limit, less, zeros)?;
    let edge = filled(cx, -limit, value, "edge")?;
    let of = plain(ElemKind::Bool, cx.shape(value));
    let is_below = cx.node("CmpLT", "is_below", &[value, edge], Vec::new(), of)?;
    let of = cx.shaped(value, cx.shape(value));
    one(cx.node("Select", "", &[is_below, more, above], Vec::new(), of)?)
}

//! Functions of each element, and of rows: activations, roots, logarithms, trigonometry.

use lodstone_model::DType;
use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::layout::Layout;
use crate::onnx::{Value, float, int, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("abs", |op| op.same("Abs")),
    ("brelu", brelu),
    ("ceil", |op| op.same("Ceil")),
    ("clip", clip),
    ("cos", |op| op.same("Cos")),
    ("elu", |op| op.with("Elu", &[("alpha", "alpha")])),
    ("erf", |op| op.same("Erf")),
    ("exp", |op| op.same("Exp")),
    ("floor", |op| op.same("Floor")),
    ("gelu", gelu),
    ("hard_shrink", hard_shrink),
    ("hard_sigmoid", |op| op.with("HardSigmoid", &[("slope", "alpha"), ("offset", "beta")])),
    ("hard_swish", hard_swish),
    ("isfinite_v2", |op| not_finite(op, false)),
    ("isnan_v2", |op| not_finite(op, true)),
    ("leaky_relu", |op| op.with("LeakyRelu", &[("alpha", "alpha")])),
    ("log", |op| op.same("Log")),
    ("log1p", log1p),
    ("log2", log2),
    ("log_softmax", |op| softmax(op, "LogSoftmax")),
    ("logical_not", |op| {
        let x = op.input("X")?;
        let x = op.cast(&x, DType::Bool)?;
        let y = op.call("Not", &[&x], [])?;
        op.put("Out", &y)
    }),
    ("logsigmoid", logsigmoid),
    ("mish", mish),
    ("pow", pow),
    ("prelu", prelu),
    ("reciprocal", |op| op.same("Reciprocal")),
    ("relu", relu),
    ("relu6", relu6),
    ("round", round),
    ("rsqrt", rsqrt),
    ("scale", scale),
    ("selu", |op| op.with("Selu", &[("alpha", "alpha"), ("scale", "gamma")])),
    ("sigmoid", |op| op.same("Sigmoid")),
    ("sign", |op| op.same("Sign")),
    ("silu", |op| swish(op, 1.0)),
    ("sin", |op| op.same("Sin")),
    ("softmax", |op| softmax(op, "Softmax")),
    ("softplus", softplus),
    ("softshrink", |op| {
        let (x, near) = (op.input("X")?, op.float("lambda")?);
        shrink(op, &x, near, near)
    }),
    ("softsign", |op| op.same("Softsign")),
    ("sqrt", |op| op.same("Sqrt")),
    ("square", square),
    // The attribute applies up to 2.4.
    ("swish", |op| match op.is_older_than(Release::new(2, 5)) {
        true => swish(op, op.float_or("beta", 1.0)?),
        false => swish(op, 1.0),
    }),
    ("tanh", |op| op.same("Tanh")),
    ("thresholded_relu", |op| op.with("ThresholdedRelu", &[("threshold", "alpha")])),
];

impl Operator<'_> {
    /// Lowers to an ONNX operator without attributes.
    pub(super) fn same(&mut self, kind: &str) -> Outcome {
        self.with(kind, &[])
    }

    /// Lowers to an ONNX operator whose float attributes have other names.
    fn with(&mut self, kind: &str, names: &[(&str, &str)]) -> Outcome {
        let x = self.input("X")?;
        let attribute = |(ours, theirs): &(&str, &str)| Ok(float(theirs, self.float(ours)?));
        let attributes = names.iter().map(attribute).collect::<Outcome<Vec<_>>>()?;
        let [y] = self.emit_all(kind, &[Some(&x)], attributes)?;
        self.put("Out", &y)
    }
}

fn brelu(op: &mut Operator<'_>) -> Outcome {
    let (x, least, most) = (op.input("X")?, op.float("t_min")?, op.float("t_max")?);
    let y = op.clamp(&x, least.into(), most.into())?;
    op.put("Out", &y)
}

/// Returns the bounds of `clip`.
pub(super) fn limits(op: &mut Operator<'_>, dtype: DType) -> Outcome<(Value, Value)> {
    let mut limit = |slot: &str, attribute: &str| match op.optional(slot)? {
        // A tensor of one element.
        Some(value) => op.reshape(&value, &[]),
        None => {
            let number = op.float(attribute)?;
            op.number(dtype, number.into())
        }
    };
    Ok((limit("Min", "min")?, limit("Max", "max")?))
}

fn clip(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let (least, most) = limits(op, x.dtype())?;
    let y = op.call("Clip", &[&x, &least, &most], [])?;
    op.put("Out", &y)
}

fn gelu(op: &mut Operator<'_>) -> Outcome {
    let (x, how) = (op.input("X")?, if op.flag("approximate")? { "tanh" } else { "none" });
    let y = op.call("Gelu", &[&x], [text("approximate", how)])?;
    op.put("Out", &y)
}

fn hard_swish(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    // Its attributes apply up to 2.4.
    let (threshold, scale, offset) = match op.is_older_than(Release::new(2, 5)) {
        true => (op.float("threshold")?, op.float("scale")?, op.float("offset")?),
        false => (6.0, 6.0, 3.0),
    };
    if [threshold, scale, offset] == [6.0, 6.0, 3.0] {
        let y = op.call("HardSwish", &[&x], [])?;
        return op.put("Out", &y);
    }
    let moved = op.plus(&x, offset.into())?;
    let gate = op.clamp(&moved, 0.0, threshold.into())?;
    let product = op.mul(&x, &gate)?;
    let y = op.times(&product, 1.0 / f64::from(scale))?;
    op.put("Out", &y)
}

fn log1p(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    // The sum is computed in float64, since small terms would be lost otherwise.
    let wide = op.cast(&x, DType::Float64)?;
    let more = op.plus(&wide, 1.0)?;
    let log = op.call("Log", &[&more], [])?;
    let y = op.cast(&log, x.dtype())?;
    op.put("Out", &y)
}

fn log2(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let log = op.call("Log", &[&x], [])?;
    let y = op.times(&log, std::f64::consts::LOG2_E)?;
    op.put("Out", &y)
}

fn logsigmoid(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let negative = op.call("Neg", &[&x], [])?;
    let soft = op.call("Softplus", &[&negative], [])?;
    let y = op.call("Neg", &[&soft], [])?;
    op.put("Out", &y)
}

/// `x tanh(log(1 + exp(x)))`.
fn mish(op: &mut Operator<'_>) -> Outcome {
    let (x, threshold) = (op.input("X")?, op.float("threshold")?);
    // From 20 on, the logarithm is its argument.
    if threshold >= 20.0 {
        let y = op.call("Mish", &[&x], [])?;
        return op.put("Out", &y);
    }
    let soft = soft_plus(op, &x, 1.0, threshold.into())?;
    let gate = op.call("Tanh", &[&soft], [])?;
    let y = op.mul(&x, &gate)?;
    op.put("Out", &y)
}

/// Finds NaN, and infinities unless `nan_alone`. Integers are finite.
fn not_finite(op: &mut Operator<'_>, nan_alone: bool) -> Outcome {
    let x = op.input("X")?;
    let y = match (x.dtype().is_float(), nan_alone) {
        (true, true) => op.call("IsNaN", &[&x], [])?,
        (true, false) => {
            let (nan, infinite) = (op.call("IsNaN", &[&x], [])?, op.call("IsInf", &[&x], [])?);
            let either = op.call("Or", &[&nan, &infinite], [])?;
            op.call("Not", &[&either], [])?
        }
        (false, nan) => {
            let same = op.call("Equal", &[&x, &x], [])?;
            if nan { op.call("Not", &[&same], [])? } else { same }
        }
    };
    op.put("Out", &y)
}

/// Returns the exponent of `pow`.
pub(super) fn exponent(op: &mut Operator<'_>, dtype: DType) -> Outcome<Value> {
    match op.optional("FactorTensor")? {
        Some(factor) => op.reshape(&factor, &[]),
        None => {
            let factor = op.float("factor")?;
            op.number(dtype, factor.into())
        }
    }
}

fn pow(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let factor = exponent(op, x.dtype())?;
    let y = op.call("Pow", &[&x, &factor], [])?;
    op.put("Out", &y)
}

/// Returns the slopes of `prelu`: one for all elements, one for each channel, or one for each element.
pub(super) fn slopes(op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
    let alpha = op.input("Alpha")?;
    let layout = op.layout("data_format")?;
    Ok(match op.text("mode")?.as_str() {
        "all" => op.reshape(&alpha, &[1])?,
        "channel" => {
            let alpha = op.reshape(&alpha, &[-1])?;
            let behind = match layout {
                Layout::Last => 0,
                Layout::First => x.rank()?.count().saturating_sub(2),
            };
            let behind: Vec<i64> = (1..).take(behind).collect();
            if behind.is_empty() { alpha } else { op.unsqueeze(&alpha, &behind)? }
        }
        "element" => alpha,
        other => {
            return Err(format!("expected `all`, `channel` or `element`, found `{other}`").into());
        }
    })
}

fn prelu(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let alpha = slopes(op, &x)?;
    let y = op.call("PRelu", &[&x, &alpha], [])?;
    op.put("Out", &y)
}

/// NaN becomes 0.
fn relu(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    if op.is_exported() {
        let y = op.call("Relu", &[&x], [])?;
        return op.put("Out", &y);
    }
    let zero = op.number(x.dtype(), 0.0)?;
    let above = op.call("Greater", &[&x, &zero], [])?;
    let y = op.choose(&above, &x, &zero)?;
    op.put("Out", &y)
}

fn relu6(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    // The attribute applies up to 2.4.
    let old = op.is_older_than(Release::new(2, 5));
    let most = if old { op.float_or("threshold", 6.0)? } else { 6.0 };
    let y = op.clamp(&x, 0.0, most.into())?;
    op.put("Out", &y)
}

/// Up to 3.0, halves are rounded away from zero; then to even, as in ONNX.
fn round(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    if !op.is_older_than(Release::new(3, 1)) {
        let y = op.call("Round", &[&x], [])?;
        return op.put("Out", &y);
    }
    let size = op.call("Abs", &[&x], [])?;
    let (whole, sign) = (op.call("Floor", &[&size], [])?, op.call("Sign", &[&x], [])?);
    let rest = op.sub(&size, &whole)?;
    let half = op.number(x.dtype(), 0.5)?;
    let up = op.call("GreaterOrEqual", &[&rest, &half], [])?;
    let up = op.cast(&up, x.dtype())?;
    let rounded = op.add(&whole, &up)?;
    let y = op.mul(&rounded, &sign)?;
    op.put("Out", &y)
}

fn rsqrt(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let root = op.call("Sqrt", &[&x], [])?;
    let y = op.call("Reciprocal", &[&root], [])?;
    op.put("Out", &y)
}

fn scale(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let (factor, bias) = (op.float("scale")?, f64::from(op.float("bias")?));
    let factor = match op.optional("ScaleTensor")? {
        Some(factor) => {
            let factor = op.reshape(&factor, &[])?;
            Some(op.cast(&factor, x.dtype())?)
        }
        None if factor == 1.0 => None,
        None => Some(op.number(x.dtype(), factor.into())?),
    };
    let times = |op: &mut Operator<'_>, x: &Value| match &factor {
        Some(factor) => op.mul(x, factor),
        None => Ok(x.clone()),
    };
    let plus = |op: &mut Operator<'_>, x: &Value| match bias {
        0.0 => Ok(x.clone()),
        bias => op.plus(x, bias),
    };
    let y = match op.flag("bias_after_scale")? {
        true => times(op, &x).and_then(|y| plus(op, &y))?,
        false => plus(op, &x).and_then(|y| times(op, &y))?,
    };
    op.put("Out", &y)
}

/// Elements near 0 become 0; others are kept, or with `moves` shifted towards 0 by the threshold.
fn shrink(op: &mut Operator<'_>, x: &Value, near: f32, bias: f32) -> Outcome {
    let y = op.call("Shrink", &[x], [float("lambd", near), float("bias", bias)])?;
    op.put("Out", &y)
}

/// Up to 3.0, elements at the threshold become 0, too.
fn hard_shrink(op: &mut Operator<'_>) -> Outcome {
    let (x, near) = (op.input("X")?, op.float("threshold")?);
    if op.is_older_than(Release::new(3, 1)) {
        return shrink(op, &x, near, 0.0);
    }
    let (size, zero) = (op.call("Abs", &[&x], [])?, op.number(x.dtype(), 0.0)?);
    let near = op.number(x.dtype(), near.into())?;
    let is_near = op.call("Less", &[&size, &near], [])?;
    let y = op.choose(&is_near, &zero, &x)?;
    op.put("Out", &y)
}

fn softmax(op: &mut Operator<'_>, kind: &str) -> Outcome {
    let (x, axis) = (op.input("X")?, op.int("axis")?);
    if x.rank()? == 0 {
        let y = op.constant_like(&x, x.dtype(), if kind == "Softmax" { 1.0 } else { 0.0 })?;
        return op.put("Out", &y);
    }
    let y = op.shares(kind, &x, axis)?;
    op.put("Out", &y)
}

/// The maximum distance below the maximum of a row: PaddlePaddle clamps smaller logits in softmax.
const DEEPEST: f64 = 64.0;

impl Operator<'_> {
    /// Computes `Softmax` or `LogSoftmax`, of which no result is less than that of the maximum by more than a factor of
    /// `exp(64)`.
    pub(super) fn shares(&mut self, kind: &str, x: &Value, axis: i64) -> Outcome<Value> {
        let y = self.call(kind, &[x], [int("axis", axis)])?;
        if self.is_exported() {
            return Ok(y);
        }
        let top = self.reduce("ReduceMax", &y, &[axis], true)?;
        let least = match kind {
            "Softmax" => self.times(&top, (-DEEPEST).exp())?,
            _ => self.plus(&top, -DEEPEST)?,
        };
        self.call("Max", &[&y, &least], [])
    }
}

/// `log(1 + exp(beta x)) / beta`, and `x` where `beta x` exceeds the threshold.
fn softplus(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let (beta, threshold) = (f64::from(op.float("beta")?), f64::from(op.float("threshold")?));
    if beta == 1.0 && threshold >= 20.0 {
        let y = op.call("Softplus", &[&x], [])?;
        return op.put("Out", &y);
    }
    let y = soft_plus(op, &x, beta, threshold)?;
    op.put("Out", &y)
}

pub(super) fn soft_plus(
    op: &mut Operator<'_>,
    x: &Value,
    beta: f64,
    threshold: f64,
) -> Outcome<Value> {
    let scaled = op.times(x, beta)?;
    let soft = op.call("Softplus", &[&scaled], [])?;
    let soft = op.times(&soft, 1.0 / beta)?;
    let limit = op.number(x.dtype(), threshold)?;
    let straight = op.call("Greater", &[&scaled, &limit], [])?;
    op.choose(&straight, x, &soft)
}

fn square(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let y = op.mul(&x, &x)?;
    op.put("Out", &y)
}

fn swish(op: &mut Operator<'_>, beta: f32) -> Outcome {
    let x = op.input("X")?;
    let scaled = if beta == 1.0 { x.clone() } else { op.times(&x, beta.into())? };
    let gate = op.call("Sigmoid", &[&scaled], [])?;
    let y = op.mul(&x, &gate)?;
    op.put("Out", &y)
}

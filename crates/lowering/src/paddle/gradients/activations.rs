//! Gradients of functions of each element, and of rows.

use lodstone_schema::paddle::Release;
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, PI, SQRT_2};

use super::super::activations::{exponent, limits, slopes, soft_plus};
use super::super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("abs_grad", |op| steep(op, "X", |op, x| op.call("Sign", &[x], []))),
    ("brelu_grad", |op| {
        let ends = (f64::from(op.float("t_min")?), f64::from(op.float("t_max")?));
        between(op, "X", ends, 1.0)
    }),
    ("ceil_grad", flat),
    ("clip_grad", clip),
    ("cos_grad", |op| {
        steep(op, "X", |op, x| {
            let sine = op.call("Sin", &[x], [])?;
            op.call("Neg", &[&sine], [])
        })
    }),
    ("elu_grad", |op| bent(op, 1.0, op.float("alpha")?.into())),
    ("erf_grad", |op| {
        steep(op, "X", |op, x| {
            let bell = bell(op, x, -1.0)?;
            op.times(&bell, FRAC_2_SQRT_PI)
        })
    }),
    ("exp_grad", |op| steep(op, "Out", |_, y| Ok(y.clone()))),
    ("floor_grad", flat),
    ("gelu_grad", |op| match op.flag("approximate")? {
        true => steep(op, "X", gelu_by_tanh),
        false => steep(op, "X", gelu),
    }),
    ("hard_shrink_grad", |op| {
        // Since 3.1, elements at the threshold are kept.
        let keeps = !op.is_older_than(Release::new(3, 1));
        beyond(op, "threshold", keeps)
    }),
    ("hard_sigmoid_grad", |op| {
        let slope = op.float("slope")?.into();
        between(op, "Out", (0.0, 1.0), slope)
    }),
    ("hard_swish_grad", |op| steep(op, "X", hard_swish)),
    ("leaky_relu_grad", leaky_relu),
    ("log1p_grad", |op| {
        steep(op, "X", |op, x| {
            let more = op.plus(x, 1.0)?;
            op.call("Reciprocal", &[&more], [])
        })
    }),
    ("log2_grad", |op| {
        steep(op, "X", |op, x| {
            let scaled = op.times(x, LN_2)?;
            op.call("Reciprocal", &[&scaled], [])
        })
    }),
    ("log_grad", |op| steep(op, "X", |op, x| op.call("Reciprocal", &[x], []))),
    ("log_softmax_grad", log_softmax),
    ("logsigmoid_grad", |op| {
        steep(op, "X", |op, x| {
            let other = op.call("Neg", &[x], [])?;
            op.call("Sigmoid", &[&other], [])
        })
    }),
    ("mish_grad", |op| steep(op, "X", mish)),
    ("pow_grad", |op| steep(op, "X", power)),
    ("prelu_grad", prelu),
    ("reciprocal_grad", |op| {
        steep(op, "Out", |op, y| {
            let square = op.squared(y)?;
            op.call("Neg", &[&square], [])
        })
    }),
    ("relu6_grad", |op| {
        // The attribute applies up to 2.4.
        let old = op.is_older_than(Release::new(2, 5));
        let most = if old { op.float_or("threshold", 6.0)? } else { 6.0 };
        between(op, "Out", (0.0, most.into()), 1.0)
    }),
    ("relu_grad", |op| {
        let (y, given) = (op.input("Out")?, op.gradient("Out")?);
        let above = op.above(&y, 0.0)?;
        let x = op.only(&above, &given)?;
        op.put_gradient("X", &x)
    }),
    ("round_grad", flat),
    ("rsqrt_grad", |op| {
        steep(op, "Out", |op, y| {
            let square = op.squared(y)?;
            let cube = op.mul(&square, y)?;
            op.times(&cube, -0.5)
        })
    }),
    ("selu_grad", |op| {
        let (scale, alpha) = (op.float("scale")?, op.float("alpha")?);
        selu(op, scale.into(), (scale * alpha).into())
    }),
    ("sigmoid_grad", |op| {
        steep(op, "Out", |op, y| {
            let rest = op.one_less(y)?;
            op.mul(y, &rest)
        })
    }),
    ("silu_grad", |op| swish(op, 1.0)),
    ("sin_grad", |op| steep(op, "X", |op, x| op.call("Cos", &[x], []))),
    ("softmax_grad", softmax),
    ("softplus_grad", |op| steep(op, "X", soft_plus_slope)),
    ("softshrink_grad", |op| beyond(op, "lambda", false)),
    ("softsign_grad", |op| {
        steep(op, "X", |op, x| {
            let size = op.call("Abs", &[x], [])?;
            let more = op.plus(&size, 1.0)?;
            let square = op.squared(&more)?;
            op.call("Reciprocal", &[&square], [])
        })
    }),
    ("sqrt_grad", |op| {
        steep(op, "Out", |op, y| {
            let half = op.number(y.dtype(), 0.5)?;
            op.div(&half, y)
        })
    }),
    ("square_grad", |op| steep(op, "X", |op, x| op.times(x, 2.0))),
    ("swish_grad", |op| match op.is_older_than(Release::new(2, 5)) {
        true => swish(op, op.float_or("beta", 1.0)?),
        false => swish(op, 1.0),
    }),
    ("tanh_grad", |op| {
        steep(op, "Out", |op, y| {
            let square = op.squared(y)?;
            op.one_less(&square)
        })
    }),
    ("thresholded_relu_grad", |op| {
        let (x, given, threshold) = (op.input("X")?, op.gradient("Out")?, op.float("threshold")?);
        let above = op.above(&x, threshold.into())?;
        let x = op.only(&above, &given)?;
        op.put_gradient("X", &x)
    }),
];

/// Multiplies the output gradient by the derivative, which depends on the value of a slot.
fn steep(
    op: &mut Operator<'_>,
    slot: &str,
    slope: fn(&mut Operator<'_>, &Value) -> Outcome<Value>,
) -> Outcome {
    let (value, given) = (op.input(slot)?, op.gradient("Out")?);
    let slope = slope(op, &value)?;
    let x = op.mul(&given, &slope)?;
    op.put_gradient("X", &x)
}

/// The derivative is 0 everywhere.
fn flat(op: &mut Operator<'_>) -> Outcome {
    let given = op.gradient("Out")?;
    // NaN and infinities propagate.
    let x = op.times(&given, 0.0)?;
    op.put_gradient("X", &x)
}

/// The derivative is `slope` where the value of a slot is strictly between two bounds, else 0.
fn between(op: &mut Operator<'_>, slot: &str, (least, most): (f64, f64), slope: f64) -> Outcome {
    let (value, given) = (op.input(slot)?, op.gradient("Out")?);
    let (above, below) = (op.above(&value, least)?, op.below(&value, most)?);
    let inside = op.call("And", &[&above, &below], [])?;
    let given = if slope == 1.0 { given } else { op.times(&given, slope)? };
    let x = op.only(&inside, &given)?;
    op.put_gradient("X", &x)
}

/// The derivative is 1 beyond a distance from 0.
fn beyond(op: &mut Operator<'_>, name: &str, with_limit: bool) -> Outcome {
    let (x, given, near) = (op.input("X")?, op.gradient("Out")?, op.float(name)?);
    let size = op.call("Abs", &[&x], [])?;
    let far = match with_limit {
        true => {
            let near = op.number(x.dtype(), near.into())?;
            op.call("GreaterOrEqual", &[&size, &near], [])?
        }
        false => op.above(&size, near.into())?,
    };
    let x = op.only(&far, &given)?;
    op.put_gradient("X", &x)
}

/// The derivative is `slope` above 0; below, it is the distance of the result from its limit, `-depth`.
fn bent(op: &mut Operator<'_>, slope: f64, depth: f64) -> Outcome {
    let (y, given) = (op.input("Out")?, op.gradient("Out")?);
    let side = op.optional("X")?.unwrap_or_else(|| y.clone());
    let above = op.above(&side, 0.0)?;
    let (straight, limit) = (op.number(y.dtype(), slope)?, op.plus(&y, depth)?);
    let slope = op.choose(&above, &straight, &limit)?;
    let x = op.mul(&given, &slope)?;
    op.put_gradient("X", &x)
}

/// The derivative is constant where the result is above 0, or NaN.
fn selu(op: &mut Operator<'_>, slope: f64, depth: f64) -> Outcome {
    let (y, given) = (op.input("Out")?, op.gradient("Out")?);
    let zero = op.number(y.dtype(), 0.0)?;
    let below = op.call("LessOrEqual", &[&y, &zero], [])?;
    let (straight, limit) = (op.number(y.dtype(), slope)?, op.plus(&y, depth)?);
    let slope = op.choose(&below, &limit, &straight)?;
    let x = op.mul(&given, &slope)?;
    op.put_gradient("X", &x)
}

fn clip(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Out")?);
    let (least, most) = limits(op, x.dtype())?;
    let above = op.call("Greater", &[&x, &least], [])?;
    let below = op.call("Less", &[&x, &most], [])?;
    let inside = op.call("And", &[&above, &below], [])?;
    let x = op.only(&inside, &given)?;
    op.put_gradient("X", &x)
}

/// `exp(factor x^2)`.
fn bell(op: &mut Operator<'_>, x: &Value, factor: f64) -> Outcome<Value> {
    let square = op.squared(x)?;
    let square = op.times(&square, factor)?;
    op.call("Exp", &[&square], [])
}

/// The cumulative normal distribution at `x`, plus `x` times its density.
fn gelu(op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
    let scaled = op.times(x, 1.0 / SQRT_2)?;
    let error = op.call("Erf", &[&scaled], [])?;
    let more = op.plus(&error, 1.0)?;
    let share = op.times(&more, 0.5)?;
    let bell = bell(op, x, -0.5)?;
    let density = op.times(&bell, 1.0 / (2.0 * PI).sqrt())?;
    let product = op.mul(x, &density)?;
    op.add(&share, &product)
}

/// The derivative of `x / 2 (1 + tanh(k (x + 0.044715 x^3)))`.
fn gelu_by_tanh(op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
    const CUBE: f64 = 0.044_715;
    let k = (2.0 / PI).sqrt();
    let square = op.squared(x)?;
    let inner = op.times(&square, CUBE)?;
    let inner = op.plus(&inner, 1.0)?;
    let inner = op.mul(&inner, x)?;
    let inner = op.times(&inner, k)?;
    let tanh = op.call("Tanh", &[&inner], [])?;
    let more = op.plus(&tanh, 1.0)?;
    let share = op.times(&more, 0.5)?;
    let tanh = op.squared(&tanh)?;
    let outer = op.one_less(&tanh)?;
    let steep = op.times(&square, 3.0 * CUBE)?;
    let steep = op.plus(&steep, 1.0)?;
    let steep = op.times(&steep, 0.5 * k)?;
    let steep = op.mul(&steep, x)?;
    let product = op.mul(&outer, &steep)?;
    op.add(&share, &product)
}

fn hard_swish(op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
    // Its attributes apply up to 2.4.
    let (threshold, scale, offset) = match op.is_older_than(Release::new(2, 5)) {
        true => (op.float("threshold")?, op.float("scale")?, op.float("offset")?),
        false => (6.0, 6.0, 3.0),
    };
    let (scale, offset) = (f64::from(scale), f64::from(offset));
    let moved = op.plus(x, offset)?;
    let (above, below) = (op.above(&moved, 0.0)?, op.below(&moved, threshold.into())?);
    let twice = op.times(x, 2.0)?;
    let bent = op.plus(&twice, offset)?;
    let bent = op.times(&bent, 1.0 / scale)?;
    // Infinities and NaN propagate.
    let above = op.cast(&above, x.dtype())?;
    let bent = op.mul(&above, &bent)?;
    let (below, rest) = (op.cast(&below, x.dtype())?, op.call("Not", &[&below], [])?);
    let (bent, rest) = (op.mul(&below, &bent)?, op.cast(&rest, x.dtype())?);
    op.add(&bent, &rest)
}

fn leaky_relu(op: &mut Operator<'_>) -> Outcome {
    let (x, given, alpha) = (op.input("X")?, op.gradient("Out")?, op.float("alpha")?);
    let below = op.below(&x, 0.0)?;
    let less = op.times(&given, alpha.into())?;
    let zero = op.number(x.dtype(), 0.0)?;
    let above = op.call("GreaterOrEqual", &[&x, &zero], [])?;
    let straight = op.only(&above, &given)?;
    let x = op.choose(&below, &less, &straight)?;
    op.put_gradient("X", &x)
}

/// `tanh(s) + x (1 - tanh(s)^2) (1 - exp(-s))`, where `s` is the softplus of `x`.
fn mish(op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
    let soft = soft_plus(op, x, 1.0, op.float("threshold")?.into())?;
    let tanh = op.call("Tanh", &[&soft], [])?;
    let square = op.squared(&tanh)?;
    let rest = op.one_less(&square)?;
    let negative = op.call("Neg", &[&soft], [])?;
    let gone = op.call("Exp", &[&negative], [])?;
    let gate = op.one_less(&gone)?;
    let product = op.mul(&rest, &gate)?;
    let product = op.mul(x, &product)?;
    op.add(&tanh, &product)
}

fn power(op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
    let factor = exponent(op, x.dtype())?;
    let less = op.plus(&factor, -1.0)?;
    let power = op.call("Pow", &[x, &less], [])?;
    op.mul(&factor, &power)
}

fn prelu(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Out")?);
    let alpha = slopes(op, &x)?;
    let above = op.above(&x, 0.0)?;
    if op.wants_gradient("X") {
        let less = op.mul(&given, &alpha)?;
        let y = op.choose(&above, &given, &less)?;
        op.put_gradient("X", &y)?;
    }
    if op.wants_gradient("Alpha") {
        let product = op.mul(&given, &x)?;
        let below = op.except(&above, &product)?;
        let sums = op.gathered(&below, &alpha)?;
        let like = op.input("Alpha")?;
        let sums = op.reshape_as(&sums, &like)?;
        op.put_gradient("Alpha", &sums)?;
    }
    Ok(())
}

/// Sums the output gradient along the axis; returns it unchanged if there is no axis.
fn sums(op: &mut Operator<'_>, value: &Value) -> Outcome<Value> {
    match value.rank()?.count() {
        0 => Ok(value.clone()),
        _ => {
            let axis = op.int("axis")?;
            op.reduce("ReduceSum", value, &[axis], true)
        }
    }
}

fn log_softmax(op: &mut Operator<'_>) -> Outcome {
    let (y, given) = (op.input("Out")?, op.gradient("Out")?);
    let (shares, sum) = (op.call("Exp", &[&y], [])?, sums(op, &given)?);
    let part = op.mul(&shares, &sum)?;
    let x = op.sub(&given, &part)?;
    op.put_gradient("X", &x)
}

fn softmax(op: &mut Operator<'_>) -> Outcome {
    let (y, given) = (op.input("Out")?, op.gradient("Out")?);
    let product = op.mul(&given, &y)?;
    let sum = sums(op, &product)?;
    let rest = op.sub(&given, &sum)?;
    let x = op.mul(&rest, &y)?;
    op.put_gradient("X", &x)
}

fn soft_plus_slope(op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
    let (beta, threshold) = (op.float("beta")?, op.float("threshold")?);
    let scaled = op.times(x, beta.into())?;
    let (straight, soft) =
        (op.above(&scaled, threshold.into())?, op.call("Sigmoid", &[&scaled], [])?);
    let one = op.number(x.dtype(), 1.0)?;
    op.choose(&straight, &one, &soft)
}

/// `s + b x s (1 - s)`, where `s` is the sigmoid of `b x`.
fn swish(op: &mut Operator<'_>, beta: f32) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Out")?);
    let scaled = if beta == 1.0 { x } else { op.times(&x, beta.into())? };
    let gate = op.call("Sigmoid", &[&scaled], [])?;
    let rest = op.one_less(&gate)?;
    let bent = op.mul(&scaled, &rest)?;
    let more = op.plus(&bent, 1.0)?;
    let slope = op.mul(&gate, &more)?;
    let x = op.mul(&given, &slope)?;
    op.put_gradient("X", &x)
}

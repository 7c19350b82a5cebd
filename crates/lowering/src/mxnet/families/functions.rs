//! Functions of each element.

use std::f64::consts::{LN_2, LN_10, PI};

use lodstone_model::DType;
use lodstone_schema::numbers::length;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Cast", Rule::One(cast)),
    ("_contrib_div_sqrt_dim", Rule::One(div_sqrt_dim)),
    ("_contrib_round_ste", Rule::One(|node| of(node, round))),
    ("_contrib_sign_ste", Rule::One(|node| node.unary("Sign"))),
    ("_npi_exp", Rule::One(|node| node.unary_float("Exp"))),
    ("_npi_log", Rule::One(|node| node.unary_float("Log"))),
    ("_npi_sqrt", Rule::One(|node| node.unary_float("Sqrt"))),
    ("_npi_tanh", Rule::One(|node| node.unary_float("Tanh"))),
    ("_npx_relu", Rule::One(|node| node.unary("Relu"))),
    ("_npx_sigmoid", Rule::One(|node| node.unary_float("Sigmoid"))),
    ("abs", Rule::One(|node| node.unary("Abs"))),
    ("amp_cast", Rule::One(cast)),
    ("amp_multicast", Rule::Many(multicast)),
    ("arccos", Rule::One(|node| node.unary_float("Acos"))),
    ("arccosh", Rule::One(|node| node.unary_float("Acosh"))),
    ("arcsin", Rule::One(|node| node.unary_float("Asin"))),
    ("arcsinh", Rule::One(|node| node.unary_float("Asinh"))),
    ("arctan", Rule::One(|node| node.unary_float("Atan"))),
    ("arctanh", Rule::One(|node| node.unary_float("Atanh"))),
    ("cbrt", Rule::One(|node| of(node, cbrt))),
    ("ceil", Rule::One(|node| of(node, |node, x| whole(node, x, "Ceil")))),
    ("clip", Rule::One(clip)),
    ("cos", Rule::One(|node| node.unary_float("Cos"))),
    ("cosh", Rule::One(|node| node.unary_float("Cosh"))),
    ("degrees", Rule::One(|node| of(node, |node, x| node.times(x, 180.0 / PI)))),
    ("erf", Rule::One(|node| node.unary_float("Erf"))),
    ("erfinv", Rule::One(|node| of(node, inverse_erf))),
    ("exp", Rule::One(|node| node.unary_float("Exp"))),
    ("expm1", Rule::One(|node| of(node, expm1))),
    ("fix", Rule::One(|node| of(node, truncated))),
    ("floor", Rule::One(|node| of(node, |node, x| whole(node, x, "Floor")))),
    ("gamma", Rule::One(|node| of(node, gamma))),
    ("gammaln", Rule::One(|node| of(node, log_gamma))),
    ("log", Rule::One(|node| node.unary_float("Log"))),
    ("log10", Rule::One(|node| of(node, |node, x| logarithm(node, x, LN_10)))),
    ("log1p", Rule::One(|node| of(node, log1p))),
    ("log2", Rule::One(|node| of(node, |node, x| logarithm(node, x, LN_2)))),
    ("logical_not", Rule::One(|node| of(node, logical_not))),
    ("negative", Rule::One(|node| node.unary("Neg"))),
    ("radians", Rule::One(|node| of(node, |node, x| node.times(x, PI / 180.0)))),
    ("rcbrt", Rule::One(|node| of(node, rcbrt))),
    ("reciprocal", Rule::One(|node| node.unary_float("Reciprocal"))),
    ("relu", Rule::One(|node| node.unary("Relu"))),
    ("rint", Rule::One(|node| of(node, rint))),
    ("round", Rule::One(|node| of(node, round))),
    ("rsqrt", Rule::One(|node| of(node, rsqrt))),
    ("sigmoid", Rule::One(|node| node.unary_float("Sigmoid"))),
    ("sign", Rule::One(|node| node.unary("Sign"))),
    ("sin", Rule::One(|node| node.unary_float("Sin"))),
    ("sinh", Rule::One(|node| node.unary_float("Sinh"))),
    ("sqrt", Rule::One(|node| node.unary_float("Sqrt"))),
    ("softsign", Rule::One(|node| node.unary_float("Softsign"))),
    ("square", Rule::One(square)),
    ("tan", Rule::One(|node| node.unary_float("Tan"))),
    ("tanh", Rule::One(|node| node.unary_float("Tanh"))),
    ("trunc", Rule::One(|node| of(node, truncated))),
];

fn of(node: &mut Node<'_>, function: fn(&mut Node<'_>, &Value) -> Outcome) -> Outcome {
    let [x] = node.exactly()?;
    node.as_floats(&x, |node, x| function(node, x))
}

fn square(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    node.mul(&x, &x)
}

fn cast(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let to = node.attributes.dtype("dtype")?.ok_or("the attribute `dtype` is missing")?;
    // Fractions are cut off, also of numbers that become unsigned.
    node.cast(&x, to)
}

/// Casts all inputs to the widest type of floats among them, or the narrowest.
fn multicast(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let all = node.all()?;
    let count = node.attributes.int("num_outputs", None)?;
    if length(all.len()) != count {
        return Err(wrong("num_outputs", "the number of inputs", &count.to_string()));
    }
    let is_narrow = node.attributes.flag("cast_narrow", false)?;
    let types = all.iter().map(Value::dtype).filter(|dtype| dtype.is_float());
    let bits = |dtype: &DType| dtype.bits();
    let to = if is_narrow { types.min_by_key(bits) } else { types.max_by_key(bits) };
    let to = to.ok_or("expected floats")?;
    all.iter().map(|x| node.cast(x, to)).collect()
}

fn clip(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let least = node.attributes.float("a_min", None)?;
    let most = node.attributes.float("a_max", None)?;
    node.clamp(&x, least, most)
}

fn div_sqrt_dim(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let last = crate::mxnet::node::axis_of(&x, -1)?;
    let size = node.extent_as(&x, last, x.dtype())?;
    let root = node.call("Sqrt", &[&size], [])?;
    node.div(&x, &root)
}

/// Rounds by an ONNX operator; integers are whole.
fn whole(node: &mut Node<'_>, x: &Value, kind: &str) -> Outcome {
    if x.dtype().is_float() { node.call(kind, &[x], []) } else { Ok(x.clone()) }
}

/// Rounds towards zero.
pub(super) fn truncated(node: &mut Node<'_>, x: &Value) -> Outcome {
    let zero = node.number(x.dtype(), 0.0)?;
    let is_negative = node.call("Less", &[x, &zero], [])?;
    let (up, down) = (whole(node, x, "Ceil")?, whole(node, x, "Floor")?);
    node.choose(&is_negative, &up, &down)
}

/// Rounds to the nearest integer; halves are rounded down.
fn rint(node: &mut Node<'_>, x: &Value) -> Outcome {
    let (floor, ceil) = (whole(node, x, "Floor")?, whole(node, x, "Ceil")?);
    let (below, above) = (node.sub(x, &floor)?, node.sub(&ceil, x)?);
    let is_lower = node.call("LessOrEqual", &[&below, &above], [])?;
    node.choose(&is_lower, &floor, &ceil)
}

/// Rounds to the nearest integer; halves are rounded away from zero.
pub(super) fn round(node: &mut Node<'_>, x: &Value) -> Outcome {
    let size = node.call("Abs", &[x], [])?;
    let floor = whole(node, &size, "Floor")?;
    let rest = node.sub(&size, &floor)?;
    let half = node.number(x.dtype(), 0.5)?;
    let is_lower = node.call("Less", &[&rest, &half], [])?;
    let next = node.plus(&floor, 1.0)?;
    let size = node.choose(&is_lower, &floor, &next)?;
    let sign = node.call("Sign", &[x], [])?;
    node.mul(&size, &sign)
}

fn rsqrt(node: &mut Node<'_>, x: &Value) -> Outcome {
    let root = node.call("Sqrt", &[x], [])?;
    node.call("Reciprocal", &[&root], [])
}

pub(super) fn cbrt(node: &mut Node<'_>, x: &Value) -> Outcome {
    let (size, sign) = (node.call("Abs", &[x], [])?, node.call("Sign", &[x], [])?);
    let third = node.number(x.dtype(), 1.0 / 3.0)?;
    let root = node.call("Pow", &[&size, &third], [])?;
    node.mul(&root, &sign)
}

fn rcbrt(node: &mut Node<'_>, x: &Value) -> Outcome {
    let root = cbrt(node, x)?;
    node.call("Reciprocal", &[&root], [])
}

/// The logarithm to a base, whose natural logarithm is `base`.
pub(super) fn logarithm(node: &mut Node<'_>, x: &Value, base: f64) -> Outcome {
    let y = node.call("Log", &[x], [])?;
    node.times(&y, 1.0 / base)
}

/// `log(1 + x)`, corrected by the rounding of `1 + x`.
pub(super) fn log1p(node: &mut Node<'_>, x: &Value) -> Outcome {
    let one = node.number(x.dtype(), 1.0)?;
    let sum = node.add(x, &one)?;
    let rounded = node.sub(&sum, &one)?;
    let is_exact = node.call("Equal", &[&rounded, x], [])?;
    let log = node.call("Log", &[&sum], [])?;
    let ratio = node.div(x, &rounded)?;
    let corrected = node.mul(&log, &ratio)?;
    let y = node.choose(&is_exact, &log, &corrected)?;
    let is_one = node.call("Equal", &[&sum, &one], [])?;
    node.choose(&is_one, x, &y)
}

/// `tanh(x / 2) (exp(x) + 1)`, which keeps the precision of small numbers.
pub(super) fn expm1(node: &mut Node<'_>, x: &Value) -> Outcome {
    let half = node.times(x, 0.5)?;
    let tanh = node.call("Tanh", &[&half], [])?;
    let exp = node.call("Exp", &[x], [])?;
    let more = node.plus(&exp, 1.0)?;
    node.mul(&tanh, &more)
}

fn logical_not(node: &mut Node<'_>, x: &Value) -> Outcome {
    let zero = node.number(x.dtype(), 0.0)?;
    let is_zero = node.call("Equal", &[x, &zero], [])?;
    node.cast(&is_zero, x.dtype())
}

/// The inverse of the error function: Winitzki's approximation, and Newton's method.
fn inverse_erf(node: &mut Node<'_>, x: &Value) -> Outcome {
    const A: f64 = 0.147;
    const STEPS: usize = 4;
    let square = node.mul(x, x)?;
    let one = node.number(x.dtype(), 1.0)?;
    let rest = node.sub(&one, &square)?;
    let log = node.call("Log", &[&rest], [])?;
    let half = node.times(&log, 0.5)?;
    let first = node.plus(&half, 2.0 / (PI * A))?;
    let inner = node.mul(&first, &first)?;
    let last = node.times(&log, 1.0 / A)?;
    let inner = node.sub(&inner, &last)?;
    let root = node.call("Sqrt", &[&inner], [])?;
    let size = node.sub(&root, &first)?;
    let size = node.call("Sqrt", &[&size], [])?;
    let sign = node.call("Sign", &[x], [])?;
    let start = node.mul(&size, &sign)?;
    let mut y = start;
    for _ in 0..STEPS {
        let found = node.call("Erf", &[&y], [])?;
        let error = node.sub(&found, x)?;
        let square = node.mul(&y, &y)?;
        let slope = node.call("Exp", &[&square], [])?;
        let step = node.mul(&error, &slope)?;
        let step = node.times(&step, PI.sqrt() / 2.0)?;
        y = node.sub(&y, &step)?;
    }
    // At the ends, the logarithm is infinite.
    let size = node.call("Abs", &[x], [])?;
    let is_inside = node.call("Less", &[&size, &one], [])?;
    let infinite = node.number(x.dtype(), f64::INFINITY)?;
    let ends = node.mul(&infinite, &sign)?;
    let is_end = node.call("Equal", &[&size, &one], [])?;
    let outside = node.number(x.dtype(), f64::NAN)?;
    let ends = node.choose(&is_end, &ends, &outside)?;
    node.choose(&is_inside, &y, &ends)
}

/// The logarithm of the gamma function at `x >= 0.5`: Lanczos's approximation with `g = 7`, in double precision.
fn lanczos(node: &mut Node<'_>, x: &Value) -> Outcome {
    const G: f64 = 7.0;
    const FIRST: f64 = 0.999_999_999_999_809_9;
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = node.plus(x, -1.0)?;
    let mut sum = node.number(x.dtype(), FIRST)?;
    let mut place = 1.0;
    for term in TERMS {
        let below = node.plus(&x, place)?;
        let term = node.number(x.dtype(), term)?;
        let part = node.div(&term, &below)?;
        sum = node.add(&sum, &part)?;
        place += 1.0;
    }
    let base = node.plus(&x, G + 0.5)?;
    let (log, half) = (node.call("Log", &[&base], [])?, node.plus(&x, 0.5)?);
    let power = node.mul(&log, &half)?;
    let power = node.sub(&power, &base)?;
    let sum = node.call("Log", &[&sum], [])?;
    let y = node.add(&power, &sum)?;
    node.plus(&y, (2.0 * PI).ln() / 2.0)
}

/// The logarithm of the size of the gamma function. Below 0.5 it is reflected.
fn log_gamma_wide(node: &mut Node<'_>, x: &Value) -> Outcome {
    let half = node.number(x.dtype(), 0.5)?;
    let one = node.number(x.dtype(), 1.0)?;
    let is_low = node.call("Less", &[x, &half], [])?;
    let mirrored = node.sub(&one, x)?;
    let inner = node.choose(&is_low, &mirrored, x)?;
    let y = lanczos(node, &inner)?;
    let angle = node.times(x, PI)?;
    let sine = node.call("Sin", &[&angle], [])?;
    let sine = node.call("Abs", &[&sine], [])?;
    let log = node.call("Log", &[&sine], [])?;
    let pi = node.number(x.dtype(), PI.ln())?;
    let reflected = node.sub(&pi, &log)?;
    let reflected = node.sub(&reflected, &y)?;
    node.choose(&is_low, &reflected, &y)
}

fn log_gamma(node: &mut Node<'_>, x: &Value) -> Outcome {
    let wide = node.cast(x, DType::Float64)?;
    let y = log_gamma_wide(node, &wide)?;
    node.cast(&y, x.dtype())
}

/// The gamma function. Below 0.5 it has the sign of the sine of `pi x`.
fn gamma(node: &mut Node<'_>, x: &Value) -> Outcome {
    let wide = node.cast(x, DType::Float64)?;
    let log = log_gamma_wide(node, &wide)?;
    let size = node.call("Exp", &[&log], [])?;
    let half = node.number(DType::Float64, 0.5)?;
    let is_low = node.call("Less", &[&wide, &half], [])?;
    let angle = node.times(&wide, PI)?;
    let sine = node.call("Sin", &[&angle], [])?;
    let sign = node.call("Sign", &[&sine], [])?;
    let signed = node.mul(&size, &sign)?;
    let y = node.choose(&is_low, &signed, &size)?;
    node.cast(&y, x.dtype())
}

//! Functions of the elements of several tensors, with type promotion.

use lodstone_model::DType;

use super::unary::truncated;
use crate::onnx::{Value, int, text};
use crate::torch::arguments::{Number, wrong};
use crate::torch::node::{Node, Outcome, Rule};
use crate::torch::promote::{Category, Operand, category, common, float_type, promoted};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::__and__", Rule::One(|node| bitwise(node, "And", "BitwiseAnd"))),
    ("aten::__iand__", Rule::One(|node| bitwise(node, "And", "BitwiseAnd"))),
    ("aten::__ior__", Rule::One(|node| bitwise(node, "Or", "BitwiseOr"))),
    ("aten::__ixor__", Rule::One(|node| bitwise(node, "Xor", "BitwiseXor"))),
    ("aten::__lshift__", Rule::One(|node| shift(node, "LEFT"))),
    ("aten::__or__", Rule::One(|node| bitwise(node, "Or", "BitwiseOr"))),
    ("aten::__rshift__", Rule::One(|node| shift(node, "RIGHT"))),
    ("aten::__xor__", Rule::One(|node| bitwise(node, "Xor", "BitwiseXor"))),
    ("aten::add", Rule::One(|node| sum(node, "Add"))),
    ("aten::addcdiv", Rule::One(|node| combined(node, "Div"))),
    ("aten::addcmul", Rule::One(|node| combined(node, "Mul"))),
    ("aten::atan2", Rule::One(atan2)),
    ("aten::arctan2", Rule::One(atan2)),
    ("aten::bitwise_and", Rule::One(|node| bitwise(node, "And", "BitwiseAnd"))),
    ("aten::bitwise_left_shift", Rule::One(|node| shift(node, "LEFT"))),
    ("aten::bitwise_or", Rule::One(|node| bitwise(node, "Or", "BitwiseOr"))),
    ("aten::bitwise_right_shift", Rule::One(|node| shift(node, "RIGHT"))),
    ("aten::bitwise_xor", Rule::One(|node| bitwise(node, "Xor", "BitwiseXor"))),
    ("aten::copysign", Rule::One(copysign)),
    ("aten::div", Rule::One(divide)),
    ("aten::divide", Rule::One(divide)),
    ("aten::eq", Rule::One(|node| compare(node, "Equal", false))),
    ("aten::float_power", Rule::One(float_power)),
    ("aten::floor_divide", Rule::One(floor_divide)),
    ("aten::fmax", Rule::One(|node| ignoring_nan(node, "Max"))),
    ("aten::fmin", Rule::One(|node| ignoring_nan(node, "Min"))),
    ("aten::fmod", Rule::One(fmod)),
    ("aten::ge", Rule::One(|node| compare(node, "GreaterOrEqual", false))),
    ("aten::greater", Rule::One(|node| compare(node, "Greater", false))),
    ("aten::greater_equal", Rule::One(|node| compare(node, "GreaterOrEqual", false))),
    ("aten::gt", Rule::One(|node| compare(node, "Greater", false))),
    ("aten::heaviside", Rule::One(heaviside)),
    ("aten::hypot", Rule::One(hypot)),
    ("aten::isclose", Rule::One(is_close)),
    ("aten::le", Rule::One(|node| compare(node, "LessOrEqual", false))),
    ("aten::lerp", Rule::One(lerp)),
    ("aten::less", Rule::One(|node| compare(node, "Less", false))),
    ("aten::less_equal", Rule::One(|node| compare(node, "LessOrEqual", false))),
    ("aten::logaddexp", Rule::One(logaddexp)),
    ("aten::logical_and", Rule::One(|node| logical(node, "And"))),
    ("aten::logical_or", Rule::One(|node| logical(node, "Or"))),
    ("aten::logical_xor", Rule::One(|node| logical(node, "Xor"))),
    ("aten::lt", Rule::One(|node| compare(node, "Less", false))),
    ("aten::maximum", Rule::One(|node| extreme(node, "Max"))),
    ("aten::minimum", Rule::One(|node| extreme(node, "Min"))),
    ("aten::mul", Rule::One(multiply)),
    ("aten::multiply", Rule::One(multiply)),
    ("aten::ne", Rule::One(|node| compare(node, "Equal", true))),
    ("aten::not_equal", Rule::One(|node| compare(node, "Equal", true))),
    ("aten::pow", Rule::One(power)),
    ("aten::remainder", Rule::One(remainder)),
    ("aten::rsub", Rule::One(reversed)),
    ("aten::special_xlogy", Rule::One(xlogy)),
    ("aten::sub", Rule::One(|node| sum(node, "Sub"))),
    ("aten::subtract", Rule::One(|node| sum(node, "Sub"))),
    ("aten::true_divide", Rule::One(divide)),
    ("aten::xlogy", Rule::One(xlogy)),
];

/// Multiplies a value by a number, unless that is 1.
pub(super) fn multiplied(node: &mut Node<'_>, x: &Value, number: Number) -> Outcome {
    if number.float() == 1.0 {
        return Ok(x.clone());
    }
    if category(x.dtype())? != Category::Float && matches!(number, Number::Float(_)) {
        return Err(wrong("alpha", "an integer", &format!("{number:?}")));
    }
    let number = node.number_of(x.dtype(), number)?;
    node.mul(x, &number)
}

/// Adds or subtracts the second operand, multiplied by `alpha`.
fn sum(node: &mut Node<'_>, kind: &str) -> Outcome {
    let (left, right, dtype) = node.pair("self", "other")?;
    let alpha = node.arguments.number("alpha")?.unwrap_or(Number::Int(1));
    if dtype == DType::Bool {
        return match kind {
            // Truth values are added as by `or`.
            "Add" if alpha.float() != 0.0 => node.call("Or", &[&left, &right], []),
            _ => Err("subtracting truth values is not supported".into()),
        };
    }
    let right = multiplied(node, &right, alpha)?;
    node.call(kind, &[&left, &right], [])
}

fn reversed(node: &mut Node<'_>) -> Outcome {
    let (left, right, _) = node.pair("self", "other")?;
    let alpha = node.arguments.number("alpha")?.unwrap_or(Number::Int(1));
    let left = multiplied(node, &left, alpha)?;
    node.sub(&right, &left)
}

fn multiply(node: &mut Node<'_>) -> Outcome {
    let (left, right, dtype) = node.pair("self", "other")?;
    node.call(if dtype == DType::Bool { "And" } else { "Mul" }, &[&left, &right], [])
}

/// The quotient rounded down.
pub(super) fn floored(node: &mut Node<'_>, left: &Value, right: &Value) -> Outcome {
    if category(left.dtype())? == Category::Float {
        let quotient = node.div(left, right)?;
        return node.call("Floor", &[&quotient], []);
    }
    // ONNX's division of integers truncates.
    let rest = node.call("Mod", &[left, right], [])?;
    let whole = node.sub(left, &rest)?;
    node.div(&whole, right)
}

fn divide(node: &mut Node<'_>) -> Outcome {
    match node.arguments.text("rounding_mode")?.as_deref() {
        None => {
            let (left, right, _) = node.float_pair("self", "other")?;
            node.div(&left, &right)
        }
        Some("floor") => {
            let (left, right, _) = node.pair("self", "other")?;
            floored(node, &left, &right)
        }
        Some("trunc") => {
            let (left, right, _) = node.pair("self", "other")?;
            let quotient = node.div(&left, &right)?;
            truncated(node, &quotient)
        }
        Some(other) => Err(wrong("rounding_mode", "`floor` or `trunc`", other)),
    }
}

fn floor_divide(node: &mut Node<'_>) -> Outcome {
    let (left, right, _) = node.pair("self", "other")?;
    floored(node, &left, &right)
}

/// The remainder, with the sign of the divisor.
fn remainder(node: &mut Node<'_>) -> Outcome {
    let (left, right, dtype) = node.pair("self", "other")?;
    if category(dtype)? != Category::Float {
        return node.call("Mod", &[&left, &right], []);
    }
    let rest = node.call("Mod", &[&left, &right], [int("fmod", 1)])?;
    let zero = node.number(dtype, 0.0)?;
    let is_rest = node.call("Equal", &[&rest, &zero], [])?;
    let is_rest = node.call("Not", &[&is_rest], [])?;
    let (rest_below, right_below) =
        (node.call("Less", &[&rest, &zero], [])?, node.call("Less", &[&right, &zero], [])?);
    let differ = node.call("Xor", &[&rest_below, &right_below], [])?;
    let corrects = node.call("And", &[&is_rest, &differ], [])?;
    let other = node.add(&rest, &right)?;
    node.choose(&corrects, &other, &rest)
}

/// The remainder, with the sign of the dividend.
fn fmod(node: &mut Node<'_>) -> Outcome {
    let (left, right, _) = node.pair("self", "other")?;
    node.call("Mod", &[&left, &right], [int("fmod", 1)])
}

fn power(node: &mut Node<'_>) -> Outcome {
    let (base, exponent) = (node.operand("self")?, node.operand("exponent")?);
    let dtype = promoted(&[base.clone(), exponent.clone()])?;
    if let (Operand::Number(number), Category::Float) = (&exponent, category(dtype)?) {
        let x = node.in_type(&base, dtype)?;
        let number = number.float();
        return match () {
            () if number == 2.0 => node.mul(&x, &x),
            () if number == 0.5 => node.call("Sqrt", &[&x], []),
            () if number == 1.0 => Ok(x),
            () => {
                let number = node.number(dtype, number)?;
                node.call("Pow", &[&x, &number], [])
            }
        };
    }
    if let (Operand::Number(number), Category::Int) = (&exponent, category(dtype)?)
        && number.float() < 0.0
    {
        return Err("integers to negative integer powers are not supported".into());
    }
    let (base, exponent) = (node.in_type(&base, dtype)?, node.in_type(&exponent, dtype)?);
    // ONNX has powers of int32, int64 and floats.
    let wide = match dtype {
        DType::Int8 | DType::Int16 | DType::Uint8 => DType::Int32,
        DType::Bool => return Err("powers of truth values are not supported".into()),
        other => other,
    };
    let (base, exponent) = (node.cast(&base, wide)?, node.cast(&exponent, wide)?);
    let power = node.call("Pow", &[&base, &exponent], [])?;
    node.cast(&power, dtype)
}

fn float_power(node: &mut Node<'_>) -> Outcome {
    let (base, exponent) = (node.operand("self")?, node.operand("exponent")?);
    let base = node.in_type(&base, DType::Float64)?;
    let exponent = node.in_type(&exponent, DType::Float64)?;
    node.call("Pow", &[&base, &exponent], [])
}

/// The angle of `self / other`, in all quadrants.
fn atan2(node: &mut Node<'_>) -> Outcome {
    let (y, x, dtype) = node.float_pair("self", "other")?;
    angle_of(node, &y, &x, dtype)
}

/// Returns the angle of a point (x, y).
pub(super) fn angle_of(node: &mut Node<'_>, y: &Value, x: &Value, dtype: DType) -> Outcome {
    let ratio = node.div(y, x)?;
    let angle = node.call("Atan", &[&ratio], [])?;
    let zero = node.number(dtype, 0.0)?;
    let (pi, half) = (
        node.number(dtype, std::f64::consts::PI)?,
        node.number(dtype, std::f64::consts::FRAC_PI_2)?,
    );
    let below = node.call("Less", &[y, &zero], [])?;
    let minus = node.call("Neg", &[&pi], [])?;
    let turn = node.choose(&below, &minus, &pi)?;
    let left = node.call("Less", &[x, &zero], [])?;
    let turned = node.add(&angle, &turn)?;
    let angle = node.choose(&left, &turned, &angle)?;
    // On the axis: a quarter turn in the direction of y, or nothing.
    let upright = node.call("Equal", &[x, &zero], [])?;
    let sign = node.call("Sign", &[y], [])?;
    let quarter = node.mul(&sign, &half)?;
    node.choose(&upright, &quarter, &angle)
}

fn compare(node: &mut Node<'_>, kind: &str, negated: bool) -> Outcome {
    let (mut left, mut right, dtype) = node.pair("self", "other")?;
    if dtype == DType::Bool && kind != "Equal" {
        left = node.cast(&left, DType::Int32)?;
        right = node.cast(&right, DType::Int32)?;
    }
    let truth = node.call(kind, &[&left, &right], [])?;
    if negated { node.call("Not", &[&truth], []) } else { Ok(truth) }
}

fn logical(node: &mut Node<'_>, kind: &str) -> Outcome {
    let operands = node.operands(&["self", "other"])?;
    let mut truths = Vec::new();
    for operand in &operands {
        truths.push(node.in_type(operand, DType::Bool)?);
    }
    node.call(kind, &truths.iter().collect::<Vec<_>>(), [])
}

fn bitwise(node: &mut Node<'_>, truths: &str, integers: &str) -> Outcome {
    let (left, right, dtype) = node.pair("self", "other")?;
    node.call(if dtype == DType::Bool { truths } else { integers }, &[&left, &right], [])
}

/// Shifts integers. ONNX shifts unsigned ones: a shift to the left is a product, one to the right a quotient.
fn shift(node: &mut Node<'_>, direction: &str) -> Outcome {
    let (left, right, dtype) = node.pair("self", "other")?;
    if matches!(dtype, DType::Uint8) {
        return node.call("BitShift", &[&left, &right], [text("direction", direction)]);
    }
    let (left, right) = (node.cast(&left, DType::Int64)?, node.cast(&right, DType::Int64)?);
    let two = node.long(2);
    let factor = node.call("Pow", &[&two, &right], [])?;
    let shifted = match direction {
        "LEFT" => node.mul(&left, &factor)?,
        _ => floored(node, &left, &factor)?,
    };
    node.cast(&shifted, dtype)
}

/// `Max` or `Min` of two values, of truth values too.
pub(super) fn extreme_of(node: &mut Node<'_>, kind: &str, left: &Value, right: &Value) -> Outcome {
    match left.dtype() {
        DType::Bool => node.call(if kind == "Max" { "Or" } else { "And" }, &[left, right], []),
        _ => node.call(kind, &[left, right], []),
    }
}

/// The larger or smaller element; NaN if either is.
pub(super) fn extreme(node: &mut Node<'_>, kind: &str) -> Outcome {
    let (left, right, _) = node.pair("self", "other")?;
    extreme_of(node, kind, &left, &right)
}

/// The larger or smaller element that is not NaN.
fn ignoring_nan(node: &mut Node<'_>, kind: &str) -> Outcome {
    let (left, right, dtype) = node.pair("self", "other")?;
    let best = extreme_of(node, kind, &left, &right)?;
    if category(dtype)? != Category::Float {
        return Ok(best);
    }
    let (left_nan, right_nan) =
        (node.call("IsNaN", &[&left], [])?, node.call("IsNaN", &[&right], [])?);
    let best = node.choose(&right_nan, &left, &best)?;
    node.choose(&left_nan, &right, &best)
}

fn copysign(node: &mut Node<'_>) -> Outcome {
    let (left, right, dtype) = node.float_pair("self", "other")?;
    let size = node.call("Abs", &[&left], [])?;
    let minus = node.call("Neg", &[&size], [])?;
    let zero = node.number(dtype, 0.0)?;
    let below = node.call("Less", &[&right, &zero], [])?;
    node.choose(&below, &minus, &size)
}

fn heaviside(node: &mut Node<'_>) -> Outcome {
    let (x, values, dtype) = node.pair("self", "values")?;
    let (zero, one) = (node.number(dtype, 0.0)?, node.number(dtype, 1.0)?);
    let above = node.call("Greater", &[&x, &zero], [])?;
    let is_zero = node.call("Equal", &[&x, &zero], [])?;
    let step = node.choose(&above, &one, &zero)?;
    node.choose(&is_zero, &values, &step)
}

fn hypot(node: &mut Node<'_>) -> Outcome {
    let (left, right, _) = node.pair("self", "other")?;
    let (left, right) = (node.mul(&left, &left)?, node.mul(&right, &right)?);
    let sum = node.add(&left, &right)?;
    node.call("Sqrt", &[&sum], [])
}

fn logaddexp(node: &mut Node<'_>) -> Outcome {
    let (left, right, dtype) = node.pair("self", "other")?;
    let most = node.call("Max", &[&left, &right], [])?;
    let difference = node.sub(&left, &right)?;
    let size = node.call("Abs", &[&difference], [])?;
    let minus = node.call("Neg", &[&size], [])?;
    let exp = node.call("Exp", &[&minus], [])?;
    let one = node.number(dtype, 1.0)?;
    let sum = node.add(&exp, &one)?;
    let log = node.call("Log", &[&sum], [])?;
    node.add(&most, &log)
}

fn xlogy(node: &mut Node<'_>) -> Outcome {
    let (x, y, dtype) = node.float_pair("self", "other")?;
    let log = node.call("Log", &[&y], [])?;
    let product = node.mul(&x, &log)?;
    let zero = node.number(dtype, 0.0)?;
    let is_zero = node.call("Equal", &[&x, &zero], [])?;
    let result = node.choose(&is_zero, &zero, &product)?;
    let is_nan = node.call("IsNaN", &[&y], [])?;
    node.choose(&is_nan, &y, &result)
}

/// `start + weight * (end - start)`; the mirrored form for weights from 0.5 on, as PyTorch computes it.
fn lerp(node: &mut Node<'_>) -> Outcome {
    let (start, end) = (node.tensor("self")?, node.tensor("end")?);
    let weight = node.operand("weight")?;
    let weight = node.in_type(&weight, start.dtype())?;
    let difference = node.sub(&end, &start)?;
    let part = node.mul(&weight, &difference)?;
    let low = node.add(&start, &part)?;
    let one = node.number(start.dtype(), 1.0)?;
    let rest = node.sub(&one, &weight)?;
    let part = node.mul(&difference, &rest)?;
    let high = node.sub(&end, &part)?;
    let size = node.call("Abs", &[&weight], [])?;
    let half = node.number(start.dtype(), 0.5)?;
    let is_low = node.call("Less", &[&size, &half], [])?;
    node.choose(&is_low, &low, &high)
}

/// `self + value * (tensor1 op tensor2)`.
fn combined(node: &mut Node<'_>, kind: &str) -> Outcome {
    let (x, first, second) =
        (node.tensor("self")?, node.tensor("tensor1")?, node.tensor("tensor2")?);
    let operands = [Operand::Tensor(first.clone()), Operand::Tensor(second.clone())];
    let mut dtype = promoted(&operands)?;
    if kind == "Div" {
        dtype = float_type(dtype)?;
    }
    let dtype = common(dtype, x.dtype())?;
    let (first, second) = (node.cast(&first, dtype)?, node.cast(&second, dtype)?);
    let x = node.cast(&x, dtype)?;
    let value = node.arguments.number("value")?.unwrap_or(Number::Int(1));
    let made = node.call(kind, &[&first, &second], [])?;
    let made = multiplied(node, &made, value)?;
    node.add(&x, &made)
}

/// Whether elements differ by at most `atol + rtol * |other|`.
fn is_close(node: &mut Node<'_>) -> Outcome {
    let (left, right, _) = node.float_pair("self", "other")?;
    let (relative, absolute) = (node.arguments.float("rtol")?, node.arguments.float("atol")?);
    let difference = node.sub(&left, &right)?;
    let difference = node.call("Abs", &[&difference], [])?;
    let bound = node.call("Abs", &[&right], [])?;
    let bound = node.times(&bound, relative)?;
    let bound = node.plus(&bound, absolute)?;
    let is_near = node.call("LessOrEqual", &[&difference, &bound], [])?;
    // An infinite difference is not near, however large the bound.
    let limit = node.number(left.dtype(), f64::INFINITY)?;
    let is_finite = node.call("Less", &[&difference, &limit], [])?;
    let is_near = node.call("And", &[&is_near, &is_finite], [])?;
    let is_equal = node.call("Equal", &[&left, &right], [])?;
    let is_close = node.call("Or", &[&is_near, &is_equal], [])?;
    if !node.arguments.flag("equal_nan")? {
        return Ok(is_close);
    }
    let nans = [&left, &right].map(|value| node.call("IsNaN", &[value], []));
    let [left, right] = nans;
    let both = node.call("And", &[&left?, &right?], [])?;
    node.call("Or", &[&is_close, &both], [])
}

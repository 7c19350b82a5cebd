//! Element-wise operators: arithmetic, comparisons, logic, activations.

use lodstone_model::DType;

use super::node::{Node, Outcome, Rule, no_equivalent};
use crate::onnx::{Value, float, int, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Abs", |n| unary(n, "Abs")),
    ("Acos", |n| unary(n, "Acos")),
    ("Asin", |n| unary(n, "Asin")),
    ("Atan", |n| unary(n, "Atan")),
    ("Ceil", |n| unary(n, "Ceil")),
    ("Cos", |n| unary(n, "Cos")),
    ("Erf", |n| unary(n, "Erf")),
    ("Exp", |n| unary(n, "Exp")),
    ("Floor", |n| unary(n, "Floor")),
    ("Gelu", gelu),
    ("HardSwish", |n| unary(n, "HardSwish")),
    ("IsNaN", |n| unary(n, "IsNaN")),
    ("Log", |n| unary(n, "Log")),
    ("Neg", |n| unary(n, "Neg")),
    ("Not", |n| unary(n, "Not")),
    ("Reciprocal", |n| unary(n, "Reciprocal")),
    ("Relu", |n| unary(n, "Relu")),
    ("Round", |n| unary(n, "Round")),
    ("Sigmoid", |n| unary(n, "Sigmoid")),
    ("Sign", |n| unary(n, "Sign")),
    ("Sin", |n| unary(n, "Sin")),
    ("SoftPlus", |n| unary(n, "Softplus")),
    ("Sqrt", |n| unary(n, "Sqrt")),
    ("Tanh", |n| unary(n, "Tanh")),
    ("Add", |n| binary(n, "Add")),
    ("BatchedAdd", |n| binary(n, "Add")),
    ("BatchedMul", |n| binary(n, "Mul")),
    ("Div", |n| binary(n, "Div")),
    ("Mul", |n| binary(n, "Mul")),
    ("Pow", |n| binary(n, "Pow")),
    ("Sub", |n| binary(n, "Sub")),
    ("Max", |n| binary(n, "Max")),
    ("Min", |n| binary(n, "Min")),
    ("PRelu", |n| binary(n, "PRelu")),
    ("CmpEQ", |n| compare(n, "Equal")),
    ("CmpLT", |n| compare(n, "Less")),
    ("CmpLTE", |n| compare(n, "LessOrEqual")),
    ("CmpNEQ", not_equal),
    ("And", |n| logic(n, "And")),
    ("Or", |n| logic(n, "Or")),
    ("Xor", |n| logic(n, "Xor")),
    ("BitwiseAnd", |n| bitwise(n, "BitwiseAnd", "And")),
    ("BitwiseOr", |n| bitwise(n, "BitwiseOr", "Or")),
    ("BitwiseXor", |n| bitwise(n, "BitwiseXor", "Xor")),
    ("BitwiseNot", |n| bitwise(n, "BitwiseNot", "Not")),
    ("Clip", clip),
    ("FloorDiv", floor_div),
    ("Fmod", |n| remainder(n)),
    ("LeakyRelu", leaky_relu),
    ("Logit", logit),
    ("Modulo", modulo),
    ("MulConst", |n| with_constant(n, "Mul")),
    ("ReplaceNaN", replace_nan),
    ("RsubConst", |n| with_constant(n, "Sub")),
    ("Rsqrt", rsqrt),
    ("Select", select),
    ("Swish", swish),
    ("Truncate", truncate),
];

fn unary(n: &mut Node<'_>, kind: &str) -> Outcome {
    let value = n.real(0)?;
    let value = n.call(kind, &[&value], [])?;
    n.put(0, &value)
}

/// Returns both inputs in the type of the computation.
fn both(n: &mut Node<'_>) -> Outcome<(Value, Value)> {
    let dtype = n.computed(0)?;
    Ok((n.real_as(0, dtype)?, n.real_as(1, dtype)?))
}

fn binary(n: &mut Node<'_>, kind: &str) -> Outcome {
    let (left, right) = both(n)?;
    let value = n.call(kind, &[&left, &right], [])?;
    n.put(0, &value)
}

fn compared(n: &mut Node<'_>, kind: &str) -> Outcome<Value> {
    let (left, right) = (n.real(0)?, n.real(1)?);
    n.call(kind, &[&left, &right], [])
}

fn compare(n: &mut Node<'_>, kind: &str) -> Outcome {
    let value = compared(n, kind)?;
    n.put(0, &value)
}

fn not_equal(n: &mut Node<'_>) -> Outcome {
    let equal = compared(n, "Equal")?;
    let value = n.not(&equal)?;
    n.put(0, &value)
}

fn logic(n: &mut Node<'_>, kind: &str) -> Outcome {
    let (left, right) = (n.raw(0)?, n.raw(1)?);
    let value = n.call(kind, &[&left, &right], [])?;
    n.put(0, &value)
}

/// Bitwise operators on integers; Booleans have operators of their own.
fn bitwise(n: &mut Node<'_>, kind: &str, of_truth: &str) -> Outcome {
    if n.ty(0)?.kind.is_quantized() {
        return no_equivalent("bitwise operators on quantized values have no meaning");
    }
    let values: Vec<Value> = n.inputs.iter().map(|input| input.value.clone()).collect();
    let values: Vec<&Value> = values.iter().collect();
    let is_truth = n.ty(0)?.kind.dtype() == DType::Bool;
    let value = n.call(if is_truth { of_truth } else { kind }, &values, [])?;
    n.put(0, &value)
}

fn clip(n: &mut Node<'_>) -> Outcome {
    let (least, most) = (n.float("Min")?, n.float("Max")?);
    let value = n.real(0)?;
    let value = clipped(n, &value, least, most)?;
    n.put(0, &value)
}

/// Clips to a range.
pub(super) fn clipped(n: &mut Node<'_>, value: &Value, least: f32, most: f32) -> Outcome<Value> {
    let least = n.number(value.dtype(), f64::from(least))?;
    let most = n.number(value.dtype(), f64::from(most))?;
    n.call("Clip", &[value, &least, &most], [])
}

/// Integer quotient, rounded towards zero or down.
fn floor_div(n: &mut Node<'_>) -> Outcome {
    let (left, right) = both(n)?;
    let quotient = n.div(&left, &right)?;
    let is_integer = !quotient.dtype().is_float();
    let value = match (n.flag("Truncate")?, is_integer) {
        (true, true) => quotient,
        (true, false) => truncated(n, &quotient)?,
        (false, false) => n.call("Floor", &[&quotient], [])?,
        (false, true) => {
            // Integer division rounds towards zero. Subtracting the remainder with the sign of the divisor first leaves
            // a multiple, whose quotient is rounded down.
            let rest = n.call("Mod", &[&left, &right], [])?;
            let multiple = n.sub(&left, &rest)?;
            n.div(&multiple, &right)?
        }
    };
    n.put(0, &value)
}

fn remainder(n: &mut Node<'_>) -> Outcome {
    let (left, right) = both(n)?;
    let value = n.call("Mod", &[&left, &right], [int("fmod", 1)])?;
    n.put(0, &value)
}

fn modulo(n: &mut Node<'_>) -> Outcome {
    let value = n.raw(0)?;
    let divisor = n.int("Divisor")?;
    let follows = n.flag("SignFollowDivisor")?;
    // Glow's divisor has 64 bits.
    let wide = n.cast(&value, DType::Int64)?;
    let divisor = n.long(divisor);
    let rest = n.call("Mod", &[&wide, &divisor], [int("fmod", i64::from(!follows))])?;
    n.put(0, &rest)
}

fn with_constant(n: &mut Node<'_>, kind: &str) -> Outcome {
    let dtype = n.computed(0)?;
    let number = f64::from(n.float("LHS")?);
    let left = n.number(dtype, number)?;
    let right = n.real_as(0, dtype)?;
    let value = n.call(kind, &[&left, &right], [])?;
    n.put(0, &value)
}

fn leaky_relu(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    let alpha = n.float("Alpha")?;
    let value = n.call("LeakyRelu", &[&value], [float("alpha", alpha)])?;
    n.put(0, &value)
}

/// `log(x / (1 - x))`, with `x` clipped to `Epsilon` from 0 and 1.
fn logit(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    let epsilon = n.float("Epsilon")?;
    let value = clipped(n, &value, epsilon, 1.0 - epsilon)?;
    let one = n.number(value.dtype(), 1.0)?;
    let other = n.sub(&one, &value)?;
    let odds = n.div(&value, &other)?;
    let value = n.call("Log", &[&odds], [])?;
    n.put(0, &value)
}

fn replace_nan(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    let number = f64::from(n.float("Value")?);
    let is_nan = n.call("IsNaN", &[&value], [])?;
    let number = n.number(value.dtype(), number)?;
    let value = n.choose(&is_nan, &number, &value)?;
    n.put(0, &value)
}

fn rsqrt(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    let root = n.call("Sqrt", &[&value], [])?;
    let value = n.call("Reciprocal", &[&root], [])?;
    n.put(0, &value)
}

fn select(n: &mut Node<'_>) -> Outcome {
    let choice = n.raw(0)?;
    let result = n.out(0)?;
    let (left, right) = (n.raw_like(1, &result)?, n.raw_like(2, &result)?);
    let value = n.choose(&choice, &left, &right)?;
    n.put_raw(0, &value)
}

fn swish(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    let gate = n.call("Sigmoid", &[&value], [])?;
    let value = n.mul(&value, &gate)?;
    n.put(0, &value)
}

fn truncate(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    let value = truncated(n, &value)?;
    n.put(0, &value)
}

/// Rounds towards zero.
fn truncated(n: &mut Node<'_>, value: &Value) -> Outcome<Value> {
    let sign = n.call("Sign", &[value], [])?;
    let size = n.call("Abs", &[value], [])?;
    let size = n.call("Floor", &[&size], [])?;
    n.mul(&sign, &size)
}

/// The approximation by the hyperbolic tangent, as Glow computes it.
fn gelu(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    let value = n.call("Gelu", &[&value], [text("approximate", "tanh")])?;
    n.put(0, &value)
}

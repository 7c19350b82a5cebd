//! Element-wise functions of two tensors.
//!
//! The dims of the second are aligned with those of the first from `axis`; -1 aligns them at the end, as usual.

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;
use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("bitwise_and", |op| bitwise(op, "BitwiseAnd", "And")),
    ("bitwise_not", bitwise_not),
    ("bitwise_or", |op| bitwise(op, "BitwiseOr", "Or")),
    ("bitwise_xor", |op| bitwise(op, "BitwiseXor", "Xor")),
    ("elementwise_add", |op| binary(op, "Add")),
    ("elementwise_div", |op| binary(op, "Div")),
    ("elementwise_floordiv", floor_divide),
    ("elementwise_fmax", |op| number_of(op, "Max", "Greater")),
    ("elementwise_fmin", |op| number_of(op, "Min", "Less")),
    ("elementwise_heaviside", heaviside),
    ("elementwise_max", |op| one_of(op, "Greater")),
    ("elementwise_min", |op| one_of(op, "Less")),
    ("elementwise_mod", remainder),
    ("elementwise_mul", |op| binary(op, "Mul")),
    ("elementwise_pow", |op| binary(op, "Pow")),
    ("elementwise_sub", |op| binary(op, "Sub")),
    ("equal", |op| binary(op, "Equal")),
    ("greater_equal", |op| compare(op, "GreaterOrEqual")),
    ("greater_than", |op| compare(op, "Greater")),
    ("kron", kron),
    ("lerp", lerp),
    ("less_equal", |op| compare(op, "LessOrEqual")),
    ("less_than", |op| compare(op, "Less")),
    ("logical_and", |op| logical(op, "And")),
    ("logical_or", |op| logical(op, "Or")),
    ("logical_xor", |op| logical(op, "Xor")),
    ("not_equal", not_equal),
    ("sum", sum),
];

impl Operator<'_> {
    /// Returns both operands, aligned so that ONNX broadcasts them as PaddlePaddle does.
    pub(super) fn pair(&mut self) -> Outcome<(Value, Value)> {
        let (x, y) = (self.input("X")?, self.input("Y")?);
        let axis = self.attribute("axis").map_or(Ok(-1), |_| self.int("axis"))?;
        let (rank, over) = (x.rank()?.count(), y.rank()?.count());
        if axis == -1 || over >= rank {
            return Ok((x, y));
        }
        let begin = usize::try_from(axis).ok().filter(|begin| begin + over <= rank);
        let behind = match begin {
            Some(begin) => rank - begin - over,
            // Up to 1.x, trailing dims of 1 of `Y` are ignored.
            None => {
                return Err(format!("`Y` has {over} dims too many after axis {axis}").into());
            }
        };
        let first = length(over);
        let axes: Vec<i64> = (first..).take(behind).collect();
        let y = if axes.is_empty() { y } else { self.unsqueeze(&y, &axes)? };
        Ok((x, y))
    }
}

fn binary(op: &mut Operator<'_>, kind: &str) -> Outcome {
    let (x, y) = op.pair()?;
    let out = op.call(kind, &[&x, &y], [])?;
    op.put("Out", &out)
}

/// The first operand where it is greater (or less) than the second, else the second, also if either is NaN. Since 3.1,
/// NaN if either is NaN, as in ONNX.
fn one_of(op: &mut Operator<'_>, than: &str) -> Outcome {
    let (x, y) = op.pair()?;
    if op.is_exported() || !op.is_older_than(Release::new(3, 1)) {
        let out = op.call(if than == "Greater" { "Max" } else { "Min" }, &[&x, &y], [])?;
        return op.put("Out", &out);
    }
    // The operand of lower rank comes second.
    let (x, y) = if x.rank()? < y.rank()? { (y, x) } else { (x, y) };
    let is_first = op.call(than, &[&x, &y], [])?;
    let out = op.choose(&is_first, &x, &y)?;
    op.put("Out", &out)
}

/// The maximum (or minimum) of two numbers; NaN is no number, and yields the other operand.
fn number_of(op: &mut Operator<'_>, kind: &str, than: &str) -> Outcome {
    let (x, y) = op.pair()?;
    if !x.dtype().is_float() {
        let out = op.call(kind, &[&x, &y], [])?;
        return op.put("Out", &out);
    }
    let (is_more, is_alone) = (op.call(than, &[&x, &y], [])?, op.call("IsNaN", &[&y], [])?);
    let is_first = op.call("Or", &[&is_more, &is_alone], [])?;
    let out = op.choose(&is_first, &x, &y)?;
    op.put("Out", &out)
}

/// 0 for negative numbers and NaN, 1 for positive ones, and the second operand for 0.
fn heaviside(op: &mut Operator<'_>) -> Outcome {
    let (x, y) = op.pair()?;
    // Up to 3.0, the operand of lower rank comes second.
    let is_exchanged = x.rank()? < y.rank()? && op.is_older_than(Release::new(3, 1));
    let (x, y) = if is_exchanged { (y, x) } else { (x, y) };
    let zero = op.number(x.dtype(), 0.0)?;
    let is_above = op.call("Greater", &[&x, &zero], [])?;
    let step = op.cast(&is_above, x.dtype())?;
    let is_zero = op.call("Equal", &[&x, &zero], [])?;
    let out = op.choose(&is_zero, &y, &step)?;
    op.put("Out", &out)
}

fn bitwise(op: &mut Operator<'_>, kind: &str, of_truths: &str) -> Outcome {
    let kind = if op.input("X")?.dtype() == DType::Bool { of_truths } else { kind };
    binary(op, kind)
}

fn bitwise_not(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let kind = if x.dtype() == DType::Bool { "Not" } else { "BitwiseNot" };
    let out = op.call(kind, &[&x], [])?;
    op.put("Out", &out)
}

/// `x + weight (y - x)`.
fn lerp(op: &mut Operator<'_>) -> Outcome {
    let (x, y, weight) = (op.input("X")?, op.input("Y")?, op.input("Weight")?);
    let way = op.sub(&y, &x)?;
    let part = op.mul(&weight, &way)?;
    let out = op.add(&x, &part)?;
    op.put("Out", &out)
}

/// The products of each element of `X` with all of `Y`, as blocks. Missing dims are 1.
fn kron(op: &mut Operator<'_>) -> Outcome {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    let rank = x.rank()?.max(y.rank()?).count();
    let (outer, inner): (Vec<i64>, Vec<i64>) =
        (0..).take(rank).map(|axis| (2 * axis, 2 * axis + 1)).unzip();
    let mut spread = |value: &Value, others: &[i64]| {
        let missing: Vec<i64> = (0..).take(rank - value.rank()?.count()).collect();
        let value = if missing.is_empty() { value.clone() } else { op.unsqueeze(value, &missing)? };
        let wide = if rank == 0 { value.clone() } else { op.unsqueeze(&value, others)? };
        Ok::<_, Finding>((value, wide))
    };
    // [x0, 1, x1, 1, ...] and [1, y0, 1, y1, ...]
    let ((x, left), (y, right)) = (spread(&x, &inner)?, spread(&y, &outer)?);
    let product = op.mul(&left, &right)?;
    let dims = match (x.known_dims(), y.known_dims()) {
        (Some(x), Some(y)) => {
            let dims = x.iter().zip(&y).map(|(x, y)| x.saturating_mul(*y));
            op.longs(&dims.collect::<Vec<i64>>())
        }
        _ => {
            let (x, y) = (op.call("Shape", &[&x], [])?, op.call("Shape", &[&y], [])?);
            op.mul(&x, &y)?
        }
    };
    let out = op.call("Reshape", &[&product, &dims], [int("allowzero", 1)])?;
    op.put("Out", &out)
}

/// For Booleans, false is less than true.
fn compare(op: &mut Operator<'_>, kind: &str) -> Outcome {
    let (x, y) = op.pair()?;
    let is_truth = x.dtype() == DType::Bool;
    let (x, y) = match is_truth {
        true => (op.cast(&x, DType::Int32)?, op.cast(&y, DType::Int32)?),
        false => (x, y),
    };
    let out = op.call(kind, &[&x, &y], [])?;
    op.put("Out", &out)
}

/// Elements other than 0 are true.
fn logical(op: &mut Operator<'_>, kind: &str) -> Outcome {
    let (x, y) = op.pair()?;
    let (x, y) = (op.cast(&x, DType::Bool)?, op.cast(&y, DType::Bool)?);
    let out = op.call(kind, &[&x, &y], [])?;
    op.put("Out", &out)
}

fn not_equal(op: &mut Operator<'_>) -> Outcome {
    let (x, y) = op.pair()?;
    let equal = op.call("Equal", &[&x, &y], [])?;
    let out = op.call("Not", &[&equal], [])?;
    op.put("Out", &out)
}

/// The result has the sign of the divisor; up to 1.x, that of integers has the sign of the dividend.
fn remainder(op: &mut Operator<'_>) -> Outcome {
    let (x, y) = op.pair()?;
    let old = op.is_older_than(Release::new(2, 0));
    let out = match (x.dtype().is_float(), old) {
        (false, _) => op.call("Mod", &[&x, &y], [int("fmod", i64::from(old))])?,
        // The sum is rounded: a small negative remainder of a positive divisor becomes 0.
        (true, true) => {
            let rest = op.call("Mod", &[&x, &y], [int("fmod", 1)])?;
            let moved = op.add(&rest, &y)?;
            op.call("Mod", &[&moved, &y], [int("fmod", 1)])?
        }
        (true, false) => modulus(op, &x, &y)?,
    };
    op.put("Out", &out)
}

/// The remainder of floats, exactly, with the sign of the divisor.
fn modulus(op: &mut Operator<'_>, x: &Value, y: &Value) -> Outcome<Value> {
    let rest = op.call("Mod", &[x, y], [int("fmod", 1)])?;
    let zero = op.number(x.dtype(), 0.0)?;
    // The product of small values would underflow to 0.
    let (left, right) = (op.call("Less", &[&rest, &zero], [])?, op.call("Less", &[y, &zero], [])?);
    let is_other = op.call("Xor", &[&left, &right], [])?;
    let is_none = op.call("Equal", &[&rest, &zero], [])?;
    let is_some = op.call("Not", &[&is_none], [])?;
    let moves = op.call("And", &[&is_other, &is_some], [])?;
    let moved = op.add(&rest, y)?;
    op.choose(&moves, &moved, &rest)
}

/// The floored quotient of floats, exactly: the remainder is subtracted first.
fn whole_quotient(op: &mut Operator<'_>, x: &Value, y: &Value) -> Outcome<Value> {
    let rest = modulus(op, x, y)?;
    let whole = op.sub(x, &rest)?;
    let quotient = op.div(&whole, y)?;
    op.call("Round", &[&quotient], [])
}

/// Rounded down; up to 1.x, towards zero.
fn floor_divide(op: &mut Operator<'_>) -> Outcome {
    let (x, y) = op.pair()?;
    let quotient = op.div(&x, &y)?;
    let out = match (x.dtype().is_float(), op.is_older_than(Release::new(2, 0))) {
        (true, true) => op.call("Floor", &[&quotient], [])?,
        (true, false) => whole_quotient(op, &x, &y)?,
        (false, true) => quotient,
        (false, false) => {
            let rest = op.call("Mod", &[&x, &y], [int("fmod", 1)])?;
            let (zero, one) = (op.number(x.dtype(), 0.0)?, op.number(x.dtype(), 1.0)?);
            let other_sign = op.mul(&rest, &y)?;
            let down = op.call("Less", &[&other_sign, &zero], [])?;
            let less = op.choose(&down, &one, &zero)?;
            op.sub(&quotient, &less)?
        }
    };
    op.put("Out", &out)
}

fn sum(op: &mut Operator<'_>) -> Outcome {
    let inputs = op.inputs("X")?;
    let (first, rest) = inputs.split_first().ok_or("it has no `X`")?;
    // ONNX's `Sum` does not support integers.
    let sum = rest.iter().try_fold(first.clone(), |sum, next| op.add(&sum, next))?;
    op.put("Out", &sum)
}

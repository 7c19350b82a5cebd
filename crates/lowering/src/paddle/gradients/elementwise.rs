//! Gradients of element-wise functions of two tensors: broadcast dims are summed.

use lodstone_schema::paddle::Release;

use super::super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("elementwise_add_grad", add),
    ("elementwise_div_grad", divide),
    ("elementwise_max_grad", |op| one_of(op, "Greater", "LessOrEqual")),
    ("elementwise_min_grad", |op| one_of(op, "Less", "GreaterOrEqual")),
    ("elementwise_mul_grad", multiply),
    ("elementwise_pow_grad", power),
    ("elementwise_sub_grad", subtract),
    ("where_grad", choose),
];

/// Sets the gradients of `X` and `Y` from those of the broadcast operands.
fn put(
    op: &mut Operator<'_>,
    slot: &str,
    like: &Value,
    of: impl FnOnce(&mut Operator<'_>) -> Outcome<Value>,
) -> Outcome {
    if !op.wants_gradient(slot) {
        return Ok(());
    }
    let value = of(op)?;
    let sums = op.gathered(&value, like)?;
    let own = op.input(slot)?;
    let sums = op.reshape_as(&sums, &own)?;
    op.put_gradient(slot, &sums)
}

fn add(op: &mut Operator<'_>) -> Outcome {
    let ((x, y), given) = (op.pair()?, op.gradient("Out")?);
    put(op, "X", &x, |_| Ok(given.clone()))?;
    put(op, "Y", &y, |_| Ok(given))
}

fn subtract(op: &mut Operator<'_>) -> Outcome {
    let ((x, y), given) = (op.pair()?, op.gradient("Out")?);
    put(op, "X", &x, |_| Ok(given.clone()))?;
    put(op, "Y", &y, |op| op.call("Neg", &[&given], []))
}

fn multiply(op: &mut Operator<'_>) -> Outcome {
    let ((x, y), given) = (op.pair()?, op.gradient("Out")?);
    put(op, "X", &x, |op| op.mul(&given, &y))?;
    put(op, "Y", &y, |op| op.mul(&given, &x))
}

fn divide(op: &mut Operator<'_>) -> Outcome {
    let ((x, y), out, given) = (op.pair()?, op.input("Out")?, op.gradient("Out")?);
    put(op, "X", &x, |op| op.div(&given, &y))?;
    put(op, "Y", &y, |op| {
        let product = op.mul(&given, &out)?;
        let quotient = op.div(&product, &y)?;
        op.call("Neg", &[&quotient], [])
    })
}

/// Of `max` and `min`: of equal elements, each gets half of the gradient; up to 3.0, the second gets all of it. Neither
/// gets any where one is NaN.
fn one_of(op: &mut Operator<'_>, first: &str, second: &str) -> Outcome {
    let ((x, y), mut given) = (op.pair()?, op.gradient("Out")?);
    let mut is_first = op.call(first, &[&x, &y], [])?;
    let is_second = op.call(second, &[&x, &y], [])?;
    if !op.is_older_than(Release::new(3, 1)) {
        let (is_equal, half) = (op.call("Equal", &[&x, &y], [])?, op.times(&given, 0.5)?);
        given = op.choose(&is_equal, &half, &given)?;
        is_first = op.call("Or", &[&is_first, &is_equal], [])?;
    }
    put(op, "X", &x, |op| op.only(&is_first, &given))?;
    put(op, "Y", &y, |op| op.only(&is_second, &given))
}

fn power(op: &mut Operator<'_>) -> Outcome {
    let ((x, y), given) = (op.pair()?, op.gradient("Out")?);
    put(op, "X", &x, |op| {
        let less = op.plus(&y, -1.0)?;
        let power = op.call("Pow", &[&x, &less], [])?;
        let slope = op.mul(&y, &power)?;
        op.mul(&given, &slope)
    })?;
    put(op, "Y", &y, |op| {
        let (power, log) = (op.call("Pow", &[&x, &y], [])?, op.call("Log", &[&x], [])?);
        let slope = op.mul(&log, &power)?;
        op.mul(&given, &slope)
    })
}

fn choose(op: &mut Operator<'_>) -> Outcome {
    let (condition, given) = (op.input("Condition")?, op.gradient("Out")?);
    let (x, y) = (op.input("X")?, op.input("Y")?);
    put(op, "X", &x, |op| op.only(&condition, &given))?;
    put(op, "Y", &y, |op| op.except(&condition, &given))
}

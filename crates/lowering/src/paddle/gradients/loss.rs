//! Gradients of losses.

use lodstone_model::DType;
use lodstone_schema::paddle::Release;

use super::super::loss::{as_column, beside};
use super::super::operator::{Operator, Outcome, Rule};
use super::reduce::spread;
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("bce_loss_grad", bce_loss),
    ("bpr_loss_grad", bayesian),
    ("cross_entropy_grad", cross_entropy),
    ("cross_entropy_grad2", cross_entropy2),
    ("huber_loss_grad", huber_loss),
    ("kldiv_loss_grad", kldiv_loss),
    ("label_smooth_grad", |op| {
        let (given, epsilon) = (op.gradient("Out")?, f64::from(op.float("epsilon")?));
        let x = op.times(&given, 1.0 - epsilon)?;
        op.put_gradient("X", &x)
    }),
    ("log_loss_grad", log_loss),
    ("nll_loss_grad", nll_loss),
    ("sigmoid_cross_entropy_with_logits_grad", sigmoid_cross_entropy),
    ("softmax_with_cross_entropy_grad", softmax_with_cross_entropy),
];

/// Returns the position of each label in its row, 0 where it is `ignore_index`, and whether it is.
fn places(op: &mut Operator<'_>, label: &Value) -> Outcome<(Value, Value)> {
    let label = op.cast(label, DType::Int64)?;
    let ignored = op.int("ignore_index")?;
    let (ignored, zero) = (op.long(ignored), op.long(0));
    let skip = op.call("Equal", &[&label, &ignored], [])?;
    Ok((op.choose(&skip, &zero, &label)?, skip))
}

fn cross_entropy(op: &mut Operator<'_>) -> Outcome {
    let (x, label, given) = (op.input("X")?, op.input("Label")?, op.gradient("Y")?);
    let given = as_column(op, &x, given, -1)?;
    let negative = op.call("Neg", &[&given], [])?;
    let y = match op.flag("soft_label")? {
        true => {
            let share = op.div(&label, &x)?;
            op.mul(&negative, &share)?
        }
        false => {
            let label = as_column(op, &x, label, -1)?;
            let (place, skip) = places(op, &label)?;
            let found = op.call("GatherElements", &[&x, &place], [int("axis", -1)])?;
            let share = op.div(&negative, &found)?;
            let share = op.except(&skip, &share)?;
            op.scattered(&x, &place, &share, -1)?
        }
    };
    op.put_gradient("X", &y)
}

/// The dims of `X` are those of `XShape` without the last one, which is 0.
fn cross_entropy2(op: &mut Operator<'_>) -> Outcome {
    let (label, found, given) = (op.input("Label")?, op.input("MatchX")?, op.gradient("Y")?);
    let mut dims = op.input("XShape")?.dims()?;
    dims.pop();
    let x = op.filled(given.dtype(), 0.0, &dims)?;
    let (label, given) = (as_column(op, &x, label, -1)?, as_column(op, &x, given, -1)?);
    let found = as_column(op, &x, found, -1)?;
    let (place, skip) = places(op, &label)?;
    let share = op.div(&given, &found)?;
    let share = op.call("Neg", &[&share], [])?;
    let share = op.except(&skip, &share)?;
    let y = op.scattered(&x, &place, &share, -1)?;
    op.put_gradient("X", &y)
}

fn bayesian(op: &mut Operator<'_>) -> Outcome {
    let (apart, is_other, label, others) = beside(op)?;
    let given = op.gradient("Y")?;
    let given = as_column(op, &apart, given, -1)?;
    let slopes = op.call("Sigmoid", &[&apart], [])?;
    let slopes = op.only(&is_other, &slopes)?;
    let slopes = op.div(&slopes, &others)?;
    let y = op.mul(&slopes, &given)?;
    let sum = op.reduce("ReduceSum", &y, &[-1], true)?;
    let sum = op.call("Neg", &[&sum], [])?;
    let of_label = op.scattered(&y, &label, &sum, -1)?;
    let y = op.add(&y, &of_label)?;
    op.put_gradient("X", &y)
}

fn softmax_with_cross_entropy(op: &mut Operator<'_>) -> Outcome {
    let (softmax, label, given) = (op.input("Softmax")?, op.input("Label")?, op.gradient("Loss")?);
    let (axis, uses) = (op.int("axis")?, op.flag("use_softmax")?);
    let y = if op.flag("soft_label")? {
        let rest = match uses {
            true => op.sub(&softmax, &label)?,
            false => {
                let share = op.div(&label, &softmax)?;
                op.call("Neg", &[&share], [])?
            }
        };
        op.mul(&given, &rest)?
    } else {
        let label = as_column(op, &softmax, label, axis)?;
        let given = as_column(op, &softmax, given, axis)?;
        let (place, skip) = places(op, &label)?;
        let given = op.except(&skip, &given)?;
        let negative = op.call("Neg", &[&given], [])?;
        if uses {
            let target = op.scattered(&softmax, &place, &negative, axis)?;
            let all = op.mul(&softmax, &given)?;
            op.add(&all, &target)?
        } else {
            let found = op.call("GatherElements", &[&softmax, &place], [int("axis", axis)])?;
            let share = op.div(&negative, &found)?;
            op.scattered(&softmax, &place, &share, axis)?
        }
    };
    op.put_gradient("Logits", &y)
}

/// `(x - z) / (x (1 - x))`, with a divisor of at least `1e-12`.
fn bce_loss(op: &mut Operator<'_>) -> Outcome {
    let (x, label, given) = (op.input("X")?, op.input("Label")?, op.gradient("Out")?);
    let (rest, other) = (op.sub(&x, &label)?, op.one_less(&x)?);
    let (product, least) = (op.mul(&x, &other)?, op.number(x.dtype(), 1e-12)?);
    let divisor = op.call("Max", &[&product, &least], [])?;
    let slope = op.div(&rest, &divisor)?;
    let y = op.mul(&given, &slope)?;
    op.put_gradient("X", &y)
}

/// The error, clamped to `delta`.
fn huber_loss(op: &mut Operator<'_>) -> Outcome {
    let (rest, given) = (op.input("Residual")?, op.gradient("Out")?);
    let delta = f64::from(op.float("delta")?);
    let slope = op.clamp(&rest, -delta, delta)?;
    let y = op.mul(&given, &slope)?;
    let x = op.call("Neg", &[&y], [])?;
    op.put_gradient("X", &x)?;
    op.put_gradient("Y", &y)
}

fn kldiv_loss(op: &mut Operator<'_>) -> Outcome {
    let (x, target, given) = (op.input("X")?, op.input("Target")?, op.gradient("Loss")?);
    let given = spread(op, &given, &x)?;
    let count = match op.text("reduction")?.as_str() {
        "none" | "sum" => None,
        "mean" => Some(op.call("Size", &[&x], [])?),
        "batchmean" => Some(op.dim(&x, 0)?),
        other => {
            return Err(format!("unknown `reduction` `{other}`").into());
        }
    };
    let above = op.above(&target, 0.0)?;
    let share = op.only(&above, &target)?;
    let product = op.mul(&given, &share)?;
    let mut y = op.call("Neg", &[&product], [])?;
    if let Some(count) = count {
        let count = op.cast(&count, x.dtype())?;
        y = op.div(&y, &count)?;
    }
    op.put_gradient("X", &y)
}

/// `(1 - z) / (1 - x + epsilon) - z / (x + epsilon)`.
fn log_loss(op: &mut Operator<'_>) -> Outcome {
    let (x, label, given) = (op.input("Predicted")?, op.input("Labels")?, op.gradient("Loss")?);
    let epsilon = f64::from(op.float("epsilon")?);
    let (other, other_label) = (op.one_less(&x)?, op.one_less(&label)?);
    let (yes, no) = (op.plus(&x, epsilon)?, op.plus(&other, epsilon)?);
    let (yes, no) = (op.div(&label, &yes)?, op.div(&other_label, &no)?);
    let slope = op.sub(&no, &yes)?;
    let y = op.mul(&given, &slope)?;
    op.put_gradient("Predicted", &y)
}

/// The negative weight of the label at its position; the mean is weighted too.
fn nll_loss(op: &mut Operator<'_>) -> Outcome {
    let (x, label, given) = (op.input("X")?, op.input("Label")?, op.gradient("Out")?);
    let (place, skip) = places(op, &label)?;
    let weight = match op.optional("Weight")? {
        Some(weight) => op.gather(&weight, &place, 0)?,
        None => op.number(x.dtype(), 1.0)?,
    };
    let mut given = given;
    match op.text("reduction")?.as_str() {
        "none" | "sum" => {}
        "mean" => {
            let total = op.input("Total_weight")?;
            given = op.div(&given, &total)?;
        }
        other => {
            return Err(format!("unknown `reduction` `{other}`").into());
        }
    }
    let product = op.mul(&given, &weight)?;
    let product = spread(op, &product, &place)?;
    let share = op.call("Neg", &[&product], [])?;
    let share = op.except(&skip, &share)?;
    let (place, share) = (op.unsqueeze(&place, &[1])?, op.unsqueeze(&share, &[1])?);
    let y = op.scattered(&x, &place, &share, 1)?;
    op.put_gradient("X", &y)
}

/// `1 - z - w (1 - s)`, where `s` is the sigmoid of `x`, and `w` 1 or `pos_weight`. Up to 2.6, `w s - z`: not the true
/// gradient, but PaddlePaddle's.
fn sigmoid_cross_entropy(op: &mut Operator<'_>) -> Outcome {
    let (x, label, given) = (op.input("X")?, op.input("Label")?, op.gradient("Out")?);
    let share = op.call("Sigmoid", &[&x], [])?;
    let slope = match op.optional("pos_weight")? {
        Some(weight) if !op.is_older_than(Release::new(3, 0)) => {
            let (rest, other) = (op.one_less(&share)?, op.one_less(&label)?);
            let rest = op.mul(&rest, &weight)?;
            op.sub(&other, &rest)?
        }
        Some(weight) => {
            let share = op.mul(&share, &weight)?;
            op.sub(&share, &label)?
        }
        None => op.sub(&share, &label)?,
    };
    let y = op.mul(&given, &slope)?;
    let ignored = op.int("ignore_index")?;
    #[expect(clippy::cast_precision_loss, reason = "labels are floats")]
    let ignored = op.number(x.dtype(), ignored as f64)?;
    let skip = op.call("Equal", &[&label, &ignored], [])?;
    let mut y = op.except(&skip, &y)?;
    if op.flag("normalize")? {
        let count = op.counted(&skip, x.dtype())?;
        y = op.div(&y, &count)?;
    }
    op.put_gradient("X", &y)
}

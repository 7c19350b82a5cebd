//! Losses and accuracy.

use lodstone_model::{DType, Dim};
use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("accuracy", accuracy),
    ("bce_loss", bce_loss),
    ("bpr_loss", bayesian),
    ("cross_entropy", cross_entropy),
    ("cross_entropy2", cross_entropy2),
    ("huber_loss", huber_loss),
    ("kldiv_loss", kldiv_loss),
    ("label_smooth", label_smooth),
    ("log_loss", log_loss),
    ("nll_loss", nll_loss),
    ("sigmoid_cross_entropy_with_logits", sigmoid_cross_entropy),
    ("softmax_with_cross_entropy", softmax_with_cross_entropy),
];

/// The fraction of rows whose label is in `Indices`.
fn accuracy(op: &mut Operator<'_>) -> Outcome {
    let (indices, label) = (op.input("Indices")?, op.input("Label")?);
    let (indices, label) = (op.cast(&indices, DType::Int64)?, op.cast(&label, DType::Int64)?);
    let right = op.call("Equal", &[&indices, &label], [])?;
    let right = op.cast(&right, DType::Int32)?;
    let right = op.reduce("ReduceMax", &right, &[1], false)?;
    let shape: &[i64] = if op.is_older_than(Release::new(2, 5)) { &[1] } else { &[] };
    let count = op.reduce("ReduceSum", &right, &[0], false)?;
    let count = op.reshape(&count, shape)?;
    let total = op.dim(&indices, 0)?;
    let total = op.cast(&total, DType::Int32)?;
    let total = op.reshape(&total, shape)?;
    let (counted, all) = (op.cast(&count, DType::Float32)?, op.cast(&total, DType::Float32)?);
    let share = op.div(&counted, &all)?;
    op.put("Accuracy", &share)?;
    op.put("Correct", &count)?;
    op.put("Total", &total)
}

/// Returns the elements that a label selects along an axis, and 0 where it is `ignore_index`.
fn picked(op: &mut Operator<'_>, values: &Value, label: &Value, axis: i64) -> Outcome<Value> {
    let label = op.cast(label, DType::Int64)?;
    let ignored = op.int("ignore_index")?;
    let ignored = op.long(ignored);
    let skip = op.call("Equal", &[&label, &ignored], [])?;
    let zero = op.long(0);
    let place = op.choose(&skip, &zero, &label)?;
    let found = op.call("GatherElements", &[values, &place], [int("axis", axis)])?;
    let none = op.number(values.dtype(), 0.0)?;
    op.choose(&skip, &none, &found)
}

/// Appends a dim of 1 to labels that do not have one.
pub(super) fn as_column(
    op: &mut Operator<'_>,
    values: &Value,
    label: Value,
    axis: i64,
) -> Outcome<Value> {
    match label.rank()?.count() + 1 == values.rank()? {
        true => op.unsqueeze(&label, &[axis]),
        false => Ok(label),
    }
}

fn cross_entropy(op: &mut Operator<'_>) -> Outcome {
    let (x, label) = (op.input("X")?, op.input("Label")?);
    // The logarithm of 0 becomes -1e20, as in PaddlePaddle.
    let log = op.call("Log", &[&x], [])?;
    let least = op.number(x.dtype(), -1e20)?;
    let log = op.call("Max", &[&log, &least], [])?;
    let negative = op.call("Neg", &[&log], [])?;
    let y = match op.flag("soft_label")? {
        true => {
            let product = op.mul(&negative, &label)?;
            op.reduce("ReduceSum", &product, &[-1], true)?
        }
        false => {
            let flat = label.rank()?.count() + 1 == x.rank()?;
            let label = as_column(op, &x, label, -1)?;
            let found = picked(op, &negative, &label, -1)?;
            let last = op.longs(&[-1]);
            if flat { op.call("Squeeze", &[&found, &last], [])? } else { found }
        }
    };
    op.put("Y", &y)
}

/// Returns `x - x[label]` of each row, which elements are not at the label, the labels, and the number of other classes.
pub(super) fn beside(op: &mut Operator<'_>) -> Outcome<(Value, Value, Value, Value)> {
    let (x, label) = (op.input("X")?, op.input("Label")?);
    if label.dtype() != DType::Int64 {
        return Err(format!("expected int64 as `Label`, found {}", label.dtype()).into());
    }
    let last = x.rank()?.last()?.number();
    if let Some(Dim::Known(classes @ 0..2)) = x.shape()?.last() {
        return Err(format!("expected at least 2 classes, found {classes}").into());
    }
    let label = as_column(op, &x, label, -1)?;
    let found = op.call("GatherElements", &[&x, &label], [int("axis", -1)])?;
    let apart = op.sub(&x, &found)?;
    let (zero, one, count) = (op.long(0), op.long(1), op.extent(&x, last)?);
    let numbers = op.call("Range", &[&zero, &count, &one], [])?;
    let is_label = op.call("Equal", &[&numbers, &label], [])?;
    let is_other = op.call("Not", &[&is_label], [])?;
    let classes = op.extent_as(&x, last, x.dtype())?;
    let others = op.plus(&classes, -1.0)?;
    Ok((apart, is_other, label, others))
}

/// The mean of `log(1 + exp(x - x[label]))` over the other classes (Rendle et al., 2009).
fn bayesian(op: &mut Operator<'_>) -> Outcome {
    let (apart, is_other, _, others) = beside(op)?;
    let costs = op.call("Softplus", &[&apart], [])?;
    let zero = op.number(costs.dtype(), 0.0)?;
    let costs = op.choose(&is_other, &costs, &zero)?;
    let sum = op.reduce("ReduceSum", &costs, &[-1], true)?;
    let y = op.div(&sum, &others)?;
    op.put("Y", &y)
}

fn cross_entropy2(op: &mut Operator<'_>) -> Outcome {
    let (x, label) = (op.input("X")?, op.input("Label")?);
    let label = as_column(op, &x, label, -1)?;
    let log = op.call("Log", &[&x], [])?;
    let least = op.number(x.dtype(), -1e20)?;
    let log = op.call("Max", &[&log, &least], [])?;
    let negative = op.call("Neg", &[&log], [])?;
    let y = picked(op, &negative, &label, -1)?;
    op.put("Y", &y)?;
    if op.wants("MatchX") {
        let found = picked(op, &x, &label, -1)?;
        op.put("MatchX", &found)?;
    }
    if op.wants("XShape") {
        let (zero, dims) = (op.longs(&[0]), op.call("Shape", &[&x], [])?);
        let dims = op.concat(&[&dims, &zero], 0)?;
        let shape = op.filled_by(x.dtype(), 0.0, &dims)?;
        op.put("XShape", &shape)?;
    }
    Ok(())
}

fn softmax_with_cross_entropy(op: &mut Operator<'_>) -> Outcome {
    let (x, label, axis) = (op.input("Logits")?, op.input("Label")?, op.int("axis")?);
    let (softmax, log) = match op.flag("use_softmax")? {
        true => {
            let softmax = op.shares("Softmax", &x, axis)?;
            (softmax, op.shares("LogSoftmax", &x, axis)?)
        }
        false => (x.clone(), op.call("Log", &[&x], [])?),
    };
    let loss = match op.flag("soft_label")? {
        true => {
            let product = op.mul(&log, &label)?;
            let sum = op.reduce("ReduceSum", &product, &[axis], true)?;
            op.call("Neg", &[&sum], [])?
        }
        false => {
            let label = as_column(op, &x, label, axis)?;
            let found = picked(op, &log, &label, axis)?;
            op.call("Neg", &[&found], [])?
        }
    };
    op.put("Softmax", &softmax)?;
    op.put("Loss", &loss)
}

impl Operator<'_> {
    /// Returns `1 - value`.
    fn rest(&mut self, value: &Value) -> Outcome<Value> {
        let one = self.number(value.dtype(), 1.0)?;
        self.sub(&one, value)
    }

    /// Returns the number of elements that are not skipped; a small positive value if there are none.
    pub(super) fn counted(&mut self, skip: &Value, dtype: DType) -> Outcome<Value> {
        let counts = self.call("Not", &[skip], [])?;
        let counts = self.cast(&counts, dtype)?;
        let counts = self.reshape(&counts, &[-1])?;
        let count = self.reduce("ReduceSum", &counts, &[0], false)?;
        let least = self.number(dtype, 1e-5)?;
        self.call("Max", &[&count, &least], [])
    }

    /// Reduces all elements to their sum or mean.
    fn over_all(&mut self, kind: &str, value: &Value) -> Outcome<Value> {
        let axes: Vec<i64> = value.rank()?.numbers().collect();
        let all =
            if axes.is_empty() { value.clone() } else { self.reduce(kind, value, &axes, false)? };
        self.scalar(&all)
    }
}

/// `-(z log x + (1 - z) log(1 - x))`, with logarithms clamped to -100.
fn bce_loss(op: &mut Operator<'_>) -> Outcome {
    let (x, label) = (op.input("X")?, op.input("Label")?);
    let log = |op: &mut Operator<'_>, value: &Value| {
        let (log, least) = (op.call("Log", &[value], [])?, op.number(value.dtype(), -100.0)?);
        op.call("Max", &[&log, &least], [])
    };
    let (other, other_label) = (op.rest(&x)?, op.rest(&label)?);
    let (yes, no) = (log(op, &x)?, log(op, &other)?);
    let (yes, no) = (op.mul(&label, &yes)?, op.mul(&other_label, &no)?);
    let sum = op.add(&yes, &no)?;
    let y = op.call("Neg", &[&sum], [])?;
    op.put("Out", &y)
}

/// Half the square of small errors, and linear beyond.
fn huber_loss(op: &mut Operator<'_>) -> Outcome {
    let (x, y, delta) = (op.input("X")?, op.input("Y")?, f64::from(op.float("delta")?));
    let rest = op.sub(&y, &x)?;
    let size = op.call("Abs", &[&rest], [])?;
    let limit = op.number(x.dtype(), delta)?;
    let near = op.call("LessOrEqual", &[&size, &limit], [])?;
    let square = op.mul(&rest, &rest)?;
    let square = op.times(&square, 0.5)?;
    let straight = op.plus(&size, -0.5 * delta)?;
    let straight = op.mul(&straight, &limit)?;
    let loss = op.choose(&near, &square, &straight)?;
    op.put("Out", &loss)?;
    op.put("Residual", &rest)
}

/// `z (log z - x)`, and 0 where `z` is not positive.
fn kldiv_loss(op: &mut Operator<'_>) -> Outcome {
    let (x, target) = (op.input("X")?, op.input("Target")?);
    let log = op.call("Log", &[&target], [])?;
    let rest = op.sub(&log, &x)?;
    let product = op.mul(&target, &rest)?;
    let zero = op.number(x.dtype(), 0.0)?;
    let counts = op.call("Greater", &[&target, &zero], [])?;
    let loss = op.choose(&counts, &product, &zero)?;
    let loss = match op.text("reduction")?.as_str() {
        "none" => loss,
        "sum" => op.over_all("ReduceSum", &loss)?,
        "mean" => op.over_all("ReduceMean", &loss)?,
        "batchmean" => {
            let (sum, batch) = (op.over_all("ReduceSum", &loss)?, op.dim(&x, 0)?);
            let mut batch = op.cast(&batch, x.dtype())?;
            if !matches!(x.shape()?.first(), Some(Dim::Known(1..))) {
                // The sum of no examples stays 0.
                let one = op.number(x.dtype(), 1.0)?;
                batch = op.call("Max", &[&batch, &one], [])?;
            }
            let batch = op.reshape_as(&batch, &sum)?;
            op.div(&sum, &batch)?
        }
        other => {
            return Err(format!("unknown `reduction` `{other}`").into());
        }
    };
    op.put("Loss", &loss)
}

/// Distributes a part of each label to all classes, uniformly or by `PriorDist`.
fn label_smooth(op: &mut Operator<'_>) -> Outcome {
    let (x, epsilon) = (op.input("X")?, f64::from(op.float("epsilon")?));
    let kept = op.times(&x, 1.0 - epsilon)?;
    let share = match op.optional("PriorDist")? {
        Some(prior) => op.times(&prior, epsilon)?,
        None => {
            let axis = x.rank()?.last()?.number();
            let classes = op.dim(&x, axis)?;
            let classes = op.cast(&classes, x.dtype())?;
            let epsilon = op.number(x.dtype(), epsilon)?;
            op.div(&epsilon, &classes)?
        }
    };
    let y = op.add(&kept, &share)?;
    op.put("Out", &y)
}

/// `-(z log(x + epsilon) + (1 - z) log(1 - x + epsilon))`.
fn log_loss(op: &mut Operator<'_>) -> Outcome {
    let (x, label) = (op.input("Predicted")?, op.input("Labels")?);
    let epsilon = f64::from(op.float("epsilon")?);
    let log = |op: &mut Operator<'_>, value: &Value| {
        let moved = op.plus(value, epsilon)?;
        op.call("Log", &[&moved], [])
    };
    let (other, other_label) = (op.rest(&x)?, op.rest(&label)?);
    let (yes, no) = (log(op, &x)?, log(op, &other)?);
    let (yes, no) = (op.mul(&label, &yes)?, op.mul(&other_label, &no)?);
    let sum = op.add(&yes, &no)?;
    let y = op.call("Neg", &[&sum], [])?;
    op.put("Loss", &y)
}

/// The loss of the label's class, along the second dim, weighted; the mean is weighted too.
fn nll_loss(op: &mut Operator<'_>) -> Outcome {
    let (x, label) = (op.input("X")?, op.input("Label")?);
    let label = op.cast(&label, DType::Int64)?;
    let ignored = op.int("ignore_index")?;
    let ignored = op.long(ignored);
    let skip = op.call("Equal", &[&label, &ignored], [])?;
    let (zero, none) = (op.long(0), op.number(x.dtype(), 0.0)?);
    let place = op.choose(&skip, &zero, &label)?;
    let weight = match op.optional("Weight")? {
        Some(weight) => op.gather(&weight, &place, 0)?,
        None => op.number(x.dtype(), 1.0)?,
    };
    let weight = op.choose(&skip, &none, &weight)?;
    let column = op.unsqueeze(&place, &[1])?;
    let found = op.call("GatherElements", &[&x, &column], [int("axis", 1)])?;
    let gone = op.longs(&[1]);
    let found = op.call("Squeeze", &[&found, &gone], [])?;
    let weighed = op.mul(&found, &weight)?;
    let weighed = op.choose(&skip, &none, &weighed)?;
    let loss = op.call("Neg", &[&weighed], [])?;
    let total = op.over_all("ReduceSum", &weight)?;
    let loss = match op.text("reduction")?.as_str() {
        "none" => loss,
        "sum" => op.over_all("ReduceSum", &loss)?,
        "mean" => {
            let sum = op.over_all("ReduceSum", &loss)?;
            let mean = op.div(&sum, &total)?;
            // If all labels are skipped, the sum is not divided.
            let zero = op.number(total.dtype(), 0.0)?;
            let is_none = op.call("Equal", &[&total, &zero], [])?;
            op.choose(&is_none, &sum, &mean)?
        }
        other => {
            return Err(format!("unknown `reduction` `{other}`").into());
        }
    };
    op.put("Out", &loss)?;
    op.put("Total_weight", &total)
}

/// `max(x, 0) - z x + w log(1 + exp(-|x|))`, where `w` is 1 or depends on `pos_weight`.
fn sigmoid_cross_entropy(op: &mut Operator<'_>) -> Outcome {
    let (x, label) = (op.input("X")?, op.input("Label")?);
    let zero = op.number(x.dtype(), 0.0)?;
    let size = op.call("Abs", &[&x], [])?;
    let size = op.call("Neg", &[&size], [])?;
    let soft = op.call("Softplus", &[&size], [])?;
    let product = op.mul(&x, &label)?;
    let loss = match op.optional("pos_weight")? {
        // (1 - z) x + w (log(1 + exp(-|x|)) + max(-x, 0)); up to 2.6, w only applies to the logarithm.
        Some(weight) if !op.is_older_than(Release::new(3, 0)) => {
            let negative = op.call("Neg", &[&x], [])?;
            let below = op.call("Max", &[&negative, &zero], [])?;
            let bent = op.add(&soft, &below)?;
            let bent = op.mul(&bent, &weight)?;
            let straight = op.sub(&x, &product)?;
            op.add(&straight, &bent)?
        }
        weight => {
            let bent = weight.map_or(Ok(soft.clone()), |weight| op.mul(&soft, &weight))?;
            let above = op.call("Max", &[&x, &zero], [])?;
            let straight = op.sub(&above, &product)?;
            op.add(&straight, &bent)?
        }
    };
    let ignored = op.int("ignore_index")?;
    #[expect(clippy::cast_precision_loss, reason = "labels are floats")]
    let ignored = op.number(x.dtype(), ignored as f64)?;
    let skip = op.call("Equal", &[&label, &ignored], [])?;
    let mut loss = op.choose(&skip, &zero, &loss)?;
    if op.flag("normalize")? {
        let count = op.counted(&skip, x.dtype())?;
        loss = op.div(&loss, &count)?;
    }
    op.put("Out", &loss)
}

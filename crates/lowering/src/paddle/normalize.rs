//! Normalization and dropout.

use lodstone_model::DType;
use lodstone_schema::numbers::{exact, known};
use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::layout::Layout;
use crate::onnx::normalization::{LocalResponse, Normalized, Squares};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("affine_channel", affine_channel),
    ("batch_norm", batch_norm),
    ("data_norm", data_norm),
    ("dropout", dropout),
    ("group_norm", group_norm),
    ("instance_norm", instance_norm),
    ("layer_norm", layer_norm),
    ("lrn", local_response_norm),
    ("norm", norm),
];

/// Uses the given statistics, or in training those of the batch, towards which the running ones then move (the variance
/// is the biased one).
fn batch_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, mean, variance) = (op.input("X")?, op.input("Mean")?, op.input("Variance")?);
    let layout = op.layout("data_layout")?.of_rank(x.rank()?);
    let x = op.channels_first(&x, layout)?;
    let one = |op: &mut Operator<'_>, slot: &str, number: f64| match op.optional(slot)? {
        Some(value) => Ok(value),
        None => op.constant_like(&mean, mean.dtype(), number),
    };
    let (scale, bias) = (one(op, "Scale", 1.0)?, one(op, "Bias", 0.0)?);
    let epsilon = op.float("epsilon")?;
    let tests = op.flag("is_test")? && !op.flag("trainable_statistics")?;
    let fixed = tests || op.flag("use_global_stats")?;
    let y = if fixed {
        let y = op.batch_normalized(&x, [&scale, &bias, &mean, &variance], epsilon)?;
        op.put("MeanOut", &mean)?;
        op.put("VarianceOut", &variance)?;
        for slot in ["SavedMean", "SavedVariance"] {
            if op.wants(slot) {
                let none = op.constant_like(&mean, mean.dtype(), 0.0)?;
                op.put(slot, &none)?;
            }
        }
        y
    } else {
        trained(op, &x, [&scale, &bias, &mean, &variance], epsilon)?
    };
    if op.wants("ReserveSpace") {
        let none = op.filled(DType::Uint8, 0.0, &[0])?;
        op.put("ReserveSpace", &none)?;
    }
    let y = op.in_layout(&y, layout)?;
    op.put("Y", &y)
}

fn trained(
    op: &mut Operator<'_>,
    x: &Value,
    [scale, bias, mean, variance]: [&Value; 4],
    epsilon: f32,
) -> Outcome<Value> {
    let rank = x.rank()?.number();
    let axes: Vec<i64> = (0..rank).filter(|axis| *axis != 1).collect();
    let (normal, inverse) = op.normalized_by_inverse(x, &axes, epsilon.into())?;
    let (scale, bias) = (op.along(scale, 1, rank)?, op.along(bias, 1, rank)?);
    let y = op.affine(&normal.value, [Some(&scale), Some(&bias)], |_, it| Ok(it.clone()))?;
    let list = |op: &mut Operator<'_>, value: &Value| op.reshape(value, &[-1]);
    let (batch_mean, batch_variance) = (list(op, &normal.mean)?, list(op, &normal.variance)?);
    let inverse = list(op, &inverse)?;
    let momentum = match op.optional("MomentumTensor")? {
        Some(momentum) => op.reshape(&momentum, &[])?,
        None => {
            let momentum = op.float("momentum")?;
            op.number(mean.dtype(), momentum.into())?
        }
    };
    let one = op.number(mean.dtype(), 1.0)?;
    let rest = op.sub(&one, &momentum)?;
    for (slot, running, batch) in
        [("MeanOut", mean, &batch_mean), ("VarianceOut", variance, &batch_variance)]
    {
        let kept = op.mul(running, &momentum)?;
        let new = op.mul(batch, &rest)?;
        let moved = op.add(&kept, &new)?;
        op.put(slot, &moved)?;
    }
    op.put("SavedMean", &batch_mean)?;
    op.put("SavedVariance", &inverse)?;
    Ok(y)
}

fn dropout(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let probability = f64::from(op.float("dropout_prob")?);
    if !(0.0..=1.0).contains(&probability) {
        return Err(format!("expected a probability as `dropout_prob`, found {probability}").into());
    }
    let upscale = match op.text("dropout_implementation")?.as_str() {
        "upscale_in_train" => true,
        "downgrade_in_infer" => false,
        other => return Err(format!("unknown dropout mode `{other}`").into()),
    };
    if !op.flag("is_test")? {
        return Err(
            "the operator draws random numbers, which the runtime supports and ONNX does not"
                .into(),
        );
    }
    let y = if upscale { x } else { op.times(&x, 1.0 - probability)? };
    op.put("Out", &y)
}

/// Normalizes over the dims from `begin_norm_axis`. Mean and variance have the other dims, flattened up to 2.5.
fn layer_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, begin) = (op.input("X")?, op.int("begin_norm_axis")?);
    let rank = x.rank()?.number();
    if !(0..rank).contains(&begin) {
        return Err(
            format!("expected an axis of rank {rank} as `begin_norm_axis`, found {begin}").into()
        );
    }
    let axes: Vec<i64> = (begin..rank).collect();
    if let Some(y) = exported_layer_norm(op, &x, begin)? {
        return op.put("Y", &y);
    }
    let epsilon = op.float("epsilon")?;
    let Normalized { value: mut y, mean, variance, .. } =
        op.normalized(&x, &axes, epsilon.into())?;
    for (slot, kind) in [("Scale", "Mul"), ("Bias", "Add")] {
        let Some(value) = op.optional(slot)? else { continue };
        let value = over_dims(op, &value, &x, begin)?;
        y = op.call(kind, &[&y, &value], [])?;
    }
    op.put("Y", &y)?;
    for (slot, value) in [("Mean", &mean), ("Variance", &variance)] {
        if op.wants(slot) {
            let rows = match op.is_older_than(Release::new(2, 6)) {
                true => op.reshape(value, &[-1])?,
                false => {
                    let gone = op.longs(&axes);
                    op.call("Squeeze", &[value, &gone], [])?
                }
            };
            op.put(slot, &rows)?;
        }
    }
    Ok(())
}

/// Returns the scale or the bias of the dims from `begin` on: it is flat, but may belong to several dims.
fn over_dims(op: &mut Operator<'_>, value: &Value, x: &Value, begin: i64) -> Outcome<Value> {
    let over = x.shape()?.get(exact::<usize, _>(begin)?..).unwrap_or_default();
    match over.iter().map(known).collect::<Outcome<Option<Vec<i64>>>>()? {
        _ if over.len() == 1 => Ok(value.clone()),
        Some(dims) => op.reshape(value, &dims),
        None => {
            let dims = op.call("Shape", &[x], [int("start", begin)])?;
            op.call("Reshape", &[value, &dims], [int("allowzero", 1)])
        }
    }
}

/// Returns the result of ONNX's operator, if the operator is exported and returns nothing else.
fn exported_layer_norm(op: &mut Operator<'_>, x: &Value, begin: i64) -> Outcome<Option<Value>> {
    if !op.is_exported() || op.wants("Mean") || op.wants("Variance") {
        return Ok(None);
    }
    let Some(scale) = op.optional("Scale")? else { return Ok(None) };
    let scale = over_dims(op, &scale, x, begin)?;
    let bias = match op.optional("Bias")? {
        Some(bias) => Some(over_dims(op, &bias, x, begin)?),
        None => None,
    };
    let epsilon = op.float("epsilon")?;
    Ok(op.layer_normalized(x, (&scale, bias.as_ref()), begin, epsilon, 1)?.pop())
}

/// Normalizes each channel of each sample.
fn instance_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, epsilon) = (op.input("X")?, op.float("epsilon")?);
    let axes: Vec<i64> = (2..).take(x.rank()?.count().saturating_sub(2)).collect();
    let (normal, inverse) = op.normalized_by_inverse(&x, &axes, epsilon.into())?;
    let y = op.scaled_channels(&normal.value)?;
    op.put("Y", &y)?;
    for (slot, value) in [("SavedMean", &normal.mean), ("SavedVariance", &inverse)] {
        if op.wants(slot) {
            let list = op.reshape(value, &[-1])?;
            op.put(slot, &list)?;
        }
    }
    Ok(())
}

/// Normalizes each group of channels of each sample.
fn group_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, groups, epsilon) = (op.input("X")?, op.int("groups")?, op.float("epsilon")?);
    if groups < 1 {
        return Err(format!("expected at least 1 as `groups`, found {groups}").into());
    }
    let layout = op.layout("data_layout")?;
    let x = op.channels_first(&x, layout)?;
    let grouped = op.grouped(&x, groups)?;
    let (normal, _) = op.normalized_by_inverse(&grouped, &[2], epsilon.into())?;
    let y = op.reshape_as(&normal.value, &x)?;
    let y = op.scaled_channels(&y)?;
    let y = op.in_layout(&y, layout)?;
    op.put("Y", &y)?;
    for (slot, value) in [("Mean", &normal.mean), ("Variance", &normal.variance)] {
        if op.wants(slot) {
            let gone = op.longs(&[2]);
            let list = op.call("Squeeze", &[value, &gone], [])?;
            op.put(slot, &list)?;
        }
    }
    Ok(())
}

/// Divides by the norm along an axis.
fn norm(op: &mut Operator<'_>) -> Outcome {
    let (x, axis, epsilon) = (op.input("X")?, op.int("axis")?, op.float("epsilon")?);
    let squares = op.mul(&x, &x)?;
    let sum = op.reduce("ReduceSum", &squares, &[axis], true)?;
    let length = op.root(&sum, epsilon.into())?;
    let y = op.div(&x, &length)?;
    op.put("Out", &y)?;
    op.put("Norm", &length)
}

fn affine_channel(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let layout = op.layout("data_layout")?.of_rank(x.rank()?);
    let x = op.channels_first(&x, layout)?;
    let y = op.scaled_channels(&x)?;
    let y = op.in_layout(&y, layout)?;
    op.put("Out", &y)
}

/// Normalizes columns by sums over all data so far. Slots of columns that begin with 0 were not shown: they become 0.
fn data_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, count) = (op.input("X")?, op.input("BatchSize")?);
    let (sum, squares) = (op.input("BatchSum")?, op.input("BatchSquareSum")?);
    if op.layout("data_layout")?.of_rank(x.rank()?) == Layout::Last {
        return Err("expected rows, found images with channels last".into());
    }
    let mean = op.div(&sum, &count)?;
    let ratio = op.div(&count, &squares)?;
    let scale = op.call("Sqrt", &[&ratio], [])?;
    op.put("Means", &mean)?;
    op.put("Scales", &scale)?;
    let centred = op.sub(&x, &mean)?;
    let mut y = op.mul(&centred, &scale)?;
    let slot = op.int("slot_dim")?;
    if slot > 0 {
        let dims = op.longs(&[0, -1, slot]);
        let slots = op.call("Reshape", &[&x, &dims], [])?;
        let shown = op.slice(&slots, 2, 0, 1)?;
        let size = op.call("Abs", &[&shown], [])?;
        let least = op.number(x.dtype(), 1e-7)?;
        let is_absent = op.call("Less", &[&size, &least], [])?;
        let zero = op.number(x.dtype(), 0.0)?;
        let slots = op.call("Reshape", &[&y, &dims], [])?;
        let slots = op.choose(&is_absent, &zero, &slots)?;
        y = op.reshape_as(&slots, &x)?;
    } else if op.flag("enable_scale_and_shift")? {
        let (scale, bias) = (op.input("scale_w")?, op.input("bias")?);
        y = op.mul(&y, &scale)?;
        y = op.add(&y, &bias)?;
    }
    op.put("Y", &y)
}

/// Divides by a power of sums of squares over neighboring channels.
fn local_response_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, size) = (op.input("X")?, op.int("n")?);
    let (bias, alpha, beta) = (op.float("k")?, op.float("alpha")?, op.float("beta")?);
    if !(1..=1 << 16).contains(&size) {
        return Err(format!("expected at least 1 as `n`, found {size}").into());
    }
    let layout = op.layout("data_format")?;
    let x = op.channels_first(&x, layout)?;
    let how = LocalResponse { size, squares: Squares::Sum, alpha, beta, bias };
    let y = op.local_response(&x, how)?;
    let y = op.in_layout(&y, layout)?;
    op.put("Out", &y)
}

impl Operator<'_> {
    /// Applies `Scale` and `Bias`, if they are present: one element for each channel, the second dim.
    fn scaled_channels(&mut self, x: &Value) -> Outcome<Value> {
        let rank = x.rank()?.number();
        let (scale, bias) = (self.optional("Scale")?, self.optional("Bias")?);
        self.affine(x, [scale.as_ref(), bias.as_ref()], |graph, it| graph.along(it, 1, rank))
    }

    /// Returns a tensor of the dims in a value, filled with `number`, which becomes a half as the release has it.
    pub(super) fn filled_by(&mut self, dtype: DType, number: f64, dims: &Value) -> Outcome<Value> {
        let number = if self.truncates(dtype) { cut(dtype, number) } else { number };
        self.filled_as(dtype, number, dims)
    }
}

/// Converts to half precision by truncation.
fn cut(dtype: DType, number: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "it is rounded to single precision first")]
    let single = number as f32;
    match dtype {
        DType::BFloat16 => f32::from_bits(single.to_bits() & 0xFFFF_0000).into(),
        DType::Float16 if single.abs() > f32::from(half::f16::MAX) => {
            f64::INFINITY.copysign(number)
        }
        DType::Float16 => {
            let near = half::f16::from_f32(single);
            let is_more = near.to_f32().abs() > single.abs();
            half::f16::from_bits(near.to_bits() - u16::from(is_more)).into()
        }
        _ => number,
    }
}

//! Gradients of normalization and dropout.

use lodstone_schema::numbers::Rank;

use super::super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("affine_channel_grad", affine_channel),
    ("batch_norm_grad", batch_norm),
    ("dropout_grad", dropout),
    ("group_norm_grad", group_norm),
    ("instance_norm_grad", instance_norm),
    ("layer_norm_grad", layer_norm),
    ("norm_grad", norm),
];

/// Normalized elements, and the inverse standard deviation.
struct Normal {
    value: Value,
    inverse: Value,
}

impl Normal {
    fn of(op: &mut Operator<'_>, x: &Value, mean: &Value, inverse: &Value) -> Outcome<Self> {
        let centred = op.sub(x, mean)?;
        Ok(Self { value: op.mul(&centred, inverse)?, inverse: inverse.clone() })
    }

    /// Returns the gradient of the elements before normalization over axes, given the one after it.
    fn before(&self, op: &mut Operator<'_>, given: &Value, axes: &[i64]) -> Outcome<Value> {
        let mean = op.reduce("ReduceMean", given, axes, true)?;
        let centred = op.sub(given, &mean)?;
        self.scaled(op, given, &centred, axes)
    }

    /// Subtracts the part that acts through the variance from `rest`.
    fn scaled(
        &self,
        op: &mut Operator<'_>,
        given: &Value,
        rest: &Value,
        axes: &[i64],
    ) -> Outcome<Value> {
        let product = op.mul(given, &self.value)?;
        let slope = op.reduce("ReduceMean", &product, axes, true)?;
        let bent = op.mul(&self.value, &slope)?;
        let rest = op.sub(rest, &bent)?;
        op.mul(&rest, &self.inverse)
    }
}

/// `1 / sqrt(variance + epsilon)`.
fn inverse(op: &mut Operator<'_>, variance: &Value) -> Outcome<Value> {
    let epsilon = op.float("epsilon")?;
    let root = op.root(variance, epsilon.into())?;
    op.call("Reciprocal", &[&root], [])
}

/// Broadcasts one element for each channel, the second of `rank` dims.
fn by_channel(op: &mut Operator<'_>, value: &Value, rank: Rank) -> Outcome<Value> {
    let ones = vec![1; rank.count().saturating_sub(2)];
    op.reshape(value, &[&[-1], ones.as_slice()].concat())
}

/// Returns all axes but the second.
fn but_channels(rank: Rank) -> Vec<i64> {
    rank.numbers().filter(|axis| *axis != 1).collect()
}

/// Sets the gradients of `Scale` and `Bias`, which are broadcast over axes.
fn put_scale(op: &mut Operator<'_>, given: &Value, normal: &Value, axes: &[i64]) -> Outcome {
    if op.wants_gradient("Scale") {
        let product = op.mul(given, normal)?;
        let sums = op.reduce("ReduceSum", &product, axes, false)?;
        let sums = op.reshape(&sums, &[-1])?;
        op.put_gradient("Scale", &sums)?;
    }
    if op.wants_gradient("Bias") {
        let sums = op.reduce("ReduceSum", given, axes, false)?;
        let sums = op.reshape(&sums, &[-1])?;
        op.put_gradient("Bias", &sums)?;
    }
    Ok(())
}

/// Given statistics do not depend on the batch.
fn batch_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Y")?);
    let layout = op.layout("data_layout")?.of_rank(x.rank()?);
    let (x, given) = (op.channels_first(&x, layout)?, op.channels_first(&given, layout)?);
    let rank = x.rank()?;
    let axes = but_channels(rank);
    let fixed = op.flag("is_test")? || op.flag("use_global_stats")?;
    let (mean, inverse) = match fixed {
        true => {
            let running = |op: &Operator<'_>, slot: &str| match op.optional(slot)? {
                Some(value) => Ok(value),
                // Both slots have the same variable.
                None => op.input(&format!("{slot}Out")),
            };
            let (mean, variance) = (running(op, "Mean")?, running(op, "Variance")?);
            (mean, inverse(op, &variance)?)
        }
        false => (op.input("SavedMean")?, op.input("SavedVariance")?),
    };
    let (mean, inverse) = (by_channel(op, &mean, rank)?, by_channel(op, &inverse, rank)?);
    let normal = Normal::of(op, &x, &mean, &inverse)?;
    put_scale(op, &given, &normal.value, &axes)?;
    if !op.wants_gradient("X") {
        return Ok(());
    }
    let scaled = match op.optional("Scale")? {
        Some(scale) => {
            let scale = by_channel(op, &scale, rank)?;
            op.mul(&given, &scale)?
        }
        None => given,
    };
    let y = match fixed {
        true => op.mul(&scaled, &normal.inverse)?,
        false => normal.before(op, &scaled, &axes)?,
    };
    let y = op.in_layout(&y, layout)?;
    op.put_gradient("X", &y)
}

fn layer_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, given, begin) = (op.input("X")?, op.gradient("Y")?, op.int("begin_norm_axis")?);
    let dims = x.dims()?;
    let front = usize::try_from(begin).ok().and_then(|begin| dims.get(..begin));
    let front = front.filter(|front| front.len() < dims.len());
    let front = front.ok_or("`begin_norm_axis` is out of range")?;
    let inner = dims.get(front.len()..).unwrap_or_default();
    let rows = [front, &vec![1; inner.len()]].concat();
    let (mean, variance) = (op.input("Mean")?, op.input("Variance")?);
    let (mean, variance) = (op.reshape(&mean, &rows)?, op.reshape(&variance, &rows)?);
    let inverse = inverse(op, &variance)?;
    let normal = Normal::of(op, &x, &mean, &inverse)?;
    let outer: Vec<i64> = (0..begin).collect();
    if outer.is_empty() {
        return Err("the dims before the normalized ones must be known".into());
    }
    put_scale(op, &given, &normal.value, &outer)?;
    if !op.wants_gradient("X") {
        return Ok(());
    }
    let scaled = match op.optional("Scale")? {
        Some(scale) => {
            let scale = op.reshape(&scale, inner)?;
            op.mul(&given, &scale)?
        }
        None => given,
    };
    let axes: Vec<i64> = (begin..).take(inner.len()).collect();
    let y = normal.before(op, &scaled, &axes)?;
    op.put_gradient("X", &y)
}

/// Multiplies by `Scale`, if it is present: one element for each channel, the second dim.
fn scaled(op: &mut Operator<'_>, given: &Value) -> Outcome<Value> {
    match op.optional("Scale")? {
        Some(scale) => {
            let scale = by_channel(op, &scale, given.rank()?)?;
            op.mul(given, &scale)
        }
        None => Ok(given.clone()),
    }
}

/// Each channel of each sample is normalized separately.
fn instance_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Y")?);
    let dims = x.dims()?;
    let rank = dims.len();
    let rows: Vec<i64> =
        dims.iter().enumerate().map(|(axis, dim)| if axis < 2 { *dim } else { 1 }).collect();
    let (mean, inverse) = (op.input("SavedMean")?, op.input("SavedVariance")?);
    let (mean, inverse) = (op.reshape(&mean, &rows)?, op.reshape(&inverse, &rows)?);
    let normal = Normal::of(op, &x, &mean, &inverse)?;
    put_scale(op, &given, &normal.value, &but_channels(Rank::new(rank)))?;
    let scaled = scaled(op, &given)?;
    let axes: Vec<i64> = (2..).take(rank.saturating_sub(2)).collect();
    let y = normal.before(op, &scaled, &axes)?;
    op.put_gradient("X", &y)
}

/// Each group of channels of each sample is normalized separately.
fn group_norm(op: &mut Operator<'_>) -> Outcome {
    let (x, given, groups) = (op.input("X")?, op.gradient("Y")?, op.int("groups")?);
    let layout = op.layout("data_layout")?;
    let (x, given) = (op.channels_first(&x, layout)?, op.channels_first(&given, layout)?);
    let dims = x.dims()?;
    let examples = *dims.first().ok_or("expected a batch dim, found none")?;
    let (mean, variance) = (op.input("Mean")?, op.input("Variance")?);
    let rows = [examples, groups, 1];
    let (mean, variance) = (op.reshape(&mean, &rows)?, op.reshape(&variance, &rows)?);
    let inverse = inverse(op, &variance)?;
    // [batch, groups, channels per group and spatial dims]
    let grouped = op.reshape(&x, &[examples, groups, -1])?;
    let normal = Normal::of(op, &grouped, &mean, &inverse)?;
    let value = op.reshape(&normal.value, &dims)?;
    put_scale(op, &given, &value, &but_channels(Rank::of(&dims)))?;
    let scaled = scaled(op, &given)?;
    let scaled = op.reshape(&scaled, &[examples, groups, -1])?;
    // Without `Scale`, PaddlePaddle omits the part that acts through the mean.
    let y = match op.optional("Scale")? {
        Some(_) => normal.before(op, &scaled, &[2])?,
        None => normal.scaled(op, &scaled, &scaled, &[2])?,
    };
    let y = op.reshape(&y, &dims)?;
    let y = op.in_layout(&y, layout)?;
    op.put_gradient("X", &y)
}

fn norm(op: &mut Operator<'_>) -> Outcome {
    let (x, length, given) = (op.input("X")?, op.input("Norm")?, op.gradient("Out")?);
    let axis = op.int("axis")?;
    let unit = op.div(&x, &length)?;
    let product = op.mul(&given, &unit)?;
    let sum = op.reduce("ReduceSum", &product, &[axis], true)?;
    let along = op.mul(&unit, &sum)?;
    let rest = op.sub(&given, &along)?;
    let y = op.div(&rest, &length)?;
    op.put_gradient("X", &y)
}

fn affine_channel(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Out")?);
    let layout = op.layout("data_layout")?.of_rank(x.rank()?);
    let (x, given) = (op.channels_first(&x, layout)?, op.channels_first(&given, layout)?);
    put_scale(op, &given, &x, &but_channels(x.rank()?))?;
    let y = scaled(op, &given)?;
    let y = op.in_layout(&y, layout)?;
    op.put_gradient("X", &y)
}

/// Dropped elements have gradient 0; the others are scaled as in the forward pass.
fn dropout(op: &mut Operator<'_>) -> Outcome {
    let given = op.gradient("Out")?;
    let probability = f64::from(op.float("dropout_prob")?);
    let upscale = match op.text("dropout_implementation")?.as_str() {
        "upscale_in_train" => true,
        "downgrade_in_infer" => false,
        other => return Err(format!("unknown dropout mode `{other}`").into()),
    };
    let y = if op.flag("is_test")? {
        if upscale { given } else { op.times(&given, 1.0 - probability)? }
    } else {
        let mask = op.input("Mask")?;
        let mask = op.cast(&mask, given.dtype())?;
        let kept = op.mul(&given, &mask)?;
        match upscale && probability < 1.0 {
            true => op.times(&kept, 1.0 / (1.0 - probability))?,
            false => kept,
        }
    };
    op.put_gradient("X", &y)
}

//! Operators that draw random numbers, from the generator of the [scope](crate::executor::random).

use lodstone_engine::{Dense, Threads, Value};
use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;
use lodstone_schema::paddle::{Choice, Release, codes, operator};
use lodstone_store::Blob;

use super::{Outcome, Run, evaluated, input, output, rounded};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;
use crate::executor::random::Random;

/// The maximum number of elements that are drawn at once.
const MAX: u64 = 1 << 31;

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("dropout", dropout),
    ("gaussian_random", |frame, step, op| fill(frame, step, op, gaussian)),
    ("randint", randint),
    ("truncated_gaussian_random", |frame, step, op| fill(frame, step, op, truncated)),
    ("uniform_random", |frame, step, op| fill(frame, step, op, uniform)),
];

/// Whether an operator draws random numbers.
pub fn draws(op: &Op) -> bool {
    // No release changes what draws.
    let is_native =
        || operator(&op.kind)?.choose(op, Release::WRITTEN).map(|it| it == Choice::Native);
    let is_random = OPERATORS.iter().any(|(kind, _)| *kind == op.kind) || op.kind == "dpsgd";
    is_random && is_native() == Some(true)
}

/// Draws two values.
type Draw = Box<dyn Fn(&mut Random) -> [f64; 2]>;

fn number(op: &Op, name: &str, otherwise: f32) -> f64 {
    match op.attribute(name) {
        Some(AttributeValue::Float(value)) => f64::from(*value),
        _ => f64::from(otherwise),
    }
}

fn long(op: &Op, name: &str, otherwise: i64) -> i64 {
    match op.attribute(name) {
        Some(AttributeValue::Int(value)) => i64::from(*value),
        Some(AttributeValue::Long(value)) => *value,
        _ => otherwise,
    }
}

fn uniform(op: &Op) -> Draw {
    let (least, most) = (number(op, "min", -1.0), number(op, "max", 1.0));
    Box::new(move |random| random.pair().map(|share| least + share * (most - least)))
}

/// Draws two independent normal values (Box and Muller, 1958).
pub(super) fn normal(random: &mut Random) -> [f64; 2] {
    let [a, b] = random.pair();
    let (radius, angle) = ((-2.0 * (1.0 - a).ln()).sqrt(), std::f64::consts::TAU * b);
    [radius * angle.cos(), radius * angle.sin()]
}

fn gaussian(op: &Op) -> Draw {
    let (mean, deviation) = (number(op, "mean", 0.0), number(op, "std", 1.0));
    Box::new(move |random| normal(random).map(|value| mean + deviation * value))
}

/// Values that are more than two standard deviations from the mean are drawn again.
fn truncated(op: &Op) -> Draw {
    let (mean, deviation) = (number(op, "mean", 0.0), number(op, "std", 1.0));
    let one = move |random: &mut Random| loop {
        if let Some(value) = normal(random).into_iter().find(|value| value.abs() <= 2.0) {
            return mean + deviation * value;
        }
    };
    Box::new(move |random| [one(random), one(random)])
}

/// Returns the dims that an operator fills.
fn dims_from(frame: &Frame<'_>, step: &Step, op: &Op) -> Outcome<Vec<u64>> {
    let mut dims: Vec<i64> = match op.attribute("shape") {
        Some(AttributeValue::Longs(dims)) => dims.clone(),
        Some(AttributeValue::Ints(dims)) => dims.iter().copied().map(i64::from).collect(),
        _ => Vec::new(),
    };
    let known = |slot| {
        let info = lodstone_schema::onnx::infer::ValueInfo::of(frame.tensor(slot)?);
        info.ints().ok_or_else(|| Finding::from("expected dims"))
    };
    let parts = step.inputs("ShapeTensorList");
    if !parts.is_empty() {
        dims.clear();
        for slot in parts.iter().flatten() {
            dims.extend(known(*slot)?);
        }
    } else if let Ok(slot) = input(step, "ShapeTensor") {
        dims = known(slot)?;
    }
    let sizes: Result<Vec<u64>, _> = dims.iter().map(|dim| u64::try_from(*dim)).collect();
    let whole = sizes.as_ref().ok().and_then(|sizes| {
        sizes.iter().try_fold(1_u64, |all, dim| all.checked_mul(*dim)).filter(|all| *all <= MAX)
    });
    match (sizes, whole) {
        (Ok(sizes), Some(_)) => Ok(sizes),
        _ => Err(format!("a tensor of dims {dims:?} cannot be filled").into()),
    }
}

/// Draws from the generator of an operator: its own, if it has a seed.
fn with_seed<T>(frame: &mut Frame<'_>, op: &Op, draw: impl FnOnce(&mut Random) -> T) -> T {
    match long(op, "seed", 0) {
        0 => draw(&mut frame.random),
        seed => draw(&mut Random::new(seed.cast_unsigned())),
    }
}

/// Returns a tensor of values, rounded to its type.
fn tensor(values: &[f64], shape: Vec<u64>, dtype: DType, threads: &Threads) -> Outcome<Tensor> {
    let made = rounded(values, dtype, shape);
    if made.dtype == dtype {
        return Ok(made);
    }
    Ok(Dense::of(&made)?.cast(dtype, threads)?.tensor()?)
}

/// Checks that there is memory for a number of values, as they are drawn and as they are stored.
fn reserve(frame: &Frame<'_>, count: usize) -> Outcome {
    Ok(frame.reserve((count as u64).saturating_mul(16))?)
}

fn fill(frame: &mut Frame<'_>, step: &Step, op: &Op, draw: fn(&Op) -> Draw) -> Outcome {
    let shape = dims_from(frame, step, op)?;
    let code = exact(long(op, "dtype", 5))?;
    let count =
        usize::try_from(shape.iter().product::<u64>()).map_err(|_| "the tensor is too large")?;
    reserve(frame, count)?;
    let draw = draw(op);
    let values = with_seed(frame, op, |random| {
        let mut values = Vec::with_capacity(count + 1);
        while values.len() < count {
            values.extend(draw(random));
        }
        values.truncate(count);
        values
    });
    let made = tensor(&values, shape, codes::dtype(code), &frame.threads)?;
    Ok(frame.make(output(step, "Out")?, made)?)
}

fn randint(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let shape = dims_from(frame, step, op)?;
    let (low, high) = (long(op, "low", 0), long(op, "high", 0));
    if low >= high {
        return Err(
            format!("expected a range of integers, found {low} to {high} (exclusive)").into()
        );
    }
    let range = (i128::from(high) - i128::from(low)) as f64;
    let count = shape.iter().product::<u64>();
    reserve(frame, exact(count)?)?;
    let values: Vec<u8> = with_seed(frame, op, |random| {
        #[expect(clippy::cast_possible_truncation, reason = "the value is within the range")]
        let one = |_| low.saturating_add((random.pair()[0] * range) as i64).min(high - 1);
        (0..count).map(one).flat_map(i64::to_le_bytes).collect()
    });
    let code = exact(long(op, "dtype", 3))?;
    let made = Tensor::dense(DType::Int64, shape, Blob::memory(values));
    let made = Dense::of(&made)?.cast(codes::dtype(code), &frame.threads)?.tensor()?;
    Ok(frame.make(output(step, "Out")?, made)?)
}

/// Drops each element with a probability; `Mask` is 1 for those that are kept.
fn dropout(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let x = frame.tensor(input(step, "X")?)?.clone();
    let probability = number(op, "dropout_prob", 0.5);
    if !(0.0..=1.0).contains(&probability) {
        return Err(format!("expected a probability, found {probability}").into());
    }
    let upscale = matches!(
        op.attribute("dropout_implementation"),
        Some(AttributeValue::String(how)) if how.to_string() == "upscale_in_train"
    );
    let count =
        usize::try_from(x.shape.iter().product::<u64>()).map_err(|_| "the tensor is too large")?;
    reserve(frame, count)?;
    let mask: Vec<u8> = with_seed(frame, op, |random| {
        let mut mask = Vec::with_capacity(count + 1);
        while mask.len() < count {
            mask.extend(random.pair().map(|share| u8::from(share >= probability)));
        }
        mask.truncate(count);
        mask
    });
    let factor = if upscale && probability < 1.0 { 1.0 / (1.0 - probability) } else { 1.0 };
    let kept: Vec<f64> = mask.iter().map(|one| f64::from(*one) * factor).collect();
    let kept = tensor(&kept, x.shape.clone(), x.dtype, &frame.threads)?;
    let mut out = product(&x, &kept, &frame.threads)?;
    out.lod = x.lod.clone();
    if let Ok(slot) = output(step, "Mask") {
        let mask = Tensor::dense(DType::Uint8, x.shape, Blob::memory(mask));
        frame.make(slot, mask)?;
    }
    Ok(frame.make(output(step, "Out")?, out)?)
}

fn product(a: &Tensor, b: &Tensor, threads: &Threads) -> Outcome<Tensor> {
    let product = Op { kind: "Mul".to_owned(), ..Op::default() };
    let factors = [Some(Value::of(a)?), Some(Value::of(b)?)];
    evaluated(&product, &factors, threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_as_they_should_be() {
        let mut random = Random::new(7);
        let values: Vec<f64> = (0..50_000).flat_map(|_| normal(&mut random)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        let draw = truncated(&Op::default());
        let values: Vec<f64> = (0..5000).flat_map(|_| draw(&mut random)).collect();
        assert!(values.iter().all(|value| value.abs() <= 2.0));
    }
}

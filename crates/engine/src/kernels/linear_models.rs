//! Linear models of `ai.onnx.ml`.

use lodstone_model::DType;

use super::scores::{Classes, Rows, Second, Transform, best, classified, scored};
use crate::call::{Call, Outputs, one};
use crate::dims::count;
use crate::error::Outcome;
use crate::operator::{ML, Operator};
use crate::tensor::{Dense, product};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("LinearClassifier", classify).domain(ML).working(16, 4),
    Operator::dense("LinearRegressor", regress).domain(ML).working(12, 8),
];

/// Returns the scores of each row: the features times the coefficients, plus the intercepts.
fn scores(call: &Call<'_>, targets: usize) -> Outcome<Vec<Vec<f32>>> {
    let rows = Rows::of(call.input(0)?)?;
    let coefficients = call.floats("coefficients");
    if targets == 0 || targets.checked_mul(rows.features) != Some(coefficients.len()) {
        let wrong = "coefficients do not fit";
        return Err(format!(
            "{} {wrong} {targets} targets of {} features",
            coefficients.len(),
            rows.features
        )
        .into());
    }
    let x = call.input(0)?.cast_to(DType::Float32)?.reshaped(vec![rows.count, rows.features])?;
    let weights = Dense::from_vec(coefficients.to_vec(), [targets, rows.features])?;
    let mut y = product(&x, &weights.permuted(&[1, 0])?)?;
    let intercepts = call.floats("intercepts");
    if intercepts.len() == targets {
        y = y.plus(&Dense::from_vec(intercepts.to_vec(), [1, targets])?)?;
    }
    Ok(y.to_singles()?.chunks_exact(targets).map(<[f32]>::to_vec).collect())
}

fn regress(call: &Call<'_>) -> Outputs {
    let (targets, transform) = (count(call.int("targets", 1))?, Transform::of(call)?);
    let mut rows = scores(call, targets)?;
    rows.iter_mut().for_each(|row| transform.apply(row, Second::Absent));
    one(scored(rows, targets)?)
}

/// A model of two classes may have one score, which is positive for the second class.
fn classify(call: &Call<'_>) -> Outputs {
    let transform = Transform::of(call)?;
    let classes = Classes::of(call, "classlabels_ints")?;
    let targets = call.floats("intercepts").len();
    let mut rows = scores(call, targets)?;
    let is_two = classes.count() == 2;
    let (second, width) = match targets {
        1 if is_two => (Second::Complement, 2),
        _ => (Second::Absent, targets),
    };
    let labels = match targets {
        1 => {
            let is_second = |row: &Vec<f32>| usize::from(row.iter().any(|score| *score > 0.0));
            classes.binary().labels(&rows.iter().map(is_second).collect::<Vec<_>>())?
        }
        _ => classes.labels(&rows.iter().map(|row| best(row)).collect::<Vec<_>>())?,
    };
    rows.iter_mut().for_each(|row| transform.apply(row, second));
    classified(labels, &scored(rows, width)?)
}

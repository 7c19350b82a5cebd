//! Rows of features, scores of rows, and labels of classes, for the models of `ai.onnx.ml`.
//!
//! Scores are in single precision. A classifier with two classes and one score returns two scores; [`Second`] holds how.
//!
//! Source of truth: the specification of `ai.onnx.ml`, and ONNX Runtime 1.31 where that is silent.

use bytes::Bytes;
use lodstone_schema::Finding;

use crate::call::{Call, Outputs};
use crate::dims::bounded;
use crate::error::Outcome;
use crate::tensor::Dense;
use crate::value::{Strings, Value};

/// The features of each row: [rows, features], or [features] for a single row.
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) features: usize,
    values: Vec<f32>,
}

impl Rows {
    pub(super) fn of(x: &Dense) -> Outcome<Self> {
        let (count, features) = match *x.shape().as_slice() {
            [features] => (1, features),
            [rows, features] => (rows, features),
            _ => return Err(format!("expected rows of features, found {:?}", x.shape()).into()),
        };
        // Rows without features take no memory: their number has no limit.
        if features == 0 {
            return Err("expected features, found none".into());
        }
        Ok(Self { count, features, values: x.to_singles()? })
    }

    /// Returns each row.
    pub(super) fn each(&self) -> impl Iterator<Item = &[f32]> {
        let row = |at: usize| self.values.get(at * self.features..(at + 1) * self.features);
        (0..self.count).map(move |at| row(at).unwrap_or_default())
    }
}

/// The function that is applied to the scores of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transform {
    None,
    Logistic,
    Softmax,
    /// A softmax in which scores of 0 stay 0.
    SoftmaxZero,
    Probit,
}

/// How one score of two classes becomes two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Second {
    /// There is one class.
    Absent,
    /// The first score is 1 minus the second one.
    Complement,
    /// The first score is the negative of the second one.
    Negative,
}

impl Transform {
    pub(super) fn of(call: &Call<'_>) -> Outcome<Self> {
        Ok(match call.text("post_transform").as_deref() {
            None | Some("NONE") => Self::None,
            Some("LOGISTIC") => Self::Logistic,
            Some("SOFTMAX") => Self::Softmax,
            Some("SOFTMAX_ZERO") => Self::SoftmaxZero,
            Some("PROBIT") => Self::Probit,
            Some(other) => return Err(format!("`post_transform` `{other}` is not known").into()),
        })
    }

    /// Transforms the scores of a row. A single score is only transformed if a second one is added, or by
    /// [`Transform::Probit`].
    pub(super) fn apply(self, scores: &mut Vec<f32>, second: Second) {
        match (scores.as_mut_slice(), self) {
            ([score], Self::Probit) => *score = probit(*score),
            (&mut [score], Self::Logistic) if second != Second::Absent => {
                *scores = vec![logistic(-score), logistic(score)];
            }
            (&mut [score], _) if second == Second::Negative => *scores = vec![-score, score],
            (&mut [score], _) if second == Second::Complement => *scores = vec![1.0 - score, score],
            ([_], _) | (_, Self::None) => {}
            (scores, Self::Logistic) => scores.iter_mut().for_each(|it| *it = logistic(*it)),
            (scores, Self::Probit) => scores.iter_mut().for_each(|it| *it = probit(*it)),
            (scores, Self::Softmax) => shares(scores, |_| false),
            (scores, Self::SoftmaxZero) => shares(scores, |score| score.abs() <= 1e-7),
        }
    }
}

/// Replaces scores by their softmax. Scores of `keeps` are scaled only.
fn shares(scores: &mut [f32], keeps: fn(f32) -> bool) {
    let top = scores.iter().copied().fold(f32::MIN, f32::max);
    let mut sum = 0.0;
    for score in &mut *scores {
        if keeps(*score) {
            *score *= (-top).exp();
        } else {
            *score = (*score - top).exp();
            sum += *score;
        }
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

pub(super) fn logistic(score: f32) -> f32 {
    let share = 1.0 / (1.0 + (-score.abs()).exp());
    if score < 0.0 { 1.0 - share } else { share }
}

/// The inverse of the normal distribution, by an approximation of the inverse error function.
pub(super) fn probit(score: f32) -> f32 {
    const A: f32 = 0.147;
    #[expect(clippy::approx_constant, reason = "the approximation has this value")]
    const PI: f32 = 3.14159;
    let x = 2.0 * score - 1.0;
    let log = ((1.0 - x) * (1.0 + x)).ln();
    let half = 2.0 / (PI * A) + 0.5 * log;
    let root = (-half + (half * half - 1.0 / A * log).sqrt()).sqrt();
    std::f32::consts::SQRT_2 * if x < 0.0 { -root } else { root }
}

/// The labels of classes.
pub(super) enum Classes {
    Texts(Vec<String>),
    Numbers(Vec<i64>),
}

impl Classes {
    /// Reads `classlabels_strings`, or the list of integers of the given name.
    pub(super) fn of(call: &Call<'_>, numbers: &str) -> Outcome<Self> {
        match (call.texts("classlabels_strings"), call.ints(numbers)) {
            (Some(texts), _) if !texts.is_empty() => Ok(Self::Texts(texts)),
            (_, Some(numbers)) if !numbers.is_empty() => Ok(Self::Numbers(numbers.to_vec())),
            _ => Err(format!("expected `classlabels_strings` or `{numbers}`, found none").into()),
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    /// Returns the labels of two classes, which are 0 and 1 if there is another number of labels.
    pub(super) fn binary(self) -> Self {
        match self {
            two if two.count() == 2 => two,
            Self::Texts(_) => Self::Texts(vec!["0".to_owned(), "1".to_owned()]),
            Self::Numbers(_) => Self::Numbers(vec![0, 1]),
        }
    }

    /// Returns the labels of rows by the indices of their classes.
    pub(super) fn labels(&self, rows: &[usize]) -> Outcome<Value> {
        let wrong = || Finding::from("a class has no label");
        match self {
            Self::Texts(texts) => {
                let label = |at: &usize| texts.get(*at).map(|text| Bytes::from(text.clone()));
                let labels = rows.iter().map(|at| label(at).ok_or_else(wrong));
                let labels = labels.collect::<Outcome<_>>()?;
                Ok(Value::Strings(Strings::new(vec![rows.len()], labels)?))
            }
            Self::Numbers(numbers) => {
                let labels = rows.iter().map(|at| numbers.get(*at).copied().ok_or_else(wrong));
                Ok(Dense::longs(&labels.collect::<Outcome<Vec<_>>>()?).into())
            }
        }
    }
}

/// Returns the index of the first maximum.
pub(super) fn best<T: PartialOrd>(scores: &[T]) -> usize {
    let mut best = 0;
    for (at, score) in scores.iter().enumerate() {
        if scores.get(best).is_some_and(|top| score > top) {
            best = at;
        }
    }
    best
}

/// Returns scores of equal length for each row: [rows, scores].
pub(super) fn scored(rows: Vec<Vec<f32>>, width: usize) -> Outcome<Dense> {
    let dims = [rows.len(), width];
    bounded(&dims)?;
    if rows.iter().any(|row| row.len() != width) {
        return Err(format!("expected {width} scores of each row").into());
    }
    Dense::from_vec(rows.concat(), dims)
}

/// Returns labels and scores.
pub(super) fn classified(labels: Value, scores: &Dense) -> Outputs {
    Ok(vec![labels, scores.clone().into()])
}

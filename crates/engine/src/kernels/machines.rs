//! Support vector machines of `ai.onnx.ml`.
//!
//! | list | layout |
//! |---|---|
//! | `support_vectors` | [vectors, features], the vectors of the first class first |
//! | `coefficients` | [classes - 1, vectors]; without vectors, [classes, features] |
//! | `rho`, `prob_a`, `prob_b` | one for each pair of classes: 0 and 1, 0 and 2, ..., 1 and 2, ... |

use std::ops::Range;

use lodstone_schema::Finding;
use lodstone_schema::places::at;

use super::scores::{Classes, Rows, Second, Transform, best, classified, logistic, scored};
use crate::call::{Call, Outputs, one};
use crate::dims::{at_mut, bounded, count, rows_of};
use crate::error::Outcome;
use crate::operator::{ML, Operator};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("SVMClassifier", classify).domain(ML).working(32, 6),
    Operator::dense("SVMRegressor", regress).domain(ML).working(0, 40),
];

/// The function that compares a row with a vector.
enum Similarity {
    Linear,
    Poly,
    Rbf,
    Sigmoid,
}

/// Vectors, and the similarity of rows with them.
struct Vectors<'a> {
    similarity: Similarity,
    gamma: f32,
    coef0: f32,
    degree: f32,
    vectors: &'a [f32],
    features: usize,
}

impl<'a> Vectors<'a> {
    /// Reads vectors. Coefficients that stand for vectors are always compared by their product.
    fn of(call: &Call<'a>, vectors: &'a [f32], count: usize, is_linear: bool) -> Outcome<Self> {
        let similarity = match call.text("kernel_type").as_deref() {
            None | Some("LINEAR") => Similarity::Linear,
            _ if is_linear => Similarity::Linear,
            Some("POLY") => Similarity::Poly,
            Some("RBF") => Similarity::Rbf,
            Some("SIGMOID") => Similarity::Sigmoid,
            Some(other) => return Err(format!("`kernel_type` `{other}` is not known").into()),
        };
        let (gamma, coef0, degree) = match *call.floats("kernel_params") {
            [gamma, coef0, degree] => (gamma, coef0, degree),
            [] => (0.0, 0.0, 0.0),
            _ => return Err("expected 3 `kernel_params`".into()),
        };
        let features = rows_of(count, vectors.len());
        if features == 0 || features.checked_mul(count) != Some(vectors.len()) {
            return Err(format!("{} numbers do not fill {count} vectors", vectors.len()).into());
        }
        Ok(Self { similarity, gamma, coef0, degree, vectors, features })
    }

    fn check(&self, rows: &Rows) -> Outcome<()> {
        bounded(&[rows.count, self.vectors.len() / self.features])?;
        match rows.features == self.features {
            true => Ok(()),
            false => {
                Err(format!("expected {} features, found {}", self.features, rows.features).into())
            }
        }
    }

    /// Compares a row with each vector.
    fn compare(&self, row: &[f32]) -> Vec<f32> {
        let pairs = |vector: &'a [f32]| row.iter().zip(vector).map(|(a, b)| (*a, *b));
        let dot = |vector| pairs(vector).map(|(a, b)| a * b).sum::<f32>();
        let line = |vector| self.gamma * dot(vector) + self.coef0;
        let of = |vector| match self.similarity {
            Similarity::Linear => dot(vector),
            Similarity::Poly => line(vector).powf(self.degree),
            Similarity::Sigmoid => line(vector).tanh(),
            Similarity::Rbf => {
                let far: f32 = pairs(vector).map(|(a, b)| (a - b) * (a - b)).sum();
                (-self.gamma * far).exp()
            }
        };
        self.vectors.chunks_exact(self.features).map(of).collect()
    }
}

/// Returns the sum of products of two lists.
fn weighted(values: &[f32], weights: &[f32]) -> f64 {
    values.iter().zip(weights).map(|(a, b)| f64::from(a * b)).sum()
}

fn first(list: &[f32], name: &str) -> Outcome<f32> {
    list.first().copied().ok_or_else(|| format!("expected `{name}`, found none").into())
}

fn regress(call: &Call<'_>) -> Outputs {
    let rows = Rows::of(call.input(0)?)?;
    let (coefficients, rho) = (call.floats("coefficients"), first(call.floats("rho"), "rho")?);
    let supports = count(call.int("n_supports", 0))?;
    let vectors = match supports {
        0 => Vectors::of(call, coefficients, 1, true)?,
        _ => Vectors::of(call, call.floats("support_vectors"), supports, false)?,
    };
    vectors.check(&rows)?;
    if supports > 0 && coefficients.len() != supports {
        return Err(format!("expected {supports} `coefficients`").into());
    }
    let is_one_class = call.int("one_class", 0) != 0;
    let predict = |row: &[f32]| {
        let near = vectors.compare(row);
        let sum: f32 = match supports {
            0 => near.iter().sum(),
            _ => near.iter().zip(coefficients).map(|(a, b)| a * b).sum(),
        };
        let y = sum + rho;
        vec![match is_one_class {
            true if y > 0.0 => 1.0,
            true => -1.0,
            false => y,
        }]
    };
    one(scored(rows.each().map(predict).collect(), 1)?)
}

/// The scores of a row, and the index of its class.
type Judged = (Vec<f32>, usize);

fn classify(call: &Call<'_>) -> Outputs {
    let (rows, transform) = (Rows::of(call.input(0)?)?, Transform::of(call)?);
    let classes = Classes::of(call, "classlabels_ints")?;
    let number = classes.count();
    let has_vectors =
        call.ints("vectors_per_class").is_some_and(|counts| counts.iter().any(|count| *count > 0));
    let judged: Vec<Judged> = match has_vectors {
        true => Pairs::of(call, number)?.judge(&rows)?,
        false => linear(call, number, &rows)?,
    };
    let second = match transform {
        _ if !has_vectors || number != 2 || !call.floats("prob_a").is_empty() => Second::Absent,
        Transform::None => Second::Negative,
        _ => Second::Complement,
    };
    let (mut scores, chosen): (Vec<Vec<f32>>, Vec<usize>) = judged.into_iter().unzip();
    scores.iter_mut().for_each(|row| transform.apply(row, second));
    let width = match (has_vectors && call.floats("prob_a").is_empty(), number) {
        (true, 0..=2) => 2,
        (true, _) => number * (number - 1) / 2,
        (false, _) => number,
    };
    classified(classes.labels(&chosen)?, &scored(scores, width)?)
}

/// Coefficients for each class, without vectors.
fn linear(call: &Call<'_>, classes: usize, rows: &Rows) -> Outcome<Vec<Judged>> {
    let coefficients = call.floats("coefficients");
    let (vectors, rho) =
        (Vectors::of(call, coefficients, classes, true)?, first(call.floats("rho"), "rho")?);
    vectors.check(rows)?;
    let are_positive = coefficients.iter().all(|weight| *weight >= 0.0);
    let judge = |row: &[f32]| {
        let scores: Vec<f32> = vectors.compare(row).iter().map(|score| score + rho).collect();
        let best = best(&scores);
        let top = at(&scores, best)?;
        // The second of two classes wins by the sign of the maximum.
        let is_second = classes == 2
            && call.floats("prob_a").is_empty()
            && if are_positive { top >= 0.5 } else { top > 0.0 };
        Ok((scores, if is_second { 1 } else { best }))
    };
    rows.each().map(judge).collect()
}

/// A machine for each pair of classes.
struct Pairs<'a> {
    vectors: Vectors<'a>,
    coefficients: Vec<&'a [f32]>,
    /// The vectors of each class.
    ranges: Vec<Range<usize>>,
    rho: &'a [f32],
    /// The parameters of the logistic function of each pair, if there are probabilities.
    curves: Option<(&'a [f32], &'a [f32])>,
}

impl<'a> Pairs<'a> {
    fn of(call: &'a Call<'a>, classes: usize) -> Outcome<Self> {
        let counts = call.ints("vectors_per_class").unwrap_or_default();
        let mut end = 0_usize;
        let mut ranges = Vec::new();
        for number in counts {
            let begin = end;
            end = end.checked_add(count(*number)?).ok_or("there are too many vectors")?;
            ranges.push(begin..end);
        }
        let vectors = Vectors::of(call, call.floats("support_vectors"), end, false)?;
        let coefficients: Vec<&[f32]> = call.floats("coefficients").chunks_exact(end).collect();
        let (a, b) = (call.floats("prob_a"), call.floats("prob_b"));
        let (rho, pairs) = (call.floats("rho"), classes * (classes - 1) / 2);
        let curves = (!a.is_empty()).then_some((a, b));
        let fits = ranges.len() == classes
            && coefficients.len() + 1 >= classes
            && rho.len() >= pairs
            && curves.is_none_or(|(a, b)| a.len() >= pairs && b.len() >= pairs);
        match fits && classes > 1 {
            true => Ok(Self { vectors, coefficients, ranges, rho, curves }),
            false => Err(format!("the vectors do not fit {classes} classes").into()),
        }
    }

    fn judge(&self, rows: &Rows) -> Outcome<Vec<Judged>> {
        self.vectors.check(rows)?;
        bounded(&[rows.count, self.rho.len()])?;
        rows.each().map(|row| self.vote(&self.vectors.compare(row))).collect()
    }

    /// Scores each pair of classes, and chooses the class with the most votes.
    fn vote(&self, near: &[f32]) -> Outcome<Judged> {
        let classes = self.ranges.len();
        let (mut scores, mut votes) = (Vec::new(), vec![0_u32; classes]);
        let part = |line: usize, class: usize| {
            let range = self.ranges.get(class).cloned()?;
            let weights = self.coefficients.get(line)?.get(range.clone())?;
            Some(weighted(near.get(range)?, weights))
        };
        let pair = |one: usize, other: usize, number: usize| {
            Some((part(other - 1, one)?, part(one, other)?, *self.rho.get(number)?))
        };
        for one in 0..classes {
            for other in one + 1..classes {
                let missing = || Finding::internal("a pair of classes has no vectors");
                let (a, b, rho) = pair(one, other, scores.len()).ok_or_else(missing)?;
                let sum = a + b + f64::from(rho);
                *at_mut(&mut votes, if sum > 0.0 { one } else { other })? += 1;
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "scores are in single precision"
                )]
                scores.push(sum as f32);
            }
        }
        let scores = match self.curves {
            Some(curves) => probabilities(&scores, curves, classes)?,
            None => scores,
        };
        Ok((scores, best(&votes)))
    }
}

/// Returns the probability of each class from the scores of pairs, by the second method of Wu, Lin and Weng.
fn probabilities(scores: &[f32], (a, b): (&[f32], &[f32]), classes: usize) -> Outcome<Vec<f32>> {
    // The probability of the first class of each pair.
    let mut pairs = vec![0_f32; classes * classes];
    let mut curves = scores.iter().zip(a).zip(b);
    for one in 0..classes {
        for other in one + 1..classes {
            let curve = curves.next();
            let missing = || Finding::internal("a pair of classes has no curve");
            let ((score, a), b) = curve.ok_or_else(missing)?;
            let share = (1.0 - logistic(score * a + b)).clamp(1e-7, 1.0 - 1e-7);
            *at_mut(&mut pairs, one * classes + other)? = share;
            *at_mut(&mut pairs, other * classes + one)? = 1.0 - share;
        }
    }
    let pair = |one: usize, other: usize| at(&pairs, one * classes + other);
    let row = |one: usize| {
        let own = (0..classes).filter(|other| *other != one);
        let own = own.map(|other| Ok(pair(other, one)? * pair(other, one)?));
        let own = own.sum::<Outcome<f32>>()?;
        let cell = |other| match other == one {
            true => Ok(own),
            false => Ok(-pair(other, one)? * pair(one, other)?),
        };
        (0..classes).map(cell).collect::<Outcome<Vec<f32>>>()
    };
    Ok(coupled(&(0..classes).map(row).collect::<Outcome<Vec<_>>>()?))
}

/// Minimizes a quadratic form over probabilities by fixed-point iteration.
fn coupled(matrix: &[Vec<f32>]) -> Vec<f32> {
    let classes = matrix.len() as f32;
    let mut shares = vec![1.0 / classes; matrix.len()];
    for _ in 0..100 {
        let dot = |row: &Vec<f32>| row.iter().zip(&shares).map(|(a, b)| a * b).sum::<f32>();
        let mut products: Vec<f32> = matrix.iter().map(dot).collect();
        let mut whole: f32 = products.iter().zip(&shares).map(|(a, b)| a * b).sum();
        let far = products.iter().map(|product| (product - whole).abs()).fold(0.0, f32::max);
        if far < 0.005 / classes {
            break;
        }
        for (at, row) in matrix.iter().enumerate() {
            let (Some(own), Some(product)) = (row.get(at), products.get(at).copied()) else {
                continue;
            };
            let step = (whole - product) / own;
            shares.get_mut(at).into_iter().for_each(|share| *share += step);
            whole = (whole + step * (step * own + 2.0 * product)) / (1.0 + step) / (1.0 + step);
            for ((product, cell), share) in products.iter_mut().zip(row).zip(&mut shares) {
                *product = (*product + step * cell) / (1.0 + step);
                *share /= 1.0 + step;
            }
        }
    }
    shares
}

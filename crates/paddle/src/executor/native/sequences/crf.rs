//! `linear_chain_crf`: the likelihood of labels in a conditional random field (Lafferty et al., 2001), and its gradient.
//!
//! The first row of the transitions has the weights of the first label, the second row those of the last one, the others
//! the weights from each label to each. All is computed in double precision.
//!
//! | value | contents |
//! |---|---|
//! | `Alpha` | the normalized probabilities of the labels up to each row |
//! | `EmissionExps` | the exponentials of each row minus its maximum |
//! | `TransitionExps` | the exponentials of the transitions |
//! | `LogLikelihood` | the negative logarithm of the likelihood, of each sequence |

use std::ops::Range;

use lodstone_model::{DType, Lod, Op};
use lodstone_schema::Finding;

use super::super::{Outcome, input, put, rounded};
use super::labels::spans;
use super::{columns, doubles};
use crate::executor::frame::Frame;
use crate::executor::indices::whole;
use crate::executor::layout::Step;

/// The inputs, checked.
struct Chain {
    /// The number of labels.
    count: usize,
    scores: Vec<f64>,
    /// The exponentials of the scores minus the maximum of the row, and these maxima.
    exps: Vec<f64>,
    most: Vec<f64>,
    transitions: Vec<f64>,
    weights: Vec<f64>,
    labels: Vec<usize>,
    ranges: Vec<Range<usize>>,
    dtype: DType,
    shape: Vec<u64>,
    lod: Lod,
}

impl Chain {
    fn of(frame: &Frame<'_>, step: &Step) -> Outcome<Self> {
        let emission = frame.tensor(input(step, "Emission")?)?;
        let (scores, dtype) = (doubles(emission)?, emission.dtype);
        // Exponentials, probabilities in both directions, and the results.
        frame.reserve((scores.len() as u64).saturating_mul(48))?;
        let count = columns(emission)?;
        let transition = frame.tensor(input(step, "Transition")?)?;
        if transition.dtype != dtype {
            let found = transition.dtype;
            return Err(format!("expected {dtype} as `Transition`, found {found}").into());
        }
        let transitions = doubles(transition)?;
        if count == 0 || transitions.len() != count.saturating_add(2).saturating_mul(count) {
            return Err(format!("expected transitions of {count} labels").into());
        }
        let rows = scores.len() / count;
        let (ranges, ..) = spans(frame, step, emission, rows)?;
        let labels = whole(frame.tensor(input(step, "Label")?)?)?;
        if labels.len() != rows {
            return Err(format!("expected {rows} labels, found {}", labels.len()).into());
        }
        let is_read = |row: usize| ranges.iter().any(|range| range.contains(&row));
        let label = |(row, label): (usize, i64)| match usize::try_from(label) {
            Ok(label) if label < count => Ok(label),
            // Labels beyond the end of a sequence are not read.
            _ if !is_read(row) => Ok(0),
            _ => Err(format!("label {label} is out of range: there are {count}")),
        };
        let labels = labels.into_iter().enumerate().map(label).collect::<Result<_, _>>()?;
        let most: Vec<f64> = scores
            .chunks_exact(count)
            .map(|row| row.iter().copied().fold(f64::NEG_INFINITY, f64::max))
            .collect();
        let pairs = scores.chunks_exact(count).zip(&most);
        let exps = pairs.flat_map(|(row, most)| row.iter().map(move |score| (score - most).exp()));
        Ok(Self {
            count,
            exps: exps.collect(),
            most,
            weights: transitions.iter().map(|weight| weight.exp()).collect(),
            scores,
            transitions,
            labels,
            ranges,
            dtype,
            shape: emission.shape.clone(),
            lod: emission.lod.clone(),
        })
    }

    fn at<'v>(&self, values: &'v [f64], row: usize) -> Result<&'v [f64], Finding> {
        let start = row.saturating_mul(self.count);
        values.get(start..start.saturating_add(self.count)).ok_or_else(lost)
    }

    /// Returns the weight of a label, or of a transition between two, from a row of the transitions.
    fn weight(&self, row: usize, label: usize) -> Result<f64, Finding> {
        self.at(&self.transitions, row)?.get(label).copied().ok_or_else(lost)
    }

    fn label(&self, row: usize) -> Result<usize, Finding> {
        self.labels.get(row).copied().ok_or_else(lost)
    }

    /// Returns the probabilities of the labels up to each row of a sequence, and the logarithm of their sums, without the
    /// maxima of the rows.
    fn forward(&self, range: &Range<usize>) -> Result<(Vec<f64>, f64), Finding> {
        let (mut alpha, mut log) = (Vec::<f64>::new(), 0.0);
        for row in range.clone() {
            let exps = self.at(&self.exps, row)?;
            let mut next = match alpha.len().checked_sub(self.count).and_then(|at| alpha.get(at..))
            {
                None => self.at(&self.weights, 0)?.to_vec(),
                Some(before) => {
                    let mut sums = vec![0.0; self.count];
                    for (number, share) in before.iter().enumerate() {
                        let weights = self.at(&self.weights, number + 2)?;
                        sums.iter_mut()
                            .zip(weights)
                            .for_each(|(sum, weight)| *sum += share * weight);
                    }
                    sums
                }
            };
            next.iter_mut().zip(exps).for_each(|(share, exp)| *share *= exp);
            log += normalize(&mut next).ln();
            alpha.extend(next);
        }
        Ok((alpha, log))
    }

    /// Returns the weights of everything after each row, normalized by row.
    fn backward(&self, range: &Range<usize>) -> Result<Vec<Vec<f64>>, Finding> {
        let mut beta = vec![Vec::new(); range.len()];
        let mut after: Option<(usize, Vec<f64>)> = None;
        for (slot, row) in beta.iter_mut().zip(range.clone()).rev() {
            let mut own = match &after {
                None => self.at(&self.weights, 1)?.to_vec(),
                Some((next, beta)) => {
                    let exps = self.at(&self.exps, *next)?;
                    let weighed: Vec<f64> =
                        exps.iter().zip(beta).map(|(exp, beta)| exp * beta).collect();
                    let sum = |label: usize| {
                        let weights = self.at(&self.weights, label + 2)?;
                        Ok(weights.iter().zip(&weighed).map(|(a, b)| a * b).sum())
                    };
                    (0..self.count).map(sum).collect::<Result<_, Finding>>()?
                }
            };
            normalize(&mut own);
            slot.clone_from(&own);
            after = Some((row, own));
        }
        Ok(beta)
    }
}

/// The error for a row or a label that does not exist, although the inputs were checked.
fn lost() -> Finding {
    Finding::internal("a row of the chain does not exist")
}

/// Divides values by their sum, which is returned.
fn normalize(values: &mut [f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
    sum
}

/// Sets the negative log-likelihoods, and what PaddlePaddle keeps for the gradient.
pub(super) fn likelihood(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let chain = Chain::of(frame, step)?;
    let mut alpha = vec![0.0; chain.scores.len()];
    let mut costs = Vec::new();
    for range in &chain.ranges {
        if range.is_empty() {
            costs.push(0.0);
            continue;
        }
        let (own, mut log) = chain.forward(range)?;
        let start = range.start.saturating_mul(chain.count);
        let places = alpha.get_mut(start..).ok_or_else(lost)?;
        places.iter_mut().zip(&own).for_each(|(place, share)| *place = *share);
        log += chain.most.get(range.clone()).ok_or_else(lost)?.iter().sum::<f64>();
        let last = own.len().saturating_sub(chain.count);
        let ends = chain.at(&chain.weights, 1)?;
        let last = own.get(last..).ok_or_else(lost)?;
        log += last.iter().zip(ends).map(|(share, weight)| share * weight).sum::<f64>().ln();
        let mut path = chain.weight(0, chain.label(range.start)?)?
            + chain.weight(1, chain.label(range.end.saturating_sub(1))?)?;
        for row in range.clone() {
            let label = chain.label(row)?;
            path += chain.at(&chain.scores, row)?.get(label).copied().ok_or_else(lost)?;
            if row > range.start {
                path += chain.weight(chain.label(row - 1)? + 2, label)?;
            }
        }
        costs.push(log - path);
    }
    let (dtype, count) = (chain.dtype, chain.count as u64);
    let like = |values: &[f64]| rounded(values, dtype, chain.shape.clone());
    let whole = vec![count.saturating_add(2), count];
    let of_costs = vec![costs.len() as u64, 1];
    for (slot, tensor) in [
        ("Alpha", like(&alpha)),
        ("EmissionExps", like(&chain.exps)),
        ("TransitionExps", rounded(&chain.weights, dtype, whole)),
        ("LogLikelihood", rounded(&costs, dtype, of_costs)),
    ] {
        put(frame, step, slot, tensor)?;
    }
    Ok(())
}

/// The gradient is the probability of each label, and of each transition, minus 1 where it is right.
pub(super) fn gradient(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let chain = Chain::of(frame, step)?;
    let given = doubles(frame.tensor(input(step, "LogLikelihood@GRAD")?)?)?;
    if given.len() != chain.ranges.len() {
        let (wanted, found) = (chain.ranges.len(), given.len());
        return Err(
            format!("expected {wanted} elements in `LogLikelihood@GRAD`, found {found}").into()
        );
    }
    let mut of_scores = vec![0.0; chain.scores.len()];
    let mut of_weights = vec![0.0; chain.transitions.len()];
    let count = chain.count;
    for (range, given) in chain.ranges.iter().zip(given).filter(|(range, _)| !range.is_empty()) {
        let (alpha, _) = chain.forward(range)?;
        let beta = chain.backward(range)?;
        let steps = range.clone().zip(alpha.chunks_exact(count)).zip(&beta);
        let mut before: Option<&[f64]> = None;
        for ((row, alpha), beta) in steps {
            let mut shares: Vec<f64> = alpha.iter().zip(beta).map(|(a, b)| a * b).collect();
            normalize(&mut shares);
            *shares.get_mut(chain.label(row)?).ok_or_else(lost)? -= 1.0;
            let add = |row: usize, places: &mut Vec<f64>| {
                let places = places.get_mut(row.saturating_mul(count)..).ok_or_else(lost)?;
                places.iter_mut().zip(&shares).for_each(|(place, share)| *place += share * given);
                Ok::<_, Finding>(())
            };
            add(row, &mut of_scores)?;
            if row == range.start {
                add(0, &mut of_weights)?;
            }
            if row + 1 == range.end {
                add(1, &mut of_weights)?;
            }
            if let Some(before) = before {
                let exps = chain.at(&chain.exps, row)?;
                let weighed: Vec<f64> =
                    exps.iter().zip(beta).map(|(exp, beta)| exp * beta).collect();
                let mut pairs = Vec::with_capacity(count.saturating_mul(count));
                for (number, share) in before.iter().enumerate() {
                    let weights = chain.at(&chain.weights, number + 2)?;
                    pairs.extend(weights.iter().zip(&weighed).map(|(a, b)| share * a * b));
                }
                normalize(&mut pairs);
                let right = chain.label(row - 1)?.saturating_mul(count) + chain.label(row)?;
                *pairs.get_mut(right).ok_or_else(lost)? -= 1.0;
                let places = of_weights.get_mut(2 * count..).ok_or_else(lost)?;
                places.iter_mut().zip(&pairs).for_each(|(place, pair)| *place += pair * given);
            }
            before = Some(alpha);
        }
    }
    let (dtype, labels) = (chain.dtype, count as u64);
    let mut scores = rounded(&of_scores, dtype, chain.shape);
    scores.lod = chain.lod;
    put(frame, step, "Emission@GRAD", scores)?;
    let shape = vec![labels.saturating_add(2), labels];
    put(frame, step, "Transition@GRAD", rounded(&of_weights, dtype, shape))
}

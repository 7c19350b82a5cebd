//! Optimizers of `ai.onnx.preview.training`.
//!
//! The inputs are the learning rate, the number of updates so far, all tensors, all gradients, and all states of each
//! kind; the outputs are the new tensors and states, in the same order.

use lodstone_schema::Finding;

use crate::call::{Call, Outputs, all};
use crate::error::Outcome;
use crate::operator::{Operator, TRAINING};
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Adagrad", |call| optimize::<1>(call, adagrad)).domain(TRAINING).working(24, 0),
    Operator::dense("Adam", |call| optimize::<2>(call, adam)).domain(TRAINING).working(28, 0),
    Operator::dense("Momentum", |call| optimize::<1>(call, momentum))
        .domain(TRAINING)
        .working(16, 0),
];

/// The update of one tensor.
struct Update<'a, const STATES: usize> {
    call: &'a Call<'a>,
    rate: f64,
    updates: f64,
    x: &'a Dense,
    /// The gradient, with that of the regularization.
    gradient: Dense,
    states: [&'a Dense; STATES],
}

/// Returns the new tensor and its new states.
type Rule<const STATES: usize> = fn(&Update<'_, STATES>) -> Outcome<(Dense, [Dense; STATES])>;

fn optimize<const STATES: usize>(call: &Call<'_>, rule: Rule<STATES>) -> Outputs {
    let number = |at: usize| {
        let list = call.input(at)?.to_doubles()?;
        list.first().copied().ok_or_else(|| Finding::from("expected a number").about_input(at))
    };
    let (rate, updates) = (number(0)?, number(1)?);
    let tensors = call.all();
    let tensors = tensors.get(2..).unwrap_or_default();
    let count = tensors.len() / (STATES + 2);
    if tensors.len() != count * (STATES + 2) {
        return Err(format!("expected {} tensors for each to train", STATES + 2).into());
    }
    let decay = f64::from(call.float("norm_coefficient", 0.0));
    let mut made = vec![Vec::new(); STATES + 1];
    for at in 0..count {
        let part = |kind: usize| {
            tensors.get(kind * count + at).ok_or_else(|| Finding::internal("a tensor is missing"))
        };
        let x = part(0)?;
        let gradient = x.scaled(decay)?.plus(part(1)?)?;
        let mut states = [x; STATES];
        for (kind, slot) in states.iter_mut().enumerate() {
            *slot = part(kind + 2)?;
        }
        let (new, states) = rule(&Update { call, rate, updates, x, gradient, states })?;
        for (list, item) in made.iter_mut().zip([new].into_iter().chain(states)) {
            list.push(item);
        }
    }
    all(made.into_iter().flatten())
}

fn adagrad(update: &Update<'_, 1>) -> Outcome<(Dense, [Dense; 1])> {
    let Update { call, x, gradient, states: [squares], .. } = update;
    let decay = f64::from(call.float("decay_factor", 0.0));
    let rate = update.rate / (1.0 + update.updates * decay);
    let squares = squares.plus(&gradient.times(gradient)?)?;
    let root = squares.root()?.shifted(call.float("epsilon", 1e-6).into())?;
    Ok((x.minus(&gradient.scaled(rate)?.over(&root)?)?, [squares]))
}

fn adam(update: &Update<'_, 2>) -> Outcome<(Dense, [Dense; 2])> {
    let Update { call, x, gradient, states: [means, squares], .. } = update;
    let (alpha, beta) = (f64::from(call.float("alpha", 0.9)), f64::from(call.float("beta", 0.999)));
    let means = means.scaled(alpha)?.plus(&gradient.scaled(1.0 - alpha)?)?;
    let squares = squares.scaled(beta)?.plus(&gradient.times(gradient)?.scaled(1.0 - beta)?)?;
    let root = squares.root()?.shifted(call.float("epsilon", 1e-6).into())?;
    // The corrections of the bias towards 0.
    let rate = match update.updates > 0.0 {
        true => {
            let left = |share: f64| 1.0 - share.powf(update.updates);
            update.rate * left(beta).sqrt() / left(alpha)
        }
        false => update.rate,
    };
    let new = x.minus(&means.over(&root)?.scaled(rate)?)?;
    let keep = 1.0 - f64::from(call.float("norm_coefficient_post", 0.0));
    Ok((new.scaled(keep)?, [means, squares]))
}

fn momentum(update: &Update<'_, 1>) -> Outcome<(Dense, [Dense; 1])> {
    let Update { call, x, gradient, states: [moves], .. } = update;
    let alpha = f64::from(call.float("alpha", 0.9));
    let beta = if update.updates > 0.0 { f64::from(call.float("beta", 0.9)) } else { 1.0 };
    let moves = moves.scaled(alpha)?.plus(&gradient.scaled(beta)?)?;
    let step = match call.choice("mode", &[("standard", false), ("nesterov", true)])? {
        true => gradient.plus(&moves.scaled(alpha)?)?,
        false => moves.clone(),
    };
    Ok((x.minus(&step.scaled(update.rate)?)?, [moves]))
}

//! Losses and accuracy.

use super::{elementwise, square};
use crate::program::error::Result;
use crate::program::network::{Network, Variable};
use crate::program::operator::Operator;

/// The negative logarithm of the label's probability. Intermediate results for its gradient are kept.
///
/// # Errors
/// If the dims of the label do not match.
pub fn cross_entropy(net: &mut Network, shares: &Variable, label: &Variable) -> Result<Variable> {
    let name = net.name("cross_entropy");
    let [matches, shape] = [0; 2].map(|_| Variable::named(&net.name(&format!("{name}.tmp"))));
    let entropy = Operator::new("cross_entropy2")
        .input("X", [shares])
        .input("Label", [label])
        .output("MatchX", [&matches])
        .output("XShape", [&shape]);
    net.call(&name, "Y", entropy)
}

/// The cross entropy with probabilities as labels.
///
/// # Errors
/// If the dims of the labels do not match.
pub fn soft_cross_entropy(
    net: &mut Network,
    shares: &Variable,
    labels: &Variable,
) -> Result<Variable> {
    let name = net.name("cross_entropy");
    let entropy = Operator::new("cross_entropy").input("X", [shares]).input("Label", [labels]);
    net.call(&name, "Y", entropy.attribute("soft_label", true))
}

/// The cross entropy of logits; returns the loss of each row.
///
/// # Errors
/// If the dims of the label do not match.
pub fn softmax_with_cross_entropy(
    net: &mut Network,
    logits: &Variable,
    label: &Variable,
) -> Result<Variable> {
    let name = net.name("softmax_with_cross_entropy");
    let softmax = Variable::named(&net.name(&format!("{name}.tmp")));
    let entropy = Operator::new("softmax_with_cross_entropy")
        .input("Logits", [logits])
        .input("Label", [label])
        .output("Softmax", [&softmax]);
    net.call(&name, "Loss", entropy)
}

/// The square of the difference.
///
/// # Errors
/// If the dims do not match.
pub fn square_error_cost(net: &mut Network, x: &Variable, label: &Variable) -> Result<Variable> {
    let difference = elementwise(net, "sub", x, label, -1)?;
    square(net, &difference)
}

/// The fraction of rows whose label is among the `k` largest.
///
/// # Errors
/// If the dims of the label do not match.
pub fn accuracy(net: &mut Network, x: &Variable, label: &Variable, k: i32) -> Result<Variable> {
    let name = net.name("accuracy");
    let [values, indices, correct, total] =
        [0; 4].map(|_| Variable::named(&net.name(&format!("{name}.tmp"))));
    let top =
        Operator::new("top_k_v2").input("X", [x]).attribute("k", k).attribute("sorted", false);
    net.append(top.output("Out", [&values]).output("Indices", [&indices]))?;
    let accuracy = Operator::new("accuracy")
        .input("Out", [&values])
        .input("Indices", [&indices])
        .input("Label", [label])
        .output("Correct", [&correct])
        .output("Total", [&total]);
    net.call(&name, "Accuracy", accuracy)
}

//! Losses.

use lodstone_model::Dim;

use super::Rule;
use super::dims::{merged, show};
use super::node::{Node, Outcome};

pub(super) const RULES: &[(&str, Rule)] =
    &[("NegativeLogLikelihoodLoss", likelihood), ("SoftmaxCrossEntropyLoss", entropy)];

/// Inputs: scores [batch, classes, ..] and labels [batch, ..]. Output: one value for each label, or one for all.
fn likelihood(node: &mut Node<'_>) -> Outcome {
    let scores = node.at_least(0, 2)?;
    let labels = node.shape(1);
    let each = match (scores, labels) {
        (Some([batch, _, rest @ ..]), Some(labels)) => {
            let expected: Vec<Dim> = std::iter::once(batch).chain(rest).cloned().collect();
            let both = expected.iter().zip(labels).map(|(a, b)| merged(a, b));
            let both = both.collect::<Option<Vec<_>>>();
            let both = both.filter(|_| expected.len() == labels.len());
            Some(both.ok_or_else(|| {
                format!("expected labels of {}, found {}", show(&expected), show(labels))
            })?)
        }
        (Some([batch, _, rest @ ..]), None) => {
            Some(std::iter::once(batch).chain(rest).cloned().collect())
        }
        (_, labels) => labels.map(<[Dim]>::to_vec),
    };
    if let (Some([_, classes, ..]), Some([weights])) = (scores, node.ranked(2, 1)?)
        && merged(classes, weights).is_none()
    {
        return Err(format!("expected weights for {classes} classes, found {weights}").into());
    }
    let is_reduced = node.choice("reduction", &[("mean", true), ("sum", true), ("none", false)])?;
    let shape = if is_reduced { Some(Vec::new()) } else { each };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

fn entropy(node: &mut Node<'_>) -> Outcome {
    likelihood(node)?;
    node.like(1, 0);
    Ok(())
}

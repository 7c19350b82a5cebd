//! Recurrent networks. Input: [time, batch, features]; output: [time, directions, batch, hidden].

use lodstone_model::Dim;

use super::Rule;
use super::dims::merged;
use super::node::{Node, Outcome};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] =
    &[("GRU", recurrent), ("LSTM", recurrent), ("RNN", recurrent)];

fn recurrent(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype([0, 1, 2])?;
    let directions = [("forward", 1), ("reverse", 1), ("bidirectional", 2)];
    let directions = Dim::Known(node.choice("direction", &directions)?);
    for index in [1, 2] {
        if let Some([found, ..]) = node.ranked(index, 3)?
            && merged(found, &directions).is_none()
        {
            return Err(Finding::from(format!(
                "expected {directions} directions of input {index}, found {found}"
            ))
            .about_input(index));
        }
    }
    // Recurrent weights are [directions, gates * hidden, hidden].
    let mut hidden = match node.shape(2) {
        Some([_, _, hidden]) => hidden.clone(),
        _ => Dim::Unknown,
    };
    if let Some(size) = node.int_attribute("hidden_size") {
        let size = u64::try_from(size).ok().filter(|size| *size > 0).map(Dim::Known);
        let size = size.ok_or("expected a `hidden_size` of at least 1")?;
        hidden = merged(&size, &hidden)
            .ok_or_else(|| format!("expected weights of `hidden_size` {size}, found {hidden}"))?;
    }
    let batch_first = node.flag("layout");
    let (time, batch) = match (node.ranked(0, 3)?, batch_first) {
        (Some([time, batch, _]), false) | (Some([batch, time, _]), true) => {
            (time.clone(), batch.clone())
        }
        _ => (Dim::Unknown, Dim::Unknown),
    };
    let (all, last) = match batch_first {
        false => (
            vec![time, directions.clone(), batch.clone(), hidden.clone()],
            vec![directions, batch, hidden],
        ),
        true => (
            vec![batch.clone(), time, directions.clone(), hidden.clone()],
            vec![batch, directions, hidden],
        ),
    };
    node.tensor(0, dtype, Some(all));
    node.tensor(1, dtype, Some(last.clone()));
    node.tensor(2, dtype, Some(last));
    Ok(())
}

//! Optimizers of the preview set, and gradients.

use lodstone_model::AttributeValue;

use super::Rule;
use super::node::{Node, Outcome};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] =
    &[("Adagrad", one), ("Adam", two), ("Gradient", gradient), ("Momentum", one)];

/// Inputs: values, gradients and states. Outputs: values and states.
fn optimizer(node: &mut Node<'_>, states: usize) -> Outcome {
    node.only_tensors()?;
    let count = node.inputs.len().saturating_sub(2);
    if !count.is_multiple_of(2 + states) || count == 0 {
        return Err(format!("expected {} inputs for each value, found {count}", 2 + states).into());
    }
    if let Some(index) = node.inputs.iter().position(Option::is_none) {
        let wrong = format!("expected an input {index}, found none");
        return Err(Finding::from(wrong).about_input(index));
    }
    let each = count / (2 + states);
    if node.outputs.len() != each * (1 + states) {
        let (expected, found) = (each * (1 + states), node.outputs.len());
        return Err(format!("expected {expected} outputs, found {found}").into());
    }
    for index in 0..each * (1 + states) {
        // The gradients lie between the values and the states.
        let input = if index < each { index } else { index + each };
        node.like(index, 2 + input);
    }
    Ok(())
}

fn one(node: &mut Node<'_>) -> Outcome {
    optimizer(node, 1)
}

fn two(node: &mut Node<'_>) -> Outcome {
    optimizer(node, 2)
}

/// A gradient has the type of the value that it belongs to.
fn gradient(node: &mut Node<'_>) -> Outcome {
    let by = match node.attribute("xs") {
        Some(AttributeValue::Strings(names)) => names.len(),
        _ => return Err(Finding::from("expected names in `xs`, found none").about_attribute("xs")),
    };
    (0..by.min(node.inputs.len())).for_each(|index| node.like(index, index));
    Ok(())
}

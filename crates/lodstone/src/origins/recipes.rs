//! Recipes as text.

use std::collections::HashSet;

use lodstone_model::{AttributeValue, DType, Made, Op, Recipe};
use serde::Serialize;

/// A step from parameters of a source to a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Step {
    /// The dims get another order.
    Permute,
    /// The elements get other dims.
    Reshape,
    /// A part of the elements.
    Slice,
    /// Tensors one after the other.
    Concat,
    /// Parts get another order, such as gates.
    Reorder,
    /// Another element type.
    Cast,
    /// A product with numbers that depend on no parameter.
    Scale,
    /// A sum with numbers that depend on no parameter.
    Shift,
    /// A sum of parameters.
    Sum,
    /// The parts of complex numbers.
    Parts,
    /// Another function.
    Other,
}

/// A recipe as text.
pub(super) struct Summary {
    pub(super) parameters: Vec<String>,
    pub(super) steps: Vec<Step>,
    pub(super) text: String,
    pub(super) invertible: bool,
}

/// The maximum number of steps that the text of a recipe has.
const MAX_SHOWN: usize = 24;

/// Returns the step that an operator is.
pub(super) fn step(op: &Op, inputs: &[Option<Recipe>]) -> Step {
    let is_literal = |input: &Option<Recipe>| {
        input.as_ref().is_none_or(|it| matches!(it.made(), Some(Made::Literal(_))))
    };
    let others = inputs.iter().filter(|input| !is_literal(input)).count();
    match op.kind.as_str() {
        "Transpose" => Step::Permute,
        "Flatten" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" => Step::Reshape,
        "Slice" | "Split" => Step::Slice,
        "Concat" => Step::Concat,
        "Gather" if others == 1 => Step::Reorder,
        "Cast" => Step::Cast,
        "Div" | "Mul" | "Neg" if others == 1 => Step::Scale,
        "Add" | "Sub" if others == 1 => Step::Shift,
        "Add" | "Sub" | "Sum" => Step::Sum,
        _ => Step::Other,
    }
}

/// Returns what a recipe says.
pub(super) fn summary(recipe: &Recipe) -> Summary {
    let (mut parameters, mut steps) = (Vec::new(), Vec::new());
    let mut invertible = true;
    let (mut open, mut seen) = (vec![recipe], HashSet::new());
    while let Some(recipe) = open.pop() {
        if !seen.insert(recipe.id()) {
            continue;
        }
        match recipe.made() {
            Some(Made::Parameter(name)) => parameters.push(name.clone()),
            Some(Made::Computed { op, inputs, .. }) => {
                let step = step(op, inputs);
                invertible &= !matches!(step, Step::Other | Step::Sum);
                steps.push(step);
                open.extend(inputs.iter().rev().flatten());
            }
            Some(Made::Parts(of)) => {
                steps.push(Step::Parts);
                open.push(of);
            }
            Some(Made::Cast { of, .. }) => {
                steps.push(Step::Cast);
                open.push(of);
            }
            Some(Made::TooLong) => {
                invertible = false;
                steps.push(Step::Other);
            }
            Some(Made::Literal(_)) | None => {}
            Some(_) => invertible = false,
        }
    }
    let mut text = String::new();
    let mut left = MAX_SHOWN;
    if !steps.is_empty() {
        write(recipe, &mut text, &mut left);
    }
    Summary { parameters, steps, text, invertible }
}

/// Writes a recipe as an expression; recursion ends with the number of steps that are shown.
fn write(recipe: &Recipe, text: &mut String, left: &mut usize) {
    let Some(fewer) = left.checked_sub(1) else {
        text.push_str("...");
        return;
    };
    *left = fewer;
    match recipe.made() {
        Some(Made::Parameter(name)) => text.push_str(name),
        Some(Made::Literal(tensor)) => {
            text.push_str(&format!("{} {:?}", DType::to_string(&tensor.dtype), tensor.shape));
        }
        Some(Made::Computed { op, inputs, .. }) => {
            text.push_str(&op.kind);
            text.push('(');
            for (number, input) in inputs.iter().enumerate() {
                if number > 0 {
                    text.push_str(", ");
                }
                match input {
                    Some(input) => write(input, text, left),
                    None => text.push_str("none"),
                }
            }
            for attribute in &op.attributes {
                let value = match &attribute.value {
                    AttributeValue::Long(value) => value.to_string(),
                    AttributeValue::Longs(values) => format!("{values:?}"),
                    AttributeValue::Float(value) => value.to_string(),
                    AttributeValue::String(value) => value.to_string(),
                    _ => "...".to_owned(),
                };
                text.push_str(&format!(", {}={value}", attribute.name));
            }
            text.push(')');
        }
        Some(Made::Parts(of)) => {
            text.push_str("parts(");
            write(of, text, left);
            text.push(')');
        }
        Some(Made::Cast { of, to, .. }) => {
            text.push_str(&format!("{to}("));
            write(of, text, left);
            text.push(')');
        }
        _ => text.push_str("..."),
    }
}

//! What operators record for training, which inference does not need.

use lodstone_model::{AttributeValue, Op};

/// What an operator records for training, in the meaning of its framework.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Training {
    /// The fraction of elements that a dropout drops.
    pub dropout: Option<f64>,
    /// How a dropout scales, or when it drops, by the name that the framework has for it.
    pub mode: Option<String>,
    /// The momentum of running statistics.
    pub momentum: Option<f64>,
    /// What a normalization adds to the variance.
    pub epsilon: Option<f64>,
    /// Whether the operator behaves as in inference, if it records that.
    pub is_test: Option<bool>,
}

impl Training {
    /// Whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The attributes of operators of a dialect that matter for training, with their defaults.
#[derive(Debug)]
pub(crate) struct Row {
    /// The kinds of the operators, without overloads.
    pub(crate) kinds: &'static [&'static str],
    pub(crate) dropout: Option<(&'static str, f64)>,
    pub(crate) mode: Option<(&'static str, &'static str)>,
    pub(crate) momentum: Option<(&'static str, f64)>,
    pub(crate) epsilon: Option<(&'static str, f64)>,
    /// The attribute, its default, and whether it is true in training rather than in inference.
    pub(crate) is_test: Option<(&'static str, bool, bool)>,
}

impl Row {
    /// A row without facts.
    pub(crate) const NONE: Self = Self {
        kinds: &[],
        dropout: None,
        mode: None,
        momentum: None,
        epsilon: None,
        is_test: None,
    };
}

/// Returns what an operator records for training, by the row of its kind.
pub(crate) fn training(rows: &[Row], kind: &str, op: &Op) -> Training {
    let Some(row) = rows.iter().find(|row| row.kinds.contains(&kind)) else {
        return Training::default();
    };
    let found = |name: &str| op.attribute(name);
    Training {
        dropout: row.dropout.map(|(name, default)| number(found(name)).unwrap_or(default)),
        mode: row.mode.map(|(name, default)| match found(name) {
            Some(AttributeValue::String(text)) => text.to_string(),
            _ => default.to_owned(),
        }),
        momentum: row.momentum.map(|(name, default)| number(found(name)).unwrap_or(default)),
        epsilon: row.epsilon.map(|(name, default)| number(found(name)).unwrap_or(default)),
        is_test: row.is_test.map(|(name, default, trains)| {
            let value = number(found(name)).map_or(default, |value| value != 0.0);
            value != trains
        }),
    }
}

/// Returns the number that an attribute holds, in some dialects as text.
fn number(value: Option<&AttributeValue>) -> Option<f64> {
    Some(match value? {
        AttributeValue::Bool(value) => f64::from(u8::from(*value)),
        AttributeValue::Int(value) => f64::from(*value),
        #[expect(clippy::cast_precision_loss, reason = "flags and small numbers")]
        AttributeValue::Long(value) => *value as f64,
        // The number that the framework's text for it stands for.
        AttributeValue::Float(value) => value.to_string().parse().ok()?,
        AttributeValue::Double(value) => *value,
        AttributeValue::String(text) => match text.to_string().as_str() {
            "True" | "true" => 1.0,
            "False" | "false" => 0.0,
            text => text.parse().ok()?,
        },
        _ => return None,
    })
}

//! What Glow accepts.

use lodstone_model::Model;

use crate::Findings;

/// What is wrong with a model by Glow's rules.
pub fn check(_model: &Model) -> Findings {
    Findings::default()
}

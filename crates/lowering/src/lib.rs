//! Programs of one framework in the operators of another.
//!
//! What the other has no words for is lost by name, or stops it: nothing is guessed, and every operator
//! that stops it is told at once.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

pub mod glow;
mod onnx;
pub mod paddle;

use std::fmt;

use lodstone_model::{Dialect, Model, Programs, Report};
use lodstone_schema::{Findings, Origins};

/// A program that cannot be said in other operators.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LowerError {
    /// Whose operators it would have had.
    pub to: Dialect,
    /// What stands in the way, with its place.
    pub findings: Findings,
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.findings.count();
        let have = if count == 1 { "operator has" } else { "operators have" };
        write!(f, "{count} {have} no {} equivalent", self.to.framework())?;
        self.findings.told.iter().try_for_each(|finding| write!(f, "; {finding}"))
    }
}

impl std::error::Error for LowerError {}

/// Translates the main program of a model.
type Way = fn(&Model, &mut Report) -> Result<(Model, Origins), Findings>;

fn way(from: Dialect, to: Dialect) -> Option<Way> {
    match from {
        Dialect::Glow if to == Dialect::Onnx => Some(glow::to_onnx),
        Dialect::Onnx if to == Dialect::Glow => Some(glow::from_onnx),
        Dialect::Glow | Dialect::Onnx | Dialect::Paddle | Dialect::Mxnet => None,
    }
}

/// Whether programs of one dialect can be translated to another.
pub fn can_lower(from: Dialect, to: Dialect) -> bool {
    from == to || way(from, to).is_some()
}

/// Makes the main program of a model one of `to`, and its parameters what that needs; losses are added to `report`.
/// Returns what became of the values of its main graph. A model without a program, or with one of `to`, stays as it is.
///
/// `None` if there is no way from the one to the other; then nothing is changed.
///
/// # Errors
/// If operators, or what they are given, cannot be said; then nothing is changed.
pub fn lower(
    model: &mut Model,
    to: Dialect,
    report: &mut Report,
) -> Option<Result<Origins, LowerError>> {
    let way = way(model.main()?.dialect, to)?;
    let lowered = way(model, report).map_err(|findings| LowerError { to, findings });
    Some(lowered.map(|(mut lowered, origins)| {
        for (name, program) in std::mem::take(&mut model.programs) {
            if name != Programs::MAIN {
                lowered.programs.insert(&name, program);
            }
        }
        *model = lowered;
        origins
    }))
}

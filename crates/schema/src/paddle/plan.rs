//! How the operators of a network run that only computes outputs from inputs: planned together, as its export to ONNX, or
//! each on its own.

/// How a network with an operator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// As a whole: the export of the operator computes what the executor does, except for NaN and negative indices.
    Whole,
    /// Like its other operators: the operator is the interface of the network.
    Interface,
    /// Operator by operator, for a reason.
    Apart(&'static Reason),
}

/// A reason why networks with an operator run operator by operator.
#[derive(Debug, PartialEq, Eq)]
pub struct Reason {
    /// The value of the column: `boxes`.
    pub name: &'static str,
    /// The reason in words, for documents.
    pub text: &'static str,
}

/// The reasons, from those that a plan rules out to those that work would remove.
pub static REASONS: [Reason; 8] = [
    Reason { name: "effect", text: "effects have an order" },
    Reason { name: "gradient", text: "gradients read intermediate values" },
    Reason { name: "values", text: "their values have LoD, or are not tensors" },
    Reason { name: "native", text: "ONNX has no equivalent" },
    Reason { name: "indices", text: "labels and indices out of range are errors" },
    Reason { name: "boxes", text: "an image without boxes has a row" },
    Reason { name: "rounding", text: "rounding to 8 bits differs from ONNX's by halves" },
    Reason { name: "uncompared", text: "their export has not been compared with the executor" },
];

impl Plan {
    /// Parses the column; the outer `None` is an unknown value, the inner one `-`.
    pub(super) fn parse(word: &str) -> Option<Option<Self>> {
        Some(Some(match word {
            "-" => return Some(None),
            "whole" => Self::Whole,
            "interface" => Self::Interface,
            reason => Self::Apart(REASONS.iter().find(|known| known.name == reason)?),
        }))
    }
}

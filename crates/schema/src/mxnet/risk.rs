//! Side effects of MXNet's operators.
//!
//! Source of truth: the operators of MXNet 0.9 to 1.9.1.

use crate::Risk;

const OPERATORS: &[(Risk, &[&str])] = &[
    (
        Risk::Runs,
        &[
            "Custom",
            "_npi_Custom",
            "_Native",
            "_NDArray",
            "TorchModule",
            "TorchCriterion",
            "CaffeOp",
            "CaffeLoss",
            "_TensorRT",
        ],
    ),
    (Risk::Reads, &["_cvimread", "_npi_cvimread", "CaffeData"]),
];

/// Returns the side effect of the operator `name`, if any.
pub(super) fn risk(name: &str) -> Option<Risk> {
    OPERATORS.iter().find(|(_, names)| names.contains(&name)).map(|(risk, _)| *risk)
}

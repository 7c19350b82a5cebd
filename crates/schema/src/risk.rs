//! What operators do beyond computing: who runs a model that has them should know.
//!
//! Those of PaddlePaddle are in the rows of its operators. Source of truth: the operators of MXNet 0.9 to 1.9.1.

/// What an operator does beyond computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Risk {
    /// It reads files.
    Reads,
    /// It writes files.
    Writes,
    /// It runs code that is not the framework's.
    Runs,
    /// It talks to other machines.
    Connects,
}

impl Risk {
    /// The risk that a table of operators names.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "reads" => Self::Reads,
            "writes" => Self::Writes,
            "runs" => Self::Runs,
            "connects" => Self::Connects,
            _ => return None,
        })
    }

    /// What it does, for a message.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Reads => "reads files",
            Self::Writes => "writes files",
            Self::Runs => "runs code that is not the framework's",
            Self::Connects => "talks to other machines",
        }
    }
}

const MXNET: &[(Risk, &[&str])] = &[
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

/// What the operator `name` of MXNet does beyond computing.
pub(crate) fn of_mxnet(name: &str) -> Option<Risk> {
    MXNET.iter().find(|(_, names)| names.contains(&name)).map(|(risk, _)| *risk)
}

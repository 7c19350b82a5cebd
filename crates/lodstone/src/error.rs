//! The errors of this crate.

use std::collections::BTreeMap;

use lodstone_model::{DType, Dialect, Loss, Model, some};
use lodstone_schema::{Finding, Findings};

use crate::byte_map::mapped_kinds;

#[cfg(feature = "runtime")]
use crate::runtime;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of opening or converting a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A model was replaced during verification; the findings apply to neither version.
    #[error("`{}` changed during verification: verify it again", .0.display())]
    ChangedMeanwhile(std::path::PathBuf),
    /// A program has more operators than the drawing limit.
    #[error("the program has {operators} operators, but the limit for graphs is {limit}")]
    TooLarge {
        /// The number of operators.
        operators: usize,
        /// The maximum number of operators.
        limit: usize,
    },
    /// A file that cannot be read or written in its format.
    #[error(transparent)]
    Format(#[from] lodstone_formats::Error),
    /// A conversion would lose something that is not allowed.
    #[error("{}", describe(.0))]
    Lossy(BTreeMap<Loss, Vec<String>>),
    /// A file, or the files of a model, whose kind has no byte map.
    #[error("`{}` has no byte map, expected {kinds}", .0.display(), kinds = mapped_kinds())]
    Unmapped(std::path::PathBuf),
    /// An unknown format name.
    #[error("unknown format `{0}`; the formats are {names}", names = format_names())]
    UnknownFormat(String),
    /// The output path does not determine a format.
    #[error("cannot determine the format of `{0}` from its name")]
    UnclearTarget(String),
    /// The name of a callable to accept has another form than `MODULE.NAME`.
    #[error("`{name}` is not the name of a callable: expected `MODULE.NAME`, without wildcards")]
    NotACallable {
        /// The name.
        name: String,
    },
    /// An invalid pattern for names of tensors.
    #[error("invalid pattern `{pattern}`: {why}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The reason.
        why: String,
    },
    /// An invalid map of names.
    #[error("invalid name map, {place}: {why}")]
    Renames {
        /// The location in the map.
        place: String,
        /// The reason.
        why: String,
    },
    /// Elements that cannot be cast.
    #[error("cannot cast to {to}, expected float16, bfloat16, float32 or float64")]
    Cast {
        /// The target element type.
        to: DType,
    },
    /// A program that no lowering translates to the operators of the target format.
    #[error("converting {} programs to {format} is not supported", from.framework())]
    NoLowering {
        /// The dialect of the program.
        from: Dialect,
        /// The target format.
        format: &'static str,
    },
    /// A cast of parameters whose program would still compute with their old element types.
    #[error(
        "casting the parameters of a program is not supported: its operators would not accept them"
    )]
    CastProgram,
    /// A cast program that breaks the rules of its framework.
    #[error("the program is not valid after a cast to {to}{}", listed(findings))]
    InvalidCast {
        /// The target element type.
        to: DType,
        /// The broken rules.
        findings: Findings,
    },
    /// Text output failed.
    #[error("cannot write: {0}")]
    Output(#[source] std::io::Error),
    /// Operators that cannot be upgraded to another version.
    #[error(transparent)]
    Upgrade(#[from] lodstone_schema::onnx::UpgradeError),
    /// The program cannot be written with an older opset.
    #[error(transparent)]
    Downgrade(#[from] lodstone_schema::onnx::DowngradeError),
    /// Operators that have no equivalent in another framework.
    #[error(transparent)]
    Lower(#[from] lodstone_lowering::LowerError),
    /// ONNX Runtime cannot be loaded, or cannot run a program.
    #[cfg(feature = "runtime")]
    #[error("ONNX Runtime: {0}")]
    OnnxRuntime(String),
    /// A program cannot be run by the executor of its framework, or its run failed.
    #[cfg(feature = "runtime")]
    #[error(transparent)]
    Run(#[from] runtime::executor::Error),
    /// A program cannot be built.
    #[cfg(feature = "runtime")]
    #[error(transparent)]
    Build(#[from] runtime::program::Error),
    /// The engine cannot run a program, or its run failed.
    #[cfg(feature = "runtime")]
    #[error(transparent)]
    Engine(#[from] lodstone_engine::Error),
    /// A checkpoint cannot be saved or read, or is damaged.
    #[error(transparent)]
    Checkpoint(#[from] lodstone_checkpoint::Error),
    /// A checkpoint cannot be made from a program or restored into one.
    #[cfg(feature = "runtime")]
    #[error(transparent)]
    Restore(runtime::checkpoint::Error),
    /// Something that the model does not contain.
    #[error("{0}")]
    Absent(String),
    /// An input of a run without a value, by name.
    #[error("the input `{0}` is missing")]
    MissingInput(String),
    /// A bug in this library, not a problem of the model.
    #[error(transparent)]
    Internal(Finding),
}

impl From<Finding> for Error {
    fn from(finding: Finding) -> Self {
        Self::Internal(finding)
    }
}

impl From<lodstone_store::Error> for Error {
    fn from(error: lodstone_store::Error) -> Self {
        Self::Format(error.into())
    }
}

#[cfg(feature = "runtime")]
impl From<runtime::checkpoint::Error> for Error {
    fn from(error: runtime::checkpoint::Error) -> Self {
        match error {
            runtime::checkpoint::Error::Serial(error) => Self::Checkpoint(error),
            error => Self::Restore(error),
        }
    }
}

fn format_names() -> String {
    let names: Vec<_> = lodstone_formats::FORMATS.iter().map(|format| format.name).collect();
    names.join(", ")
}

fn describe(losses: &BTreeMap<Loss, Vec<String>>) -> String {
    let lost = losses
        .iter()
        .map(|(loss, places)| format!("{} (`{loss}`): {}", loss.describe(), some(places)));
    format!("the conversion would lose {}", lost.collect::<Vec<_>>().join("; and "))
}

/// Formats findings as the end of a message.
fn listed(findings: &Findings) -> String {
    findings.located.iter().map(|finding| format!("; {finding}")).collect()
}

/// Returns the error for a model without a main program, which names the others.
pub(crate) fn no_program(model: &Model) -> Error {
    let names = some(model.programs.iter().map(|(name, _)| format!("`{name}`")));
    Error::Absent(match names.is_empty() {
        true => "the model has no program".to_owned(),
        false => format!("the model has no main program, only {names}"),
    })
}

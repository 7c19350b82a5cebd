//! The errors of this crate.

mod kind;

use std::collections::BTreeMap;

use lodstone_model::{DType, Dialect, Loss, Model, Programs, some};
use lodstone_schema::finding::Code;
use lodstone_schema::{Finding, Findings};

use crate::byte_map::mapped_kinds;
use crate::names::similar;

#[cfg(feature = "runtime")]
use crate::dialects::runtime;

pub use kind::ErrorKind;

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
    /// A format of the shards that several processes save: a model is [divided](crate::reshard()) into them.
    #[error("{format} holds the shards of several processes, into which a model is divided")]
    Shards {
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
    /// The model has no program with this name.
    #[error("{}", without_program(name, others))]
    NoProgram {
        /// The name of the program, usually [`Programs::MAIN`].
        name: String,
        /// The names of the programs that the model has.
        others: Vec<String>,
    },
    /// A program that breaks a rule or contradicts itself, so that it cannot be used as requested.
    #[error("{what}: {finding}")]
    InvalidProgram {
        /// What is impossible: "the program does not run".
        what: &'static str,
        /// The problem of the program.
        finding: Finding,
    },
    /// An option that contradicts another, that does not fit the model or the format, or that is required.
    #[error("{why}")]
    InvalidOption {
        /// The field of the options: `keep_io` for [`ConvertOptions::keep_io`](crate::ConvertOptions::keep_io).
        option: &'static str,
        /// The problem.
        why: String,
    },
    /// Patterns that match nothing.
    #[error("no {what} matches {}", some(quoted(patterns)))]
    NoMatch {
        /// What the patterns select: "tensor", "matrix".
        what: &'static str,
        /// The patterns.
        patterns: Vec<String>,
    },
    /// An operation that is not implemented for these models or tensors.
    #[error("{operation} is not supported{}", because(why))]
    NotSupported {
        /// The operation and its object: "running programs of a framework".
        operation: String,
        /// The reason, if it is not obvious.
        why: Option<&'static str>,
    },
    /// A constant of an export that cannot be computed from the parameters of its source, or put back into them.
    #[cfg(feature = "runtime")]
    #[error("{operation} `{name}`: {why}")]
    Recipe {
        /// "rebuilding" or "restoring".
        operation: &'static str,
        /// The name of the constant, or of the parameter.
        name: String,
        /// The problem.
        why: String,
    },
    /// The model has no tensor with this name.
    #[error("there is no tensor `{name}`{}", most_similar(similar))]
    NoSuchTensor {
        /// The name.
        name: String,
        /// The most similar names, the best one first.
        similar: Vec<String>,
    },
    /// The model has no tensor with this index.
    #[error(
        "there is no tensor with index {index}: indices begin at 0, and there are {count} tensors"
    )]
    NoSuchIndex {
        /// The index.
        index: usize,
        /// The number of tensors.
        count: usize,
    },
    /// Several tensors have this name, if the prefix for the kind of variable is omitted.
    #[error("`{name}` is ambiguous: it matches {}", quoted(names).join(", "))]
    AmbiguousTensor {
        /// The name.
        name: String,
        /// The whole names that it matches.
        names: Vec<String>,
    },
    /// The model has several tensors, where one is expected.
    #[error("the model has {count} tensors, expected a single one")]
    SeveralTensors {
        /// The number of tensors.
        count: usize,
    },
    /// The model has no tensors to read or write.
    #[error("the model has no tensors")]
    NoTensors,
    /// Two tensors or variables would have the same name.
    #[error("two {what} would have the name `{name}`")]
    DuplicateName {
        /// The kind of values: "tensors", "variables".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A tensor whose elements are in no file.
    #[error("the files do not contain the elements of the tensor")]
    NoElements,
    /// A tensor of which no file has a byte map.
    #[error("there is no byte map of `{name}`: {why}")]
    UnmappedTensor {
        /// The name of the tensor.
        name: String,
        /// The reason.
        why: String,
    },
    /// Variables of a program without a value, by name.
    #[error("variables have no value: {}", some(quoted(.0)))]
    NoValues(Vec<String>),
    /// The program has no input with this name.
    #[error("there is no input `{name}`{}", known_inputs(similar, inputs))]
    NoSuchInput {
        /// The name.
        name: String,
        /// The most similar names, the best one first.
        similar: Vec<String>,
        /// The names of all inputs.
        inputs: Vec<String>,
    },
    /// An input of a run without a value, by name.
    #[error("the input `{0}` is missing")]
    MissingInput(String),
    /// The rank of an input is neither declared nor given, by name.
    #[error("the input `{0}`: its rank is not declared")]
    UnknownShape(String),
    /// A value, type or shape that does not fit an input.
    #[error("the input `{name}`: {why}")]
    InvalidInput {
        /// The name of the input.
        name: String,
        /// The problem.
        why: String,
    },
    /// A run has more values than the program has inputs.
    #[error("too many inputs, expected at most {max}")]
    TooManyInputs {
        /// The number of inputs of the program.
        max: usize,
    },
    /// Two models whose inputs have different names and numbers.
    #[error("cannot pair inputs by name or position: the models have {a} and {b} inputs")]
    UnpairedInputs {
        /// The number of inputs of the first model.
        a: usize,
        /// The number of inputs of the second model.
        b: usize,
    },
    /// The program computes no value with this name.
    #[error("the program computes no value `{name}`{}", most_similar(similar))]
    NoSuchOutput {
        /// The name.
        name: String,
        /// The most similar names, the best one first.
        similar: Vec<String>,
    },
    /// A computed value that cannot be returned as expected.
    #[error("the output `{name}`: {why}")]
    InvalidOutput {
        /// The name of the value.
        name: String,
        /// The problem.
        why: String,
    },
    /// A bug in this library, not a problem of the model.
    #[error(transparent)]
    Internal(Finding),
}

impl Error {
    /// Returns the error for a problem of the program, unless the problem is a bug in this library.
    pub(crate) fn program(what: &'static str, finding: Finding) -> Self {
        Self::unless_internal(finding, |finding| Self::InvalidProgram { what, finding })
    }

    /// Returns the error for a problem of a computed value, unless the problem is a bug in this library.
    pub(crate) fn output(name: &str, finding: Finding) -> Self {
        let name = name.to_owned();
        Self::unless_internal(finding, |Finding { message: why, .. }| Self::InvalidOutput {
            name,
            why,
        })
    }

    /// Returns the error for a problem of an input, unless the problem is a bug in this library.
    pub(crate) fn input(name: impl Into<String>, finding: Finding) -> Self {
        let name = name.into();
        Self::unless_internal(finding, |Finding { message: why, .. }| Self::InvalidInput {
            name,
            why,
        })
    }

    /// Returns the error for an unknown input.
    pub(crate) fn no_input<'n>(name: &str, inputs: impl IntoIterator<Item = &'n str>) -> Self {
        let inputs: Vec<&str> = inputs.into_iter().collect();
        let similar = similar(name, inputs.iter().copied());
        let inputs = inputs.into_iter().map(str::to_owned).collect();
        Self::NoSuchInput { name: name.to_owned(), similar, inputs }
    }

    fn unless_internal(finding: Finding, or: impl FnOnce(Finding) -> Self) -> Self {
        match finding.code {
            Code::Internal => Self::Internal(finding),
            _ => or(finding),
        }
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

/// Returns the error for a model without a main program.
pub(crate) fn no_program(model: &Model) -> Error {
    no_program_called(model, Programs::MAIN)
}

/// Returns the error for a model without a program of this name.
pub(crate) fn no_program_called(model: &Model, name: &str) -> Error {
    let others = model.programs.iter().map(|(name, _)| name.to_owned()).collect();
    Error::NoProgram { name: name.to_owned(), others }
}

fn without_program(name: &str, others: &[String]) -> String {
    let known = some(quoted(others));
    match (name, known.as_str()) {
        (Programs::MAIN, "") => "the model has no program".to_owned(),
        (Programs::MAIN, known) => format!("the model has no main program, only {known}"),
        (name, "") => format!("no program `{name}`: the model has no programs"),
        (name, known) => format!("no program `{name}`: the model has {known}"),
    }
}

fn quoted(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("`{name}`")).collect()
}

/// Formats a reason as the end of a message.
fn because(why: &Option<&'static str>) -> String {
    why.map(|why| format!(": {why}")).unwrap_or_default()
}

/// Formats similar names as the end of a message.
fn most_similar(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => format!("; the most similar name is `{only}`"),
        names => format!("; the most similar names are {}", quoted(names).join(", ")),
    }
}

/// Formats the similar inputs, or all inputs, as the end of a message.
fn known_inputs(similar: &[String], inputs: &[String]) -> String {
    match similar {
        [] if !inputs.is_empty() => format!("; the inputs are {}", some(quoted(inputs))),
        similar => most_similar(similar),
    }
}

//! Hints: how a caller in Python can resolve an error.

use lodstone::checkpoint::Error as CheckpointError;
use lodstone::finding::Code;
use lodstone::formats::Error as FormatError;
use lodstone::program::Error as ProgramError;
use lodstone::store::Error as StoreError;
use lodstone::{Error, Loss};

/// Lists the names of tensors.
const TENSORS: &str = "`list(model)` returns the names of the tensors";

/// Writes the tensors of a model whose program prevents it from being written.
const WEIGHTS: &str = "pass `weights_only=True` to write the tensors without the program";

/// The keyword arguments, by the names of the options in the library, and the hints about them.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("align", "align", "omit `align`"),
    ("batch", "batch_size", "pass another `batch_size`"),
    ("custom_domain", "custom_ops", "omit `custom_ops`"),
    ("engine", "engine", "omit `engine`"),
    ("exclude", "exclude", TENSORS),
    ("external_data", "external_data", "omit `external_data`"),
    ("fetch", "fetch", "pass `fetch`"),
    ("include", "include", TENSORS),
    ("infer_shapes", "infer_shapes", "omit `infer_shapes`"),
    ("input_shapes", "input_shapes", "omit `input_shapes`"),
    ("input_types", "input_types", "omit `input_types`, or `types` of a run"),
    ("input_values", "input_values", "omit `input_values`"),
    ("keep_io", "keep_io", "omit `keep_io`"),
    ("lod", "lod", "omit `lod`"),
    ("max_memory", "memory_limit", "omit `memory_limit`"),
    ("max_shard_size", "max_shard_size", "omit `max_shard_size`"),
    ("max_steps", "max_steps", "omit `max_steps`"),
    ("names", "names", "omit `names`"),
    ("opset", "opset", "omit `opset`"),
    ("outputs", "outputs", "omit `outputs`"),
    ("profile", "profile", "omit `profile`"),
    (
        "samples",
        "batch_size",
        "pass the `batch_size` and `shuffle` that the checkpoint was saved with",
    ),
    ("to", "to", "pass another format as `to`"),
    ("transpose", "transpose", WEIGHTS),
    ("weights_only", "weights_only", "omit `weights_only`, or pass another format as `to`"),
];

/// Returns the keyword argument of an option of the library.
pub(crate) fn keyword(option: &str) -> &str {
    row(option).map_or(option, |(_, keyword, _)| keyword)
}

fn row(option: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    OPTIONS.iter().find(|(name, ..)| *name == option)
}

/// Returns the hint for an error.
pub(crate) fn of(error: &Error) -> Option<String> {
    let hint = match error {
        Error::Lossy(losses) if losses.keys().eq([&Loss::Program]) => {
            match losses.values().flatten().all(|lost| lost.starts_with("the program `")) {
                true => "pass `program=\"main\"` to convert the main program alone",
                false => WEIGHTS,
            }
        }
        Error::Lossy(losses) => {
            let names: Vec<_> = losses.keys().map(|loss| format!("\"{}\"", loss.name())).collect();
            return Some(format!("pass `allow=[{}]` to accept this loss", names.join(", ")));
        }
        Error::UnclearTarget(_) => "pass the format as `to`",
        Error::Lower(error) if error.findings.has(Code::UnknownDims) => {
            "pass `input_shapes={\"NAME\": (1, 3, 224, 224)}` to fix the shape of an input"
        }
        Error::Lower(error) if error.findings.has(Code::NoParameter) => {
            "pass `params` to read the parameters from another file or directory"
        }
        Error::NoLowering { .. } | Error::CastProgram => WEIGHTS,
        Error::Shards { .. } => "the command `lodstone checkpoint reshard` divides a model",
        Error::Format(error) => return of_format(error),
        Error::Checkpoint(CheckpointError::Absent { .. }) => {
            "`lodstone.checkpoint.steps(directory)` lists the steps that exist"
        }
        Error::Checkpoint(CheckpointError::Format(error)) => return of_format(error),
        Error::Checkpoint(CheckpointError::Store(error)) => return of_store(error),
        Error::Build(ProgramError::UnknownOrder { .. }) => {
            "pass `program`, which saves the file, or the names of its records"
        }
        Error::Build(ProgramError::Format(error)) => return of_format(error),
        Error::InvalidOption { option, .. } => row(option).map(|(.., hint)| *hint)?,
        Error::NoProgram { others, .. } => {
            return others.first().map(|name| format!("open the model with `program=\"{name}\"`"));
        }
        Error::NoSuchTensor { .. } | Error::NoSuchIndex { .. } | Error::NoMatch { .. } => TENSORS,
        Error::AmbiguousTensor { names, .. } => {
            return names.first().map(|name| format!("pass the whole name, such as `{name}`"));
        }
        Error::DuplicateName { .. } => "give it another name in `rename`",
        Error::NoValues(_) => {
            "pass their values as `params`, or the program that initializes them as `startup`"
        }
        Error::NoSuchInput { .. } | Error::TooManyInputs { .. } | Error::UnpairedInputs { .. } => {
            "`model.session().inputs` has the names of the inputs"
        }
        Error::MissingInput(_) => "`model.random_inputs()` returns random values of all inputs",
        Error::UnknownShape(name) => {
            return Some(format!("pass its shape with `shapes={{\"{name}\": (1, 3, 224, 224)}}`"));
        }
        Error::NoSuchOutput { .. } => {
            "`model.program[\"operators\"]` lists the values of the program"
        }
        Error::Internal(_) => "this is a bug in Lodstone: report it with the call and the model",
        _ => return None,
    };
    Some(hint.to_owned())
}

fn of_format(error: &FormatError) -> Option<String> {
    let hint = match error.cause() {
        FormatError::Mismatch { .. } | FormatError::AmbiguousParams { .. } => {
            "pass the path of the parameters as `params`"
        }
        FormatError::Unsupported { .. } => "`lodstone.scan` lists its risks",
        FormatError::NoProgram { alone, .. } => {
            return Some(format!("pass `to=\"{alone}\"`, or open the program with its parameters"));
        }
        FormatError::Store(error) => return of_store(error),
        FormatError::Unsealed { .. } => {
            "`lodstone.seal` adds it to the seal; pass `verify=False` to read it anyway"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn of_store(error: &StoreError) -> Option<String> {
    let hint = match error {
        StoreError::Exists { .. } => "remove it, write to another path, or omit `no_clobber`",
        StoreError::Limit { limit, .. } if limit.is_option() => {
            "pass `raise_limits=10` if you trust the file; it may take ten times the memory"
        }
        StoreError::Damaged { .. } | StoreError::Resized { .. } | StoreError::Unusable { .. } => {
            "`lodstone.verify` lists all damage; pass `verify=False` to read it anyway; \
             `lodstone.seal(path, replace=True)` seals the current contents"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

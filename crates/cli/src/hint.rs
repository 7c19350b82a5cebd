//! Hints: how the user can resolve an error.

use std::error::Error;

use lodstone::Error as Lodstone;
use lodstone::Loss;
use lodstone::finding::Code;

/// Lists the names of tensors.
const TENSORS: &str = "run `lodstone inspect --tensors MODEL` to list the tensors";

/// Writes the tensors of a model whose program prevents it from being written.
const WEIGHTS: &str = "pass --weights-only to write the tensors without the program";

/// The hints about options, by their names in the library. Others are named by their message alone.
const OPTIONS: &[(&str, &str)] = &[
    ("align", "omit --align"),
    ("axes", "omit --axis, which distributed checkpoints alone have"),
    ("batch", "pass another --batch-size N"),
    ("custom_domain", "omit --custom-ops"),
    ("engine", "omit --engine"),
    ("exclude", TENSORS),
    ("external_data", "omit --external-data"),
    ("fetch", "pass --fetch NAME"),
    ("include", TENSORS),
    ("infer_shapes", "omit --infer-shapes"),
    ("input_shapes", "omit --input-shape"),
    ("input_types", "omit --input-type"),
    ("input_values", "omit --input-value"),
    ("keep_io", "omit --keep-io"),
    ("loader", "omit --loader"),
    ("lod", "omit --lod"),
    ("max_memory", "omit --memory-limit"),
    ("max_shard_size", "omit --max-shard-size"),
    ("max_steps", "omit --max-steps"),
    ("names", "omit --names structured"),
    ("opset", "omit --opset"),
    ("outputs", "omit --output"),
    ("profile", "omit --profile"),
    ("samples", "pass the --batch-size and --shuffle of the run that saved the checkpoint"),
    ("shards", "pass --shards N"),
    ("to", "pass another format with --to FORMAT"),
    ("transpose", WEIGHTS),
    ("weights_only", "omit --weights-only, or pass another format with --to FORMAT"),
];

pub(crate) fn of(failure: &(dyn Error + 'static)) -> Option<String> {
    #[cfg(feature = "remote")]
    if let Some(hint) = crate::remote::hint(failure) {
        return Some(hint);
    }
    if let Some(error) = failure.downcast_ref() {
        return of_checkpoint(error);
    }
    let hint = match failure.downcast_ref::<Lodstone>()? {
        Lodstone::Lossy(losses) if losses.keys().eq([&Loss::Program]) => {
            match losses.values().flatten().all(|lost| lost.starts_with("the program `")) {
                true => "pass --program main to convert the main program alone",
                false => WEIGHTS,
            }
        }
        Lodstone::Lossy(losses) => {
            let allow: Vec<_> = losses.keys().map(|loss| format!("--allow {loss}")).collect();
            return Some(format!("pass {} to accept this loss", allow.join(" ")));
        }
        Lodstone::UnclearTarget(_) => {
            "pass --to FORMAT; `lodstone convert --help` lists the formats"
        }
        Lodstone::TooLarge { operators, .. } => {
            return Some(format!("pass --limit {operators} to draw all of them"));
        }
        Lodstone::Lower(error) if error.findings.has(Code::UnknownDims) => {
            "pass --input-shape NAME:1,3,224,224 to fix the shape of an input"
        }
        Lodstone::Lower(error) if error.findings.has(Code::NoParameter) => {
            "pass --params PATH to read the parameters from another file or directory"
        }
        Lodstone::NoLowering { .. } | Lodstone::CastProgram => WEIGHTS,
        Lodstone::Shards { format } => {
            return Some(format!(
                "run `lodstone checkpoint reshard MODEL DIR --to {format} --shards N` to divide it"
            ));
        }
        Lodstone::Format(error) => return of_format(error),
        Lodstone::Checkpoint(error) => return of_checkpoint(error),
        Lodstone::InvalidOption { option, .. } => {
            OPTIONS.iter().find(|(name, _)| name == option).map(|(_, hint)| *hint)?
        }
        Lodstone::NoProgram { others, .. } => {
            return others.first().map(|name| format!("pass --program {name}"));
        }
        Lodstone::NoSuchTensor { name, .. } if name.parse::<usize>().is_ok() => {
            return Some(format!("pass --index {name} to select a tensor by index"));
        }
        Lodstone::NoSuchTensor { .. } | Lodstone::NoSuchIndex { .. } | Lodstone::NoMatch { .. } => {
            TENSORS
        }
        Lodstone::AmbiguousTensor { names, .. } => {
            return names.first().map(|name| format!("pass the whole name, such as `{name}`"));
        }
        Lodstone::SeveralTensors { .. } => "pass a name, or --index N",
        Lodstone::DuplicateName { .. } => "give it another name in the map of --rename",
        Lodstone::NoValues(_) => {
            "pass their values with --params PATH, or the program that initializes them with \
             --startup FILE"
        }
        Lodstone::NoSuchInput { .. }
        | Lodstone::TooManyInputs { .. }
        | Lodstone::UnpairedInputs { .. } => {
            "run `lodstone inspect MODEL` to list the inputs of the program"
        }
        Lodstone::MissingInput(name) => {
            return Some(format!(
                "pass its value with -i {name}=FILE (`train`: --data {name}=FILE), or random ones with \
                 --random-inputs 1"
            ));
        }
        Lodstone::UnknownShape(name) => {
            return Some(format!("pass its shape with --input-shape {name}:1,3,224,224"));
        }
        Lodstone::NoSuchOutput { .. } => {
            "run `lodstone inspect --graph text MODEL` to list the values of the program"
        }
        Lodstone::Internal(_) => {
            "this is a bug in Lodstone: report it with the command and the model"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn of_checkpoint(error: &lodstone::checkpoint::Error) -> Option<String> {
    use lodstone::checkpoint::Error as C;
    match error {
        C::Absent { .. } => {
            Some("run `lodstone checkpoint list DIR` to list the checkpoints".to_owned())
        }
        C::Format(error) => of_format(error),
        _ => None,
    }
}

fn of_format(error: &lodstone::formats::Error) -> Option<String> {
    use lodstone::formats::Error as F;
    use lodstone::store::{Error as S, Escape};
    Some(match error.cause() {
        F::Mismatch { .. } => "pass other parameters with --params PATH".to_owned(),
        F::Unsupported { what: "an array of text", .. } => {
            "pass text as an ONNX `TensorProto` (`onnx.numpy_helper.from_array`)".to_owned()
        }
        F::Unsupported { .. } => "run `lodstone scan` to list its risks".to_owned(),
        F::NoProgram { alone, .. } => {
            format!("pass --to {alone}, or open the program with its parameters")
        }
        F::AmbiguousParams { .. } => "select one with --params PATH".to_owned(),
        F::Store(S::Exists { .. }) => {
            "remove it, write to another path, or omit --no-clobber".to_owned()
        }
        F::Store(S::Escapes { why: Escape::SymbolicLink | Escape::HardLink, .. }) => {
            "pass --follow-links if you trust where the link leads".to_owned()
        }
        F::Store(S::Limit { limit, .. }) if limit.is_option() => {
            "pass --raise-limits 10 if you trust the file; it may take ten times the memory"
                .to_owned()
        }
        F::Store(S::Damaged { .. } | S::Resized { .. } | S::Unusable { .. }) => {
            "run `lodstone verify` to list all damage; pass --no-verify to read it anyway; run \
             `lodstone seal --replace` to seal the current contents"
                .to_owned()
        }
        F::Unsealed { .. } => {
            "run `lodstone seal` to add it to the seal; pass --no-verify to read it anyway"
                .to_owned()
        }
        _ => return None,
    })
}

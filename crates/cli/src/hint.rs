//! Hints: how the user can resolve an error.

use std::error::Error;

use lodstone::Error as Lodstone;
use lodstone::Loss;
use lodstone::finding::Code;

pub(crate) fn of(failure: &(dyn Error + 'static)) -> Option<String> {
    #[cfg(feature = "remote")]
    if let Some(hint) = crate::remote::hint(failure) {
        return Some(hint);
    }
    match failure.downcast_ref::<Lodstone>()? {
        Lodstone::Lossy(losses) if losses.keys().eq([&Loss::Program]) => Some(
            match losses.values().flatten().all(|lost| lost.starts_with("the program `")) {
                true => "pass --program main to convert the main program alone",
                false => "pass --weights-only to write the tensors without the program",
            }
            .to_owned(),
        ),
        Lodstone::Lossy(losses) => {
            let allow: Vec<_> = losses.keys().map(|loss| format!("--allow {loss}")).collect();
            Some(format!("pass {} to accept this loss", allow.join(" ")))
        }
        Lodstone::UnclearTarget(_) => {
            Some("pass --to FORMAT; `lodstone convert --help` lists the formats".to_owned())
        }
        Lodstone::TooLarge { operators, .. } => {
            Some(format!("pass --limit {operators} to draw all of them"))
        }
        Lodstone::Lower(error) if error.findings.has(Code::UnknownDims) => {
            Some("pass --input-shape NAME:1,3,224,224 to fix the shape of an input".to_owned())
        }
        Lodstone::MissingInput(name) => Some(format!(
            "pass its value with -i {name}=FILE, or random ones with --random-inputs 1"
        )),
        Lodstone::NoLowering { .. } | Lodstone::CastProgram => {
            Some("pass --weights-only to write the tensors without the program".to_owned())
        }
        Lodstone::Format(error) => of_format(error),
        _ => None,
    }
}

fn of_format(error: &lodstone::FormatError) -> Option<String> {
    use lodstone::FormatError as F;
    use lodstone::{Escape, StoreError as S};
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

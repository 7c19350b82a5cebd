//! What can be done about an error.

use std::error::Error;

use lodstone::Error as Lodstone;
use lodstone::finding::Code;

pub(crate) fn of(failure: &(dyn Error + 'static)) -> Option<String> {
    match failure.downcast_ref::<Lodstone>()? {
        Lodstone::Lossy(losses) => {
            let allow: Vec<_> = losses.keys().map(|loss| format!("--allow {loss}")).collect();
            Some(format!("add {} if that is all right", allow.join(" ")))
        }
        Lodstone::UnclearTarget(_) => {
            Some("name one with --to FORMAT; `lodstone convert --help` lists them".to_owned())
        }
        Lodstone::TooLarge { operators, .. } => {
            Some(format!("--limit {operators} draws all of them"))
        }
        Lodstone::Lower(error) if error.findings.has(Code::UnknownDims) => {
            Some("--input-shape NAME:1,3,224,224 declares the shape of an input".to_owned())
        }
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
        F::Mismatch { .. } => "name other parameters with --params PATH".to_owned(),
        F::AmbiguousParams { .. } => "select one with --params PATH".to_owned(),
        F::Store(S::Escapes { why: Escape::SymbolicLink | Escape::HardLink, .. }) => {
            "--follow-links, if you trust where it leads".to_owned()
        }
        F::Store(S::Damaged { .. } | S::Resized { .. } | S::Unusable { .. }) => {
            "`lodstone verify` says all that is damaged; `--no-verify` reads it nevertheless; \
             `lodstone seal --replace` seals it as it is now"
                .to_owned()
        }
        F::Unsealed { .. } => {
            "`lodstone seal` seals it with the others; `--no-verify` reads it nevertheless"
                .to_owned()
        }
        _ => return None,
    })
}

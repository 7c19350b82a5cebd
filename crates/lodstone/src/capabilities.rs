//! The capabilities of each format.

use lodstone_formats::{FORMATS, Format, Holds, READ_ONLY, Writes};
use lodstone_lowering::can_lower;
use lodstone_model::Dialect;
use serde::Serialize;

use crate::dialects::trains;

/// The capabilities of a format. For a format without programs, those that concern programs are `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// The name of the format.
    pub name: &'static str,
    /// A short description.
    pub title: &'static str,
    /// Whether models can be read.
    pub read: bool,
    /// Whether an unchanged model is written back byte for byte (archives: with equal contents).
    pub write_back: bool,
    /// Whether an edited model is written with all unedited bytes unchanged.
    pub edit: bool,
    /// Whether its programs run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<bool>,
    /// Whether its programs train.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<bool>,
    /// Whether its programs can be exported to ONNX.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_onnx: Option<bool>,
    /// The other formats that a program with its weights is converted to. What these cannot represent is a named loss.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub program_to: Vec<&'static str>,
    /// The other formats that weights alone are converted to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weights_to: Vec<&'static str>,
}

/// Returns the capabilities of each format, in the order of detection.
pub fn capabilities() -> Vec<Capabilities> {
    let written = FORMATS.iter().map(|format| {
        let program = format.holds.program;
        Capabilities {
            name: format.name,
            title: format.title,
            read: true,
            write_back: true,
            // The text of a program is written unchanged only.
            edit: program != Some(Dialect::Pir) && format.writes != Writes::Unedited,
            // Programs of all dialects run.
            run: program.map(|_| cfg!(feature = "runtime")),
            train: program.map(trains),
            to_onnx: program.map(|dialect| can_lower(dialect, Dialect::Onnx)),
            program_to: program.map_or_else(Vec::new, |dialect| {
                others(format.name, |to| to.program.is_some_and(|to| can_lower(dialect, to)))
            }),
            weights_to: match format.holds.tensors {
                true => others(format.name, |to| to.tensors),
                false => Vec::new(),
            },
        }
    });
    let read = READ_ONLY.iter().map(|(name, title)| {
        let (read, write_back, edit, run, train, to_onnx) = (true, false, false, None, None, None);
        let (program_to, weights_to) = (Vec::new(), others(name, |to| to.tensors));
        Capabilities {
            name,
            title,
            read,
            write_back,
            edit,
            run,
            train,
            to_onnx,
            program_to,
            weights_to,
        }
    });
    written.chain(read).collect()
}

/// Returns the names of the formats that a conversion of `name` may have as its target, as `holds` decides.
fn others(name: &str, holds: impl Fn(&Holds) -> bool) -> Vec<&'static str> {
    let is_other = |format: &&&Format| format.name != name && format.writes == Writes::All;
    let formats = FORMATS.iter().filter(is_other).filter(|format| holds(&format.holds));
    formats.map(|format| format.name).collect()
}

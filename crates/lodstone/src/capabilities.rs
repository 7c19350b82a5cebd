//! The capabilities of each format.

use lodstone_formats::{FORMATS, READ_ONLY};
use lodstone_lowering::can_lower;
use lodstone_model::Dialect;
use serde::Serialize;

use crate::{TRAINS, runs};

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
            edit: program != Some(Dialect::Pir),
            run: program.map(runs),
            train: program.map(|dialect| TRAINS.contains(&dialect)),
            to_onnx: program.map(|dialect| can_lower(dialect, Dialect::Onnx)),
        }
    });
    let read = READ_ONLY.iter().map(|(name, title)| {
        let (read, write_back, edit, run, train, to_onnx) = (true, false, false, None, None, None);
        Capabilities { name, title, read, write_back, edit, run, train, to_onnx }
    });
    written.chain(read).collect()
}

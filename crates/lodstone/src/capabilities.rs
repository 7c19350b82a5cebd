//! What can be done with models of each format.

use lodstone_formats::{FORMATS, READ_ONLY};
use lodstone_lowering::can_lower;
use lodstone_model::Dialect;
use serde::Serialize;

use crate::RUNS;

/// What can be done with models of a format. Of a format without programs, `None` stands for what concerns these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// The name of the format.
    pub name: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// Whether models are read.
    pub read: bool,
    /// Whether an unchanged model is written back with the same bytes (archives: equal contents).
    pub write_back: bool,
    /// Whether an edited model is written, and every byte that was not edited stays.
    pub edit: bool,
    /// Whether its programs run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<bool>,
    /// Whether its programs train.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<bool>,
    /// Whether its programs are exported to ONNX.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_onnx: Option<bool>,
}

/// What can be done with models of each format, in the order of detection.
pub fn capabilities() -> Vec<Capabilities> {
    let written = FORMATS.iter().map(|format| {
        let program = format.holds.program;
        Capabilities {
            name: format.name,
            title: format.title,
            read: true,
            write_back: true,
            edit: true,
            run: program.map(|dialect| RUNS.contains(&dialect)),
            train: program.map(|dialect| RUNS.contains(&dialect)),
            to_onnx: program.map(|dialect| can_lower(dialect, Dialect::Onnx)),
        }
    });
    let read = READ_ONLY.iter().map(|(name, title)| {
        let (read, write_back, edit, run, train, to_onnx) = (true, false, false, None, None, None);
        Capabilities { name, title, read, write_back, edit, run, train, to_onnx }
    });
    written.chain(read).collect()
}

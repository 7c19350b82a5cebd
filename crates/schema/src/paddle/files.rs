//! Operators that save variables to files, and load them.

use lodstone_model::{AttributeValue, Op};

/// The operator that saves a record of a merged file.
pub const SAVE_MERGED: &str = "lodstone.save_merged";

/// The operator that loads a record of a merged file.
pub const LOAD_MERGED: &str = "lodstone.load_merged";

/// The attribute of [`LOAD_MERGED`] with the index of its record.
pub const POSITION: &str = "position";

/// Whether an operator saves variables to a file.
pub fn is_save(op: &Op) -> bool {
    matches!(op.kind.as_str(), "save" | "save_combine" | SAVE_MERGED)
}

/// Whether an operator loads variables from a file.
pub fn is_load(op: &Op) -> bool {
    matches!(op.kind.as_str(), "load" | "load_combine" | LOAD_MERGED)
}

/// Whether an operator saves or loads one of several records of a file, each of which is preceded by its size.
///
/// Programs of earlier versions have PaddlePaddle's operators with an attribute, which PaddlePaddle ignores.
pub fn is_merged(op: &Op) -> bool {
    let is_marked = || matches!(op.attribute("merged"), Some(AttributeValue::Bool(true)));
    op.kind == SAVE_MERGED || op.kind == LOAD_MERGED || is_marked()
}

/// Returns the index of the record that an operator loads from a merged file.
pub fn record_position(op: &Op) -> i64 {
    match op.attribute(POSITION) {
        Some(AttributeValue::Int(position)) => i64::from(*position),
        Some(AttributeValue::Long(position)) => *position,
        _ => 0,
    }
}

//! Indices, ids and labels as inputs: negative ones do not count from the end, as in ONNX, but are errors, as in PaddlePaddle.

use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::paddle::{Release, attribute};

use crate::executor::frame::Frame;
use crate::executor::layout::Step;

/// An input that holds indices.
#[derive(Debug)]
pub(crate) struct Indices {
    slot: &'static str,
    /// The attribute with an index that stands for none.
    none: Option<&'static str>,
    /// The release since which negative indices count from the end.
    from_end: Option<Release>,
    /// The number of classes, if an index that is too large would not be noticed.
    classes: Option<Classes>,
}

/// Where the number of classes is, and the attribute that permits other indices.
#[derive(Debug, Clone, Copy)]
struct Classes {
    count: &'static str,
    variable: &'static str,
    permits: &'static str,
}

const ROWS: Indices = Indices { slot: "Index", none: None, from_end: None, classes: None };
const ROWS_FROM_END: Indices = Indices { from_end: Some(Release::new(3, 0)), ..ROWS };
const IDS: Indices = Indices { slot: "Ids", ..ROWS };
const LABELS: Indices = Indices { slot: "Label", none: Some("ignore_index"), ..ROWS };
const CLASSES: Indices = Indices {
    slot: "X",
    classes: Some(Classes {
        count: "depth",
        variable: "depth_tensor",
        permits: "allow_out_of_range",
    }),
    ..ROWS
};

/// The inputs of operators that hold indices.
static KINDS: &[(&str, Indices)] = &[
    ("bpr_loss", Indices { none: None, ..LABELS }),
    ("cross_entropy", LABELS),
    ("cross_entropy2", LABELS),
    ("gather", ROWS),
    ("gather_nd", ROWS_FROM_END),
    ("index_sample", ROWS),
    ("index_select", ROWS_FROM_END),
    ("lookup_table", IDS),
    ("lookup_table_v2", IDS),
    ("multiplex", IDS),
    ("nll_loss", LABELS),
    ("one_hot", CLASSES),
    ("one_hot_v2", CLASSES),
    ("scatter", IDS),
    ("scatter_nd_add", ROWS_FROM_END),
    ("softmax_with_cross_entropy", LABELS),
    ("take_along_axis", ROWS_FROM_END),
];

impl Indices {
    /// Returns the input of a kind of operator that holds indices.
    pub(crate) fn of(kind: &str) -> Option<&'static Self> {
        let found = KINDS.iter().find(|(known, _)| *known == kind);
        found.map(|(_, indices)| indices)
    }

    /// Raises an error if an index is out of range.
    pub(crate) fn check(&self, frame: &Frame<'_>, step: &Step, op: &Op) -> Result<(), Finding> {
        if self.from_end.is_some_and(|release| frame.release() >= release) {
            return Ok(());
        }
        let given = |slot: &str| {
            let slot = step.inputs(slot).first().copied().flatten()?;
            // Labels of another type are probabilities.
            let is_whole = |tensor: &&Tensor| matches!(tensor.dtype, DType::Int32 | DType::Int64);
            frame.known_tensor(slot).filter(is_whole)
        };
        let count = match self.classes {
            Some(classes) if flag(op, classes.permits) => return Ok(()),
            Some(classes) => match given(classes.variable) {
                Some(count) => whole(count)?.first().copied(),
                None => int(op, classes.count),
            },
            None => None,
        };
        let Some(indices) = given(self.slot) else { return Ok(()) };
        let (none, end) = (self.none.and_then(|name| int(op, name)), count.unwrap_or(i64::MAX));
        let is_wrong = |index: &i64| !(0..end).contains(index) && Some(*index) != none;
        let Some(wrong) = whole(indices)?.into_iter().find(is_wrong) else { return Ok(()) };
        let what = match wrong < 0 {
            true => format!("expected an index of at least 0, found {wrong}"),
            false => format!("expected an index below {end}, found {wrong}"),
        };
        Err(Finding::from(what).about_slot(self.slot))
    }
}

/// Returns the integers of a tensor.
pub(crate) fn whole(tensor: &Tensor) -> Result<Vec<i64>, Finding> {
    let bytes = tensor.data.bytes().map_err(|error| Finding::from(error.to_string()))?;
    Ok(match tensor.dtype {
        DType::Int32 => {
            bytes.as_chunks().0.iter().map(|four| i64::from(i32::from_le_bytes(*four))).collect()
        }
        DType::Int64 => {
            bytes.as_chunks().0.iter().map(|eight| i64::from_le_bytes(*eight)).collect()
        }
        other => return Err(format!("expected int32 or int64, found {other}").into()),
    })
}

fn flag(op: &Op, name: &str) -> bool {
    matches!(attribute(op, name), Some(AttributeValue::Bool(true)))
}

fn int(op: &Op, name: &str) -> Option<i64> {
    match attribute(op, name) {
        Some(AttributeValue::Int(value)) => Some((*value).into()),
        Some(AttributeValue::Long(value)) => Some(*value),
        _ => None,
    }
}

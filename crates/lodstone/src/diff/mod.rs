//! The differences between two models: tensor by tensor, across formats.
//!
//! Tensors are paired by name, and the remaining ones by content (`pair`). A pair is compared unchanged, then reshaped,
//! with its dims permuted, and cast; the values are reported as changed, with the differences, only if no comparison is
//! exact (`compare`). Programs of one framework are compared operator by operator (`graph`).
//!
//! The order of named tensors is not a difference, since formats sort them as they like. Tensors without names are
//! identified by their order alone, so there it is one.

mod compare;
mod graph;
mod pair;

use lodstone_formats::called;
use lodstone_model::{DType, Model, Parameter, Program, Programs};
use lodstone_schema::{Finding, weights};
use lodstone_store::Progress;
use serde::{Serialize, Serializer};

use crate::adapt::{Renames, transpose};
use crate::{Error, Result};
pub use graph::{Detail, OperatorChange, OperatorDifference, OperatorPlace, ProgramDifference};
use pair::Pairing;

/// The options of a comparison.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DiffOptions {
    /// The map from tensor names of the first model to those of the second.
    pub renames: Renames,
    /// Patterns of names in the first model, of matrices that are transposed in the
    /// second.
    pub transpose: Vec<String>,
    /// The relative tolerance: `a` and `b` count as equal if `|a - b| <= atol + rtol * |b|`.
    pub rtol: f64,
    /// The absolute tolerance.
    pub atol: f64,
    /// The progress in bytes, which also cancels.
    pub progress: Progress,
}

lodstone_model::with_fields!(DiffOptions {
    with_renames(renames: Renames),
    with_transpose(transpose: Vec<String>),
    with_rtol(rtol: f64),
    with_atol(atol: f64),
    with_progress(progress: Progress),
});

/// The differences between two models.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// The version of this structure.
    pub schema: u32,
    /// Whether the models are equal. (The order of named tensors does not count.)
    pub same: bool,
    /// The number of tensors that are equal under the same name.
    pub equal: usize,
    /// The tensors that differ, in the order of the first model, then of the second.
    pub tensors: Vec<Difference>,
    /// The differences between the programs, if both models have one of the same framework.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramDifference>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A tensor that differs.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The changes, of which there may be several.
    pub changes: Vec<Change>,
    /// The tensor in the first model, unless it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<DiffedTensor>,
    /// The tensor in the second model, unless it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<DiffedTensor>,
    /// The differences of the values, if they differ and are numbers of the same shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<ValueDifference>,
}

/// A change of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// Only the second model has the tensor.
    Added,
    /// Only the first model has the tensor.
    Removed,
    /// The name differs.
    Renamed,
    /// The position differs. This is only reported for tensors without names.
    Moved,
    /// The element type differs; the values are those of a cast.
    Cast,
    /// The shape differs; the elements are the same in the same order.
    Reshaped,
    /// The dims are permuted.
    Transposed,
    /// The storage differs: sparse, as rows, as sequences.
    Stored,
    /// The values differ.
    Changed,
}

/// A tensor of one of the models.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffedTensor {
    /// The name; `#3` if it has none.
    pub name: String,
    /// The index in file order, counted from 0.
    pub index: usize,
    /// The element type, as NumPy or `ml_dtypes` spell it.
    #[serde(serialize_with = "display")]
    pub dtype: DType,
    /// The dims.
    pub shape: Vec<u64>,
}

/// The differences between values. NaNs are equal to each other, whatever their bits; -0 differs from
/// 0, at distance 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ValueDifference {
    /// The number of elements that differ.
    pub count: u64,
    /// The number of elements.
    pub elements: u64,
    /// The number of differing elements with NaN on one side.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_a_number: u64,
    /// The maximum of `|a - b|`.
    #[serde(serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub max_abs: Option<f64>,
    /// The maximum of `|a - b| / max(|a|, |b|)`; between 0 and 2.
    #[serde(serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub max_rel: Option<f64>,
    /// The cosine of the angle between both as vectors; `None` if one of them is zero, or its norm
    /// overflows.
    #[serde(serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub cosine: Option<f64>,
}

/// Compares two models.
///
/// # Errors
/// If reading tensors fails, or names or patterns match nothing.
pub fn diff(mut a: Model, b: &Model, options: &DiffOptions) -> Result<Diff> {
    let mut warnings = Vec::new();
    a.parameters = weights(&a).into_owned();
    let weights_b = weights(b);
    let before: Vec<String> = a.parameters.iter().map(|p| p.name.clone()).collect();
    let transposed = transpose(&mut a, &options.transpose)?;
    if transposed.others > 0 {
        let others = transposed.others;
        warnings.push(format!("tensors not transposed because they are not matrices: {others}"));
    }
    // Renames apply to parameters only: the program is compared without them.
    let mut programs = std::mem::take(&mut a.programs);
    let program = programs.remove(Programs::MAIN);
    if !options.renames.is_empty() && options.renames.apply(&mut a)? == 0 {
        warnings.push("the name map matches no tensor of the first model".to_owned());
    }
    let Pairing { pairs, removed, added } = pair::pair(&a.parameters, &weights_b, options)?;
    let mut diff =
        Diff { schema: 1, same: true, equal: 0, tensors: Vec::new(), program: None, warnings };
    let original = |index: usize, parameter: &Parameter| {
        let name = before.get(index).map_or("", String::as_str);
        which(name, index, parameter)
    };
    let tensor_a = |index: usize| a.parameters.get(index).ok_or_else(absent);
    let tensor_b = |index: usize| weights_b.get(index).ok_or_else(absent);
    for pair in pairs {
        let (of_a, of_b) = (tensor_a(pair.a)?, tensor_b(pair.b)?);
        let found = match pair.relation {
            Some(relation) => relation,
            None => compare::compare(&of_a.tensor, &of_b.tensor, options)?,
        };
        let mut changes = found.changes;
        changes.extend(pair.renamed.then_some(Change::Renamed));
        changes.extend(pair.moved.then_some(Change::Moved));
        changes.sort_unstable();
        if changes.is_empty() {
            diff.equal += 1;
            continue;
        }
        let order_alone = changes == [Change::Moved] && !of_a.name.is_empty();
        diff.equal += usize::from(order_alone);
        diff.same &= order_alone;
        let (a, b) = (original(pair.a, of_a), which(&of_b.name, pair.b, of_b));
        diff.tensors.push(Difference { changes, a: Some(a), b: Some(b), values: found.values });
    }
    for index in removed {
        let a = Some(original(index, tensor_a(index)?));
        let changes = vec![Change::Removed];
        diff.tensors.push(Difference { changes, a, b: None, values: None });
    }
    diff.tensors.sort_by_key(|difference| difference.a.as_ref().map(|which| which.index));
    for index in added {
        let of_b = tensor_b(index)?;
        let b = Some(which(&of_b.name, index, of_b));
        diff.tensors.push(Difference { changes: vec![Change::Added], a: None, b, values: None });
    }
    let only = |change: &Difference| matches!(*change.changes, [Change::Added | Change::Removed]);
    diff.same &= !diff.tensors.iter().any(only);
    match (&program, b.main()) {
        (Some(a), Some(b)) if a.dialect == b.dialect => {
            let program = graph::programs(a, b)?;
            diff.same &= program.same;
            diff.program = Some(program);
        }
        (None, None) => {}
        (Some(_), Some(_)) => {
            let what = "the programs are of different frameworks: their operators are not compared";
            diff.warnings.push(what.to_owned());
        }
        _ => {
            let what = "only one of the models has a program: operators are not compared";
            diff.warnings.push(what.to_owned());
        }
    }
    let mut others = b.programs.clone();
    others.remove(Programs::MAIN);
    for (name, program) in programs {
        let other = others.remove(&name);
        let is_comparable = |other: &Program| other.dialect == program.dialect;
        let is_same = match other.filter(is_comparable) {
            Some(other) => graph::programs(&program, &other)?.same,
            None => false,
        };
        if !is_same {
            diff.differ(&name);
        }
    }
    others.iter().for_each(|(name, _)| diff.differ(name));
    Ok(diff)
}

impl Diff {
    /// Records that a program other than the main one differs.
    fn differ(&mut self, name: &str) {
        self.same = false;
        self.warnings
            .push(format!("the programs `{name}` differ, or only one of the models has it"));
    }
}

fn absent() -> Error {
    Error::Internal(Finding::internal("a paired tensor is missing"))
}

fn which(name: &str, index: usize, parameter: &Parameter) -> DiffedTensor {
    let (dtype, shape) = (parameter.tensor.dtype, parameter.tensor.shape.clone());
    DiffedTensor { name: called(name, index), index, dtype, shape }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn display<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(dtype)
}

/// JSON has no infinities and no NaN: they become strings.
#[expect(clippy::ref_option, reason = "serde requires a reference")]
fn number<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) if number.is_finite() => serializer.serialize_f64(*number),
        Some(number) => serializer.collect_str(number),
        None => serializer.serialize_none(),
    }
}

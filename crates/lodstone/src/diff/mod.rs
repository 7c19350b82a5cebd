//! What is different between two models: tensor by tensor, across formats.
//!
//! Tensors are paired by name; those that are left by content (`pair`). A pair is compared as it
//! is, then reshaped, with its dimensions in every other order, and cast; only if none of these is
//! exact are the values said to be changed, and by how much (`compare`). Programs of one framework are
//! compared operator by operator (`graph`).

mod compare;
mod graph;
mod pair;

use lodstone_formats::called;
use lodstone_model::{DType, Model, Parameter, Program, Programs};
use lodstone_store::Progress;
use serde::{Serialize, Serializer};

use crate::adapt::{Renames, transpose};
use crate::{Error, Result};
pub use graph::{Detail, OperatorChange, OperatorDifference, OperatorPlace, ProgramDifference};
use pair::Pairing;

/// How to compare.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DiffOptions {
    /// What tensors of the first model are called in the second.
    pub renames: Renames,
    /// Patterns of names, as the first model has them, of matrices that are transposed in the
    /// second.
    pub transpose: Vec<String>,
    /// Numbers `a` and `b` count as equal if `|a - b| <= atol + rtol * |b|`.
    pub rtol: f64,
    /// The absolute part of that.
    pub atol: f64,
    /// Counts the bytes, and cancels.
    pub progress: Progress,
}

lodstone_model::with_fields!(DiffOptions {
    with_renames(renames: Renames),
    with_transpose(transpose: Vec<String>),
    with_rtol(rtol: f64),
    with_atol(atol: f64),
    with_progress(progress: Progress),
});

/// What is different.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// Version of this structure.
    pub schema: u32,
    /// Whether nothing is. (Named tensors in another order are the same.)
    pub same: bool,
    /// How many tensors are the same under the same name.
    pub equal: usize,
    /// Tensors that are not, in the order of the first model, then of the second.
    pub tensors: Vec<Difference>,
    /// How the programs differ, if both models have one of the same framework.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramDifference>,
    /// What a user should know.
    pub warnings: Vec<String>,
}

/// A tensor that is different.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// What happened to it; several things may have.
    pub changes: Vec<Change>,
    /// What it is in the first model, unless it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<Which>,
    /// What it is in the second model, unless it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<Which>,
    /// By how much the values differ, if they do and are numbers of the same shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Values>,
}

/// What can happen to a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// Only the second model has it.
    Added,
    /// Only the first model has it.
    Removed,
    /// It has another name.
    Renamed,
    /// It stands at another place. Where tensors have names that is no difference.
    Moved,
    /// It has another element type; the numbers are those that casting gives.
    Cast,
    /// It has another shape; the elements are the same in the same order.
    Reshaped,
    /// Its dimensions are in another order.
    Transposed,
    /// It is stored in another way: sparse, as rows, as sequences.
    Stored,
    /// Its values are others.
    Changed,
}

/// A tensor of one of the models.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Which {
    /// Its name; `#3` if it has none.
    pub name: String,
    /// Its number in file order, counted from 0.
    pub index: usize,
    /// Element type, as NumPy or `ml_dtypes` spell it.
    #[serde(serialize_with = "display")]
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<u64>,
}

/// By how much values differ. Not a number is equal to itself, whatever its bits; -0 is another number
/// than 0, at no distance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Values {
    /// How many elements differ.
    pub count: u64,
    /// Of how many.
    pub elements: u64,
    /// How many of those that differ are not a number on one side.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_a_number: u64,
    /// Largest `|a - b|`.
    #[serde(serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub max_abs: Option<f64>,
    /// Largest `|a - b| / max(|a|, |b|)`; between 0 and 2.
    #[serde(serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub max_rel: Option<f64>,
    /// The cosine of the angle between both as vectors; nothing if one of them is zero, or longer
    /// than numbers go.
    #[serde(serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub cosine: Option<f64>,
}

/// Compares two models.
///
/// # Errors
/// What reading tensors gives, or if names or patterns fit nothing.
pub fn diff(mut a: Model, b: &Model, options: &DiffOptions) -> Result<Diff> {
    let mut warnings = Vec::new();
    let before: Vec<String> = a.parameters.iter().map(|p| p.name.clone()).collect();
    let transposed = transpose(&mut a, &options.transpose)?;
    if transposed.others > 0 {
        let others = transposed.others;
        warnings.push(format!("tensors that were to be transposed and are no matrices: {others}"));
    }
    // By its parameters alone: the names of a program are compared as they are.
    let mut programs = std::mem::take(&mut a.programs);
    let program = programs.remove(Programs::MAIN);
    if !options.renames.is_empty() && options.renames.apply(&mut a)? == 0 {
        warnings.push("no tensor of the first model has a name that was to be changed".to_owned());
    }
    let Pairing { pairs, removed, added } = pair::pair(&a, b, options)?;
    let mut diff =
        Diff { schema: 1, same: true, equal: 0, tensors: Vec::new(), program: None, warnings };
    let original = |index: usize, parameter: &Parameter| {
        let name = before.get(index).map_or("", String::as_str);
        which(name, index, parameter)
    };
    let tensor_a = |index: usize| a.parameters.get(index).ok_or_else(absent);
    let tensor_b = |index: usize| b.parameters.get(index).ok_or_else(absent);
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
    /// Notes that a program besides the main one differs.
    fn differ(&mut self, name: &str) {
        self.same = false;
        self.warnings
            .push(format!("the programs `{name}` differ, or only one of the models has it"));
    }
}

fn absent() -> Error {
    Error::Absent("a tensor is not there any more".to_owned())
}

fn which(name: &str, index: usize, parameter: &Parameter) -> Which {
    let (dtype, shape) = (parameter.tensor.dtype, parameter.tensor.shape.clone());
    Which { name: called(name, index), index, dtype, shape }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn display<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(dtype)
}

/// JSON has no infinities and no NaN: they are spelled.
#[expect(clippy::ref_option, reason = "serde asks for a reference")]
fn number<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) if number.is_finite() => serializer.serialize_f64(*number),
        Some(number) => serializer.collect_str(number),
        None => serializer.serialize_none(),
    }
}

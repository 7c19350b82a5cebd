//! Warnings and losses from reading, converting or writing a model.

use std::collections::BTreeMap;
use std::fmt;

/// Warnings, and the losses of a conversion.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Warnings for the user, one sentence each.
    pub warnings: Vec<String>,
    /// Losses by kind, with the locations of each.
    pub losses: BTreeMap<Loss, Vec<String>>,
}

/// A kind of loss in a conversion; each must be allowed by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Loss {
    /// The program.
    Program,
    /// The LoD: the grouping of rows into sequences.
    Lod,
    /// The row indices and height of selected rows.
    SelectedRows,
    /// The sparse storage of a tensor: its values and indices become separate tensors.
    Sparse,
    /// A vocabulary of tokens.
    Vocabulary,
    /// A string tensor.
    Strings,
    /// Precision, range or fractions of values.
    Rounding,
    /// Results: operators that the target computes otherwise.
    Results,
    /// An element type: the bits are stored under another type.
    DType,
    /// Tensor names.
    Names,
    /// Free-form metadata of the file.
    Metadata,
    /// Standard operators: operators without an equivalent in the target are written in a custom opset.
    CustomOperators,
    /// Compiler hints of a program: partitions, backend options, predicates.
    Hints,
}

impl Loss {
    /// All kinds of loss.
    pub const ALL: &[Self] = &[
        Self::Program,
        Self::Lod,
        Self::SelectedRows,
        Self::Sparse,
        Self::Vocabulary,
        Self::Strings,
        Self::Rounding,
        Self::Results,
        Self::DType,
        Self::Names,
        Self::Metadata,
        Self::CustomOperators,
        Self::Hints,
    ];

    /// Returns the name by which users allow the loss.
    pub fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Lod => "lod",
            Self::SelectedRows => "selected-rows",
            Self::Sparse => "sparse",
            Self::Vocabulary => "vocabulary",
            Self::Strings => "strings",
            Self::Rounding => "fp16-rounding",
            Self::Results => "results",
            Self::DType => "dtype",
            Self::Names => "names",
            Self::Metadata => "metadata",
            Self::CustomOperators => "custom-operators",
            Self::Hints => "compiler-hints",
        }
    }

    /// Returns a description of what is lost, for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Program => "the program",
            Self::Lod => "the LoD, which groups rows into sequences",
            Self::SelectedRows => "the row indices of selected rows",
            Self::Sparse => "sparse storage: values and indices become separate tensors",
            Self::Vocabulary => "vocabularies",
            Self::Strings => "string tensors",
            Self::Rounding => "precision or range",
            Self::Results => "results of operators that the target computes otherwise",
            Self::DType => "element types: the bits are stored under another type",
            Self::Names => "tensor names",
            Self::Metadata => "file metadata",
            Self::CustomOperators => {
                "standard operators: a custom opset is needed to run the model"
            }
            Self::Hints => "compiler hints of the program",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Report {
    /// Adds a warning.
    pub fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Adds a loss at `place`.
    pub fn lose(&mut self, loss: Loss, place: impl Into<String>) {
        self.losses.entry(loss).or_default().push(place.into());
    }
}

/// Joins the first few names, and appends the number of those omitted.
pub fn some(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    const NAMED: usize = 5;
    let mut names = names.into_iter();
    let mut text = String::new();
    for name in names.by_ref().take(NAMED) {
        text += if text.is_empty() { "" } else { ", " };
        text += name.as_ref();
    }
    match names.count() {
        0 => text,
        more => text + &format!(" and {more} more"),
    }
}

//! What was noticed while a model was read, converted or written.

use std::collections::BTreeMap;
use std::fmt;

/// Warnings, and what a conversion loses.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What a user should know, a sentence each.
    pub warnings: Vec<String>,
    /// What was lost, by name, with the places.
    pub losses: BTreeMap<Loss, Vec<String>>,
}

/// What a conversion can lose; each has to be allowed by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Loss {
    /// What the model computes.
    Program,
    /// The grouping of rows into sequences.
    Lod,
    /// That a tensor is some rows of a larger one.
    SelectedRows,
    /// That a tensor is sparse: its values and indices are kept as tensors of their own.
    Sparse,
    /// A table of tokens.
    Vocabulary,
    /// A tensor of texts.
    Strings,
    /// Precision, range or fractions of numbers.
    Rounding,
    /// The name of the element type: its bits are kept under another.
    DType,
    /// Names of tensors.
    Names,
    /// Free-form facts of the file.
    Metadata,
    /// Operators that the target has no words for: they are kept in a set of their own.
    CustomOperators,
    /// What a program tells its compiler: partitions, options of backends, predicates.
    Hints,
}

impl Loss {
    /// Every loss there is.
    pub const ALL: &[Self] = &[
        Self::Program,
        Self::Lod,
        Self::SelectedRows,
        Self::Sparse,
        Self::Vocabulary,
        Self::Strings,
        Self::Rounding,
        Self::DType,
        Self::Names,
        Self::Metadata,
        Self::CustomOperators,
        Self::Hints,
    ];

    /// The name a user allows it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Lod => "lod",
            Self::SelectedRows => "selected-rows",
            Self::Sparse => "sparse",
            Self::Vocabulary => "vocabulary",
            Self::Strings => "strings",
            Self::Rounding => "fp16-rounding",
            Self::DType => "dtype",
            Self::Names => "names",
            Self::Metadata => "metadata",
            Self::CustomOperators => "custom-operators",
            Self::Hints => "compiler-hints",
        }
    }

    /// What is lost, for a message.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Program => "what the model computes",
            Self::Lod => "how rows are grouped into sequences",
            Self::SelectedRows => "which rows of a larger tensor these are",
            Self::Sparse => "that values and indices make up a sparse tensor",
            Self::Vocabulary => "tables of tokens",
            Self::Strings => "tensors of texts",
            Self::Rounding => "precision or range",
            Self::DType => "element types, whose bits are kept under others",
            Self::Names => "the names of tensors",
            Self::Metadata => "what the file says about itself",
            Self::CustomOperators => "operators that runtimes know",
            Self::Hints => "what the program tells its compiler",
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

/// The first few of many places or names, and how many more there are.
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

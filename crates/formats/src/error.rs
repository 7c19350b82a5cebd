//! Errors of reading and writing model files.

use std::path::PathBuf;

use lodstone_model::DType;
use lodstone_store::{Blob, Location};

use crate::encoding::json::{JSON_DEPTH, is_too_deep};

/// The result of reading or writing a format.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of reading or writing a model file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes cannot be read, or violate the format.
    #[error(transparent)]
    Store(#[from] lodstone_store::Error),
    /// An error with its location in the model.
    #[error("in {place}: {source}")]
    Inside {
        /// The location in the model, such as "block 0, operator 3 (`conv2d`)".
        place: String,
        /// The error at that location.
        source: Box<Error>,
    },
    /// An error with the index of the record in a file of records.
    #[error("in record {number}: {source}")]
    InRecord {
        /// The index, counted from 0.
        number: usize,
        /// The error in the record.
        source: Box<Error>,
    },
    /// No format recognizes the file.
    #[error("unrecognized file format: `{}` {found}", path.display())]
    Unrecognized {
        /// The file.
        path: PathBuf,
        /// A phrase that describes the first bytes.
        found: String,
    },
    /// A format, or a part of one, that is not supported.
    #[error("reading `{}` is not supported: it is {what}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The kind of file or part.
        what: &'static str,
    },
    /// There is no model at a path.
    #[error("no model at `{}`: {why}", path.display())]
    NoModel {
        /// The requested path.
        path: PathBuf,
        /// What was expected there.
        why: String,
    },
    /// The parameters do not belong to the program.
    #[error("the parameters in `{}` do not fit the program: {what}", path.display())]
    Mismatch {
        /// The parameter file.
        path: PathBuf,
        /// The first difference.
        what: String,
    },
    /// Several parameter files may belong to the program.
    #[error(
        "several files may hold the parameters of `{}`: {}", path.display(),
        candidates.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    )]
    AmbiguousParams {
        /// The program.
        path: PathBuf,
        /// The candidate files.
        candidates: Vec<String>,
    },
    /// A file that is no model.
    #[error("`{}` is {what}", path.display())]
    NotAModel {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// The target format cannot represent part of the model.
    #[error("{format} cannot hold {what}")]
    Incompatible {
        /// The target format.
        format: &'static str,
        /// What cannot be represented, with its name.
        what: String,
    },
    /// The target format holds programs, and the model has none.
    #[error("{format} cannot hold a model without a program; `{alone}` holds tensors alone")]
    NoProgram {
        /// The target format.
        format: &'static str,
        /// A format for tensors alone.
        alone: &'static str,
    },
    /// A file of a sealed model that the seal does not list.
    #[error("`{}` is not listed in the seal of the model", path.display())]
    Unsealed {
        /// The file.
        path: PathBuf,
    },
    /// Invalid JSON.
    #[error("`{}`: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The error of the parser, with line and column.
        source: serde_json::Error,
    },
}

impl Error {
    /// Converts an error of the JSON parser about the file in `blob`: a syntax error, or nesting beyond the limit of
    /// the parser.
    pub(crate) fn json(path: &Location, blob: &Blob, source: serde_json::Error) -> Self {
        match is_too_deep(&source) {
            true => blob.over_limit(0, JSON_DEPTH).into(),
            false => Self::Json { path: path.to_path_buf(), source },
        }
    }

    /// Returns the innermost error, without the locations that were added to it.
    pub fn cause(&self) -> &Self {
        let mut cause = self;
        while let Self::Inside { source, .. } | Self::InRecord { source, .. } = cause {
            cause = source;
        }
        cause
    }

    /// Adds a location in the model.
    #[must_use]
    pub fn inside(self, place: impl Into<String>) -> Self {
        match self {
            Self::Inside { place: inner, source } => {
                Self::Inside { place: format!("{}, {inner}", place.into()), source }
            }
            error => Self::Inside { place: place.into(), source: Box::new(error) },
        }
    }

    pub(crate) fn in_record(self, number: usize) -> Self {
        Self::InRecord { number, source: Box::new(self) }
    }

    /// Returns the error for a state that cannot occur unless this program has a defect.
    #[track_caller]
    pub(crate) fn internal(what: &'static str) -> Self {
        lodstone_store::internal(what).into()
    }

    /// Returns the error for a tensor whose element type has no code in `format`.
    pub(crate) fn dtype(format: &'static str, name: &str, dtype: DType) -> Self {
        Self::Incompatible { format, what: format!("the {dtype} tensor `{name}`") }
    }
}

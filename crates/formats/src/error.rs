//! What can go wrong with a model file.

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
    /// Bytes that cannot be read, or are not what the format says.
    #[error(transparent)]
    Store(#[from] lodstone_store::Error),
    /// The same, with the place in the model.
    #[error("in {place}: {source}")]
    Inside {
        /// Where in the model: "block 0, operator 3 (`conv2d`)".
        place: String,
        /// What is wrong there.
        source: Box<Error>,
    },
    /// The same, with the number of the record in a file of records.
    #[error("in record {number}: {source}")]
    InRecord {
        /// The number, counted from 0.
        number: usize,
        /// What is wrong there.
        source: Box<Error>,
    },
    /// No format claims the file.
    #[error("unrecognized file format: `{}` {found}", path.display())]
    Unrecognized {
        /// The file.
        path: PathBuf,
        /// How it begins, in a phrase.
        found: String,
    },
    /// A format, or a part of one, that is not read yet.
    #[error("reading `{}` is not supported: it is {what}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A path that leads to no model.
    #[error("no model at `{}`: {why}", path.display())]
    NoModel {
        /// What was asked for.
        path: PathBuf,
        /// What was looked for.
        why: String,
    },
    /// Parameters and program do not belong together.
    #[error("the parameters in `{}` do not fit the program: {what}", path.display())]
    Mismatch {
        /// The parameter file.
        path: PathBuf,
        /// The first difference.
        what: String,
    },
    /// Several sets of parameters that a program may belong to.
    #[error(
        "several files may hold the parameters of `{}`: {}", path.display(),
        candidates.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    )]
    AmbiguousParams {
        /// The program.
        path: PathBuf,
        /// The files.
        candidates: Vec<String>,
    },
    /// Something the target format has no way to say.
    #[error("{format} cannot hold {what}")]
    Incompatible {
        /// The target format.
        format: &'static str,
        /// What it cannot hold, with its name.
        what: String,
    },
    /// A file that is in no seal, of a model that is sealed.
    #[error("`{}` is not in the seal, and the model is sealed", path.display())]
    Unsealed {
        /// The file.
        path: PathBuf,
    },
    /// A JSON text that is not what it should be.
    #[error("`{}`: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser said, with line and column.
        source: serde_json::Error,
    },
}

impl Error {
    /// What a parser of JSON said of the file in `blob`: that the text is wrong, or that its values nest
    /// deeper than they are followed.
    pub(crate) fn json(path: &Location, blob: &Blob, source: serde_json::Error) -> Self {
        match is_too_deep(&source) {
            true => blob.over_limit(0, JSON_DEPTH).into(),
            false => Self::Json { path: path.to_path_buf(), source },
        }
    }

    /// The error itself, without the places in the model that were added to it.
    pub fn cause(&self) -> &Self {
        let mut cause = self;
        while let Self::Inside { source, .. } | Self::InRecord { source, .. } = cause {
            cause = source;
        }
        cause
    }

    /// Adds the place in the model where it happened.
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

    /// A state that cannot occur unless this program has a defect.
    #[track_caller]
    pub(crate) fn internal(what: &'static str) -> Self {
        lodstone_store::internal(what).into()
    }

    /// A tensor whose element type `format` has no code for.
    pub(crate) fn dtype(format: &'static str, name: &str, dtype: DType) -> Self {
        Self::Incompatible { format, what: format!("the {dtype} tensor `{name}`") }
    }
}

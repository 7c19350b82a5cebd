//! Commands that take several paths.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::stores::shown;
use crate::{Answer, Failure, console};

/// Runs a command on each path and returns the worst answer. It reports the error of a path and continues with the others.
///
/// # Errors
/// Returns that stdout is closed.
pub(crate) fn each(
    paths: &[PathBuf],
    mut run: impl FnMut(&Path) -> Result<Answer, Failure>,
) -> Result<Answer, Failure> {
    let mut worst = Answer::Yes;
    for path in paths {
        console::expect_document();
        let answer = match run(path) {
            Err(failure) if !console::is_broken_pipe(failure.as_ref()) => {
                console::error_about(Some(path), failure.as_ref());
                Answer::Failed
            }
            answer => answer?,
        };
        worst = worst.max(answer);
    }
    Ok(worst)
}

/// A JSON document about one of several paths.
#[derive(Serialize)]
pub(crate) struct About<'a, T> {
    path: String,
    #[serde(flatten)]
    document: &'a T,
    #[cfg(feature = "remote")]
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<crate::remote::Counts>,
}

impl<'a, T> About<'a, T> {
    pub(crate) fn new(path: &Path, document: &'a T) -> Self {
        Self {
            path: shown(path),
            document,
            #[cfg(feature = "remote")]
            stats: crate::remote::counts(),
        }
    }
}

//! Commands that take several paths.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{Answer, Failure, say};

/// Runs a command on each path and returns the worst answer. An error of one path is reported, and the other
/// paths follow.
///
/// # Errors
/// If there is only one path, its error; if stdout is closed.
pub(crate) fn each(
    paths: &[PathBuf],
    mut run: impl FnMut(&Path) -> Result<Answer, Failure>,
) -> Result<Answer, Failure> {
    if let [path] = paths {
        return run(path);
    }
    let mut worst = Answer::Yes;
    for path in paths {
        let answer = match run(path) {
            Err(failure) if !say::is_broken_pipe(failure.as_ref()) => {
                say::error(failure.as_ref());
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
}

impl<'a, T> About<'a, T> {
    pub(crate) fn new(path: &Path, document: &'a T) -> Self {
        Self { path: path.display().to_string(), document }
    }
}

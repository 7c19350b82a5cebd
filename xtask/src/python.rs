//! Python, with the packages that other frameworks are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, cannot, root, run, target};

/// A Python that the pinned packages have wheels for.
pub(crate) fn python_3_11() -> Result<PathBuf, Outcome> {
    let check = "import sys, venv; sys.exit(sys.version_info[:2] != (3, 11))";
    ["python3.11", "python3", "python"]
        .into_iter()
        .find(|python| {
            let status = Command::new(python).args(["-c", check]).status();
            status.is_ok_and(|status| status.success())
        })
        .map(PathBuf::from)
        .ok_or_else(|| Outcome::CouldNotRun("there is no Python 3.11 with venv".to_owned()))
}

/// A virtual environment with the packages of a requirements file of the project; gives its Python.
pub(crate) fn environment(python: &Path, requirements: &str) -> Result<PathBuf, Outcome> {
    let requirements = root().join(requirements);
    let name = requirements.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let directory = target().join("interop").join(format!("venv-{name}"));
    let (inside, installed) = (directory.join("bin/python"), directory.join("installed.txt"));
    let wanted = fs::read(&requirements).map_err(cannot("read the requirements"))?;
    if fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(inside);
    }
    let could_not = |outcome| match outcome {
        Outcome::Failed(what) | Outcome::CouldNotRun(what) => Outcome::CouldNotRun(what),
    };
    run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&directory)).map_err(could_not)?;
    let mut install = Command::new(&inside);
    install.args(["-m", "pip", "install", "--quiet", "--no-cache-dir", "--retries", "10", "-r"]);
    run(install.arg(&requirements)).map_err(could_not)?;
    fs::write(&installed, wanted).map_err(cannot("mark the environment as ready"))?;
    Ok(inside)
}

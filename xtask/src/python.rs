//! Python environments with frameworks, and the Python package.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::disk::free_mib;
use crate::run::{Outcome, cannot, root, run, target};

/// Returns Python 3.11, for which the pinned packages have wheels.
pub(crate) fn python_3_11() -> Result<PathBuf, Outcome> {
    let found = pythons().into_iter().find(|(version, _)| version == "3.11");
    let missing = || Outcome::CouldNotRun("there is no Python 3.11 with venv".to_owned());
    found.map(|(_, python)| python).ok_or_else(missing)
}

/// Returns the version and command of every Python 3.11 or newer with venv.
pub(crate) fn pythons() -> Vec<(String, PathBuf)> {
    let say =
        "import sys, venv; print('%d.%d' % sys.version_info[:2] * (sys.version_info >= (3, 11)))";
    let names = (11..30).map(|minor| format!("python3.{minor}"));
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for name in names.chain(["python3", "python"].map(str::to_owned)) {
        let Ok(output) = Command::new(&name).args(["-c", say]).output() else { continue };
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !version.is_empty() && found.iter().all(|(known, _)| *known != version) {
            found.push((version, PathBuf::from(name)));
        }
    }
    found
}

/// Builds the Python package, and tests it with every installed Python.
pub(crate) fn test_package() -> Result<(), Outcome> {
    let pythons = pythons();
    let (_, first) = pythons.first().ok_or_else(|| {
        Outcome::CouldNotRun("there is no Python 3.11 or newer with venv".to_owned())
    })?;
    let wheel = wheel(first, &[])?;
    for (_, python) in &pythons {
        let python = environment(python, PACKAGE)?;
        install(&python, &wheel)?;
        let mut tests = Command::new(&python);
        // Remove temporary files, some of which are large.
        let tidy = ["-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=none"];
        tests.args(["-B", "-m", "pytest", "--quiet", "tests"]).args(tidy);
        run(tests.current_dir(root().join("crates/python")))?;
    }
    Ok(())
}

/// The requirements for building and testing the Python package.
pub(crate) const PACKAGE: &str = "crates/python/requirements-test.txt";

/// Builds a wheel of the Python package; `arguments` are passed to maturin.
pub(crate) fn wheel(python: &Path, arguments: &[&str]) -> Result<PathBuf, Outcome> {
    let python = &environment(python, PACKAGE)?;
    let wheels = target().join("wheels");
    let _ = fs::remove_dir_all(&wheels);
    let mut build = Command::new(python);
    build
        .env("PATH", paths_with(python)?)
        .args(["-m", "maturin", "build", "--quiet", "--locked", "--out"])
        .arg(&wheels)
        .args(arguments);
    run(build.current_dir(root().join("crates/python")))?;
    let built = fs::read_dir(&wheels).map_err(cannot("list wheels"))?.flatten().next();
    let missing = || Outcome::Failed("maturin built no wheel".to_owned());
    built.map(|entry| entry.path()).ok_or_else(missing)
}

/// Installs the package into an environment.
pub(crate) fn install(python: &Path, wheel: &Path) -> Result<(), Outcome> {
    let mut install = Command::new(python);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--force-reinstall",
    ]);
    run(install.arg(wheel))
}

/// Builds the Python package, and unpacks it into a directory for `PYTHONPATH`.
pub(crate) fn package(python: &Path) -> Result<PathBuf, Outcome> {
    let (wheel, python) = (wheel(python, &[])?, environment(python, PACKAGE)?);
    let directory = target().join("interop/package");
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(cannot("delete the package"))?;
    }
    let mut unpack = Command::new(python);
    unpack.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]);
    run(unpack.arg(&directory).arg(wheel))?;
    Ok(directory)
}

/// Downloads the source distribution of a package in a requirements file with checksums; returns the archive.
pub(crate) fn source(python: &Path, requirements: &str) -> Result<PathBuf, Outcome> {
    let requirements = root().join(requirements);
    let name = requirements.file_stem().unwrap_or_default();
    let (directory, python) = (target().join("interop").join(name), environment(python, PACKAGE)?);
    let _ = fs::remove_dir_all(&directory);
    // pip builds the metadata of the package, which requires maturin only.
    let mut download = Command::new(&python);
    download.env("PATH", paths_with(&python)?).args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-cache-dir",
    ]);
    download.args(["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest"]);
    run(download.arg(&directory).arg("-r").arg(&requirements)).map_err(could_not_run)?;
    let archive = fs::read_dir(&directory).map_err(cannot("list downloads"))?.flatten();
    let missing = || Outcome::Failed("pip downloaded nothing".to_owned());
    archive.map(|entry| entry.path()).next().ok_or_else(missing)
}

/// Returns the search path with the programs of an environment first.
pub(crate) fn paths_with(python: &Path) -> Result<OsString, Outcome> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let inside = python.parent().map(Path::to_path_buf);
    let paths = std::env::join_paths(inside.into_iter().chain(std::env::split_paths(&paths)));
    paths.map_err(|error| Outcome::CouldNotRun(error.to_string()))
}

/// The disk that an environment takes with PyTorch, which comes with CUDA, and without it, in MiB.
const ENVIRONMENT_MIB: [u64; 2] = [6144, 1536];

/// Creates a virtual environment with the packages of a requirements file, or returns an existing one; returns its Python.
/// Environments are in `LODSTONE_ENVIRONMENTS`, which several checkouts may share, or in the target directory.
pub(crate) fn environment(python: &Path, requirements: &str) -> Result<PathBuf, Outcome> {
    let environments = match std::env::var_os("LODSTONE_ENVIRONMENTS") {
        Some(directory) => root().join(directory),
        None => target().join("interop"),
    };
    fs::create_dir_all(&environments).map_err(cannot("create the directory of environments"))?;
    let requirements = root().join(requirements);
    let name = requirements.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let python_name = python.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = format!("venv-{name}-{python_name}");
    let directory = environments.join(&name);
    // Two suites, or two checkouts, may need the same one.
    let lock = File::create(environments.join(format!("{name}.lock")));
    let lock = lock.map_err(cannot("lock the environment"))?;
    lock.lock().map_err(cannot("lock the environment"))?;
    let (inside, installed) = (directory.join("bin/python"), directory.join("installed.txt"));
    let wanted = fs::read(&requirements).map_err(cannot("read the requirements"))?;
    if fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(inside);
    }
    let has_torch = wanted.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"torch=="));
    let (free, needed) = (free_mib(&environments)?, ENVIRONMENT_MIB[usize::from(!has_torch)]);
    if free < needed {
        let what = format!("`{name}` needs {needed} MiB of disk, and {free} MiB are free");
        return Err(Outcome::CouldNotRun(what));
    }
    let mut create = Command::new(python);
    run(create.args(["-m", "venv", "--clear"]).arg(&directory)).map_err(could_not_run)?;
    let mut install = Command::new(&inside);
    install.args(["-m", "pip", "install", "--quiet", "--no-cache-dir", "--retries", "10", "-r"]);
    run(install.arg(&requirements)).map_err(could_not_run)?;
    fs::write(&installed, wanted).map_err(cannot("mark the environment as ready"))?;
    Ok(inside)
}

/// Converts a failure of a step that needs the network: the task could not run.
pub(crate) fn could_not_run(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed(what) | Outcome::CouldNotRun(what) => Outcome::CouldNotRun(what),
    }
}

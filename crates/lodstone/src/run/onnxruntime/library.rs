//! The library of ONNX Runtime: from a path, an environment variable, or an installed Python package.

use std::env;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use lodstone_store::Location;
use ort::environment::Environment;

use super::failed;
use crate::{Error, Result};

/// The environment variable with the path of the library, by its name in `ort`.
const VARIABLE: &str = "ORT_DYLIB_PATH";

/// The environment of the process, with the library that was loaded first.
static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// Returns the environment; loads the library, once for the process.
///
/// # Errors
/// If there is none, or it cannot be loaded.
pub(super) fn environment(path: Option<&Path>) -> Result<Environment> {
    let mut environment = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = &*environment {
        return Ok(environment.clone());
    }
    Ok(environment.insert(load(path)?).clone())
}

fn load(path: Option<&Path>) -> Result<Environment> {
    let path = match path.map(Path::to_path_buf).or_else(|| env::var_os(VARIABLE).map(Into::into)) {
        Some(path) => match in_directory(&path) {
            Some(library) => library,
            None if is_file(&path)? => path,
            None => {
                let path = path.display();
                return Err(Error::OnnxRuntime(format!("there is no library at `{path}`")));
            }
        },
        None => installed().ok_or_else(|| {
            let hint = "pass its path (`--engine-path`), set `ORT_DYLIB_PATH`, or install the Python \
                        package `onnxruntime`";
            Error::OnnxRuntime(format!("the library was not found: {hint}"))
        })?,
    };
    let loaded = ort::init_from(&path);
    let builder = loaded.map_err(|error| Error::OnnxRuntime(error.to_string()))?;
    builder.with_telemetry(false).build().map_err(failed)
}

fn is_file(path: &Path) -> Result<bool> {
    let location = Location::from(path);
    Ok(location.exists()? && !location.is_dir()?)
}

/// Returns the library in a directory, such as `onnxruntime/capi` of the Python package.
fn in_directory(path: &Path) -> Option<PathBuf> {
    let names = names(path);
    let stem = format!("{DLL_PREFIX}onnxruntime");
    let is_library = |name: &&String| {
        let rest = name.strip_prefix(&stem);
        rest.is_some_and(|rest| rest.starts_with('.') && rest.contains(DLL_SUFFIX))
    };
    names.iter().filter(is_library).max().map(|name| path.join(name))
}

/// Returns the names in a directory; none if it cannot be read, since the library may be in another one.
fn names(path: &Path) -> Vec<String> {
    let entries = Location::from(path).list_if_possible().unwrap_or_default();
    entries.into_iter().map(|entry| entry.name).collect()
}

/// Returns the library of the Python package `onnxruntime`, if an environment or interpreter on the path has it.
fn installed() -> Option<PathBuf> {
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(env::var_os);
    let path = env::var_os("PATH").unwrap_or_default();
    let beside = env::split_paths(&path).flat_map(|directory| {
        let real =
            ["python3", "python"].map(|name| Location::from(directory.join(name)).link_target());
        let real = real
            .into_iter()
            .flatten()
            .filter_map(|python| python.path().parent().map(Path::to_path_buf));
        real.chain([directory])
            .filter_map(|it| it.parent().map(Path::to_path_buf))
            .collect::<Vec<_>>()
    });
    let home = env::home_dir().map(|home| home.join(".local"));
    let prefixes = environments.map(PathBuf::from).chain(beside).chain(home);
    prefixes
        .flat_map(|prefix| packages(&prefix))
        .find_map(|packages| in_directory(&packages.join("onnxruntime").join("capi")))
}

/// Returns the directories with Python packages below a prefix.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    let library = prefix.join("lib");
    let versions = names(&library).into_iter().filter(|name| name.starts_with("python3"));
    let below = versions.flat_map(|name| {
        ["site-packages", "dist-packages"].map(|packages| library.join(&name).join(packages))
    });
    below.chain([prefix.join("Lib").join("site-packages")]).collect()
}

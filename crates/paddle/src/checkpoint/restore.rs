//! Restoring serials, by running their loaders in a scope.
//!
//! A loader gets tensors that were already read and compared with their checksums, not files. So damage is detected before
//! anything changes, and each byte is read once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use lodstone_checkpoint::{Container, LOADER, Manifest, Numerics, Serial};
use lodstone_engine::{NUMERICS, cpu_level};
use lodstone_formats::paddle::program;
use lodstone_model::{AttributeValue, Limits, Model, Op, Parameter, Program, Tensor};
use lodstone_store::{Location, Progress, plain};

use crate::checkpoint::contents::hash;
use crate::checkpoint::error::{Error, Result};
use crate::checkpoint::fit::{self, Mismatch, RestoreOptions, Restored};
use crate::checkpoint::loader::{FILE, check_ends, get_checkpoint_loader, placement, remove_loads};
use crate::executor::{Dirs, Executor, RANDOM_STATE, Scope};
use crate::program::{LOAD_MERGED, record_position};

/// Returns what the last bits of values computed by this process depend on.
pub fn numerics() -> Numerics {
    let engine = format!("lodstone numerics {NUMERICS}");
    Numerics { engine, simd: format!("{} {}", std::env::consts::ARCH, cpu_level()) }
}

/// Restores all variables of a serial into a scope: by running its loader, or, without one, as tensors. Everything is
/// compared with its checksums first.
///
/// # Errors
/// If anything is damaged, or the loader cannot be run. The scope is unchanged then.
pub fn restore(serial: &Serial, scope: &mut Scope) -> Result<Restored> {
    let manifest = serial.manifest()?;
    let tensors = serial.load(&manifest)?;
    let loader = loader_of(serial, &manifest)?;
    let mut restored = begin(serial, &manifest);
    restored.loaded = tensors.iter().map(|tensor| tensor.name.clone()).collect();
    if let Some(loader) = &loader {
        restored.initialised = initialised(loader, &restored.loaded);
        let given = given(manifest.container, &tensors);
        let dirs = Dirs { given, ..Dirs::default() };
        Executor::default().run(loader, scope, &[], &[], &dirs)?;
    }
    if loader.is_none() || placement(manifest.container).is_none() {
        tensors.into_iter().for_each(|it| scope.set(&it.name, it.tensor));
    }
    forget_random(&manifest, scope);
    Ok(restored)
}

/// Restores what operators of a program have saved to a directory, by running the loader there. It may read only files below
/// the directory, and there are no checksums.
///
/// # Errors
/// If there is no loader, it has a loop, or it cannot be run. The scope is unchanged then.
pub fn restore_saved(dir: impl Into<Location>, scope: &mut Scope) -> Result<()> {
    let dir = dir.into();
    let loader = get_checkpoint_loader(dir.clone())?;
    check_ends(&loader)?;
    let dirs = Dirs { read: Some(dir), ..Dirs::default() };
    Executor::default().run(&loader, scope, &[], &[], &dirs)?;
    Ok(())
}

/// Restores the variables that a program declares. Those that the loader initializes start anew; the others are loaded
/// if they match.
///
/// # Errors
/// [`Error::Mismatch`] with every variable that is missing, extra or of another type, unless a partial restore is
/// allowed; otherwise as [`restore`]. The scope is unchanged then.
pub fn restore_for(
    serial: &Serial,
    main: &Program,
    scope: &mut Scope,
    options: &RestoreOptions,
) -> Result<Restored> {
    let manifest = serial.manifest()?;
    let tensors = fit::rename(serial.read(&manifest)?, &options.renames)?;
    let mut loader = loader_of(serial, &manifest)?;
    let mut restored = begin(serial, &manifest);
    if let Some(loader) = &mut loader {
        remove_loads(loader);
        restored.initialised = initialised(loader, &[]);
    }
    let is_initialised =
        |name: &str| restored.initialised.binary_search_by(|it| it.as_str().cmp(name)).is_ok();
    let (fitting, mismatch) = fit::split(tensors, main, is_initialised);
    if !mismatch.is_empty() && !options.partial {
        return Err(Error::Mismatch(mismatch));
    }
    if manifest.programs.main.as_ref().is_some_and(|hash| is_other(hash, main)) {
        restored.warnings.push("the checkpoint was saved from another program".to_owned());
    }
    let fitting = loaded(fitting)?;
    if let Some(loader) = &loader {
        Executor::default().run(loader, scope, &[], &[], &Dirs::default())?;
    }
    restored.loaded = fitting.iter().map(|tensor| tensor.name.clone()).collect();
    restored.mismatch = mismatch;
    fitting.into_iter().for_each(|it| scope.set(&it.name, it.tensor));
    forget_random(&manifest, scope);
    Ok(restored)
}

/// Returns the tensors of a serial, sorted by name, like [`Serial::tensors`]; a readable loader must load them by the same
/// names.
///
/// # Errors
/// Like [`Serial::tensors`], or if the loader contradicts the manifest.
pub fn tensors(serial: &Serial) -> Result<Vec<Parameter>> {
    let manifest = serial.manifest()?;
    let tensors = serial.read(&manifest)?;
    // Tensors can be used without a damaged loader.
    match read_loader(serial, &manifest) {
        Ok(Some(loader)) => expect_manifest(serial, &manifest, &loader).map(|()| tensors),
        Ok(None) | Err(_) => Ok(tensors),
    }
}

/// Returns all problems with the files of a serial and its loader; empty if it is intact. All bytes are read.
///
/// # Errors
/// Like [`Serial::verify`], or if a loader that is not damaged cannot be read.
pub fn verify(serial: &Serial, progress: &Progress) -> Result<Vec<String>> {
    let found = serial.verify(progress)?;
    if !found.is_empty() {
        return Ok(found);
    }
    let manifest = serial.manifest()?;
    match read_loader(serial, &manifest)? {
        Some(loader) => Ok(contradictions(&manifest, &loader)),
        None => Ok(found),
    }
}

/// Creates the record of a restore that has not started.
fn begin(serial: &Serial, manifest: &Manifest) -> Restored {
    let here = numerics();
    let other = manifest.numerics.as_ref().filter(|saved| **saved != here);
    let warning = other.map(|saved| {
        format!(
            "the checkpoint was computed by {saved}, but this is {here}: results may differ in their last bits"
        )
    });
    Restored {
        step: serial.step,
        warnings: warning.into_iter().collect(),
        metadata: manifest.metadata.clone(),
        mismatch: Mismatch::default(),
        loaded: Vec::new(),
        initialised: Vec::new(),
    }
}

/// Returns the loader of a serial, if it has one, after checking its checksum and its manifest.
///
/// # Errors
/// If it is damaged, may not end, or contradicts the manifest.
fn loader_of(serial: &Serial, manifest: &Manifest) -> Result<Option<Program>> {
    let loader = read_loader(serial, manifest)?;
    if let Some(loader) = &loader {
        check_ends(loader)?;
        expect_manifest(serial, manifest, loader)?;
    }
    Ok(loader)
}

fn read_loader(serial: &Serial, manifest: &Manifest) -> Result<Option<Program>> {
    if !manifest.has_loader() {
        return Ok(None);
    }
    let name = format!("{LOADER}/{FILE}");
    let blob = serial.file(manifest, &name)?;
    let path = serial.path().join(name);
    let program = program::open(&blob, &path.display().to_string(), &Limits::default())?;
    Ok(Some(program))
}

fn expect_manifest(serial: &Serial, manifest: &Manifest, loader: &Program) -> Result<()> {
    match contradictions(manifest, loader).into_iter().next() {
        Some(what) => Err(Error::Misloaded { path: serial.path().to_path_buf(), what }),
        None => Ok(()),
    }
}

/// Returns contradictions: variables that the loader loads and the manifest lists under another name.
fn contradictions(manifest: &Manifest, loader: &Program) -> Vec<String> {
    let names = manifest.variables.iter().map(|var| var.name.as_str());
    let records: Vec<&str> = names.clone().collect();
    let files: HashMap<String, &str> = names.map(|name| (plain(name), name)).collect();
    let mut found = Vec::new();
    for op in loader.ops() {
        for (number, name) in op.output("Out").iter().enumerate() {
            let known = match (op.kind.as_str(), manifest.container) {
                ("load_combine", Container::Combined) => records.get(number),
                ("load" | LOAD_MERGED, Container::Sized) => usize::try_from(record_position(op))
                    .ok()
                    .and_then(|position| records.get(position)),
                ("load", Container::Each) => file_of(op).and_then(|file| files.get(&file)),
                _ => continue,
            };
            if known.is_none_or(|known| known != name) {
                let what = known.map_or("no variable".to_owned(), |it| format!("`{it}`"));
                found.push(format!(
                    "the loader loads `{name}` from the file of {what} in the manifest"
                ));
            }
        }
    }
    found
}

/// Returns the file that an operator loads.
fn file_of(op: &Op) -> Option<String> {
    match op.attribute("file_path") {
        Some(AttributeValue::String(path)) => Some(plain(&path.to_string())),
        _ => None,
    }
}

/// Reads tensors into memory, each byte once, on all processors.
pub(super) fn loaded(parameters: Vec<Parameter>) -> Result<Vec<Parameter>> {
    let mut model = Model { parameters, ..Model::default() };
    model.load()?;
    Ok(model.parameters)
}

/// Groups tensors by the files from which operators load them.
fn given(container: Container, tensors: &[Parameter]) -> BTreeMap<String, Vec<(String, Tensor)>> {
    let pair = |Parameter { name, tensor }: &Parameter| (name.clone(), tensor.clone());
    match (placement(container), container.file()) {
        (None, _) => BTreeMap::new(),
        (Some(_), None) => tensors.iter().map(|it| (plain(&it.name), vec![pair(it)])).collect(),
        (Some(_), Some(file)) => {
            BTreeMap::from([(file.to_owned(), tensors.iter().map(pair).collect())])
        }
    }
}

/// Returns the variables that a loader writes but does not load, sorted.
fn initialised(loader: &Program, loaded: &[String]) -> Vec<String> {
    let loaded: HashSet<&str> = loaded.iter().map(String::as_str).collect();
    let filled: HashSet<&str> = loader.ops().flat_map(Op::writes).collect();
    let lasting = loader.vars().filter(|var| var.persistable).map(|var| var.name.as_str());
    let names: BTreeSet<&str> =
        lasting.filter(|name| filled.contains(name) && !loaded.contains(name)).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Whether a program does not have this hash; also true if it cannot be encoded.
fn is_other(expected: &str, main: &Program) -> bool {
    hash(main).map_or(true, |found| found != expected)
}

/// Removes the state of random numbers from a scope if the program of the serial had not drawn any.
fn forget_random(manifest: &Manifest, scope: &mut Scope) {
    if manifest.has_loader() && manifest.random.is_empty() {
        scope.remove(RANDOM_STATE);
    }
}

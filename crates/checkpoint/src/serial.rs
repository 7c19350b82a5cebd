//! Serials in a directory: listing, verifying and reading them.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use lodstone_formats::Error as FormatError;
use lodstone_model::{Model, Parameter};
use lodstone_store::{Blob, Dir, Error as StoreError, Links, Location, Progress, SourceFile};

use crate::container::Container;
use crate::error::{Error, Result};
use crate::manifest::{MANIFEST, Manifest, SavedVariable};

/// The prefix of the names of serials.
const PREFIX: &str = "step-";

/// The minimum number of digits in a name, so that names sort like numbers.
const DIGITS: usize = 8;

/// The checkpoint of one step, in a directory of checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serial {
    /// The number of steps done.
    pub step: u64,
    path: Location,
}

/// Returns the serials in a directory, oldest first. Other entries are skipped: unfinished serials, and foreign files.
///
/// # Errors
/// If the directory cannot be listed.
pub fn serials(dir: impl Into<Location>) -> Result<Vec<Serial>> {
    let (dir, mut serials) = (dir.into(), Vec::new());
    for entry in dir.list()? {
        let Some(step) = step_of(&entry.name).filter(|_| entry.is_dir) else { continue };
        let path = dir.join(&entry.name);
        if path.join(MANIFEST.name).is_there()? {
            serials.push(Serial { step, path });
        }
    }
    serials.sort_by_key(|serial| serial.step);
    Ok(serials)
}

/// Returns the newest serial in a directory; `None` if it has none or does not exist.
///
/// # Errors
/// If the directory cannot be listed.
pub fn latest(dir: impl Into<Location>) -> Result<Option<Serial>> {
    let dir = dir.into();
    match dir.is_there()? {
        true => Ok(serials(dir)?.pop()),
        false => Ok(None),
    }
}

/// Returns the name of the serial of a step.
pub(crate) fn name_of(step: u64) -> String {
    format!("{PREFIX}{step:0DIGITS$}")
}

/// Returns the step in the name of a serial; `None` for other names.
pub(crate) fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix(PREFIX)?.parse().ok()?;
    // `step-+5` and `step-5` are foreign names.
    (name_of(step) == name).then_some(step)
}

impl Serial {
    /// Returns the serial of a step.
    ///
    /// # Errors
    /// [`Error::Absent`], with the steps that exist.
    pub fn named(dir: impl Into<Location>, step: u64) -> Result<Self> {
        let dir = dir.into();
        let path = dir.join(name_of(step));
        if path.is_dir()? && path.join(MANIFEST.name).is_there()? {
            return Ok(Self { step, path });
        }
        let steps: Vec<String> = match dir.is_dir()? {
            true => serials(dir)?.iter().map(|serial| serial.step.to_string()).collect(),
            false => Vec::new(),
        };
        let what = match steps.as_slice() {
            [] => "the directory has no checkpoints".to_owned(),
            steps => format!("existing steps: {}", steps.join(", ")),
        };
        Err(Error::Absent { path: path.to_path_buf(), what })
    }

    /// Returns the serial of a step [default: the newest].
    ///
    /// # Errors
    /// [`Error::Absent`], or if the directory cannot be listed.
    pub fn find(dir: impl Into<Location>, step: Option<u64>) -> Result<Self> {
        let dir = dir.into();
        let newest = || {
            let what = "the directory has no checkpoints".to_owned();
            latest(&dir)?.ok_or(Error::Absent { path: dir.to_path_buf(), what })
        };
        step.map_or_else(newest, |step| Self::named(&dir, step))
    }

    /// Returns the serial in a directory, whatever its name; `None` if there is none. A manifest of something else is not
    /// an error, unless the directory has the name of a serial.
    ///
    /// # Errors
    /// If the directory has the name of a serial, and its manifest is invalid.
    pub fn at(path: impl Into<Location>) -> Result<Option<Self>> {
        let path = path.into();
        if !path.is_dir()? || !path.join(MANIFEST.name).is_there()? {
            return Ok(None);
        }
        match (path.name().and_then(step_of), Manifest::load(&path)) {
            (Some(step), _) | (None, Ok(Manifest { step, .. })) => Ok(Some(Self { step, path })),
            (None, Err(_)) => Ok(None),
        }
    }

    /// Returns the path of its directory.
    pub fn path(&self) -> &Path {
        self.path.path()
    }

    /// Returns the location of its directory.
    pub fn location(&self) -> &Location {
        &self.path
    }

    /// Reads the manifest.
    ///
    /// # Errors
    /// If the manifest cannot be read or [used](StoreError::Unusable).
    pub fn manifest(&self) -> Result<Manifest> {
        let manifest = Manifest::load(&self.path)?;
        if manifest.step != self.step {
            let what = format!("the manifest belongs to step {}", manifest.step);
            return Err(MANIFEST.contradiction(&self.path, what).into());
        }
        Ok(manifest)
    }

    /// Returns all problems with the files; empty if the serial is intact. All bytes are read. The behavior of its program
    /// is not checked.
    ///
    /// # Errors
    /// If the manifest cannot be used, a file cannot be read, or the operation was cancelled.
    pub fn verify(&self, progress: &Progress) -> Result<Vec<String>> {
        let manifest = self.manifest()?;
        let damages = self.damages(&manifest, progress)?;
        if !damages.is_empty() {
            return Ok(damages);
        }
        match self.open_tensors(&manifest) {
            Ok(tensors) => Ok(contradictions(&manifest, &tensors)),
            Err(Error::Format(error)) if is_damage(&error) => Ok(vec![error.to_string()]),
            Err(error) => Err(error),
        }
    }

    /// Returns the tensors, sorted by name. Their elements are read on access, and compared with their checksums then.
    ///
    /// # Errors
    /// If the manifest cannot be used, or the files contradict it.
    pub fn tensors(&self) -> Result<Vec<Parameter>> {
        self.read(&self.manifest()?)
    }

    /// Returns the tensors like [`tensors`](Self::tensors), with a manifest that was already read.
    ///
    /// # Errors
    /// Like [`tensors`](Self::tensors).
    pub fn read(&self, manifest: &Manifest) -> Result<Vec<Parameter>> {
        self.expect_manifest(manifest, self.open_tensors(manifest)?)
    }

    /// Reads the tensors into memory, sorted by name; all their bytes are compared with their checksums, unless they were
    /// already read with this manifest.
    ///
    /// # Errors
    /// Like [`tensors`](Self::tensors), or if a checksum does not match.
    pub fn load(&self, manifest: &Manifest) -> Result<Vec<Parameter>> {
        // This container aligns elements in the file, so they are aligned if the file is read as a whole.
        if manifest.container == Container::Combined {
            let dir = self.dir(manifest)?;
            let open = |name: &str| Ok(Blob::memory(source(&dir, manifest, name)?.read_all()?));
            let tensors = manifest.container.read(&manifest.variables, &open)?;
            return self.expect_manifest(manifest, tensors);
        }
        let mut model = Model { parameters: self.read(manifest)?, ..Model::default() };
        model.load()?;
        Ok(model.parameters)
    }

    /// Opens a file that the manifest lists. Its bytes are compared with their checksums when they are first read with this
    /// manifest.
    ///
    /// # Errors
    /// [`Error::Absent`] if the manifest does not list the file or it does not exist; if it has another size or cannot
    /// be opened.
    pub fn file(&self, manifest: &Manifest, name: &str) -> Result<Blob> {
        Ok(Blob::file(Arc::new(source(&self.dir(manifest)?, manifest, name)?)))
    }

    /// Opens the directory of the files.
    fn dir(&self, manifest: &Manifest) -> Result<Dir> {
        Ok(Dir::open(self.files(manifest), Links::Confined, false)?)
    }

    /// Returns the location of the directory of the files that the manifest lists.
    pub fn files(&self, manifest: &Manifest) -> Location {
        manifest.data.as_ref().map_or_else(|| self.path.clone(), |data| self.path.join(data))
    }

    /// Returns the files that are missing or do not match their checksums.
    fn damages(&self, manifest: &Manifest, progress: &Progress) -> Result<Vec<String>> {
        let (dir, mut found) = (self.dir(manifest)?, Vec::new());
        for sealed in &manifest.files {
            let Some(file) = dir.open_source(&sealed.name)? else {
                found.push(format!("`{}` does not exist", sealed.name));
                continue;
            };
            let file = match file.checked(Arc::clone(&sealed.checks)) {
                Err(error @ StoreError::Resized { .. }) => {
                    found.push(error.to_string());
                    continue;
                }
                file => file?,
            };
            let damages = sealed.checks.damages(&file, progress)?;
            found.extend(damages.iter().map(|damage| format!("`{}`: {damage}", sealed.name)));
        }
        Ok(found)
    }

    /// Opens the tensors in the files, with their names in the manifest.
    fn open_tensors(&self, manifest: &Manifest) -> Result<Vec<Parameter>> {
        let dir = self.dir(manifest)?;
        let open = |name: &str| Ok(Blob::file(Arc::new(source(&dir, manifest, name)?)));
        manifest.container.read(&manifest.variables, &open)
    }

    /// Checks that the tensors match the manifest.
    fn expect_manifest(
        &self,
        manifest: &Manifest,
        tensors: Vec<Parameter>,
    ) -> Result<Vec<Parameter>> {
        match contradictions(manifest, &tensors).into_iter().next() {
            Some(what) => Err(MANIFEST.contradiction(&self.path, what).into()),
            None => Ok(tensors),
        }
    }
}

/// Opens a file that the manifest lists; its bytes are compared with their checksums when they are read.
fn source(dir: &Dir, manifest: &Manifest, name: &str) -> Result<SourceFile> {
    let absent = |what: &str| Error::Absent { path: dir.path().join(name), what: what.to_owned() };
    let sealed = manifest.files.iter().find(|file| file.name == name);
    let sealed = sealed.ok_or_else(|| absent("the manifest does not list this file"))?;
    let file = dir.open_source(name)?;
    let file = file.ok_or_else(|| absent("the manifest lists this file, but it does not exist"))?;
    Ok(file.checked(Arc::clone(&sealed.checks))?)
}

/// Describes how the tensors of the files differ from the manifest: in kind, type or shape.
fn contradictions(manifest: &Manifest, tensors: &[Parameter]) -> Vec<String> {
    let show = |var: &SavedVariable| format!("{} {}{:?}", var.kind, var.dtype, var.shape);
    let pairs = manifest.variables.iter().zip(tensors);
    let contradicted = pairs.filter_map(|(listed, tensor)| {
        let found = SavedVariable::of(tensor);
        let (expected, is) = (show(listed), show(&found));
        (*listed != found).then(|| {
            format!("`{}` is {is} in its file, but {expected} in the manifest", listed.name)
        })
    });
    let mut names = HashSet::new();
    let known: HashSet<&str> = manifest.variables.iter().map(|var| var.name.as_str()).collect();
    let twice = manifest.variables.iter().filter(|var| !names.insert(&var.name));
    let twice = twice.map(|var| format!("the manifest lists `{}` twice", var.name));
    let named = manifest.random.iter().chain(&manifest.schedule);
    let absent = named.filter(|name| !known.contains(name.as_str()));
    let absent = absent
        .map(|name| format!("the manifest refers to variable `{name}`, which it does not list"));
    contradicted.chain(twice).chain(absent).collect()
}

/// Whether an error means that a file is malformed, rather than that it cannot be read.
fn is_damage(error: &FormatError) -> bool {
    let cause = error.cause();
    matches!(
        cause,
        FormatError::Store(StoreError::Malformed { .. } | StoreError::OutOfRange { .. })
    )
}

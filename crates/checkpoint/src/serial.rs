//! Serials in a directory: found, listed, verified, read.

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

/// The minimum number of digits in a name, so that names sort as numbers do.
const DIGITS: usize = 8;

/// The checkpoint of one step, in a directory of checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serial {
    /// The number of steps done.
    pub step: u64,
    path: Location,
}

/// The serials in a directory, oldest first. Other entries are skipped: unfinished serials, and foreign files.
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

/// The newest serial in a directory; `None` if there is none, or no such directory.
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

/// The name of the serial of a step.
pub(crate) fn name_of(step: u64) -> String {
    format!("{PREFIX}{step:0DIGITS$}")
}

/// The step in the name of a serial; `None` if it is no such name.
fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix(PREFIX)?.parse().ok()?;
    // `step-+5` and `step-5` are foreign.
    (name_of(step) == name).then_some(step)
}

impl Serial {
    /// The serial of a step.
    ///
    /// # Errors
    /// [`Error::Absent`], with the steps that exist.
    pub fn named(dir: impl Into<Location>, step: u64) -> Result<Self> {
        let dir = dir.into();
        let path = dir.join(name_of(step));
        if path.is_dir() && path.join(MANIFEST.name).is_there()? {
            return Ok(Self { step, path });
        }
        let steps: Vec<String> = match dir.is_dir() {
            true => serials(dir)?.iter().map(|serial| serial.step.to_string()).collect(),
            false => Vec::new(),
        };
        let what = match steps.as_slice() {
            [] => "there is none in its directory".to_owned(),
            steps => format!("there are those of the steps {}", steps.join(", ")),
        };
        Err(Error::Absent { path: path.to_path_buf(), what })
    }

    /// The serial of a step, or the newest if none is named.
    ///
    /// # Errors
    /// [`Error::Absent`], or if the directory cannot be listed.
    pub fn find(dir: impl Into<Location>, step: Option<u64>) -> Result<Self> {
        let dir = dir.into();
        let newest = || {
            let what = "there is no serial in the directory".to_owned();
            latest(&dir)?.ok_or(Error::Absent { path: dir.to_path_buf(), what })
        };
        step.map_or_else(newest, |step| Self::named(&dir, step))
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.path.path()
    }

    /// Where its directory is.
    pub fn location(&self) -> &Location {
        &self.path
    }

    /// What it contains.
    ///
    /// # Errors
    /// If the manifest cannot be read or [used](StoreError::Unusable).
    pub fn manifest(&self) -> Result<Manifest> {
        let manifest = Manifest::load(&self.path)?;
        if manifest.step != self.step {
            let what = format!("it is that of step {}", manifest.step);
            return Err(MANIFEST.contradiction(&self.path, what).into());
        }
        Ok(manifest)
    }

    /// Everything that is wrong with the files, of which all bytes are read; nothing if the serial is whole. What the
    /// program in it does is not looked at.
    ///
    /// # Errors
    /// If the manifest cannot be used, a file cannot be read, or the work was cancelled.
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

    /// The tensors, sorted by name. Their elements are read on access, and compared with their checksums then.
    ///
    /// # Errors
    /// If the manifest cannot be used, or the files contradict it.
    pub fn tensors(&self) -> Result<Vec<Parameter>> {
        self.read(&self.manifest()?)
    }

    /// The same, with the manifest of the serial.
    ///
    /// # Errors
    /// As [`tensors`](Self::tensors).
    pub fn read(&self, manifest: &Manifest) -> Result<Vec<Parameter>> {
        self.expect_manifest(manifest, self.open_tensors(manifest)?)
    }

    /// The tensors in memory, sorted by name; all their bytes are compared with their checksums, unless they were read
    /// with this manifest before.
    ///
    /// # Errors
    /// As [`tensors`](Self::tensors), or if a checksum does not match.
    pub fn load(&self, manifest: &Manifest) -> Result<Vec<Parameter>> {
        // This container aligns elements in the file, so they are aligned if the file is read as a whole.
        if manifest.container == Container::Combined {
            let dir = self.dir()?;
            let open = |name: &str| Ok(Blob::memory(source(&dir, manifest, name)?.read_all()?));
            let tensors = manifest.container.read(&manifest.variables, &open)?;
            return self.expect_manifest(manifest, tensors);
        }
        let mut model = Model { parameters: self.read(manifest)?, ..Model::default() };
        model.load()?;
        Ok(model.parameters)
    }

    /// A file that the manifest lists. Its bytes are compared with their checksums when they are first read with this
    /// manifest.
    ///
    /// # Errors
    /// [`Error::Absent`] if the manifest does not list the file or it does not exist; if it has another size or cannot
    /// be opened.
    pub fn file(&self, manifest: &Manifest, name: &str) -> Result<Blob> {
        Ok(Blob::file(Arc::new(source(&self.dir()?, manifest, name)?)))
    }

    fn dir(&self) -> Result<Dir> {
        Ok(Dir::open(&self.path, Links::Confined, false)?)
    }

    /// The files that are missing or do not match their checksums.
    fn damages(&self, manifest: &Manifest, progress: &Progress) -> Result<Vec<String>> {
        let (dir, mut found) = (self.dir()?, Vec::new());
        for sealed in &manifest.files {
            let Some(file) = dir.open_source(&sealed.name)? else {
                found.push(format!("`{}` is not there", sealed.name));
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

    /// The tensors in the files, with the names that the manifest has for them.
    fn open_tensors(&self, manifest: &Manifest) -> Result<Vec<Parameter>> {
        let dir = self.dir()?;
        let open = |name: &str| Ok(Blob::file(Arc::new(source(&dir, manifest, name)?)));
        manifest.container.read(&manifest.variables, &open)
    }

    /// The tensors, if they are what the manifest lists.
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

/// A file that the manifest lists, whose bytes are compared with their checksums when they are read.
fn source(dir: &Dir, manifest: &Manifest, name: &str) -> Result<SourceFile> {
    let absent = |what: &str| Error::Absent { path: dir.path().join(name), what: what.to_owned() };
    let sealed = manifest.files.iter().find(|file| file.name == name);
    let sealed = sealed.ok_or_else(|| absent("its manifest does not have this file"))?;
    let file = dir.open_source(name)?;
    let file = file.ok_or_else(|| absent("its manifest has this file, and it is not there"))?;
    Ok(file.checked(Arc::clone(&sealed.checks))?)
}

/// How the tensors of the files differ from the manifest: in kind, type or shape.
fn contradictions(manifest: &Manifest, tensors: &[Parameter]) -> Vec<String> {
    let show = |var: &SavedVariable| format!("{} {}{:?}", var.kind, var.dtype, var.shape);
    let pairs = manifest.variables.iter().zip(tensors);
    let contradicted = pairs.filter_map(|(said, tensor)| {
        let found = SavedVariable::of(tensor);
        let (expected, is) = (show(said), show(&found));
        (*said != found)
            .then(|| format!("`{}` is {is} in its file, and {expected} in the manifest", said.name))
    });
    let mut names = HashSet::new();
    let known: HashSet<&str> = manifest.variables.iter().map(|var| var.name.as_str()).collect();
    let twice = manifest.variables.iter().filter(|var| !names.insert(&var.name));
    let twice = twice.map(|var| format!("the manifest has `{}` twice", var.name));
    let named = manifest.random.iter().chain(&manifest.schedule);
    let absent = named.filter(|name| !known.contains(name.as_str()));
    let absent = absent.map(|name| format!("the manifest has no variable `{name}`, and names it"));
    contradicted.chain(twice).chain(absent).collect()
}

/// Whether a file is not what its format says, rather than one that cannot be read.
fn is_damage(error: &FormatError) -> bool {
    let cause = error.cause();
    matches!(
        cause,
        FormatError::Store(StoreError::Malformed { .. } | StoreError::OutOfRange { .. })
    )
}

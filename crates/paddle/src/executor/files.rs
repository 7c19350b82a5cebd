//! Files that operators load and save.
//!
//! Names are relative, as programs have them, and cannot leave the directory of the run. Files that are saved under one
//! prefix are held until the last operator of its block that saves there has run, then written and published together:
//! a reader sees either all old or all new files. Loads of the same run see held files.
//!
//! A program from a file accesses no files: the executor gets a directory for each run. In Python, only programs to
//! which this process has appended operators, and loaders, have one of their own.

use std::collections::BTreeMap;
use std::path::Path;

use crate::program::Paths;
use lodstone_formats::paddle::stream::{self, Layout};
use lodstone_model::{AttributeValue, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::paddle::is_save;
use lodstone_store::{Blob, Commit, Dir, Links, Location, Output, Progress, check_relative, plain};

use crate::executor::error::{Error, Outcome, Result};

/// The tensors of a file, with the names of their variables.
type Records = Vec<(String, Tensor)>;

/// The directories that programs may load from and save to.
#[derive(Clone, Debug, Default)]
pub struct Dirs {
    /// The directory for loading; if `None`, loading is not allowed.
    pub read: Option<Location>,
    /// The directory for saving; if `None`, saving is not allowed.
    pub write: Option<Location>,
    /// The file names that are allowed.
    pub paths: Paths,
    /// Files that were already read, by name: their records, with the names of their variables. They are loaded from
    /// here, whatever the directories.
    pub given: BTreeMap<String, Records>,
    /// Counts the saved bytes, and can cancel the run.
    pub progress: Progress,
}

impl Dirs {
    /// Uses one directory for loading and saving.
    pub fn one(path: impl Into<Location>) -> Self {
        let path = path.into();
        Self { read: Some(path.clone()), write: Some(path), ..Self::default() }
    }
}

/// Returns the prefix under which an operator saves: the directory of its file.
pub(crate) fn saved_under(op: &Op) -> Option<String> {
    if !is_save(op) {
        return None;
    }
    match op.attribute("file_path") {
        Some(AttributeValue::String(path)) => Some(prefix_of(&path.to_string())),
        _ => None,
    }
}

fn prefix_of(path: &str) -> String {
    let path = named(path);
    path.rsplit_once('/').map_or(String::new(), |(prefix, _)| prefix.to_owned())
}

/// Normalizes a file name, whether relative or absolute.
fn named(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", plain(path))
}

/// Returns the nearest existing directory above a file.
fn above(file: &Location) -> lodstone_store::Result<Option<Location>> {
    let mut above = file.parent();
    while let Some(directory) = above {
        if directory.is_dir()? {
            return Ok(Some(directory));
        }
        above = directory.parent();
    }
    Ok(None)
}

/// The files of a run.
pub(crate) struct Files<'d> {
    dirs: &'d Dirs,
    /// Saved files that are not written yet, by name.
    held: BTreeMap<String, Held>,
}

struct Held {
    records: Records,
    /// Whether each record is preceded by its size.
    sized: bool,
}

impl<'d> Files<'d> {
    pub(crate) fn new(dirs: &'d Dirs) -> Self {
        Self { dirs, held: BTreeMap::new() }
    }

    /// Fails if the run was cancelled.
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        self.dirs.progress.advance(0).map_err(|_| Error::Cancelled)
    }

    fn check(&self, path: &str) -> Outcome<()> {
        match self.dirs.paths {
            Paths::Inside => Ok(check_relative(path)?),
            Paths::Anywhere if path.is_empty() => {
                Err("the attribute `file_path` is missing".into())
            }
            Paths::Anywhere => Ok(()),
        }
    }

    /// Holds a saved file. If the file is already held, records with sizes are appended; otherwise the file is replaced.
    pub(crate) fn save(
        &mut self,
        path: &str,
        records: Records,
        sized: bool,
        overwrite: bool,
    ) -> Outcome<()> {
        self.check(path)?;
        let root = self.dirs.write.as_ref().ok_or("the run has no directory to save to")?;
        let name = named(path);
        if let Some(held) = self.held.get_mut(&name).filter(|held| held.sized && sized) {
            held.records.extend(records);
            return Ok(());
        }
        if !overwrite && root.join(path).is_there()? {
            return Err(format!("`{path}` already exists, and must not be overwritten").into());
        }
        self.held.insert(name, Held { records, sized });
        Ok(())
    }

    /// Writes and publishes the files that are held under a prefix.
    pub(crate) fn publish(&mut self, prefix: &str) -> Outcome<()> {
        let root = self.dirs.write.as_ref().ok_or("the run has no directory to save to")?;
        let here: Vec<String> =
            self.held.keys().filter(|name| prefix_of(name) == prefix).cloned().collect();
        // All of them are in one directory.
        let first = here.first().filter(|_| self.dirs.paths == Paths::Anywhere);
        let outside = first.map(|name| above(&root.join(name))).transpose()?.flatten();
        let base = outside.as_ref().unwrap_or(root);
        let mut commit = Commit::within(base, self.dirs.progress.clone())?;
        for name in &here {
            let held = self.held.get(name);
            let held = held.ok_or_else(|| Finding::internal(format!("`{name}` is not held")))?;
            let path = root.join(name);
            let file =
                path.path().strip_prefix(base.path()).ok().and_then(Path::to_str).unwrap_or(name);
            let layout = Layout { sized: held.sized, ..Layout::default() };
            let fill = |out: &mut Output| {
                let mut records = held.records.iter();
                records
                    .try_for_each(|(name, tensor)| stream::write_record(out, name, tensor, layout))
            };
            commit.write(file, fill)?;
        }
        commit.publish()?;
        here.iter().for_each(|name| drop(self.held.remove(name)));
        Ok(())
    }

    /// Returns the records of a file that this run saved or that was given.
    pub(crate) fn held(&self, path: &str) -> Option<&[(String, Tensor)]> {
        let name = named(path);
        let held = self.held.get(&name).map(|held| &held.records);
        held.or_else(|| self.dirs.given.get(&name)).map(Vec::as_slice)
    }

    /// Opens a file for loading.
    pub(crate) fn open(&self, path: &str) -> Outcome<Blob> {
        self.check(path)?;
        let root = self.dirs.read.as_ref().ok_or("the run has no directory to load from")?;
        let opened = match self.dirs.paths {
            Paths::Anywhere => Blob::open(root.join(path), true).map(Some),
            Paths::Inside => {
                Dir::open(root, Links::Confined, true).and_then(|dir| dir.open_file(path))
            }
        };
        opened?.ok_or_else(|| format!("`{}` does not exist", root.join(path).display()).into())
    }
}

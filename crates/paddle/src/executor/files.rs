//! Files that operators load and save.
//!
//! Names are those that programs have: relative, and they stay in the directory that the run is given. What is
//! saved under one prefix is held until the last operator of its block that saves there has run, then written and
//! published as one: who looks sees all of the old or all of the new. Loads of the same run see what is held.

use std::collections::BTreeMap;
use std::path::Path;

use crate::program::Paths;
use lodstone_formats::paddle::stream::{self, Layout};
use lodstone_model::{AttributeValue, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_store::{Blob, Commit, Dir, Links, Location, Output, Progress, check_relative, plain};

use crate::executor::error::{Error, Outcome, Result};

/// Tensors of a file, with the names of their variables.
type Records = Vec<(String, Tensor)>;

/// Where programs may load and save.
#[derive(Clone, Debug, Default)]
pub struct Dirs {
    /// What names are relative to that are loaded; nothing may be if there is none.
    pub read: Option<Location>,
    /// What names are relative to that are saved; nothing may be if there is none.
    pub write: Option<Location>,
    /// Which names may be.
    pub paths: Paths,
    /// Files that were read before, by name: their records, with the names of their variables. They are loaded as
    /// they are, whatever directory there is.
    pub given: BTreeMap<String, Records>,
    /// Counts the bytes that are saved, and cancels.
    pub progress: Progress,
}

impl Dirs {
    /// One directory to load from and to save to.
    pub fn one(path: impl Into<Location>) -> Self {
        let path = path.into();
        Self { read: Some(path.clone()), write: Some(path), ..Self::default() }
    }
}

/// The prefix under which an operator saves: what its file lies in.
pub(crate) fn saved_under(op: &Op) -> Option<String> {
    if !matches!(op.kind.as_str(), "save" | "save_combine") {
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

/// The one name of a file, whether from a directory on or from the root.
fn named(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", plain(path))
}

/// The nearest directory above a file that is there.
fn above(file: &Location) -> Option<Location> {
    std::iter::successors(file.parent(), Location::parent).find(Location::is_dir)
}

/// The files of a run.
pub(crate) struct Files<'d> {
    dirs: &'d Dirs,
    /// What is saved and not written yet, by file.
    held: BTreeMap<String, Held>,
}

struct Held {
    records: Records,
    /// Whether each record follows its size.
    sized: bool,
}

impl<'d> Files<'d> {
    pub(crate) fn new(dirs: &'d Dirs) -> Self {
        Self { dirs, held: BTreeMap::new() }
    }

    /// Fails if whoever watches the run has stopped it.
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        self.dirs.progress.advance(0).map_err(|_| Error::Cancelled)
    }

    fn check(&self, path: &str) -> Outcome<()> {
        match self.dirs.paths {
            Paths::Inside => Ok(check_relative(path)?),
            Paths::Anywhere if path.is_empty() => Err("it has no `file_path`".into()),
            Paths::Anywhere => Ok(()),
        }
    }

    /// Holds what is saved as a file. One that is saved already gets more records if they follow their sizes,
    /// and is replaced otherwise.
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
            return Err(format!("`{path}` is there already, and may not be overwritten").into());
        }
        self.held.insert(name, Held { records, sized });
        Ok(())
    }

    /// Writes and publishes what is held under a prefix.
    pub(crate) fn publish(&mut self, prefix: &str) -> Outcome<()> {
        let root = self.dirs.write.as_ref().ok_or("the run has no directory to save to")?;
        let here: Vec<String> =
            self.held.keys().filter(|name| prefix_of(name) == prefix).cloned().collect();
        // All of them lie in one directory.
        let first = here.first().filter(|_| self.dirs.paths == Paths::Anywhere);
        let outside = first.and_then(|name| above(&root.join(name)));
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

    /// The records of a file that this run saves, or was given.
    pub(crate) fn held(&self, path: &str) -> Option<&[(String, Tensor)]> {
        let name = named(path);
        let held = self.held.get(&name).map(|held| &held.records);
        held.or_else(|| self.dirs.given.get(&name)).map(Vec::as_slice)
    }

    /// A file that is loaded.
    pub(crate) fn open(&self, path: &str) -> Outcome<Blob> {
        self.check(path)?;
        let root = self.dirs.read.as_ref().ok_or("the run has no directory to load from")?;
        let opened = match self.dirs.paths {
            Paths::Anywhere => Blob::open(root.join(path), true).map(Some),
            Paths::Inside => {
                Dir::open(root, Links::Confined, true).and_then(|dir| dir.open_file(path))
            }
        };
        opened?.ok_or_else(|| format!("`{}` is not there", root.join(path).display()).into())
    }
}

//! The lookup of the seal of a file: in its directory, or in one above it.
//!
//! A file is looked up by the path that it was opened by, in every directory of that path, and then
//! by its path without symlinks. The nearest seal that lists it is used.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use lodstone_model::Model;
use lodstone_store::{Blob, Checks, Dir, Location, SourceFile};

use crate::error::{Error, Result};
use crate::options::OpenOptions;
use crate::registry::FORMATS;
use crate::seal::{Seal, SealedModel};

/// A cache of seals, each of which is read once, on first use.
#[derive(Debug, Default)]
pub struct Seals {
    known: RefCell<HashMap<Location, Option<Rc<Known>>>>,
    above: RefCell<HashMap<Location, Rc<[SealEntry]>>>,
}

/// A seal that has been read.
#[derive(Debug)]
struct Known {
    seal: Seal,
    checks: HashMap<String, Arc<Checks>>,
}

/// A name in the possible seal of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SealEntry {
    /// The directory of the seal.
    pub root: Location,
    /// The name in it.
    pub name: String,
}

impl SealEntry {
    /// Returns whether the seal is in the directory `root`, by the same path.
    pub fn is_in(&self, root: &Location) -> bool {
        let plain = |path: &Path| -> PathBuf {
            path.components().filter(|part| *part != Component::CurDir).collect()
        };
        plain(self.root.path()) == plain(root.path())
    }
}

/// The part of a seal that applies to a path.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The directory of the seal.
    pub root: Location,
    /// Its models that have a file at the path.
    pub models: Vec<SealedModel>,
}

/// Returns the entries that may list the file at `path`, nearest first: in its own directory and those above it.
pub fn seal_entries(path: &Location) -> Vec<SealEntry> {
    let paths = [Some(path.clone()), path.link_target()];
    let of_path = |path: Location| Some(named(&places_below(&path.directory()), path.name()?));
    paths.into_iter().flatten().filter_map(of_path).flatten().collect()
}

/// Returns the same for the contents of a directory: the prefixes of their names, empty or `sub/`.
fn places_below(directory: &Location) -> Vec<SealEntry> {
    let begins = |(root, way): (Location, PathBuf)| {
        // Seals list only UTF-8 names.
        let name: Option<String> =
            way.iter().map(|part| Some(format!("{}/", part.to_str()?))).collect();
        // Normalized, so that a directory has one name.
        let root = if root.path() == Path::new(".") { root.at("") } else { root };
        Some(SealEntry { root, name: name? })
    };
    directory.seal_directories().into_iter().filter_map(begins).collect()
}

fn named(places: &[SealEntry], name: &str) -> Vec<SealEntry> {
    let named = |place: &SealEntry| SealEntry { name: place.name.clone() + name, ..place.clone() };
    places.iter().map(named).collect()
}

impl Seals {
    /// Returns the entry that lists the file at `path`, and its checks.
    ///
    /// # Errors
    /// Fails if a seal that may list it cannot be read.
    pub fn of(&self, path: &Location) -> Result<Option<(SealEntry, Arc<Checks>)>> {
        for path in [Some(path.clone()), path.link_target()].into_iter().flatten() {
            let Some(name) = path.name() else { continue };
            for place in self.above(&path.directory()).iter() {
                let Some(known) = self.known(&place.root)? else { continue };
                let name = format!("{}{name}", place.name);
                if let Some(checks) = known.checks.get(&name) {
                    let place = SealEntry { root: place.root.clone(), name };
                    return Ok(Some((place, Arc::clone(checks))));
                }
            }
        }
        Ok(None)
    }

    /// Returns the file with the checks of the seal that lists it, if there is one.
    ///
    /// # Errors
    /// The errors of [`of`](Self::of); fails if the size does not match.
    pub fn checked(&self, file: SourceFile) -> Result<SourceFile> {
        Ok(match self.of(file.location())? {
            Some((_, checks)) => file.checked(checks)?,
            None => file,
        })
    }

    /// Returns the sealed models at `path`: all below a directory, the one that contains
    /// a file, or the first whose files have a prefix.
    ///
    /// # Errors
    /// The errors of [`of`](Self::of).
    pub fn models_at(&self, path: &Location) -> Result<Option<Sealed>> {
        if path.is_dir()? {
            let below = places_below(path);
            return self.first(&below, |file, start| file.starts_with(start));
        }
        if path.exists()? {
            let place = self.of(path)?.map(|(place, _)| place);
            return self.first(place.as_slice(), |file, name| file == name);
        }
        let Some(prefix) = path.name() else { return Ok(None) };
        let begins = |file: &str, prefix: &str| {
            let rest = file.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
        };
        let mut sealed = self.first(&named(&places_below(&path.directory()), prefix), begins)?;
        // A prefix belongs to one model.
        sealed.iter_mut().for_each(|sealed| sealed.models.truncate(1));
        // The names of some formats do not begin with the prefix and a dot or a dash.
        for hook in FORMATS.iter().filter_map(|format| format.prefix) {
            if sealed.is_none()
                && let Some(file) = (hook.find)(path)?
            {
                return self.models_at(&file);
            }
        }
        Ok(sealed)
    }

    /// Returns the models of the first entry that lists files.
    fn first(
        &self,
        places: &[SealEntry],
        names: impl Fn(&str, &str) -> bool,
    ) -> Result<Option<Sealed>> {
        for SealEntry { root, name } in places {
            let Some(known) = self.known(root)? else { continue };
            let has_one = |model: &&SealedModel| model.files.iter().any(|f| names(&f.name, name));
            let models: Vec<_> = known.seal.models.iter().filter(has_one).cloned().collect();
            if !models.is_empty() {
                return Ok(Some(Sealed { root: root.clone(), models }));
            }
        }
        Ok(None)
    }

    /// Returns the entries that may list the files in a directory.
    fn above(&self, directory: &Location) -> Rc<[SealEntry]> {
        if let Some(places) = self.above.borrow().get(directory) {
            return Rc::clone(places);
        }
        let places: Rc<[SealEntry]> = places_below(directory).into();
        self.above.borrow_mut().insert(directory.clone(), Rc::clone(&places));
        places
    }

    /// Returns the seal of a directory.
    fn known(&self, root: &Location) -> Result<Option<Rc<Known>>> {
        if let Some(known) = self.known.borrow().get(root) {
            return Ok(known.clone());
        }
        let seal = Seal::load(root)?;
        let known = seal.map(|seal| Rc::new(Known { checks: seal.checks(), seal }));
        self.known.borrow_mut().insert(root.clone(), known.clone());
        Ok(known)
    }
}

/// A directory in which names from a model are resolved, and files are verified against their
/// seals.
#[derive(Debug)]
pub struct ModelDir {
    dir: Dir,
    /// `None` if files are not verified.
    seals: Option<Seals>,
}

impl ModelDir {
    pub(crate) fn new(dir: Dir, seals: Option<Seals>) -> Self {
        Self { dir, seals }
    }

    /// Returns the path that was opened.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Opens the regular file `name` below this directory; `None` if it does not exist.
    ///
    /// # Errors
    /// The errors of [`Dir::open_source`] and [`Seals::checked`].
    pub fn open_file(&self, name: &str) -> Result<Option<Blob>> {
        let Some(file) = self.dir.open_source(name)? else { return Ok(None) };
        let file = match &self.seals {
            Some(seals) => seals.checked(file)?,
            None => file,
        };
        Ok(Some(Blob::file(Arc::new(file))))
    }

    /// Returns the regular files below this directory.
    ///
    /// # Errors
    /// The errors of [`Dir::files`].
    pub fn files(&self, max: usize) -> Result<Vec<String>> {
        Ok(self.dir.files(max)?)
    }
}

/// Checks that a model is sealed as a whole: if the file at `path` or one of the opened files is sealed, all of them
/// must be. A file chosen by the user may be beside the seal of another model.
///
/// # Errors
/// [`Error::Unsealed`], unless models are not [verified](OpenOptions::verify); fails if a seal that may list a file
/// cannot be read.
pub fn check_sealed(path: &Location, model: &Model, options: &OpenOptions) -> Result<()> {
    let Some(seals) = options.seals() else { return Ok(()) };
    let files = || model.files.iter().filter_map(|blob| Some(blob.file_range()?.0));
    let Some(file) = files().find(|file| !file.is_checked()) else { return Ok(()) };
    let file = file.path().to_path_buf();
    let mut sealed = files().any(|file| file.is_checked());
    for path in [Some(path), options.params.as_ref()].into_iter().flatten() {
        sealed = sealed || seals.models_at(path)?.is_some();
    }
    if sealed {
        return Err(Error::Unsealed { path: file });
    }
    Ok(())
}

//! Which seal a file is in: that of its directory, or of one above it.
//!
//! A file is looked for by the path that it was opened by, in every directory of that path, and then
//! by what it is without symbolic links. The nearest seal that lists it counts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use lodstone_model::Model;
use lodstone_store::{Blob, Checks, Dir, Location, SourceFile};

use crate::{Error, OpenOptions, Result, Seal, SealedModel};

/// The seals that files are in. Each is read once, when it is first asked for.
#[derive(Debug, Default)]
pub struct Seals {
    known: RefCell<HashMap<Location, Option<Rc<Known>>>>,
    above: RefCell<HashMap<Location, Rc<[Place]>>>,
}

/// A seal that was read.
#[derive(Debug)]
struct Known {
    seal: Seal,
    checks: HashMap<String, Arc<Checks>>,
}

/// A name in the seal that a directory has, or may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The directory of the seal.
    pub root: Location,
    /// A name there.
    pub name: String,
}

impl Place {
    /// Whether the seal is that of the directory `root`, by the same path.
    pub fn is_in(&self, root: &Location) -> bool {
        let plain = |path: &Path| -> PathBuf {
            path.components().filter(|part| *part != Component::CurDir).collect()
        };
        plain(self.root.path()) == plain(root.path())
    }
}

/// What of a seal belongs to what was asked for.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The directory of the seal.
    pub root: Location,
    /// Its models that have a file of it.
    pub models: Vec<SealedModel>,
}

/// Where the file at `path` may be listed, nearest first: its own directory and those above it.
pub fn places(path: &Location) -> Vec<Place> {
    let paths = [Some(path.clone()), path.link_target()];
    let of_path = |path: Location| Some(named(&places_below(&path.directory()), path.name()?));
    paths.into_iter().flatten().filter_map(of_path).flatten().collect()
}

/// The same for what is in a directory: what names of it begin with there, nothing or `sub/`.
fn places_below(directory: &Location) -> Vec<Place> {
    let begins = |(root, way): (Location, PathBuf)| {
        // No seal has names that are not UTF-8.
        let name: Option<String> =
            way.iter().map(|part| Some(format!("{}/", part.to_str()?))).collect();
        // One directory has one name.
        let root = if root.path() == Path::new(".") { root.at("") } else { root };
        Some(Place { root, name: name? })
    };
    directory.seal_directories().into_iter().filter_map(begins).collect()
}

fn named(places: &[Place], name: &str) -> Vec<Place> {
    let named = |place: &Place| Place { name: place.name.clone() + name, ..place.clone() };
    places.iter().map(named).collect()
}

impl Seals {
    /// Where the file at `path` is listed, and what it should be.
    ///
    /// # Errors
    /// If a seal that it could be in cannot be read.
    pub fn of(&self, path: &Location) -> Result<Option<(Place, Arc<Checks>)>> {
        for path in [Some(path.clone()), path.link_target()].into_iter().flatten() {
            let Some(name) = path.name() else { continue };
            for place in self.above(&path.directory()).iter() {
                let Some(known) = self.known(&place.root)? else { continue };
                let name = format!("{}{name}", place.name);
                if let Some(checks) = known.checks.get(&name) {
                    let place = Place { root: place.root.clone(), name };
                    return Ok(Some((place, Arc::clone(checks))));
                }
            }
        }
        Ok(None)
    }

    /// The same file, compared with the seal that lists it, if one does.
    ///
    /// # Errors
    /// As [`of`](Self::of); if it has another size.
    pub fn checked(&self, file: SourceFile) -> Result<SourceFile> {
        Ok(match self.of(file.location())? {
            Some((_, checks)) => file.checked(checks)?,
            None => file,
        })
    }

    /// What is sealed of the models that `path` leads to: of all below a directory, of the one that has
    /// a file, of the first whose files have a prefix.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn asked(&self, path: &Location) -> Result<Option<Sealed>> {
        if path.is_dir() {
            let below = places_below(path);
            return self.first(&below, |file, start| file.starts_with(start));
        }
        if path.exists() {
            let place = self.of(path)?.map(|(place, _)| place);
            return self.first(place.as_slice(), |file, name| file == name);
        }
        let Some(prefix) = path.name() else { return Ok(None) };
        let begins = |file: &str, prefix: &str| {
            let rest = file.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
        };
        let mut sealed = self.first(&named(&places_below(&path.directory()), prefix), begins)?;
        // A prefix is that of one model.
        sealed.iter_mut().for_each(|sealed| sealed.models.truncate(1));
        Ok(sealed)
    }

    /// The first place that names files of models there.
    fn first(
        &self,
        places: &[Place],
        names: impl Fn(&str, &str) -> bool,
    ) -> Result<Option<Sealed>> {
        for Place { root, name } in places {
            let Some(known) = self.known(root)? else { continue };
            let has_one = |model: &&SealedModel| model.files.iter().any(|f| names(&f.name, name));
            let models: Vec<_> = known.seal.models.iter().filter(has_one).cloned().collect();
            if !models.is_empty() {
                return Ok(Some(Sealed { root: root.clone(), models }));
            }
        }
        Ok(None)
    }

    /// The places that files in a directory may be listed in.
    fn above(&self, directory: &Location) -> Rc<[Place]> {
        if let Some(places) = self.above.borrow().get(directory) {
            return Rc::clone(places);
        }
        let places: Rc<[Place]> = places_below(directory).into();
        self.above.borrow_mut().insert(directory.clone(), Rc::clone(&places));
        places
    }

    /// The seal of a directory.
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

/// A directory in which names that come out of a model are resolved, and files compared with their
/// seals.
#[derive(Debug)]
pub struct ModelDir {
    dir: Dir,
    /// Nothing if they are not compared.
    seals: Option<Seals>,
}

impl ModelDir {
    pub(crate) fn new(dir: Dir, seals: Option<Seals>) -> Self {
        Self { dir, seals }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Opens the regular file `name` below this directory; `None` if there is none.
    ///
    /// # Errors
    /// As [`Dir::open_source`] and [`Seals::checked`].
    pub fn open_file(&self, name: &str) -> Result<Option<Blob>> {
        let Some(file) = self.dir.open_source(name)? else { return Ok(None) };
        let file = match &self.seals {
            Some(seals) => seals.checked(file)?,
            None => file,
        };
        Ok(Some(Blob::file(Arc::new(file))))
    }

    /// The regular files below this directory.
    ///
    /// # Errors
    /// As [`Dir::files`].
    pub fn files(&self, most: usize) -> Result<Vec<String>> {
        Ok(self.dir.files(most)?)
    }
}

/// A model is sealed as a whole: if the file at `path` is sealed, or one of the files that were opened, all of them
/// have to be. A file of the user's choice may lie beside the seal of another model.
///
/// # Errors
/// [`Error::Unsealed`], unless models are not [compared](OpenOptions::verify); if a seal that a file
/// could be in cannot be read.
pub fn check_sealed(path: &Location, model: &Model, options: &OpenOptions) -> Result<()> {
    let Some(seals) = options.seals() else { return Ok(()) };
    let files = || model.files.iter().filter_map(|blob| Some(blob.file_range()?.0));
    let Some(file) = files().find(|file| !file.is_checked()) else { return Ok(()) };
    let file = file.path().to_path_buf();
    let mut sealed = files().any(|file| file.is_checked());
    for path in [Some(path), options.params.as_ref()].into_iter().flatten() {
        sealed = sealed || seals.asked(path)?.is_some();
    }
    if sealed {
        return Err(Error::Unsealed { path: file });
    }
    Ok(())
}

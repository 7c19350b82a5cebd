//! Serials that are there: found, verified, read, restored.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use lodstone_formats::Error as FormatError;
use lodstone_model::{AttributeValue, Model, Op, Parameter, Program, Tensor};
use lodstone_paddle::executor::{Dirs, Executor, RANDOM_STATE, Scope};
use lodstone_paddle::program::record_position;
use lodstone_store::{
    Blob, Dir, Error as StoreError, Links, Location, Progress, SourceFile, plain,
};

use crate::container::{Container, PARAMS};
use crate::error::{Error, Result};
use crate::fit::{self, Mismatch, RestoreOptions, Restored};
use crate::loader::{check_ends, get_checkpoint_loader, without_loads};
use crate::manifest::{MANIFEST, Manifest, SavedVariable, is_loader};
use crate::numerics::Numerics;

/// What names of serials begin with.
const PREFIX: &str = "step-";

/// How many digits a number has at least, so that names sort as numbers do.
const DIGITS: usize = 8;

/// One whole checkpoint of a directory of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serial {
    /// How many steps had been done.
    pub step: u64,
    path: Location,
}

/// The serials in a directory, oldest first. Whatever else is there is passed over: what is being written, and what
/// others have put there.
///
/// # Errors
/// If the directory cannot be listed.
pub fn serials(dir: impl Into<Location>) -> Result<Vec<Serial>> {
    let (dir, mut serials) = (dir.into(), Vec::new());
    for entry in dir.list()? {
        let Some(step) = step_of(&entry.name).filter(|_| entry.is_dir) else { continue };
        let path = dir.join(&entry.name);
        if path.join(MANIFEST).is_there()? {
            serials.push(Serial { step, path });
        }
    }
    serials.sort_by_key(|serial| serial.step);
    Ok(serials)
}

/// The newest serial in a directory; nothing if there is none, or no such directory.
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

/// What the serial of a step is called.
pub(crate) fn name_of(step: u64) -> String {
    format!("{PREFIX}{step:0DIGITS$}")
}

/// The step that a name says, if it is one of a serial.
fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix(PREFIX)?.parse().ok()?;
    // `step-+5` and `step-5` are somebody else's.
    (name_of(step) == name).then_some(step)
}

impl Serial {
    /// The serial of a step.
    ///
    /// # Errors
    /// [`Error::Absent`], which says what there is.
    pub fn named(dir: impl Into<Location>, step: u64) -> Result<Self> {
        let dir = dir.into();
        let path = dir.join(name_of(step));
        if path.is_dir() && path.join(MANIFEST).is_there()? {
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
    /// If that cannot be read, or is not what was written.
    pub fn manifest(&self) -> Result<Manifest> {
        let manifest = Manifest::load(&self.path)?;
        if manifest.step != self.step {
            let what = format!("it is that of step {}", manifest.step);
            return Err(Error::Manifest { path: self.path.join(MANIFEST).to_path_buf(), what });
        }
        Ok(manifest)
    }

    /// The loader, which is run with [the directory](Self::path) to load from.
    ///
    /// # Errors
    /// If it has none, because it is of tensors alone; if it is damaged.
    pub fn loader(&self) -> Result<Program> {
        get_checkpoint_loader(&self.path)
    }

    /// Everything that is wrong with its files: nothing if it is whole. All of it is read.
    ///
    /// # Errors
    /// If the manifest cannot be used, a file cannot be read, or the work was cancelled.
    pub fn verify(&self, progress: &Progress) -> Result<Vec<String>> {
        let manifest = self.manifest()?;
        let dir = Dir::open(&self.path, Links::Confined, false)?;
        let mut found = Vec::new();
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
        if found.is_empty() {
            // What they say has to be what the manifest says.
            found = match self.read_any(&manifest, |file| Ok(Blob::file(Arc::new(file)))) {
                Ok(tensors) => contradicted(&manifest, &tensors),
                Err(Error::Format(error)) if is_damage(&error) => vec![error.to_string()],
                Err(error) => return Err(error),
            };
            if manifest.has_loader() {
                found.extend(misloaded(&manifest, &self.loader()?));
            }
        }
        Ok(found)
    }

    /// The tensors, sorted by name. Their elements are read when they are asked for, and compared with their
    /// checksums.
    ///
    /// # Errors
    /// If the manifest cannot be used, or files are not what it says.
    pub fn tensors(&self) -> Result<Vec<Parameter>> {
        self.read(&self.manifest()?)
    }

    fn read(&self, manifest: &Manifest) -> Result<Vec<Parameter>> {
        self.read_with(manifest, |file| Ok(Blob::file(Arc::new(file))))
    }

    /// The tensors in what `bytes` makes of files, if they are what the manifest says.
    fn read_with(
        &self,
        manifest: &Manifest,
        bytes: impl Fn(SourceFile) -> Result<Blob>,
    ) -> Result<Vec<Parameter>> {
        let tensors = self.read_any(manifest, bytes)?;
        self.expect_none(contradicted(manifest, &tensors))?;
        // Tensors are there for those who need no loader, even if it is damaged.
        if manifest.has_loader()
            && let Ok(loader) = self.loader()
        {
            self.expect_none(misloaded(manifest, &loader))?;
        }
        Ok(tensors)
    }

    /// Fails if the files are not what the manifest says.
    fn expect_none(&self, contradictions: Vec<String>) -> Result<()> {
        match contradictions.into_iter().next() {
            Some(what) => {
                Err(Error::Manifest { path: self.path.join(MANIFEST).to_path_buf(), what })
            }
            None => Ok(()),
        }
    }

    /// The tensors in what `bytes` makes of files, with the names that the manifest has for them.
    fn read_any(
        &self,
        manifest: &Manifest,
        bytes: impl Fn(SourceFile) -> Result<Blob>,
    ) -> Result<Vec<Parameter>> {
        let dir = Dir::open(&self.path, Links::Confined, false)?;
        let open = |name: &str| bytes(checked(&dir, manifest, name)?);
        let variables = &manifest.variables;
        let known: Vec<_> = variables.iter().map(|var| (var.name.as_str(), var.expect())).collect();
        manifest.container.read(&known, open)
    }

    /// Restores all of it into a scope by running its loader; tensors without one are put there. All that is read
    /// is compared with its checksums first: if anything is wrong, the scope stays as it is.
    ///
    /// # Errors
    /// If something is damaged, or the loader cannot be run.
    pub fn restore(&self, scope: &mut Scope) -> Result<Restored> {
        let manifest = self.manifest()?;
        let tensors = match manifest.container {
            // Tensors are where they should be in memory if the file is.
            Container::Combined => {
                self.read_with(&manifest, |file| Ok(Blob::memory(file.read_all()?)))?
            }
            _ => loaded(self.read(&manifest)?)?,
        };
        let mut restored = self.found(&manifest);
        restored.loaded = tensors.iter().map(|tensor| tensor.name.clone()).collect();
        if manifest.has_loader() {
            let loader = self.checked_loader(&manifest)?;
            let given = given(manifest.container, &tensors);
            restored.initialised = initialised(&loader, &restored.loaded);
            let dirs = Dirs { given, ..Dirs::default() };
            Executor::default().run(&loader, scope, &[], &[], &dirs)?;
        }
        if manifest.container.placement().is_none() || !manifest.has_loader() {
            tensors.into_iter().for_each(|it| scope.set(&it.name, it.tensor));
        }
        forget_random(&manifest, scope);
        Ok(restored)
    }

    /// Restores what a program has variables for. What its loader initialises begins again; the rest is loaded if
    /// it fits.
    ///
    /// # Errors
    /// [`Error::Mismatch`] with every variable that is missing, extra or of another type, unless a partial
    /// restore is asked for; otherwise as [`restore`](Self::restore). The scope stays as it is.
    pub fn restore_for(
        &self,
        main: &Program,
        scope: &mut Scope,
        options: &RestoreOptions,
    ) -> Result<Restored> {
        let manifest = self.manifest()?;
        let tensors = fit::rename(self.read(&manifest)?, &options.renames)?;
        let mut restored = self.found(&manifest);
        let mut begins = None;
        if manifest.has_loader() {
            let mut loader = self.checked_loader(&manifest)?;
            without_loads(&mut loader);
            restored.initialised = initialised(&loader, &[]);
            begins = Some(loader);
        }
        let known =
            |name: &str| restored.initialised.binary_search_by(|it| it.as_str().cmp(name)).is_ok();
        let (fitting, mismatch) = fit::split(tensors, main, known);
        if !mismatch.is_empty() && !options.partial {
            return Err(Error::Mismatch(mismatch));
        }
        if manifest.programs.main.as_ref().is_some_and(|hash| is_other(hash, main)) {
            restored.warnings.push("it was saved from another program".to_owned());
        }
        let fitting = loaded(fitting)?;
        if let Some(begins) = begins {
            Executor::default().run(&begins, scope, &[], &[], &Dirs::default())?;
        }
        restored.loaded = fitting.iter().map(|tensor| tensor.name.clone()).collect();
        restored.mismatch = mismatch;
        fitting.into_iter().for_each(|it| scope.set(&it.name, it.tensor));
        forget_random(&manifest, scope);
        Ok(restored)
    }

    /// What the manifest says of a restore.
    fn found(&self, manifest: &Manifest) -> Restored {
        let (saved, here) = (&manifest.numerics, Numerics::here());
        let mut warnings = Vec::new();
        if *saved != here {
            warnings.push(format!(
                "it was computed by {saved}, and this is {here}: results may differ in their last bits"
            ));
        }
        let (loaded, initialised) = (Vec::new(), Vec::new());
        let (metadata, mismatch) = (manifest.metadata.clone(), Mismatch::default());
        Restored { step: self.step, loaded, initialised, mismatch, warnings, metadata }
    }

    /// The loader, if it is what was written, and ends.
    fn checked_loader(&self, manifest: &Manifest) -> Result<Program> {
        let dir = Dir::open(&self.path, Links::Confined, false)?;
        for file in manifest.files.iter().filter(|file| is_loader(&file.name)) {
            let blob = Blob::file(Arc::new(checked(&dir, manifest, &file.name)?));
            blob.for_each_chunk::<StoreError>(|_| Ok(()))?;
        }
        let loader = self.loader()?;
        check_ends(&loader)?;
        Ok(loader)
    }
}

/// How the tensors of the files are not what the manifest says: each that is of another kind, type or shape.
fn contradicted(manifest: &Manifest, tensors: &[Parameter]) -> Vec<String> {
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

/// Where the loader loads what the manifest has by another name.
fn misloaded(manifest: &Manifest, loader: &Program) -> Vec<String> {
    let names = manifest.variables.iter().map(|var| var.name.as_str());
    let records: Vec<&str> = names.clone().collect();
    let files: HashMap<String, &str> = names.map(|name| (plain(name), name)).collect();
    let mut found = Vec::new();
    for op in loader.ops() {
        for (number, name) in op.output("Out").iter().enumerate() {
            let known = match (op.kind.as_str(), manifest.container) {
                ("load_combine", Container::Combined) => records.get(number),
                ("load", Container::Sized) => usize::try_from(record_position(op))
                    .ok()
                    .and_then(|position| records.get(position)),
                ("load", Container::Each) => file_of(op).and_then(|file| files.get(&file)),
                _ => continue,
            };
            if known.is_none_or(|known| known != name) {
                let what = known.map_or("what it does not have".to_owned(), |it| format!("`{it}`"));
                found.push(format!("the loader loads `{name}` from {what} in the manifest"));
            }
        }
    }
    found
}

/// The file that an operator loads.
fn file_of(op: &Op) -> Option<String> {
    match op.attribute("file_path") {
        Some(AttributeValue::String(path)) => Some(plain(&path.to_string())),
        _ => None,
    }
}

/// Whether a file is not what its format says, rather than one that cannot be read.
fn is_damage(error: &FormatError) -> bool {
    let cause = error.cause();
    matches!(
        cause,
        FormatError::Store(StoreError::Malformed { .. } | StoreError::OutOfRange { .. })
    )
}

/// A file of a serial, whose bytes are compared with their checksums when they are read.
fn checked(dir: &Dir, manifest: &Manifest, name: &str) -> Result<SourceFile> {
    let absent = |what: &str| Error::Absent { path: dir.path().join(name), what: what.to_owned() };
    let sealed = manifest.files.iter().find(|file| file.name == name);
    let sealed = sealed.ok_or_else(|| absent("its manifest does not have this file"))?;
    let file = dir.open_source(name)?;
    let file = file.ok_or_else(|| absent("its manifest has this file, and it is not there"))?;
    Ok(file.checked(Arc::clone(&sealed.checks))?)
}

/// Tensors in memory: read on all processors, each piece once.
pub(crate) fn loaded(parameters: Vec<Parameter>) -> Result<Vec<Parameter>> {
    let mut model = Model { parameters, ..Model::default() };
    model.load()?;
    Ok(model.parameters)
}

/// Tensors as the files that operators load.
fn given(container: Container, tensors: &[Parameter]) -> BTreeMap<String, Vec<(String, Tensor)>> {
    let pair = |Parameter { name, tensor }: &Parameter| (name.clone(), tensor.clone());
    match container {
        Container::Safetensors => BTreeMap::new(),
        Container::Each => tensors.iter().map(|it| (plain(&it.name), vec![pair(it)])).collect(),
        Container::Combined | Container::Sized => {
            BTreeMap::from([(PARAMS.to_owned(), tensors.iter().map(pair).collect())])
        }
    }
}

/// The variables that a loader fills and does not load, sorted.
fn initialised(loader: &Program, loaded: &[String]) -> Vec<String> {
    let loaded: HashSet<&str> = loaded.iter().map(String::as_str).collect();
    let filled: HashSet<&str> = loader.ops().flat_map(Op::writes).collect();
    let lasting = loader.vars().filter(|var| var.persistable).map(|var| var.name.as_str());
    let names: BTreeSet<&str> =
        lasting.filter(|name| filled.contains(name) && !loaded.contains(name)).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Whether a program is another than the one of a hash; one that cannot be written is.
fn is_other(hash: &str, main: &Program) -> bool {
    crate::contents::hash(main).map_or(true, |other| other != hash)
}

/// Random numbers begin anew where nothing had been drawn.
fn forget_random(manifest: &Manifest, scope: &mut Scope) {
    if manifest.has_loader() && manifest.random.is_empty() {
        scope.remove(RANDOM_STATE);
    }
}

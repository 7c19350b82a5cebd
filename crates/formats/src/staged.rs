//! Models that are written, and not published yet.

use std::path::Path;

use lodstone_model::{Model, Tensor};
use lodstone_store::{Commit, Location, Output, SEAL};

use crate::{Error, Format, OpenOptions, Result, Seal, SealedModel, WriteOptions};

/// What a format has written of a model.
#[derive(Debug)]
pub struct Staged {
    commit: Commit,
    /// The directory of the files, as the caller calls it.
    root: Location,
    files: Vec<Location>,
    /// The name of what the model is opened by; empty for the directory.
    main: String,
}

/// What was written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The directory that they are in.
    pub root: Location,
    /// The files, in the order in which they were written; without a seal.
    pub files: Vec<Location>,
    /// The seal that has no checksums any more of files that it had: they were written over, or belong
    /// to what was.
    pub unsealed: Option<Location>,
    /// Whether the path is a symbolic link to the file that was written, whose seal is beside the file.
    pub through_link: bool,
}

impl Staged {
    /// One file that `fill` writes; missing directories above it are created, as for the others.
    pub(crate) fn file<E>(
        path: &Location,
        options: &WriteOptions,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<Self>
    where
        E: From<lodstone_store::Error>,
        Error: From<E>,
    {
        path.directory().create_dir()?;
        let (commit, name) = Commit::file(path, options.progress.clone())?;
        let mut commit = commit.over_seals().only_new(options.no_clobber);
        commit.write(&name, fill)?;
        Ok(Self { commit, root: path.directory(), files: vec![path.clone()], main: name })
    }

    /// Files in a directory that they may make up alone, or that does not exist yet.
    pub(crate) fn directory(root: &Location, options: &WriteOptions) -> Result<Self> {
        root.directory().create_dir()?;
        Ok(Self::new(Commit::directory(root, options.progress.clone())?, root, options))
    }

    /// Files beside others in a directory.
    fn beside(root: &Location, options: &WriteOptions) -> Result<Self> {
        root.create_dir()?;
        Ok(Self::new(Commit::existing(root, options.progress.clone())?, root, options))
    }

    /// Files into a directory, or beside others in one.
    pub(crate) fn begin(root: &Location, into: bool, options: &WriteOptions) -> Result<Self> {
        if into { Self::directory(root, options) } else { Self::beside(root, options) }
    }

    fn new(commit: Commit, root: &Location, options: &WriteOptions) -> Self {
        // What is written here is called by its name alone.
        let root = if root.path() == Path::new(".") { root.at("") } else { root.clone() };
        let commit = commit.over_seals().only_new(options.no_clobber);
        Self { commit, root, files: Vec::new(), main: String::new() }
    }

    /// Writes one of several files: who has the last has all of them.
    ///
    /// # Errors
    /// As [`Commit::write`]; if the name is not one of a part of a model.
    pub(crate) fn write<E>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<()>
    where
        E: From<lodstone_store::Error>,
        Error: From<E>,
    {
        self.commit.write(name, fill)?;
        self.files.push(self.root.join(name));
        Ok(())
    }

    /// The same, to be opened by the file called `main` rather than by its directory.
    pub(crate) fn opened_by(mut self, main: impl Into<String>) -> Self {
        self.main = main.into();
        self.commit.refers(&self.main);
        self
    }

    /// Publishes it, with the seal that belongs to it, if what the tensors were read from is still
    /// what it was. A seal that there was forgets what is written over.
    ///
    /// # Errors
    /// If it is not, or publishing fails.
    pub(crate) fn publish(
        mut self,
        format: &Format,
        model: &Model,
        options: &WriteOptions,
    ) -> Result<Written> {
        let through_link = self.commit.is_through_link();
        let seals = options.seal;
        let sealed = if seals { Some(self.sealed(format, options)?) } else { None };
        // What a link leads to may be in another directory, and its seal is there.
        let root = self.commit.root().filter(|_| through_link);
        let seal_path = root.as_ref().unwrap_or(&self.root).join(SEAL);
        self.commit.sync()?;
        model.tensors().try_for_each(Tensor::check_unchanged)?;
        // Else another would write what it knows of the seal, too.
        self.commit.alone()?;
        let old = self.commit.root().map_or(Ok(None), |root| Seal::load(&root));
        // One that cannot be read says nothing about any file; another model's is not lost.
        let mut seal = if seals { old? } else { old.ok().flatten() }.unwrap_or_default();
        let removed = seal.remove(&self.commit.names());
        seal.models.extend(sealed);
        if seals || !removed.is_empty() {
            self.commit.write_seal(|out| seal.write(out))?;
        }
        self.commit.publish()?;
        let unsealed = seal.lacks_one_of(&removed).then_some(seal_path);
        Ok(Written { root: self.root, files: self.files, unsealed, through_link })
    }

    /// The checksums of what was written, while the system writes it to the disk.
    fn sealed(&self, format: &Format, options: &WriteOptions) -> Result<SealedModel> {
        let staged = self.commit.staged(&self.main).ok_or_else(|| Error::NoModel {
            path: self.root.join(&self.main).to_path_buf(),
            why: "it was not written".to_owned(),
        })?;
        let open = OpenOptions { verify: false, ..OpenOptions::default() };
        let model = (format.read)(&staged, &open)?;
        let root = self.commit.staged("").unwrap_or(staged);
        SealedModel::of(&model, root.path(), &options.progress)
    }
}

//! Models that are written but not published yet.

use std::path::Path;

use lodstone_model::{Model, Tensor};
use lodstone_store::{Commit, Location, Output, SEAL};

use crate::error::{Error, Result};
use crate::format::Format;
use crate::options::{OpenOptions, WriteOptions};
use crate::seal::{Seal, SealedModel};

/// The staged files of a model.
#[derive(Debug)]
pub struct Staged {
    commit: Commit,
    /// The directory of the files, as given by the caller.
    root: Location,
    files: Vec<Location>,
    /// The name of the file that opens the model; empty for the directory.
    main: String,
}

/// The published files of a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The directory of the files.
    pub root: Location,
    /// The files, in the order of writing, without a seal.
    pub files: Vec<Location>,
    /// A seal that lost the checksums of some files, which were overwritten or belonged to the previous
    /// model.
    pub unsealed: Option<Location>,
    /// Whether the path is a symlink to the written file, whose seal is beside the file.
    pub through_link: bool,
}

impl Staged {
    /// Stages one file, written by `fill`; missing parent directories are created.
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

    /// Stages files for a directory that may contain only them, or that does not exist yet.
    pub(crate) fn directory(root: &Location, options: &WriteOptions) -> Result<Self> {
        root.directory().create_dir()?;
        Ok(Self::new(Commit::directory(root, options.progress.clone())?, root, options))
    }

    /// Stages files for a directory with other contents.
    fn beside(root: &Location, options: &WriteOptions) -> Result<Self> {
        root.create_dir()?;
        Ok(Self::new(Commit::existing(root, options.progress.clone())?, root, options))
    }

    /// Stages files for a directory, which is replaced as a whole if `into` is set.
    pub(crate) fn begin(root: &Location, into: bool, options: &WriteOptions) -> Result<Self> {
        if into { Self::directory(root, options) } else { Self::beside(root, options) }
    }

    fn new(commit: Commit, root: &Location, options: &WriteOptions) -> Self {
        // Files in the working directory are named without `./`.
        let root = if root.path() == Path::new(".") { root.at("") } else { root.clone() };
        let commit = commit.over_seals().only_new(options.no_clobber);
        Self { commit, root, files: Vec::new(), main: String::new() }
    }

    /// Writes one of several files. The last one must refer to all others.
    ///
    /// # Errors
    /// The errors of [`Commit::write`]; fails if the name is not allowed for a file of a model.
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

    /// Declares that the file called `main` opens the model, instead of its directory.
    pub(crate) fn opened_by(mut self, main: impl Into<String>) -> Self {
        self.main = main.into();
        self.commit.refers(&self.main);
        self
    }

    /// Publishes the files, with their seal, if the source files of the tensors are unchanged. An existing seal loses
    /// the checksums of overwritten files.
    ///
    /// # Errors
    /// Fails if a source file changed, or publishing fails.
    pub(crate) fn publish(
        mut self,
        format: &Format,
        model: &Model,
        options: &WriteOptions,
    ) -> Result<Written> {
        let through_link = self.commit.is_through_link();
        let seals = options.seal;
        let sealed = if seals { Some(self.sealed(format, options)?) } else { None };
        // The target of a link may be in another directory, which contains its seal.
        let root = self.commit.root().filter(|_| through_link);
        let seal_path = root.as_ref().unwrap_or(&self.root).join(SEAL);
        self.commit.sync()?;
        model.tensors().try_for_each(Tensor::check_unchanged)?;
        // Without the lock, another commit could write its own update of the seal.
        self.commit.alone()?;
        let old = self.commit.root().map_or(Ok(None), |root| Seal::load(&root));
        // An unreadable seal lists no known file, so it does not affect writes without a seal.
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

    /// Computes the checksums of the written files, while the system writes them to disk.
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

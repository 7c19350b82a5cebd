//! Checkpoints that several processes write and one of them publishes.
//!
//! The publishing process stages a directory, in which each process writes the files of its shards with their checksums
//! and makes them durable. Then it adds the index, which refers to the shards, and the seal, and renames the directory.
//! Readers see all of the checkpoint or nothing; what a killed process leaves is removed by the next save.
//!
//! This module knows neither the index nor how the tensors are divided: these belong to the framework.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use lodstone_formats::safetensors::{self, Shard};
use lodstone_formats::{Error as FormatError, Seal, SealedFile, SealedModel};
use lodstone_store::{
    Blob, Checks, Commit, Dir, Error as StoreError, Links, Location, Output, Part, Progress,
    WriterLock, chunks_beside,
};

use crate::error::{Error, Result, internal};
use crate::snapshot::BoxError;

/// A checkpoint in progress, in the process that publishes it. Dropping it removes what has been written.
#[derive(Debug)]
pub struct Publication {
    commit: Commit,
    path: Location,
    /// The lock that keeps chunks from being pruned, if the checkpoint uses them.
    chunks: Option<WriterLock>,
}

impl Publication {
    /// Stages a checkpoint, a directory that does not exist yet. Missing parents are created. With `chunked`, tensors are
    /// stored in chunks beside it, which all such checkpoints there share.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if there is anything at the path; if the parent cannot be written to.
    /// [`StoreError::Locked`] while another checkpoint with chunks is being saved there, or chunks are pruned.
    pub fn begin(path: impl Into<Location>, chunked: bool, progress: Progress) -> Result<Self> {
        let path = path.into();
        if path.is_there()? {
            return Err(StoreError::Exists { path: path.to_path_buf() }.into());
        }
        if let Some(parent) = path.parent() {
            parent.create_dir()?;
        }
        let chunks = match chunked {
            true => {
                let chunks = chunks_beside(&path);
                chunks.create_dir()?;
                Some(WriterLock::take(&chunks)?)
            }
            false => None,
        };
        let commit = Commit::directory(&path, progress)?.only_new(true);
        Ok(Self { commit, path, chunks })
    }

    /// Returns the directory into which all processes write their files.
    ///
    /// # Errors
    /// An internal error.
    pub fn staged(&self) -> Result<Location> {
        self.commit.staged("").ok_or_else(|| internal("a commit has no directory"))
    }

    /// Publishes the files that the processes wrote, and the index, a file of that name. `format` is the name of the format
    /// for the seal.
    ///
    /// # Errors
    /// Fails if a file is missing, has another size than its process reported, or was reported twice, and if the path
    /// exists meanwhile.
    pub fn publish(
        mut self,
        format: &str,
        (index, bytes): (&str, &[u8]),
        mut files: Vec<SealedFile>,
    ) -> Result<()> {
        if let Some(lock) = &self.chunks {
            lock.check()?;
        }
        for SealedFile { name, checks } in &files {
            let (found, sealed) = (self.commit.adopt(name)?, checks.len());
            if found != sealed {
                let path = self.path.join(name).to_path_buf();
                return Err(StoreError::Resized { path, sealed, found }.into());
            }
        }
        self.commit.write::<StoreError>(index, |out| out.put(bytes))?;
        let (blob, progress) = (Blob::memory(bytes.to_vec()), Progress::default());
        files.insert(0, SealedFile::with(index.to_owned(), &blob, Vec::new(), &progress)?);
        publish(self.commit, format, index, files)
    }
}

/// Adds the seal to the files of a checkpoint, and publishes them with their index.
pub(crate) fn publish(
    mut commit: Commit,
    format: &str,
    index: &str,
    files: Vec<SealedFile>,
) -> Result<()> {
    let mut seal = Seal::default();
    seal.models.push(SealedModel { format: format.to_owned(), files });
    commit.write_seal(|out| seal.write(out))?;
    commit.refers(index);
    Ok(commit.publish()?)
}

/// Writes tensors of one process to the file `name` in a staged directory, or, if they are `chunked`, to the chunks beside
/// it; the file is durable when this returns. `load` returns the elements of a tensor by its index, and is called once for
/// each. Returns the checksums of the file.
///
/// # Errors
/// Fails if a tensor cannot be represented or loaded, or the file cannot be written or exists.
pub fn write_shard(
    (staged, chunked): (&Location, bool),
    name: &str,
    tensors: &[Shard],
    metadata: &BTreeMap<String, String>,
    mut load: impl FnMut(usize) -> Result<Blob, BoxError>,
    progress: &Progress,
) -> Result<SealedFile> {
    write((staged, chunked), name, progress, |out| {
        let load = |index| load(index).map_err(Error::Load);
        safetensors::write_shard(out, tensors, metadata, load)
    })
}

/// Writes values of one process, one after the other, to the file `name` in a staged directory; the file is durable when
/// this returns. Returns the checksums of the file.
///
/// # Errors
/// Fails if the file cannot be written or exists.
pub fn write_items(
    staged: &Location,
    name: &str,
    items: &[(String, Blob)],
    progress: &Progress,
) -> Result<SealedFile> {
    write((staged, false), name, progress, |out| Ok(safetensors::write_items(out, items)?))
}

fn write(
    (staged, chunked): (&Location, bool),
    name: &str,
    progress: &Progress,
    fill: impl FnOnce(&mut Output) -> Result<Vec<Part>>,
) -> Result<SealedFile> {
    let mut commit = Commit::join(staged, progress.clone())?;
    let mut parts = Vec::new();
    let fill = |out: &mut Output| -> Result<()> {
        parts = fill(out)?;
        Ok(())
    };
    match chunked {
        true => commit.write_chunked(name, fill)?,
        false => commit.write(name, fill)?,
    }
    commit.publish()?;
    let checks = Checks::new(parts).ok_or_else(|| internal("the parts of a file have gaps"))?;
    Ok(SealedFile { name: name.to_owned(), checks: Arc::new(checks) })
}

/// Reads ranges of the files of a checkpoint, compared with its seal.
#[derive(Debug)]
pub struct ShardReader {
    dir: Dir,
    /// The checksums of the files; `None` if nothing is compared.
    checks: Option<HashMap<String, Arc<Checks>>>,
    opened: HashMap<String, Blob>,
}

impl ShardReader {
    /// Opens the directory of a checkpoint. If it has a seal, all files are compared with it on read, unless `verify` is
    /// `false`; if it is `true`, a directory without a seal is an error.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened, or its seal cannot be used or is missing.
    pub fn open(path: impl Into<Location>, verify: Option<bool>) -> Result<Self> {
        let path = path.into();
        let seal = if verify == Some(false) { None } else { Seal::load(&path)? };
        if verify == Some(true) && seal.is_none() {
            return Err(Error::Unsealed(path.to_path_buf()));
        }
        let (checks, opened) = (seal.map(|seal| seal.checks()), HashMap::new());
        Ok(Self { dir: Dir::open(&path, Links::Confined, true)?, checks, opened })
    }

    /// Returns `len` bytes of a file from `offset` on; all that follow if it is `None`. Nothing is read yet.
    ///
    /// # Errors
    /// Fails if there is no such file or range, or the seal does not list the file.
    pub fn range(&mut self, name: &str, offset: u64, len: Option<u64>) -> Result<Blob> {
        if !self.opened.contains_key(name) {
            let path = || self.dir.path().join(name);
            let absent = || Error::Absent { path: path(), what: "the file is missing".to_owned() };
            let file = self.dir.open_source(name)?.ok_or_else(absent)?;
            let file = match &self.checks {
                Some(checks) => {
                    let checks = checks.get(name).map(Arc::clone);
                    let unsealed = || FormatError::Unsealed { path: path() };
                    file.checked(checks.ok_or_else(unsealed)?)?
                }
                None => file,
            };
            self.opened.insert(name.to_owned(), Blob::file(Arc::new(file)));
        }
        let file = self.opened.get(name).ok_or_else(|| internal("a file was not opened"))?;
        let len = len.unwrap_or_else(|| file.len().saturating_sub(offset));
        Ok(file.slice(offset, len)?)
    }
}

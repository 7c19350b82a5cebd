//! Writes a model in shards, one file at a time. Work that was interrupted continues with the next file.
//!
//! ```text
//! out/__0_0.distcp                                   files, published one by one
//!     resharding/plan.json                           what is being written
//!     resharding/__0_0.distcp/record.json            the checksums of a file, published with it
//!     .metadata, lodstone.seal                       the index and the seal, published at the end
//! ```
//!
//! Readers need the index, so nothing is visible before the end. Then `resharding` is removed.

use lodstone_formats::{SealedFile, Sharding};
use lodstone_model::Tensor;
use lodstone_store::{
    Blob, CheckedJson, Commit, Error as StoreError, Location, Part, Progress, SEAL, Schema,
};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::manager::staged;
use crate::sharded::publish;

/// The directory of the records, in the directory that is written.
pub const RESHARDING: &str = "resharding";

/// Whether a directory holds shards that were not completed.
///
/// # Errors
/// If the store cannot be read.
pub fn is_unfinished(directory: &Location) -> Result<bool> {
    Ok(directory.join(RESHARDING).join(PLAN.name).is_there()?)
}

/// What is being written.
const PLAN: CheckedJson = CheckedJson { kind: "plan of a resharding", name: "plan.json", ..RECORD };

/// The record of a file.
const RECORD: CheckedJson = CheckedJson {
    kind: "record of a resharding",
    name: "record.json",
    max_len: 128 << 20,
    before: "\"self\": \"",
    after: "\"}\n",
};

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    schema: Schema<1>,
    format: String,
    /// The checksum of the names, types and dims of the tensors, and of their chunks.
    tensors: u64,
    files: Vec<Source>,
}

/// The identity of a file that is read.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Source {
    name: String,
    size: u64,
    /// The modification time in seconds and nanoseconds, if the store has it.
    modified: (i64, i64),
    /// The number or version of the file in its store.
    number: u64,
}

#[derive(Serialize, Deserialize)]
struct Record {
    schema: Schema<1>,
    file: SealedFile,
}

/// The result of a resharding.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resharded {
    /// The names of the files, without the index.
    pub files: Vec<String>,
    /// The number of files that earlier, interrupted work had written.
    pub continued: usize,
    /// The size of all files in bytes, without the seal.
    pub nbytes: u64,
}

/// Writes the files of a sharding to a directory that does not exist yet, and continues work that was interrupted.
///
/// # Errors
/// [`StoreError::Exists`] if there is anything else in the directory, [`Error::Unfinished`] if it holds unfinished work of
/// another model or division; if reading or writing fails. Files that were written are kept for the next attempt.
pub fn reshard(
    sharding: &Sharding<'_>,
    to: impl Into<Location>,
    progress: &Progress,
) -> Result<Resharded> {
    let to = to.into();
    let work = to.join(RESHARDING);
    begin(sharding, &to, &work, progress)?;
    let (names, mut continued, mut sealed) = (sharding.files(), 0, Vec::new());
    for (number, name) in names.iter().enumerate() {
        let records = work.join(name);
        if records.join(RECORD.name).is_there()? {
            let Record { file, .. } = RECORD.read(&records)?;
            let found = Blob::open(to.join(name), false)?.len();
            if file.name != *name || file.checks.len() != found {
                let what = format!("it is of `{}` of {} bytes", file.name, file.checks.len());
                return Err(RECORD.contradiction(&records, what).into());
            }
            progress.advance(found)?;
            continued += 1;
            sealed.push(file);
        } else {
            // Without a record, the file is not complete.
            remove_file(&to.join(name), progress)?;
            sealed.push(write(sharding, (number, name), &to, progress)?);
        }
    }
    // Tensors may have changed since they were read.
    sharding.model().tensors().try_for_each(Tensor::check_unchanged)?;
    for (file, ..) in sharding.model().files.iter().flat_map(Blob::file_ranges) {
        file.check_in_place()?;
    }
    let index = sharding.format().index;
    let mut nbytes: u64 = sealed.iter().map(|file| file.checks.len()).sum();
    if !to.join(index).is_there()? {
        remove_file(&to.join(SEAL), progress)?;
        let mut commit = Commit::within(&to, progress.clone())?.only_new(true);
        let parts: Vec<&[Part]> = sealed.iter().map(|file| file.checks.parts()).collect();
        commit.write::<Error>(index, |out| Ok(sharding.put_index(&parts, out)?))?;
        let written = staged(&commit, index)?;
        sealed.insert(0, SealedFile::with(index.to_owned(), &written, Vec::new(), progress)?);
        publish(commit, sharding.format().name, index, sealed)?;
    }
    nbytes += Blob::open(to.join(index), false)?.len();
    // The model is whole. Records that were only renamed are removed by the next write.
    if let Err(error) = work.remove_dir(progress)
        && work.is_dir()?
    {
        return Err(error.into());
    }
    Ok(Resharded { files: names, continued, nbytes })
}

/// Removes a file of interrupted work, if it is there.
fn remove_file(path: &Location, progress: &Progress) -> Result<()> {
    if path.is_there()? {
        path.remove_file(progress)?;
    }
    Ok(())
}

/// Begins or continues work in a directory.
fn begin(
    sharding: &Sharding<'_>,
    to: &Location,
    work: &Location,
    progress: &Progress,
) -> Result<()> {
    let plan = Plan::of(sharding)?;
    if work.join(PLAN.name).is_there()? {
        to.recover()?;
        let found: Plan = PLAN.read(work)?;
        return match found == plan {
            true => Ok(()),
            false => Err(Error::Unfinished(to.to_path_buf())),
        };
    }
    if to.is_there()? && !(to.is_dir()? && to.list()?.is_empty()) {
        return Err(StoreError::Exists { path: to.to_path_buf() }.into());
    }
    if let Some(parent) = to.parent() {
        parent.create_dir()?;
    }
    let mut commit = Commit::within(to, progress.clone())?.only_new(true);
    commit.write::<StoreError>(&format!("{RESHARDING}/{}", PLAN.name), |out| {
        PLAN.write(out, &plan)
    })?;
    Ok(commit.publish()?)
}

/// Writes a file and its record.
fn write(
    sharding: &Sharding<'_>,
    (number, name): (usize, &str),
    to: &Location,
    progress: &Progress,
) -> Result<SealedFile> {
    let mut commit = Commit::within(to, progress.clone())?.only_new(true);
    let mut items = Vec::new();
    commit.write::<Error>(name, |out| {
        items = sharding.write(number, out)?;
        Ok(())
    })?;
    // Checksums are computed while the system writes the file to disk.
    let (written, progress) = (staged(&commit, name)?, Progress::default());
    let file = SealedFile::with(name.to_owned(), &written, items, &progress)?;
    let record = Record { schema: Schema, file };
    let place = format!("{RESHARDING}/{name}/{}", RECORD.name);
    commit.write::<StoreError>(&place, |out| RECORD.write(out, &record))?;
    commit.publish()?;
    Ok(record.file)
}

impl Plan {
    fn of(sharding: &Sharding<'_>) -> Result<Self> {
        let mut files = Vec::new();
        for blob in &sharding.model().files {
            for (file, ..) in blob.file_ranges() {
                let (name, id) = (file.path().file_name().unwrap_or_default(), file.identity());
                let modified = match file.location().stamp() {
                    Ok(stamp) if stamp.id == id => stamp.modified,
                    Ok(_) => {
                        let (path, what) = (file.path().to_path_buf(), "another file".to_owned());
                        return Err(StoreError::Changed { path, what }.into());
                    }
                    // A file in chunks is at no path.
                    Err(error) if error.is_not_found() => (0, 0),
                    Err(error) => return Err(error.into()),
                };
                let name = name.to_string_lossy().into_owned();
                files.push(Source { name, size: file.len(), modified, number: id.1 });
            }
        }
        let (format, tensors) = (sharding.format().name.to_owned(), sharding.fingerprint());
        Ok(Self { schema: Schema, format, tensors, files })
    }
}

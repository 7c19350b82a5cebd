//! Sealing: recording checksums of a model, so that any change is detected.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodstone_checkpoint::Serial;
use lodstone_formats::{
    OpenOptions, Seal, SealEntry, SealedFile, SealedModel, Seals, TensorRanges, seal_entries,
};
use lodstone_model::Model;
use lodstone_schema::weights;
use lodstone_store::{Blob, Commit, Location, Progress, SEAL, SourceFile, plain};

use crate::open::open_files;
use crate::{Error, Result};

/// The result of sealing a model.
#[derive(Clone, Debug, Default)]
pub struct Sealing {
    /// The seals that were written: one in each directory with files of the model.
    pub seals: Vec<PathBuf>,
    /// The number of files in them.
    pub files: usize,
    /// The number of tensors in those files.
    pub tensors: usize,
    /// The size of the files in bytes.
    pub nbytes: u64,
}

/// Writes checksums into `lodstone.seal` beside a model: of each tensor, of each 16 MiB chunk of it, and of all bytes
/// in between. Seals of other models in the same directory are kept.
///
/// # Errors
/// If the model cannot be opened; if it is sealed and differs from its seal, unless `replace` is set;
/// if the seal cannot be written.
pub fn seal(
    path: impl Into<Location>,
    options: &OpenOptions,
    replace: bool,
    progress: &Progress,
) -> Result<Sealing> {
    let path = path.into();
    if Serial::at(&path)?.is_some() {
        let why = "it has checksums of its own, in its manifest";
        return Err(Error::NotSupported {
            operation: "sealing a checkpoint".to_owned(),
            why: Some(why),
        });
    }
    let options = options.clone().with_verify(!replace).stopped_by(progress);
    let model = open_files(&path, &options)?;
    let mut sealing = Sealing { tensors: weights(&model).len(), ..Sealing::default() };
    let mut tensors = TensorRanges::of(&model);
    for Directory { root, files } in by_directory(&path, &model)? {
        let mut sealed = Vec::new();
        for (name, blob) in &files {
            sealing.files += 1;
            sealing.nbytes += blob.len();
            sealed.push(SealedFile::of(name.clone(), blob, &mut tensors, progress)?);
        }
        let commit = begin(&root, progress)?;
        let old = Seal::load(&root);
        let mut seal = if replace { old.ok().flatten() } else { old? }.unwrap_or_default();
        // Locked: no other process replaces the files before they are sealed.
        files
            .iter()
            .try_for_each(|(_, blob)| source(blob)?.check_in_place().map_err(Error::from))?;
        let names: Vec<String> = sealed.iter().map(|file| file.name.clone()).collect();
        seal.remove(&names);
        seal.models.push(SealedModel { format: model.format.clone(), files: sealed });
        sealing.seals.push(write(&seal, &root, commit)?);
        if replace {
            // Seals nearer to the files take precedence, so these files are removed from them.
            let nearer = |name| {
                let places = seal_entries(&root.join(name)).into_iter();
                places.take_while(|place| !place.is_in(&root)).collect::<Vec<_>>()
            };
            break_seals(names.iter().flat_map(nearer))?;
        }
    }
    Ok(sealing)
}

/// Starts to change the seal of a directory, with an exclusive lock until it is written.
fn begin(root: &Location, progress: &Progress) -> Result<Commit> {
    let mut commit = Commit::existing(root, progress.clone())?;
    commit.alone()?;
    Ok(commit)
}

/// Writes the seal of a directory.
fn write(seal: &Seal, root: &Location, mut commit: Commit) -> Result<PathBuf> {
    commit.write_seal::<Error>(|out| Ok(seal.write(out)?))?;
    commit.publish()?;
    Ok(root.join(SEAL).to_path_buf())
}

/// A directory with a seal, and the files of a model in that seal, by their names in it.
pub(crate) struct Directory {
    pub(crate) root: Location,
    pub(crate) files: Vec<(String, Blob)>,
}

/// Groups the files of a model by the directory of their seal: that of the model, or that of a
/// file elsewhere.
pub(crate) fn by_directory(path: &Location, model: &Model) -> Result<Vec<Directory>> {
    let home = if path.is_dir()? { path.clone() } else { path.directory() };
    let mut directories: Vec<Directory> = Vec::new();
    for blob in &model.files {
        let file = source(blob)?.location();
        let is_here = Arc::ptr_eq(file.store(), home.store());
        let (root, name) = match file.path().strip_prefix(home.path()) {
            Ok(name) if is_here => (home.clone(), name),
            _ => (file.directory(), file.file_name().map_or(file.path(), Path::new)),
        };
        let Some(name) = name.to_str().map(plain) else {
            let operation = format!("sealing `{}`", file.display());
            return Err(Error::NotSupported { operation, why: Some("its name is not UTF-8") });
        };
        let file = (name, blob.clone());
        match directories.iter_mut().find(|known| known.root == root) {
            Some(known) if known.files.iter().any(|(name, _)| *name == file.0) => {}
            Some(known) => known.files.push(file),
            None => directories.push(Directory { root, files: vec![file] }),
        }
    }
    Ok(directories)
}

/// Returns the file of a blob.
pub(crate) fn source(blob: &Blob) -> Result<&SourceFile> {
    let file = blob.file_ranges().next().map(|(file, ..)| file.as_ref());
    file.ok_or_else(|| Error::NotSupported {
        operation: "sealing a model that is not stored in files".to_owned(),
        why: None,
    })
}

/// Prepares the target of the symlink at `path` for being overwritten and sealed: entries for the target in seals along
/// the link move into the seal beside the file. That seal then changes with the file, in one step; a crash
/// leaves neither a file without a seal nor a seal of other contents. Returns the seals that have lost a model.
pub(crate) fn follow_link(path: &Location, progress: &Progress) -> Result<Vec<Broken>> {
    let Some(real) = path.link_target() else { return Ok(Vec::new()) };
    let (root, Some(name)) = (real.directory(), real.name()) else { return Ok(Vec::new()) };
    let is_far = |place: &SealEntry| !real.path().starts_with(place.root.path());
    let Some((place, checks)) = Seals::default().of(path)?.filter(|(place, _)| is_far(place))
    else {
        return Ok(Vec::new());
    };
    let old = Seal::load(&place.root)?.unwrap_or_default();
    let lists = |model: &SealedModel| model.files.iter().any(|file| file.name == place.name);
    let format = old.models.into_iter().find(lists).map(|model| model.format).unwrap_or_default();
    let commit = begin(&root, progress)?;
    let mut seal = Seal::load(&root)?.unwrap_or_default();
    seal.remove(&[name.to_owned()]);
    let files = vec![SealedFile { name: name.to_owned(), checks }];
    seal.models.push(SealedModel { format, files });
    write(&seal, &root, commit)?;
    break_seals(std::iter::once(place))
}

/// A seal from which models were removed.
pub(crate) struct Broken {
    pub(crate) seal: PathBuf,
    files: Vec<Location>,
}

impl Broken {
    /// Returns whether some of its files are no longer in any seal.
    pub(crate) fn is_missed(&self) -> bool {
        let seals = Seals::default();
        self.files.iter().any(|file| seals.of(file).is_ok_and(|sealed| sealed.is_none()))
    }
}

/// Removes the models with any of these files from the seals in the directory. Called after the files were
/// written or sealed anew, so that they are not compared with old checksums. An unreadable seal covers
/// no file.
pub(crate) fn break_seals(places: impl Iterator<Item = SealEntry>) -> Result<Vec<Broken>> {
    let mut known: HashMap<Location, Vec<String>> = HashMap::new();
    for SealEntry { root, name } in places {
        known.entry(root).or_default().push(name);
    }
    let mut known: Vec<_> = known.into_iter().collect();
    known.sort_by(|(a, _), (b, _)| a.path().cmp(b.path()));
    let broken = known.iter().map(|(root, names)| break_seal(root, names));
    broken.filter_map(Result::transpose).collect()
}

fn break_seal(root: &Location, names: &[String]) -> Result<Option<Broken>> {
    let lists = |seal: Seal| names.iter().any(|name| seal.file(name).is_some());
    // Usually the seal contains none of them; then nothing is locked or written.
    if !Seal::load(root).is_ok_and(|seal| seal.is_some_and(lists)) {
        return Ok(None);
    }
    let commit = begin(root, &Progress::default())?;
    let Ok(Some(mut seal)) = Seal::load(root) else { return Ok(None) };
    let removed = seal.remove(names);
    if removed.is_empty() {
        return Ok(None);
    }
    let files = removed.iter().flat_map(|model| &model.files).map(|file| root.join(&file.name));
    Ok(Some(Broken { seal: write(&seal, root, commit)?, files: files.collect() }))
}

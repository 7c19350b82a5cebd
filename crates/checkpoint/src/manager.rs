//! Saves serials: one writer of a directory, which keeps the newest.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use lodstone_formats::{SealedFile, TensorRanges};
use lodstone_model::Model;
use lodstone_store::{Blob, Commit, Error as StoreError, Location, Output, Progress, WriterLock};

use crate::container::Container;
use crate::error::{Error, Result, internal};
use crate::manifest::{LOADER, MANIFEST, Manifest};
use crate::serial::{Serial, name_of, serials};
use crate::snapshot::Snapshot;

/// The niceness of a save in the background, of at most 19.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// How serials are saved.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ManagerOptions {
    /// The number of newest serials to keep [default: all].
    pub keep: Option<usize>,
    /// The layout of variables in files.
    pub container: Container,
    /// Counts the saved bytes, and cancels.
    pub progress: Progress,
}

lodstone_model::with_fields!(ManagerOptions {
    with_keep(keep: Option<usize>),
    with_container(container: Container),
    with_progress(progress: Progress),
});

/// Saves serials in a directory, to which no other manager writes as long as this one exists.
///
/// ```
/// use lodstone_checkpoint::{Manager, ManagerOptions, Snapshot, latest};
/// use lodstone_model::{DType, Parameter, Tensor};
/// use lodstone_store::Blob;
///
/// # let dir = std::env::temp_dir().join(format!("lodstone-doc-{}", std::process::id()));
/// let mut manager = Manager::open(&dir, ManagerOptions::default().with_keep(Some(3)))?;
/// let tensor = Tensor::dense(DType::Uint8, vec![3], Blob::memory(vec![1, 2, 3]));
/// let snapshot = Snapshot::of_tensors([Parameter { name: "x".to_owned(), tensor }])?;
/// manager.save(120, &snapshot.with("epoch", 2))?;
///
/// let serial = latest(&dir)?.expect("one was saved");
/// assert_eq!((serial.step, serial.tensors()?.len()), (120, 1));
/// # drop(manager);
/// # let _ = std::process::Command::new("rm").arg("-r").arg(&dir).status();
/// # Ok::<(), lodstone_checkpoint::Error>(())
/// ```
#[derive(Debug)]
pub struct Manager {
    inner: Arc<Inner>,
    running: Option<Running>,
}

/// A save in the background.
#[derive(Debug)]
struct Running {
    step: u64,
    thread: JoinHandle<Result<Saved>>,
}

/// A serial that is durable.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The serial.
    pub serial: Serial,
    /// The steps of older serials that were removed.
    pub removed: Vec<u64>,
    /// Older serials that could not be removed, and why.
    pub warnings: Vec<String>,
}

#[derive(Debug)]
struct Inner {
    dir: Location,
    lock: WriterLock,
    options: ManagerOptions,
}

impl Manager {
    /// Locks a directory to write to, and creates it if it does not exist. Leftovers of killed writers are removed.
    ///
    /// # Errors
    /// [`Locked`](lodstone_store::Error::Locked) if another manager holds the lock; if it cannot be written to.
    pub fn open(dir: impl Into<Location>, options: ManagerOptions) -> Result<Self> {
        let dir = dir.into();
        dir.create_dir()?;
        let lock = WriterLock::take(&dir)?;
        dir.recover()?;
        let inner = Inner { dir, lock, options };
        Ok(Self { inner: Arc::new(inner), running: None })
    }

    /// Saves a snapshot as the serial of a step, which replaces an earlier one of that step and is durable when this
    /// returns. Then surplus serials are removed, oldest first, but never the last that is whole.
    ///
    /// Waits for a save in the background.
    ///
    /// # Errors
    /// If the serial cannot be written: nothing of it exists then, and earlier serials are unchanged. If a save in the
    /// background failed, its error is returned, and this save is not begun.
    pub fn save(&mut self, step: u64, snapshot: &Snapshot) -> Result<Saved> {
        self.wait()?;
        self.inner.save(step, snapshot)
    }

    /// Saves a snapshot in the background, after an earlier such save has ended, and returns the outcome of that one.
    /// Later changes of the variables do not affect the snapshot.
    pub fn save_in_background(&mut self, step: u64, snapshot: Snapshot) -> Option<Result<Saved>> {
        let before = self.finish();
        let (inner, shared) = (Arc::clone(&self.inner), Arc::new(snapshot));
        let given = Arc::clone(&shared);
        let thread = thread::Builder::new().name("checkpoint".to_owned());
        let save = move || {
            give_way();
            inner.save(step, &given)
        };
        match thread.spawn(save) {
            Ok(thread) => {
                self.running = Some(Running { step, thread });
                before
            }
            // Where there are no more threads, it is saved here.
            Err(_) => match (before, self.inner.save(step, &shared)) {
                (Some(Err(error)), _) => Some(Err(error)),
                (_, saved) => Some(saved),
            },
        }
    }

    /// Waits for the save in the background, if there is one, and gives its outcome.
    ///
    /// # Errors
    /// Why it failed.
    pub fn wait(&mut self) -> Result<Option<Saved>> {
        self.finish().transpose()
    }

    fn finish(&mut self) -> Option<Result<Saved>> {
        let Running { step, thread } = self.running.take()?;
        Some(thread.join().unwrap_or(Err(Error::Lost { step })))
    }

    /// Removes serials: all but the newest `keep`, of which one that is whole always stays. Gives the steps of
    /// those that it removed.
    ///
    /// # Errors
    /// If the directory cannot be listed, or one cannot be removed; older ones are gone then.
    pub fn prune(&mut self, keep: usize) -> Result<Vec<u64>> {
        self.wait()?;
        self.inner.lock.check()?;
        let mut removed = Vec::new();
        for serial in too_many(&self.inner.dir, keep, None)? {
            serial.location().remove_dir(&self.inner.options.progress)?;
            removed.push(serial.step);
        }
        Ok(removed)
    }

    /// Goes back: removes the serials behind a step, newest first, so that it is the latest.
    ///
    /// # Errors
    /// [`Error::Absent`] if there is none of that step; if one cannot be removed.
    pub fn rewind(&mut self, step: u64) -> Result<Vec<u64>> {
        self.wait()?;
        self.inner.lock.check()?;
        Serial::named(&self.inner.dir, step)?.manifest()?;
        let mut removed = Vec::new();
        for serial in serials(&self.inner.dir)?.iter().rev().filter(|serial| serial.step > step) {
            serial.location().remove_dir(&self.inner.options.progress)?;
            removed.push(serial.step);
        }
        Ok(removed)
    }
}

/// What is being saved is saved to its end.
impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Inner {
    fn save(&self, step: u64, snapshot: &Snapshot) -> Result<Saved> {
        self.lock.check()?;
        self.dir.recover()?;
        let path = self.dir.join(name_of(step));
        let mut commit = Commit::directory(&path, self.options.progress.clone())?;
        let manifest = self.stage(&mut commit, step, snapshot)?;
        commit.write::<StoreError>(MANIFEST.name, |out| MANIFEST.write(out, &manifest))?;
        // What is not in memory may have changed since.
        snapshot.tensors.iter().try_for_each(|it| it.tensor.check_unchanged())?;
        commit.publish()?;
        let serial = Serial::named(&self.dir, step)?;
        let (removed, warnings) = self.retain(step);
        Ok(Saved { serial, removed, warnings })
    }

    /// Writes everything but the manifest, which it returns.
    fn stage(&self, commit: &mut Commit, step: u64, snapshot: &Snapshot) -> Result<Manifest> {
        let container = self.options.container;
        let mut manifest = Manifest::of(step, container, snapshot);
        let files = container.write(commit, &snapshot.tensors)?;
        // Checksums are computed while the system writes the files to the disk.
        let parameters = container.read(&manifest.variables, &|name| staged(commit, name))?;
        let mut ranges = TensorRanges::of(&Model { parameters, ..Model::default() });
        for name in files {
            manifest.files.push(seal(commit, name, &mut ranges)?);
        }
        let Some(origin) = &snapshot.origin else { return Ok(manifest) };
        for (name, blob) in origin.loader.files(container).map_err(Error::Loader)? {
            let name = format!("{LOADER}/{name}");
            commit.write(&name, |out: &mut Output| out.copy(&blob))?;
            manifest.files.push(seal(commit, name, &mut ranges)?);
        }
        Ok(manifest)
    }

    /// Removes serials that are too many. The new one is there whatever becomes of that.
    fn retain(&self, step: u64) -> (Vec<u64>, Vec<String>) {
        let (mut removed, mut warnings) = (Vec::new(), Vec::new());
        let Some(keep) = self.options.keep else { return (removed, warnings) };
        let old = too_many(&self.dir, keep, Some(step)).unwrap_or_else(|error| {
            warnings.push(error.to_string());
            Vec::new()
        });
        for serial in old {
            match serial.location().remove_dir(&self.options.progress) {
                Ok(()) => removed.push(serial.step),
                Err(error) => warnings.push(error.to_string()),
            }
        }
        (removed, warnings)
    }
}

/// The serials that are there beside the newest `keep`, oldest first. Only those that look whole are counted, and
/// one always; the one of `step` is among those that stay.
fn too_many(dir: &Location, keep: usize, step: Option<u64>) -> Result<Vec<Serial>> {
    let mut old = serials(dir)?;
    old.retain(|serial| Some(serial.step) != step);
    let mut left = keep.max(1) - usize::from(step.is_some());
    let mut stays = Vec::new();
    for serial in old.iter().rev() {
        let is_whole = left > 0 && looks_whole(serial);
        left -= usize::from(is_whole);
        // What is damaged counts for nothing, and may be worth a look as long as it is among the newest.
        if is_whole || left > 0 {
            stays.push(serial.step);
        }
    }
    // Without one that is whole, nothing is too much.
    if step.is_none() && left == keep.max(1) {
        return Ok(Vec::new());
    }
    old.retain(|serial| !stays.contains(&serial.step));
    Ok(old)
}

/// Whether the manifest can be used, all files have their sizes, and the tensors are those of the manifest.
fn looks_whole(serial: &Serial) -> bool {
    let check = || {
        let manifest = serial.manifest()?;
        for file in &manifest.files {
            serial.file(&manifest, &file.name)?;
        }
        serial.read(&manifest)
    };
    check().is_ok()
}

/// A file that is not published yet.
fn staged(commit: &Commit, name: &str) -> Result<Blob> {
    let staged = commit.staged(name);
    let staged = staged.ok_or_else(|| internal("a file that was written is not staged"))?;
    Ok(Blob::open(staged, false)?)
}

/// A file that is not published yet, with its checksums.
fn seal(commit: &Commit, name: String, ranges: &mut TensorRanges) -> Result<SealedFile> {
    let blob = staged(commit, &name)?;
    Ok(SealedFile::of(name, &blob, ranges, &Progress::default())?)
}

/// Lets whoever trains go first where processors are few. Linux does that for this thread, and for those that it
/// begins; elsewhere it would be done to the process.
fn give_way() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

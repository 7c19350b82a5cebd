//! Saves serials: a single writer per directory, which keeps the newest.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use lodstone_formats::{SealedFile, TensorRanges};
use lodstone_model::Model;
use lodstone_store::{
    Atomicity, Blob, Commit, Error as StoreError, Location, Output, Progress, WriterLock,
};

use crate::container::Container;
use crate::error::{Error, Result, internal};
use crate::leftovers::{self, DATA};
use crate::manifest::{LOADER, MANIFEST, Manifest};
use crate::serial::{Serial, name_of, serials};
use crate::snapshot::Snapshot;

/// The niceness of background saves (the maximum is 19).
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Options of a [`Manager`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ManagerOptions {
    /// The number of newest serials to keep [default: all].
    pub keep: Option<usize>,
    /// The layout of variables in files.
    pub container: Container,
    /// Counts the saved bytes, and can cancel a save.
    pub progress: Progress,
}

lodstone_model::with_fields!(ManagerOptions {
    with_keep(keep: Option<usize>),
    with_container(container: Container),
    with_progress(progress: Progress),
});

/// Saves serials in a directory. A lock excludes other managers while this one exists.
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
        if dir.store().atomicity() == Atomicity::AtomicObject {
            leftovers::remove(&dir)?;
        }
        let inner = Inner { dir, lock, options };
        Ok(Self { inner: Arc::new(inner), running: None })
    }

    /// Saves a snapshot as the serial of a step, which is durable when this returns. It replaces an earlier one of that
    /// step; in a store that publishes single files, that is an error. Then removes surplus serials, oldest first, but
    /// never the last intact one.
    ///
    /// Waits for a background save first.
    ///
    /// # Errors
    /// If the serial cannot be written: nothing of it exists then, and earlier serials are unchanged. If a background
    /// save failed, its error is returned, and this save is not started.
    pub fn save(&mut self, step: u64, snapshot: &Snapshot) -> Result<Saved> {
        self.wait()?;
        self.inner.save(step, snapshot)
    }

    /// Saves a snapshot in the background, after an earlier background save has ended; returns the result of that one.
    /// Later changes of the variables do not affect the snapshot.
    pub fn save_in_background(&mut self, step: u64, snapshot: Snapshot) -> Option<Result<Saved>> {
        let before = self.finish();
        let (inner, shared) = (Arc::clone(&self.inner), Arc::new(snapshot));
        let given = Arc::clone(&shared);
        let thread = thread::Builder::new().name("checkpoint".to_owned());
        let save = move || {
            lower_priority();
            inner.save(step, &given)
        };
        match thread.spawn(save) {
            Ok(thread) => {
                self.running = Some(Running { step, thread });
                before
            }
            // If no thread can be started, the save runs here.
            Err(_) => match (before, self.inner.save(step, &shared)) {
                (Some(Err(error)), _) => Some(Err(error)),
                (_, saved) => Some(saved),
            },
        }
    }

    /// Waits for the background save, if there is one, and returns its result.
    ///
    /// # Errors
    /// If the save failed.
    pub fn wait(&mut self) -> Result<Option<Saved>> {
        self.finish().transpose()
    }

    fn finish(&mut self) -> Option<Result<Saved>> {
        let Running { step, thread } = self.running.take()?;
        Some(thread.join().unwrap_or(Err(Error::Lost { step })))
    }

    /// Removes all serials but the newest `keep`; an intact one always remains. Returns the steps of the removed serials.
    ///
    /// # Errors
    /// If the directory cannot be listed, or a serial cannot be removed; older ones are already removed then.
    pub fn prune(&mut self, keep: usize) -> Result<Vec<u64>> {
        self.wait()?;
        self.inner.lock.check()?;
        let mut removed = Vec::new();
        for serial in surplus(&self.inner.dir, keep, None)? {
            serial.location().remove_dir(&self.inner.options.progress)?;
            removed.push(serial.step);
        }
        Ok(removed)
    }

    /// Removes the serials after a step, newest first, so that it becomes the latest.
    ///
    /// # Errors
    /// [`Error::Absent`] if the step has no serial; if a serial cannot be removed.
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

/// Waits for the background save.
impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Inner {
    fn save(&self, step: u64, snapshot: &Snapshot) -> Result<Saved> {
        self.lock.check()?;
        self.dir.recover()?;
        match self.dir.store().atomicity() {
            Atomicity::AtomicSet => self.publish_set(step, snapshot)?,
            Atomicity::AtomicObject => self.publish_objects(step, snapshot)?,
        }
        let serial = Serial::named(&self.dir, step)?;
        let (removed, warnings) = self.retain(step);
        Ok(Saved { serial, removed, warnings })
    }

    /// Publishes all files of a serial in one step.
    fn publish_set(&self, step: u64, snapshot: &Snapshot) -> Result<()> {
        let path = self.dir.join(name_of(step));
        let mut commit = Commit::directory(&path, self.options.progress.clone())?;
        let manifest = self.stage(&mut commit, step, snapshot)?;
        commit.write::<StoreError>(MANIFEST.name, |out| MANIFEST.write(out, &manifest))?;
        // Tensors that are not in memory may have changed since.
        snapshot.tensors.iter().try_for_each(|it| it.tensor.check_unchanged())?;
        Ok(commit.publish()?)
    }

    /// Publishes the data of a serial under a unique name, and then creates its manifest: of several writers, one does.
    fn publish_objects(&self, step: u64, snapshot: &Snapshot) -> Result<()> {
        let path = self.dir.join(name_of(step));
        let manifest_path = path.join(MANIFEST.name);
        if manifest_path.is_there()? {
            return Err(StoreError::Exists { path: manifest_path.to_path_buf() }.into());
        }
        if !path.store().implies_parents() {
            path.create_dir()?;
        }
        let name = unique_name();
        let data = path.join(&name);
        let mut commit = Commit::directory(&data, self.options.progress.clone())?.only_new(true);
        let mut manifest = self.stage(&mut commit, step, snapshot)?;
        manifest.data = Some(name);
        snapshot.tensors.iter().try_for_each(|it| it.tensor.check_unchanged())?;
        commit.publish()?;
        let publish = || -> Result<()> {
            let mut commit =
                Commit::directory(&path, self.options.progress.clone())?.only_new(true);
            commit.write::<StoreError>(MANIFEST.name, |out| MANIFEST.write(out, &manifest))?;
            Ok(commit.publish()?)
        };
        let Err(error) = publish() else { return Ok(()) };
        match Manifest::load(&path) {
            // Only the answer of the server was lost.
            Ok(found) if found.data == manifest.data => Ok(()),
            Ok(_) => {
                // Nobody refers to the data; a later manager removes what remains.
                let _ = data.remove_dir(&Progress::default());
                Err(error)
            }
            // The manifest may appear yet.
            Err(_) => Err(error),
        }
    }

    /// Writes all files but the manifest, which it returns.
    fn stage(&self, commit: &mut Commit, step: u64, snapshot: &Snapshot) -> Result<Manifest> {
        let container = self.options.container;
        let mut manifest = Manifest::of(step, container, snapshot);
        let files = container.write(commit, &snapshot.tensors)?;
        // Checksums are computed while the system writes the files to disk.
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

    /// Removes surplus serials. The new one is already durable, so failures are only warnings.
    fn retain(&self, step: u64) -> (Vec<u64>, Vec<String>) {
        let (mut removed, mut warnings) = (Vec::new(), Vec::new());
        let Some(keep) = self.options.keep else { return (removed, warnings) };
        let old = surplus(&self.dir, keep, Some(step)).unwrap_or_else(|error| {
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

/// Returns the surplus serials beside the newest `keep`, oldest first. Only intact serials count, and at least one is
/// kept; the serial of `step` is always kept.
fn surplus(dir: &Location, keep: usize, step: Option<u64>) -> Result<Vec<Serial>> {
    let mut old = serials(dir)?;
    old.retain(|serial| Some(serial.step) != step);
    let mut left = keep.max(1) - usize::from(step.is_some());
    let mut stays = Vec::new();
    for serial in old.iter().rev() {
        let is_whole = left > 0 && looks_intact(serial)?;
        left -= usize::from(is_whole);
        // Damaged serials do not count, and may be worth a look while they are among the newest.
        if is_whole || left > 0 {
            stays.push(serial.step);
        }
    }
    // Without an intact serial, none is surplus.
    if step.is_none() && left == keep.max(1) {
        return Ok(Vec::new());
    }
    old.retain(|serial| !stays.contains(&serial.step));
    Ok(old)
}

/// Whether a serial looks intact: the manifest can be used, all files have their sizes, and the tensors match the manifest.
///
/// # Errors
/// If that is unknown, because a file is there but cannot be read.
fn looks_intact(serial: &Serial) -> Result<bool> {
    let check = || {
        let manifest = serial.manifest()?;
        for file in &manifest.files {
            serial.file(&manifest, &file.name)?;
        }
        serial.read(&manifest)
    };
    match check() {
        Ok(_) => Ok(true),
        Err(error) if error.is_unreadable() => Err(error),
        Err(_) => Ok(false),
    }
}

/// Opens a staged file.
pub(crate) fn staged(commit: &Commit, name: &str) -> Result<Blob> {
    let staged = commit.staged(name);
    let staged = staged.ok_or_else(|| internal("a written file is not staged"))?;
    Ok(Blob::open(staged, false)?)
}

/// Computes the checksums of a staged file.
fn seal(commit: &Commit, name: String, ranges: &mut TensorRanges) -> Result<SealedFile> {
    let blob = staged(commit, &name)?;
    Ok(SealedFile::of(name, &blob, ranges, &Progress::default())?)
}

/// Returns the name of a directory of data, which no other writer has.
fn unique_name() -> String {
    // Each state has random keys.
    format!("{DATA}{:016x}", RandomState::new().build_hasher().finish())
}

/// Lowers the priority below that of training threads. Linux has priorities per thread, inherited by new threads;
/// elsewhere this would affect the whole process.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

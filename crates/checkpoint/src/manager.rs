//! Serials that are made: one writer, numbered directories, as many as are to be kept.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use lodstone_formats::{SealedFile, TensorRanges, paddle::program};
use lodstone_model::Model;
use lodstone_paddle::executor::RANDOM_STATE;
use lodstone_store::{Blob, Commit, Location, Output, Progress, WriterLock};

use crate::append::make_dir;
use crate::container::Container;
use crate::contents::Snapshot;
use crate::error::{Error, Result, internal};
use crate::loader::LOADER;
use crate::manifest::{MANIFEST, Manifest, SavedVariable};
use crate::numerics::Numerics;
use crate::serial::{Serial, name_of, serials};

/// How far a save in the background stands behind others, of 19.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// How serials are made.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ManagerOptions {
    /// How many serials are kept, the newest; all if nothing is said.
    pub keep: Option<usize>,
    /// How variables are in files.
    pub container: Container,
    /// Counts the bytes that are saved, and cancels.
    pub progress: Progress,
}

lodstone_model::with_fields!(ManagerOptions {
    with_keep(keep: Option<usize>),
    with_container(container: Container),
    with_progress(progress: Progress),
});

/// Makes serials in a directory, which no other manager writes to as long as this one lives.
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

/// A serial that the disk has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The serial.
    pub serial: Serial,
    /// The steps of older serials that were removed.
    pub removed: Vec<u64>,
    /// What else went wrong: older serials that could not be removed.
    pub warnings: Vec<String>,
}

#[derive(Debug)]
struct Inner {
    dir: Location,
    lock: WriterLock,
    options: ManagerOptions,
}

impl Manager {
    /// Takes a directory to write to; makes it if it does not exist. What killed writers have left there is
    /// removed.
    ///
    /// # Errors
    /// [`Locked`](lodstone_store::Error::Locked) if another manager has it; if it cannot be written to.
    pub fn open(dir: impl Into<Location>, options: ManagerOptions) -> Result<Self> {
        let dir = dir.into();
        make_dir(&dir)?;
        let lock = WriterLock::take(&dir)?;
        dir.recover()?;
        let inner = Inner { dir, lock, options };
        Ok(Self { inner: Arc::new(inner), running: None })
    }

    /// Saves a snapshot as the serial of a step. When this returns, the disk has all of it; a serial of this step
    /// that there was is replaced. Then serials are removed that are too many: the oldest, and never the last that
    /// is whole.
    ///
    /// A save in the background is waited for.
    ///
    /// # Errors
    /// If it cannot be written; then there is nothing of it, and the serials that there were stay. The outcome
    /// of a save in the background that failed comes first: then this one was not begun.
    pub fn save(&mut self, step: u64, snapshot: &Snapshot) -> Result<Saved> {
        self.wait()?;
        self.inner.save(step, snapshot)
    }

    /// Begins to save a snapshot in the background, after the one before has ended; gives the outcome of that. What
    /// the snapshot has is saved, whatever becomes of the scope meanwhile.
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
        let text = manifest.text()?;
        commit.write(MANIFEST, |out: &mut Output| out.put(&text))?;
        // What is not in memory may have changed since.
        snapshot.tensors.iter().try_for_each(|it| it.tensor.check_unchanged())?;
        commit.publish()?;
        let serial = Serial::named(&self.dir, step)?;
        let (removed, warnings) = self.retain(step);
        Ok(Saved { serial, removed, warnings })
    }

    /// Writes everything but the manifest, and gives that.
    fn stage(&self, commit: &mut Commit, step: u64, snapshot: &Snapshot) -> Result<Manifest> {
        let container = self.options.container;
        let mut manifest = Manifest::new(step, container, Numerics::here());
        manifest.variables = snapshot.tensors.iter().map(SavedVariable::of).collect();
        manifest.metadata = snapshot.metadata.clone();
        let is_random = snapshot.tensors.iter().any(|tensor| tensor.name == RANDOM_STATE);
        let files = container.write(commit, &snapshot.tensors)?;
        // While the system writes them to the disk.
        self.seal(commit, &mut manifest, &files)?;
        if let Some(contents) = &snapshot.contents {
            let found = contents.found();
            manifest.random.extend(is_random.then(|| RANDOM_STATE.to_owned()));
            let is_saved = |name: &&String| snapshot.tensors.iter().any(|it| it.name == **name);
            manifest.schedule = found.schedule.iter().filter(is_saved).cloned().collect();
            manifest.programs = found.programs.clone();
            let records = snapshot.tensors.iter().map(|tensor| tensor.name.clone()).collect();
            let loader = contents.loader(records, container.placement())?;
            let (bytes, name) = (program::write(&loader)?, format!("{LOADER}/__model__"));
            commit.write(&name, |out: &mut Output| out.put(&bytes))?;
            self.seal(commit, &mut manifest, &[name])?;
        }
        Ok(manifest)
    }

    /// Writes down what staged files are.
    fn seal(&self, commit: &Commit, manifest: &mut Manifest, names: &[String]) -> Result<()> {
        let open = |name: &str| {
            let staged = commit.staged(name);
            let staged = staged.ok_or_else(|| internal("a file that was written is not staged"))?;
            Ok::<_, Error>(Blob::open(staged, false)?)
        };
        let is_parameters = manifest.files.is_empty();
        let known: Vec<_> =
            manifest.variables.iter().map(|var| (var.name.as_str(), var.expect())).collect();
        let parameters = match is_parameters {
            true => manifest.container.read(&known, open)?,
            false => Vec::new(),
        };
        let mut ranges = TensorRanges::of(&Model { parameters, ..Model::default() });
        for name in names {
            let blob = open(name)?;
            // An empty file has no parts, and nothing to be proved.
            let file = SealedFile::of(name.clone(), &blob, &mut ranges, &Progress::default())?;
            manifest.files.push(file);
        }
        Ok(())
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

/// Whether there is a manifest that can be used, and all files have their sizes.
fn looks_whole(serial: &Serial) -> bool {
    serial.tensors().is_ok()
}

/// Lets whoever trains go first where processors are few. Linux does that for this thread, and for those that it
/// begins; elsewhere it would be done to the process.
fn give_way() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

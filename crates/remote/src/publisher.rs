//! Publication of objects.
//!
//! | file | while it is written | when it is published |
//! |---|---|---|
//! | up to [`PART`] bytes | in memory | one put |
//! | larger | parts of a multipart upload, which is invisible | the upload is completed |
//!
//! Nothing is copied on the server, and nothing is visible before it is published. A single file replaces an existing one.
//! Several files are created (`If-None-Match: *`), the one that refers to the others last, so of several writers at most one
//! publishes it. A file that was created is removed again if a later one cannot be.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lodstone_store::{Blob, Error, Progress, Publisher, Result, SEAL, Sink, StepKind};
use object_store::multipart::PartId;

use crate::Fault;
use crate::bucket::Put;
use crate::io::Pending;
use crate::store::{MARKER, RemoteStore};

/// The size of the parts of an upload. An object has at most 10,000 parts, so it has at most 156 GiB.
const PART: usize = 16 << 20;

/// Maximum number of parts of an upload.
const MAX_PARTS: usize = 10_000;

/// Maximum number of parts that are sent at the same time; with the one that is filled, they are all that is in memory.
const PARALLEL: usize = 3;

/// A written file that is not published yet.
#[derive(Debug)]
enum Written {
    Small(Bytes),
    Uploaded { upload: String, parts: Vec<PartId> },
}

/// The written files, by key.
type Files = Arc<Mutex<HashMap<String, Written>>>;

#[derive(Debug)]
pub(crate) struct RemotePublisher {
    store: RemoteStore,
    root: PathBuf,
    /// Whether the root existed when it was opened.
    is_there: bool,
    /// The key of the directory in which written files can be opened.
    staging: String,
    files: Files,
    /// Whether no existing file may be replaced.
    only_new: bool,
    progress: Progress,
}

impl RemotePublisher {
    pub(crate) fn new(
        store: RemoteStore,
        root: PathBuf,
        is_there: bool,
        staging: String,
        progress: &Progress,
    ) -> Self {
        let (files, only_new, progress) = (Files::default(), false, progress.clone());
        Self { store, root, is_there, staging, files, only_new, progress }
    }

    fn key(&self, name: &Path) -> String {
        self.store.key(&self.target(name))
    }

    fn staged_key(&self, name: &Path) -> String {
        self.store.key(&self.staged().join(name))
    }

    /// Publishes a file; with `new`, it must not exist.
    fn publish_one(&self, key: String, new: bool) -> Result<(), Fault> {
        let written = lock(&self.files).remove(&key);
        match written {
            Some(Written::Small(bytes)) => self.store.call(|shared| async move {
                let put = if new { Put::New } else { Put::Any };
                shared.backend.bucket()?.put(&key, bytes, put).await.map(|_| ())
            }),
            Some(Written::Uploaded { upload, parts }) => {
                let (name, id) = (key.clone(), upload.clone());
                let completed = self.store.call(|shared| async move {
                    shared.backend.bucket()?.complete(&name, &id, parts, new).await
                });
                if completed.is_err() {
                    abort(&self.store, key, upload);
                }
                completed
            }
            None => Err(Fault::Missing),
        }
    }

    /// Removes files that were created, after a later one could not be.
    fn remove(&self, created: Vec<String>) {
        let shared = Arc::clone(&self.store.0);
        self.store.0.runtime.clean_up(async move {
            if let Ok(bucket) = shared.backend.bucket() {
                // What remains is not referred to.
                let _ = bucket.delete(created).await;
            }
        });
    }
}

fn lock(files: &Files) -> MutexGuard<'_, HashMap<String, Written>> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the parts of an upload.
fn abort(store: &RemoteStore, key: String, upload: String) {
    let shared = Arc::clone(&store.0);
    store.0.runtime.clean_up(async move {
        if let Ok(bucket) = shared.backend.bucket() {
            // The server's rule for unfinished uploads removes what remains.
            let _ = bucket.abort(&key, &upload).await;
        }
    });
}

impl Publisher for RemotePublisher {
    fn root(&self) -> Option<&Path> {
        self.is_there.then_some(&self.root)
    }

    fn target(&self, name: &Path) -> PathBuf {
        self.root.join(name)
    }

    fn staged(&self) -> PathBuf {
        self.store.path(&self.staging)
    }

    fn create(&mut self, name: &Path) -> Result<Box<dyn Sink>> {
        let (key, target) = (self.key(name), self.target(name));
        self.store.check_free(&key)?;
        self.progress.step(StepKind::Create, &target)?;
        Ok(Box::new(RemoteSink {
            store: self.store.clone(),
            files: Arc::clone(&self.files),
            progress: self.progress.clone(),
            path: target,
            key,
            buffer: Vec::new(),
            begin: 0,
            upload: None,
        }))
    }

    fn needs_contents(&self) -> bool {
        true
    }

    fn keep(&mut self, name: &Path, contents: Option<Blob>) {
        if let Some(contents) = contents {
            self.store.stage(self.staged_key(name), contents);
        }
    }

    fn require_new(&mut self) {
        self.only_new = true;
    }

    fn finish(&mut self, _name: &Path) -> Result<()> {
        Ok(())
    }

    fn discard(&mut self, name: &Path) {
        self.store.unstage(&self.staged_key(name));
        let key = self.key(name);
        let written = lock(&self.files).remove(&key);
        if let Some(Written::Uploaded { upload, .. }) = written {
            abort(&self.store, key, upload);
        }
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn lock(&mut self) -> Result<()> {
        // Servers order writers: each object is published in one step.
        Ok(())
    }

    fn publish(&mut self, names: &[PathBuf]) -> Result<()> {
        self.store.forget();
        if names.is_empty() {
            self.progress.step(StepKind::MakeDirectory, &self.root)?;
            let key = self.key(Path::new(MARKER));
            let put = self.store.call(|shared| async move {
                shared.backend.bucket()?.put(&key, Bytes::new(), Put::Any).await
            });
            self.store.forget();
            return put.map(|_| ()).map_err(|fault| fault.at("create the directory", &self.root));
        }
        let mut created = Vec::new();
        for (number, name) in (1..).zip(names) {
            let (key, target) = (self.key(name), self.target(name));
            let new = names.len() > 1 || (self.only_new && name != Path::new(SEAL));
            let published = self
                .progress
                .advance(0)
                .and_then(|()| self.progress.step(StepKind::Replace, &target))
                .and_then(|()| {
                    self.publish_one(key.clone(), new).map_err(|fault| match fault {
                        Fault::Exists if !self.only_new => Error::Replaces { path: target.clone() },
                        fault => fault.at("publish", &target),
                    })
                });
            if let Err(error) = published {
                // The file that refers to the others may be published although no answer came.
                let is_known = matches!(error, Error::Exists { .. } | Error::Replaces { .. });
                if number < names.len() || is_known {
                    self.remove(created);
                }
                self.store.forget();
                return Err(error);
            }
            created.extend(new.then_some(key));
        }
        self.store.forget();
        Ok(())
    }
}

impl Drop for RemotePublisher {
    fn drop(&mut self) {
        self.store.unstage(&self.staging);
        let left = std::mem::take(&mut *lock(&self.files));
        for (key, written) in left {
            if let Written::Uploaded { upload, .. } = written {
                abort(&self.store, key, upload);
            }
        }
    }
}

/// A file that is uploaded in parts as soon as it is larger than one.
#[derive(Debug)]
struct RemoteSink {
    store: RemoteStore,
    files: Files,
    progress: Progress,
    path: PathBuf,
    key: String,
    /// The bytes that were not sent.
    buffer: Vec<u8>,
    /// The offset of the buffer in the file.
    begin: u64,
    upload: Option<Upload>,
}

/// A multipart upload.
#[derive(Debug)]
struct Upload {
    id: String,
    /// The parts that were sent, in order.
    done: Vec<PartId>,
    /// Those that are being sent, in order.
    sending: std::collections::VecDeque<Pending<PartId>>,
}

impl RemoteSink {
    /// Sends the buffer as a part.
    fn send(&mut self) -> Result<(), Fault> {
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        self.begin += bytes.len() as u64;
        let interrupt = &self.store.0.options.interrupt;
        if self.upload.is_none() {
            let key = self.key.clone();
            let id = self
                .store
                .call(|shared| async move { shared.backend.bucket()?.begin(&key).await })?;
            self.upload = Some(Upload { id, done: Vec::new(), sending: Default::default() });
        }
        let Some(upload) = &mut self.upload else { return Ok(()) };
        let index = upload.done.len() + upload.sending.len();
        if index >= MAX_PARTS {
            return Err(Fault::Limit(format!("an object of at most {MAX_PARTS} parts of 16 MiB")));
        }
        if upload.sending.len() >= PARALLEL
            && let Some(first) = upload.sending.pop_front()
        {
            upload.done.push(first.wait(interrupt)?);
        }
        let (shared, key, id) = (Arc::clone(&self.store.0), self.key.clone(), upload.id.clone());
        upload.sending.push_back(self.store.0.runtime.start_work(async move {
            shared.backend.bucket()?.part(&key, &id, index, bytes).await
        })?);
        Ok(())
    }

    /// Sends the rest, and waits for all parts.
    fn finish(&mut self) -> Result<(), Fault> {
        if self.upload.is_none() {
            let bytes = Bytes::from(std::mem::take(&mut self.buffer));
            lock(&self.files).insert(self.key.clone(), Written::Small(bytes));
            return Ok(());
        }
        if !self.buffer.is_empty() {
            self.send()?;
        }
        if let Some(upload) = &mut self.upload {
            while let Some(first) = upload.sending.pop_front() {
                upload.done.push(first.wait(&self.store.0.options.interrupt)?);
            }
        }
        if let Some(Upload { id, done, .. }) = self.upload.take() {
            let written = Written::Uploaded { upload: id, parts: done };
            lock(&self.files).insert(self.key.clone(), written);
        }
        Ok(())
    }
}

impl Sink for RemoteSink {
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.buffer.len() >= PART {
                self.progress.advance(0)?;
                let sent = self.send();
                sent.map_err(|fault| fault.at("upload", &self.path))?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(PART - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let start = offset.checked_sub(self.begin).and_then(|start| usize::try_from(start).ok());
        let there = start.and_then(|start| self.buffer.get_mut(start..)?.get_mut(..bytes.len()));
        match there {
            Some(there) => {
                there.copy_from_slice(bytes);
                Ok(())
            }
            None => {
                let fault = Fault::Unsupported("these bytes were already uploaded");
                Err(fault.at("overwrite a part of", &self.path))
            }
        }
    }

    fn only_appends(&self) -> bool {
        true
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.finish().map_err(|fault| fault.at("upload", &self.path))
    }
}

impl Drop for RemoteSink {
    fn drop(&mut self) {
        if let Some(Upload { id, sending, .. }) = self.upload.take() {
            drop(sending);
            abort(&self.store, self.key.clone(), id);
        }
    }
}

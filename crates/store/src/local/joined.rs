//! Files that are added to the staging directory of another process, which publishes them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::OpenOptions;

use super::sink::LocalSink;
use super::staging::stem_of;
use super::write_dir::{Below, WriteDir};
use crate::store::{Publisher, Sink};
use crate::{Error, Progress, Result, StepKind};

/// A staging directory that belongs to another process. What it does not publish, it removes.
#[derive(Debug)]
pub(super) struct Joined {
    place: WriteDir,
    written: Vec<(PathBuf, Arc<File>)>,
    progress: Progress,
}

impl Joined {
    /// Opens the staging directory at `path`.
    pub(super) fn open(path: &Path, progress: &Progress) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        if name.and_then(stem_of).is_none() {
            let found = "no directory of files in progress";
            return Err(Error::NotAFile { path: path.to_path_buf(), found });
        }
        let (place, progress) = (WriteDir::open(path)?, progress.clone());
        Ok(Self { place, written: Vec::new(), progress })
    }
}

impl Publisher for Joined {
    fn root(&self) -> Option<&Path> {
        Some(&self.place.path)
    }

    fn target(&self, name: &Path) -> PathBuf {
        self.place.path.join(name)
    }

    fn staged(&self) -> PathBuf {
        self.place.path.clone()
    }

    fn create(&mut self, name: &Path) -> Result<Box<dyn Sink>> {
        let path = self.target(name);
        self.place.make(name.parent().unwrap_or(Path::new("")), &self.progress)?;
        self.progress.step(StepKind::Create, &path)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let file = self.place.dir.open_with(name, &options).map_err(Error::io("create", &path))?;
        let file = Arc::new(file.into_std());
        self.written.push((name.to_path_buf(), Arc::clone(&file)));
        Ok(Box::new(LocalSink { file, path }))
    }

    fn finish(&mut self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn discard(&mut self, name: &Path) {
        self.written.retain(|(written, _)| written != name);
        let _ = self.place.dir.remove_file(name);
    }

    fn sync(&mut self) -> Result<()> {
        for (name, file) in std::mem::take(&mut self.written) {
            let path = self.target(&name);
            self.progress.step(StepKind::Sync, &path)?;
            file.sync_all().map_err(Error::io("sync", path))?;
        }
        Ok(())
    }

    fn lock(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes the entries durable; the other process publishes them.
    fn publish(&mut self, _: &[PathBuf]) -> Result<()> {
        let failed = |error: io::Error| Error::io("sync the directory", &self.place.path)(error);
        for directory in Below::of(&self.place).map_err(failed)?.directories.iter().rev() {
            self.place.below(directory).map_err(failed)?.sync(&self.progress)?;
        }
        self.place.sync(&self.progress)
    }
}

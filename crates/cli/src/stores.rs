//! Where arguments lead: stores by scheme, standard input and standard output.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use lodstone::{Location, MemoryStore};

use crate::{Failure, say};

/// A store by the part of an address behind `SCHEME://`.
type Store = fn(&str) -> Location;

/// The stores, by scheme. A path without one is local.
const SCHEMES: &[(&str, Store)] = &[("file", |path| Location::from(path))];

/// The path of standard input or standard output.
pub(crate) const STANDARD: &str = "-";

/// Where a path or an address leads; `-` is a file in memory that holds standard input.
///
/// # Errors
/// If there is no store for its scheme, or standard input cannot be read, or was read before.
pub(crate) fn at(path: impl AsRef<Path>) -> Result<Location, Failure> {
    let path = path.as_ref();
    if path == Path::new(STANDARD) {
        return standard_input();
    }
    let Some((scheme, rest)) = path.to_str().and_then(|path| path.split_once("://")) else {
        return Ok(Location::from(path));
    };
    // A local path with a colon before two slashes has a slash before the colon.
    if scheme.is_empty() || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(Location::from(path));
    }
    match SCHEMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(scheme)) {
        Some((_, store)) => Ok(store(rest)),
        None => {
            let known: Vec<_> =
                SCHEMES.iter().map(|(scheme, _)| format!("`{scheme}://`")).collect();
            Err(format!("no store for `{scheme}://`; there are: {}", known.join(", ")).into())
        }
    }
}

fn standard_input() -> Result<Location, Failure> {
    static WAS_READ: AtomicBool = AtomicBool::new(false);
    if WAS_READ.swap(true, Ordering::Relaxed) {
        return Err("standard input can be read only once: pass `-` for one file".into());
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let (store, name) = (MemoryStore::default(), "standard input");
    store.insert(name, bytes)?;
    Ok(store.location(name))
}

/// Where a command writes to.
pub(crate) enum Output {
    /// A file or a directory.
    Path(Location),
    /// Standard output, where the only file of this directory in memory goes.
    Standard(Location),
}

impl Output {
    /// Where a path or an address leads; `-` is standard output.
    ///
    /// # Errors
    /// If there is no store for its scheme.
    pub(crate) fn at(path: impl AsRef<Path>) -> Result<Self, Failure> {
        let path = path.as_ref();
        match path == Path::new(STANDARD) {
            true => Ok(Self::Standard(MemoryStore::default().location("standard output/"))),
            false => Ok(Self::Path(at(path)?)),
        }
    }

    /// Where to write before [`finish`](Self::finish).
    pub(crate) fn location(&self) -> &Location {
        match self {
            Self::Path(location) | Self::Standard(location) => location,
        }
    }

    /// Writes the file to standard output, if it is to go there; otherwise prints `report` there.
    ///
    /// # Errors
    /// If there are several files, which one stream cannot hold; or writing fails.
    pub(crate) fn finish(&self, files: &[PathBuf], report: &str) -> Result<(), Failure> {
        let Self::Standard(directory) = self else {
            return say::summary(report);
        };
        let [file] = files else {
            let count = say::count(files.len(), "file");
            return Err(format!("standard output holds one file, and the model has {count}").into());
        };
        let blob = lodstone::Blob::open(directory.at(file), false)?;
        say::to_stdout(|out| {
            blob.for_each_chunk(|piece| out.write_all(piece).map_err(lodstone::Error::Output))?;
            Ok(())
        })
    }
}

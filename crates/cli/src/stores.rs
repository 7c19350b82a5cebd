//! Locations of arguments: stores by scheme, standard input and standard output.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use lodstone::store::scheme_of;
use lodstone::{Location, MemoryStore, OpenOptions};

#[cfg(feature = "remote")]
use crate::remote;
use crate::{Failure, console};

/// Returns the location of an address, from its scheme and what follows `://`.
type Store = fn(&str, &str) -> Result<Location, Failure>;

/// The stores, by scheme. A path without one is local.
const SCHEMES: &[(&str, Store)] = &[
    ("file", |_, path| Ok(Location::from(path))),
    #[cfg(feature = "remote")]
    ("s3", remote::at),
    #[cfg(feature = "remote")]
    ("gs", remote::at),
    #[cfg(feature = "remote")]
    ("az", remote::at),
    #[cfg(feature = "remote")]
    ("hf", remote::at),
    #[cfg(feature = "remote")]
    ("https", remote::at),
    #[cfg(feature = "remote")]
    ("http", remote::at),
];

/// The path of standard input or standard output.
pub(crate) const STANDARD: &str = "-";

/// Returns the location of a path or an address; for `-`, a file in memory with the bytes of standard input.
///
/// # Errors
/// Fails if there is no store for the scheme, or if standard input cannot be read or was read before.
pub(crate) fn at(path: impl AsRef<Path>) -> Result<Location, Failure> {
    let path = path.as_ref();
    if path == Path::new(STANDARD) {
        return standard_input();
    }
    let Some((scheme, rest)) = scheme_of(path) else {
        return Ok(Location::from(path));
    };
    match SCHEMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(scheme)) {
        Some((_, store)) => store(scheme, rest),
        None => {
            let known: Vec<_> =
                SCHEMES.iter().map(|(scheme, _)| format!("`{scheme}://`")).collect();
            Err(format!("unknown scheme `{scheme}://`, expected {}", known.join(" or ")).into())
        }
    }
}

/// Returns a path or an address for output: without the user name and the password of an address, and without the query of
/// a URL, which may be a credential, too.
pub(crate) fn shown(path: &Path) -> String {
    let Some((scheme, rest)) = scheme_of(path).filter(|_| is_remote(path)) else {
        return path.display().to_string();
    };
    let is_url = ["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme));
    let rest = match rest.split_once(['?', '#']) {
        Some((before, _)) if is_url => before,
        _ => rest,
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// Returns whether a path is an address in another machine's store.
pub(crate) fn is_remote(path: &Path) -> bool {
    scheme_of(path).is_some_and(|(scheme, _)| !scheme.eq_ignore_ascii_case("file"))
}

/// Returns the options for a command that reads only parts of a model. It does not look for seals of remote models, which
/// would cost a request for each directory above the model.
pub(crate) fn for_parts(path: &Path, options: OpenOptions) -> OpenOptions {
    let verify = options.verify && !is_remote(path);
    options.with_verify(verify)
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

/// The output of a command.
pub(crate) enum Output {
    /// A file or a directory.
    Path(Location),
    /// Standard output, to which the only file of this directory in memory is copied.
    Standard(Location),
}

impl Output {
    /// Returns the output at a path or an address; for `-`, standard output.
    ///
    /// # Errors
    /// Fails if there is no store for the scheme.
    pub(crate) fn at(path: impl AsRef<Path>) -> Result<Self, Failure> {
        let path = path.as_ref();
        match path == Path::new(STANDARD) {
            true => Ok(Self::Standard(MemoryStore::default().location("standard output/"))),
            false => Ok(Self::Path(at(path)?)),
        }
    }

    /// The location to write to before [`finish`](Self::finish).
    pub(crate) fn location(&self) -> &Location {
        match self {
            Self::Path(location) | Self::Standard(location) => location,
        }
    }

    /// Copies the file to standard output if it is the output; prints `report` if not.
    ///
    /// # Errors
    /// Fails if there are several files, which standard output cannot hold, or if writing fails.
    pub(crate) fn finish(&self, files: &[PathBuf], report: &str) -> Result<(), Failure> {
        let Self::Standard(directory) = self else {
            return console::summary(report);
        };
        let [file] = files else {
            let count = console::count(files.len(), "file");
            return Err(format!("cannot write {count} to standard output, expected 1 file").into());
        };
        let blob = lodstone::Blob::open(directory.at(file), false)?;
        console::to_stdout(|out| {
            blob.for_each_chunk(|chunk| out.write_all(chunk).map_err(lodstone::Error::Output))?;
            Ok(())
        })
    }
}

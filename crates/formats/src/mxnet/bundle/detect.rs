//! Detection of files that belong together.

use lodstone_store::{Entry, Location, SourceFile};

use super::block::{BLOCK, is_block};
use crate::error::{Error, Result};
use crate::format::Probe;
use crate::lengths::at_most;
use crate::mxnet::params::{is_archive, is_params};
use crate::mxnet::symbol::is_symbol;

/// The suffix of a program's file name.
pub(super) const SYMBOL: &str = "-symbol.json";

/// The suffix of a parameter file's name.
pub(super) const PARAMS: &str = ".params";

pub(super) fn detect(probe: &Probe<'_>) -> bool {
    match probe.entries {
        None => is_symbol(probe.head) || is_block(probe.head),
        Some(entries) => names(entries).any(|name| {
            name.ends_with(SYMBOL)
                || name.ends_with(BLOCK)
                || (name.ends_with(PARAMS) && holds_arrays(&probe.path.join(name)))
        }),
    }
}

/// Returns whether a file is a list or dict of arrays, by its first bytes.
fn holds_arrays(path: &Location) -> bool {
    let mut head = [0; 32];
    let Ok(file) = SourceFile::open(path, false) else { return false };
    let size = at_most(file.len(), head.len());
    let (head, _) = head.split_at_mut(size);
    file.read_at(0, head).is_ok() && (is_params(head, file.len()) || is_archive(head))
}

fn names(entries: &[Entry]) -> impl Iterator<Item = &str> {
    entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str())
}

/// Returns the file of a prefix: the program, or otherwise the parameters of the last epoch.
pub(super) fn by_prefix(prefix: &Location) -> Result<Option<Location>> {
    let Some(name) = prefix.name() else { return Ok(None) };
    let programs = [SYMBOL, BLOCK].map(|ending| prefix.append(ending));
    if let Some(program) = Location::existing(programs).next() {
        return Ok(Some(program?));
    }
    let entries = prefix.directory().list_if_possible()?;
    Ok(epochs(name, &entries).pop().map(|params| prefix.with_file_name(params)))
}

/// Returns the program of a directory, or otherwise its only parameter file.
pub(super) fn file_in(directory: &Location, entries: &[Entry]) -> Result<String> {
    for ending in [SYMBOL, BLOCK, PARAMS] {
        let found: Vec<&str> = names(entries).filter(|name| name.ends_with(ending)).collect();
        match found.as_slice() {
            [] => {}
            [only] => return Ok((*only).to_owned()),
            several => {
                let names = several.join(", ");
                let why = format!("it holds several MXNet files; pass one of {names}");
                return Err(Error::NoModel { path: directory.to_path_buf(), why });
            }
        }
    }
    let why = "it holds neither an MXNet program nor MXNet parameters".to_owned();
    Err(Error::NoModel { path: directory.to_path_buf(), why })
}

/// Returns the parameter files of a prefix, the one to open last: that of the last epoch, or otherwise the one named
/// after the prefix.
pub(super) fn candidates(prefix: &str, entries: &[Entry]) -> Vec<String> {
    let own = format!("{prefix}{PARAMS}");
    let own = names(entries).any(|name| name == own).then_some(own);
    own.into_iter().chain(epochs(prefix, entries)).collect()
}

/// Returns the parameter files of epochs, the last epoch last.
fn epochs(prefix: &str, entries: &[Entry]) -> Vec<String> {
    let mut found: Vec<(u64, &str)> = names(entries)
        .filter_map(|name| {
            let epoch = name.strip_prefix(prefix)?.strip_prefix('-')?.strip_suffix(PARAMS)?;
            let digits = epoch.len() >= 4 && epoch.bytes().all(|byte| byte.is_ascii_digit());
            Some((epoch.parse().ok().filter(|_| digits)?, name))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name.to_owned()).collect()
}

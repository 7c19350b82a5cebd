//! Detection of PaddlePaddle files, and of files that belong together.

use std::sync::Arc;

use lodstone_store::{Blob, Entry, Location, SourceFile};

use crate::error::{Error, Result};
use crate::format::Probe;
use crate::lengths::at_most;
use crate::paddle::pickle::is_pickle;
use crate::paddle::pir;
use crate::paddle::program::{is_binary, is_text};
use crate::paddle::stream::{begins_record, is_stream};
use crate::registry::SIGNATURES;

/// The content of a file, according to its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Program,
    ProgramText,
    Pir,
    Stream,
    Pickle,
}

pub(super) fn content(head: &[u8], len: u64) -> Option<Content> {
    Some(match head {
        _ if is_binary(head) => Content::Program,
        _ if is_text(head) => Content::ProgramText,
        _ if pir::is_pir(head) => Content::Pir,
        _ if is_stream(head) || is_counted(head, len) => Content::Stream,
        _ if is_pickle(head) => Content::Pickle,
        _ => return None,
    })
}

/// Returns whether a file may begin with the size of a record, or be a vocabulary.
fn is_counted(head: &[u8], len: u64) -> bool {
    let Some((size, record)) = head.split_first_chunk::<8>() else { return false };
    let (size, left) = (u64::from_le_bytes(*size), len.saturating_sub(8));
    let is_record = is_stream(record) || is_vocabulary(record, left) || record.starts_with(&[0; 8]);
    is_vocabulary(head, len) || (size <= left && is_record)
}

/// Returns whether a file may begin with a number of tokens and the size of the first.
fn is_vocabulary(head: &[u8], len: u64) -> bool {
    let Some((count, rest)) = head.split_first_chunk::<8>() else { return false };
    let (count, left) = (u64::from_le_bytes(*count), len.saturating_sub(8));
    let token = rest.first_chunk().map(|size| u64::from_le_bytes(*size));
    count > 0 && count <= left / 12 && token.is_some_and(|size| size < left)
}

pub(super) fn detect(probe: &Probe<'_>) -> bool {
    if let Some(entries) = probe.entries {
        return !matches!(program_in(probe.path, entries), Ok(None))
            || entries.iter().any(|entry| entry.name.ends_with(".pdiparams"))
            || has_variable(probe.path, entries)
            || pir_in(probe.path, entries).is_some();
    }
    if has_own_name(probe.path) {
        return true;
    }
    match content(probe.head, probe.len) {
        // Such files begin with zeros, as others do.
        Some(Content::Stream) => {
            Blob::open(probe.path, false).is_ok_and(|blob| begins_record(&blob))
        }
        Some(Content::Pickle) => !is_of_others(probe.head, probe.len),
        content => content.is_some(),
    }
}

/// Returns whether a file has a name that only PaddlePaddle uses.
pub(super) fn has_own_name(path: &Location) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("pdmodel" | "pdiparams" | "pdparams" | "pdopt" | "pdtensor"))
        || matches!(path.name(), Some("__model__" | "__params__"))
}

/// Returns whether a file begins with the signature of another framework.
pub(super) fn is_of_others(head: &[u8], len: u64) -> bool {
    SIGNATURES.iter().any(|is_signed| is_signed(head, len))
}

/// Returns whether a tensor stream is among the first files of a directory or its subdirectories.
fn has_variable(directory: &Location, entries: &[Entry]) -> bool {
    /// Maximum number of files to inspect; a directory of variables contains little else.
    const MAX_TRIED: usize = 64;
    let is_variable = |path: &Location| {
        let Ok(file) = SourceFile::open(path, false) else { return false };
        let Ok(head) = head(&file) else { return false };
        content(&head, file.len()) == Some(Content::Stream)
            && !is_of_others(&head, file.len())
            && begins_record(&Blob::file(Arc::new(file)))
    };
    entries.iter().take(MAX_TRIED).any(|entry| {
        let path = directory.join(&entry.name);
        if !entry.is_dir {
            return is_variable(&path);
        }
        // Variables with slashes in their names are files in directories.
        let inner = path.list().unwrap_or_default();
        inner
            .iter()
            .take(MAX_TRIED)
            .any(|inner| !inner.is_dir && is_variable(&path.join(&inner.name)))
    })
}

/// Reads the first bytes of a file.
fn head(file: &SourceFile) -> lodstone_store::Result<Vec<u8>> {
    let mut head = vec![0; at_most(file.len(), 4096)];
    file.read_at(0, &mut head)?;
    Ok(head)
}

/// The program of a directory, and its other programs.
#[derive(Debug, Default)]
pub(super) struct ProgramIn {
    pub(super) name: String,
    /// Programs that were not chosen, for a warning.
    pub(super) others: Vec<String>,
}

/// Returns the program of a directory: the only one with a name that PaddlePaddle uses, or the only `.pdmodel`.
pub(super) fn program_in(directory: &Location, entries: &[Entry]) -> Result<Option<ProgramIn>> {
    let names = || entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str());
    let is_usual = |name: &&str| {
        USUAL_PROGRAMS.contains(name) || matches!(*name, "inference.pdmodel" | "model.pdmodel")
    };
    let mut usual: Vec<&str> = names().filter(is_usual).collect();
    if usual.len() > 1 {
        // Other files may have these names too.
        usual.retain(|name| {
            let file = SourceFile::open(directory.join(name), false);
            file.and_then(|file| head(&file)).is_ok_and(|head| is_binary(&head) || is_text(&head))
        });
    }
    let programs: Vec<&str> = names().filter(|name| name.ends_with(".pdmodel")).collect();
    match (usual.as_slice(), programs.as_slice()) {
        ([], []) => Ok(None),
        ([name], others) => {
            let others = others.iter().filter(|other| *other != name);
            let others = others.map(|other| (*other).to_owned()).collect();
            Ok(Some(ProgramIn { name: (*name).to_owned(), others }))
        }
        ([], [name]) => Ok(Some(ProgramIn { name: (*name).to_owned(), others: Vec::new() })),
        (several @ [_, ..], _) | ([], several) => {
            let why = format!("it holds several programs; pass one of {}", several.join(", "));
            Err(Error::NoModel { path: directory.to_path_buf(), why })
        }
    }
}

/// Returns the PIR program of a directory: `inference.json` or the only `.json` with a parameter file;
/// without one, the only one with pickles.
pub(super) fn pir_in(directory: &Location, entries: &[Entry]) -> Option<String> {
    let names = || entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str());
    let with = |name: &&str, end: &str| {
        let stem = name.strip_suffix(".json");
        stem.is_some_and(|stem| names().any(|name| name.strip_suffix(end) == Some(stem)))
    };
    let mut candidates: Vec<&str> = names().filter(|name| with(name, ".pdiparams")).collect();
    if candidates.is_empty() {
        // Other files named after a pickle may be JSON too.
        let is_pir = |name: &&str| {
            let head = SourceFile::open(directory.join(name), false).and_then(|file| head(&file));
            head.is_ok_and(|head| pir::is_pir(&head))
        };
        candidates = names().filter(|name| with(name, ".pdparams") && is_pir(name)).collect();
    }
    match candidates.as_slice() {
        [only] => Some((*only).to_owned()),
        several => several.iter().find(|name| **name == "inference.json").map(|n| (*n).to_owned()),
    }
}

/// Returns the combined parameters of a directory without a program, if there is exactly one such file.
pub(super) fn only_params_in(entries: &[Entry]) -> Option<String> {
    let mut params = entries.iter().filter(|entry| entry.name.ends_with(".pdiparams"));
    let only = params.next().filter(|_| params.next().is_none())?;
    Some(only.name.clone())
}

/// Returns the name of the combined parameters that share the prefix of a program.
pub(super) fn own_params_of(program: &str) -> String {
    let stem = program.rsplit_once('.').map_or(program, |(stem, _)| stem);
    format!("{stem}.pdiparams")
}

/// Conventional names of combined parameters, independent of the name of their program.
pub(super) const USUAL_PARAMS: [&str; 2] = ["__params__", "params"];

/// Conventional names of programs, with [`USUAL_PARAMS`] or a file for each variable.
const USUAL_PROGRAMS: [&str; 3] = ["__model__", "model", "main_program"];

/// Returns whether parameters of a conventional name belong to a program: its name contains no prefix that they would
/// share.
pub(super) fn has_usual_params(program: &str) -> bool {
    let name = program.strip_suffix(".txt").unwrap_or(program);
    ![".pdmodel", ".json"].iter().any(|end| name.ends_with(end))
}

/// Returns the files of one extension whose names share that of a program up to the first dot: those of functions that
/// were saved together (`net.pdmodel`, `net.encode.pdmodel`).
pub(super) fn family(directory: &Location, program: &str, extension: &str) -> Result<Vec<String>> {
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let names = directory.list()?.into_iter().filter(|entry| !entry.is_dir);
    let of_family = names.map(|entry| entry.name).filter(|name| {
        name.rsplit_once('.').is_some_and(|(_, end)| end == extension)
            && first(name) == first(program)
    });
    Ok(of_family.collect())
}

/// Returns the names of the pickles of a program written by `static.save`.
pub(super) fn pickles_of(program: &str) -> [String; 2] {
    let stem = [".pdmodel", ".json"].iter().find_map(|end| program.strip_suffix(end));
    let stem = stem.unwrap_or(program);
    ["pdparams", "pdopt"].map(|extension| format!("{stem}.{extension}"))
}

/// Returns the possible names of the program of combined parameters.
pub(super) fn programs_of(params: &str) -> Vec<String> {
    match params.strip_suffix(".pdiparams") {
        Some(stem) => vec![format!("{stem}.pdmodel"), format!("{stem}.json")],
        None if USUAL_PARAMS.contains(&params) => USUAL_PROGRAMS.map(str::to_owned).to_vec(),
        None => Vec::new(),
    }
}

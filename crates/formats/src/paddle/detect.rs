//! What PaddlePaddle's files look like, and which of them belong together.

use std::path::Path;

use lodstone_store::{Entry, SourceFile, list_dir};

use super::pir;
use crate::mxnet_params::is_params;
use crate::paddle_pickle::is_pickle;
use crate::paddle_program::{is_binary, is_text};
use crate::paddle_stream::is_stream;
use crate::{Error, Probe, Result};

/// What a file is, by its first bytes.
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

/// Whether a file may begin with the size of a record, or be a vocabulary.
fn is_counted(head: &[u8], len: u64) -> bool {
    let Some((size, record)) = head.split_first_chunk::<8>() else { return false };
    let (size, left) = (u64::from_le_bytes(*size), len.saturating_sub(8));
    let is_record = is_stream(record) || is_vocabulary(record, left) || record.starts_with(&[0; 8]);
    is_vocabulary(head, len) || (size <= left && is_record)
}

/// Whether a file may begin with a number of tokens and the size of the first.
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
    let extension = probe.path.extension().and_then(|extension| extension.to_str());
    content(probe.head, probe.len).is_some()
        || matches!(extension, Some("pdmodel" | "pdiparams" | "pdparams" | "pdopt" | "pdtensor"))
}

/// Whether one of the first files of a directory, or of the directories in it, is a tensor stream.
fn has_variable(directory: &Path, entries: &[Entry]) -> bool {
    /// Files that are looked at; a directory of variables has little else.
    const TRIED: usize = 64;
    let is_variable = |path: &Path| {
        let Ok(file) = SourceFile::open(path, false) else { return false };
        let Ok(head) = head(&file) else { return false };
        content(&head, file.len()) == Some(Content::Stream) && !is_params(&head, file.len())
    };
    entries.iter().take(TRIED).any(|entry| {
        let path = directory.join(&entry.name);
        if !entry.is_dir {
            return is_variable(&path);
        }
        // Variables with slashes in their names are files in directories.
        let inner = list_dir(&path).unwrap_or_default();
        inner.iter().take(TRIED).any(|inner| !inner.is_dir && is_variable(&path.join(&inner.name)))
    })
}

/// The first bytes of a file.
fn head(file: &SourceFile) -> lodstone_store::Result<Vec<u8>> {
    let mut head = vec![0; usize::try_from(file.len().min(4096)).unwrap_or(0)];
    file.read_at(0, &mut head)?;
    Ok(head)
}

/// The program of a directory: one of the names that PaddlePaddle uses, or the only `.pdmodel`.
pub(super) fn program_in(directory: &Path, entries: &[Entry]) -> Result<Option<String>> {
    let names = || entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str());
    let usual = ["inference.pdmodel", "model.pdmodel", "__model__", "model", "main_program"];
    if let Some(name) = usual.into_iter().find(|usual| names().any(|name| name == *usual)) {
        return Ok(Some(name.to_owned()));
    }
    let programs: Vec<&str> = names().filter(|name| name.ends_with(".pdmodel")).collect();
    match programs.as_slice() {
        [] => Ok(None),
        [program] => Ok(Some((*program).to_owned())),
        several => {
            let why = format!("it holds several programs; name one of {}", several.join(", "));
            Err(Error::NoModel { path: directory.to_path_buf(), why })
        }
    }
}

/// The PIR program of a directory: `inference.json` or the only `.json` that has parameters; where
/// there is none, the only one that has pickles.
pub(super) fn pir_in(directory: &Path, entries: &[Entry]) -> Option<String> {
    let names = || entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str());
    let with = |name: &&str, end: &str| {
        let stem = name.strip_suffix(".json");
        stem.is_some_and(|stem| names().any(|name| name.strip_suffix(end) == Some(stem)))
    };
    let mut candidates: Vec<&str> = names().filter(|name| with(name, ".pdiparams")).collect();
    if candidates.is_empty() {
        // Other things that are called like a pickle may be JSON too.
        let is_pir = |name: &&str| {
            let head = SourceFile::open(&directory.join(name), false).and_then(|file| head(&file));
            head.is_ok_and(|head| pir::is_pir(&head))
        };
        candidates = names().filter(|name| with(name, ".pdparams") && is_pir(name)).collect();
    }
    match candidates.as_slice() {
        [only] => Some((*only).to_owned()),
        several => several.iter().find(|name| **name == "inference.json").map(|n| (*n).to_owned()),
    }
}

/// The combined parameters of a directory without a program, if there are such once.
pub(super) fn only_params_in(entries: &[Entry]) -> Option<String> {
    let mut params = entries.iter().filter(|entry| entry.name.ends_with(".pdiparams"));
    let only = params.next().filter(|_| params.next().is_none())?;
    Some(only.name.clone())
}

/// Names that the combined parameters of a program may have, the likeliest first.
pub(super) fn params_of(program: &str) -> Vec<String> {
    let stem = program.rsplit_once('.').map_or(program, |(stem, _)| stem);
    let mut names = vec![format!("{stem}.pdiparams")];
    names.extend(["__params__", "params"].map(str::to_owned));
    names
}

/// Names of the pickles of a program that `static.save` wrote.
pub(super) fn pickles_of(program: &str) -> [String; 2] {
    let stem = [".pdmodel", ".json"].iter().find_map(|end| program.strip_suffix(end));
    let stem = stem.unwrap_or(program);
    ["pdparams", "pdopt"].map(|extension| format!("{stem}.{extension}"))
}

/// Names that the program of combined parameters may have, the likeliest first.
pub(super) fn programs_of(params: &str) -> Vec<String> {
    match params.strip_suffix(".pdiparams") {
        Some(stem) => vec![format!("{stem}.pdmodel"), format!("{stem}.json")],
        None if params == "__params__" || params == "params" => {
            ["__model__", "model", "main_program"].map(str::to_owned).to_vec()
        }
        None => Vec::new(),
    }
}

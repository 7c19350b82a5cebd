//! The programs of an archive of TorchScript: its method `forward`, and the others that can be called.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Limits, Parameter, Programs};

use super::{arranged, early};
use crate::encoding::pickle;
use crate::error::{Error, Result};
use crate::torch::archive::{Archive, Kind};
use crate::torch::code::{Source, parse};
use crate::torch::evaluate::{Budget, Code, deep, evaluate, methods};
use crate::torch::object::Objects;

/// The folder of the code.
const FOLDER: &str = "code/";

/// The maximum size of all code, in bytes.
const MAX_CODE: u64 = 512 << 20;

/// The method that is the main program.
const FORWARD: &str = "forward";

/// The maximum number of methods that are translated.
const MAX_METHODS: usize = 64;

/// The methods of a module.
#[derive(Debug, Default)]
pub(crate) struct Methods {
    pub(crate) programs: Programs,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
}

/// Reads the methods. `Err` in the result is why they could not be translated.
///
/// # Errors
/// Fails if the archive is damaged.
pub(crate) fn program(
    archive: &Archive,
    parameters: &[Parameter],
    limits: &Limits,
) -> Result<Result<Methods, String>> {
    if archive.kind == Kind::EarlyScript {
        let arranged = early::program(archive, limits)?;
        let files = [(arranged::FILE.to_owned(), arranged.code)];
        let parts = || Ok((arranged.data, Some(arranged.constants)));
        return from_parts(archive, &files, parameters, parts);
    }
    let files = files(archive)?;
    translated(archive, &files, parameters, limits)
}

/// Translates files of code, each with its name in the archive.
pub(super) fn translated(
    archive: &Archive,
    files: &[(String, Vec<u8>)],
    parameters: &[Parameter],
    limits: &Limits,
) -> Result<Result<Methods, String>> {
    let parts = || {
        let data = objects(archive, "data.pkl", limits)?;
        let constants = archive.member("constants.pkl");
        let constants = constants.map(|_| objects(archive, "constants.pkl", limits)).transpose()?;
        Ok((data, constants))
    };
    from_parts(archive, files, parameters, parts)
}

/// Translates files of code with the objects that it refers to.
fn from_parts(
    archive: &Archive,
    files: &[(String, Vec<u8>)],
    parameters: &[Parameter],
    parts: impl FnOnce() -> Result<(Objects, Option<Objects>)> + Send,
) -> Result<Result<Methods, String>> {
    let names: HashSet<&str> = parameters.iter().map(|it| it.name.as_str()).collect();
    let translate = || -> Result<Result<Methods, String>> {
        let sources = match sources(files) {
            Ok(sources) => sources,
            Err(what) => return Ok(Err(what)),
        };
        let (data, constants) = parts()?;
        let code = Code {
            sources,
            data: &data,
            constants: constants.as_ref(),
            // The first archives do not record their version.
            version: archive.version()?.unwrap_or(1),
            budget: Budget::of(files.iter().map(|(_, code)| code.len()).sum()),
            has: &|name| names.contains(name),
        };
        Ok(all(&code))
    };
    match deep(translate) {
        Ok(result) => result,
        Err(error) => Ok(Err(format!("no thread could be started: {error}"))),
    }
}

/// Translates `forward`, and each method that it does not call. Methods with names of Python, such as `__getstate__`, are
/// none.
fn all(code: &Code<'_>) -> Result<Methods, String> {
    let methods = methods(code).map_err(|failure| failure.to_string())?;
    let is_other =
        |name: &str| name != FORWARD && !name.starts_with("__") && name != Programs::MAIN;
    let mut others: Vec<_> = methods.iter().filter(|(_, name)| is_other(name)).collect();
    let mut found = Methods::default();
    match evaluate(code, FORWARD) {
        Ok(forward) => {
            others.retain(|(full, _)| !forward.called.contains(full.as_str()));
            found.programs.insert(Programs::MAIN, forward.program);
            found.notes = forward.notes;
        }
        // A module need not have it.
        Err(failure) if others.is_empty() || methods.iter().any(|(_, name)| name == FORWARD) => {
            return Err(failure.to_string());
        }
        Err(_) => {}
    }
    if others.len() > MAX_METHODS {
        let count = others.len() - MAX_METHODS;
        found
            .notes
            .push(format!("{count} methods are not read: there are more than {MAX_METHODS}"));
    }
    for (_, name) in others.into_iter().take(MAX_METHODS) {
        match evaluate(code, name) {
            Ok(method) => {
                found.programs.insert(name, method.program);
                let notes = method.notes.into_iter().map(|note| format!("`{name}`: {note}"));
                found.notes.extend(notes);
            }
            Err(failure) => {
                found.notes.push(format!("the method `{name}` is not read: {failure}"));
            }
        }
    }
    Ok(found)
}

pub(super) fn objects(archive: &Archive, name: &str, limits: &Limits) -> Result<Objects> {
    let pickle = archive.file(name)?;
    let tree = pickle::read_bare(&pickle, 0, limits);
    let tree = tree.map_err(|error| error.inside(format!("member `{}{name}`", archive.root)))?;
    Ok(Objects::new(tree))
}

/// Returns all files of code, with their names.
pub(super) fn files(archive: &Archive) -> Result<Vec<(String, Vec<u8>)>> {
    let (mut files, mut size) = (Vec::new(), 0_u64);
    for (name, member) in archive.named() {
        if !name.starts_with(FOLDER) || !name.ends_with(".py") {
            continue;
        }
        let bytes = archive.bytes(member)?;
        size = size.saturating_add(bytes.len());
        if size > MAX_CODE {
            let limit = format!("at most {} MiB of code", MAX_CODE >> 20);
            return Err(archive.blob.over_limit(member.header, limit).into());
        }
        files.push((name.to_owned(), bytes.read().map_err(Error::from)?.to_vec()));
    }
    Ok(files)
}

/// Parses files of code, by the name of their module.
fn sources(files: &[(String, Vec<u8>)]) -> Result<HashMap<String, Source>, String> {
    let mut sources = HashMap::new();
    for (name, bytes) in files {
        let path = name.strip_prefix(FOLDER).and_then(|path| path.strip_suffix(".py"));
        let parsed = match std::str::from_utf8(bytes) {
            Ok(text) => parse(text).map_err(|error| error.to_string()),
            Err(_) => Err("the code is not UTF-8".to_owned()),
        };
        let source = parsed.map_err(|what| format!("`{name}`, {what}"))?;
        sources.insert(path.unwrap_or(name).replace('/', "."), source);
    }
    Ok(sources)
}

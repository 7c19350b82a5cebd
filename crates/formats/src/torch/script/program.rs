//! The program of an archive of TorchScript: its method `forward`.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Limits, Parameter};

use crate::encoding::pickle;
use crate::torch::archive::Archive;
use crate::torch::code::{Source, parse};
use crate::torch::evaluate::{Code, Evaluated, deep, evaluate};
use crate::torch::object::Objects;
use crate::{Error, Result};

/// The folder of the code.
const FOLDER: &str = "code/";

/// The maximum size of all code, in bytes.
const MAX_CODE: u64 = 512 << 20;

/// Reads the program. `Err` in the result is why it could not be translated.
///
/// # Errors
/// Fails if the archive is damaged.
pub(crate) fn program(
    archive: &Archive,
    parameters: &[Parameter],
    limits: &Limits,
) -> Result<Result<Evaluated, String>> {
    let files = files(archive)?;
    translated(archive, &files, parameters, limits)
}

/// Translates files of code, each with its name in the archive.
pub(super) fn translated(
    archive: &Archive,
    files: &[(String, Vec<u8>)],
    parameters: &[Parameter],
    limits: &Limits,
) -> Result<Result<Evaluated, String>> {
    let names: HashSet<&str> = parameters.iter().map(|it| it.name.as_str()).collect();
    let translate = || -> Result<Result<Evaluated, String>> {
        let sources = match sources(files) {
            Ok(sources) => sources,
            Err(what) => return Ok(Err(what)),
        };
        let data = objects(archive, "data.pkl", limits)?;
        let constants = match archive.member("constants.pkl") {
            Some(_) => Some(objects(archive, "constants.pkl", limits)?),
            None => None,
        };
        let code = Code {
            sources,
            data: &data,
            constants: constants.as_ref(),
            version: archive.version()?.unwrap_or(1),
            has: &|name| names.contains(name),
        };
        Ok(evaluate(&code, "forward").map_err(|failure| failure.to_string()))
    };
    match deep(translate) {
        Ok(result) => result,
        Err(error) => Ok(Err(format!("no thread could be started: {error}"))),
    }
}

fn objects(archive: &Archive, name: &str, limits: &Limits) -> Result<Objects> {
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

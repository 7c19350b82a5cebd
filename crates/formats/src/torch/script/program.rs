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
    let names: HashSet<&str> = parameters.iter().map(|it| it.name.as_str()).collect();
    let read = || -> Result<Result<Evaluated, String>> {
        let sources = match sources(archive)? {
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
    match deep(read) {
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

/// Parses all files of code, by the name of their module.
fn sources(archive: &Archive) -> Result<Result<HashMap<String, Source>, String>> {
    let mut sources = HashMap::new();
    let mut size = 0_u64;
    for (name, member) in archive.named() {
        let path = name.strip_prefix(FOLDER).and_then(|path| path.strip_suffix(".py"));
        let Some(path) = path else { continue };
        let bytes = archive.bytes(member)?;
        size = size.saturating_add(bytes.len());
        if size > MAX_CODE {
            let limit = format!("at most {} MiB of code", MAX_CODE >> 20);
            return Err(archive.blob.over_limit(member.header, limit).into());
        }
        let bytes = bytes.read().map_err(Error::from)?;
        let parsed = match std::str::from_utf8(&bytes) {
            Ok(text) => parse(text).map_err(|error| error.to_string()),
            Err(_) => Err("the code is not UTF-8".to_owned()),
        };
        match parsed {
            Ok(source) => sources.insert(path.replace('/', "."), source),
            Err(what) => return Ok(Err(format!("`{name}`, {what}"))),
        };
    }
    Ok(Ok(sources))
}

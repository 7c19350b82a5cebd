//! Converts the models of a list.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use lodstone::formats::{Error as FormatError, FORMATS, Format};
use lodstone::store::{Atomicity, Error as StoreError};
use lodstone::{Error, Location, Progress};
use serde::Serialize;

use super::args::Convert;
use super::options;
use crate::Failure;
use crate::console::{self, count, plain, size};
use crate::progress;
use crate::stores::{at, scheme_of, shown};

/// A line of a list.
struct Item {
    input: PathBuf,
    output: PathBuf,
}

/// What became of a model.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Converted,
    /// The output exists, from an earlier conversion.
    Present,
    Failed,
}

/// The conversion of a model as JSON.
#[derive(Serialize)]
struct Outcome<'a> {
    /// Version of this structure.
    schema: u32,
    input: String,
    output: String,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    nbytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// Converts a share of the models; returns whether all of them are converted.
pub(super) fn run(arguments: &Convert) -> Result<bool, Failure> {
    let items = items(arguments)?;
    let (index, step) = arguments.shard.unwrap_or((0, 1));
    let share: Vec<Item> = items.into_iter().skip(index).step_by(step).collect();
    let progress = Progress::default();
    progress::cancel_on_interrupt(&progress)?;
    let [mut converted, mut present, mut failed] = [0_usize; 3];
    for Item { input, output } in &share {
        let (status, nbytes, error) = match convert(arguments, input, output, &progress) {
            Ok(Some(nbytes)) => (Status::Converted, Some(nbytes), None),
            Ok(None) => (Status::Present, None, None),
            Err(failure) if progress.advance(0).is_err() => return Err(failure),
            Err(failure) => (Status::Failed, None, Some(failure)),
        };
        match status {
            Status::Converted => converted += 1,
            Status::Present => present += 1,
            Status::Failed => failed += 1,
        }
        let text = error.as_ref().map(ToString::to_string);
        if arguments.json {
            let [input, output] = [shown(input), shown(output)];
            let error = text.as_deref();
            console::json(&Outcome { schema: 1, input, output, status, nbytes, error })?;
        } else if let Some(error) = &error {
            console::error(error.as_ref());
        } else {
            let done = nbytes.map_or("exists".to_owned(), size);
            let [input, output] = [plain(&shown(input)), plain(&shown(output))];
            console::summary(&format!("{input} -> {output}: {done}\n"))?;
        }
    }
    let all = count(share.len(), "model");
    console::note(&format!("{all}: {converted} converted, {present} present, {failed} failed"));
    Ok(failed == 0)
}

/// Converts a model, and returns its size in bytes; `None` if the output exists.
fn convert(
    arguments: &Convert,
    input: &Path,
    output: &Path,
    progress: &Progress,
) -> Result<Option<u64>, Failure> {
    let to = at(output)?;
    if to.is_there()? {
        return present(&to).map(|()| None);
    }
    if let Some(parent) = to.parent() {
        parent.create_dir()?;
    }
    let mut options = options(arguments, progress)?;
    options.write.no_clobber = true;
    let from = at(input)?;
    let inside = |error: Error| format!("{}: {error}", plain(&from.display().to_string()));
    let model = lodstone::open_with(&from, &arguments.open.options()?).map_err(inside)?;
    console::opened(from.path(), &model);
    match lodstone::convert(model, &to, &options) {
        Ok(conversion) => {
            console::report(&conversion.report);
            Ok(Some(conversion.nbytes))
        }
        // Another process was faster.
        Err(error) if is_present(&error) => present(&to).map(|()| None),
        Err(error) => Err(inside(error).into()),
    }
}

/// Fails if an output is not whole: some stores publish the files of a model one by one.
fn present(output: &Location) -> Result<(), Failure> {
    if output.store().atomicity() == Atomicity::AtomicObject
        && let Err(error) = lodstone::open(output)
    {
        let what = "exists, but is incomplete: remove it to convert the model again";
        return Err(format!("{} {what} ({error})", output.display()).into());
    }
    Ok(())
}

fn is_present(error: &Error) -> bool {
    matches!(error, Error::Format(FormatError::Store(StoreError::Exists { .. })))
}

/// Reads the list.
fn items(arguments: &Convert) -> Result<Vec<Item>, Failure> {
    let path = arguments.list.as_deref().unwrap_or(Path::new(""));
    let bytes = lodstone::Blob::open(at(path)?, false)?.read()?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|error| format!("{}: expected UTF-8: {error}", path.display()))?;
    let format = arguments.to.as_deref().and_then(|name| FORMATS.iter().find(|it| it.name == name));
    let mut outputs: HashMap<PathBuf, usize> = HashMap::new();
    let mut items = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_end_matches('\r');
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: String| format!("{}: line {number}: {what}", path.display());
        let (input, output) = match (line.split_once('\t'), &arguments.into) {
            (Some((input, output)), _) => (PathBuf::from(input), PathBuf::from(output)),
            (None, Some(into)) => (PathBuf::from(line), below(into, line, format.copied())),
            (None, None) => {
                let what = "expected a tab and an output: pass --into for a directory of outputs";
                return Err(wrong(what.to_owned()).into());
            }
        };
        if let Some(other) = outputs.insert(output.clone(), number) {
            let what = format!("writes {}, as line {other} does", output.display());
            return Err(wrong(what).into());
        }
        items.push(Item { input, output });
    }
    for Item { output, .. } in &items {
        let mut above = output.ancestors().skip(1);
        if let Some((outer, number)) = above.find_map(|path| outputs.get_key_value(path)) {
            let (path, outer) = (path.display(), outer.display());
            let what = format!("writes {outer}, which is a directory of {}", output.display());
            return Err(format!("{path}: line {number}: {what}").into());
        }
    }
    Ok(items)
}

/// Returns the output of a model below a directory: at the path of the model, with the extension of the format.
fn below(into: &Path, line: &str, format: Option<&Format>) -> PathBuf {
    // Of an address, without credentials and queries.
    let path = match scheme_of(Path::new(line)) {
        Some((_, rest)) => {
            let rest = rest.split(['?', '#']).next().unwrap_or_default();
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = host.rsplit('@').next().unwrap_or_default();
            Path::new(host).join(path)
        }
        None => PathBuf::from(line),
    };
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    let mut output: PathBuf = into.to_path_buf();
    output.extend(parts);
    match format.map_or("", |format| format.extension) {
        "" => output,
        extension if extension.contains('.') => {
            let stem = output.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            output.with_file_name(format!("{stem}-{extension}"))
        }
        extension => output.with_extension(extension),
    }
}

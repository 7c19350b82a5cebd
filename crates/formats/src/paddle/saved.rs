//! Checkpoints that operators of a program have saved: a directory with the files, and in it the program that loads them.
//!
//! | file | contents |
//! |---|---|
//! | `loader/__model__` | the loader: operators that load, after those that initialize other variables |
//! | others | the files that its operators load, by names relative to the directory |
//!
//! Source of truth: the operators of the loader. There are no checksums.

use std::collections::BTreeMap;

use lodstone_model::{AttributeValue, Model, Op, Parameter, Tensor};
use lodstone_schema::paddle::{is_load, is_merged, record_position};
use lodstone_store::{Blob, Dir, Location};

use super::{program, stream};
use crate::error::{Error, Result};
use crate::options::OpenOptions;

/// The file of the loader in its directory.
const PROGRAM: &str = "__model__";

/// Opens the tensors that the loader in a directory loads; `None` if there is no loader, or the directory also has a program
/// of its own, which is then the model.
///
/// # Errors
/// If the loader or a file is damaged, an operator names no file, or a file is missing or has other tensors.
pub fn open(dir: &Location, loader: &str, options: &OpenOptions) -> Result<Option<Model>> {
    let path = dir.join(loader).join(PROGRAM);
    if !path.is_there()? || dir.join(PROGRAM).is_there()? {
        return Ok(None);
    }
    let blob = options.file(&path)?;
    let loader = program::open(&blob, &path.display().to_string(), &options.limits)?;
    let root = Dir::open(dir, options.links, options.mmap)?;
    let mut model = Model::default();
    model.files.push(blob);
    let mut opened: BTreeMap<String, Blob> = BTreeMap::new();
    for op in loader.ops().filter(|op| is_load(op)) {
        let path = dir.to_path_buf();
        let Some(AttributeValue::String(name)) = op.attribute("file_path") else {
            let what = format!("`{}` in its loader names no file", op.kind);
            return Err(Error::Mismatch { path, what });
        };
        let name = name.to_string();
        let blob = match opened.get(&name) {
            Some(blob) => blob.clone(),
            None => {
                let why = format!("its loader reads `{name}`, which does not exist");
                let missing = || Error::NoModel { path: path.clone(), why };
                let blob = root.open_file(&name)?.ok_or_else(missing)?;
                model.files.push(blob.clone());
                opened.insert(name.clone(), blob.clone());
                blob
            }
        };
        let (names, tensors) = (op.output("Out"), loaded(op, &blob, dir, options)?);
        if tensors.len() != names.len() {
            let (found, wanted) = (tensors.len(), names.len());
            let what = format!("`{name}` has {found} tensors, but the loader loads {wanted}");
            return Err(Error::Mismatch { path, what });
        }
        let named = names.iter().cloned().zip(tensors);
        model.parameters.extend(named.map(|(name, tensor)| Parameter { name, tensor }));
    }
    Ok(Some(model))
}

/// Returns the tensors that an operator loads.
fn loaded(op: &Op, blob: &Blob, dir: &Location, options: &OpenOptions) -> Result<Vec<Tensor>> {
    if !is_merged(op) {
        let expect = vec![stream::Expect::Anything; op.output("Out").len()];
        return Ok(stream::read(blob, &expect, &options.limits)?.1);
    }
    let position = record_position(op);
    let wrong = || Error::Mismatch {
        path: dir.to_path_buf(),
        what: format!("expected the index of a record in `{}`, found {position}", op.kind),
    };
    let position = usize::try_from(position).map_err(|_| wrong())?;
    Ok(vec![stream::read_record(blob, position, &options.limits)?])
}

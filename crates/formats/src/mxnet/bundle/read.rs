//! Opens models by path.

use std::collections::HashMap;

use lodstone_model::{Model, Program, Report, Tensor, some};
use lodstone_schema::mxnet::{likely_parameters, variable_of};
use lodstone_store::Location;

use super::block::{self, is_block};
use super::detect::{PARAMS, SYMBOL, by_prefix, candidates, file_in};
use super::layout::Bundle;
use super::{BUNDLE, SYMBOL as ALONE};
use crate::error::{Error, Result};
use crate::mxnet::params::{self, Layout};
use crate::mxnet::symbol::{self, is_symbol};
use crate::options::OpenOptions;

/// Opens a program and its parameters by a file, a directory or a prefix.
///
/// # Errors
/// Fails if there is no model, a file is damaged, or the parameters are those of another program.
pub fn open(path: &Location, options: &OpenOptions) -> Result<Model> {
    if path.is_dir()? {
        let file = path.join(file_in(path, &path.list()?)?);
        let mut model = open_file(&file, options)?;
        if let Some(mut bundle) = Bundle::of(&model)? {
            bundle.directory = true;
            bundle.remember(&mut model)?;
        }
        return Ok(model);
    }
    if path.exists()? {
        return open_file(path, options);
    }
    match by_prefix(path)? {
        Some(file) => {
            let mut model = open_file(&file, options)?;
            if model.format != BUNDLE.name && model.format != ALONE.name {
                let prefix = path.file_name().unwrap_or_default().to_string_lossy();
                warn_epochs(&file, &beside(&file, &prefix)?, &mut model.report);
            }
            Ok(model)
        }
        None => {
            let why = format!("neither this file exists, nor one with `{SYMBOL}` added");
            Err(Error::NoModel { path: path.to_path_buf(), why })
        }
    }
}

fn open_file(path: &Location, options: &OpenOptions) -> Result<Model> {
    let blob = options.file(path)?;
    let head = blob.head(4096)?;
    if is_block(&head) {
        return block::open(path, blob, options);
    }
    if !is_symbol(&head) && !path.path().to_string_lossy().ends_with(SYMBOL) {
        return params::read(path, options);
    }
    let mut program = symbol::read(&blob, &options.limits)?;
    let name = path.name().unwrap_or_default();
    let bundle = Bundle { symbol: name.to_owned(), ..Bundle::default() };
    let mut model = match find_params(&path.directory(), name, options)? {
        Params::Named(params) => {
            let model = bound(&mut program, &params, options)?;
            together(program, model, bundle, &params)?
        }
        Params::Epoch(params, others) => {
            let mut model = bound(&mut program, &params, options)?;
            warn_epochs(&params, &others, &mut model.report);
            together(program, model, bundle, &params)?
        }
        // A Gluon block may have saved its own parameters under this name.
        Params::Beside(params) => match bound(&mut program, &params, options) {
            Ok(model) => together(program, model, bundle, &params)?,
            Err(error) => alone(program, &bundle, Some(error))?,
        },
        Params::None => alone(program, &bundle, None)?,
    };
    model.files.push(blob);
    Ok(model)
}

/// Combines a program with its parameters.
fn together(
    program: Program,
    mut model: Model,
    mut bundle: Bundle,
    params: &Location,
) -> Result<Model> {
    bundle.layout = Layout::of(&model)?;
    bundle.params = params.name().map(str::to_owned);
    model.format = BUNDLE.name.to_owned();
    model.set_main(program);
    bundle.remember(&mut model)?;
    Ok(model)
}

/// Returns a program without parameters; `error` is the reason why the file beside it does not hold its parameters.
fn alone(mut program: Program, bundle: &Bundle, error: Option<Error>) -> Result<Model> {
    let mut model = Model { format: ALONE.name.to_owned(), ..Model::default() };
    if let Some(error) = error {
        model.report.warn(error.to_string());
    }
    let likely = likely_parameters(&program);
    for var in program.blocks.iter_mut().take(1).flat_map(|block| &mut block.vars) {
        var.persistable = likely.contains(&var.name);
    }
    let mut missing: Vec<_> = likely.iter().map(|name| format!("`{name}`")).collect();
    missing.sort_unstable();
    if !missing.is_empty() {
        let names = some(missing);
        model.report.warn(format!("parameters of the program were not found: {names}"));
    }
    model.set_main(program);
    bundle.remember(&mut model)?;
    Ok(model)
}

/// The location of the parameters of a program.
enum Params {
    /// A file given by the user.
    Named(Location),
    /// The file of the last epoch, and the names of other parameter files of the prefix.
    Epoch(Location, Vec<String>),
    /// A file named after the program.
    Beside(Location),
    None,
}

fn find_params(directory: &Location, symbol: &str, options: &OpenOptions) -> Result<Params> {
    if let Some(path) = &options.params {
        return Ok(Params::Named(path.clone()));
    }
    let Some(prefix) = symbol.strip_suffix(SYMBOL) else { return Ok(Params::None) };
    let mut others = candidates(prefix, &directory.list()?);
    let Some(last) = others.pop() else { return Ok(Params::None) };
    let path = directory.join(&last);
    match last.strip_suffix(PARAMS) == Some(prefix) {
        true => Ok(Params::Beside(path)),
        false => Ok(Params::Epoch(path, others)),
    }
}

/// Returns the parameter files of the prefix other than that of `epoch`.
fn beside(epoch: &Location, prefix: &str) -> Result<Vec<String>> {
    let mut others = candidates(prefix, &epoch.directory().list()?);
    others.pop();
    Ok(others)
}

fn warn_epochs(opened: &Location, others: &[String], report: &mut Report) {
    if !others.is_empty() {
        let opened = opened.file_name().unwrap_or_default().to_string_lossy();
        let others = some(others.iter().map(|other| format!("`{other}`")));
        report.warn(format!(
            "other parameters have the same prefix: {others}; `{opened}` was opened"
        ));
    }
}

/// Reads the parameters of a program, marks its variables that are parameters, and reports mismatches.
pub(super) fn bound(
    program: &mut Program,
    path: &Location,
    options: &OpenOptions,
) -> Result<Model> {
    let mut model = params::read(path, options)?;
    let likely = likely_parameters(program);
    let values: HashMap<&str, (&str, &Tensor)> =
        model.parameters.iter().map(|p| (variable_of(&p.name), (&*p.name, &p.tensor))).collect();
    let (mut missing, mut others, mut count) = (Vec::new(), Vec::new(), 0);
    for var in program.blocks.iter_mut().take(1).flat_map(|block| &mut block.vars) {
        let value = values.get(var.name.as_str());
        var.persistable = value.is_some();
        var.is_parameter = value.is_some_and(|(name, _)| !name.starts_with("aux:"));
        let Some((_, tensor)) = value else {
            if likely.contains(&var.name) {
                missing.push(format!("`{}`", var.name));
            }
            continue;
        };
        count += 1;
        if let Some(declared) = var.value.tensor_type()
            && !declared.admits(&tensor.shape)
        {
            others.push(format!("`{}` is {:?}", var.name, tensor.shape));
        }
    }
    if count == 0 && !values.is_empty() && !missing.is_empty() {
        let (wanted, found) = (some(&missing), some(values.keys().map(|name| format!("`{name}`"))));
        let what = format!("it has none of {wanted}, but {found}");
        return Err(Error::Mismatch { path: path.to_path_buf(), what });
    }
    if !missing.is_empty() {
        let names = some(&missing);
        model.report.warn(format!("parameters of the program were not found: {names}"));
    }
    if !others.is_empty() {
        let names = some(&others);
        model.report.warn(format!("shapes are not those of the program: {names}"));
    }
    let known = program.blocks.iter().take(1).flat_map(|block| &block.vars);
    let known: std::collections::HashSet<&str> = known.map(|var| var.name.as_str()).collect();
    let mut extra: Vec<_> = values
        .iter()
        .filter(|(variable, _)| !known.contains(**variable))
        .map(|(_, (name, _))| format!("`{name}`"))
        .collect();
    extra.sort_unstable();
    if !extra.is_empty() {
        model.report.warn(format!("parameters that the program does not read: {}", some(&extra)));
    }
    Ok(model)
}

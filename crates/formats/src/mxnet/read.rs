//! Paths to models.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lodstone_model::{Dim, Model, Program, Tensor, some};
use lodstone_schema::mxnet::{likely_parameters, variable_of};
use lodstone_store::{exists, is_dir, list_dir};

use super::bundle::Bundle;
use super::detect::{PARAMS, SYMBOL, by_prefix, epochs, file_in};
use super::{BUNDLE, SYMBOL as ALONE};
use crate::mxnet_params::{self, Layout};
use crate::mxnet_symbol::{self, is_symbol};
use crate::{Error, OpenOptions, Result};

/// Opens a program and its parameters by a file, a directory or a prefix.
///
/// # Errors
/// If there is no model, a file is damaged, or the parameters are those of another program.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Model> {
    if is_dir(path) {
        let file = path.join(file_in(path, &list_dir(path)?)?);
        let mut model = open_file(&file, options)?;
        if let Some(mut bundle) = Bundle::of(&model) {
            bundle.directory = true;
            bundle.remember(&mut model);
        }
        return Ok(model);
    }
    if exists(path) {
        return open_file(path, options);
    }
    match by_prefix(path) {
        Some(file) => open_file(&file, options),
        None => {
            let why = format!("there is no such file, nor one with `{SYMBOL}` added");
            Err(Error::NoModel { path: path.to_path_buf(), why })
        }
    }
}

fn open_file(path: &Path, options: &OpenOptions) -> Result<Model> {
    let blob = options.file(path)?;
    let mut head = vec![0; usize::try_from(blob.len().min(4096)).unwrap_or(0)];
    blob.read_at(0, &mut head)?;
    if !is_symbol(&head) && !path.to_string_lossy().ends_with(SYMBOL) {
        return mxnet_params::read(path, options);
    }
    let mut program = mxnet_symbol::read(&blob, &options.limits)?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let mut bundle = Bundle { symbol: name.to_owned(), ..Bundle::default() };
    let Some((params, others)) = find_params(directory, name, options)? else {
        let (format, files) = (ALONE.name.to_owned(), vec![blob]);
        let mut model = Model { format, files, ..Model::default() };
        let mut missing: Vec<_> =
            likely_parameters(&program).iter().map(|name| format!("`{name}`")).collect();
        missing.sort_unstable();
        if !missing.is_empty() {
            let names = some(missing);
            model.report.warn(format!("parameters of the program were not found: {names}"));
        }
        model.program = Some(program);
        bundle.remember(&mut model);
        return Ok(model);
    };
    let mut model = mxnet_params::read(&params, options)?;
    model.files.push(blob);
    if others > 0 {
        let opened = params.file_name().unwrap_or_default().to_string_lossy();
        model.report.warn(format!("other epochs are left alone: {others}; `{opened}` was opened"));
    }
    bundle.layout = Layout::of(&model);
    bundle.params = params.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    bind(&mut program, &mut model, &params)?;
    model.format = BUNDLE.name.to_owned();
    model.program = Some(program);
    bundle.remember(&mut model);
    Ok(model)
}

/// The parameters of a program, and how many other epochs there are.
fn find_params(
    directory: &Path,
    symbol: &str,
    options: &OpenOptions,
) -> Result<Option<(PathBuf, usize)>> {
    if let Some(path) = &options.params {
        return Ok(Some((path.clone(), 0)));
    }
    let Some(prefix) = symbol.strip_suffix(SYMBOL) else { return Ok(None) };
    let mut epochs = epochs(prefix, &list_dir(directory)?);
    if let Some(last) = epochs.pop() {
        return Ok(Some((directory.join(last), epochs.len())));
    }
    let path = directory.join(format!("{prefix}{PARAMS}"));
    Ok(exists(&path).then_some((path, 0)))
}

/// Marks the variables that are parameters, and says what does not fit.
fn bind(program: &mut Program, model: &mut Model, path: &Path) -> Result<()> {
    let values: HashMap<&str, (&str, &Tensor)> =
        model.parameters.iter().map(|p| (variable_of(&p.name), (&*p.name, &p.tensor))).collect();
    let likely = likely_parameters(program);
    let (mut missing, mut others, mut bound) = (Vec::new(), Vec::new(), 0);
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
        bound += 1;
        if let Some(declared) = var.tensors.first()
            && !fits(&declared.shape, &tensor.shape)
        {
            others.push(format!("`{}` is {:?}", var.name, tensor.shape));
        }
    }
    if bound == 0 && !values.is_empty() && !missing.is_empty() {
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
    Ok(())
}

fn fits(declared: &[Dim], shape: &[u64]) -> bool {
    let same = |(dim, extent): (&Dim, &u64)| !matches!(dim, Dim::Known(known) if known != extent);
    declared.len() == shape.len() && declared.iter().zip(shape).all(same)
}

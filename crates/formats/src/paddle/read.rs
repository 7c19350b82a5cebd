//! Paths to models.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lodstone_model::{Dim, Kind, Model, Parameter, Report, Tensor, Var, some};
use lodstone_schema::paddle::saved;
use lodstone_store::{Blob, Error as StoreError, check_relative, exists, is_dir, list_dir};

use super::bundle::Bundle;
use super::detect::{self, Content, content};
use super::{SAVED, pickles, pir, pir_model};
use crate::paddle_program;
use crate::paddle_stream::{self, Expect, Layout, is_stream};
use crate::{Error, ModelDir, OpenOptions, Result};

/// Opens a file, a directory or a prefix.
///
/// # Errors
/// If there is no model, a file is damaged, or the parameters do not fit the program.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Model> {
    if is_dir(path) {
        return open_directory(path, options);
    }
    if exists(path) {
        return open_file(path, options);
    }
    if let Some(file) = by_prefix(path) {
        return open_file(&file, options);
    }
    let why = "there is no such file or directory, nor one with `.pdmodel`, `.json`, \
               `.pdiparams` or `.pdparams` added";
    Err(Error::NoModel { path: path.to_path_buf(), why: why.to_owned() })
}

/// The first of the files whose names begin with a prefix.
pub(super) fn by_prefix(path: &Path) -> Option<PathBuf> {
    let mut files = ["pdmodel", "json", "pdiparams", "pdparams"]
        .map(|end| with_extension(path, end))
        .into_iter();
    files.find(|file| exists(file))
}

/// `path` with an extension added, not replaced: prefixes may contain dots.
fn with_extension(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

fn open_directory(path: &Path, options: &OpenOptions) -> Result<Model> {
    let entries = list_dir(path)?;
    let program = detect::program_in(path, &entries)?;
    let pir = detect::pir_in(path, &entries);
    let mut model = match (&program, &pir) {
        (Some(program), _) => open_program(path, program, options)?,
        (None, Some(pir)) => pir_model::open(path, pir, options)?,
        (None, None) => match detect::only_params_in(&entries) {
            Some(params) => open_file(&path.join(params), options)?,
            None => open_variables(path, options)?,
        },
    };
    if let (Some(program), Some(pir)) = (&program, &pir) {
        let both = format!("there is a PIR program `{pir}` too; `{program}` was opened");
        model.report.warn(both);
    }
    let mut bundle = Bundle::of(&model).unwrap_or_default();
    bundle.directory = true;
    bundle.remember(&mut model);
    Ok(model)
}

fn open_file(path: &Path, options: &OpenOptions) -> Result<Model> {
    let blob = options.file(path)?;
    let head = head(&blob)?;
    let (directory, name) = split(path);
    match content(&head, blob.len()) {
        Some(Content::Program | Content::ProgramText) => open_program(directory, name, options),
        Some(Content::Pir) => pir_model::open(directory, name, options),
        Some(Content::Pickle) => pickles::open(path, &blob, options),
        // Python also writes pickles that do not begin with a protocol.
        None if [".pdparams", ".pdopt", ".pdtensor"].iter().any(|end| name.ends_with(end))
            && !blob.is_empty() =>
        {
            pickles::open(path, &blob, options)
        }
        None if name.ends_with(".pdmodel") => open_program(directory, name, options),
        Some(Content::Stream) | None => open_params(path, &blob, options),
    }
}

/// The record number `index` of a file of records, found by hopping over those before it; `None` if
/// the file is something else.
///
/// # Errors
/// If there is no such record, or it is damaged.
pub fn open_record(path: &Path, index: usize, options: &OpenOptions) -> Result<Option<Tensor>> {
    if is_dir(path) || !exists(path) {
        return Ok(None);
    }
    let blob = options.file(path)?;
    if content(&head(&blob)?, blob.len()) != Some(Content::Stream) {
        return Ok(None);
    }
    paddle_stream::read_record(&blob, index, &options.limits).map(Some)
}

fn head(blob: &Blob) -> Result<Vec<u8>> {
    Ok(blob.head(4096)?)
}

pub(super) fn split(path: &Path) -> (&Path, &str) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    (path.parent().unwrap_or(Path::new("")), name)
}

/// A program and the parameters that belong to it.
fn open_program(directory: &Path, name: &str, options: &OpenOptions) -> Result<Model> {
    let path = directory.join(name);
    let blob = options.file(&path)?;
    let origin = path.display().to_string();
    let program = paddle_program::open(&blob, &origin, &options.limits)?;
    let text = paddle_program::was_text(&program);
    let mut model = Model { files: vec![blob], ..Model::default() };
    let mut bundle = Bundle { program: Some(name.to_owned()), ..Bundle::default() };

    let wanted = saved(&program);
    match find_params(directory, name, &wanted, options) {
        Params::Combined(path) => {
            let file = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
            let blob = options.file(&path)?;
            let expect: Vec<Expect> = wanted.iter().map(|var| var.value.kind.into()).collect();
            let (layout, tensors) = match (blob.is_empty(), wanted.is_empty()) {
                (true, true) => Default::default(),
                _ => paddle_stream::read(&blob, &expect, &options.limits)
                    .map_err(|error| explain(error, &wanted))?,
            };
            bundle.layout = layout;
            bundle.params = file;
            model.files.push(blob);
            let tensors = fit(&path, &wanted, tensors, &mut model.report)?;
            model.parameters = tensors;
            model.format = "paddle".to_owned();
        }
        Params::Separate(dir) => {
            read_separate(&dir, &wanted, options, &mut bundle, &mut model)?;
            model.format = "paddle-vars".to_owned();
        }
        Params::Pickles(paths) => {
            pickles::add(&paths, &pickles::types_in(&program), &mut model, &mut bundle, options)?;
            check_pickled(&wanted, &mut model);
            model.format = SAVED.to_owned();
        }
        Params::None => {
            if !wanted.is_empty() {
                let names = some(wanted.iter().map(|var| format!("`{}`", var.name)));
                model.report.warn(format!("parameters of the program were not found: {names}"));
            }
            let format = if text { "paddle-program-text" } else { "paddle-program" };
            model.format = format.to_owned();
        }
    }
    model.program = Some(program);
    bundle.remember(&mut model);
    check_lods(&mut model);
    Ok(model)
}

/// A record that cannot be read is named, as the program tells what it is.
fn explain(error: Error, wanted: &[&Var]) -> Error {
    match &error {
        Error::InRecord { number, .. } => match wanted.get(*number) {
            Some(var) => error.inside(format!("`{}`", var.name)),
            None => error,
        },
        _ => error,
    }
}

/// Where the parameters of a program are.
enum Params {
    Combined(PathBuf),
    Separate(PathBuf),
    /// What `static.save` wrote.
    Pickles(Vec<PathBuf>),
    None,
}

fn find_params(directory: &Path, program: &str, wanted: &[&Var], options: &OpenOptions) -> Params {
    if let Some(path) = &options.params {
        if path.extension().is_some_and(|extension| extension == "pdparams") {
            return Params::Pickles(vec![path.clone()]);
        }
        return match is_dir(path) {
            true => Params::Separate(path.clone()),
            false => Params::Combined(path.clone()),
        };
    }
    let combined = detect::params_of(program).into_iter().map(|name| directory.join(name));
    if let Some(path) = combined.into_iter().find(|path| exists(path)) {
        return Params::Combined(path);
    }
    let dir = options.dir(directory);
    let there = |var: &&Var| dir.as_ref().is_ok_and(|dir| is_variable(dir, &var.name));
    if wanted.iter().any(there) {
        return Params::Separate(directory.to_path_buf());
    }
    let there = pickles_beside(directory, program);
    match there.is_empty() {
        true => Params::None,
        false => Params::Pickles(there),
    }
}

/// The pickles that `static.save` wrote beside a program.
pub(super) fn pickles_beside(directory: &Path, program: &str) -> Vec<PathBuf> {
    let pickles = detect::pickles_of(program).map(|name| directory.join(name));
    pickles.into_iter().filter(|path| exists(path)).collect()
}

/// Says what of a program is not in its pickles, and what is there in another shape.
fn check_pickled(wanted: &[&Var], model: &mut Model) {
    let tensors: HashMap<&str, &Tensor> =
        model.parameters.iter().map(|p| (p.name.as_str(), &p.tensor)).collect();
    let (mut missing, mut warnings) = (Vec::new(), Vec::new());
    for var in wanted {
        match tensors.get(var.name.as_str()) {
            None => missing.push(format!("`{}`", var.name)),
            Some(tensor) => {
                let why = contradiction(var, tensor);
                warnings.extend(why.map(|why| format!("`{}` is declared {why}", var.name)));
            }
        }
    }
    if !missing.is_empty() {
        warnings.push(format!("parameters of the program that are not there: {}", some(&missing)));
    }
    model.report.warnings.append(&mut warnings);
}

fn is_variable(dir: &ModelDir, name: &str) -> bool {
    match dir.open_file(name) {
        Ok(Some(blob)) => head(&blob).is_ok_and(|head| is_stream(&head)),
        Ok(None) => false,
        // A link that leads out: there is something, and reading it will say what is wrong.
        Err(_) => check_relative(name).is_ok(),
    }
}

/// Gives the records of a combined file the names of the program.
fn fit(
    path: &Path,
    wanted: &[&Var],
    tensors: Vec<Tensor>,
    report: &mut Report,
) -> Result<Vec<Parameter>> {
    if let Some(what) = difference(wanted, &tensors) {
        return Err(Error::Mismatch { path: path.to_path_buf(), what });
    }
    let pairs = wanted.iter().zip(&tensors);
    let others: Vec<_> = pairs.filter_map(|(var, tensor)| other_dtype(var, tensor)).collect();
    warn_dtypes(&others, report);
    let named = wanted.iter().zip(tensors);
    Ok(named.map(|(var, tensor)| Parameter { name: var.name.clone(), tensor }).collect())
}

/// The first difference between what a program saves and what a combined file holds.
fn difference(wanted: &[&Var], tensors: &[Tensor]) -> Option<String> {
    for (number, (var, tensor)) in wanted.iter().zip(tensors).enumerate() {
        if let Some(why) = contradiction(var, tensor) {
            return Some(format!("record {number} should be `{}`, {why}", var.name));
        }
    }
    let (found, expected) = (tensors.len(), wanted.len());
    if let Some(var) = wanted.get(found) {
        let missing = format!("it ends before `{}`, which is number {found}", var.name);
        return Some(format!("it holds {found} tensors of {expected}; {missing}"));
    }
    (found > expected).then(|| format!("it holds {found} tensors, the program declares {expected}"))
}

/// Why a tensor cannot be the value of a variable.
fn contradiction(var: &Var, tensor: &Tensor) -> Option<String> {
    let declared = var.value.tensors.first()?;
    if !matches!(tensor.kind, Kind::Dense) || declared.admits(&tensor.shape) {
        return None;
    }
    let dims: Vec<String> = declared.shape.iter().flatten().map(Dim::to_string).collect();
    Some(format!("of shape [{}], and is of shape {:?}", dims.join(", "), tensor.shape))
}

/// How a tensor's element type is not that of its variable: `save_as_fp16` and some converters leave
/// the program as it was.
fn other_dtype(var: &Var, tensor: &Tensor) -> Option<String> {
    let declared = var.value.tensors.first().filter(|_| matches!(tensor.kind, Kind::Dense))?;
    let (name, is, was) = (&var.name, tensor.dtype, declared.dtype);
    (is != was).then(|| format!("`{name}` is {is}, not {was}"))
}

fn warn_dtypes(others: &[String], report: &mut Report) {
    if !others.is_empty() {
        report.warn(format!("element types are not those of the program: {}", some(others)));
    }
}

/// Reads one file for each variable.
fn read_separate(
    directory: &Path,
    wanted: &[&Var],
    options: &OpenOptions,
    bundle: &mut Bundle,
    model: &mut Model,
) -> Result<()> {
    let dir = options.dir(directory)?;
    let (mut missing, mut others) = (Vec::new(), Vec::new());
    for var in wanted {
        let Some(blob) = dir.open_file(&var.name)? else {
            missing.push(format!("`{}`", var.name));
            continue;
        };
        let (layout, tensor) = read_variable(&blob, &var.name, var.value.kind.into(), options)?;
        bundle.set_layout_of(&var.name, layout);
        if let Some(why) = contradiction(var, &tensor) {
            model.report.warn(format!("`{}` is declared {why}", var.name));
        }
        others.extend(other_dtype(var, &tensor));
        model.parameters.push(Parameter { name: var.name.clone(), tensor });
        model.files.push(blob);
    }
    warn_dtypes(&others, &mut model.report);
    if !missing.is_empty() {
        let missing = some(&missing);
        model.report.warn(format!("parameters of the program without a file: {missing}"));
    }
    Ok(())
}

fn read_variable(
    blob: &Blob,
    name: &str,
    expect: Expect,
    options: &OpenOptions,
) -> Result<(Layout, Tensor)> {
    let (layout, tensors) = paddle_stream::read(blob, &[expect], &options.limits)
        .map_err(|error| error.inside(format!("`{name}`")))?;
    let count = tensors.len();
    match tensors.into_iter().next().filter(|_| count == 1) {
        Some(tensor) => Ok((layout, tensor)),
        None => Err(blob.malformed(0, "one record", format!("{count} records")).into()),
    }
}

/// A directory of variables without a program: every stream in it, under its relative path.
fn open_variables(path: &Path, options: &OpenOptions) -> Result<Model> {
    let dir = options.dir(path)?;
    let mut model = Model { format: "paddle-vars".to_owned(), ..Model::default() };
    let mut bundle = Bundle::default();
    let mut others = Vec::new();
    for name in dir.files(options.limits.tensors)? {
        let blob = match dir.open_file(&name) {
            Ok(Some(blob)) => blob,
            Ok(None) => continue,
            // A link that leads out, or a pipe; anything else may be wrong with a variable.
            Err(Error::Store(StoreError::Escapes { why, .. })) => {
                others.push(format!("`{name}` ({why})"));
                continue;
            }
            Err(Error::Store(StoreError::NotAFile { found, .. })) => {
                others.push(format!("`{name}` ({found})"));
                continue;
            }
            Err(error) => return Err(error),
        };
        if content(&head(&blob)?, blob.len()) != Some(Content::Stream) {
            others.push(format!("`{name}`"));
            continue;
        }
        let (layout, tensors) = paddle_stream::read(&blob, &[], &options.limits)
            .map_err(|error| error.inside(format!("`{name}`")))?;
        match <[Tensor; 1]>::try_from(tensors) {
            Ok([tensor]) => {
                bundle.set_layout_of(&name, layout);
                model.parameters.push(Parameter { name, tensor });
                model.files.push(blob);
            }
            Err(tensors) => others.push(format!("`{name}` ({} tensors)", tensors.len())),
        }
    }
    if model.parameters.is_empty() {
        let why = "no file in it is a program or a tensor stream".to_owned();
        return Err(Error::NoModel { path: path.to_path_buf(), why });
    }
    if !others.is_empty() {
        let names = some(&others);
        model.report.warn(format!("files that are not those of one variable: {names}"));
    }
    bundle.remember(&mut model);
    check_lods(&mut model);
    Ok(model)
}

/// A parameter file, with the names of the program beside it if there is one that fits.
fn open_params(path: &Path, blob: &Blob, options: &OpenOptions) -> Result<Model> {
    let (layout, tensors) = paddle_stream::read(blob, &[], &options.limits)?;
    let (directory, name) = split(path);
    let format = match (layout.sized, layout.lod_last, tensors.len()) {
        (true, ..) => "paddle-params-sized",
        (_, true, 1) => "paddle-tensor-lod-last",
        (_, _, 1) => "paddle-tensor",
        _ => "paddle-params",
    };
    let mut report = Report::default();
    let mut files = vec![blob.clone()];
    let names = match names_beside(directory, name, &tensors, options, &mut report) {
        Some((program, names)) => {
            files.push(program);
            names
        }
        None => vec![String::new(); tensors.len()],
    };
    let model = without_program(format, (names, tensors), Some(name.to_owned()), layout, report);
    Ok(Model { files, ..model })
}

/// A model of parameters alone, in one file.
pub(super) fn without_program(
    format: &str,
    (names, tensors): (Vec<String>, Vec<Tensor>),
    params: Option<String>,
    layout: Layout,
    report: Report,
) -> Model {
    let named = names.into_iter().zip(tensors);
    let parameters = named.map(|(name, tensor)| Parameter { name, tensor }).collect();
    let mut model = Model { format: format.to_owned(), parameters, report, ..Model::default() };
    Bundle { params, layout, ..Bundle::default() }.remember(&mut model);
    check_lods(&mut model);
    model
}

/// The program beside parameters and their names by it, if they fit it; a program that they do not
/// fit, or that cannot be read, is no reason not to show them.
fn names_beside(
    directory: &Path,
    params: &str,
    tensors: &[Tensor],
    options: &OpenOptions,
    report: &mut Report,
) -> Option<(Blob, Vec<String>)> {
    let programs = detect::programs_of(params);
    let name = programs.iter().find(|name| exists(&directory.join(name)))?;
    let path = directory.join(name);
    let names = || -> Result<(Blob, Vec<String>)> {
        let blob = options.file(&path)?;
        let mismatch = |what| Error::Mismatch { path: directory.join(params), what };
        if name.ends_with(".json") {
            let names = pir::parameter_names(&path, &blob, &options.limits)?;
            return match pir_model::uncounted(name, &names, tensors) {
                None => Ok((blob, names)),
                Some(what) => Err(mismatch(what)),
            };
        }
        let origin = path.display().to_string();
        let program = paddle_program::read(&blob, &origin, &options.limits)?;
        let wanted = saved(&program);
        match difference(&wanted, tensors) {
            None => Ok((blob, wanted.into_iter().map(|var| var.name.clone()).collect())),
            Some(what) => Err(mismatch(what)),
        }
    };
    let without = |error| report.warn(format!("`{name}` gives no names: {error}"));
    names().map_err(without).ok()
}

fn check_lods(model: &mut Model) {
    for Parameter { name, tensor } in &model.parameters {
        let rows = tensor.shape.first().copied().unwrap_or(0);
        if let Err(error) = tensor.lod.check(rows) {
            model.report.warn(format!("`{name}`: {error}"));
        }
    }
}

//! Opens models by path.

use std::collections::{BTreeMap, HashMap, HashSet};

use lodstone_model::{
    Dialect, Dim, Kind, Model, Parameter, Program, Report, Tensor, TensorType, Var, some,
};
use lodstone_schema::paddle::{saved, wanted as wanted_by};
use lodstone_store::{Blob, Error as StoreError, Location, check_relative};

use super::detect::{self, Content, ProgramIn, content};
use super::layout::Bundle;
use super::{PIR_NAME, SAVED, pickles};
use crate::error::{Error, Result};
use crate::options::OpenOptions;
use crate::paddle::pickle;
use crate::paddle::pir;
use crate::paddle::program;
use crate::paddle::stream::{self, Expect, Layout, begins_record, is_stream};
use crate::seal::entries::ModelDir;

/// Opens a file, a directory or a prefix.
///
/// # Errors
/// Fails if there is no model, a file is damaged, or the parameters do not match the program.
pub fn open(path: &Location, options: &OpenOptions) -> Result<Model> {
    if path.is_dir()? {
        return open_directory(path, options);
    }
    if path.exists()? {
        return open_file(path, options);
    }
    if let Some(file) = by_prefix(path)? {
        let mut model = open_file(&file, options)?;
        let [program, pir] = [".pdmodel", ".json"].map(|end| path.append(end));
        if file == program && is_pir(&pir)? {
            model.report.warn(both(split(&pir).1, split(&program).1));
        }
        return Ok(model);
    }
    let why = "neither this file or directory exists, nor one with `.pdmodel`, `.json`, \
               `.pdiparams` or `.pdparams` added";
    Err(Error::NoModel { path: path.to_path_buf(), why: why.to_owned() })
}

/// Returns the first existing file of a prefix.
pub(super) fn by_prefix(path: &Location) -> Result<Option<Location>> {
    // Appended, not replaced: prefixes may contain dots.
    let files = [".pdmodel", ".json", ".pdiparams", ".pdparams"].map(|end| path.append(end));
    for file in Location::existing(files) {
        let file = file?;
        // Other files are JSON too.
        if file.extension().is_none_or(|end| end != "json") || is_pir(&file)? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

fn is_pir(path: &Location) -> Result<bool> {
    let is_file = path.exists()? && !path.is_dir()?;
    Ok(is_file && pir::is_pir(&Blob::open(path, false)?.head(4096)?))
}

/// Returns the warning for a model that exists in both formats.
fn both(pir: &str, program: &str) -> String {
    format!("a PIR program `{pir}` exists too; `{program}` was opened")
}

fn open_directory(path: &Location, options: &OpenOptions) -> Result<Model> {
    let entries = path.list()?;
    let program = detect::program_in(path, &entries)?;
    let pir = detect::pir_in(path, &entries);
    let mut model = match (&program, &pir) {
        (Some(program), _) => open_program(path, &program.name, options)?,
        (None, Some(pir)) => open_program(path, pir, options)?,
        (None, None) => match detect::only_params_in(&entries) {
            Some(params) => open_file(&path.join(params), options)?,
            None => open_variables(path, options)?,
        },
    };
    if let Some(ProgramIn { name, others }) = &program {
        if let Some(pir) = &pir {
            model.report.warn(both(pir, name));
        }
        if !others.is_empty() {
            let others = some(others.iter().map(|other| format!("`{other}`")));
            model
                .report
                .warn(format!("the directory holds other programs: {others}; `{name}` was opened"));
        }
    }
    let mut bundle = Bundle::of(&model)?.unwrap_or_default();
    bundle.directory = true;
    bundle.remember(&mut model)?;
    Ok(model)
}

fn open_file(path: &Location, options: &OpenOptions) -> Result<Model> {
    let blob = options.file(path)?;
    let head = head(&blob)?;
    let (directory, name) = split(path);
    match content(&head, blob.len()) {
        Some(Content::Program | Content::ProgramText | Content::Pir) => {
            open_program(&directory, name, options)
        }
        Some(Content::Pickle) if !detect::has_own_name(path) => {
            // Other programs write pickles too.
            pickles::open(path, &blob, options).map_err(|error| match error {
                Error::Store(StoreError::Malformed { .. }) => {
                    let what = "a pickle with objects other than PaddlePaddle tensors";
                    Error::Unsupported { path: path.to_path_buf(), what }
                }
                error => error,
            })
        }
        Some(Content::Pickle) => pickles::open(path, &blob, options),
        // Python also writes pickles that do not begin with a protocol.
        None if [".pdparams", ".pdopt", ".pdtensor"].iter().any(|end| name.ends_with(end))
            && !blob.is_empty() =>
        {
            pickles::open(path, &blob, options)
        }
        None if name.ends_with(".pdmodel") => open_program(&directory, name, options),
        Some(Content::Stream) | None => open_params(path, &blob, options),
    }
}

/// Reads the record at `index` of a file of records, skipping those before it; `None` if
/// the file does not consist of records.
///
/// # Errors
/// Fails if there is no such record, or it is damaged.
pub fn open_record(path: &Location, index: usize, options: &OpenOptions) -> Result<Option<Tensor>> {
    if path.is_dir()? || !path.exists()? {
        return Ok(None);
    }
    let blob = options.file(path)?;
    if content(&head(&blob)?, blob.len()) != Some(Content::Stream) {
        return Ok(None);
    }
    stream::read_record(&blob, index, &options.limits).map(Some)
}

fn head(blob: &Blob) -> Result<Vec<u8>> {
    Ok(blob.head(4096)?)
}

/// Splits a path into the directory and the name of a file.
pub(super) fn split(path: &Location) -> (Location, &str) {
    (path.directory(), path.name().unwrap_or_default())
}

/// Opens a program and its parameters.
fn open_program(directory: &Location, name: &str, options: &OpenOptions) -> Result<Model> {
    let path = directory.join(name);
    let blob = options.file(&path)?;
    let program = read_program(&path, &blob, options)?;
    let is_pir = program.dialect == Dialect::Pir;
    let text = program::was_text(&program);
    let mut model = Model { files: vec![blob], ..Model::default() };
    let mut bundle = Bundle { program: Some(name.to_owned()), ..Bundle::default() };

    let wanted = saved(&program);
    let found = find_params(directory, name, Some(&wanted), options)?;
    let is_guess = found.warning.is_some();
    let mut params = found.params;
    let mut read = match &params {
        Params::Combined(path) => Some(read_combined(path, &wanted, options)),
        _ => None,
    };
    let is_open = matches!(read, None | Some(Err(Error::Mismatch { .. })));
    let mut shared = false;
    let is_own = matches!(params, Params::None | Params::Combined(_)) && options.params.is_none();
    if is_open
        && is_own
        && !wanted.is_empty()
        && let Some(together) = read_together(directory, name, &wanted, options)?
    {
        model.report.warn(format!(
            "the parameters are those of the program in `{}`, which also holds those of other functions \
             saved with it",
            split(&together.path).1
        ));
        shared = true;
        params = Params::Combined(together.path);
        read = Some(Ok(together.found));
    }
    if let (Params::Combined(path), Some(read)) = (&params, read) {
        match read {
            Ok((layout, blob, tensors)) => {
                warn_dtypes(&wanted, &tensors, &mut model.report);
                let named = wanted.iter().zip(tensors);
                let named = named.map(|(var, tensor)| Parameter { name: var.name.clone(), tensor });
                model.parameters = named.collect();
                model.files.push(blob);
                read_info(path, shared, options, &mut bundle, &mut model)?;
                bundle.layout = layout;
                // A shared parameter file cannot be written back.
                bundle.params = Some(match shared {
                    true => detect::own_params_of(name),
                    false => split(path).1.to_owned(),
                });
                model.report.warnings.extend(found.warning);
            }
            // A file that is beside the program by chance is not part of it.
            Err(error) if is_guess => {
                model.report.warn(format!("`{}` was not read: {error}", split(path).1));
                params = Params::None;
            }
            Err(error) => return Err(error),
        }
    } else {
        model.report.warnings.extend(found.warning);
    }
    match params {
        Params::Combined(_) => model.format = if is_pir { PIR_NAME } else { "paddle" }.to_owned(),
        Params::Separate(dir) => {
            read_separate(&dir, &wanted, options, &mut bundle, &mut model)?;
            model.format = "paddle-vars".to_owned();
        }
        Params::Pickles(paths) => {
            pickles::add(&paths, &pickles::types_in(&program), &mut model, &mut bundle, options)?;
            check_pickled(&wanted, &mut model);
            model.format = if is_pir { PIR_NAME } else { SAVED }.to_owned();
        }
        Params::None => {
            // The operators of a PIR program that write its parameters declare them.
            let wanted = if is_pir { wanted } else { wanted_by(&program) };
            if !wanted.is_empty() {
                let names = some(wanted.iter().map(|var| format!("`{}`", var.name)));
                model.report.warn(format!("parameters of the program were not found: {names}"));
            }
            model.format = match (is_pir, text) {
                (true, _) => PIR_NAME,
                (_, true) => "paddle-program-text",
                (_, false) => "paddle-program",
            }
            .to_owned();
        }
    }
    model.set_main(program);
    bundle.remember(&mut model)?;
    check_lods(&mut model);
    Ok(model)
}

/// Reads a program in any of its forms.
pub(super) fn read_program(path: &Location, blob: &Blob, options: &OpenOptions) -> Result<Program> {
    match pir::is_pir(&head(blob)?) {
        true => pir::read(blob, &options.limits),
        false => program::open(blob, &path.display().to_string(), &options.limits),
    }
}

/// Adds the name of the variable to the error of its record.
fn explain(error: Error, wanted: &[&Var]) -> Error {
    match &error {
        Error::InRecord { number, .. } => match wanted.get(*number) {
            Some(var) => error.inside(format!("`{}`", var.name)),
            None => error,
        },
        _ => error,
    }
}

/// The location of the parameters of a program.
pub(super) enum Params {
    Combined(Location),
    Separate(Location),
    /// Pickles written by `static.save`.
    Pickles(Vec<Location>),
    None,
}

/// The parameters of a program, and a warning if neither a prefix nor a convention connects them.
pub(super) struct Found {
    pub(super) params: Params,
    pub(super) warning: Option<String>,
}

impl From<Params> for Found {
    fn from(params: Params) -> Self {
        Self { params, warning: None }
    }
}

/// Finds the parameters that share the prefix of a program; otherwise those with a conventional name, or a
/// file for each of the variables `wanted`, if they are known. Several candidates are an error, because their contents
/// do not identify the program.
pub(super) fn find_params(
    directory: &Location,
    program: &str,
    wanted: Option<&[&Var]>,
    options: &OpenOptions,
) -> Result<Found> {
    if let Some(path) = &options.params {
        let params = match path.is_dir()? {
            _ if is_params_pickle(path) => Params::Pickles(vec![path.clone()]),
            true if variable_in(path, wanted, options).is_some() => Params::Separate(path.clone()),
            true => {
                let options = OpenOptions { params: None, ..options.clone() };
                let found = find_params(path, program, wanted, &options)?;
                return Ok(match found.params {
                    // What is missing is told of each variable.
                    Params::None => Params::Separate(path.clone()).into(),
                    _ => found,
                });
            }
            false => Params::Combined(path.clone()),
        };
        return Ok(params.into());
    }
    if let Some(own) = own_params(directory, program)? {
        return Ok(own.into());
    }
    let mut found: Vec<(String, Params)> = Vec::new();
    for name in detect::USUAL_PARAMS {
        let path = directory.join(name);
        let is_file = path.exists()? && !path.is_dir()?;
        // A program without parameters has an empty file of them, or none.
        let is_plausible = wanted.is_none_or(|wanted| !wanted.is_empty());
        if is_file && (is_plausible || options.file(&path)?.is_empty()) {
            found.push((name.to_owned(), Params::Combined(path)));
        }
    }
    if let Some(name) = variable_in(directory, wanted, options) {
        found.push((name, Params::Separate(directory.clone())));
    }
    if found.len() > 1 {
        let candidates = found.into_iter().map(|(name, _)| name).collect();
        return Err(Error::AmbiguousParams {
            path: directory.join(program).to_path_buf(),
            candidates,
        });
    }
    let Some((name, params)) = found.pop() else { return Ok(Params::None.into()) };
    let warning = (!detect::has_usual_params(program)).then(|| {
        format!(
            "parameters were read from `{name}`, which does not share the prefix of `{program}`"
        )
    });
    Ok(Found { params, warning })
}

/// Returns a variable that has a file of its own in a directory.
fn variable_in(
    directory: &Location,
    wanted: Option<&[&Var]>,
    options: &OpenOptions,
) -> Option<String> {
    let dir = options.dir(directory).ok()?;
    let mut wanted = wanted.unwrap_or_default().iter();
    wanted.find(|var| is_variable(&dir, &var.name)).map(|var| var.name.clone())
}

/// Finds the parameters that share the prefix of a program.
fn own_params(directory: &Location, program: &str) -> Result<Option<Params>> {
    let combined = directory.join(detect::own_params_of(program));
    let pickles = pickles_beside(directory, program)?;
    match (combined.exists()?, pickles.iter().find(|path| is_params_pickle(path))) {
        (true, Some(pickle)) => Err(Error::AmbiguousParams {
            path: directory.join(program).to_path_buf(),
            candidates: [&combined, pickle].map(|path| split(path).1.to_owned()).to_vec(),
        }),
        (true, None) => Ok(Some(Params::Combined(combined))),
        (false, _) if !pickles.is_empty() => Ok(Some(Params::Pickles(pickles))),
        (false, _) => Ok(None),
    }
}

pub(super) fn is_params_pickle(path: &Location) -> bool {
    path.extension().is_some_and(|extension| extension == "pdparams")
}

/// Finds the pickles that `static.save` wrote beside a program.
pub(super) fn pickles_beside(directory: &Location, program: &str) -> Result<Vec<Location>> {
    let pickles = detect::pickles_of(program).map(|name| directory.join(name));
    Ok(Location::existing(pickles).collect::<Result<_, _>>()?)
}

/// Warns about parameters of a program that its pickles lack, or that have another shape.
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
        warnings.push(format!("parameters of the program were not found: {}", some(&missing)));
    }
    model.report.warnings.append(&mut warnings);
}

fn is_variable(dir: &ModelDir, name: &str) -> bool {
    match dir.open_file(name) {
        Ok(Some(blob)) => head(&blob).is_ok_and(|head| is_stream(&head)),
        Ok(None) => false,
        // A link that leads out exists; reading it reports the error.
        Err(_) => check_relative(name).is_ok(),
    }
}

/// Reads the tensors of a combined file, which are in the order of the program.
fn read_combined(
    path: &Location,
    wanted: &[&Var],
    options: &OpenOptions,
) -> Result<(Layout, Blob, Vec<Tensor>)> {
    let blob = options.file(path)?;
    let expect: Vec<Expect> = wanted.iter().map(|var| (&var.value).into()).collect();
    let (layout, tensors) = match (blob.is_empty(), wanted.is_empty()) {
        (true, true) => Default::default(),
        _ => {
            stream::read(&blob, &expect, &options.limits).map_err(|error| explain(error, wanted))?
        }
    };
    match difference(wanted, &tensors) {
        Some(what) => Err(Error::Mismatch { path: path.to_path_buf(), what }),
        None => Ok((layout, blob, tensors)),
    }
}

/// Reads the structured names beside combined parameters, if there are any. The functions of a layer (`X.enc`) share
/// those of the layer (`X`). They are written back only with the parameters of the same prefix.
fn read_info(
    params: &Location,
    shared: bool,
    options: &OpenOptions,
    bundle: &mut Bundle,
    model: &mut Model,
) -> Result<()> {
    let own = params.append(".info");
    let mut prefix = params.name().and_then(|name| name.strip_suffix(".pdiparams"));
    let mut path = own.clone();
    while !path.exists()? {
        let Some((shorter, _)) = prefix.and_then(|prefix| prefix.rsplit_once('.')) else {
            return Ok(());
        };
        path = params.with_file_name(format!("{shorter}.pdiparams.info"));
        prefix = Some(shorter);
    }
    let read = options.file(&path).and_then(|blob| {
        let names = pickle::read_structured_names(&blob, &options.limits)?;
        Ok((blob, names))
    });
    match read {
        Ok((blob, mut names)) => {
            let known: HashSet<&str> = model.parameters.iter().map(|p| p.name.as_str()).collect();
            names.retain(|name, _| known.contains(name.as_str()));
            model.structured_names = names;
            if !shared && path == own {
                model.files.push(blob);
                bundle.info = Some(split(&path).1.to_owned());
            }
        }
        Err(error) => model.report.warn(format!("`{}` was not read: {error}", split(&path).1)),
    }
    Ok(())
}

/// The parameters of several functions in one file.
struct Together {
    path: Location,
    found: (Layout, Blob, Vec<Tensor>),
}

/// Reads the parameters of a program from those of all functions that `jit.save` saved together with it
/// (`combine_params`): the file of one of the functions holds all of them, sorted by name.
fn read_together(
    directory: &Location,
    program: &str,
    wanted: &[&Var],
    options: &OpenOptions,
) -> Result<Option<Together>> {
    let programs = detect::family(directory, program, "pdmodel")?;
    if programs.len() < 2 {
        return Ok(None);
    }
    let read = |name: &String| {
        let path = directory.join(name);
        let blob = options.file(&path)?;
        program::read(&blob, &path.display().to_string(), &options.limits)
    };
    let Ok(programs) = programs.iter().map(read).collect::<Result<Vec<_>>>() else {
        return Ok(None);
    };
    let all: BTreeMap<&str, &Var> =
        programs.iter().flat_map(saved).map(|var| (var.name.as_str(), var)).collect();
    let all: Vec<&Var> = all.into_values().collect();
    let names: HashSet<&str> = wanted.iter().map(|var| var.name.as_str()).collect();
    for params in detect::family(directory, program, "pdiparams")? {
        let path = directory.join(params);
        let Ok((layout, blob, tensors)) = read_combined(&path, &all, options) else { continue };
        let own = all.iter().zip(tensors).filter(|(var, _)| names.contains(var.name.as_str()));
        let tensors: Vec<Tensor> = own.map(|(_, tensor)| tensor).collect();
        if tensors.len() == wanted.len() && difference(wanted, &tensors).is_none() {
            return Ok(Some(Together { path, found: (layout, blob, tensors) }));
        }
    }
    Ok(None)
}

/// Describes the first difference between the saved variables of a program and the contents of a combined file.
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

/// Describes why a tensor cannot be the value of a variable.
fn contradiction(var: &Var, tensor: &Tensor) -> Option<String> {
    let declared = var.value.tensor_type()?;
    let is_same = declared.admits(&tensor.shape) || has_same_dims(declared, &tensor.shape);
    if !matches!(tensor.kind, Kind::Dense) || is_same {
        return None;
    }
    let dims: Vec<String> = declared.shape.iter().flatten().map(Dim::to_string).collect();
    Some(format!("of shape [{}], and is of shape {:?}", dims.join(", "), tensor.shape))
}

/// Whether dims are the declared ones except for those of 1: post-training quantization of 2.x saves scales declared as
/// `[4]` with the dims `[1, 4]`, and those declared as `[1]` without dims.
fn has_same_dims(declared: &TensorType, shape: &[u64]) -> bool {
    let is_some = |dim: &&Dim| **dim != Dim::Known(1);
    let sizes = shape.iter().filter(|size| **size != 1).map(|size| Dim::Known(*size));
    declared.shape.as_ref().is_some_and(|dims| dims.iter().filter(is_some).cloned().eq(sizes))
}

/// Describes how the element type of a tensor differs from that of its variable: `save_as_fp16` and some converters
/// do not update the program.
fn other_dtype(var: &Var, tensor: &Tensor) -> Option<String> {
    let declared = var.value.tensor_type().filter(|_| matches!(tensor.kind, Kind::Dense))?;
    let (name, is, was) = (&var.name, tensor.dtype, declared.dtype);
    (is != was).then(|| format!("`{name}` is {is}, not {was}"))
}

fn warn_dtypes<'a>(
    wanted: &[&Var],
    tensors: impl IntoIterator<Item = &'a Tensor>,
    report: &mut Report,
) {
    let pairs = wanted.iter().zip(tensors);
    let others: Vec<_> = pairs.filter_map(|(var, tensor)| other_dtype(var, tensor)).collect();
    if !others.is_empty() {
        report.warn(format!("element types are not those of the program: {}", some(&others)));
    }
}

/// Reads a separate file for each variable.
fn read_separate(
    directory: &Location,
    wanted: &[&Var],
    options: &OpenOptions,
    bundle: &mut Bundle,
    model: &mut Model,
) -> Result<()> {
    let dir = options.dir(directory)?;
    let (mut missing, mut found) = (Vec::new(), Vec::new());
    for var in wanted {
        let Some(blob) = dir.open_file(&var.name)? else {
            missing.push(format!("`{}`", var.name));
            continue;
        };
        let (layout, tensor) = read_variable(&blob, &var.name, (&var.value).into(), options)?;
        bundle.set_layout_of(&var.name, layout);
        if let Some(why) = contradiction(var, &tensor) {
            model.report.warn(format!("`{}` is declared {why}", var.name));
        }
        found.push(*var);
        model.parameters.push(Parameter { name: var.name.clone(), tensor });
        model.files.push(blob);
    }
    let tensors = model.parameters.iter().map(|parameter| &parameter.tensor);
    warn_dtypes(&found, tensors, &mut model.report);
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
    let (layout, tensors) = stream::read(blob, &[expect], &options.limits)
        .map_err(|error| error.inside(format!("`{name}`")))?;
    let count = tensors.len();
    match tensors.into_iter().next().filter(|_| count == 1) {
        Some(tensor) => Ok((layout, tensor)),
        None => Err(blob.malformed(0, "one record", format!("{count} records")).into()),
    }
}

/// Opens a directory of variables without a program: every stream in it, under its relative path.
fn open_variables(path: &Location, options: &OpenOptions) -> Result<Model> {
    let dir = options.dir(path)?;
    let mut model = Model { format: "paddle-vars".to_owned(), ..Model::default() };
    let mut bundle = Bundle::default();
    // Whether subdirectories have models of their own.
    let (mut others, mut has_inner) = (Vec::new(), false);
    for name in dir.files(options.limits.tensors)? {
        let blob = match dir.open_file(&name) {
            Ok(Some(blob)) => blob,
            Ok(None) => continue,
            // A link that leads out, or a pipe; any other error may be that of a variable.
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
        let found = content(&head(&blob)?, blob.len());
        let is_inner = name.contains('/');
        if found != Some(Content::Stream) || !begins_record(&blob) {
            has_inner |= is_inner && found == Some(Content::Program);
            others.push(format!("`{name}`"));
            continue;
        }
        let (layout, tensors) = stream::read(&blob, &[], &options.limits)
            .map_err(|error| error.inside(format!("`{name}`")))?;
        match <[Tensor; 1]>::try_from(tensors) {
            Ok([tensor]) => {
                bundle.set_layout_of(&name, layout);
                model.parameters.push(Parameter { name, tensor });
                model.files.push(blob);
            }
            Err(tensors) => {
                has_inner |= is_inner;
                others.push(format!("`{name}` ({} tensors)", tensors.len()));
            }
        }
    }
    if has_inner {
        let why = "its files are those of several models".to_owned();
        return Err(Error::NoModel { path: path.to_path_buf(), why });
    }
    if model.parameters.is_empty() {
        let why = "no file in it is a program or a tensor stream".to_owned();
        return Err(Error::NoModel { path: path.to_path_buf(), why });
    }
    if !others.is_empty() {
        let names = some(&others);
        model.report.warn(format!("files that do not hold a single variable: {names}"));
    }
    bundle.remember(&mut model)?;
    check_lods(&mut model);
    Ok(model)
}

/// Opens a parameter file, with the names of the program beside it if one matches.
fn open_params(path: &Location, blob: &Blob, options: &OpenOptions) -> Result<Model> {
    let (layout, tensors) = stream::read(blob, &[], &options.limits)?;
    let (directory, name) = split(path);
    let format = match (layout.sized, layout.lod_last, tensors.len()) {
        (true, ..) => "paddle-params-sized",
        (_, true, 1) => "paddle-tensor-lod-last",
        (_, _, 1) => "paddle-tensor",
        _ => "paddle-params",
    };
    let mut report = Report::default();
    let mut files = vec![blob.clone()];
    let names = match names_beside(&directory, name, &tensors, options, &mut report)? {
        Some((program, names)) => {
            files.push(program);
            names
        }
        None => vec![String::new(); tensors.len()],
    };
    let model = without_program(format, (names, tensors), Some(name.to_owned()), layout, report)?;
    Ok(Model { files, ..model })
}

/// Returns a model of the parameters in one file, without a program.
pub(super) fn without_program(
    format: &str,
    (names, tensors): (Vec<String>, Vec<Tensor>),
    params: Option<String>,
    layout: Layout,
    report: Report,
) -> Result<Model> {
    let named = names.into_iter().zip(tensors);
    let parameters = named.map(|(name, tensor)| Parameter { name, tensor }).collect();
    let mut model = Model { format: format.to_owned(), parameters, report, ..Model::default() };
    Bundle { params, layout, ..Bundle::default() }.remember(&mut model)?;
    check_lods(&mut model);
    Ok(model)
}

/// Finds the program beside parameters, and the names in it, if they match; a program that does not
/// match, or cannot be read, does not prevent opening the parameters.
fn names_beside(
    directory: &Location,
    params: &str,
    tensors: &[Tensor],
    options: &OpenOptions,
    report: &mut Report,
) -> Result<Option<(Blob, Vec<String>)>> {
    let programs = detect::programs_of(params);
    let mut found: Vec<(&String, (Blob, Vec<String>))> = Vec::new();
    for name in &programs {
        if !directory.join(name).exists()? {
            continue;
        }
        match names_by(directory, name, params, tensors, options) {
            Ok(names) => found.push((name, names)),
            Err(error) => report.warn(format!("no names were read from `{name}`: {error}")),
        }
    }
    let Some((name, names)) = found.pop() else { return Ok(None) };
    Ok(match found.into_iter().find(|(_, (_, others))| *others != names.1) {
        Some((other, _)) => {
            report
                .warn(format!("`{other}` and `{name}` name them differently: they remain unnamed"));
            None
        }
        None => Some(names),
    })
}

/// Reads a program, and returns its names for parameters.
fn names_by(
    directory: &Location,
    program: &str,
    params: &str,
    tensors: &[Tensor],
    options: &OpenOptions,
) -> Result<(Blob, Vec<String>)> {
    let path = directory.join(program);
    let blob = options.file(&path)?;
    let mismatch = |what| Error::Mismatch { path: directory.join(params).to_path_buf(), what };
    let program = read_program(&path, &blob, options)?;
    let wanted = saved(&program);
    match difference(&wanted, tensors) {
        None => Ok((blob, wanted.into_iter().map(|var| var.name.clone()).collect())),
        Some(what) => Err(mismatch(what)),
    }
}

fn check_lods(model: &mut Model) {
    for Parameter { name, tensor } in &model.parameters {
        // A scalar has no rows.
        let rows = tensor.shape.first().copied().unwrap_or(0);
        if let Err(error) = tensor.lod.check(rows) {
            model.report.warn(format!("`{name}`: {error}"));
        }
    }
}

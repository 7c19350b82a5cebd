//! Writes models to files. The program is published last, so that a published program has its parameters.

use std::collections::HashMap;

use lodstone_model::{Dialect, Model, Parameter, Program, Tensor};
use lodstone_schema::paddle::saved;
use lodstone_store::{Blob, Location};

use super::layout::Bundle;
use super::{SAVED, pickles};
use crate::error::{Error, Result};
use crate::options::WriteOptions;
use crate::paddle::stream::{self, Layout};
use crate::paddle::{pickle, pir, program};
use crate::staged::Staged;

/// Writes `X.pdmodel` and `X.pdiparams`, or writes into a directory under the original names.
pub(super) fn write_bundle(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    let program = program_of(model, "paddle")?;
    let bundle = remembered(model, options)?;
    let extension = bundle.program.as_ref().and_then(|name| name.rsplit_once('.'));
    let extension = extension.map_or(extension_of(program), |(_, extension)| extension).to_owned();
    let is_program = path.extension().is_some_and(|end| end == extension.as_str());
    let into = path.names_directory()? || (bundle.directory && !is_program);
    let (directory, program_name, params_name) = if into {
        let names = Bundle::of(model)?.unwrap_or_default();
        let name = names.program.unwrap_or_else(|| format!("inference.{}", extension_of(program)));
        // Derived from the name of the program.
        let params = names.params.unwrap_or_else(|| {
            let stem = name.strip_suffix(extension_of(program)).and_then(|it| it.strip_suffix('.'));
            stem.map_or("__params__".to_owned(), |stem| format!("{stem}.pdiparams"))
        });
        (path.clone(), name, params)
    } else {
        let name = if is_program { path.stem() } else { path.name() }.unwrap_or_default();
        (path.directory(), format!("{name}.{extension}"), format!("{name}.pdiparams"))
    };
    let mut staged = Staged::begin(&directory, into, options)?;
    let layout = Layout { align: options.align, ..bundle.layout };
    let parameters = in_order(model, program)?;
    // PaddlePaddle 3 writes no file of no parameters.
    if !parameters.is_empty() || program.dialect != Dialect::Pir {
        staged.write(&params_name, |out| stream::write(out, parameters, layout))?;
    }
    if let Some(info) = info(model, &bundle) {
        staged.write(&format!("{params_name}.info"), |out| out.copy(info))?;
    }
    let encoded = encode(program, &program_name, options)?;
    staged.write(&program_name, |out| out.put(&encoded))?;
    Ok(if into { staged } else { staged.opened_by(program_name) })
}

/// Returns the file of structured names, if all of them still belong to parameters.
fn info<'a>(model: &'a Model, bundle: &Bundle) -> Option<&'a Blob> {
    let name = bundle.info.as_deref()?;
    let is_current = model.are_structured_names_current();
    let is_it = |blob: &&Blob| {
        blob.file_range().is_some_and(|(file, _)| file.location().name() == Some(name))
    };
    model.files.iter().filter(|_| is_current).find(is_it)
}

/// Writes `X.pdparams`, `X.pdopt` and `X.pdmodel` of a model that was read from them.
pub(super) fn write_saved(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    let program = program_of(model, SAVED)?;
    let bundle = Bundle::of(model)?.filter(|bundle| !bundle.pickles.is_empty());
    let bundle = bundle.ok_or_else(|| {
        let what =
            "a model that `static.save` did not write; `paddle` holds programs with parameters";
        Error::Incompatible { format: SAVED, what: what.to_owned() }
    })?;
    let extension = format!(".{}", extension_of(program));
    let name = path.name().unwrap_or_default();
    let stem = name.strip_suffix(&extension);
    let into = path.names_directory()? || (bundle.directory && stem.is_none());
    let (directory, program_name) = if into {
        let default = || format!("model{extension}");
        (path.clone(), bundle.program.clone().unwrap_or_else(default))
    } else {
        (path.directory(), format!("{}{extension}", stem.unwrap_or(name)))
    };
    let mut staged = Staged::begin(&directory, into, options)?;
    let stem = program_name.strip_suffix(&extension).unwrap_or(&program_name);
    for (extension, part) in pickles::split(model, &bundle) {
        staged.write(&format!("{stem}.{extension}"), |out| pickle::put_model(out, &part))?;
    }
    let encoded = encode(program, &program_name, options)?;
    staged.write(&program_name, |out| out.put(&encoded))?;
    Ok(if into { staged } else { staged.opened_by(program_name) })
}

/// Writes a directory: a file for each variable, then the program, if there is one.
pub(super) fn write_vars(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    if model.main().is_none() {
        some_tensor(model, "paddle-vars")?;
    }
    let bundle = remembered(model, options)?;
    let mut staged = Staged::directory(path, options)?;
    for Parameter { name, tensor } in &model.parameters {
        if name.is_empty() {
            let what = "a tensor without a name, which would be its file name".to_owned();
            return Err(Error::Incompatible { format: "paddle-vars", what });
        }
        let layout = bundle.layouts.get(name).copied().unwrap_or_default();
        let layout = Layout { align: options.align, ..layout };
        staged.write(name, |out| stream::write_record(out, name, tensor, layout))?;
    }
    if let Some(program) = model.main() {
        // A tensor from elsewhere may have a name that readers of such directories ignore.
        let known = bundle.directory && bundle.params.is_none();
        let name = bundle.program.filter(|_| known).unwrap_or_else(|| "__model__".to_owned());
        let encoded = encode(program, &name, options)?;
        staged.write(&name, |out| out.put(&encoded))?;
    }
    Ok(staged)
}

/// Returns the original layout, if it is to be kept.
fn remembered(model: &Model, options: &WriteOptions) -> Result<Bundle> {
    Ok(Bundle::of(model)?.filter(|_| options.same).unwrap_or_default())
}

pub(super) fn write_params(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    let lod_last = remembered(model, options)?.layout.lod_last;
    let layout = Layout { lod_last, sized: false, align: options.align };
    write_stream(model, path, layout, options)
}

pub(super) fn write_params_sized(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    let lod_last = remembered(model, options)?.layout.lod_last;
    let layout = Layout { lod_last, sized: true, align: options.align };
    write_stream(model, path, layout, options)
}

pub(super) fn write_tensor(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    one_tensor(model, "paddle-tensor")?;
    write_stream(model, path, Layout { align: options.align, ..Layout::default() }, options)
}

pub(super) fn write_tensor_lod_last(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    one_tensor(model, "paddle-tensor-lod-last")?;
    let layout = Layout { lod_last: true, align: options.align, ..Layout::default() };
    write_stream(model, path, layout, options)
}

pub(super) fn write_program(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    let encoded = program::write(program_of(model, "paddle-program")?)?;
    write_bytes(path, &encoded, options)
}

pub(super) fn write_program_text(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    let encoded = program::write_text(program_of(model, "paddle-program-text")?)?;
    write_bytes(path, &encoded, options)
}

fn write_bytes(path: &Location, bytes: &[u8], options: &WriteOptions) -> Result<Staged> {
    Staged::file(path, options, |out| out.put(bytes))
}

fn write_stream(
    model: &Model,
    path: &Location,
    layout: Layout,
    options: &WriteOptions,
) -> Result<Staged> {
    some_tensor(model, "paddle-params")?;
    let mut tensors: Vec<_> =
        model.parameters.iter().map(|p| (p.name.as_str(), &p.tensor)).collect();
    // Programs that assign names to these records use sorted names.
    if tensors.iter().all(|(name, _)| !name.is_empty()) {
        tensors.sort_by_key(|(name, _)| *name);
    }
    Staged::file(path, options, |out| stream::write(out, tensors, layout))
}

/// Writes `X.json` and its parameters: in one file, or in pickles if they were read from some.
pub(super) fn write_pir(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    let has_pickles = Bundle::of(model)?.is_some_and(|bundle| !bundle.pickles.is_empty());
    match has_pickles && options.same {
        true => write_saved(model, path, options),
        false => write_bundle(model, path, options),
    }
}

/// Returns the extension of the file of a program.
fn extension_of(program: &Program) -> &'static str {
    if program.dialect == Dialect::Pir { "json" } else { "pdmodel" }
}

/// Encodes a program in its original form, or the one that the extension implies.
fn encode(program: &Program, name: &str, options: &WriteOptions) -> Result<bytes::Bytes> {
    if program.dialect == Dialect::Pir {
        return pir::write(program);
    }
    let text = if options.same { program::was_text(program) } else { name.ends_with(".pbtxt") };
    if text { program::write_text(program) } else { program::write(program) }
}

fn program_of<'a>(model: &'a Model, format: &'static str) -> Result<&'a Program> {
    model.main().ok_or(Error::NoProgram { format, alone: "paddle-params" })
}

/// Fails for a model without tensors, whose file or directory could not be recognized.
fn some_tensor(model: &Model, format: &'static str) -> Result<()> {
    match model.parameters.is_empty() {
        true => Err(Error::Incompatible { format, what: "a model without tensors".to_owned() }),
        false => Ok(()),
    }
}

fn one_tensor(model: &Model, format: &'static str) -> Result<()> {
    match model.parameters.len() {
        1 => Ok(()),
        count => {
            let what = format!("{count} tensors instead of one; `paddle-params` holds several");
            Err(Error::Incompatible { format, what })
        }
    }
}

/// Returns the parameters that the program saves, in its order.
fn in_order<'a>(model: &'a Model, program: &'a Program) -> Result<Vec<(&'a str, &'a Tensor)>> {
    let mut known: HashMap<&str, &Tensor> =
        model.parameters.iter().map(|p| (p.name.as_str(), &p.tensor)).collect();
    let (mut ordered, mut missing) = (Vec::new(), Vec::new());
    for var in saved(program) {
        match known.remove(var.name.as_str()) {
            Some(tensor) => ordered.push((var.name.as_str(), tensor)),
            None => missing.push(format!("`{}`", var.name)),
        }
    }
    let mut extra: Vec<_> = known.keys().map(|name| format!("`{name}`")).collect();
    extra.sort();
    let what = match (missing.is_empty(), extra.is_empty()) {
        (true, true) => return Ok(ordered),
        (false, _) => format!("a program without its parameters {}", missing.join(", ")),
        (true, false) => format!("tensors that its program does not save: {}", extra.join(", ")),
    };
    Err(Error::Incompatible { format: "paddle", what })
}

//! Opens models by path: a net, or two that belong together.

use std::collections::HashSet;

use lodstone_model::{AttributeValue, Kind, Model, Op, Parameter, Program, Programs};
use lodstone_store::{Blob, Location};

use super::fill::VALUES;
use super::layout::{self, Pair};
use super::{BINARY, TEXT, TEXT_FORMAT, net};
use crate::{Error, OpenOptions, Result};

/// Opens a net and the one beside it, by one of the files or their directory.
///
/// # Errors
/// Fails if there is no net, or a file is damaged.
pub(super) fn open(path: &Location, options: &OpenOptions) -> Result<Model> {
    if !path.is_dir() {
        let found = Some(path).filter(|path| !path.exists()).and_then(layout::by_prefix);
        return open_file(found.as_ref().unwrap_or(path), options, false);
    }
    let entries = path.list()?;
    let files = entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str());
    let name = layout::in_directory(files).ok_or_else(|| Error::NoModel {
        path: path.to_path_buf(),
        why: "it holds no file `predict_net.pb`, or several with such a name".to_owned(),
    })?;
    open_file(&path.join(name), options, true)
}

fn open_file(path: &Location, options: &OpenOptions, is_directory: bool) -> Result<Model> {
    let name = path.name().unwrap_or_default();
    let blob = options.file(path)?;
    let is_init = match layout::is_init(name) {
        Some(is_init) => is_init,
        None => fills_only(path, &blob, options)?,
    };
    let other = match (&options.params, is_init) {
        (Some(params), _) => Some(params.clone()),
        (None, _) => {
            let names = layout::others(name, is_init).into_iter();
            let mut places = names.map(|name| path.with_file_name(name));
            places.find(|place| place.exists() && !place.is_dir())
        }
    };
    // Parameters that the user names are those of a program.
    let is_init = is_init && options.params.is_none();
    let mut files = vec![(path.clone(), blob, is_init)];
    if let Some(place) = other {
        let blob = options.file(&place)?;
        files.push((place, blob, !is_init));
    }
    let mut model = Model::default();
    let mut pair = Pair { directory: is_directory, ..Pair::default() };
    for (place, blob, is_init) in files {
        let origin = place.display().to_string();
        let read = net::read(&blob, &origin, &options.limits, is_init)?;
        let name = place.name().map(str::to_owned);
        if is_init {
            pair.init = name;
            model.parameters = read.parameters;
            model.programs.insert(Programs::STARTUP, read.program);
        } else {
            pair.predict = name;
            model.set_main(read.program);
        }
        model.files.push(blob);
    }
    finish(&mut model, pair)?;
    Ok(model)
}

/// Returns whether a net only fills blobs, and declares no outputs.
fn fills_only(path: &Location, blob: &Blob, options: &OpenOptions) -> Result<bool> {
    let origin = path.display().to_string();
    let read = net::read(blob, &origin, &options.limits, true)?;
    let Some(main) = read.program.blocks.first() else { return Ok(false) };
    let reads_none = main.ops.iter().all(|op| op.input("").is_empty());
    Ok(!main.ops.is_empty() && reads_none && main.outputs.is_empty())
}

/// Completes a model whose programs and parameters are known.
///
/// # Errors
/// An internal error.
pub(super) fn finish(model: &mut Model, pair: Pair) -> Result<()> {
    bind(model)?;
    let first = model.main().or_else(|| model.programs.get(Programs::STARTUP));
    let is_text = first.is_some_and(|program| program.residual.of(TEXT).is_some());
    model.format = if is_text { TEXT_FORMAT.name } else { BINARY.name }.to_owned();
    if model.main().is_some() && pair.init.is_none() {
        model.report.warn("no `init_net` was found: the weights of the net are inputs");
    }
    pair.remember(model)
}

/// Marks the inputs of the main program that the startup program fills, other than by the placeholder of an input.
pub(super) fn bind(model: &mut Model) -> Result<()> {
    let Some(startup) = model.programs.get(Programs::STARTUP) else { return Ok(()) };
    let filled: HashSet<String> = startup.ops().flat_map(Op::writes).map(str::to_owned).collect();
    let mut inputs = HashSet::new();
    if let Some(main) = model.main() {
        for parameter in &model.parameters {
            if is_placeholder(main, parameter)? {
                inputs.insert(parameter.name.clone());
            }
        }
    }
    let main = model.programs.main_mut().and_then(|main| main.blocks.first_mut());
    for var in main.into_iter().flat_map(|main| &mut main.vars) {
        var.persistable = filled.contains(&var.name) && !inputs.contains(&var.name);
        var.is_parameter = var.persistable;
    }
    if inputs.is_empty() {
        return Ok(());
    }
    let startup = model.programs.get_mut(Programs::STARTUP).and_then(|it| it.blocks.first_mut());
    for op in startup.into_iter().flat_map(|startup| &mut startup.ops) {
        let is_it = matches!(op.output(""), [name] if inputs.contains(name));
        for attribute in op.attributes.iter_mut().filter(|it| is_it && it.name == VALUES) {
            attribute.value = AttributeValue::Floats(vec![0.0]);
        }
    }
    model.parameters.retain(|parameter| !inputs.contains(&parameter.name));
    Ok(())
}

/// Whether a blob is a placeholder for an input: exporters fill each input with a single zero, so that the blob exists.
/// A parameter of one element is an operand other than the first, or has another rank.
fn is_placeholder(program: &Program, parameter: &Parameter) -> Result<bool> {
    let Some(main) = program.blocks.first() else { return Ok(false) };
    let tensor = &parameter.tensor;
    let is_single = matches!(tensor.shape.as_slice(), [1] | [1, 1]);
    let is_float = matches!(tensor.kind, Kind::Dense) && tensor.data.len() == 4;
    if !is_single || !is_float || !main.inputs.contains(&parameter.name) {
        return Ok(false);
    }
    let reads = |op: &&Op| op.input("").contains(&parameter.name);
    let first = main.ops.iter().find(reads).and_then(|op| op.input("").first());
    let is_written = main.ops.iter().flat_map(Op::writes).any(|name| *name == parameter.name);
    // Of two dims, one of a single element is the placeholder of the mobile exporter.
    let is_first = tensor.shape.len() == 2 || first.is_some_and(|name| *name == parameter.name);
    Ok(is_first && !is_written && tensor.data.bytes()?.iter().all(|byte| *byte == 0))
}

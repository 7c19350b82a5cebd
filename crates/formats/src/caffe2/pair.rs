//! Opens models by path: a net, or two that belong together.

use std::collections::HashSet;

use lodstone_model::{AttributeValue, Block, DType, Kind, Model, Op, Parameter, Programs, Tensor};
use lodstone_store::{Blob, Location};

use super::fill::VALUES;
use super::layout::{self, Pair};
use super::weights::integers;
use super::{BINARY, TEXT, TEXT_FORMAT, net};
use crate::error::{Error, Result};
use crate::options::OpenOptions;

/// Opens a net and the one beside it, by one of the files or their directory.
///
/// # Errors
/// Fails if there is no net, or a file is damaged.
pub(super) fn open(path: &Location, options: &OpenOptions) -> Result<Model> {
    if !path.is_dir()? {
        let found = if path.exists()? { None } else { layout::by_prefix(path)? };
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
            let mut place = None;
            for found in Location::existing(names.map(|name| path.with_file_name(name))) {
                let found = found?;
                if !found.is_dir()? {
                    place = Some(found);
                    break;
                }
            }
            place
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
    let inputs = match model.main().and_then(|main| main.blocks.first()) {
        Some(main) => placeholders(main, &filled, &model.parameters)?,
        None => Placeholders::default(),
    };
    model.report.warnings.extend(inputs.warning);
    let inputs = inputs.names;
    let main = model.programs.main_mut().and_then(|main| main.blocks.first_mut());
    for var in main.into_iter().flat_map(|main| &mut main.vars) {
        var.persistable = filled.contains(&var.name) && !inputs.contains(&var.name);
        var.is_parameter = var.persistable;
    }
    let startup = model.programs.get_mut(Programs::STARTUP).and_then(|it| it.blocks.first_mut());
    for op in startup.into_iter().flat_map(|startup| &mut startup.ops) {
        let [name] = op.output("") else { continue };
        let is_it = |it: &&Parameter| it.name == *name && inputs.contains(name);
        let Some(parameter) = model.parameters.iter().find(is_it) else { continue };
        // The values are no longer those of a parameter.
        let values = values(&parameter.tensor)?.unwrap_or(AttributeValue::Floats(Vec::new()));
        for attribute in op.attributes.iter_mut().filter(|it| it.name == VALUES) {
            attribute.value = values.clone();
        }
    }
    model.parameters.retain(|parameter| !inputs.contains(&parameter.name));
    Ok(())
}

/// Inputs of a net that are fed although the startup program fills them.
#[derive(Default)]
struct Placeholders {
    names: HashSet<String>,
    warning: Option<String>,
}

/// Returns the inputs of a net that are fed although the startup program fills them, so that their blobs exist:
///
/// | fill | written by |
/// |---|---|
/// | no elements | Detectron's `convert_pkl_to_pb` |
/// | a single zero | the mobile exporter |
/// | an example, if all inputs are filled, weights among them | the mobile exporter, where all inputs are declared to be parameters |
///
/// Of the last kind, only the first input is one: Caffe2's predictor feeds inputs by position.
fn placeholders(
    main: &Block,
    filled: &HashSet<String>,
    parameters: &[Parameter],
) -> Result<Placeholders> {
    let mut inputs = Placeholders::default();
    for parameter in parameters.iter().filter(|it| main.inputs.contains(&it.name)) {
        if is_placeholder(main, parameter)? {
            inputs.names.insert(parameter.name.clone());
        }
    }
    if !inputs.names.is_empty() || main.inputs.iter().any(|name| !filled.contains(name)) {
        return Ok(inputs);
    }
    let has_weights = main.inputs.iter().any(|name| is_weight(main, name));
    let example = main.inputs.iter().find(|name| has_weights && is_data(main, name));
    let example = example.and_then(|name| parameters.iter().find(|it| it.name == *name));
    if let Some(example) = example
        && values(&example.tensor)?.is_some()
    {
        inputs.warning = Some(format!(
            "the `init_net` fills all inputs of the net: the first one, `{}`, is fed, and its values there are an example",
            example.name
        ));
        inputs.names.insert(example.name.clone());
    }
    Ok(inputs)
}

/// Whether a blob is the first operand of the operator that reads it first, and no operator writes it.
fn is_data(main: &Block, name: &String) -> bool {
    let first = main.ops.iter().find(|op| op.input("").contains(name));
    let is_first = first.is_some_and(|op| op.input("").first() == Some(name));
    is_first && !is_written(main, name)
}

/// Whether operators read a blob, and none as its first operand.
fn is_weight(main: &Block, name: &String) -> bool {
    let mut readers = main.ops.iter().filter(|op| op.input("").contains(name)).peekable();
    readers.peek().is_some() && readers.all(|op| op.input("").first() != Some(name))
}

fn is_written(main: &Block, name: &str) -> bool {
    main.ops.iter().flat_map(Op::writes).any(|it| it == name)
}

/// Whether a blob has no elements or, as a placeholder, a single zero. A parameter of one element is an operand other than
/// the first, or has another rank.
fn is_placeholder(main: &Block, parameter: &Parameter) -> Result<bool> {
    let tensor = &parameter.tensor;
    if !matches!(tensor.kind, Kind::Dense) || is_written(main, &parameter.name) {
        return Ok(false);
    }
    if tensor.shape.contains(&0) {
        return Ok(true);
    }
    let is_single = matches!(tensor.shape.as_slice(), [1] | [1, 1]) && tensor.data.len() == 4;
    // Of two dims, one of a single element is the placeholder of the mobile exporter.
    let is_first = tensor.shape.len() == 2 || is_data(main, &parameter.name);
    Ok(is_single && is_first && tensor.data.bytes()?.iter().all(|byte| *byte == 0))
}

/// Returns the elements of a tensor as the argument of its fill; `None` for types that no exporter fills inputs with.
fn values(tensor: &Tensor) -> Result<Option<AttributeValue>> {
    if !matches!(tensor.kind, Kind::Dense) {
        return Ok(None);
    }
    Ok(match tensor.dtype {
        DType::Float32 => {
            let bytes = tensor.data.bytes()?;
            let floats = bytes.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it));
            Some(AttributeValue::Floats(floats.collect()))
        }
        DType::Int32 | DType::Int64 => Some(AttributeValue::Longs(integers(tensor)?)),
        _ => None,
    })
}

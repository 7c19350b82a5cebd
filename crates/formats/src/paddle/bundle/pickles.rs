//! Pickles, and the programs that declare the types of their tensors.

use std::collections::{HashMap, HashSet};

use lodstone_model::{DType, Model, Parameter, Program, Residual, some};
use lodstone_store::{Blob, Location};

use super::detect;
use super::layout::{Bundle, Pickle};
use super::read::read_program;
use crate::error::Result;
use crate::options::OpenOptions;
use crate::paddle::pickle::{self, AS_INTEGERS, TABLE};
use crate::paddle::program;

/// Opens a file of `paddle.save`, or the pickled program of 2017.
pub(super) fn open(path: &Location, blob: &Blob, options: &OpenOptions) -> Result<Model> {
    let name = path.name().unwrap_or_default();
    if name == "__model__"
        && let Some(early) = pickle::read_early(blob, &options.limits)?
    {
        return Ok(Model { files: vec![blob.clone()], ..program(path, &early, options)? });
    }
    let mut model = pickle::read_blob(blob, &options.limits)?;
    let open = |parameter: &Parameter| is_open(parameter.tensor.dtype);
    let mut known = HashSet::new();
    if model.parameters.iter().any(open)
        && let Some(beside) = program_beside(path)?
    {
        match types(&beside, options) {
            Ok((program, types)) => {
                let before = dtypes(&model);
                known = retype(&mut model, &types);
                let is_used = !known.is_empty() || dtypes(&model) != before;
                if is_used && beside.stem() != path.stem() {
                    let name = beside.display();
                    model.report.warn(format!("element types were taken from `{name}`"));
                }
                model.files.push(program);
            }
            Err(error) => {
                let name = beside.display();
                model.report.warn(format!("no element types were read from `{name}`: {error}"));
            }
        }
    }
    pickle::warn_bits(&mut model, &known);
    Ok(model)
}

fn dtypes(model: &Model) -> Vec<DType> {
    model.parameters.iter().map(|parameter| parameter.tensor.dtype).collect()
}

/// Adds the parameters that `static.save` wrote beside a program: `.pdparams`, and `.pdopt` with
/// the state of the optimizer; `types` are those of its variables.
pub(super) fn add(
    paths: &[Location],
    types: &HashMap<String, DType>,
    model: &mut Model,
    bundle: &mut Bundle,
    options: &OpenOptions,
) -> Result<()> {
    for path in paths {
        let mut part = pickle::read_blob(&options.file(path)?, &options.limits)?;
        let known = retype(&mut part, types);
        pickle::warn_bits(&mut part, &known);
        let kept = part.residual.of(pickle::NAME).cloned().unwrap_or_default();
        let extension = path.extension().and_then(|extension| extension.to_str());
        bundle.pickles.push(Pickle {
            extension: extension.unwrap_or_default().to_owned(),
            names: part.parameters.iter().map(|parameter| parameter.name.clone()).collect(),
            metadata: part.metadata.clone(),
            kept: kept.iter().map(|byte| format!("{byte:02x}")).collect(),
        });
        // Tensors hold their index in their own pickle; here the indices continue across pickles.
        let before = model.parameters.len() as u64;
        model.files.append(&mut part.files);
        for parameter in &mut part.parameters {
            shift(parameter, |number| number.checked_add(before));
        }
        model.parameters.append(&mut part.parameters);
        let again = part
            .metadata
            .iter()
            .filter(|(key, value)| model.metadata.get(*key).is_some_and(|before| before != *value));
        let again: Vec<String> = again.map(|(key, _)| format!("`{key}`")).collect();
        if !again.is_empty() {
            let keys = some(again);
            model.report.warn(format!("values in both pickles, of which one is shown: {keys}"));
        }
        model.metadata.append(&mut part.metadata);
        model.report.warnings.append(&mut part.report.warnings);
    }
    Ok(())
}

/// Splits a model into the models of its pickles, each with the extension of its file.
pub(super) fn split(model: &Model, bundle: &Bundle) -> Vec<(String, Model)> {
    let mut parts: Vec<(String, Model)> = Vec::new();
    let mut base = 0;
    let mut left: Vec<&Parameter> = model.parameters.iter().collect();
    let mut metadata = model.metadata.clone();
    for pickle in &bundle.pickles {
        let end = base + pickle.names.len() as u64;
        let names: HashSet<&String> = pickle.names.iter().collect();
        let belongs = |parameter: &Parameter| match number(parameter) {
            Some(number) => (base..end).contains(&number),
            None => names.contains(&parameter.name),
        };
        let mut part = Model { format: pickle::NAME.to_owned(), ..Model::default() };
        let (mine, others): (Vec<&Parameter>, _) = left.into_iter().partition(|p| belongs(p));
        left = others;
        part.parameters = mine.into_iter().cloned().collect();
        for parameter in &mut part.parameters {
            shift(parameter, |number| number.checked_sub(base));
        }
        for (key, own) in &pickle.metadata {
            metadata.remove(key);
            // Both pickles may have the key; an unedited value is that of each pickle.
            let shown = bundle.pickles.iter().rev().find_map(|pickle| pickle.metadata.get(key));
            let Some(now) = model.metadata.get(key) else { continue };
            let value = if Some(now) == shown { own } else { now };
            part.metadata.insert(key.clone(), value.clone());
        }
        let (digits, _) = pickle.kept.as_bytes().as_chunks::<2>();
        let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let kept: Vec<u8> = digits.iter().filter_map(byte).collect();
        part.residual = Residual::new(pickle::NAME, kept.into());
        parts.push((pickle.extension.clone(), part));
        base = end;
    }
    if let Some((_, first)) = parts.first_mut() {
        first.parameters.extend(left.into_iter().cloned());
        first.metadata.append(&mut metadata);
    }
    parts
}

/// Returns the index that a tensor holds.
fn number(parameter: &Parameter) -> Option<u64> {
    let bytes = parameter.tensor.residual.of(pickle::NAME)?;
    Some(u64::from_le_bytes(bytes.as_ref().try_into().ok()?))
}

fn shift(parameter: &mut Parameter, to: impl Fn(u64) -> Option<u64>) {
    if let Some(number) = number(parameter).and_then(to) {
        let bytes = number.to_le_bytes().to_vec();
        parameter.tensor.residual = Residual::new(pickle::NAME, bytes.into());
    }
}

/// Opens the program of 2017: the topology, with inputs and outputs as metadata, because such programs have
/// no feed and fetch operators.
fn program(path: &Location, early: &pickle::Early, options: &OpenOptions) -> Result<Model> {
    let origin = path.display().to_string();
    let program = program::read(&early.program, &origin, &options.limits)?;
    let names = ["feed_var_names", "fetch_var_names"].into_iter().zip(&early.interface);
    let metadata = names
        .map(|(key, names)| (key.to_owned(), serde_json::Value::from(names.clone()).to_string()));
    let mut model = Model {
        format: "paddle-program-pickle".to_owned(),
        programs: program.into(),
        metadata: metadata.collect(),
        ..Model::default()
    };
    let what = "a program of 2017: its parameters are separate files, which were not read";
    model.report.warn(what);
    Ok(model)
}

/// Returns whether elements of this type may be those of another.
fn is_open(dtype: DType) -> bool {
    AS_INTEGERS.iter().any(|(_, integer)| *integer == dtype)
}

/// Returns the program of a pickle: the one with the same stem, or the only one in the directory.
fn program_beside(path: &Location) -> Result<Option<Location>> {
    let of_stem = ["pdmodel", "json"].map(|end| path.at(path.path().with_extension(end)));
    if let Some(program) = Location::existing(of_stem).next() {
        return Ok(Some(program?));
    }
    let directory = path.directory();
    let entries = directory.list_if_possible()?;
    let program = detect::program_in(&directory, &entries).ok().flatten();
    let name = program.map(|program| program.name);
    let name = name.or_else(|| detect::pir_in(&directory, &entries));
    Ok(name.map(|name| directory.join(name)))
}

/// Reads a program, and returns its file and the element types of its variables by name.
fn types(program: &Location, options: &OpenOptions) -> Result<(Blob, HashMap<String, DType>)> {
    let blob = options.file(program)?;
    let types = types_in(&read_program(program, &blob, options)?);
    Ok((blob, types))
}

/// Returns the element types of the variables of a program.
pub(super) fn types_in(program: &Program) -> HashMap<String, DType> {
    let typed =
        program.vars().filter_map(|var| Some((var.name.clone(), var.value.tensor_type()?.dtype)));
    typed.collect()
}

/// Gives tensors that are pickled as integers the types of their variables; returns the names
/// of those that are declared as integers.
fn retype(model: &mut Model, types: &HashMap<String, DType>) -> HashSet<String> {
    let table: HashMap<String, String> = model
        .metadata
        .get(TABLE)
        .and_then(|table| serde_json::from_str(table).ok())
        .unwrap_or_default();
    let mut confirmed = HashSet::new();
    for Parameter { name, tensor } in &mut model.parameters {
        let variable = table.get(name).unwrap_or(name);
        let Some(dtype) = types.get(variable).filter(|_| is_open(tensor.dtype)) else { continue };
        if AS_INTEGERS.contains(&(*dtype, tensor.dtype)) {
            tensor.dtype = *dtype;
        } else if *dtype == tensor.dtype {
            confirmed.insert(name.clone());
        }
    }
    confirmed
}

//! Adapts a model to a format that cannot represent all of it, and records the losses.
//!
//! A program that a format cannot hold is a loss, as any other. In the opposite direction, tensors that a format for
//! programs alone does not hold are only a warning.

use std::collections::BTreeMap;

use lodstone_formats::{Format, Holds, ShardFormat, Writes};
use lodstone_model::{DType, Kind, Lod, Loss, Model, Parameter, Programs, Report, some};
use lodstone_schema::weights;

use crate::{Error, Result, sparse};

/// The target that a model must fit: a format, or arrays in memory.
#[derive(Clone, Copy)]
pub(crate) struct Container {
    name: &'static str,
    holds: Holds,
    /// Whether models are only written back unchanged, with all of their programs.
    is_unedited: bool,
}

impl From<&Format> for Container {
    fn from(format: &Format) -> Self {
        Self {
            name: format.name,
            holds: format.holds,
            is_unedited: format.writes == Writes::Unedited,
        }
    }
}

impl From<&ShardFormat> for Container {
    fn from(format: &ShardFormat) -> Self {
        Self { name: format.name, holds: format.holds, is_unedited: false }
    }
}

/// Named arrays of numbers or strings.
const ARRAYS: Container = Container {
    name: "a dictionary of arrays",
    is_unedited: false,
    holds: Holds {
        tensors: true,
        metadata: true,
        program: None,
        startup: false,
        names: true,
        unnamed: true,
        lod: false,
        selected_rows: false,
        sparse: false,
        coo: false,
        strings: true,
        vocabulary: true,
        dtype: |_| true,
        stand_in: |_| None,
    },
};

/// Returns the tensors of a model as named plain arrays, which cannot represent LoD or sparse tensors. With the losses
/// allowed, the parts of a sparse tensor are separate arrays, as in a conversion to a format without sparse tensors.
///
/// # Errors
/// [`Error::Lossy`] if something would be lost that is not allowed; errors of reading indices.
pub fn arrays(model: &Model, allow: &[Loss]) -> Result<Model> {
    let mut report = Report::default();
    let parameters = weights(model).into_owned();
    let mut arrays = Model { programs: Programs::default(), parameters, ..model.clone() };
    fit(&mut arrays, ARRAYS, &mut report)?;
    check_allowed(&report, allow)?;
    Ok(arrays)
}

/// Fails if a report has losses that are not allowed.
pub(crate) fn check_allowed(report: &Report, allow: &[Loss]) -> Result<()> {
    let mut refused: BTreeMap<Loss, Vec<String>> = report.losses.clone();
    refused.retain(|loss, _| !allow.contains(loss));
    if refused.is_empty() { Ok(()) } else { Err(Error::Lossy(refused)) }
}

/// Returns the tensors without elements of their own whose parts are tensors beside them, each with its parts: `w` with
/// `w._local_tensor`.
pub fn composed(parameters: &[Parameter]) -> BTreeMap<&str, Vec<&str>> {
    let is_absent = |parameter: &&Parameter| matches!(parameter.tensor.kind, Kind::Absent);
    let absent = parameters.iter().filter(is_absent);
    let mut composed: BTreeMap<&str, Vec<&str>> =
        absent.map(|parameter| (&*parameter.name, Vec::new())).collect();
    if composed.is_empty() {
        return composed;
    }
    for part in parameters.iter().filter(|parameter| !is_absent(parameter)) {
        for (dot, _) in part.name.match_indices('.') {
            if let Some(parts) = part.name.get(..dot).and_then(|whole| composed.get_mut(whole)) {
                parts.push(&part.name);
            }
        }
    }
    composed.retain(|_, parts| !parts.is_empty());
    composed
}

/// Removes tensors that only consist of others.
fn drop_composed(parameters: &mut Vec<Parameter>, report: &mut Report) {
    let wrappers: Vec<String> = composed(parameters).into_keys().map(str::to_owned).collect();
    if wrappers.is_empty() {
        return;
    }
    let is_absent = |parameter: &Parameter| matches!(parameter.tensor.kind, Kind::Absent);
    parameters.retain(|of| !is_absent(of) || !wrappers.contains(&of.name));
    let names = some(wrappers.iter().map(|name| format!("`{name}`")));
    report
        .warn(format!("tensors that only consist of others were written as their parts: {names}"));
}

/// Changes `model` so that `format` can represent it.
///
/// # Errors
/// Errors of reading indices.
pub(crate) fn fit(
    model: &mut Model,
    format: impl Into<Container>,
    report: &mut Report,
) -> Result<()> {
    let format = &format.into();
    let holds = &format.holds;
    let is_back = format.name == model.format && format.is_unedited;
    let programs = std::mem::take(&mut model.programs);
    for (program_name, program) in programs {
        let is_main = program_name == Programs::MAIN;
        let is_startup = program_name == Programs::STARTUP && holds.startup;
        if (is_main || is_startup || is_back) && holds.program.is_some() {
            model.programs.insert(&program_name, program);
            continue;
        }
        let count = program.ops().count();
        let operators = if count == 1 { "operator" } else { "operators" };
        let which = if is_main { String::new() } else { format!(" `{program_name}`") };
        report.lose(Loss::Program, format!("the program{which} ({count} {operators})"));
    }
    if !holds.tensors && !model.parameters.is_empty() {
        let (name, count) = (format.name, model.parameters.len());
        let tensors = if count == 1 { "tensor was" } else { "tensors were" };
        report.warn(format!("{count} {tensors} not written: {name} holds programs only"));
        model.parameters.clear();
    }
    name(model, format, report);
    // A file in the same format keeps its metadata.
    let same = format.name == model.format && !model.residual.is_empty();
    if !holds.metadata && !same {
        let mut lost = std::mem::take(&mut model.metadata);
        // Hugging Face libraries write this into every file: the framework of the tensors.
        lost.retain(|key, value| (key.as_str(), value.as_str()) != ("format", "pt"));
        lost.into_keys().for_each(|key| report.lose(Loss::Metadata, format!("`{key}`")));
    }
    let mut parameters = std::mem::take(&mut model.parameters);
    if !same {
        drop_composed(&mut parameters, report);
    }
    let numbered = parameters.iter().enumerate();
    let absent = numbered.filter(|(_, of)| matches!(of.tensor.kind, Kind::Absent));
    let absent: Vec<String> = absent.map(|(number, of)| place(&of.name, number)).collect();
    if !absent.is_empty() && !same {
        report.warn(format!(
            "tensors without elements are written without elements: {}",
            some(&absent)
        ));
    }
    for (number, Parameter { name, mut tensor }) in parameters.into_iter().enumerate() {
        let place = || place(&name, number);
        if !tensor.lod.is_empty() && !holds.lod {
            report.lose(Loss::Lod, place());
            tensor.lod = Lod::default();
        }
        let loss = match tensor.kind {
            Kind::Vocabulary { .. } if !holds.vocabulary => Some(Loss::Vocabulary),
            Kind::Strings { .. } if !holds.strings => Some(Loss::Strings),
            _ => None,
        };
        if let Some(loss) = loss {
            report.lose(loss, place());
            continue;
        }
        if !keeps(&tensor.kind, holds) {
            sparse::translate(&mut tensor, holds)?;
        }
        let mut parts = Vec::new();
        if !keeps(&tensor.kind, holds) {
            let selected = matches!(tensor.kind, Kind::SelectedRows { .. });
            let loss = if selected { Loss::SelectedRows } else { Loss::Sparse };
            report.lose(loss, place());
            let (key, value);
            (key, value, parts) = sparse::take_apart(&mut tensor);
            if holds.metadata {
                model.metadata.insert(format!("{name}.{key}"), value);
            }
        }
        // If the format has no code for the type of a tensor that was read from it, the type was recorded elsewhere,
        // and the bits are written back as they were.
        let is_recorded_elsewhere = tensor.residual.of(format.name).is_some();
        if matches!(tensor.kind, Kind::Dense)
            && !(holds.dtype)(tensor.dtype)
            && !is_recorded_elsewhere
            && let Some((dtype, pair)) = stand_in(tensor.dtype, holds)
        {
            report.lose(Loss::DType, place());
            tensor.dtype = dtype;
            tensor.shape.extend(pair.then_some(2));
        }
        let parts = parts
            .into_iter()
            .map(|(part, tensor)| Parameter { name: format!("{name}.{part}"), tensor })
            .collect::<Vec<_>>();
        model.parameters.push(Parameter { name, tensor });
        model.parameters.extend(parts);
    }
    Ok(())
}

/// Returns whether a format can represent a kind of tensor, vocabularies aside.
fn keeps(kind: &Kind, holds: &Holds) -> bool {
    match kind {
        Kind::SelectedRows { .. } => holds.selected_rows,
        Kind::RowSparse { .. } | Kind::Csr { .. } => holds.sparse,
        Kind::Coo { .. } => holds.coo,
        _ => true,
    }
}

/// Adds names if the format requires them; drops names if it has no field for them.
fn name(model: &mut Model, format: &Container, report: &mut Report) {
    if !format.holds.names {
        // A file in the same format never had them: they came from a program beside it.
        if format.name != model.format {
            let named = model.parameters.iter().filter(|parameter| !parameter.name.is_empty());
            named.for_each(|parameter| report.lose(Loss::Names, format!("`{}`", parameter.name)));
        }
        return;
    }
    // A model of the same format may hold a tensor without a name.
    let is_same_format = format.name == model.format && !model.files.is_empty();
    let list = format.holds.unnamed && model.parameters.iter().all(|p| p.name.is_empty());
    if is_same_format || list {
        return;
    }
    let mut count = 0;
    for (index, parameter) in model.parameters.iter_mut().enumerate() {
        if parameter.name.is_empty() {
            parameter.name = index.to_string();
            count += 1;
        }
    }
    if count > 0 {
        report.warn(format!("tensors without a name are named by their index: {count}"));
    }
}

/// Returns the label of a tensor in reports.
pub(crate) fn place(name: &str, number: usize) -> String {
    if name.is_empty() { format!("#{number}") } else { format!("`{name}`") }
}

/// Returns the element type that can hold the bits of another, and whether an element becomes a
/// pair.
fn stand_in(dtype: DType, holds: &Holds) -> Option<(DType, bool)> {
    if let Some(own) = (holds.stand_in)(dtype) {
        return Some((own, false));
    }
    Some(match dtype {
        DType::Complex128 => (DType::Float64, true),
        DType::Complex64 => (DType::Float32, true),
        DType::Complex32 => (DType::Float16, true),
        DType::BFloat16 => (DType::Uint16, false),
        dtype if dtype.is_float() && dtype.bits() == Some(8) => (DType::Uint8, false),
        _ => return None,
    })
}

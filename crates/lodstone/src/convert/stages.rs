//! The stages of a conversion: each reads its options, and applies operations to the draft.

use lodstone_formats::{Error as FormatError, Writes};
use lodstone_lowering::LowerOptions;
use lodstone_model::Programs;

use super::draft::Draft;
use super::{ParameterNames, Request};
use crate::{Error, Result, outputs, shapes};

fn invalid<T>(option: &'static str, why: impl Into<String>) -> Result<T> {
    Err(Error::InvalidOption { option, why: why.into() })
}

/// Refuses options of writing that the format does not have, and models of other formats where it holds shards.
pub(super) fn check_options(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    let (format, write) = (request.format, &request.options.write);
    let is_other = format.writes != Writes::All && draft.model().format != format.name;
    if is_other && format.shards.is_some() {
        return Err(Error::Shards { format: format.name });
    }
    for (option, feature, is_requested, is_supported) in [
        ("max_shard_size", "shards", write.max_shard_size.is_some(), format.splits),
        ("align", "alignment", write.align > 1, format.aligns),
        ("external_data", "external data", write.external_data.is_some(), format.externals),
    ] {
        if is_requested && !is_supported {
            return invalid(option, format!("{} does not support {feature}", format.name));
        }
    }
    Ok(())
}

pub(super) fn use_structured_names(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    match request.options.names {
        ParameterNames::Program => Ok(()),
        ParameterNames::Structured => draft.use_structured_names(),
    }
}

/// Collects the tensors of a program that is not written.
pub(super) fn drop_program(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    let is_dropped = request.options.weights_only;
    if is_dropped || request.format.holds.program.is_none() {
        draft.collect_weights();
    }
    if is_dropped && request.is_same() {
        let why = "cannot remove the program from a byte-for-byte copy: pass another format";
        return invalid("weights_only", why);
    }
    if is_dropped {
        draft.drop_program();
    }
    Ok(())
}

/// Declares types and shapes of inputs, and makes inputs constants.
pub(super) fn fix_inputs(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    let (model, options) = (draft.edit(), request.options);
    shapes::fix_types(model, &options.input_types)?;
    shapes::fix_shapes(model, &options.input_shapes)?;
    shapes::fix_inputs(model, &options.input_values)
}

/// Makes values the outputs of the program, and removes what they do not depend on.
pub(super) fn select_outputs(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    let (outputs, format) = (&request.options.outputs, request.format);
    if !outputs.is_empty() && format.holds.program.is_none() {
        let why = format!("cannot select outputs: {} does not hold programs", format.name);
        return invalid("outputs", why);
    }
    outputs::select_outputs(draft.edit(), outputs)
}

/// Lowers the program to the dialect of the format, if the format holds programs.
pub(super) fn translate(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    let Some(to) = request.format.holds.program else { return Ok(()) };
    let options = request.options;
    let is_exported = draft.exports_to(to);
    for (option, is_set) in
        [("custom_domain", options.custom_domain.is_some()), ("lod", !options.lod.is_empty())]
    {
        if is_set && !is_exported {
            return invalid(option, "custom operators and LoD are options of an export to ONNX");
        }
    }
    let lowering = LowerOptions::default()
        .with_custom_domain(options.custom_domain.clone())
        .with_lod(options.lod.clone());
    draft.translate(to, &lowering)?;
    match draft.model().main() {
        Some(program) if program.dialect != to => {
            let format = request.format.name;
            Err(Error::NoLowering { from: program.dialect, format })
        }
        _ if is_exported => draft.simplify_export(),
        _ => Ok(()),
    }
}

pub(super) fn set_opset(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    let (format, opset) = (request.format, request.options.opset);
    if opset.is_some() && format.holds.program.is_none() {
        let why = format!("cannot set the opset version: {} does not hold programs", format.name);
        return invalid("opset", why);
    }
    draft.set_opset(opset)
}

pub(super) fn cast_program(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    let options = request.options;
    match options.cast.filter(|_| draft.has_program_for(request.format)) {
        Some(to) => draft.cast_program(to, options.keep_io),
        None if options.keep_io => {
            invalid("keep_io", "only a cast of a program keeps the types of inputs and outputs")
        }
        None => Ok(()),
    }
}

/// Refuses tensors without a program for a format that has another one for them.
pub(super) fn check_program(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    let format = request.format;
    let is_alone = draft.model().programs == Programs::default() && !request.is_same();
    match format.alone.filter(|_| is_alone) {
        Some(alone) => Err(FormatError::NoProgram { format: format.name, alone }.into()),
        None => Ok(()),
    }
}

pub(super) fn infer_shapes(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    if request.options.infer_shapes { draft.declare_types() } else { Ok(()) }
}

pub(super) fn select(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    draft.select(&request.options.include, &request.options.exclude)
}

pub(super) fn transpose(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    let patterns = &request.options.transpose;
    if !patterns.is_empty() && draft.has_program_for(request.format) {
        let why = "transposing the parameters of a program is not supported: its operators would not accept them";
        return invalid("transpose", why);
    }
    draft.transpose(patterns)
}

pub(super) fn rename(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    let renames = &request.options.renames;
    if !renames.is_empty() && draft.rename(renames)? == 0 {
        draft.warn("the name map matches no tensor");
    }
    Ok(())
}

/// Refuses a program without parameters for a format of tensors.
pub(super) fn check_tensors(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    let model = draft.model();
    let has_program = model.main().is_some();
    if has_program && model.parameters.is_empty() && request.format.holds.program.is_none() {
        let why = "the model is a program without parameters: there are no tensors to write";
        return invalid("to", why);
    }
    Ok(())
}

/// Removes references to the training script; only a copy in the same format keeps them by default.
pub(super) fn strip_source(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    if request.options.strip_source || !request.is_same() {
        draft.strip_source(request.format);
    }
    Ok(())
}

/// Casts tensors that are written without a program.
pub(super) fn cast_tensors(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    match request.options.cast.filter(|_| !draft.has_program_for(request.format)) {
        Some(to) => draft.cast_tensors(to),
        None => Ok(()),
    }
}

/// Removes what the format cannot hold.
pub(super) fn fit(draft: &mut Draft, request: &Request<'_>) -> Result<()> {
    draft.fit(request.format)
}

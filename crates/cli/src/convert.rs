//! `lodstone convert`.

use std::collections::BTreeMap;

use lodstone::{
    Conversion, ConvertOptions, DType, ExternalData, ParameterNames, Progress, Renames, Target,
};
use serde::Serialize;

use crate::args::Convert;
use crate::console::{self, count, plain, size};
use crate::stores::{Output, at};
use crate::{Failure, progress};

pub(crate) fn run(arguments: &Convert) -> Result<(), Failure> {
    let model = lodstone::open_with(at(&arguments.input)?, &arguments.open.options()?)?;
    console::opened(&arguments.input, &model);
    let from = model.format.clone();
    let to = arguments.to.clone().map(|name| match name.as_str() {
        "same" => Target::Same,
        _ => Target::Format(name),
    });
    let progress = Progress::default();
    let options = ConvertOptions::default()
        .with_to(to)
        .with_include(arguments.include.clone())
        .with_exclude(arguments.exclude.clone())
        .with_renames(
            arguments.rename.as_deref().map(Renames::load).transpose()?.unwrap_or_default(),
        )
        .with_names(match arguments.names.as_str() {
            "structured" => ParameterNames::Structured,
            _ => ParameterNames::Program,
        })
        .with_transpose(arguments.transpose.clone())
        .with_keep_io(arguments.keep_io)
        .with_cast(arguments.cast.as_deref().and_then(DType::from_name))
        .with_opset(arguments.opset)
        .with_input_shapes(arguments.input_shape.clone())
        .with_infer_shapes(arguments.infer_shapes)
        .with_allow(arguments.allow.losses())
        .with_weights_only(arguments.weights_only)
        .with_strip_source(arguments.strip_source)
        .with_write(
            arguments
                .clobber
                .options()
                .with_align(arguments.align)
                .with_external_data(arguments.external_data.as_deref().map(|how| match how {
                    "one" => ExternalData::One,
                    "each" => ExternalData::Each,
                    _ => ExternalData::Inside,
                }))
                .with_max_shard_size(arguments.max_shard_size)
                .with_seal(arguments.seal)
                .with_progress(progress.clone()),
        );
    let total = model.nbytes();
    progress::cancel_on_interrupt(&progress)?;
    let output = Output::at(&arguments.output)?;
    let convert = || lodstone::convert(model, output.location(), &options);
    let conversion = progress::show(&progress, Some(total), convert)?;
    finish(&from, &conversion, &output, arguments.json)
}

/// Reports a conversion, and copies the result to standard output if that is the output.
pub(crate) fn finish(
    from: &str,
    conversion: &Conversion,
    output: &Output,
    json: bool,
) -> Result<(), Failure> {
    console::report(&conversion.report);
    if json {
        output.finish(&conversion.files, "")?;
        return match output {
            Output::Path(_) => console::json(&Converted::of(from, conversion)),
            Output::Standard(_) => Ok(()),
        };
    }
    let tensors = count(conversion.tensors, "tensor");
    let nbytes = size(conversion.nbytes);
    let mut done = format!("{from} -> {}: {tensors}, {nbytes}\n", conversion.format);
    match conversion.files.as_slice() {
        [first, .., last] if conversion.files.len() > 4 => {
            let number = count(conversion.files.len(), "file");
            let [first, last] = [first, last].map(|file| plain(&file.display().to_string()));
            done += &format!("wrote {number}: {first} .. {last}\n");
        }
        files => {
            for file in files {
                done += &format!("wrote {}\n", plain(&file.display().to_string()));
            }
        }
    }
    output.finish(&conversion.files, &done)
}

/// A conversion as JSON.
#[derive(Serialize)]
struct Converted<'a> {
    /// Version of this structure.
    schema: u32,
    from: &'a str,
    to: &'a str,
    tensors: usize,
    nbytes: u64,
    files: Vec<String>,
    /// The affected tensors and other locations, by name of the loss.
    losses: BTreeMap<String, &'a [String]>,
    warnings: &'a [String],
}

impl<'a> Converted<'a> {
    fn of(from: &'a str, conversion: &'a Conversion) -> Self {
        let losses = conversion.report.losses.iter();
        Self {
            schema: 1,
            from,
            to: conversion.format,
            tensors: conversion.tensors,
            nbytes: conversion.nbytes,
            files: conversion.files.iter().map(|file| file.display().to_string()).collect(),
            losses: losses.map(|(loss, places)| (loss.to_string(), places.as_slice())).collect(),
            warnings: &conversion.report.warnings,
        }
    }
}

//! `lodstone convert`.

pub(crate) mod args;
mod list;

use std::collections::BTreeMap;
use std::path::Path;

use lodstone::convert::{Conversion, ExternalData, ParameterNames};
use lodstone::run::Engine;
use lodstone::{CompareOptions, ConvertOptions, Inputs, Model, Progress, Target};
use serde::Serialize;

use self::args::Convert;
use crate::console::{self, count, plain, size};
use crate::run::{inputs, level};
use crate::stores::{Output, at};
use crate::{Failure, progress};

/// Converts a model or the models of a list; with `--check`, reports whether the outputs of the result agree.
pub(crate) fn run(arguments: &Convert) -> Result<bool, Failure> {
    match (&arguments.input, &arguments.output) {
        (Some(input), Some(output)) => one(arguments, input, output),
        _ => list::run(arguments),
    }
}

/// Returns the options of a conversion.
fn options(arguments: &Convert, progress: &Progress) -> Result<ConvertOptions, Failure> {
    let to = arguments.to.clone().map(|name| match name.as_str() {
        "same" => Target::Same,
        _ => Target::Format(name),
    });
    Ok(arguments
        .interface
        .add_to(ConvertOptions::default())
        .with_to(to)
        .with_include(arguments.include.clone())
        .with_exclude(arguments.exclude.clone())
        .with_renames(arguments.renaming.renames()?)
        .with_names(match arguments.names.as_str() {
            "structured" => ParameterNames::Structured,
            _ => ParameterNames::Program,
        })
        .with_transpose(arguments.transpose.clone())
        .with_keep_io(arguments.keep_io)
        .with_cast(arguments.cast)
        .with_opset(arguments.opset)
        .with_custom_domain(arguments.custom_ops.clone())
        .with_lod(arguments.lod.iter().map(|given| level(given)).collect::<Result<_, _>>()?)
        .with_outputs(arguments.outputs.clone())
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
        ))
}

fn one(arguments: &Convert, input: &Path, path: &Path) -> Result<bool, Failure> {
    let model = lodstone::open_with(at(input)?, &arguments.open.options()?)?;
    console::opened(input, &model);
    let (from, total) = (model.format.clone(), model.nbytes());
    let warnings = model.report.warnings.clone();
    let progress = Progress::default();
    let options = options(arguments, &progress)?;
    progress::cancel_on_interrupt(&progress)?;
    let output = Output::at(path)?;
    if arguments.check && matches!(output, Output::Standard(_)) {
        return Err("the result of a conversion to standard output cannot be checked".into());
    }
    let fixed = |mut source: Model| {
        arguments.interface.fix(&mut source)?;
        lodstone::convert::select_outputs(&mut source, &arguments.outputs)?;
        Ok::<_, Failure>(source)
    };
    let source = arguments.check.then(|| fixed(model.clone())).transpose()?;
    let convert = || lodstone::convert(model, output.location(), &options);
    // A conversion that fails has no report: what was found when the model was opened may be the reason.
    let conversion = progress::show(&progress, Some(total), convert)
        .inspect_err(|_| console::warnings(&warnings))?;
    finish(&from, &conversion, &output, arguments.json)?;
    source.map_or(Ok(true), |source| check(arguments, &source, path))
}

/// Compares the outputs of the source of a conversion with those of the result, computed by the built-in engine, and by
/// ONNX Runtime if it is installed. Random inputs have two sizes for each dynamic dim.
fn check(arguments: &Convert, source: &Model, path: &Path) -> Result<bool, Failure> {
    let result = lodstone::open(at(path)?)?;
    let inputs = inputs(&arguments.check_input, &arguments.lod)?;
    let mut agree = true;
    for (inputs, added) in inputs.with_random(source, 0, &[])? {
        for added in added {
            console::note(&format!("random input {added}"));
        }
        agree &= check_with(arguments, source, &result, &inputs)?;
    }
    Ok(agree)
}

fn check_with(
    arguments: &Convert,
    source: &Model,
    result: &Model,
    inputs: &Inputs,
) -> Result<bool, Failure> {
    let mut agree = true;
    for (engine, name) in
        [(Engine::Builtin, "built-in engine"), (Engine::OnnxRuntime, "ONNX Runtime")]
    {
        let options = CompareOptions::default().with_outputs_only(true).with_engine_b(Some(engine));
        let found = match lodstone::compare(source, result, inputs.clone(), &options) {
            Err(error @ lodstone::Error::OnnxRuntime(_)) if engine == Engine::OnnxRuntime => {
                console::note(&format!("not checked with ONNX Runtime: {error}"));
                continue;
            }
            found => found?,
        };
        agree &= found.same;
        let verdict = if found.same { "agree" } else { "differ" };
        let mut text = format!("outputs {verdict} with those of the source, by {name}\n");
        for value in &found.values {
            let error = match (&value.mismatch, &value.errors) {
                (Some(mismatch), _) => mismatch.clone(),
                (None, Some(errors)) => format!("max error {:.3e}", errors.max_abs),
                (None, None) => "no elements".to_owned(),
            };
            text += &format!("  {}: {}\n", plain(&value.a), plain(&error));
        }
        match arguments.json {
            true => console::details(text.as_bytes()),
            false => console::summary(&text)?,
        }
    }
    Ok(agree)
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
    let opset = conversion.opset.map(|opset| format!(", opset {opset}")).unwrap_or_default();
    let mut done = format!("{from} -> {}: {tensors}, {nbytes}{opset}\n", conversion.format);
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
    /// The opset version, of exported programs and where one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    opset: Option<i64>,
    files: Vec<String>,
    /// The affected tensors and other locations, by name of the loss.
    losses: BTreeMap<String, &'a [String]>,
    warnings: &'a [String],
    #[cfg(feature = "remote")]
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<crate::remote::Counts>,
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
            opset: conversion.opset,
            files: conversion.files.iter().map(|file| file.display().to_string()).collect(),
            losses: losses.map(|(loss, places)| (loss.to_string(), places.as_slice())).collect(),
            warnings: &conversion.report.warnings,
            #[cfg(feature = "remote")]
            stats: crate::remote::counts(),
        }
    }
}

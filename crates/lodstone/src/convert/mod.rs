//! Conversion of a model to any format that can represent it, and lossless writing in its own format.
//!
//! A program is translated to the operators of the target, tensors are selected, cast and renamed, and the model is
//! fitted to the target (`fit.rs`, which finds losses) and written.

use std::path::PathBuf;

use lodstone_formats::{
    Error as FormatError, FORMATS, Format, SealEntry, WriteOptions, seal_entries,
};
use lodstone_lowering::{LowerOptions, is_rewritten, lower_with};
use lodstone_model::{
    AttributeValue, DType, Dialect, Dim, Loss, Model, Programs, Report, Tensor, some,
};
use lodstone_schema::onnx::UpgradeError;
use lodstone_schema::onnx::downgrade::Target as OpsetTarget;
use lodstone_schema::{Finding, conventions, onnx, weights};
use lodstone_store::Location;

use crate::adapt::{Renames, globs, transpose};
use crate::cast::Caster;
use crate::fit::{check_allowed, fit, place};
use crate::infer::infer_shapes;
use crate::seal::{Broken, break_seals, follow_link};
use crate::shapes::{fix_inputs, fix_shapes, fix_types};
use crate::simplify::simplify;
use crate::{Error, Result};

/// The options of a conversion.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// The target format; by default, it follows from the name of the output.
    pub to: Option<Target>,
    /// Patterns of the names of tensors to keep; all by default.
    pub include: Vec<String>,
    /// Patterns of the names of tensors to drop.
    pub exclude: Vec<String>,
    /// The kind of tensor names to use; all patterns match these.
    pub names: ParameterNames,
    /// New names of tensors, applied after every option that refers to the old names.
    pub renames: Renames,
    /// Patterns of the names of matrices to transpose.
    pub transpose: Vec<String>,
    /// Element type for floating-point tensors.
    pub cast: Option<DType>,
    /// Whether the inputs and outputs of a program that is cast keep their types.
    pub keep_io: bool,
    /// The opset version of the written ONNX program; by default, its own, or for a program that is exported to ONNX,
    /// 17, or the lowest one after it that its operators need.
    pub opset: Option<i64>,
    /// The domain in which operators without an equivalent are kept when a program is exported to ONNX.
    pub custom_domain: Option<String>,
    /// LoD levels of inputs of a program that is exported to ONNX, with their names, outermost first: they
    /// become constants.
    pub lod: Vec<(String, Vec<u64>)>,
    /// The shapes of inputs of a program, by name: known dims fix dynamic ones. Where a program does not declare the shape
    /// of an input, unknown dims and symbols declare its rank.
    pub input_shapes: Vec<(String, Vec<Dim>)>,
    /// The element types of inputs of a program that does not declare them, by name.
    pub input_types: Vec<(String, DType)>,
    /// Values of inputs that are declared as numbers, such as `rate: int`: they become constants of the
    /// program, and what depends on them, such as a branch, is decided.
    pub input_values: Vec<(String, AttributeValue)>,
    /// Whether to declare the [inferred types](crate::infer_shapes) of all values of an ONNX program.
    pub infer_shapes: bool,
    /// Losses that are allowed.
    pub allow: Vec<Loss>,
    /// Whether to write the tensors without the program, even if the format can represent it.
    pub weights_only: bool,
    /// Removes references to the training script from operators; only [`Target::Same`] keeps them.
    pub strip_source: bool,
    /// The write options; `to` determines whether the original file layout is kept.
    pub write: WriteOptions,
}

lodstone_model::with_fields!(ConvertOptions {
    with_to(to: Option<Target>),
    with_include(include: Vec<String>),
    with_exclude(exclude: Vec<String>),
    with_names(names: ParameterNames),
    with_renames(renames: Renames),
    with_transpose(transpose: Vec<String>),
    with_cast(cast: Option<DType>),
    with_keep_io(keep_io: bool),
    with_opset(opset: Option<i64>),
    with_custom_domain(custom_domain: Option<String>),
    with_lod(lod: Vec<(String, Vec<u64>)>),
    with_input_shapes(input_shapes: Vec<(String, Vec<Dim>)>),
    with_input_types(input_types: Vec<(String, DType)>),
    with_input_values(input_values: Vec<(String, AttributeValue)>),
    with_infer_shapes(infer_shapes: bool),
    with_allow(allow: Vec<Loss>),
    with_weights_only(weights_only: bool),
    with_strip_source(strip_source: bool),
    with_write(write: WriteOptions),
});

/// The target format of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The format of the source model, byte for byte.
    Same,
    /// The format with this name.
    Format(String),
}

/// The kind of tensor names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterNames {
    /// The names of the variables of the program.
    #[default]
    Program,
    /// The structured names that layers use, where files record them: `conv1.weight`.
    Structured,
}

/// The result of a conversion.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// The format that was written.
    pub format: &'static str,
    /// The files that were written.
    pub files: Vec<PathBuf>,
    /// The number of tensors in them.
    pub tensors: usize,
    /// The size of their elements in bytes.
    pub nbytes: u64,
    /// The opset version of an ONNX program that was exported, or written with a requested version.
    pub opset: Option<i64>,
    /// Warnings, and the losses that were allowed.
    pub report: Report,
}

/// Writes a model.
///
/// # Errors
/// [`Error::Lossy`] if the conversion would lose something that is not allowed; then nothing is written.
/// Other errors if the format cannot represent the model, or reading or writing fails.
pub fn convert(
    mut model: Model,
    out: impl Into<Location>,
    options: &ConvertOptions,
) -> Result<Conversion> {
    let out = out.into();
    let format = target_format(&model, &out, options.to.as_ref())?;
    for (option, feature, is_requested, is_supported) in [
        ("max_shard_size", "shards", options.write.max_shard_size.is_some(), format.splits),
        ("align", "alignment", options.write.align > 1, format.aligns),
        ("external_data", "external data", options.write.external_data.is_some(), format.externals),
    ] {
        if is_requested && !is_supported {
            return invalid(option, format!("{} does not support {feature}", format.name));
        }
    }
    let mut report = Report { warnings: model.report.warnings.clone(), ..Report::default() };
    if options.names == ParameterNames::Structured {
        use_structured_names(&mut model, &mut report)?;
    }
    if options.weights_only || format.holds.program.is_none() {
        if let Some(program) = model.main() {
            report.warnings.extend((conventions(program).unused_values)(&model));
        }
        model.parameters = weights(&model).into_owned();
    }
    if options.weights_only {
        drop_program(&mut model, options)?;
    }
    fix_types(&mut model, &options.input_types)?;
    fix_shapes(&mut model, &options.input_shapes)?;
    fix_inputs(&mut model, &options.input_values)?;
    let is_exported = translate(&mut model, format, options, &mut report)?;
    let opset = set_opset(&mut model, format, options, is_exported)?;
    let is_program = model.main().is_some() && format.holds.program.is_some();
    if let Some(dtype) = options.cast.filter(|_| is_program) {
        cast_program(&mut model, dtype, options.keep_io, &mut report)?;
    } else if options.keep_io {
        return invalid(
            "keep_io",
            "only a cast of a program keeps the types of inputs and outputs",
        );
    }
    if let Some(alone) = format.alone
        && model.programs == Programs::default()
        && options.to != Some(Target::Same)
    {
        return Err(FormatError::NoProgram { format: format.name, alone }.into());
    }
    if options.infer_shapes {
        report.warnings.extend(infer_shapes(&mut model)?.warnings);
    }
    select(&mut model, options)?;
    adapt(&mut model, format, options, &mut report)?;
    if model.main().is_some() && model.parameters.is_empty() && format.holds.program.is_none() {
        let why = "the model is a program without parameters: there are no tensors to write";
        return invalid("to", why);
    }
    if let Some(program) = model.main_mut()
        && (options.strip_source || options.to != Some(Target::Same))
    {
        let conventions = conventions(program);
        let count = conventions.count_source(program);
        conventions.strip_source(program);
        if count > 0 && format.holds.program == Some(program.dialect) {
            report.warn(format!(
                "source lines of the training script were removed from {count} operators"
            ));
        }
    }
    if let Some(dtype) = options.cast.filter(|_| !is_program) {
        let mut caster = Caster::new(dtype)?;
        for (number, parameter) in model.parameters.iter_mut().enumerate() {
            if caster.cast(&mut parameter.tensor)? {
                report.lose(Loss::Rounding, place(&parameter.name, number));
            }
        }
    }
    fit(&mut model, format, &mut report)?;

    check_allowed(&report, &options.allow)?;
    let same = options.to == Some(Target::Same);
    if same && !model.are_structured_names_current() {
        report.warn("structured names were not written: parameters were renamed or removed");
    }
    let mut broken =
        if options.write.seal { follow_link(&out, &options.write.progress)? } else { Vec::new() };
    let written = format.write(&model, &out, &options.write.clone().with_same(same))?;
    let (tensors, nbytes) = (model.parameters.len(), model.nbytes());
    let mut unsealed: Vec<PathBuf> = written.unsealed.iter().map(Location::to_path_buf).collect();
    // The seal in the output directory was written with the files; one beside the target of a link is separate.
    let is_new = |place: &SealEntry| !written.through_link && place.is_in(&written.root);
    let places = written.files.iter().flat_map(seal_entries);
    let real = written.files.first().and_then(Location::link_target);
    let real = real.filter(|_| written.through_link && options.write.seal);
    let is_beside = |place: &SealEntry| {
        real.as_ref().and_then(Location::parent).is_some_and(|parent| place.is_in(&parent))
    };
    broken.extend(break_seals(places.filter(|place| !is_new(place) && !is_beside(place)))?);
    let missed = broken.into_iter().filter(Broken::is_missed);
    unsealed.extend(missed.map(|broken| broken.seal));
    for seal in unsealed {
        let what = "no longer holds checksums of the overwritten files";
        report.warn(format!("`{}` {what}", seal.display()));
    }
    let files = written.files.iter().map(Location::to_path_buf).collect();
    Ok(Conversion { format: format.name, files, tensors, nbytes, opset, report })
}

fn invalid<T>(option: &'static str, why: impl Into<String>) -> Result<T> {
    Err(Error::InvalidOption { option, why: why.into() })
}

/// Returns the format of `out`: the one of `to`, or the one of its extension.
///
/// # Errors
/// If there is no such format.
pub fn target_format(
    model: &Model,
    out: &Location,
    to: Option<&Target>,
) -> Result<&'static Format> {
    match to {
        Some(Target::Same) => lodstone_formats::named(&model.format).ok_or_else(|| {
            let why = format!("writing {} is not supported: pass another format", model.format);
            Error::InvalidOption { option: "to", why }
        }),
        Some(Target::Format(name)) => {
            lodstone_formats::named(name).ok_or_else(|| Error::UnknownFormat(name.to_owned()))
        }
        None => {
            let by_name = FORMATS.iter().find(|format| format.is_selected_by(out));
            by_name.copied().ok_or_else(|| Error::UnclearTarget(out.display().to_string()))
        }
    }
}

/// Renames parameters to their structured names.
fn use_structured_names(model: &mut Model, report: &mut Report) -> Result<()> {
    let names = std::mem::take(&mut model.structured_names);
    if names.is_empty() {
        let why = "no structured names are recorded beside the parameters (`X.pdiparams.info`)";
        return invalid("names", why);
    }
    let without = model.parameters.iter().filter(|of| !names.contains_key(&of.name));
    let without: Vec<String> = without.map(|of| format!("`{}`", of.name)).collect();
    if !without.is_empty() {
        let names = some(&without);
        report.warn(format!("parameters without a structured name keep their name: {names}"));
    }
    Renames::exact(names).apply(model)?;
    Ok(())
}

/// Removes the program, and keeps the tensors.
fn drop_program(model: &mut Model, options: &ConvertOptions) -> Result<()> {
    if options.to == Some(Target::Same) {
        let why = "cannot remove the program from a byte-for-byte copy: pass another format";
        return invalid("weights_only", why);
    }
    if std::mem::take(&mut model.programs) != Programs::default() {
        // The original file layout does not apply to these tensors.
        model.residual.clear();
    }
    Ok(())
}

/// Lowers the program to the dialect of the format, if the format holds programs. Returns whether it was exported to the
/// newest opset of ONNX.
fn translate(
    model: &mut Model,
    format: &Format,
    options: &ConvertOptions,
    report: &mut Report,
) -> Result<bool> {
    let Some(to) = format.holds.program else { return Ok(false) };
    let from = model.main().map(|program| program.dialect);
    let lowering = LowerOptions::default()
        .with_custom_domain(options.custom_domain.clone())
        .with_lod(options.lod.clone());
    let is_exported = from.is_some_and(is_rewritten) && to == Dialect::Onnx;
    for (option, is_set) in
        [("custom_domain", options.custom_domain.is_some()), ("lod", !options.lod.is_empty())]
    {
        if is_set && !is_exported {
            return invalid(option, "custom operators and LoD are options of an export to ONNX");
        }
    }
    lower_with(model, to, &lowering, report).transpose()?;
    match model.main() {
        Some(program) if program.dialect != to => {
            return Err(Error::NoLowering { from: program.dialect, format: format.name });
        }
        _ => {}
    }
    if is_exported {
        simplify(model)?;
    }
    Ok(is_exported)
}

/// The opset version that exported programs have, unless their operators need a newer one: the oldest that all current
/// runtimes read.
const EXPORTED_OPSET: i64 = 17;

/// Upgrades or downgrades the program to the requested opset; returns it.
fn set_opset(
    model: &mut Model,
    format: &Format,
    options: &ConvertOptions,
    is_exported: bool,
) -> Result<Option<i64>> {
    if options.opset.is_some() && format.holds.program.is_none() {
        let why = format!("cannot set the opset version: {} does not hold programs", format.name);
        return invalid("opset", why);
    }
    let target = match options.opset {
        Some(opset) => OpsetTarget::Exactly(opset),
        None if is_exported => OpsetTarget::From(EXPORTED_OPSET),
        None => return Ok(None),
    };
    if !is_exported && let Some(opset) = options.opset {
        match onnx::upgrade(model, opset) {
            Err(UpgradeError::Downgrade { .. }) => onnx::upgrade(model, onnx::NEWEST_OPSET)?,
            other => {
                other?;
                check_upgraded(model)?;
                return Ok(Some(opset));
            }
        }
    }
    // A run may replace initializers of other programs that are also inputs.
    let options = onnx::infer::Options::default().with_overridable(!is_exported);
    let inference = onnx::infer::infer(model, &options);
    let opset = onnx::downgrade(model, &inference, target)?;
    check_upgraded(model)?;
    Ok(Some(opset))
}

/// Fails if a program breaks rules after its opset was changed: an operator that the old version deprecates may exist in
/// the new one; all other findings remain.
fn check_upgraded(model: &Model) -> Result<()> {
    let Some(program) = model.main() else { return Ok(()) };
    let conventions = conventions(program);
    let inference = (conventions.infer)(model);
    let mut broken = (conventions.check)(model, inference.as_ref());
    broken.extend(inference.map(|inference| inference.findings).unwrap_or_default());
    match broken.breaks_rules() {
        true => Err(UpgradeError::Invalid(broken).into()),
        false => Ok(()),
    }
}

/// Casts the values of a program and its parameters.
fn cast_program(model: &mut Model, to: DType, keep_io: bool, report: &mut Report) -> Result<()> {
    if model.main().is_none_or(|program| program.dialect != Dialect::Onnx) {
        return Err(Error::CastProgram);
    }
    let mut caster = Caster::within(to)?;
    let mut change = |name: &str, tensor: &mut Tensor| {
        let is_rounded = caster.cast(tensor);
        if is_rounded.map_err(|error| Finding::from(error.to_string()))? {
            report.lose(Loss::Rounding, format!("`{name}`"));
        }
        Ok(())
    };
    let options = onnx::CastOptions::new(to).with_keep_io(keep_io);
    let kept = onnx::cast(model, options, &mut change);
    let kept = kept.map_err(|finding| Error::program("cannot cast", finding))?;
    if !kept.is_empty() {
        let kinds = kept.iter().map(|(kind, count)| format!("`{kind}` ({count})"));
        let what = format!("operators that do not take {to} keep their types");
        report.warn(format!("{what}: {}", some(kinds.collect::<Vec<_>>())));
    }
    let Some(program) = model.main() else { return Ok(()) };
    let conventions = conventions(program);
    let inference = (conventions.infer)(model);
    let mut findings = (conventions.check)(model, inference.as_ref());
    findings.extend(inference.map(|inference| inference.findings).unwrap_or_default());
    match findings.breaks_rules() {
        true => Err(Error::InvalidCast { to, findings }),
        false => Ok(()),
    }
}

/// Keeps the tensors that match the patterns.
fn select(model: &mut Model, options: &ConvertOptions) -> Result<()> {
    let include = globs(&options.include)?;
    let exclude = globs(&options.exclude)?;
    let before = model.parameters.len();
    model.parameters.retain(|parameter| {
        (include.is_empty() || include.is_match(&parameter.name))
            && !exclude.is_match(&parameter.name)
    });
    if before > 0 && model.parameters.is_empty() {
        let option = if options.include.is_empty() { "exclude" } else { "include" };
        return invalid(option, format!("the patterns match none of the {before} tensors"));
    }
    Ok(())
}

/// Transposes and renames tensors.
fn adapt(
    model: &mut Model,
    format: &Format,
    options: &ConvertOptions,
    report: &mut Report,
) -> Result<()> {
    if !options.transpose.is_empty() && model.main().is_some() && format.holds.program.is_some() {
        let why = "transposing the parameters of a program is not supported: its operators would not accept them";
        return invalid("transpose", why);
    }
    let transposed = transpose(model, &options.transpose)?;
    if transposed.others > 0 {
        let others = transposed.others;
        report.warn(format!("tensors not transposed because they are not matrices: {others}"));
    }
    if !options.renames.is_empty() && options.renames.apply(model)? == 0 {
        report.warn("the name map matches no tensor");
    }
    Ok(())
}

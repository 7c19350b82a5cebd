//! Division of a model into shards, as the processes of a distributed run save them.

use std::collections::BTreeMap;

use lodstone_checkpoint as checkpoint;
use lodstone_formats::{
    Planned, ShardFormat, Sharding, distributed, divided, replan, shard_formats,
};
use lodstone_model::{Loss, Model, Report};
use lodstone_schema::weights;
use lodstone_store::{Location, Progress};

use crate::adapt::globs;
use crate::fit::{check_allowed, fit};
use crate::{Error, Result};

/// The options of a resharding.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReshardOptions {
    /// The name of one of [`shard_formats`]; by default, that of the model, or safetensors.
    pub to: Option<String>,
    /// The number of shards; by default, that of the plan.
    pub shards: Option<usize>,
    /// Patterns of the names of tensors, and the axis along which these are divided; the last pattern that matches counts. By
    /// default, tensors are divided along their first axis. Safetensors holds whole tensors.
    pub axes: Vec<(String, usize)>,
    /// The chunks of tensors, by name; they replace those of the axes.
    pub plan: BTreeMap<String, Vec<Planned>>,
    /// Losses that are allowed.
    pub allow: Vec<Loss>,
    /// Counts the written bytes, and can cancel the work.
    pub progress: Progress,
}

lodstone_model::with_fields!(ReshardOptions {
    with_to(to: Option<String>),
    with_shards(shards: Option<usize>),
    with_axes(axes: Vec<(String, usize)>),
    with_plan(plan: BTreeMap<String, Vec<Planned>>),
    with_allow(allow: Vec<Loss>),
    with_progress(progress: Progress),
});

/// The result of a resharding.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resharding {
    /// The format that was written.
    pub format: &'static str,
    /// The number of files, without the index.
    pub shards: usize,
    /// The number of files that earlier, interrupted work had written.
    pub continued: usize,
    /// The number of tensors.
    pub tensors: usize,
    /// The size of all files in bytes.
    pub nbytes: u64,
    /// Warnings, and the losses that were allowed.
    pub report: Report,
}

/// Writes a model in shards to a directory, file by file. The model becomes visible with the last file; work that was
/// interrupted continues when the same call is repeated.
///
/// # Errors
/// [`Error::Lossy`] if something would be lost that is not allowed; if the directory holds anything but unfinished work of the
/// same model and options; if a division does not fit the tensors, or reading or writing fails.
pub fn reshard(
    mut model: Model,
    to: impl Into<Location>,
    options: &ReshardOptions,
) -> Result<Resharding> {
    let format = format_of(&model, options)?;
    let planned = options.plan.values().flatten().map(|chunk| chunk.shard.saturating_add(1)).max();
    let shards = options.shards.or(planned);
    let shards = shards.filter(|shards| (1..=MAX_SHARDS).contains(shards)).ok_or_else(|| {
        let why = format!("pass the number of shards, from 1 to {MAX_SHARDS}");
        Error::InvalidOption { option: "shards", why }
    })?;
    let mut report = Report::default();
    report.warnings.clone_from(&model.report.warnings);
    model.parameters = weights(&model).into_owned();
    let kept = format.kept(&model)?;
    if kept.is_none() {
        // The original layout is not that of the new files.
        model.residual.clear();
    }
    for key in format.spare {
        if model.metadata.remove(*key).is_some() {
            report.warn(format!("`{key}` of the metadata is not written"));
        }
    }
    fit(&mut model, format, &mut report)?;
    check_allowed(&report, &options.allow)?;
    let patterns: Vec<String> = options.axes.iter().map(|(pattern, _)| pattern.clone()).collect();
    let globs = globs(&patterns)?;
    let axis = |name: &str| {
        let axis = globs.matches(name).last().and_then(|index| options.axes.get(*index));
        axis.map_or(0, |(_, axis)| *axis)
    };
    let division = match format.divides {
        true => divided(&model, shards, axis)?,
        false if patterns.is_empty() => distributed(&model, shards),
        false => {
            let why =
                format!("{} holds whole tensors, which are divided along no axis", format.name);
            return Err(Error::InvalidOption { option: "axes", why });
        }
    };
    for (number, pattern) in patterns.iter().enumerate() {
        let is_used = |name: &str| globs.matches(name).contains(&number);
        if !model.parameters.iter().any(|parameter| is_used(&parameter.name)) {
            return Err(Error::NoMatch { what: "tensor", patterns: vec![pattern.clone()] });
        }
    }
    let division = replan(&model, division, &options.plan)?;
    let sharding = Sharding::new(&model, format, division, kept)?;
    let done = checkpoint::reshard(&sharding, to, &options.progress)?;
    let (tensors, shards) = (model.parameters.len(), done.files.len());
    if options.shards.is_some_and(|wanted| wanted != shards) {
        report.warn(format!("{shards} files were written: the other shards would be empty"));
    }
    let checkpoint::Resharded { continued, nbytes, .. } = done;
    Ok(Resharding { format: format.name, shards, continued, tensors, nbytes, report })
}

/// Maximum number of shards: more processes than any run has.
const MAX_SHARDS: usize = 100_000;

fn format_of(model: &Model, options: &ReshardOptions) -> Result<&'static ShardFormat> {
    let named = |name: &str| shard_formats().find(|format| format.name == name);
    let found = match &options.to {
        Some(name) => named(name),
        None => named(&model.format).or_else(|| named("safetensors")),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = shard_formats().map(|format| format.name).collect();
        let wanted = options.to.as_deref().unwrap_or_default();
        let why = format!("`{wanted}` holds no shards: pass one of {}", names.join(", "));
        Error::InvalidOption { option: "to", why }
    })
}

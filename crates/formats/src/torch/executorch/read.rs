//! Opens programs and tensors.

use lodstone_model::{Limits, Model};
use lodstone_store::{Blob, Location};

use super::constants::{self, Names, Places};
use super::file::{Found, Layout};
use super::{plan, tensors};
use crate::encoding::flatbuffer::{FlatBuffer, Span};
use crate::error::Result;
use crate::options::OpenOptions;
use crate::torch::EXECUTORCH_NAME;

/// Opens a file.
pub(in crate::torch) fn read(path: &Location, options: &OpenOptions) -> Result<Model> {
    read_blob(&options.file(path)?, &options.limits)
}

/// Reads a program or tensors of ExecuTorch.
///
/// # Errors
/// Fails if the file is damaged; the error names the method, the value, and the place.
pub fn read_blob(blob: &Blob, limits: &Limits) -> Result<Model> {
    let found = contents(blob, limits, None)?;
    let mut model = Model {
        format: EXECUTORCH_NAME.to_owned(),
        parameters: found.parameters,
        metadata: found.metadata,
        files: vec![blob.clone()],
        ..Model::default()
    };
    found.warnings.into_iter().for_each(|warning| model.report.warn(warning));
    Ok(model)
}

/// Reads the contents of a file, and adds the ranges that were read to `spans`.
///
/// # Errors
/// The errors of [`read_blob`].
pub(super) fn contents(
    blob: &Blob,
    limits: &Limits,
    spans: Option<&mut Vec<Span>>,
) -> Result<Found> {
    let layout = Layout::read(blob)?;
    let mut reader = layout.reader(spans.is_some());
    let found = tables(blob, &layout, &mut reader, limits);
    if let Some(spans) = spans {
        spans.extend(reader.spans.unwrap_or_default());
    }
    found
}

fn tables(
    blob: &Blob,
    layout: &Layout,
    reader: &mut FlatBuffer<'_>,
    limits: &Limits,
) -> Result<Found> {
    let mut found = Found::default();
    let root = reader.root()?;
    let slot = if layout.is_program { 4 } else { 1 };
    let segments = layout.segments(blob, reader, &root, slot)?;
    if !layout.is_program {
        tensors::read(reader, &root, &segments, &mut found)?;
        return limited(blob, found, limits);
    }
    let version = reader.number(&root, 0, 4, "the version")?;
    found.metadata.insert("version".to_owned(), version.to_string());
    let places = Places::read(reader, &root)?;
    let mut delegates = Vec::new();
    for data in reader.tables(&root, 3, "data of a delegate")? {
        delegates.push(reader.bytes(&data, 0, "data of a delegate")?.unwrap_or_default());
    }
    let mut names = Names::default();
    for table in reader.tables(&root, 1, "a method")? {
        limits.check_cancelled()?;
        let plan = plan::read(reader, &table, &delegates, &segments)?;
        plan.describe(&mut found).map_err(|why| reader.malformed(table.at, why))?;
        constants::add(reader, &plan, &places, &segments, &mut names, &mut found)?;
    }
    places
        .describe(&segments, &names.starts, &mut found)
        .map_err(|why| reader.malformed(root.at, why))?;
    limited(blob, found, limits)
}

fn limited(blob: &Blob, found: Found, limits: &Limits) -> Result<Found> {
    if found.parameters.len() > limits.tensors {
        return Err(blob.over_limit(0, limits.at_most_tensors("tensors")).into());
    }
    Ok(found)
}

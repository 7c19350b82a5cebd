//! Variables as records in PaddlePaddle's format, which its operators `load` and `load_combine` read.

use std::slice;

use lodstone_formats::paddle::stream::{self, Expect, Layout};
use lodstone_formats::{Error as FormatError, Result as FormatResult};
use lodstone_model::{Limits, Parameter, Tensor};
use lodstone_store::{Blob, Commit, Output, plain};

use super::{Layout as ContainerLayout, Open};
use crate::error::Result;
use crate::manifest::SavedVariable;

/// All records in one file.
pub(super) static COMBINED: ContainerLayout = ContainerLayout {
    file: Some(FILE),
    write: |commit, tensors| write_all(commit, tensors, false),
    read: read_all,
};

/// All records in one file, each preceded by its size.
pub(super) static SIZED: ContainerLayout = ContainerLayout {
    file: Some(FILE),
    write: |commit, tensors| write_all(commit, tensors, true),
    read: read_all,
};

/// A file for each record.
pub(super) static EACH: ContainerLayout =
    ContainerLayout { file: None, write: write_each, read: read_each };

/// The name of the file with all records.
const FILE: &str = "params";

/// The alignment of elements, in bytes.
const ALIGNMENT: u64 = 64;

/// Writes all tensors into one file; if `sized`, each record is preceded by its size.
fn write_all(commit: &mut Commit, tensors: &[Parameter], sized: bool) -> Result<Vec<String>> {
    commit.write::<FormatError>(FILE, |out| {
        tensors.iter().try_for_each(|parameter| write_record(out, parameter, sized))
    })?;
    Ok(vec![FILE.to_owned()])
}

/// Writes each tensor into its own file.
fn write_each(commit: &mut Commit, tensors: &[Parameter]) -> Result<Vec<String>> {
    for parameter in tensors {
        commit.write(&parameter.name, |out| write_record(out, parameter, false))?;
    }
    Ok(tensors.iter().map(|tensor| plain(&tensor.name)).collect())
}

fn write_record(out: &mut Output, parameter: &Parameter, sized: bool) -> FormatResult<()> {
    let layout = Layout { sized, align: ALIGNMENT, ..Layout::default() };
    stream::write_record(out, &parameter.name, &parameter.tensor, layout)
}

/// Reads all tensors from one file.
fn read_all(variables: &[SavedVariable], open: Open<'_>) -> Result<Vec<Parameter>> {
    let blob = open(FILE)?;
    if blob.is_empty() {
        return Ok(named(&blob, variables, Vec::new())?);
    }
    Ok(read_records(&blob, variables)?)
}

/// Reads tensors from a file for each.
fn read_each(variables: &[SavedVariable], open: Open<'_>) -> Result<Vec<Parameter>> {
    let mut tensors = Vec::with_capacity(variables.len());
    for variable in variables {
        let blob = open(&plain(&variable.name))?;
        tensors.extend(read_records(&blob, slice::from_ref(variable))?);
    }
    Ok(tensors)
}

fn read_records(blob: &Blob, variables: &[SavedVariable]) -> FormatResult<Vec<Parameter>> {
    let expects: Vec<Expect> = variables.iter().map(expect).collect();
    let (_, tensors) = stream::read(blob, &expects, &Limits::default())?;
    named(blob, variables, tensors)
}

/// Returns the expected kind of a variable's record, which not all records declare.
fn expect(variable: &SavedVariable) -> Expect {
    match variable.kind.as_str() {
        "dense" => Expect::Tensor,
        "selected_rows" => Expect::SelectedRows,
        "vocab" => Expect::Vocabulary,
        _ => Expect::Anything,
    }
}

/// Returns records with their names in the manifest.
fn named(
    blob: &Blob,
    variables: &[SavedVariable],
    tensors: Vec<Tensor>,
) -> FormatResult<Vec<Parameter>> {
    if variables.len() != tensors.len() {
        let expected = format!("{} tensors, as in the manifest", variables.len());
        return Err(blob.malformed(0, expected, tensors.len().to_string()).into());
    }
    let pairs = variables.iter().zip(tensors);
    Ok(pairs.map(|(variable, tensor)| super::parameter(variable, tensor)).collect())
}

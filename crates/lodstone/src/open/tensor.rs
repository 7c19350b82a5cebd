//! Access to a single tensor.

use lodstone_formats::{Error as FormatError, FORMATS, OpenOptions};
use lodstone_model::{Model, Parameter, Tensor};
use lodstone_schema::weights;
use lodstone_store::Location;

use super::open_with;
use crate::names::Names;
use crate::{Error, Result};

/// A tensor of a model.
#[derive(Clone, Debug)]
pub struct OpenedTensor {
    /// The name, which may be empty.
    pub name: String,
    /// The tensor.
    pub tensor: Tensor,
    /// The warnings of opening the model.
    pub warnings: Vec<String>,
}

/// Returns the tensor at `index` in file order, counted from 0, and its name.
///
/// In a file of unnamed records, the records before it are skipped, so the rest of the
/// file may be damaged.
///
/// # Errors
/// If the index is out of range.
pub fn tensor_at(
    path: impl Into<Location>,
    index: usize,
    options: &OpenOptions,
) -> Result<OpenedTensor> {
    let path = path.into();
    let whole = match open_weights(&path, options) {
        Ok(model) => return nth(model, index),
        // The file is readable, but not trusted: reading a single record must not circumvent that.
        Err(error @ Error::Format(FormatError::Unsealed { .. })) => return Err(error),
        Err(error) => error,
    };
    // The error of the whole file is more specific than that of a record that cannot be found in it.
    let mut records = FORMATS.iter().filter_map(|format| format.record);
    let found = records.find_map(|record| record(&path, index, options).ok().flatten());
    let one = |tensor| OpenedTensor { name: String::new(), tensor, warnings: Vec::new() };
    found.map(one).ok_or(whole)
}

/// Returns the only tensor of a model, and its name.
///
/// # Errors
/// If the model has several tensors, or none.
pub fn only_tensor(path: impl Into<Location>, options: &OpenOptions) -> Result<OpenedTensor> {
    let model = open_weights(path, options)?;
    match model.parameters.len() {
        0 => Err(Error::NoTensors),
        1 => nth(model, 0),
        count => Err(Error::SeveralTensors { count }),
    }
}

/// Returns the tensor called `name`, and its name.
///
/// # Errors
/// The errors of [`Names::find`].
pub fn tensor_named(
    path: impl Into<Location>,
    name: &str,
    options: &OpenOptions,
) -> Result<OpenedTensor> {
    let model = open_weights(path, options)?;
    let names = model.parameters.iter().map(|parameter| parameter.name.as_str().into());
    let names = Names::new(&model.format, names);
    nth(model, names.find(name)?)
}

/// Opens a model with all its weights as parameters.
fn open_weights(path: impl Into<Location>, options: &OpenOptions) -> Result<Model> {
    let mut model = open_with(path, options)?;
    model.parameters = weights(&model).into_owned();
    Ok(model)
}

fn nth(model: Model, index: usize) -> Result<OpenedTensor> {
    let count = model.parameters.len();
    match model.parameters.into_iter().nth(index) {
        Some(Parameter { name, tensor }) => {
            Ok(OpenedTensor { name, tensor, warnings: model.report.warnings })
        }
        None => Err(Error::NoSuchIndex { index, count }),
    }
}

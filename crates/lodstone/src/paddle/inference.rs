//! Inference models in a directory, as `save_inference_model` of PaddlePaddle writes them.

use lodstone_formats::WriteOptions;
use lodstone_formats::paddle::program;
use lodstone_formats::paddle::stream::{self, Layout};
use lodstone_model::{Model, Tensor};
use lodstone_schema::paddle::saved;
use lodstone_store::{Commit, Location, Output};

use crate::error::no_program;
use crate::{Error, Result};

/// The names of the files of an inference model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InferenceFiles {
    /// The file of the program [default: `__model__`].
    pub program: String,
    /// The file of all parameters, sorted by name; `None` for a file for each parameter, with its name.
    pub params: Option<String>,
}

lodstone_model::with_fields!(InferenceFiles {
    with_program(program: String),
    with_params(params: Option<String>),
});

impl Default for InferenceFiles {
    fn default() -> Self {
        Self { program: "__model__".to_owned(), params: None }
    }
}

/// Writes the main program of a model and its parameters into a directory, which need not exist; all files become visible
/// together. Other files in the directory stay.
///
/// # Errors
/// If the model has no PaddlePaddle program, a persistable variable has no value, two files have the same name, or a file
/// cannot be written.
pub fn save_inference_model(
    model: &Model,
    dir: impl Into<Location>,
    files: &InferenceFiles,
    options: &WriteOptions,
) -> Result<()> {
    let main = model.main().ok_or_else(|| no_program(model))?;
    let mut tensors: Vec<(&str, &Tensor)> = Vec::new();
    for var in saved(main) {
        let parameter = model.parameter(&var.name);
        let lacks = || Error::NoValues(vec![var.name.clone()]);
        tensors.push((&var.name, parameter.ok_or_else(lacks)?));
    }
    let encoded = program::write(main)?;
    let commit = Commit::within(dir, options.progress.clone())?;
    let mut commit = commit.only_new(options.no_clobber);
    match &files.params {
        Some(name) => {
            commit
                .write(name, |out: &mut Output| stream::write(out, tensors, Layout::default()))?;
        }
        None => {
            for (name, tensor) in tensors {
                let alone =
                    |out: &mut Output| stream::write(out, [(name, tensor)], Layout::default());
                commit.write(name, alone)?;
            }
        }
    }
    commit.write(&files.program, |out: &mut Output| out.put(&encoded))?;
    Ok(commit.publish()?)
}

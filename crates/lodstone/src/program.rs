//! Programs that are derived from others: for inference, pruned, for loading, for checkpoints; and how they are written.

use lodstone_formats::{FORMATS, WriteOptions};
use lodstone_model::{Model, Program, Programs};
use lodstone_store::{Blob, MemoryStore};

use crate::dialects::programs::derive;
pub use crate::dialects::programs::derive::{
    CheckpointPrograms, DeriveOptions, checkpoint_programs, loader_program,
};
pub use crate::dialects::programs::run::program_of;
pub use crate::dialects::runtime::program::{Error, Form, Paths, Placement, save_program};
use crate::error::no_program;
use crate::inspect::{GraphFormat, write_graph};
use crate::outputs::select_outputs;
use crate::{Result, dialects};

/// A program that is derived from that of a model.
#[derive(Clone, Debug)]
pub enum Derived {
    /// A program of a framework whose programs are files of their own, without parameters.
    Program(Box<Program>),
    /// The model with the program, and the parameters that it needs.
    Model(Box<Model>),
}

impl Derived {
    /// Returns the program.
    pub fn program(&self) -> Option<&Program> {
        match self {
            Self::Program(program) => Some(program),
            Self::Model(model) => model.main(),
        }
    }
}

/// Returns the part of a program that inference needs, which computes `fetch`, or its own outputs: the part before its
/// gradients and optimizer, with operators that feed and fetch where its framework has these.
///
/// # Errors
/// If the model has no program, a value is not computed, several results could be meant, or the framework has no such
/// option.
pub fn inference_program(model: &Model, options: &DeriveOptions) -> Result<Derived> {
    match trains(model)? {
        true => Ok(Derived::Program(derive::inference_program(model, options)?.into())),
        false => part(model, options),
    }
}

/// Returns the operators of a program that compute `fetch`, from `feed` where the framework has programs that are fed
/// intermediate values.
///
/// # Errors
/// If the model has no program, `fetch` is empty, a value is not computed, or the framework has no such option.
pub fn pruned_program(model: &Model, options: &DeriveOptions) -> Result<Derived> {
    match trains(model)? {
        true => Ok(Derived::Program(derive::pruned_program(model, options)?.into())),
        false => part(model, options),
    }
}

fn trains(model: &Model) -> Result<bool> {
    model.main().map(|program| dialects::trains(program.dialect)).ok_or_else(|| no_program(model))
}

/// Returns the part of a model that its outputs, or `fetch`, depend on.
fn part(model: &Model, options: &DeriveOptions) -> Result<Derived> {
    for (option, is_set) in [("feed", !options.feed.is_empty()), ("for_test", options.for_test)] {
        if is_set {
            let framework = model.main().map_or("this dialect", |it| it.dialect.framework());
            let why = format!("programs of {framework} have no such option");
            return Err(crate::Error::InvalidOption { option, why });
        }
    }
    let mut part = model.clone();
    let outputs = match options.fetch.as_slice() {
        [] => {
            let program = model.main().ok_or_else(|| no_program(model))?;
            let interface = (lodstone_schema::conventions(program).interface)(program);
            interface.outputs.into_iter().map(str::to_owned).collect()
        }
        names => names.to_vec(),
    };
    select_outputs(&mut part, &outputs)?;
    Ok(Derived::Model(part.into()))
}

/// Returns the program of a model as text: in the text format of its framework, or, if that has none, one line per
/// operator.
///
/// # Errors
/// If the model has no program, or it cannot be written.
pub fn print_program(model: &Model) -> Result<Vec<u8>> {
    let program = model.main().ok_or_else(|| no_program(model))?;
    if dialects::trains(program.dialect) {
        return derive::print_program(model);
    }
    let is_text = |format: &&&crate::formats::Format| {
        format.is_text && format.holds.program == Some(program.dialect)
    };
    let Some(format) = FORMATS.iter().find(is_text) else {
        let mut text = Vec::new();
        write_graph(model, GraphFormat::Text, usize::MAX, &mut text)?;
        return Ok(text);
    };
    let mut alone = Model { parameters: Vec::new(), ..model.clone() };
    let _ = alone.programs.remove(Programs::STARTUP);
    let store = MemoryStore::default();
    let written = format.write(&alone, store.location("program"), &WriteOptions::default())?;
    let first = written.files.first().ok_or_else(|| no_program(model))?;
    Ok(Blob::open(first, false)?.read()?.to_vec())
}

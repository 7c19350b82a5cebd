//! Programs that Python builds, edits, runs and checkpoints.
//!
//! A program keeps a draft: what is known about its variables while it is built. A main and a startup program become a
//! network for each call, and are put back afterwards, also while a function of Python builds a branch. Layers are
//! Python code over three functions of this extension: declare a parameter, append an operator, open a block.

mod attributes;
mod build;
mod checkpoint;
mod edit;
mod executor;
mod files;
mod optimizer;
mod training;

pub(crate) use build::{
    Names, append_backward, append_block, begin_block, call_layer, cond, declare_data,
    declare_parameter, discard_block, gradients, schedule, while_loop,
};
pub(crate) use checkpoint::{
    ProgramContents, build_checkpoint_loader, checkpointed_program, get_checkpoint_loader,
    make_checkpoint, restore_checkpoint,
};
pub(crate) use edit::Operator;
pub(crate) use executor::{Executor, Scope};
pub(crate) use files::{
    append_load, append_save, load_program, program_of, save_model, save_program,
};
pub(crate) use optimizer::apply_optimizer;
pub(crate) use training::{Training, open_training};

use std::sync::{Mutex, PoisonError};

use lodstone::model::Revision;
use lodstone::paddle::program::{self, Draft, Form, Network, for_test, inference, prune};
use lodstone::paddle::schema::saved;
use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::raise_program;
use crate::model::Model;

/// A program, and what is known about it while it is built.
#[pyclass(frozen, module = "lodstone._lodstone")]
#[derive(Debug)]
pub(crate) struct Program(Mutex<Option<State>>);

/// The state of a program. It is absent while a network is built from it.
#[derive(Debug)]
pub(crate) struct State {
    program: lodstone::model::Program,
    draft: Draft,
    /// The revision of the program that `draft` describes.
    drafted: Option<Revision>,
}

impl Program {
    pub(crate) fn of(program: lodstone::model::Program) -> Self {
        Self(Mutex::new(Some(State { program, draft: Draft::default(), drafted: None })))
    }

    /// Calls a function with the state. It must not call Python.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> PyResult<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_mut().map(work).ok_or_else(busy)
    }

    /// Calls a function with a block of the program. It must not call Python.
    fn with_block<T>(
        &self,
        block: usize,
        work: impl FnOnce(&lodstone::model::Block) -> T,
    ) -> PyResult<T> {
        let found = self.with(|state| state.program.blocks.get(block).map(work))?;
        found.ok_or_else(|| no_block(block))
    }

    /// Calls a function with a block of the program, which it changes: the program gets another revision.
    fn edit_block<T>(
        &self,
        block: usize,
        work: impl FnOnce(&mut lodstone::model::Block) -> T,
    ) -> PyResult<T> {
        let found = self.with(|state| state.program.blocks.get_mut(block).map(work))?;
        found.ok_or_else(|| no_block(block))
    }

    /// Returns a copy of the program.
    pub(crate) fn copied(&self) -> PyResult<lodstone::model::Program> {
        self.with(|state| state.program.clone())
    }

    fn take(&self) -> PyResult<State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(busy)
    }

    fn put(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    /// Replaces the program.
    fn replace(&self, program: lodstone::model::Program) -> PyResult<()> {
        self.with(|state| state.program = program)
    }
}

fn no_block(block: usize) -> PyErr {
    PyIndexError::new_err(format!("the program has no block {block}"))
}

fn busy() -> PyErr {
    PyRuntimeError::new_err(
        "the program is in use: it is both programs of a network, or built by another thread",
    )
}

#[pymethods]
impl Program {
    #[new]
    fn new() -> Self {
        Self::of(Network::new().main)
    }

    /// Decodes a program in binary or text form.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let decoded = program::decode(data, "the bytes");
        decoded.map(Self::of).map_err(|error| raise_program(py, error))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = program::encode(&self.copied()?, Form::Binary);
        Ok(PyBytes::new(py, &bytes.map_err(|error| raise_program(py, error))?))
    }

    fn to_text(&self, py: Python<'_>) -> PyResult<String> {
        let bytes = program::encode(&self.copied()?, Form::Text);
        let bytes = bytes.map_err(|error| raise_program(py, error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    #[pyo3(name = "clone")]
    fn cloned(&self, for_test: bool) -> PyResult<Self> {
        let program = self.copied()?;
        Ok(Self::of(if for_test { self::for_test(&program) } else { program }))
    }

    fn prune(&self, py: Python<'_>, feeds: Vec<String>, targets: Vec<String>) -> PyResult<Self> {
        let pruned = prune(&self.copied()?, &texts(&feeds), &texts(&targets));
        pruned.map(Self::of).map_err(|error| raise_program(py, error))
    }

    fn inference(
        &self,
        py: Python<'_>,
        feeds: Vec<String>,
        targets: Vec<String>,
    ) -> PyResult<Self> {
        let made = inference(&self.copied()?, &texts(&feeds), &texts(&targets));
        made.map(Self::of).map_err(|error| raise_program(py, error))
    }

    /// The model of this program, the startup program, and the tensors of a scope.
    fn model(
        &self,
        startup: Option<Bound<'_, Self>>,
        scope: Option<Bound<'_, Scope>>,
    ) -> PyResult<Model> {
        let mut programs: lodstone::model::Programs = self.copied()?.into();
        if let Some(startup) = startup {
            programs.insert(lodstone::model::Programs::STARTUP, startup.get().copied()?);
        }
        let names: Vec<String> = self.with(|state| names_of(saved(&state.program)))?;
        let parameters = scope.map(|scope| scope.get().parameters(&names)).unwrap_or_default();
        let format = "paddle".to_owned();
        Ok(Model::new(lodstone::Model {
            format,
            programs,
            parameters,
            ..lodstone::Model::default()
        }))
    }

    /// The indices of the parents of all blocks; -1 for the first.
    fn parents(&self) -> PyResult<Vec<i32>> {
        self.with(|state| state.program.blocks.iter().map(|block| block.parent).collect())
    }

    fn current_block(&self) -> PyResult<usize> {
        self.with(|state| state.draft.current_block())
    }

    /// The release of PaddlePaddle that the program follows, as a number: 2006002 for 2.6.2.
    #[getter]
    fn version(&self) -> PyResult<Option<i64>> {
        self.with(|state| state.program.version)
    }

    /// The names of the variables of a block.
    fn variables(&self, block: usize) -> PyResult<Vec<String>> {
        self.with_block(block, |block| block.vars.iter().map(|var| var.name.clone()).collect())
    }

    /// The index of the block that declares a variable, which is `block` or one around it.
    fn find_variable(&self, block: usize, name: &str) -> PyResult<Option<usize>> {
        self.with(|state| edit::declaring(&state.program, block, name))
    }

    fn variable<'py>(
        &self,
        py: Python<'py>,
        block: usize,
        name: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let found = self.with(|state| edit::variable(&state.program, block, name).cloned())?;
        edit::described(py, &found.ok_or_else(|| edit::no_variable(block, name))?)
    }

    /// Declares a variable, or replaces its declaration.
    fn declare(&self, block: usize, facts: crate::arguments::Arguments<'_>) -> PyResult<()> {
        let var = edit::declaration(&facts)?;
        let declare = |program: &mut lodstone::model::Program, draft: &mut Draft| {
            edit::declare(program.blocks.get_mut(block)?, var.clone());
            draft.declare(block, &var);
            Some(())
        };
        self.with(|state| state.followed(declare))?.ok_or_else(|| no_block(block))
    }

    /// Sets whether a variable is persistable, and whether gradients stop at it. Types do not change.
    fn mark(
        &self,
        block: usize,
        name: &str,
        persistable: Option<bool>,
        stop_gradient: Option<bool>,
    ) -> PyResult<()> {
        let mark = |program: &mut lodstone::model::Program, _: &mut Draft| {
            edit::mark(program, block, name, persistable, stop_gradient)
        };
        let found = self.with(|state| state.followed(mark))?;
        found.ok_or_else(|| edit::no_variable(block, name))
    }

    fn remove_variable(&self, block: usize, name: &str) -> PyResult<()> {
        let found = self.edit_block(block, |block| {
            let place = block.vars.iter().position(|var| var.name == name);
            place.map(|place| drop(block.vars.remove(place)))
        })?;
        found.ok_or_else(|| edit::no_variable(block, name))
    }

    /// Renames a variable wherever the program names it.
    fn rename_variable(&self, old: String, new: String) -> PyResult<()> {
        self.with(|state| state.program.rename(&[(old, new)].into()))
    }

    fn operators(&self, block: usize) -> PyResult<Vec<Operator>> {
        self.with_block(block, |block| block.ops.iter().cloned().map(Operator::of).collect())
    }

    fn operator_count(&self, block: usize) -> PyResult<usize> {
        self.with_block(block, |block| block.ops.len())
    }

    fn operator(&self, block: usize, index: usize) -> PyResult<Operator> {
        let found = self.with_block(block, |block| block.ops.get(index).cloned())?;
        found.map(Operator::of).ok_or_else(edit::no_operator)
    }

    /// Inserts an operator, whose variables must be declared.
    fn insert_operator(
        &self,
        py: Python<'_>,
        block: usize,
        index: usize,
        operator: edit::Parts<'_>,
    ) -> PyResult<()> {
        let op = operator.builder()?.finish().map_err(|error| raise_program(py, error))?;
        let undeclared = self.with(|state| {
            let names = op.reads().chain(op.writes());
            let mut names =
                names.filter(|name| edit::declaring(&state.program, block, name).is_none());
            names.next().map(str::to_owned)
        })?;
        if let Some(name) = undeclared {
            return Err(edit::no_variable(block, &name));
        }
        self.edit_block(block, |block| block.ops.insert(index.min(block.ops.len()), op))
    }

    fn remove_operators(&self, block: usize, begin: usize, end: usize) -> PyResult<()> {
        let is_done = self.edit_block(block, |block| {
            let is_inside = begin <= end && end <= block.ops.len();
            is_inside.then(|| drop(block.ops.drain(begin..end)))
        })?;
        let what = || format!("block {block} has no operators {begin} to {end}");
        is_done.ok_or_else(|| PyIndexError::new_err(what()))
    }

    /// The index of an operator, which is at `index` unless operators before it were inserted or removed.
    fn find_operator(&self, block: usize, index: usize, operator: &Operator) -> PyResult<usize> {
        let place = self.with_block(block, |block| edit::place_of(block, index, operator))?;
        place.ok_or_else(edit::no_operator)
    }

    fn replace_operator(
        &self,
        block: usize,
        index: usize,
        old: &Operator,
        new: &Operator,
    ) -> PyResult<usize> {
        let place = self.edit_block(block, |block| {
            let place = edit::place_of(block, index, old)?;
            new.op().clone_into(block.ops.get_mut(place)?);
            Some(place)
        })?;
        place.ok_or_else(edit::no_operator)
    }
}

impl State {
    fn is_drafted(&self) -> bool {
        self.drafted.as_ref() == Some(&self.program.revision())
    }

    /// Edits the program in a way that its draft follows.
    fn followed<T>(
        &mut self,
        edit: impl FnOnce(&mut lodstone::model::Program, &mut Draft) -> T,
    ) -> T {
        let is_drafted = self.is_drafted();
        let made = edit(&mut self.program, &mut self.draft);
        if is_drafted {
            self.drafted = Some(self.program.revision());
        }
        made
    }
}

fn names_of(vars: Vec<&lodstone::model::Var>) -> Vec<String> {
    vars.into_iter().map(|var| var.name.clone()).collect()
}

/// Returns strings as slices.
fn texts(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}

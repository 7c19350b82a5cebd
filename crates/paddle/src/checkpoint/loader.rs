//! Loaders: what remains of a startup program, followed by operators that load.

use std::collections::{BTreeSet, HashSet};

use lodstone_checkpoint::{Container, LOADER};
use lodstone_model::{Block, Op, Program, Var};
use lodstone_schema::paddle::{is_load, is_saved};
use lodstone_store::Location;

use crate::checkpoint::error::{Error, Result};
use crate::program::{LoadOptions, Network, Placement, Variable, load, load_program};

/// The file of the loader in its directory.
pub(super) const FILE: &str = "__model__";

/// Whether checkpoints contain a variable by default: it persists, holds a value, and is neither a gradient (`w@GRAD`) nor
/// the part of one trainer or server (`w.trainer_1`, `w.block0`).
///
/// PaddlePaddle 0.12 (`_is_checkpoint_var`) searches for these words anywhere, and so drops `stage.block1.w_0`; here they
/// must be suffixes.
pub fn is_checkpointed(var: &Var) -> bool {
    let is_share = |word: &str| {
        let number = var.name.rsplit_once(word).map(|(_, number)| number);
        number.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let passes = var.name.contains("@GRAD") || is_share(".trainer_") || is_share(".block");
    is_saved(var) && !passes
}

/// Builds the program that loads `vars`: the operators of the startup program that initialize other variables, in their
/// order, then operators that load. Loads come last, so that they win.
///
/// File names are relative to the directory in which the loader is run. Without a startup program the loader only
/// loads. To load a subset of the variables in a merged file, pass the names of all its records:
/// [`saved_records`](crate::program::saved_records) of the program that saves it.
///
/// # Errors
/// If a variable does not persist, or its file would be outside of the directory; if the order of records in a merged file
/// is not given, or a file with several variables has other records than these.
pub fn build_checkpoint_loader(
    vars: &[Var],
    startup: Option<&Program>,
    options: &LoadOptions,
) -> Result<Program> {
    let loaded: HashSet<&str> = vars.iter().map(|var| var.name.as_str()).collect();
    let mut loader = startup.map_or_else(empty, |startup| initialisers(startup, &loaded));
    if vars.is_empty() {
        return Ok(loader);
    }
    let mut from = empty();
    if let Some(block) = from.blocks.first_mut() {
        block.vars = vars.to_vec();
    }
    let names: Vec<Variable> = vars.iter().map(|var| Variable::named(&var.name)).collect();
    load(&mut loader, &names, &from, "", options)?;
    Ok(loader)
}

/// Reads the loader of the checkpoint in a directory, which [`make_checkpoint`](crate::checkpoint::make_checkpoint) wrote
/// or which is a serial. It is run with that directory to load from.
///
/// # Errors
/// If there is none, or it is damaged.
pub fn get_checkpoint_loader(dir: impl Into<Location>) -> Result<Program> {
    Ok(load_program(dir.into().join(LOADER))?)
}

/// Fails if a loader leaves a [checkpointed](is_checkpointed) variable of the main program without a value.
///
/// # Errors
/// [`Error::Incomplete`] with the names of all of them.
pub fn check_loader(loader: &Program, main: &Program) -> Result<()> {
    let made: HashSet<&str> = loader.ops().flat_map(Op::writes).collect();
    let wanted = main.vars().filter(|var| is_checkpointed(var)).map(|var| var.name.as_str());
    let names: BTreeSet<&str> = wanted.filter(|name| !made.contains(name)).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(Error::Incomplete { names: names.into_iter().map(str::to_owned).collect() }),
    }
}

/// Fails if a loader has a loop: restoring runs a program from a file, which must end.
pub(super) fn check_ends(loader: &Program) -> Result<()> {
    match loader.ops().any(|op| op.kind == "while") {
        true => Err(Error::Loop),
        false => Ok(()),
    }
}

/// Returns where loader operators find variables in a container; `None` if they cannot read it.
pub(super) fn placement(container: Container) -> Option<Placement> {
    let file = container.file().map(str::to_owned);
    match container {
        Container::Combined => file.map(Placement::Combined),
        Container::Sized => file.map(Placement::Merged),
        Container::Each => Some(Placement::Each),
        Container::Safetensors => None,
    }
}

/// Removes the operators that load from a loader.
pub(super) fn remove_loads(loader: &mut Program) {
    for block in &mut loader.blocks {
        block.ops.retain(|op| !is_load(op));
    }
}

/// Returns a program without operators.
pub(super) fn empty() -> Program {
    Network::new().main
}

/// Returns the part of a startup program that initializes variables which are not loaded: the operators that write them,
/// or write values that those read.
fn initialisers(startup: &Program, loaded: &HashSet<&str>) -> Program {
    let mut program = startup.clone();
    let Some((first, inner)) = program.blocks.split_first_mut() else { return program };
    let lasting: HashSet<String> =
        first.vars.iter().filter(|var| var.persistable).map(|var| var.name.clone()).collect();
    let (mut read, mut kept) = (HashSet::<String>::new(), Vec::new());
    for op in std::mem::take(&mut first.ops).into_iter().rev() {
        let fills =
            |name: &str| read.contains(name) || (lasting.contains(name) && !loaded.contains(name));
        if op.writes().any(fills) {
            read.extend(op.reads().map(str::to_owned));
            kept.push(op);
        }
    }
    kept.reverse();
    let has_blocks = kept.iter().any(|op| op.blocks().next().is_some());
    first.ops = kept;
    let named: HashSet<String> = match has_blocks {
        true => std::iter::once(&*first).chain(&*inner).flat_map(names).collect(),
        false => names(first).collect(),
    };
    first.vars.retain(|var| named.contains(&var.name));
    if !has_blocks {
        program.blocks.truncate(1);
    }
    program
}

/// Returns all names of variables in the operators of a block.
fn names(block: &Block) -> impl Iterator<Item = String> {
    block.ops.iter().flat_map(|op| op.reads().chain(op.writes())).map(str::to_owned)
}

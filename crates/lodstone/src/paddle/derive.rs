//! Programs that are derived from the program of a model: for inference, loaders, with checkpoint operators.

use std::collections::HashSet;

use globset::GlobSet;
use lodstone_model::{Holder, Model, Op, Program, Programs, ValueType, Var, some};
use lodstone_paddle::checkpoint::{
    CheckpointOptions, build_checkpoint_loader, is_checkpointed, make_checkpoint,
};
use lodstone_paddle::program::{
    Form, LoadOptions, Network, Placement, StaleSave, encode, for_test, prune, with_interface,
};
use lodstone_schema::paddle::{interface, loss};
use lodstone_store::Location;

use super::run::program_of;
use crate::adapt::globs;
use crate::{Error, Result};

/// The options of derived programs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeriveOptions {
    /// Names of the variables that the program computes [default: its outputs].
    pub fetch: Vec<String>,
    /// Names of the variables that are fed [default: the inputs of the program].
    pub feed: Vec<String>,
    /// Whether operators behave as in inference: no dropout, running statistics.
    pub for_test: bool,
    /// Patterns of the names of saved variables [default: all].
    pub vars: Vec<String>,
    /// The files of variables.
    pub placement: Placement,
    /// Save a checkpoint after every N runs.
    pub every: u64,
}

lodstone_model::with_fields!(DeriveOptions {
    with_fetch(fetch: Vec<String>),
    with_feed(feed: Vec<String>),
    with_for_test(for_test: bool),
    with_vars(vars: Vec<String>),
    with_placement(placement: Placement),
    with_every(every: u64),
});

impl Default for DeriveOptions {
    fn default() -> Self {
        Self {
            fetch: Vec::new(),
            feed: Vec::new(),
            for_test: false,
            vars: Vec::new(),
            placement: CheckpointOptions::default().placement,
            every: 1,
        }
    }
}

/// A main program that saves checkpoints, and its startup program.
#[derive(Clone, Debug)]
pub struct CheckpointPrograms {
    /// The main program, with operators that save.
    pub main: Program,
    /// The startup program, which also initializes what counts the runs.
    pub startup: Program,
    /// Earlier operators that save variables before an optimizer updates them.
    pub stale: Vec<StaleSave>,
}

/// Returns the part of a program before its gradients and optimizer, which computes `fetch`, or its only result, with
/// `feed` and `fetch` operators.
///
/// # Errors
/// If the model has no program, a variable is not computed, or several results could be meant.
pub(crate) fn inference_program(model: &Model, options: &DeriveOptions) -> Result<Program> {
    let program = program_of(model)?;
    let forward = without_interface(&for_test(&program));
    let targets = match options.fetch.as_slice() {
        [] => results(&program, &forward)?,
        names => names.to_vec(),
    };
    let feeds = named(&options.feed, || inputs(&program));
    let kept = if options.for_test { forward } else { without_interface(&program) };
    let pruned = prune(&kept, &texts(&feeds), &texts(&targets))?;
    let declared: HashSet<&str> = pruned.vars().map(|var| var.name.as_str()).collect();
    let mut feeds = texts(&feeds);
    feeds.retain(|name| declared.contains(name));
    Ok(with_interface(pruned, &feeds, &texts(&targets))?)
}

/// Returns a program without the operators that feed and fetch.
fn without_interface(program: &Program) -> Program {
    let mut program = program.clone();
    for block in &mut program.blocks {
        block.ops.retain(|op| !matches!(op.kind.as_str(), "feed" | "fetch"));
        block.vars.retain(|var| {
            !matches!(
                var.value,
                ValueType::Holder(Holder::FeedMinibatch | Holder::FeedList | Holder::FetchList)
            )
        });
    }
    program
}

/// Returns the operators of a program that compute `fetch` from `feed`.
///
/// # Errors
/// If the model has no program, `fetch` is empty, or a variable is not computed.
pub(crate) fn pruned_program(model: &Model, options: &DeriveOptions) -> Result<Program> {
    let program = program_of(model)?;
    if options.fetch.is_empty() {
        let why = "expected the variables that the program computes".to_owned();
        return Err(Error::InvalidOption { option: "fetch", why });
    }
    let pruned = prune(&program, &texts(&options.feed), &texts(&options.fetch))?;
    Ok(if options.for_test { for_test(&pruned) } else { pruned })
}

/// Returns the program that loads the persistable variables of a model that `vars` select, and initializes the others as
/// its startup program does.
///
/// # Errors
/// If the model has no program, a pattern is invalid, the patterns accept no variable, or a file name is not permitted.
pub fn loader_program(model: &Model, options: &DeriveOptions) -> Result<Program> {
    let program = program_of(model)?;
    let takes = selection(&options.vars)?;
    let vars: Vec<Var> =
        program.vars().filter(|var| is_checkpointed(var) && takes(var)).cloned().collect();
    if vars.is_empty() {
        return Err(nothing(options));
    }
    let mut names: Vec<String> = vars.iter().map(|var| var.name.clone()).collect();
    names.sort_unstable();
    let files =
        LoadOptions::default().with_placement(options.placement.clone()).with_records(Some(names));
    let startup = model.programs.get(Programs::STARTUP);
    Ok(build_checkpoint_loader(&vars, startup, &files)?)
}

/// Appends operators to the program of a model that save the variables that `vars` select, and writes the loader of the
/// checkpoint into a directory.
///
/// # Errors
/// If the model has no program, a pattern is invalid, a variable is neither saved nor initialized, or the loader
/// cannot be written.
pub fn checkpoint_programs(
    model: &Model,
    dir: impl Into<Location>,
    options: &DeriveOptions,
) -> Result<CheckpointPrograms> {
    let mut main = program_of(model)?;
    let startup = model.programs.get(Programs::STARTUP);
    let mut startup = startup.cloned().unwrap_or_else(|| Network::new().startup);
    let takes = selection(&options.vars)?;
    if !main.vars().any(|var| is_checkpointed(var) && takes(var)) {
        return Err(nothing(options));
    }
    let files = CheckpointOptions::default()
        .with_every(options.every)
        .with_placement(options.placement.clone());
    let stale = make_checkpoint(dir, Some(&takes), &mut startup, &mut main, &files)?;
    Ok(CheckpointPrograms { main, startup, stale })
}

fn nothing(options: &DeriveOptions) -> Error {
    match options.vars.as_slice() {
        [] => Error::NoTensors,
        patterns => Error::NoMatch { what: "variable to save", patterns: patterns.to_vec() },
    }
}

/// Returns the program of a model as text, in protobuf's text format.
///
/// # Errors
/// If the model has no program.
pub(crate) fn print_program(model: &Model) -> Result<Vec<u8>> {
    Ok(encode(&program_of(model)?, Form::Text)?)
}

fn named(given: &[String], default: impl FnOnce() -> Vec<String>) -> Vec<String> {
    if given.is_empty() { default() } else { given.to_vec() }
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn inputs(program: &Program) -> Vec<String> {
    interface(program).inputs.into_iter().map(str::to_owned).collect()
}

/// Returns the outputs of a program: those that it fetches, or the only one that no operator of its forward part reads,
/// except for the loss, and for values that only gradients need.
///
/// # Errors
/// If the program fetches nothing, and there are several results, or none.
fn results(program: &Program, forward: &Program) -> Result<Vec<String>> {
    let fetched: Vec<String> = interface(program).outputs.into_iter().map(str::to_owned).collect();
    if !fetched.is_empty() {
        return Ok(fetched);
    }
    let root = loss(program);
    let read: HashSet<&str> = forward.ops().flat_map(Op::reads).collect();
    // The result of an operator has one of these slots; other outputs serve its gradient.
    let result = |op: &'_ Op| -> Vec<String> {
        let slots = ["Out", "Y", "Output", "Loss", "Accuracy"];
        slots.into_iter().flat_map(|slot| op.output(slot)).cloned().collect()
    };
    let ops = forward.blocks.first().map_or(&[][..], |block| &block.ops);
    let unread = ops.iter().flat_map(result).filter(|name| !read.contains(name.as_str()));
    let found: Vec<String> = unread.filter(|name| Some(name.as_str()) != root).collect();
    match found.len() {
        1 => Ok(found),
        _ => {
            let quoted: Vec<String> = found.iter().map(|name| format!("`{name}`")).collect();
            let why =
                format!("the program fetches nothing; select from its results: {}", some(quoted));
            Err(Error::InvalidOption { option: "fetch", why })
        }
    }
}

/// Returns a predicate for variables whose names match patterns [default: all].
fn selection(patterns: &[String]) -> Result<impl Fn(&Var) -> bool + use<>> {
    let globs: Option<GlobSet> = (!patterns.is_empty()).then(|| globs(patterns)).transpose()?;
    Ok(move |var: &Var| globs.as_ref().is_none_or(|globs| globs.is_match(&var.name)))
}

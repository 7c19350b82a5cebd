//! Operators that save, behind those that train.

use lodstone_model::{AttributeValue, Block, DType, Dim, Holder, Op, Program, TensorType, Var};
use lodstone_paddle::executor::{RANDOM_STATE, draws};
use lodstone_paddle::program::{
    Form, LoadOptions, OPTIMIZES, Operator, Placement, SaveOptions, Variable, save, save_program,
    set_role,
};
use lodstone_schema::paddle::with_stop_gradient;
use lodstone_store::{Commit, Location, Progress};

use crate::container::PARAMS;
use crate::contents::random_state;
use crate::error::{Error, Result, internal};
use crate::loader::{LOADER, build_checkpoint_loader, check_loader, is_checkpointed};

/// How operators save a checkpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckpointOptions {
    /// After how many runs of the program each time; 1 for every run.
    pub every: u64,
    /// Which files the variables are in.
    pub placement: Placement,
}

lodstone_model::with_fields!(CheckpointOptions {
    with_every(every: u64),
    with_placement(placement: Placement),
});

impl Default for CheckpointOptions {
    /// After every run, in one file.
    fn default() -> Self {
        Self { every: 1, placement: Placement::Combined(PARAMS.to_owned()) }
    }
}

/// What the counter of runs is called.
const COUNTER: &str = "checkpoint_counter";

/// Appends operators to the main program that save its variables, and writes the loader of that checkpoint into a
/// directory, which may not exist yet. Both programs are run with that directory to save to and to load from.
///
/// Variables are those that [outlive runs](is_checkpointed) and that the predicate says yes to; those that it says
/// no to begin again as the startup program says. Called behind an optimizer it saves what training resumes with,
/// called before it, what infers. Runs are counted in a variable that is saved too, so that a run that is resumed
/// saves when the other would have. All operators are standard ones, which PaddlePaddle 2.6.2 runs.
///
/// Where the main program draws random numbers, both programs get a variable for their [state](RANDOM_STATE), so that
/// they go on too: the startup program begins it with 0 and 0, seed and counter, before it draws.
///
/// # Errors
/// [`Error::Incomplete`](crate::Error::Incomplete) if there is a variable that is neither saved nor begins with the
/// startup program; if the loader cannot be written. Both programs are then as they were.
pub fn make_checkpoint(
    dir: impl Into<Location>,
    predicate: Option<&dyn Fn(&Var) -> bool>,
    startup: &mut Program,
    main: &mut Program,
    options: &CheckpointOptions,
) -> Result<()> {
    let (mut begun, mut trained) = (startup.clone(), main.clone());
    keep_random(&mut begun, &mut trained)?;
    let counter = (options.every > 1).then(|| counter(&mut begun, &mut trained)).transpose()?;
    let is_counter = |var: &Var| counter.as_ref().is_some_and(|it| it.name() == var.name);
    let takes = |var: &Var| is_counter(var) || predicate.is_none_or(|predicate| predicate(var));
    let vars: Vec<Var> =
        trained.vars().filter(|var| is_checkpointed(var) && takes(var)).cloned().collect();
    let names: Vec<Variable> = vars.iter().map(|var| Variable::named(&var.name)).collect();
    let before = trained.blocks.first().map_or(0, |block| block.ops.len());
    let files = SaveOptions::default().with_placement(options.placement.clone());
    save(&mut trained, &names, "", &files)?;
    let mut saves = first(&mut trained)?.ops.split_off(before);
    let records = Some(saves.iter().flat_map(Op::reads).map(str::to_owned).collect());
    let files =
        LoadOptions::default().with_placement(options.placement.clone()).with_records(records);
    let loader = build_checkpoint_loader(&vars, Some(&begun), &files)?;
    check_loader(&loader, &trained)?;
    if let Some(counter) = counter {
        saves = guarded(&mut trained, saves, &names, &counter, options.every)?;
    }
    saves.iter_mut().for_each(behind_training);
    first(&mut trained)?.ops.extend(saves);
    let dir = dir.into();
    make_dir(&dir)?;
    save_program(&loader, dir.join(LOADER), Form::Binary)?;
    (*startup, *main) = (begun, trained);
    Ok(())
}

/// Makes a directory, and those above it.
pub(crate) fn make_dir(dir: &Location) -> Result<()> {
    let is_missing = |dir: &Location| !dir.path().as_os_str().is_empty() && !dir.is_dir();
    let above = std::iter::successors(Some(dir.clone()), Location::parent);
    let missing: Vec<Location> = above.take_while(is_missing).collect();
    for dir in missing.into_iter().rev() {
        Commit::directory(dir, Progress::default())?.publish()?;
    }
    Ok(())
}

/// Says that an operator is one of those that only training has: who takes from a program what infers leaves them
/// behind.
fn behind_training(op: &mut Op) {
    set_role(op, OPTIMIZES);
}

/// Declares a variable that counts runs, and lets the startup program begin it with 0.
fn counter(startup: &mut Program, main: &mut Program) -> Result<Variable> {
    let is_free = |name: &String| main.vars().all(|var| var.name != *name);
    let name = (0..).map(|number| format!("{COUNTER}_{number}")).find(is_free);
    let name = name.ok_or_else(|| internal("all names of counters are taken"))?;
    let counter = Variable::named(&name);
    for program in [&mut *startup, main] {
        declare(program, &counter, DType::Int64, true)?;
    }
    let op = constant(0, &[1], &counter)?;
    first(startup)?.ops.push(op);
    Ok(counter)
}

/// Declares the state of random numbers, if the main program draws any, and lets the startup program begin with it.
fn keep_random(startup: &mut Program, main: &mut Program) -> Result<()> {
    if !main.ops().any(draws) || main.vars().any(|var| var.name == RANDOM_STATE) {
        return Ok(());
    }
    for program in [&mut *startup, main] {
        first(program)?.vars.push(random_state());
    }
    let op = constant(0, &[2], &Variable::named(RANDOM_STATE))?;
    first(startup)?.ops.insert(0, op);
    Ok(())
}

/// Operators that run others every so many runs.
fn guarded(
    main: &mut Program,
    mut inner: Vec<Op>,
    vars: &[Variable],
    counter: &Variable,
    every: u64,
) -> Result<Vec<Op>> {
    inner.iter_mut().for_each(behind_training);
    let part = |what: &str| Variable::named(&format!("{}.{what}", counter.name()));
    let [number, rest, zero, due, scope] = ["every", "rest", "zero", "due", "scope"].map(part);
    for (var, dtype) in [(&number, DType::Int64), (&rest, DType::Int64), (&zero, DType::Int64)] {
        declare(main, var, dtype, false)?;
    }
    declare(main, &due, DType::Bool, false)?;
    let index = i32::try_from(main.blocks.len()).unwrap_or(i32::MAX);
    let (name, value) = (scope.name().to_owned(), Holder::StepScopes.into());
    first(main)?.vars.push(Var { name, value, ..Var::default() });
    main.blocks.push(Block { index, parent: 0, ops: inner, ..Block::default() });
    Ok(vec![
        Operator::new("increment").input("X", [counter]).output("Out", [counter]).finish()?,
        constant(every, &[1], &number)?,
        Operator::new("elementwise_mod")
            .input("X", [counter])
            .input("Y", [&number])
            .output("Out", [&rest])
            .finish()?,
        constant(0, &[1], &zero)?,
        Operator::new("equal")
            .input("X", [&rest])
            .input("Y", [&zero])
            .output("Out", [&due])
            .finish()?,
        Operator::new("conditional_block")
            .input("Cond", [&due])
            .input("Input", vars)
            .output("Out", [])
            .output("Scope", [&scope])
            .attribute("sub_block", AttributeValue::Block(index))
            .attribute("is_scalar_condition", true)
            .finish()?,
    ])
}

/// A whole number, as often as the extents say.
fn constant(value: u64, shape: &[i64], out: &Variable) -> Result<Op> {
    #[expect(clippy::cast_precision_loss, reason = "the text beside it is exact")]
    let single = value as f32;
    Ok(Operator::new("fill_constant")
        .attribute("shape", shape.to_vec())
        .dtype("dtype", DType::Int64)
        .attribute("value", single)
        .attribute("str_value", value.to_string().as_str())
        .output("Out", [out])
        .finish()?)
}

/// The first block of a program, which operators are appended to.
fn first(program: &mut Program) -> Result<&mut Block> {
    program.blocks.first_mut().ok_or(Error::NoBlocks)
}

fn declare(program: &mut Program, var: &Variable, dtype: DType, persistable: bool) -> Result<()> {
    let shape = Some(vec![Dim::Known(1)]);
    let value = TensorType::new(dtype, shape).into();
    let var = Var { name: var.name().to_owned(), value, persistable, ..Var::default() };
    first(program)?.vars.push(with_stop_gradient(var, true));
    Ok(())
}

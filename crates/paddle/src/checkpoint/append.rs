//! Operators that save a checkpoint, appended to those that train.

use lodstone_checkpoint::LOADER;
use lodstone_model::{AttributeValue, Block, DType, Dim, Holder, Op, Program, TensorType, Var};
use lodstone_schema::paddle::with_stop_gradient;
use lodstone_store::Location;

use crate::checkpoint::contents::random_state;
use crate::checkpoint::error::{Error, Result, internal};
use crate::checkpoint::loader::{build_checkpoint_loader, check_loader, is_checkpointed};
use crate::executor::{RANDOM_STATE, draws};
use crate::program::{
    Form, LoadOptions, OPTIMIZES, Operator, Placement, SaveOptions, StaleSave, Variable, save,
    save_program, set_role, stale_saves,
};

/// When operators save a checkpoint, and to which files.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckpointOptions {
    /// Save after every N runs of the program [default: 1].
    pub every: u64,
    /// The files of the variables [default: one file, `params`].
    pub placement: Placement,
}

lodstone_model::with_fields!(CheckpointOptions {
    with_every(every: u64),
    with_placement(placement: Placement),
});

impl Default for CheckpointOptions {
    /// The default: after every run, in one file.
    fn default() -> Self {
        Self { every: 1, placement: Placement::Combined(PARAMS.to_owned()) }
    }
}

/// The file of all variables.
const PARAMS: &str = "params";

/// The name of the counter of runs, before its number.
const COUNTER: &str = "checkpoint_counter";

/// Appends operators to the main program that save its variables, and writes the loader of that checkpoint into a
/// directory, which need not exist. Run both programs with that directory to save to and to load from.
///
/// The operators save the variables that [persist](is_checkpointed) and match the predicate [default: all]; the loader
/// initialises the others. Called after an optimizer was appended, this saves everything that training resumes from;
/// called before, the variables of inference. Runs are counted in a variable that is saved too, so a resumed run saves
/// at the same steps. All operators are standard ones, which PaddlePaddle 2.6.2 runs.
///
/// If the main program draws random numbers, both programs get a variable for their [state](RANDOM_STATE), which the
/// startup program sets to 0 and 0, seed and counter, before it draws.
///
/// Returns the operators of the main program, from earlier calls, that save variables before an optimizer updates them:
/// their files are those of the step before.
///
/// # Errors
/// [`Error::Incomplete`] if a variable is neither saved nor initialised by the startup program; if the loader cannot be
/// written. Both programs are unchanged then.
pub fn make_checkpoint(
    dir: impl Into<Location>,
    predicate: Option<&dyn Fn(&Var) -> bool>,
    startup: &mut Program,
    main: &mut Program,
    options: &CheckpointOptions,
) -> Result<Vec<StaleSave>> {
    let (mut begun, mut trained) = (startup.clone(), main.clone());
    keep_random(&mut begun, &mut trained)?;
    let counter = (options.every > 1).then(|| counter(&mut begun, &mut trained)).transpose()?;
    let is_counter = |var: &Var| counter.as_ref().is_some_and(|it| it.name() == var.name);
    let takes = |var: &Var| is_counter(var) || predicate.is_none_or(|predicate| predicate(var));
    let vars: Vec<Var> =
        trained.vars().filter(|var| is_checkpointed(var) && takes(var)).cloned().collect();
    let names: Vec<Variable> = vars.iter().map(|var| Variable::named(&var.name)).collect();
    let before = first(&mut trained)?.ops.len();
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
    saves.iter_mut().for_each(mark_as_training);
    first(&mut trained)?.ops.extend(saves);
    let dir = dir.into();
    dir.create_dir()?;
    save_program(&loader, dir.join(LOADER), Form::Binary)?;
    (*startup, *main) = (begun, trained);
    Ok(stale_saves(main))
}

/// Marks an operator as part of training, so that inference programs drop it.
fn mark_as_training(op: &mut Op) {
    set_role(op, OPTIMIZES);
}

/// Declares a variable that counts runs, which the startup program sets to 0.
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

/// Declares the state of random numbers if the main program draws any; the startup program initialises it first.
/// [`make_checkpoint`] does the same.
///
/// # Errors
/// If a program has no blocks.
pub fn keep_random(startup: &mut Program, main: &mut Program) -> Result<()> {
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

/// Returns operators that run `inner` in every `every`-th run.
fn guarded(
    main: &mut Program,
    mut inner: Vec<Op>,
    vars: &[Variable],
    counter: &Variable,
    every: u64,
) -> Result<Vec<Op>> {
    inner.iter_mut().for_each(mark_as_training);
    let part = |what: &str| Variable::named(&format!("{}.{what}", counter.name()));
    let [number, rest, zero, due, scope] = ["every", "rest", "zero", "due", "scope"].map(part);
    for (var, dtype) in [(&number, DType::Int64), (&rest, DType::Int64), (&zero, DType::Int64)] {
        declare(main, var, dtype, false)?;
    }
    declare(main, &due, DType::Bool, false)?;
    let index = i32::try_from(main.blocks.len());
    let index = index.map_err(|_| internal("the program has too many blocks"))?;
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

/// Returns an operator that fills `out` with an integer.
fn constant(value: u64, shape: &[i64], out: &Variable) -> Result<Op> {
    #[expect(clippy::cast_precision_loss, reason = "`str_value` is exact")]
    let single = value as f32;
    Ok(Operator::new("fill_constant")
        .attribute("shape", shape.to_vec())
        .dtype("dtype", DType::Int64)
        .attribute("value", single)
        .attribute("str_value", value.to_string().as_str())
        .output("Out", [out])
        .finish()?)
}

/// Returns the first block of a program, to which operators are appended.
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

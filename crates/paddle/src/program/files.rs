//! Programs in files, and operators that load and save.

use std::collections::{HashMap, HashSet};

use lodstone_formats::paddle::program;
use lodstone_model::{Limits, Program, Var};
use lodstone_schema::paddle::is_saved;
use lodstone_store::{Blob, Commit, Location, Output, Progress, check_relative};

use crate::program::error::{Error, Result, variable};
use crate::program::network::{Variable, push};
use crate::program::operator::Operator;
use crate::program::records::{all_of, position_of, saved_records};

/// The file of a program in its directory.
const FILE: &str = "__model__";

/// The same as text.
const TEXT: &str = "__model__.txt";

/// The attribute of `save` and `load` that makes them write and read one of several records of a file, each of
/// which follows its size.
pub const MERGED: &str = "merged";

/// The attribute of `load` that says which record of a merged file it reads.
pub const POSITION: &str = "position";

/// How a program is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As protobuf: what PaddlePaddle opens.
    #[default]
    Binary,
    /// As protobuf's text: what people read.
    Text,
}

/// Writes a program into a directory, which may not exist yet.
///
/// # Errors
/// If it cannot be written, or the disk does not take it; then nothing has changed.
pub fn save_program(program: &Program, dir: impl Into<Location>, form: Form) -> Result<()> {
    let (name, bytes) = match form {
        Form::Binary => (FILE, program::write(program)?),
        Form::Text => (TEXT, program::write_text(program)?),
    };
    let mut commit = Commit::within(dir, Progress::default())?;
    commit.write(name, |out: &mut Output| out.put(&bytes))?;
    Ok(commit.publish()?)
}

/// Reads the program of a directory, binary or, if that is not there, text.
///
/// # Errors
/// If there is none, or it is damaged.
pub fn load_program(dir: impl Into<Location>) -> Result<Program> {
    let dir = dir.into();
    let name = if dir.join(FILE).is_there()? { FILE } else { TEXT };
    let path = dir.join(name);
    let blob = Blob::open(&path, true)?;
    Ok(program::open(&blob, &path.display().to_string(), &Limits::default())?)
}

/// Which files variables are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One for each variable, which has its name.
    Each,
    /// One of this name for all: records end to end, sorted by name.
    Combined(String),
    /// One of this name for all: each record follows its size, so that the n-th is found by hopping. The first that
    /// is saved makes the file, the others append to it. A record has no name, so `load` needs the order in which
    /// they were saved. Only this project's executor has such operators.
    Merged(String),
}

/// Which names of files programs may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paths {
    /// Relative ones that stay below the directory that the run is given.
    #[default]
    Inside,
    /// Any: absolute ones, and such that climb with `..`.
    Anywhere,
}

/// How variables are saved.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SaveOptions {
    /// Which files they are in.
    pub placement: Placement,
    /// Whether files that are there may be replaced.
    pub overwrite: bool,
    /// Which names of files may be.
    pub paths: Paths,
}

lodstone_model::with_fields!(SaveOptions {
    with_placement(placement: Placement),
    with_overwrite(overwrite: bool),
    with_paths(paths: Paths),
});

impl Default for SaveOptions {
    fn default() -> Self {
        Self { placement: Placement::Each, overwrite: true, paths: Paths::default() }
    }
}

/// How variables are loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Which files they are in.
    pub placement: Placement,
    /// Names of all variables in the file of [`Placement::Combined`] or [`Placement::Merged`], in the order of its
    /// records [default: the order of the operators that save it, see [`saved_records`]].
    pub records: Option<Vec<String>>,
    /// Which file names are allowed.
    pub paths: Paths,
}

lodstone_model::with_fields!(LoadOptions {
    with_placement(placement: Placement),
    with_records(records: Option<Vec<String>>),
    with_paths(paths: Paths),
});

impl Default for LoadOptions {
    fn default() -> Self {
        Self { placement: Placement::Each, records: None, paths: Paths::default() }
    }
}

/// The variables of a program that outlive runs and that `takes` says yes to, sorted by name.
///
/// Parameters alone neither resume training nor infer (statistics and counters are none): so it is what persists
/// that is chosen from.
pub fn persistables(program: &Program, takes: impl Fn(&Var) -> bool) -> Vec<Variable> {
    let saved = program.vars().filter(|var| is_saved(var) && takes(var));
    let mut names: Vec<&str> = saved.map(|var| var.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(Variable::named).collect()
}

/// Appends operators to a program that save variables under `dir` when it is run; nothing is saved now.
///
/// `dir` is relative to the directory that the run is given, and stays in the operators.
///
/// # Errors
/// If the program has no such variable, it does not outlive runs, or its file would lie elsewhere.
pub fn save(
    program: &mut Program,
    vars: &[Variable],
    dir: &str,
    options: &SaveOptions,
) -> Result<()> {
    let vars = declared(program, vars)?;
    let named = |kind: &str, path: String| {
        Operator::new(kind)
            .attribute("file_path", path.as_str())
            .attribute("overwrite", options.overwrite)
    };
    let path = |name: &str| file_in(dir, name, options.paths);
    let operators: Vec<Operator> = match &options.placement {
        Placement::Each => {
            let one = |var: &Variable| Ok(named("save", path(var.name())?).input("X", [var]));
            vars.iter().map(one).collect::<Result<_>>()?
        }
        Placement::Combined(name) => vec![named("save_combine", path(name)?).input("X", &vars)],
        Placement::Merged(name) => {
            let path = path(name)?;
            let one = |var| named("save", path.clone()).input("X", [var]).attribute(MERGED, true);
            vars.iter().map(one).collect()
        }
    };
    append(program, operators)
}

/// Appends operators to a program that load variables from `dir` when it is run; nothing is loaded now. Variables
/// that the program does not have are declared as `from` has them.
///
/// Records of a file have no names. Their order is that of `options.records`, or that of the operators of `from`,
/// else of `program`, that save the file. Without either, all records of a combined file are loaded sorted by name,
/// the order in which [`save`] and PaddlePaddle write them; loading from a merged file is an error.
///
/// # Errors
/// As [`save`]; if neither program has a variable; if the order of records is unknown, or the file has no record of
/// a variable; if variables of a combined file are left out, because `load_combine` reads all of it.
pub fn load(
    program: &mut Program,
    vars: &[Variable],
    from: &Program,
    dir: &str,
    options: &LoadOptions,
) -> Result<()> {
    let named =
        |kind: &str, path: String| Operator::new(kind).attribute("file_path", path.as_str());
    let path = |name: &str| file_in(dir, name, options.paths);
    let records = |path: &str| match (&options.records, saved_records(from, path)?) {
        (Some(records), _) => Ok(Some(records.clone())),
        (None, Some(records)) => Ok(Some(records)),
        (None, None) => saved_records(program, path),
    };
    let vars = sorted(vars);
    let operators: Vec<Operator> = match &options.placement {
        Placement::Each => {
            let one = |var: &Variable| Ok(named("load", path(var.name())?).output("Out", [var]));
            vars.iter().map(one).collect::<Result<_>>()?
        }
        Placement::Combined(name) => {
            let path = path(name)?;
            let vars = match records(&path)? {
                Some(records) => all_of(&path, &vars, &records)?,
                None => vars.clone(),
            };
            vec![named("load_combine", path).output("Out", &vars)]
        }
        Placement::Merged(name) => {
            let path = path(name)?;
            let records =
                records(&path)?.ok_or_else(|| Error::UnknownOrder { path: path.clone() })?;
            let one = |var: &Variable| {
                let position = position_of(&path, var.name(), &records)?;
                let operator = named("load", path.clone()).output("Out", [var]);
                Ok(operator.attribute(MERGED, true).attribute(POSITION, position))
            };
            vars.iter().map(one).collect::<Result<_>>()?
        }
    };
    declare(program, &vars, from)?;
    append(program, operators)
}

/// Makes variables of a program outlive its runs, and declares those that it lacks as `from` has them.
fn declare(program: &mut Program, vars: &[Variable], from: &Program) -> Result<()> {
    let (own, others) = (by_name(program), by_name(from));
    let (mut loaded, mut missing) = (HashSet::new(), Vec::new());
    for var in vars.iter().filter(|var| loaded.insert(var.name())) {
        let (own, other) = (own.get(var.name()), others.get(var.name()));
        let Some(known) = own.or(other) else {
            return variable(var.name(), "no program has such a variable");
        };
        let lasting = Var { persistable: true, ..Var::clone(known) };
        match is_saved(&lasting) {
            false => return variable(var.name(), "it does not outlive a run"),
            true if own.is_none() => missing.push(lasting),
            true => {}
        }
    }
    if let Some(block) = program.blocks.first_mut() {
        block.vars.append(&mut missing);
        let declared = block.vars.iter_mut().filter(|var| loaded.contains(var.name.as_str()));
        declared.for_each(|var| var.persistable = true);
    }
    Ok(())
}

/// The variables of a program by name: of several of one name, the first.
fn by_name(program: &Program) -> HashMap<&str, &Var> {
    let mut known = HashMap::new();
    for var in program.vars() {
        known.entry(var.name.as_str()).or_insert(var);
    }
    known
}

/// Variables of a program that outlive runs, sorted by name, each once.
fn declared(program: &Program, vars: &[Variable]) -> Result<Vec<Variable>> {
    let known = by_name(program);
    for var in vars {
        match known.get(var.name()) {
            Some(known) if is_saved(known) => {}
            Some(_) => return variable(var.name(), "it does not outlive a run"),
            None => return variable(var.name(), "the program has no such variable"),
        }
    }
    Ok(sorted(vars))
}

/// Variables sorted by name, each once.
fn sorted(vars: &[Variable]) -> Vec<Variable> {
    let mut vars = vars.to_vec();
    vars.sort_unstable_by(|a, b| a.name().cmp(b.name()));
    vars.dedup();
    vars
}

/// The path of a file under `dir`.
fn file_in(dir: &str, name: &str, paths: Paths) -> Result<String> {
    let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
    match (paths, check_relative(&path)) {
        (Paths::Inside, Err(error)) => Err(Error::Path { path, what: error.to_string() }),
        _ => Ok(path),
    }
}

/// Appends operators to the first block, all or none.
fn append(program: &mut Program, operators: Vec<Operator>) -> Result<()> {
    let ops = operators.into_iter().map(Operator::finish).collect::<Result<Vec<_>>>()?;
    ops.into_iter().try_for_each(|op| push(program, op))?;
    Ok(())
}

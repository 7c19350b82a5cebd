//! Programs in files, and operators that load and save.
//!
//! | placement | operators | file |
//! |---|---|---|
//! | [`Placement::Each`] | `save`, `load` | one for each variable |
//! | [`Placement::Combined`] | `save_combine`, `load_combine` | one for all variables |
//! | [`Placement::Merged`] | `lodstone.save_merged`, `lodstone.load_merged`, which PaddlePaddle rejects | one for all, with the size of each record before it |
//!
//! # What a run replaces, and what it appends to
//!
//! - Each run replaces the files that it saves: nothing is appended to a file of an earlier run.
//! - Within a run, `save` and `save_combine` replace a file that the run has saved already; `lodstone.save_merged` appends its
//!   record to it, so that the file has the records in the order of the operators.
//! - All files in one directory become visible together, after the last operator of a block that saves there. A run that fails before
//!   leaves the old files; loads of the same run read what it has saved.
//! - With `overwrite = false`, a run fails if an earlier one has saved the file.
//! - Files that a run does not save stay.

use std::collections::{HashMap, HashSet};

use lodstone_formats::paddle::program;
use lodstone_model::{Holder, Limits, Program, ValueType, Var};
use lodstone_schema::paddle::{LOAD_MERGED, POSITION, SAVE_MERGED, is_saved};
use lodstone_store::{Blob, Commit, Location, Output, Progress, check_relative};

use crate::program::error::{Error, Result, variable};
use crate::program::network::{Variable, push};
use crate::program::operator::Operator;
use crate::program::records::{all_of, position_of, saved_records};

/// The file of a program in its directory.
const FILE: &str = "__model__";

/// The file of a program in text form.
const TEXT: &str = "__model__.txt";

/// The encoding of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Protobuf's binary format, which PaddlePaddle reads.
    #[default]
    Binary,
    /// Protobuf's text format.
    Text,
}

/// Writes a program into a directory. It, and the directories above it, need not exist.
///
/// # Errors
/// If it cannot be written; nothing is changed then.
pub fn save_program(program: &Program, dir: impl Into<Location>, form: Form) -> Result<()> {
    let (name, bytes) = match form {
        Form::Binary => (FILE, program::write(program)?),
        Form::Text => (TEXT, program::write_text(program)?),
    };
    let dir = dir.into();
    dir.directory().create_dir()?;
    let mut commit = Commit::within(dir, Progress::default())?;
    commit.write(name, |out: &mut Output| out.put(&bytes))?;
    Ok(commit.publish()?)
}

/// Reads the program of a directory, in binary or, if it does not exist, text form.
///
/// # Errors
/// If there is none, or it is damaged.
pub fn load_program(dir: impl Into<Location>) -> Result<Program> {
    let dir = dir.into();
    let mut path = dir.join(FILE);
    if !path.is_there()? {
        path = dir.join(TEXT);
    }
    if !path.is_there()? {
        let why = format!("expected a file `{FILE}` or `{TEXT}` in it");
        return Err(lodstone_formats::Error::NoModel { path: dir.to_path_buf(), why }.into());
    }
    let blob = Blob::open(&path, true)?;
    Ok(program::open(&blob, &path.display().to_string(), &Limits::default())?)
}

/// The files of variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A file for each variable, with its name.
    Each,
    /// A file of this name for all: concatenated records, sorted by name.
    Combined(String),
    /// A file of this name for all: each record is preceded by its size, so that the n-th record can be found without
    /// reading the others. The first save creates the file, the others append to it. Records have no names, so `load`
    /// needs the order in which they were saved. Only this project's executor has such operators.
    Merged(String),
}

/// The file names that programs may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paths {
    /// Relative names that stay below the directory of the run.
    #[default]
    Inside,
    /// Any names, including absolute ones and those with `..`.
    Anywhere,
}

/// Options of [`save`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SaveOptions {
    /// The files of the variables.
    pub placement: Placement,
    /// Whether existing files may be replaced.
    pub overwrite: bool,
    /// The file names that are allowed.
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

/// Options of [`load`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The files of the variables.
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

/// Returns the persistable variables of a program that `takes` accepts, sorted by name.
///
/// Parameters alone are enough neither to resume training nor for inference (statistics and counters are not parameters),
/// so this selects from all persistable variables.
pub fn persistables(program: &Program, takes: impl Fn(&Var) -> bool) -> Vec<Variable> {
    let saved = program.vars().filter(|var| is_saved(var) && takes(var));
    let mut names: Vec<&str> = saved.map(|var| var.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(Variable::named).collect()
}

/// Appends operators to a program that save variables under `dir` when it is run: any variables that hold tensors when the
/// operators run, persistable or not.
///
/// `dir` is relative to the directory of the run, and stored in the operators.
///
/// # Errors
/// If a variable does not exist or does not hold tensors, or its file would be outside of the directory.
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
            vars.iter().map(|var| named(SAVE_MERGED, path.clone()).input("X", [var])).collect()
        }
    };
    append(program, operators)
}

/// Appends operators to a program that load variables from `dir` when it is run. Variables that the program does not have
/// are declared as in `from`.
///
/// Records of a file have no names. Their order is that of `options.records`, or that of the operators of `from`,
/// else of `program`, that save the file. Without either, all records of a combined file are loaded sorted by name,
/// the order in which [`save`] and PaddlePaddle write them; loading from a merged file is an error.
///
/// # Errors
/// Like [`save`]; also if neither program has a variable, the order of records is unknown, the file has no record of a
/// variable, or variables of a combined file are omitted, since `load_combine` reads all of it.
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
                let operator = named(LOAD_MERGED, path.clone()).output("Out", [var]);
                Ok(operator.attribute(POSITION, position))
            };
            vars.iter().map(one).collect::<Result<_>>()?
        }
    };
    declare(program, &vars, from)?;
    append(program, operators)
}

/// Makes variables of a program persistable, and declares missing ones as in `from`.
fn declare(program: &mut Program, vars: &[Variable], from: &Program) -> Result<()> {
    let (own, others) = (by_name(program), by_name(from));
    let (mut loaded, mut missing) = (HashSet::new(), Vec::new());
    for var in vars.iter().filter(|var| loaded.insert(var.name())) {
        let (own, other) = (own.get(var.name()), others.get(var.name()));
        let Some(known) = own.or(other) else {
            return variable(var.name(), "no program has this variable");
        };
        let lasting = Var { persistable: true, ..Var::clone(known) };
        match is_saved(&lasting) {
            false => return variable(var.name(), "the variable is not persistable"),
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

/// Returns the variables of a program by name: for duplicate names, the first one.
fn by_name(program: &Program) -> HashMap<&str, &Var> {
    let mut known = HashMap::new();
    for var in program.vars() {
        known.entry(var.name.as_str()).or_insert(var);
    }
    known
}

/// Returns variables of a program that hold tensors, sorted by name, without duplicates.
fn declared(program: &Program, vars: &[Variable]) -> Result<Vec<Variable>> {
    let known = by_name(program);
    for var in vars {
        match known.get(var.name()).map(|known| &known.value) {
            Some(ValueType::Tensor(_) | ValueType::Unspecified) => {}
            Some(ValueType::Holder(Holder::SelectedRows(_) | Holder::Vocabulary(_))) => {}
            Some(other) => {
                return variable(var.name(), format!("a {} cannot be saved", other.kind()));
            }
            None => return variable(var.name(), "the program does not have this variable"),
        }
    }
    Ok(sorted(vars))
}

/// Returns variables sorted by name, without duplicates.
fn sorted(vars: &[Variable]) -> Vec<Variable> {
    let mut vars = vars.to_vec();
    vars.sort_unstable_by(|a, b| a.name().cmp(b.name()));
    vars.dedup();
    vars
}

/// Returns the path of a file under `dir`.
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

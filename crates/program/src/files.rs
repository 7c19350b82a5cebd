//! Programs in files, and operators that load and save.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use lodstone_formats::paddle_program;
use lodstone_model::{Limits, Program, Var};
use lodstone_schema::paddle::is_saved;
use lodstone_store::{Blob, Commit, Output, Progress, check_relative, is_dir};

use crate::error::{Error, Result, variable};
use crate::network::{Variable, push};
use crate::operator::Operator;

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
pub fn save_program(program: &Program, dir: &Path, form: Form) -> Result<()> {
    let (name, bytes) = match form {
        Form::Binary => (FILE, paddle_program::write(program)?),
        Form::Text => (TEXT, paddle_program::write_text(program)?),
    };
    let mut commit = match is_dir(dir) {
        true => Commit::existing(dir, Progress::default())?,
        false => Commit::directory(dir, Progress::default())?,
    };
    commit.write(name, |out: &mut Output| out.put(&bytes))?;
    Ok(commit.publish()?)
}

/// Reads the program of a directory, binary or, if that is not there, text.
///
/// # Errors
/// If there is none, or it is damaged.
pub fn load_program(dir: &Path) -> Result<Program> {
    let name = if lodstone_store::is_there(&dir.join(FILE))? { FILE } else { TEXT };
    let path = dir.join(name);
    let blob = Blob::open(&path, true)?;
    Ok(paddle_program::open(&blob, &path.display().to_string(), &Limits::default())?)
}

/// Which files variables are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One for each variable, which has its name.
    Each,
    /// One of this name for all: records end to end, sorted by name.
    Combined(String),
    /// One of this name for all: each record follows its size, so that the n-th is found by hopping. The first that
    /// is saved makes the file, the others append to it. Only this project's runtime has such operators.
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
pub struct SaveOptions {
    /// Which files they are in.
    pub placement: Placement,
    /// Whether files that are there may be replaced.
    pub overwrite: bool,
    /// Which names of files may be.
    pub paths: Paths,
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self { placement: Placement::Each, overwrite: true, paths: Paths::default() }
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
    for (operator, vars, position) in placed("save", &vars, dir, options)? {
        let operator = operator.input("X", &vars).attribute("overwrite", options.overwrite);
        let operator = if position.is_some() { operator.attribute(MERGED, true) } else { operator };
        push(program, operator.finish()?);
    }
    Ok(())
}

/// Appends operators to a program that load variables from `dir` when it is run; nothing is loaded now. Variables
/// that the program does not have are declared as `from` has them.
///
/// # Errors
/// As [`save`]; if neither of the programs has a variable.
pub fn load(
    program: &mut Program,
    vars: &[Variable],
    from: &Program,
    dir: &str,
    options: &SaveOptions,
) -> Result<()> {
    let (own, others) = (by_name(program), by_name(from));
    let (mut loaded, mut missing) = (HashSet::new(), Vec::new());
    for var in vars.iter().filter(|var| loaded.insert(var.name())) {
        match (own.get(var.name()), others.get(var.name())) {
            (Some(_), _) => {}
            (None, Some(known)) => missing.push(Var::clone(known)),
            (None, None) => return variable(var.name(), "no program has such a variable"),
        }
    }
    if let Some(block) = program.blocks.first_mut() {
        block.vars.append(&mut missing);
        let declared = block.vars.iter_mut().filter(|var| loaded.contains(var.name.as_str()));
        declared.for_each(|var| var.persistable = true);
    }
    let vars = declared(program, vars)?;
    for (operator, vars, position) in placed("load", &vars, dir, options)? {
        let operator = operator.output("Out", &vars);
        let operator = match position {
            Some(position) => operator.attribute(MERGED, true).attribute(POSITION, position),
            None => operator,
        };
        push(program, operator.finish()?);
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
    let mut vars = vars.to_vec();
    vars.sort_unstable_by(|a, b| a.name().cmp(b.name()));
    vars.dedup();
    Ok(vars)
}

/// An operator, its variables, and the number of its record in a merged file.
type Placed = (Operator, Vec<Variable>, Option<i64>);

fn placed(kind: &str, vars: &[Variable], dir: &str, options: &SaveOptions) -> Result<Vec<Placed>> {
    let path = |name: &str| {
        let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
        match (options.paths, check_relative(&path)) {
            (Paths::Inside, Err(error)) => {
                Err(Error::Path { path: path.clone(), what: error.to_string() })
            }
            _ => Ok(path),
        }
    };
    let named =
        |kind: &str, path: String| Operator::new(kind).attribute("file_path", path.as_str());
    Ok(match &options.placement {
        Placement::Each => {
            let one =
                |var: &Variable| Ok((named(kind, path(var.name())?), vec![var.clone()], None));
            vars.iter().map(one).collect::<Result<_>>()?
        }
        Placement::Combined(name) => {
            vec![(named(&format!("{kind}_combine"), path(name)?), vars.to_vec(), None)]
        }
        Placement::Merged(name) => {
            let path = path(name)?;
            let one = |(position, var): (i64, &Variable)| {
                (named(kind, path.clone()), vec![var.clone()], Some(position))
            };
            (0..).zip(vars).map(one).collect()
        }
    })
}

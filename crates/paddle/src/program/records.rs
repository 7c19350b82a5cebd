//! The order of records in files that hold several variables.
//!
//! Records have no names: only the operators that save a file determine which record is which.

use std::collections::HashSet;

use lodstone_model::{AttributeValue, Op, Program};
use lodstone_schema::paddle::{is_merged, is_save};
use lodstone_store::plain;

use crate::program::error::{Error, Result};
use crate::program::network::Variable;

/// Returns the names of the variables that a program saves to a file, in the order of its records; `None` if no operator
/// saves that file.
///
/// # Errors
/// [`Error::Records`] if the operators do not determine the order: several blocks save the file, one variable is saved
/// twice, or one operator overwrites what another has saved.
pub fn saved_records(program: &Program, path: &str) -> Result<Option<Vec<String>>> {
    let ambiguous = |what: &str| Error::Records { path: path.to_owned(), what: what.to_owned() };
    let mut found: Option<Vec<String>> = None;
    for block in &program.blocks {
        let ops: Vec<&Op> = block.ops.iter().filter(|op| saves(op, path)).collect();
        if ops.is_empty() {
            continue;
        }
        if found.is_some() {
            return Err(ambiguous("several blocks of the program save it"));
        }
        if ops.len() > 1 && !ops.iter().all(|op| is_merged(op)) {
            return Err(ambiguous("several operators of the program overwrite it"));
        }
        let names: Vec<String> = ops.iter().flat_map(|op| op.reads()).map(str::to_owned).collect();
        let mut once = HashSet::new();
        if let Some(name) = names.iter().find(|name| !once.insert(name.as_str())) {
            return Err(ambiguous(&format!("the program saves `{name}` to it twice")));
        }
        found = Some(names);
    }
    Ok(found)
}

/// Whether an operator writes a file, or one of its records.
fn saves(op: &Op, path: &str) -> bool {
    let Some(AttributeValue::String(own)) = op.attribute("file_path") else { return false };
    let own = own.to_string();
    is_save(op) && own.starts_with('/') == path.starts_with('/') && plain(&own) == plain(path)
}

/// Returns the index of a variable's record.
pub(crate) fn position_of(path: &str, name: &str, records: &[String]) -> Result<i64> {
    let missing = || Error::Records {
        path: path.to_owned(),
        what: format!("there is no record of variable `{name}`"),
    };
    let mut found = (0i64..).zip(records).filter(|(_, record)| *record == name);
    match (found.next(), found.next()) {
        (Some((position, _)), None) => Ok(position),
        (None, _) => Err(missing()),
        (Some(_), Some(_)) => Err(Error::Records {
            path: path.to_owned(),
            what: format!("there are several records of variable `{name}`"),
        }),
    }
}

/// Returns the variables in the order of the records of a combined file, which is read as a whole.
pub(crate) fn all_of(path: &str, vars: &[Variable], records: &[String]) -> Result<Vec<Variable>> {
    for var in vars {
        position_of(path, var.name(), records)?;
    }
    let wanted: HashSet<&str> = vars.iter().map(Variable::name).collect();
    if let Some(left) = records.iter().find(|record| !wanted.contains(record.as_str())) {
        let what = format!("`load_combine` reads all records, but `{left}` is omitted");
        return Err(Error::Records { path: path.to_owned(), what });
    }
    Ok(records.iter().map(|record| Variable::named(record)).collect())
}

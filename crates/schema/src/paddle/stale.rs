//! Detects operators that save variables before an optimizer updates them.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use lodstone_model::{AttributeValue, Op, Program};

use super::is_save;
use super::roles::{OPTIMIZES, role};

/// An operator that saves variables which are updated after it in the same run: the file has the values of the previous
/// step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleSave {
    /// The file that is saved.
    pub path: String,
    /// The variables that are updated after it, sorted.
    pub variables: Vec<String>,
}

impl fmt::Display for StaleSave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted: Vec<String> = self.variables.iter().map(|name| format!("`{name}`")).collect();
        let (path, names) = (&self.path, quoted.join(", "));
        write!(f, "`{path}` is saved before an optimizer updates {names}: save it afterwards")
    }
}

/// Returns the operators of a program that save variables before an optimizer updates them.
pub fn stale_saves(program: &Program) -> Vec<StaleSave> {
    let Some(main) = program.blocks.first() else { return Vec::new() };
    let mut changed: HashSet<&str> = HashSet::new();
    let mut stale = Vec::new();
    for op in main.ops.iter().rev() {
        let inside = within(program, op);
        for save in inside.iter().rev().filter(|op| is_save(op)) {
            let variables: BTreeSet<&str> =
                save.reads().filter(|name| changed.contains(name)).collect();
            if !variables.is_empty() {
                let variables = variables.into_iter().map(str::to_owned).collect();
                stale.push(StaleSave { path: path_of(save), variables });
            }
        }
        let optimizes = inside.iter().filter(|op| role(op) & OPTIMIZES != 0);
        changed.extend(optimizes.flat_map(|op| op.writes()));
    }
    stale.reverse();
    stale
}

/// Returns an operator, and those of the blocks that it runs.
fn within<'p>(program: &'p Program, op: &'p Op) -> Vec<&'p Op> {
    let (mut all, mut next, mut seen) = (vec![op], 0, HashSet::new());
    while let Some(op) = all.get(next).copied() {
        next += 1;
        for number in op.blocks().filter(|number| seen.insert(*number)) {
            let block = usize::try_from(number).ok().and_then(|number| program.blocks.get(number));
            all.extend(block.into_iter().flat_map(|block| &block.ops));
        }
    }
    all
}

fn path_of(save: &Op) -> String {
    match save.attribute("file_path") {
        Some(AttributeValue::String(path)) => path.to_string(),
        _ => String::new(),
    }
}

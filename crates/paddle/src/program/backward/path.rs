//! The operators that a variable depends on, in a block and the blocks that it runs.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Op, Program};
use lodstone_schema::paddle::has_gradient;

use super::blocks::inner;

/// The indices of operators, by block.
pub(super) type Paths = HashMap<usize, Vec<usize>>;

/// Returns the indices of the operators of a block that variables depend on; those of inner blocks are added to `paths`.
pub(super) fn path(
    program: &Program,
    block: usize,
    mut wanted: HashSet<String>,
    stopped: &HashSet<String>,
    is_loop: bool,
    paths: &mut Paths,
) -> Vec<usize> {
    let ops = program.blocks.get(block).map_or(&[][..], |block| &block.ops);
    let mut found = HashSet::new();
    let goes_on = |op: &Op, wanted: &mut HashSet<String>| {
        if has_gradient(&op.kind) {
            wanted.extend(op.reads().filter(|name| !stopped.contains(*name)).map(str::to_owned));
        }
    };
    for (number, op) in ops.iter().enumerate().rev() {
        if let Some(block) = inner(op) {
            let written = op.writes().filter(|name| wanted.contains(*name)).map(str::to_owned);
            let path = path_inside(program, op, block, written.collect(), paths);
            paths.insert(block, path);
        }
        if has_gradient(&op.kind) && op.writes().any(|name| wanted.contains(name)) {
            goes_on(op, &mut wanted);
            found.insert(number);
        }
    }
    // An iteration of a loop may need values that only the next one reads.
    for (number, op) in ops.iter().enumerate().rev().filter(|_| is_loop) {
        if !found.contains(&number) && op.writes().any(|name| wanted.contains(name)) {
            goes_on(op, &mut wanted);
            found.insert(number);
        }
    }
    (0..ops.len()).filter(|number| found.contains(number)).collect()
}

/// Finds the operators of a block that an operator runs, for the variables that it writes.
fn path_inside(
    program: &Program,
    op: &Op,
    block: usize,
    written: HashSet<String>,
    paths: &mut Paths,
) -> Vec<usize> {
    let ops = program.blocks.get(block).map_or(&[][..], |block| &block.ops);
    let mut wanted = written.clone();
    for op in ops.iter().filter(|op| op.writes().any(|name| written.contains(name))) {
        wanted.extend(op.reads().map(str::to_owned));
    }
    path(program, block, wanted, &HashSet::new(), op.kind == "while", paths)
}

/// Returns the variables that operators on the path write and none of them reads.
pub(super) fn unused(
    ops: &[Op],
    path: &[usize],
    target: &str,
    stopped: &HashSet<String>,
) -> HashSet<String> {
    let mut read = HashSet::from([target]);
    let mut unused = HashSet::new();
    for op in path.iter().rev().filter_map(|number| ops.get(*number)) {
        if op.blocks().next().is_none() {
            let is_unused = |name: &&str| !read.contains(name) && !op.reads().any(|it| it == *name);
            unused.extend(op.writes().filter(is_unused).map(str::to_owned));
        }
        read.extend(op.reads().filter(|name| !stopped.contains(*name)));
    }
    unused
}

//! What going through a program takes: a bound on it, new symbols, names of places.

use std::collections::HashSet;
use std::sync::Arc;

use lodstone_model::{Dim, Function, Op, Program};

/// Deepest nesting of blocks and calls. A file cannot nest blocks deeper than about 30.
pub(super) const DEEPEST: usize = 64;

/// What a program may ask for.
pub(super) struct Work {
    /// Operators that may still be gone through.
    pub(super) operators: usize,
    /// Extents and elements that may still be kept.
    pub(super) cells: usize,
}

impl Work {
    /// A block is gone through several times if it is nested in loops, or a function called from
    /// several places.
    const TIMES: usize = 32;
    /// What a small program may ask for.
    const LEAST: usize = 100_000;

    pub(super) fn of(program: &Program) -> Self {
        let nodes = program.ops().count().saturating_add(program.vars().count());
        let most = nodes.saturating_mul(Self::TIMES).saturating_add(Self::LEAST);
        Self { operators: most, cells: most.saturating_mul(2) }
    }
}

/// Symbols of extents that have none.
pub(super) struct Fresh {
    taken: HashSet<Arc<str>>,
    next: usize,
}

impl Fresh {
    pub(super) fn of(program: &Program) -> Self {
        let tensors = program.vars().flat_map(|var| &var.value.tensors);
        let symbol = |dim: &Dim| match dim {
            Dim::Symbol(name) => Some(Arc::clone(name)),
            _ => None,
        };
        let taken = tensors.filter_map(|tensor| tensor.shape.as_ref()).flatten().filter_map(symbol);
        Self { taken: taken.collect(), next: 0 }
    }

    /// A symbol that nothing else has.
    pub(super) fn symbol(&mut self) -> Arc<str> {
        loop {
            let name: Arc<str> = Arc::from(format!("unknown_{}", self.next));
            self.next += 1;
            if !self.taken.contains(&name) {
                return name;
            }
        }
    }
}

/// `Conv` `conv1`, or its kind alone.
pub(super) fn called(op: &Op) -> String {
    let domain = if op.domain.is_empty() { "" } else { "::" };
    let kind = format!("`{}{domain}{}`", op.domain, op.kind);
    if op.name.is_empty() { kind } else { format!("{kind} `{}`", op.name) }
}

/// Where a block is.
pub(super) fn place_of(program: &Program, number: usize) -> String {
    let is = |function: &&Function| usize::try_from(function.block) == Ok(number);
    match program.functions.iter().find(is) {
        _ if number == 0 => "the graph".to_owned(),
        Some(function) => format!("the function `{}`", function.name),
        None => format!("the subgraph {number}"),
    }
}

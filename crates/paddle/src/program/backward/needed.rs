//! Removal of gradient operators that are not needed.

use std::collections::{HashMap, HashSet};

use lodstone_model::{AttributeValue, Op, Operand};
use lodstone_schema::paddle::{EMPTY, GRAD, gradient_of};

use super::sums::gradient_names;
use crate::program::role::{BACKWARD, set, set_role};

/// Removes operators whose results are not needed, or which only read absent gradients; other readers of these get
/// zeros.
pub(super) fn without_branches(ops: Vec<Op>, stopped: &HashSet<String>, loss: &str) -> Vec<Op> {
    let mut nothing: HashSet<String> = stopped.iter().map(|name| gradient_of(name)).collect();
    nothing.insert(EMPTY.to_owned());
    let loss = gradient_of(loss);
    let mut kept = Vec::new();
    for op in ops {
        let written: Vec<String> = op.writes().map(str::to_owned).collect();
        if written.iter().all(|name| nothing.contains(name)) {
            continue;
        }
        let read = gradient_names(&op.inputs);
        if !read.is_empty() && read.iter().all(|name| nothing.contains(name)) {
            nothing.extend(written.into_iter().filter(|name| *name != loss));
            continue;
        }
        kept.push(op);
    }
    let mut made = Vec::new();
    for op in kept {
        for name in gradient_names(&op.inputs).iter().filter(|name| nothing.contains(*name)) {
            made.push(zeros(name));
        }
        made.push(op);
    }
    made
}

fn zeros(gradient: &str) -> Op {
    let operand =
        |slot: &str, name: &str| Operand { slot: slot.to_owned(), args: vec![name.to_owned()] };
    let of = gradient.split_once(GRAD).map_or(gradient, |(of, _)| of);
    let mut op = Op {
        kind: "fill_any_like".to_owned(),
        inputs: vec![operand("X", of)],
        outputs: vec![operand("Out", gradient)],
        ..Op::default()
    };
    set(&mut op, "value", AttributeValue::Float(0.0));
    set(&mut op, "dtype", AttributeValue::Int(-1));
    set_role(&mut op, BACKWARD);
    op
}

/// A version of a variable: each operator that writes it creates a new one.
#[derive(Default)]
struct Version {
    /// The operators that read it.
    read_by: Vec<usize>,
}

/// Operators and the versions between them.
#[derive(Default)]
struct Graph {
    versions: Vec<Version>,
    /// The versions that each operator reads and writes.
    reads: Vec<Vec<usize>>,
    writes: Vec<Vec<usize>>,
}

impl Graph {
    fn of(ops: &[Op]) -> Self {
        let mut graph = Self::default();
        let mut latest: HashMap<&str, usize> = HashMap::new();
        for (number, op) in ops.iter().enumerate() {
            let mut reads = Vec::new();
            for name in op.reads() {
                let version = *latest.entry(name).or_insert_with(|| graph.new_version());
                reads.push(version);
                if let Some(version) = graph.versions.get_mut(version) {
                    version.read_by.push(number);
                }
            }
            graph.reads.push(reads);
            let writes: Vec<usize> = op.writes().map(|_| graph.new_version()).collect();
            latest.extend(op.writes().zip(writes.iter().copied()));
            graph.writes.push(writes);
        }
        graph
    }

    fn new_version(&mut self) -> usize {
        self.versions.push(Version::default());
        self.versions.len() - 1
    }

    /// Returns an operator and those that only depend on its results, if none of them reads anything else.
    fn alone(&self, first: usize) -> Option<HashSet<usize>> {
        let reads = |op: usize| self.reads.get(op).map_or(&[][..], Vec::as_slice);
        let mut ready: HashSet<usize> = reads(first).iter().copied().collect();
        let mut seen = HashSet::from([first]);
        let mut next = std::collections::VecDeque::from([first]);
        while let Some(op) = next.pop_front() {
            if !reads(op).iter().all(|version| ready.contains(version)) {
                return None;
            }
            let written = self.writes.get(op).map_or(&[][..], Vec::as_slice);
            let readers = written.iter().filter_map(|version| self.versions.get(*version));
            next.extend(
                readers.flat_map(|version| &version.read_by).filter(|op| seen.insert(**op)),
            );
            ready.extend(written);
        }
        Some(seen)
    }
}

/// Removes operators that only continue absent gradients and lead to nothing else, unless all of them do.
pub(super) fn connected<'o>(ops: Vec<Op>, forward: impl Iterator<Item = &'o Op>) -> Vec<Op> {
    let mut known: HashSet<&str> = forward.flat_map(|op| op.reads().chain(op.writes())).collect();
    let graph = Graph::of(&ops);
    let mut gone: HashSet<usize> = HashSet::new();
    for (number, op) in ops.iter().enumerate() {
        if !op.reads().any(|name| known.contains(name)) {
            gone.extend(graph.alone(number).into_iter().flatten());
        }
        known.extend(op.writes());
    }
    if gone.len() == ops.len() {
        return ops;
    }
    let kept = ops.into_iter().enumerate().filter(|(number, _)| !gone.contains(number));
    kept.map(|(_, op)| op).collect()
}

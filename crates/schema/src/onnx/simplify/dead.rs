//! Removal of unused operators and constants.

use std::collections::HashSet;

use lodstone_model::{Op, Topology};

use super::Infos;
use crate::Origins;

/// Removes operators and constants of the main graph and its subgraphs that no output depends on, with the inferred
/// types of their values.
pub(super) fn remove(program: &mut Topology, infos: &mut Infos, origins: &mut Origins) {
    remove_unread(program);
    let mut left: HashSet<&str> = HashSet::new();
    for block in &program.blocks {
        left.extend(block.inputs.iter().map(String::as_str));
        left.extend(block.initializers.iter().map(|parameter| parameter.name.as_str()));
        left.extend(block.ops.iter().flat_map(Op::writes));
    }
    infos.iter_mut().for_each(|infos| infos.retain(|name, _| left.contains(name.as_str())));
    origins.retain(|name| left.contains(name));
}

/// Removes operators and constants of the main graph and its subgraphs that no output depends on.
pub fn remove_unread(program: &mut Topology) {
    remove_from(program, 0);
}

/// Removes unused operators of a block; returns all names that the block and its subgraphs read.
fn remove_from(program: &mut Topology, number: usize) -> HashSet<String> {
    let Some(block) = program.blocks.get_mut(number) else { return HashSet::new() };
    let ops = std::mem::take(&mut block.ops);
    let mut read: HashSet<String> = block.outputs.iter().cloned().collect();
    let mut kept = Vec::with_capacity(ops.len());
    for op in ops.into_iter().rev() {
        let is_read = op.writes().any(|name| read.contains(name)) || op.writes().next().is_none();
        if !is_read {
            continue;
        }
        read.extend(op.reads().map(str::to_owned));
        for body in op.blocks().filter_map(|body| usize::try_from(body).ok()) {
            read.extend(remove_from(program, body));
        }
        kept.push(op);
    }
    kept.reverse();
    if let Some(block) = program.blocks.get_mut(number) {
        let inputs = &block.inputs;
        let is_read = |name: &String| read.contains(name) || inputs.contains(name);
        block.initializers.retain(|parameter| is_read(&parameter.name));
        block.ops = kept;
        let there: HashSet<&str> = block.ops.iter().flat_map(Op::writes).collect();
        let (inputs, outputs) = (&block.inputs, &block.outputs);
        block.vars.retain(|var| {
            there.contains(var.name.as_str())
                || inputs.contains(&var.name)
                || outputs.contains(&var.name)
        });
    }
    read
}

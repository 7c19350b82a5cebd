//! What of a program is needed for some of its results.

use std::collections::{BTreeSet, HashMap, HashSet};

use lodstone_model::{AttributeValue, Block, Op, Program};

use crate::error::{Result, variable};

/// The role of operators that change parameters, and of those that compute gradients.
const NOT_FORWARD: i32 = 0b11;

/// The operators that `targets` are computed by, of a program that is given `feeds`, and the variables that they
/// name; blocks that none of them runs are gone.
///
/// It is versions of variables that are needed: an operator is kept if what it writes is read later or is a
/// target, and not because something of the same name is. So operators that write what they read survive.
///
/// # Errors
/// If a target is neither computed nor given.
pub fn prune(program: &Program, feeds: &[&str], targets: &[&str]) -> Result<Program> {
    let Some(main) = program.blocks.first() else { return Ok(program.clone()) };
    for target in targets {
        let there = main.vars.iter().any(|var| var.name == *target);
        if !there {
            return variable(target, "the program has no such variable");
        }
    }
    // Versions that are needed: a name, as it is when the operator under look has run.
    let mut needed: HashSet<String> = targets.iter().map(|name| (*name).to_owned()).collect();
    let mut kept = Vec::new();
    for op in main.ops.iter().rev() {
        let touched = writes(program, op);
        let is_needed = op.is_target || touched.iter().any(|name| needed.contains(name));
        if !is_needed || is_training(op) {
            continue;
        }
        // What a loop or a branch writes may also stay as it was.
        let runs_blocks = op.blocks().next().is_some();
        if !runs_blocks {
            for name in &touched {
                needed.remove(name);
            }
        }
        let given: HashSet<&str> = feeds.iter().copied().collect();
        let reads = reads(program, op);
        needed.extend(reads.into_iter().filter(|name| !given.contains(name.as_str())));
        kept.push(op.clone());
    }
    kept.reverse();
    Ok(assemble(program, main, kept))
}

fn is_training(op: &Op) -> bool {
    matches!(op.attribute("op_role"), Some(AttributeValue::Int(role)) if role & NOT_FORWARD != 0 && role & !0x1ff == 0)
}

/// Everything that an operator reads, and that the blocks it runs read.
fn reads(program: &Program, op: &Op) -> HashSet<String> {
    inside(program, op, &|op| op.reads().map(str::to_owned).collect())
}

fn writes(program: &Program, op: &Op) -> HashSet<String> {
    inside(program, op, &|op| op.writes().map(str::to_owned).collect())
}

fn inside(program: &Program, op: &Op, of: &dyn Fn(&Op) -> Vec<String>) -> HashSet<String> {
    let mut found: HashSet<String> = of(op).into_iter().collect();
    let (mut seen, mut open) = (HashSet::new(), op.blocks().collect::<Vec<i32>>());
    while let Some(number) = open.pop() {
        let block = usize::try_from(number).ok().and_then(|number| program.blocks.get(number));
        let Some(block) = block.filter(|_| seen.insert(number)) else { continue };
        for op in &block.ops {
            found.extend(of(op));
            open.extend(op.blocks());
        }
    }
    found
}

/// A program of these operators, with the variables that they name and the blocks that they run.
fn assemble(program: &Program, main: &Block, ops: Vec<Op>) -> Program {
    let mut kept: BTreeSet<i32> = BTreeSet::from([0]);
    let mut open: Vec<i32> = ops.iter().flat_map(Op::blocks).collect();
    while let Some(number) = open.pop() {
        if kept.insert(number) {
            let block = usize::try_from(number).ok().and_then(|number| program.blocks.get(number));
            open.extend(block.into_iter().flat_map(|block| block.ops.iter().flat_map(Op::blocks)));
        }
    }
    // Blocks stay in their order, so that each lies behind the one that it is in.
    let numbers: HashMap<i32, i32> = kept.iter().copied().zip(0..).collect();
    let first = Block { ops, ..main.clone() };
    let renumber = |number: i32| numbers.get(&number).copied().unwrap_or(number);
    let mut blocks = Vec::new();
    for old in &kept {
        let block = match old {
            0 => Some(first.clone()),
            old => usize::try_from(*old).ok().and_then(|old| program.blocks.get(old)).cloned(),
        };
        let Some(mut block) = block else { continue };
        block.index = renumber(block.index);
        block.parent = if block.parent < 0 { block.parent } else { renumber(block.parent) };
        for op in &mut block.ops {
            for attribute in &mut op.attributes {
                match &mut attribute.value {
                    AttributeValue::Block(number) => *number = renumber(*number),
                    AttributeValue::Blocks(all) => {
                        all.iter_mut().for_each(|number| *number = renumber(*number));
                    }
                    _ => {}
                }
            }
        }
        blocks.push(block);
    }
    let named: HashSet<String> = blocks
        .iter()
        .flat_map(|block| &block.ops)
        .flat_map(|op| op.reads().chain(op.writes()).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    for block in &mut blocks {
        block.vars.retain(|var| named.contains(&var.name));
    }
    Program { blocks, ..program.clone() }
}

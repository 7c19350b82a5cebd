//! Pruning: the part of a program that some results need, and programs for evaluation.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{
    BACKWARD, OPTIMIZES, SCHEDULES, attributes, forward_block, is_target, need_check_feed, role,
    set_forward_block,
};
use crate::Finding;
use lodstone_model::{Attribute, AttributeValue, Block, Op, Program, Topology, ValueType, Var};

/// The roles of operators that compute gradients, or update parameters or learning rates.
const TRAINS: i32 = BACKWARD | OPTIMIZES | SCHEDULES;

/// A variable that prevents a program from being pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprunable {
    /// The name of the variable.
    pub variable: String,
    /// The problem.
    pub finding: Finding,
}

fn variable<T>(name: &str, what: impl Into<Finding>) -> Result<T, Unprunable> {
    Err(Unprunable { variable: name.to_owned(), finding: what.into() })
}

/// Returns the program for evaluation: without gradients and parameter updates, and with `is_test` set where operators
/// have it (dropout drops nothing, batch normalization uses its running statistics).
pub fn for_test(program: &Program) -> Program {
    let mut program = program.clone();
    for block in &mut program.blocks {
        block.ops.retain(|op| role(op) & TRAINS == 0);
        block.ops.iter_mut().for_each(test);
    }
    program
}

fn test(op: &mut Op) {
    if attributes(&op.kind).all(|parameter| parameter.name != "is_test") {
        return;
    }
    let is_test = AttributeValue::Bool(true);
    match op.attributes.iter_mut().find(|attribute| attribute.name == "is_test") {
        Some(attribute) => attribute.value = is_test,
        None => op.attributes.push(Attribute { name: "is_test".to_owned(), value: is_test }),
    }
}

/// Returns the operators of a program that compute `targets` from `feeds`, with the variables that they name; blocks
/// that none of them runs are removed.
///
/// Versions of variables are tracked: an operator is kept if the value that it writes is read later or is a target,
/// not because another value of the same name is. So operators that update variables in place survive. A fed variable
/// has the fed value before any operator reads it; if the first operator that uses it writes it, the fed value replaces
/// that result. Blocks are kept as they are, since a value that is written late in a loop is read early in the next
/// iteration. Operators that update parameters are not kept.
///
/// # Errors
/// If a target is neither computed nor fed, or a needed operator would overwrite a fed variable.
pub fn prune(program: &Program, feeds: &[&str], targets: &[&str]) -> Result<Program, Unprunable> {
    let Some(main) = program.blocks.first() else {
        return variable(targets.first().unwrap_or(&""), "the program has no blocks");
    };
    let vars: HashMap<&str, &Var> = main.vars.iter().map(|var| (var.name.as_str(), var)).collect();
    for target in targets {
        if !vars.contains_key(target) {
            return variable(target, "the program does not have this variable");
        }
    }
    let touches: Vec<Touched> = main.ops.iter().map(|op| Touched::by(program, op)).collect();
    let replaced: HashMap<&str, usize> =
        feeds.iter().filter_map(|name| Some((*name, replaced(name, &vars, &touches)?))).collect();
    // The versions that are needed: names, with their values after the current operator.
    let mut needed: HashSet<&str> = targets.iter().copied().collect();
    let mut kept = Vec::new();
    let mut computed: HashSet<&str> = feeds.iter().copied().collect();
    for (number, (op, touched)) in main.ops.iter().zip(&touches).enumerate().rev() {
        let is_fed = |name: &str| replaced.get(name) == Some(&number);
        let fed = touched.writes.iter().find(|name| is_fed(name) && needed.contains(name.as_str()));
        let is_needed = |name: &String| needed.contains(name.as_str()) && !is_fed(name);
        let keeps =
            (is_target(op) || touched.writes.iter().any(is_needed)) && role(op) & OPTIMIZES == 0;
        if let (true, Some(fed)) = (keeps, fed) {
            return variable(
                fed,
                format!("it is fed, but `{}`, which is needed, writes it", op.kind),
            );
        }
        for name in touched.writes.iter().filter(|name| keeps || is_fed(name)) {
            computed.insert(name);
            // A loop or a branch may also leave a variable unchanged, like other members of an array.
            let whole = vars.get(name.as_str()).is_some_and(|var| is_whole(var));
            if is_fed(name) || (whole && !touched.perhaps) {
                needed.remove(name.as_str());
            }
        }
        if keeps {
            needed.extend(touched.reads.iter().map(String::as_str));
            kept.push(op.clone());
        }
    }
    for target in targets {
        let given = vars.get(target).is_some_and(|var| var.persistable || need_check_feed(var));
        if !given && !computed.contains(target) {
            return variable(target, "it is neither computed nor fed");
        }
    }
    kept.reverse();
    Ok(assemble(program, main, kept))
}

/// Returns the operator whose result a fed variable replaces; `None` if it is read before it is written, or declared as
/// fed.
fn replaced(name: &str, vars: &HashMap<&str, &Var>, touches: &[Touched]) -> Option<usize> {
    let (reads, writes) = (
        |touched: &Touched| touched.reads.contains(name),
        |touched: &Touched| touched.writes.contains(name),
    );
    let first = touches.iter().position(|touched| reads(touched) || writes(touched))?;
    let is_data = vars.get(name).is_some_and(|var| need_check_feed(var));
    (!is_data && touches.get(first).is_some_and(|touched| !reads(touched))).then_some(first)
}

/// Whether a write to a variable replaces its whole value.
fn is_whole(var: &Var) -> bool {
    var.value.is_selected_rows()
        || matches!(var.value, ValueType::Unspecified | ValueType::Tensor(_))
}

/// The variables of the first block that an operator and its blocks name.
struct Touched {
    reads: HashSet<String>,
    writes: HashSet<String>,
    /// Whether it may leave its outputs unchanged.
    perhaps: bool,
}

impl Touched {
    fn by(program: &Program, op: &Op) -> Self {
        let owned = |name: &str| name.to_owned();
        let mut all = Self {
            reads: op.reads().map(owned).collect(),
            writes: op.writes().map(owned).collect(),
            perhaps: op.blocks().next().is_some() || op.kind == "select_output",
        };
        let (mut seen, mut open) = (HashSet::new(), vec![(op, HashSet::new())]);
        while let Some((op, hidden)) = open.pop() {
            for number in op.blocks() {
                if !seen.insert(number) {
                    continue;
                }
                let Some(block) = inner(program, number) else { continue };
                // Names that this block or an outer one inside the operator declares are different variables.
                let mut hidden: HashSet<&str> = hidden.clone();
                hidden.extend(block.vars.iter().map(|var| var.name.as_str()));
                for op in &block.ops {
                    let outside = |name: &&str| !hidden.contains(name);
                    all.reads.extend(op.reads().filter(outside).map(owned));
                    all.writes.extend(op.writes().filter(outside).map(owned));
                    if op.blocks().next().is_some() {
                        open.push((op, hidden.clone()));
                    }
                }
            }
        }
        all
    }
}

fn inner(program: &Program, number: i32) -> Option<&Block> {
    program.blocks.get(usize::try_from(number).ok()?)
}

/// Returns a program of these operators, with the variables that they name and the blocks that they run.
fn assemble(program: &Program, main: &Block, ops: Vec<Op>) -> Program {
    let mut kept: BTreeSet<i32> = BTreeSet::from([0]);
    let mut open: Vec<i32> = ops.iter().flat_map(Op::blocks).collect();
    while let Some(number) = open.pop() {
        if kept.insert(number) {
            let block = inner(program, number).into_iter();
            open.extend(block.flat_map(|block| block.ops.iter().flat_map(Op::blocks)));
        }
    }
    // Blocks keep their order, so that each comes after its parent.
    let numbers: HashMap<i32, i32> = kept.iter().copied().zip(0..).collect();
    let first = Block { ops, ..main.clone() };
    let mut blocks: Vec<Block> = std::iter::once(first)
        .chain(kept.iter().skip(1).filter_map(|number| inner(program, *number)).cloned())
        .collect();
    blocks.iter_mut().for_each(|block| renumber(block, &numbers));
    let named: HashSet<String> = blocks
        .iter()
        .flat_map(|block| &block.ops)
        .flat_map(|op| op.reads().chain(op.writes()).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    for block in &mut blocks {
        block.vars.retain(|var| named.contains(&var.name));
    }
    Program::from(Topology { blocks, ..program.clone().into_topology() })
}

/// Renumbers a block after others were removed.
fn renumber(block: &mut Block, numbers: &HashMap<i32, i32>) {
    let new = |number: &mut i32| {
        if let Some(known) = numbers.get(number) {
            *number = *known;
        }
    };
    new(&mut block.index);
    new(&mut block.parent);
    let forward = forward_block(block).and_then(|number| numbers.get(&number).copied());
    set_forward_block(block, forward);
    for attribute in block.ops.iter_mut().flat_map(|op| &mut op.attributes) {
        attribute.value.edit_blocks(new);
    }
}

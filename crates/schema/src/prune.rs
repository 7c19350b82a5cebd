//! The part of a program that computes some of its values.

use std::collections::{BTreeSet, HashMap, HashSet};

use lodstone_model::{Block, Model, Op, Program, Topology};

use crate::{Finding, conventions};

/// A variable that prevents a program from being pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprunable {
    /// The name of the variable.
    pub variable: String,
    /// The problem.
    pub finding: Finding,
}

/// How the operators of a dialect change values in place.
#[derive(Debug)]
pub struct Sharing {
    /// Returns the operands that an operator writes to.
    pub changed: fn(&Op) -> Vec<&str>,
    /// Whether results of an operator may share elements with its operands, so that a write to one changes the other.
    pub shares: fn(&Op) -> bool,
}

/// Makes values of the main block the outputs of the main program of a model, and removes what they do not depend on:
/// operators, inputs, declarations, blocks and parameters. The caller checks that the values exist.
///
/// A model without a program is not changed.
///
/// # Errors
/// If a value cannot be an output; the model is then unchanged.
pub fn select(model: &mut Model, outputs: &[&str]) -> Result<(), Unprunable> {
    let Some(program) = model.main() else { return Ok(()) };
    (conventions(program).select)(model, outputs)
}

/// Selects like [`select`], in dialects whose main block lists its outputs.
pub(crate) fn select_listed(model: &mut Model, outputs: &[&str]) -> Result<(), Unprunable> {
    let Some(program) = model.main() else { return Ok(()) };
    let mut program = pruned(program, outputs.iter().copied());
    let Some(main) = program.blocks.first_mut() else { return Ok(()) };
    main.outputs = outputs.iter().map(|name| (*name).to_owned()).collect();
    let outputs: HashSet<&str> = outputs.iter().copied().collect();
    retain_declared(&mut program, |name| outputs.contains(name));
    replace_main(model, program);
    Ok(())
}

/// Replaces the main program of a model by a part of it, and removes the parameters that the program named and the part does
/// not. Those that operators find by derived names stay.
pub(crate) fn replace_main(model: &mut Model, program: Program) {
    let Some(main) = model.programs.main_mut() else { return };
    let variable_of = conventions(&program).variable_of;
    let is_in =
        |all: &HashSet<&str>, name: &str| all.contains(name) || all.contains(variable_of(name));
    let (before, now) = (all_names(main), all_names(&program));
    model.parameters.retain(|it| is_in(&now, &it.name) || !is_in(&before, &it.name));
    *main = program;
}

/// Returns the names of all variables that a program declares, reads, writes or returns.
fn all_names(program: &Program) -> HashSet<&str> {
    let vars = program.vars().map(|var| var.name.as_str());
    let outputs = program.blocks.iter().flat_map(|block| &block.outputs).map(String::as_str);
    names(program).chain(vars).chain(outputs).collect()
}

/// Returns a program with the operators of the main block that compute `outputs`; declarations stay.
pub(crate) fn pruned<'p>(
    program: &'p Program,
    outputs: impl IntoIterator<Item = &'p str>,
) -> Program {
    let ops: Vec<&Op> = program.blocks.first().map_or(&[][..], |main| &main.ops).iter().collect();
    let needed = needed(program, &ops, outputs);
    let kept = ops.into_iter().zip(needed).filter(|(_, is)| *is).map(|(op, _)| op.clone());
    assembled(program, kept.collect()).0
}

/// Removes the inputs and declarations that no operator names, except for those of outputs.
pub(crate) fn retain_declared(program: &mut Program, is_output: impl Fn(&str) -> bool) {
    let named: HashSet<String> = names(program).map(str::to_owned).collect();
    let Some(main) = program.blocks.first_mut() else { return };
    let is_kept = |name: &str| named.contains(name) || is_output(name);
    main.inputs.retain(|name| is_kept(name));
    main.vars.retain(|var| is_kept(&var.name));
}

/// Returns the names of all variables that operators read or write, and those of the outputs of inner blocks.
pub(crate) fn names(program: &Program) -> impl Iterator<Item = &str> {
    let inner = program.blocks.iter().skip(1).flat_map(|block| &block.outputs);
    let ops = program.ops().flat_map(|op| op.reads().chain(op.writes()));
    ops.chain(inner.map(String::as_str))
}

/// Returns which operators `outputs` depend on: an operator is needed if it writes an output or an operand of a needed
/// operator, or changes such a value in place. `ops` are operators of the main block, in their order.
pub fn needed<'p>(
    program: &'p Program,
    ops: &[&'p Op],
    outputs: impl IntoIterator<Item = &'p str>,
) -> Vec<bool> {
    let touched: Vec<Touched<'p>> = ops.iter().map(|op| Touched::by(program, op)).collect();
    let sharing = conventions(program).sharing.as_ref();
    let classes = sharing.map(|sharing| Classes::of(ops, &touched, sharing));
    let class = |name: &str| classes.as_ref().and_then(|classes| classes.class(name));
    let mut names: HashSet<&str> = outputs.into_iter().collect();
    let mut shared: HashSet<usize> = names.iter().filter_map(|name| class(name)).collect();
    let mut needed = vec![false; ops.len()];
    for ((slot, op), touched) in needed.iter_mut().zip(ops).zip(&touched).rev() {
        *slot = op.writes().any(|name| names.contains(name))
            || touched.writes.iter().any(|name| names.contains(name))
            || touched.changed.iter().filter_map(|name| class(name)).any(|it| shared.contains(&it));
        if !*slot {
            continue;
        }
        if !touched.perhaps {
            op.writes().for_each(|name| {
                names.remove(name);
            });
        }
        shared.extend(touched.reads.iter().filter_map(|name| class(name)));
        names.extend(&touched.reads);
    }
    needed
}

/// The variables of the main block that an operator and its blocks name.
pub(crate) struct Touched<'p> {
    pub(crate) reads: HashSet<&'p str>,
    pub(crate) writes: HashSet<&'p str>,
    /// Those that are changed in place, and names inside of the blocks that they may have there.
    changed: HashSet<&'p str>,
    /// The kinds of the operator and of those in its blocks.
    pub(crate) kinds: HashSet<&'p str>,
    /// Whether it may leave its outputs unchanged.
    pub(crate) perhaps: bool,
}

impl<'p> Touched<'p> {
    pub(crate) fn by(program: &'p Program, op: &'p Op) -> Self {
        let sharing = conventions(program).sharing.as_ref();
        let changed = |op: &'p Op| sharing.map_or_else(Vec::new, |sharing| (sharing.changed)(op));
        let mut all = Self {
            reads: op.reads().collect(),
            writes: op.writes().collect(),
            changed: changed(op).into_iter().collect(),
            kinds: HashSet::from([op.kind.as_str()]),
            perhaps: op.blocks().next().is_some(),
        };
        // Names that a block or an outer one inside the operator declares are different variables: for each block, these
        // names and the place of the block around it.
        let mut scopes: Vec<(HashSet<&str>, Option<usize>)> = Vec::new();
        let (mut seen, mut open) = (HashSet::new(), vec![(op, None)]);
        while let Some((op, around)) = open.pop() {
            for number in op.blocks() {
                if !seen.insert(number) {
                    continue;
                }
                let Some(block) = inner(program, number) else { continue };
                let own = block.vars.iter().map(|var| var.name.as_str()).collect();
                let scope = Some(scopes.len());
                scopes.push((own, around));
                let outside = |name: &&str| {
                    let mut at = scope;
                    while let Some((names, around)) = at.and_then(|at| scopes.get(at)) {
                        if names.contains(name) {
                            return false;
                        }
                        at = *around;
                    }
                    true
                };
                all.reads.extend(block.outputs.iter().map(String::as_str).filter(outside));
                for op in &block.ops {
                    all.reads.extend(op.reads().filter(outside));
                    all.writes.extend(op.writes().filter(outside));
                    all.changed.extend(changed(op));
                    all.kinds.insert(&op.kind);
                    if op.blocks().next().is_some() {
                        open.push((op, scope));
                    }
                }
            }
        }
        all
    }
}

/// Variables that may share elements, as disjoint sets.
struct Classes<'p> {
    numbers: HashMap<&'p str, usize>,
    /// A variable of the same set, closer to the root of the set; that of a root is itself.
    parents: Vec<usize>,
}

impl<'p> Classes<'p> {
    fn of(ops: &[&'p Op], touched: &[Touched<'p>], sharing: &Sharing) -> Self {
        let mut classes = Self { numbers: HashMap::new(), parents: Vec::new() };
        for (op, touched) in ops.iter().zip(touched) {
            if !touched.perhaps && !(sharing.shares)(op) {
                continue;
            }
            // What an operator with blocks does inside them may make any of its variables views of others.
            let names = touched.reads.iter().chain(&touched.writes).chain(&touched.changed);
            let mut before = None;
            for name in names {
                let number = classes.number(name);
                if let Some(before) = before.replace(number) {
                    classes.join(before, number);
                }
            }
        }
        classes
    }

    fn number(&mut self, name: &'p str) -> usize {
        let next = self.parents.len();
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            self.parents.push(next);
        }
        number
    }

    fn parent(&self, number: usize) -> usize {
        self.parents.get(number).copied().unwrap_or(number) // All numbers have one.
    }

    fn root(&self, mut number: usize) -> usize {
        while self.parent(number) != number {
            number = self.parent(number);
        }
        number
    }

    fn join(&mut self, a: usize, b: usize) {
        let root = self.root(a);
        // Everything on the way from `b` belongs to the root directly: later ways are short.
        let mut next = b;
        while self.parent(next) != root {
            let parent = self.parent(next);
            if let Some(slot) = self.parents.get_mut(next) {
                *slot = root;
            }
            if parent == next {
                break;
            }
            next = parent;
        }
    }

    fn class(&self, name: &str) -> Option<usize> {
        Some(self.root(*self.numbers.get(name)?))
    }
}

fn inner(program: &Program, number: i32) -> Option<&Block> {
    program.blocks.get(usize::try_from(number).ok()?)
}

/// Returns a program whose main block has these operators, with the blocks that they and functions run, and the new numbers
/// of blocks.
pub(crate) fn assembled(program: &Program, ops: Vec<Op>) -> (Program, HashMap<i32, i32>) {
    let mut kept: BTreeSet<i32> = BTreeSet::from([0]);
    let functions = program.functions.iter().map(|function| function.block);
    let mut open: Vec<i32> = ops.iter().flat_map(Op::blocks).chain(functions).collect();
    while let Some(number) = open.pop() {
        if kept.insert(number) {
            let block = inner(program, number).into_iter();
            open.extend(block.flat_map(|block| block.ops.iter().flat_map(Op::blocks)));
        }
    }
    // Blocks keep their order, so that each comes after its parent.
    let numbers: HashMap<i32, i32> = kept.iter().copied().zip(0..).collect();
    let first = program.blocks.first().map(|main| Block { ops, ..main.clone() });
    let others = kept.iter().skip(1).filter_map(|number| inner(program, *number)).cloned();
    let mut topology = Topology {
        blocks: first.into_iter().chain(others).collect(),
        ..program.clone().into_topology()
    };
    let renumber = |number: &mut i32| {
        if let Some(known) = numbers.get(number) {
            *number = *known;
        }
    };
    for block in &mut topology.blocks {
        renumber(&mut block.index);
        renumber(&mut block.parent);
        let attributes = block.ops.iter_mut().flat_map(|op| &mut op.attributes);
        attributes.for_each(|attribute| attribute.value.edit_blocks(renumber));
    }
    topology.functions.iter_mut().for_each(|function| renumber(&mut function.block));
    (Program::from(topology), numbers)
}

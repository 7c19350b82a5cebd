//! Gradients of operators that run blocks: operators that run a gradient block.

use std::collections::{HashMap, HashSet, VecDeque};

use lodstone_model::{AttributeValue, Block, ByteString, Op, Operand, Program, Var};
use lodstone_schema::paddle::{EMPTY, forward_block, gradient_of};

use crate::program::error::{self, Result, block_number};
use crate::program::role::set;

/// The maximum nesting of blocks.
const DEEPEST: usize = 64;

/// Returns the block that an operator runs.
pub(super) fn inner(op: &Op) -> Option<usize> {
    op.blocks().next().and_then(|block| usize::try_from(block).ok())
}

/// Fails unless the parent of each block that an operator runs is the operator's block, and no other operator runs it.
pub(super) fn check(program: &Program) -> Result<()> {
    let mut depths: HashMap<usize, usize> = HashMap::new();
    for (number, block) in program.blocks.iter().enumerate() {
        // What no operator runs is outermost.
        let depth = *depths.entry(number).or_insert(0) + 1;
        for op in &block.ops {
            for inner in op.blocks() {
                let known = usize::try_from(inner).ok().filter(|inner| *inner > number);
                let parent = known.and_then(|inner| Some(program.blocks.get(inner)?.parent));
                let is_inside = parent.and_then(|it| usize::try_from(it).ok()) == Some(number);
                let is_new = known.is_some_and(|inner| depths.insert(inner, depth).is_none());
                if !is_inside || !is_new || depth > DEEPEST {
                    let what = format!("the operator runs block {inner}, which is not its own");
                    return error::operator(&op.kind, what);
                }
            }
        }
    }
    Ok(())
}

/// Returns the variable of a name that a block sees: its own, one of its forward block, or an outer one.
pub(super) fn declaration<'p>(
    program: &'p Program,
    names: &[Names],
    block: usize,
    name: &str,
) -> Option<&'p Var> {
    let (mut seen, mut next) = (HashSet::new(), VecDeque::from([block]));
    while let Some(number) = next.pop_front() {
        let Some(block) = program.blocks.get(number).filter(|_| seen.insert(number)) else {
            continue;
        };
        if let Some(place) = names.get(number).and_then(|names| names.get(name)) {
            return block.vars.get(*place);
        }
        let around = [forward_block(block), Some(block.parent)].into_iter().flatten();
        next.extend(around.filter_map(|number| usize::try_from(number).ok()));
    }
    None
}

/// Indices of the variables that a block declares, by name.
pub(super) type Names = HashMap<String, usize>;

/// Returns the names that each block declares.
pub(super) fn names(program: &Program) -> Vec<Names> {
    let names = |block: &Block| {
        let vars = block.vars.iter().enumerate();
        vars.map(|(place, var)| (var.name.clone(), place)).collect()
    };
    program.blocks.iter().map(names).collect()
}

fn operand(slot: &str, args: Vec<String>) -> Operand {
    Operand { slot: slot.to_owned(), args }
}

/// Returns the names of gradients, with a special name for those that are not needed.
fn wanted(names: &[String], is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let gradient = |name: &String| match is_wanted(name) {
        true => gradient_of(name),
        false => EMPTY.to_owned(),
    };
    names.iter().map(gradient).collect()
}

fn number(block: usize) -> Result<AttributeValue> {
    block_number(block).map(AttributeValue::Block)
}

/// Returns the gradient operator of a `while`; `block` is its gradient block. Its inputs are the gradients that the block
/// reads but does not compute.
pub(super) fn while_gradient(
    program: &Program,
    op: &Op,
    block: usize,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Op> {
    let ops = program.blocks.get(block).map_or(&[][..], |block| &block.ops);
    let made: HashSet<&str> = ops.iter().flat_map(Op::writes).collect();
    let names = names(program);
    let mut known: HashSet<&str> = op.input("X").iter().map(String::as_str).collect();
    known.extend(op.output("Out").iter().map(String::as_str));
    let mut given: Vec<String> = Vec::new();
    for op in ops {
        for name in op.reads().filter(|name| !known.contains(name)) {
            let is_new = !given.iter().any(|known| known == name);
            if is_new && declaration(program, &names, block, name).is_none() {
                given.push(name.to_owned());
            }
        }
        known.extend(op.writes());
    }
    let is_made = |name: &str| is_wanted(name) && made.contains(gradient_of(name).as_str());
    let mut gradient = Op {
        kind: "while_grad".to_owned(),
        inputs: vec![
            operand("X", op.input("X").to_vec()),
            operand("Out", op.output("Out").to_vec()),
            operand("Out@GRAD", given.clone()),
            operand("StepScopes", op.output("StepScopes").to_vec()),
        ],
        outputs: vec![operand("X@GRAD", wanted(op.input("X"), is_made))],
        attributes: op.attributes.clone(),
        ..Op::default()
    };
    let given = given.iter().map(|name| ByteString::from(name.as_str())).collect();
    set(&mut gradient, "sub_block", number(block)?);
    set(&mut gradient, "original_output_grad", AttributeValue::Strings(given));
    set(&mut gradient, "skip_eager_deletion_vars", AttributeValue::Strings(Vec::new()));
    Ok(gradient)
}

/// Returns the gradient operator of a `conditional_block`; `block` is its gradient block.
///
/// # Errors
/// If the block changes a variable that it reads: the gradient is undefined if the block does not run.
pub(super) fn conditional_gradient(
    op: &Op,
    block: usize,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Op> {
    let is_changed = |name: &&String| is_wanted(name) && op.output("Out").contains(name);
    if let Some(name) = op.input("Input").iter().find(is_changed) {
        let what = format!("the block changes `{name}`, which it reads: that has no gradient");
        return error::operator(&op.kind, what);
    }
    let of_results = op.output("Out").iter().map(|name| gradient_of(name)).collect();
    let mut gradient = Op {
        kind: "conditional_block_grad".to_owned(),
        inputs: vec![
            operand("Cond", op.input("Cond").to_vec()),
            operand("Input", op.input("Input").to_vec()),
            operand("Out", op.output("Out").to_vec()),
            operand("Out@GRAD", of_results),
            operand("Scope", op.output("Scope").to_vec()),
        ],
        outputs: vec![operand("Input@GRAD", wanted(op.input("Input"), is_wanted))],
        ..Op::default()
    };
    set(&mut gradient, "sub_block", number(block)?);
    set(&mut gradient, "skip_eager_deletion_vars", AttributeValue::Strings(Vec::new()));
    if let Some(scalar) = op.attribute("is_scalar_condition") {
        set(&mut gradient, "is_scalar_condition", scalar.clone());
    }
    Ok(gradient)
}

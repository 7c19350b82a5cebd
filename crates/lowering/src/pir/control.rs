//! Control flow: `pd_op.while` and `pd_op.if`.
//!
//! The blocks of PIR compute values; those of PaddlePaddle 2 write variables of the block around them. A loop writes
//! its variables at the end of its block. Each branch writes its own variables, between which `select_input` chooses.

use std::collections::HashSet;

use lodstone_model::{AttributeValue, Block, DType, Dim, Holder, Op, TensorType, ValueType, Var};
use lodstone_schema::pir::{REGIONS, operator};

use super::special::{Rule, arg, is_array};
use super::walk::{Bound, Walk, attribute, new_op, operand};
use crate::frame::Step;

pub(super) const RULES: &[(&str, Rule)] = &[("pd_op.if", if_op), ("pd_op.while", while_op)];

/// Returns the blocks that an operator runs, with their indices.
fn regions<'p>(walk: &Walk<'p>, op: &Op, count: usize) -> Step<Vec<(usize, &'p Block)>> {
    let numbers = match op.attribute(REGIONS) {
        Some(AttributeValue::Blocks(numbers)) => numbers.clone(),
        _ => Vec::new(),
    };
    if numbers.len() != count {
        return Err(format!("expected {count} blocks, found {}", numbers.len()).into());
    }
    let region = |number: i32| {
        let index = usize::try_from(number).ok();
        index.and_then(|index| Some((index, walk.program.blocks.get(index)?)))
    };
    let found = numbers.into_iter().map(region).collect::<Option<Vec<_>>>();
    found.ok_or_else(|| "expected blocks of the program".into())
}

/// Returns the values that a block passes on.
fn yielded(block: &Block) -> Step<&[String]> {
    let last = block.ops.last().filter(|op| op.kind == "cf.yield");
    last.map(|op| op.input("")).ok_or_else(|| "expected a block that ends with `yield`".into())
}

fn boolean(value: ValueType) -> ValueType {
    match value {
        ValueType::Tensor(tensor) => ValueType::Tensor(tensor),
        _ => ValueType::Tensor(TensorType {
            dtype: DType::Bool,
            shape: Some(vec![Dim::Known(1)]),
            ..TensorType::default()
        }),
    }
}

fn copy(from: &str, to: &str) -> Op {
    new_op("assign", &[("X", from)], &[("Out", to)], Vec::new())
}

/// Translates a loop: its variables get the initial values before it, and the next values at the end of its block.
fn while_op<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let [(index, block)] = regions(walk, op, 1)?[..] else { return Err("expected a block".into()) };
    let next = yielded(block)?;
    let (results, carried) = (op.output(""), op.input("").get(1..).unwrap_or_default());
    if block.inputs.len() != carried.len()
        || results.len() != carried.len()
        || next.len() != carried.len() + 1
    {
        return Err(format!(
            "expected {} arguments, results and next values after the condition, found {}, {} and {}",
            carried.len(),
            block.inputs.len(),
            results.len(),
            next.len().saturating_sub(1)
        )
        .into());
    }
    let condition = walk.fresh("condition", boolean(walk.type_of(arg(op, 0)?)));
    let first = walk.variable(arg(op, 0)?)?;
    walk.emit(copy(&first, &condition));
    let mut variables = Vec::new();
    for ((initial, argument), value) in carried.iter().zip(&block.inputs).zip(results) {
        let from = walk.variable(initial)?;
        let variable = if is_array(&walk.type_of(initial)) {
            // Arrays are written in place.
            walk.bind(value, Bound::Variable(from.clone()));
            from
        } else if value.is_empty() {
            let variable = walk.fresh("while", walk.type_of(argument));
            walk.emit(copy(&from, &variable));
            variable
        } else {
            let variable = walk.result(op, value);
            walk.emit(copy(&from, &variable));
            variable
        };
        walk.bind(argument, Bound::Variable(variable.clone()));
        variables.push(variable);
    }
    forget_overwritten(walk, block);
    let outer = walk.current;
    let inner = walk.begin_block()?;
    walk.ops(index, block);
    end_iteration(walk, next, &condition, &variables)?;
    walk.current = outer;
    let mut new = new_op(
        "while",
        &[("Condition", &condition)],
        &[],
        vec![
            attribute("sub_block", AttributeValue::Block(block_number(inner)?)),
            attribute("is_test", false),
        ],
    );
    new.inputs.insert(0, operand("X", outer_reads(walk, inner)));
    new.outputs.push(operand("Out", outer_writes(walk, inner)));
    let scopes = walk.fresh("step_scopes", ValueType::Holder(Holder::StepScopes));
    new.outputs.push(operand("StepScopes", vec![scopes]));
    walk.emit(new);
    Ok(())
}

/// Forgets the constants that operators in a loop overwrite: an earlier operator of the loop reads what they wrote in the
/// iteration before.
fn forget_overwritten(walk: &mut Walk<'_>, block: &Block) {
    let (mut open, mut seen) = (vec![block], HashSet::new());
    while let Some(block) = open.pop() {
        for op in &block.ops {
            let inner = op.blocks().filter(|number| seen.insert(*number));
            let inner = inner.filter_map(|number| usize::try_from(number).ok());
            open.extend(inner.filter_map(|number| walk.program.blocks.get(number)));
            if !op.kind.ends_with('_') {
                continue;
            }
            let row = operator(&op.kind);
            let results = row.into_iter().flat_map(|row| &row.results);
            for operand in results.filter_map(|result| result.overwrites) {
                let variable = op.input("").get(operand).map(|arg| walk.variable(arg));
                if let Some(Ok(variable)) = variable {
                    walk.constants.remove(&variable);
                }
            }
        }
    }
}

/// Writes the variables of a loop and its condition. A next value that is itself a variable of the loop is copied first,
/// since all are written at once.
fn end_iteration(
    walk: &mut Walk<'_>,
    next: &[String],
    condition: &str,
    variables: &[String],
) -> Step {
    let mut sources = Vec::new();
    for (value, to) in
        next.iter().zip(std::iter::once(condition).chain(variables.iter().map(String::as_str)))
    {
        let from = walk.variable(value)?;
        if from == to {
            continue;
        }
        let is_overwritten = variables.contains(&from) || from == condition;
        let from = match is_overwritten {
            true => {
                let name = walk.fresh("assign", walk.declared(&from));
                walk.emit(copy(&from, &name));
                name
            }
            false => from,
        };
        sources.push((from, to.to_owned()));
    }
    for (from, to) in sources {
        if walk.declared(&to).is_array() {
            return Err("expected a loop that passes on the same array".into());
        }
        walk.emit(copy(&from, &to));
    }
    Ok(())
}

/// Translates a choice.
fn if_op<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let condition = walk.variable(arg(op, 0)?)?;
    let regions = regions(walk, op, 2)?;
    let inverse = walk.call(
        "logical_not",
        &[("X", &condition)],
        Vec::new(),
        boolean(walk.type_of(arg(op, 0)?)),
    );
    let mut branches = Vec::new();
    for ((index, block), condition) in regions.into_iter().zip([&condition, &inverse]) {
        branches.push(branch(walk, op, (index, block), condition)?);
    }
    let results = op.output("");
    if results.iter().all(String::is_empty) {
        return Ok(());
    }
    let mask_type = TensorType {
        dtype: DType::Int32,
        shape: Some(vec![Dim::Known(1)]),
        ..TensorType::default()
    };
    let (from, to) =
        (super::attributes::code(DType::Bool)?, super::attributes::code(DType::Int32)?);
    let cast = vec![attribute("in_dtype", from), attribute("out_dtype", to)];
    let mask = walk.call("cast", &[("X", &condition)], cast, ValueType::Tensor(mask_type));
    for (number, value) in results.iter().enumerate().filter(|(_, value)| !value.is_empty()) {
        let choices: Vec<String> =
            branches.iter().rev().filter_map(|names| names.get(number).cloned()).collect();
        let [_, _] = choices.as_slice() else {
            return Err(format!("expected both branches to yield {} values", results.len()).into());
        };
        let name = walk.result(op, value);
        let mut select = new_op("select_input", &[], &[("Out", &name)], Vec::new());
        select.inputs = vec![operand("X", choices), operand("Mask", vec![mask.clone()])];
        walk.emit(select);
    }
    Ok(())
}

/// Translates a branch; returns the variables that it writes.
fn branch<'p>(
    walk: &mut Walk<'p>,
    op: &'p Op,
    (index, block): (usize, &'p Block),
    condition: &str,
) -> Step<Vec<String>> {
    let values = match op.output("").is_empty() {
        true => &[],
        false => yielded(block)?,
    };
    let outer = walk.current;
    let inner = walk.begin_block()?;
    walk.ops(index, block);
    let mut names = Vec::new();
    for value in values {
        let from = walk.variable(value)?;
        let name = walk.names.fresh("branch");
        walk.declare_in(
            outer,
            Var { name: name.clone(), value: walk.type_of(value), ..Var::default() },
        );
        walk.emit(copy(&from, &name));
        names.push(name);
    }
    walk.current = outer;
    let mut new = new_op(
        "conditional_block",
        &[("Cond", condition)],
        &[],
        vec![
            attribute("sub_block", AttributeValue::Block(block_number(inner)?)),
            attribute("is_scalar_condition", true),
        ],
    );
    new.inputs.push(operand("Input", outer_reads(walk, inner)));
    new.outputs.push(operand("Out", outer_writes(walk, inner)));
    let scope = walk.fresh("scope", ValueType::Holder(Holder::StepScopes));
    new.outputs.push(operand("Scope", vec![scope]));
    walk.emit(new);
    Ok(names)
}

fn block_number(index: usize) -> Step<i32> {
    i32::try_from(index).map_err(|_| "expected fewer blocks".into())
}

/// Returns the variables outside of a block that its operators read, each once.
fn outer_reads(walk: &Walk<'_>, index: usize) -> Vec<String> {
    outside(walk, index, |op| op.reads().map(str::to_owned).collect())
}

/// Returns the variables outside of a block that its operators write, each once.
fn outer_writes(walk: &Walk<'_>, index: usize) -> Vec<String> {
    outside(walk, index, |op| op.writes().map(str::to_owned).collect())
}

fn outside(walk: &Walk<'_>, index: usize, names: fn(&Op) -> Vec<String>) -> Vec<String> {
    let Some(block) = walk.blocks.get(index) else { return Vec::new() };
    let own: HashSet<&str> = block.vars.iter().map(|var| var.name.as_str()).collect();
    let mut seen = HashSet::new();
    let all = block.ops.iter().flat_map(names);
    all.filter(|name| !own.contains(name.as_str()) && seen.insert(name.clone())).collect()
}

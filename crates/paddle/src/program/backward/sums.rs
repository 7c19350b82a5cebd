//! Sums of gradients: the gradient of a variable with several readers is the sum of all parts.

use std::collections::BTreeMap;

use lodstone_model::{AttributeValue, Op, Operand};
use lodstone_schema::paddle::{EMPTY, GRAD};

use crate::program::error::{Result, internal};
use crate::program::role::{BACKWARD, set, set_role};

/// A gradient with several parts.
#[derive(Default)]
struct Several {
    /// The names of its parts; the name of the gradient itself while there is only one.
    names: Vec<String>,
    /// The index of the operator that writes the first part.
    first: usize,
    /// The number of parts with generated names.
    count: usize,
}

/// Where several operators write the same gradient, lets each write a part, and inserts a sum before it is read.
pub(super) fn summed(mut ops: Vec<Op>, block: usize) -> Result<Vec<Op>> {
    let mut parts: BTreeMap<String, Several> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let mut sums: Vec<(usize, Op)> = Vec::new();
    for number in 0..ops.len() {
        let op = op_mut(&mut ops, number)?;
        let (read, places) = (gradient_names(&op.inputs), places(op));
        for name in &read {
            if let Some(several) = parts.get_mut(name).filter(|several| several.names.len() > 1) {
                sums.push((number, sum(name, std::mem::take(&mut several.names))));
                several.names = vec![name.clone()];
                several.first = number;
            }
        }
        for (slot, place) in places {
            let name = output(&mut ops, number, slot, place)?.clone();
            // A gradient that is updated in place has a single part.
            if !name.contains(GRAD) || name == EMPTY || read.contains(&name) {
                continue;
            }
            let several = parts.entry(name.clone()).or_insert_with(|| {
                order.push(name.clone());
                Several::default()
            });
            if several.names.is_empty() {
                (several.names, several.first) = (vec![name], number);
                continue;
            }
            if several.names.len() == 1 {
                let part = several.next(&name, block);
                several.names = vec![part.clone()];
                let first = several.first;
                for op in ops.iter_mut().take(number).skip(first) {
                    rename(op, &name, &part);
                }
                for (_, op) in &mut sums {
                    rename(op, &name, &part);
                }
                if first == number {
                    // One operator writes both: the first one is renamed.
                    rename_first(op_mut(&mut ops, number)?, &name, &part);
                }
            }
            let part = several.next(&name, block);
            several.names.push(part.clone());
            *output(&mut ops, number, slot, place)? = part;
        }
    }
    for name in order {
        if let Some(several) = parts.remove(&name).filter(|several| several.names.len() > 1) {
            sums.push((ops.len(), sum(&name, several.names)));
        }
    }
    for (number, sum) in sums.into_iter().rev() {
        ops.insert(number, sum);
    }
    Ok(ops)
}

impl Several {
    fn next(&mut self, name: &str, block: usize) -> String {
        let part = format!("{name}@RENAME@block{block}@{}", self.count);
        self.count += 1;
        part
    }
}

pub(super) fn gradient_names(operands: &[Operand]) -> Vec<String> {
    let names = operands.iter().flat_map(|operand| &operand.args);
    names.filter(|name| name.contains(GRAD) && *name != EMPTY).cloned().collect()
}

fn args(op: &mut Op) -> impl Iterator<Item = &mut String> {
    op.inputs.iter_mut().chain(&mut op.outputs).flat_map(|operand| &mut operand.args)
}

fn rename(op: &mut Op, from: &str, to: &str) {
    args(op).filter(|name| *name == from).for_each(|name| to.clone_into(name));
}

fn rename_first(op: &mut Op, from: &str, to: &str) {
    let mut outputs = op.outputs.iter_mut().flat_map(|operand| &mut operand.args);
    if let Some(name) = outputs.find(|name| *name == from) {
        to.clone_into(name);
    }
}

/// Returns the positions of the outputs of an operator: slots, and indices in them.
fn places(op: &Op) -> Vec<(usize, usize)> {
    let slots = op.outputs.iter().enumerate();
    slots
        .flat_map(|(slot, operand)| (0..operand.args.len()).map(move |place| (slot, place)))
        .collect()
}

fn op_mut(ops: &mut [Op], number: usize) -> Result<&mut Op> {
    ops.get_mut(number).ok_or_else(|| internal("an operator of the gradients is missing"))
}

fn output(ops: &mut [Op], number: usize, slot: usize, place: usize) -> Result<&mut String> {
    let operand = op_mut(ops, number)?.outputs.get_mut(slot);
    let name = operand.and_then(|operand| operand.args.get_mut(place));
    name.ok_or_else(|| internal("an output of the gradients is missing"))
}

fn sum(name: &str, parts: Vec<String>) -> Op {
    let operand = |slot: &str, args: Vec<String>| Operand { slot: slot.to_owned(), args };
    let mut op = Op {
        kind: "sum".to_owned(),
        inputs: vec![operand("X", parts)],
        outputs: vec![operand("Out", vec![name.to_owned()])],
        ..Op::default()
    };
    set(&mut op, "use_mkldnn", AttributeValue::Bool(false));
    set_role(&mut op, BACKWARD);
    op
}

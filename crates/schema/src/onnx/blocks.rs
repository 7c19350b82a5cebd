//! Blocks that operators run, by index.

use std::collections::HashMap;

use lodstone_model::{Block, Op, Operand, Residual, Topology};

/// Returns the program whose main graph is a block of another program, with the subgraphs that it runs.
pub fn subprogram(program: &Topology, block: i32) -> Topology {
    let order = Order::of(program, [block]);
    let blocks = order.blocks.iter().filter_map(|(old, _)| block_of(program, *old)).cloned();
    let mut made = rewritten(program, blocks.collect());
    order.number(&mut made.blocks);
    made
}

/// Returns a copy of a program with other blocks and without functions.
pub(super) fn rewritten(program: &Topology, blocks: Vec<Block>) -> Topology {
    Topology {
        dialect: program.dialect,
        version: program.version,
        operator_versions: program.operator_versions.clone(),
        attributes: program.attributes.clone(),
        blocks,
        functions: Vec::new(),
        residual: Residual::default(),
    }
}

/// Returns the operator that copies a value under another name.
pub(super) fn copy(from: &str, to: &str) -> Op {
    let operand = |name: &str| vec![Operand { slot: String::new(), args: vec![name.to_owned()] }];
    Op { kind: "Identity".to_owned(), inputs: operand(from), outputs: operand(to), ..Op::default() }
}

/// Removes the blocks that no operator runs; returns the old index of each remaining block.
pub(super) fn remove_unused(program: &mut Topology) -> Vec<usize> {
    let functions = program.functions.iter().map(|function| function.block);
    let order = Order::of(program, std::iter::once(0).chain(functions));
    let mut all: Vec<Option<Block>> = program.blocks.drain(..).map(Some).collect();
    let mut left = Vec::with_capacity(order.blocks.len());
    for (old, _) in &order.blocks {
        let Ok(index) = usize::try_from(*old) else { continue };
        if let Some(block) = all.get_mut(index).and_then(Option::take) {
            program.blocks.push(block);
            left.push(index);
        }
    }
    order.number(&mut program.blocks);
    for function in &mut program.functions {
        function.block = order.numbers.get(&function.block).copied().unwrap_or(function.block);
    }
    left
}

/// The blocks in use, each before its subgraphs.
struct Order {
    /// Their old indices, and those of their parents.
    blocks: Vec<(i32, i32)>,
    /// New indices by old ones.
    numbers: HashMap<i32, i32>,
}

impl Order {
    fn of(program: &Topology, roots: impl IntoIterator<Item = i32>) -> Self {
        let mut open: Vec<(i32, i32)> = roots.into_iter().map(|root| (root, NO_BLOCK)).collect();
        open.reverse();
        let mut order = Self { blocks: Vec::new(), numbers: HashMap::new() };
        let mut next = 0;
        while let Some((number, parent)) = open.pop() {
            let found = block_of(program, number);
            let Some(block) = found.filter(|_| !order.numbers.contains_key(&number)) else {
                continue;
            };
            order.numbers.insert(number, next);
            order.blocks.push((number, parent));
            next += 1;
            let inside: Vec<i32> = block.ops.iter().flat_map(Op::blocks).collect();
            open.extend(inside.into_iter().rev().map(|inside| (inside, number)));
        }
        order
    }

    /// Renumbers blocks, which are in this order.
    fn number(&self, blocks: &mut [Block]) {
        let number = |old: i32| self.numbers.get(&old).copied().unwrap_or(NO_BLOCK);
        for (block, (old, parent)) in blocks.iter_mut().zip(&self.blocks) {
            (block.index, block.parent) = (number(*old), number(*parent));
            for attribute in block.ops.iter_mut().flat_map(|op| &mut op.attributes) {
                attribute.value.edit_blocks(|inside| *inside = number(*inside));
            }
        }
    }
}

/// The parent of a block that no operator runs, and what an operator runs that runs no block of the program.
const NO_BLOCK: i32 = -1;

/// Returns a block.
pub(super) fn block_of(program: &Topology, number: i32) -> Option<&Block> {
    program.blocks.get(usize::try_from(number).ok()?)
}

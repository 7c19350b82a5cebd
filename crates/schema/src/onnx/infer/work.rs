//! What going through a program takes: a bound on it, new symbols, names of places.

use std::collections::HashSet;
use std::sync::Arc;

use lodstone_model::{AttributeValue, Block, Dim, Op, Program};

/// What going through a program may take, by the size of the program: blocks are gone through again where
/// loops, branches and calls are nested, and how often is not to be up to a few bytes.
#[derive(Debug)]
pub struct Work {
    /// Operators, operands, attributes and variables that may still be gone through.
    steps: usize,
    /// Extents and elements that may still be kept.
    cells: usize,
}

impl Work {
    /// A block is gone through several times if it is nested in loops, or a function called from
    /// several places.
    const TIMES: usize = 64;
    /// Extents and elements of what an operator, an operand or a variable is: those of a whole model are
    /// fewer, and these bound the memory.
    const CELLS: usize = 8;
    /// What a small program may ask for: cells of it are 24 MB.
    const LEAST: usize = 1_000_000;

    /// What a program may ask for.
    pub fn of(program: &Program) -> Self {
        let blocks = program.blocks.iter().map(of_block);
        let all = blocks.chain(program.ops().map(of_op)).fold(0, usize::saturating_add);
        let most = |times| all.saturating_mul(times).saturating_add(Self::LEAST);
        Self { steps: most(Self::TIMES), cells: most(Self::CELLS) }
    }

    /// Takes the work of entering a block; `None` if there is not so much left.
    #[must_use]
    pub fn enter(&mut self, block: &Block) -> Option<()> {
        self.steps = self.steps.checked_sub(of_block(block))?;
        Some(())
    }

    /// Takes the work of an operator; `None` if there is not so much left.
    #[must_use]
    pub fn apply(&mut self, op: &Op) -> Option<()> {
        self.steps = self.steps.checked_sub(of_op(op))?;
        Some(())
    }

    /// Takes the room for extents and elements; `None` if there is not so much left.
    #[must_use]
    pub fn keep(&mut self, cells: usize) -> Option<()> {
        self.cells = self.cells.checked_sub(cells)?;
        Some(())
    }

    /// Gives back the room for what is not kept.
    pub(super) fn release(&mut self, cells: usize) {
        self.cells = self.cells.saturating_add(cells);
    }
}

/// What it takes to enter a block.
fn of_block(block: &Block) -> usize {
    let lists =
        [block.vars.len(), block.initializers.len(), block.inputs.len(), block.outputs.len()];
    lists.into_iter().fold(1, usize::saturating_add)
}

/// What it takes to apply a rule: what it may look at.
fn of_op(op: &Op) -> usize {
    // Texts are copied and compared, which is fast.
    let of_text = |text: usize| text / 64;
    let of_texts = |all: &[String]| {
        let each = all.iter().map(|text| of_text(text.len()));
        each.fold(all.len(), usize::saturating_add)
    };
    let operands = op.inputs.iter().chain(&op.outputs).map(|operand| of_texts(&operand.args));
    let leaves = op.attributes.iter().flat_map(|attribute| attribute.value.leaves());
    let attributes = leaves.map(|value| match value {
        AttributeValue::Longs(numbers) => numbers.len(),
        AttributeValue::Floats(numbers) => numbers.len(),
        AttributeValue::Strings(texts) => {
            let each = texts.iter().map(|text| of_text(text.0.len()));
            each.fold(texts.len(), usize::saturating_add)
        }
        AttributeValue::String(text) => text.0.len(),
        AttributeValue::Tensor(tensor) => tensor.shape.len(),
        _ => 0,
    });
    let attributes = attributes.map(|payload| payload.saturating_add(1));
    operands.chain(attributes).fold(1 + of_text(op.name.len()), usize::saturating_add)
}

/// Symbols of extents that have none.
pub(super) struct Fresh {
    taken: HashSet<Arc<str>>,
    next: usize,
}

impl Fresh {
    pub(super) fn of(program: &Program) -> Self {
        let tensors = program.vars().flat_map(|var| var.value.tensors());
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

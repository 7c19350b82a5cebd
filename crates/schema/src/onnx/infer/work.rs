//! The work limit of walking a program, and fresh symbols.

use std::collections::HashSet;
use std::sync::Arc;

use lodstone_model::{AttributeValue, Block, Dim, Op, Program};

/// A work limit that depends on the size of the program: nested loops, branches and calls walk blocks repeatedly, and a
/// few bytes must not decide how often.
#[derive(Debug)]
pub struct Work {
    /// The number of operators, operands, attributes and variables that may still be visited.
    steps: usize,
    /// The number of dims and elements that may still be stored.
    cells: usize,
}

impl Work {
    /// The average number of visits of a block: blocks are visited repeatedly in nested loops, and functions at each
    /// call.
    const MAX_VISITS: usize = 64;
    /// The average number of dims and elements for each operator, operand or variable. Real models have fewer; the limit
    /// bounds the memory.
    const MAX_CELLS: usize = 8;
    /// The minimum for small programs: this number of cells takes 24 MB.
    const MIN: usize = 1_000_000;

    /// Returns the limit for a program.
    pub fn of(program: &Program) -> Self {
        let blocks = program.blocks.iter().map(of_block);
        let all = blocks.chain(program.ops().map(of_op)).fold(0, usize::saturating_add);
        let most = |times| all.saturating_mul(times).saturating_add(Self::MIN);
        Self { steps: most(Self::MAX_VISITS), cells: most(Self::MAX_CELLS) }
    }

    /// Charges the work of entering a block; `None` if the limit is exceeded.
    #[must_use]
    pub fn enter(&mut self, block: &Block) -> Option<()> {
        self.steps = self.steps.checked_sub(of_block(block))?;
        Some(())
    }

    /// Charges the work of an operator; `None` if the limit is exceeded.
    #[must_use]
    pub fn apply(&mut self, op: &Op) -> Option<()> {
        self.steps = self.steps.checked_sub(of_op(op))?;
        Some(())
    }

    /// Charges the storage of dims and elements; `None` if the limit is exceeded.
    #[must_use]
    pub fn keep(&mut self, cells: usize) -> Option<()> {
        self.cells = self.cells.checked_sub(cells)?;
        Some(())
    }

    /// Releases the storage of dims and elements.
    pub(super) fn release(&mut self, cells: usize) {
        self.cells = self.cells.saturating_add(cells);
    }
}

/// Returns the work of entering a block.
fn of_block(block: &Block) -> usize {
    let lists =
        [block.vars.len(), block.initializers.len(), block.inputs.len(), block.outputs.len()];
    lists.into_iter().fold(1, usize::saturating_add)
}

/// Returns the work of applying a rule, by the amount of data that it may read.
fn of_op(op: &Op) -> usize {
    // Strings are copied and compared, which is fast.
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

/// Generates symbols for unknown dims.
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

    /// Returns an unused symbol.
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

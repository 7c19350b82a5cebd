//! The values that variables hold while a program is walked.
//!
//! Each write makes a new value, and a block sees those of the blocks around it.

use std::collections::HashMap;

use lodstone_model::{Program, TensorType};
use lodstone_schema::Finding;

use crate::onnx::Value;

/// What a variable holds.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// A tensor, and the offsets of its LoD levels, outermost first.
    Tensor(Value, Vec<Value>),
    /// An array: a sequence of tensors, and the type of its members, if it has any.
    Array(Value, Option<TensorType>),
    /// A rank table: the indices of sequences, the longest first, and their lengths in this order.
    Ranks(Value, Value),
    /// The result of an operator that could not be translated; its readers are not reported.
    Failed,
}

/// A variable: the block that declares it, and its name.
pub(super) type Key<'p> = (usize, &'p str);

/// The variables of a program, by the blocks that are open. A block that is translated sees the values of the blocks
/// around it; what it writes is kept apart until it is closed.
#[derive(Debug)]
pub(super) struct Scope<'p> {
    program: &'p Program,
    /// The indices of the variables that each block declares.
    declared: Vec<HashMap<&'p str, usize>>,
    open: Vec<HashMap<Key<'p>, Bound>>,
}

impl<'p> Scope<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        let names = |block: &'p lodstone_model::Block| {
            (0..).zip(&block.vars).map(|(index, var)| (var.name.as_str(), index)).collect()
        };
        let declared = program.blocks.iter().map(names).collect();
        Self { program, declared, open: vec![HashMap::new()] }
    }

    /// Returns the variable that a name refers to in a block.
    ///
    /// # Errors
    /// If no block declares it.
    pub(super) fn key(&self, block: usize, name: &str) -> Result<Key<'p>, Finding> {
        let mut at = block;
        // The parents of blocks come before them: each step makes the index smaller.
        loop {
            let names = self.declared.get(at);
            if let Some((name, _)) = names.and_then(|names| names.get_key_value(name)) {
                return Ok((at, *name));
            }
            let parent = self.program.blocks.get(at).map(|block| block.parent);
            match parent.and_then(|parent| usize::try_from(parent).ok()) {
                Some(parent) if parent < at => at = parent,
                _ => return Err(format!("no block declares `{name}`").into()),
            }
        }
    }

    /// Returns the declaration of a variable.
    pub(super) fn declaration(&self, (block, name): Key<'p>) -> Option<&'p lodstone_model::Var> {
        let index = self.declared.get(block)?.get(name)?;
        self.program.blocks.get(block)?.vars.get(*index)
    }

    /// Returns what a variable holds, if it has been written.
    pub(super) fn get(&self, key: Key<'p>) -> Option<&Bound> {
        self.open.iter().rev().find_map(|block| block.get(&key))
    }

    /// Sets what a variable holds.
    pub(super) fn set(&mut self, key: Key<'p>, bound: Bound) {
        if let Some(block) = self.open.last_mut() {
            block.insert(key, bound);
        }
    }

    /// Returns the number of open blocks.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Opens a block.
    pub(super) fn open(&mut self) {
        self.open.push(HashMap::new());
    }

    /// Closes a block; returns what it wrote.
    pub(super) fn close(&mut self) -> HashMap<Key<'p>, Bound> {
        self.open.pop().unwrap_or_default()
    }
}

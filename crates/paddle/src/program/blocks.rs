//! Operators that run a block: loops and branches, as PaddlePaddle 2.6.2 writes them.
//!
//! Such an operator reads and writes the variables of outer blocks that its block reads and writes. Variables that a
//! block declares are removed when it has run: results are assigned to outer variables.
//!
//! Source of truth: `static/nn/control_flow.py` of PaddlePaddle 2.6.2.

use lodstone_model::{AttributeValue, Block, DType, Var};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::with_stop_gradient;

use crate::program::error::{Result, block_number, variable};
use crate::program::known::written;
use crate::program::network::{Network, Variable};
use crate::program::operator::Operator;

/// The outer variables that a block names, without duplicates, in the order of their first use.
#[derive(Debug, Default)]
struct Outside {
    /// Variables that it reads before it writes them.
    reads: Vec<Variable>,
    /// Variables that it writes.
    writes: Vec<Variable>,
}

impl Network {
    /// Appends a `while` operator: `body` builds its block, which runs while `condition`, a single Boolean, is
    /// true. The body must update the condition.
    ///
    /// ```
    /// use lodstone_model::DType;
    /// use lodstone_paddle::program::{Network, layers};
    ///
    /// let mut net = Network::new();
    /// let count = layers::fill_constant(&mut net, &[1], DType::Int64, 0.0)?;
    /// let limit = layers::fill_constant(&mut net, &[1], DType::Int64, 10.0)?;
    /// let goes_on = layers::less_than(&mut net, &count, &limit)?;
    /// net.while_loop(&goes_on, |net| {
    ///     layers::increment(net, &count, 1.0)?;
    ///     let again = layers::less_than(net, &count, &limit)?;
    ///     layers::assign_to(net, &again, &goes_on)
    /// })?;
    /// # Ok::<(), lodstone_paddle::program::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the condition is not a single Boolean, the body fails, or it does not write the condition. The network
    /// is then unchanged.
    pub fn while_loop(
        &mut self,
        condition: &Variable,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.while_loop_with(condition, false, body)
    }

    /// Appends a `while` operator like [`while_loop`](Self::while_loop); with `is_test`, nothing is kept for gradients.
    ///
    /// # Errors
    /// Like [`while_loop`](Self::while_loop).
    pub fn while_loop_with(
        &mut self,
        condition: &Variable,
        is_test: bool,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.check_condition(condition)?;
        let (block, ()) = self.block(|net| {
            body(net)?;
            net.check_written(net.current, condition)
        })?;
        self.append_while(condition, block, is_test)
    }

    /// Appends a `while` operator that runs a block which [`end_block`](Self::end_block) has closed.
    ///
    /// # Errors
    /// If the condition is not a single Boolean, or the block does not write it.
    pub fn append_while(
        &mut self,
        condition: &Variable,
        block: usize,
        is_test: bool,
    ) -> Result<()> {
        self.check_condition(condition)?;
        self.check_written(block, condition)?;
        let mut outside = self.outside(block);
        let only_written = outside.writes.iter().filter(|var| !outside.reads.contains(var));
        let only_written: Vec<_> = only_written.cloned().collect();
        outside.reads.extend(only_written);
        outside.reads.retain(|var| var != condition);
        let scopes = self.scopes("StepScopes", Operator::new("while"));
        self.append(
            scopes
                .input("X", &outside.reads)
                .input("Condition", [condition])
                .output("Out", &outside.writes)
                .attribute("sub_block", AttributeValue::Block(block_number(block)?))
                .attribute("is_test", is_test),
        )
    }

    /// Appends a `conditional_block` operator: `body` builds its block, which runs if `condition`, a single Boolean,
    /// is true. Otherwise, the outer variables that the block writes keep their values.
    ///
    /// # Errors
    /// If the condition is not a single Boolean, or the body fails. The network is then unchanged.
    pub fn conditional_block<T>(
        &mut self,
        condition: &Variable,
        body: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.check_condition(condition)?;
        let (block, result) = self.block(body)?;
        self.append_conditional_block(condition, block)?;
        Ok(result)
    }

    /// Appends a `conditional_block` operator that runs a block which [`end_block`](Self::end_block) has closed.
    ///
    /// # Errors
    /// If the condition is not a single Boolean.
    pub fn append_conditional_block(&mut self, condition: &Variable, block: usize) -> Result<()> {
        self.check_condition(condition)?;
        self.append_branch(condition, block, true)
    }

    /// Appends a `conditional_block` operator that runs a block which [`end_block`](Self::end_block) has closed, if a mask,
    /// a tensor of Booleans, has elements: the block of a branch that is taken row by row.
    ///
    /// # Errors
    /// If the mask does not consist of Booleans.
    pub fn append_masked_block(&mut self, mask: &Variable, block: usize) -> Result<()> {
        match self.dtype(mask)? {
            DType::Bool => self.append_branch(mask, block, false),
            found => variable(mask.name(), format!("expected Booleans as a mask, found {found}")),
        }
    }

    fn append_branch(&mut self, condition: &Variable, block: usize, is_scalar: bool) -> Result<()> {
        let outside = self.outside(block);
        let scopes = self.scopes("Scope", Operator::new("conditional_block"));
        self.append(
            scopes
                .input("Cond", [condition])
                .input("Input", &outside.reads)
                .output("Out", &outside.writes)
                .attribute("sub_block", AttributeValue::Block(block_number(block)?))
                .attribute("is_scalar_condition", is_scalar),
        )
    }

    /// Assigns a variable to a new one of its type in the outer block, and returns that. An outer array is returned as it
    /// is.
    pub(crate) fn carry_out(&mut self, var: &Variable) -> Result<Variable> {
        let info = self.info(var)?;
        let info = ValueInfo::from(info.value.clone());
        let is_own = self.known.get(var.name()).is_some_and(|known| known.block == self.current);
        if info.value.is_array() && !is_own {
            return Ok(var.clone());
        }
        let parent = self.parent(self.current).unwrap_or(self.current);
        let (name, value) = (self.name("_generated_var"), written(&info.value));
        let stop_gradient = self.stops(var.name());
        let outer = with_stop_gradient(Var { name, value, ..Var::default() }, stop_gradient);
        let outer = self.declare(parent, outer, info);
        self.append(Operator::new("assign").input("X", [var]).output("Out", [&outer]))?;
        Ok(outer)
    }

    fn check_condition(&self, condition: &Variable) -> Result<()> {
        let known = self.shape(condition)?.into_iter().collect::<Option<Vec<u64>>>();
        let is_one = known.is_some_and(|dims| dims.iter().all(|dim| *dim == 1));
        match self.dtype(condition)? {
            DType::Bool if is_one => Ok(()),
            _ => variable(condition.name(), "expected a single Boolean as a condition"),
        }
    }

    /// Builds a block inside the current one; returns its index. If `body` fails, the block is removed.
    fn block<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<(usize, T)> {
        let made = self.begin_block()?;
        let result = body(self);
        match result {
            Ok(result) => Ok((self.end_block(), result)),
            Err(error) => {
                self.discard_block(made);
                Err(error)
            }
        }
    }

    /// Opens a block inside the current one, to which operators are then appended; returns its index.
    /// [`while_loop`](Self::while_loop) and [`conditional_block`](Self::conditional_block) close it themselves.
    ///
    /// # Errors
    /// If the program has too many blocks.
    pub fn begin_block(&mut self) -> Result<usize> {
        let (around, made) = (self.current, self.main.blocks.len());
        let (index, parent) = (block_number(made)?, block_number(around)?);
        self.main.blocks.push(Block { index, parent, ..Block::default() });
        self.current = made;
        Ok(made)
    }

    /// Closes the current block, and returns its index. The first block remains open.
    pub fn end_block(&mut self) -> usize {
        let ended = self.current;
        self.current = self.parent(ended).unwrap_or(ended);
        ended
    }

    /// Removes a block that is open, and all blocks that were opened after it.
    pub fn discard_block(&mut self, block: usize) {
        // The first block has no parent, and stays.
        self.current = self.parent(block).unwrap_or(0);
        self.main.blocks.truncate(block.max(1));
        self.known.retain(|_, known| known.block < block.max(1));
    }

    fn parent(&self, block: usize) -> Option<usize> {
        self.main.blocks.get(block).and_then(|block| usize::try_from(block.parent).ok())
    }

    fn check_written(&self, block: usize, condition: &Variable) -> Result<()> {
        match self.outside(block).writes.contains(condition) {
            true => Ok(()),
            false => variable(condition.name(), "the loop does not write its condition"),
        }
    }

    /// Adds a variable for the scopes of the block.
    fn scopes(&mut self, slot: &str, operator: Operator) -> Operator {
        operator.output(slot, [&Variable::named(&self.name("_generated_var"))])
    }

    /// Whether the current block writes an outer variable.
    pub(crate) fn writes_outside(&self, var: &Variable) -> bool {
        self.outside(self.current).writes.contains(var)
    }

    fn outside(&self, number: usize) -> Outside {
        let mut outside = Outside::default();
        let Some(block) = self.main.blocks.get(number) else { return outside };
        let is_outside = |name: &str| self.known.get(name).is_some_and(|var| var.block != number);
        let add = |vars: &mut Vec<Variable>, name: &str| {
            let var = Variable::named(name);
            if is_outside(name) && !vars.contains(&var) {
                vars.push(var);
            }
        };
        for op in &block.ops {
            for name in op.reads() {
                if !outside.writes.iter().any(|var| var.name() == name) {
                    add(&mut outside.reads, name);
                }
            }
            op.writes().for_each(|name| add(&mut outside.writes, name));
        }
        outside
    }
}

//! Operators that run a block: loops and conditions, as PaddlePaddle 2.6.2 writes them.
//!
//! What such an operator reads and writes is what its block reads and writes of the blocks around it. Variables
//! that a block declares are gone when it has run: what is to stay is assigned to a variable from outside.
//!
//! Source of truth: `static/nn/control_flow.py` of PaddlePaddle 2.6.2.

use lodstone_model::{AttributeValue, Block, DType, Var};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::with_stop_gradient;

use crate::program::error::{Result, block_number, variable};
use crate::program::known::written;
use crate::program::network::{Network, Variable};
use crate::program::operator::Operator;

/// Variables from outside that a block names, each once, in the order in which it first does.
#[derive(Debug, Default)]
struct Outside {
    /// Those that it reads before it writes them.
    reads: Vec<Variable>,
    /// Those that it writes.
    writes: Vec<Variable>,
}

impl Network {
    /// Appends a `while` operator: `body` makes its block, which runs as long as `condition`, one truth value, is
    /// true. The body has to write the condition again.
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
    /// If the condition is not one truth value, the body fails, or it does not write the condition. The network
    /// then goes on without the loop.
    pub fn while_loop(
        &mut self,
        condition: &Variable,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.while_loop_with(condition, false, body)
    }

    /// The same; `is_test` says that nothing is kept for gradients.
    ///
    /// # Errors
    /// As [`while_loop`](Self::while_loop).
    pub fn while_loop_with(
        &mut self,
        condition: &Variable,
        is_test: bool,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.check_condition(condition)?;
        let (block, ()) = self.block(|net| {
            body(net)?;
            match net.writes_outside(condition) {
                true => Ok(()),
                false => variable(condition.name(), "the loop that it ends does not write it"),
            }
        })?;
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

    /// Appends a `conditional_block` operator: `body` makes its block, which runs if `condition`, one truth value,
    /// is true. What the block writes of the variables outside stays as it was if it does not run.
    ///
    /// # Errors
    /// If the condition is not one truth value, or the body fails. The network then goes on without the block.
    pub fn conditional_block<T>(
        &mut self,
        condition: &Variable,
        body: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.check_condition(condition)?;
        let (block, result) = self.block(body)?;
        let outside = self.outside(block);
        let scopes = self.scopes("Scope", Operator::new("conditional_block"));
        self.append(
            scopes
                .input("Cond", [condition])
                .input("Input", &outside.reads)
                .output("Out", &outside.writes)
                .attribute("sub_block", AttributeValue::Block(block_number(block)?))
                .attribute("is_scalar_condition", true),
        )?;
        Ok(result)
    }

    /// Assigns a variable to one of its type in the block around the current one; gives that. An array that lies
    /// outside stays where it is.
    pub(crate) fn carry_out(&mut self, var: &Variable) -> Result<Variable> {
        let info = self.info(var)?;
        let info = ValueInfo::from(info.value.clone());
        let is_own = self.known.get(var.name()).is_some_and(|known| known.block == self.current);
        if info.value.is_array() && !is_own {
            return Ok(var.clone());
        }
        let parent = self.main.blocks.get(self.current).map(|block| block.parent);
        let parent = parent.and_then(|parent| usize::try_from(parent).ok()).unwrap_or(0);
        let (name, value) = (self.name("_generated_var"), written(&info.value));
        let stop_gradient = self.stops(var.name());
        let outer = with_stop_gradient(Var { name, value, ..Var::default() }, stop_gradient);
        let outer = self.declare(parent, outer, info);
        self.append(Operator::new("assign").input("X", [var]).output("Out", [&outer]))?;
        Ok(outer)
    }

    fn check_condition(&self, condition: &Variable) -> Result<()> {
        let known = self.shape(condition)?.into_iter().collect::<Option<Vec<u64>>>();
        let is_one = known.is_some_and(|dims| dims.iter().all(|extent| *extent == 1));
        match self.dtype(condition)? {
            DType::Bool if is_one => Ok(()),
            _ => variable(condition.name(), "expected one truth value as a condition"),
        }
    }

    /// Makes a block in the current one; gives its number. Of one that fails nothing is left.
    fn block<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<(usize, T)> {
        let (around, made) = (self.current, self.main.blocks.len());
        let (index, parent) = (block_number(made)?, block_number(around)?);
        self.main.blocks.push(Block { index, parent, ..Block::default() });
        self.current = made;
        let result = body(self);
        self.current = around;
        if result.is_err() {
            self.main.blocks.truncate(made);
            self.known.retain(|_, known| known.block < made);
        }
        Ok((made, result?))
    }

    /// With a variable for the scopes that the block runs in.
    fn scopes(&mut self, slot: &str, operator: Operator) -> Operator {
        operator.output(slot, [&Variable::named(&self.name("_generated_var"))])
    }

    /// Whether the current block writes a variable from outside.
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

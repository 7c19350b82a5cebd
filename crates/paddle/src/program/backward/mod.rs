//! Backward pass: appends the operators that compute the gradients of a program.
//!
//! It finds what a loss depends on, in the blocks that are run, too, appends the gradient operators, sums the gradients
//! of several paths, leaves out those that are zero, and declares their variables at the end.
//!
//! The result is that of PaddlePaddle 2.6.2: the same operators in the same order with the same names.
//! Source of truth: `base/backward.py` and the makers of gradients (`schema/data/paddle_operators.tsv`).

mod again;
mod blocks;
mod declared;
mod needed;
mod path;
mod sums;

use std::collections::{HashMap, HashSet};

use again::{Earlier, Renamed};
use blocks::{conditional_gradient, inner, while_gradient};
use lodstone_model::{AttributeValue, Block, ByteString, Op, Program, Var};
use lodstone_schema::paddle::{
    forward_block, gradient_of, gradient_ops, set_forward_block, stop_gradient,
};
use needed::{connected, without_branches};
use path::{Paths, path, unused};
use sums::summed;

use crate::program::error::{self, Result, block_mut, block_number, variable};
use crate::program::network::{Draft, Network, Variable};
use crate::program::operator::Operator;
use crate::program::role::{BACKWARD, LOSS, set, set_role};

impl Network {
    /// Appends operators that compute the gradients of a loss with respect to the parameters of the main program that it
    /// depends on; returns each parameter with its gradient, in the order of the parameters.
    ///
    /// Gradients stop at variables that are marked (`stop_gradient`: inputs, statistics), and at `no_grad`.
    ///
    /// # Errors
    /// If the loss is not a single number, if a variable does not exist, or if the loss depends on gradients of an earlier
    /// pass.
    pub fn append_backward(
        &mut self,
        loss: &Variable,
        no_grad: &[Variable],
    ) -> Result<Vec<(Variable, Variable)>> {
        let pairs = append_backward(&mut self.main, loss, no_grad)?;
        self.learn();
        Ok(pairs)
    }

    /// Appends operators that compute the gradients of a single number with respect to variables; returns them in the order
    /// of the variables, `None` for those that the number does not depend on.
    ///
    /// # Errors
    /// Like [`append_backward`](Self::append_backward).
    pub fn gradients(
        &mut self,
        target: &Variable,
        inputs: &[Variable],
        no_grad: &[Variable],
    ) -> Result<Vec<Option<Variable>>> {
        let made = gradients(&mut self.main, target, inputs, no_grad)?;
        self.learn();
        Ok(made)
    }

    /// Learns the types of new gradients.
    fn learn(&mut self) {
        for (name, known) in Draft::of(&self.main).known {
            self.known.entry(name).or_insert(known);
        }
    }
}

/// Appends gradients to a program of any origin: to its first block, and the blocks that it runs. A gradient has the name of
/// its variable and `@GRAD`; if an earlier pass made one of this name, it is preceded by a `grad/` for each pass.
///
/// # Errors
/// Like [`Network::append_backward`]. The program is then unchanged.
pub fn append_backward(
    program: &mut Program,
    loss: &Variable,
    no_grad: &[Variable],
) -> Result<Vec<(Variable, Variable)>> {
    let Pass { begin, parameters, renamed } = pass(program, loss, &[], no_grad)?;
    let ops = block_mut(program, 0)?.ops.iter_mut().skip(begin);
    Ok(paired(ops.collect(), parameters, &renamed))
}

/// Appends gradients with respect to variables of the first block, which may be inputs and intermediate values.
///
/// # Errors
/// Like [`Network::append_backward`]. The program is then unchanged.
pub fn gradients(
    program: &mut Program,
    target: &Variable,
    inputs: &[Variable],
    no_grad: &[Variable],
) -> Result<Vec<Option<Variable>>> {
    let Pass { begin, renamed, .. } = pass(program, target, inputs, no_grad)?;
    let ops = block_mut(program, 0)?.ops.iter().skip(begin);
    let written: HashSet<&str> = ops.flat_map(Op::writes).collect();
    let made = |input: &Variable| {
        let gradient = renamed.gradient_of(input.name());
        written.contains(gradient.as_str()).then(|| Variable::named(&gradient))
    };
    Ok(inputs.iter().map(made).collect())
}

/// What a pass appended.
struct Pass {
    /// The index of its first operator.
    begin: usize,
    /// The parameters that gradients are computed for.
    parameters: Vec<Variable>,
    renamed: Renamed,
}

/// Appends the gradients of a loss. They do not stop at `inputs`.
fn pass(
    program: &mut Program,
    loss: &Variable,
    inputs: &[Variable],
    no_grad: &[Variable],
) -> Result<Pass> {
    for var in inputs.iter().chain(no_grad) {
        if !program.vars().any(|known| known.name == var.name()) {
            return variable(var.name(), "the program does not have this variable");
        }
    }
    let earlier = Earlier::hide(program)?;
    let name = |var: &Variable| earlier.name(var.name());
    let (inputs, no_grad) = (inputs.iter().map(name).collect(), no_grad.iter().map(name).collect());
    let made = append(program, &name(loss), &inputs, no_grad);
    let renamed = earlier.show(program);
    let (begin, parameters) = made?;
    Ok(Pass { begin, parameters, renamed })
}

/// Appends gradients to a program whose earlier gradients are hidden; returns the index of the first new operator, and the
/// parameters that gradients are computed for.
fn append(
    program: &mut Program,
    loss: &str,
    inputs: &HashSet<String>,
    no_grad: Vec<String>,
) -> Result<(usize, Vec<Variable>)> {
    let count = program.blocks.len();
    let Some(first) = program.blocks.first() else {
        return variable(loss, "the program has no blocks");
    };
    let forward = first.ops.len();
    let vars: HashMap<&str, &Var> = first.vars.iter().map(|var| (var.name.as_str(), var)).collect();
    check_loss(&vars, loss)?;
    blocks::check(program)?;
    let begin = beginning(&vars, loss)?;
    let mut stopped: Vec<HashSet<String>> = program.blocks.iter().map(stopped_in).collect();
    for stopped in &mut stopped {
        stopped.retain(|name| !inputs.contains(name));
    }
    if let Some(stopped) = stopped.first_mut() {
        stopped.extend(no_grad);
    }
    let none = HashSet::new();
    let at_first = stopped.first().unwrap_or(&none);
    let (wanted, mut paths) = (HashSet::from([loss.to_owned()]), Paths::new());
    let path = path(program, 0, wanted, at_first, false, &mut paths);
    again::check_order(&first.ops, &path, loss, at_first)?;
    let unused = unused(&first.ops, &path, loss, at_first);
    paths.insert(0, path);
    let parameters: Vec<Variable> = first
        .vars
        .iter()
        .filter(|var| var.is_parameter && !at_first.contains(&var.name))
        .filter(|var| !unused.contains(&var.name))
        .map(|var| Variable::named(&var.name))
        .collect();
    if let Some(stopped) = stopped.first_mut() {
        stopped.extend(unused);
    }
    let made = Appending { program, stopped, paths, loss }.gradients(0, 0);
    if made.is_err() {
        program.blocks.truncate(count);
    }
    let made = made?;
    let block = block_mut(program, 0)?;
    let mut ops = block.ops.iter_mut().rev();
    if let Some(op) = ops.find(|op| op.writes().any(|name| name == loss)) {
        set_role(op, LOSS);
    }
    block.ops.push(begin);
    block.ops.extend(made);
    declared::declare(program, 0, forward)?;
    Ok((forward, parameters))
}

/// Returns the variables of a block at which gradients stop.
fn stopped_in(block: &Block) -> HashSet<String> {
    let stopped = block.vars.iter().filter(|var| stop_gradient(var));
    stopped.map(|var| var.name.clone()).collect()
}

/// Returns the parameters that have a gradient, with it, and marks the operators that compute them.
fn paired(
    mut ops: Vec<&mut Op>,
    parameters: Vec<Variable>,
    renamed: &Renamed,
) -> Vec<(Variable, Variable)> {
    let mut pairs = Vec::new();
    for parameter in parameters {
        let gradient = renamed.gradient_of(parameter.name());
        let mut ops = ops.iter_mut().rev();
        let Some(op) = ops.find(|op| op.writes().any(|name| name == gradient)) else { continue };
        let mut names = [parameter.name(), &gradient].map(ByteString::from).to_vec();
        if let Some(AttributeValue::Strings(others)) = op.attribute("op_role_var") {
            names.extend_from_slice(others);
        }
        set(op, "op_role_var", AttributeValue::Strings(names));
        pairs.push((parameter, Variable::named(&gradient)));
    }
    pairs
}

/// The state of the backward pass.
struct Appending<'p> {
    program: &'p mut Program,
    /// The variables of each block at which gradients stop.
    stopped: Vec<HashSet<String>>,
    /// The operators of each block that the loss depends on.
    paths: Paths,
    loss: &'p str,
}

impl Appending<'_> {
    /// Returns the gradient operators of a block's operators, for block `target`.
    fn gradients(&mut self, block: usize, target: usize) -> Result<Vec<Op>> {
        let ops = &block_mut(self.program, block)?.ops;
        let path = self.paths.get(&block).map_or(&[][..], Vec::as_slice).iter();
        let ops: Option<Vec<Op>> = path.map(|number| ops.get(*number).cloned()).collect();
        let ops = ops.ok_or_else(|| error::internal("an operator of a path is missing"))?;
        let mut made = Vec::new();
        for op in ops.iter().rev() {
            made.extend(self.of(op, block, target)?);
        }
        let none = HashSet::new();
        let stopped = self.stopped.get(block).unwrap_or(&none);
        let made = without_branches(summed(made, block)?, stopped, self.loss);
        let mut made = connected(made, ops.iter());
        for op in &mut made {
            op.attributes.retain(|attribute| attribute.name != "op_role_var");
            set_role(op, BACKWARD);
        }
        Ok(made)
    }

    /// Returns the gradient operators of one operator.
    fn of(&mut self, op: &Op, block: usize, target: usize) -> Result<Vec<Op>> {
        let inner = match inner(op) {
            // The names in its gradient block, and the counters that this resets, are those of that pass.
            Some(inner) if self.has_gradient(inner) => {
                let what =
                    "an earlier pass has the gradients of its block: add up the losses instead";
                return error::operator(&op.kind, what);
            }
            Some(inner) => Some(self.inside(inner, target)?),
            None => None,
        };
        let none = HashSet::new();
        let stopped = self.stopped.get(block).unwrap_or(&none);
        let is_wanted = |name: &str| !stopped.contains(name);
        Ok(match (op.kind.as_str(), inner) {
            (_, None) => gradient_ops(op, is_wanted),
            ("while", Some(inner)) => vec![while_gradient(self.program, op, inner, is_wanted)?],
            ("conditional_block", Some(inner)) => {
                vec![conditional_gradient(op, inner, is_wanted)?]
            }
            (kind, Some(_)) => {
                return error::operator(kind, "gradients of its block are not supported");
            }
        })
    }

    /// Returns whether an earlier pass made a gradient block of a block.
    fn has_gradient(&self, block: usize) -> bool {
        let forward = |block: &Block| usize::try_from(forward_block(block)?).ok();
        self.program.blocks.iter().any(|other| forward(other) == Some(block))
    }

    /// Builds the gradient block of a block, inside block `target`; returns its index.
    fn inside(&mut self, forward: usize, target: usize) -> Result<usize> {
        let made = self.program.blocks.len();
        let (index, parent) = (block_number(made)?, block_number(target)?);
        let mut block = Block { index, parent, ..Block::default() };
        set_forward_block(&mut block, Some(block_number(forward)?));
        self.program.blocks.push(block);
        let ops = self.gradients(forward, made)?;
        block_mut(self.program, made)?.ops = ops;
        Ok(made)
    }
}

fn check_loss(vars: &HashMap<&str, &Var>, loss: &str) -> Result<()> {
    let Some(var) = vars.get(loss) else {
        return variable(loss, "the program does not have this variable");
    };
    let tensor = var.value.tensor_type();
    let shape = tensor.and_then(|tensor| tensor.shape.as_ref());
    let is_one = |dim: &lodstone_model::Dim| *dim == lodstone_model::Dim::Known(1);
    match shape.is_some_and(|dims| dims.iter().all(is_one)) {
        true => Ok(()),
        false => variable(loss, "expected a single number as the loss"),
    }
}

/// Returns the operator that sets the gradient of the loss to 1.
fn beginning(vars: &HashMap<&str, &Var>, loss: &str) -> Result<Op> {
    let tensor = vars.get(loss).and_then(|var| var.value.tensor_type());
    let Some(tensor) = tensor else {
        return variable(loss, "expected a tensor as the loss");
    };
    let Some(dims) = &tensor.shape else {
        return variable(loss, "expected known dims of the loss");
    };
    let shape = vec![1_i64; dims.len()];
    let gradient = Variable::named(&gradient_of(loss));
    Operator::new("fill_constant")
        .output("Out", [&gradient])
        .attribute("shape", shape)
        .attribute("value", 1.0_f32)
        .dtype("dtype", tensor.dtype)
        .attribute("op_role", BACKWARD | LOSS)
        .finish()
}

//! A backward pass over a program that has one already.
//!
//! The gradients of the earlier passes are then variables like any other. While operators are made, they are hidden:
//! their names have another suffix. Afterwards, a gradient whose name an earlier one has gets a prefix, as in PaddlePaddle.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Op, Program, Var};
use lodstone_schema::paddle::{GRAD, gradient_of, has_gradient, role};

use crate::program::error::{Result, variable};
use crate::program::role::{BACKWARD, LOSS};

/// The suffix that stands for [`GRAD`] in the names of hidden gradients.
const HIDDEN: &str = "\u{0}GRAD";
/// The prefix of gradients whose names exist: once for each pass.
const PREFIX: &str = "grad/";

/// The hidden gradients of earlier passes.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Hidden names by names.
    hidden: HashMap<String, String>,
    /// The number of earlier passes.
    passes: usize,
}

/// Names of new gradients that differ from those that follow from their variables.
#[derive(Debug, Default)]
pub(super) struct Renamed(HashMap<String, String>);

impl Renamed {
    /// Returns the name of the gradient of a variable.
    pub(super) fn gradient_of(&self, variable: &str) -> String {
        let gradient = gradient_of(variable);
        self.0.get(&gradient).cloned().unwrap_or(gradient)
    }
}

impl Earlier {
    /// Hides the gradients of a program.
    ///
    /// # Errors
    /// If a variable that is no gradient has the name of one.
    pub(super) fn hide(program: &mut Program) -> Result<Self> {
        let is_gradient = |name: &str| name.contains(GRAD) || name.contains(HIDDEN);
        let is_kept = |var: &&Var| var.is_parameter || var.persistable;
        if let Some(var) = program.vars().filter(is_kept).find(|var| is_gradient(&var.name)) {
            let what = "a name with `@GRAD` is that of a gradient, which is not kept";
            return variable(&var.name, what);
        }
        let names = program.vars().map(|var| &var.name).filter(|name| name.contains(GRAD));
        let hidden = names.map(|name| (name.clone(), name.replace(GRAD, HIDDEN))).collect();
        let first = program.blocks.iter().take(1).flat_map(|block| &block.ops);
        let passes = first.filter(|op| role(op) == BACKWARD | LOSS).count();
        let earlier = Self { hidden, passes };
        if !earlier.hidden.is_empty() {
            program.rename(&earlier.hidden);
        }
        Ok(earlier)
    }

    /// Returns the name that a variable has while gradients are hidden.
    pub(super) fn name(&self, variable: &str) -> String {
        self.hidden.get(variable).cloned().unwrap_or_else(|| variable.to_owned())
    }

    /// Renames the new gradients whose names earlier ones have, and shows these again.
    pub(super) fn show(&self, program: &mut Program) -> Renamed {
        if self.hidden.is_empty() {
            return Renamed::default();
        }
        let new = program.blocks.first().map_or(&[][..], |block| &block.vars);
        let taken = new.iter().map(|var| &var.name).filter(|name| self.hidden.contains_key(*name));
        let renamed: HashMap<String, String> =
            taken.map(|name| (name.clone(), self.prefixed(name))).collect();
        if let Some(block) = program.blocks.first_mut() {
            for var in &mut block.vars {
                replace(&renamed, &mut var.name);
            }
            let operands =
                block.ops.iter_mut().flat_map(|op| op.inputs.iter_mut().chain(&mut op.outputs));
            operands.flat_map(|operand| &mut operand.args).for_each(|name| replace(&renamed, name));
        }
        let names = program.vars().map(|var| var.name.clone()).filter(|name| name.contains(HIDDEN));
        let shown = names.map(|name| {
            let shown = name.replace(HIDDEN, GRAD);
            (name, shown)
        });
        let shown = shown.collect();
        program.rename(&shown);
        Renamed(renamed)
    }

    fn prefixed(&self, name: &str) -> String {
        let mut new = format!("{}{name}", PREFIX.repeat(self.passes + 1));
        while self.hidden.contains_key(&new) {
            new.insert_str(0, PREFIX);
        }
        new
    }
}

fn replace(names: &HashMap<String, String>, name: &mut String) {
    if let Some(new) = names.get(name) {
        name.clone_from(new);
    }
}

/// Raises an error if operators read a result of a gradient operator, because there are no gradients of these.
pub(super) fn check_order(
    ops: &[Op],
    path: &[usize],
    loss: &str,
    stopped: &HashSet<String>,
) -> Result<()> {
    let on_path = path.iter().filter_map(|number| ops.get(*number));
    let read: HashSet<&str> = on_path.flat_map(Op::reads).chain([loss]).collect();
    let mut gradients = ops.iter().filter(|op| role(op) & BACKWARD != 0 && !has_gradient(&op.kind));
    let found = gradients
        .find_map(|op| op.writes().find(|name| read.contains(name) && !stopped.contains(*name)));
    match found {
        Some(name) => variable(
            &name.replace(HIDDEN, GRAD),
            "the loss depends on this gradient, and gradients of gradients are not supported",
        ),
        None => Ok(()),
    }
}

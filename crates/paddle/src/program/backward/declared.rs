//! Declares the variables of gradients, and removes operators that compute none.
//!
//! A branch has its own variables for the gradients of its inputs, even if there is an outer one of the same name.
//! PaddlePaddle does not: if a branch in a loop reads a variable of the loop, its gradient is lost there.

use std::collections::HashSet;

use lodstone_model::{AttributeValue, Holder, Op, Program, Var};
use lodstone_schema::paddle::{Computation, EMPTY, GRAD, Levels, LodRule, gradient_of, operator};

use super::blocks::{Names, declaration, inner, names};
use super::sums::gradient_names;
use crate::program::error::{Result, block_mut, internal};

/// Declares the outputs of the operators of a block from `first`, and of the blocks that they run; removes operators
/// without outputs or without incoming gradients.
pub(super) fn declare(program: &mut Program, block: usize, first: usize) -> Result<()> {
    let names = names(program);
    Declaring { program, names }.block(block, first, &HashSet::new(), &HashSet::new())
}

struct Declaring<'p> {
    program: &'p mut Program,
    /// The declared names of each block.
    names: Vec<Names>,
}

impl Declaring<'_> {
    /// `given` are variables that the operator exchanges with its block, `own` those that only the block itself
    /// declares: an outer one of the same name is different.
    fn block(
        &mut self,
        number: usize,
        first: usize,
        given: &HashSet<String>,
        own: &HashSet<String>,
    ) -> Result<()> {
        let block = block_mut(self.program, number)?;
        let ops = block.ops.split_off(first.min(block.ops.len()));
        let mut kept = Vec::with_capacity(ops.len());
        for mut op in ops {
            if let Some(inner) = inner(&op) {
                let goes_on = op.reads().filter(|name| op.writes().any(|other| other == *name));
                let own = match op.kind.as_str() {
                    "conditional_block_grad" => op.input("Input"),
                    _ => &[],
                };
                let own = own.iter().map(|name| gradient_of(name)).collect();
                self.block(inner, 0, &goes_on.map(str::to_owned).collect(), &own)?;
            }
            let is_here =
                |name: &str| self.names.get(number).is_some_and(|names| names.contains_key(name));
            let is_known = |name: &str| self.var(number, name).is_some();
            let read = gradient_names(&op.inputs);
            let comes = |name: &String| is_known(name) || given.contains(name);
            if op.writes().all(|name| name == EMPTY) || !read.is_empty() && !read.iter().any(comes)
            {
                continue;
            }
            if op.kind == "sum" {
                for operand in &mut op.inputs {
                    operand.args.retain(|name| is_known(name));
                }
            }
            let new: Vec<String> = op
                .writes()
                .filter(|name| *name != EMPTY)
                .filter(|name| !is_known(name) || own.contains(*name) && !is_here(name))
                .map(str::to_owned)
                .collect();
            for name in new {
                self.add(number, &op, name)?;
            }
            kept.push(op);
        }
        block_mut(self.program, number)?.ops.extend(kept);
        Ok(())
    }

    /// Returns the variable of a name in a block.
    fn var(&self, block: usize, name: &str) -> Option<&Var> {
        declaration(self.program, &self.names, block, name)
    }

    fn add(&mut self, block: usize, op: &Op, name: String) -> Result<()> {
        let of = name.split_once(GRAD).map_or(name.as_str(), |(of, _)| of);
        let mut value = self.var(block, of).map(|var| var.value.clone()).unwrap_or_default();
        let is_some_rows =
            |name: &String| self.var(block, name).is_some_and(|var| var.value.is_selected_rows());
        let row = operator(&op.kind);
        let gives_rows = match row.map(|row| row.computation) {
            Some(Computation::NativeIfSparseGradient) => {
                op.attribute("is_sparse") == Some(&AttributeValue::Bool(true))
            }
            _ => op.kind == "sum" && op.input("X").iter().all(is_some_rows),
        };
        if gives_rows {
            let of = value.tensor_type().cloned().unwrap_or_default();
            value = Holder::SelectedRows(of).into();
        }
        if row.is_some_and(|row| row.lod == LodRule::Computed(Levels::Fixed(0))) {
            value.tensors_mut().into_iter().for_each(|tensor| tensor.lod_level = 0);
        }
        let names = self.names.get_mut(block);
        let names = names.ok_or_else(|| internal("the names of a block are missing"))?;
        if !names.contains_key(&name) {
            let vars = &mut block_mut(self.program, block)?.vars;
            names.insert(name.clone(), vars.len());
            vars.push(Var { name, value, ..Var::default() });
        }
        Ok(())
    }
}

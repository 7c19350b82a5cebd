//! Inlining: functions replace their calls.
//!
//! A call becomes the operators of its function, with the attributes of the call in place of references to them. Values
//! of the main graph and its subgraphs keep their names; those inside a function get new ones at each call.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Block, Function, Op, Program, Residual, Topology};

use super::blocks::{copy, rewritten};
use super::infer::Work;
use super::names::Names;
use super::scopes::Scopes;
use super::{domain_name, formal_inputs, quoted};
use crate::{Code, Finding, Located};

/// Returns the program with all function calls inlined.
///
/// # Errors
/// If a function calls itself or uses an opset in another version than the program, or if inlining all calls exceeds
/// the work limit for the size of the program ([`Code::Limit`]).
pub fn inline(program: &Program) -> Result<Program, Located> {
    if program.functions.is_empty() {
        return Ok(program.clone());
    }
    let mut inliner = Inliner {
        scopes: Scopes::new(program),
        names: Names::of(program, &[]),
        work: Work::of(program),
        calls: 0,
        blocks: Vec::new(),
    };
    let made = inliner.graph().and_then(|()| versions(program));
    // On failure, the open blocks give the place.
    let operator_versions = made.map_err(|finding| finding.at(inliner.scopes.place()))?;
    Ok(Topology { operator_versions, ..rewritten(program, inliner.blocks) }.into())
}

/// Returns the versions of the opsets of a program and its functions.
fn versions(program: &Topology) -> Result<Vec<(String, i64)>, Finding> {
    let mut all = program.operator_versions.clone();
    for function in &program.functions {
        for (domain, version) in &function.operator_versions {
            let same = |(known, _): &&(String, i64)| domain_name(known) == domain_name(domain);
            match all.iter().find(same) {
                None => all.push((domain.clone(), *version)),
                Some((_, other)) if other == version => {}
                Some((_, other)) => {
                    let (function, domain) = (quoted(&function.name), quoted(domain_name(domain)));
                    let wrong = format!(
                        "the function {function} uses {domain} {version}, the program {other}"
                    );
                    return Err(wrong.into());
                }
            }
        }
    }
    Ok(all)
}

struct Inliner<'p> {
    /// The new names of values.
    scopes: Scopes<'p, String>,
    names: Names,
    work: Work,
    /// The number of open blocks that are functions.
    calls: usize,
    /// The blocks of the result.
    blocks: Vec<Block>,
}

impl<'p> Inliner<'p> {
    fn graph(&mut self) -> Result<(), Finding> {
        self.scopes.graph()?;
        self.block(-1).map(|_| ())
    }

    /// Writes the entered block to the result and leaves it; returns its index.
    fn block(&mut self, parent: i32) -> Result<i32, Finding> {
        let made = self.blocks.len();
        let index = i32::try_from(made).map_err(|_| "there are too many blocks")?;
        self.blocks.push(Block::default());
        let block = self.scopes.innermost()?.block;
        let names = block.inputs.iter().map(|name| self.define(name));
        let inputs = names.collect::<Result<_, _>>()?;
        let mut initializers = block.initializers.clone();
        for (made, parameter) in initializers.iter_mut().zip(&block.initializers) {
            // An initializer that is also an input is already defined.
            made.name = match self.scopes.see(&parameter.name) {
                Some(name) if block.inputs.contains(&parameter.name) => name.clone(),
                _ => self.define(&parameter.name)?,
            };
        }
        let mut ops = Vec::new();
        self.ops(index, &HashMap::new(), &mut ops)?;
        let outputs = block.outputs.iter().map(|name| self.lookup(name)).collect();
        self.scopes.leave()?;
        let (name, reserved) = (block.name.clone(), block.reserved.clone());
        let vars = if self.calls == 0 { block.vars.clone() } else { Vec::new() };
        let residual = Residual::default();
        let room = self.blocks.get_mut(made);
        *room.ok_or_else(|| Finding::internal("a block index is out of range"))? = Block {
            index,
            parent,
            name,
            vars,
            ops,
            inputs,
            outputs,
            initializers,
            reserved,
            residual,
        };
        Ok(index)
    }

    /// Appends the operators of the entered block to those of block `made`. `results` holds the values that the
    /// caller names.
    fn ops(
        &mut self,
        made: i32,
        results: &HashMap<&'p str, String>,
        ops: &mut Vec<Op>,
    ) -> Result<(), Finding> {
        let block = self.scopes.innermost()?.block;
        for (number, op) in block.ops.iter().enumerate() {
            self.scopes.reach(number, op)?;
            self.work.apply(op).ok_or_else(too_much)?;
            if let Some(function) = self.scopes.function_of(op) {
                self.call(made, op, function, results, ops)?;
                continue;
            }
            let attributes = self.scopes.innermost()?.resolved(op);
            let mut changed = Op { attributes, residual: Residual::default(), ..op.clone() };
            let args = changed.inputs.iter_mut().flat_map(|operand| &mut operand.args);
            args.for_each(|arg| *arg = self.lookup(arg));
            for attribute in &mut changed.attributes {
                let mut done = Ok(());
                attribute.value.edit_blocks(|block| {
                    if done.is_ok() {
                        done = self.body(*block, made).map(|inlined| *block = inlined);
                    }
                });
                done?;
            }
            for (changed, operand) in changed.outputs.iter_mut().zip(&op.outputs) {
                for (arg, name) in changed.args.iter_mut().zip(&operand.args) {
                    *arg = self.write(name, results)?;
                }
            }
            ops.push(changed);
        }
        Ok(())
    }

    /// Writes a subgraph of the current operator to the result; returns its index.
    fn body(&mut self, block: i32, parent: i32) -> Result<i32, Finding> {
        self.scopes.body(block)?;
        self.work.enter(self.scopes.innermost()?.block).ok_or_else(too_much)?;
        self.block(parent)
    }

    /// Appends the operators of a function in place of its call.
    fn call(
        &mut self,
        made: i32,
        op: &'p Op,
        function: &'p Function,
        results: &HashMap<&'p str, String>,
        ops: &mut Vec<Op>,
    ) -> Result<(), Finding> {
        let given: Vec<String> = op.input("").iter().map(|name| self.lookup(name)).collect();
        let wanted = op.output("").iter().map(|name| self.write(name, results));
        let wanted: Vec<String> = wanted.collect::<Result<_, _>>()?;
        self.scopes.call(op, function)?;
        let block = self.scopes.innermost()?.block;
        self.work.enter(block).ok_or_else(too_much)?;
        let formal = formal_inputs(block, given.len());
        if formal.len() < given.len() || block.outputs.len() < wanted.len() {
            let (inputs, outputs) = (formal.len(), block.outputs.len());
            return Err(format!(
                "expected at most {inputs} inputs and {outputs} outputs, found {} and {}",
                given.len(),
                wanted.len()
            )
            .into());
        }
        let left_out = std::iter::repeat_with(String::new);
        for (name, given) in formal.into_iter().zip(given.into_iter().chain(left_out)) {
            self.scopes.keep(name, given)?;
        }
        self.calls += 1;
        // A function output that one of its operators writes gets the caller's name, the first one.
        let written: HashSet<&str> = block.ops.iter().flat_map(Op::writes).collect();
        let mut named: HashMap<&str, String> = HashMap::new();
        for (name, wanted) in block.outputs.iter().zip(&wanted) {
            if written.contains(name.as_str()) && !wanted.is_empty() {
                named.entry(name).or_insert_with(|| wanted.clone());
            }
        }
        let first = ops.len();
        self.ops(made, &named, ops)?;
        for inlined in ops.iter_mut().skip(first) {
            inlined.sources = op.sources.and(&inlined.sources);
        }
        for (name, wanted) in block.outputs.iter().zip(wanted) {
            let found = self.lookup(name);
            if !wanted.is_empty() && found != wanted {
                ops.push(copy(&found, &wanted));
            }
        }
        self.calls -= 1;
        self.scopes.leave().map(|_| ())
    }

    /// Returns the new name of a value that is read; an undefined name is kept.
    fn lookup(&self, name: &str) -> String {
        self.scopes.see(name).map_or_else(|| name.to_owned(), Clone::clone)
    }

    /// Returns the new name of a value that an operator writes.
    fn write(
        &mut self,
        name: &'p str,
        results: &HashMap<&'p str, String>,
    ) -> Result<String, Finding> {
        match results.get(name) {
            _ if name.is_empty() => Ok(String::new()),
            Some(wanted) => {
                self.scopes.keep(name, wanted.clone())?;
                Ok(wanted.clone())
            }
            None => self.define(name),
        }
    }

    /// Returns the new name of a value: its own name outside of functions.
    fn define(&mut self, name: &'p str) -> Result<String, Finding> {
        let new = match self.calls {
            0 => name.to_owned(),
            _ => self.names.fresh(name),
        };
        self.scopes.keep(name, new.clone())?;
        Ok(new)
    }
}

fn too_much() -> Finding {
    Finding::new(
        Code::Limit,
        "inlining all function calls exceeds the work limit for the size of the program",
    )
}

//! Simplification of ONNX programs: the same results from fewer operators.
//!
//! | removed | by |
//! |---|---|
//! | operators whose inputs are constants; operators that compute shapes that are known | `fold` |
//! | `Identity`; `Cast` to the type that a value has; `Transpose` that keeps the order; pairs of `Transpose` | `alias` |
//! | `If` with a known condition: the branch that it takes replaces it | `hoist` |
//! | operators and constants that no output depends on | `dead` |
//!
//! Inputs and outputs of the main graph keep their names. Functions stay as they are: [`inline`](super::inline) removes
//! them. [`Origins`] has what became of each value.
//!
//! The pass computes nothing itself; the [`Evaluator`] does.

mod alias;
mod dead;
mod fold;
mod hoist;

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::{Block, Op, Parameter, Program, Residual, Tensor, Topology};

use super::blocks::{self, copy};
use super::domain_name;
use super::infer::ValueInfo;
use super::names::Names;
use super::scopes::Scopes;
use crate::{Finding, Located, Origin, Origins};

/// Computes operators on constants.
pub trait Evaluator {
    /// The outputs of an operator; `None` if it cannot be computed or fails. `inputs` are by position, `None` where one
    /// is left out.
    fn evaluate(&self, op: &Op, inputs: &[Option<&Tensor>]) -> Option<Vec<Tensor>>;
}

/// Computes nothing, so that nothing is folded but shapes.
#[derive(Clone, Copy, Debug)]
pub struct NoEvaluator;

impl Evaluator for NoEvaluator {
    fn evaluate(&self, _: &Op, _: &[Option<&Tensor>]) -> Option<Vec<Tensor>> {
        None
    }
}

/// Bounds of the constants that folding makes, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The largest size of one constant.
    pub each: u64,
    /// The largest size of all of them together.
    pub all: u64,
}

/// What is known of the values of a program, by the number of their block and their name.
pub type Infos = Vec<HashMap<String, ValueInfo>>;

/// A simplified program.
#[derive(Clone, Debug)]
pub struct Simplified {
    /// The program. Its main graph has no initializers.
    pub program: Program,
    /// The constants of the main graph: those of the source that are still read, and folded ones.
    pub parameters: Vec<Parameter>,
    /// What is known of its values.
    pub infos: Infos,
    /// What became of the values of the source.
    pub origins: Origins,
    /// The size of folded constants in bytes.
    pub folded: u64,
}

/// Simplifies a program. `parameters` are the constants of its main graph beside the initializers there; `infos` is what
/// inference found of its values, as far as it is known. It has to hold for every run: inputs that a run may replace are
/// no constants there ([`Options::overridable`](super::infer::Options::overridable)).
///
/// # Errors
/// If a subgraph is missing, runs itself, or is nested too deep.
pub fn simplify(
    program: &Program,
    parameters: &[Parameter],
    infos: &[HashMap<String, ValueInfo>],
    evaluator: &dyn Evaluator,
    bounds: Bounds,
) -> Result<Simplified, Located> {
    let mut pass = Pass {
        scopes: Scopes::new(program),
        names: Names::of(program, parameters),
        infos,
        evaluator,
        bounds,
        folded: 0,
        open: Vec::new(),
        blocks: (0..program.blocks.len()).map(|_| None).collect(),
        origins: Origins::default(),
    };
    let done = pass.scopes.graph().and_then(|()| pass.block(parameters));
    done.map_err(|finding| finding.at(pass.scopes.place()))?;
    let Pass { blocks: written, folded, mut origins, .. } = pass;
    let (mut rewritten, mut infos) = (Vec::with_capacity(written.len()), Infos::new());
    for (block, written) in program.blocks.iter().zip(written) {
        let (block, known) = match written {
            Some(written) => written.block(block),
            // Of a function, or of a branch that is never taken.
            None => (block.clone(), HashMap::new()),
        };
        rewritten.push(block);
        infos.push(known);
    }
    let functions = program.functions.clone();
    let mut made = Topology { functions, ..blocks::rewritten(program, rewritten) };
    dead::remove(&mut made, &mut infos, &mut origins);
    let left = blocks::remove_unused(&mut made);
    let infos = left.iter().map(|old| infos.get_mut(*old).map(std::mem::take).unwrap_or_default());
    let infos = infos.collect();
    let main = made.blocks.first_mut();
    let parameters = main.map(|main| std::mem::take(&mut main.initializers)).unwrap_or_default();
    Ok(Simplified { program: made.into(), parameters, infos, origins, folded })
}

/// What a name of the source stands for in the result.
#[derive(Clone, Debug)]
struct Fact<'a> {
    /// The value of the result; empty for an input that is left out.
    name: Arc<str>,
    /// The block of the result, by its number in the source, that has the value.
    owner: usize,
    info: Option<&'a ValueInfo>,
    /// Its elements, if it is a constant.
    constant: Option<Arc<Tensor>>,
    /// The value that it is a transposition of, and the permutation.
    transposed: Option<Arc<(Fact<'a>, Vec<usize>)>>,
}

/// A block of the result.
#[derive(Debug, Default)]
struct Written {
    /// Its number in the source.
    number: usize,
    inputs: Vec<String>,
    outputs: Vec<String>,
    initializers: Vec<Parameter>,
    ops: Vec<Op>,
    infos: HashMap<String, ValueInfo>,
}

impl Written {
    /// The block, in the place of one of the source, and what is known of its values.
    fn block(self, source: &Block) -> (Block, HashMap<String, ValueInfo>) {
        let block = Block {
            index: source.index,
            parent: source.parent,
            name: source.name.clone(),
            vars: source.vars.clone(),
            ops: self.ops,
            inputs: self.inputs,
            outputs: self.outputs,
            initializers: self.initializers,
            reserved: source.reserved.clone(),
            residual: Residual::default(),
        };
        (block, self.infos)
    }
}

struct Pass<'p, 'a> {
    scopes: Scopes<'p, Fact<'a>>,
    names: Names,
    infos: &'a [HashMap<String, ValueInfo>],
    evaluator: &'a dyn Evaluator,
    bounds: Bounds,
    folded: u64,
    /// Blocks of the result that are being written, innermost last.
    open: Vec<Written>,
    /// Those that are done, by their number in the source.
    blocks: Vec<Option<Written>>,
    origins: Origins,
}

impl<'p, 'a> Pass<'p, 'a> {
    /// Simplifies the block that was entered, and leaves it.
    fn block(&mut self, parameters: &'p [Parameter]) -> Result<(), Finding> {
        let scope = self.scopes.innermost()?;
        let (block, number) = (scope.block, scope.number);
        self.open.push(Written { number, ..Written::default() });
        for name in &block.inputs {
            let name = self.define(name, None)?;
            self.written()?.inputs.push(name.to_string());
        }
        self.constants(parameters.iter().chain(&block.initializers), &block.inputs)?;
        for (number, op) in block.ops.iter().enumerate() {
            self.scopes.reach(number, op)?;
            self.op(op)?;
        }
        for name in &block.outputs {
            let output = match self.scopes.see(name) {
                Some(fact) if fact.owner == number => fact.name.to_string(),
                // A block returns what its own operators write.
                Some(fact) => {
                    let (from, to) = (Arc::clone(&fact.name), self.names.fresh(name));
                    self.written()?.ops.push(copy(&from, &to));
                    to
                }
                None => name.clone(),
            };
            self.written()?.outputs.push(output);
        }
        self.scopes.leave()?;
        let done = self.open.pop();
        let room = self.blocks.get_mut(number);
        *room.ok_or_else(|| Finding::internal("a block has no room"))? = done;
        Ok(())
    }

    /// Keeps the constants of the block that was entered. One that is an input, too, may be another one at a run, but in
    /// programs up to IR version 3, where all constants are inputs.
    fn constants(
        &mut self,
        parameters: impl Iterator<Item = &'p Parameter>,
        inputs: &[String],
    ) -> Result<(), Finding> {
        let is_fixed = self.scopes.program().version.is_some_and(|version| version < 4);
        for parameter in parameters {
            let tensor = Arc::new(parameter.tensor.clone());
            let constant = Some(tensor).filter(|_| is_fixed || !inputs.contains(&parameter.name));
            let name = self.define(&parameter.name, constant)?.to_string();
            let tensor = parameter.tensor.clone();
            self.written()?.initializers.push(Parameter { name, tensor });
        }
        Ok(())
    }

    fn op(&mut self, op: &'p Op) -> Result<(), Finding> {
        let facts: Vec<Option<Fact<'a>>> =
            op.input("").iter().map(|name| self.scopes.see(name).cloned()).collect();
        let is_own = domain_name(&op.domain) == "ai.onnx" && self.scopes.function_of(op).is_none();
        let is_done = is_own
            && (self.hoist(op, &facts)? || self.alias(op, &facts)? || self.fold(op, &facts)?);
        if is_done {
            return Ok(());
        }
        let mut changed = Op { residual: Residual::default(), ..op.clone() };
        for arg in changed.inputs.iter_mut().flat_map(|operand| &mut operand.args) {
            if let Some(fact) = self.scopes.see(arg) {
                *arg = fact.name.to_string();
            }
        }
        for body in op.blocks() {
            self.scopes.body(body)?;
            self.block(&[])?;
        }
        for (changed, operand) in changed.outputs.iter_mut().zip(&op.outputs) {
            for (arg, name) in changed.args.iter_mut().zip(&operand.args) {
                if !name.is_empty() {
                    *arg = self.define(name, None)?.to_string();
                }
            }
        }
        if is_own {
            self.transpose(op, &facts, &mut changed)?;
        }
        self.written()?.ops.push(changed);
        Ok(())
    }

    /// The block that is being written.
    fn written(&mut self) -> Result<&mut Written, Finding> {
        self.open.last_mut().ok_or_else(|| Finding::internal("no block is being written"))
    }

    /// Defines a value of the block that was entered; returns its name in the result. Values of a block that replaces
    /// an operator get new names there.
    fn define(
        &mut self,
        name: &'p str,
        constant: Option<Arc<Tensor>>,
    ) -> Result<Arc<str>, Finding> {
        let block = self.scopes.innermost()?.number;
        let owner = self.written()?.number;
        let new: Arc<str> = match block == owner {
            true => Arc::from(name),
            false => Arc::from(self.names.fresh(name)),
        };
        let info = self.infos.get(block).and_then(|infos| infos.get(name));
        if let Some(info) = info {
            self.written()?.infos.insert(new.to_string(), info.clone());
        }
        let fact = Fact { name: Arc::clone(&new), owner, info, constant, transposed: None };
        self.keep(name, fact)?;
        Ok(new)
    }

    /// Makes a name of the block that was entered stand for a value of the result.
    fn keep(&mut self, name: &'p str, fact: Fact<'a>) -> Result<(), Finding> {
        let block = self.scopes.innermost()?.number;
        let origin = Origin::Value(Arc::clone(&fact.name));
        self.origins.insert(block, name, origin);
        self.scopes.keep(name, fact).map(|_| ())
    }

    /// Whether an operator writes an output of the block that is being written, which has to stay.
    fn writes_output(&self, op: &Op) -> Result<bool, Finding> {
        let scope = self.scopes.innermost()?;
        let is_written = self.open.last().is_some_and(|written| written.number == scope.number);
        let is_output = |name: &str| scope.block.outputs.iter().any(|output| output == name);
        Ok(is_written && op.writes().any(is_output))
    }
}

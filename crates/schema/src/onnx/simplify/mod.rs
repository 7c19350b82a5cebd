//! Simplification of ONNX programs: the same results from fewer operators.
//!
//! | removed | by |
//! |---|---|
//! | operators whose inputs are constants; operators that compute shapes that are known | `fold` |
//! | `Identity`; `Cast` to the type that a value has; `Transpose` that keeps the order; pairs of `Transpose` | `alias` |
//! | `If` with a known condition: the branch that it takes replaces it | `hoist` |
//! | operators and constants that no output depends on | `dead` |
//!
//! Inputs and outputs of the main graph keep their names. Functions are not changed: [`inline`](super::inline) removes
//! them. [`Origins`] maps each value of the source.
//!
//! The pass computes nothing itself; the [`Evaluator`] does.

mod alias;
mod dead;
mod fold;
mod hoist;

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::{Block, Op, Parameter, Program, Residual, Sources, Tensor, Topology};

pub use dead::remove_unread;

use super::blocks::{self, copy};
use super::domain_name;
use super::infer::ValueInfo;
use super::names::Names;
use super::scopes::Scopes;
use crate::{Finding, Located, Origin, Origins};

/// Computes operators on constants.
pub trait Evaluator {
    /// Evaluates an operator; `None` if it cannot be computed or fails. `inputs` are by position, `None` where one is
    /// omitted.
    fn evaluate(&self, op: &Op, inputs: &[Option<&Tensor>]) -> Option<Vec<Tensor>>;
}

/// An evaluator that computes nothing, so that only shapes are folded.
#[derive(Clone, Copy, Debug)]
pub struct NoEvaluator;

impl Evaluator for NoEvaluator {
    fn evaluate(&self, _: &Op, _: &[Option<&Tensor>]) -> Option<Vec<Tensor>> {
        None
    }
}

/// Limits of the constants that folding makes, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The maximum size of one constant.
    pub each: u64,
    /// The maximum size of all of them together.
    pub all: u64,
}

/// Inferred values of a program, by the index of their block and by name.
pub type Infos = Vec<HashMap<String, ValueInfo>>;

/// A simplified program.
#[derive(Clone, Debug)]
pub struct Simplified {
    /// The program. Its main graph has no initializers.
    pub program: Program,
    /// The constants of the main graph: those of the source that are still read, and folded ones.
    pub parameters: Vec<Parameter>,
    /// The inferred values of the program.
    pub infos: Infos,
    /// The origins of the values of the source.
    pub origins: Origins,
    /// The total size of folded constants in bytes.
    pub folded: u64,
}

/// Simplifies a program. `parameters` are the constants of its main graph beside the initializers there; `infos` is the
/// result of inference. It must hold for every run: inputs that a run may replace must not be constants there
/// ([`Options::overridable`](super::infer::Options::overridable)).
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
            // A block of a function, or of a branch that is never taken.
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

/// The value in the result that a name of the source is bound to.
#[derive(Clone, Debug)]
struct Fact<'a> {
    /// The name of the value in the result; empty for an omitted input.
    name: Arc<str>,
    /// The block of the result that defines the value, by its index in the source.
    owner: usize,
    info: Option<&'a ValueInfo>,
    /// The tensor, if the value is a constant.
    constant: Option<Arc<Tensor>>,
    /// The value that it is a transposition of, and the permutation.
    transposed: Option<Arc<(Fact<'a>, Vec<usize>)>>,
}

/// A block of the result.
#[derive(Debug, Default)]
struct Written {
    /// Its index in the source.
    number: usize,
    inputs: Vec<String>,
    outputs: Vec<String>,
    initializers: Vec<Parameter>,
    ops: Vec<Op>,
    /// The places in `ops` of the operators that write values.
    writers: HashMap<Arc<str>, usize>,
    infos: HashMap<String, ValueInfo>,
}

impl Written {
    /// Returns the block that replaces one of the source, and its inferred values.
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
    /// Finished blocks, by their index in the source.
    blocks: Vec<Option<Written>>,
    origins: Origins,
}

impl<'p, 'a> Pass<'p, 'a> {
    /// Simplifies the entered block, and leaves it.
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
                // A block returns only values that its own operators write.
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
        *room.ok_or_else(|| Finding::internal("a block index is out of range"))? = done;
        Ok(())
    }

    /// Keeps the constants of the entered block. A run may replace one that is also an input, except in programs up to IR
    /// version 3, where all constants are inputs.
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
        let written = self.written()?;
        let place = written.ops.len();
        written.writers.extend(changed.writes().map(|name| (Arc::from(name), place)));
        written.ops.push(changed);
        Ok(())
    }

    /// Returns the sources of the operator of the block being written that computes a value.
    fn sources_of(&mut self, fact: &Fact<'a>) -> Result<Sources, Finding> {
        let written = self.written()?;
        let writer = written.writers.get(&fact.name).and_then(|place| written.ops.get(*place));
        Ok(writer.map(|op| op.sources.clone()).unwrap_or_default()) // An input, or a constant.
    }

    /// Adds the sources of an operator that is left out to the operator that computes its result.
    fn computes(&mut self, fact: &Fact<'a>, sources: &Sources) -> Result<(), Finding> {
        let written = self.written()?;
        let place = written.writers.get(&fact.name).copied();
        if let Some(op) = place.and_then(|place| written.ops.get_mut(place)) {
            op.sources = op.sources.and(sources);
        }
        Ok(())
    }

    /// The block that is being written.
    fn written(&mut self) -> Result<&mut Written, Finding> {
        self.open.last_mut().ok_or_else(|| Finding::internal("no block is being written"))
    }

    /// Defines a value of the entered block; returns its name in the result. Values of a block that replaces
    /// an operator get fresh names there.
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

    /// Binds a name of the entered block to a value of the result.
    fn keep(&mut self, name: &'p str, fact: Fact<'a>) -> Result<(), Finding> {
        let block = self.scopes.innermost()?.number;
        let origin = Origin::Value(Arc::clone(&fact.name));
        self.origins.insert(block, name, origin);
        self.scopes.keep(name, fact).map(|_| ())
    }

    /// Whether an operator writes an output of the block that is being written, which must be kept.
    fn writes_output(&self, op: &Op) -> Result<bool, Finding> {
        let scope = self.scopes.innermost()?;
        let is_written = self.open.last().is_some_and(|written| written.number == scope.number);
        let is_output = |name: &str| scope.block.outputs.iter().any(|output| output == name);
        Ok(is_written && op.writes().any(is_output))
    }
}

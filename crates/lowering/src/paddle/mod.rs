//! PaddlePaddle's operators as ONNX's.
//!
//! [`lower_op`] says one operator in ONNX's, for inputs of given types. It is asked by who runs a program, who
//! knows all extents, by who builds one, who knows some, and by who exports one; a rule asks only for what it
//! needs. What ONNX has no words for are operators of [`DOMAIN`], which the runtime has and export names.
//!
//! LoD never reaches an operator: a rule of sequences asks for the offsets of a level as an input of its
//! own, and the operator's row in the schema declares what LoD its outputs have.
//!
//! There is a rule for each operator whose row declares one, and no other.
//!
//! Source of truth: the kernels of PaddlePaddle 2.6.2, and results that it gave.

mod activations;
mod arrange;
mod conv;
mod elementwise;
mod gradients;
mod indexing;
mod linear;
mod loss;
mod make;
mod native;
mod normalize;
mod operator;
mod pool;
mod reduce;
mod reshape;
mod vision;

pub use native::native_outputs;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use lodstone_model::{Block, Dialect, Dim, Op, Program, Topology};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::ValueInfo;

pub use crate::onnx::OPSET;

use crate::onnx::Graph;
use operator::{Operator, Rule};

/// The set of operators that ONNX has not.
pub const DOMAIN: &str = "lodstone";

/// Most elements that a result may have: more is what a broken attribute asks for.
const MOST_ELEMENTS: u64 = 1 << 31;

/// Families of rules, each a file.
const FAMILIES: &[&[(&str, Rule)]] = &[
    activations::RULES,
    arrange::RULES,
    conv::RULES,
    elementwise::RULES,
    indexing::RULES,
    linear::RULES,
    loss::RULES,
    make::RULES,
    normalize::RULES,
    pool::RULES,
    reduce::RULES,
    reshape::RULES,
    vision::RULES,
];

static RULES: LazyLock<HashMap<&str, Rule>> = LazyLock::new(|| {
    let all = FAMILIES.iter().chain(gradients::FAMILIES);
    all.flat_map(|family| family.iter().copied()).collect()
});

/// All kinds of operators that can be said in ONNX's, sorted.
pub fn kinds() -> Vec<&'static str> {
    let mut kinds: Vec<&str> = RULES.keys().copied().collect();
    kinds.sort_unstable();
    kinds
}

/// What is known of the variables that an operator reads.
pub trait Given {
    /// The type of a variable; `None` if it has no value. What it contains is not told.
    fn info(&self, variable: &str) -> Option<ValueInfo>;

    /// The integers in a variable, if they are known. What is said then holds for these alone.
    fn contents(&self, variable: &str) -> Option<Vec<i64>>;

    /// The number of offsets in each LoD level of a variable, outermost first; empty if it has no LoD, or none is
    /// known.
    fn offsets(&self, _variable: &str) -> Vec<u64> {
        Vec::new()
    }
}

/// An operator in ONNX's.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// A program of one block. Its inputs are the variables and the [LoD levels](Self::lods) that it reads, its outputs
    /// the values that [`outputs`](Self::outputs) name, each once.
    pub program: Program,
    /// The inputs of the program that are LoD levels of variables.
    pub lods: Vec<LodInput>,
    /// What the operator writes.
    pub outputs: Vec<Output>,
    /// How many bytes all results of the program's operators take, of those whose dims are known.
    pub bytes: u64,
    /// What is known of the values of the program, by name.
    pub infos: HashMap<String, ValueInfo>,
}

/// An input that has the offsets of a LoD level of a variable.
#[derive(Clone, Debug)]
pub struct LodInput {
    /// Its name: `x.lod0`, or with a number behind it where a variable has this name.
    pub name: String,
    /// The variable.
    pub variable: String,
    /// The level, of which 0 is the outermost.
    pub level: usize,
}

/// A variable that an operator writes.
#[derive(Clone, Debug)]
pub struct Output {
    /// The slot that it is in.
    pub slot: String,
    /// The variable.
    pub variable: String,
    /// The value that it becomes: one of an operator, a constant, or a variable that is read.
    pub value: String,
    /// Its type.
    pub info: ValueInfo,
}

/// Says an operator in ONNX's; `given` tells what its inputs are, `release` the version of PaddlePaddle that the
/// program follows (`2006002`), 0 if it is unknown.
///
/// # Errors
/// If there is no such operator, an input is missing, or what it is given contradicts itself.
pub fn lower_op(op: &Op, release: i64, given: &dyn Given) -> Result<Lowered, Finding> {
    let rule = RULES.get(op.kind.as_str()).ok_or("there is no way to compute it yet")?;
    let mut graph = Graph::default();
    op.reads().chain(op.writes()).for_each(|name| graph.names.take(name));
    graph.begin(op.kind.as_str());
    let mut operator = Operator::new(op, release, &mut graph, given);
    rule(&mut operator)?;
    let (outputs, lods) = (operator.outputs, operator.lods);
    outputs.iter().try_for_each(check_size)?;
    let (bytes, mut infos) = (graph.bytes, std::mem::take(&mut graph.infos));
    let program = program(graph, &outputs);
    let read = program.blocks.iter().flat_map(|block| &block.inputs);
    infos.extend(read.filter_map(|name| Some((name.clone(), given.info(name)?))));
    Ok(Lowered { program, lods, outputs, bytes, infos })
}

/// What was emitted as a program: what it reads and does not make comes from outside.
fn program(graph: Graph, outputs: &[Output]) -> Program {
    let made = graph.constants.iter().map(|constant| constant.name.as_str());
    let made: HashSet<&str> = made.chain(graph.ops.iter().flat_map(Op::writes)).collect();
    let results = outputs.iter().map(|output| output.value.as_str());
    let (mut inputs, mut seen) = (Vec::new(), HashSet::new());
    for name in graph.ops.iter().flat_map(Op::reads).chain(results.clone()) {
        if !made.contains(name) && seen.insert(name) {
            inputs.push(name.to_owned());
        }
    }
    seen.clear();
    let results = results.filter(|name| seen.insert(name)).map(str::to_owned).collect();
    let block = Block {
        parent: -1,
        inputs,
        outputs: results,
        ops: graph.ops,
        initializers: graph.constants,
        ..Block::default()
    };
    Program::from(Topology {
        operator_versions: vec![(String::new(), OPSET)],
        blocks: vec![block],
        ..Topology::new(Dialect::Onnx)
    })
}

/// Fails if an output is larger than anything that is meant.
fn check_size(output: &Output) -> Result<(), Finding> {
    let dims = output.info.shape().unwrap_or_default().iter();
    let known = dims.filter_map(|dim| match dim {
        Dim::Known(extent) => Some(*extent),
        _ => None,
    });
    let known: Vec<u64> = known.collect();
    let elements = known.iter().try_fold(1_u64, |all, extent| all.checked_mul(*extent));
    let fits = known.contains(&0) || elements.is_some_and(|elements| elements <= MOST_ELEMENTS);
    match fits {
        true => Ok(()),
        false => Err(format!(
            "`{}`, its `{}`, would have the extents {known:?}",
            output.variable, output.slot
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lodstone_schema::paddle::operators;

    use super::*;

    #[test]
    fn there_is_one_rule_for_each_row_that_declares_one() {
        let families = FAMILIES.iter().chain(gradients::FAMILIES).copied();
        let rules: Vec<&str> = families.flatten().map(|(kind, _)| *kind).collect();
        let declared = operators().filter(|row| row.computation.is_lowered()).map(|row| row.kind);
        let declared: BTreeSet<&str> = declared.collect();
        assert_eq!(rules.iter().copied().collect::<BTreeSet<_>>(), declared);
        assert_eq!(rules.len(), declared.len(), "an operator has two rules");
    }
}

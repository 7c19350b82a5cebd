//! Lowering of PaddlePaddle's operators to ONNX's.
//!
//! [`lower_op`] lowers one operator, for inputs of given types. At run time all dims are known, while building a program
//! only some, so a rule requires only what it needs. Operators without an ONNX equivalent use [`DOMAIN`], which the
//! runtime implements.
//!
//! LoD never reaches an operator: a rule of sequences requests the offsets of a level as an input of its
//! own, and the operator's row in the schema declares the LoD of its outputs.
//!
//! There is a rule for each operator whose row declares one, and no other.
//!
//! Source of truth: the kernels of PaddlePaddle 2.6.2, and results that it gave.

mod activations;
mod arrange;
mod assign;
mod boxes;
mod cells;
mod channels;
mod compare;
mod conv;
mod counting;
mod diagonals;
mod distinct;
mod elementwise;
mod export;
mod functions;
mod gradients;
mod indexing;
mod labels;
mod linear;
mod loss;
mod make;
mod nms;
mod normalize;
mod operator;
mod patches;
mod pool;
mod proposals;
mod quantize;
mod recurrent;
mod reduce;
mod regions;
mod regroup;
mod reshape;
mod scans;
mod select;
mod sequences;
mod types;
mod vision;

pub use export::exported_kinds;
pub(crate) use export::{coverage, covered, to_onnx};
pub use types::output_types;

use std::collections::{HashMap, HashSet};

use lodstone_model::{Block, Dialect, Dim, Op, Program, Tensor, Topology};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{Release, check_attributes};

pub use crate::onnx::OPSET;

use crate::frame::guarded;
use crate::onnx::Graph;
use crate::rules::{Family, RuleName, Rules, families};
use operator::{Operator, Rule};

/// The domain of operators that ONNX does not have.
pub const DOMAIN: &str = "lodstone";

/// The maximum number of elements of a result: only broken attributes lead to more.
const MAX_ELEMENTS: u64 = 1 << 31;

/// Families of rules, each a file.
const FAMILIES: &[Family<Rule>] = families![
    activations,
    arrange,
    assign,
    boxes,
    cells,
    channels,
    compare,
    conv,
    counting,
    diagonals,
    distinct,
    elementwise,
    functions,
    indexing,
    labels,
    linear,
    loss,
    make,
    nms,
    normalize,
    patches,
    pool,
    proposals,
    quantize,
    recurrent,
    reduce,
    regions,
    regroup,
    reshape,
    scans,
    select,
    sequences,
    vision
];

static RULES: Rules<Rule> = Rules::new(&[FAMILIES, gradients::FAMILIES]);

/// Returns the names of all rules.
pub(crate) fn names() -> Vec<RuleName> {
    RULES.names().collect()
}

/// Returns the name of the rule of an operator.
pub(crate) fn name(op: &Op) -> Option<RuleName> {
    RULES.name(&op.kind)
}

/// Known facts about the variables that an operator reads.
pub trait VariableFacts {
    /// Returns the type of a variable, without contents; `None` if it has no value.
    fn info(&self, variable: &str) -> Option<ValueInfo>;

    /// Returns the integers in a variable, if they are known. The lowered operator is then valid for these only.
    fn contents(&self, variable: &str) -> Option<Vec<i64>>;

    /// Returns the tensor that a variable holds in each run, if it is a parameter of an exported program.
    fn parameter(&self, _variable: &str) -> Option<&Tensor> {
        None
    }

    /// Returns the LoD levels of a variable, outermost first; empty if it has no LoD, or it is unknown.
    fn lod(&self, _variable: &str) -> Vec<LodLevel> {
        Vec::new()
    }

    /// Returns the name of the value that a variable holds: its own, unless the program assigns each value once.
    fn value_of(&self, variable: &str) -> String {
        variable.to_owned()
    }
}

/// A LoD level of a variable.
#[derive(Clone, Debug, PartialEq)]
pub struct LodLevel {
    /// The value with the offsets; `None` if the lowered operator takes them as an input of its own.
    pub value: Option<String>,
    /// The number of offsets.
    pub count: Dim,
}

/// An operator, lowered to ONNX's.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// A program of one block. Its inputs are the variables and the [LoD levels](Self::lods) that it reads, its outputs
    /// the values that [`outputs`](Self::outputs) name and their LoD, each once.
    pub program: Program,
    /// The inputs of the program that are LoD levels of variables.
    pub lods: Vec<LodInput>,
    /// The variables that the operator writes.
    pub outputs: Vec<Output>,
    /// The size of all results of the program's operators with known dims, in bytes.
    pub bytes: u64,
    /// The inferred types of the values of the program, by name.
    pub infos: HashMap<String, ValueInfo>,
}

/// An input with the offsets of a LoD level of a variable.
#[derive(Clone, Debug)]
pub struct LodInput {
    /// The name of the input: `x.lod0`, with a number appended if a variable has this name.
    pub name: String,
    /// The variable with the LoD.
    pub variable: String,
    /// The level; 0 is the outermost.
    pub level: usize,
}

/// A variable that an operator writes.
#[derive(Clone, Debug)]
pub struct Output {
    /// The output slot.
    pub slot: String,
    /// The variable.
    pub variable: String,
    /// The value of the program that it gets: an operator's result, a constant, or an input variable.
    pub value: String,
    /// The type of the value.
    pub info: ValueInfo,
    /// Its LoD, outermost level first, if the operator computes it.
    pub lod: Option<Vec<LodLevel>>,
}

impl Output {
    /// Returns the values of the program with the offsets of each LoD level, outermost first, if the operator computes
    /// them.
    pub fn offsets(&self) -> Option<Vec<&str>> {
        self.lod.as_ref()?.iter().map(|level| level.value.as_deref()).collect()
    }
}

/// Lowers an operator to ONNX's. `given` has the types of its inputs, `release` is the release of PaddlePaddle that the
/// program follows.
///
/// # Errors
/// If the operator is not supported, an input is missing, or the operator contradicts itself. A panic of its rule, such as
/// that of arithmetic that overflows, is an internal error.
pub fn lower_op(op: &Op, release: Release, given: &dyn VariableFacts) -> Result<Lowered, Finding> {
    let rule = RULES.get(&op.kind).ok_or("the operator is not supported")?;
    check_attributes(op)?;
    let mut graph = Graph::default();
    op.reads().chain(op.writes()).for_each(|name| graph.names.take(name));
    graph.begin(op.kind.as_str());
    let mut operator = Operator::new(op, release, &mut graph, given);
    guarded(|| rule(&mut operator))?;
    let (outputs, lods) = (operator.outputs, operator.lods);
    outputs.iter().try_for_each(check_size)?;
    let (bytes, mut infos) = (graph.bytes, std::mem::take(&mut graph.infos));
    let program = program(graph, &outputs);
    let read = program.blocks.iter().flat_map(|block| &block.inputs);
    infos.extend(read.filter_map(|name| Some((name.clone(), given.info(name)?))));
    Ok(Lowered { program, lods, outputs, bytes, infos })
}

/// Returns the emitted operators as a program: values that are read but not computed become inputs.
fn program(graph: Graph, outputs: &[Output]) -> Program {
    let made = graph.constants.iter().map(|constant| constant.name.as_str());
    let made: HashSet<&str> = made.chain(graph.ops.iter().flat_map(Op::writes)).collect();
    let results = outputs.iter().flat_map(|output| {
        let offsets = output.offsets().unwrap_or_default();
        std::iter::once(output.value.as_str()).chain(offsets)
    });
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

/// Fails if an output is unreasonably large.
fn check_size(output: &Output) -> Result<(), Finding> {
    let dims = output.info.shape().unwrap_or_default().iter();
    let known = dims.filter_map(|dim| match dim {
        Dim::Known(size) => Some(*size),
        _ => None,
    });
    let known: Vec<u64> = known.collect();
    let elements = known.iter().try_fold(1_u64, |all, size| all.checked_mul(*size));
    let fits = known.contains(&0) || elements.is_some_and(|elements| elements <= MAX_ELEMENTS);
    match fits {
        true => Ok(()),
        false => Err(format!(
            "`{}`, its `{}`, would have the dims {known:?}",
            output.variable, output.slot
        )
        .into()),
    }
}

//! Caffe2's conventions and operators.
//!
//! - Blobs have names and no declared types. A net reads its external inputs: those that the startup program (the
//!   `init_net`) fills are parameters, the others are fed.
//! - A blob may be written several times, also in place.
//!
//! Source of truth: the registry of Caffe2 in PyTorch 1.9.1, and the operators that only Glow's loader has.

mod arguments;

pub use arguments::{check_arguments, closed_arguments, is_argument};

use std::collections::HashSet;
use std::sync::LazyLock;

use lodstone_model::{Model, Op, Program, Programs};

use crate::onnx::place_of;
use crate::prune::{names, pruned, select_listed};
use crate::training::{Row, training};
use crate::{Conventions, Findings, Interface, Properties, Risk, Unprunable, conventions};

/// Caffe2's conventions.
pub static CONVENTIONS: Conventions = Conventions {
    is_ssa: false,
    is_semantic: |_| true,
    framework: "Caffe2 (PyTorch 1.9.1)",
    has_opsets: false,
    version: |version| version.to_string(),
    interface,
    select,
    sharing: None,
    training: |op| training(TRAINING, &op.kind, op),
    scope,
    unknown_operators: |program| conventions::unknown_operators(program, |_, kind| is_known(kind)),
    runtime_domains: &[],
    check: |model, _| check(model),
    infer: |_| None,
    risk,
    variable_of: |parameter| parameter,
    flags: |_| &[],
    var_properties: |_| Properties::default(),
    tensor_properties: |_| Properties::default(),
    parameters: |program| {
        let main = program.blocks.iter().take(1);
        let vars = main.flat_map(|main| &main.vars).filter(|var| var.persistable);
        vars.map(|var| var.name.clone()).collect()
    },
    embedded: |_| Vec::new(),
    source: None,
    is_implied: |_, _, _| false,
    notes: |_| Vec::new(),
    unused_values: |_| Vec::new(),
};

/// Checks the arguments of all operators.
fn check(model: &Model) -> Findings {
    let mut findings = Findings::default();
    for (name, program) in model.programs.iter() {
        let graph =
            if name == lodstone_model::Programs::STARTUP { "the startup net" } else { "the graph" };
        for (index, op) in program.ops().enumerate() {
            if let Err(finding) = check_arguments(op) {
                findings.add(place_of(graph, index, op), finding);
            }
        }
    }
    findings
}

/// What operators record for training. The momentum of statistics is what they keep.
///
/// Source of truth: `spatial_batch_norm_op.h`, `dropout_op.h` of PyTorch 1.9.1.
const TRAINING: &[Row] = &[
    Row {
        kinds: &["SpatialBN"],
        momentum: Some(("momentum", 0.9)),
        epsilon: Some(("epsilon", 1e-5)),
        is_test: Some(("is_test", false, false)),
        ..Row::NONE
    },
    Row {
        kinds: &["GroupNorm", "InstanceNorm", "LayerNorm"],
        epsilon: Some(("epsilon", 1e-5)),
        ..Row::NONE
    },
    Row {
        kinds: &["Dropout"],
        dropout: Some(("ratio", 0.5)),
        is_test: Some(("is_test", false, false)),
        ..Row::NONE
    },
];

/// Returns the name scope of an operator, which its results have as a prefix: `gpu_0/`.
fn scope(op: &Op) -> String {
    let first = op.writes().next().and_then(|name| name.rsplit_once('/'));
    first.map_or_else(String::new, |(scope, _)| format!("{scope}/"))
}

/// Returns the inputs that are fed, and the external outputs.
fn interface(program: &Program) -> Interface<'_> {
    let Some(main) = program.blocks.first() else { return Interface::default() };
    let fed = main.vars.iter().filter(|var| !var.persistable);
    Interface {
        inputs: fed.map(|var| var.name.as_str()).collect(),
        outputs: main.outputs.iter().map(String::as_str).collect(),
    }
}

/// Makes blobs the external outputs. The startup net fills only the blobs that are left.
fn select(model: &mut Model, outputs: &[&str]) -> Result<(), Unprunable> {
    select_listed(model, outputs)?;
    let read: HashSet<&str> =
        model.main().into_iter().flat_map(names).chain(outputs.iter().copied()).collect();
    let startup = model.programs.get(Programs::STARTUP);
    if let Some(mut startup) = startup.map(|startup| pruned(startup, read.iter().copied())) {
        if let Some(block) = startup.blocks.first_mut() {
            block.outputs.retain(|name| read.contains(name.as_str()));
        }
        model.programs.insert(Programs::STARTUP, startup);
    }
    Ok(())
}

/// Operators that Caffe2 does not register: Glow's loader has them, or the library of Detectron.
const LOADED: &[&str] = &[
    "BatchSparseToDense",
    "ConvRelu",
    "EmbeddingBag",
    "Embedding",
    "FbFCPacked",
    "GatherND",
    "GivenTensorFp16Fill",
    "Identity",
    "Int8MaxPool",
    "Neg",
    "RMSNorm",
    "ReduceProd",
    "UpsampleNearest",
    "Xor",
];

/// Whether an operator exists.
pub fn is_known(kind: &str) -> bool {
    static KNOWN: LazyLock<HashSet<&str>> =
        LazyLock::new(|| include_str!("../data/caffe2_operators.txt").lines().collect());
    KNOWN.contains(kind) || LOADED.contains(&kind)
}

/// Operators with side effects.
const RISKS: &[(Risk, &[&str])] = &[
    (Risk::Runs, &["Python", "PythonDLPack", "PythonGradient", "PythonDLPackGradient", "ATen"]),
    (
        Risk::Reads,
        &[
            "Load",
            "DBExists",
            "CreateDB",
            "ImageInput",
            "VideoInput",
            "TensorProtosDBInput",
            "TextFileReaderRead",
            "CreateTextFileReader",
        ],
    ),
    (Risk::Writes, &["Save", "Snapshot", "Checkpoint", "Print", "PrintInt8"]),
    (
        Risk::Connects,
        &[
            "CreateCommonWorld",
            "FileStoreHandlerCreate",
            "RedisStoreHandlerCreate",
            "StoreSet",
            "StoreGet",
        ],
    ),
];

fn risk(kind: &str) -> Option<Risk> {
    RISKS.iter().find(|(_, kinds)| kinds.contains(&kind)).map(|(risk, _)| *risk)
}

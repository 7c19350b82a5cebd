//! MXNet's conventions and operators.
//!
//! - A variable is a node without an operator. The program does not declare whether it is data, a parameter or an
//!   auxiliary state (which operators change, such as running statistics): it is a parameter or an auxiliary state if
//!   the parameter file has it.
//! - Labels are inputs that only the loss at the end of a program reads; inference needs none.
//! - `Custom` operators are Python code of the model's author.
//!
//! Source of truth: the registries of 0.9.5, 0.11.0, 1.5.1, 1.9.1 and 2.0.0b1.

mod attributes;
mod check;
mod pickled;
mod risk;

pub use attributes::{Attributes, Values, attributes, check_attributes};
pub use check::check_variable;
pub use pickled::{Pickled, pickled};

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use lodstone_model::{AttributeValue, Block, DType, Op, Program, Var, some};

use crate::training::{Row, training};
use crate::{Conventions, Interface, Properties, conventions, prune};

/// MXNet's conventions.
pub static CONVENTIONS: Conventions = Conventions {
    is_ssa: true,
    is_semantic: |_| true,
    framework: "MXNet 0.9.5, 0.11.0, 1.5.1, 1.9.1 and 2.0.0b1",
    has_opsets: false,
    version,
    interface,
    select: prune::select_listed,
    sharing: None,
    training: |op| training(TRAINING, &op.kind, op),
    scope: |_| String::new(),
    unknown_operators,
    runtime_domains: &[],
    check: |model, _| check::check(model),
    infer: |_| None,
    risk: risk::risk,
    variable_of,
    flags: |_| &[],
    var_properties,
    tensor_properties: |_| Properties::default(),
    // Programs do not distinguish parameters from inputs.
    parameters: |_| Vec::new(),
    embedded: |_| Vec::new(),
    source: None,
    is_implied: |_, _, _| false,
    notes,
    unused_values: check::unused_values,
};

/// An operator in MXNet's registries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The operator that this name is an alias of.
    pub alias_of: Option<&'static str>,
    /// The releases that have it.
    pub releases: Vec<&'static str>,
    /// The names of its inputs, in order; `name*` stands for any number.
    pub inputs: Vec<&'static str>,
    /// The inputs that it changes.
    pub auxiliary: Vec<&'static str>,
    /// The names of its outputs, if they have any.
    pub outputs: Vec<&'static str>,
    /// Whether the first of several outputs is called `output` and the others are hidden.
    pub one_visible: bool,
}

/// Returns the operator `name`; `None` if no release has it.
pub fn operator(name: &str) -> Option<&'static Operator> {
    static OPERATORS: LazyLock<HashMap<&str, Operator>> =
        LazyLock::new(|| include_str!("../data/mxnet_operators.tsv").lines().map(parse).collect());
    OPERATORS.get(name)
}

fn parse(line: &'static str) -> (&'static str, Operator) {
    let mut columns = line.split('\t');
    let name = columns.next().unwrap_or_default();
    let alias_of = columns.next().filter(|alias| !alias.is_empty());
    let mut words =
        || columns.next().unwrap_or_default().split_whitespace().collect::<Vec<&'static str>>();
    let (releases, inputs, auxiliary, mut outputs) = (words(), words(), words(), words());
    let one_visible = outputs == ["1"];
    if one_visible {
        outputs.clear();
    }
    (name, Operator { alias_of, releases, inputs, auxiliary, outputs, one_visible })
}

/// Returns the name of an operator with aliases resolved.
pub fn real_name(name: &str) -> &str {
    operator(name).and_then(|operator| operator.alias_of).unwrap_or(name)
}

/// Returns the suffix that MXNet appends to the name of a node of `kind` for its output `index` of `count`.
pub fn output_suffix(kind: &str, index: usize, count: usize) -> String {
    /// Second outputs that an attribute makes visible.
    const SCORED: [&str; 2] = ["_contrib_MultiProposal", "_contrib_Proposal"];
    let known = operator(kind);
    if SCORED.contains(&real_name(kind)) && index == 1 {
        return "score".to_owned();
    }
    if let Some(name) = known.and_then(|known| known.outputs.get(index)) {
        return (*name).to_owned();
    }
    let plain = (count == 1 && real_name(kind) != "SliceChannel")
        || known.is_some_and(|known| known.one_visible);
    if plain && index == 0 { "output".to_owned() } else { format!("output{index}") }
}

/// Returns the slot of input `index` of an operator.
fn slot(op: &Op, index: usize) -> Option<&'static str> {
    let operator = operator(&op.kind)?;
    // Without a bias, the inputs after it move up. No slot that is distinguished here comes after it.
    operator.inputs.get(index).copied()
}

/// Whether an operator changes its input `index`.
pub fn is_auxiliary(op: &Op, index: usize) -> bool {
    let Some(operator) = operator(&op.kind) else { return false };
    slot(op, index).is_some_and(|slot| operator.auxiliary.contains(&slot))
}

/// Returns the variable whose value a parameter is: files call it `arg:NAME` or `aux:NAME`.
pub fn variable_of(parameter: &str) -> &str {
    let tagged = parameter.strip_prefix("arg:").or_else(|| parameter.strip_prefix("aux:"));
    tagged.unwrap_or(parameter)
}

/// Element types by MXNet's type flags. Releases before 2.0 have 0 to 7 and 12.
const TYPES: [DType; 13] = [
    DType::Float32,
    DType::Float64,
    DType::Float16,
    DType::Uint8,
    DType::Int32,
    DType::Int8,
    DType::Int64,
    DType::Bool,
    DType::Int16,
    DType::Uint16,
    DType::Uint32,
    DType::Uint64,
    DType::BFloat16,
];

/// Returns the element type of an MXNet type flag.
pub fn dtype_of(flag: i32) -> Option<DType> {
    TYPES.get(usize::try_from(flag).ok()?).copied()
}

/// Returns the MXNet type flag of an element type.
pub fn type_flag(dtype: DType) -> Option<i32> {
    let index = TYPES.iter().position(|known| *known == dtype)?;
    i32::try_from(index).ok()
}

/// Formats a version: `10901` is 1.9.1.
fn version(version: i64) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

/// What operators record for training. The momentum of statistics is what they keep.
///
/// Source of truth: `batch_norm-inl.h`, `dropout-inl.h`, `layer_norm-inl.h`, `instance_norm-inl.h` of MXNet 1.9.1.
const TRAINING: &[Row] = &[
    Row {
        kinds: &["BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm"],
        momentum: Some(("momentum", 0.9)),
        epsilon: Some(("eps", 1e-3)),
        is_test: Some(("use_global_stats", false, false)),
        ..Row::NONE
    },
    Row { kinds: &["InstanceNorm"], epsilon: Some(("eps", 1e-3)), ..Row::NONE },
    Row { kinds: &["GroupNorm", "LayerNorm"], epsilon: Some(("eps", 1e-5)), ..Row::NONE },
    Row {
        kinds: &["Dropout"],
        dropout: Some(("p", 0.5)),
        mode: Some(("mode", "training")),
        ..Row::NONE
    },
];

/// Returns the interface of a program. Its inputs are the variables that are neither parameters nor labels, in order.
pub fn interface(program: &Program) -> Interface<'_> {
    let Some(block) = program.blocks.first() else { return Interface::default() };
    let labels = labels(block);
    let fed = block.vars.iter().filter(|var| !var.persistable);
    let inputs = fed.map(|var| var.name.as_str()).filter(|name| !labels.contains(name)).collect();
    Interface { inputs, outputs: block.outputs.iter().map(String::as_str).collect() }
}

/// Returns the labels: variables that only losses read, as their label input.
fn labels(block: &Block) -> HashSet<&str> {
    let (mut labels, mut others) = (HashSet::new(), HashSet::new());
    for op in &block.ops {
        let has_label = real_name(&op.kind).ends_with("Output");
        for (index, name) in op.input("").iter().enumerate() {
            let is_label = has_label && slot(op, index) == Some("label");
            if is_label {
                labels.insert(name.as_str())
            } else {
                others.insert(name.as_str())
            };
        }
    }
    labels.retain(|name| !others.contains(name));
    labels
}

/// Returns the variables of the first block that look like parameters, judged by the operators that read them, their
/// attributes and their names.
pub fn likely_parameters(program: &Program) -> HashSet<String> {
    /// Inputs of operators that are learned, or estimated once.
    const SLOTS: [&str; 9] = [
        "weight",
        "bias",
        "gamma",
        "beta",
        "parameters",
        "min_weight",
        "max_weight",
        "min_bias",
        "max_bias",
    ];
    /// Attributes that configure how a parameter is trained. Before 0.9, groups of nodes had them, inputs included.
    const MULTIPLIERS: [&str; 2] = ["__lr_mult__", "__wd_mult__"];
    const ENDINGS: [&str; 8] = [
        "_weight",
        "_bias",
        "_gamma",
        "_beta",
        "_moving_mean",
        "_moving_var",
        "_running_mean",
        "_running_var",
    ];
    let Some(block) = program.blocks.first() else { return HashSet::new() };
    let mut fed = HashSet::new();
    for op in &block.ops {
        let is_data = |(index, _): &(usize, &String)| slot(op, *index) == Some("data");
        fed.extend(op.input("").iter().enumerate().filter(is_data).map(|(_, name)| name.as_str()));
    }
    let told = |var: &&Var| {
        let has = |names: &[&str]| var.attributes.iter().any(|a| names.contains(&a.name.as_str()));
        has(&["__init__"])
            || (has(&MULTIPLIERS) && !fed.contains(var.name.as_str()))
            || ENDINGS.iter().any(|ending| var.name.ends_with(ending))
    };
    let vars: HashSet<&str> = block.vars.iter().map(|var| var.name.as_str()).collect();
    let mut likely: HashSet<String> =
        block.vars.iter().filter(told).map(|var| var.name.clone()).collect();
    for op in &block.ops {
        for (index, name) in op.input("").iter().enumerate() {
            let by_slot = slot(op, index).is_some_and(|slot| SLOTS.contains(&slot));
            if vars.contains(name.as_str()) && (by_slot || is_auxiliary(op, index)) {
                likely.insert(name.clone());
            }
        }
    }
    likely
}

/// Returns the order of dims that a variable declares for the data that is fed.
fn var_properties(var: &Var) -> Properties {
    let layout = var.attributes.iter().find(|attribute| attribute.name == "__layout__");
    let layout = match layout.map(|layout| &layout.value) {
        Some(AttributeValue::String(text)) => Some(text.to_string()),
        _ => None,
    };
    Properties { layout, ..Properties::default() }
}

/// Returns the operators that no release of MXNet has, sorted and without duplicates.
pub fn unknown_operators(program: &Program) -> Vec<(&str, &str)> {
    conventions::unknown_operators(program, |_, kind| operator(kind).is_some())
}

fn notes(program: &Program) -> Vec<String> {
    /// The newest known release, 2.0.
    const NEWEST: i64 = 29_999;
    let mut notes = Vec::new();
    let custom = program.ops().filter(|op| op.kind == "Custom");
    let mut classes: Vec<String> = custom
        .map(|op| match op.attribute("op_type") {
            Some(AttributeValue::String(class)) => format!("`{class}`"),
            _ => format!("of the operator `{}`", op.name),
        })
        .collect();
    classes.sort_unstable();
    classes.dedup();
    if !classes.is_empty() {
        let classes = some(classes);
        notes.push(format!("operators implemented in Python code outside the model: {classes}"));
    }
    if let Some(newer) = program.version.filter(|version| *version > NEWEST) {
        notes.push(format!(
            "the program is of MXNet {}, which is newer than any known release",
            version(newer)
        ));
    }
    notes
}

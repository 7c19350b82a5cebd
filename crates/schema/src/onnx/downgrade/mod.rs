//! Downgrades of models to an older opset.
//!
//! An operator of the newest opset stays as it is where an older opset has it with the same meaning
//! ([`lowest_opset`]). Otherwise an adapter writes it with operators that the older opset has: inputs become attributes
//! (`inputs.rs`), a function is replaced by its definition (`compose.rs`). What has neither is refused, with the lowest
//! opset that it needs.
//!
//! Source of truth: the changelog of onnx 1.23.2.

mod compose;
mod inputs;
mod rewrite;

use std::collections::{HashMap, HashSet};
use std::fmt;

use lodstone_model::{
    Attribute, AttributeValue, Block, Dialect, Model, Op, Parameter, Program, ValueType,
};

use self::rewrite::{Rewrite, Step};
use super::bound::returns;
use super::infer::{Inference, ValueInfo};
use super::names::Names;
use super::{
    NEWEST_OPSET, admits, domain_name, ir_version_of_opset, lowest_opset, operator, place_of,
    quoted,
};
use crate::{Code, Finding, Findings};

/// The oldest opset that a downgrade can reach. Operators of older ones differ in many ways, and no runtime needs them.
pub const OLDEST_OPSET: i64 = 11;

/// The opset to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This version.
    Exactly(i64),
    /// The lowest version from this one on that has all operators.
    From(i64),
}

/// Why a model cannot be downgraded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DowngradeError {
    /// The model has no ONNX program of the newest opset.
    NoOperators,
    /// The target version cannot be written.
    Unknown {
        /// The requested version.
        requested: i64,
    },
    /// The program defines functions, which have opsets of their own.
    Functions,
    /// Some operators need a newer version. The messages name the lowest one.
    Operators {
        /// The requested version.
        target: i64,
        /// The operators.
        findings: Findings,
    },
}

impl fmt::Display for DowngradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOperators => f.write_str("the model has no program with ONNX operators"),
            Self::Unknown { requested } => write!(
                f,
                "opset version {requested} cannot be written, only {OLDEST_OPSET} to {NEWEST_OPSET}"
            ),
            Self::Functions => f.write_str(
                "a program that defines functions cannot be written with an older opset",
            ),
            Self::Operators { target, findings } => {
                let count = findings.count();
                let need = if count == 1 { "operator needs" } else { "operators need" };
                write!(f, "{count} {need} a newer opset than {target}")?;
                findings.located.iter().try_for_each(|finding| write!(f, "; {finding}"))
            }
        }
    }
}

impl std::error::Error for DowngradeError {}

/// Writes operators with older ones; fails if they do not suffice.
type Adapter = fn(&mut Rewrite<'_>, &Op) -> Result<(), Finding>;

fn adapter(kind: &str) -> Option<Adapter> {
    let mut all = inputs::ADAPTERS.iter().chain(compose::ADAPTERS);
    all.find(|(name, _)| *name == kind).map(|(_, adapter)| *adapter)
}

/// Downgrades a model of the newest opset, including subgraphs; `inference` holds its inferred values. Returns the opset
/// version that was reached. Attributes that equal the default of their operator are removed.
///
/// # Errors
/// If operators need a newer version, all of which are reported. The model is then unchanged.
pub fn downgrade(
    model: &mut Model,
    inference: &Inference,
    target: Target,
) -> Result<i64, DowngradeError> {
    let program = model.main().filter(|program| program.dialect == Dialect::Onnx);
    let program = program.ok_or(DowngradeError::NoOperators)?;
    let is_own = |(domain, _): &&(String, i64)| domain_name(domain) == "ai.onnx";
    let version = program.operator_versions.iter().find(is_own).map(|(_, version)| *version);
    if version != Some(NEWEST_OPSET) {
        return Err(DowngradeError::NoOperators);
    }
    if !program.functions.is_empty() {
        return Err(DowngradeError::Functions);
    }
    let (mut opset, exact) = match target {
        Target::Exactly(version) => (version, true),
        Target::From(version) => (version, false),
    };
    if !(OLDEST_OPSET..=NEWEST_OPSET).contains(&opset) {
        return Err(DowngradeError::Unknown { requested: opset });
    }
    loop {
        let pass = Pass::new(model, program, inference, opset);
        match pass.run() {
            Ok((mut changed, parameters)) => {
                declare(&mut changed, opset);
                // Constants that only became attributes are removed.
                let (before, after) = (read(program), read(&changed));
                let is_kept =
                    |it: &Parameter| after.contains(&it.name) || !before.contains(&it.name);
                let is_read = |it: &Parameter| after.contains(&it.name);
                model.parameters.retain(is_kept);
                model.parameters.extend(parameters.into_iter().filter(is_read));
                model.set_main(changed);
                return Ok(opset);
            }
            Err(refused) => {
                let needed = refused.iter().map(|(_, _, needed)| *needed).max();
                match needed.filter(|needed| !exact && (opset + 1..=NEWEST_OPSET).contains(needed))
                {
                    Some(needed) => opset = needed,
                    None => {
                        let mut findings = Findings::default();
                        for (place, finding, _) in refused {
                            findings.add(place, finding);
                        }
                        return Err(DowngradeError::Operators { target: opset, findings });
                    }
                }
            }
        }
    }
}

/// Returns the lowest opset version with which an operator of the newest opset can be written, given what is inferred
/// about its inputs.
pub fn minimum_opset(op: &Op, inputs: &[Option<&ValueInfo>]) -> i64 {
    let names = op.input("").iter().zip(inputs);
    let infos: HashMap<String, ValueInfo> =
        names.filter_map(|(name, info)| Some((name.clone(), (*info)?.clone()))).collect();
    let is_written = |opset: &i64| is_written(op, *opset, 0, &[-1], std::slice::from_ref(&infos));
    (OLDEST_OPSET..NEWEST_OPSET).find(is_written).unwrap_or(NEWEST_OPSET)
}

/// Whether an operator of a block can be written with an opset.
fn is_written(
    op: &Op,
    opset: i64,
    block: usize,
    parents: &[i32],
    blocks: &[HashMap<String, ValueInfo>],
) -> bool {
    let (mut names, mut parameters) = (Names::default(), Vec::new());
    let mut rewrite = Rewrite::new(opset, block, parents, blocks, &mut names, &mut parameters);
    written(&mut rewrite, op.clone()).is_ok()
}

/// Returns the names of all values that are read or returned, or that a run may replace.
fn read(program: &Program) -> HashSet<String> {
    let ends = program.blocks.iter().flat_map(|block| block.inputs.iter().chain(&block.outputs));
    program.ops().flat_map(Op::reads).chain(ends.map(String::as_str)).map(str::to_owned).collect()
}

/// Removes attributes that equal the default.
fn strip_defaults(op: &mut Op) {
    let kept = op.clone();
    op.attributes
        .retain(|attribute| !is_default_of(&kept, attribute) && !is_plain_window(&kept, attribute));
}

/// Whether an attribute of a window is its default, which depends on the number of dims: no padding, strides and
/// dilations of 1.
fn is_plain_window(op: &Op, attribute: &Attribute) -> bool {
    const WINDOWS: [&str; 5] = ["AveragePool", "Conv", "ConvTranspose", "LpPool", "MaxPool"];
    let AttributeValue::Longs(values) = &attribute.value else { return false };
    let plain = match attribute.name.as_str() {
        "strides" | "dilations" => 1,
        "pads" | "output_padding" => 0,
        _ => return false,
    };
    WINDOWS.contains(&op.kind.as_str()) && values.iter().all(|value| *value == plain)
}

fn is_default_of(op: &Op, attribute: &Attribute) -> bool {
    let known = operator(&op.domain, &op.kind, NEWEST_OPSET);
    let parameter = known.and_then(|known| known.attribute(&attribute.name));
    parameter.is_some_and(|parameter| parameter.default.as_ref() == Some(&attribute.value))
}

/// Declares the opset version of a program, and the IR version that belongs to it.
fn declare(program: &mut Program, opset: i64) {
    for (domain, version) in &mut program.operator_versions {
        if domain_name(domain) == "ai.onnx" {
            *version = opset;
        }
    }
    program.version = ir_version_of_opset("", opset).or(program.version);
}

/// One attempt to write a program with an opset.
struct Pass<'a> {
    program: &'a Program,
    opset: i64,
    parents: Vec<i32>,
    blocks: &'a [HashMap<String, ValueInfo>],
    names: Names,
    parameters: Vec<Parameter>,
    /// The operators that cannot be written: their place, the reason, and the opset that they need.
    refused: Vec<(String, Finding, i64)>,
}

impl<'a> Pass<'a> {
    fn new(model: &Model, program: &'a Program, inference: &'a Inference, opset: i64) -> Self {
        Self {
            program,
            opset,
            parents: program.blocks.iter().map(|block| block.parent).collect(),
            blocks: &inference.blocks,
            names: Names::of(program, &model.parameters),
            parameters: Vec::new(),
            refused: Vec::new(),
        }
    }

    #[expect(clippy::type_complexity, reason = "the program and its new parameters")]
    fn run(mut self) -> Result<(Program, Vec<Parameter>), Vec<(String, Finding, i64)>> {
        let mut changed = self.program.clone();
        for (index, block) in self.program.blocks.iter().enumerate() {
            let ops = self.block(index, block);
            if let Some(block) = changed.blocks.get_mut(index) {
                block.ops = ops;
            }
        }
        match self.refused.is_empty() {
            true => Ok((changed, self.parameters)),
            false => Err(self.refused),
        }
    }

    fn block(&mut self, index: usize, block: &Block) -> Vec<Op> {
        let mut ops = Vec::with_capacity(block.ops.len());
        for (number, op) in block.ops.iter().enumerate() {
            let mut rewrite = Rewrite::new(
                self.opset,
                index,
                &self.parents,
                self.blocks,
                &mut self.names,
                &mut self.parameters,
            );
            match written(&mut rewrite, op.clone()) {
                Ok(written) => ops.extend(written),
                Err(finding) => {
                    let suffices =
                        |opset: &i64| is_written(op, *opset, index, &self.parents, self.blocks);
                    let needed = (self.opset + 1..NEWEST_OPSET).find(suffices);
                    let needed = needed.unwrap_or(NEWEST_OPSET);
                    let place = match index {
                        0 => "the graph".to_owned(),
                        _ => format!("the subgraph {}", quoted(&block.name)),
                    };
                    let why = format!("{finding}: needs opset {needed}");
                    self.refused.push((place_of(&place, number, op), why.into(), needed));
                }
            }
        }
        ops
    }
}

/// The maximum number of operators that replace one.
const MAX_STEPS: usize = 256;

/// Writes an operator with operators of the target; or returns the reason why this is impossible.
fn written(rewrite: &mut Rewrite<'_>, op: Op) -> Result<Vec<Op>, Finding> {
    if domain_name(&op.domain) != "ai.onnx" {
        return Ok(vec![op]);
    }
    let (mut open, mut done) = (vec![Step::Newest(op)], Vec::new());
    for _ in 0..MAX_STEPS {
        let mut op = match open.pop() {
            None => return Ok(done),
            Some(Step::Final(op)) => {
                fits(rewrite, &op)?;
                done.push(op);
                continue;
            }
            Some(Step::Newest(op)) => op,
        };
        strip_defaults(&mut op);
        if natural_opset(rewrite, &op) <= rewrite.opset {
            done.push(op);
            continue;
        }
        let Some(adapt) = adapter(&op.kind) else {
            return Err(Finding::new(Code::NoEquivalent, quoted(&op.kind)));
        };
        rewrite.begin(&op);
        adapt(rewrite, &op)?;
        open.extend(rewrite.take().into_iter().rev());
    }
    Err(Finding::internal(format!("an adapter adds more than {MAX_STEPS} operators")))
}

/// Returns the lowest opset that has an operator of the newest one in the same form.
fn natural_opset(rewrite: &Rewrite<'_>, op: &Op) -> i64 {
    let of = |name: &String| rewrite.info(name).map(|info| &info.value);
    let inputs: Vec<Option<&ValueType>> = op.input("").iter().map(of).collect();
    let outputs: Vec<Option<&ValueType>> = op.output("").iter().map(of).collect();
    let from = inputs::lowest_meaning(rewrite, op).max(OLDEST_OPSET);
    let lowest = lowest_opset(op, &inputs, from).unwrap_or(NEWEST_OPSET);
    (lowest..=NEWEST_OPSET).find(|it| returns(op, *it, &outputs)).unwrap_or(NEWEST_OPSET)
}

/// Fails if the target opset does not have an operator in this form.
fn fits(rewrite: &Rewrite<'_>, op: &Op) -> Result<(), Finding> {
    let name = quoted(&op.kind);
    let known = operator(&op.domain, &op.kind, rewrite.opset);
    let known = known.ok_or_else(|| Finding::new(Code::NoEquivalent, name.to_string()))?;
    for attribute in &op.attributes {
        if known.attribute(&attribute.name).is_none() {
            let what = format!("{name} has no attribute {}", quoted(&attribute.name));
            return Err(Finding::new(Code::NoEquivalent, what));
        }
    }
    let types: Vec<Option<&ValueType>> =
        op.input("").iter().map(|name| rewrite.info(name).map(|info| &info.value)).collect();
    let has_input = |number: usize| known.input(number).is_some();
    if !(0..types.len()).all(has_input) {
        return Err(Finding::new(Code::NoEquivalent, format!("{name} has too many inputs")));
    }
    admits(op, rewrite.opset, &types)
}

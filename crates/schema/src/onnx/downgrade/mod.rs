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
    NEWEST_OPSET, domain_name, ir_version_of_opset, lowest_opset, operator, place_of, quoted,
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
                model.parameters.extend(parameters);
                model.parameters.retain(is_kept);
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
    let types: Vec<Option<&ValueType>> =
        inputs.iter().map(|input| input.map(|info| &info.value)).collect();
    let natural = lowest_opset(&without_defaults(op), &types, OLDEST_OPSET).unwrap_or(NEWEST_OPSET);
    let names = op.input("").iter().zip(inputs);
    let infos: HashMap<String, ValueInfo> =
        names.filter_map(|(name, info)| Some((name.clone(), (*info)?.clone()))).collect();
    let blocks = [infos];
    (OLDEST_OPSET..natural)
        .find(|opset| {
            let mut names = Names::default();
            let mut parameters = Vec::new();
            let parents = [-1];
            let mut rewrite =
                Rewrite::new(*opset, 0, &parents, &blocks, &mut names, &mut parameters);
            written(&mut rewrite, op.clone()).is_ok()
        })
        .unwrap_or(natural)
}

/// Returns the names of all values that are read, or returned.
fn read(program: &Program) -> HashSet<String> {
    let returned = program.blocks.iter().flat_map(|block| &block.outputs).map(String::as_str);
    program.ops().flat_map(Op::reads).chain(returned).map(str::to_owned).collect()
}

fn without_defaults(op: &Op) -> Op {
    let mut op = op.clone();
    strip_defaults(&mut op);
    op
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
                Err((finding, needed)) => {
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

/// Writes an operator with operators of the target; or returns the reason why this is impossible, and the opset that the
/// operator needs.
fn written(rewrite: &mut Rewrite<'_>, op: Op) -> Result<Vec<Op>, (Finding, i64)> {
    if domain_name(&op.domain) != "ai.onnx" {
        return Ok(vec![op]);
    }
    let mut needed = OLDEST_OPSET;
    let (mut open, mut done) = (vec![Step::Newest(op)], Vec::new());
    while let Some(step) = open.pop() {
        let mut op = match step {
            Step::Newest(op) => op,
            Step::Final(op) => {
                done.push(op);
                continue;
            }
        };
        strip_defaults(&mut op);
        let lowest = {
            let infos: Vec<Option<&ValueInfo>> =
                op.input("").iter().map(|name| rewrite.info(name)).collect();
            let types: Vec<Option<&ValueType>> =
                infos.iter().map(|info| info.map(|info| &info.value)).collect();
            let outputs: Vec<Option<&ValueType>> = op
                .output("")
                .iter()
                .map(|name| rewrite.info(name).map(|info| &info.value))
                .collect();
            let lowest = lowest_opset(&op, &types, OLDEST_OPSET).unwrap_or(NEWEST_OPSET);
            let returning = (lowest..=NEWEST_OPSET).find(|it| returns(&op, *it, &outputs));
            returning.unwrap_or(NEWEST_OPSET)
        };
        needed = needed.max(lowest);
        if lowest <= rewrite.opset {
            done.push(op);
            continue;
        }
        let Some(adapt) = adapter(&op.kind) else {
            return Err((Finding::new(Code::NoEquivalent, format!("`{}`", op.kind)), needed));
        };
        adapt(rewrite, &op).map_err(|finding| (finding, needed))?;
        open.extend(rewrite.take().into_iter().rev());
    }
    Ok(done)
}

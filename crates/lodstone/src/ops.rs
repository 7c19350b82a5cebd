//! Which operators of a model can be exported or run, and why not.

use std::collections::BTreeMap;

use lodstone_lowering::{OperatorCoverage, coverage};
use lodstone_model::{Dialect, Model, Op, Program};
use lodstone_schema::onnx::downgrade::minimum_opset;
use lodstone_schema::onnx::infer::{Options, infer};
use lodstone_schema::onnx::{domain_name, versions};
use serde::Serialize;

#[cfg(feature = "runtime")]
use crate::Support;
use crate::{Error, Result};

/// What the operators are to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OperatorTarget {
    /// Export to ONNX.
    Onnx,
    /// Running with the built-in engine.
    Run,
}

/// The operators of a model, by kind.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OperatorReport {
    /// The version of this structure as JSON.
    pub schema: u32,
    /// What the operators are to be used for.
    pub target: OperatorTarget,
    /// Whether all operators are supported.
    pub supported: bool,
    /// The lowest opset version that can express all operators; `None` unless the target is ONNX.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opset: Option<i64>,
    /// The kinds of operators, sorted by domain and name.
    pub operators: Vec<OperatorSupport>,
}

/// The operators of one kind.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct OperatorSupport {
    /// The domain; empty for the default one of the framework.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// The kind, such as `Conv`.
    pub kind: String,
    /// The number of operators of this kind.
    pub count: usize,
    /// The number of those that are not supported.
    pub unsupported: usize,
    /// The lowest opset version that can express those that are supported; `None` unless the target is ONNX.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opset: Option<i64>,
    /// The different reasons why operators are not supported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// The maximum number of reasons that are listed for a kind.
const MAX_REASONS: usize = 4;

/// Reports which operators of a model can be exported to ONNX, or run.
///
/// A training program is reduced to inference before it is exported: only operators that its outputs depend on are then
/// listed.
///
/// ```
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/paddle");
/// let model = lodstone::open(path)?;
/// let report = lodstone::operators(&model, lodstone::OperatorTarget::Onnx)?;
/// assert!(report.supported);
/// # Ok::<(), lodstone::Error>(())
/// ```
///
/// # Errors
/// If the model has no program, it contradicts itself as a whole, or programs of its framework have no route to the
/// target.
pub fn operators(model: &Model, target: OperatorTarget) -> Result<OperatorReport> {
    let program = model.main().ok_or_else(|| crate::run::no_program(model))?;
    let mut kinds = Kinds::default();
    match target {
        OperatorTarget::Onnx if program.dialect == Dialect::Onnx => {
            onnx(model, program, &mut kinds)
        }
        OperatorTarget::Onnx => {
            let covered =
                coverage(model).ok_or_else(|| no_route("exporting", program, " to ONNX"))?;
            let wrong =
                |finding| Error::Absent(format!("the program cannot be exported: {finding}"));
            covered.map_err(wrong)?.into_iter().for_each(|covered| kinds.add_covered(covered));
        }
        OperatorTarget::Run => run(model, program, &mut kinds)?,
    }
    Ok(kinds.report(target))
}

fn no_route(what: &str, program: &Program, target: &str) -> Error {
    let framework = program.dialect.framework();
    Error::Absent(format!("{what} {framework} programs{target} is not supported"))
}

/// Adds the operators of a program that runs as it is, or translated.
#[cfg(feature = "runtime")]
fn run(model: &Model, program: &Program, kinds: &mut Kinds) -> Result<()> {
    let row = crate::RUNS.iter().find(|row| row.dialect == program.dialect);
    let row = row.ok_or_else(|| no_route("running", program, ""))?;
    match row.support {
        Support::Operators(unsupported) => {
            for op in program.ops() {
                kinds.add(op, None, unsupported(program, op));
            }
        }
        Support::Program(coverage) => {
            let covered = coverage(model).unwrap_or(Ok(Vec::new()));
            let wrong = |finding| Error::Absent(format!("the program does not run: {finding}"));
            covered.map_err(wrong)?.into_iter().for_each(|covered| kinds.add_covered(covered));
        }
    }
    Ok(())
}

#[cfg(not(feature = "runtime"))]
fn run(_: &Model, program: &Program, _: &mut Kinds) -> Result<()> {
    Err(no_route("running", program, " in this build"))
}

fn onnx(model: &Model, program: &Program, kinds: &mut Kinds) {
    let inference = infer(model, &Options::default());
    for (index, block) in program.blocks.iter().enumerate() {
        let known = inference.blocks.get(index);
        for op in &block.ops {
            let is_own = domain_name(&op.domain) == "ai.onnx";
            let is_function = program.functions.iter().any(|it| it.name == op.kind);
            let is_known = versions(&op.domain, &op.kind).next().is_some();
            let reason = (!is_known && !is_function)
                .then(|| format!("{} does not have the operator", domain_name(&op.domain)));
            let infos = op.input("").iter().map(|name| known.and_then(|known| known.get(name)));
            let infos: Vec<_> = infos.collect();
            let opset = (is_own && is_known).then(|| minimum_opset(op, &infos));
            kinds.add(op, opset, reason);
        }
    }
}

/// Operators by domain and kind.
#[derive(Default)]
struct Kinds(BTreeMap<(String, String), OperatorSupport>);

impl Kinds {
    fn add(&mut self, op: &Op, opset: Option<i64>, reason: Option<String>) {
        self.add_kind(&op.domain, &op.kind, opset, reason);
    }

    fn add_covered(&mut self, covered: OperatorCoverage) {
        let (block, number) = covered.place;
        let reason = covered.finding.map(|finding| match block {
            0 => format!("operator {number}: {finding}"),
            _ => format!("block {block}, operator {number}: {finding}"),
        });
        self.add_kind(&covered.domain, &covered.kind, covered.opset, reason);
    }

    fn add_kind(&mut self, domain: &str, kind: &str, opset: Option<i64>, reason: Option<String>) {
        let key = (domain.to_owned(), kind.to_owned());
        let entry = self.0.entry(key).or_insert_with(|| OperatorSupport {
            domain: domain.to_owned(),
            kind: kind.to_owned(),
            ..OperatorSupport::default()
        });
        entry.count += 1;
        entry.opset = entry.opset.max(opset);
        if let Some(reason) = reason {
            entry.unsupported += 1;
            if entry.reasons.len() < MAX_REASONS && !entry.reasons.contains(&reason) {
                entry.reasons.push(reason);
            }
        }
    }

    fn report(self, target: OperatorTarget) -> OperatorReport {
        let operators: Vec<OperatorSupport> = self.0.into_values().collect();
        let supported = operators.iter().all(|kind| kind.unsupported == 0);
        let opset = operators.iter().filter_map(|kind| kind.opset).max();
        OperatorReport { schema: 1, target, supported, opset, operators }
    }
}

//! Which operators of a model can be exported or run, and why not.

use std::collections::BTreeMap;

use lodstone_lowering::lower;
use lodstone_model::{Dialect, Model, Op, Program, Report};
use lodstone_schema::onnx::downgrade::minimum_opset;
use lodstone_schema::onnx::infer::{Options, infer};
use lodstone_schema::onnx::{domain_name, place_of, versions};
use lodstone_schema::paddle::operator;
use serde::Serialize;

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
    /// The kind, such as `conv2d`.
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
/// A program of PaddlePaddle is reduced to inference first: only operators that its outputs depend on are listed.
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
    let program =
        model.main().ok_or_else(|| Error::Absent("the model has no program".to_owned()))?;
    let mut kinds = Kinds::default();
    match (program.dialect, target) {
        (Dialect::Paddle, OperatorTarget::Onnx) => exported(model, &mut kinds)?,
        (Dialect::Paddle, OperatorTarget::Run) => {
            for op in program.ops() {
                let computed = operator(&op.kind).and_then(|row| row.computation.choose(op));
                let reason = computed.is_none().then(|| "the operator is not supported".to_owned());
                kinds.add(op, None, reason);
            }
        }
        (Dialect::Onnx, OperatorTarget::Onnx) => onnx(model, program, &mut kinds),
        #[cfg(feature = "runtime")]
        (Dialect::Onnx, OperatorTarget::Run) => {
            for op in program.ops() {
                let is_function = program.functions.iter().any(|it| it.name == op.kind);
                let is_computed = is_function || lodstone_engine::is_computed(&op.domain, &op.kind);
                let reason = || format!("operator of {} is not supported", domain_name(&op.domain));
                kinds.add(op, None, (!is_computed).then(reason));
            }
        }
        (Dialect::Glow, _) => lowered(model, program, &mut kinds),
        (from, target) => {
            let what = match target {
                OperatorTarget::Onnx => format!("exporting {} programs to ONNX", from.framework()),
                OperatorTarget::Run => format!("running {} programs", from.framework()),
            };
            return Err(Error::Absent(format!("{what} is not supported")));
        }
    }
    Ok(kinds.report(target))
}

fn exported(model: &Model, kinds: &mut Kinds) -> Result<()> {
    let covered = lodstone_lowering::paddle::coverage(model)
        .map_err(|finding| Error::Absent(format!("the program cannot be exported: {finding}")))?;
    for operator in covered {
        let reason = operator.finding.map(|finding| {
            let (block, number) = operator.place;
            match block {
                0 => format!("operator {number}: {finding}"),
                _ => format!("block {block}, operator {number}: {finding}"),
            }
        });
        kinds.add_kind("", &operator.kind, operator.opset, reason);
    }
    Ok(())
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

/// Adds the operators of a program that is lowered as a whole.
fn lowered(model: &Model, program: &Program, kinds: &mut Kinds) {
    let mut copy = model.clone();
    let outcome = lower(&mut copy, Dialect::Onnx, &mut Report::default());
    let findings = outcome.and_then(Result::err).map(|error| error.findings.located);
    let findings = findings.unwrap_or_default();
    for (number, op) in program.blocks.iter().take(1).flat_map(|main| main.ops.iter().enumerate()) {
        let place = place_of("the graph", number, op);
        let finding = findings.iter().find(|finding| finding.place == place);
        kinds.add(op, None, finding.map(|finding| finding.finding.to_string()));
    }
}

/// Operators by domain and kind.
#[derive(Default)]
struct Kinds(BTreeMap<(String, String), OperatorSupport>);

impl Kinds {
    fn add(&mut self, op: &Op, opset: Option<i64>, reason: Option<String>) {
        self.add_kind(&op.domain, &op.kind, opset, reason);
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

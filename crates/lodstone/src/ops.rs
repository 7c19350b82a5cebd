//! Which operators of a model can be exported or run, and why not.

use std::collections::BTreeMap;

use lodstone_lowering::{OperatorCoverage, coverage, to_onnx};
use lodstone_model::{Dialect, Dim, Model, Op, Program};
use lodstone_schema::conventions;
use lodstone_schema::onnx::downgrade::minimum_opset;
use lodstone_schema::onnx::infer::{Options, infer};
#[cfg(feature = "runtime")]
use lodstone_schema::onnx::place_of;
use lodstone_schema::onnx::{domain_name, versions};
use serde::Serialize;

#[cfg(feature = "runtime")]
use crate::dialects::{RUNS, Support};
#[cfg(feature = "runtime")]
use crate::run::engine::{Unsupported, unsupported};
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
    /// What an export needs beyond operators, such as the shapes of inputs that the program does not declare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
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
/// let report = lodstone::operators(&model, lodstone::ops::OperatorTarget::Onnx)?;
/// assert!(report.supported);
/// # Ok::<(), lodstone::Error>(())
/// ```
///
/// # Errors
/// If the model has no program, it contradicts itself as a whole, or programs of its framework have no route to the
/// target.
pub fn operators(model: &Model, target: OperatorTarget) -> Result<OperatorReport> {
    let program = model.main().ok_or_else(|| crate::error::no_program(model))?;
    let mut kinds = Kinds::default();
    match target {
        OperatorTarget::Onnx if program.dialect == Dialect::Onnx => {
            onnx(model, program, &mut kinds)
        }
        OperatorTarget::Onnx => {
            let covered =
                coverage(model).ok_or_else(|| no_route("exporting", program, " to ONNX"))?;
            let wrong = |finding| Error::program("the program cannot be exported", finding);
            covered.map_err(wrong)?.into_iter().for_each(|covered| kinds.add_covered(covered));
        }
        OperatorTarget::Run => run(model, program, &mut kinds)?,
    }
    let mut report = kinds.report(target);
    if target == OperatorTarget::Onnx && report.supported && has_unknown_inputs(program) {
        let outcome = to_onnx(model).and_then(std::result::Result::err);
        report.needs = outcome.map(|error| error.to_string());
    }
    Ok(report)
}

/// Returns whether the shape of an input is unknown.
fn has_unknown_inputs(program: &Program) -> bool {
    let interface = (conventions(program).interface)(program);
    let vars = program.blocks.first().map(|main| main.vars.as_slice()).unwrap_or_default();
    let is_known = |name: &&str| {
        let var = vars.iter().find(|var| var.name == **name);
        let dims = var.and_then(|var| var.value.tensor_type()).and_then(|it| it.shape.as_ref());
        dims.is_some_and(|dims| dims.iter().all(|dim| *dim != Dim::Unknown))
    };
    !interface.inputs.iter().all(is_known)
}

fn no_route(what: &str, program: &Program, target: &str) -> Error {
    let framework = program.dialect.framework();
    Error::NotSupported { operation: format!("{what} {framework} programs{target}"), why: None }
}

/// Adds the operators of a program that runs as it is, or translated.
#[cfg(feature = "runtime")]
fn run(model: &Model, program: &Program, kinds: &mut Kinds) -> Result<()> {
    match RUNS.of(program.dialect).support {
        Support::Operators(unsupported) => {
            for op in program.ops() {
                kinds.add(op, None, unsupported(program, op));
            }
            Ok(())
        }
        Support::Program(coverage) => {
            let covered = coverage(model).unwrap_or(Ok(Vec::new()));
            let wrong = |finding| Error::program("the program does not run", finding);
            covered.map_err(wrong)?.into_iter().for_each(|covered| kinds.add_covered(covered));
            Ok(())
        }
        Support::Engine => in_engine(model, program, kinds),
    }
}

/// Adds the operators of a program that the engine runs, of ONNX or lowered to it.
#[cfg(feature = "runtime")]
fn in_engine(model: &Model, program: &Program, kinds: &mut Kinds) -> Result<()> {
    let wrong = |finding| Error::program("the program does not run", finding);
    let covered = coverage(model).transpose().map_err(wrong)?.unwrap_or_default();
    let is_covered = covered.iter().all(|operator| operator.finding.is_none());
    let unsupported = match is_covered.then(|| to_onnx(model)) {
        Some(None) => unsupported(model)?,
        Some(Some(Ok((lowered, _)))) => unsupported(&lowered)?,
        // What is not known of the inputs yet is known when they are given.
        None | Some(Some(Err(_))) => {
            covered.into_iter().for_each(|covered| kinds.add_covered(covered));
            return Ok(());
        }
    };
    let places = placed(program);
    let mut reasons: Vec<Option<String>> = vec![None; places.len()];
    let mut give = |reason: &str, concerns: &dyn Fn(&str, &Op) -> bool| {
        let concerned = places.iter().zip(&mut reasons);
        let concerned = concerned.filter(|((place, op), _)| concerns(place, op));
        concerned.map(|(_, given)| *given = Some(reason.to_owned())).count() > 0
    };
    match unsupported {
        Unsupported::Located(findings) => {
            for located in findings.located {
                let reason = located.to_string();
                if !give(&reason, &|place, _| place == located.place) {
                    let finding = located.finding.within(located.place);
                    return Err(Error::program("the program does not run", finding));
                }
            }
        }
        Unsupported::Kinds(without) => {
            for (domain, kind) in without {
                let why = lodstone_engine::unsupported(&domain, &kind);
                let reason = format!("the operator of {} {why}", domain_name(&domain));
                // A lowering keeps operators without an equivalent, in a domain of their own.
                let is_given = give(&reason, &|_, op| op.kind == kind && op.domain == domain)
                    || give(&reason, &|_, op| op.kind == kind);
                // Or writes them itself.
                if !is_given {
                    kinds.add_kind(&domain, &kind, None, Some(reason));
                }
            }
        }
    }
    places.iter().zip(reasons).for_each(|((_, op), reason)| kinds.add(op, None, reason));
    Ok(())
}

/// Returns the operators of a program with their places.
#[cfg(feature = "runtime")]
fn placed(program: &Program) -> Vec<(String, &Op)> {
    let (mut found, mut open) = (Vec::new(), vec![(0, "the graph".to_owned())]);
    while let Some((index, place)) = open.pop() {
        let block = usize::try_from(index).ok().and_then(|index| program.blocks.get(index));
        for (number, op) in block.iter().flat_map(|block| &block.ops).enumerate() {
            let place = place_of(&place, number, op);
            open.extend(op.blocks().map(|block| (block, place.clone())));
            found.push((place, op));
        }
    }
    found
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
        OperatorReport { schema: 1, target, supported, opset, needs: None, operators }
    }
}

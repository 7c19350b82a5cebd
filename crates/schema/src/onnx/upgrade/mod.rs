//! Upgrades of models to a newer opset.
//!
//! Every operator goes through its versions one after the other, each change by its decision in `data/onnx_changes.tsv`:
//! `same` if the newer version computes whatever the older one computes, or the name of an adapter. An adapter changes
//! the operator and may add others before and after it, which are then upgraded from their own versions. A test checks
//! that there is a decision for each change in the table of operators: a new opset requires new ones.
//!
//! Only upgrades are supported, and only of ONNX's own opset: other opsets keep their versions. If an upgrade depends on
//! something that the program alone does not determine (the rank of a value that declares none, scales that are
//! computed), it is rejected; all such operators are reported at once.
//!
//! Since each change is made by itself, no adapter depends on the version that is requested.
//!
//! Source of truth: the changelog of onnx 1.23.2; `docs/Versioning.md`.

mod change;
mod inputs;
mod known;
mod modes;
mod shapes;
mod sizes;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::LazyLock;

use lodstone_model::{Dialect, Function, Model, Op, Program, Topology, ValueType};

use self::change::Change;
use self::known::Known;
use super::attributes;
use super::names::Names;
use super::operators::is_of_runtime;
use super::scopes::Bindings;
use super::{NEWEST_OPSET, domain_name, introduced, ir_version_of_opset, quoted, versions};
use crate::{Finding, Findings};

/// Why a model cannot be upgraded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpgradeError {
    /// The model has no ONNX program, or its program does not declare the version of ONNX's opset.
    NoOperators,
    /// The target version does not exist.
    Unknown {
        /// The requested version.
        requested: i64,
        /// The newest known version.
        newest: i64,
    },
    /// The model uses a newer version.
    Downgrade {
        /// The version that the model uses.
        from: i64,
        /// The requested version.
        to: i64,
    },
    /// The model breaks rules of ONNX, so that its meaning is undefined.
    Invalid(Findings),
    /// Some operators have no equivalent in the newer version, or it cannot be determined.
    Operators(Findings),
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOperators => f.write_str("the model has no program with ONNX operators"),
            Self::Unknown { requested, newest } => {
                write!(f, "opset version {requested} does not exist; the newest known is {newest}")
            }
            Self::Downgrade { from, to } => {
                write!(f, "the model uses opset {from}; downgrading to {to} is not supported")
            }
            Self::Invalid(findings) => {
                f.write_str("the program is not valid ONNX")?;
                findings.located.iter().try_for_each(|finding| write!(f, "; {finding}"))
            }
            Self::Operators(findings) => {
                let count = findings.count();
                let operators = if count == 1 { "operator" } else { "operators" };
                write!(f, "{count} {operators} cannot be upgraded")?;
                findings.located.iter().try_for_each(|finding| write!(f, "; {finding}"))
            }
        }
    }
}

impl std::error::Error for UpgradeError {}

/// Changes an operator to the version of a change, or reports why it cannot.
type Adapter = fn(&mut Change<'_>) -> Result<(), Finding>;

/// The adapters of `onnx_changes.tsv`.
const ADAPTERS: &[(&str, Adapter)] = &[
    ("axes", inputs::axes),
    ("broadcast", shapes::broadcast),
    ("cast", modes::cast),
    ("clip", inputs::clip),
    ("concat", modes::concat),
    ("consumed", modes::consumed),
    ("dft", inputs::dft),
    ("flatten", shapes::flatten),
    ("floats", modes::floats),
    ("gemm", modes::gemm),
    ("grid_sample", modes::grid_sample),
    ("group_normalization", shapes::group_normalization),
    ("height_and_width", sizes::height_and_width),
    ("inference", modes::inference),
    ("mask", modes::mask),
    ("num_outputs", modes::num_outputs),
    ("pad", inputs::pad),
    ("paddings", modes::paddings),
    ("power", modes::power),
    ("ratio", inputs::ratio),
    ("reshape", inputs::reshape),
    ("resize", sizes::resize),
    ("roi_align", modes::roi_align),
    ("scales", sizes::scales),
    ("scan", shapes::scan),
    ("scatter", modes::scatter),
    ("selu", modes::selu),
    ("sequence", modes::sequence),
    ("sizes", sizes::sizes),
    ("slice", inputs::slice),
    ("slope", shapes::slope),
    ("spatial", modes::spatial),
    ("split", inputs::split),
    ("split_input", inputs::split_input),
    ("test_mode", modes::test_mode),
    ("tile", inputs::tile),
    ("top_k", inputs::top_k),
    ("upsample", sizes::upsample),
];

/// Returns the versions of an operator of ONNX's own domain after its first, oldest first, each with `same` or the name
/// of its adapter.
pub fn changes(kind: &str) -> &'static [(i64, &'static str)] {
    static CHANGES: LazyLock<HashMap<&str, Vec<(i64, &str)>>> = LazyLock::new(|| {
        let change = |word: &'static str| {
            let (version, decision) = word.split_once('=')?;
            Some((version.parse().ok()?, decision))
        };
        let line = |line: &'static str| {
            let (kind, words) = line.split_once('\t').unwrap_or((line, ""));
            (kind, words.split(' ').filter_map(change).collect())
        };
        include_str!("../../../data/onnx_changes.tsv").lines().map(line).collect()
    });
    CHANGES.get(kind).map_or(&[], Vec::as_slice)
}

/// Upgrades a model to version `target` of ONNX's opset, including subgraphs and functions. The IR version is raised to
/// one that supports it.
///
/// # Errors
/// If the version does not exist, the model is of a newer one, or some operators cannot be upgraded, all of which are
/// reported with their places. The model is then unchanged.
pub fn upgrade(model: &mut Model, target: i64) -> Result<(), UpgradeError> {
    upgrade_with(model, target, &[])
}

/// Upgrades a model like [`upgrade`], with inferred types beside those that it declares, by block and name.
///
/// # Errors
/// Like [`upgrade`].
pub fn upgrade_with(
    model: &mut Model,
    target: i64,
    inferred: &[HashMap<String, ValueType>],
) -> Result<(), UpgradeError> {
    let program = model.main().filter(|program| program.dialect == Dialect::Onnx);
    let Some(program) = program else { return Err(UpgradeError::NoOperators) };
    let ir_version = ir_version_of_opset("", target).filter(|_| target >= 1);
    let Some(ir_version) = ir_version else {
        return Err(UpgradeError::Unknown { requested: target, newest: NEWEST_OPSET });
    };
    let from = used(&program.operator_versions, program.version);
    if let Some(from) = from.filter(|from| *from > target) {
        return Err(UpgradeError::Downgrade { from, to: target });
    }
    let functions = program.functions.iter().map(|function| &function.operator_versions);
    let newer = functions.filter_map(|versions| used(versions, Some(i64::MAX))).max();
    if let Some(from) = newer.filter(|from| *from > target) {
        return Err(UpgradeError::Downgrade { from, to: target });
    }
    if from.is_none() && newer.is_none() {
        return Err(UpgradeError::NoOperators);
    }
    let mut changed = program.clone();
    let mut findings = Findings::default();
    let mut names = Names::of(program, &model.parameters);
    let mut known = Known::new(program, &model.parameters, inferred);
    let mut bodies = vec![(0, "the graph".to_owned(), from)];
    bodies.extend(program.functions.iter().map(|function| {
        let from = used(&function.operator_versions, Some(i64::MAX));
        (function.block, format!("the function {}", quoted(&function.name)), from)
    }));
    for (block, place, from) in bodies {
        if let Some(from) = from {
            let mut body =
                Body { program: &mut changed, known: &mut known, names: &mut names, from, target };
            body.upgrade(block, place, &mut findings);
        }
    }
    if !findings.is_empty() {
        return Err(UpgradeError::Operators(findings));
    }
    declare(&mut changed, target, ir_version);
    model.set_main(changed);
    Ok(())
}

/// Returns the version of ONNX's opset that a program or function uses. Programs older than opsets use version 1.
fn used(versions: &[(String, i64)], ir_version: Option<i64>) -> Option<i64> {
    let own = versions.iter().rev().find(|(domain, _)| domain_name(domain) == "ai.onnx");
    let had_none = ir_version.is_some_and(|version| version < introduced::OPERATOR_SETS);
    own.map(|(_, version)| *version).or(had_none.then_some(1))
}

/// Declares the opset version of a program.
fn declare(program: &mut Topology, target: i64, ir_version: i64) {
    if program.operator_versions.is_empty() {
        program.operator_versions.push((String::new(), target));
    }
    program.version = program.version.max(Some(ir_version));
    let functions = program.functions.iter_mut().map(|function| &mut function.operator_versions);
    for versions in functions.chain([&mut program.operator_versions]) {
        for (domain, version) in versions {
            if domain_name(domain) == "ai.onnx" {
                *version = target;
            }
        }
    }
}

/// The graph or a function, including subgraphs.
struct Body<'a> {
    program: &'a mut Program,
    known: &'a mut Known,
    names: &'a mut Names,
    from: i64,
    target: i64,
}

impl Body<'_> {
    fn upgrade(&mut self, block: i32, place: String, findings: &mut Findings) {
        let (mut open, mut seen) = (vec![(block, place)], HashSet::new());
        while let Some((number, place)) = open.pop() {
            // A program that was built by hand may have a block inside itself.
            if !seen.insert(number) {
                continue;
            }
            let Ok(index) = usize::try_from(number) else { continue };
            let Some(block) = self.program.blocks.get_mut(index) else { continue };
            let ops = std::mem::take(&mut block.ops);
            let mut changed = Vec::with_capacity(ops.len());
            for (number, op) in ops.into_iter().enumerate() {
                let called = match op.name.as_str() {
                    "" => quoted(&op.kind),
                    name => format!("{} {}", quoted(&op.kind), quoted(name)),
                };
                // The place of a deep block is long, so it is only built if it is needed.
                let place = || format!("{place}, operator {number} ({called})");
                open.extend(op.blocks().map(|block| (block, place())));
                let checked = self.check(&op);
                let known = checked.and_then(|()| self.known.follow(index, &op, self.from));
                if let Err(why) = known.and_then(|()| self.operator(index, op, &mut changed)) {
                    findings.add(place(), why);
                }
            }
            if let Some(block) = self.program.blocks.get_mut(index) {
                block.ops = changed;
            }
        }
    }

    /// Checks the attributes of an operator of ONNX's own, before an adapter reads or moves them.
    fn check(&self, op: &Op) -> Result<(), Finding> {
        let is_called = |function: &Function| {
            function.name == op.kind && domain_name(&function.domain) == domain_name(&op.domain)
        };
        let is_own = domain_name(&op.domain) == "ai.onnx";
        if !is_own || self.program.functions.iter().any(is_called) {
            return Ok(());
        }
        attributes::check(op, self.from, &Bindings::new())
    }

    /// Upgrades an operator, which may become several.
    fn operator(&mut self, block: usize, op: Op, changed: &mut Vec<Op>) -> Result<(), Finding> {
        // The operators that remain to be upgraded, the first last.
        let mut open = vec![(op, self.from)];
        while let Some((op, version)) = open.pop() {
            let next = changes(&op.kind).iter().find(|(since, _)| *since > version);
            let next = next.filter(|(since, _)| *since <= self.target);
            let is_own = domain_name(&op.domain) == "ai.onnx";
            let Some((since, decision)) = next.filter(|_| is_own) else {
                let is_known =
                    || versions("", &op.kind).next().is_some() || is_of_runtime("", &op.kind);
                if is_own && !is_known() {
                    return Err("is not an ONNX operator".into());
                }
                changed.push(op);
                continue;
            };
            let adapter = ADAPTERS.iter().find(|(name, _)| name == decision);
            let sources = op.sources.clone();
            let mut change = Change::new(op, *since, self.target, block, self.known, self.names);
            if let Some((_, adapt)) = adapter {
                adapt(&mut change)?;
            }
            let mut done = change.finish(self.program)?;
            done.iter_mut().for_each(|(op, _)| op.sources = sources.clone());
            open.extend(done.into_iter().rev());
        }
        Ok(())
    }
}

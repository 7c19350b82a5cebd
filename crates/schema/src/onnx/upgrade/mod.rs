//! A model of an old set of operators as one of a newer set.
//!
//! Every operator goes through the versions of it one after the other, each change by its decision in
//! `data/onnx_changes.tsv`: `same` if whatever the older version computes the newer one computes too, or
//! the name of an adapter. An adapter changes the operator, and may put others before and after it, which
//! then go the same way from where they are. A test holds that there is a decision for each change that
//! the table of operators has: a new set of operators asks for new ones.
//!
//! It goes up only, and for ONNX's own set: other sets stay at the versions that they have. What can not
//! be told from the program alone (the rank of a value that declares none, scales that are computed) and
//! matters is refused, all such operators at once.
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

use lodstone_model::{Dialect, Model, Op, Program, Topology, ValueType};

use self::change::Change;
use self::known::Known;
use super::names::Names;
use super::{NEWEST_OPSET, domain_name, introduced, ir_version_of_opset, quoted, versions};
use crate::{Finding, Findings};

/// Why a model cannot be made one of another set of operators.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpgradeError {
    /// It has no program of ONNX, or none that says which set of its operators it uses.
    NoOperators,
    /// There is no such version.
    Unknown {
        /// The version that was asked for.
        asked: i64,
        /// The newest that is known.
        newest: i64,
    },
    /// It uses a newer version.
    Downgrade {
        /// The version that it uses.
        from: i64,
        /// The version that was asked for.
        to: i64,
    },
    /// It breaks rules of ONNX: what it computes is not defined.
    Invalid(Findings),
    /// Some operators have no newer form, or it cannot be told which.
    Operators(Findings),
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOperators => f.write_str("there is no program with operators of ONNX"),
            Self::Unknown { asked, newest } => {
                write!(f, "there is no version {asked} of ONNX's operators; the newest is {newest}")
            }
            Self::Downgrade { from, to } => write!(
                f,
                "the operators are of version {from}, and cannot be made ones of the older {to}"
            ),
            Self::Invalid(findings) => {
                f.write_str("the program is not valid ONNX")?;
                findings.told.iter().try_for_each(|finding| write!(f, "; {finding}"))
            }
            Self::Operators(findings) => {
                let count = findings.count();
                let operators = if count == 1 { "operator" } else { "operators" };
                write!(f, "{count} {operators} cannot be upgraded")?;
                findings.told.iter().try_for_each(|finding| write!(f, "; {finding}"))
            }
        }
    }
}

impl std::error::Error for UpgradeError {}

/// Changes an operator to the version that brought a change, or says why it cannot.
type Adapter = fn(&mut Change<'_>) -> Result<(), Finding>;

/// The decisions of `onnx_changes.tsv` but for `same`.
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

/// How versions of an operator of ONNX's own set differ from those before them: the version, and `same` or
/// the name of an adapter, oldest first.
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

/// Makes a model one of version `target` of ONNX's operators, in the main graph and all that is inside it,
/// and in functions. The version of the representation is raised to one that such models may have.
///
/// # Errors
/// If there is no such version, the model is of a newer one, or some of its operators cannot
/// be upgraded, all of which are named with their places; the model stays as it was.
pub fn upgrade(model: &mut Model, target: i64) -> Result<(), UpgradeError> {
    upgrade_with(model, target, &[])
}

/// The same, with the types of values that are known beyond those
/// that it declares: by block and name.
///
/// # Errors
/// As [`upgrade`].
pub fn upgrade_with(
    model: &mut Model,
    target: i64,
    inferred: &[HashMap<String, ValueType>],
) -> Result<(), UpgradeError> {
    let program = model.main().filter(|program| program.dialect == Dialect::Onnx);
    let Some(program) = program else { return Err(UpgradeError::NoOperators) };
    let ir_version = ir_version_of_opset("", target).filter(|_| target >= 1);
    let Some(ir_version) = ir_version else {
        return Err(UpgradeError::Unknown { asked: target, newest: NEWEST_OPSET });
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

/// The version of ONNX's own set that a program or function uses. Programs of before there were sets use
/// the first.
fn used(versions: &[(String, i64)], ir_version: Option<i64>) -> Option<i64> {
    let own = versions.iter().rev().find(|(domain, _)| domain_name(domain) == "ai.onnx");
    let had_none = ir_version.is_some_and(|version| version < introduced::OPERATOR_SETS);
    own.map(|(_, version)| *version).or(had_none.then_some(1))
}

/// Says which set of operators a program is of now.
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

/// The graph or a function, with all that is inside it.
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
            let index = usize::try_from(number).unwrap_or(usize::MAX);
            // A program made by hand may have a block inside itself.
            if !seen.insert(number) {
                continue;
            }
            let Some(block) = self.program.blocks.get_mut(index) else { continue };
            let ops = std::mem::take(&mut block.ops);
            let mut changed = Vec::with_capacity(ops.len());
            for (number, op) in ops.into_iter().enumerate() {
                let called = match op.name.as_str() {
                    "" => quoted(&op.kind),
                    name => format!("{} {}", quoted(&op.kind), quoted(name)),
                };
                // Places are long where blocks are deep: they are told of what needs one.
                let place = || format!("{place}, operator {number} ({called})");
                open.extend(op.blocks().map(|block| (block, place())));
                let known = self.known.follow(index, &op, self.from);
                if let Err(why) = known.and_then(|()| self.operator(index, op, &mut changed)) {
                    findings.add(place(), why);
                }
            }
            if let Some(block) = self.program.blocks.get_mut(index) {
                block.ops = changed;
            }
        }
    }

    /// Makes an operator one of the newer set, or several.
    fn operator(&mut self, block: usize, op: Op, changed: &mut Vec<Op>) -> Result<(), Finding> {
        // What is still to be done, the first last.
        let mut open = vec![(op, self.from)];
        while let Some((op, version)) = open.pop() {
            let next = changes(&op.kind).iter().find(|(since, _)| *since > version);
            let next = next.filter(|(since, _)| *since <= self.target);
            let is_own = domain_name(&op.domain) == "ai.onnx";
            let Some((since, decision)) = next.filter(|_| is_own) else {
                if is_own && versions("", &op.kind).next().is_none() {
                    return Err("is no operator of ONNX".into());
                }
                changed.push(op);
                continue;
            };
            let adapter = ADAPTERS.iter().find(|(name, _)| name == decision);
            let mut change = Change::new(op, *since, self.target, block, self.known, self.names);
            if let Some((_, adapt)) = adapter {
                adapt(&mut change)?;
            }
            let done = change.finish(self.program)?;
            open.extend(done.into_iter().rev());
        }
        Ok(())
    }
}

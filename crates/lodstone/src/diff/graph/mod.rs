//! The differences between two programs, operator by operator.
//!
//! Operators are paired ([`matching`]), and the differences of each pair are reported. The data flow is compared, not
//! the names of values: a renamed value is reported once.

mod matching;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use lodstone_model::{Attribute, AttributeValue, Block, Op, Program, Tensor, ValueType, Var};
use lodstone_schema::places::at;
use lodstone_schema::{Finding, conventions};
use serde::Serialize;

use crate::wiring::{Node, Use, Wiring};
use crate::words;
use crate::{Error, Result};
use matching::Matching;

/// The differences between two programs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProgramDifference {
    /// Whether the programs are equal: the same operators with the same attributes over the same variables.
    /// References to a training script do not count, nor does the order of operators where it
    /// has no meaning.
    pub same: bool,
    /// The number of equal operators.
    pub equal: usize,
    /// The operator kinds with different counts, and both counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<(String, usize, usize)>,
    /// The operators that differ, in the order of the first program, then of the second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<OperatorDifference>,
    /// The number of operators that have another, equally similar counterpart.
    #[serde(skip_serializing_if = "is_none")]
    pub ambiguous: usize,
    /// The number of operators that come earlier or later, where that has no meaning.
    #[serde(skip_serializing_if = "is_none")]
    pub moved: usize,
    /// The values and operators that were renamed: the old name and the new one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<(String, String)>,
    /// Other differences: inputs and outputs, types of variables, opset versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
}

/// An operator that differs.
#[derive(Clone, Debug, Serialize)]
pub struct OperatorDifference {
    /// The changes, of which there may be several.
    pub changes: Vec<OperatorChange>,
    /// The location in the first program, unless it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<OperatorPlace>,
    /// The location in the second program, unless it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<OperatorPlace>,
    /// The details of the changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
}

/// A change of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OperatorChange {
    /// Only the second program has the operator.
    Added,
    /// Only the first program has the operator.
    Removed,
    /// The kind differs.
    Kind,
    /// The inputs differ.
    Rewired,
    /// The attributes differ.
    Attributes,
    /// The operator comes earlier or later, which may change results.
    Moved,
}

/// The location of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperatorPlace {
    /// The index of the block.
    pub block: usize,
    /// The index in that block, counted from 0.
    pub number: usize,
    /// The name of the operator, or of its first output.
    pub name: String,
    /// The operator kind.
    pub kind: String,
}

/// A single difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// The thing that differs: `attribute axis`, `input 1`.
    pub what: String,
    /// Its value in the first program, if it is present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<String>,
    /// Its value in the second program, if it is present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// Compares two programs of one dialect.
///
/// # Errors
/// If reading tensors in attributes fails.
pub(super) fn programs(a: &Program, b: &Program) -> Result<ProgramDifference> {
    let (side_a, side_b) = (wired(a)?, wired(b)?);
    let matching = Matching::new(&side_a, &side_b).map_err(Error::Internal)?;
    let mut report = ProgramDifference { ambiguous: matching.ambiguous, ..Default::default() };
    let mut names = Names::new(a, b);
    names.learn(&side_a, &side_b, &matching)?;
    let ordered = !conventions(a).is_ssa;
    let late = out_of_order(&matching).map_err(Error::Internal)?;
    for (index, (node, other)) in side_a.nodes.iter().zip(&matching.a).enumerate() {
        let Some(other) = other.map(|other| node_of(&side_b, other)).transpose()? else {
            let (changes, a) = (vec![OperatorChange::Removed], Some(place(node)));
            report.operators.push(OperatorDifference { changes, a, b: None, details: Vec::new() });
            continue;
        };
        let (mut changes, details) = compare((node, &side_a), (other, &side_b), &matching, &names)?;
        if late.contains(&index) {
            report.moved += usize::from(!ordered);
            changes.extend(ordered.then_some(OperatorChange::Moved));
        }
        if changes.is_empty() {
            report.equal += 1;
            continue;
        }
        let (a, b) = (Some(place(node)), Some(place(other)));
        report.operators.push(OperatorDifference { changes, a, b, details });
    }
    for (node, other) in side_b.nodes.iter().zip(&matching.b) {
        if other.is_none() {
            let (changes, b) = (vec![OperatorChange::Added], Some(place(node)));
            report.operators.push(OperatorDifference { changes, a: None, b, details: Vec::new() });
        }
    }
    report.kinds = kinds(a, b);
    report.details = outside_operators(a, b, &names);
    report.renamed = names.renamed();
    report.same =
        report.operators.is_empty() && report.renamed.is_empty() && report.details.is_empty();
    Ok(report)
}

fn wired(program: &Program) -> Result<Wiring<'_>> {
    Wiring::new(program).map_err(Error::Internal)
}

fn node_of<'s, 'a>(side: &'s Wiring<'a>, id: usize) -> Result<&'s Node<'a>> {
    side.node(id).map_err(Error::Internal)
}

fn place(node: &Node<'_>) -> OperatorPlace {
    let name = match node.op.name.as_str() {
        "" => node.op.writes().next().unwrap_or_default(),
        name => name,
    };
    let (block, number, kind) = (node.block, node.number, node.op.kind.clone());
    OperatorPlace { block, number, name: name.to_owned(), kind }
}

fn kinds(a: &Program, b: &Program) -> Vec<(String, usize, usize)> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    a.ops().for_each(|op| counts.entry(&op.kind).or_default().0 += 1);
    b.ops().for_each(|op| counts.entry(&op.kind).or_default().1 += 1);
    let differ = counts.into_iter().filter(|(_, (a, b))| a != b);
    differ.map(|(kind, (a, b))| (kind.to_owned(), a, b)).collect()
}

/// A map from value names of the first program to those of the second.
struct Names<'a> {
    /// The names that only the first program has, and those that only the second has.
    only_a: HashSet<&'a str>,
    only_b: HashSet<&'a str>,
    to_b: HashMap<&'a str, &'a str>,
    order: Vec<(&'a str, &'a str)>,
}

impl<'a> Names<'a> {
    fn new(a: &'a Program, b: &'a Program) -> Self {
        let [all_a, all_b] = [a, b].map(|program| -> HashSet<&'a str> {
            let vars = program.vars().map(|var| var.name.as_str());
            let used = program.ops().flat_map(|op| op.reads().chain(op.writes()));
            vars.chain(used).collect()
        });
        let only_a = all_a.difference(&all_b).copied().collect();
        let only_b = all_b.difference(&all_a).copied().collect();
        Self { only_a, only_b, to_b: HashMap::new(), order: Vec::new() }
    }

    /// Maps names from paired operators: those of their outputs, and those of the outside values that they read.
    fn learn(&mut self, a: &Wiring<'a>, b: &Wiring<'a>, matching: &Matching) -> Result<()> {
        for (node, other) in a.nodes.iter().zip(&matching.a) {
            // An operator without a pair gives no information.
            let Some(other) = *other else { continue };
            let other = node_of(b, other)?;
            let pairs = |of_a: &'a Op, of_b: &'a Op| {
                let outputs = of_a.outputs.iter().zip(&of_b.outputs);
                outputs.flat_map(|(a, b)| a.args.iter().zip(&b.args))
            };
            for (old, new) in pairs(node.op, other.op) {
                self.add(old, new);
            }
            for ((_, old), (_, new)) in node.reads.iter().zip(&other.reads) {
                for (old, new) in old.iter().zip(new) {
                    if let (Use::Outer(old), Use::Outer(new)) = (old, new) {
                        self.add(old, new);
                    }
                }
            }
            if !node.op.name.is_empty() && node.op.name != other.op.name {
                self.order.push((&node.op.name, &other.op.name));
            }
        }
        Ok(())
    }

    /// Maps a name to another, unless either is used in both programs.
    fn add(&mut self, old: &'a str, new: &'a str) {
        let fresh = self.only_a.contains(old) && self.only_b.contains(new);
        if fresh && !self.to_b.contains_key(old) {
            self.to_b.insert(old, new);
            self.order.push((old, new));
        }
    }

    /// Returns the name of a value of the first program in the second, if it is known.
    fn of<'n>(&'n self, name: &'n str) -> &'n str {
        self.to_b.get(name).copied().unwrap_or(name)
    }

    fn renamed(&self) -> Vec<(String, String)> {
        let mut seen = HashSet::new();
        let first = self.order.iter().filter(|pair| seen.insert(**pair));
        first.map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect()
    }
}

/// Returns the pairs that are not in the longest sequence that has the same order in both programs.
fn out_of_order(matching: &Matching) -> Result<HashSet<usize>, Finding> {
    let pairs: Vec<(usize, usize)> =
        matching.a.iter().enumerate().filter_map(|(a, b)| Some((a, (*b)?))).collect();
    // For each length, the last pair of such a sequence and its index in the second program; for each pair, its
    // predecessor.
    let mut ends: Vec<(usize, usize)> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, (_, b)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|(_, end)| end < b);
        let shorter = length.checked_sub(1).and_then(|length| ends.get(length));
        before.push(shorter.map(|(index, _)| *index));
        match ends.get_mut(length) {
            Some(end) => *end = (index, *b),
            None => ends.push((index, *b)),
        }
    }
    let mut late: HashSet<usize> = pairs.iter().map(|(a, _)| *a).collect();
    let mut next = ends.last().map(|(index, _)| *index);
    while let Some(index) = next {
        let (a, _) = at(&pairs, index)?;
        late.remove(&a);
        next = at(&before, index)?;
    }
    Ok(late)
}

/// Returns the differences of an operator.
fn compare<'a>(
    (a, side_a): (&Node<'a>, &Wiring<'a>),
    (b, side_b): (&Node<'a>, &Wiring<'a>),
    matching: &Matching,
    names: &Names<'_>,
) -> Result<(Vec<OperatorChange>, Vec<Detail>)> {
    let (mut changes, mut details) = (Vec::new(), Vec::new());
    let mut report = |change: OperatorChange, detail: Detail| {
        changes.push(change);
        details.push(detail);
    };
    let whole = |op: &Op| {
        let parts = [op.domain.as_str(), &op.kind, &op.overload];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
    };
    if whole(a.op) != whole(b.op) {
        let detail = Detail::of("kind", Some(whole(a.op)), Some(whole(b.op)));
        report(OperatorChange::Kind, detail);
    }
    let slots: BTreeSet<&str> = a.reads.iter().chain(&b.reads).map(|(slot, _)| *slot).collect();
    for slot in slots {
        let of = |node: &Node<'_>| node.reads.iter().position(|(other, _)| *other == slot);
        let [uses_a, uses_b] = [(a, of(a)), (b, of(b))].map(|(node, index)| {
            index.and_then(|index| node.reads.get(index)).map_or(&[][..], |(_, uses)| uses)
        });
        for index in 0..uses_a.len().max(uses_b.len()) {
            let [read_a, read_b] =
                [uses_a, uses_b].map(|uses| uses.get(index).unwrap_or(&Use::Nothing));
            let same = matching.is_same(read_a, read_b)
                || matches!((read_a, read_b), (Use::Outer(old), Use::Outer(new)) if names.of(old) == *new);
            if !same {
                let what = match slot {
                    "" => format!("input {index}"),
                    slot if uses_a.len().max(uses_b.len()) == 1 => format!("input {slot}"),
                    slot => format!("input {slot} {index}"),
                };
                let name = |op: &Op| {
                    let operand = op.inputs.iter().find(|operand| operand.slot == slot);
                    let name = match operand {
                        Some(operand) => operand.args.get(index),
                        None => op.attribute(slot)?.names().nth(index),
                    };
                    name.filter(|name| !name.is_empty()).cloned()
                };
                report(OperatorChange::Rewired, Detail::of(what, name(a.op), name(b.op)));
            }
        }
    }
    let written = |op: &Op| op.writes().count();
    if written(a.op) != written(b.op) {
        let count = |op| Some(written(op).to_string());
        report(OperatorChange::Rewired, Detail::of("number of outputs", count(a.op), count(b.op)));
    }
    let pair = |attribute: &'a Attribute| (attribute.name.as_str(), &attribute.value);
    let of_a: BTreeMap<_, _> = side_a.attributes(a.op).map(pair).collect();
    let of_b: BTreeMap<_, _> = side_b.attributes(b.op).map(pair).collect();
    let all: BTreeSet<&str> = of_a.keys().chain(of_b.keys()).copied().collect();
    for name in all {
        let (value_a, value_b) = (of_a.get(name).copied(), of_b.get(name).copied());
        if !same_values(value_a, value_b)? {
            let what = format!("attribute {name}");
            let detail = Detail::of(what, value_a.map(short), value_b.map(short));
            report(OperatorChange::Attributes, detail);
        }
    }
    changes.sort_unstable();
    changes.dedup();
    Ok((changes, details))
}

impl Detail {
    fn of(what: impl Into<String>, a: Option<String>, b: Option<String>) -> Self {
        Self { what: what.into(), a, b }
    }
}

/// Returns whether two attribute values are equal. Blocks count as equal, since their contents are compared separately.
fn same_values(a: Option<&AttributeValue>, b: Option<&AttributeValue>) -> Result<bool> {
    use AttributeValue as A;
    let (Some(a), Some(b)) = (a, b) else { return Ok(a.is_none() && b.is_none()) };
    match (a, b) {
        // Variables are compared as inputs.
        (A::Block(_), A::Block(_)) | (A::Var(_), A::Var(_)) | (A::Vars(_), A::Vars(_)) => Ok(true),
        (A::Blocks(a), A::Blocks(b)) => Ok(a.len() == b.len()),
        (a, b) if std::mem::discriminant(a) != std::mem::discriminant(b) => Ok(false),
        (A::List(a), A::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !same_values(Some(a), Some(b))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (A::Dict(a), A::Dict(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for entry in a.iter() {
                let other = b.iter().find(|other| other.name == entry.name);
                if !same_values(Some(&entry.value), other.map(|other| &other.value))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (a, b) if a.tensors().chain(b.tensors()).next().is_some() => {
            let (mut of_a, mut of_b) = (a.tensors(), b.tensors());
            loop {
                match (of_a.next(), of_b.next()) {
                    (None, None) => return Ok(true),
                    (Some(a), Some(b)) if same_tensors(a, b)? => {}
                    _ => return Ok(false),
                }
            }
        }
        // NaN is not equal to itself, but has the same `Debug` form.
        (a, b) => Ok(a == b || format!("{a:?}") == format!("{b:?}")),
    }
}

fn same_tensors(a: &Tensor, b: &Tensor) -> Result<bool> {
    let elsewhere = |tensor: &Tensor| Tensor { data: Default::default(), ..tensor.clone() };
    if a == b {
        return Ok(true);
    }
    if a.data.len() != b.data.len() || a.kind.name() != b.kind.name() {
        return Ok(false);
    }
    let blobs = a.blobs().zip(b.blobs());
    for (a, b) in blobs {
        if a.len() != b.len() || a.read()? != b.read()? {
            return Ok(false);
        }
    }
    let (a, b) = (elsewhere(a), elsewhere(b));
    Ok((a.dtype, &a.shape, &a.doc_string) == (b.dtype, &b.shape, &b.doc_string))
}

/// Returns the short text form of an attribute value.
fn short(value: &AttributeValue) -> String {
    words::cut(&words::constant(value))
}

/// Returns the differences outside the operators.
fn outside_operators(a: &Program, b: &Program, names: &Names<'_>) -> Vec<Detail> {
    let mut details = Vec::new();
    let empty = Block::default();
    let [main_a, main_b] = [a, b].map(|program| program.blocks.first().unwrap_or(&empty));
    for (what, of_a, of_b) in
        [("inputs", &main_a.inputs, &main_b.inputs), ("outputs", &main_a.outputs, &main_b.outputs)]
    {
        let now: Vec<&str> = of_a.iter().map(|name| names.of(name)).collect();
        if now != of_b.iter().map(String::as_str).collect::<Vec<_>>() {
            details.push(Detail::of(what, Some(of_a.join(", ")), Some(of_b.join(", "))));
        }
    }
    let vars: HashMap<&str, &Var> =
        main_b.vars.iter().map(|var| (var.name.as_str(), var)).collect();
    for var in &main_a.vars {
        let Some(other) = vars.get(names.of(&var.name)) else { continue };
        let (now, then) = (declared(a, var), declared(b, other));
        if now != then {
            details.push(Detail::of(format!("variable {}", var.name), Some(now), Some(then)));
        }
    }
    if a.version != b.version {
        let version = |program: &Program| program.version.map(|version| version.to_string());
        details.push(Detail::of("version", version(a), version(b)));
    }
    let sets = |program: &Program| -> BTreeMap<String, i64> {
        program.operator_versions.iter().cloned().collect()
    };
    let (of_a, of_b) = (sets(a), sets(b));
    for name in of_a.keys().chain(of_b.keys()).collect::<BTreeSet<_>>() {
        let (old, new) = (of_a.get(name), of_b.get(name));
        if old != new {
            let what = match (conventions(a).has_opsets, name.as_str()) {
                (true, "") => "opset".to_owned(),
                (true, name) => format!("opset {name}"),
                (false, name) => format!("version of `{name}`"),
            };
            let text = |version: Option<&i64>| version.map(ToString::to_string);
            details.push(Detail::of(what, text(old), text(new)));
        }
    }
    let functions = |program: &Program| -> BTreeSet<String> {
        let name = |f: &lodstone_model::Function| format!("{}.{}.{}", f.domain, f.name, f.overload);
        program.functions.iter().map(name).collect()
    };
    let (of_a, of_b) = (functions(a), functions(b));
    for name in of_a.symmetric_difference(&of_b) {
        let there = |set: &BTreeSet<String>| set.contains(name).then(|| "defined".to_owned());
        let what = format!("function {}", name.trim_matches('.'));
        details.push(Detail::of(what, there(&of_a), there(&of_b)));
    }
    details
}

/// Returns the declared type of a variable.
fn declared(program: &Program, var: &Var) -> String {
    let mut text = String::new();
    add_kinds(&var.value, &mut text);
    var.value.tensors().into_iter().for_each(|tensor| text += &format!(" {tensor}"));
    let flags = [(var.persistable, "persistable"), (var.is_parameter, "parameter")];
    let common = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag);
    let own = (conventions(program).flags)(var);
    common.chain(own).for_each(|flag| text += &format!(" {flag}"));
    text
}

/// Returns the kinds of a value and of its nested values, from the outside in.
fn add_kinds(value: &ValueType, text: &mut String) {
    text.push_str(&value.kind());
    let mut inner = |value: &ValueType| {
        text.push(' ');
        add_kinds(value, text);
    };
    match value {
        ValueType::List(element) | ValueType::Optional(element) => inner(element),
        ValueType::Dict(key, value) => {
            inner(&ValueType::Scalar(*key));
            inner(value);
        }
        ValueType::Tuple(members) => members.iter().for_each(inner),
        ValueType::Unspecified
        | ValueType::Tensor(_)
        | ValueType::Sparse(_)
        | ValueType::Scalar(_)
        | ValueType::Class(_)
        | ValueType::Holder(_)
        | ValueType::Unknown(_) => {}
    }
}

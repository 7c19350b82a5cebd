//! Damaged variants of recorded operators: each computes something or reports an error, within its memory limit.

use std::collections::{BTreeMap, BTreeSet};

use lodstone_model::{AttributeValue, ByteString, DType, Kind, Lod, Op, Tensor};
use lodstone_paddle::executor::{Dirs, Error, Executor, Scope};
use lodstone_schema::finding::Code;
use lodstone_schema::paddle::{attribute, attributes, closed_sets};
use lodstone_store::Blob;

use super::recorded::{GRADIENTS, OPERATORS, SEQUENCES, Tensors, program, recorded};

/// The memory limit of a run.
const MEMORY: u64 = 16 << 20;

/// The number of recorded cases per kind that are damaged.
pub(crate) const CASES: usize = 4;

const INTS: [i32; 7] = [i32::MIN, i32::MAX, -1, 0, 3, 1 << 16, 1 << 30];
const LONGS: [i64; 7] = [i64::MIN, i64::MAX, -1, 0, 3, 1 << 32, 1 << 62];
const FLOATS: [f32; 5] = [f32::NAN, f32::INFINITY, -1.0, 0.0, 1e30];

/// An operator, and its inputs.
pub(crate) struct Subject<'c> {
    pub(crate) op: Op,
    pub(crate) feed: Tensors<'c>,
}

/// Returns lists that differ from one in a single member, or in length.
fn lists<T: Copy>(list: &[T], members: &[T]) -> Vec<Vec<T>> {
    let mut made = vec![Vec::new(), list.repeat(2), members.to_vec()];
    for place in 0..list.len() {
        for member in members {
            let mut other = list.to_vec();
            other[place] = *member;
            made.push(other);
        }
    }
    made
}

fn values(like: &AttributeValue) -> Vec<AttributeValue> {
    let mut values: Vec<AttributeValue> = match like {
        AttributeValue::Bool(value) => vec![AttributeValue::Bool(!value)],
        AttributeValue::Int(_) => INTS.map(AttributeValue::Int).to_vec(),
        AttributeValue::Long(_) => LONGS.map(AttributeValue::Long).to_vec(),
        AttributeValue::Float(_) => FLOATS.map(AttributeValue::Float).to_vec(),
        AttributeValue::Ints(list) => {
            lists(list, &INTS).into_iter().map(AttributeValue::Ints).collect()
        }
        AttributeValue::Longs(list) => {
            lists(list, &LONGS).into_iter().map(AttributeValue::Longs).collect()
        }
        AttributeValue::Floats(list) => {
            lists(list, &FLOATS).into_iter().map(AttributeValue::Floats).collect()
        }
        AttributeValue::String(_) => {
            ["", "nonsense"].map(|text| AttributeValue::String(ByteString::from(text))).to_vec()
        }
        _ => Vec::new(),
    };
    // A value of another type.
    values.push(AttributeValue::Doubles(vec![0.5]));
    values
}

/// Damages attributes: those that are set, and those with a default.
fn with_attributes(op: &Op) -> Vec<(String, Op)> {
    let mut made = Vec::new();
    for parameter in attributes(&op.kind) {
        let own = op.attribute(parameter.name).cloned().or_else(|| parameter.default.clone());
        for value in own.iter().flat_map(values) {
            let mut op = op.clone();
            op.attributes.retain(|attribute| attribute.name != parameter.name);
            let what = format!("{} is {value:?}", parameter.name);
            op.attributes
                .push(lodstone_model::Attribute { name: parameter.name.to_owned(), value });
            made.push((what, op));
        }
        if op.attribute(parameter.name).is_some() {
            let mut op = op.clone();
            op.attributes.retain(|attribute| attribute.name != parameter.name);
            made.push((format!("without {}", parameter.name), op));
        }
    }
    made
}

/// Returns operators with a missing slot, or with a variable twice.
fn with_slots(op: &Op) -> Vec<(String, Op)> {
    let mut made = Vec::new();
    for place in 0..op.inputs.len() {
        let (mut without, mut twice) = (op.clone(), op.clone());
        let slot = without.inputs.remove(place).slot;
        made.push((format!("without {slot}"), without));
        if let Some(operand) = twice.inputs.get_mut(place) {
            operand.args.extend_from_within(..);
        }
        made.push((format!("with {slot} twice"), twice));
    }
    for place in 0..op.outputs.len() {
        let mut without = op.clone();
        let slot = without.outputs.remove(place).slot;
        made.push((format!("without {slot}"), without));
    }
    made
}

fn filled(dtype: DType, shape: &[u64], byte: u8) -> Tensor {
    let size = dtype.size_of(shape).and_then(|size| usize::try_from(size).ok()).unwrap();
    Tensor::dense(dtype, shape.to_vec(), Blob::memory(vec![byte; size]))
}

/// Returns replacements of a tensor: of other types and dims, and with extreme elements.
fn tensors(like: &Tensor) -> Vec<Tensor> {
    let mut made = vec![
        filled(like.dtype, &[], 0),
        filled(like.dtype, &[0], 0),
        filled(like.dtype, &[0, 3, 0, 2], 0),
        filled(like.dtype, &[1], 1),
        filled(like.dtype, &[2, 1, 3, 1, 2], 0),
    ];
    for dtype in [DType::Float32, DType::Float64, DType::Int64, DType::Int32, DType::Bool] {
        made.push(filled(dtype, &like.shape, 1));
    }
    if !like.dtype.is_float() && like.dtype != DType::Bool {
        made.extend([0, 0x7f, 0x80, 0xff].map(|byte| filled(like.dtype, &like.shape, byte)));
    }
    made.iter_mut().for_each(|tensor| {
        let rows = tensor.shape.first().copied().unwrap_or(0);
        if like.lod.check(rows).is_ok() {
            tensor.lod = like.lod.clone();
        }
    });
    made.extend(sequences(like));
    made.extend(rows(like));
    made
}

/// Returns the same rows as other sequences.
fn sequences(like: &Tensor) -> Vec<Tensor> {
    let rows = like.shape.first().copied().unwrap_or(0);
    let other = [
        vec![],
        vec![vec![0, rows]],
        vec![vec![0, 0, rows, rows]],
        vec![vec![0, rows.min(1), rows]],
        vec![vec![0, 1, 2], vec![0, 0, rows]],
        vec![(0..=rows).collect()],
    ];
    let other = other.into_iter().filter(|_| !like.lod.is_empty()).map(Lod);
    other.map(|lod| Tensor { lod, ..like.clone() }).collect()
}

/// Returns selected rows with other indices, of tensors of other heights.
fn rows(like: &Tensor) -> Vec<Tensor> {
    let Kind::SelectedRows { rows, height } = &like.kind else { return Vec::new() };
    let numbers = rows.bytes().unwrap().len() / 8;
    let all = |number: i64, count: usize| Blob::memory(number.to_le_bytes().repeat(count));
    let mut made: Vec<(Blob, i64)> = LONGS.map(|number| (all(number, numbers), *height)).to_vec();
    made.extend(LONGS.map(|height| (rows.clone(), height)));
    made.extend([(all(0, 0), *height), (all(0, numbers + 1), *height)]);
    let kind = |(rows, height)| Kind::SelectedRows { rows, height };
    made.into_iter().map(|rows| Tensor { kind: kind(rows), ..like.clone() }).collect()
}

/// Returns variants of an operator and its inputs, each damaged in one place.
pub(crate) fn variants<'c>(op: &Op, feed: &Tensors<'c>) -> Vec<(String, Subject<'c>)> {
    let changed = with_attributes(op).into_iter().chain(with_slots(op));
    let mut made: Vec<_> =
        changed.map(|(what, op)| (what, Subject { op, feed: feed.clone() })).collect();
    for (place, (name, tensor)) in feed.iter().enumerate() {
        for other in tensors(tensor) {
            let what = format!("{name} is {}{:?}", other.dtype, other.shape);
            let mut feed = feed.clone();
            feed[place].1 = other;
            made.push((what, Subject { op: op.clone(), feed }));
        }
    }
    made
}

/// Runs an operator, and returns its error.
fn failure_of(subject: &Subject<'_>) -> Option<Error> {
    let program = program(subject.op.clone(), &subject.feed);
    let feed: Tensors<'_> = subject
        .feed
        .iter()
        .filter(|(name, _)| subject.op.reads().any(|read| read == *name))
        .cloned()
        .collect();
    let fetch: Vec<&str> = subject.op.writes().collect();
    let mut scope = Scope::default().with_memory(MEMORY);
    Executor::default().run(&program, &mut scope, &feed, &fetch, &Dirs::default()).err()
}

/// Describes how a damaged operator fails the test.
fn failure(subject: &Subject<'_>) -> (bool, Option<String>) {
    match failure_of(subject) {
        None => (true, None),
        Some(Error::Operator { place, finding }) => {
            let is_reported = place.kind == subject.op.kind && finding.code != Code::Internal;
            (false, (!is_reported).then_some(finding.message))
        }
        Some(Error::Variable { .. }) => (false, None),
        Some(other) => (false, Some(other.to_string())),
    }
}

/// The peak memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn damaged_operators_are_answered() {
    check_all(OPERATORS, (15_000, 8_000));
}

#[test]
fn damaged_gradients_are_answered() {
    check_all(GRADIENTS, (9_000, 9_000));
}

#[test]
fn damaged_operators_of_sequences_and_rows_are_answered() {
    check_all(SEQUENCES, (3_000, 2_900));
}

/// Every attribute with a closed set of values rejects others, with what is allowed.
#[test]
fn other_values_than_those_of_a_closed_set_are_rejected() {
    let (mut tried, mut wrong) = (BTreeSet::new(), Vec::new());
    for folder in [OPERATORS, GRADIENTS, SEQUENCES] {
        let recorded = recorded(folder);
        for case in &recorded.cases {
            let (op, feed, _) = recorded.case(case);
            for (name, allowed) in closed_sets(&op.kind) {
                if !tried.insert((op.kind.clone(), *name)) {
                    continue;
                }
                let value = match attribute(&op, name) {
                    Some(AttributeValue::Int(_)) => AttributeValue::Int(77),
                    Some(AttributeValue::Bool(_)) => AttributeValue::Bool(true),
                    None if allowed == &["false"] => AttributeValue::Bool(true),
                    _ => AttributeValue::String(ByteString::from("nonsense")),
                };
                let mut op = op.clone();
                op.attributes.retain(|it| it.name != *name);
                op.attributes.push(lodstone_model::Attribute { name: (*name).to_owned(), value });
                let found = failure_of(&Subject { op, feed: feed.clone() });
                let is_right = |error: &Error| match error {
                    Error::Operator { finding, .. } => {
                        finding.message.contains(&format!("expected `{name}` of "))
                    }
                    _ => false,
                };
                if !found.as_ref().is_some_and(is_right) {
                    wrong.push(format!("{}: {name}: {found:?}", case["name"]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(tried.len() > 60, "{} attributes were tried", tried.len());
}

/// Fails if a case of a folder fails, or too few are computed or rejected.
fn check_all(folder: &str, least: (usize, usize)) {
    let recorded = recorded(folder);
    let (mut seen, mut wrong) = (BTreeMap::<&str, usize>::new(), BTreeMap::new());
    let (mut computed, mut refused) = (0, 0);
    for case in &recorded.cases {
        let kind = case["kind"].as_str().unwrap();
        let count = seen.entry(kind).or_default();
        *count += 1;
        if *count > CASES {
            continue;
        }
        let (op, feed, _) = recorded.case(case);
        for (what, subject) in variants(&op, &feed) {
            let (is_computed, failure) = failure(&subject);
            *(if is_computed { &mut computed } else { &mut refused }) += 1;
            if let Some(failure) = failure {
                wrong.entry(kind).or_insert(format!("{}: {what}: {failure}", case["name"]));
            }
        }
    }
    let told: Vec<&String> = wrong.values().collect();
    assert!(wrong.is_empty(), "{} kinds fail: {told:#?}", wrong.len());
    assert!(computed > least.0 && refused > least.1, "{computed} computed, {refused} refused");
    #[cfg(target_os = "linux")]
    assert!(peak() < 1 << 30, "{} bytes", peak());
}

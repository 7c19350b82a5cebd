//! What names of types stand for in one operator: `T` is the same type wherever it appears.

use std::borrow::Cow;
use std::collections::HashMap;

use lodstone_model::{Attribute, Op, ValueType};

use super::upgrade::changes;
use super::{Formal, Operator, newest_opset, operator, quoted, type_name};
use crate::Finding;

/// Fails if an operator, as a version of its set has it, cannot read values of these types; none is where an
/// input is left out. What is not known is let pass.
///
/// # Errors
/// Which input it is, and what it may be.
pub fn admits(op: &Op, version: i64, inputs: &[Option<&ValueType>]) -> Result<(), Finding> {
    let Some(known) = operator(&op.domain, &op.kind, version) else { return Ok(()) };
    let mut bound = Bound::default();
    for (number, input) in inputs.iter().enumerate() {
        let (Some(formal), Some(name)) = (known.input(number), input.and_then(type_name)) else {
            continue;
        };
        if let Some(wrong) = bound.take(known, formal, &name) {
            return Err(wrong.within(format!("input {number}")).about_input(number));
        }
    }
    Ok(())
}

/// Changes of operators after which everything that is left means what it meant before: the older version has more
/// types, or nothing else.
const NARROWING: [&str; 2] = ["same", "floats"];

/// The lowest version of ONNX's operators, from `from` on, in which an operator of the newest version that reads values
/// of these types is valid and means the same; none if there is no such version.
pub fn lowest_opset(op: &Op, inputs: &[Option<&ValueType>], from: i64) -> Option<i64> {
    let newest = newest_opset("")?;
    let changed = |(version, how): &(i64, &str)| !NARROWING.contains(how) && *version > from;
    let last =
        changes(&op.kind).iter().filter(|change| changed(change)).map(|(version, _)| *version);
    let mut candidates = last.max().unwrap_or(from)..=newest;
    candidates.find(|version| {
        let Some(known) = operator(&op.domain, &op.kind, *version) else { return false };
        let has = |attribute: &Attribute| known.attribute(&attribute.name).is_some();
        let reads = |(number, input): (usize, &Option<&ValueType>)| {
            input.is_none() || known.input(number).is_some()
        };
        let gives =
            |(number, name): (usize, &String)| name.is_empty() || known.output(number).is_some();
        op.attributes.iter().all(has)
            && inputs.iter().enumerate().all(reads)
            && op.output("").iter().enumerate().all(gives)
            && admits(op, *version, inputs).is_ok()
    })
}

/// What names of types stand for in an operator.
#[derive(Default)]
pub(super) struct Bound {
    types: HashMap<&'static str, String>,
}

impl Bound {
    /// Takes a value of type `found` for an input or output; says what is wrong with it.
    pub(super) fn take(
        &mut self,
        known: &Operator,
        formal: &Formal,
        found: &str,
    ) -> Option<Finding> {
        let name = quoted(formal.name);
        match known.types_of(formal.types) {
            None if formal.types != found => {
                return Some(format!("{name} is {found}, expected {}", formal.types).into());
            }
            Some(allowed) if !allowed.contains(&found) => {
                let what = format!("{name} is {found}, which {} cannot be", formal.types);
                return Some(what.into());
            }
            _ => {}
        }
        if !formal.homogeneous {
            return None;
        }
        let other = self.types.entry(formal.types).or_insert_with(|| found.to_owned());
        (other != found).then(|| {
            format!("{name} is {found}, where {} is {other} elsewhere", formal.types).into()
        })
    }

    /// The type of an output, if it can be told.
    pub(super) fn of<'m>(&self, known: &Operator, formal: &Formal) -> Option<Cow<'m, str>> {
        if let Some(bound) = self.types.get(formal.types).filter(|_| formal.homogeneous) {
            return Some(Cow::Owned(bound.clone()));
        }
        match known.types_of(formal.types) {
            None => Some(Cow::Borrowed(formal.types)),
            Some([only]) => Some(Cow::Borrowed(only)),
            Some(_) => None,
        }
    }
}

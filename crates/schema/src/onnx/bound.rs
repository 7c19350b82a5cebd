//! Type variables of one operator: `T` is the same type wherever it appears.

use std::borrow::Cow;
use std::collections::HashMap;

use lodstone_model::{Attribute, Op, ValueType};

use super::upgrade::changes;
use super::{Formal, Operator, newest_opset, operator, quoted, type_name};
use crate::Finding;

/// Checks that an operator, in a version of its opset, accepts inputs of these types. `None` stands for an omitted
/// input. Unknown types are accepted.
///
/// # Errors
/// The input that is not accepted, and the types that are.
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

/// Changes after which everything that is still valid keeps its meaning: the older version accepts more types, or is the
/// same.
const NARROWING: [&str; 2] = ["same", "floats"];

/// Returns the lowest version of the ONNX opset, starting at `from`, in which an operator of the newest version with
/// inputs of these types is valid and means the same; `None` if there is no such version.
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

/// Whether an operator, in a version of its opset, may have results of these types, which are not determined by those of
/// its inputs.
pub(super) fn returns(op: &Op, version: i64, outputs: &[Option<&ValueType>]) -> bool {
    let Some(known) = operator(&op.domain, &op.kind, version) else { return true };
    let is_free = |formal: &Formal| known.inputs.iter().all(|input| input.types != formal.types);
    outputs.iter().enumerate().all(|(number, output)| {
        let formal = known.output(number).filter(|formal| is_free(formal));
        let (Some(formal), Some(name)) = (formal, output.and_then(type_name)) else { return true };
        known.types_of(formal.types).is_none_or(|allowed| allowed.contains(&&*name))
    })
}

/// The types that the type variables of an operator are bound to.
#[derive(Default)]
pub(super) struct Bound {
    types: HashMap<&'static str, String>,
}

impl Bound {
    /// Binds a value of type `found` to an input or output; returns the finding if it does not fit.
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
                let what = format!("{name} is {found}, which {} does not allow", formal.types);
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

    /// Returns the type of an output, if it is determined.
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

//! What names of types stand for in one operator: `T` is the same type wherever it appears.

use std::borrow::Cow;
use std::collections::HashMap;

use lodstone_model::{Op, ValueType};

use super::{Formal, Operator, operator, quoted, type_name};
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

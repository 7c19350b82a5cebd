//! The attributes of an operator against the table: their names, types and values.
//!
//! The checker reports every mistake; inference and upgrades reject the operator, so that no kernel and no lowering reads
//! an attribute that its operator does not have, or a value that it does not define.

use lodstone_model::{Attribute, AttributeValue, Op};

use super::scopes::Bindings;
use super::{AttributeSpec, Operator, attribute_kind, quoted, versions};
use crate::closed::refused;
use crate::{Finding, Operand};

/// Attributes of removed versions that had no effect on results.
const WITHOUT_EFFECT: [&str; 1] = ["consumed_inputs"];

/// Checks the attributes of an operator of version `opset` of its domain; `bindings` has the attributes of the function
/// call around it. An operator that is not in the table passes; one that the version does not have is checked against the
/// closest version that does. An attribute of a later version passes: exporters write them into models with old opsets.
///
/// # Errors
/// The first of the [`mistakes`].
pub(super) fn check(op: &Op, opset: i64, bindings: &Bindings<'_>) -> Result<(), Finding> {
    let all = versions(&op.domain, &op.kind).filter(|version| !version.deprecated);
    let (mut known, later): (Vec<_>, Vec<_>) = all.partition(|version| version.since <= opset);
    let known = known.pop().or(later.first().copied());
    let Some(known) = known else { return Ok(()) };
    let passes = |finding: &Finding| match finding.operand.as_deref() {
        Some(Operand::Attribute(name)) if known.attribute(name).is_none() => {
            let is_later = later.iter().any(|version| version.attribute(name).is_some());
            is_later || WITHOUT_EFFECT.contains(&name.as_str())
        }
        _ => false,
    };
    let wrong = mistakes(op, known, bindings).find(|finding| !passes(finding));
    wrong.map_or(Ok(()), Err)
}

/// Returns all mistakes in the attributes of an operator: unknown ones, values of another type or that are not allowed, and
/// required ones that are missing.
pub(super) fn mistakes<'a>(
    op: &'a Op,
    known: &'a Operator,
    bindings: &'a Bindings<'_>,
) -> impl Iterator<Item = Finding> + 'a {
    let wrong = op.attributes.iter().filter_map(|attribute| {
        let wrong = mistake(attribute, known, bindings)?;
        Some(Finding::from(wrong).about_attribute(&attribute.name))
    });
    let required = known.attributes.iter().filter(|parameter| parameter.required);
    let missing = required.filter(|parameter| op.attribute(parameter.name).is_none());
    wrong.chain(missing.map(|parameter| {
        let wrong = format!("has no attribute {}", quoted(parameter.name));
        Finding::from(wrong).about_attribute(parameter.name)
    }))
}

fn mistake(attribute: &Attribute, known: &Operator, bindings: &Bindings<'_>) -> Option<String> {
    let Attribute { name, value } = attribute;
    let Some(parameter) = known.attribute(name) else {
        // Names with this prefix are free for exporters.
        return (!name.starts_with("__"))
            .then(|| format!("has unknown attribute {}", quoted(name)));
    };
    let kind = attribute_kind(value);
    if kind != parameter.kind {
        return Some(format!("attribute {} is {kind}, expected {}", quoted(name), parameter.kind));
    }
    let value = match value {
        AttributeValue::Reference { name, .. } => bindings.get(name.as_str()).copied()?,
        value => value,
    };
    let found = words(value).into_iter().find(|found| !parameter.allows(found))?;
    Some(refused(name, parameter.values.unwrap_or_default(), &found))
}

/// Returns what the value of a string attribute stands for: the first of the meanings if it is absent. A value that the operator
/// does not define has been rejected before: inference checks the attributes of each node against the table.
///
/// # Errors
/// An internal error if the value has no meaning.
pub fn meaning<T: Copy>(
    found: Option<&[u8]>,
    name: &str,
    meanings: &[(&str, T)],
) -> Result<T, Finding> {
    let is_found = |(value, _): &&(&str, T)| found.is_none_or(|it| it == value.as_bytes());
    let meaning = meanings.iter().find(is_found).map(|(_, meaning)| *meaning);
    meaning.ok_or_else(|| Finding::internal(format!("this value of `{name}` has no meaning")))
}

/// Returns the elements of an attribute as the table writes them.
fn words(value: &AttributeValue) -> Vec<String> {
    match value {
        AttributeValue::String(text) => vec![text.to_string()],
        AttributeValue::Strings(texts) => texts.iter().map(ToString::to_string).collect(),
        AttributeValue::Long(number) => vec![number.to_string()],
        AttributeValue::Longs(numbers) => numbers.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

impl AttributeSpec {
    /// Returns whether a value is allowed: any, unless the table has a set.
    fn allows(&self, value: &str) -> bool {
        self.values.is_none_or(|values| values.contains(&value))
    }
}

//! The arguments of operators, and the values of those with a closed set.
//!
//! Caffe2 ignores arguments that an operator does not read. Here, a name that no operator reads is an error, since it is
//! misspelled or made for another framework.
//!
//! Source of truth: `caffe2_values.tsv`, what Caffe2 takes and rejects (`make_caffe2_values.py`).

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use lodstone_model::{AttributeValue, Op};

use crate::Finding;
use crate::closed::listed;
use crate::onnx::quoted;

/// The names that some operator reads, and the values of those with a closed set, by operator.
struct Table {
    names: HashSet<&'static str>,
    closed: HashMap<(&'static str, &'static str), Vec<&'static str>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table { names: HashSet::new(), closed: HashMap::new() };
    for line in include_str!("../../data/caffe2_values.tsv").lines() {
        let mut columns = line.split('\t').map(str::trim);
        let mut next = || columns.next().unwrap_or_default();
        let (kind, name, values) = (next(), next(), next());
        match kind {
            "*" => {
                table.names.insert(name);
            }
            kind => {
                table.closed.insert((kind, name), values.split(' ').collect());
            }
        }
    }
    table
});

/// Returns the arguments with closed sets of all operators: operator, argument, values.
pub fn closed_arguments()
-> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
    TABLE.closed.iter().map(|((kind, name), values)| (*kind, *name, values.as_slice()))
}

/// Whether any operator reads an argument of this name.
pub fn is_argument(name: &str) -> bool {
    TABLE.names.contains(name)
}

/// Checks the names of the arguments of an operator, and the values of those with a closed set.
///
/// # Errors
/// An argument that no operator reads, or a value that Caffe2 does not take.
pub fn check_arguments(op: &Op) -> Result<(), Finding> {
    // `ATen` passes its arguments to a function of ATen, and what other operators read is not known.
    let is_open = op.kind == "ATen" || !super::is_known(&op.kind);
    for argument in &op.attributes {
        let name = argument.name.as_str();
        let finding = |what: String| Err(Finding::from(what).about_attribute(name));
        if !is_open && !is_argument(name) {
            return finding(format!(
                "the argument {} is unknown: no operator of Caffe2 reads it",
                quoted(name)
            ));
        }
        let Some(values) = TABLE.closed.get(&(op.kind.as_str(), name)) else { continue };
        let are_numbers = values.iter().all(|value| value.parse::<i64>().is_ok());
        // Element types also have names, which the rule of the operator reads.
        let found = match &argument.value {
            AttributeValue::Long(number) => number.to_string(),
            AttributeValue::String(_) if are_numbers => continue,
            AttributeValue::String(text) => text.to_string(),
            _ => continue,
        };
        if !values.contains(&found.as_str()) {
            let allowed = listed(values.iter().copied());
            return finding(format!(
                "expected one of {allowed} as {}, found {}",
                quoted(name),
                quoted(&found)
            ));
        }
    }
    Ok(())
}

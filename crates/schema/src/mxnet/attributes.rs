//! The attributes that operators have, and the values that those with a closed set take.
//!
//! Source of truth: `mxnet_values.tsv`, which the known releases list themselves (`make_mxnet_values.py`). What no release has
//! is an error, as in MXNet, which rejects it when a program is loaded.

use std::sync::LazyLock;

use lodstone_model::{AttributeValue, Op};

use super::real_name;
use crate::Finding;
use crate::closed::listed;
use crate::onnx::quoted;
use crate::rows::Rows;

/// The attributes of an operator.
#[derive(Debug)]
pub struct Attributes {
    /// Names and values.
    all: Vec<(&'static str, Values)>,
    /// Whether it takes attributes of any name.
    is_open: bool,
}

/// The values of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Numbers, tuples, or any text.
    Any,
    /// A truth value, or `None` if there is no default.
    Boolean {
        /// Whether `None` is allowed.
        is_optional: bool,
    },
    /// These words.
    Words(Vec<&'static str>),
}

impl Attributes {
    /// Returns all names and values, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &Values)> {
        self.all.iter().map(|(name, values)| (*name, values))
    }

    /// Returns the values of an attribute; `None` if the operator does not have it.
    pub fn values(&self, name: &str) -> Option<&Values> {
        self.all.iter().find(|(known, _)| *known == name).map(|(_, values)| values)
    }
}

/// Returns the attributes of an operator; `None` if it has none.
pub fn attributes(kind: &str) -> Option<&'static Attributes> {
    static ROWS: LazyLock<Rows<Attributes>> =
        LazyLock::new(|| Rows::new(include_str!("../../data/mxnet_values.tsv"), 0, parse));
    ROWS.get(kind).or_else(|| ROWS.get(real_name(kind)))
}

fn parse(lines: &mut dyn Iterator<Item = &'static str>) -> Attributes {
    let mut parsed = Attributes { all: Vec::new(), is_open: false };
    for line in lines {
        let mut columns = line.split('\t').skip(1);
        let name = columns.next().unwrap_or_default();
        let words: Vec<&str> = columns.next().unwrap_or_default().split(' ').collect();
        let values = match words.as_slice() {
            ["-"] => Values::Any,
            words if words.contains(&"boolean") => {
                Values::Boolean { is_optional: words.contains(&"None") }
            }
            words => Values::Words(words.to_vec()),
        };
        match name {
            "*" => parsed.is_open = true,
            name => parsed.all.push((name, values)),
        }
    }
    parsed
}

/// Checks the names of the attributes of an operator, and the values of those with a closed set. MXNet itself ignores the
/// attributes of operators that have none.
///
/// # Errors
/// An attribute that no release has, or a value that none takes.
pub fn check_attributes(op: &Op) -> Result<(), Finding> {
    let Some(known) = attributes(&op.kind) else { return Ok(()) };
    for attribute in &op.attributes {
        let name = attribute.name.as_str();
        // Others are not MXNet's, such as the graphs that an operator runs.
        let AttributeValue::String(text) = &attribute.value else { continue };
        // Attributes of the user.
        if name.starts_with("__") && name.ends_with("__") {
            continue;
        }
        let finding = |what: String| Err(Finding::from(what).about_attribute(name));
        let Some(values) = known.values(name) else {
            if known.is_open {
                continue;
            }
            let has = listed(known.all().map(|(name, _)| name));
            let unknown = quoted(name);
            return finding(format!("the attribute {unknown} is unknown: the operator has {has}"));
        };
        let text = text.to_string();
        let text = text.trim();
        let (is_allowed, expected) = match values {
            Values::Any => continue,
            Values::Words(words) => (words.contains(&text), listed(words.iter().copied())),
            Values::Boolean { is_optional } => {
                let is_boolean = ["true", "false", "1", "0"]
                    .into_iter()
                    .any(|word| word.eq_ignore_ascii_case(text));
                let none = if *is_optional { ", or `None`" } else { "" };
                let is_none = *is_optional && text == "None";
                (is_boolean || is_none, format!("`True` or `False`{none}"))
            }
        };
        if !is_allowed {
            return finding(format!(
                "expected {expected} as {}, found {}",
                quoted(name),
                quoted(text)
            ));
        }
    }
    Ok(())
}

//! Attributes of PaddlePaddle's operators: their types, defaults and closed sets of values; and the types of inputs of
//! integers.
//!
//! `paddle_values.tsv` has the sets: the attribute, the operators, and what is allowed; `""` is the empty text.
//! PaddlePaddle takes other values of most of these for the default (`interop/paddle_values.py` tries them). The sets of
//! `fuse_*` have what an operator means that no pass has fused: the operators of oneDNN that compute the rest are not known.
//!
//! Names are not a closed set: tools annotate the operators of programs (`out_threshold`, `conv2d_0.w_0_quant_scale`), and
//! PaddlePaddle ignores what it does not know.

use std::collections::HashMap;
use std::sync::LazyLock;

use lodstone_model::{AttributeValue, ByteString, DType, Model, Op};
use serde_json::Value;

use crate::closed::{self, refused};
use crate::onnx::place_of;
use crate::rows::Rows;
use crate::{Finding, Findings};

/// An attribute of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeSpec {
    /// The name of the attribute.
    pub name: &'static str,
    /// The default; `None` if the attribute is a block or a variable.
    pub default: Option<AttributeValue>,
    /// A value of its type: the default, if there is one.
    pub like: Option<AttributeValue>,
}

/// The row with the attributes of all operators.
const EVERY: &str = "*";

static ATTRIBUTES: LazyLock<Rows<Vec<AttributeSpec>>> = LazyLock::new(|| {
    let table = include_str!("../../data/paddle_attributes.tsv");
    Rows::new(table, 0, |lines| lines.map(AttributeSpec::parse).collect())
});

impl AttributeSpec {
    fn parse(line: &'static str) -> Self {
        let mut columns = line.split('\t').skip(1);
        let mut column = || columns.next().unwrap_or_default();
        let (name, kind, default) = (column(), column(), column());
        let default = serde_json::from_str(default).ok().and_then(|value| read(kind, &value));
        let like = default.clone().or_else(|| read(kind, &Value::Null));
        Self { name, default, like }
    }

    /// Whether 2.6.2 rejects an operator without it.
    pub fn is_required(&self) -> bool {
        self.default.is_none() && self.like.is_some()
    }
}

/// Returns the attributes of an operator in the order of the registry, and those of all operators; only the latter if
/// 2.6.2 does not have the operator. A gradient has the attributes of its forward operator.
pub fn attributes(operator: &str) -> impl Iterator<Item = &'static AttributeSpec> {
    let of = |name: &str| ATTRIBUTES.get(name).map_or([].as_slice(), Vec::as_slice);
    let own = match of(operator) {
        [] => of(&operator.replace("_grad", "")),
        own => own,
    };
    own.iter().chain(of(EVERY))
}

/// The closed sets of values, by operator and attribute.
type Values = HashMap<&'static str, Vec<(&'static str, Vec<&'static str>)>>;

static VALUES: LazyLock<Values> = LazyLock::new(|| {
    let mut sets = Values::new();
    for row in closed::rows(include_str!("../../data/paddle_values.tsv")) {
        for kind in row.operators {
            sets.entry(kind).or_default().push((row.attribute, row.values.clone()));
        }
    }
    sets
});

/// Returns the attributes of an operator with a closed set of values, and the sets. A gradient has those of its forward
/// operator.
pub fn closed_sets(kind: &str) -> &'static [(&'static str, Vec<&'static str>)] {
    let own = || VALUES.get(kind);
    own().or_else(|| VALUES.get(kind.replace("_grad", "").as_str())).map_or(&[], Vec::as_slice)
}

/// Checks the values of attributes with a closed set, the default in place of one that is left out.
///
/// # Errors
/// A value that is not in the set.
pub fn check_attributes(op: &Op) -> Result<(), Finding> {
    for (name, allowed) in closed_sets(&op.kind) {
        let found = match attribute(op, name) {
            Some(AttributeValue::String(text)) => text.to_string(),
            Some(AttributeValue::Int(number)) => number.to_string(),
            Some(AttributeValue::Bool(flag)) => flag.to_string(),
            // What takes another type reports it.
            _ => continue,
        };
        if !allowed.contains(&found.as_str()) {
            let message = refused(name, allowed, &found);
            return Err(Finding::from(message).about_attribute(name));
        }
    }
    Ok(())
}

/// Checks the attributes of all operators of a model.
pub(super) fn check(model: &Model) -> Findings {
    let mut findings = Findings::default();
    for (_, program) in model.programs.iter() {
        for (number, block) in program.blocks.iter().enumerate() {
            for (index, op) in block.ops.iter().enumerate() {
                if let Err(finding) = check_attributes(op) {
                    findings.add(place_of(&format!("block {number}"), index, op), finding);
                }
            }
        }
    }
    findings
}

/// Returns the value of an attribute of an operator, or its default in the registry.
pub fn attribute<'o>(op: &'o Op, name: &str) -> Option<&'o AttributeValue> {
    let default = || attributes(&op.kind).find(|known| known.name == name)?.default.as_ref();
    op.attribute(name).or_else(default)
}

/// Returns the element type of an input of integers, if 2.6.2 reads only one: an index, a size, a label.
pub fn input_type(operator: &str, slot: &str) -> Option<DType> {
    static TYPES: LazyLock<Rows<Vec<(&str, DType)>>> = LazyLock::new(|| {
        let table = include_str!("../../data/paddle_input_types.tsv");
        Rows::new(table, 0, |lines| lines.filter_map(input_of).collect())
    });
    let slots = TYPES.get(operator)?;
    slots.iter().find(|(known, _)| *known == slot).map(|(_, dtype)| *dtype)
}

/// Reads a slot and its element type from a line.
fn input_of(line: &'static str) -> Option<(&'static str, DType)> {
    let mut columns = line.split('\t').skip(1);
    Some((columns.next()?, DType::from_name(columns.next()?)?))
}

/// Converts a value of the table to a type; an empty value if it is null.
fn read(kind: &str, value: &Value) -> Option<AttributeValue> {
    let long = |value: &Value| value.as_i64().unwrap_or_default();
    let int = |value: &Value| i32::try_from(long(value)).unwrap_or_default();
    let double = |value: &Value| value.as_f64().unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "the registry stores a float")]
    let float = |value: &Value| double(value) as f32;
    let text = |value: &Value| ByteString::from(value.as_str().unwrap_or_default());
    let bool = |value: &Value| value.as_bool().unwrap_or_default();
    fn all<T>(value: &Value, of: impl Fn(&Value) -> T) -> Vec<T> {
        value.as_array().into_iter().flatten().map(of).collect()
    }
    Some(match kind {
        "INT" => AttributeValue::Int(int(value)),
        "LONG" => AttributeValue::Long(long(value)),
        "FLOAT" => AttributeValue::Float(float(value)),
        "FLOAT64" => AttributeValue::Double(double(value)),
        "STRING" => AttributeValue::String(text(value)),
        "BOOLEAN" => AttributeValue::Bool(bool(value)),
        "INTS" => AttributeValue::Ints(all(value, int)),
        "LONGS" => AttributeValue::Longs(all(value, long)),
        "FLOATS" => AttributeValue::Floats(all(value, float)),
        "FLOAT64S" => AttributeValue::Doubles(all(value, double)),
        "STRINGS" => AttributeValue::Strings(all(value, text)),
        "BOOLEANS" => AttributeValue::Bools(all(value, bool)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default(operator: &str, name: &str) -> Option<AttributeValue> {
        attributes(operator).find(|parameter| parameter.name == name)?.default.clone()
    }

    #[test]
    fn defaults_are_those_of_the_registry() {
        assert_eq!(default("dropout", "dropout_prob"), Some(AttributeValue::Float(0.5)));
        assert_eq!(default("conv2d", "strides"), Some(AttributeValue::Ints(vec![1, 1])));
        assert_eq!(default("relu", "op_role"), Some(AttributeValue::Int(4096)));
        assert_eq!(default("scale", "bias_after_scale"), Some(AttributeValue::Bool(true)));
        assert_eq!(default("softmax_grad", "axis"), Some(AttributeValue::Int(-1)));
        assert_eq!(default("momentum", "mu"), None);
        assert_eq!(default("while", "sub_block"), None);
    }

    #[test]
    fn every_input_type_is_that_of_a_slot() {
        for line in include_str!("../../data/paddle_input_types.tsv").lines() {
            let columns: Vec<&str> = line.split('\t').collect();
            let [kind, slot, dtype] = columns.as_slice() else { unreachable!("{line}") };
            let row = crate::paddle::operator(kind);
            assert!(row.is_some_and(|row| row.inputs.iter().any(|it| it.name == *slot)), "{line}");
            assert_eq!(input_type(kind, slot), DType::from_name(dtype), "{line}");
        }
        assert_eq!(input_type("reshape2", "Shape"), None);
    }

    #[test]
    fn every_closed_set_is_of_known_operators() {
        for line in include_str!("../../data/paddle_values.tsv").lines() {
            let columns: Vec<&str> = line.split('\t').collect();
            let [name, kinds, values] = columns.as_slice() else { unreachable!("{line}") };
            for kind in kinds.split(' ') {
                assert!(crate::paddle::operator(kind).is_some(), "{kind}");
                let known =
                    ATTRIBUTES.get(kind).and_then(|all| all.iter().find(|it| it.name == *name));
                let text = match known.and_then(|known| known.default.as_ref()) {
                    Some(AttributeValue::String(text)) if text.to_string() != "" => {
                        text.to_string()
                    }
                    Some(AttributeValue::Int(number)) => number.to_string(),
                    _ => continue,
                };
                // The default of all interpolations.
                let is_listed = values.split(' ').any(|value| value == text);
                assert!(is_listed || *name == "interp_method", "{kind}: {text}");
            }
        }
    }

    #[test]
    fn every_attribute_has_a_type_that_is_known() {
        let blocks = ["BLOCK", "BLOCKS", "SCALAR", "SCALARS", "VAR", "VARS"];
        for line in include_str!("../../data/paddle_attributes.tsv").lines() {
            let mut columns = line.split('\t').skip(2);
            let (kind, default) = columns.next().zip(columns.next()).unwrap_or_default();
            assert!(blocks.contains(&kind) || read(kind, &Value::Null).is_some(), "{line}");
            assert!(default.is_empty() || serde_json::from_str::<Value>(default).is_ok(), "{line}");
        }
    }
}

//! Arguments of an operator: values of the program, and constants with the defaults of the schema.
//!
//! An argument that a rule does not read, and that differs from its default, is an error.

use std::cell::RefCell;
use std::collections::HashSet;

use lodstone_model::{AttributeValue, DType, Op, Scalar, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::torch::{Operator, operator, script_type};

use super::node::Outcome;
pub(super) use crate::onnx::Size;
use crate::onnx::Value;

/// Arguments that do not affect the elements of results.
const IGNORED: &[&str] = &[
    "allow_tf32",
    "benchmark",
    "copy",
    "cudnn_enable",
    "cudnn_enabled",
    "debug",
    "deterministic",
    "device",
    "enable_nested_tensor",
    "generator",
    "implicit",
    "layout",
    "memory_format",
    "non_blocking",
    "padding_idx",
    "pin_memory",
    "requires_grad",
    "scale_grad_by_freq",
    "sparse",
    "stable",
];

/// A value of the program that an argument holds.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A tensor.
    Tensor(Value),
    /// A size, number or truth value that the program computes.
    Number(Value),
    /// A constant of the program.
    Constant(AttributeValue),
    /// A complex tensor, whose last dim holds the parts.
    Complex(Value),
    /// `None` in a list.
    Absent,
}

/// A constant number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
}

/// The arguments of an operator.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    op: &'a Op,
    schema: Option<&'static Operator>,
    /// The slots, with the values in them.
    pub(super) values: Vec<(&'a str, Vec<Item>)>,
    /// Whether the program declares the dims of the results, as exported programs do.
    pub(super) is_declared: bool,
    read: RefCell<HashSet<String>>,
}

impl Number {
    #[expect(clippy::cast_precision_loss, reason = "as PyTorch converts numbers to floats")]
    pub(super) fn float(self) -> f64 {
        match self {
            Self::Bool(value) => f64::from(u8::from(value)),
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// Returns the type of a tensor that holds the number.
    pub(super) fn dtype(self) -> DType {
        match self {
            Self::Bool(_) => DType::Bool,
            Self::Int(_) => DType::Int64,
            Self::Float(_) => DType::Float32,
        }
    }

    fn of(value: &AttributeValue) -> Option<Self> {
        Some(match value {
            AttributeValue::Bool(value) | AttributeValue::Scalar(Scalar::Bool(value)) => {
                Self::Bool(*value)
            }
            AttributeValue::Long(value) | AttributeValue::Scalar(Scalar::Long(value)) => {
                Self::Int(*value)
            }
            AttributeValue::Int(value) => Self::Int(i64::from(*value)),
            AttributeValue::Double(value) | AttributeValue::Scalar(Scalar::Double(value)) => {
                Self::Float(*value)
            }
            AttributeValue::Float(value) => Self::Float(f64::from(*value)),
            _ => return None,
        })
    }
}

impl Item {
    /// Returns the constant number, if it is one or has known contents.
    pub(super) fn number(&self) -> Option<Number> {
        match self {
            Self::Constant(value) => Number::of(value),
            Self::Number(value) => match (value.dtype(), value.info().ints()?.as_slice()) {
                (DType::Bool, [truth]) => Some(Number::Bool(*truth != 0)),
                (DType::Int64, [number]) => Some(Number::Int(*number)),
                _ => None,
            },
            Self::Tensor(_) | Self::Complex(_) | Self::Absent => None,
        }
    }
}

impl<'a> Arguments<'a> {
    pub(super) fn new(op: &'a Op, values: Vec<(&'a str, Vec<Item>)>) -> Self {
        let schema = operator(&op.kind);
        Self { op, schema, values, is_declared: false, read: RefCell::default() }
    }

    pub(super) fn with_declared(mut self, is_declared: bool) -> Self {
        self.is_declared = is_declared;
        self
    }

    /// Returns the overload of the operator.
    pub(super) fn overload(&self) -> &'a str {
        self.op.kind.split_once('.').map_or("", |(_, overload)| overload)
    }

    /// Returns the values in a slot, if it is present.
    pub(super) fn items(&self, name: &str) -> Option<&[Item]> {
        self.read.borrow_mut().insert(name.to_owned());
        self.values.iter().find(|(slot, _)| *slot == name).map(|(_, items)| items.as_slice())
    }

    /// Returns a constant argument: its value, or the default of the schema. `None` is absent.
    pub(super) fn constant(&self, name: &str) -> Outcome<Option<AttributeValue>> {
        self.read.borrow_mut().insert(name.to_owned());
        if let Some(value) = self.op.attribute(name) {
            return Ok(Some(value.clone()).filter(|value| *value != AttributeValue::None));
        }
        match self.items(name) {
            Some([Item::Constant(value)]) => return Ok(Some(value.clone())),
            Some([item @ Item::Number(_)]) => {
                return match item.number() {
                    Some(Number::Bool(value)) => Ok(Some(AttributeValue::Bool(value))),
                    Some(Number::Int(value)) => Ok(Some(AttributeValue::Long(value))),
                    _ => Err(not_constant(name)),
                };
            }
            Some(_) => return Err(not_constant(name)),
            None => {}
        }
        let declared =
            self.schema.and_then(|schema| schema.arguments.iter().find(|it| it.name == name));
        match declared.map(|declared| declared.default) {
            Some(Some(default)) => parsed(default)
                .ok_or_else(|| Finding::internal(format!("the default `{default}` is not read"))),
            Some(None) if declared.is_some_and(|it| !it.kind.ends_with('?')) => {
                Err(format!("the argument `{name}` is missing").into())
            }
            // Another overload has it.
            _ => Ok(None),
        }
    }

    /// Returns the default of a list or tensor argument, and whether the argument exists at all.
    pub(super) fn has(&self, name: &str) -> bool {
        self.op.attribute(name).is_some_and(|value| *value != AttributeValue::None)
            || self.values.iter().any(|(slot, _)| *slot == name)
    }

    /// Returns the number of an argument; `None` if it is absent or not a constant.
    pub(super) fn number(&self, name: &str) -> Outcome<Option<Number>> {
        match self.constant(name)? {
            None => Ok(None),
            Some(value) => Number::of(&value)
                .map(Some)
                .ok_or_else(|| wrong(name, "a number", &format!("{value:?}"))),
        }
    }

    /// Returns an integer.
    pub(super) fn int(&self, name: &str) -> Outcome<i64> {
        self.optional_int(name)?.ok_or_else(|| missing(name))
    }

    /// Returns an integer, if it is not `None`.
    pub(super) fn optional_int(&self, name: &str) -> Outcome<Option<i64>> {
        match self.number(name)? {
            None => Ok(None),
            Some(Number::Int(value)) => Ok(Some(value)),
            Some(Number::Bool(value)) => Ok(Some(i64::from(value))),
            Some(Number::Float(value)) => Err(wrong(name, "an integer", &value.to_string())),
        }
    }

    /// Returns a float.
    pub(super) fn float(&self, name: &str) -> Outcome<f64> {
        self.optional_float(name)?.ok_or_else(|| missing(name))
    }

    /// Returns a float, if it is not `None`.
    pub(super) fn optional_float(&self, name: &str) -> Outcome<Option<f64>> {
        Ok(self.number(name)?.map(Number::float))
    }

    /// Returns a truth value; false if it is absent.
    pub(super) fn flag(&self, name: &str) -> Outcome<bool> {
        match self.number(name)? {
            None => Ok(false),
            Some(Number::Bool(value)) => Ok(value),
            Some(other) => Err(wrong(name, "a truth value", &format!("{other:?}"))),
        }
    }

    /// Returns a truth value, if it is present.
    pub(super) fn optional_flag(&self, name: &str) -> Outcome<Option<bool>> {
        if self.has(name) { self.flag(name).map(Some) } else { Ok(None) }
    }

    /// Returns a string, if it is present.
    pub(super) fn text(&self, name: &str) -> Outcome<Option<String>> {
        match self.constant(name)? {
            None => Ok(None),
            Some(AttributeValue::String(text)) => Ok(Some(text.to_string())),
            Some(other) => Err(wrong(name, "a string", &format!("{other:?}"))),
        }
    }

    /// Returns an element type, if it is present.
    pub(super) fn dtype(&self, name: &str) -> Outcome<Option<DType>> {
        match self.constant(name)? {
            None => Ok(None),
            Some(AttributeValue::Type(value)) => match *value {
                ValueType::Scalar(dtype) => Ok(Some(dtype)),
                other => Err(wrong(name, "an element type", &format!("{other:?}"))),
            },
            // A default of the schema, or the type of another tensor.
            Some(AttributeValue::Long(code)) => script_type(code)
                .map(Some)
                .ok_or_else(|| wrong(name, "an element type", &code.to_string())),
            Some(other) => Err(wrong(name, "an element type", &format!("{other:?}"))),
        }
    }

    /// Returns a list of integers, if it is present; a single integer is a list.
    pub(super) fn optional_ints(&self, name: &str) -> Outcome<Option<Vec<i64>>> {
        if let Some(items) = self.items(name) {
            let int = |item: &Item| match item.number() {
                Some(Number::Int(value)) => Ok(value),
                _ => Err(not_constant(name)),
            };
            return items.iter().map(int).collect::<Outcome<_>>().map(Some);
        }
        match self.constant(name)? {
            None => Ok(None),
            Some(AttributeValue::Longs(values)) => Ok(Some(values)),
            Some(AttributeValue::Long(value)) => Ok(Some(vec![value])),
            Some(AttributeValue::Bools(values)) if values.is_empty() => Ok(Some(Vec::new())),
            Some(other) => Err(wrong(name, "a list of integers", &format!("{other:?}"))),
        }
    }

    /// Returns a list of integers; empty if it is absent.
    pub(super) fn ints(&self, name: &str) -> Outcome<Vec<i64>> {
        Ok(self.optional_ints(name)?.unwrap_or_default())
    }

    /// Returns a list of `count` integers; a list of one stands for equal ones, and an absent or empty list for
    /// `default`.
    pub(super) fn each(&self, name: &str, count: usize, default: Option<i64>) -> Outcome<Vec<i64>> {
        let found = self.ints(name)?;
        match (found.as_slice(), default) {
            ([], Some(default)) => Ok(vec![default; count]),
            ([one], _) => Ok(vec![*one; count]),
            (all, _) if all.len() == count => Ok(found),
            _ => Err(wrong(name, &format!("{count} integers"), &format!("{found:?}"))),
        }
    }

    /// Returns a list of floats, if it is present.
    pub(super) fn floats(&self, name: &str) -> Outcome<Option<Vec<f64>>> {
        match self.constant(name)? {
            None => Ok(None),
            Some(AttributeValue::Doubles(values)) => Ok(Some(values)),
            #[expect(clippy::cast_precision_loss, reason = "as PyTorch converts numbers to floats")]
            Some(AttributeValue::Longs(values)) => {
                Ok(Some(values.into_iter().map(|value| value as f64).collect()))
            }
            Some(other) => Err(wrong(name, "a list of floats", &format!("{other:?}"))),
        }
    }

    /// Returns a list of sizes, if it is present.
    pub(super) fn optional_sizes(&self, name: &str) -> Outcome<Option<Vec<Size>>> {
        let Some(items) = self.items(name) else {
            let known = self.optional_ints(name)?;
            return Ok(known.map(|known| known.into_iter().map(Size::Known).collect()));
        };
        items.iter().map(|item| size(item, name)).collect::<Outcome<_>>().map(Some)
    }

    /// Returns a list of sizes; empty if it is absent.
    pub(super) fn sizes(&self, name: &str) -> Outcome<Vec<Size>> {
        Ok(self.optional_sizes(name)?.unwrap_or_default())
    }

    /// Returns a size, if it is present.
    pub(super) fn size(&self, name: &str) -> Outcome<Option<Size>> {
        match self.items(name) {
            Some([item]) => size(item, name).map(Some),
            Some(_) => Err(wrong(name, "a size", "a list")),
            None => Ok(self.optional_int(name)?.map(Size::Known)),
        }
    }

    /// Marks arguments as read.
    pub(super) fn ignore(&self, names: &[&str]) {
        self.read.borrow_mut().extend(names.iter().map(|name| (*name).to_owned()));
    }

    /// Returns an argument that was not read, although it differs from its default.
    pub(super) fn unread(&self) -> Option<&'a str> {
        let read = self.read.borrow();
        let slots = self.values.iter().map(|(slot, _)| *slot);
        let differs = |attribute: &&lodstone_model::Attribute| {
            let default = self.schema.and_then(|schema| {
                let declared = schema.arguments.iter().find(|it| it.name == attribute.name)?;
                parsed(declared.default?)
            });
            let value = &attribute.value;
            let is_empty = matches!(value, AttributeValue::None);
            !is_empty && default.flatten().as_ref() != Some(value)
        };
        let constants = self.op.attributes.iter().filter(differs).map(|it| it.name.as_str());
        let mut present = slots.chain(constants);
        present.find(|name| !read.contains(*name) && !IGNORED.contains(name))
    }
}

fn size(item: &Item, name: &str) -> Outcome<Size> {
    match (item.number(), item) {
        (Some(Number::Int(value)), _) => Ok(Size::Known(value)),
        (None, Item::Number(value) | Item::Tensor(value)) => Ok(Size::Value(value.clone())),
        _ => Err(wrong(name, "sizes", &format!("{item:?}"))),
    }
}

/// Parses a default of a schema; `Some(None)` is `None`.
fn parsed(default: &str) -> Option<Option<AttributeValue>> {
    Some(Some(match default {
        "None" => return Some(None),
        "True" => AttributeValue::Bool(true),
        "False" => AttributeValue::Bool(false),
        _ if default.starts_with('"') => {
            let text = default.trim_matches('"');
            AttributeValue::from(text)
        }
        _ if default.starts_with('[') => {
            let inner = default.trim_start_matches('[').trim_end_matches(']');
            let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
            let parts: Vec<&str> = parts.collect();
            match parts.iter().map(|part| part.parse().ok()).collect::<Option<Vec<i64>>>() {
                Some(values) => AttributeValue::Longs(values),
                None => {
                    let flags = parts.iter().map(|part| *part == "True");
                    AttributeValue::Bools(flags.collect())
                }
            }
        }
        _ => match default.parse::<i64>() {
            Ok(value) => AttributeValue::Long(value),
            Err(_) => AttributeValue::Double(default.parse().ok()?),
        },
    }))
}

/// Returns the finding of an argument with another value than expected.
pub(super) fn wrong(name: &str, expected: &str, found: &str) -> Finding {
    let found: String = found.chars().take(200).collect();
    Finding::from(format!("the argument `{name}` must be {expected}, not {found}"))
        .about_attribute(name)
}

fn missing(name: &str) -> Finding {
    Finding::from(format!("the argument `{name}` is missing")).about_attribute(name)
}

fn not_constant(name: &str) -> Finding {
    Finding::from(format!("the argument `{name}` must be a constant")).about_attribute(name)
}

//! Arguments of operators, and values of the signature: a constant, or values of the program.

use lodstone_model::{Attribute, AttributeValue, ByteString, Complex, DType, Scalar, ValueType};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::Result as JsonResult;

use super::enums;
use super::json::{self, Float, Union};

/// The maximum nesting depth of dictionaries.
const MAX_DEPTH: usize = 32;

/// What an argument holds.
#[derive(Debug)]
pub(super) enum Argument<'a> {
    /// A constant.
    Constant(AttributeValue),
    /// One value.
    Value(String),
    /// A list of values, some of which may be constants or absent.
    List(Vec<Member>),
    /// A graph.
    Graph(json::Graph<'a>),
}

/// A member of a list.
#[derive(Debug)]
pub(super) enum Member {
    Value(String),
    Constant(AttributeValue),
    /// `None` in a list of optional tensors.
    Absent,
}

fn parsed<'a, T: Deserialize<'a>>(argument: &Union<'a>) -> JsonResult<T> {
    serde_json::from_str(argument.value.get())
}

/// Returns what an argument holds.
pub(super) fn argument<'a>(argument: &Union<'a>) -> JsonResult<Argument<'a>> {
    use AttributeValue as Value;
    let constant = |value| Ok(Argument::Constant(value));
    match &*argument.kind {
        "as_none" => constant(Value::None),
        "as_tensor" => Ok(Argument::Value(parsed::<json::TensorName>(argument)?.name)),
        "as_custom_obj" => Ok(Argument::Value(parsed::<json::CustomObject>(argument)?.name)),
        "as_tensors" => {
            let names: Vec<json::TensorName> = parsed(argument)?;
            Ok(Argument::List(names.into_iter().map(|it| Member::Value(it.name)).collect()))
        }
        "as_optional_tensor" => match optional(&parsed(argument)?)? {
            Member::Value(name) => Ok(Argument::Value(name)),
            _ => constant(Value::None),
        },
        "as_optional_tensors" => {
            let members: Vec<Union<'_>> = parsed(argument)?;
            members.iter().map(optional).collect::<JsonResult<_>>().map(Argument::List)
        }
        "as_int" => constant(Value::Long(parsed(argument)?)),
        "as_ints" => constant(Value::Longs(parsed(argument)?)),
        "as_float" => constant(Value::Double(parsed::<Float>(argument)?.0)),
        "as_floats" => constant(Value::Doubles(floats(parsed(argument)?))),
        "as_bool" => constant(Value::Bool(parsed(argument)?)),
        "as_bools" => constant(Value::Bools(parsed(argument)?)),
        "as_string" => constant(text(&parsed::<String>(argument)?)),
        "as_strings" => {
            let texts: Vec<String> = parsed(argument)?;
            let texts = texts.iter().map(|it| ByteString::from(it.as_str())).collect();
            constant(Value::Strings(texts))
        }
        "as_sym_int" | "as_sym_bool" | "as_sym_float" => match symbolic(&parsed(argument)?)? {
            Member::Value(name) => Ok(Argument::Value(name)),
            Member::Constant(value) => constant(value),
            Member::Absent => constant(Value::None),
        },
        "as_sym_ints" | "as_sym_bools" | "as_sym_floats" => {
            let members: Vec<Union<'_>> = parsed(argument)?;
            let members = members.iter().map(symbolic).collect::<JsonResult<Vec<_>>>()?;
            match integers(&members) {
                Some(values) => constant(Value::Longs(values)),
                None => Ok(Argument::List(members)),
            }
        }
        "as_scalar_type" => {
            let code = parsed(argument)?;
            let dtype = enums::dtype(code).ok_or_else(|| unknown("an element type", code))?;
            constant(Value::Type(Box::new(ValueType::Scalar(dtype))))
        }
        "as_layout" => {
            let code = parsed(argument)?;
            constant(text(enums::layout(code).ok_or_else(|| unknown("a layout", code))?))
        }
        "as_memory_format" => {
            let code = parsed(argument)?;
            let name = enums::memory_format(code);
            constant(text(name.ok_or_else(|| unknown("a memory format", code))?))
        }
        "as_device" => {
            let device: json::Device = parsed(argument)?;
            let index = device.index.map(|index| format!(":{index}")).unwrap_or_default();
            constant(text(&format!("{}{index}", device.kind)))
        }
        "as_complex" => {
            let number: json::Complex = parsed(argument)?;
            let number = Complex { re: number.real.0, im: number.imag.0 };
            constant(Value::Scalar(Scalar::Complex(number)))
        }
        "as_operator" => constant(text(&parsed::<String>(argument)?)),
        "as_graph" => Ok(Argument::Graph(parsed::<json::NamedGraph<'a>>(argument)?.graph)),
        "as_int_lists" => {
            let lists: Vec<Vec<i64>> = parsed(argument)?;
            constant(list(lists.into_iter().map(Value::Longs).collect())?)
        }
        "as_float_lists" => {
            let lists: Vec<Vec<Float>> = parsed(argument)?;
            constant(list(lists.into_iter().map(|it| Value::Doubles(floats(it))).collect())?)
        }
        "as_nested_tensors" => {
            let lists: Vec<Vec<json::TensorName>> = parsed(argument)?;
            let names = |list: Vec<json::TensorName>| {
                Value::Vars(list.into_iter().map(|it| it.name).collect())
            };
            constant(list(lists.into_iter().map(names).collect())?)
        }
        "as_string_to_argument" => constant(dictionary(argument, 0)?),
        other => Err(serde_json::Error::custom(format!("the kind `{other}` is unknown"))),
    }
}

/// Returns the type of a value that an argument defines, apart from tensors.
pub(super) fn value_type(argument: &Union<'_>) -> ValueType {
    match &*argument.kind {
        "as_sym_int" => ValueType::Scalar(DType::Int64),
        "as_sym_bool" => ValueType::Scalar(DType::Bool),
        "as_sym_float" => ValueType::Scalar(DType::Float64),
        _ => ValueType::Unspecified,
    }
}

fn unknown(what: &str, code: i64) -> serde_json::Error {
    serde_json::Error::custom(format!("expected {what}, found the number {code}"))
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::String(ByteString::from(text))
}

fn floats(values: Vec<Float>) -> Vec<f64> {
    values.into_iter().map(|value| value.0).collect()
}

fn list(values: Vec<AttributeValue>) -> JsonResult<AttributeValue> {
    AttributeValue::list(values).map_err(serde_json::Error::custom)
}

fn optional(member: &Union<'_>) -> JsonResult<Member> {
    match &*member.kind {
        "as_tensor" => Ok(Member::Value(parsed::<json::TensorName>(member)?.name)),
        "as_none" => Ok(Member::Absent),
        other => Err(serde_json::Error::custom(format!("the kind `{other}` is unknown"))),
    }
}

fn symbolic(member: &Union<'_>) -> JsonResult<Member> {
    Ok(match &*member.kind {
        "as_name" => Member::Value(parsed(member)?),
        "as_int" => Member::Constant(AttributeValue::Long(parsed(member)?)),
        "as_bool" => Member::Constant(AttributeValue::Bool(parsed(member)?)),
        "as_float" => Member::Constant(AttributeValue::Double(parsed::<Float>(member)?.0)),
        other => {
            return Err(serde_json::Error::custom(format!("the kind `{other}` is unknown")));
        }
    })
}

/// Returns the members of a list of constant integers.
fn integers(members: &[Member]) -> Option<Vec<i64>> {
    let integer = |member: &Member| match member {
        Member::Constant(AttributeValue::Long(value)) => Some(*value),
        _ => None,
    };
    members.iter().map(integer).collect()
}

fn dictionary(dictionary: &Union<'_>, depth: usize) -> JsonResult<AttributeValue> {
    if depth > MAX_DEPTH {
        return Err(serde_json::Error::custom("dictionaries are nested too deeply"));
    }
    let entries: std::collections::BTreeMap<String, Union<'_>> = parsed(dictionary)?;
    let mut attributes = Vec::new();
    for (name, entry) in entries {
        let value = match &*entry.kind {
            "as_string_to_argument" => self::dictionary(&entry, depth + 1)?,
            _ => match argument(&entry)? {
                Argument::Constant(value) => value,
                Argument::Value(name) => AttributeValue::Var(name),
                Argument::List(_) | Argument::Graph(_) => {
                    let what = format!("lists and graphs in the dictionary entry `{name}`");
                    return Err(serde_json::Error::custom(format!("{what} are not supported")));
                }
            },
        };
        attributes.push(Attribute { name, value });
    }
    AttributeValue::dict(attributes).map_err(serde_json::Error::custom)
}

//! The JSON types of a program. Unknown keys are ignored: minor versions of the schema add optional ones.
//!
//! Values of unions remain text until they are needed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[derive(Debug, Deserialize)]
pub(super) struct Program<'a> {
    #[serde(borrow)]
    pub(super) graph_module: GraphModule<'a>,
    #[serde(default)]
    pub(super) opset_version: BTreeMap<String, i64>,
    #[serde(default)]
    pub(super) range_constraints: BTreeMap<String, Range>,
    #[serde(default)]
    pub(super) schema_version: Option<Version>,
    #[serde(default)]
    pub(super) torch_version: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Version {
    pub(super) major: i64,
    pub(super) minor: i64,
}

/// The bounds of a symbol; either may be absent.
#[derive(Debug, Deserialize)]
pub(super) struct Range {
    pub(super) min_val: Option<i64>,
    pub(super) max_val: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GraphModule<'a> {
    #[serde(borrow)]
    pub(super) graph: Graph<'a>,
    #[serde(borrow)]
    pub(super) signature: Signature<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Graph<'a> {
    #[serde(borrow)]
    pub(super) inputs: Vec<Union<'a>>,
    #[serde(borrow)]
    pub(super) outputs: Vec<Union<'a>>,
    #[serde(borrow)]
    pub(super) nodes: Vec<Node<'a>>,
    #[serde(default)]
    pub(super) tensor_values: BTreeMap<String, TensorMeta>,
    #[serde(default)]
    pub(super) sym_int_values: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(default)]
    pub(super) sym_bool_values: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(default)]
    pub(super) sym_float_values: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(default)]
    pub(super) custom_obj_values: BTreeMap<String, CustomObject>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Node<'a> {
    #[serde(borrow)]
    pub(super) target: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) inputs: Vec<Named<'a>>,
    #[serde(borrow)]
    pub(super) outputs: Vec<Union<'a>>,
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default, borrow)]
    pub(super) metadata: Metadata<'a>,
}

/// What the exporter notes about a node.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Metadata<'a> {
    /// The modules whose code it is from, outermost first: `L__self__,,Net;L__self___conv,conv,torch.nn.Conv2d`.
    #[serde(default, borrow)]
    pub(super) nn_module_stack: Option<Cow<'a, str>>,
}

impl Metadata<'_> {
    /// Returns the path of the module whose code a node is from; empty for the outermost one, or if it is not recorded.
    pub(super) fn scope(&self) -> &str {
        let innermost = self.nn_module_stack.as_deref().and_then(|stack| stack.rsplit(';').next());
        innermost.and_then(|module| module.split(',').nth(1)).unwrap_or("") // Not recorded.
    }
}

/// A named argument; operators with subgraphs have empty names.
#[derive(Debug, Deserialize)]
pub(super) struct Named<'a> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) arg: Union<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TensorMeta {
    pub(super) dtype: i64,
    pub(super) sizes: Vec<Size>,
    #[serde(default)]
    pub(super) strides: Vec<Size>,
    #[serde(default)]
    pub(super) layout: Option<i64>,
}

/// A dim, stride or offset: one of both keys.
#[derive(Debug, Deserialize)]
pub(super) struct Size {
    #[serde(default)]
    pub(super) as_int: Option<i64>,
    #[serde(default)]
    pub(super) as_expr: Option<Expression>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Expression {
    pub(super) expr_str: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct TensorName {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct CustomObject {
    pub(super) name: String,
    pub(super) class_fqn: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Device {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) index: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Complex {
    pub(super) real: Float,
    pub(super) imag: Float,
}

#[derive(Debug, Deserialize)]
pub(super) struct NamedGraph<'a> {
    #[serde(borrow)]
    pub(super) graph: Graph<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Signature<'a> {
    #[serde(borrow)]
    pub(super) input_specs: Vec<Union<'a>>,
    #[serde(borrow)]
    pub(super) output_specs: Vec<Union<'a>>,
}

/// The value of a specification of an input or output, of any kind.
#[derive(Debug, Deserialize)]
pub(super) struct Specification {
    #[serde(default)]
    pub(super) parameter_name: Option<String>,
    #[serde(default)]
    pub(super) buffer_name: Option<String>,
    #[serde(default)]
    pub(super) tensor_constant_name: Option<String>,
    #[serde(default)]
    pub(super) custom_obj_name: Option<String>,
    #[serde(default)]
    pub(super) user_input_name: Option<String>,
}

/// A value with the name of its kind: an object with one key. A specification of an argument may be the bare object of
/// the kind that it always has, a name of a tensor; it then has the kind `name`.
#[derive(Clone, Debug)]
pub(super) struct Union<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) value: &'a RawValue,
}

impl<'de: 'a, 'a> Deserialize<'de> for Union<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneKey;

        impl<'de> Visitor<'de> for OneKey {
            type Value = Union<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with the kind of a value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found: Option<Union<'de>> = None;
                while let Some((Text(kind), value)) = map.next_entry::<Text<'de>, &RawValue>()? {
                    // A custom object has its name and that of its class.
                    let is_first = found.is_none();
                    if is_first {
                        found = Some(Union { kind, value });
                    } else if kind != "class_fqn" {
                        return Err(A::Error::custom(format!("a value has two kinds: `{kind}`")));
                    }
                }
                found.ok_or_else(|| A::Error::custom("a value has no kind"))
            }
        }

        deserializer.deserialize_map(OneKey)
    }
}

/// Text that is borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A float; those that JSON cannot express are text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Float(pub(super) f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self(number)),
            Written::Text(text) => match text.as_str() {
                "Infinity" => Ok(Self(f64::INFINITY)),
                "-Infinity" => Ok(Self(f64::NEG_INFINITY)),
                "NaN" => Ok(Self(f64::NAN)),
                _ => Err(D::Error::custom(format!("expected a number, found `{text}`"))),
            },
        }
    }
}

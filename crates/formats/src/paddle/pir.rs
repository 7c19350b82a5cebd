//! Parameter names in a PIR program (`X.json` of PaddlePaddle 3).
//!
//! `{"base_code":{"magic":"pir",..},"program":{"regions":[{"blocks":[{"ops":[..]}]}]}}`; a parameter
//! is an operator `{"#":"p","A":[_,_,_,"name"],"OA":[persistable,_,_],..}`, and another saved value is
//! a `1.data` operator whose `OA` marks it as persistable. The parameter file holds them sorted by name.

use std::borrow::Cow;
use std::collections::HashMap;

use lodstone_model::{DType, Limits};
use lodstone_store::{Blob, Location};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{Error, Result};

pub(super) fn is_pir(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    text.starts_with(b"{") && head.windows(11).any(|window| window == b"\"base_code\"")
}

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    program: Program<'a>,
}

#[derive(Deserialize)]
struct Program<'a> {
    #[serde(borrow)]
    regions: Vec<Region<'a>>,
}

#[derive(Deserialize)]
struct Region<'a> {
    #[serde(borrow)]
    blocks: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    ops: Vec<Text<'a>>,
}

/// An operator in its JSON form. Values are inspected only if the operator is a parameter, and not
/// kept, because a value of two bytes would become a large structure.
#[derive(Deserialize)]
struct Text<'a> {
    #[serde(rename = "#", borrow)]
    kind: Cow<'a, str>,
    #[serde(rename = "A", borrow)]
    attributes: Option<&'a RawValue>,
    #[serde(rename = "O", borrow)]
    outputs: Option<&'a RawValue>,
    #[serde(rename = "OA", borrow)]
    output_attributes: Option<&'a RawValue>,
}

/// An operator that may be a parameter.
struct Op<'a> {
    kind: &'a str,
    attributes: Vec<Value>,
    outputs: Value,
    output_attributes: Vec<Value>,
}

/// Maximum bytes of a list of attributes of a parameter, which are a name and some flags.
const MAX_ATTRIBUTES: usize = 64 << 10;

impl Text<'_> {
    /// Returns whether the operator is of a kind that parameters are.
    fn is_parameter(&self) -> bool {
        matches!(&*self.kind, "p" | "1.data")
    }

    /// Returns the length of its longest list in bytes.
    fn longest(&self) -> usize {
        let lists = [self.attributes, self.outputs, self.output_attributes];
        lists.into_iter().flatten().map(|raw| raw.get().len()).max().unwrap_or(0)
    }

    /// Parses the operator, if it is of a kind that parameters are.
    fn op(&self) -> serde_json::Result<Option<Op<'_>>> {
        if !self.is_parameter() {
            return Ok(None);
        }
        let some = |raw: Option<&RawValue>| match raw.map(RawValue::get) {
            Some(text) => serde_json::from_str(text),
            None => Ok(Value::Null),
        };
        let list = |raw| match some(raw)? {
            Value::Array(items) => Ok(items),
            Value::Null => Ok(Vec::new()),
            _ => Err(serde_json::Error::custom("attributes that are not a list")),
        };
        Ok(Some(Op {
            kind: &self.kind,
            attributes: list(self.attributes)?,
            outputs: some(self.outputs)?,
            output_attributes: list(self.output_attributes)?,
        }))
    }
}

/// Returns the names of the saved values of a PIR program, in the order of the parameter file.
pub(super) fn parameter_names(
    path: &Location,
    blob: &Blob,
    limits: &Limits,
) -> Result<Vec<String>> {
    let mut names: Vec<String> = parameters(path, blob, limits)?.into_keys().collect();
    names.sort();
    Ok(names)
}

/// Returns the saved values of a PIR program, each with its declared element type, if that
/// is a known one.
pub(super) fn parameters(
    path: &Location,
    blob: &Blob,
    limits: &Limits,
) -> Result<HashMap<String, Option<DType>>> {
    if blob.len() > limits.structure_bytes {
        let limit = format!("at most {} bytes of a program", limits.structure_bytes);
        return Err(blob.over_limit(0, limit).into());
    }
    let wrong = |source| Error::json(path, blob, source);
    let bytes = blob.read()?;
    let file: File<'_> = serde_json::from_slice(&bytes).map_err(wrong)?;
    let regions = file.program.regions.iter();
    let ops = regions.flat_map(|region| &region.blocks).flat_map(|block| &block.ops);
    let mut found = HashMap::new();
    for text in ops {
        if text.is_parameter() && text.longest() > MAX_ATTRIBUTES {
            let limit = format!("at most {MAX_ATTRIBUTES} bytes of attributes of a parameter");
            return Err(blob.over_limit(0, limit).into());
        }
        let Some(op) = text.op().map_err(wrong)? else { continue };
        if let Some(name) = saved_name(&op) {
            found.insert(name.to_owned(), op.dtype());
        }
    }
    Ok(found)
}

/// Element types that only the program declares, and their names in PIR.
const DTYPES: [(DType, &str); 5] = [
    (DType::BFloat16, "0.t_bf16"),
    (DType::Float8E4M3Fn, "0.t_f8e4m3fn"),
    (DType::Float8E5M2, "0.t_f8e5m2"),
    (DType::Int8, "0.t_i8"),
    (DType::Float32, "0.t_f32"),
];

impl Op<'_> {
    /// Returns the element type of its first output: `{"TT": {"D": [{"#": type}, ..]}}`, directly or in a list.
    fn dtype(&self) -> Option<DType> {
        let first = self.outputs.get(0).unwrap_or(&self.outputs);
        let name = first.get("TT")?.get("D")?.get(0)?.get("#")?.as_str()?;
        DTYPES.iter().find(|(_, known)| *known == name).map(|(dtype, _)| *dtype)
    }
}

fn saved_name<'a>(op: &'a Op<'_>) -> Option<&'a str> {
    match op.kind {
        // A state that is not carried from run to run, such as that of dropout, is a parameter that is not
        // persistable.
        "p" if op.output_attributes.first().is_some_and(is_false) => None,
        "p" => op.attributes.get(3)?.as_str(),
        "1.data" => {
            let persistable = named(&op.output_attributes, "persistable")?.as_array()?;
            persistable.iter().any(is_true).then(|| named(&op.attributes, "name")?.as_str())?
        }
        _ => None,
    }
}

/// Returns the value `D` of the attribute `name` in a list of `{"N": name, "AT": {"#": type, "D": value}}`.
fn named<'a>(attributes: &'a [Value], name: &str) -> Option<&'a Value> {
    let attribute = attributes.iter().find(|attribute| attribute["N"] == name)?;
    attribute.get("AT")?.get("D")
}

fn is_false(value: &Value) -> bool {
    value.as_bool() == Some(false) || value.as_i64() == Some(0)
}

/// Returns whether a value is true, either bare or as an attribute.
fn is_true(value: &Value) -> bool {
    let value = value.get("D").unwrap_or(value);
    value.as_bool() == Some(true) || value.as_i64() == Some(1)
}

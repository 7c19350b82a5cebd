//! Names of parameters out of a PIR program (`X.json` of PaddlePaddle 3).
//!
//! `{"base_code":{"magic":"pir",..},"program":{"regions":[{"blocks":[{"ops":[..]}]}]}}`; a parameter
//! is an operator `{"#":"p","A":[_,_,_,"name"],"OA":[persistable,_,_],..}`, and another saved value is
//! a `1.data` operator whose `OA` says that it is persistable. The file of the parameters has them sorted by name.

use std::collections::HashMap;
use std::path::Path;

use lodstone_model::{DType, Limits};
use lodstone_store::Blob;
use serde::Deserialize;
use serde_json::Value;

use crate::{Error, Result};

pub(super) fn is_pir(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    text.starts_with(b"{") && head.windows(11).any(|window| window == b"\"base_code\"")
}

#[derive(Deserialize)]
struct File {
    program: Program,
}

#[derive(Deserialize)]
struct Program {
    regions: Vec<Region>,
}

#[derive(Deserialize)]
struct Region {
    blocks: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    ops: Vec<Op>,
}

#[derive(Deserialize)]
struct Op {
    #[serde(rename = "#")]
    kind: String,
    #[serde(rename = "A", default)]
    attributes: Vec<Value>,
    #[serde(rename = "O", default)]
    outputs: Value,
    #[serde(rename = "OA", default)]
    output_attributes: Vec<Value>,
}

/// Names of what is saved with a PIR program, in the order of the parameter file.
pub(super) fn parameter_names(path: &Path, blob: &Blob, limits: &Limits) -> Result<Vec<String>> {
    let mut names: Vec<String> = parameters(path, blob, limits)?.into_keys().collect();
    names.sort();
    Ok(names)
}

/// What is saved with a PIR program, each with the element type that it is declared with, where that
/// is a known one.
pub(super) fn parameters(
    path: &Path,
    blob: &Blob,
    limits: &Limits,
) -> Result<HashMap<String, Option<DType>>> {
    if blob.len() > limits.structure_bytes {
        let expected = format!("a program of at most {} bytes", limits.structure_bytes);
        return Err(blob.malformed(0, expected, format!("{} bytes", blob.len())).into());
    }
    let file: File = serde_json::from_slice(&blob.read()?)
        .map_err(|source| Error::Json { path: path.to_path_buf(), source })?;
    let regions = file.program.regions.iter();
    let ops = regions.flat_map(|region| &region.blocks).flat_map(|block| &block.ops);
    Ok(ops.filter_map(|op| Some((saved_name(op)?.to_owned(), op.dtype()))).collect())
}

/// Element types that only a program tells, and what PIR calls them.
const DTYPES: [(DType, &str); 5] = [
    (DType::BFloat16, "0.t_bf16"),
    (DType::Float8E4M3Fn, "0.t_f8e4m3fn"),
    (DType::Float8E5M2, "0.t_f8e5m2"),
    (DType::Int8, "0.t_i8"),
    (DType::Float32, "0.t_f32"),
];

impl Op {
    /// The element type of its first output: `{"TT": {"D": [{"#": type}, ..]}}`, alone or in a list.
    fn dtype(&self) -> Option<DType> {
        let first = self.outputs.get(0).unwrap_or(&self.outputs);
        let name = first.get("TT")?.get("D")?.get(0)?.get("#")?.as_str()?;
        DTYPES.iter().find(|(_, known)| *known == name).map(|(dtype, _)| *dtype)
    }
}

fn saved_name(op: &Op) -> Option<&str> {
    match op.kind.as_str() {
        // A state that no run needs from another, of dropout for one, is a parameter and not
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

/// The value `D` of the attribute `name` in a list of `{"N": name, "AT": {"#": type, "D": value}}`.
fn named<'a>(attributes: &'a [Value], name: &str) -> Option<&'a Value> {
    let attribute = attributes.iter().find(|attribute| attribute["N"] == name)?;
    attribute.get("AT")?.get("D")
}

fn is_false(value: &Value) -> bool {
    value.as_bool() == Some(false) || value.as_i64() == Some(0)
}

/// A truth value, bare or as an attribute.
fn is_true(value: &Value) -> bool {
    let value = value.get("D").unwrap_or(value);
    value.as_bool() == Some(true) || value.as_i64() == Some(1)
}

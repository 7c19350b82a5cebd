//! Checks ONNX models: one path per line on stdin, one JSON object per line on stdout.
//!
//! | key | value |
//! |---|---|
//! | `unreadable` | why the file cannot be read, or null |
//! | `check` | findings of the checker, with their locations |
//! | `infer` | contradictions found by inference, with their locations |
//! | `types` | for each value of the main graph: kinds from the outside in, element type, dims |
#![expect(clippy::print_stdout, reason = "results go to stdout")]

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::io::stdin;

use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::{DType, Dim, Model, TensorType, ValueType};
use lodstone_schema::Findings;
use lodstone_schema::onnx::check_with;
use lodstone_schema::onnx::infer::{Options, ValueInfo, infer};
use lodstone_store::Location;
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    for path in stdin().lines() {
        let judged = match (onnx::BINARY.read)(&Location::from(path?), &OpenOptions::default()) {
            Ok(model) => judge(&model),
            Err(error) => json!({"unreadable": error.to_string()}),
        };
        println!("{judged}");
    }
    Ok(())
}

fn judge(model: &Model) -> Value {
    let inference = infer(model, &Options::default());
    let types = |values: &HashMap<String, ValueInfo>| values.iter().map(shown).collect();
    let types: BTreeMap<String, Value> = inference.blocks.first().map(types).unwrap_or_default();
    let inferred: Vec<_> = inference
        .blocks
        .iter()
        .map(|block| block.iter().map(|(name, info)| (name.clone(), info.value.clone())).collect())
        .collect();
    json!({
        "unreadable": null,
        "check": sentences(&check_with(model, &inferred)),
        "infer": sentences(&inference.findings),
        "types": types,
    })
}

fn sentences(findings: &Findings) -> Vec<String> {
    findings.located.iter().map(ToString::to_string).collect()
}

fn shown((name, info): (&String, &ValueInfo)) -> (String, Value) {
    let mut kinds = Vec::new();
    let (mut value, mut tensor) = (&info.value, None);
    loop {
        value = match value {
            ValueType::Tensor(of) | ValueType::Sparse(of) => {
                let is_sparse = matches!(value, ValueType::Sparse(_));
                kinds.push(if is_sparse { "sparse" } else { "tensor" }.to_owned());
                tensor = Some(of);
                break;
            }
            ValueType::List(element) => {
                kinds.push("sequence".to_owned());
                element
            }
            ValueType::Optional(element) => {
                kinds.push("optional".to_owned());
                element
            }
            ValueType::Dict(key, element) => {
                kinds.extend(["map".to_owned(), key.to_string()]);
                element
            }
            ValueType::Class(_) => {
                kinds.push("opaque".to_owned());
                break;
            }
            _ => {
                kinds.push("unspecified".to_owned());
                break;
            }
        }
    }
    (name.clone(), json!([kinds, tensor.and_then(dtype), tensor.and_then(shape)]))
}

fn dtype(tensor: &TensorType) -> Option<String> {
    let is_known = !matches!(tensor.dtype, DType::Unknown(0) | DType::Unspecified);
    is_known.then(|| tensor.dtype.to_string())
}

/// Returns dims as numbers, symbols as strings, unknown ones as null.
fn shape(tensor: &TensorType) -> Option<Vec<Value>> {
    let size = |dim: &Dim| match dim {
        Dim::Known(size) => json!(size),
        Dim::Symbol(name) => json!(**name),
        Dim::Unknown => Value::Null,
    };
    tensor.shape.as_ref().map(|shape| shape.iter().map(size).collect())
}

//! Calls of public functions that PaddlePaddle 3.3.1 saved as PIR (`make_paddle_pir.py` beside the tests of the executor), for the
//! dims of the recorded inputs.

use std::io::Read;

use flate2::read::GzDecoder;
use lodstone_formats::OpenOptions;
use lodstone_formats::paddle::PIR;
use lodstone_model::{DType, Dialect, Model, Tensor};
use lodstone_store::{Blob, MemoryStore};
use serde_json::Value as Json;

use super::evaluate::{declare, lowered};
use super::{Case, recorded, root};

const TOLERANCE: (f64, f64) = (1e-5, 2e-6);

/// Calls that are not supported.
const UNSUPPORTED: [&str; 10] = [
    "F.lp_pool2d",
    "angle",
    "as_complex",
    "digamma",
    "erfinv",
    "lgamma",
    "median",
    "median axis",
    "nextafter",
    "repeat_interleave tensor",
];

pub(crate) fn cases() -> Vec<Case> {
    let path = root().join("../paddle/tests/golden/paddle_pir/calls.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(&std::fs::read(path).unwrap()[..]).read_to_string(&mut text).unwrap();
    text.lines().map(|line| case(serde_json::from_str(line).unwrap())).collect()
}

fn case(call: Json) -> Case {
    let name = call["name"].as_str().unwrap().to_owned();
    let model = model(&call);
    let ops: Vec<_> = model.main().unwrap().ops().cloned().collect();
    Case::new(Dialect::Pir, &name, ops.iter(), move || difference(model, &call))
}

/// Reads the program of a call, with its parameters.
fn model(call: &Json) -> Model {
    let store = MemoryStore::default();
    store.insert("inference.json", serde_json::to_vec(&call["pir"]).unwrap()).unwrap();
    let params = bytes(&call["params"]);
    if !params.is_empty() {
        store.insert("inference.pdiparams", params).unwrap();
    }
    (PIR.read)(&store.location("inference.json"), &OpenOptions::default()).unwrap()
}

fn difference(mut model: Model, call: &Json) -> Option<String> {
    let inputs = call["inputs"].as_object().unwrap().iter();
    let inputs: Vec<_> = inputs.map(|(name, it)| (name.clone(), tensor(it))).collect();
    declare(&mut model, &inputs);
    let is_unsupported = UNSUPPORTED.contains(&call["name"].as_str()?);
    let found = match lowered(model, &inputs) {
        Ok(_) if is_unsupported => return Some("it is supported".to_owned()),
        Ok(found) => found,
        Err(error) if is_unsupported && error.contains("is not supported") => return None,
        Err(error) => return Some(error),
    };
    // An operator may compute the LoD of its results, which PIR does not have.
    let found: Vec<_> = found.iter().filter(|(name, _)| !name.ends_with(".lod0")).collect();
    let wanted = call["outputs"].as_array().unwrap();
    if wanted.len() != found.len() {
        return Some(format!("expected {} outputs, found {}", wanted.len(), found.len()));
    }
    wanted.iter().zip(found).find_map(|(wanted, (name, found))| {
        let what = recorded::difference(&tensor(&wanted[1]), found, TOLERANCE)?;
        Some(format!("`{name}`: {what}"))
    })
}

fn bytes(hex: &Json) -> Vec<u8> {
    let digits = hex.as_str().unwrap();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Returns a recorded tensor: its type, dims, and bytes.
fn tensor(recorded: &Json) -> Tensor {
    let dims = recorded[1].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
    let dtype = DType::from_name(recorded[0].as_str().unwrap()).unwrap();
    Tensor::dense(dtype, dims, Blob::memory(bytes(&recorded[2])))
}

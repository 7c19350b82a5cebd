//! Calls of public functions that PaddlePaddle 3.3.1 saved as PIR (`make_paddle_pir.py` beside the tests of the executor), for the
//! dims of the recorded inputs.

use lodstone_formats::OpenOptions;
use lodstone_formats::paddle::PIR;
use lodstone_model::{Dialect, Model};
use lodstone_store::MemoryStore;
use serde_json::Value as Json;

use super::Case;
use super::evaluate::{declare, lowered};
use super::recorded::{self, hex, pir_tensor};

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
    recorded::pir_lines("calls.jsonl.gz").into_iter().map(case).collect()
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
    let params = hex(&call["params"]);
    if !params.is_empty() {
        store.insert("inference.pdiparams", params).unwrap();
    }
    (PIR.read)(&store.location("inference.json"), &OpenOptions::default()).unwrap()
}

fn difference(mut model: Model, call: &Json) -> Option<String> {
    let inputs = call["inputs"].as_object().unwrap().iter();
    let inputs: Vec<_> = inputs.map(|(name, it)| (name.clone(), pir_tensor(it))).collect();
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
        let what = recorded::difference(&pir_tensor(&wanted[1]), found, TOLERANCE)?;
        Some(format!("`{name}`: {what}"))
    })
}

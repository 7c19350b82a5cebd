//! Calls of functions that PaddlePaddle 3.3.1 saved as PIR (`make_paddle_calls.py` beside the tests of the executor), for the
//! dims of the recorded inputs, and operators of 2.6.2 that it translated (`make_paddle_pir.py`).

use lodstone_formats::OpenOptions;
use lodstone_formats::paddle::PIR;
use lodstone_lowering::lower;
use lodstone_lowering::paddle::lower_op;
use lodstone_model::{Dialect, Model, Report, Tensor};
use lodstone_schema::paddle::Release;
use lodstone_store::MemoryStore;
use serde_json::Value as Json;

use super::Case;
use super::equal::{self, Equal};
use super::evaluate::{declare, lowered};
use super::paddle::{self, Fed, Open};
use super::recorded::{self, GRADIENTS, OPERATORS, Recorded, Tensors, hex, pir_tensor};

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

/// Translated operators whose programs have operators that no call writes. (The tests of the executor run all of them.)
const TRANSLATED: [&str; 4] = ["assign_value-", "shape-", "tril_triu-", "unbind-"];

/// The recorded program of a call, its inputs, and its outputs by name.
struct Call {
    name: String,
    model: Model,
    inputs: Vec<(String, Tensor)>,
    outputs: Vec<(String, Tensor)>,
}

pub(crate) fn cases() -> Vec<Case> {
    let files = ["calls.jsonl.gz", "internal.jsonl.gz"];
    let calls: Vec<Json> = files.into_iter().flat_map(recorded::pir_lines).collect();
    let mut all: Vec<Case> = calls.iter().map(|line| case(call(line), None)).collect();
    for line in &calls {
        let equal = equal::of(Dialect::Pir, line["name"].as_str().unwrap());
        all.extend(equal.map(|equal| case(call(line), Some(equal))));
    }
    let folders = [OPERATORS, GRADIENTS].map(|folder| (folder, recorded::recorded(folder)));
    let lines = recorded::pir_lines("operators.jsonl.gz");
    let is_tried = |line: &&Json| {
        let name = line["name"].as_str().unwrap();
        TRANSLATED.iter().any(|start| name.starts_with(start))
    };
    all.extend(lines.iter().filter(is_tried).map(|line| {
        let (_, recorded) = folders.iter().find(|(folder, _)| line["folder"] == **folder).unwrap();
        case(translated(line, recorded), None)
    }));
    all
}

fn case(call: Call, equal: Option<&'static Equal>) -> Case {
    let mut call = call;
    if let Some(equal) = equal {
        equal.put(&mut call.model);
    }
    let (name, ops) = (call.name.clone(), call.model.clone());
    let is_gradient = ops.main().unwrap().ops().any(|op| op.kind.ends_with("_grad"));
    let difference = if is_gradient { gradient_difference } else { difference };
    Case::new(Dialect::Pir, &name, ops.main().unwrap().ops(), move || difference(call)).of(equal)
}

/// Compares a gradient, which is no part of inference: the operator of PaddlePaddle 2 that it becomes.
fn gradient_difference(mut call: Call) -> Option<String> {
    lower(&mut call.model, Dialect::Paddle, &mut Report::default()).unwrap().unwrap();
    let op = call.model.main().unwrap().ops().find(|op| op.kind.ends_with("_grad")).unwrap();
    let feed = call.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    let facts = Fed { feed: &feed, open: Open::None };
    let found = lower_op(op, Release::WRITTEN, &facts).map_err(|finding| finding.to_string());
    match found.and_then(|lowered| paddle::results(&lowered, &feed)) {
        Ok(found) => recorded::difference(&call.outputs[0].1, &found[0].1, TOLERANCE),
        Err(error) => Some(error),
    }
}

fn call(line: &Json) -> Call {
    let inputs = line["inputs"].as_object().unwrap().iter();
    let outputs = line["outputs"].as_array().unwrap().iter();
    let output = |it: &Json| (it[0].as_str().unwrap().to_owned(), pir_tensor(&it[1]));
    Call {
        name: line["name"].as_str().unwrap().to_owned(),
        model: model(line),
        inputs: inputs.map(|(name, it)| (name.clone(), pir_tensor(it))).collect(),
        outputs: outputs.map(output).collect(),
    }
}

fn translated(line: &Json, recorded: &Recorded) -> Call {
    let name = line["name"].as_str().unwrap();
    let case = recorded.cases.iter().find(|case| case["name"] == *name).unwrap();
    let (_, feed, fetch) = recorded.case(case);
    let owned = |tensors: Tensors<'_>| -> Vec<(String, Tensor)> {
        tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect()
    };
    let (inputs, outputs) = (owned(feed), owned(fetch));
    let name = format!("{} {name}", line["folder"].as_str().unwrap());
    Call { name, model: model(line), inputs, outputs }
}

/// Reads the program of a call, with its parameters.
fn model(line: &Json) -> Model {
    let store = MemoryStore::default();
    store.insert("inference.json", serde_json::to_vec(&line["pir"]).unwrap()).unwrap();
    let params = line.get("params").map(hex).unwrap_or_default();
    if !params.is_empty() {
        store.insert("inference.pdiparams", params).unwrap();
    }
    (PIR.read)(&store.location("inference.json"), &OpenOptions::default()).unwrap()
}

fn difference(call: Call) -> Option<String> {
    let Call { name, mut model, inputs, outputs } = call;
    declare(&mut model, &inputs);
    let is_unsupported = UNSUPPORTED.contains(&name.as_str());
    let found = match lowered(model, &inputs) {
        Ok(_) if is_unsupported => return Some("it is supported".to_owned()),
        Ok(found) => found,
        Err(error) if is_unsupported && error.contains("is not supported") => return None,
        Err(error) => return Some(error),
    };
    // An operator may compute the LoD of its results, which PIR does not have.
    let found: Vec<_> = found.iter().filter(|(name, _)| !name.ends_with(".lod0")).collect();
    if outputs.len() != found.len() {
        return Some(format!("expected {} outputs, found {}", outputs.len(), found.len()));
    }
    outputs.iter().zip(found).find_map(|((_, wanted), (name, found))| {
        let what = recorded::difference(wanted, found, TOLERANCE)?;
        Some(format!("`{name}`: {what}"))
    })
}

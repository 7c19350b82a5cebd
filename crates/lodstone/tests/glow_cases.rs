//! Runs of Glow in a larger collection: with `LODSTONE_CASES`, its ONNX models, and the programs that Glow wrote after
//! loading models, return what Glow's interpreter returned; models that Glow rejects are rejected.
//!
//! `glow/cases.json` of the collection lists the cases. Golden files with recorded runs are in `runs.rs`.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::recorded::{array, numbers};
use lodstone::run::tensors;
use lodstone::{Inputs, Model, RunOptions, Tensor, open, run};
use serde_json::Value;

/// Models that read a name which they do not define: Glow's tests create it.
const UNDEFINED: &str = "the model reads an input that it does not declare";
const INPUT_TYPE: &str = "Glow's test passes another element type than the model declares";

/// ONNX models whose results differ from those of Glow, with the reason. ONNX Runtime rejects those that have no result
/// here, and returns the same results where there is one.
const DIFFERENT: &[(&str, &str)] = &[
    ("onnx/argMaxKeepDim", UNDEFINED),
    ("onnx/argMaxNoKeepDim", UNDEFINED),
    ("onnx/argMinDefault", UNDEFINED),
    ("onnx/argMinKeepDim", UNDEFINED),
    ("onnx/argMinNoKeepDim", UNDEFINED),
    ("onnx/importCastToFloat", INPUT_TYPE),
    ("onnx/importConvTransposeOutputShape", "ConvTranspose has `output_padding` of 4 numbers"),
    ("onnx/importConvTransposeOutputShapeSameLower", "ConvTranspose has `auto_pad` and `pads`"),
    ("onnx/importConvTransposeOutputShapeSameUpper", "ConvTranspose has `auto_pad` and `pads`"),
    ("onnx/importCumSum", INPUT_TYPE),
    ("onnx/importLSTMForwardInputForget", "Glow couples the gates of an LSTM in another way"),
    ("onnx/importLoopNoIteration", "Glow stacks a result of a loop that does not run"),
    ("onnx/importMaxPoolWithArgmax", "Glow counts elements with the channels last"),
    ("onnx/importSliceAxesOverwrite", "Slice has an axis twice"),
    ("onnx/importSparseLengthsSum", UNDEFINED),
    ("onnx/quantizeLinearDequantizeLinear", NOT_ROUNDED),
];

const NOT_ROUNDED: &str = "Glow removes a Quantize before its Dequantize, and does not round";

/// ONNX models that Glow rejects and that run, as in ONNX Runtime: limits of Glow, with the reason.
const ACCEPTED: &[(&str, &str)] = &[
    ("onnx/importConstantOfShapeInt32LossFailure", "Glow fills tensors with single precision"),
    ("onnx/importPadEdge", "Glow pads with constants only"),
    ("onnx/importPadReflect", "Glow pads with constants only"),
    ("onnx/importSliceWithUnsupportedStep", "Glow slices with a step of 1 only"),
];

/// Programs of Glow whose results differ from those of Glow, with the reason.
const DIFFERENT_PROGRAMS: &[(&str, &str)] = &[("onnx/quantizeLinearDequantizeLinear", NOT_ROUNDED)];

/// The maximum accepted differences other than [`NEAR`], for the magnitudes in these cases.
const TOLERANCES: &[(&str, f64)] = &[
    // The differences between two spectra whose powers are in the thousands.
    ("onnx/importAudioSpectrogramOneWindow", 1e-3),
    ("onnx/importAudioSpectrogramTwoWindow", 4e-3),
    // Intermediate half precision, to which runtimes need not round.
    ("caffe2/FbFCPacked4DFirstAxis", 2e-3),
];

/// The maximum difference of floats, relative to the larger of 1 and the number. Integers are equal, quantized ones too.
const NEAR: f64 = 1e-4;

fn collection() -> Option<PathBuf> {
    Some(Path::new(&std::env::var_os("LODSTONE_CASES")?).join("glow"))
}

fn cases(root: &Path) -> Vec<Value> {
    let text = fs::read(root.join("cases.json")).unwrap();
    let Value::Object(mut all) = serde_json::from_slice(&text).unwrap() else { panic!("a map") };
    let Some(Value::Array(cases)) = all.remove("cases") else { panic!("a list") };
    cases
}

/// Returns recorded tensors by the names in the model; `None` if elements were not recorded.
fn arrays<'c>(case: &'c Value, side: &str) -> Option<Vec<(&'c str, &'c Value)>> {
    let arrays = case[side].as_object()?;
    let has_elements = |it: &Value| it.get("values").is_some() || it.get("fill").is_some();
    arrays.values().all(has_elements).then(|| arrays.iter().map(|(k, v)| (k.as_str(), v)).collect())
}

/// Returns the inputs of a case. Names that the model lacks are those of another framework: the tensors are then the
/// remaining inputs, in order; Glow has removed inputs whose values do not matter.
fn inputs(model: &Model, recorded: &[(&str, &Value)]) -> Inputs {
    let main = &model.main().unwrap().blocks[0];
    let is_constant = |name: &str| model.parameters.iter().any(|it| it.name == name);
    let count = main.inputs.iter().filter(|name| !is_constant(name)).count();
    let mut inputs = Inputs::default();
    for (name, it) in recorded {
        let names = [(*name).to_owned(), glow_name(name)];
        let known = names.into_iter().find(|name| main.inputs.contains(name));
        if known.is_some() || recorded.len() <= count {
            inputs.values.push((known, array(it).into()));
        }
    }
    inputs
}

/// Returns the name that Glow gives to a value.
fn glow_name(name: &str) -> String {
    name.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect()
}

/// Runs a case; returns how its results differ from the recorded ones.
fn difference(model: &Model, case: &Value) -> Option<String> {
    let given = inputs(model, &arrays(case, "inputs").unwrap());
    // Some recorded values are not outputs of the model.
    let main = &model.main().unwrap().blocks[0];
    let is_inner = |name: &&&str| {
        let mut written = main.ops.iter().flat_map(|op| op.writes());
        written.any(|it| it == **name) && !main.outputs.iter().any(|it| it == **name)
    };
    let expected = arrays(case, "outputs").unwrap();
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let fetch = match names.iter().any(|name| is_inner(&name)) {
        true => names.iter().map(|name| (*name).to_owned()).collect(),
        false => Vec::new(),
    };
    let found = match run(model, given, &RunOptions::default().with_fetch(fetch)) {
        Ok(outputs) => tensors(outputs),
        Err(error) => return Some(error.to_string()),
    };
    let id = case["id"].as_str().unwrap();
    let tolerance = TOLERANCES.iter().find(|(known, _)| *known == id).map_or(NEAR, |it| it.1);
    for (at, (name, recorded)) in expected.iter().enumerate() {
        let own = recorded["glow_placeholder"].as_str().unwrap_or(name);
        let names = [*name, own, &glow_name(name)];
        let named = found.iter().find(|it| names.contains(&it.name.as_str()));
        let Some(output) = named.or(found.get(at).filter(|_| found.len() == expected.len())) else {
            return Some(format!("there is no output `{name}`"));
        };
        if let Some(wrong) = differs(&output.tensor, &array(recorded), tolerance) {
            return Some(format!("`{name}`: {wrong}"));
        }
    }
    None
}

fn differs(found: &Tensor, expected: &Tensor, tolerance: f64) -> Option<String> {
    if found.shape != expected.shape || found.dtype != expected.dtype {
        let (f, e) = (found, expected);
        return Some(format!("{} {:?}, expected {} {:?}", f.dtype, f.shape, e.dtype, e.shape));
    }
    let exact = !expected.dtype.is_float();
    let tolerance = if exact { 0.0 } else { tolerance };
    let pairs = numbers(found).into_iter().zip(numbers(expected)).enumerate();
    let is_near = |a: f64, b: f64| {
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance + tolerance * b.abs()
    };
    let mut wrong = pairs.filter(|(_, (a, b))| !is_near(*a, *b));
    let (at, (found, expected)) = wrong.next()?;
    let more = wrong.count();
    Some(format!("element {at} is {found}, expected {expected}, and {more} more"))
}

/// Fails unless the wrong cases are the listed ones.
#[track_caller]
fn check(tried: usize, wrong: &BTreeMap<String, String>, listed: &[(&str, &str)]) {
    let unexpected: Vec<_> =
        wrong.iter().filter(|(id, _)| !listed.iter().any(|(known, _)| known == id)).collect();
    let passed: Vec<_> = listed.iter().filter(|(id, _)| !wrong.contains_key(*id)).collect();
    let (bad, count) = (unexpected.len(), listed.len());
    assert!(
        unexpected.is_empty() && passed.is_empty(),
        "of {tried} cases, {count} listed, {bad} are wrong: {unexpected:#?}; listed, but right: {passed:#?}"
    );
}

#[test]
fn onnx_models_return_what_glow_returned() {
    let Some(root) = collection() else { return };
    let (mut tried, mut wrong) = (0, BTreeMap::new());
    for case in cases(&root) {
        let is_run = case["kind"].as_str().is_some_and(|kind| kind.starts_with("run"));
        if case["format"] != "onnx" || !is_run {
            continue;
        }
        tried += 1;
        let id = case["id"].as_str().unwrap();
        let path = case["models"]["model"].as_str().unwrap();
        let found = match open(root.join(path.strip_prefix("tests/").unwrap())) {
            Ok(model) => difference(&model, &case),
            Err(error) => Some(error.to_string()),
        };
        if let Some(found) = found {
            wrong.insert(id.to_owned(), found);
        }
    }
    check(tried, &wrong, DIFFERENT);
}

#[test]
fn models_that_glow_rejects_are_rejected() {
    let Some(root) = collection() else { return };
    let (mut tried, mut wrong) = (0, BTreeMap::new());
    for case in cases(&root) {
        if case["format"] != "onnx" || case["kind"] != "load_error" {
            continue;
        }
        tried += 1;
        let path = case["models"]["model"].as_str().unwrap();
        let result = open(root.join(path.strip_prefix("tests/").unwrap())).and_then(|model| {
            let mut inputs = Inputs::default();
            inputs.add_random(&model, 1, &[])?;
            run(&model, inputs, &RunOptions::default())
        });
        if result.is_ok() {
            wrong.insert(case["id"].as_str().unwrap().to_owned(), "it runs".to_owned());
        }
    }
    check(tried, &wrong, ACCEPTED);
}

#[test]
fn programs_that_glow_wrote_return_what_glow_returned() {
    let Some(root) = collection() else { return };
    let (mut tried, mut wrong) = (0, BTreeMap::new());
    for case in cases(&root) {
        let is_run = case["kind"].as_str().is_some_and(|kind| kind.starts_with("run"));
        let written = case["glow_exports_of_loaded_graph"]["glowcustom.onnx"].as_str();
        let Some(written) = written.filter(|_| is_run) else { continue };
        if arrays(&case, "inputs").is_none() || arrays(&case, "outputs").is_none() {
            continue;
        }
        // The program was written for the first run of its model, and has fixed dims.
        let id = case["id"].as_str().unwrap();
        if id.rsplit_once('#').is_some_and(|(_, number)| number != "0") {
            continue;
        }
        tried += 1;
        let path = root.join("golden").join(Path::new(written).file_name().unwrap());
        let found = difference(&open(path).unwrap(), &case);
        if let Some(found) = found {
            wrong.insert(id.to_owned(), found);
        }
    }
    check(tried, &wrong, DIFFERENT_PROGRAMS);
}

//! Caffe2 nets: with `LODSTONE_CASES`, those of Glow's tests return what Glow's interpreter returned, and become the graph
//! that Glow's loader makes of them; those that Caffe2 exported return what Caffe2 returned.
//!
//! `glow/cases.json` of the collection lists the cases.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]
#![expect(clippy::print_stdout, reason = "reports what was tried")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use crate::recorded::{array, numbers};
use lodstone::run::tensors;
use lodstone::{Dim, Inputs, Model, OpenOptions, RunOptions, Tensor, open, open_with, run};
use lodstone_lowering::lower;
use lodstone_model::{Dialect, Report, TensorType, ValueType};
use lodstone_schema::glow;
use serde_json::Value;

use crate::graphs::ways;

/// The maximum accepted differences other than [`NEAR`].
const TOLERANCES: &[(&str, f64)] = &[("caffe2/FbFCPacked4DFirstAxis", 2e-3)];

/// The maximum difference of floats, relative to the larger of 1 and the number. Integers are equal, quantized ones too.
const NEAR: f64 = 1e-4;

/// Nets whose results differ from those of Glow, with the reason.
const DIFFERENT: &[(&str, &str)] = &[("caffe2/avgPool", INSIDE), ("caffe2/gelu", EXACT)];

const INSIDE: &str = "Caffe2 divides by the elements inside the image, and Glow counts pads";
const EXACT: &str = "Caffe2 is exact without `fast_gelu`, and Glow always approximates";

/// Nets that become another graph than Glow's, with the reason.
const OTHER_GRAPHS: &[(&str, &str)] = &[
    ("caffe2/ClipLargeQRangeToFP16", "Glow's test clips the ranges of quantized values"),
    ("caffe2/ClipZeroScaleFP16QuantOpt", "Glow's test raises scales that are 0 in half precision"),
    ("caffe2/avgPool", INSIDE),
    ("caffe2/gaussianFillExtraShape", RANDOM),
    ("caffe2/gaussianFillInputAsShape", RANDOM),
    ("caffe2/gaussianFillUseInputShape", RANDOM),
    ("caffe2/gaussianFillUseProvidedShape", RANDOM),
    ("caffe2/gelu", EXACT),
    ("caffe2/uniformFillInputAsShape", RANDOM),
];

const RANDOM: &str = "the seed or the numbers are drawn when the net is loaded";

fn collection() -> Option<PathBuf> {
    Some(PathBuf::from(std::env::var_os("LODSTONE_CASES")?))
}

fn cases(root: &Path) -> Vec<Value> {
    let text = fs::read(root.join("glow/cases.json")).unwrap();
    let Value::Object(mut all) = serde_json::from_slice(&text).unwrap() else { panic!("a map") };
    let Some(Value::Array(cases)) = all.remove("cases") else { panic!("a list") };
    cases.into_iter().filter(|case| case["format"] == "caffe2").collect()
}

/// Opens the net of a case, with its weights.
fn net(root: &Path, case: &Value) -> Result<Model, String> {
    let path = |kind: &str| {
        let path = case["models"][kind].as_str().unwrap();
        root.join("glow").join(path.strip_prefix("tests/").unwrap())
    };
    let init = path("init_net");
    let is_empty = fs::metadata(&init).unwrap().len() == 0;
    let options = match is_empty {
        true => OpenOptions::default(),
        false => OpenOptions::default().with_params(Some(init.into())),
    };
    open_with(path("predict_net"), &options).map_err(|error| error.to_string())
}

/// Returns recorded tensors by name; `None` if elements were not recorded.
fn arrays<'c>(case: &'c Value, side: &str) -> Option<Vec<(&'c str, &'c Value)>> {
    let arrays = case[side].as_object()?;
    let has_elements = |it: &Value| it.get("values").is_some() || it.get("fill").is_some();
    arrays.values().all(has_elements).then(|| arrays.iter().map(|(k, v)| (k.as_str(), v)).collect())
}

/// Returns how the results of a case differ from the recorded ones.
fn difference(model: &Model, case: &Value) -> Option<String> {
    let mut given = Inputs::default();
    let main = &model.main().unwrap().blocks[0];
    for (name, it) in arrays(case, "inputs").unwrap() {
        // Glow's tests also declare inputs that the net does not read.
        if main.vars.iter().any(|var| var.name == name) {
            given.values.push((Some(name.to_owned()), array(it).into()));
        }
    }
    // Some recorded values are not outputs of the net.
    let written = |name: &str| main.ops.iter().flat_map(|op| op.writes()).any(|it| it == name);
    let own = |name: &String| match name.strip_prefix("tmp_") {
        // What Glow calls a blob that passes from one partition to another.
        Some(own) if !written(name) && written(own) => own.to_owned(),
        _ => name.clone(),
    };
    let names = case["outputs"].as_object().unwrap().keys().map(own).collect();
    let found = match run(model, given, &RunOptions::default().with_fetch(names)) {
        Ok(outputs) => tensors(outputs),
        Err(error) => return Some(error.to_string()),
    };
    let id = case["id"].as_str().unwrap();
    let tolerance = TOLERANCES.iter().find(|(known, _)| *known == id).map_or(NEAR, |it| it.1);
    let is_random = case["random_output"] == true;
    for (name, recorded) in case["outputs"].as_object().unwrap() {
        let Some(output) = found.iter().find(|it| it.name == own(name)) else {
            let names: Vec<_> = found.iter().map(|it| &it.name).collect();
            return Some(format!("there is no output `{name}` in {names:?}"));
        };
        let wrong = match is_random {
            true => {
                let dims: Vec<u64> = recorded["dims"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|n| n.as_u64().unwrap())
                    .collect();
                let is_finite = numbers(&output.tensor).iter().all(|number| number.is_finite());
                (output.tensor.shape != dims || !is_finite).then(|| "other dims".to_owned())
            }
            // Large tensors of equal elements were not recorded.
            false if recorded.get("values").is_none() && recorded.get("fill").is_none() => {
                let found = numbers(&output.tensor);
                found.iter().any(|it| Some(it) != found.first()).then(|| "unequal".to_owned())
            }
            false => differs(&output.tensor, &array(recorded), tolerance),
        };
        if let Some(wrong) = wrong {
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
    let tolerance = if expected.dtype.is_float() { tolerance } else { 0.0 };
    let is_near = |a: f64, b: f64| {
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance + tolerance * b.abs()
    };
    let pairs = numbers(found).into_iter().zip(numbers(expected)).enumerate();
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
    println!("{tried} tried, {} wrong as listed", wrong.len() - unexpected.len());
    assert!(
        unexpected.is_empty() && passed.is_empty(),
        "of {tried} cases, {} are wrong: {unexpected:#?}; listed, but right: {passed:#?}",
        unexpected.len()
    );
}

#[test]
fn nets_return_what_glow_returned() {
    let Some(root) = collection() else { return };
    let (mut tried, mut wrong) = (0, BTreeMap::new());
    for case in cases(&root) {
        if !case["kind"].as_str().is_some_and(|kind| kind.starts_with("run")) {
            continue;
        }
        tried += 1;
        let found = match net(&root, &case) {
            Ok(model) => difference(&model, &case),
            Err(error) => Some(error),
        };
        wrong.extend(found.map(|found| (case["id"].as_str().unwrap().to_owned(), found)));
    }
    check(tried, &wrong, DIFFERENT);
}

/// Declares the types of the inputs of a case.
fn declare(model: &mut Model, case: &Value) {
    let types =
        if case["inputs_types"].is_object() { &case["inputs_types"] } else { &case["inputs"] };
    let main = model.main_mut().and_then(|main| main.blocks.first_mut()).unwrap();
    for (name, it) in types.as_object().unwrap() {
        let kind = glow::ElemKind::from_name(it["elem_kind"].as_str().unwrap()).unwrap();
        let dims = it["dims"].as_array().unwrap().iter().map(|n| Dim::Known(n.as_u64().unwrap()));
        let of = TensorType::new(kind.dtype(), Some(dims.collect()));
        if let Some(var) = main.vars.iter_mut().find(|var| var.name == *name) {
            var.value = ValueType::tensor(of);
        }
    }
}

#[test]
fn nets_become_the_graphs_that_glow_makes_of_them() {
    let Some(root) = collection() else { return };
    let (mut tried, mut wrong) = (0, BTreeMap::new());
    for case in cases(&root) {
        let written = case["glow_exports_of_loaded_graph"]["glowcustom.onnxtxt"].as_str();
        let Some(written) = written else { continue };
        // The graph was written for the first run of its net, and has fixed dims.
        let id = case["id"].as_str().unwrap();
        if id.rsplit_once('#').is_some_and(|(_, number)| number != "0" && id != "caffe2/lpNorm#1") {
            continue;
        }
        tried += 1;
        let path = root.join("glow/golden").join(Path::new(written).file_name().unwrap());
        let theirs = open(path).unwrap();
        let ours = net(&root, &case).and_then(|mut model| {
            declare(&mut model, &case);
            let lowered = lower(&mut model, Dialect::Glow, &mut Report::default()).unwrap();
            lowered.map_err(|error| error.to_string()).map(|_| model)
        });
        let found = match ours {
            Err(error) => Some(error),
            Ok(ours) => {
                let findings = glow::check(&ours);
                let mut known = HashMap::new();
                let (a, b) = (ways(&ours, &mut known), ways(&theirs, &mut known));
                match (findings.is_empty(), a == b) {
                    (false, _) => Some(format!("{findings:?}")),
                    (true, true) => None,
                    (true, false) => Some(shown(&ours, &theirs)),
                }
            }
        };
        wrong.extend(found.map(|found| (id.to_owned(), found)));
    }
    check(tried, &wrong, OTHER_GRAPHS);
}

/// Lists the nodes of two graphs.
fn shown(ours: &Model, theirs: &Model) -> String {
    let list = |model: &Model| {
        let main = &model.main().unwrap().blocks[0];
        let ops = main.ops.iter().map(|op| {
            let more = op.attributes.iter().filter(|it| !it.name.contains("_elemKind"));
            let more: Vec<_> = more.map(|it| format!("{}={:?}", it.name, it.value)).collect();
            format!("{} {:?} -> {:?} {}", op.kind, op.input(""), op.output(""), more.join(" "))
        });
        let constants = model
            .parameters
            .iter()
            .map(|it| format!("{} {:?} {:?}", it.name, it.tensor.doc_string, it.tensor.shape));
        ops.chain(constants).collect::<Vec<_>>().join("\n")
    };
    format!("ours:\n{}\ntheirs:\n{}", list(ours), list(theirs))
}

/// Reads a NumPy array.
fn npy(path: &Path) -> Tensor {
    open(path).unwrap().parameters.remove(0).tensor
}

#[test]
fn nets_that_caffe2_exported_return_what_it_returned() {
    let Some(root) = collection() else { return };
    let root = root.join("peers/caffe2-torch1.9.1");
    let (mut tried, mut wrong) = (0, BTreeMap::new());
    for entry in fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("out.npy").is_file() {
            continue;
        }
        for file in ["predict_net.pb", "init_net.pb", "predict_net.pbtxt", "init_net.pbtxt", ""] {
            let path = folder.join(file);
            tried += 1;
            let mut inputs = Inputs::default();
            inputs.values.push((None, npy(&folder.join("in_data.npy")).into()));
            let found = open(&path).map_err(|error| error.to_string()).and_then(|model| {
                let outputs = run(&model, inputs, &RunOptions::default());
                outputs.map(tensors).map_err(|error| error.to_string())
            });
            let found = match found {
                Ok(found) => differs(&found[0].tensor, &npy(&folder.join("out.npy")), NEAR),
                Err(error) => Some(error),
            };
            wrong.extend(found.map(|found| (path.display().to_string(), found)));
        }
    }
    assert!(tried > 0);
    check(tried, &wrong, &[]);
}

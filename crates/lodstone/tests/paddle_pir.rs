//! Calls of PaddlePaddle 3's public functions, saved as PIR programs, give the recorded results: run as they are,
//! converted to a `ProgramDesc` and run, and exported to ONNX and run.
//!
//! `make_paddle_calls.py` beside the golden files recorded them.

#![expect(clippy::disallowed_methods, reason = "reads and writes files directly")]

use std::path::{Path, PathBuf};

use lodstone::finding::{Code, Located};
use lodstone::model::{AttributeValue, Block, Dialect, Model, Op, Operand, Report, Topology};
use lodstone::run::tensors;
use lodstone::{
    ConvertOptions, Inputs, Parameter, RunOptions, Target, convert, open, open_bytes, run,
};
use lodstone_lowering::lower;
use lodstone_schema::paddle::{attributes, input_type};

use crate::paddle_recorded::{self as recorded, hex, pir_lines, pir_tensor};
use serde_json::Value as Json;

/// The maximum difference of an element: relative, and absolute.
const TOLERANCE: (f64, f64) = (1e-5, 2e-6);

/// How a program reaches its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Run,
    Paddle,
    Onnx,
}

const ALL: &[Route] = &[Route::Run, Route::Paddle, Route::Onnx];
const ONNX: &[Route] = &[Route::Onnx];
const PADDLE: &[Route] = &[Route::Paddle];

/// Calls that do not take some routes, with a part of the error.
const REFUSED: &[(&[Route], &str, &[&str])] = &[
    (
        ALL,
        "not supported",
        &[
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
        ],
    ),
    (
        PADDLE,
        "(`results`)",
        &[
            "F.binary_cross_entropy_with_logits weighted",
            "F.interpolate linear scale to one",
            "F.interpolate linear to one",
            "F.interpolate trilinear to one",
        ],
    ),
    (PADDLE, "(`fp16-rounding`)", &["cast bfloat16", "cast float16"]),
    (PADDLE, "expected a known dim", &["strided_slice backward"]),
    (
        ONNX,
        "expected known dims",
        &["F.conv1d_transpose", "F.conv2d_transpose", "F.conv2d_transpose size"],
    ),
    (ONNX, "must be known", &["squeeze all"]),
];

/// Writes the files of a call; returns the program.
fn write(call: &Json, dir: &Path) -> PathBuf {
    let path = dir.join("inference.json");
    std::fs::write(&path, serde_json::to_vec(&call["pir"]).unwrap()).unwrap();
    let params = hex(&call["params"]);
    if !params.is_empty() {
        std::fs::write(dir.join("inference.pdiparams"), params).unwrap();
    }
    path
}

/// Returns the results of a call by a route.
fn results(call: &Json, route: Route) -> Result<Vec<Parameter>, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = write(call, dir.path());
    let source = open(path).map_err(|error| error.to_string())?;
    let model = match route {
        Route::Run => source,
        Route::Paddle | Route::Onnx => {
            let (name, format) = match route {
                Route::Onnx => ("out.onnx", "onnx"),
                _ => ("out/inference.pdmodel", "paddle"),
            };
            let out = dir.path().join(name);
            let options =
                ConvertOptions::default().with_to(Some(Target::Format(format.to_owned())));
            convert(source, out.clone(), &options).map_err(|error| error.to_string())?;
            open(out).map_err(|error| error.to_string())?
        }
    };
    let interface = &model.main().unwrap();
    let needed = (lodstone_schema::conventions(interface).interface)(interface);
    let given = call["inputs"].as_object().unwrap().iter();
    let given = given.filter(|(name, _)| needed.inputs.contains(&name.as_str()));
    let values = given.map(|(name, told)| (Some(name.clone()), pir_tensor(told).into())).collect();
    let inputs = Inputs { values, lod: Vec::new() };
    run(&model, inputs, &RunOptions::default()).map(tensors).map_err(|error| error.to_string())
}

/// Describes how the results differ from the recorded ones.
fn difference(call: &Json, mut found: Vec<Parameter>) -> Option<String> {
    // An operator may compute the LoD of its results, which PIR does not have.
    found.retain(|output| !output.name.ends_with(".lod0"));
    let wanted = call["outputs"].as_array().unwrap();
    if wanted.len() != found.len() {
        return Some(format!("expected {} outputs, found {}", wanted.len(), found.len()));
    }
    for (wanted, found) in wanted.iter().zip(&found) {
        let (name, wanted) = (wanted[0].as_str().unwrap(), pir_tensor(&wanted[1]));
        // An output of ONNX cannot have the name of an input.
        let is_input = call["inputs"].get(name).is_some();
        if name != found.name && !is_input {
            return Some(format!("expected the output `{name}`, found `{}`", found.name));
        }
        if let Some(what) = recorded::difference(&wanted, &found.tensor, TOLERANCE) {
            return Some(format!("`{name}`: {what}"));
        }
    }
    None
}

#[test]
fn calls_of_public_functions_give_what_paddlepaddle_gave() {
    let calls = pir_lines("calls.jsonl.gz");
    assert!(calls.len() > 390, "{} calls", calls.len());
    let mut wrong = Vec::new();
    for call in &calls {
        let name = call["name"].as_str().unwrap();
        for route in [Route::Run, Route::Paddle, Route::Onnx] {
            let listed = REFUSED
                .iter()
                .find(|(routes, _, names)| routes.contains(&route) && names.contains(&name));
            match (results(call, route), listed) {
                (Err(error), Some((_, part, _))) if error.contains(part) => {}
                (Err(error), _) => wrong.push(format!("{route:?}, {name}: {error}")),
                (Ok(_), Some(_)) => wrong.push(format!("{route:?}, {name} is not refused")),
                (Ok(found), None) => {
                    let what = difference(call, found);
                    wrong.extend(what.map(|what| format!("{route:?}, {name}: {what}")));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} are wrong:\n{}",
        wrong.len(),
        3 * calls.len(),
        wrong.join("\n")
    );
}

#[test]
fn written_operators_have_what_paddlepaddle_2_6_2_requires() {
    let (mut slices, mut sizes) = (0, 0);
    for call in pir_lines("calls.jsonl.gz") {
        let mut model = open_bytes(serde_json::to_vec(&call["pir"]).unwrap()).unwrap();
        let Ok(_) = lower(&mut model, Dialect::Paddle, &mut Report::default()).unwrap() else {
            continue;
        };
        let program = model.main().unwrap();
        let dtype = |name: &str| {
            let var = program.vars().find(|var| var.name == name)?;
            Some(var.value.tensor_type()?.dtype)
        };
        assert_eq!(program.version, Some(2_006_002));
        for op in program.ops() {
            let what = format!("{}: `{}`", call["name"], op.kind);
            let mut required = attributes(&op.kind).filter(|spec| spec.is_required());
            let missing = required.find(|spec| op.attribute(spec.name).is_none());
            assert!(missing.is_none() || op.kind.ends_with("_grad"), "{what}: {missing:?}");
            if op.kind.ends_with("slice") {
                let flags = op.attribute("infer_flags");
                assert!(
                    matches!(flags, Some(AttributeValue::Ints(it)) if !it.is_empty()),
                    "{what}"
                );
                slices += 1;
            }
            for operand in &op.inputs {
                let Some(expected) = input_type(&op.kind, &operand.slot) else { continue };
                let found = operand.args.iter().map(|name| dtype(name));
                assert!(found.into_iter().all(|it| it == Some(expected)), "{what}: {operand:?}");
                sizes += 1;
            }
        }
    }
    assert!(slices > 10 && sizes > 5, "{slices} slices, {sizes} sizes");
}

/// A way of damaging an operator, and what it does.
type Damage = (&'static str, fn(&mut Json));

const DAMAGES: [Damage; 9] = [
    ("without operands", |op| op["I"] = Json::Array(Vec::new())),
    ("without its last operand", |op| drop(op["I"].as_array_mut().and_then(Vec::pop))),
    ("with more operands", |op| {
        if let Some(operands) = op["I"].as_array_mut()
            && let Some(first) = operands.first().cloned()
        {
            operands.extend(vec![first; 9]);
        }
    }),
    ("with an operand that reads nothing", |op| op["I"] = serde_json::json!([{"%": 0}])),
    ("without attributes", |op| op["A"] = Json::Array(Vec::new())),
    ("with other attributes", |op| {
        let huge = serde_json::json!({"#": "0.a_i64", "D": i64::MAX});
        let attributes = op["A"].as_array_mut().into_iter().flatten();
        attributes.for_each(|attribute| attribute["AT"] = huge.clone());
    }),
    ("with text as attributes", |op| {
        let text = serde_json::json!({"#": "0.a_str", "D": "x"});
        let attributes = op["A"].as_array_mut().into_iter().flatten();
        attributes.for_each(|attribute| attribute["AT"] = text.clone());
    }),
    ("without results", |op| op["O"] = Json::Array(Vec::new())),
    ("without regions", |op| drop(op.as_object_mut().and_then(|op| op.remove("regions")))),
];

#[test]
fn damaged_programs_are_converted_or_refused_by_operator() {
    let calls = pir_lines("calls.jsonl.gz");
    let (mut converted, mut refused) = (0, 0);
    for call in &calls {
        let ops = call["pir"]["program"]["regions"][0]["blocks"][0]["ops"].as_array().unwrap();
        let damaged = (0..ops.len()).filter(|number| ops[*number]["#"] != "p");
        for number in damaged {
            for (how, damage) in DAMAGES {
                let mut program = call["pir"].clone();
                damage(&mut program["program"]["regions"][0]["blocks"][0]["ops"][number]);
                let what = format!("{}, operator {number} {how}", call["name"]);
                // A program that reads what no operator produces is malformed.
                let Ok(model) = open_bytes(serde_json::to_vec(&program).unwrap()) else {
                    refused += 1;
                    continue;
                };
                for to in [Dialect::Paddle, Dialect::Onnx] {
                    let mut model = model.clone();
                    match lower(&mut model, to, &mut Report::default()).unwrap() {
                        Ok(_) => converted += 1,
                        Err(error) => {
                            let findings = &error.findings;
                            assert!(!findings.has(Code::Internal), "{what}: {error}");
                            let is_placed = |it: &Located| {
                                it.place.contains("operator") || it.place.contains("the program")
                            };
                            assert!(findings.located.iter().all(is_placed), "{what}: {error}");
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(converted > 1000 && refused > 10_000, "{converted} converted, {refused} refused");
}

#[test]
fn an_absent_member_of_a_list_that_is_read_is_reported() {
    let list = |names: &[&str]| {
        let args = names.iter().map(|name| (*name).to_owned()).collect();
        vec![Operand { slot: String::new(), args }]
    };
    let op = |kind: &str, inputs: &[&str], outputs: &[&str]| Op {
        kind: kind.to_owned(),
        inputs: list(inputs),
        outputs: list(outputs),
        ..Op::default()
    };
    let ops = vec![
        op("pd_op.data", &[], &["x"]),
        op("builtin.combine", &["x", ""], &["both"]),
        op("builtin.split", &["both"], &["first", "second"]),
        op("pd_op.relu", &["second"], &["y"]),
        op("pd_op.abs", &["y"], &["z"]),
        op("pd_op.fetch", &["z"], &["out"]),
    ];
    let block = Block { parent: -1, ops, ..Block::default() };
    let mut model = Model::default();
    model.set_main(Topology { blocks: vec![block], ..Topology::new(Dialect::Pir) }.into());
    let error = lower(&mut model, Dialect::Paddle, &mut Report::default()).unwrap().unwrap_err();
    let findings: Vec<String> = error.findings.located.iter().map(Located::to_string).collect();
    let expected =
        "the main block, operator 3 (`pd_op.relu`): the list has no value for the result `second`";
    assert_eq!(findings, [expected]);
}

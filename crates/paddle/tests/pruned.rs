//! Pruned programs of PaddlePaddle 2.6.2 compute the same results as the whole programs (`golden/make_paddle_pruned.py`).

#![expect(clippy::disallowed_methods, reason = "reads golden files directly")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::path::Path;

use lodstone_model::{DType, Op, Program, Tensor};
use lodstone_paddle::executor::{Dirs, Executor, Scope};
use lodstone_paddle::program::{Network, layers, load_program, prune};
use lodstone_store::Blob;
use serde_json::Value;

/// Cases in which PaddlePaddle keeps other operators, and why ours are right.
const OTHERS: &[(&str, &str)] = &[(
    "fed_and_changed",
    "PaddlePaddle drops what writes a variable that is fed: it gives other numbers",
)];

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/paddle_pruned"))
}

fn cases() -> serde_json::Map<String, Value> {
    serde_json::from_slice(&std::fs::read(folder().join("cases.json")).unwrap()).unwrap()
}

fn names(case: &Value, of: &str) -> Vec<String> {
    case[of].as_object().unwrap().keys().cloned().collect()
}

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn pruned(name: &str, case: &Value) -> (Program, Program) {
    let main = load_program(folder().join(name).join("main")).unwrap();
    let (feeds, targets) = (names(case, "feed"), names(case, "gives"));
    let pruned = prune(&main, &borrowed(&feeds), &borrowed(&targets)).unwrap();
    (main, pruned)
}

#[expect(clippy::cast_possible_truncation, reason = "the values were written from float32")]
fn tensor(told: &Value) -> Tensor {
    let shape = told["shape"].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap());
    let values = told["values"].as_array().unwrap();
    let (dtype, bytes) = match told["dtype"].as_str().unwrap() {
        "float32" => {
            let bytes = values.iter().flat_map(|v| (v.as_f64().unwrap() as f32).to_le_bytes());
            (DType::Float32, bytes.collect::<Vec<u8>>())
        }
        _ => {
            let bytes = values.iter().flat_map(|value| value.as_i64().unwrap().to_le_bytes());
            (DType::Int64, bytes.collect())
        }
    };
    Tensor::dense(dtype, shape.collect(), Blob::memory(bytes))
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.data.bytes().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    match tensor.dtype {
        DType::Float32 => {
            let float = |four: &[u8]| f32::from_le_bytes(four.try_into().unwrap()).into();
            bytes.chunks_exact(4).map(float).collect()
        }
        _ => {
            let long = |eight: &[u8]| i64::from_le_bytes(eight.try_into().unwrap()) as f64;
            bytes.chunks_exact(8).map(long).collect()
        }
    }
}

/// Returns the kinds of operators, and their outputs.
fn told(op: &Op) -> Value {
    let mut writes: Vec<&str> = op.writes().collect();
    writes.sort_unstable();
    serde_json::json!([op.kind, writes])
}

#[test]
fn pruned_programs_compute_the_same_results() {
    for (name, case) in cases() {
        let (_, pruned) = pruned(&name, &case);
        let startup = load_program(folder().join(&name).join("startup")).unwrap();
        let (mut executor, mut scope) = (Executor::default(), Scope::default());
        executor.run(&startup, &mut scope, &[], &[], &Dirs::default()).unwrap();
        let feed = case["feed"].as_object().unwrap();
        let feed: Vec<_> = feed.iter().map(|(name, told)| (name.as_str(), tensor(told))).collect();
        let targets = names(&case, "gives");
        let fetch = borrowed(&targets);
        let found = executor.run(&pruned, &mut scope, &feed, &fetch, &Dirs::default());
        let found = found.map_err(|error| format!("{name}: {error}")).unwrap();
        for (target, found) in targets.iter().zip(found) {
            let expected = tensor(&case["gives"][target]);
            assert_eq!(found.shape, expected.shape, "{name}: `{target}`");
            for (found, expected) in values(&found).into_iter().zip(values(&expected)) {
                let close = (found - expected).abs() <= 1e-5 + 1e-5 * expected.abs();
                assert!(close, "{name}: `{target}` has {found}, expected {expected}");
            }
        }
    }
}

#[test]
fn pruned_programs_are_those_of_paddlepaddle() {
    let mut different = Vec::new();
    for (name, case) in cases() {
        let (_, pruned) = pruned(&name, &case);
        let blocks = pruned.blocks.iter().map(|block| block.ops.iter().map(told).collect());
        let found: Vec<Value> = blocks.collect();
        let expected = case["operators"].as_array().unwrap();
        let is_other = OTHERS.iter().any(|(other, _)| *other == name);
        if (found != *expected) != is_other {
            different.push(format!("{name}:\n{}\n{}", Value::from(found), case["operators"]));
        }
        assert!(case["agrees"] == true || is_other, "{name}: PaddlePaddle's own is wrong");
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn pruned_programs_are_complete() {
    for (name, case) in cases() {
        let (_, pruned) = pruned(&name, &case);
        for (number, block) in pruned.blocks.iter().enumerate() {
            assert_eq!(usize::try_from(block.index).unwrap(), number, "{name}");
            let declared = block.vars.iter().map(|var| var.name.as_str());
            let named = pruned.ops().flat_map(|op| op.reads().chain(op.writes()));
            let named: Vec<&str> = named.collect();
            assert!(declared.into_iter().all(|var| named.contains(&var)), "{name}");
        }
        let runs: Vec<i32> = pruned.ops().flat_map(|op| op.blocks()).collect();
        let mut sorted = runs.clone();
        sorted.sort_unstable();
        let expected: Vec<i32> = (1..).take(pruned.blocks.len() - 1).collect();
        assert_eq!(sorted, expected, "{name}");
    }
}

#[test]
fn unsupported_operators_are_rejected() {
    let mut net = Network::new();
    let shares = layers::data(&mut net, "shares", &[None, Some(3)], DType::Float32);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    let right = layers::accuracy(&mut net, &shares, &label, 1).unwrap();
    let array = layers::create_array(&mut net, DType::Float32).unwrap();
    let refused = |feeds: &[&str], target: &str, part: &str| {
        let error = prune(&net.main, feeds, &[target]).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(&[], "nowhere", "does not have this variable");
    refused(&[], array.name(), "neither computed nor fed");
    // If only the values are fed, an operator would overwrite them, since the indices are needed too.
    let values = net.main.blocks[0].ops[0].output("Out")[0].as_str();
    refused(
        &[values, "label"],
        right.name(),
        "it is fed, but `top_k_v2`, which is needed, writes it",
    );
    prune(&net.main, &["shares", "label"], &[right.name()]).unwrap();
}

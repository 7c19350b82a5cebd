//! Kernels compute what the node tests of the onnx package say: a selection of them always, and all of them
//! with `LODSTONE_ONNX_NODE_TESTS=DIR`, which `make_onnx_nodes.py DIR` wrote (`cargo xtask interop onnx`).
//!
//! `absent.tsv` lists operators that have no kernel, `wrong.tsv` cases that are not computed as recorded; a line
//! of them that is not true any more fails, as does what they do not list.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail so"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use burn_flex::Flex;
use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::{DType, Model, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{NoBodies, ValueInfo, infer_op};
use lodstone_schema::onnx::{newest_opset, operators, upgrade};
use lodstone_store::{Blob, Location};

use super::tensor::converted;
use super::{Call, kernel};
use crate::item::{Item, burn_type};

pub(super) fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx_nodes")
}

fn bytes(path: &Path) -> Vec<u8> {
    Blob::open(path, false).and_then(|blob| blob.read()).expect("there").to_vec()
}

/// The cases of a directory.
pub(super) fn cases(directory: &Path) -> Vec<String> {
    let index: serde_json::Value =
        serde_json::from_slice(&bytes(&directory.join("index.json"))).expect("JSON");
    let cases = index.get("cases").and_then(|cases| cases.as_array()).expect("a list");
    cases.iter().map(|case| case.as_str().expect("a name").to_owned()).collect()
}

/// What a list says, with the reasons.
fn listed(name: &str) -> BTreeMap<String, String> {
    let text = String::from_utf8(bytes(&golden().join(name))).expect("text");
    let line = |line: &str| {
        let (what, why) = line.split_once('\t').unwrap_or_else(|| panic!("`{line}` has no reason"));
        (what.to_owned(), why.to_owned())
    };
    text.lines().map(line).collect()
}

pub(super) fn open(path: &Path) -> Model {
    let mut model =
        (onnx::BINARY.read)(&Location::from(path), &OpenOptions::default()).expect("readable");
    model.load().expect("readable");
    model
}

/// Computes one operator after the other, and compares what comes out.
fn run(mut model: Model) -> Result<(), Finding> {
    let newest = newest_opset("").expect("known");
    upgrade(&mut model, newest).map_err(|error| error.to_string())?;
    let mut values: HashMap<String, Item<Flex>> = HashMap::new();
    let (mut expected, mut opset) = (Vec::new(), newest);
    for parameter in &model.parameters {
        match parameter.name.strip_prefix("expected.") {
            Some(name) => expected.push((name.to_owned(), parameter.tensor.clone())),
            None => {
                values.insert(parameter.name.clone(), Item::enter(&parameter.tensor)?);
            }
        }
    }
    let program = model.main().ok_or("there is no program")?;
    if let Some((_, version)) = program.operator_versions.iter().find(|(set, _)| set.is_empty()) {
        opset = *version;
    }
    for op in &program.blocks.first().ok_or("there is no graph")?.ops {
        compute(op, opset, &mut values).map_err(|what| format!("{}: {what}", op.kind))?;
    }
    for (name, tensor) in expected {
        let found = values.remove(&name).ok_or_else(|| format!("there is no `{name}`"))?;
        compare(&found.leave()?, &tensor).map_err(|what| format!("`{name}`: {what}"))?;
    }
    Ok(())
}

fn compute(op: &Op, opset: i64, values: &mut HashMap<String, Item<Flex>>) -> Result<(), Finding> {
    let inputs: Vec<Option<Item<Flex>>> =
        op.input("").iter().map(|name| values.get(name).cloned()).collect();
    let tensors = inputs.iter().map(|item| item.clone().map(Item::leave).transpose());
    let tensors: Vec<Option<Tensor>> = tensors.collect::<Result<_, _>>()?;
    let infos: Vec<_> = tensors.iter().map(|tensor| tensor.as_ref().map(ValueInfo::of)).collect();
    let infos: Vec<_> = infos.iter().map(Option::as_ref).collect();
    infer_op(op, opset, &infos, &mut NoBodies).map_err(|what| format!("it is refused: {what}"))?;
    let run = kernel::<Flex>(&op.domain, &op.kind).ok_or("it has no kernel")?;
    for (name, item) in op.output("").iter().zip(run(&Call { op, inputs })?) {
        values.insert(name.clone(), item);
    }
    Ok(())
}

fn compare(found: &Tensor, expected: &Tensor) -> Result<(), Finding> {
    if (found.dtype, &found.shape) != (expected.dtype, &expected.shape) {
        let show = |tensor: &Tensor| format!("{} {:?}", tensor.dtype, tensor.shape);
        return Err(format!("{}, expected {}", show(found), show(expected)).into());
    }
    let (relative, absolute) = match expected.dtype {
        DType::Float16 | DType::BFloat16 => (1e-2, 1e-3),
        DType::Float32 | DType::Float64 => (1e-3, 1e-5),
        _ => (0.0, 0.0),
    };
    let numbers = |tensor: &Tensor| Item::<Flex>::enter(tensor)?.to_doubles();
    let exact = relative == 0.0;
    if exact && found.data.bytes().unwrap() == expected.data.bytes().unwrap() {
        return Ok(());
    }
    for (place, (found, expected)) in numbers(found)?.iter().zip(numbers(expected)?).enumerate() {
        let same = *found == expected || (found.is_nan() && expected.is_nan());
        let near = (found - expected).abs() <= absolute + relative * expected.abs();
        if !(same || near && expected.is_finite()) {
            return Err(format!("element {place} is {found}, expected {expected}").into());
        }
    }
    if exact { Err("the bytes differ".into()) } else { Ok(()) }
}

/// How many cases were computed as recorded.
fn check(directory: &Path, is_whole: bool) -> usize {
    let (absent, wrong) = (listed("absent.tsv"), listed("wrong.tsv"));
    let (mut right, mut told) = (0, Vec::new());
    let mut met: BTreeSet<String> = BTreeSet::new();
    for kind in absent.keys().filter(|kind| kernel::<Flex>("", kind).is_some()) {
        told.push(format!("{kind} has a kernel, and is in absent.tsv"));
    }
    for name in cases(directory) {
        let model = open(&directory.join(format!("{name}.onnx")));
        let program = model.main().expect("a program");
        let kinds: BTreeSet<&str> = program.ops().map(|op| op.kind.as_str()).collect();
        if kinds.iter().any(|kind| absent.contains_key(*kind)) {
            met.extend(kinds.iter().map(|kind| (*kind).to_owned()));
            continue;
        }
        let strange = |op: &Op| !op.domain.is_empty();
        if program.ops().any(strange) {
            continue;
        }
        let known = model.parameters.iter().all(|found| burn_type(found.tensor.dtype).is_ok());
        let made = catch_unwind(AssertUnwindSafe(|| run(model)));
        let made = made.unwrap_or_else(|_| Err("it panics".into()));
        met.insert(name.clone());
        match (made, wrong.contains_key(&name) || !known) {
            (Ok(()), false) => right += 1,
            (Err(what), true) if what.message.ends_with("panics") => {
                told.push(format!("{name}: {what}"))
            }
            (Err(_), true) => {}
            (Ok(()), true) => told.push(format!("{name} is right, and in wrong.tsv")),
            (Err(what), false) => told.push(format!("{name}: {what}")),
        }
    }
    let gone = absent.keys().chain(wrong.keys()).filter(|name| is_whole && !met.contains(*name));
    told.extend(gone.map(|name| format!("{name} is in a list, and in no case")));
    assert!(told.is_empty(), "{} things, {right} right:\n{}", told.len(), told.join("\n"));
    right
}

#[test]
fn a_selection_of_node_tests_is_computed_as_recorded() {
    let right = check(&golden(), false);
    assert!(right > 290, "{right}");
}

/// What NumPy says of `a.op(b)` for arrays of these types.
#[test]
fn integers_wrap_around() {
    let compute = |kind: &str, dtype: DType, a: i64, b: i64| {
        let of = |value: i64| {
            let to = burn_type(dtype).expect("known");
            Some(converted(Item::<Flex>::longs(&[value]), to).expect("converted"))
        };
        let op = Op { kind: kind.to_owned(), ..Op::default() };
        let run = kernel::<Flex>("", kind).expect("a kernel");
        let made = run(&Call { op: &op, inputs: vec![of(a), of(b)] }).expect("computed");
        made.first().expect("an output").to_longs().expect("read")[0]
    };
    for (kind, dtype, a, b, expected) in [
        ("Add", DType::Int64, i64::MAX, 1, i64::MIN),
        ("Sub", DType::Int64, i64::MIN, 1, i64::MAX),
        ("Mul", DType::Int64, i64::MAX, 2, -2),
        ("Div", DType::Int64, i64::MIN, -1, i64::MIN),
        ("Mod", DType::Int64, i64::MIN, -1, 0),
        ("Add", DType::Int32, 2_147_483_647, 1, -2_147_483_648),
        ("Mul", DType::Int32, 65_536, 65_536, 0),
        ("Div", DType::Int32, -2_147_483_648, -1, -2_147_483_648),
        ("Add", DType::Int8, 127, 1, -128),
        ("Sub", DType::Uint8, 0, 1, 255),
        ("Mul", DType::Uint16, 65_535, 65_535, 1),
        ("Mul", DType::Uint32, 4_294_967_295, 4_294_967_295, 1),
        // -1 has the bits of the greatest one.
        ("Add", DType::Uint64, -1, 2, 1),
        ("Div", DType::Uint64, -1, 4, 4_611_686_018_427_387_903),
        ("MatMul", DType::Int32, 65_536, 65_537, 65_536),
    ] {
        assert_eq!(compute(kind, dtype, a, b), expected, "{kind} of {dtype}: {a} and {b}");
    }
}

#[test]
fn every_kernel_has_a_case() {
    let mut cased: BTreeSet<String> = BTreeSet::new();
    for name in cases(&golden()) {
        let program =
            open(&golden().join(format!("{name}.onnx"))).programs.into_main().expect("a program");
        cased.extend(program.ops().map(|op| op.kind.clone()));
    }
    let kinds: BTreeSet<&str> = operators()
        .filter(|operator| operator.domain == "ai.onnx")
        .map(|operator| operator.kind)
        .filter(|kind| kernel::<Flex>("", kind).is_some() && !cased.contains(*kind))
        .collect();
    assert!(kinds.is_empty(), "{kinds:?}");
}

#[test]
fn all_node_tests_are_computed_as_recorded() {
    let Some(directory) = std::env::var_os("LODSTONE_ONNX_NODE_TESTS") else { return };
    let right = check(Path::new(&directory), true);
    assert!(right > 1300, "{right}");
}

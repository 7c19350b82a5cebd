//! Plans compute the node tests of the onnx package: a selection always, and all of them
//! with `LODSTONE_ONNX_NODE_TESTS=DIR`, which `make_onnx_nodes.py DIR` wrote (`cargo xtask interop onnx`). Each case is
//! planned in both modes, with its inputs as inputs and as constants.
//!
//! `absent.tsv` lists operators that have no kernel, `wrong.tsv` cases whose results differ from the recorded ones; a
//! line that is no longer true fails, as does an unlisted case.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail so"
)]

mod case;
mod downgrade;
mod hostile;
#[cfg(feature = "images")]
mod images;
mod numerics;
mod onnx_runtime;
mod pooling;
mod random;
mod scattering;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use lodstone_engine::{Dense, Mode, Threads, Value, is_computed};
use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::{DType, Model, Op, Operand, Program, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::onnx::{newest_opset, operators};
use lodstone_store::{Blob, Location};

use case::{
    Case, MEMORY, Named, WAYS, Way, are_same, case_of, compute, finding, run, run_program,
    run_with, structures,
};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx_nodes")
}

fn bytes(path: &Path) -> Vec<u8> {
    Blob::open(path, false).and_then(|blob| blob.read()).expect("there").to_vec()
}

/// Returns the cases of a directory.
fn cases(directory: &Path) -> Vec<String> {
    let index: serde_json::Value =
        serde_json::from_slice(&bytes(&directory.join("index.json"))).expect("JSON");
    let cases = index.get("cases").and_then(|cases| cases.as_array()).expect("a list");
    cases.iter().map(|case| case.as_str().expect("a name").to_owned()).collect()
}

/// Returns the entries of a list, with the reasons.
fn listed(name: &str) -> BTreeMap<String, String> {
    let text = String::from_utf8(bytes(&golden().join(name))).expect("text");
    let line = |line: &str| {
        let (what, why) = line.split_once('\t').unwrap_or_else(|| panic!("`{line}` has no reason"));
        (what.to_owned(), why.to_owned())
    };
    text.lines().map(line).collect()
}

fn open(path: &Path) -> Model {
    let mut model =
        (onnx::BINARY.read)(&Location::from(path), &OpenOptions::default()).expect("readable");
    model.load().expect("readable");
    model
}

/// Runs one operator on tensors, with its own plan.
fn run_op(
    op: &Op,
    opset: i64,
    inputs: &[Option<Tensor>],
    mode: Mode,
) -> Result<Vec<Tensor>, Finding> {
    let mut op = op.clone();
    let mut values = Vec::new();
    let mut args = Vec::new();
    for (number, input) in inputs.iter().enumerate() {
        let name = if input.is_some() { format!("input {number}") } else { String::new() };
        args.push(name.clone());
        if let Some(tensor) = input {
            values.push((name, Value::of(tensor)?));
        }
    }
    op.inputs = vec![Operand { slot: String::new(), args }];
    if op.output("").is_empty() {
        op.outputs = vec![Operand { slot: String::new(), args: vec!["output".to_owned()] }];
    }
    let outputs = op.writes().map(str::to_owned).collect();
    let block = lodstone_model::Block { ops: vec![op], outputs, ..Default::default() };
    let program = Program::from(lodstone_model::Topology {
        operator_versions: vec![(String::new(), opset)],
        blocks: vec![block],
        ..lodstone_model::Topology::new(lodstone_model::Dialect::Onnx)
    });
    let made = run_program(program, values, Way { mode, constants: false })?;
    made.iter().map(Value::tensor).collect()
}

/// Returns the number of cases that were computed as recorded.
fn check(directory: &Path, is_whole: bool) -> usize {
    let (absent, wrong) = (listed("absent.tsv"), listed("wrong.tsv"));
    let (mut right, mut told) = (0, Vec::new());
    let mut met: BTreeSet<String> = BTreeSet::new();
    for kind in absent.keys().filter(|kind| is_computed("", kind)) {
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
        let each = WAYS.iter().try_for_each(|way| {
            let made = catch_unwind(AssertUnwindSafe(|| run(model.clone(), *way)));
            let made = made.unwrap_or_else(|_| Err("it panics".into()));
            made.map_err(|finding| finding.within(format!("{way:?}")))
        });
        let made = each;
        met.insert(name.clone());
        match (made, wrong.contains_key(&name)) {
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

/// The element types of NumPy's results of `a.op(b)` for arrays of these types.
#[test]
fn integers_wrap_around() {
    let threads = Threads::default();
    let longs = |value: i64| {
        let bytes = value.to_le_bytes().to_vec();
        Dense::new(DType::Int64, vec![1], bytes.into()).expect("an integer")
    };
    let compute = |kind: &str, dtype: DType, a: i64, b: i64| {
        let of = |value: i64| {
            Some(longs(value).cast(dtype, &threads).and_then(|it| it.tensor()).expect("converted"))
        };
        let op = Op { kind: kind.to_owned(), ..Op::default() };
        let opset = newest_opset("").expect("known");
        let made = run_op(&op, opset, &[of(a), of(b)], Mode::Fast).expect("computed");
        let wide = Dense::of(&made[0]).and_then(|it| it.cast(DType::Int64, &threads));
        let bytes = wide.and_then(|it| it.bytes()).expect("read");
        i64::from_le_bytes(bytes[..].try_into().expect("one"))
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
        // -1 has the bits of the largest number.
        ("Add", DType::Uint64, -1, 2, 1),
        ("Div", DType::Uint64, -1, 4, 4_611_686_018_427_387_903),
        ("MatMul", DType::Int32, 65_536, 65_537, 65_536),
    ] {
        assert_eq!(compute(kind, dtype, a, b), expected, "{kind} of {dtype}: {a} and {b}");
    }
}

/// Numbers of both signs, with ties and zeros; enough for several threads.
fn singles() -> Tensor {
    let number = |place: u32| (place.wrapping_mul(2_654_435_761) >> 12) % 4001;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let bytes: Vec<u8> =
        (0..70_003).flat_map(|place| (number(place) as f32 / 400.0 - 5.0).to_le_bytes()).collect();
    Tensor::dense(DType::Float32, vec![70_003], Blob::memory(bytes))
}

/// Returns the distance of two results, as [`Mode::error`] measures it.
fn apart(fast: &Tensor, reference: &Tensor, inputs: f64) -> f64 {
    let numbers = |tensor: &Tensor| Dense::of(tensor).and_then(|it| it.to_f64()).expect("read");
    let far = |(fast, reference): (f64, f64)| match fast == reference {
        true => 0.0,
        false if fast.is_nan() && reference.is_nan() => 0.0,
        false => (fast - reference).abs() / reference.abs().max(inputs),
    };
    numbers(fast).into_iter().zip(numbers(reference)).map(far).fold(0.0, f64::max)
}

#[test]
fn fast_plans_are_as_near_to_the_reference_as_they_say() {
    let (mut compared, mut differ) = (0, 0);
    let opset = newest_opset("").expect("known");
    let kinds: BTreeSet<&str> = operators()
        .filter(|operator| operator.domain == "ai.onnx" && is_computed("", operator.kind))
        .map(|operator| operator.kind)
        .collect();
    for kind in kinds {
        let op = Op { kind: kind.to_owned(), ..Op::default() };
        for count in [1, 2] {
            let inputs = vec![Some(singles()); count];
            let [fast, reference] =
                [Mode::Fast, Mode::Reference].map(|mode| run_op(&op, opset, &inputs, mode));
            let (Ok(fast), Ok(reference)) = (&fast, &reference) else {
                assert_eq!(fast.is_ok(), reference.is_ok(), "{kind}");
                continue;
            };
            for (fast, reference) in fast.iter().zip(reference) {
                compared += 1;
                let far = apart(fast, reference, 5.0);
                differ += usize::from(far > 0.0);
                assert!(far <= Mode::Fast.error(kind), "{kind}: {far}");
            }
        }
    }
    assert!(compared > 40 && differ > 0, "{compared} compared, {differ} of them differ");
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
        .filter(|kind| is_computed("", kind) && !cased.contains(*kind))
        .collect();
    // The package has no models of these: see `optional_values_are_made`, `pooling`, `random`.
    let absent = [
        "GlobalLpPool",
        "MaxRoiPool",
        "Multinomial",
        "Optional",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ];
    assert!(kinds.iter().eq(&absent), "{kinds:?}");
}

#[test]
fn all_node_tests_are_computed_as_recorded() {
    let Some(directory) = std::env::var_os("LODSTONE_ONNX_NODE_TESTS") else { return };
    let right = check(Path::new(&directory), true);
    assert!(right > 1870, "{right}");
}

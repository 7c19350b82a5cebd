//! Single operators compute what PaddlePaddle 2.6.2 computed.
//!
//! `golden/make_paddle_operators.py` says what a case is and recorded them. Element types, extents, LoD, integers
//! and truth values are the same; numbers with fractions are as close as [`TOLERANCE`] says.

#![expect(clippy::disallowed_methods, reason = "reads its recordings")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers that were recorded fit"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lodstone_formats::{OpenOptions, numpy};
use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, DType, Dim, Lod, Op, Operand, Program, Tensor,
    TensorType, ValueType, Var, VarKind,
};
use lodstone_runtime::{Dirs, Executor, Scope};
use lodstone_store::Blob;
use serde_json::Value as Json;

/// The version that the programs follow.
const RELEASE: i64 = 2_006_002;

/// Operators of ONNX that have no kernel yet: what needs one fails, and names it.
const NO_KERNEL: &[&str] = &[];

/// Cases that give something else, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("pool2d-8", "a window that lies in the padding alone counts, which ONNX does not know"),
    ("pool2d-28", "a window that lies in the padding alone counts, which ONNX does not know"),
    ("pool2d-13", "its adaptive maxima are not those of the cells"),
    ("pool2d-14", "its adaptive maxima are not those of the cells"),
    ("pool2d-15", "its adaptive maxima are not those of the cells"),
    ("pool2d-16", "its adaptive maxima are not those of the cells"),
    ("pool2d-19", "its adaptive maxima are not those of the cells"),
    ("elementwise_max-10", "PaddlePaddle takes the second of two where the first is no number"),
    (
        "fill_constant_batch_size_like-4",
        "the batch of a tensor with LoD is the number of its sequences",
    ),
    ("matmul-9", "the older product pairs matrices by number where extents differ"),
    ("matmul-19", "the older product pairs matrices by number where extents differ"),
];

/// How far a number may be from the recorded one: relative to it, and at all.
const TOLERANCE: (f64, f64) = (1e-5, 1e-6);

struct Recorded {
    cases: Vec<Json>,
    elements: BTreeMap<String, Tensor>,
}

fn recorded() -> Recorded {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let file = std::fs::read(golden.join("paddle_operators.json")).unwrap();
    let json: Json = serde_json::from_slice(&file).unwrap();
    let read = numpy::NPZ.read;
    let model = read(&golden.join("paddle_operators.npz"), &OpenOptions::default()).unwrap();
    let elements = model.parameters.into_iter().map(|array| (array.name, array.tensor)).collect();
    Recorded { cases: json["cases"].as_array().unwrap().clone(), elements }
}

impl Recorded {
    /// A tensor as a case tells it: type, extents, where its elements begin, and LoD if there is one.
    fn tensor(&self, fact: &Json) -> Tensor {
        let dtype = DType::from_name(fact[0].as_str().unwrap()).unwrap();
        let shape: Vec<u64> = longs(&fact[1]).iter().map(|dim| *dim as u64).collect();
        let size = dtype.size_of(&[1]).unwrap();
        let (begin, many) = (fact[2].as_u64().unwrap() * size, dtype.size_of(&shape).unwrap());
        let all = self.elements[fact[0].as_str().unwrap()].data.bytes().unwrap();
        let data = all.slice(begin as usize..(begin + many) as usize);
        let mut tensor = Tensor::dense(dtype, shape, Blob::memory(data));
        if let Some(levels) = fact.get(3).and_then(Json::as_array) {
            let level = |level: &Json| longs(level).iter().map(|offset| *offset as u64).collect();
            tensor.lod = Lod(levels.iter().map(level).collect());
        }
        tensor
    }
}

fn longs(json: &Json) -> Vec<i64> {
    json.as_array().unwrap().iter().map(|value| value.as_i64().unwrap()).collect()
}

/// A number; JSON has no infinite ones, Python's has.
fn double(json: &Json) -> f64 {
    json.as_f64().unwrap_or_else(|| json.as_str().unwrap().parse().unwrap())
}

fn attribute(key: &str, json: &Json) -> Attribute {
    let (name, code) = key.split_once(':').unwrap();
    let doubles = || json.as_array().unwrap().iter().map(double).collect::<Vec<f64>>();
    let value = match code {
        "b" => AttributeValue::Bool(json.as_bool().unwrap()),
        "i" => AttributeValue::Int(json.as_i64().unwrap() as i32),
        "is" => AttributeValue::Ints(longs(json).iter().map(|value| *value as i32).collect()),
        "l" => AttributeValue::Long(json.as_i64().unwrap()),
        "ls" => AttributeValue::Longs(longs(json)),
        "f" => AttributeValue::Float(double(json) as f32),
        "fs" => AttributeValue::Floats(doubles().iter().map(|value| *value as f32).collect()),
        "d" => AttributeValue::Double(double(json)),
        "ds" => AttributeValue::Doubles(doubles()),
        "s" => AttributeValue::String(ByteString::from(json.as_str().unwrap())),
        other => panic!("{name} has the type {other}"),
    };
    Attribute { name: name.to_owned(), value }
}

fn operands(json: &Json) -> Vec<Operand> {
    let args = |names: &Json| {
        names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let slots = json.as_object().unwrap().iter();
    slots.map(|(slot, names)| Operand { slot: slot.clone(), args: args(names) }).collect()
}

/// A program of one operator, whose variables may be anything.
fn program(op: Op, feed: &[(&str, Tensor)]) -> Program {
    let names: BTreeSet<&str> = op.reads().chain(op.writes()).collect();
    let var = |name: &&str| {
        let fed = feed.iter().find(|(fed, _)| fed == name).map(|(_, tensor)| TensorType {
            dtype: tensor.dtype,
            shape: Some(tensor.shape.iter().map(|extent| Dim::Known(*extent)).collect()),
            lod_level: tensor.lod.0.len() as u32,
        });
        let tensors = fed.into_iter().collect();
        let value = ValueType { kind: VarKind::Tensor, tensors, ..ValueType::default() };
        Var { name: (*name).to_owned(), value, ..Var::default() }
    };
    let vars = names.iter().map(var).collect();
    let block = Block { parent: -1, vars, ops: vec![op], ..Block::default() };
    Program { version: Some(RELEASE), blocks: vec![block], ..Program::default() }
}

/// What is wrong with the results of a case; nothing if they are right.
fn failure(recorded: &Recorded, case: &Json) -> Option<String> {
    let kind = case["kind"].as_str().unwrap();
    let attributes = case["attributes"].as_object().unwrap().iter();
    let op = Op {
        kind: kind.to_owned(),
        inputs: operands(&case["inputs"]),
        outputs: operands(&case["outputs"]),
        attributes: attributes.map(|(key, value)| attribute(key, value)).collect(),
        ..Op::default()
    };
    let tensors = |part: &'static str| {
        let facts = case[part].as_object().unwrap().iter();
        facts.map(|(name, fact)| (name.as_str(), recorded.tensor(fact))).collect::<Vec<_>>()
    };
    let (feed, wanted) = (tensors("feed"), tensors("fetch"));
    let fetch: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let program = program(op, &feed);
    let found =
        Executor::default().run(&program, &mut Scope::default(), &feed, &fetch, &Dirs::default());
    let found = match found {
        Ok(found) => found,
        Err(error) => return Some(error.to_string()),
    };
    let pairs = wanted.iter().zip(&found);
    let differences = pairs.filter_map(|((name, wanted), found)| {
        difference(wanted, found).map(|what| format!("`{name}`: {what}"))
    });
    let differences: Vec<String> = differences.collect();
    (!differences.is_empty()).then(|| differences.join("; "))
}

fn difference(wanted: &Tensor, found: &Tensor) -> Option<String> {
    if (wanted.dtype, &wanted.shape) != (found.dtype, &found.shape) {
        let (dtype, shape) = (wanted.dtype, &wanted.shape);
        return Some(format!("expected {dtype}{shape:?}, found {}{:?}", found.dtype, found.shape));
    }
    if wanted.lod != found.lod {
        return Some(format!("expected LoD {:?}, found {:?}", wanted.lod.0, found.lod.0));
    }
    let (relative, absolute) = match wanted.dtype.is_float() {
        true => TOLERANCE,
        false => (0.0, 0.0),
    };
    let (left, right) = (elements(wanted), elements(found));
    let near = |(left, right): (&f64, &f64)| {
        left == right
            || (left.is_nan() && right.is_nan())
            || (left - right).abs() <= absolute + relative * left.abs()
    };
    let far = left.iter().zip(&right).filter(|(left, right)| !near((left, right))).count();
    (far > 0 || left.len() != right.len()).then(|| {
        let some = |all: &[f64]| all.iter().take(8).copied().collect::<Vec<f64>>();
        let (of, expected, got) = (left.len(), some(&left), some(&right));
        format!("{far} of {of} elements differ: expected {expected:?}.., found {got:?}..")
    })
}

/// Elements as numbers. (The recorded integers are small enough to be told apart.)
fn elements(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.data.bytes().unwrap();
    macro_rules! each {
        ($type:ty) => {
            bytes
                .as_chunks::<{ size_of::<$type>() }>()
                .0
                .iter()
                .map(|bytes| <$type>::from_le_bytes(*bytes) as f64)
                .collect()
        };
    }
    match tensor.dtype {
        DType::Bool | DType::Uint8 => bytes.iter().map(|byte| f64::from(*byte)).collect(),
        DType::Int32 => each!(i32),
        DType::Int64 => each!(i64),
        DType::Float32 => each!(f32),
        DType::Float64 => each!(f64),
        other => panic!("nothing of {other} was recorded"),
    }
}

/// The operator of ONNX that a message says has no kernel.
fn missing_kernel(what: &str) -> Option<&str> {
    what.strip_suffix("` is not computed yet")?.rsplit('`').next()
}

#[test]
fn every_operator_computes_what_paddlepaddle_computed() {
    let recorded = recorded();
    assert!(recorded.cases.len() > 1300, "found {} cases", recorded.cases.len());
    let (mut wrong, mut missing, mut different) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for case in &recorded.cases {
        let name = case["name"].as_str().unwrap();
        let Some(what) = failure(&recorded, case) else { continue };
        let kernel = missing_kernel(&what).filter(|kernel| NO_KERNEL.contains(kernel));
        if let Some(kernel) = kernel {
            missing.insert(kernel.to_owned());
        } else if DIFFERENT.iter().any(|(known, _)| *known == name) {
            different.insert(name);
        } else {
            wrong.push(format!("{name}: {what} {}", case["attributes"]));
        }
    }
    let passes = DIFFERENT.iter().filter(|(name, _)| !different.contains(name));
    wrong.extend(passes.map(|(name, _)| format!("{name} passes, and is listed as different")));
    let kernels = NO_KERNEL.iter().filter(|kernel| !missing.contains(**kernel));
    wrong.extend(kernels.map(|kernel| format!("`{kernel}` is listed to be missing, and is not")));
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

//! The recordings of `golden/make_paddle_operators.py` and related scripts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use lodstone_formats::{OpenOptions, numpy};
use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, DType, Dialect, Kind, Lod, Op, Operand, Program,
    Scalar, Tensor, TensorType, Topology, Var,
};
use lodstone_store::{Blob, Location};
use serde_json::Value as Json;

/// The version that the programs follow.
pub(crate) const RELEASE: i64 = 2_006_002;

/// Tensors by name.
pub(crate) type Tensors<'n> = Vec<(&'n str, Tensor)>;

/// All cases, and the elements of their tensors.
pub(crate) struct Recorded {
    pub(crate) cases: Vec<Json>,
    elements: BTreeMap<String, Tensor>,
}

/// Folders of recordings.
pub(crate) const OPERATORS: &str = "paddle_operators";
pub(crate) const GRADIENTS: &str = "paddle_gradients";
pub(crate) const SEQUENCES: &str = "paddle_sequences";
/// Operators of 1.8.5.
pub(crate) const OLD_OPERATORS: &str = "paddle_old_operators";
/// The LoD of results of operators and gradients whose inputs have different LoD.
pub(crate) const LODS: &str = "paddle_lods";

/// Reads all recordings of a folder.
pub(crate) fn recorded(folder: &str) -> Recorded {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../paddle/tests/golden").join(folder);
    let files = std::fs::read_dir(&golden).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    files.sort();
    let cases = |path: PathBuf| {
        let json: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        json["cases"].as_array().unwrap().clone()
    };
    let read = numpy::NPZ.read;
    let model =
        read(&Location::from(golden.join("elements.npz")), &OpenOptions::default()).unwrap();
    // The arrays are compressed: they are inflated once, not for each tensor.
    let inflated = |mut tensor: Tensor| {
        tensor.data = Blob::memory(tensor.data.bytes().unwrap());
        tensor
    };
    let arrays = model.parameters.into_iter();
    let elements = arrays.map(|array| (array.name, inflated(array.tensor))).collect();
    Recorded { cases: files.into_iter().flat_map(cases).collect(), elements }
}

impl Recorded {
    /// Returns the operator of a case, its feeds, and its results.
    pub(crate) fn case<'c>(&self, case: &'c Json) -> (Op, Tensors<'c>, Tensors<'c>) {
        let attributes = case["attributes"].as_object().unwrap().iter();
        let op = Op {
            kind: case["kind"].as_str().unwrap().to_owned(),
            inputs: operands(&case["inputs"]),
            outputs: operands(&case["outputs"]),
            attributes: attributes.map(|(key, value)| attribute(key, value)).collect(),
            ..Op::default()
        };
        let tensors = |part: &'static str| {
            let facts = case[part].as_object().unwrap().iter();
            facts.map(|(name, fact)| (name.as_str(), self.tensor(fact))).collect()
        };
        (op, tensors("feed"), tensors("fetch"))
    }

    /// Returns a recorded tensor: type, dims, offset of its elements, and LoD if it has any; for selected rows also
    /// indices and height.
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
        if let (Some(rows), Some(height)) = (fact.get(4), fact.get(5).and_then(Json::as_i64)) {
            let rows: Vec<u8> = longs(rows).iter().flat_map(|row| row.to_le_bytes()).collect();
            tensor.kind = Kind::SelectedRows { rows: Blob::memory(rows), height };
        }
        tensor
    }
}

/// Reads the lines of a compressed file of recordings of PIR.
pub(crate) fn pir_lines(file: &str) -> Vec<Json> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../paddle/tests/golden/paddle_pir");
    let mut text = String::new();
    GzDecoder::new(&std::fs::read(golden.join(file)).unwrap()[..])
        .read_to_string(&mut text)
        .unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the bytes of hexadecimal digits.
pub(crate) fn hex(json: &Json) -> Vec<u8> {
    let digits = json.as_str().unwrap();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Returns a tensor of a recording of PIR: its type, dims, and bytes.
pub(crate) fn pir_tensor(json: &Json) -> Tensor {
    let dims = json[1].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
    let dtype = DType::from_name(json[0].as_str().unwrap()).unwrap();
    Tensor::dense(dtype, dims, Blob::memory(hex(&json[2])))
}

fn longs(json: &Json) -> Vec<i64> {
    json.as_array().unwrap().iter().map(|value| value.as_i64().unwrap()).collect()
}

/// Parses a number; infinities are encoded as in Python's JSON.
pub(crate) fn double(json: &Json) -> f64 {
    json.as_f64().unwrap_or_else(|| json.as_str().unwrap().parse().unwrap())
}

pub(crate) fn attribute(key: &str, json: &Json) -> Attribute {
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
        "scs" => AttributeValue::Scalars(json.as_array().unwrap().iter().map(scalar).collect()),
        "s" => AttributeValue::String(ByteString::from(json.as_str().unwrap())),
        other => panic!("{name} has the type {other}"),
    };
    Attribute { name: name.to_owned(), value }
}

fn scalar(json: &Json) -> Scalar {
    match json {
        Json::Bool(value) => Scalar::Bool(*value),
        _ => json.as_i64().map_or_else(|| Scalar::Double(double(json)), Scalar::Long),
    }
}

fn operands(json: &Json) -> Vec<Operand> {
    let args = |names: &Json| {
        names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let slots = json.as_object().unwrap().iter();
    slots.map(|(slot, names)| Operand { slot: slot.clone(), args: args(names) }).collect()
}

/// Returns a program of one operator, whose variables may have any type.
pub(crate) fn program(op: Op, feed: &[(&str, Tensor)]) -> Program {
    let names: BTreeSet<&str> = op.reads().chain(op.writes()).collect();
    let var = |name: &&str| {
        let fed = feed.iter().find(|(fed, _)| fed == name).map(|(_, fed)| TensorType::of(fed));
        let value = fed.unwrap_or_default().into();
        Var { name: (*name).to_owned(), value, ..Var::default() }
    };
    let vars = names.iter().map(var).collect();
    let block = Block { parent: -1, vars, ops: vec![op], ..Block::default() };
    Program::from(Topology {
        version: Some(RELEASE),
        blocks: vec![block],
        ..Topology::new(Dialect::Paddle)
    })
}

/// Describes how a tensor differs from a recorded one, if it does: another type, other dims, or elements of which floats
/// differ by more than a tolerance, relative and absolute.
pub(crate) fn difference(wanted: &Tensor, found: &Tensor, tolerance: (f64, f64)) -> Option<String> {
    if (wanted.dtype, &wanted.shape) != (found.dtype, &found.shape) {
        let (dtype, shape) = (wanted.dtype, &wanted.shape);
        return Some(format!("expected {dtype}{shape:?}, found {}{:?}", found.dtype, found.shape));
    }
    let (relative, absolute) = match wanted.dtype {
        DType::Float32 | DType::Float64 => tolerance,
        _ => (0.0, 0.0),
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

/// Converts elements to numbers. (The recorded integers are small enough to be exact.)
pub(crate) fn elements(tensor: &Tensor) -> Vec<f64> {
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
        DType::Int8 => bytes.iter().map(|byte| f64::from(byte.cast_signed())).collect(),
        // Bits are compared, so that NaN counts, too.
        DType::Float16 | DType::BFloat16 => each!(u16),
        DType::Int16 => each!(i16),
        DType::Int32 => each!(i32),
        DType::Int64 => each!(i64),
        DType::Float32 => each!(f32),
        DType::Float64 => each!(f64),
        other => panic!("no cases with {other} were recorded"),
    }
}

//! The recorded cases of operators, with inputs that are repeated along a dim.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lodstone_engine::{Dense, Map, Strings, Value};
use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::{DType, Model, Tensor};
use lodstone_store::Location;
use serde_json::Value as Json;

/// A case: a model without the values that were recorded with it, and its inputs.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) model: Model,
    pub(crate) inputs: BTreeMap<String, Value>,
}

/// Reads all cases of `golden/DIRECTORY`.
pub(crate) fn cases(directory: &str) -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(directory);
    let files = Location::from(directory.as_path()).list().unwrap();
    let names = files.iter().filter_map(|file| file.name.strip_suffix(".onnx"));
    names.map(|name| case(name, &directory.join(format!("{name}.onnx")))).collect()
}

/// Takes the recorded values out of a model. Inputs have the names of the graph's, or the prefix `input.`.
fn case(name: &str, path: &Path) -> Case {
    let location = Location::from(path);
    let mut model = (onnx::BINARY.read)(&location, &OpenOptions::default()).unwrap();
    model.load().unwrap();
    let described = model.metadata.get("lodstone.values");
    let described: serde_json::Map<String, Json> =
        described.map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default();
    let graph = model.main().unwrap().blocks[0].inputs.clone();
    let mut tensors = BTreeMap::new();
    model.parameters.retain(|it| {
        let is_inside = described.keys().any(|key| it.name.starts_with(&format!("{key}.")));
        let is_value = ["input.", "expected."].iter().any(|prefix| it.name.starts_with(prefix));
        let is_taken = is_value || is_inside || graph.contains(&it.name);
        if is_taken {
            tensors.insert(it.name.clone(), it.tensor.clone());
        }
        !is_taken
    });
    let mut inputs = BTreeMap::new();
    for name in &graph {
        for full in [name.clone(), format!("input.{name}")] {
            if let Some(structure) = described.get(&full) {
                inputs.insert(name.clone(), assembled(structure, &tensors));
            } else if let Some(tensor) = tensors.get(&full) {
                inputs.insert(name.clone(), Value::of(tensor).unwrap());
            }
        }
    }
    Case { name: name.to_owned(), model, inputs }
}

/// Returns a value by its description.
fn assembled(structure: &Json, tensors: &BTreeMap<String, Tensor>) -> Value {
    let tensor = |name: &str| Value::of(&tensors[name]).unwrap();
    if let Some(name) = structure.as_str() {
        return tensor(name);
    }
    if let Some(Json::Array(each)) = structure.get("sequence") {
        return Value::Sequence(each.iter().map(|one| assembled(one, tensors)).collect());
    }
    if let Some(Json::Array(sides)) = structure.get("map") {
        let [keys, values] = [0, 1].map(|side| tensor(sides[side].as_str().unwrap()));
        return Value::Map(Map::new(keys, scalars(&values)));
    }
    match structure.get("optional") {
        Some(Json::Null) => Value::Optional(None),
        Some(inside) => Value::Optional(Some(Box::new(assembled(inside, tensors)))),
        None => panic!("{structure} is no value"),
    }
}

/// Returns each element of a list as a scalar.
fn scalars(list: &Value) -> Vec<Value> {
    let count = list.tensor().unwrap().shape.iter().product::<u64>();
    (0..usize::try_from(count).unwrap()).map(|at| part(list, at, 1, Vec::new())).collect()
}

/// Returns `count` elements from a place on.
fn part(value: &Value, at: usize, count: usize, dims: Vec<usize>) -> Value {
    match value {
        Value::Strings(it) => {
            Value::Strings(Strings::new(dims, it.elements()[at..at + count].to_vec()).unwrap())
        }
        value => {
            let dense = value.dense().unwrap();
            let size = dense.dtype().bits().unwrap() as usize / 8;
            let bytes = dense.bytes().unwrap().slice(at * size..(at + count) * size);
            Dense::new(dense.dtype(), dims, bytes).unwrap().into()
        }
    }
}

/// How inputs are repeated: dims of the given size, of all inputs or of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scale {
    pub(crate) input: Option<String>,
    pub(crate) dim: usize,
}

/// Returns all ways to repeat inputs.
pub(crate) fn scales(inputs: &BTreeMap<String, Value>) -> BTreeSet<Scale> {
    let mut all = BTreeSet::new();
    for (name, value) in inputs {
        for &dim in dims(value) {
            all.insert(Scale { input: None, dim });
            all.insert(Scale { input: Some(name.clone()), dim });
        }
    }
    all
}

fn dims(value: &Value) -> &[usize] {
    match value {
        // Short lists of integers are dims, axes and counts.
        Value::Dense(it)
            if it.dtype() == DType::Int64 && it.dims().len() == 1 && it.count() < 9 =>
        {
            &[]
        }
        Value::Dense(it) if it.dtype().bits().is_some_and(|bits| bits >= 8) => it.dims(),
        Value::Strings(strings) => strings.dims(),
        _ => &[],
    }
}

/// Repeats inputs, so that they have about `count` elements.
pub(crate) fn scaled(
    inputs: &BTreeMap<String, Value>,
    scale: &Scale,
    count: usize,
) -> Option<BTreeMap<String, Value>> {
    let is_scaled = |name: &String| scale.input.as_ref().is_none_or(|input| input == name);
    let size = |times: usize| {
        inputs.iter().filter(|(name, _)| is_scaled(name)).map(move |(_, value)| {
            let each = dims(value).iter();
            each.map(|dim| if *dim == scale.dim { dim * times } else { *dim }).product::<usize>()
        })
    };
    let fits = |times: &usize| size(*times).max().is_some_and(|size| size <= count);
    let times = (1..usize::BITS)
        .map(|power| 1 << power)
        .take_while(|times| *times <= count && fits(times))
        .last()
        .unwrap_or(1);
    if times < 2 {
        return None;
    }
    let one = |(name, value): (&String, &Value)| {
        let value = if is_scaled(name) { repeated(value, scale.dim, times) } else { value.clone() };
        (name.clone(), value)
    };
    Some(inputs.iter().map(one).collect())
}

/// Repeats a tensor along each dim of a size.
fn repeated(value: &Value, dim: usize, times: usize) -> Value {
    let found = dims(value).to_vec();
    let whole: Vec<usize> =
        found.iter().map(|it| if *it == dim { it * times } else { *it }).collect();
    if whole == found || found.contains(&0) {
        return value.clone();
    }
    let mut rows: Vec<usize> = vec![0];
    for (old, new) in found.iter().zip(&whole) {
        let each = rows.iter().flat_map(|row| (0..*new).map(move |at| row * old + at % old));
        rows = each.collect();
    }
    match value {
        Value::Strings(it) => {
            let texts = rows.iter().map(|row| it.elements()[*row].clone());
            Value::Strings(Strings::new(whole, texts.collect()).unwrap())
        }
        value => {
            let dense = value.dense().unwrap();
            let (size, bytes) =
                (dense.dtype().bits().unwrap() as usize / 8, dense.bytes().unwrap());
            let mut made = Vec::with_capacity(rows.len() * size);
            rows.iter()
                .for_each(|row| made.extend_from_slice(&bytes[row * size..(row + 1) * size]));
            Dense::new(dense.dtype(), whole, made.into()).unwrap().into()
        }
    }
}

//! Models with operators of `ai.onnx.ml` and of ONNX Runtime return the results of ONNX Runtime, in both modes: those of
//! `golden/onnx_runtime`, and those of another directory with `LODSTONE_ONNX_RUNTIME_CASES=DIR`.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use lodstone_engine::{
    Budget, Context, Dense, Executable, ExecutableOptions, Map, Mode, Strings, Threads, Value,
};
use lodstone_model::{AttributeValue, DType, Model, Tensor};
use lodstone_schema::{Code, Finding};
use lodstone_store::Location;
use serde_json::Value as Json;

use super::{finding, open, structures};

/// The maximum difference, relative to the larger of 1 and the number.
const NEAR: f64 = 1e-5;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx_runtime")
}

/// Returns a value by its description.
fn assembled(structure: &Json, tensors: &BTreeMap<String, Tensor>) -> Value {
    let tensor = |name: &Json| {
        let name = name.as_str().expect("a name");
        Value::of(tensors.get(name).expect("there")).expect("a value")
    };
    match (structure.get("sequence"), structure.get("map")) {
        (Some(Json::Array(each)), _) => {
            Value::Sequence(each.iter().map(|one| assembled(one, tensors)).collect())
        }
        (_, Some(Json::Array(sides))) => {
            let [keys, values] = sides.as_slice() else { panic!("{structure} is no map") };
            Value::Map(Map::new(tensor(keys), scalars(&tensor(values))))
        }
        _ => panic!("{structure} is no value"),
    }
}

/// Returns each element of a list as a scalar.
fn scalars(list: &Value) -> Vec<Value> {
    match list {
        Value::Strings(texts) => {
            let one = |text: &bytes::Bytes| Strings::new(Vec::new(), vec![text.clone()]);
            texts.elements().iter().map(|text| Value::Strings(one(text).unwrap())).collect()
        }
        list => {
            let dense = list.dense().unwrap();
            let size = dense.dtype().bits().map_or(1, |bits| bits as usize / 8);
            let bytes = dense.bytes().unwrap();
            let one = |bytes: &[u8]| Dense::new(dense.dtype(), Vec::new(), bytes.to_vec().into());
            bytes.chunks_exact(size).map(|bytes| one(bytes).unwrap().into()).collect()
        }
    }
}

/// The values of a case by name: the inputs, or the outputs.
type Named = BTreeMap<String, Value>;

/// Takes the inputs and the expected outputs out of a model.
fn parts(model: &mut Model) -> [Named; 2] {
    let mut tensors = BTreeMap::new();
    model.parameters.retain(|parameter| {
        let is_value = ["input.", "expected."].iter().any(|it| parameter.name.starts_with(it));
        if is_value {
            tensors.insert(parameter.name.clone(), parameter.tensor.clone());
        }
        !is_value
    });
    let described = structures(model);
    let of = |prefix: &str| {
        let whole = tensors.iter().filter_map(|(name, tensor)| {
            let inside = described.keys().any(|key| name.starts_with(&format!("{key}.")));
            let name = name.strip_prefix(prefix).filter(|_| !inside)?;
            Some((name.to_owned(), Value::of(tensor).expect("a value")))
        });
        let others = described.iter().filter_map(|(name, structure)| {
            Some((name.strip_prefix(prefix)?.to_owned(), assembled(structure, &tensors)))
        });
        whole.chain(others).collect()
    };
    [of("input."), of("expected.")]
}

fn run(path: &Path, mode: Mode) -> Result<(), Finding> {
    let mut model = open(path);
    let [inputs, expected] = parts(&mut model);
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let options = ExecutableOptions::default().with_mode(mode);
    let executable = Executable::new(&model, &options, context).map_err(finding)?;
    let inputs = inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let made = executable.run(inputs, context).map_err(finding)?;
    for (name, found) in executable.outputs().iter().zip(&made) {
        let Some(expected) = expected.get(name) else { continue };
        same(found, expected).map_err(|wrong| wrong.within(format!("`{name}`")))?;
    }
    Ok(())
}

/// Returns the entries of a map, in the order of the keys.
fn entries(map: &Map) -> Vec<(Vec<u8>, &Value)> {
    let keys = scalars(&map.keys);
    let bytes = |key: &Value| match key {
        Value::Strings(text) => text.elements()[0].to_vec(),
        key => key.dense().unwrap().bytes().unwrap().to_vec(),
    };
    let mut entries: Vec<_> = keys.iter().map(bytes).zip(&map.values).collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries
}

fn same(found: &Value, expected: &Value) -> Result<(), Finding> {
    match (found, expected) {
        (Value::Sequence(found), Value::Sequence(expected)) if found.len() == expected.len() => {
            found.iter().zip(expected).try_for_each(|(found, expected)| same(found, expected))
        }
        (Value::Map(found), Value::Map(expected)) => {
            let (found, expected) = (entries(found), entries(expected));
            if !found.iter().map(|(key, _)| key).eq(expected.iter().map(|(key, _)| key)) {
                return Err("the keys differ".into());
            }
            let mut pairs = found.iter().zip(&expected);
            pairs.try_for_each(|((_, found), (_, expected))| same(found, expected))
        }
        (Value::Strings(found), Value::Strings(expected)) if found == expected => Ok(()),
        (Value::Dense(found), Value::Dense(expected)) => near(found, expected),
        _ => Err(format!("{found:?}, expected {expected:?}").into()),
    }
}

fn near(found: &Dense, expected: &Dense) -> Result<(), Finding> {
    if (found.dtype(), found.dims()) != (expected.dtype(), expected.dims()) {
        return Err(format!("{found:?}, expected {expected:?}").into());
    }
    let near = match expected.dtype() {
        DType::Float32 | DType::Float64 => NEAR,
        DType::Float16 => 2e-3,
        _ => 0.0,
    };
    for (at, (found, expected)) in found.to_f64()?.iter().zip(expected.to_f64()?).enumerate() {
        let is_same = *found == expected || (found.is_nan() && expected.is_nan());
        if !is_same && (found - expected).abs() > near * expected.abs().max(1.0)
            || found.is_nan() != expected.is_nan()
        {
            return Err(format!("element {at} is {found}, expected {expected}").into());
        }
    }
    Ok(())
}

/// Returns the number of cases that were computed as recorded.
fn check(directory: &Path) -> usize {
    let mut wrong = Vec::new();
    let mut right = 0;
    let files = Location::from(directory).list().expect("a directory");
    for file in files.iter().filter(|file| file.name.ends_with(".onnx")) {
        let path = &directory.join(&file.name);
        for mode in [Mode::Fast, Mode::Reference] {
            let made = catch_unwind(AssertUnwindSafe(|| run(path, mode)));
            match made.unwrap_or_else(|_| Err("it panics".into())) {
                Ok(()) => right += 1,
                Err(finding) => wrong.push(format!("{}, {mode:?}: {finding}", file.name)),
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong, {right} right:\n{}", wrong.len(), wrong.join("\n"));
    right
}

#[test]
fn operators_of_onnx_runtime_are_computed_as_recorded() {
    let right = check(&golden());
    assert!(right > 150, "{right}");
}

#[test]
fn other_models_are_computed_as_onnx_runtime_computes_them() {
    let Some(directory) = std::env::var_os("LODSTONE_ONNX_RUNTIME_CASES") else { return };
    check(Path::new(&directory));
}

/// Attributes that replace one, with extreme numbers and other lengths.
fn extremes(value: &AttributeValue) -> Vec<AttributeValue> {
    use AttributeValue as A;
    const NUMBERS: [i64; 7] = [i64::MIN, i64::MAX, -(1 << 40), 1 << 40, -1, 0, 3];
    fn cut<T: Clone>(list: &[T]) -> [Vec<T>; 2] {
        [Vec::new(), list.get(1..).unwrap_or_default().to_vec()]
    }
    match value {
        A::Long(_) => NUMBERS.map(A::Long).to_vec(),
        A::Longs(list) => {
            let first = |number: i64| [&[number], list.get(1..).unwrap_or_default()].concat();
            let all = NUMBERS.map(|number| A::Longs(first(number))).into_iter();
            all.chain(cut(list).map(A::Longs)).collect()
        }
        A::Floats(list) => {
            let nan = [&[f32::NAN], list.get(1..).unwrap_or_default()].concat();
            cut(list).map(A::Floats).into_iter().chain([A::Floats(nan)]).collect()
        }
        A::Strings(list) => cut(list).map(A::Strings).to_vec(),
        A::Float(_) => [f32::NAN, f32::INFINITY, -1e30].map(A::Float).to_vec(),
        A::String(_) => vec![A::String("nothing".into())],
        _ => Vec::new(),
    }
}

/// Values that replace an input: without elements, without dims, of another rank.
fn others(value: &Value) -> Vec<Value> {
    let Ok(dense) = value.dense() else { return Vec::new() };
    let size = dense.dtype().bits().map_or(1, |bits| bits as usize / 8);
    let bytes = dense.bytes().unwrap();
    let of = |dims: Vec<usize>| {
        let count = dims.iter().product::<usize>() * size;
        Dense::new(dense.dtype(), dims, bytes.get(..count)?.to_vec().into()).ok().map(Value::from)
    };
    let last = [1, dense.count().min(2)].to_vec();
    let whole = [dense.dims().to_vec(), vec![1]].concat();
    [vec![0], vec![0, 3], Vec::new(), vec![1], last, whole].into_iter().filter_map(of).collect()
}

/// Returns the internal error that a run ends in; a panic is one.
fn broken(model: &Model, inputs: &Named) -> Option<Finding> {
    let (budget, threads) = (Budget::new(1 << 30), Threads::default());
    let context = Context::new(&budget, &threads);
    let made = Executable::new(model, &ExecutableOptions::default(), context).and_then(|it| {
        let inputs = inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        it.run(inputs, context)
    });
    made.err().map(finding).filter(|finding| finding.code == Code::Internal)
}

#[test]
fn hostile_attributes_and_inputs_end_in_errors() {
    let files = Location::from(&golden()).list().expect("a directory");
    let (mut tried, mut wrong) = (0, Vec::new());
    for file in files.iter().filter(|file| file.name.ends_with(".onnx")) {
        let mut model = open(&golden().join(&file.name));
        let [inputs, _] = parts(&mut model);
        let program = model.main_mut().expect("a program");
        program.blocks[0].vars.clear();
        if program.blocks[0].ops.len() != 1 {
            continue;
        }
        for at in 0..program.blocks[0].ops[0].attributes.len() {
            let known = model.main().unwrap().blocks[0].ops[0].attributes[at].clone();
            for value in extremes(&known.value) {
                let what = format!("{}, `{}` {value:?}", file.name, known.name);
                model.main_mut().unwrap().blocks[0].ops[0].attributes[at].value = value;
                wrong.extend(broken(&model, &inputs).map(|it| format!("{what}: {it}")));
                tried += 1;
            }
            model.main_mut().unwrap().blocks[0].ops[0].attributes[at] = known;
        }
        for (name, value) in &inputs {
            for other in others(value) {
                let what = format!("{}, input `{name}` {other:?}", file.name);
                let mut inputs = inputs.clone();
                inputs.insert(name.clone(), other);
                wrong.extend(broken(&model, &inputs).map(|it| format!("{what}: {it}")));
                tried += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried > 3000, "{tried}");
}

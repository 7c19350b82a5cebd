//! Comparison of runs with those that MXNet recorded.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "tests")]

use std::fs;
use std::path::Path;

use lodstone::run::tensors;
use lodstone::{
    ConvertOptions, DType, Inputs, MemoryStore, Model, Parameter, RunOptions, Tensor, open, run,
};

/// The tolerance, relative to the larger of 1 and the number.
pub(crate) const NEAR: f64 = 1e-5;

/// Outputs that MXNet does not set in inference: it records whatever the memory held.
const UNSET: &[&str] = &["lr_mask"];

/// Returns the names of the programs in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let files = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names = files.filter_map(|file| Some(file.strip_suffix("-symbol.json")?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Returns the recorded inputs and outputs of a program.
pub(crate) fn recorded(folder: &Path, name: &str) -> (Vec<Parameter>, Vec<Parameter>) {
    let all = open(folder.join(format!("{name}-io.npz"))).expect("recorded arrays").parameters;
    let part = |prefix: &str| {
        let named = all.iter().filter_map(|it| {
            let name = it.name.strip_prefix(prefix)?.to_owned();
            Some(Parameter { name, tensor: it.tensor.clone() })
        });
        named.collect::<Vec<_>>()
    };
    let mut outputs = part("out:");
    outputs.sort_by_key(|it| it.name.split(':').next().and_then(|at| at.parse::<usize>().ok()));
    for output in &mut outputs {
        output.name = output.name.split_once(':').expect("a name").1.to_owned();
    }
    (part("in:"), outputs)
}

/// Returns inputs by name; labels are left out.
pub(crate) fn inputs(recorded: &[Parameter]) -> Inputs {
    let mut inputs = Inputs::default();
    for input in recorded {
        inputs.values.push((Some(input.name.clone()), input.tensor.clone().into()));
    }
    inputs
}

/// Returns the tolerance of a program.
pub(crate) fn near(name: &str) -> f64 {
    match name {
        // oneDNN rounds weights and sums of quantized layers that here have single precision.
        _ if name.starts_with("q_") => 0.03,
        _ => NEAR,
    }
}

/// A tolerance, relative to the larger of 1 and the number, for the elements of an output.
pub(crate) type Tolerance<'t> = &'t dyn Fn(&[f64]) -> f64;

/// Runs a program, and its export to ONNX; returns how their results differ from those of MXNet.
pub(crate) fn difference_within(folder: &Path, name: &str, near: Tolerance<'_>) -> Option<String> {
    let model = match open(folder.join(name)) {
        Ok(model) => model,
        Err(error) => return Some(format!("cannot be opened: {error}")),
    };
    let (given, expected) = recorded(folder, name);
    let found = match run(&model, inputs(&given), &RunOptions::default()) {
        Ok(outputs) => tensors(outputs),
        Err(error) => return Some(error.to_string()),
    };
    if let Some(wrong) = differ(&found, &expected, near) {
        return Some(wrong);
    }
    let exported = match exported(model, &given) {
        Ok(exported) => exported,
        Err(error) => return Some(format!("as ONNX: {error}")),
    };
    let names = lodstone::Session::new(&exported, &RunOptions::default());
    let names = names.expect("an exported program runs").inputs().to_vec();
    let given: Vec<Parameter> =
        given.into_iter().filter(|input| names.contains(&input.name)).collect();
    match run(&exported, inputs(&given), &RunOptions::default()) {
        Ok(outputs) => {
            differ(&tensors(outputs), &expected, near).map(|it| format!("as ONNX: {it}"))
        }
        Err(error) => Some(format!("as ONNX: {error}")),
    }
}

/// Exports a program for inputs of these shapes.
pub(crate) fn exported(model: Model, given: &[Parameter]) -> lodstone::Result<Model> {
    let mut model = model;
    let main = model.programs.main_mut().expect("a program");
    let labels = |name: &str| name.ends_with("label");
    for var in main.blocks[0].vars.iter_mut() {
        if let Some(input) = given.iter().find(|it| it.name == var.name && !labels(&it.name)) {
            let dims = input.tensor.shape.iter().map(|dim| lodstone::Dim::Known(*dim)).collect();
            var.value = lodstone::model::TensorType::new(input.tensor.dtype, Some(dims)).into();
        }
    }
    let location = MemoryStore::default().location("exported.onnx");
    lodstone::convert(model, location.clone(), &ConvertOptions::default())?;
    open(location)
}

/// Returns how outputs differ from recorded ones.
pub(crate) fn differ(
    found: &[Parameter],
    all: &[Parameter],
    near: Tolerance<'_>,
) -> Option<String> {
    if found.len() != all.len() {
        return Some(format!("{} outputs, expected {}", found.len(), all.len()));
    }
    for (at, (found, expected)) in found.iter().zip(all).enumerate() {
        if UNSET.contains(&expected.name.as_str()) {
            continue;
        }
        // MXNet permits several outputs of one name; others get a number.
        let is_repeated = all.iter().take(at).any(|other| other.name == expected.name);
        let rest = found.name.strip_prefix(&expected.name);
        if rest.is_none_or(|rest| rest.starts_with('.') != is_repeated) {
            return Some(format!("output `{}`, expected `{}`", found.name, expected.name));
        }
        if let Some(wrong) = tensors_differ(&found.tensor, &expected.tensor, near) {
            return Some(format!("`{}`: {wrong}", found.name));
        }
    }
    None
}

pub(crate) fn tensors_differ(
    found: &Tensor,
    expected: &Tensor,
    near: Tolerance<'_>,
) -> Option<String> {
    if (found.dtype, &found.shape) != (expected.dtype, &expected.shape) {
        let (f, e) = (found, expected);
        return Some(format!("{} {:?}, expected {} {:?}", f.dtype, f.shape, e.dtype, e.shape));
    }
    let expected = numbers(expected);
    let near = near(&expected);
    let is_near = |a: f64, b: f64| {
        let same = a == b || (a.is_nan() && b.is_nan());
        same || (a - b).abs() <= near * b.abs().max(1.0)
    };
    let pairs = numbers(found).into_iter().zip(expected).enumerate();
    let wrong: Vec<_> = pairs.filter(|(_, (a, b))| !is_near(*a, *b)).collect();
    let (at, (a, b)) = wrong.first()?;
    Some(format!("{} elements differ; element {at} is {a}, expected {b}", wrong.len()))
}

/// Returns the elements of a tensor.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.data.bytes().expect("elements");
    match tensor.dtype {
        DType::Float32 => {
            bytes.chunks(4).map(|it| f32::from_le_bytes(it.try_into().unwrap()).into()).collect()
        }
        DType::Float64 => {
            bytes.chunks(8).map(|it| f64::from_le_bytes(it.try_into().unwrap())).collect()
        }
        DType::Float16 => bytes
            .chunks(2)
            .map(|it| half::f16::from_le_bytes(it.try_into().unwrap()).to_f64())
            .collect(),
        DType::Int64 => {
            bytes.chunks(8).map(|it| i64::from_le_bytes(it.try_into().unwrap()) as f64).collect()
        }
        DType::Int32 => {
            bytes.chunks(4).map(|it| i32::from_le_bytes(it.try_into().unwrap()).into()).collect()
        }
        DType::Int8 => bytes.iter().map(|it| i8::from_le_bytes([*it]).into()).collect(),
        DType::Uint8 | DType::Bool => bytes.iter().map(|it| (*it).into()).collect(),
        other => panic!("{other}"),
    }
}

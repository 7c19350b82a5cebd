//! Comparison of runs with those that PyTorch recorded.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "tests")]

use std::fs;
use std::path::Path;

use lodstone::run::tensors;
use lodstone::{
    ConvertOptions, DType, Inputs, MemoryStore, Model, Parameter, RunOptions, Tensor, convert,
    open, run,
};

/// The tolerance, relative to the larger of 1 and the number.
pub(crate) const NEAR: f64 = 1e-5;

/// Returns the names of the programs in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let files = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names = files.filter_map(|file| Some(file.strip_suffix(".pt2")?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Returns the recorded inputs and outputs of a program.
pub(crate) fn recorded(folder: &Path, name: &str) -> (Vec<Parameter>, Vec<Tensor>) {
    let all = open(folder.join(format!("{name}-io.npz"))).expect("recorded arrays").parameters;
    let inputs = all.iter().filter_map(|it| {
        let name = it.name.strip_prefix("in:")?.to_owned();
        Some(Parameter { name, tensor: it.tensor.clone() })
    });
    let outputs = all.iter().filter_map(|it| {
        let number: usize = it.name.strip_prefix("out:")?.parse().expect("a number");
        Some((number, it.tensor.clone()))
    });
    let mut outputs: Vec<_> = outputs.collect();
    outputs.sort_by_key(|(number, _)| *number);
    (inputs.collect(), outputs.into_iter().map(|(_, tensor)| tensor).collect())
}

/// Returns inputs by name.
pub(crate) fn inputs(recorded: &[Parameter]) -> Inputs {
    let mut inputs = Inputs::default();
    for input in recorded {
        inputs.values.push((Some(input.name.clone()), input.tensor.clone().into()));
    }
    inputs
}

/// Runs a program, and its export to ONNX; returns how their results differ from those of PyTorch.
pub(crate) fn difference(folder: &Path, name: &str) -> Option<String> {
    let model = match open(folder.join(format!("{name}.pt2"))) {
        Ok(model) => model,
        Err(error) => return Some(format!("cannot be opened: {error}")),
    };
    let (given, expected) = recorded(folder, name);
    match run(&model, inputs(&given), &RunOptions::default()) {
        Ok(outputs) => {
            if let Some(wrong) = differ(&tensors(outputs), &expected) {
                return Some(wrong);
            }
        }
        Err(error) => return Some(error.to_string()),
    }
    let exported = match exported(model) {
        Ok(exported) => exported,
        Err(error) => return Some(format!("as ONNX: {error}")),
    };
    // An input that nothing reads stays an input.
    match run(&exported, inputs(&given), &RunOptions::default()) {
        // Next values of states follow the outputs.
        Ok(outputs) => {
            let mut found = tensors(outputs);
            found.truncate(expected.len());
            differ(&found, &expected).map(|it| format!("as ONNX: {it}"))
        }
        Err(error) => Some(format!("as ONNX: {error}")),
    }
}

/// Exports a program with its dims as declared.
pub(crate) fn exported(model: Model) -> lodstone::Result<Model> {
    let location = MemoryStore::default().location("exported.onnx");
    convert(model, location.clone(), &ConvertOptions::default())?;
    open(location)
}

fn differ(found: &[Parameter], expected: &[Tensor]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} outputs, expected {}", found.len(), expected.len()));
    }
    let pairs = found.iter().zip(expected);
    pairs.into_iter().find_map(|(found, expected)| {
        let wrong = tensors_differ(&found.tensor, expected)?;
        Some(format!("`{}`: {wrong}", found.name))
    })
}

fn tensors_differ(found: &Tensor, expected: &Tensor) -> Option<String> {
    if (found.dtype, &found.shape) != (expected.dtype, &expected.shape) {
        let (f, e) = (found, expected);
        return Some(format!("{} {:?}, expected {} {:?}", f.dtype, f.shape, e.dtype, e.shape));
    }
    // Half precision has 11 bits.
    let near = if found.dtype == DType::Float16 { 1e-3 } else { NEAR };
    let is_near = |a: f64, b: f64| {
        let same = a == b || (a.is_nan() && b.is_nan());
        same || (a - b).abs() <= near * b.abs().max(1.0)
    };
    let pairs = numbers(found).into_iter().zip(numbers(expected)).enumerate();
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
        DType::Int16 => {
            bytes.chunks(2).map(|it| i16::from_le_bytes(it.try_into().unwrap()).into()).collect()
        }
        DType::Int8 => bytes.iter().map(|it| i8::from_le_bytes([*it]).into()).collect(),
        DType::Uint8 | DType::Bool => bytes.iter().map(|it| (*it).into()).collect(),
        other => panic!("{other}"),
    }
}

//! Evaluation of programs by the engine.

use std::ffi::OsString;
use std::path::Path;

use lodstone_engine::{Budget, Context, Executable, ExecutableOptions, Threads, Value};
use lodstone_formats::{Format, OpenOptions};
use lodstone_lowering::lower;
use lodstone_model::{DType, Dialect, Dim, Model, Report, Tensor, TensorType, ValueType};
use lodstone_store::Location;

use crate::recorded;

/// Reads a model in a format.
pub(crate) fn open(format: &Format, path: &Path) -> Result<Model, String> {
    (format.read)(&Location::from(path), &OpenOptions::default()).map_err(|error| error.to_string())
}

/// Returns the names of the cases in a folder, each of which has an archive of inputs and outputs.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let name = |file: OsString| Some(file.to_str()?.strip_suffix("-io.npz")?.to_owned());
    let mut names: Vec<String> = files.filter_map(name).collect();
    names.sort();
    names
}

/// Reads an archive of NumPy arrays: names and arrays.
pub(crate) fn arrays(path: &Path) -> Vec<(String, Tensor)> {
    let model = open(&lodstone_formats::numpy::NPZ, path).unwrap();
    model.parameters.into_iter().map(|array| (array.name, array.tensor)).collect()
}

/// Returns the arrays whose names have a prefix, by the rest of their names.
pub(crate) fn prefixed(arrays: &[(String, Tensor)], prefix: &str) -> Vec<(String, Tensor)> {
    let named = arrays
        .iter()
        .filter_map(|(name, array)| Some((name.strip_prefix(prefix)?.to_owned(), array.clone())));
    named.collect()
}

/// Declares the types of inputs.
pub(crate) fn declare(model: &mut Model, inputs: &[(String, Tensor)]) {
    let main = model.programs.main_mut().unwrap();
    for var in &mut main.blocks[0].vars {
        let Some((_, tensor)) = inputs.iter().find(|(name, _)| *name == var.name) else { continue };
        if !matches!(var.value, ValueType::Scalar(_)) {
            let dims = tensor.shape.iter().map(|dim| Dim::Known(*dim)).collect();
            var.value = TensorType::new(tensor.dtype, Some(dims)).into();
        }
    }
}

/// Translates a program to ONNX, and returns its outputs by name.
pub(crate) fn lowered(
    mut model: Model,
    inputs: &[(String, Tensor)],
) -> Result<Vec<(String, Tensor)>, String> {
    if let Some(outcome) = lower(&mut model, Dialect::Onnx, &mut Report::default()) {
        outcome.map_err(|error| error.to_string())?;
    }
    evaluate(&model, inputs)
}

/// Evaluates a program of ONNX. Inputs that it does not have are not read.
pub(crate) fn evaluate(
    model: &Model,
    inputs: &[(String, Tensor)],
) -> Result<Vec<(String, Tensor)>, String> {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = || Context::new(&budget, &threads);
    let executable = Executable::new(model, &ExecutableOptions::default(), context());
    let executable = executable.map_err(|error| error.to_string())?;
    let own: Vec<&str> = executable.inputs().collect();
    let given = inputs.iter().filter(|(name, _)| own.contains(&name.as_str()));
    let given = given.map(|(name, tensor)| (name.as_str(), Value::of(tensor).unwrap()));
    let results = executable.run(given.collect(), context()).map_err(|error| error.to_string())?;
    let named = executable.outputs().iter().cloned().zip(results);
    Ok(named.map(|(name, value)| (name, value.tensor().unwrap())).collect())
}

/// Describes how a tensor differs from a recorded one: in its type, its dims, or elements that are farther away than `near`,
/// relative to the larger of 1 and the recorded element.
pub(crate) fn difference(found: &Tensor, recorded: &Tensor, near: f64) -> Option<String> {
    if (found.dtype, &found.shape) != (recorded.dtype, &recorded.shape) {
        let (f, e) = (found, recorded);
        return Some(format!("{} {:?}, expected {} {:?}", f.dtype, f.shape, e.dtype, e.shape));
    }
    let is_near = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= near * b.abs().max(1.0)
    };
    let pairs = numbers(found).into_iter().zip(numbers(recorded)).enumerate();
    let wrong: Vec<_> = pairs.filter(|(_, (a, b))| !is_near(*a, *b)).collect();
    let (at, (a, b)) = wrong.first()?;
    Some(format!("{} elements differ; element {at} is {a}, expected {b}", wrong.len()))
}

/// Returns the elements of a tensor.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype {
        DType::Float16 => {
            let halves = tensor.to_vec::<half::f16>().unwrap();
            halves.into_iter().map(half::f16::to_f64).collect()
        }
        _ => recorded::elements(tensor),
    }
}

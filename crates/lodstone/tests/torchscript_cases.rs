//! Modules of TorchScript in a larger collection: with `LODSTONE_CASES`, each returns what PyTorch returned, and so does
//! its export to ONNX.
//!
//! `torch-ops` of the collection has `NAME.pt`, and `NAME-io.npz` with inputs (`in0`, ..) and outputs (`out0`, ..).
//! `LODSTONE_TORCHSCRIPT_CASES` names another folder of the same form.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::mxnet_runs::tensors_differ;
use lodstone::run::tensors;
use lodstone::{
    Blob, ConvertOptions, DType, Inputs, MemoryStore, Model, Parameter, RunOptions, Tensor,
    convert, open, run,
};

/// The tolerance, relative to the largest element.
fn near(all: &[f64]) -> f64 {
    let largest =
        all.iter().filter(|it| it.is_finite()).fold(1.0_f64, |most, it| most.max(it.abs()));
    1e-5 * largest
}

/// Returns the arrays of a prefix, in order.
fn arrays(all: &[Parameter], prefix: &str) -> Vec<Parameter> {
    let mut found: Vec<(usize, Parameter)> = all
        .iter()
        .filter_map(|it| Some((it.name.strip_prefix(prefix)?.parse().ok()?, it.clone())))
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, it)| it).collect()
}

fn ran(model: &Model, given: &[Parameter]) -> Result<Vec<Parameter>, String> {
    let mut inputs = Inputs::default();
    inputs.values.extend(given.iter().map(|it| (None, it.tensor.clone().into())));
    run(model, inputs, &RunOptions::default()).map(tensors).map_err(|error| error.to_string())
}

fn differ(found: &[Parameter], expected: &[Parameter]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} outputs, expected {}", found.len(), expected.len()));
    }
    found.iter().zip(expected).find_map(|(found, expected)| {
        let wrong = tensors_differ(&found.tensor, &expected.tensor, &near)?;
        Some(format!("`{}`: {wrong}", found.name))
    })
}

fn difference(folder: &Path, name: &str) -> Option<String> {
    let model = match open(folder.join(format!("{name}.pt"))) {
        Ok(model) => model,
        Err(error) => return Some(format!("cannot be opened: {error}")),
    };
    if model.main().is_none() {
        return Some(format!("no program: {:?}", model.report));
    }
    let recorded = open(folder.join(format!("{name}-io.npz"))).expect("recorded arrays").parameters;
    let (mut given, expected) = (arrays(&recorded, "in"), arrays(&recorded, "out"));
    if name == "cf" {
        // The number of repetitions is not recorded; it is the number of results.
        let count = expected[0].tensor.shape[0].cast_signed().to_le_bytes();
        let tensor = Tensor::dense(DType::Int64, vec![], Blob::memory(count.to_vec()));
        given.push(Parameter { name: "in1".to_owned(), tensor });
    }
    match ran(&model, &given) {
        Ok(found) => {
            if let Some(wrong) = differ(&found, &expected) {
                return Some(wrong);
            }
        }
        Err(error) => return Some(error),
    }
    let mut exported = model;
    let main = exported.programs.main_mut().expect("a program");
    let names = main.blocks[0].inputs.clone();
    for (name, input) in names.iter().zip(&given) {
        let dims = input.tensor.shape.iter().map(|dim| lodstone::Dim::Known(*dim)).collect();
        if let Some(var) = main.blocks[0].vars.iter_mut().find(|var| var.name == *name) {
            var.value = lodstone::model::TensorType::new(input.tensor.dtype, Some(dims)).into();
        }
    }
    let location = MemoryStore::default().location("exported.onnx");
    if let Err(error) = convert(exported, location.clone(), &ConvertOptions::default()) {
        return Some(format!("as ONNX: {error}"));
    }
    let exported = open(location).expect("an exported program");
    match ran(&exported, &given) {
        Ok(found) => differ(&found, &expected).map(|it| format!("as ONNX: {it}")),
        Err(error) => Some(format!("as ONNX: {error}")),
    }
}

#[test]
fn modules_return_what_pytorch_returned() {
    let root = std::env::var_os("LODSTONE_CASES");
    let own = root.map(|root| Path::new(&root).join("torch-ops")).filter(|it| it.is_dir());
    let other = std::env::var_os("LODSTONE_TORCHSCRIPT_CASES").map(PathBuf::from);
    for folder in own.into_iter().chain(other) {
        let files = fs::read_dir(&folder).expect("a folder").map(|it| it.expect("an entry"));
        let names = files.map(|it| it.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix("-io.npz")?.to_owned())).collect();
        names.sort();
        let differences = names
            .iter()
            .filter_map(|name| difference(&folder, name).map(|what| format!("{name}: {what}")));
        let wrong: Vec<String> = differences.collect();
        let (failed, count) = (wrong.len(), names.len());
        assert!(count > 0, "{} has no cases", folder.display());
        assert!(wrong.is_empty(), "{failed} of {count} differ:\n{}", wrong.join("\n"));
    }
}

//! Models that real frameworks wrote, with inputs on which they run: recorded ones where the program does not declare any, and
//! random ones elsewhere.

#![expect(clippy::disallowed_methods, reason = "tests list their own files")]

use std::fs;
use std::path::{Path, PathBuf};

use lodstone::convert::{fix_shapes, fix_types};
use lodstone::run::Value;
use lodstone::{Dim, Inputs, Model};

use crate::recorded::array;
use crate::{caffe2, mxnet_runs};

/// The folders of models, and how many models a sample skips after each one that it takes.
pub(crate) const FOLDERS: &[(&str, usize)] = &[
    ("../examples/digits", 0),
    ("engine/tests/golden/onnx_models", 0),
    ("formats/tests/golden/glow_run", 2),
    ("formats/tests/golden/paddle", 0),
    ("lodstone/tests/golden/onnx_quantized", 0),
    ("lodstone/tests/golden/paddle_quantized", 0),
    (CAFFE2, 5),
    (MXNET, 11),
    ("lowering/tests/golden/torch", 11),
    ("lowering/tests/golden/torchscript", 3),
    ("paddle/tests/golden/paddle_pir", 3),
];

const CAFFE2: &str = "lowering/tests/golden/caffe2";
const MXNET: &str = "lowering/tests/golden/mxnet";

/// A model with inputs.
pub(crate) struct Golden {
    pub(crate) path: String,
    pub(crate) model: Model,
    pub(crate) inputs: Inputs,
}

/// Returns the path of a folder or file in the folder of crates.
pub(crate) fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Returns a sample of the models in all folders.
pub(crate) fn sample() -> impl Iterator<Item = Golden> {
    FOLDERS.iter().flat_map(|(folder, skipped)| models(folder).into_iter().step_by(skipped + 1))
}

/// Returns all models in all folders.
pub(crate) fn all() -> impl Iterator<Item = Golden> {
    FOLDERS.iter().flat_map(|(folder, _)| models(folder))
}

/// Returns the models in a folder that have a program.
fn models(folder: &str) -> Vec<Golden> {
    let entries = fs::read_dir(golden(folder)).expect("a folder");
    let is_model = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        let ends = [".onnx", ".pt", ".pt2", "-symbol.json", ".json"];
        path.is_dir() || ends.iter().any(|end| name.ends_with(end))
    };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(is_model).collect();
    paths.sort();
    let cases = if folder == CAFFE2 { caffe2::cases() } else { Vec::new() };
    let opened = paths.into_iter().filter_map(|path| {
        let model = lodstone::open(&path).ok().filter(|model| model.main().is_some())?;
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let mut inputs = Inputs::default();
        match name.strip_suffix("-symbol.json") {
            Some(name) if folder == MXNET => {
                inputs = mxnet_runs::inputs(&mxnet_runs::recorded(&golden(folder), name).0);
            }
            _ if folder == CAFFE2 => {
                let case = cases.iter().find(|case| case["name"] == name.as_str())?;
                for (name, it) in case["inputs"].as_object().expect("inputs") {
                    inputs.values.push((Some(name.clone()), array(it).into()));
                }
            }
            _ if path.ends_with("digits/mxnet") => {
                let shape = [("data".to_owned(), vec![1, 1, 8, 8])];
                inputs.add_random(&declared(&model), 1, &shape).expect("inputs");
            }
            // Inputs that are lists have no random values.
            _ => {
                inputs.add_random(&model, 1, &[]).ok()?;
            }
        }
        Some(Golden { path: path.display().to_string(), model, inputs })
    });
    opened.collect()
}

/// Returns the example whose symbol declares no types, with the type of its input.
fn declared(model: &Model) -> Model {
    let mut model = model.clone();
    let dtype = lodstone::DType::Float32;
    fix_types(&mut model, &[("data".to_owned(), dtype)]).expect("an input");
    let dims = [1, 1, 8, 8].map(Dim::Known).to_vec();
    fix_shapes(&mut model, &[("data".to_owned(), dims)]).expect("an input");
    model
}

impl Golden {
    /// Returns the model with the types of its inputs, where the program leaves them open.
    pub(crate) fn typed(&self) -> Model {
        let mut model = self.model.clone();
        for (name, value) in &self.inputs.values {
            let (Some(name), Value::Tensor(tensor)) = (name, value) else { continue };
            let dims = tensor.shape.iter().map(|dim| Dim::Known(*dim)).collect();
            // Programs that declare their own types keep these.
            let _ = fix_types(&mut model, &[(name.clone(), tensor.dtype)]);
            let _ = fix_shapes(&mut model, &[(name.clone(), dims)]);
        }
        model
    }
}

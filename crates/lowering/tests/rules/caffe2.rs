//! Nets that Caffe2 ran (`golden/caffe2/make_caffe2.py`).

use lodstone_formats::caffe2;
use lodstone_model::{DType, Dialect, Tensor};
use lodstone_store::Blob;
use serde_json::Value as Json;

use super::equal::{self, Equal};
use super::evaluate::{declare, difference, lowered, open};
use super::{Case, root};

pub(crate) fn cases() -> Vec<Case> {
    let text = std::fs::read(root().join("tests/golden/caffe2/cases.json")).unwrap();
    let cases: Vec<Json> = serde_json::from_slice(&text).unwrap();
    let cases = cases.into_iter().flat_map(|recorded| {
        let equal = equal::of(Dialect::Caffe2, recorded["name"].as_str().unwrap()).map(Some);
        let all: Vec<_> = std::iter::once(None).chain(equal).collect();
        all.into_iter().map(move |equal| case(recorded.clone(), equal))
    });
    cases.collect()
}

fn case(case: Json, equal: Option<&'static Equal>) -> Case {
    let name = case["name"].as_str().unwrap().to_owned();
    let path = root().join("tests/golden/caffe2").join(&name);
    let mut model = open(&caffe2::BINARY, &path).unwrap();
    if let Some(equal) = equal {
        equal.put(&mut model);
    }
    // Constants are filled by the startup program.
    let programs = model.programs.iter().flat_map(|(_, program)| program.ops());
    let ops: Vec<_> = programs.cloned().collect();
    Case::new(Dialect::Caffe2, &name, ops.iter(), move || {
        let inputs = tensors(&case["inputs"]);
        declare(&mut model, &inputs);
        let near = case["tolerance"].as_f64().unwrap();
        let found = match lowered(model, &inputs) {
            Ok(found) => found,
            Err(error) => return Some(error),
        };
        tensors(&case["outputs"]).into_iter().find_map(|(name, recorded)| {
            let Some((_, found)) = found.iter().find(|(found, _)| *found == name) else {
                return Some(format!("there is no output `{name}`"));
            };
            difference(found, &recorded, near).map(|wrong| format!("`{name}`: {wrong}"))
        })
    })
    .of(equal)
}

fn tensors(json: &Json) -> Vec<(String, Tensor)> {
    json.as_object().unwrap().iter().map(|(name, it)| (name.clone(), tensor(it))).collect()
}

/// Returns a recorded tensor: its `dtype`, `shape`, and elements as `data`.
fn tensor(json: &Json) -> Tensor {
    let list = |name: &str| json[name].as_array().unwrap().iter();
    let shape = list("shape").map(|dim| dim.as_u64().unwrap()).collect();
    // JSON has no number that is not finite.
    let number = |it: &Json| match it {
        Json::Bool(value) => f64::from(u8::from(*value)),
        Json::String(text) => text.parse().unwrap(),
        it => it.as_f64().unwrap(),
    };
    let numbers = || list("data").map(number);
    let dtype = DType::from_name(json["dtype"].as_str().unwrap()).unwrap();
    let bytes: Vec<u8> = match dtype {
        DType::Float32 => numbers().flat_map(|it| (it as f32).to_le_bytes()).collect(),
        DType::Int64 => numbers().flat_map(|it| (it as i64).to_le_bytes()).collect(),
        DType::Int32 => numbers().flat_map(|it| (it as i32).to_le_bytes()).collect(),
        DType::Int8 => numbers().map(|it| (it as i8).cast_unsigned()).collect(),
        DType::Uint8 | DType::Bool => numbers().map(|it| it as u8).collect(),
        other => panic!("{other}"),
    };
    Tensor::dense(dtype, shape, Blob::memory(bytes))
}

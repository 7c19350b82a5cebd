//! Models compute the results that PaddlePaddle 2.6.2 recorded (`golden/make_paddle_models.py`), and training continues
//! with the same losses.

#![expect(clippy::unwrap_used, reason = "a test")]

mod training;

use std::path::Path;

use lodstone_formats::{FORMATS, OpenOptions};
use lodstone_model::{DType, Lod, Model, Tensor};
use lodstone_paddle::executor::{Dirs, Prepared, Scope};
use lodstone_store::{Blob, Location};
use serde_json::Value;

use crate::bits;

const RECORDED: &str = include_str!("../golden/paddle_models.json");

/// The maximum difference of two results: sums are computed in another order.
const TOLERANCE: f64 = 1e-6;

fn tensor(told: &Value) -> Tensor {
    let dtype = DType::from_name(told["dtype"].as_str().unwrap()).unwrap();
    let shape = told["shape"].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap());
    let values = told["values"].as_array().unwrap();
    let bytes: Vec<u8> = match dtype {
        DType::Int64 => values.iter().flat_map(|v| v.as_i64().unwrap().to_le_bytes()).collect(),
        #[expect(clippy::cast_possible_truncation, reason = "the value was recorded from float32")]
        _ => values.iter().flat_map(|v| (v.as_f64().unwrap() as f32).to_le_bytes()).collect(),
    };
    let mut tensor = Tensor::dense(dtype, shape.collect(), Blob::memory(bytes));
    tensor.lod = lod(told);
    tensor
}

fn lod(told: &Value) -> Lod {
    let level = |level: &Value| {
        level.as_array().unwrap().iter().map(|offset| offset.as_u64().unwrap()).collect()
    };
    Lod(told["lod"].as_array().unwrap().iter().map(level).collect())
}

/// Opens a PaddlePaddle model of the test files.
fn open(path: &str, options: &OpenOptions) -> Model {
    let format = FORMATS.iter().find(|format| format.name == "paddle").unwrap();
    (format.read)(&Location::from(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path)), options)
        .unwrap()
}

/// Returns the feeds, by name.
fn feed(told: &Value) -> Vec<(&str, Tensor)> {
    let told = told.as_object().unwrap().iter();
    told.map(|(name, told)| (name.as_str(), tensor(told))).collect()
}

fn differences(case: &Value) -> Result<(), String> {
    let path = format!("../formats/tests/golden/paddle/{}", case["path"].as_str().unwrap());
    let model = open(&path, &OpenOptions::default());
    let feed = feed(&case["inputs"]);
    let prepared = Prepared::new(model.main().unwrap(), &[]).map_err(|e| e.to_string())?;
    let mut scope = Scope::of(&model).unwrap();
    // Twice, since a prepared program can be run again.
    for _ in 0..2 {
        let outputs =
            prepared.run(&mut scope, &feed, &Dirs::default()).map_err(|e| e.to_string())?;
        bits::keep(&path, &outputs);
        let wanted = case["outputs"].as_object().unwrap();
        assert_eq!(wanted.len(), outputs.len());
        for (found, told) in outputs.iter().zip(wanted.values()) {
            let wanted = tensor(told);
            if (found.dtype, &found.shape) != (wanted.dtype, &wanted.shape) {
                return Err(format!("{:?} rather than {:?}", found.shape, wanted.shape));
            }
            if found.lod != wanted.lod {
                return Err(format!("LoD {:?} rather than {:?}", found.lod, wanted.lod));
            }
            let numbers = |tensor: &Tensor| -> Vec<f64> {
                let bytes = tensor.data.bytes().unwrap();
                let (four, _) = bytes.as_chunks::<4>();
                four.iter().map(|four| f32::from_le_bytes(*four).into()).collect()
            };
            let apart = numbers(found).into_iter().zip(numbers(&wanted));
            let apart = apart.map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).fold(0.0, f64::max);
            if apart.is_nan() || apart > TOLERANCE {
                return Err(format!("{apart} apart"));
            }
        }
    }
    Ok(())
}

#[test]
fn models_compute_what_was_recorded() {
    let cases: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    assert!(cases.len() >= 9);
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| differences(case).err().map(|what| format!("{}: {what}", case["path"])))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

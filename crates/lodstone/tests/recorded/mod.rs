//! Tensors that other programs computed, as JSON records them.

use lodstone::{Blob, DType, Tensor};
use serde_json::Value;

/// Returns the elements of a tensor.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.data.bytes().unwrap();
    let each = |size: usize, number: fn(&[u8]) -> f64| bytes.chunks(size).map(number).collect();
    match tensor.dtype {
        DType::Float32 => each(4, |it| f32::from_le_bytes(it.try_into().unwrap()).into()),
        DType::Int64 => each(8, |it| i64::from_le_bytes(it.try_into().unwrap()) as f64),
        DType::Int32 => each(4, |it| i32::from_le_bytes(it.try_into().unwrap()).into()),
        DType::Int8 => each(1, |it| i8::from_le_bytes([it[0]]).into()),
        DType::Uint8 | DType::Bool => each(1, |it| it[0].into()),
        DType::Float16 => each(2, |it| half::f16::from_le_bytes(it.try_into().unwrap()).to_f64()),
        other => panic!("{other}"),
    }
}

/// Returns a recorded tensor: its `dtype`, its `shape` or `dims`, and its elements as `data` or `values`, or as `fill` if
/// all are equal.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "recorded values fit their types"
)]
pub(crate) fn array(recorded: &Value) -> Tensor {
    let field = |names: [&str; 2]| names.into_iter().find_map(|name| recorded.get(name));
    let shape = field(["shape", "dims"]).unwrap().as_array().unwrap().iter();
    let shape: Vec<u64> = shape.map(|dim| dim.as_u64().unwrap()).collect();
    let all =
        recorded.get("fill").map(|it| vec![it.clone(); shape.iter().product::<u64>() as usize]);
    let data = all.or_else(|| Some(field(["data", "values"])?.as_array()?.clone())).unwrap();
    let floats = || data.iter().map(float);
    let longs = || data.iter().map(|it| it.as_i64().unwrap());
    let (dtype, bytes): (DType, Vec<u8>) = match recorded["dtype"].as_str().unwrap() {
        "float32" => (DType::Float32, floats().flat_map(|it| (it as f32).to_le_bytes()).collect()),
        "float16" => (
            DType::Float16,
            floats().flat_map(|it| half::f16::from_f64(it).to_le_bytes()).collect(),
        ),
        "int64" => (DType::Int64, longs().flat_map(i64::to_le_bytes).collect()),
        "int32" => (DType::Int32, longs().flat_map(|it| (it as i32).to_le_bytes()).collect()),
        "int8" => (DType::Int8, longs().flat_map(|it| (it as i8).to_le_bytes()).collect()),
        "uint8" => (DType::Uint8, longs().map(|it| it as u8).collect()),
        "bool" => (
            DType::Bool,
            data.iter()
                .map(|it| u8::from(it.as_bool().unwrap_or(it.as_i64() == Some(1))))
                .collect(),
        ),
        other => panic!("{other}"),
    };
    Tensor::dense(dtype, shape, Blob::memory(bytes))
}

/// JSON has no number that is not finite.
fn float(recorded: &Value) -> f64 {
    match recorded.as_str() {
        Some(text) => text.parse().unwrap(),
        None => recorded.as_f64().unwrap_or(f64::NAN),
    }
}

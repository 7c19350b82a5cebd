//! Scattered sums of single numbers, which are added one at a time.

use lodstone_engine::{Dense, Mode};
use lodstone_model::{Attribute, AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::onnx::newest_opset;
use lodstone_store::Blob;

use super::run_op;

fn tensor(dtype: DType, bytes: Vec<u8>, shape: Vec<u64>) -> Option<Tensor> {
    Some(Tensor::dense(dtype, shape, Blob::memory(bytes)))
}

fn singles(values: &[f32]) -> Option<Tensor> {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(DType::Float32, bytes, vec![values.len() as u64])
}

fn longs(values: &[i64], shape: Vec<u64>) -> Option<Tensor> {
    tensor(DType::Int64, values.iter().flat_map(|value| value.to_le_bytes()).collect(), shape)
}

fn summed(kind: &str, inputs: &[Option<Tensor>]) -> Result<Vec<f64>, Finding> {
    let (name, value) = ("reduction".to_owned(), AttributeValue::String("add".into()));
    let attributes = vec![Attribute { name, value }];
    let op = Op { kind: kind.to_owned(), attributes, ..Op::default() };
    let made = run_op(&op, newest_opset("").expect("known"), inputs, Mode::Fast)?;
    Dense::of(&made[0])?.to_f64()
}

#[test]
fn sums_of_equal_and_negative_indices_are_added_in_order() {
    let (table, updates) = (singles(&[1.0, 2.0, 3.0]), singles(&[1e8, 10.0, -1e8, 0.5]));
    let sums = |indices: &[i64]| {
        let count = indices.len() as u64;
        let elements = [table.clone(), longs(indices, vec![count]), updates.clone()];
        let tuples = [table.clone(), longs(indices, vec![count, 1]), updates.clone()];
        let found = summed("ScatterElements", &elements);
        assert_eq!(found.as_ref().ok(), summed("ScatterND", &tuples).as_ref().ok());
        found
    };
    assert_eq!(sums(&[2, 0, 2, 1]).expect("summed"), [11.0, 2.5, 0.0]);
    assert_eq!(sums(&[-1, -3, 1, 1]).expect("summed"), [11.0, -1e8, 1e8]);
    for hostile in [3, -4, i64::MAX, i64::MIN] {
        assert!(sums(&[0, 1, hostile, 2]).is_err(), "{hostile}");
    }
}

#[test]
fn updates_of_another_type_are_not_taken_for_single_numbers() {
    let doubles = 0.1_f64.to_le_bytes().to_vec();
    let inputs = [singles(&[1.0]), longs(&[0], vec![1]), tensor(DType::Float64, doubles, vec![1])];
    for kind in ["ScatterElements", "ScatterND"] {
        assert!(summed(kind, &inputs).is_err(), "{kind}");
    }
}

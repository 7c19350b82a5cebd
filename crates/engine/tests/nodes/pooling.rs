//! Pooling operators of which the onnx package has no models.

use lodstone_engine::{Dense, Mode};
use lodstone_model::{Attribute, AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::onnx::newest_opset;
use lodstone_store::Blob;

use super::run_op;

fn singles(values: &[f32], shape: Vec<u64>) -> Option<Tensor> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Some(Tensor::dense(DType::Float32, shape, Blob::memory(bytes)))
}

/// The elements of the result.
fn pool(
    kind: &str,
    value: (&str, AttributeValue),
    inputs: &[Option<Tensor>],
) -> Result<Vec<f64>, Finding> {
    let attributes = vec![Attribute { name: value.0.to_owned(), value: value.1 }];
    let op = Op { kind: kind.to_owned(), attributes, ..Op::default() };
    let made = run_op(&op, newest_opset("").expect("known"), inputs, Mode::Fast)?;
    Dense::of(&made[0])?.to_f64()
}

#[test]
fn a_global_norm_is_that_of_all_elements_of_a_channel() {
    let image = singles(&[3.0, -4.0, 0.0, 0.0, 1.0, 1.0, 1.0, -1.0], vec![1, 2, 2, 2]);
    let norm =
        |p| pool("GlobalLpPool", ("p", AttributeValue::Long(p)), std::slice::from_ref(&image));
    assert_eq!(norm(1).expect("computed"), [7.0, 4.0]);
    assert_eq!(norm(2).expect("computed"), [5.0, 2.0]);
    assert!(norm(0).is_err());
}

/// Regions are the image, left, top, right and bottom; the pixels are numbered.
#[test]
fn regions_are_pooled_by_their_maximum() {
    let pixels: Vec<f32> = (0..16_u8).map(f32::from).collect();
    let image = singles(&pixels, vec![1, 1, 4, 4]);
    let pool = |region: [f32; 5], dims: [i64; 2]| {
        let shape = ("pooled_shape", AttributeValue::Longs(dims.to_vec()));
        pool("MaxRoiPool", shape, &[image.clone(), singles(&region, vec![1, 5])])
    };
    assert_eq!(pool([0.0, 0.0, 0.0, 3.0, 3.0], [2, 2]).expect("pooled"), [5.0, 7.0, 13.0, 15.0]);
    assert_eq!(pool([0.0, 1.0, 0.0, 2.0, 2.0], [1, 1]).expect("pooled"), [10.0]);
    // Outside of the image there are no pixels.
    assert_eq!(pool([0.0, 8.0, 8.0, 9.0, 9.0], [1, 1]).expect("pooled"), [0.0]);
    for hostile in [f32::NAN, f32::INFINITY, -1.0, 1.0, 1e30] {
        assert!(pool([hostile, 0.0, 0.0, 3.0, 3.0], [2, 2]).is_err(), "image {hostile}");
    }
    assert!(pool([0.0, f32::NAN, 0.0, 3.0, 3.0], [2, 2]).is_err());
    assert!(pool([0.0; 5], [1 << 40, 1]).is_err());
}

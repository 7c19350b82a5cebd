//! Tensors of floats that PyTorch computed, as JSON records them.

use lodstone::Tensor;
use serde_json::Value as Json;

/// Returns the dims and the elements of a recorded tensor.
pub(crate) fn array(value: &Json) -> (Vec<u64>, Vec<f32>) {
    let shape = value["shape"].as_array().expect("dims").iter();
    let data = value["data"].as_array().expect("elements").iter();
    #[expect(clippy::cast_possible_truncation, reason = "recorded as the numbers of float32")]
    let data = data.map(|number| number.as_f64().expect("a number") as f32).collect();
    (shape.map(|dim| dim.as_u64().expect("a dim")).collect(), data)
}

/// Fails unless a tensor is the recorded one, to 1e-5.
pub(crate) fn assert_near(found: &Tensor, wanted: &Json, what: &str) {
    let (shape, wanted) = array(wanted);
    assert_eq!(found.shape, shape, "{what}");
    let found: Vec<f32> = found.to_vec().expect("floats");
    for (found, wanted) in found.iter().zip(&wanted) {
        assert!((found - wanted).abs() <= 1e-5 + 1e-5 * wanted.abs(), "{what}: {found}, {wanted}");
    }
}

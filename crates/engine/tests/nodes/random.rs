//! Random numbers repeat, and have the distribution that their operator names.

use lodstone_engine::{Dense, Mode};
use lodstone_model::{Attribute, AttributeValue, DType, Op, Operand, Tensor};
use lodstone_schema::onnx::newest_opset;
use lodstone_store::Blob;

use super::run_op;

fn attribute(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}

/// What an operator returns that writes to `output`.
fn draw(kind: &str, output: &str, attributes: Vec<Attribute>, input: Option<Tensor>) -> Vec<f64> {
    let inputs: Vec<Tensor> = input.into_iter().collect();
    draw_from(kind, output, attributes, inputs)
}

fn draw_from(
    kind: &str,
    output: &str,
    attributes: Vec<Attribute>,
    inputs: Vec<Tensor>,
) -> Vec<f64> {
    let outputs = vec![Operand { slot: String::new(), args: vec![output.to_owned()] }];
    let op = Op { kind: kind.to_owned(), attributes, outputs, ..Op::default() };
    let inputs: Vec<_> = inputs.into_iter().map(Some).collect();
    let opset = newest_opset("").expect("known");
    let made = run_op(&op, opset, &inputs, Mode::Fast).expect("drawn");
    Dense::of(&made[0]).and_then(|it| it.to_f64()).expect("read")
}

fn shape() -> Attribute {
    attribute("shape", AttributeValue::Longs(vec![100, 101]))
}

fn singles(values: &[f32], shape: Vec<u64>) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::dense(DType::Float32, shape, Blob::memory(bytes))
}

/// The mean and the variance.
fn moments(values: &[f64]) -> [f64; 2] {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    [mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count]
}

fn near(found: [f64; 2], expected: [f64; 2]) {
    let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 0.05, "{found:?}, expected {expected:?}");
}

#[test]
fn draws_repeat_and_differ_by_output_and_seed() {
    for kind in ["RandomNormal", "RandomUniform"] {
        let seed = |seed: f32| attribute("seed", AttributeValue::Float(seed));
        let plain = draw(kind, "y", vec![shape()], None);
        assert_eq!(plain, draw(kind, "y", vec![shape()], None));
        assert_ne!(plain, draw(kind, "z", vec![shape()], None));
        let seeded = draw(kind, "y", vec![shape(), seed(3.0)], None);
        assert_eq!(seeded, draw(kind, "z", vec![shape(), seed(3.0)], None));
        assert_ne!(seeded, draw(kind, "y", vec![shape(), seed(4.0)], None));
    }
}

#[test]
fn draws_have_their_distribution() {
    let float = |name: &str, value: f32| attribute(name, AttributeValue::Float(value));
    let uniform = draw("RandomUniform", "y", vec![shape(), float("low", -1.0)], None);
    assert!(uniform.iter().all(|value| (-1.0..=1.0).contains(value)));
    near(moments(&uniform), [0.0, 1.0 / 3.0]);
    let normal = vec![shape(), float("mean", 2.0), float("scale", 0.5)];
    near(moments(&draw("RandomNormal", "y", normal, None)), [2.0, 0.25]);
    let like = || Some(singles(&[0.25; 10_000], vec![100, 100]));
    near(moments(&draw("RandomNormalLike", "y", Vec::new(), like())), [0.0, 1.0]);
    near(moments(&draw("RandomUniformLike", "y", Vec::new(), like())), [0.5, 1.0 / 12.0]);
    near(moments(&draw("Bernoulli", "y", Vec::new(), like())), [0.25, 0.1875]);
}

#[test]
fn classes_are_drawn_by_their_probabilities() {
    let shares = [0.2_f32, 0.0, 0.5, 0.3];
    let logarithms = singles(&shares.map(f32::ln), vec![1, 4]);
    let samples = vec![attribute("sample_size", AttributeValue::Long(10_000))];
    let drawn = draw("Multinomial", "y", samples, Some(logarithms));
    for (class, share) in shares.into_iter().enumerate() {
        let found = drawn.iter().filter(|drawn| **drawn == class as f64).count() as f64 / 10_000.0;
        assert!((found - f64::from(share)).abs() < 0.02, "{class}: {found}");
    }
}

#[test]
fn dropout_in_training_keeps_the_mean() {
    let truth = Tensor::dense(DType::Bool, Vec::new(), Blob::memory(vec![1]));
    let x = singles(&[2.0; 10_000], vec![10_000]);
    let drop = |ratio: f32| {
        let inputs = vec![x.clone(), singles(&[ratio], Vec::new()), truth.clone()];
        draw_from("Dropout", "y", Vec::new(), inputs)
    };
    let dropped = drop(0.2);
    assert!(dropped.iter().all(|value| *value == 0.0 || *value == 2.5));
    assert!((moments(&dropped)[0] - 2.0).abs() < 0.05);
    assert!(drop(0.0).iter().all(|value| *value == 2.0));
    assert!(drop(1.0).iter().all(|value| *value == 0.0));
}

//! Initializers are those of PaddlePaddle 2.6.2 (`golden/make_paddle_layers.py`).

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use crate::support::{compare, recorded, singles};
use lodstone_model::{DType, Tensor};
use lodstone_paddle::program::{Initializer, Network, ParamAttr};
use lodstone_store::Blob;

/// Initializers by the prefix of their cases.
fn initializers() -> Vec<(&'static str, Initializer)> {
    let seed = 0;
    vec![
        ("constant", Initializer::Constant(0.5)),
        ("uniform", Initializer::Uniform { low: -0.5, high: 0.25, seed }),
        ("normal", Initializer::Normal { mean: 0.1, deviation: 0.2, seed }),
        ("truncated_normal", Initializer::TruncatedNormal { mean: 0.1, deviation: 0.2, seed }),
        ("xavier_uniform", Initializer::Xavier { seed }),
        ("xavier_normal", Initializer::XavierNormal { seed }),
        ("kaiming_uniform", Initializer::KaimingUniform { seed }),
        ("kaiming_normal", Initializer::Kaiming { seed }),
        ("bilinear", Initializer::Bilinear),
    ]
}

#[test]
fn parameters_begin_as_those_of_paddlepaddle() {
    let mut recorded = recorded("paddle_layers.json");
    recorded.retain(|name, _| name.starts_with("begins_"));
    let bytes = (0..6_i32).flat_map(i32::to_le_bytes).collect::<Vec<u8>>();
    let integers = Tensor::dense(DType::Int32, vec![2, 3], Blob::memory(bytes));
    let values = singles(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let mut cases = vec![
        ("begins_given_float32".to_owned(), Initializer::Given(values), vec![2, 3]),
        ("begins_given_int32".to_owned(), Initializer::Given(integers), vec![2, 3]),
    ];
    for (name, initializer) in initializers() {
        let shapes: [(&str, &[u64]); 3] =
            [("", &[3, 2, 4, 4]), ("_of_a_matrix", &[5, 7]), ("_of_a_row", &[5])];
        for (of, shape) in shapes.into_iter().filter(|(of, _)| name != "bilinear" || of.is_empty())
        {
            cases.push((format!("begins_{name}{of}"), initializer.clone(), shape.to_vec()));
        }
    }
    assert_eq!(recorded.len(), cases.len());
    let mut found = Vec::new();
    for (name, initializer, shape) in cases {
        let mut net = Network::new();
        let dtype = match &initializer {
            Initializer::Given(tensor) => tensor.dtype,
            _ => DType::Float32,
        };
        let named = ParamAttr { initializer: Some(initializer), ..ParamAttr::default() };
        let made = net.parameter(&named, "w", dtype, &shape, Initializer::Constant(0.0)).unwrap();
        let differences = compare(&net, &[made], &recorded[&name]);
        found.extend(differences.into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

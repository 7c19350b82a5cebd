//! Files that are in no known format.
#![expect(clippy::disallowed_methods, reason = "tests write files directly")]

use std::num::NonZeroU32;

use lodstone::formats::Error as FormatError;
use lodstone::model::Limits;
use lodstone::{Error, OpenOptions, open};

/// Returns reproducible pseudo-random bytes (xorshift64*).
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

fn opened(name: &str, bytes: &[u8]) -> Error {
    // Messages contain the path: its name must not contain any of the words below.
    let name_of_dir = std::process::id().to_string();
    let dir = tempfile::Builder::new().prefix(&name_of_dir).rand_bytes(0).tempdir();
    let dir = dir.expect("a directory");
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    open(&path).expect_err("no model")
}

#[test]
fn random_bytes_are_not_assigned_a_format() {
    for (seed, len) in
        [32, 43, 100, 300, 512, 700, 4096, 100_000].into_iter().cycle().take(400).enumerate()
    {
        let bytes = noise(len, seed as u64 + 1);
        for name in ["model.bin", "m.pdmodel", "m.pdiparams", "m.pdparams", "__model__"] {
            let error = opened(name, &bytes).to_string();
            assert!(!error.contains("encrypted") && !error.contains("key"), "{name}: {error}");
        }
    }
    let error = opened("model.bin", &noise(43, 7));
    assert!(matches!(error, Error::Format(FormatError::Unrecognized { .. })), "{error}");
}

/// Models that have structure to count, in formats with different readers.
const COUNTED: [&str; 12] = [
    "formats/tests/golden/safetensors/many.safetensors",
    "formats/tests/golden/onnx/attributes.onnx",
    "formats/tests/golden/onnx/attributes.onnxtxt",
    "formats/tests/golden/paddle/2.6.2/control_flow/train.pb",
    "formats/tests/golden/paddle/1.8.5/lenet/program.pbtxt",
    "formats/tests/golden/paddle/early/sized/many.combined",
    "formats/tests/golden/paddle/pir/3.0.0b2",
    "formats/tests/golden/mxnet/1.9.1/foreach-symbol.json",
    "formats/tests/golden/mxnet_states/1.2.1/protocol0.states",
    "formats/tests/golden/torch/checkpoint.pt",
    "formats/tests/golden/torch/export.pt2",
    "formats/tests/golden/caffe2/predictor.minidb",
];

#[test]
fn limits_name_the_option_that_raises_them() {
    let mut reached = 0;
    for path in COUNTED {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
        let limits = Limits::default;
        let low =
            [limits().with_tensors(1), limits().with_nodes(3), limits().with_structure_bytes(20)];
        for limits in low {
            let open = |limits: Limits| {
                lodstone::open_with(&path, &OpenOptions::default().with_limits(limits))
            };
            let Err(error) = open(limits.clone()) else { continue };
            let text = error.to_string();
            assert!(
                text.contains("(a limit of this reader, which `raise-limits` raises)"),
                "{text}"
            );
            open(limits.raised(NonZeroU32::MAX)).expect("opened");
            reached += 1;
        }
    }
    assert!(reached >= 20, "{reached}");
}

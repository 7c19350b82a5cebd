//! A session takes inputs of any number of shapes in the same memory. (A test of its own: others would use memory, too.)

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use lodstone::{Inputs, RunOptions, Session, open, run, tensors};

/// Returns the memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn two_hundred_shapes_take_no_more_memory_than_a_few() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/onnx_models");
    let model = open(models.join("images.onnx")).unwrap();
    let mut session = Session::new(&model, &RunOptions::default()).unwrap();
    let inputs = |size: u64| {
        let mut inputs = Inputs::default();
        inputs.add_random(&model, size, &[("x".to_owned(), vec![2, 3, size, size])]).unwrap();
        inputs
    };
    // The largest first: the allocator keeps what it once had.
    let sizes: Vec<u64> = (0..200).map(|number| 260 - number).collect();
    let (mut early, mut last) = (0, Vec::new());
    for (number, size) in sizes.iter().enumerate() {
        last = tensors(session.run(inputs(*size)).unwrap());
        if number == 10 {
            early = resident();
        }
    }
    let late = resident();
    assert!(late < early + (32 << 20), "{early} bytes after 10 shapes, {late} after 200");
    let fresh =
        tensors(run(&model, inputs(*sizes.last().unwrap()), &RunOptions::default()).unwrap());
    for (one, other) in last.iter().zip(&fresh) {
        assert!(one.tensor.data.bytes().unwrap() == other.tensor.data.bytes().unwrap());
    }
}

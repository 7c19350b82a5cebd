//! Files that are in no known format.
#![expect(clippy::disallowed_methods, reason = "tests write files directly")]

use lodstone::{Error, FormatError, open};

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

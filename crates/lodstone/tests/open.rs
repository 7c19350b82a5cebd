//! Files that no format claims.
#![expect(clippy::disallowed_methods, reason = "tests write files directly")]

use std::path::Path;

use lodstone::{Error, FormatError, open};

/// Bytes that look random and are the same every time (xorshift64*).
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
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    open(&path).expect_err("no model")
}

fn is_encrypted(error: &Error) -> bool {
    matches!(error, Error::Format(FormatError::Encrypted { .. }))
}

#[test]
fn what_looks_encrypted_is_said_to_need_a_key() {
    for (seed, len) in
        [32, 43, 100, 300, 512, 700, 4096, 100_000].into_iter().cycle().take(400).enumerate()
    {
        let bytes = noise(len, seed as u64 + 1);
        for name in ["model.bin", "m.pdmodel", "m.pdiparams", "m.pdparams", "__model__"] {
            let error = opened(name, &bytes);
            // A few begin like a format by chance, under a name that says nothing.
            let chance = name == "model.bin" && !error.to_string().contains("no model file");
            assert!(is_encrypted(&error) || chance, "{len} bytes, seed {seed}, {name}: {error}");
        }
    }
    let error = opened("m.pdmodel", &noise(4096, 7)).to_string();
    assert!(error.contains("may be encrypted") && error.contains("the key is needed"), "{error}");
}

#[test]
fn texts_tables_and_archives_do_not_look_encrypted() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(sources).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            continue;
        }
        let bytes = std::fs::read(path).expect("a file");
        for len in [40, 100, 600, bytes.len()] {
            let text = &bytes[..len.min(bytes.len())];
            assert!(!is_encrypted(&opened("a.txt", text)));
        }
    }
    let floats: Vec<u8> = (0..2000u16).flat_map(|i| f32::from(i).sin().to_le_bytes()).collect();
    let numbers: Vec<u8> = (0..2000u32).flat_map(u32::to_le_bytes).collect();
    let gzip = [&b"\x1f\x8b\x08"[..], &noise(5000, 3)].concat();
    for bytes in [floats, numbers, gzip, vec![0; 4096], b"\xff".repeat(100)] {
        assert!(!is_encrypted(&opened("a.bin", &bytes)));
    }
}

//! Reading, verifying and sealing models compiles neither an engine nor a network client.

use std::process::Command;

const READERS: [&str; 5] = [
    "lodstone-store",
    "lodstone-model",
    "lodstone-schema",
    "lodstone-formats",
    "lodstone-lowering",
];

const HEAVY: [&str; 5] = ["burn", "gemm", "tokio", "object_store", "pulp"];

#[test]
fn readers_compile_no_engine_and_no_network() {
    for reader in READERS {
        let tree = Command::new(env!("CARGO"))
            .args([
                "tree",
                "--package",
                reader,
                "--edges",
                "normal",
                "--prefix",
                "none",
                "--locked",
            ])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo");
        let lines = String::from_utf8(tree.stdout).expect("UTF-8");
        assert!(lines.starts_with(reader), "{}", String::from_utf8_lossy(&tree.stderr));
        let heavy = |line: &&str| HEAVY.iter().any(|name| line.starts_with(name));
        let found: Vec<&str> = lines.lines().filter(heavy).collect();
        assert!(found.is_empty(), "{reader}: {found:?}");
    }
}

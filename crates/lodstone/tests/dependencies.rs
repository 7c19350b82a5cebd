//! Reading, verifying, sealing and converting models, and checkpoints of tensors, require neither an engine nor a network
//! client.

use std::process::Command;

const LIGHT: [&str; 6] = [
    "lodstone-store",
    "lodstone-model",
    "lodstone-schema",
    "lodstone-formats",
    "lodstone-lowering",
    "lodstone-checkpoint",
];

const HEAVY: [&str; 6] =
    ["pulp", "rayon", "tokio", "object_store", "lodstone-engine", "lodstone-paddle"];

#[test]
fn models_and_checkpoints_require_no_engine_and_no_network() {
    for light in LIGHT {
        let tree = Command::new(env!("CARGO"))
            .args(["tree", "--package", light, "--edges", "normal", "--prefix", "none", "--locked"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo");
        let lines = String::from_utf8(tree.stdout).expect("UTF-8");
        assert!(lines.starts_with(light), "{}", String::from_utf8_lossy(&tree.stderr));
        let heavy = |line: &&str| HEAVY.iter().any(|name| line.starts_with(name));
        let found: Vec<&str> = lines.lines().filter(heavy).collect();
        assert!(found.is_empty(), "{light}: {found:?}");
    }
}

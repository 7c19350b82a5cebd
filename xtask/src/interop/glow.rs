//! Models of Glow's own operators, converted to ONNX's: ONNX Runtime computes what Glow did.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::Work;
use crate::run::{Outcome, cannot, root, run};

impl Work {
    /// Runs that were recorded, and nodes of which none was.
    pub(super) fn write_glow(&mut self, python: &Path) -> Result<(), Outcome> {
        let golden = root().join("crates/formats/tests/golden/glow_run");
        let runs = read(&golden.join("runs.json"))?;
        let runs = runs["runs"].as_array().cloned().unwrap_or_default();
        let script = root().join("interop/glow_nodes.py");
        run(Command::new(python).arg(script).arg(&self.directory))?;
        let nodes = read(&self.directory.join("nodes.json"))?;
        let nodes = nodes.as_array().cloned().unwrap_or_default();
        let directory = self.directory.clone();
        for (from, case) in
            runs.iter().map(|run| (&golden, run)).chain(nodes.iter().map(|node| (&directory, node)))
        {
            let path = case["path"].as_str().unwrap_or_default();
            let out = format!("from-{path}");
            self.convert(&from.join(path), &out, &["--to", "onnx"])?;
            let (inputs, outputs) = (&case["inputs"], &case["outputs"]);
            self.cases.push(json!({
                "load": "onnxruntime",
                "path": out,
                "inputs": inputs,
                "outputs": outputs,
                "tolerance": case["tolerance"],
            }));
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Value, Outcome> {
    let text = fs::read(path).map_err(cannot("read cases"))?;
    serde_json::from_slice(&text)
        .map_err(|error| Outcome::Failed(format!("{}: {error}", path.display())))
}

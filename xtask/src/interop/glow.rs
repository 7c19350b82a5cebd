//! Converts models with Glow's operators to ONNX, then to Glow and to ONNX again, and compares the results of ONNX
//! Runtime with Glow's.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::Work;
use crate::run::{Outcome, cannot, root, run};

/// The runs whose ONNX operators cannot be converted back to Glow: it has no `ScatterElements` and no `DFT`, and
/// requires the number of elements that `NonZero` returns.
const ONE_WAY: [&str; 8] = [
    "caffe2__fill_examples_with_indicator.onnx",
    "caffe2__fused_rowwise_quantized_sparse_lengths_sum_predict_net_length1.onnx",
    "caffe2__fused_rowwise_quantized_sparse_lengths_weighted_sum_predict_net.onnx",
    "caffe2__gather_ranges.onnx",
    "caffe2__rowwise_quantized_sparse_lengths_sum_predict_net.onnx",
    "onnx__audioSpectrogramOneWindow.onnx",
    "onnx__lengths_sum.onnx",
    "onnx__sparseLengthsSum.onnx",
];

/// The run whose positions refer to the layout with channels first after a round trip, as a warning reports.
const COUNTED: &str = "onnx__maxPoolWithArgmax.onnx";

impl Work {
    /// Writes the recorded runs, and nodes of kinds without a recorded run.
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
        self.write_glow_again(&runs)
    }

    /// Writes the runs with ONNX's operators, then with Glow's, then with ONNX's again.
    fn write_glow_again(&mut self, runs: &[Value]) -> Result<(), Outcome> {
        for case in runs {
            let path = case["path"].as_str().unwrap_or_default();
            let (first, glow) = (format!("from-{path}"), format!("glow-{path}"));
            let there = self.convert(&self.directory.join(first), &glow, &["--to", "onnx-glow"]);
            if ONE_WAY.contains(&path) {
                if there.is_ok() {
                    let what = "listed as not convertible to Glow, but is";
                    return Err(Outcome::Failed(format!("{path}: {what}")));
                }
                continue;
            }
            there?;
            let again = format!("again-{path}");
            self.convert(&self.directory.join(glow), &again, &["--to", "onnx"])?;
            if path == COUNTED {
                continue;
            }
            let (inputs, outputs) = (&case["inputs"], &case["outputs"]);
            self.cases.push(json!({
                "load": "onnxruntime",
                "path": again,
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

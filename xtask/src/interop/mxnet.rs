//! Rewrites MXNet's golden files for MXNet to load.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::suite::Suite;
use super::{Work, cases_of};
use crate::python::environment;
use crate::run::{Outcome, root};

pub(super) fn mxnet(suite: &Suite<'_>) -> Result<(), Outcome> {
    let python = environment(suite.python, "interop/requirements-mxnet-1.9.1.txt")?;
    let mut work = Work::new(suite, "files")?;
    work.write_mxnet()?;
    work.check(&python, "mxnet_load.py")
}

impl Work {
    /// Writes every golden file, unchanged and newly written, and the trained example.
    fn write_mxnet(&mut self) -> Result<(), Outcome> {
        for case in cases_of(&golden())? {
            let path = case["path"].as_str().unwrap_or_default();
            match case["format"].as_str() {
                // Types that only 2.x has, and scalars.
                _ if path == "2.0.0b1/own.params" || path == "2.0.0b1/numpy.params" => {}
                Some("mxnet-params" | "mxnet-npz") => self.write_params(&case, path)?,
                Some("mxnet" | "mxnet-symbol") => self.write_symbol(&case, path)?,
                _ => {}
            }
        }
        self.write_mxnet_digits()
    }

    fn write_params(&mut self, case: &Value, path: &str) -> Result<(), Outcome> {
        let tensors = case["tensors"].as_array().cloned().unwrap_or_default();
        let shape = |tensor: &Value| tensor["shape"].as_array().cloned().unwrap_or_default();
        let no_shape = |shape: &[Value]| shape.is_empty() || shape.contains(&json!(0));
        let numpy = tensors.iter().any(|t| t["kind"] == "dense" && no_shape(&shape(t)));
        for to in ["same", "mxnet-params"] {
            // Without NumPy shapes, MXNet loads neither its own scalars nor archives.
            let own = path == "1.9.1/scalars.params" || case["format"] == "mxnet-npz";
            if to == "same" && own {
                continue;
            }
            let out = format!("{}-{to}.params", path.replace('/', "-"));
            self.convert(&golden().join(path), &out, &["--to", to])?;
            let expect = json!({"load": "params", "path": out, "tensors": tensors, "numpy": numpy});
            self.cases.push(expect);
        }
        Ok(())
    }

    fn write_symbol(&mut self, case: &Value, path: &str) -> Result<(), Outcome> {
        // 1.9.1 lacks some operators of 2.x.
        if path.starts_with('2') {
            return Ok(());
        }
        let mut original = golden().join(path);
        if case["format"] == "mxnet" {
            original = original.join("net-symbol.json");
        }
        let out = format!("{}-symbol.json", path.replace('/', "-"));
        self.convert(&original, &out, &["--to", "mxnet-symbol"])?;
        let (outputs, variables) = (&case["outputs"], &case["variables"]);
        let mut expect =
            json!({"load": "symbol", "path": out, "outputs": outputs, "variables": variables});
        // MXNet merges variables of the same name.
        if !path.ends_with("shared-symbol.json") {
            expect["equal"] = json!(original.display().to_string());
        }
        self.cases.push(expect);
        Ok(())
    }

    /// Writes the trained example, with the recorded outputs.
    fn write_mxnet_digits(&mut self) -> Result<(), Outcome> {
        let example = root().join("examples/digits");
        let file = |name: &str| example.join(name).display().to_string();
        for (to, epoch) in [("same", 12), ("mxnet", 0)] {
            let out = format!("digits-{to}");
            let symbol = format!("{out}-symbol.json");
            self.convert(&example.join("mxnet"), &symbol, &["--to", to])?;
            self.cases.push(json!({
                "load": "checkpoint", "path": out, "epoch": epoch,
                "feeds": file("test.npz"), "feed_keys": {"data": "images"},
                "fetch": file("mxnet/outputs.npz"), "fetch_key": "outputs",
            }));
        }
        Ok(())
    }
}

fn golden() -> PathBuf {
    Path::new(root()).join("crates/formats/tests/golden/mxnet")
}

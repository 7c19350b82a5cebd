//! Writes golden files in PaddlePaddle's layouts and as arrays, and loads them with PaddlePaddle.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::suite::Suite;
use super::{Work, cases_of, first_failure, programs};
use crate::python::environment;
use crate::run::{Outcome, root};

/// The release of each environment, and whether it supports 8-bit floats.
const RELEASES: [(&str, bool); 2] = [("2.6.2", false), ("3.3.1", true)];

pub(super) fn paddle(suite: &Suite<'_>) -> Result<(), Outcome> {
    let mut outcomes = Vec::new();
    for (release, eight_bit_floats) in RELEASES {
        let requirements = format!("interop/requirements-paddle-{release}.txt");
        let python = || environment(suite.python, &requirements);
        outcomes.push(suite.part(release, || {
            let mut work = Work::new(suite, release)?;
            work.write_paddle(eight_bit_floats)?;
            work.write_pickles()?;
            work.check(&python()?, "paddle_load.py")
        }));
        if release == "2.6.2" {
            outcomes.push(suite.part("programs", || programs::programs(suite, &python()?)));
        }
        if release == "3.3.1" {
            outcomes.push(suite.part("arrays", || {
                let mut work = Work::new(suite, "arrays")?;
                work.write_arrays()?;
                work.check(&python()?, "safetensors_load.py")
            }));
        }
    }
    first_failure(outcomes)
}

impl Work {
    /// Writes every golden case, unchanged and aligned, in the layout that PaddlePaddle reads.
    fn write_paddle(&mut self, eight_bit_floats: bool) -> Result<(), Outcome> {
        for case in golden_cases()? {
            let tensors = case["tensors"].as_array().cloned().unwrap_or_default();
            let has = |key: &str, value: &str| {
                tensors.iter().any(|t| t[key].as_str().is_some_and(|is| is.starts_with(value)))
            };
            // PaddlePaddle's bindings do not expose vocabularies.
            if tensors.is_empty() || has("kind", "vocab") {
                continue;
            }
            if has("dtype", "float8") && !eight_bit_floats {
                continue;
            }
            for align in ["0", "64"] {
                self.write_case(&case, &tensors, align)?;
            }
        }
        self.write_digits()
    }

    /// Writes pickles, unchanged and without one of their tensors, and new pickles of other models.
    fn write_pickles(&mut self) -> Result<(), Outcome> {
        for case in cases_of(&golden().with_file_name("paddle_pickle"))? {
            let path = case["path"].as_str().unwrap_or_default();
            // Pickles that Python wrote contain values that `paddle.load` rejects.
            if path.contains("/pickle_p") {
                continue;
            }
            let tensors = case["tensors"].as_array().cloned().unwrap_or_default();
            let input = golden().with_file_name("paddle_pickle").join(path);
            let name = format!("pickle-{}", path.replace('/', "-"));
            self.convert(&input, &name, &["--to", "same"])?;
            self.cases.push(json!({ "load": "pickle", "path": name, "tensors": tensors }));
            let Some((first, rest)) = tensors.split_first().filter(|(_, rest)| !rest.is_empty())
            else {
                continue;
            };
            let first = first["name"].as_str().unwrap_or_default();
            // In a list, the following tensors move up.
            if path.contains("list.") {
                continue;
            }
            let name = format!("edited-{name}");
            self.convert(&input, &name, &["--to", "same", "--exclude", first])?;
            self.cases.push(json!({ "load": "pickle", "path": name, "tensors": rest }));
        }
        for case in golden_cases()? {
            let path = case["path"].as_str().unwrap_or_default();
            let mut tensors = case["tensors"].as_array().cloned().unwrap_or_default();
            let plain = |tensor: &Value| tensor["kind"] == "dense" && tensor["lod"].is_null();
            let there = case["format"] == "paddle" && case["params"].is_null();
            if !there || !tensors.iter().all(plain) || tensors.is_empty() {
                continue;
            }
            // Pickles store types that they cannot name as bits.
            for tensor in &mut tensors {
                match tensor["dtype"].as_str() {
                    Some("bfloat16") => tensor["dtype"] = json!("uint16"),
                    Some(dtype) if dtype.starts_with("float8") => tensor["dtype"] = json!("int8"),
                    _ => {}
                }
            }
            let name = format!("fresh-{}.pdparams", path.replace('/', "-"));
            self.convert(&golden().join(path), &name, &["--allow", "dtype"])?;
            self.cases.push(json!({ "load": "pickle", "path": name, "tensors": tensors }));
        }
        Ok(())
    }

    fn write_case(&mut self, case: &Value, tensors: &[Value], align: &str) -> Result<(), Outcome> {
        let path = case["path"].as_str().unwrap_or_default();
        let is_inference = case["inputs"].is_array();
        let format = case["format"].as_str().unwrap_or_default();
        let name = format!("{}-{align}", path.replace('/', "-"));
        let mut expect = json!({ "path": name, "tensors": tensors });
        let to = match format {
            "paddle-tensor" | "paddle-tensor-lod-last" => {
                let is_rows = tensors.iter().any(|tensor| tensor["kind"] == "selected_rows");
                expect["load"] = json!(if is_rows { "selected_rows" } else { "tensor" });
                "paddle-tensor"
            }
            "paddle-params" | "paddle-params-sized" | "paddle-pir" => {
                expect["load"] = json!("params");
                "paddle-params"
            }
            "paddle-vars" if is_inference => {
                expect["load"] = json!("inference_model");
                "paddle-vars"
            }
            "paddle-vars" => {
                expect["load"] = json!("vars");
                "paddle-vars"
            }
            "paddle" if is_inference => {
                expect["load"] = json!("inference_model");
                "paddle"
            }
            "paddle" => {
                expect["load"] = json!("params");
                expect["path"] = json!(format!("{name}.pdiparams"));
                expect["program"] = json!(format!("{name}.pdmodel"));
                "paddle"
            }
            // Pickles have no alignment.
            "paddle-save" if align == "0" => {
                expect["load"] = json!("saved");
                "same"
            }
            _ => return Ok(()),
        };
        // An output with an extension is a prefix, not a directory.
        let out = if to == "paddle" || to == "same" { format!("{name}.pdmodel") } else { name };
        let mut arguments = vec!["--to", to, "--align", align, "--allow", "names"];
        let params = case["params"].as_str().map(|params| golden().join(params));
        let params = params.as_ref().map(|params| params.display().to_string());
        if let Some(params) = &params {
            arguments.extend(["--params", params]);
        }
        self.convert(&golden().join(path), &out, &arguments)?;
        self.cases.push(expect);
        Ok(())
    }

    /// Writes the trained example, with the recorded outputs.
    fn write_digits(&mut self) -> Result<(), Outcome> {
        let example = root().join("examples/digits");
        self.convert(&example.join("paddle"), "digits.pdmodel", &["--to", "paddle"])?;
        let test = example.join("test.npz").display().to_string();
        self.cases.push(json!({
            "load": "inference_model", "path": "digits",
            "feeds": test, "feed_keys": {"image": "images"}, "fetch": test, "fetch_keys": ["outputs"],
        }));
        Ok(())
    }

    /// Writes models as safetensors and npz, tensors as npy.
    fn write_arrays(&mut self) -> Result<(), Outcome> {
        for case in golden_cases()? {
            let path = case["path"].as_str().unwrap_or_default();
            let tensors = case["tensors"].as_array().cloned().unwrap_or_default();
            let name = path.replace('/', "-");
            let input = golden().join(path);
            let plain = |tensor: &Value| tensor["kind"] == "dense" && tensor["lod"].is_null();
            if !tensors.iter().all(plain) || tensors.is_empty() || !case["params"].is_null() {
                continue;
            }
            match case["format"].as_str() {
                Some("paddle") => {
                    for kind in ["safetensors", "npz"] {
                        let out = format!("{name}.{kind}");
                        self.convert(&input, &out, &[])?;
                        self.cases.push(json!({ "load": kind, "path": out, "tensors": tensors }));
                    }
                }
                Some("paddle-tensor") => {
                    let dtype = tensors[0]["dtype"].as_str().unwrap_or_default();
                    if dtype != "bfloat16" && !dtype.starts_with("float8") {
                        let out = format!("{name}.npy");
                        self.convert(&input, &out, &[])?;
                        self.cases.push(json!({ "load": "npy", "path": out, "tensors": tensors }));
                    }
                    if !dtype.starts_with("complex128") {
                        let mut tensors = tensors;
                        tensors[0]["name"] = json!("0");
                        let out = format!("{name}.safetensors");
                        self.convert(&input, &out, &[])?;
                        self.cases.push(
                            json!({ "load": "safetensors", "path": out, "tensors": tensors }),
                        );
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn golden() -> PathBuf {
    root().join("crates/formats/tests/golden/paddle")
}

fn golden_cases() -> Result<Vec<Value>, Outcome> {
    cases_of(&golden())
}

//! `lodstone run`.

#![expect(clippy::disallowed_methods, reason = "makes its own files")]

use std::path::Path;

use crate::common::{DIGITS, bad, dir, golden, good, read};

/// Handwritten digits, and PaddlePaddle's outputs for them.
const TEST: &str = "examples/digits/test.npz";

#[test]
fn outputs_for_digits_equal_paddlepaddles() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (images, wanted, found) = (at("images.npy"), at("wanted.npy"), at("found.npy"));
    good(["cat", TEST, "images", "-o", &images]);
    good(["cat", TEST, "outputs", "-o", &wanted]);
    for input in [format!("image={images}"), images] {
        good(["run", DIGITS, "-i", &input, "-o", &found]);
        let same = good(["diff", &found, &wanted, "--atol", "1e-5"]);
        assert!(same.out.contains("the same"), "{}", same.out);
    }
}

#[test]
fn outputs_are_printed_as_text() {
    let dir = dir();
    let start = dir.path().join("start.npy").display().to_string();
    let model = golden("2.6.2/control_flow/inference");
    good(["cat", &model, "weight", "-o", &start]);
    let outcome = good(["run", &model, "-i", &start]);
    assert!(outcome.out.starts_with("save_infer_model/scale_0.tmp_1 float32 ["), "{}", outcome.out);
    let outcome = good(["run", &model, "-i", &start, "--full"]);
    assert!(outcome.out.starts_with("save_infer_model/scale_0.tmp_1:\n["), "{}", outcome.out);
}

/// Returns a model that PyTorch exported, with results of ONNX Runtime.
fn onnx(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/onnx_models");
    root.join(name).display().to_string()
}

#[test]
fn onnx_models_run_and_large_outputs_are_a_table() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (input, wanted, found) = (at("x.npy"), at("wanted.npy"), at("found.npy"));
    let (model, record) = (onnx("images.onnx"), onnx("images.0.npz"));
    good(["cat", &record, "in.x", "-o", &input]);
    good(["cat", &record, "out.0", "-o", &wanted]);
    good(["run", &model, "-i", &input, "-o", &found]);
    let same = good(["diff", &found, &wanted, "--rtol", "1e-4", "--atol", "1e-5"]);
    assert!(same.out.contains("the same"), "{}", same.out);
    let input = format!("image={}", at("images.npy"));
    good(["cat", TEST, "images", "-o", &at("images.npy")]);
    let table = good(["run", DIGITS, "-i", &input, "--repeat", "3", "--profile", "--threads", "1"]);
    let header = table.out.lines().next().unwrap_or_default();
    let columns: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(
        columns,
        ["output", "dtype", "shape", "min", "max", "mean", "std", "zeros", "nan", "inf"]
    );
    assert!(table.err.contains("then 2 runs: median"), "{}", table.err);
    assert!(table.err.contains("conv2d"), "{}", table.err);
}

#[test]
fn random_inputs_depend_on_the_seed_and_the_shape() {
    let [a, b, other] = ["1", "1", "2"].map(|seed| {
        good(["run", DIGITS, "--random-inputs", seed, "--input-shape", "image:2,1,8,8", "--full"])
    });
    assert!(a.out == b.out && a.out != other.out);
    assert!(a.err.contains("random input image float32 [2, 1, 8, 8]"), "{}", a.err);
    let error = bad(["run", DIGITS, "-q", "--random-inputs", "1", "--input-shape", "picture:1"]);
    assert!(error.contains("`picture`"), "{error}");
    let error = bad(["run", DIGITS, "-q", "--random-inputs", "1", "--input-shape", "image:1,2"]);
    assert!(error.contains("expected float32[?, 1, 8, 8], found float32[1, 2]"), "{error}");
    let error = bad(["run", DIGITS, "-q", "--random-inputs", "1", "--engine", "reference"]);
    assert!(error.contains("only the engine `builtin`"), "{error}");
}

#[test]
fn models_are_compared_by_running_them() {
    let model = onnx("images.onnx");
    let same = good(["compare", &model, &model, "--input-shape", "x:1,3,16,16"]);
    assert!(same.out.starts_with("outputs agree: "), "{}", same.out);
    assert!(same.out.contains("without a counterpart: 0 in A, 0 in B"), "{}", same.out);
    let json = good(["compare", &model, &model, "--json", "--input-shape", "x:1,3,16,16"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["schema"], &json["same"]), (&1.into(), &true.into()));
    let error = bad(["compare", &model, DIGITS, "-q", "--input-shape", "x:1,3,16,16"]);
    assert!(!error.is_empty());
}

#[test]
fn missing_inputs_and_programs_are_reported() {
    let outcome = bad(["run", DIGITS]);
    assert!(outcome.contains("the input `image` is missing"), "{outcome}");
    let outcome = bad(["run", DIGITS, "-i", TEST]);
    assert!(outcome.contains("`image`"), "{outcome}");
    let outcome = bad(["run", TEST]);
    assert!(outcome.contains("no program"), "{outcome}");
}

/// A program that loads and saves, as written by `examples/write_programs.rs`, in its own directory.
#[test]
fn programs_load_and_save_only_in_the_given_directories() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let digits = golden("2.6.2/control_flow/inference");
    let start = at("start.npy");
    good(["cat", &digits, "weight", "-o", &start]);
    let (model, outside) = (dir.path().join("model"), dir.path().join("outside"));
    std::fs::create_dir_all(&outside).unwrap();
    let path = outside.join("w").display().to_string();
    saver(&model, &path);
    let model = model.display().to_string();
    let outcome = bad(["run", &model, "-i", &start, "--save-to", &at("saved")]);
    assert!(outcome.contains("`save`") && !outside.join("w").exists(), "{outcome}");
    good(["run", &model, "-i", &start, "--save-to", &at("saved"), "--allow-outside-paths"]);
    assert!(outside.join("w").exists());
    saver(Path::new(&model), "in/w");
    let outcome = bad(["run", &model, "-i", &start]);
    assert!(outcome.contains("no directory to save to"), "{outcome}");
    good(["run", &model, "-i", &start, "--save-to", &at("saved")]);
    assert_eq!(read(&dir.path().join("saved/in/w")), read(&outside.join("w")));
}

/// Writes a program that saves its input.
fn saver(dir: &Path, path: &str) {
    use lodstone::paddle::program::{Form, Network, Operator, Variable, layers, save_program};
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None], lodstone::DType::Float32);
    let save = Operator::new("save").input("X", [&x]).attribute("file_path", path);
    net.append(save).unwrap();
    assert_eq!(x, Variable::named("x"));
    save_program(&net.main, dir, Form::Binary).unwrap();
}

#[test]
fn a_library_of_onnx_runtime_that_cannot_be_loaded_is_an_error() {
    let model = "crates/engine/tests/golden/onnx_models/calls.onnx";
    let run = |path: &str| {
        bad([
            "run",
            model,
            "-q",
            "--random-inputs",
            "1",
            "--engine",
            "onnxruntime",
            "--engine-path",
            path,
        ])
    };
    assert!(run("missing").contains("ONNX Runtime: there is no library at `missing`"));
    assert!(run("examples").contains("there is no library at `examples`"));
    assert!(run("README.md").contains("failed to load from `README.md`"));
    let error = bad(["run", model, "-q", "--random-inputs", "1", "--engine", "fast"]);
    assert!(error.contains("unknown engine `fast`"), "{error}");
}

//! `lodstone run`.

#![expect(clippy::disallowed_methods, reason = "makes its own files")]

mod common;

use std::path::Path;

use common::{DIGITS, bad, dir, golden, good, read};

/// Handwritten digits, and what PaddlePaddle computed of them.
const TEST: &str = "examples/digits/test.npz";

#[test]
fn digits_are_what_paddlepaddle_computed() {
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
fn outputs_are_text_without_a_file() {
    let dir = dir();
    let start = dir.path().join("start.npy").display().to_string();
    let model = golden("2.6.2/control_flow/inference");
    good(["cat", &model, "weight", "-o", &start]);
    let said = good(["run", &model, "-i", &start]);
    assert!(said.out.starts_with("save_infer_model/scale_0.tmp_1:\n["), "{}", said.out);
}

#[test]
fn what_is_missing_is_said() {
    let said = bad(["run", DIGITS]);
    assert!(said.contains("the input `image` is not given"), "{said}");
    let said = bad(["run", DIGITS, "-i", TEST]);
    assert!(said.contains("`image`"), "{said}");
    let said = bad(["run", TEST]);
    assert!(said.contains("no program"), "{said}");
}

/// A program that loads and saves, as `examples/write_programs.rs` makes them, in a directory of its own.
#[test]
fn programs_load_and_save_where_they_may() {
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
    let said = bad(["run", &model, "-i", &start, "--save-to", &at("saved")]);
    assert!(said.contains("`save`") && !outside.join("w").exists(), "{said}");
    good(["run", &model, "-i", &start, "--save-to", &at("saved"), "--allow-outside-paths"]);
    assert!(outside.join("w").exists());
    saver(Path::new(&model), "in/w");
    let said = bad(["run", &model, "-i", &start]);
    assert!(said.contains("no directory to save to"), "{said}");
    good(["run", &model, "-i", &start, "--save-to", &at("saved")]);
    assert_eq!(read(&dir.path().join("saved/in/w")), read(&outside.join("w")));
}

/// Writes a program that saves what it is given.
fn saver(dir: &Path, path: &str) {
    use lodstone::paddle::program::{Form, Network, Operator, Variable, layers, save_program};
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None], lodstone::DType::Float32);
    let save = Operator::new("save").input("X", [&x]).attribute("file_path", path);
    net.append(save).unwrap();
    assert_eq!(x, Variable::named("x"));
    save_program(&net.main, dir, Form::Binary).unwrap();
}

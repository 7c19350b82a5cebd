//! `lodstone run`.

mod common;

use common::{DIGITS, bad, dir, golden, good};

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

//! Models that were rebuilt from bug reports: each runs, converts or is refused as its framework does it.

#![expect(clippy::disallowed_methods, reason = "reads what the command wrote")]

use std::path::{Path, PathBuf};

use lodstone::{DType, Tensor};

use crate::common::{bad, dir, good, root, run};

const REPORTED: &str = "crates/cli/tests/golden/reported";

/// A model that runs: its path and inputs, options for an export with the same results, if it has one, and the tolerance.
struct Runs {
    case: &'static str,
    model: &'static str,
    inputs: &'static [&'static str],
    exported: Option<&'static [&'static str]>,
    tolerance: f64,
}

const fn runs(case: &'static str, model: &'static str, inputs: &'static [&'static str]) -> Runs {
    Runs { case, model, inputs, exported: Some(&[]), tolerance: 1e-5 }
}

const RUNS: &[Runs] = &[
    runs("onnx/resize_tf_half_pixel", "keras_unet.onnx", &["x=keras_x.npy"]),
    Runs {
        exported: Some(&["--input-shape", "x:1,8,8,3"]),
        ..runs("caffe2/nhwc-conv", "", &["in.npz"])
    },
    Runs {
        exported: Some(&["--input-shape", "x:1,4,7,9"]),
        ..runs("caffe2/avgpool-pad", "", &["in.npz"])
    },
    Runs {
        exported: Some(&["--input-shape", "data:1,3,6,6"]),
        ..runs("caffe2/input-in-init-net", "", &["data=data.npy"])
    },
    Runs {
        exported: Some(&["--input-shape", "data:1,3,6,6", "--input-shape", "im_info:1,3"]),
        ..runs("caffe2/empty-placeholder", "model.pb", &["data=data.npy", "im_info=im_info.npy"])
    },
    Runs { exported: None, ..runs("caffe2/pow-exponent", "", &["in.npz"]) },
    Runs { exported: None, ..runs("caffe2/gelu", "", &["in.npz"]) },
    Runs {
        exported: Some(&["--input-shape", "data:2,4,3"]),
        ..runs("mxnet/unrolled-rnn", "m-symbol.json", &["in.npz"])
    },
    Runs {
        exported: Some(&["--input-shape", "x:2,3"]),
        tolerance: 1e-3,
        ..runs("mxnet/dtype-of-input", "m-symbol.json", &["in.npz"])
    },
    Runs {
        exported: Some(&["--input-shape", "data:3,4", "--input-type", "data:int32"]),
        ..runs("mxnet/int32-division", "m-symbol.json", &["in.npz"])
    },
    Runs { tolerance: 1e-3, ..runs("mxnet/fp16-net", "m-symbol.json", &["data=x16.npy"]) },
    runs("mxnet/pool-pad-ge-kernel", "m-symbol.json", &["in.npz"]),
    runs("mxnet/pad-reflect-batch", "m-symbol.json", &["in.npz"]),
    runs("paddle/pir-round", "model/inference.json", &["a=in_a.npy"]),
    runs("paddle/pir-cast-rounds", "model/inference.json", &["x=in_x.npy"]),
    runs("paddle/pir-max-nan", "model/inference.json", &["a=in_a.npy"]),
    runs("paddle/mod-float-1x", "model", &["x=in_x.npy", "y=in_y.npy"]),
    runs(
        "paddle/faster-rcnn-1x",
        "model",
        &["f=in_f.npy", "im_info=in_im_info.npy", "im_shape=in_im_shape.npy"],
    ),
    runs("paddle/pir-to-paddle-strided", "model/inference.json", &["a=in_a.npy"]),
    runs("paddle/pir-to-paddle-interp-size", "model/inference.json", &["x=in_x.npy", "y=in_y.npy"]),
    runs("paddle/pir-to-paddle-pad", "model/inference.json", &["x=in_x.npy", "y=in_y.npy"]),
    runs("paddle/pir-dir-with-npy", "", &["a=in_a.npy"]),
];

/// Returns a file of a case, relative to the working directory of the command.
fn file(case: &str, name: &str) -> String {
    format!("{REPORTED}/{case}/{name}").trim_end_matches('/').to_owned()
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    let wide = |numbers: Vec<f32>| numbers.into_iter().map(f64::from).collect();
    match tensor.dtype {
        DType::Float64 => tensor.to_vec::<f64>().expect("elements"),
        DType::Float32 => wide(tensor.to_vec().expect("elements")),
        DType::Float16 => {
            let halves = tensor.to_vec::<half::f16>().expect("elements");
            halves.into_iter().map(f64::from).collect()
        }
        DType::Int32 => {
            tensor.to_vec::<i32>().expect("elements").into_iter().map(f64::from).collect()
        }
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        DType::Int64 => {
            tensor.to_vec::<i64>().expect("elements").into_iter().map(|it| it as f64).collect()
        }
        DType::Bool => {
            let bools = tensor.to_vec::<bool>().expect("elements").into_iter();
            bools.map(|it| f64::from(u8::from(it))).collect()
        }
        // As NumPy stores bfloat16.
        DType::Uint16 | DType::BFloat16 => {
            let bytes = tensor.data.bytes().expect("elements");
            let halves = bytes.chunks(2).map(|pair| half::bf16::from_le_bytes([pair[0], pair[1]]));
            halves.map(f64::from).collect()
        }
        other => panic!("{other} is new"),
    }
}

/// Compares arrays in order.
fn check(what: &str, found: &Path, expected: &Path, tolerance: f64) {
    let [found, expected] = [found, expected].map(|path| lodstone::open(path).expect("arrays"));
    // An export returns the LoD of its outputs, too.
    let values = found.parameters.iter().filter(|it| !it.name.contains(".lod"));
    assert!(values.clone().count() >= expected.parameters.len(), "{what}");
    for (found, expected) in values.zip(&expected.parameters) {
        let (found, expected) = (&found.tensor, &expected.tensor);
        assert_eq!(found.shape, expected.shape, "{what}");
        for (found, expected) in numbers(found).into_iter().zip(numbers(expected)) {
            let bound = tolerance * expected.abs().max(1.0);
            let is_near = expected.is_finite() && (found - expected).abs() <= bound;
            let is_same = found == expected || (found.is_nan() && expected.is_nan());
            assert!(is_near || is_same, "{what}: {found}, expected {expected}");
        }
    }
}

/// Returns the file of the expected values of a case.
fn expected(case: &str) -> PathBuf {
    let names = ["expected.npz", "expected.npy", "keras_expected.npy"];
    let mut paths = names.iter().map(|name| root().join(file(case, name)));
    paths.find(|path| path.exists()).expect("expected values")
}

#[test]
fn models_compute_what_their_framework_computes() {
    let dir = dir();
    let out = dir.path().join("out.npz");
    for Runs { case, model, inputs, exported, tolerance } in RUNS {
        let inputs = inputs.iter().flat_map(|input| {
            let (name, path) = input.split_once('=').unwrap_or(("", input));
            let path = file(case, path);
            let input = if name.is_empty() { path } else { format!("{name}={path}") };
            ["-i".to_owned(), input]
        });
        let inputs: Vec<String> = inputs.collect();
        let run = |path: &str| {
            let _ = std::fs::remove_file(&out);
            let mut arguments = vec!["run".to_owned(), path.to_owned()];
            arguments.extend(inputs.iter().cloned());
            let out = out.to_str().expect("UTF-8");
            arguments.extend(["-o", out, "-q", "--allow", "lod"].map(str::to_owned));
            good(arguments);
        };
        let path = file(case, model);
        run(&path);
        check(case, &out, &expected(case), *tolerance);
        if let Some(options) = exported {
            let onnx = dir.path().join("model.onnx");
            let onnx = onnx.to_str().expect("UTF-8");
            good([&["convert", path.as_str(), onnx, "-q"], *options].concat());
            run(onnx);
            check(&format!("{case}, exported"), &out, &expected(case), *tolerance);
        }
    }
}

#[test]
fn sizes_by_scales_are_those_of_the_runtimes() {
    for (case, expected) in [
        ("onnx/resize_scales_size", "0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0"),
        ("onnx/resize_tf_half_pixel", "0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0"),
    ] {
        let (model, x) = (file(case, "model.onnx"), format!("x={}", file(case, "x.npy")));
        let out = good(["run", &model, "-i", &x, "--full"]).out;
        assert!(out.contains(&format!("[{expected}]")), "{case}: {out}");
    }
}

#[test]
fn programs_of_paddlepaddle_3_are_written_for_2() {
    let dir = dir();
    for (number, case) in
        ["pir-to-paddle-strided", "pir-to-paddle-interp-size", "pir-to-paddle-pad"]
            .into_iter()
            .enumerate()
    {
        let path = file(&format!("paddle/{case}"), "model/inference.json");
        let out = dir.path().join(format!("{number}.pdmodel"));
        good(["convert", &path, out.to_str().expect("UTF-8"), "--to", "paddle"]);
    }
}

#[test]
fn lod_of_outputs_does_not_differ_by_its_form() {
    let dir = dir();
    let onnx = dir.path().join("model.onnx");
    let onnx = onnx.to_str().expect("UTF-8");
    let case = "paddle/check-lod-output";
    let inputs =
        [format!("b={}", file(case, "in_b.npy")), format!("info={}", file(case, "in_info.npy"))];
    let [b, info] = &inputs;
    let model = file(case, "model");
    let options = ["--check", "-i", b, "-i", info, "--lod", "b=0,4,6"];
    let out = good([&["convert", model.as_str(), onnx], options.as_slice()].concat()).out;
    assert!(out.contains("outputs agree"), "{out}");
    let out = good(["convert", &model, onnx, "--check", "--lod", "b=0,4,6"]);
    assert!(
        out.err.contains("random input b float32 [6, 4], LoD") || out.err.contains("[6, 4]"),
        "{out:?}"
    );

    let case = "paddle/check-lod-computed";
    let (model, image) = (file(case, "model"), format!("image={}", file(case, "in_image.npy")));
    let out = good(["convert", &model, onnx, "--check"]);
    assert!(out.out.contains("outputs agree"), "{out:?}");
    assert_eq!(out.err.matches("random input image").count(), 2, "{out:?}");
    let out = good(["compare", &model, onnx, "-i", &image]).out;
    assert!(out.starts_with("outputs agree"), "{out}");
}

#[test]
fn outputs_are_paired_by_position_and_type() {
    let case = "use/compare_identity";
    for other in ["digits_id.onnx", "digits_renamed.onnx"] {
        let arguments =
            ["compare", "examples/digits/paddle", &file(case, other), "--random-inputs", "1"];
        let out = good(arguments).out;
        assert!(out.starts_with("outputs agree"), "{other}: {out}");
    }
}

#[test]
fn what_cannot_be_right_is_refused_by_name() {
    let dir = dir();
    let out = dir.path().join("out.onnx");
    let out = out.to_str().expect("UTF-8");
    let case = "onnx/unknown_attribute_value";
    let (model, x) = (file(case, "model.onnx"), format!("x={}", file(case, "x.npy")));
    let error = bad(["run", &model, "-i", &x]);
    assert!(error.contains("expected `mode` of `DCR`, `CRD`, found `XYZ`"), "{error}");
    assert_eq!(run(["verify", &model]).code, Some(1));
    let model = file("onnx/input_shape_question_mark", "model.onnx");
    let error = bad(["convert", &model, out, "--input-shape", "x:?,3,8,8"]);
    assert!(error.contains("dim 0 is fixed to 1"), "{error}");
    let (model, x) = (file("onnx/text_input", "model.onnx"), file("onnx/text_input", "in_x.npy"));
    let error = bad(["run", &model, "-i", &format!("x={x}")]);
    assert!(error.contains("an array of text") && error.contains("TensorProto"), "{error}");
    let case = "paddle/op-median-pir";
    let a = format!("a={}", file(case, "in_a.npy"));
    let error = bad(["run", &file(case, "model/inference.json"), "-i", &a]);
    assert!(error.contains("`pd_op.median`") && !error.contains("PaddlePaddle 2"), "{error}");
    let error = bad(["convert", &file("use/weights_as_onnx", "w.safetensors"), out]);
    assert!(error.contains("cannot hold a model without a program"), "{error}");
    let refused = run(["convert", &file("mxnet/missing-params", "m-symbol.json"), out]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("not found: `bn_moving_var`, `fc2_bias`"), "{refused:?}");
    let verified = run(["verify", &file("mxnet/params-shapes-contradict", "m-symbol.json")]);
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(verified.out.contains("`weight`, found [3, 5]"), "{verified:?}");
}

#[test]
fn casts_reach_narrow_floats_and_dead_branches() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let wide = path("wide.safetensors");
    good(["convert", &file("torch/cast-fp8", "fp8only.safetensors"), &wide, "--cast", "float32"]);
    assert_eq!(good(["cat", &wide, "w"]).out, "[0.5, -448.0]\n");
    let half = path("half.onnx");
    let model = file("onnx/cast_dead_branch", "model.onnx");
    good(["convert", &model, &half, "--cast", "float16", "--keep-io", "--allow", "fp16-rounding"]);
    good(["verify", &half]);
    let text = path("half.onnxtxt");
    good(["convert", &half, &text]);
    // All constants are halves, also in the branch that is never taken.
    let text = std::fs::read_to_string(text).expect("written");
    assert!(!text.contains("data_type: 1\n") && text.contains("data_type: 10\n"), "{text}");
}

#[test]
fn files_of_pytorch_are_whole_or_name_their_damage() {
    let dir = dir();
    let out = dir.path().join("model.safetensors");
    let out = out.to_str().expect("UTF-8");
    good(["convert", &file("torch/format-pt", "pytorch_model.bin"), out]);
    assert!(
        good(["inspect", out]).out.contains("format: \"pt\"") || {
            let bytes = std::fs::read(out).expect("written");
            String::from_utf8_lossy(&bytes).contains(r#""format":"pt""#)
        }
    );
    for (name, expected, code) in [
        ("trunc.pt", "the directory of the archive at its end", 1),
        ("bad_local.pt", "in member `orig/data/2`", 1),
        ("trail.pt", "100 bytes left", 1),
        ("lfs_pointer.bin", "is a Git LFS pointer", 2),
    ] {
        let verified = run(["verify", &file("torch/damaged-zip", name)]);
        assert_eq!(verified.code, Some(code), "{name}: {verified:?}");
        let said = format!("{}{}", verified.out, verified.err);
        assert!(said.contains(expected), "{name}: {said}");
    }
    let checkpoint = root().join("crates/formats/tests/golden/torch_sharded/dtensor");
    let part = run(["inspect", checkpoint.join("__0_0.distcp").to_str().expect("UTF-8")]);
    assert!(part.code == Some(2) && part.err.contains("open its directory"), "{part:?}");
    let sharded = file("torch/subclasses", "fsdp1_sharded_tensor.pt");
    let shard = good(["cat", &sharded, "module.w._local_shards.0.tensor"]).out;
    assert!(shard.starts_with("[[0.0, 1.0, 2.0],"), "{shard}");
    for name in ["dtensor1.pt", "fsdp1_sharded_tensor.pt", "torchao_fp8.pt", "torchao_int8.pt"] {
        let outcome = good(["convert", &file("torch/subclasses", name), out]);
        assert!(outcome.err.contains("were written as their parts"), "{name}: {outcome:?}");
    }
}

#[test]
fn weights_that_a_program_ignores_are_named() {
    let dir = dir();
    let out = dir.path().join("weights.safetensors");
    let out = out.to_str().expect("UTF-8");
    let model = file("mxnet/fix-gamma-weights-only", "m-symbol.json");
    let outcome = good(["convert", &model, out, "--weights-only", "--allow", "names"]);
    assert!(outcome.err.contains("`fix_gamma`"), "{outcome:?}");
}

//! Derived programs, loaders, and training programs that save themselves.

#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]

use std::path::Path;

use crate::common::{Outcome, command, root};

/// Runs the command in a directory.
fn lodstone(dir: &Path, arguments: &[&str]) -> Outcome {
    command(arguments).current_dir(dir).output().expect("a run").into()
}

/// Returns the path of a file of the example.
fn example(name: &str) -> String {
    root().join("examples/digits").join(name).display().to_string()
}

/// Runs a command that must succeed; returns what it prints.
fn done(dir: &Path, arguments: &[&str]) -> (String, String) {
    let Outcome { code, out, err } = lodstone(dir, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {err}");
    (out, err)
}

/// Runs a command that must fail; returns its error.
fn fails(dir: &Path, arguments: &[&str]) -> String {
    let Outcome { code, out, err } = lodstone(dir, arguments);
    assert_eq!(code, Some(2), "{arguments:?}: {out}{err}");
    err
}

#[test]
fn the_inference_part_of_a_training_program_runs_with_its_checkpoint() {
    let dir = tempfile::tempdir().expect("a directory");
    let (dir, training, data) = (dir.path(), example("training"), example("train.npz"));
    let inference = ["program", "inference", &training, "a/b/net", "--for-test"];
    done(dir, &[&inference[..], &["--fetch", "fc_0.tmp_1"]].concat());
    let (_, told) = done(
        dir,
        &["program", "checkpoint", &training, "saving", "--dir", "saved", "--every", "2"],
    );
    assert!(told.contains("wrote saving: "), "{told}");
    let train = ["--batch-size", "32", "--data", &data, "--save-to", "saved"];
    let train = [&["train", "saving", "--steps", "4", "-o", "trained"][..], &train].concat();
    done(dir, &train);
    done(dir, &["convert", "saved", "saved.safetensors"]);
    done(dir, &["cat", &data, "image", "-o", "image.npy"]);
    let run = ["run", "a/b/net", "-i", "image=image.npy", "-o"];
    let (_, told) = done(dir, &[&run[..], &["a.npz", "--loader", "saved"]].concat());
    assert!(!told.contains("warning"), "{told}");
    let (_, told) = done(dir, &[&run[..], &["b.npz", "--params", "saved.safetensors"]].concat());
    assert!(told.contains("ignored 26 tensors of `saved.safetensors`"), "{told}");
    // With a loader, the executor runs it; without one, the engine plans it as a whole.
    done(dir, &["diff", "a.npz", "b.npz", "--rtol", "1e-5", "--atol", "1e-6"]);
}

#[test]
fn programs_are_pruned_printed_and_loaded() {
    let dir = tempfile::tempdir().expect("a directory");
    let (dir, training) = (dir.path(), example("training"));
    let (text, _) = done(dir, &["program", "print", &training]);
    std::fs::write(dir.join("__model__.txt"), &text).expect("written");
    assert_eq!(done(dir, &["program", "print", "__model__.txt"]).0, text);
    let (json, _) =
        done(dir, &["program", "prune", &training, "cut", "--fetch", "conv2d_0.tmp_1", "--json"]);
    assert!(json.contains("\"operators\": 2") && json.contains("\"schema\": 1"), "{json}");
    for files in [&["--each"][..], &["--merged", "all"], &["--combined", "all"], &[]] {
        let loader = ["program", "loader", &training, "loader", "--text", "--vars", "conv2d_*"];
        done(dir, &[&loader[..], files].concat());
        let (text, _) = done(dir, &["program", "print", "loader"]);
        // The others are initialized.
        assert!(text.contains("\"uniform_random\"") && text.contains("load"), "{text}");
    }
    let error = fails(dir, &["program", "prune", &training, "cut", "--fetch", "nothing"]);
    assert!(error.contains("`nothing`"), "{error}");
    let again = ["program", "inference", &training, "loader", "--no-clobber", "--text"];
    assert!(fails(dir, &again).contains("already exists"));
    assert!(fails(dir, &["program", "print", &example("train.npz")]).contains("no program"));
}

#[test]
fn programs_without_outputs_are_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let (dir, training) = (dir.path(), example("training"));
    let error = fails(dir, &["program", "loader", &training, "loader", "--vars", "nothing"]);
    assert!(error.contains("no variable to save matches `nothing`"), "{error}");
    let startup = example("training/startup_program");
    let (printed, told) = done(dir, &["run", &startup]);
    assert!(printed.is_empty() && told.contains("pass --fetch NAME"), "{told}");
    let (printed, _) = done(dir, &["run", &startup, "--fetch", "fc_0.b_0", "--full"]);
    assert!(printed.starts_with("fc_0.b_0"), "{printed}");
}

#[test]
fn checkpoints_that_programs_save_are_listed_shown_and_unverified() {
    let dir = tempfile::tempdir().expect("a directory");
    let (dir, training, data) = (dir.path(), example("training"), example("train.npz"));
    for files in [&["--each"][..], &["--merged", "all"], &[]] {
        let checkpoint = ["program", "checkpoint", &training, "saving", "--dir", "saved"];
        done(dir, &[&checkpoint[..], files].concat());
        let error = fails(dir, &["inspect", "saved"]);
        assert!(error.contains("does not exist"), "{error}");
        let train = ["train", "saving", "--data", &data, "--steps", "1", "--save-to", "saved"];
        done(dir, &[&train[..], &["-o", "trained"]].concat());
        let (listed, _) = done(dir, &["checkpoint", "list", "saved"]);
        assert!(listed.contains("saved") && listed.contains("31"), "{listed}");
        let (shown, _) = done(dir, &["checkpoint", "show", "saved"]);
        assert!(shown.contains("saved by operators of a program"), "{shown}");
        assert!(shown.contains("conv2d_0.w_0"), "{shown}");
        let verified = lodstone(dir, &["checkpoint", "verify", "saved"]);
        assert_eq!(verified.code, Some(2), "there are no checksums");
        assert!(verified.out.contains("without checksums"));
        done(dir, &["verify", "saved"]);
        assert!(done(dir, &["inspect", "saved"]).0.contains("format     checkpoint"));
        // A program beside the files is the model of the directory.
        std::fs::copy(dir.join("saved/loader/__model__"), dir.join("saved/__model__"))
            .expect("copied");
        assert!(!done(dir, &["inspect", "saved"]).0.contains("format     checkpoint"));
        std::fs::remove_dir_all(dir.join("saved")).expect("removed");
    }
}

#[test]
fn a_serial_opens_as_a_model() {
    let dir = tempfile::tempdir().expect("a directory");
    let (dir, training, data) = (dir.path(), example("training"), example("train.npz"));
    let train = ["train", &training, "--data", &data, "--steps", "2", "--checkpoint", "run"];
    done(dir, &[&train[..], &["--batch-size", "32", "-o", "trained"]].concat());
    std::fs::rename(dir.join("run/step-00000002"), dir.join("best")).expect("renamed");
    let (inspected, _) = done(dir, &["inspect", "best", "--tensors"]);
    assert!(inspected.contains("checkpoint") && inspected.contains("fc_0.w_0"), "{inspected}");
    done(dir, &["verify", "best", "--sealed"]);
    done(dir, &["convert", "best", "best.npz"]);
    done(dir, &["diff", "best", "best.npz"]);
    done(dir, &["cat", "best", "fc_0.b_0"]);
    assert!(fails(dir, &["seal", "best"]).contains("checksums of its own"));
    let scanned = lodstone(dir, &["scan", "best"]);
    assert!(scanned.out.contains("reads files"), "{}", scanned.out);
    done(dir, &["program", "inference", &training, "net", "--fetch", "fc_0.tmp_1"]);
    done(dir, &["cat", &data, "image", "-o", "image.npy"]);
    done(dir, &["run", "net", "--loader", "best", "-i", "image=image.npy"]);
    let mut params = std::fs::read(dir.join("best/params")).expect("read");
    *params.last_mut().expect("a byte") ^= 1;
    std::fs::write(dir.join("best/params"), params).expect("written");
    assert_eq!(lodstone(dir, &["verify", "best"]).code, Some(1));
    let error = fails(dir, &["run", "net", "--loader", "best", "-i", "image=image.npy"]);
    assert!(error.contains("checksum"), "{error}");
    // A manifest of something else does not make a directory a checkpoint.
    std::fs::write(dir.join("net/manifest.json"), "{}").expect("written");
    done(dir, &["inspect", "net"]);
}

#[test]
fn programs_of_other_frameworks_are_pruned_and_printed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (dir, mxnet) = (dir.path(), example("mxnet/digits-symbol.json"));
    let typed = ["--input-shape", "data:1,1,8,8", "--input-type", "data:float32"];
    let export = ["convert", &mxnet, "net.onnx"];
    done(dir, &[&export[..], &typed].concat());
    // The same value of the symbol, of its part, of the export, and of the part of that.
    let value = "digits_conv1_fwd_output";
    let prune = |from: &str, to: &str| {
        done(dir, &["program", "prune", from, to, "--fetch", value]);
    };
    prune(&mxnet, "part/part-symbol.json");
    prune("net.onnx", "part.onnx");
    let random = ["--random-inputs", "1", "--full"];
    let runs = [&mxnet, "part/part", "net.onnx", "part.onnx"].map(|path| {
        let run = [&["run", path, "--fetch", value][..], &random].concat();
        let typed = if path.ends_with(".onnx") { &[][..] } else { &typed };
        done(dir, &[&run[..], typed].concat()).0
    });
    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
    let count =
        |path: &str| done(dir, &["inspect", path, "--json"]).0.matches("\"Convolution\"").count();
    assert!(count("part/part") > 0);
    let (printed, _) = done(dir, &["program", "print", "part/part"]);
    assert!(printed.contains("\"heads\"") && !printed.contains("softmax"), "{printed}");
    let (printed, _) = done(dir, &["program", "print", "part.onnx"]);
    assert!(printed.contains("op_type: \"Conv\"") && !printed.contains("Gemm"), "{printed}");
    done(dir, &["program", "inference", "net.onnx", "same.onnx"]);
    let torch = root().join("crates/lowering/tests/golden/torch/conv1d.pt2").display().to_string();
    assert!(done(dir, &["program", "print", &torch]).0.contains("aten::"));
    let error =
        fails(dir, &["program", "prune", "net.onnx", "x.onnx", "--fetch", value, "--for-test"]);
    assert!(error.contains("have no such option"), "{error}");
    let error = fails(dir, &["program", "prune", "net.onnx", "x.onnx", "--fetch", "nothing"]);
    assert!(error.contains("computes no value `nothing`"), "{error}");
}

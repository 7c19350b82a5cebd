//! Following a hint resolves the error.

#![expect(clippy::disallowed_methods, reason = "makes its own files")]

use crate::common;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{DIGITS, bad, dir, golden, good, read, root, run};
use lodstone::checkpoint::{Manager, ManagerOptions, Snapshot};
use lodstone::{Blob, DType, Parameter, Tensor};

/// Runs a command that must fail with a hint that contains `hint`, and succeed with the arguments of the hint.
fn follows(arguments: &[&str], hint: &str, added: &[&str]) {
    let error = bad(arguments);
    let (_, found) = error.split_once("\nhint: ").unwrap_or_else(|| panic!("no hint: {error}"));
    assert!(found.contains(hint), "{arguments:?}: {error}");
    good(arguments.iter().chain(added));
}

#[test]
fn hints_about_losses() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).display().to_string();
    follows(&["convert", DIGITS, &path("a.npz")], "--weights-only", &["--weights-only"]);
    let lod = golden("2.6.2/lod2.lodtensor");
    for (arguments, name) in [(vec!["cat", &lod, "-o"], "b.npy"), (vec!["convert", &lod], "b.npz")]
    {
        let out = path(name);
        let mut arguments = arguments;
        arguments.push(&out);
        follows(&arguments, "pass --allow lod to accept this loss", &["--allow", "lod"]);
    }
    let half = path("half.safetensors");
    good(["convert", DIGITS, &half, "--weights-only"]);
    follows(
        &["convert", &half, &path("c.safetensors"), "--cast", "float16"],
        "--allow fp16-rounding",
        &["--allow", "fp16-rounding"],
    );
    follows(
        &["convert", DIGITS, &path("d.pdmodel"), "--cast", "float16"],
        "--weights-only",
        &["--weights-only", "--to", "npz", "--allow", "fp16-rounding"],
    );
}

#[test]
fn a_hint_about_shards() {
    let out = dir().path().join("shards").display().to_string();
    let hint = "run `lodstone checkpoint reshard MODEL DIR --to torch-distributed --shards N` to divide it";
    hinted(&["convert", DIGITS, &out, "--to", "torch-distributed"], hint);
    good([
        "checkpoint",
        "reshard",
        DIGITS,
        &out,
        "--to",
        "torch-distributed",
        "--shards",
        "2",
        "--allow",
        "program",
    ]);
}

#[test]
fn hints_about_inputs() {
    follows(&["run", DIGITS], "--random-inputs 1", &["--random-inputs", "1"]);
}

/// Runs a command that must fail with this hint.
fn hinted(arguments: &[&str], hint: &str) {
    let outcome = run(arguments);
    assert_eq!(outcome.code, Some(2), "{arguments:?}: {outcome:?}");
    assert!(outcome.err.contains(&format!("\nhint: {hint}\n")), "{arguments:?}: {outcome:?}");
}

#[test]
fn hints_about_unknown_names() {
    let tensors = "run `lodstone inspect --tensors MODEL` to list the tensors";
    hinted(&["cat", DIGITS, "fc_0.w"], tensors);
    hinted(&["cat", DIGITS, "--index", "12"], tensors);
    hinted(&["diff", DIGITS, DIGITS, "--transpose", "zzz*"], tensors);
    hinted(&["convert", DIGITS, "x.npz", "--weights-only", "--include", "zzz*"], tensors);
    assert!(good(["inspect", "--tensors", DIGITS]).out.contains("fc_0.w_0"));
    let random = ["run", DIGITS, "--random-inputs", "1"];
    let inputs = "run `lodstone inspect MODEL` to list the inputs of the program";
    hinted(&[&random[..], &["--input-shape", "imge:1,1,8,8"]].concat(), inputs);
    assert!(good(["inspect", DIGITS]).out.contains("image"));
    let values = "run `lodstone inspect --graph text MODEL` to list the values of the program";
    hinted(&[&random[..], &["--fetch", "fc_0.tmp_9"]].concat(), values);
    assert!(good(["inspect", "--graph", "text", DIGITS]).out.contains("fc_0.tmp_0"));
    good([&random[..], &["--fetch", "fc_0.tmp_0"]].concat());
    let encoder = golden("../torch/encoder.pt");
    let graph = ["inspect", &encoder, "--graph", "text"];
    follows(&graph, "--program encode", &["--program", "encode"]);
}

#[test]
fn hints_about_tensors_that_are_not_named() {
    follows(&["cat", DIGITS], "--index N", &["--index", "3"]);
    let error = bad(["cat", DIGITS, "3"]);
    assert!(error.contains("\nhint: pass --index 3 to select a tensor by index\n"), "{error}");
}

/// Omitting the option of the hint resolves the error.
#[test]
fn hints_about_options() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (npz, model) = (path("out.npz"), path("out.pdmodel"));
    let weights = ["convert", DIGITS, &npz, "--weights-only"];
    let program = ["convert", DIGITS, &model];
    for (command, option, hint) in [
        (&weights[..], &["--max-shard-size", "1000"][..], "omit --max-shard-size"),
        (&weights, &["--align", "64"], "omit --align"),
        (&weights, &["--external-data", "one"], "omit --external-data"),
        (&weights, &["--opset", "17"], "omit --opset"),
        (&weights, &["--names", "structured"], "omit --names structured"),
        (&weights, &["--infer-shapes"], "omit --infer-shapes"),
        (&program, &["--custom-ops", "x"], "omit --custom-ops"),
        (&program, &["--lod", "image=0,1"], "omit --lod"),
    ] {
        hinted(&[command, option].concat(), hint);
        good(command);
    }
    follows(
        &[&program[..], &["--transpose", "fc*"]].concat(),
        "--weights-only",
        &["--weights-only", "--to", "npz"],
    );
    let both = [&program[..], &["--to", "same", "--weights-only"]].concat();
    hinted(&both, "omit --weights-only, or pass another format with --to FORMAT");
    let random = ["run", DIGITS, "--random-inputs", "1"];
    hinted(&[&random[..], &["--engine", "reference"]].concat(), "omit --engine");
    good(random);
}

#[test]
fn hints_about_outputs_with_lod() {
    use lodstone::paddle::program::{Form, Network, Operator, Variable, layers, save_program};
    let dir = dir();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(4)], DType::Float32);
    let y = Variable::named("y");
    net.append(Operator::new("relu").input("X", [&x]).output("Out", [&y])).expect("an operator");
    let model = dir.path().join("model");
    save_program(&net.main, &model, Form::Binary).expect("saved");
    let (model, rows) = (model.display().to_string(), path("rows.npy"));
    good(["cat", &golden("2.6.2/lod1.lodtensor"), "-o", &rows, "--allow", "lod"]);
    let run = ["run", &model, "-i", &rows, "--lod", "x=0,2,3,6", "--fetch", "y"];
    let out = good(run).out;
    assert!(out.starts_with("y lod: [0, 2, 3, 6]\n"), "{out}");
    let out = path("y.npz");
    let arguments: Vec<&str> = run.into_iter().chain(["-o", &out]).collect();
    follows(&arguments, "pass --allow lod to accept this loss", &["--allow", "lod"]);
    // A format that holds LoD needs no permission.
    let out = path("y.lodtensor");
    let arguments: Vec<&str> = run.into_iter().chain(["-o", &out]).collect();
    follows(&arguments, "pass --to FORMAT", &["--to", "paddle-tensor"]);
    assert!(good(["cat", &out]).out.starts_with("lod: [0, 2, 3, 6]\n["));
}

#[test]
fn hints_about_checkpoints() {
    let dir = dir();
    let run_dir = dir.path().join("run");
    let mut manager = Manager::open(&run_dir, ManagerOptions::default()).expect("a directory");
    let tensor = Tensor::dense(DType::Uint8, vec![3], Blob::memory(vec![1, 2, 3]));
    let weight = Parameter { name: "weight".to_owned(), tensor };
    manager.save(1, &Snapshot::of_tensors([weight]).expect("names")).expect("saved");
    let (run_dir, out) =
        (run_dir.display().to_string(), dir.path().join("out").display().to_string());
    follows(
        &["checkpoint", "restore", &run_dir, &out, "--to", "paddle-params"],
        "--allow names",
        &["--allow", "names"],
    );
    follows(&["checkpoint", "restore", &run_dir, &out], "--to FORMAT", &["--to", "npz"]);
}

#[test]
fn hints_about_paths_and_formats() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).display().to_string();
    follows(&["convert", DIGITS, &path("out")], "--to FORMAT", &["--to", "npz", "--weights-only"]);
    let error = bad(["inspect", DIGITS, "--graph", "dot", "--limit", "3"]);
    assert!(error.contains("hint: pass --limit 14 to draw all of them"), "{error}");
    good(["inspect", DIGITS, "--graph", "dot", "--limit", "14"]);
}

#[test]
fn hints_about_seals() {
    let dir = dir();
    for name in ["inference.pdmodel", "inference.pdiparams"] {
        std::fs::copy(root().join(DIGITS).join(name), dir.path().join(name)).expect("copied");
    }
    let model = dir.path().join("inference").display().to_string();
    let params = dir.path().join("inference.pdiparams");
    good(["seal", &model]);
    let mut bytes = read(&params);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&params, bytes).expect("written");
    let out = dir.path().join("out.npz").display().to_string();
    let arguments = ["convert", &model, &out, "--weights-only"];
    follows(&arguments, "pass --no-verify to read it anyway", &["--no-verify"]);
    assert!(bad(arguments).contains("run `lodstone seal --replace`"));
    assert_eq!(run(["verify", &model]).code, Some(1));
    good(["seal", "--replace", &model]);
    good(arguments);
}

#[test]
fn hints_about_links_and_existing_files() {
    let dir = dir();
    let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
    for path in [&inside, &outside] {
        std::fs::create_dir(path).expect("a directory");
    }
    let names = ["inference.pdmodel", "inference.pdiparams"];
    for name in names {
        std::fs::copy(root().join(DIGITS).join(name), outside.join(name)).expect("copied");
    }
    // A file of the model behind a link, as in download caches.
    good(["convert", DIGITS, &outside.join("vars").display().to_string(), "--to", "paddle-vars"]);
    std::fs::copy(outside.join("vars/__model__"), inside.join("__model__")).expect("copied");
    for (name, _) in
        common::files(&outside.join("vars")).into_iter().filter(|(n, _)| n != "__model__")
    {
        symlink(outside.join("vars").join(&name), inside.join(&name)).expect("a link");
    }
    let inside = inside.display().to_string();
    follows(&["inspect", &inside, "--hash"], "--follow-links", &["--follow-links"]);

    let out = outside.join("out.npz").display().to_string();
    good(["convert", DIGITS, &out, "--weights-only"]);
    let error = bad(["convert", DIGITS, &out, "--weights-only", "--no-clobber"]);
    assert!(error.contains("omit --no-clobber"), "{error}");
    good(["convert", DIGITS, &out, "--weights-only"]);
    assert!(Path::new(&out).exists());
}

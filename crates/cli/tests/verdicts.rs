//! Verdicts: whole, inconsistent, damaged, and errors (exit 2) if no verdict is possible.

#![expect(clippy::disallowed_methods, reason = "tests write files directly")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{DIGITS, Outcome, bad, dir, golden, good, root, run};

const TRAINING: &str = "examples/digits/training";

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn copy(from: &str, to: &Path) {
    fs::copy(root().join(from), to).expect("a copy");
}

/// A field of a message: its number and its value.
enum Field {
    Number(u8, u64),
    Bytes(u8, Vec<u8>),
}

use Field::{Bytes, Number};

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
    bytes
}

/// Encodes a protobuf message.
fn message(fields: impl IntoIterator<Item = Field>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in fields {
        match field {
            Number(number, value) => {
                bytes.extend(varint(u64::from(number) << 3));
                bytes.extend(varint(value));
            }
            Bytes(number, value) => {
                bytes.extend(varint(u64::from(number) << 3 | 2));
                bytes.extend(varint(value.len() as u64));
                bytes.extend(value);
            }
        }
    }
    bytes
}

fn name(number: u8, name: &str) -> Field {
    Bytes(number, name.as_bytes().to_vec())
}

/// Encodes a `ModelProto` with one graph.
fn onnx(ir_version: u64, opset: u64, graph: Vec<Field>) -> Vec<u8> {
    let set = message([Number(2, opset)]);
    message([Number(1, ir_version), Bytes(7, message(graph)), Bytes(8, set)])
}

fn tensor_type(dtype: u64, dims: &[u64]) -> Vec<u8> {
    let dims = dims.iter().map(|dim| Bytes(1, message([Number(1, *dim)])));
    let shape = message(dims.collect::<Vec<_>>());
    message([Bytes(1, message([Number(1, dtype), Bytes(2, shape)]))])
}

/// Encodes a `ValueInfoProto`.
fn value(called: &str, value_type: Vec<u8>) -> Vec<u8> {
    message([name(1, called), Bytes(2, value_type)])
}

fn node(kind: &str, inputs: &[&str], outputs: &[&str], attributes: Vec<Vec<u8>>) -> Vec<u8> {
    let mut fields: Vec<Field> = inputs.iter().map(|input| name(1, input)).collect();
    fields.extend(outputs.iter().map(|output| name(2, output)));
    fields.push(name(4, kind));
    fields.extend(attributes.into_iter().map(|attribute| Bytes(5, attribute)));
    message(fields)
}

/// Encodes an integer as an `AttributeProto`.
fn integer(called: &str, number: i64) -> Vec<u8> {
    message([name(1, called), Number(3, number.cast_unsigned()), Number(20, 2)])
}

fn written(dir: &Path, called: &str, bytes: &[u8]) -> String {
    let path = dir.join(called);
    fs::write(&path, bytes).expect("written");
    text(&path).to_owned()
}

fn expect_verdict(outcome: &Outcome, code: i32, verdict: &str) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    assert!(
        outcome.out.contains(verdict) || outcome.err.contains(verdict),
        "{verdict}: {outcome:?}"
    );
}

#[test]
fn a_type_nested_beyond_the_limit_is_not_damage() {
    let mut sequence = tensor_type(1, &[2]);
    for _ in 0..50 {
        // `TypeProto.sequence_type.elem_type`
        sequence = message([Bytes(4, message([Bytes(1, sequence)]))]);
    }
    let graph = vec![
        name(2, "g"),
        Bytes(11, value("x", sequence.clone())),
        Bytes(12, value("x", sequence)),
    ];
    let dir = dir();
    let outcome = run(["verify", &written(dir.path(), "deep.onnx", &onnx(8, 18, graph))]);
    expect_verdict(&outcome, 2, "expected at most 100 levels of messages (a limit of this reader)");
    assert!(!outcome.out.contains("damaged") && !outcome.err.contains("damaged"), "{outcome:?}");
}

#[test]
fn an_output_of_another_rank_than_declared_is_inconsistent_and_whole() {
    let graph = vec![
        Bytes(1, node("Relu", &["x"], &["y"], Vec::new())),
        name(2, "g"),
        Bytes(11, value("x", tensor_type(1, &[2, 3]))),
        Bytes(12, value("y", tensor_type(1, &[2, 3, 1]))),
    ];
    let dir = dir();
    let path = written(dir.path(), "rank.onnx", &onnx(8, 18, graph));
    let outcome = run(["verify", &path]);
    expect_verdict(&outcome, 0, "whole, but inconsistent");
    assert!(!outcome.out.contains("damaged"), "{outcome:?}");
    let found = good(["verify", &path, "--json"]).out;
    assert!(
        found.contains("\"kind\": \"inconsistent\"") && found.contains("\"whole\": true"),
        "{found}"
    );
    // Runtimes reject a different element type.
    let graph = vec![
        Bytes(1, node("Relu", &["x"], &["y"], Vec::new())),
        name(2, "g"),
        Bytes(11, value("x", tensor_type(1, &[2, 3]))),
        Bytes(12, value("y", tensor_type(7, &[2, 3]))),
    ];
    expect_verdict(
        &run(["verify", &written(dir.path(), "type.onnx", &onnx(8, 18, graph))]),
        1,
        "damaged",
    );
}

#[test]
fn a_graph_without_outputs_is_damaged() {
    let graph = vec![name(2, "g"), Bytes(11, value("x", tensor_type(1, &[2])))];
    let dir = dir();
    let path = written(dir.path(), "none.onnx", &onnx(8, 18, graph));
    expect_verdict(&run(["verify", &path]), 1, "has no outputs");
}

/// Encodes a loop whose body lists its initializer also as an input, before the others.
fn loop_of_old(ir_version: u64) -> Vec<u8> {
    let one = message([
        Number(1, 1),
        Number(2, 1),
        Bytes(4, 1f32.to_le_bytes().to_vec()),
        name(8, "one"),
    ]);
    let flag = || tensor_type(9, &[]);
    let body = message([
        Bytes(1, node("Add", &["v", "one"], &["w"], Vec::new())),
        Bytes(1, node("Identity", &["goes"], &["on"], Vec::new())),
        name(2, "body"),
        Bytes(5, one),
        Bytes(11, value("one", tensor_type(1, &[1]))),
        Bytes(11, value("turn", tensor_type(7, &[]))),
        Bytes(11, value("goes", flag())),
        Bytes(11, value("v", tensor_type(1, &[1]))),
        Bytes(12, value("on", flag())),
        Bytes(12, value("w", tensor_type(1, &[1]))),
    ]);
    let body = message([name(1, "body"), Bytes(6, body), Number(20, 5)]);
    let graph = vec![
        Bytes(1, node("Loop", &["count", "start", "x"], &["y"], vec![body])),
        name(2, "g"),
        Bytes(11, value("count", tensor_type(7, &[]))),
        Bytes(11, value("start", flag())),
        Bytes(11, value("x", tensor_type(1, &[1]))),
        Bytes(12, value("y", tensor_type(1, &[1]))),
    ];
    onnx(ir_version, 8, graph)
}

#[test]
fn initializers_of_a_loop_body_may_be_its_inputs() {
    let dir = dir();
    for ir_version in [3, 4, 8] {
        let path = written(dir.path(), "loop.onnx", &loop_of_old(ir_version));
        expect_verdict(&run(["verify", &path]), 0, ": whole");
    }
}

#[test]
fn dims_beyond_the_limit_are_findings() {
    let large = i64::MAX.cast_unsigned();
    let input = |called: &str, dims: &[u64]| Bytes(11, value(called, tensor_type(1, dims)));
    let output = || {
        Bytes(12, message([name(1, "y"), Bytes(2, message([Bytes(1, message([Number(1, 1)]))]))]))
    };
    let repeats: Vec<u8> = [3i64, 1].iter().flat_map(|times| times.to_le_bytes()).collect();
    let repeats = message([Number(1, 2), Number(2, 7), Bytes(9, repeats), name(8, "times")]);
    let graphs = [
        vec![
            Bytes(1, node("Concat", &["a", "b"], &["y"], vec![integer("axis", 0)])),
            name(2, "g"),
            input("a", &[large, 1]),
            input("b", &[large, 1]),
            output(),
        ],
        vec![
            Bytes(1, node("Tile", &["a", "times"], &["y"], Vec::new())),
            name(2, "g"),
            Bytes(5, repeats),
            input("a", &[large, 1]),
            output(),
        ],
        vec![
            Bytes(
                1,
                node(
                    "ConvTranspose",
                    &["a", "w"],
                    &["y"],
                    vec![message([name(1, "strides"), Number(8, 3), Number(20, 7)])],
                ),
            ),
            name(2, "g"),
            input("a", &[1, 1, large]),
            input("w", &[1, 1, 1]),
            output(),
        ],
    ];
    let dir = dir();
    for graph in graphs {
        let path = written(dir.path(), "large.onnx", &onnx(8, 18, graph));
        expect_verdict(&run(["verify", &path]), 1, "below 2^63");
    }
}

#[test]
fn a_program_that_breaks_rules_is_not_upgraded() {
    let graph = vec![
        Bytes(1, node("Relu", &["nothing"], &["y"], Vec::new())),
        name(2, "g"),
        Bytes(11, value("x", tensor_type(1, &[2]))),
        Bytes(12, value("y", tensor_type(1, &[2]))),
    ];
    let dir = dir();
    let path = written(dir.path(), "undefined.onnx", &onnx(8, 12, graph));
    expect_verdict(&run(["verify", &path]), 1, "nothing");
    let out = dir.path().join("out.onnx");
    let error = bad(["convert", &path, text(&out), "--opset", "18"]);
    assert!(error.contains("`nothing`") && !out.exists(), "{error}");
}

#[test]
fn raw_data_of_an_onnx_model_is_not_a_tensor_stream() {
    let dir = dir();
    for (called, bytes) in [
        ("weights.bin", vec![0; 4096]),
        ("model.onnx.data", [[0u8; 4], [0, 0, 128, 63]].concat().repeat(100)),
        ("ids", (1u64..200).flat_map(u64::to_le_bytes).collect()),
        ("zeros_then_ones", [vec![0; 100], vec![1; 400]].concat()),
    ] {
        let path = written(dir.path(), called, &bytes);
        let error = bad(["verify", &path]);
        assert!(error.contains("unrecognized file format"), "{called}: {error}");
    }
    // A stream is detected under any name.
    let stream = dir.path().join("renamed.bin");
    copy(&golden("2.6.2/lod2.lodtensor"), &stream);
    expect_verdict(&run(["verify", text(&stream)]), 0, ": whole");
}

#[test]
fn a_cut_stream_of_pytorch_is_damaged_whatever_it_is_called() {
    let mut file = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.".to_vec();
    file.extend(b"\x80\x02M\xe9\x03.\x80\x02}q\x00.");
    let dir = dir();
    for called in ["model.pt", "model.pth", "model"] {
        let outcome = run(["verify", &written(dir.path(), called, &file)]);
        expect_verdict(&outcome, 1, "expected an opcode of a pickle");
    }
    // Neither is a pickle of other objects.
    let other = b"\x80\x02csklearn.tree\nTree\nq\x00)\x81q\x01.";
    let outcome = run(["verify", &written(dir.path(), "tree.pkl", other)]);
    expect_verdict(&outcome, 2, "a pickle with objects other than PaddlePaddle tensors");
}

#[test]
fn parameters_shared_by_functions_are_found_for_each_of_them() {
    for how in ["together", "apart"] {
        for (program, tensors) in [("net.enc", 4), ("net.enc.other", 2)] {
            let path = golden(&format!("functions/{how}/{program}.pdmodel"));
            let outcome = run(["verify", &path]);
            expect_verdict(&outcome, 0, &format!("2 files, {tensors} tensors"));
        }
    }
    let listed =
        good(["inspect", &golden("functions/together/net.enc.other.pdmodel"), "--tensors"]);
    assert!(listed.out.contains("linear_2.w_0"), "{listed:?}");
    assert!(listed.err.contains("also holds those of other functions"), "{listed:?}");
}

/// Trains one step; returns the directory of the checkpoints.
fn one_step(dir: &Path) -> PathBuf {
    let (runs, out) = (dir.join("run"), dir.join("trained"));
    let train = ["train", TRAINING, "--data", "examples/digits/train.npz", "--steps", "1"];
    good(train.into_iter().chain(["--checkpoint", text(&runs), "-o", text(&out)]));
    runs
}

#[test]
fn programs_saved_alone_are_whole() {
    let dir = dir();
    let alone = dir.path().join("alone");
    fs::create_dir(&alone).expect("a directory");
    copy(&format!("{TRAINING}/main_program"), &alone.join("__model__"));
    expect_verdict(&run(["verify", text(&alone)]), 0, ": whole");
    // The loader of a serial loads its parameters itself.
    let serial = one_step(dir.path()).join("step-00000001");
    let outcome = run(["verify", text(&serial.join("loader"))]);
    expect_verdict(&outcome, 0, ": whole");
    assert!(!outcome.err.contains("were not found"), "{outcome:?}");
    // A model that names parameters is damaged without them.
    let lacking = dir.path().join("lacking");
    fs::create_dir(&lacking).expect("a directory");
    copy(&format!("{DIGITS}/inference.pdmodel"), &lacking.join("inference.pdmodel"));
    expect_verdict(&run(["verify", text(&lacking)]), 1, "missing parameters of the program: ");
}

#[test]
fn the_manifest_of_a_serial_must_describe_its_files() {
    let dir = dir();
    let runs = one_step(dir.path());
    expect_verdict(&run(["checkpoint", "verify", text(&runs)]), 0, "whole");
    let path = runs.join("step-00000001/manifest.json");
    let whole = fs::read_to_string(&path).expect("a manifest");
    let b = "\"name\": \"conv2d_0.b_0\"";
    let (before, after) = whole.split_once(b).expect("a variable");
    let shape = after.replacen("\"shape\": [", "\"shape\": [1,", 1);
    let dtype = after.replacen("float32", "int32", 1);
    let another = format!("\"name\": \"conv2d_0.b_1\"{after}");
    let changes = [
        format!("{before}{b}{shape}"),
        format!("{before}{b}{dtype}"),
        format!("{before}{another}"),
    ];
    for changed in changes {
        fs::write(&path, resealed(&changed)).expect("written");
        let outcome = run(["checkpoint", "verify", text(&runs)]);
        expect_verdict(&outcome, 1, "in the manifest");
        let error = bad(["checkpoint", "restore", text(&runs), text(&dir.path().join("w.npz"))]);
        assert!(error.contains("manifest"), "{error}");
    }
}

/// Returns the text of a manifest with a matching checksum.
fn resealed(text: &str) -> String {
    let (body, _) = text.rsplit_once("  \"self\"").expect("a last line");
    let sum = lodstone_store::checksum(body.as_bytes());
    format!("{body}  \"self\": \"{sum:016x}\"\n}}\n")
}

#[test]
fn a_run_overwrites_neither_seals_nor_sealed_files() {
    let dir = dir();
    let out = dir.path().join("out");
    fs::create_dir(&out).expect("a directory");
    let program = |file: &str| {
        let program = format!(
            "blocks {{ idx: 0 parent_idx: -1
               vars {{ name: \"x\" persistable: true
                 type {{ type: LOD_TENSOR lod_tensor {{ tensor {{ data_type: FP32 dims: 2 }} }} }} }}
               ops {{ type: \"fill_constant\" outputs {{ parameter: \"Out\" arguments: \"x\" }}
                 attrs {{ name: \"shape\" type: LONGS longs: 2 }}
                 attrs {{ name: \"dtype\" type: INT i: 5 }} attrs {{ name: \"value\" type: FLOAT f: 1 }} }}
               ops {{ type: \"save\" inputs {{ parameter: \"X\" arguments: \"x\" }}
                 attrs {{ name: \"file_path\" type: STRING s: \"{file}\" }} }} }}"
        );
        written(dir.path(), "saves.pbtxt", program.as_bytes())
    };
    let to = text(&out).to_owned();
    good(["run", &program("w"), "--save-to", &to]);
    good(["seal", &format!("{to}/w")]);
    let seal = fs::read(out.join("lodstone.seal")).expect("a seal");
    for (file, what) in [
        ("lodstone.seal", "is a reserved name"),
        ("sub/lodstone.seal", "is a reserved name"),
        ("lodstone.seal/x", "is a reserved name"),
        ("w", "lists it"),
        ("./w", "lists it"),
    ] {
        let error = bad(["run", &program(file), "--save-to", &to]);
        assert!(error.contains(what), "{file}: {error}");
    }
    assert_eq!(fs::read(out.join("lodstone.seal")).expect("a seal"), seal);
    expect_verdict(&run(["verify", text(&out.join("w"))]), 0, "sealed");
    // Files that no seal lists are overwritten.
    good(["run", &program("other"), "--save-to", &to]);
    good(["run", &program("other"), "--save-to", &to]);
}

/// Returns a program that fills a tensor of `elements` numbers, repeatedly if it loops.
fn filling(elements: u64, body: &str) -> String {
    format!(
        "blocks {{ idx: 0 parent_idx: -1
           vars {{ name: \"x\" type {{ type: LOD_TENSOR lod_tensor {{ tensor {{ data_type: FP32 dims: -1 }} }} }} }}
           vars {{ name: \"c\" type {{ type: LOD_TENSOR lod_tensor {{ tensor {{ data_type: BOOL dims: 1 }} }} }} }}
           vars {{ name: \"s\" type {{ type: STEP_SCOPES }} }}
           ops {{ type: \"fill_constant\" outputs {{ parameter: \"Out\" arguments: \"x\" }}
             attrs {{ name: \"shape\" type: LONGS longs: {elements} }}
             attrs {{ name: \"dtype\" type: INT i: 5 }} attrs {{ name: \"value\" type: FLOAT f: 1 }} }}
           {body} }}"
    )
}

const LOOP: &str = "
    ops { type: \"fill_constant\" outputs { parameter: \"Out\" arguments: \"c\" }
      attrs { name: \"shape\" type: LONGS longs: 1 }
      attrs { name: \"dtype\" type: INT i: 0 } attrs { name: \"value\" type: FLOAT f: 1 } }
    ops { type: \"while\" inputs { parameter: \"Condition\" arguments: \"c\" } inputs { parameter: \"X\" arguments: \"x\" }
      outputs { parameter: \"Out\" arguments: \"x\" } outputs { parameter: \"StepScopes\" arguments: \"s\" }
      attrs { name: \"sub_block\" type: BLOCK block_idx: 1 } attrs { name: \"is_test\" type: BOOLEAN b: true } } }
  blocks { idx: 1 parent_idx: 0
    ops { type: \"fill_constant\" outputs { parameter: \"Out\" arguments: \"c\" }
      attrs { name: \"shape\" type: LONGS longs: 1 }
      attrs { name: \"dtype\" type: INT i: 0 } attrs { name: \"value\" type: FLOAT f: 1 } }
    ops { type: \"relu\" inputs { parameter: \"X\" arguments: \"x\" } outputs { parameter: \"Out\" arguments: \"x\" } }";

#[test]
fn a_run_stops_after_the_maximum_number_of_steps() {
    let dir = dir();
    let path = written(dir.path(), "loop.pbtxt", filling(4, LOOP).as_bytes());
    let error = bad(["run", &path, "--max-steps", "1000"]);
    assert!(error.contains("the run exceeds the maximum of 1000 steps"), "{error}");
    let path = written(dir.path(), "once.pbtxt", filling(4, "").as_bytes());
    good(["run", &path, "--max-steps", "1"]);
}

#[test]
fn exceeding_the_memory_limit_is_an_error() {
    let dir = dir();
    // 4 GiB.
    let path = written(dir.path(), "large.pbtxt", filling(1 << 30, "").as_bytes());
    let error = bad(["run", &path, "--max-memory", "1GiB"]);
    assert!(error.contains("of at most 1073741824 are taken"), "{error}");
    // With a limit of the process: the memory is not allocated, and the process does not abort.
    for limit in ["-v", "-d"] {
        let mut shell = std::process::Command::new("sh");
        let line = format!("ulimit {limit} 2097152 && exec \"$0\" run \"$1\" --max-memory 100GiB");
        shell.args(["-c", &line, env!("CARGO_BIN_EXE_lodstone"), &path]);
        let outcome = Outcome::from(shell.output().expect("sh"));
        expect_verdict(&outcome, 2, "it would take 4294967296 bytes");
    }
}

#[test]
fn names_in_tables_and_plots_of_losses_are_escaped() {
    let dir = dir();
    let net = dir.path().join("net");
    fs::create_dir(&net).expect("a directory");
    for file in ["main_program", "startup_program", "__params__"] {
        copy(&format!("{TRAINING}/{file}"), &net.join(file));
    }
    let out = dir.path().join("out");
    let data = "examples/digits/train.npz";
    let loss = good(["train", TRAINING, "--data", data, "--steps", "1", "-o", text(&out)]);
    assert!(loss.out.contains("loss") || loss.err.contains("loss"), "{loss:?}");
    let main = fs::read(net.join("main_program")).expect("a program");
    let watched = watchable(&main);
    // The same length, so that the enclosing messages stay valid.
    for evil in ["=", "\x1b"] {
        let called = format!("{evil}{}", &watched[evil.len()..]);
        let renamed = replaced(&main, watched.as_bytes(), called.as_bytes());
        fs::write(net.join("main_program"), renamed).expect("written");
        let out = dir.path().join(format!("out{}", evil.len() + usize::from(evil == "=")));
        good([
            "train",
            text(&net),
            "--data",
            data,
            "--steps",
            "1",
            "--watch",
            &called,
            "-o",
            text(&out),
        ]);
        let table = fs::read_to_string(out.join("losses.csv")).expect("a table");
        let header = table.lines().next().expect("a header");
        assert!(!header.split(',').any(|cell| cell.starts_with('=')), "{header}");
        assert!(!header.contains('\x1b'), "{header}");
        let picture = fs::read_to_string(out.join("losses.svg")).expect("a picture");
        assert!(!picture.contains('\x1b'), "{picture}");
    }
}

/// Returns the name of a scalar variable that can be watched: the mean that the training minimizes.
fn watchable(program: &[u8]) -> String {
    let text = String::from_utf8_lossy(program);
    let at = text.find("mean_").expect("a mean");
    text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || "._".contains(*c)).collect()
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(from) {
            replaced.extend_from_slice(to);
            at += from.len();
        } else {
            replaced.push(bytes[at]);
            at += 1;
        }
    }
    replaced
}

//! Mutated models of every format, given to every command: none panics, hangs, or takes much memory.
//!
//! A seeded sample runs by default; `LODSTONE_MUTATIONS` is the number of mutations, and `LODSTONE_SEED` another seed.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "makes the files that the command reads"
)]
#![expect(clippy::print_stdout, reason = "says how much was tried")]

#[expect(dead_code, reason = "is for the other tests")]
mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use lodstone_conformance::system::largest_child;
use lodstone_store::{Blob, crc32_of};
use serde_json::Value;

use common::{command, dir, facts, good, read, root};

/// Where golden models are.
const FORMATS: &str = "crates/formats/tests/golden";
const MODELS: &str = "crates/lodstone/tests/golden";
const LOWERED: &str = "crates/lowering/tests/golden";

/// The models that are mutated: a format, and a directory, a file, or the prefix of the files of a model. The first golden
/// file of each format without an entry is mutated, too.
const SUBJECTS: &[(&str, &str, &str)] = &[
    ("caffe2", LOWERED, "caffe2/average_pool"),
    ("caffe2", FORMATS, "../../../cli/tests/golden/reported/caffe2/nhwc-conv"),
    ("caffe2-blob", FORMATS, "caffe2/blobs/int64.pb"),
    ("caffe2-minidb", FORMATS, "caffe2/pieces.minidb"),
    ("caffe2-predictor", FORMATS, "caffe2/predictor.minidb"),
    ("caffe2-text", FORMATS, "caffe2/text"),
    ("executorch", FORMATS, "executorch/methods.pte"),
    ("mxnet", LOWERED, "mxnet/dot_521"),
    ("mxnet-block", FORMATS, "mxnet_block/sequential"),
    ("mxnet-npz", FORMATS, "mxnet/2.0.0b1/sparse.params"),
    ("mxnet-params", LOWERED, "mxnet/stack_147-0000.params"),
    ("mxnet-states", FORMATS, "mxnet_states/1.2.1/protocol0.states"),
    ("mxnet-states", FORMATS, "mxnet_states/1.5.1-python2/sparse.states"),
    ("mxnet-symbol", FORMATS, "mxnet/1.9.1/foreach-symbol.json"),
    ("npy", FORMATS, "numpy/version/1.0.npy"),
    ("npz", LOWERED, "mxnet/dot_521-io.npz"),
    ("onnx", FORMATS, "onnx/attributes.onnx"),
    ("onnx", FORMATS, "onnx/training.onnx"),
    ("onnx", FORMATS, "onnx/external"),
    ("onnx", FORMATS, "onnx/functions.onnx"),
    ("onnx-glow", FORMATS, "glow_run/caffe2__gather_ranges.onnx"),
    ("onnx-glow-text", MODELS, "glow_loaded/upsampleOpset9.glow.onnxtxt"),
    ("onnx-glow-zip", FORMATS, "glow/constfold_record.zip"),
    ("onnx-tensor", FORMATS, "onnx_tensor/int64-raw.pb"),
    ("onnx-text", MODELS, "glow_loaded/QuantizeLinearDequantizeLinear.onnxtxt"),
    ("onnx-zip", FORMATS, "glow/member_types_std_op9.zip"),
    ("paddle", MODELS, "paddle_quantized/pairs_channels"),
    ("paddle", FORMATS, "../../../../examples/digits/training"),
    ("paddle-distributed", FORMATS, "paddle_sharded/3.3.1/replicas"),
    ("paddle-params", FORMATS, "paddle/3.3.1/old/net.pdiparams"),
    ("paddle-params-sized", FORMATS, "paddle/early/sized/mixed.combined"),
    ("paddle-pickle", FORMATS, "paddle_pickle/3.3.1/state_p3.pdparams"),
    ("paddle-pir", FORMATS, "paddle/pir/3.0.0b2"),
    ("paddle-program", MODELS, "paddle_older/avg_5_3_2_1_0/__model__"),
    ("paddle-program", FORMATS, "paddle/2.6.2/control_flow/train.pb"),
    ("paddle-program-text", FORMATS, "paddle/1.8.5/lenet/program.pbtxt"),
    ("paddle-save", FORMATS, "paddle/2.6.2/lenet/saved"),
    ("paddle-tensor", FORMATS, "paddle/2.6.2/lenet/persistables/fc_0.b_0"),
    ("paddle-tensor-lod-last", FORMATS, "paddle/early/lod_last/one_row.lodtensor"),
    ("paddle-vars", FORMATS, "paddle/1.8.5/recurrent/inference"),
    ("safetensors", FORMATS, "safetensors/dtypes.safetensors"),
    ("safetensors", FORMATS, "safetensors/sharded"),
    ("torch", FORMATS, "torch/shards/pytorch_model-00001-of-00002.bin"),
    ("torch-distributed", FORMATS, "torch_sharded/dtensor-files"),
    ("torch-exported", LOWERED, "torch/state.pt2"),
    ("torchscript", FORMATS, "torch/trace.pt"),
    ("torchscript", FORMATS, "torch/script.pt"),
];

/// The commands: `@` is the mutated model, `ORIGINAL` the model as it was, `NAME` one of its tensors, `OUT` a path to
/// write to.
const COMMANDS: &[&[&str]] = &[
    &["inspect", "@", "--json", "--hash", "--inferred"],
    &["inspect", "@", "--tensors", "--operators"],
    &["inspect", "@", "--bytes"],
    &["inspect", "@", "--graph", "dot"],
    &["inspect", "@", "--layers", "--raise-limits", "2"],
    &["cat", "@", "NAME"],
    &["verify", "@"],
    &["scan", "@"],
    &["scan", "@", "--json"],
    &["ops", "@"],
    &["ops", "@", "--target", "run"],
    &["convert", "@", "OUT", "--to", "same"],
    &["convert", "@", "OUT.safetensors", "--weights-only", "LOSSES"],
    &["convert", "@", "OUT.npz", "--weights-only", "--cast", "float16", "LOSSES"],
    &["convert", "@", "OUT.onnx", "LOSSES", "--check"],
    &["diff", "@", "ORIGINAL"],
    &["diff", "ORIGINAL", "@", "--json"],
    &["run", "@", "--random-inputs", "1", "--memory-limit", "16MB", "--max-steps", "10000"],
    &["compare", "@", "ORIGINAL", "--random-inputs", "1", "--memory-limit", "16MB"],
    &["seal", "@"],
    &["recover", "@"],
    &[
        "train",
        "@",
        "--data",
        "examples/digits/train.npz",
        "--batch-size",
        "8",
        "--steps",
        "1",
        "-o",
        "OUT",
    ],
    &["program", "print", "@"],
    &["program", "inference", "@", "OUT"],
    &["program", "prune", "@", "OUT", "--fetch", "NAME"],
    &["program", "loader", "@", "OUT"],
    &["program", "checkpoint", "@", "OUT", "--dir", "OUT.d"],
    &["checkpoint", "list", "@"],
    &["checkpoint", "show", "@"],
    &["checkpoint", "verify", "@"],
    &["checkpoint", "prune", "@"],
    &["checkpoint", "restore", "@", "OUT.safetensors"],
    &["checkpoint", "reshard", "@", "OUT", "--shards", "2"],
];

/// What `LOSSES` stands for.
const LOSSES: &str = "--allow=program --allow=lod --allow=selected-rows --allow=sparse --allow=vocabulary --allow=strings \
    --allow=fp16-rounding --allow=results --allow=dtype --allow=names --allow=metadata --allow=custom-operators \
    --allow=compiler-hints";

/// Commands that read no model.
const OTHERS: &[&str] = &["formats", "completions", "help", "man"];

/// The maximum time of a command: one that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(60);

/// The maximum memory of a command, beside what the process needs to start.
const LARGEST: u64 = 64 << 20;

/// A generator of random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("less than a length")
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A model that is mutated.
struct Subject {
    path: String,
    /// The name of the model in its directory.
    name: String,
    /// Its files, by their paths in its directory.
    files: BTreeMap<String, Vec<u8>>,
    /// One of its tensors.
    tensor: String,
    /// What can be done with its format.
    can: Vec<String>,
}

impl Subject {
    fn of((format, folder, path): &(&str, &str, &str), formats: &[Value]) -> Self {
        let path = format!("{folder}/{path}");
        let found = facts(&path, None);
        assert_eq!(found["format"], *format, "{path}");
        let can = formats.iter().find(|one| one["name"] == *format).expect("a format");
        let can = can.as_object().expect("an object").iter();
        let can = can.filter(|(_, value)| **value == true || value.is_array());
        let can = can.map(|(key, _)| key.clone()).collect();
        let tensor = found["tensors"][0]["name"].as_str().unwrap_or("absent").to_owned();
        let whole = root().join(&path);
        let name = whole.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(whole.parent().expect("a directory")).expect("a directory") {
            let entry = entry.expect("an entry").path();
            let found = entry.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
            let is_prefix = !whole.exists() && found.starts_with(&name);
            if (found == name || is_prefix) && entry.is_file() {
                files.insert(found, read(&entry));
            } else if found == name {
                let below = common::files(&entry).into_iter();
                files.extend(below.map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
            }
        }
        files.retain(|path, _| !path.ends_with(".py"));
        Self { path, name, files, tensor, can }
    }

    /// Returns the checkpoints of a short training run.
    fn checkpoints() -> Self {
        let (dir, steps) = (dir(), ["--batch-size", "8", "--steps", "2", "--every", "1"]);
        let [path, out] = ["run", "out"].map(|name| dir.path().join(name).display().to_string());
        let train = ["train", "examples/digits/training", "--data", "examples/digits/train.npz"];
        good(train.iter().chain(&steps).chain(&["--checkpoint", &path, "-o", &out]));
        let files = common::files(Path::new(&path)).into_iter();
        let files = files.map(|(name, bytes)| (format!("run/{name}"), bytes)).collect();
        let can = vec!["checkpoint".to_owned()];
        let [path, name, tensor] =
            ["examples/digits/training", "run", "fc_0.w_0"].map(str::to_owned);
        Self { path, name, files, tensor, can }
    }

    /// Returns whether a command is for models of this format.
    fn takes(&self, command: &[&str]) -> bool {
        let needed = match command {
            ["run" | "compare", ..] | ["ops", .., "run"] => "run",
            ["ops", ..] | ["convert", _, "OUT.onnx", ..] => "to_onnx",
            ["convert", .., "same"] => "write_back",
            ["convert" | "cat", ..] => "weights_to",
            ["train" | "program", ..] => "train",
            ["checkpoint", "reshard", ..] => "weights_to",
            ["checkpoint", ..] => "checkpoint",
            ["recover", ..] => return !self.files.contains_key(&self.name),
            _ => "read",
        };
        self.can.iter().any(|key| key == needed)
    }

    /// Returns the arguments of a command for the model in a directory.
    fn arguments(&self, command: &[&str], dir: &Path) -> Vec<String> {
        let place = |name: &str| dir.join(name).display().to_string();
        let argument = |argument: &&str| match *argument {
            "@" => vec![place(&self.name)],
            "ORIGINAL" => vec![self.path.clone()],
            "NAME" => vec![self.tensor.clone()],
            "LOSSES" => LOSSES.split_whitespace().map(str::to_owned).collect(),
            out if out.starts_with("OUT") => vec![place(out)],
            other => vec![other.to_owned()],
        };
        command.iter().flat_map(argument).collect()
    }

    /// Mutates one of the files; returns all of them, and what was done.
    fn mutated(&self, random: &mut Random) -> (BTreeMap<String, Vec<u8>>, String) {
        let names: Vec<&String> = self.files.keys().collect();
        let (name, mut files) = (*random.of(&names), self.files.clone());
        let content = files.get_mut(name).expect("one of the files");
        let times = 1 + random.below(8) / 6;
        let done: Vec<String> = (0..times).map(|_| mutate(content, random)).collect();
        (files, format!("{name}: {}", done.join(", ")))
    }
}

fn write(files: &BTreeMap<String, Vec<u8>>, dir: &Path) {
    for (name, content) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, content).expect("written");
    }
}

/// Texts that change the meaning of a file.
const TELLING: &[&str] = &[
    "0",
    "-1",
    "9223372036854775807",
    "18446744073709551616",
    "1e400",
    "NaN",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\0",
    "..",
    "/",
    "null",
    "\u{7f}",
    "\n",
    "cos\nsystem\n",
    "float64",
    "9",
];

/// Changes bytes at one place, and returns what was changed.
fn mutate(content: &mut Vec<u8>, random: &mut Random) -> String {
    let members = stored(content);
    if !members.is_empty() && random.below(2) == 0 {
        let member = random.of(&members).clone();
        let place = member.content.start + random.below(member.content.len());
        content[place] = random.byte();
        let changed = Blob::memory(content[member.content].to_vec());
        let sum = crc32_of(&changed).expect("bytes in memory");
        for at in member.sums {
            content[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        }
        return format!("byte {place} of a member, with its checksum");
    }
    if content.is_empty() {
        content.push(random.byte());
        return "one byte in an empty file".to_owned();
    }
    // Structure is rather at the beginning and the end.
    let place = match random.below(4) {
        0 | 1 => random.below(content.len()),
        2 => content.len() - 1 - random.below(content.len().min(200)),
        _ => random.below(content.len().min(600)),
    };
    let end = (place + 1 + random.below(16)).min(content.len());
    let other = random.below(content.len());
    let number = *random.of(&[0, 1, 0x7f, 0x80, 0xff, 0xffff, 1 << 31, u64::MAX, u64::MAX >> 1]);
    let text = random.of(TELLING).as_bytes().to_vec();
    match random.below(9) {
        0 => {
            content[place] ^= 1 << random.below(8);
            format!("bit of byte {place}")
        }
        1 => {
            content[place] = random.byte();
            format!("byte {place}")
        }
        2 => {
            content.drain(place..end);
            format!("{place}..{end} removed")
        }
        3 => {
            let copy = content[place..end].to_vec();
            content.splice(other..other, copy);
            format!("{place}..{end} copied to {other}")
        }
        4 => {
            content.truncate(place);
            format!("cut at {place}")
        }
        5 => {
            let width = 1 << random.below(4);
            let end = (place + width).min(content.len());
            content[place..end].copy_from_slice(&number.to_le_bytes()[..end - place]);
            format!("{number:#x} at {place}..{end}")
        }
        6 => {
            content.splice(place..place, text);
            format!("text inserted at {place}")
        }
        7 => {
            let digits = content[place..].iter().position(u8::is_ascii_digit).unwrap_or(0);
            content.splice(place + digits..=place + digits, text);
            format!("a digit replaced at {}", place + digits)
        }
        _ => {
            let half = content[place..].to_vec();
            content.extend(half);
            format!("{place}.. repeated")
        }
    }
}

/// A member of a zip archive that is stored as it is.
#[derive(Clone)]
struct Member {
    content: std::ops::Range<usize>,
    /// The places of its checksum.
    sums: [usize; 2],
}

/// Returns the stored members of a zip archive, by its directory; none of other files.
fn stored(bytes: &[u8]) -> Vec<Member> {
    let number = |at: usize, width: usize| {
        let bytes = bytes.get(at..at + width)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let mut members = Vec::new();
    let Some(end) = bytes.windows(4).rposition(|four| four == b"PK\x05\x06") else {
        return members;
    };
    let mut at = number(end + 16, 4).unwrap_or(usize::MAX);
    while bytes.get(at..).is_some_and(|rest| rest.starts_with(b"PK\x01\x02")) {
        let field = |offset, width| number(at + offset, width).unwrap_or(0);
        let (method, size, local) = (field(10, 2), field(20, 4), field(42, 4));
        let lengths = number(local + 26, 2).zip(number(local + 28, 2));
        if let Some((name, extra)) = lengths
            && method == 0
            && size > 0
            && bytes.len() > local + 30 + name + extra + size
        {
            let begin = local + 30 + name + extra;
            members.push(Member { content: begin..begin + size, sums: [local + 14, at + 16] });
        }
        at += 46 + field(28, 2) + field(30, 2) + field(32, 2);
    }
    members
}

/// Runs a command; returns its status and its errors. One that hangs is killed.
fn end(arguments: &[String], dir: &Path) -> (ExitStatus, String) {
    let said = dir.join("stderr");
    let mut command = command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(&said).expect("a file"));
    let mut child = command.spawn().expect("the command runs");
    let since = Instant::now();
    let status = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break status,
            None if since.elapsed() > LONGEST => {
                child.kill().expect("killed");
                child.wait().expect("a child");
                panic!("{arguments:?} hangs");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    (status, String::from_utf8(read(&said)).expect("UTF-8"))
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// Returns what `formats` lists.
fn formats() -> Vec<Value> {
    let listed: Value = serde_json::from_str(&good(["formats", "--json"]).out).expect("JSON");
    listed["formats"].as_array().expect("formats").clone()
}

fn subjects(formats: &[Value]) -> Vec<Subject> {
    let models = SUBJECTS.iter().map(|one| Subject::of(one, formats));
    let names = formats.iter().filter_map(|format| format["name"].as_str());
    let others = names.filter(|name| SUBJECTS.iter().all(|(format, ..)| format != name));
    let others = others.map(|name| Subject::of(&(name, FORMATS, &first_golden(name)), formats));
    models.chain(others).chain([Subject::checkpoints()]).collect()
}

/// Returns the path of the first golden file of a format.
fn first_golden(format: &str) -> String {
    for entry in std::fs::read_dir(root().join(FORMATS)).expect("the golden files") {
        let folder = entry.expect("an entry");
        let Ok(index) = std::fs::read(folder.path().join("index.json")) else { continue };
        let index: Value = serde_json::from_slice(&index).expect("JSON");
        let cases = index["cases"].as_array().expect("cases");
        if let Some(case) = cases.iter().find(|case| case["format"] == format) {
            let path = case["path"].as_str().expect("a path");
            return format!("{}/{path}", folder.file_name().display());
        }
    }
    panic!("`{format}` has no golden file")
}

#[test]
fn every_command_is_tried() {
    let formats = formats();
    let subjects = subjects(&formats);
    for command in COMMANDS {
        let succeeds = |subject: &Subject| {
            let dir = dir();
            write(&subject.files, dir.path());
            let (status, _) = end(&subject.arguments(command, dir.path()), dir.path());
            matches!(status.code(), Some(0 | 1))
        };
        let mut suitable = subjects.iter().filter(|subject| subject.takes(command));
        assert!(suitable.any(succeeds), "{command:?}");
    }
    let whole = lodstone_cli::command();
    for one in whole.get_subcommands().filter(|one| !OTHERS.contains(&one.get_name())) {
        let leaves: Vec<Vec<&str>> = match one.has_subcommands() {
            true => {
                one.get_subcommands().map(|leaf| vec![one.get_name(), leaf.get_name()]).collect()
            }
            false => vec![vec![one.get_name()]],
        };
        for leaf in leaves.into_iter().filter(|leaf| leaf.last() != Some(&"help")) {
            assert!(COMMANDS.iter().any(|command| command.starts_with(&leaf)), "{leaf:?}");
        }
    }
}

#[test]
fn mutated_models_do_no_harm() {
    let (count, seed) = (number("LODSTONE_MUTATIONS", 2_000), number("LODSTONE_SEED", 1));
    let formats = formats();
    let subjects = subjects(&formats);
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    good(["--version"]);
    let largest = largest_child() + LARGEST;
    let mut codes: BTreeMap<Option<i32>, usize> = BTreeMap::new();
    for round in 0..count {
        let subject = random.of(&subjects);
        // One in eight commands is for other formats.
        let is_any = random.below(8) == 0;
        let suitable = |command: &&&[&str]| is_any || subject.takes(command);
        let commands: Vec<&&[&str]> = COMMANDS.iter().filter(suitable).collect();
        let arguments = *random.of(&commands);
        let dir = dir();
        let (files, done) = subject.mutated(&mut random);
        write(&files, dir.path());
        let arguments = subject.arguments(arguments, dir.path());
        let (status, said) = end(&arguments, dir.path());
        let what = format!("mutation {round} of {}: {done}: {arguments:?}: {said}", subject.path);
        assert!(matches!(status.code(), Some(0..=2)), "{status}: {what}");
        assert!(!said.contains("panicked") && !said.contains("internal error"), "{what}");
        assert!(!said.contains("try '--help'"), "{what}");
        let says = said.starts_with("error: ")
            || said.contains("\nerror: ")
            || arguments[0] == "scan"
            || arguments[0] == "verify";
        assert!(status.code() != Some(2) || says, "{what}");
        let peak = largest_child();
        assert!(peak <= largest, "{peak} bytes: {what}");
        *codes.entry(status.code()).or_default() += 1;
    }
    println!("{count} mutations, exit codes {codes:?}, at most {} bytes", largest_child());
}

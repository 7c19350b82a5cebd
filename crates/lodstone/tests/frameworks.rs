//! Code names a framework only in folders and files of its name, and in the tables that register these.

#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]

use std::fs;
use std::path::{Path, PathBuf};

/// Frameworks: the names of their folders, and the words that name them.
const FRAMEWORKS: [(&str, &[&str]); 6] = [
    ("caffe2", &["caffe2"]),
    ("glow", &["glow"]),
    ("mxnet", &["mxnet"]),
    ("paddle", &["paddle"]),
    ("tensorflow", &["tensorflow", "tflite"]),
    ("torch", &["torch", "pytorch"]),
];

/// Folders of representations that a framework has beside its first one. Caffe2 is released as part of PyTorch, and Glow's
/// loader reads it.
const REPRESENTATIONS: [(&str, &str); 4] =
    [("pir", "paddle"), ("caffe2", "glow"), ("caffe2", "torch"), ("from_caffe2", "caffe2")];

/// The files in which a phrase may name a framework, with the reason. An empty phrase matches any text.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("checkpoint/src/container/mod.rs", "", "the table of containers"),
    ("cli/src/convert/args.rs", "--to paddle-vars", "an example in a help text, with a format"),
    ("cli/src/convert/args.rs", "--to onnx-glow", "an example in a help text, with a format"),
    ("cli/src/convert/args.rs", "glow.onnx", "an example in a help text, with a file"),
    ("cli/src/convert/args.rs", "torch.safetensors", "an example in a help text, with a file"),
    ("cli/src/diff.rs", "paddle.pdparams", "an example in a help text, with a file"),
    ("cli/src/diff.rs", "torch.safetensors", "an example in a help text, with a file"),
    ("engine/src/geometry/resize.rs", "pytorch_half_pixel", "a mode of ONNX's `Resize`"),
    ("formats/src/encoding/pickle/modules.rs", "", "the table of common packages"),
    ("formats/src/registry.rs", "", "the tables of formats"),
    ("lodstone/src/lib.rs", "", "the guide"),
    ("lodstone/src/dialects.rs", "", "the table of what runs programs"),
    ("lodstone/src/formats.rs", "torch::has_meta", "the only format that records it"),
    ("lodstone/src/scan/libraries.rs", "", "the table of libraries whose objects are in pickles"),
    ("lodstone/src/ops.rs", "examples/digits/paddle", "the folder of an example"),
    ("lodstone/src/save.rs", "examples/digits/paddle", "the folder of an example"),
    ("lowering/src/glow/to_onnx/table.rs", "\"TFLite", "operators of Glow"),
    ("lowering/src/lib.rs", "", "the table of lowerings"),
    ("lowering/src/glow/mod.rs", "from_caffe2", "the loader of Caffe2 in Glow"),
    ("lowering/src/onnx/boxes.rs", "", "the table of conventions"),
    ("lowering/src/onnx/crops.rs", "", "the table of conventions"),
    ("lowering/src/onnx/detections.rs", "", "the table of conventions"),
    ("lowering/src/onnx/indexing/mod.rs", "", "the table of conventions"),
    ("lowering/src/onnx/layout.rs", "", "the table of conventions"),
    ("lowering/src/onnx/legacy_pads.rs", "Caffe2", "an argument that only Caffe2 has"),
    ("lowering/src/onnx/normalization.rs", "", "the table of conventions"),
    ("lowering/src/onnx/packed_rows.rs", "", "the table of conventions"),
    ("lowering/src/onnx/proposals.rs", "", "the table of conventions"),
    ("lowering/src/onnx/pyramid.rs", "", "the table of conventions"),
    ("lowering/src/onnx/quantization.rs", "", "the table of conventions"),
    ("lowering/src/onnx/recurrence/mod.rs", "", "the table of conventions"),
    ("lowering/src/onnx/regions.rs", "", "the table of conventions"),
    ("lowering/src/onnx/regression.rs", "", "the table of conventions"),
    ("lowering/src/onnx/adaptive.rs", "", "the table of conventions"),
    ("lowering/src/onnx/resizing.rs", "", "the table of conventions"),
    ("lowering/src/onnx/rotated.rs", "", "the table of conventions"),
    ("lowering/src/onnx/suppression.rs", "", "the table of conventions"),
    ("lowering/src/onnx/windows.rs", "", "the table of conventions"),
    ("model/src/program.rs", "", "`Dialect`, and the names of dialects"),
    ("python/src/lib.rs", "paddle as program", "the programs that Python builds"),
    ("schema/src/conventions.rs", "", "the table of conventions"),
    ("schema/src/mxnet/risk.rs", "\"TorchModule\"", "an operator of MXNet"),
    ("schema/src/mxnet/risk.rs", "\"TorchCriterion\"", "an operator of MXNet"),
];

/// A file that `all.rs` does not name would never run.
#[test]
fn every_file_of_tests_is_part_of_a_target() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut tried = 0;
    for name in ["cli", "formats", "lodstone", "paddle"] {
        let folder = crates.join(name);
        let all = fs::read_to_string(folder.join("tests/all.rs")).expect("all.rs");
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        for entry in fs::read_dir(folder.join("tests")).expect("the tests") {
            let path = entry.expect("a file").path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("UTF-8");
            if path.extension().is_some_and(|extension| extension == "rs") {
                let listed = all.contains(&format!("\nmod {stem};\n"))
                    || manifest.contains(&format!("name = \"{stem}\"\n"));
                assert!(listed, "{name}/tests/{stem}.rs is not run");
                tried += 1;
            }
        }
    }
    assert!(tried > 80, "{tried} files are not all");
}

#[test]
fn code_names_a_framework_only_in_its_own_folders() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).expect("the crates") {
        let source = entry.expect("a crate").path().join("src");
        if source.is_dir() {
            add_sources(&source, &mut files);
        }
    }
    assert!(files.len() > 400, "{} files are not all", files.len());
    let (mut wrong, mut used) = (Vec::new(), vec![false; EXCEPTIONS.len()]);
    for file in files {
        let path = file.strip_prefix(&crates).expect("a file below the crates");
        let path = path.to_str().expect("UTF-8").replace('\\', "/");
        let text = fs::read_to_string(&file).expect("readable");
        for (number, line) in text.lines().enumerate() {
            if names_another(&path, &without_exceptions(&path, line, &mut used)) {
                wrong.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "frameworks are named elsewhere:\n{}", wrong.join("\n"));
    let unused = EXCEPTIONS.iter().zip(used).filter(|(_, used)| !used);
    let unused: Vec<_> = unused.map(|(exception, _)| exception).collect();
    assert!(unused.is_empty(), "nothing needs these exceptions: {unused:?}");
}

#[test]
fn a_word_names_a_framework_if_it_begins_with_its_name() {
    for line in ["use crate::paddle;", "Dialect::Glow", "as PyTorch has it", "PADDLE", "pytorch"] {
        assert!(names_another("model/src/model.rs", line), "{line}");
    }
    for line in ["OperatorChange", "the operator changes", "mod glow;", "    pub(crate) mod torch;"]
    {
        assert!(!names_another("model/src/model.rs", line), "{line}");
    }
    assert!(!names_another("formats/src/torch/mod.rs", "torch"));
    assert!(!names_another("formats/src/scan/torch.rs", "torch"));
    assert!(!names_another("paddle/src/lib.rs", "PaddlePaddle"));
    assert!(names_another("paddle/src/lib.rs", "MXNet"));
}

/// Adds the Rust files below a folder.
pub(crate) fn add_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add_sources(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

/// Returns a line without the phrases of exceptions; records the exceptions that it needs.
fn without_exceptions(path: &str, line: &str, used: &mut [bool]) -> String {
    let mut line = line.to_owned();
    for ((_, phrase, _), used) in
        EXCEPTIONS.iter().zip(used).filter(|((file, ..), _)| *file == path)
    {
        if names_another(path, &line) && line.contains(phrase) {
            line = if phrase.is_empty() { String::new() } else { line.replace(phrase, "") };
            *used = true;
        }
    }
    line
}

/// Returns whether a line of a file names a framework other than those that the file or a parent folder is named after.
fn names_another(path: &str, line: &str) -> bool {
    let is_of = |framework: &str| {
        path.split('/').any(|part| {
            let folder = part.strip_suffix(".rs").unwrap_or(part);
            folder == framework || REPRESENTATIONS.contains(&(folder, framework))
        })
    };
    let named = |(framework, words): &(&str, &[&str])| {
        !is_of(framework) && words.iter().any(|word| begins_word(line, word))
    };
    !declares_module(line) && FRAMEWORKS.iter().any(named)
}

/// Returns whether a line only declares a module.
fn declares_module(line: &str) -> bool {
    let line = line.trim();
    let rest = ["pub ", "pub(crate) ", "pub(super) "].iter().find_map(|it| line.strip_prefix(it));
    let name = rest.unwrap_or(line).strip_prefix("mod ").and_then(|it| it.strip_suffix(';'));
    name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

/// Returns whether a word of a line, or of a name in it, begins with `word`; `OperatorChange` does not contain `torch`.
fn begins_word(line: &str, word: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    lower.match_indices(word).any(|(at, _)| {
        let is_lower = |at: Option<usize>| {
            at.and_then(|at| line.as_bytes().get(at)).is_some_and(u8::is_ascii_lowercase)
        };
        !(is_lower(Some(at)) && is_lower(at.checked_sub(1)))
    })
}

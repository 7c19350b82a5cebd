//! Changed code of modules: it is translated, or an error names the line.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::format_push_string,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "tests"
)]

use lodstone_model::Limits;
use lodstone_store::Blob;

use super::contents;
use super::program::{files, translated};
use crate::torch::archive::Archive;

/// Words that replace others.
const WORDS: &[&str] = &[
    "self",
    "None",
    "0",
    "-1",
    "9223372036854775807",
    "1e308",
    "\"a\"",
    "[]",
    "()",
    "{}",
    "True",
    "x",
    "torch",
    "torch.size(x)",
    "range",
    "while",
    "[x, x]",
    "torch.split(x, 1)",
    "CONSTANTS.c9",
    "__torch__",
    "inf",
];

#[test]
fn changed_words_are_translated_or_errors() {
    let limits = Limits::default();
    for name in ["script.pt", "trace.pt", "quantized.pt"] {
        let path = format!("{}/tests/golden/torch/{name}", env!("CARGO_MANIFEST_DIR"));
        let blob = Blob::memory(std::fs::read(path).unwrap());
        let archive = Archive::open(&blob, &limits).unwrap();
        if archive.member("constants.pkl").is_none() {
            continue;
        }
        let parameters = contents(&archive, &limits).unwrap().parameters;
        let original = files(&archive).unwrap();
        let mut translations = 0;
        for (at, (_, bytes)) in original.iter().enumerate() {
            let text = String::from_utf8(bytes.clone()).unwrap();
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let places: Vec<(usize, &str)> = text
                .split(|c| !is_word(c))
                .map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
                .collect();
            for (number, (start, word)) in places.iter().enumerate() {
                if word.is_empty() {
                    continue;
                }
                let new = WORDS[(number * 7 + at) % WORDS.len()];
                let changed = format!("{}{new}{}", &text[..*start], &text[start + word.len()..]);
                let mut files = original.clone();
                files[at].1 = changed.into_bytes();
                let result = translated(&archive, &files, &parameters, &limits).unwrap();
                translations += usize::from(result.is_ok());
            }
        }
        assert!(translations > 0, "{name}: every change is an error");
    }
}

/// Translates `trace.pt` with another body of its activation, and a module `m` with functions.
fn with_body(body: &str, functions: &str) -> Result<usize, String> {
    let limits = Limits::default();
    let path = format!("{}/tests/golden/torch/trace.pt", env!("CARGO_MANIFEST_DIR"));
    let blob = Blob::memory(std::fs::read(path).unwrap());
    let archive = Archive::open(&blob, &limits).unwrap();
    let parameters = contents(&archive, &limits).unwrap().parameters;
    let mut files = files(&archive).unwrap();
    let own = files.iter_mut().find(|(name, _)| name.ends_with("activation.py")).unwrap();
    let text = String::from_utf8(own.1.clone()).unwrap();
    let body = body.replace('\n', "\n    ");
    own.1 = text.replace("return torch.relu(argument_1)", &body).into_bytes();
    files.push(("code/__torch__/m.py".to_owned(), functions.as_bytes().to_vec()));
    let methods = translated(&archive, &files, &parameters, &limits).unwrap()?;
    let main = methods.programs.main().unwrap();
    Ok(main.blocks.iter().map(|block| block.ops.len()).sum())
}

#[test]
fn small_code_that_takes_much_memory_is_refused() {
    let twice = |line: &str| line.repeat(64);
    let calls: String = (1..40)
        .map(|level| {
            let below = level - 1;
            let call = format!("__torch__.m.f{below}");
            format!("def f{level}(x: Tensor) -> Tensor:\n  return {call}({call}(x, ), )\n")
        })
        .collect();
    let calls = format!("def f0(x: Tensor) -> Tensor:\n  return torch.relu(x)\n{calls}");
    let nested: String = (0..40).map(|at| format!("{}if bool(x):\n", "  ".repeat(at))).collect();
    let nested = format!(
        "x = argument_1\ns = torch.mul([1], 100000)\n{nested}{}pass\nreturn x",
        "  ".repeat(40)
    );
    let bodies = [
        ("strings", format!("s = \"a\"\n{}return argument_1", twice("s = torch.add(s, s)\n"))),
        ("lists", format!("s = [1]\n{}return argument_1", twice("s = torch.add(s, s)\n"))),
        ("extended", format!("s = [1]\n{}return argument_1", twice("s = torch.add_(s, s)\n"))),
        ("repeated", "s = torch.mul([1], 1000000000000)\nreturn argument_1".to_owned()),
        ("results", "s = torch.chunk(argument_1, 1000000000)\nreturn argument_1".to_owned()),
        ("results of a split", "a, b = torch.split(argument_1, torch.mul([1], 400000))\nreturn a".to_owned()),
        ("operators", "x = argument_1\nfor i in range(65000):\n  x = torch.add(x, torch.mul(x, torch.add(x, i)))\nreturn x".to_owned()),
        ("attributes", "x = argument_1\ns = torch.mul([1], 10000)\nfor i in range(1000):\n  x = torch.reshape(x, s)\nreturn x".to_owned()),
        ("calls", "return __torch__.m.f39(argument_1, )".to_owned()),
        ("branches", nested),
    ];
    for (what, body) in bodies {
        let found = with_body(&body, &calls).expect_err(what);
        assert!(found.contains("evaluating the code takes more than 32 MiB"), "{what}: {found}");
    }
}

#[test]
fn known_loops_and_calls_are_inlined() {
    let body = "x = argument_1\nfor i in range(20000):\n  x = torch.add(x, i)\nreturn x";
    assert!(with_body(body, "").unwrap() > 20_000);
}

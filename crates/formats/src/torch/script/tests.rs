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

//! The examples of the documents: every command is run and prints the output that the document shows.
//!
//! | in a block | meaning |
//! |---|---|
//! | ```` ```console ```` | the language of blocks that are run |
//! | `$ COMMAND` | a command, run by `sh` in a directory of the document that contains `examples` |
//! | other lines | its output: stdout, then stderr |
//! | `...` alone | any lines |
//!
//! Numbers with a fraction are equal if their relative difference is below 0.001. Rust blocks are doctests of
//! the crate `lodstone`, Python blocks tests of the Python package.

#![expect(clippy::disallowed_methods, reason = "prepares directories")]

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{dir, read, root};

/// The documents with commands.
fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["", "docs", "docs/formats"]
        .iter()
        .flat_map(|dir| std::fs::read_dir(root().join(dir)).expect("a directory"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    found.sort();
    found
}

/// A command and its expected output.
#[derive(Debug)]
struct Example {
    line: usize,
    command: String,
    output: Vec<String>,
}

fn examples(text: &str) -> Vec<Example> {
    let (mut examples, mut is_console): (Vec<Example>, bool) = (Vec::new(), false);
    for (line, text) in (1..).zip(text.lines()) {
        if let Some(language) = text.trim_start().strip_prefix("```") {
            is_console = language == "console";
        } else if let Some(command) = text.strip_prefix("$ ").filter(|_| is_console) {
            examples.push(Example { line, command: command.to_owned(), output: Vec::new() });
        } else if is_console && let Some(example) = examples.last_mut() {
            example.output.push(text.to_owned());
        }
    }
    for example in &mut examples {
        while example.output.last().is_some_and(|line| line.is_empty()) {
            example.output.pop();
        }
    }
    examples
}

/// Returns whether two words are equal, or numbers with a fraction that are nearly equal.
fn is_near(expected: &str, found: &str) -> bool {
    let number = |word: &str| {
        let word = word.trim_matches(|c: char| "[](),".contains(c));
        word.contains('.').then(|| word.parse::<f64>().ok()).flatten()
    };
    match (number(expected), number(found)) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-3 * a.abs().max(b.abs()) + 1e-6,
        _ => expected == found,
    }
}

fn is_same_line(expected: &str, found: &str) -> bool {
    let (mut a, mut b) = (expected.split_whitespace(), found.split_whitespace());
    a.by_ref().zip(b.by_ref()).all(|(a, b)| is_near(a, b))
        && expected.split_whitespace().count() == found.split_whitespace().count()
}

/// Returns whether lines are as expected; `...` matches any lines.
fn matches(expected: &[String], found: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((any, rest)) if any.trim() == "..." => {
            (0..=found.len()).any(|skipped| matches(rest, &found[skipped..]))
        }
        Some((line, rest)) => match found.split_first() {
            Some((first, others)) => is_same_line(line, first) && matches(rest, others),
            None => false,
        },
    }
}

/// Runs a command; returns its stdout and stderr.
fn run(command: &str, dir: &Path) -> [String; 2] {
    let program = Path::new(env!("CARGO_BIN_EXE_lodstone")).parent().expect("a directory");
    let mut path = OsString::from(program);
    if let Some(others) = std::env::var_os("PATH") {
        path.push(":");
        path.push(others);
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(dir).env("PATH", path);
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        shell.env_remove(name);
    }
    let output = shell.output().expect("a shell");
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
}

#[test]
fn commands_in_the_documents_print_the_shown_output() {
    let (mut count, mut wrong) = (0, Vec::new());
    for document in documents() {
        let text = String::from_utf8(read(&document)).expect("UTF-8");
        let dir = dir();
        symlink(root().join("examples"), dir.path().join("examples")).expect("a link");
        for Example { line, command, output } in examples(&text) {
            count += 1;
            let [out, err] = run(&command, dir.path());
            let is_printed = |first: &str, then: &str| {
                matches(&output, &first.lines().chain(then.lines()).collect::<Vec<_>>())
            };
            if !is_printed(&out, &err) && !is_printed(&err, &out) {
                let found = out + &err;
                let (expected, document) = (output.join("\n"), document.display());
                wrong.push(format!(
                    "{document}:{line}: $ {command}\nexpected:\n{expected}\nfound:\n{found}"
                ));
            }
        }
    }
    assert!(count >= 20, "{count} commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The table of formats in the README is generated; with `LODSTONE_REWRITE_EXPECTED` set, it is rewritten.
#[test]
fn the_readme_has_the_generated_table_of_formats() {
    let mark = |can: bool| if can { "yes" } else { "no" };
    let program = |can: Option<bool>| can.map_or("–", mark);
    let mut table = "| format | | read | write back | edit | run | train | export to ONNX |\n\
                     |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for of in lodstone::capabilities() {
        let cells = [
            mark(of.read),
            mark(of.write_back),
            mark(of.edit),
            program(of.run),
            program(of.train),
            program(of.to_onnx),
        ];
        table += &format!("| `{}` | {} | {} |\n", of.name, of.title, cells.join(" | "));
    }
    check_generated("README.md", ["<!-- formats -->\n", "<!-- end of formats -->"], &table);
}

/// The table of conversions is generated, too.
#[test]
fn the_table_of_conversions_is_the_output_of_its_command() {
    let command = "lodstone formats --conversions";
    let [table, _] = run(command, &root());
    check_generated("docs/conversions.md", [&format!("$ {command}\n"), "```"], &table);
}

/// Checks a generated part of a document, between two marks; with `LODSTONE_REWRITE_EXPECTED` set, rewrites it.
fn check_generated(document: &str, marks: [&str; 2], expected: &str) {
    let path = root().join(document);
    let text = String::from_utf8(read(&path)).expect("UTF-8");
    let (before, rest) = text.split_once(marks[0]).expect("the begin of the generated part");
    let (found, after) = rest.split_once(marks[1]).expect("the end of the generated part");
    if std::env::var_os("LODSTONE_REWRITE_EXPECTED").is_some() {
        let text = [before, marks[0], expected, marks[1], after].concat();
        std::fs::write(&path, text).expect("written");
    } else {
        assert_eq!(found, expected, "set LODSTONE_REWRITE_EXPECTED to write it");
    }
}

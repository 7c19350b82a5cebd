//! The public names of a crate are its face: inside the crate, modules import an item from the module that has it, so that
//! they do not depend on each other through `lib.rs`.

#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]

use std::fs;
use std::path::Path;

use crate::frameworks::add_sources;

/// The crates that are checked.
const CRATES: [&str; 1] = ["formats"];

#[test]
fn modules_do_not_import_through_the_face_of_their_crate() {
    for name in CRATES {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let face = public_names(&fs::read_to_string(source.join("lib.rs")).expect("lib.rs"));
        assert!(face.len() > 20, "{name}: {face:?}");
        let mut files = Vec::new();
        add_sources(&source, &mut files);
        let mut wrong = Vec::new();
        for file in files.iter().filter(|file| !file.ends_with("src/lib.rs")) {
            let used = names_of_the_root(&fs::read_to_string(file).expect("readable"));
            let through = used.into_iter().filter(|used| face.contains(used));
            wrong.extend(through.map(|used| format!("{}: crate::{used}", file.display())));
        }
        assert!(wrong.is_empty(), "import from the modules that have these:\n{}", wrong.join("\n"));
    }
}

#[test]
fn names_of_the_root_are_found_in_groups_and_paths() {
    let code =
        "use crate::{Error, format::{Format, Probe}, scan};\nlet x: crate::Result;\n// crate::No";
    assert_eq!(names_of_the_root(code), ["Error", "format", "scan", "Result"]);
    let face = "mod a;\npub use a::{B, C as D};\npub use a::a;\npub use e::f::G;\n";
    assert_eq!(public_names(face), ["B", "D", "G"]);
}

/// Returns the names that a `lib.rs` re-exports, except those that modules have, too.
fn public_names(text: &str) -> Vec<String> {
    let uses = text.split("pub use ").skip(1).filter_map(|rest| rest.split_once(';'));
    let mut names = Vec::new();
    for (path, _) in uses {
        let (start, group) = path.split_once('{').unwrap_or(("", path));
        let last = if start.is_empty() { path.rsplit("::").next().unwrap_or(path) } else { group };
        let items = last.trim_end().trim_end_matches('}').split(',').map(str::trim);
        let named = items.map(|item| item.rsplit(" as ").next().unwrap_or(item));
        names.extend(named.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    names.retain(|name| !text.contains(&format!("mod {name};")));
    names
}

/// Returns the first segments of all paths that begin with `crate::`.
fn names_of_the_root(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut names = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let Some(group) = rest.strip_prefix('{') else {
            names.push(word(rest));
            continue;
        };
        let (mut depth, mut is_first) = (0, true);
        for (at, character) in group.char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                _ if is_first && !character.is_whitespace() => {
                    names.push(word(&group[at..]));
                    is_first = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// Returns the identifier at the beginning of a text.
fn word(text: &str) -> String {
    text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
}

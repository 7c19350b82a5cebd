//! The public names of the crate, which users depend on, are those of a recorded list: a change of it is a decision.
//!
//! The list has the names at the root, and those of its public modules. With `LODSTONE_REWRITE_EXPECTED=1`, it is rewritten.

#![expect(clippy::disallowed_methods, reason = "reads the sources, and writes the list")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum number of names at the root.
const MAX_ROOT: usize = 60;

/// The keywords before the name of a public item.
const ITEMS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "type", "mod"];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Returns the text of a module of the crate.
fn text_of(module: &str) -> String {
    let file = sources().join(format!("{module}.rs"));
    let file = if file.exists() { file } else { sources().join(module).join("mod.rs") };
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the public names that the text of a module has at its own level.
fn names(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for item in format!("\n{text}").split("\npub ").skip(1) {
        let (keyword, rest) = item.split_once(' ').expect("an item");
        if keyword == "use" {
            let (path, _) = rest.split_once(';').expect("the end of a statement");
            names.extend(imported(path));
        } else if ITEMS.contains(&keyword) {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next();
            names.insert(name.expect("a name").to_owned());
        } else {
            panic!("unknown item `pub {keyword}`");
        }
    }
    names
}

/// Returns the names that a path imports.
fn imported(path: &str) -> Vec<String> {
    let list = path.split_once('{').map_or(path, |(_, rest)| rest);
    let each = list.trim_end_matches('}').split(',').map(str::trim).filter(|it| !it.is_empty());
    let name = |it: &str| it.rsplit([' ', ':']).next().map(str::to_owned);
    each.filter_map(name).collect()
}

#[test]
fn public_names_are_recorded() {
    let root = names(&text_of("lib"));
    assert!(root.len() <= MAX_ROOT, "{} names at the root: {root:?}", root.len());
    let mut found = String::new();
    for name in &root {
        found += &format!("lodstone::{name}\n");
        let has_own = |form: String| sources().join(form).exists();
        if has_own(format!("{name}.rs")) || has_own(format!("{name}/mod.rs")) {
            let inside = names(&text_of(name));
            // A function that is called like its module is at the root.
            inside.iter().filter(|inner| *inner != name).for_each(|inner| {
                found += &format!("lodstone::{name}::{inner}\n");
            });
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/face.txt");
    if std::env::var_os("LODSTONE_REWRITE_EXPECTED").is_some() {
        fs::write(&path, &found).expect("written");
    }
    let expected = fs::read_to_string(&path).expect("the list");
    assert_eq!(found, expected, "set LODSTONE_REWRITE_EXPECTED=1 to rewrite {}", path.display());
}

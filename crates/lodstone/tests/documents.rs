//! What the documents say is compared with the code: lists of frameworks and crates, features, links, paths, counts, lengths.
//!
//! | in a document | compared with |
//! |---|---|
//! | `<!-- runs -->A, B and C<!-- end -->`, also `reads`, `trains` | the frameworks in the table of formats |
//! | links, and paths in code spans | the files and headings of the repository |
//! | the features in the README of a crate | its manifest |
//! | the map of ARCHITECTURE.md | the crates |
//! | files that CONTRIBUTING.md lists | the sources |
//!
//! The limitations of the README are checked in `limitations`, the table of formats and the commands in the tests of the command.

#![expect(clippy::disallowed_methods, reason = "reads the documents")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lodstone::{Capabilities, FORMATS, capabilities};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of a file, by its path in the repository.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the text between two marks.
pub(crate) fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
    let rest = text.split_once(begin).unwrap_or_else(|| panic!("no {begin}")).1;
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
}

/// Returns the code spans in a text without blocks of code.
pub(crate) fn spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns the names in a directory, sorted.
fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(directory)).expect("a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> = entries.map(|it| name(it).into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Returns the crates, by the names of their folders.
fn crates() -> Vec<String> {
    let is_crate = |name: &String| root().join("crates").join(name).join("Cargo.toml").exists();
    names("crates").into_iter().filter(is_crate).collect()
}

/// Returns the paths of all documents.
fn documents() -> Vec<String> {
    let folders = ["", "docs", "docs/formats", "interop"].map(str::to_owned).into_iter();
    let folders = folders.chain(crates().into_iter().map(|name| format!("crates/{name}")));
    let in_folder = |folder: String| {
        let path = move |name: String| Path::new(&folder).join(name).display().to_string();
        names(path(String::new()).as_str()).into_iter().map(path).collect::<Vec<_>>()
    };
    folders.flat_map(in_folder).filter(|path| path.ends_with(".md")).collect()
}

/// Returns the lines outside of blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    text.lines().filter(is_prose).flat_map(|line| [line, "\n"]).collect()
}

/// Whether a format has a capability.
type Has = fn(&Capabilities) -> bool;

/// Returns the frameworks with a format of some capability, in the order of the table: `A, B and C`.
fn frameworks(has: Has) -> String {
    let mut found: Vec<&str> = Vec::new();
    for of in capabilities().iter().filter(|of| has(of)) {
        // Formats that are only read are in no list, and their frameworks have others.
        let Some(format) = FORMATS.iter().find(|format| format.name == of.name) else { continue };
        if !found.contains(&format.framework) {
            found.push(format.framework);
        }
    }
    let (last, others) = found.split_last().expect("a framework");
    if others.is_empty() { (*last).to_owned() } else { format!("{} and {last}", others.join(", ")) }
}

#[test]
fn lists_of_frameworks_are_those_of_the_table_of_formats() {
    let lists: [(&str, Has, usize); 3] = [
        ("<!-- reads -->", |of| of.read, 1),
        ("<!-- runs -->", |of| of.run == Some(true), 1),
        ("<!-- trains -->", |of| of.train == Some(true), 2),
    ];
    let documents: Vec<(String, String)> =
        documents().into_iter().map(|path| (read(&path), path)).collect();
    for (mark, has, least) in lists {
        let (expected, mut count) = (frameworks(has), 0);
        for (text, path) in &documents {
            for found in text.split(mark).skip(1) {
                let found = found.split_once("<!-- end -->").expect("an end of the list").0;
                let found = found.split_whitespace().collect::<Vec<_>>().join(" ");
                assert_eq!(found, expected, "{path}: {mark}");
                count += 1;
            }
        }
        assert!(count >= least, "{count} lists with {mark}");
    }
}

#[test]
fn links_lead_to_files_and_headings() {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for document in documents() {
        let text = prose(&read(&document));
        let folder = Path::new(&document).parent().expect("a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            tried += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => root().join(&document),
                _ => root().join(folder).join(file),
            };
            let has_heading = || {
                let text = fs::read_to_string(&target).expect("a document");
                prose(&text).lines().any(|line| line.starts_with('#') && anchor(line) == heading)
            };
            if !target.exists() || !heading.is_empty() && !has_heading() {
                wrong.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(tried > 80, "{tried} links");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    heading.chars().filter(|c| kept(*c)).collect::<String>().replace(' ', "-")
}

/// Adds the paths below a directory, as they are called from the root.
fn add_paths(directory: &Path, paths: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let relative = path.strip_prefix(root()).expect("below the root").display().to_string();
        let is_built = ["target", ".git"].iter().any(|name| path.ends_with(name));
        if path.is_dir() && !path.is_symlink() && !is_built {
            add_paths(&path, paths);
        }
        paths.push(relative);
    }
}

/// Documents about the code, whose code spans with a slash are paths from the root, from a crate, or from its sources.
const ABOUT_CODE: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];

#[test]
fn paths_in_documents_about_the_code_exist() {
    const ENDS: [&str; 6] = [".rs", ".py", ".tsv", ".toml", ".md", ".txt"];
    let mut paths = Vec::new();
    add_paths(&root(), &mut paths);
    let crates = crates();
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for document in ABOUT_CODE {
        let text = prose(&read(document));
        for span in spans(&text) {
            let is_word = |c: char| c.is_alphanumeric() || "_-./".contains(c);
            let first = span.split('/').next().expect("a part");
            let is_path = span.contains('/') && span.chars().all(is_word)
                || ENDS.iter().any(|end| span.ends_with(end));
            let is_ours = ENDS.iter().any(|end| span.ends_with(end))
                || crates.iter().any(|name| name == first)
                || root().join(first).is_dir();
            // `target` is what builds write.
            let is_pattern = [".", "..", "target"].contains(&first)
                || span.chars().any(|c| c == '*' || c == ' ' || c == '{')
                || span.split(['/', '.']).any(|part| ["NAME", "DIR", "TARGET"].contains(&part));
            if !is_path || !is_ours || is_pattern {
                continue;
            }
            tried += 1;
            let end = format!("/{}", span.trim_end_matches('/'));
            // `schema/conventions.rs` is in `crates/schema/src`.
            let in_sources =
                format!("/{first}/src{}", end.get(first.len() + 1..).expect("its rest"));
            let is_it = |path: &String| {
                let path = format!("/{path}");
                path.ends_with(&end) || path.ends_with(&in_sources)
            };
            if !paths.iter().any(is_it) {
                wrong.push(format!("{document}: {span}"));
            }
        }
    }
    assert!(tried > 100, "{tried} paths");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_crate_has_a_readme_with_its_features() {
    for name in crates() {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let readme = read(&format!("crates/{name}/README.md"));
        let package = format!("name = \"lodstone{}\"", if name == "lodstone" { "" } else { "-" });
        assert!(manifest.contains(package.trim_end_matches('"')), "{name}: {package}");
        assert!(manifest.contains("readme = \"README.md\""), "{name}");
        let features = manifest.split_once("[features]\n").map_or("", |(_, rest)| rest);
        let features = features.split("\n[").next().expect("features");
        let keys: Vec<&str> = features
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(" = "))
            .map(|(key, _)| key)
            .collect();
        let default = features.lines().find(|line| line.starts_with("default = ")).unwrap_or("");
        let expected: BTreeSet<(&str, bool)> = keys
            .into_iter()
            .filter(|key| *key != "default")
            .map(|key| (key, default.contains(&format!("\"{key}\""))))
            .collect();
        let table = readme.split_once("| feature | adds | default |\n|---|---|---|\n");
        let table = table.map_or("", |(_, rest)| rest.split("\n\n").next().expect("rows"));
        let found: BTreeSet<(&str, bool)> =
            table.lines().map(|row| (spans(row)[0], row.ends_with("| yes |"))).collect();
        assert_eq!(found, expected, "the features in the README of {name}");
        if name == "cli" {
            let readme = read("README.md");
            let is_named = |feature: &str| readme.contains(&format!("`{feature}`"));
            assert!(expected.iter().all(|(key, _)| is_named(key)), "the README names all features");
        }
        let has_none = readme.contains("It has no features.");
        assert_eq!(has_none, expected.is_empty(), "{name}");
        // Front pages of documentation are longer.
        let is_long = ["engine", "python"].contains(&name.as_str());
        assert!(is_long || readme.lines().count() <= 16, "the README of {name} is long");
    }
}

#[test]
fn the_map_of_the_architecture_has_each_crate_once() {
    let text = read("ARCHITECTURE.md");
    let map = text.split_once("## The crates\n").expect("the map").1;
    let map = map.split("\n## ").next().expect("the map");
    let rows = map
        .lines()
        .filter(|line| line.starts_with("| **"))
        .map(|line| line.trim_start_matches("| **"));
    let mut found: Vec<String> =
        rows.map(|row| row.split("**").next().expect("a name").to_owned()).collect();
    found.sort();
    assert_eq!(found, crates());
}

#[test]
fn the_places_and_entries_of_a_format_are_counted() {
    let contributing = read("CONTRIBUTING.md");
    let section = between(&contributing, "## Adding a format\n", "\n## ");
    let entries = section.lines().filter(|line| line.starts_with("| `")).count();
    let architecture = read("ARCHITECTURE.md");
    let counted = between(&architecture, "<!-- entries -->", "<!-- end -->");
    assert_eq!(counted, entries.to_string(), "the entries that CONTRIBUTING.md lists");
    let is_numbered =
        |line: &&str| line.split_once(". ").is_some_and(|(start, _)| start.parse::<u8>().is_ok());
    let new = section.lines().filter(is_numbered).count();
    let places = between(&contributing, "<!-- places -->", "<!-- end -->");
    assert_eq!(places, (new + entries).to_string(), "the places that CONTRIBUTING.md lists");
}

/// Returns the number of lines outside of marked tables, which are generated.
fn unmarked(text: &str) -> usize {
    let (mut is_marked, mut count) = (false, 0);
    for line in text.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("<!-- ") {
            is_marked = !line.starts_with("<!-- end");
        } else if !is_marked {
            count += 1;
        }
    }
    count
}

/// `cargo xtask bench --document` replaces what is between these marks.
#[test]
fn the_tables_of_benchmarks_have_the_marks_that_the_task_replaces() {
    let (task, page) = (read("xtask/src/bench.rs"), read("docs/benchmarks.md"));
    let marks =
        task.split("\"<!-- ").skip(1).map(|rest| rest.split(" -->").next().expect("a name"));
    let marks: Vec<&str> = marks.collect();
    assert!(marks.len() > 20, "{marks:?}");
    for mark in marks {
        assert_eq!(page.matches(&format!("<!-- {mark} -->\n")).count(), 1, "{mark}");
    }
}

#[test]
fn each_missed_target_of_a_benchmark_has_its_reason() {
    let text = read("docs/benchmarks.md");
    let reasons = between(&text, "## Missed targets\n", "\n## ");
    let mut tried = 0;
    for row in text.lines().filter(|line| line.contains("| **Lodstone**")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [.., ratio, target] = cells[..] else { panic!("{row}") };
        if target.is_empty() {
            continue;
        }
        let number = |cell: &str| cell.parse::<f64>().expect("a number");
        tried += 1;
        let is_met = number(ratio) >= number(target);
        assert!(is_met || reasons.contains(ratio), "no reason for {ratio}: {row}");
    }
    assert!(tried > 40, "{tried} targets");
}

#[test]
fn documents_are_short() {
    let (most, width) = (150, 140);
    let architecture = read("ARCHITECTURE.md");
    assert!(architecture.lines().count() <= most, "{} lines", architecture.lines().count());
    for line in architecture.lines().filter(|line| !line.starts_with('|')) {
        assert!(line.chars().count() <= width, "a long line: {line}");
    }
    let benchmarks = unmarked(&read("docs/benchmarks.md"));
    assert!(
        benchmarks <= 100,
        "{benchmarks} lines of benchmarks.md are outside of generated tables"
    );
}

#[test]
fn the_changelog_has_the_version_and_the_known_sections() {
    const SECTIONS: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];
    let text = read("CHANGELOG.md");
    let mut releases = text.lines().filter_map(|line| line.strip_prefix("## "));
    assert_eq!(releases.next(), Some("Unreleased"));
    let mut dates = Vec::new();
    for (number, release) in releases.enumerate() {
        let (version, date) = release.split_once(" - ").expect("a version and a date");
        assert!(number > 0 || version == env!("CARGO_PKG_VERSION"), "the newest is {version}");
        let shape: String =
            date.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00", "{release}");
        dates.push(date);
    }
    assert!(dates.is_sorted_by(|a, b| a >= b), "{dates:?}");
    for section in text.lines().filter_map(|line| line.strip_prefix("### ")) {
        let (kind, _) = section.split_once(": ").unwrap_or((section, ""));
        assert!(SECTIONS.contains(&kind), "{section}");
    }
}

/// Returns the source files of the crates with their texts, by path below `crates`.
fn sources() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for name in crates() {
        let source = root().join("crates").join(name).join("src");
        add_paths(&source, &mut paths);
    }
    let rust = paths.into_iter().filter(|path| path.ends_with(".rs"));
    rust.map(|path| (path.trim_start_matches("crates/").to_owned(), read(&path))).collect()
}

#[test]
fn unsafe_code_is_only_where_contributing_lists_it() {
    let text = read("CONTRIBUTING.md");
    let listed = between(&text, "<!-- unsafe -->", "<!-- end -->");
    let listed: BTreeSet<String> = spans(listed).into_iter().map(str::to_owned).collect();
    let allows = |text: &str| {
        text.lines().any(|line| line.contains("(unsafe_code") && line.contains("expect"))
            || text.contains("allow(unsafe_code")
    };
    let found = sources().into_iter().filter(|(_, text)| allows(text)).map(|(path, _)| path);
    assert_eq!(listed, found.collect());
}

#[test]
fn most_files_have_the_size_that_contributing_asks_for() {
    let sizes: Vec<usize> = sources().iter().map(|(_, text)| text.lines().count()).collect();
    assert!(sizes.len() > 800, "{} files are not all", sizes.len());
    let fit = sizes.iter().filter(|size| (50..=400).contains(*size)).count();
    assert!(fit * 100 >= sizes.len() * 80, "{fit} of {} files have 50 to 400 lines", sizes.len());
}

#[test]
fn the_kinds_of_glow_are_counted() {
    let text = read("docs/formats/glow.md");
    let all = lodstone_schema::glow::nodes().len();
    let table = between(&text, "| kind | reason |\n|---|---|\n", "\n\n");
    let rows = table.lines().filter_map(|row| row.split(" | ").next());
    let without: Vec<&str> = rows.flat_map(spans).collect();
    for kind in &without {
        assert!(lodstone_schema::glow::node(kind).is_some(), "{kind}");
    }
    let supported = all - without.len();
    assert!(text.contains(&format!("a node of one of {all} kinds")));
    assert!(text.contains(&format!("Of the {all} kinds, {supported} are supported")));
}

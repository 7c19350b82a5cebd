//! Pickles that attack: each is refused by name or shown to be harmless, nothing is executed, and a
//! scan lists what it would have called. `hostile/pickle/make_attacks.py` makes them.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use lodstone_formats::{mxnet_states, paddle_pickle, pickle};
use lodstone_model::Limits;
use lodstone_store::Blob;
use serde::Deserialize;
use support::counting::{Counting, peak_of};
use support::{blob, bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Deserialize)]
struct Attack {
    file: String,
    /// Words of the error; none for a file that is harmless.
    error: Option<Vec<String>>,
    /// What a scan has to list, as `module.name`.
    calls: Vec<String>,
}

fn attacks() -> Vec<(Attack, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/pickle");
    let index = bytes(&directory.join("index.json"));
    let attacks: Vec<Attack> = serde_json::from_slice(&index).expect("an index");
    assert!(attacks.len() > 100);
    let with_bytes = attacks.into_iter().map(|attack| {
        let content = bytes(&directory.join(&attack.file));
        (attack, content)
    });
    with_bytes.collect()
}

#[test]
fn every_attack_is_refused_by_what_it_is_and_none_is_executed() {
    for (attack, content) in attacks() {
        let blob = blob(&content);
        let limits = Limits::default();
        let (result, peak) = peak_of(|| {
            catch_unwind(AssertUnwindSafe(|| paddle_pickle::read_blob(&blob, &limits).map(|_| ())))
        });
        let file = &attack.file;
        assert!(peak < content.len() * 200 + (4 << 20), "{file}: {peak} for {}", content.len());
        match (result.expect("no panic"), attack.error) {
            (Ok(()), None) => {}
            (Ok(()), Some(words)) => panic!("{file} is taken; expected {words:?}"),
            (Err(error), None) => panic!("{file} is harmless: {error}"),
            (Err(error), Some(words)) => {
                let message = error.to_string();
                for word in words.iter().map(String::as_str).chain(["offset", "expected", "found"])
                {
                    assert!(message.contains(word), "{file}: no {word:?} in: {message}");
                }
                assert!(message.len() < 1500, "{file}: {message}");
            }
        }
    }
}

#[test]
fn states_of_optimizers_are_refused_for_the_same_attacks() {
    for (attack, content) in attacks() {
        let blob = blob(&content);
        let read = || mxnet_states::read_blob(&blob, &Limits::default()).map(|_| ());
        let (result, peak) = peak_of(|| catch_unwind(AssertUnwindSafe(read)));
        let file = &attack.file;
        assert!(peak < content.len() * 200 + (4 << 20), "{file}: {peak} for {}", content.len());
        let taken = result.expect("no panic").is_ok();
        assert!(attack.error.is_none() || !taken, "{file} is taken");
    }
}

#[test]
fn a_scan_lists_what_every_attack_would_call_however_damaged_it_is() {
    for (attack, content) in attacks() {
        let blob = blob(&content);
        let limits = Limits::default();
        let file = &attack.file;
        let (findings, peak) =
            peak_of(|| catch_unwind(AssertUnwindSafe(|| pickle::scan(&blob, &limits))));
        let findings = findings.expect("no panic").expect("a scan");
        assert!(peak < content.len() * 200 + (4 << 20), "{file}: {peak} for {}", content.len());
        let names: Vec<String> =
            findings.iter().map(|found| format!("{}.{}", found.module, found.name)).collect();
        for call in &attack.calls {
            assert!(names.contains(call), "{file}: no {call} in {names:?}");
        }
        assert!(findings.iter().all(|found| found.arguments.len() < 2000), "{file}");
        assert!(findings.iter().all(|found| found.offset < content.len() as u64), "{file}");
    }
}

#[test]
fn a_scan_says_how_and_with_what() {
    let content = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.";
    let findings = pickle::scan(&blob(content), &Limits::default()).expect("a scan");
    let said: Vec<_> = findings
        .iter()
        .map(|f| (f.offset, f.module.as_str(), f.name.as_str(), f.how, f.arguments.as_str()))
        .collect();
    assert_eq!(said, [(2, "os", "system", "import", ""), (21, "os", "system", "reduce", "('id')")]);

    let build = b"\x80\x02ca\nB\n)\x81}X\x01\x00\x00\x00xK\x01sb.";
    let findings = pickle::scan(&blob(build), &Limits::default()).expect("a scan");
    let how: Vec<&str> = findings.iter().map(|found| found.how).collect();
    assert_eq!(how, ["import", "newobj", "build"]);
    assert_eq!(findings[2].arguments, "{'x': 1}");
}

#[test]
fn honest_files_have_no_findings_but_those_of_arrays() {
    let golden = support::golden().with_file_name("paddle_pickle");
    for case in support::facts::cases(&golden) {
        let blob = Blob::open(&golden.join(&case.path), true).expect("a file");
        let allowed = [
            "numpy",
            "numpy.core.multiarray",
            "numpy._core.multiarray",
            "builtins",
            "__builtin__",
            "_codecs",
            "collections",
            "numpy.core.numeric",
            "numpy._core.numeric",
        ];
        for found in pickle::scan(&blob, &Limits::default()).expect("a scan") {
            assert!(allowed.contains(&found.module.as_str()), "{}: {found:?}", case.path);
        }
    }
}

#[test]
fn a_scan_of_what_is_no_pickle_ends_soon_and_finds_nothing() {
    let mut random = support::Random::new(3);
    let noise: Vec<u8> = (0..4 << 20).map(|_| random.next().to_be_bytes()[0]).collect();
    assert_eq!(pickle::scan(&blob(&noise), &Limits::default()).expect("a scan"), []);
    let starts: Vec<u8> = b"\x80\x02".repeat(2 << 20);
    assert_eq!(pickle::scan(&blob(&starts), &Limits::default()).expect("a scan"), []);
}

/// Prints what a scan finds and what the reader says of each file of a directory, for a comparison
/// with CPython: `PICKLES=DIR cargo test -p lodstone-formats --test pickle_attacks -- --ignored`.
#[test]
#[ignore = "needs files"]
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn say_what_is_found() {
    let directory = PathBuf::from(std::env::var_os("PICKLES").expect("a directory"));
    for entry in lodstone_store::list_dir(&directory).expect("a directory") {
        let content = bytes(&directory.join(&entry.name));
        let read = paddle_pickle::read_blob(&blob(&content), &Limits::default());
        let found = pickle::scan(&blob(&content), &Limits::default()).expect("a scan");
        let imports = found.iter().filter(|found| found.how == "import");
        let imports: Vec<_> = imports.map(|f| format!("{}.{}", f.module, f.name)).collect();
        let line = serde_json::json!({
            "file": entry.name, "imports": imports,
            "read": read.map_or_else(|error| error.to_string(), |model| format!("ok {}", model.parameters.len())),
        });
        println!("{line}");
    }
}

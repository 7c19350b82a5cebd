//! Hostile pickles: each is rejected by name or shown to be harmless, nothing is executed, and a
//! scan lists what it would have called. `hostile/pickle/make_attacks.py` creates them.

use crate::support;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::support::counting::peak_of;
use crate::support::{blob, bytes};
use lodstone_formats::encoding::pickle;
use lodstone_formats::{mxnet, paddle};
use lodstone_model::Limits;
use lodstone_store::Blob;
use lodstone_store::Location;
use serde::Deserialize;

#[derive(Deserialize)]
struct Attack {
    file: String,
    /// Parts of the error; `None` for a harmless file.
    error: Option<Vec<String>>,
    /// What a scan must list, as `module.name`.
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
fn every_attack_is_rejected_with_its_reason_and_none_is_executed() {
    for (attack, content) in attacks() {
        let blob = blob(&content);
        let limits = Limits::default();
        let (result, peak) = peak_of(|| {
            catch_unwind(AssertUnwindSafe(|| paddle::pickle::read_blob(&blob, &limits).map(|_| ())))
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
        let read = || mxnet::states::read_blob(&blob, &Limits::default()).map(|_| ());
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
fn a_scan_reports_operations_and_arguments() {
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
        let blob = Blob::open(golden.join(&case.path), true).expect("a file");
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
fn a_scan_of_other_files_ends_soon_without_findings() {
    let mut random = support::Random::new(3);
    let noise: Vec<u8> = (0..4 << 20).map(|_| random.next().to_be_bytes()[0]).collect();
    assert_eq!(pickle::scan(&blob(&noise), &Limits::default()).expect("a scan"), []);
    let starts: Vec<u8> = b"\x80\x02".repeat(2 << 20);
    assert_eq!(pickle::scan(&blob(&starts), &Limits::default()).expect("a scan"), []);
}

/// Returns what a pickle of protocol 2 that begins with `before` calls.
const CALL: &[u8] = b"cos\nsystem\n(S'id'\ntR.";

fn found(content: &[u8]) -> Vec<(&'static str, String)> {
    let findings = pickle::scan(&blob(content), &Limits::default()).expect("a scan");
    findings.into_iter().map(|f| (f.how, format!("{}.{}", f.module, f.name))).collect()
}

#[test]
fn a_scan_reads_the_numbers_that_cpython_reads() {
    let long = [b"\x8b\xd0\x07\0\0".as_slice(), &[1; 2000]].concat();
    let digits = [b"L".as_slice(), &[b'1'; 2000], b"L\n"].concat();
    let zeros = [b"Np".as_slice(), &[b'0'; 2000], b"\n"].concat();
    let others: [&[u8]; 5] = [b"I0x10\n", b"L0b11L\n", b"L1_000L\n", b"Np1_0\n", b"F1_0.5\n"];
    for number in others.into_iter().chain([long.as_slice(), &digits, &zeros]) {
        let content = [b"\x80\x02".as_slice(), number, b"0", CALL].concat();
        let named = ("reduce", "os.system".to_owned());
        assert!(found(&content).contains(&named), "{}", number.escape_ascii());
    }
}

#[test]
fn a_scan_reports_where_it_stopped() {
    let calls = b"h\x01)R0".repeat(100_001);
    let many = [b"\x80\x02cnumpy\ndtype\nq\x01".as_slice(), &calls, CALL].concat();
    let pickles = [b"N.".repeat(5000).as_slice(), CALL].concat();
    for content in [many, pickles] {
        assert!(found(&content).iter().any(|(how, _)| *how == "limit"));
    }
    let limits = Limits::default().with_nodes(10);
    let content = [b"\x80\x02".as_slice(), &b"N0".repeat(20), CALL].concat();
    let findings = pickle::scan(&blob(&content), &limits).expect("a scan");
    assert_eq!(findings.iter().map(|finding| finding.how).collect::<Vec<_>>(), ["limit"]);
}

#[test]
fn a_scan_lists_imports_that_are_passed_on_or_patched() {
    let state = b"\x80\x02ca\nB\n)Rcc\nD\n\x85b.";
    assert!(found(state).contains(&("value", "c.D".to_owned())), "{:?}", found(state));
    let class = b"\x80\x02ca\nB\nN}X\x01\0\0\0xcc\nD\ns\x86b.";
    let listed = found(class);
    assert!(listed.contains(&("patch", "a.B".to_owned())), "{listed:?}");
    assert!(listed.contains(&("value", "c.D".to_owned())), "{listed:?}");
}

#[test]
fn numbers_of_extensions_are_found_in_pickles_and_not_in_what_follows_them() {
    let call = b"\x82\x01)R.";
    for start in [b"\x80\x02".as_slice(), b"\x80\x02N.", b"\x80\x02N.\x80\x02N."] {
        let content = [start, call].concat();
        let how: Vec<_> = found(&content).into_iter().map(|(how, _)| how).collect();
        assert_eq!(how, ["extension", "reduce"], "{}", start.escape_ascii());
    }
    // The data of a tensor, as written by PyTorch until 1.5.
    for raw in [b"\x80\x02\x82\x01)R.".as_slice(), b"\x80\x02R.", b"\x80\x02\x83\x01\x01."] {
        let content = [b"\x80\x02N.\x04\0\0\0\0\0\0\0".as_slice(), raw].concat();
        assert_eq!(found(&content), [], "{}", raw.escape_ascii());
    }
}

#[test]
fn long_names_of_repeated_imports_are_truncated() {
    let name = [b"X\x60\xea\0\0".as_slice(), &[b'a'; 60_000], b"q\0"].concat();
    let content = [b"\x80\x02".as_slice(), &name, &b"h\0h\0\x930".repeat(50_000), b"."].concat();
    let (found, peak) = peak_of(|| found(&content));
    assert_eq!(found.len(), 50_000);
    assert!(peak < 256 << 20, "{peak}");
    // A merely long name is reported.
    let class = format!("c{}\nB\n.", "a.".repeat(100));
    assert!(self::found(class.as_bytes())[0].1.starts_with("a.a.a."));
}

#[test]
fn lists_of_words_call_nothing() {
    let limits = Limits::default();
    for words in ["cat\ndog\nbird\n", "iguana\nzebra\n", "cat\ndog\n0\n", "car\nbus\n.\n"] {
        assert_eq!(pickle::scan_calls(&blob(words.as_bytes()), &limits), [], "{words}");
    }
    assert!(!pickle::scan_calls(&blob(CALL), &limits).is_empty());
}

/// Prints the findings of a scan and the error of the reader for each file of a directory, for a comparison
/// with CPython: `PICKLES=DIR cargo test --locked -p lodstone-formats --test all -- pickle_attacks:: --ignored`.
#[test]
#[ignore = "needs files"]
#[expect(clippy::print_stdout, reason = "prints the comparison")]
fn say_what_is_found() {
    let directory = PathBuf::from(std::env::var_os("PICKLES").expect("a directory"));
    for entry in Location::from(&directory).list().expect("a directory") {
        let content = bytes(&directory.join(&entry.name));
        let read = paddle::pickle::read_blob(&blob(&content), &Limits::default());
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

//! Small files that could expand to large ones or to long work: deflated data, nested
//! archives, and values of one byte that are structures in memory.

#![expect(clippy::disallowed_methods, reason = "tests create files directly")]
#![expect(clippy::disallowed_types, reason = "a sparse file of zeros")]

use std::collections::HashSet;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use crate::generate::build::zip;
use crate::support::counting::peak_of;
use crate::support::subjects::subject;
use crate::support::{blob, varint};
use lodstone_formats::{Effort, OpenOptions, Pickles, Seal, paddle, pickles};
use lodstone_model::Limits;
use lodstone_store::{Commit, Location, Progress, SEAL, checksum};

const MIB: usize = 1 << 20;

/// Scans the pickles in a file, and returns the peak memory; fails on a timeout.
fn looked_through(file: Vec<u8>) -> (Pickles, usize) {
    let (say, hear) = mpsc::channel();
    std::thread::spawn(move || {
        let blob = blob(&file);
        let (limits, mut effort) = (Limits::default(), Effort::default());
        let looked = peak_of(|| {
            pickles(&Location::from(Path::new("model.pt")), &blob, &limits, &mut effort)
        });
        say.send((looked.0.expect("a look"), looked.1)).expect("somebody hears");
    });
    hear.recv_timeout(Duration::from_secs(60)).expect("a scan that ends")
}

fn hows(found: &Pickles) -> Vec<&str> {
    found.findings.iter().map(|(_, finding)| finding.how).collect()
}

#[test]
fn values_of_a_deflated_pickle_are_bounded_by_the_file() {
    let values = [b"\x80\x02", &b"N".repeat(64 * MIB)[..], b"."].concat();
    let file = zip([(&b"data.pkl"[..], &values[..])], true);
    assert!(file.len() < 128 << 10, "{}", file.len());
    let (found, peak) = looked_through(file);
    // The finding `limit` reports that the rest was not inspected.
    assert!(hows(&found).contains(&"limit"), "{:?}", hows(&found));
    assert!(peak < 400 * MIB, "{peak}");
}

#[test]
fn a_deflated_pickle_is_inflated_once_despite_backward_seeks() {
    let lines = b"cos\nsystem\n0".repeat(400_000);
    let late = b"cposix\nsystem\n.";
    let file = zip([(&b"data.pkl"[..], &[b"\x80\x02", &lines[..], late].concat()[..])], true);
    let (found, _) = looked_through(file);
    assert!(found.findings.len() > 50_000, "{}", found.findings.len());
}

#[test]
fn opcodes_of_many_deflated_pickles_are_bounded_together() {
    // They create no value, and another pickle may begin at each.
    let protocols = b"\x80\x02".repeat(8 * MIB);
    let names: Vec<String> = (0..32).map(|number| format!("{number}.pkl")).collect();
    let file = zip(names.iter().map(|name| (name.as_bytes(), &protocols[..])), true);
    assert!(file.len() < MIB, "{}", file.len());
    let (found, _) = looked_through(file);
    // Each member has a finding with the offset where the inspection stopped, or is reported as unread.
    let cut = found.findings.iter().filter(|(_, finding)| finding.how == "limit");
    let said: HashSet<_> = cut.clone().filter_map(|(member, _)| member.clone()).collect();
    let unread: HashSet<_> = found.unread.iter().filter_map(|(member, _)| member.clone()).collect();
    assert_eq!(said.union(&unread).count(), 32, "{said:?} {unread:?}");
    let opcodes: u64 = cut.map(|(_, finding)| finding.offset / 2).sum();
    assert!(opcodes <= 32 << 20, "{opcodes}");
}

#[test]
fn files_that_are_scanned_together_share_a_budget() {
    let protocols = b"\x80\x02".repeat(40 * MIB);
    let file = blob(&zip([(&b"data.pkl"[..], &protocols[..])], true));
    let (limits, mut effort) = (Limits::default(), Effort::default());
    let mut looked_at = || {
        let found = pickles(&Location::from(Path::new("model.pt")), &file, &limits, &mut effort)
            .expect("a look");
        let cut = found.findings.iter().find(|(_, finding)| finding.how == "limit");
        cut.expect("that not all was looked at").1.offset
    };
    let (first, second) = (looked_at(), looked_at());
    assert!(first > 60 << 20 && second < 1 << 20, "{first}, {second}");
}

/// Builds a tape archive.
fn tar<'a>(members: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut file = Vec::new();
    for (name, bytes) in members {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..263].copy_from_slice(b"ustar\0");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        file.extend(header);
        file.extend(bytes);
        file.resize(file.len().next_multiple_of(512), 0);
    }
    file
}

#[test]
fn a_deflated_archive_of_many_members_is_inflated_once() {
    let names: Vec<String> = (0..20_000).map(|number| format!("{number}.pkl")).collect();
    let attack = b"\x80\x02cos\nsystem\n.";
    let inner = tar(names.iter().map(|name| (name.as_str(), &attack[..])));
    let (found, _) = looked_through(zip([(&b"a.tar"[..], &inner[..])], true));
    assert_eq!(found.findings.len(), 20_000);
}

#[test]
fn nested_archives_do_not_multiply_the_work() {
    let zeros = vec![0; 32 * MIB];
    let inner = zip([(&b"x.npy"[..], &zeros[..]), (b"y.pkl", &zeros)], true);
    let names: Vec<String> = (0..200).map(|number| format!("{number}.zip")).collect();
    let members = names.iter().map(|name| (name.as_bytes(), &inner[..]));
    let file = zip(members, true);
    assert!(file.len() < MIB, "{}", file.len());
    // Without a limit, each would be inflated: 200 times 64 MiB.
    let (found, peak) = looked_through(file);
    assert!(peak < 800 * MIB, "{peak}");
    let unread = found.unread.iter().filter(|(_, why)| why.contains("deflated"));
    assert!(unread.count() > 100, "{:?}", found.unread.len());
}

#[test]
fn calls_of_a_damaged_member_are_listed_up_to_the_damage() {
    let attack = b"\x80\x02cos\nsystem\nX\x02\0\0\0id\x85R.";
    let mut wrong = zip([(&b"data.pkl"[..], &attack[..])], true);
    // Change the checksum in both headers.
    let directory = wrong.windows(4).position(|window| window == b"PK\x01\x02").expect("there");
    for place in [14, directory + 16] {
        wrong[place] ^= 1;
    }
    let (found, _) = looked_through(wrong);
    assert_eq!(hows(&found), ["import", "reduce"]);
    assert!(found.ambiguous.is_some_and(|why| why.contains("CRC-32")));
}

/// Returns the shortest seal of a file `x` with one byte per part.
fn dense_seal(parts: usize) -> Vec<u8> {
    let part = |offset| format!(r#"[null,{offset},1,["0123456789abcdef"]]"#);
    let parts_text = (0..parts).map(part).collect::<Vec<_>>().join(",");
    let start = r#"{"schema":1,"checksum":"CRC-64/NVME","piece":16777216,"models":[{"format":"npy","files":[{"name":"x","#;
    let body = format!("{start}\"size\":{parts},\"parts\":[{parts_text}]}}]}}],\n");
    let sum = checksum(body.as_bytes());
    format!("{body}\"self\": \"{sum:016x}\"}}\n").into_bytes()
}

#[test]
fn a_seal_is_a_few_times_its_size_in_memory_and_is_written_from_there() {
    let scratch = tempfile::tempdir().expect("a directory");
    let load = || Seal::load(&Location::from(scratch.path())).expect("a seal").expect("there");
    // One more part than a power of two, the worst case for doubling.
    let bytes = dense_seal((1 << 18) + 1);
    std::fs::write(scratch.path().join(SEAL), &bytes).expect("written");
    let (seal, peak) = peak_of(load);
    assert!(peak < 5 * bytes.len(), "{peak} for {}", bytes.len());
    let mut commit = Commit::existing(scratch.path(), Progress::default()).expect("a directory");
    let (written, peak) = peak_of(|| commit.write_seal(|out| seal.write(out)));
    written.expect("written");
    assert!(peak < 2 * MIB, "{peak}");
    commit.publish().expect("published");
    assert_eq!(load().file("x").expect("sealed").checks.parts().len(), (1 << 18) + 1);
}

#[test]
fn a_seal_over_the_size_limit_is_neither_read_nor_written() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join(SEAL);
    std::fs::File::create(&path).and_then(|file| file.set_len((128 << 20) + 1)).expect("a file");
    let (error, peak) =
        peak_of(|| Seal::load(&Location::from(scratch.path())).expect_err("too large"));
    assert!(error.to_string().contains("134217728"), "{error}");
    assert!(peak < MIB, "{peak}");

    // Indented, it is five times as large.
    std::fs::write(&path, dense_seal(1 << 20)).expect("written");
    let seal = Seal::load(&Location::from(scratch.path())).expect("a seal").expect("there");
    let mut commit = Commit::existing(scratch.path(), Progress::default()).expect("a directory");
    let error = commit.write_seal(|out| seal.write(out)).expect_err("too large");
    assert!(error.to_string().contains("134217728"), "{error}");
}

#[test]
fn a_value_of_two_bytes_does_not_become_a_structure_in_memory() {
    let many = format!("[0{}]", ",0".repeat(MIB));
    let node = format!(r#"{{"op":"null","name":"x","attrs":{{"a":{many}}}}}"#);
    let graph = |nodes: &str, attrs: &str| {
        format!(r#"{{"nodes":[{nodes}],"arg_nodes":[],"heads":[],"attrs":{attrs}}}"#)
    };
    let symbol = subject("mxnet-symbol");
    assert!(!symbol.takes(graph(&node, "{}").as_bytes(), "values in an attribute"));
    let settings = graph("", &format!(r#"{{"mxnet_version":{many}}}"#));
    assert!(symbol.takes(settings.as_bytes(), "values in a setting"));

    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("net.json");
    let stream = [&[0; 16][..], &2u32.to_le_bytes(), &[8, 5], &[0; 4]].concat();
    std::fs::write(scratch.path().join("net.pdiparams"), stream).expect("a file");
    for kind in ["p", "1.data", "1.add"] {
        for key in ["A", "O", "OA"] {
            let text = format!(
                r##"{{"base_code":{{"magic":"pir"}},"program":{{"regions":[{{"blocks":[{{"ops":[{{"#":"{kind}","{key}":{many}}}]}}]}}]}}}}"##
            );
            std::fs::write(&path, &text).expect("a file");
            let (result, peak) =
                peak_of(|| paddle::open(&Location::from(&path), &OpenOptions::default()));
            let error = result.expect_err("no parameters").to_string();
            assert!(peak < 4 * text.len(), "{kind} {key}: {peak} for {}", text.len());
            let word = match (kind, key) {
                ("p", "A" | "OA") => "at most 65536 bytes",
                ("p", "O") => "the name of a parameter",
                _ => "invalid type",
            };
            assert!(error.contains(word), "{kind} {key}: {error}");
        }
    }
}

/// Returns `count` empty messages in field `number` of the innermost of the nested messages `inside`.
fn empty_messages(inside: &[u8], number: u8, count: usize) -> Vec<u8> {
    let tag = |number: u8| varint(u64::from(number) << 3 | 2);
    let empty = [tag(number), vec![0]].concat();
    let mut bytes = empty.repeat(count);
    for outer in inside.iter().rev() {
        bytes = [tag(*outer), varint(bytes.len() as u64), bytes].concat();
    }
    bytes
}

#[test]
fn empty_messages_of_onnx_stay_within_the_documented_expansion() {
    // `graph` 7: `node` 1, `initializer` 5, `input` 11, `output` 12, `value_info` 13, `quantization_annotation` 14,
    // `sparse_initializer` 15; of a node `input` 1, `output` 2, `attribute` 5; of an attribute `strings` 9,
    // `tensors` 10, `graphs` 11, `type_protos` 15; of the model `metadata_props` 14, `functions` 25.
    let fields: [(&[u8], u8); 17] = [
        (&[7], 1),
        (&[7], 5),
        (&[7], 11),
        (&[7], 12),
        (&[7], 13),
        (&[7], 14),
        (&[7], 15),
        (&[7, 1], 1),
        (&[7, 1], 2),
        (&[7, 1], 5),
        (&[7, 1, 5], 9),
        (&[7, 1, 5], 10),
        (&[7, 1, 5], 11),
        (&[7, 1, 5], 15),
        (&[], 8),
        (&[], 14),
        (&[], 25),
    ];
    for (inside, number) in fields {
        let model = b"\x08\x08\x42\x02\x10\x12";
        let graph = if inside.is_empty() { &b"\x3a\x00"[..] } else { b"" };
        let many = empty_messages(inside, number, 300_000);
        let bytes = [&model[..], &many, graph].concat();
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("m.onnx");
        std::fs::write(&path, &bytes).expect("written");
        let (read, peak) = peak_of(|| {
            (lodstone_formats::onnx::BINARY.read)(&Location::from(&path), &OpenOptions::default())
        });
        if let Err(error) = &read {
            let says = error.to_string();
            // An empty sparse tensor is invalid.
            let is_none =
                (inside, number) == (&[7], 15) && says.contains("values of a sparse tensor");
            assert!(is_none || says.contains("limit of this reader"), "{inside:?}: {error}");
        }
        let most = bytes.len() * 72 + 2 * MIB;
        assert!(peak <= most, "{inside:?} {number}: {peak} of {most}, {}", read.is_ok());
    }
}

#[test]
fn readers_can_be_cancelled() {
    let bytes = [&b"\x08\x08\x42\x02\x10\x12"[..], &empty_messages(&[7], 1, 10)].concat();
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.onnx");
    std::fs::write(&path, &bytes).expect("written");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let progress = Progress::default();
    progress.cancel();
    let options = OpenOptions::default().stopped_by(&progress);
    for (format, path) in [
        (&lodstone_formats::onnx::BINARY, path),
        (&lodstone_formats::paddle::BUNDLE, golden.join("paddle/2.6.2/lenet/saved/lenet.pdmodel")),
        (&lodstone_formats::paddle::PICKLE, golden.join("paddle_pickle/3.3.1/nested.pdparams")),
        (&lodstone_formats::paddle::PARAMS, golden.join("paddle/2.6.2/many.combined")),
    ] {
        let stopped = (format.read)(&Location::from(&path), &options);
        let error = stopped.expect_err("stopped").to_string();
        assert!(error.contains("cancelled"), "{}: {error}", path.display());
    }
}

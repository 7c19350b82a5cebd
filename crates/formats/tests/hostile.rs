//! Damaged and hostile files: an error with a location, what was expected and what was found; no
//! panic, and memory in proportion to the file.

#![expect(clippy::cast_possible_truncation, reason = "golden files are small")]
#![expect(clippy::print_stdout, reason = "reports what was tested")]

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use crate::support::facts::{cases, folder_of};
use crate::support::subjects::{read, subject, subjects};
use crate::support::{Random, bytes, golden, varint};
use lodstone_formats::{OpenOptions, mxnet, paddle, paddle::stream};
use lodstone_model::{Kind, Limits};
use lodstone_store::{Blob, Location};

/// Returns each golden file of a format that is one structure: its path and its bytes.
fn files(format: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = folder_of(format);
    let mut files = Vec::new();
    for case in cases(&directory).iter().filter(|case| case.format == format) {
        let single = case.files.len() == 1 && case.params.is_none();
        let path = directory.join(&case.path);
        // Fields of all wire types, which the walk below does not support.
        // A tape archive ends with any number of zeros.
        let odd = ["unknown-fields.onnx", ".tar"].iter().any(|end| case.path.ends_with(end));
        if single && !odd && !files.iter().any(|(known, _)| *known == path) {
            let content = bytes(&path);
            files.push((path, content));
        }
    }
    assert!(files.len() > 1, "{format}");
    files
}

/// Returns the offsets at which to cut a file: every byte of the headers of all its records, and 64 others.
fn cuts(format: &str, path: &Path, content: &[u8], random: &mut Random) -> Vec<usize> {
    let beyond = (0..64).map(|_| random.below(content.len()));
    let mut places: Vec<usize> = beyond.collect();
    let records = ["paddle-tensor", "paddle-params"].iter().any(|name| format.starts_with(name));
    if !records {
        // All of it is structure, or its end is; later repetitions are sampled.
        let most = if format.starts_with("paddle") { 8192 } else { 4096 };
        places.extend(0..content.len().min(most));
    } else {
        // Everything but elements.
        let file = Blob::open(path, true).expect("a golden file");
        let (layout, tensors) =
            stream::read(&file, &[], &Limits::default()).expect("a golden file");
        let mut start = 0;
        for tensor in tensors {
            let Some((_, data)) = tensor.data.file_range().filter(|_| !layout.lod_last) else {
                continue;
            };
            places.extend(start..data as usize);
            start = (data + tensor.data.len()) as usize;
        }
        // Vocabularies, and the bytes after the elements if the LoD is last.
        let small = content.len().min(1024);
        places.extend((0..small).chain(content.len() - small..content.len()));
    }
    places.sort_unstable();
    places.dedup();
    places
}

#[test]
fn a_cut_file_is_an_error_at_whatever_byte_it_is_cut() {
    let mut random = Random::new(1);
    for subject in subjects() {
        let mut count = 0;
        for (path, content) in files(subject.format.name) {
            // A combined file that ends after a record is a smaller combined file; a program that
            // ends after a block, or in the white space at its end, is a smaller program.
            let whole: Vec<usize> = match subject.format.name {
                "paddle-params" | "paddle-params-sized" => record_ends(&path),
                "paddle-program" => top_level_ends(&content, 1),
                "onnx" | "onnx-glow" => top_level_ends(&content, 7),
                "onnx-tensor" => top_level_ends(&content, 2),
                "paddle-program-text" | "onnx-text" | "onnx-glow-text" => text_ends(&content),
                _ => Vec::new(),
            };
            let places = cuts(subject.format.name, &path, &content, &mut random);
            let places = places.into_iter().filter(|place| !whole.contains(place));
            // Some golden arrays are rejected on purpose.
            if subject.takes(&content, "as it is") {
                count += subject.cut(&path.display().to_string(), &content, places);
            }
        }
        assert!(count > 100, "{}", subject.format.name);
        println!("{}: {count} cuts", subject.format.name);
    }
}

/// Returns the offsets at which records end.
fn record_ends(path: &Path) -> Vec<usize> {
    let file = Blob::open(path, true).unwrap();
    let (layout, tensors) = stream::read(&file, &[], &Limits::default()).unwrap();
    let mut ends = vec![0];
    for tensor in &tensors {
        let start = *ends.last().unwrap();
        ends.push(match &tensor.kind {
            Kind::Vocabulary { tokens } => {
                start + 8 + tokens.iter().map(|(token, _)| token.len() + 12).sum::<usize>()
            }
            _ if layout.sized => {
                let mut size = [0; 8];
                file.read_at(start as u64, &mut size).unwrap();
                start + 8 + u64::from_le_bytes(size) as usize
            }
            _ => (tensor.data.file_range().unwrap().1 + tensor.data.len()) as usize,
        });
    }
    assert_eq!(ends.last().map(|end| *end as u64), Some(file.len()), "{}", path.display());
    ends
}

/// Returns the offsets at which a field of the outermost message ends, from the first field number `needed` on.
fn top_level_ends(content: &[u8], needed: usize) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    let varint = |at: &mut usize| {
        let (mut value, mut shift) = (0usize, 0);
        loop {
            let byte = content[*at];
            *at += 1;
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
            shift += 7;
        }
    };
    let mut seen = false;
    while at < content.len() {
        let tag = varint(&mut at);
        let value = varint(&mut at);
        at += if tag & 7 == 2 { value } else { 0 };
        seen |= tag >> 3 == needed;
        ends.extend(seen.then_some(at));
    }
    ends
}

/// Returns the offsets in a text at which no message is open, after at least one block.
fn text_ends(content: &[u8]) -> Vec<usize> {
    let text = std::str::from_utf8(content).unwrap();
    let closed = text.match_indices("\n}\n").map(|(at, _)| at);
    closed.flat_map(|at| [at + 2, at + 3]).collect()
}

#[test]
fn mutated_files_do_no_harm() {
    for (seed, subject) in (2..).zip(subjects()) {
        // Small files, whose structure a mutation is likely to hit.
        let mut files = files(subject.format.name);
        files.sort_by_key(|(_, content)| content.len());
        files.truncate(16);
        let named = files.into_iter().map(|(path, content)| (path.display().to_string(), content));
        let noticed = subject.mutate(&named.collect::<Vec<_>>(), seed);
        assert!(noticed > 5_000, "{}: only {noticed} mutations were noticed", subject.format.name);
        println!("{}: {noticed} of 10000 mutations are errors", subject.format.name);
    }
}

#[test]
fn wrong_lengths_are_rejected_before_anything_is_allocated() {
    let le = |value: u64| value.to_le_bytes();
    let tensor = |desc: &[u8]| {
        let size = u32::try_from(desc.len()).unwrap().to_le_bytes();
        [&[0; 16][..], &size, desc].concat()
    };
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let dims = |dims: &[&[u8]]| {
        let mut desc = vec![0x08, 0x05];
        dims.iter().for_each(|dim| desc.extend([&[0x10], *dim].concat()));
        tensor(&desc)
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("LoD levels", [&[0; 4][..], &le(u64::MAX), &[0; 20]].concat()),
        ("LoD level size", [&[0; 4][..], &le(1), &le(1 << 62), &[0; 20]].concat()),
        ("odd LoD level", [&[0; 4][..], &le(1), &le(7), &[0; 40]].concat()),
        ("rows", [&[0; 4][..], &le(1 << 61), &[0; 40]].concat()),
        ("description", [&[0; 16][..], &0x7fff_ffff_u32.to_le_bytes(), &[8; 40]].concat()),
        ("negative description", [&[0; 16][..], &[0xff; 4], &[8; 40]].concat()),
        ("dim", dims(&[&huge])),
        ("product of dims", dims(&[&huge, &huge, &[2]])),
        ("negative dim", dims(&[&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]])),
        ("element type", tensor(&[0x08, 0x63])),
        ("record size", [&le(u64::MAX)[..], &[0; 40]].concat()),
        ("record larger than its tensor", [&le(40)[..], &tensor(&[8, 5]), &[0; 18]].concat()),
        ("tokens", [&le(u64::MAX / 2)[..], &[1; 40]].concat()),
        ("token", [&le(1)[..], &le(u64::MAX), &[1; 40]].concat()),
        ("zeros", vec![0; 4096]),
        ("no bytes", Vec::new()),
    ];
    for (what, bytes) in cases {
        assert!(!subject("paddle-tensor").takes(&bytes, what), "{what}");
    }
}

#[test]
fn records_that_look_like_others_cost_no_more_than_their_bytes() {
    // SelectedRows of one row, whose index would be the size of a LoD level to the end of the
    // file: each is first assumed to be a tensor. Reading the level each time would take minutes.
    let record = |left: u64| {
        let mut record = vec![0; 4];
        record.extend(1u64.to_le_bytes());
        record.extend((left / 8 * 8).to_le_bytes());
        record.extend(10u64.to_le_bytes());
        record.extend([0; 4]);
        record.extend(4u32.to_le_bytes());
        record.extend([8, 0, 0x10, 1, 1]);
        record
    };
    let (count, size) = (100_000, record(0).len() as u64);
    let bytes: Vec<u8> = (1..=count).rev().flat_map(|n| record(n * size - 20)).collect();
    assert!(subject("paddle-params").takes(&bytes, "many guesses"));
}

#[test]
fn duplicates_of_singular_messages_are_rejected() {
    let tensor = |dim: u8| vec![0x0a, 4, 0x08, 5, 0x10, dim];
    let lod_tensor = |dim: u8| [&[0x1a, 6][..], &tensor(dim)].concat();
    let var = |kind: Vec<u8>| {
        let kind = [&[0x12, kind.len() as u8][..], &kind].concat();
        let var = [&[0x0a, 1, b'x'][..], &kind].concat();
        let block = [&[0x08, 0, 0x10, 0, 0x1a, var.len() as u8][..], &var].concat();
        [&[0x0a, block.len() as u8][..], &block].concat()
    };
    let once = var([&[0x08, 7][..], &lod_tensor(2)].concat());
    assert!(subject("paddle-program").takes(&once, "once"));
    let twice = var([&[0x08, 7][..], &lod_tensor(2), &lod_tensor(3)].concat());
    let error = read(subject("paddle-program").format, &twice).unwrap_err().to_string();
    assert!(error.contains("expected field 3 once, found a duplicate"), "{error}");
}

#[test]
fn hostile_programs_are_refused_within_bounds() {
    let nested = |tag: u8, levels: usize| {
        let mut bytes = Vec::new();
        (0..levels).for_each(|_| bytes.push(tag));
        bytes
    };
    let cases: Vec<(&str, &str, Vec<u8>)> = vec![
        ("paddle-program", "groups that never end", nested(0x2b, 100_000)),
        ("paddle-program", "length past the end", vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        ("paddle-program", "endless varint", vec![0x0a; 1].into_iter().chain([0xff; 40]).collect()),
        ("paddle-program", "field number 0", vec![0x02, 0x00]),
        ("paddle-program", "wire type 7", vec![0x0f, 0x00]),
        ("paddle-program", "no blocks", vec![0x22, 0x00]),
        ("paddle-program", "empty", Vec::new()),
        ("paddle-program", "block without a number", vec![0x0a, 0x02, 0x10, 0x00]),
        ("paddle-program-text", "open brackets", b"blocks { vars { type {".to_vec()),
        ("paddle-program-text", "an unknown field", b"blocks { secret: 1 }".to_vec()),
        ("paddle-program-text", "string without end", b"blocks { vars { name: \"x }".to_vec()),
        ("paddle-program-text", "number too large", b"blocks { idx: 1e400 }".to_vec()),
        ("paddle-program-text", "wrong bracket", b"blocks { idx: 0 >".to_vec()),
        ("paddle-program-text", "empty", Vec::new()),
    ];
    for (format, what, bytes) in cases {
        assert!(!subject(format).takes(&bytes, what), "{what}");
    }
    // A megabyte of the smallest operators, slots and names.
    for element in [&[0x22, 0x02, 0x1a, 0x00][..], &[0x22, 0x04, 0x1a, 0x00, 0x12, 0x00]] {
        let ops: Vec<u8> = element.iter().copied().cycle().take(1 << 20).collect();
        let mut block = vec![0x08, 0x00, 0x10, 0x00];
        block.extend(&ops[..ops.len() - ops.len() % element.len()]);
        let program = [&[0x0a][..], &varint(block.len() as u64), &block].concat();
        // Some of them are not operators; only the cost matters.
        let _ = subject("paddle-program").takes(&program, "many small operators");
    }
}

#[test]
fn whatever_is_opened_by_its_path_is_a_model_or_an_error() {
    // Scripts and documents among the golden files are not models, and directories contain both.
    fn walk(path: &Path, found: &mut Vec<PathBuf>) {
        found.push(path.to_path_buf());
        for entry in Location::from(path).list().unwrap() {
            let path = path.join(&entry.name);
            if entry.is_dir { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut paths = Vec::new();
    walk(&golden(), &mut paths);
    walk(&golden().with_file_name("mxnet"), &mut paths);
    for path in paths {
        for open in [paddle::open, mxnet::open] {
            let opened = catch_unwind(|| open(&Location::from(&path), &OpenOptions::default()));
            let opened = opened.unwrap_or_else(|_| panic!("panics: {}", path.display()));
            let is_script = path.extension().is_some_and(|end| end == "py" || end == "md");
            assert!(!(is_script && opened.is_ok()), "{}", path.display());
        }
    }
    assert!(Blob::open(Path::new("/nonexistent"), true).is_err());
}

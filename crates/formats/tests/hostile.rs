//! Damaged and hostile files: an error that says where, what was expected and what was found; no
//! panic, and no more memory than the file justifies.

#![expect(clippy::cast_possible_truncation, reason = "golden files are small")]
#![expect(clippy::print_stdout, reason = "says how much was tried")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use lodstone_formats::{OpenOptions, Result, paddle, paddle_program, paddle_stream};
use lodstone_model::{Kind, Limits};
use lodstone_store::{Blob, list_dir};
use support::counting::{Counting, peak_of};
use support::facts::cases;
use support::{Random, blob, bytes, golden, varint};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a reader may hold beyond a small multiple of the file.
const CONSTANT: usize = 64 << 10;

/// The nodes of a program are larger than their bytes: an operator of five bytes is a struct.
const PROGRAM_FACTOR: usize = 64;

/// A tensor is a struct too, and the smallest record, an empty vocabulary, has 8 bytes.
const STREAM_FACTOR: usize = 40;

/// Reads bytes as what the case is, whatever they are now.
fn read(format: &str, bytes: &[u8]) -> Result<usize> {
    let (limits, blob) = (Limits::default(), blob(bytes));
    match format {
        "paddle-program" => paddle_program::read(&blob, "p", &limits).map(|p| p.blocks.len()),
        "paddle-program-text" => {
            paddle_program::read_text(&blob, "p", &limits).map(|p| p.blocks.len())
        }
        _ => paddle_stream::read(&blob, &[], &limits).map(|(_, tensors)| tensors.len()),
    }
}

/// Reads without letting a panic or a waste of memory pass.
fn read_safely(format: &str, bytes: &[u8], what: &str) -> Result<usize> {
    let work = || catch_unwind(AssertUnwindSafe(|| read(format, bytes)));
    let (result, peak) = peak_of(work);
    let result = result.unwrap_or_else(|_| panic!("panics: {what}"));
    let factor = if format.contains("program") { PROGRAM_FACTOR } else { STREAM_FACTOR };
    let allowed = bytes.len() * factor + CONSTANT;
    assert!(peak <= allowed, "{what}: held {peak} bytes for {}", bytes.len());
    if let Err(error) = &result {
        let message = error.to_string();
        assert!(message.contains("expected") && message.contains("found"), "{what}: {message}");
        assert!(message.contains("offset"), "{what}: {message}");
    }
    result
}

/// Each golden file that is one structure, once: its format, its name, its bytes.
fn files() -> Vec<(String, String, Vec<u8>)> {
    let mut files = Vec::new();
    for case in cases(&golden()) {
        let single = case.files.len() == 1 && case.params.is_none();
        if single && !files.iter().any(|(_, path, _)| *path == case.path) {
            let content = bytes(&golden().join(&case.path));
            files.push((case.format, case.path, content));
        }
    }
    assert!(files.len() > 60);
    files
}

/// Where to cut a file: at every byte of the headers of all its records and at 64 places more.
fn cuts(format: &str, path: &str, content: &[u8], random: &mut Random) -> Vec<usize> {
    assert!(!content.is_empty(), "{path}");
    let mut headers: Vec<usize> = match format {
        // All of it is structure; what is the same again further on is left to chance.
        "paddle-program" | "paddle-program-text" => (0..content.len().min(8192)).collect(),
        _ => Vec::new(),
    };
    if !format.contains("program") {
        // Everything but elements.
        let (layout, tensors) =
            paddle_stream::read(&blob(content), &[], &Limits::default()).expect("a golden file");
        let file = Blob::open(&golden().join(path), true).expect("a golden file");
        let (_, placed) = paddle_stream::read(&file, &[], &Limits::default()).expect("the same");
        let mut start = 0;
        for tensor in placed {
            let Some((_, data)) = tensor.data.file_range().filter(|_| !layout.lod_last) else {
                continue;
            };
            let data = data as usize;
            headers.extend(start..data);
            start = data + tensor.data.len() as usize;
        }
        // Vocabularies, and what follows the elements where the LoD does.
        let small = content.len().min(1024);
        headers.extend((0..small).chain(content.len() - small..content.len()));
        assert!(!tensors.is_empty());
    }
    let beyond = (0..64).map(|_| random.below(content.len()));
    headers.extend(beyond);
    headers.sort_unstable();
    headers.dedup();
    headers
}

#[test]
fn a_cut_file_is_an_error_at_whatever_byte_it_is_cut() {
    let mut random = Random::new(1);
    let mut count = 0;
    for (format, path, content) in files() {
        // A combined file that ends after a record is a smaller combined file; a text that ends
        // after a block, or in the white space at its end, is a smaller text.
        let whole: Vec<usize> = match format.as_str() {
            "paddle-params" | "paddle-params-sized" => record_ends(&path),
            "paddle-program" => top_level_ends(&content),
            "paddle-program-text" => text_ends(&content),
            _ => Vec::new(),
        };
        for cut in cuts(&format, &path, &content, &mut random) {
            if whole.contains(&cut) {
                continue;
            }
            let result = read_safely(&format, &content[..cut], &format!("{path} cut at {cut}"));
            assert!(result.is_err(), "{path} cut at {cut} is taken for {result:?}");
            count += 1;
        }
    }
    println!("{count} cuts");
}

/// Offsets at which records end.
fn record_ends(path: &str) -> Vec<usize> {
    let file = Blob::open(&golden().join(path), true).unwrap();
    let (layout, tensors) = paddle_stream::read(&file, &[], &Limits::default()).unwrap();
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
    assert_eq!(ends.last().map(|end| *end as u64), Some(file.len()), "{path}");
    ends
}

/// Offsets at which a field of the outermost message ends, after the first block.
fn top_level_ends(content: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    while at < content.len() {
        at += 1;
        let (mut length, mut shift) = (0usize, 0);
        while content[at] & 0x80 != 0 {
            length |= usize::from(content[at] & 0x7f) << shift;
            (at, shift) = (at + 1, shift + 7);
        }
        length |= usize::from(content[at]) << shift;
        at += 1 + length;
        ends.push(at);
    }
    ends
}

/// Offsets in a text at which no message is open and at least one block was there.
fn text_ends(content: &[u8]) -> Vec<usize> {
    let text = std::str::from_utf8(content).unwrap();
    let closed = text.match_indices("\n}\n").map(|(at, _)| at);
    closed.flat_map(|at| [at + 2, at + 3]).collect()
}

#[test]
fn mutated_files_do_no_harm() {
    let mut random = Random::new(2);
    let files = files();
    for format in [
        "paddle-tensor",
        "paddle-tensor-lod-last",
        "paddle-params",
        "paddle-params-sized",
        "paddle-program",
        "paddle-program-text",
    ] {
        // Small files first: a mutation of one hits its structure.
        let mut of_format: Vec<_> = files.iter().filter(|(known, ..)| known == format).collect();
        of_format.sort_by_key(|(_, _, content)| content.len());
        of_format.truncate(8);
        let mut errors = 0;
        for round in 0..10_000 {
            let (_, path, content) = of_format[random.below(of_format.len())];
            let mutated = mutate(content, &mut random);
            let what = format!("{path}, mutation {round}");
            errors += usize::from(read_safely(format, &mutated, &what).is_err());
        }
        assert!(errors > 1000, "{format}: only {errors} mutations were noticed");
        println!("{format}: {errors} of 10000 mutations are errors");
    }
}

/// Flips, sets, removes, repeats or moves some bytes.
fn mutate(content: &[u8], random: &mut Random) -> Vec<u8> {
    const INTERESTING: [u8; 8] = [0, 1, 8, 0x7f, 0x80, 0xfe, 0xff, 0x0a];
    let mut bytes = content.to_vec();
    for _ in 0..=random.below(4) {
        let near = if random.below(2) == 0 { bytes.len().min(128) } else { bytes.len() };
        let at = random.below(near.max(1));
        let len = random.below(16).min(bytes.len() - at.min(bytes.len()));
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = INTERESTING[random.below(8)],
            2 => drop(bytes.drain(at..at + len)),
            3 => {
                let piece: Vec<u8> = bytes[at..at + len].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes[at..at + len].fill(INTERESTING[random.below(8)]),
        }
    }
    bytes
}

#[test]
fn lying_lengths_are_refused_before_anything_is_allocated() {
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
        ("extent", dims(&[&huge])),
        ("product of extents", dims(&[&huge, &huge, &[2]])),
        ("negative extent", dims(&[&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]])),
        ("element type", tensor(&[0x08, 0x63])),
        ("record size", [&le(u64::MAX)[..], &[0; 40]].concat()),
        ("record larger than its tensor", [&le(40)[..], &tensor(&[8, 5]), &[0; 18]].concat()),
        ("tokens", [&le(u64::MAX / 2)[..], &[1; 40]].concat()),
        ("token", [&le(1)[..], &le(u64::MAX), &[1; 40]].concat()),
        ("zeros", vec![0; 4096]),
        ("no bytes", Vec::new()),
    ];
    for (what, bytes) in cases {
        let result = read_safely("paddle-tensor", &bytes, what);
        assert!(result.is_err(), "{what} is taken for {result:?}");
    }
}

#[test]
fn records_that_look_like_others_cost_no_more_than_their_bytes() {
    // SelectedRows of one row, whose number would be the size of a LoD level to the end of the
    // file: each is guessed to be a tensor first. Reading the level each time would take minutes.
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
    let result = read_safely("paddle-params", &bytes, "many guesses").unwrap();
    assert_eq!(result as u64, count);
}

#[test]
fn a_message_that_may_be_there_once_is_not_taken_twice() {
    let tensor = |dim: u8| vec![0x0a, 4, 0x08, 5, 0x10, dim];
    let lod_tensor = |dim: u8| [&[0x1a, 6][..], &tensor(dim)].concat();
    let var = |kind: Vec<u8>| {
        let kind = [&[0x12, kind.len() as u8][..], &kind].concat();
        let var = [&[0x0a, 1, b'x'][..], &kind].concat();
        let block = [&[0x08, 0, 0x10, 0, 0x1a, var.len() as u8][..], &var].concat();
        [&[0x0a, block.len() as u8][..], &block].concat()
    };
    let once = var([&[0x08, 7][..], &lod_tensor(2)].concat());
    assert_eq!(read_safely("paddle-program", &once, "once").unwrap(), 1);
    let twice = var([&[0x08, 7][..], &lod_tensor(2), &lod_tensor(3)].concat());
    let error = read_safely("paddle-program", &twice, "twice").unwrap_err().to_string();
    assert!(error.contains("expected field 3 once, found it again"), "{error}");
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
        ("paddle-program-text", "a field nobody knows", b"blocks { secret: 1 }".to_vec()),
        ("paddle-program-text", "string without end", b"blocks { vars { name: \"x }".to_vec()),
        ("paddle-program-text", "number too large", b"blocks { idx: 1e400 }".to_vec()),
        ("paddle-program-text", "wrong bracket", b"blocks { idx: 0 >".to_vec()),
        ("paddle-program-text", "empty", Vec::new()),
    ];
    for (format, what, bytes) in cases {
        let result = read_safely(format, &bytes, what);
        assert!(result.is_err(), "{what} is taken for {result:?}");
    }
    // A megabyte of the smallest operators, slots and names there are.
    for element in [&[0x22, 0x02, 0x1a, 0x00][..], &[0x22, 0x04, 0x1a, 0x00, 0x12, 0x00]] {
        let ops: Vec<u8> = element.iter().copied().cycle().take(1 << 20).collect();
        let mut block = vec![0x08, 0x00, 0x10, 0x00];
        block.extend(&ops[..ops.len() - ops.len() % element.len()]);
        let program = [&[0x0a][..], &varint(block.len() as u64), &block].concat();
        let _ = read_safely("paddle-program", &program, "many small operators");
    }
}

#[test]
fn whatever_is_opened_by_its_path_is_a_model_or_an_error() {
    // Scripts and documents among the golden files are no models, and directories hold both.
    fn walk(path: &Path, found: &mut Vec<PathBuf>) {
        found.push(path.to_path_buf());
        for entry in list_dir(path).unwrap() {
            let path = path.join(&entry.name);
            if entry.is_dir { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut paths = Vec::new();
    walk(&golden(), &mut paths);
    for path in paths {
        let opened = catch_unwind(|| paddle::open(&path, &OpenOptions::default()));
        let opened = opened.unwrap_or_else(|_| panic!("panics: {}", path.display()));
        let is_script = path.extension().is_some_and(|end| end == "py" || end == "md");
        assert!(!(is_script && opened.is_ok()), "{}", path.display());
    }
    assert!(Blob::open(Path::new("/nonexistent"), true).is_err());
}

//! Byte maps: the fields of files with their offsets.

#![expect(clippy::disallowed_methods, reason = "finds golden files")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::counting::peak_of;
use crate::support::{Random, blob, bytes};
use lodstone_formats::{Mapper, Probe, UNREAD, byte_maps};
use lodstone_model::Limits;
use lodstone_store::{Blob, Field, Location};

/// Kinds of files of which the beginning may be another file: messages of fields, concatenated records.
const SEQUENCES: [&str; 4] =
    ["ONNX models", "ONNX tensors", "PaddlePaddle programs", "PaddlePaddle tensor streams"];

/// Returns the golden files that have a byte map, except those that no reader accepts.
fn mapped() -> Vec<(PathBuf, &'static Mapper, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (mut found, mut open) = (Vec::new(), vec![root]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
            open.extend(entries.filter(|path| !path.ends_with("refused")));
            continue;
        }
        let content = bytes(&path);
        if let Some(mapper) = mapper(&path, &content) {
            found.push((path, mapper, content));
        }
    }
    found
}

fn mapper(path: &Path, content: &[u8]) -> Option<&'static Mapper> {
    let (path, head) = (Location::from(path), &content[..content.len().min(4096)]);
    let probe = Probe { path: &path, head, len: content.len() as u64, entries: None };
    byte_maps().find(|mapper| (mapper.detect)(&probe))
}

/// Returns the number of kinds of files that have byte maps.
fn kinds() -> usize {
    byte_maps().map(|mapper| mapper.what).collect::<BTreeSet<_>>().len()
}

/// Checks that fields cover a file without gaps and overlaps.
fn check_cover(fields: &[Field], len: usize, what: &str) {
    let mut end = 0;
    for field in fields {
        assert_eq!(field.offset, end, "{what}: {field:?}");
        end += field.len;
    }
    assert_eq!(end, len as u64, "{what}");
}

#[test]
fn fields_cover_every_byte_of_golden_files_of_each_kind() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, mapper, content) in mapped() {
        let what = path.display().to_string();
        let map = mapper.map(&blob(&content), &Limits::default());
        check_cover(&map.fields, content.len(), &what);
        let unread = map.fields.iter().find(|field| field.name == UNREAD);
        // Those of the checker are not all readable.
        let is_sound = map.error.is_none() || what.contains("onnx_check");
        assert!(unread.is_none() && is_sound, "{what}: {unread:?}, {:?}", map.error);
        *counts.entry(mapper.what).or_default() += 1;
    }
    assert_eq!(counts.len(), kinds(), "{counts:?}");
}

/// Files of which the damage of one part changes what is known about others: the directory of an archive, the layout of
/// records, and whether a record without dims is a scalar.
const GUESSED: [&str; 7] = [
    "PyTorch archives",
    "PyTorch streams",
    "MXNet parameters",
    "MXNet 2 parameters",
    "archives of NumPy arrays",
    "ONNX archives",
    "PaddlePaddle tensor streams",
];

#[test]
fn the_map_of_a_cut_file_ends_with_its_error() {
    let mut cuts = 0;
    for (path, mapper, content) in mapped().iter().filter(|(.., content)| content.len() < 4096) {
        let whole = mapper.map(&blob(content), &Limits::default());
        for len in (0..content.len()).step_by(content.len().div_ceil(40).max(1)) {
            let what = format!("{} cut at {len}", path.display());
            let map = mapper.map(&blob(&content[..len]), &Limits::default());
            check_cover(&map.fields, len, &what);
            let is_sequence = SEQUENCES.contains(&mapper.what);
            assert!(map.error.is_some() || is_sequence || len == 0, "{what}");
            let fields = map.fields.iter().filter(|field| field.name != UNREAD);
            // A field that is cut has the name of its first part.
            let differ = |(cut, whole): &(&Field, &Field)| {
                cut != whole && whole.offset + whole.len <= len as u64
            };
            let wrong = fields.zip(&whole.fields).find(differ);
            assert!(wrong.is_none() || GUESSED.contains(&mapper.what), "{what}: {wrong:?}");
            cuts += 1;
        }
    }
    assert!(cuts > 1000, "{cuts}");
}

#[test]
fn mutated_files_have_maps_too() {
    let files: Vec<_> = mapped().into_iter().filter(|(.., content)| content.len() < 8192).collect();
    let mut random = Random::new(7);
    for round in 0..20_000 {
        let (path, mapper, content) = &files[random.below(files.len())];
        let mut content = content.clone();
        for _ in 0..=random.below(3) {
            if !content.is_empty() {
                let place = random.below(content.len());
                content[place] = random.next().to_le_bytes()[0];
            }
        }
        let map = mapper.map(&blob(&content), &Limits::default());
        check_cover(&map.fields, content.len(), &format!("{}, mutation {round}", path.display()));
    }
}

#[test]
fn a_map_shows_the_table_of_the_format() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = golden.join("paddle/2.6.2/lod3.lodtensor");
    let content = bytes(&path);
    let map = mapper(&path, &content).unwrap().map(&blob(&content), &Limits::default());
    let rows: Vec<_> = map.fields.iter().map(|field| (field.name.as_str(), field.len)).collect();
    assert_eq!(rows[..2], [("version of the LoD part", 4), ("number of LoD levels", 8)]);
    assert_eq!(map.fields[1].value, "3");
    let last = map.fields.last().unwrap();
    assert_eq!(
        (last.name.as_str(), last.value.as_str()),
        ("elements of float32 [6, 4]", "96 bytes")
    );
    assert!(map.fields.iter().any(|field| field.value.ends_with("(float32 [6, 4])")), "{rows:?}");
}

/// Lengths that no file has, and those at the limits of integers.
const LENGTHS: [u64; 4] = [1 << 60, u64::MAX, 1 << 63, 0xffff_ffff];

#[test]
fn wrong_lengths_end_the_map_within_the_memory_of_the_file() {
    let mut counts = BTreeMap::new();
    let mut files = mapped();
    files.sort_by_key(|(.., content)| content.len());
    for (path, mapper, content) in &files {
        let count: &mut usize = counts.entry(mapper.what).or_default();
        *count += 1;
        if *count > 6 {
            continue;
        }
        for place in (0..content.len()).step_by(content.len().div_ceil(2000).max(1)) {
            let length = LENGTHS[place % LENGTHS.len()].to_le_bytes();
            let mut damaged = content.clone();
            let end = content.len().min(place + 8);
            damaged[place..end].copy_from_slice(&length[..end - place]);
            let what = format!("{} with {length:?} at {place}", path.display());
            let damaged = blob(&damaged);
            let (map, peak) = peak_of(|| mapper.map(&damaged, &Limits::default()));
            check_cover(&map.fields, content.len(), &what);
            assert!(peak < 2 << 20, "{what}: {peak} bytes");
        }
    }
    assert_eq!(counts.len(), kinds(), "{counts:?}");
}

#[test]
fn too_many_fields_are_an_error() {
    // A model of 300000 empty strings.
    let content = [&[8, 8][..], &[18, 0].repeat(300_000)].concat();
    let map = mapper(Path::new("x"), &content).unwrap().map(&blob(&content), &Limits::default());
    let error = map.error.unwrap().to_string();
    assert!(error.contains("at most 250000 fields"), "{error}");
    check_cover(&map.fields, content.len(), "many");
    assert_eq!(map.fields.last().unwrap().name, UNREAD);
}

#[test]
fn what_the_fields_contradict_is_the_error_of_the_map() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let content = bytes(&golden.join("onnx_tensor/float32-raw.pb"));
    // Another dim: the elements do not fit it.
    assert_eq!(content[0], 8);
    let damaged = [&[8, 99][..], &content[2..]].concat();
    let whole = mapper(Path::new("x.pb"), &content).unwrap();
    let map = whole.map(&blob(&damaged), &Limits::default());
    assert_eq!(map.fields[0].value, "99");
    let error = map.error.unwrap().to_string();
    assert!(error.contains("bytes"), "{error}");
    assert!(map.fields.iter().all(|field| field.name != UNREAD));
}

#[test]
fn unused_bytes_of_archives_are_fields() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/numpy/archive");
    let path = std::fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
    let content = bytes(&path);
    let mapper = mapper(&path, &content).unwrap();
    let map = mapper.map(&blob(&content), &Limits::default());
    let signature = map.fields.iter().filter(|field| field.value == r"PK\x03\x04").nth(1).unwrap();
    // The second local header is 7 bytes later.
    let place = usize::try_from(signature.offset).unwrap();
    let mut moved = [&content[..place], &[0; 7], &content[place..]].concat();
    let offsets = map.fields.iter().filter(|field| field.name == "offset of the local header");
    let ends = map.fields.iter().filter(|field| field.name == "offset of the directory");
    for field in offsets.skip(1).chain(ends) {
        let at = usize::try_from(field.offset).unwrap() + 7;
        let value: u32 = field.value.parse::<u32>().unwrap() + 7;
        moved[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let map = mapper.map(&blob(&moved), &Limits::default());
    check_cover(&map.fields, moved.len(), "moved");
    assert!(map.error.is_none(), "{:?}", map.error);
    let unused = map.fields.iter().find(|field| field.name == "unused bytes").unwrap();
    assert_eq!((unused.offset, unused.len), (signature.offset, 7));
}

#[test]
fn elements_are_not_read() {
    // The length of elements that are not there is the error, not an allocation.
    let header = br#"{"x":{"dtype":"U8","shape":[99999999999],"data_offsets":[0,99999999999]}}"#;
    let content = [&(header.len() as u64).to_le_bytes()[..], header, &[1, 2, 3]].concat();
    let mapper = mapper(Path::new("x"), &content).unwrap();
    let map = mapper.map(&Blob::memory(content), &Limits::default());
    assert!(map.error.unwrap().to_string().contains("elements of `x`"));
    assert_eq!(map.fields.last().unwrap().value, "3 bytes");
}

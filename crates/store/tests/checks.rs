//! Verification of checksums when files are first read.

#![expect(clippy::disallowed_methods, reason = "makes the files that are damaged")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Random, dir, file, read};
use lodstone_store::{
    Blob, Checks, Commit, Cursor, Error, PIECE, Part, Progress, SourceFile, checksum,
};

/// Returns the parts of the file at `path`, which end at `ends`.
fn parts(path: &Path, ends: &[u64]) -> Vec<Part> {
    let blob = Blob::open(path, false).expect("open");
    let mut start = 0;
    let stretch = |(number, end): (usize, &u64)| {
        let tensor = (number % 2 == 1).then(|| format!("t{number}"));
        let len = end - start;
        start = *end;
        (len, tensor)
    };
    let stretches = ends.iter().enumerate().map(stretch).collect();
    Part::all_of(&blob, stretches, &Progress::default()).expect("readable")
}

fn checked(path: &Path, parts: &[Part], mmap: bool) -> Blob {
    let checks = Arc::new(Checks::new(parts.to_vec()).expect("parts end to end"));
    let file = SourceFile::open(path, mmap).expect("open").checked(checks).expect("the size");
    Blob::file(Arc::new(file))
}

fn flip(path: &Path, at: usize) {
    let mut bytes = read(path);
    bytes[at] ^= 4;
    std::fs::write(path, bytes).expect("write");
}

#[test]
fn the_checksum_is_crc_64_nvme() {
    // The check value of the algorithm's catalogue entry.
    assert_eq!(checksum(b"123456789"), 0xae8b_1486_0a79_9888);
}

#[test]
fn each_piece_has_the_checksum_of_its_bytes() {
    let dir = dir();
    let piece = usize::try_from(PIECE).expect("small");
    let bytes = Random::new(11).bytes(3 * piece + 12_345);
    let path = file(dir.path(), "x", &bytes);
    // Small ones that share a chunk, one that ends with a chunk, one of several pieces.
    let ends = [1, 700, 1 << 20, (1 << 20) + 1, 5 << 20, bytes.len() - 9, bytes.len()];
    let parts = parts(&path, &ends.map(|end| end as u64));
    let mut rest = bytes.as_slice();
    for (part, end) in parts.iter().zip(ends) {
        let start = bytes.len() - rest.len();
        assert_eq!((part.offset, part.len), (start as u64, (end - start) as u64));
        let (now, later) = rest.split_at(end - start);
        let expected: Vec<u64> = now.chunks(piece).map(checksum).collect();
        assert_eq!(part.checksums, expected);
        rest = later;
    }
}

#[test]
fn a_read_of_many_pieces_names_the_first_that_is_damaged() {
    let dir = dir();
    let len = 6 * PIECE;
    let path = file(dir.path(), "x", &vec![1; usize::try_from(len).expect("small")]);
    let parts = parts(&path, &[10, len]);
    for at in [5 * PIECE, 2 * PIECE + 77, 4 * PIECE] {
        flip(&path, usize::try_from(at).expect("small"));
    }
    for start in [0, 5, 10, 99] {
        let blob = checked(&path, &parts, false).slice(start, len - start).expect("inside");
        let mut buffer = vec![0; usize::try_from(len - start).expect("small")];
        for error in
            [blob.read_at(0, &mut buffer).expect_err("damage"), blob.read().expect_err("damage")]
        {
            assert!(error.to_string().contains("chunk 3 of 6"), "{error}");
        }
    }
}

#[test]
fn a_piece_is_verified_when_a_byte_of_it_is_first_read() {
    let dir = dir();
    for mmap in [false, true] {
        let path = file(dir.path(), "x", &vec![7; 300_000]);
        let parts = parts(&path, &[100, 200_000, 300_000]);
        flip(&path, 150_000);
        let blob = checked(&path, &parts, mmap);
        blob.read_at(50, &mut [0; 50]).expect("the first part is whole");
        blob.slice(200_000, 100_000).expect("inside").bytes().expect("the last part is whole");
        for (offset, len) in [(199_999, 1), (100, 1), (0, 300_000), (120_000, 70_000)] {
            let error = blob.slice(offset, len).expect("inside").bytes().expect_err("damage");
            let text = format!(
                "`{}` is damaged: checksum mismatch: tensor `t1`, chunk 1 of 1 (bytes 100..200000)",
                path.display()
            );
            assert_eq!(error.to_string(), text);
        }
        // The damaged part is not copied either, neither inside the kernel nor through memory.
        let mut commit = Commit::existing(dir.path(), Progress::default()).expect("a directory");
        let copied = commit.write("copy", |out| out.copy(&blob));
        assert!(matches!(copied, Err(Error::Damaged { .. })), "{copied:?}");
    }
}

#[test]
fn verified_pieces_are_not_verified_again() {
    let dir = dir();
    let path = file(dir.path(), "x", &[7; 100]);
    let blob = checked(&path, &parts(&path, &[100]), false);
    blob.read_at(0, &mut [0; 1]).expect("whole");
    flip(&path, 50);
    blob.read_at(50, &mut [0; 1]).expect("compared before");
}

#[test]
fn pieces_of_a_long_part_are_verified_separately() {
    let dir = dir();
    let len = 2 * PIECE + 5;
    let path = file(dir.path(), "x", &vec![1; usize::try_from(len).expect("small")]);
    let parts = parts(&path, &[10, len]);
    assert_eq!(parts[1].checksums.len(), 2);
    flip(&path, usize::try_from(PIECE + 10).expect("small"));
    let blob = checked(&path, &parts, false);
    blob.read_at(PIECE + 9, &mut [0]).expect("the piece before is whole");
    let error = blob.read_at(PIECE + 10, &mut [0]).expect_err("damage").to_string();
    assert!(error.contains("chunk 2 of 2 (bytes 16777226..33554437)"), "{error}");
    let source = SourceFile::open(&path, false).expect("open");
    let checks = Checks::new(parts).expect("parts end to end");
    assert_eq!((checks.len(), checks.pieces()), (len, 3));
    let damages = checks.damages(&source, &Progress::default()).expect("readable");
    assert_eq!(damages.len(), 1);
    assert_eq!((damages[0].piece, damages[0].offset), (1, PIECE + 10));
}

#[test]
fn reading_headers_does_not_verify_the_data_after_them() {
    let dir = dir();
    let path = file(dir.path(), "x", &[7; 9000]);
    let parts = parts(&path, &[20, 4000, 4020, 9000]);
    for at in [30, 5000] {
        flip(&path, at);
    }
    let blob = checked(&path, &parts, false);
    assert_eq!(blob.head(4096).expect("the first part is whole"), [7; 20]);
    let mut cursor = Cursor::new(&blob);
    cursor.array::<16>("a header").expect("the first part is whole");
    cursor.seek(4000);
    cursor.array::<20>("a header").expect("the third part is whole");
    let error = cursor.array::<1>("data").expect_err("damage");
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn parts_must_cover_the_whole_file() {
    let dir = dir();
    let path = file(dir.path(), "x", &[7; 100]);
    let good = parts(&path, &[10, 40, 100]);
    assert!(Checks::new(good.clone()).is_some());
    assert!(Checks::new(Vec::new()).is_some_and(|checks| checks.is_empty()));
    let change = |change: &dyn Fn(&mut Vec<Part>)| {
        let mut parts = good.clone();
        change(&mut parts);
        Checks::new(parts).is_none()
    };
    assert!(change(&|parts| drop(parts.remove(1))));
    assert!(change(&|parts| parts.swap(0, 1)));
    assert!(change(&|parts| parts[1].len -= 1));
    assert!(change(&|parts| parts[2].len = u64::MAX));
    assert!(change(&|parts| parts[1].checksums.clear()));
    assert!(change(&|parts| parts[1].checksums.push(0)));
    let shorter = Arc::new(Checks::new(good[..2].to_vec()).expect("parts end to end"));
    let error = SourceFile::open(&path, false).expect("open").checked(shorter).expect_err("a size");
    assert!(matches!(error, Error::Resized { sealed: 40, found: 100, .. }), "{error}");
}

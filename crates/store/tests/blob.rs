//! Blobs: all kinds return the same bytes, and none returns bytes out of bounds.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "makes files to read")]

mod common;

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::{Random, dir, file, in_time, pipe};
use lodstone_store::{Blob, Derive, Error, Progress, Result, SourceFile};

/// The bytes of another blob, each xor 0x5a: applying it twice restores them.
struct Masked(Blob);

impl Derive for Masked {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buffer)?;
        buffer.iter_mut().for_each(|byte| *byte ^= 0x5a);
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.0)
    }
}

fn usize_range(range: &Range<u64>) -> Range<usize> {
    usize::try_from(range.start).expect("small")..usize::try_from(range.end).expect("small")
}

/// Returns a blob of every kind with the same bytes.
fn kinds(dir: &Path, bytes: &[u8]) -> Vec<(&'static str, Blob)> {
    let path = file(dir, "bytes", bytes);
    let shown: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x5a).collect();
    let derived = Blob::derived(Arc::new(Masked(Blob::memory(shown))));
    let read = Blob::open(&path, false).expect("a file");
    let mapped = Blob::open(&path, true).expect("a file");
    // Parts of all kinds and of different lengths, including empty ones, and a nested concatenation.
    let len = bytes.len() as u64;
    let cuts = [0, 0, len / 7, len / 3, len / 3, len / 2, len - len / 9, len, len];
    let part = |index: usize, whole: &Blob| {
        whole.slice(cuts[index], cuts[index + 1] - cuts[index]).expect("a part")
    };
    let inner = Blob::concat(vec![part(3, &derived), part(4, &read), part(5, &mapped)]);
    let concat = Blob::concat(vec![
        part(0, &read),
        part(1, &Blob::memory(bytes.to_vec())),
        part(2, &mapped),
        inner,
        part(6, &derived),
        part(7, &read),
    ]);
    vec![
        ("memory", Blob::memory(bytes.to_vec())),
        ("read file", read),
        ("mapped file", mapped),
        ("concat", concat),
        ("derived", derived),
    ]
}

fn chunks(blob: &Blob) -> Vec<u8> {
    let mut all = Vec::new();
    blob.for_each_chunk::<Error>(|piece| {
        all.extend_from_slice(piece);
        Ok(())
    })
    .expect("chunks");
    all
}

#[test]
fn every_kind_returns_the_same_bytes_for_random_ranges() {
    let dir = dir();
    let mut random = Random::new(1);
    // Larger than a chunk, and than the maximum size of reads instead of mappings.
    let bytes = random.bytes((1 << 20) + 70_001);
    for (kind, blob) in kinds(dir.path(), &bytes) {
        assert_eq!(blob.len(), bytes.len() as u64, "{kind}");
        assert!(blob.bytes().expect("bytes") == bytes, "{kind}: bytes");
        assert!(chunks(&blob) == bytes, "{kind}: chunks");
        for round in 0..200 {
            let start = random.below(blob.len() + 1);
            let most = blob.len() - start;
            // Small ranges and large ones.
            let len = random.below((if round % 2 == 0 { 300 } else { most }).min(most) + 1);
            let range = start..start + len;
            let expected = &bytes[usize_range(&range)];
            let mut buffer = vec![0xee; expected.len()];
            blob.read_at(start, &mut buffer).expect("read");
            assert!(buffer == expected, "{kind}: read_at {range:?}");
            let slice = blob.slice(start, len).expect("a slice");
            assert_eq!(slice.len(), len, "{kind}: {range:?}");
            assert!(slice.bytes().expect("bytes") == expected, "{kind}: bytes of {range:?}");
            assert!(chunks(&slice) == expected, "{kind}: chunks of {range:?}");
        }
    }
}

#[test]
fn slices_of_slices_keep_their_place() {
    let dir = dir();
    let mut random = Random::new(2);
    let bytes = random.bytes(200_000);
    for (kind, blob) in kinds(dir.path(), &bytes) {
        for _ in 0..50 {
            let (mut slice, mut range) = (blob.clone(), 0..blob.len());
            while !slice.is_empty() {
                let start = random.below(slice.len() / 3 + 1);
                let len = random.below(slice.len() - start);
                slice = slice.slice(start, len).expect("a slice");
                range = range.start + start..range.start + start + len;
                let expected = &bytes[usize_range(&range)];
                assert!(slice.bytes().expect("bytes") == expected, "{kind}: {range:?}");
            }
        }
    }
}

#[test]
fn chunks_are_bounded_and_stop_at_the_first_error() {
    let dir = dir();
    let bytes = vec![7; 5 << 20];
    for (kind, blob) in kinds(dir.path(), &bytes) {
        let mut sizes = Vec::new();
        let result = blob.for_each_chunk(|piece| {
            sizes.push(piece.len());
            if sizes.len() == 2 { Err(Error::Cancelled) } else { Ok(()) }
        });
        assert!(matches!(result, Err(Error::Cancelled)), "{kind}: {result:?}");
        assert_eq!(sizes, [1 << 20, 1 << 20], "{kind}");
    }
}

#[test]
fn ranges_out_of_bounds_are_errors() {
    let dir = dir();
    for (kind, blob) in kinds(dir.path(), &[1; 1000]) {
        for (offset, len, end) in [
            (1000, 1, 1001),
            (0, 1001, 1001),
            (1001, 0, 1001),
            (999, 2, 1001),
            (u64::MAX, 1, u64::MAX),
            (1, u64::MAX, u64::MAX),
            (u64::MAX, u64::MAX, u64::MAX),
        ] {
            let error = blob.slice(offset, len).expect_err("nothing there");
            let Error::OutOfRange { start, end: stop, len: all, .. } = error else {
                panic!("{kind}: {error:?}")
            };
            assert_eq!((start, stop, all), (offset, end, 1000), "{kind}");
            if let Ok(len) = usize::try_from(len.min(2000)) {
                let mut buffer = vec![0; len];
                let error = blob.read_at(offset, &mut buffer).expect_err("nothing there");
                assert!(matches!(error, Error::OutOfRange { .. }), "{kind}: {error:?}");
            }
        }
        assert!(blob.slice(1000, 0).expect("the end").is_empty(), "{kind}");
        blob.read_at(1000, &mut []).expect("nothing at the end");
    }
}

#[test]
fn an_out_of_range_error_names_the_file_and_the_range() {
    let dir = dir();
    let path = file(dir.path(), "short.bin", &[0; 10]);
    let error = Blob::open(&path, false).expect("a file").slice(4, 7).expect_err("nothing there");
    let expected =
        format!("`{}` at offset 4: expected bytes up to 11, found the end at 10", path.display());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_slice_cannot_be_used_to_read_around_itself() {
    let dir = dir();
    for (kind, blob) in kinds(dir.path(), &[3; 1000]) {
        let slice = blob.slice(100, 50).expect("a slice");
        assert!(slice.slice(0, 51).is_err(), "{kind}");
        assert!(slice.read_at(50, &mut [0]).is_err(), "{kind}");
    }
}

#[test]
fn empty_blobs_are_empty() {
    let dir = dir();
    let path = file(dir.path(), "empty", &[]);
    let empty: Blob = Vec::new().into();
    for blob in [
        Blob::open(&path, true).expect("a file"),
        Blob::open(&path, false).expect("a file"),
        Blob::concat(vec![]),
        Blob::concat(vec![empty.clone(), empty.clone()]),
        Blob::derived(Arc::new(Masked(empty.clone()))),
        empty,
    ] {
        assert!(blob.is_empty() && blob.bytes().expect("bytes").is_empty(), "{blob:?}");
        assert_eq!(chunks(&blob), [0; 0], "{blob:?}");
    }
}

#[test]
fn a_mapped_file_is_shared_and_a_read_one_is_not() {
    let dir = dir();
    let path = file(dir.path(), "big", &vec![5; 1 << 20]);
    for (mmap, shared) in [(true, true), (false, false)] {
        let blob = Blob::open(&path, mmap).expect("a file");
        let (first, second) = (blob.bytes().expect("bytes"), blob.bytes().expect("bytes"));
        assert_eq!(first.as_ptr() == second.as_ptr(), shared, "mmap: {mmap}");
    }
}

/// Creates a sparse file of 6 GiB with a few bytes beyond 4 GiB.
fn sparse(path: &Path) {
    use std::os::unix::fs::FileExt;
    let file = File::create(path).expect("a file");
    file.set_len(6 << 30).expect("a sparse file");
    file.write_all_at(b"far away", (4 << 30) + 5).expect("a few bytes");
    file.write_all_at(b"the end", (6 << 30) - 7).expect("a few bytes");
}

#[test]
fn offsets_beyond_4_gib_are_exact() {
    let dir = dir();
    let path = dir.path().join("sparse");
    sparse(&path);
    for mmap in [false, true] {
        let blob = Blob::open(&path, mmap).expect("a file");
        assert_eq!(blob.len(), 6 << 30);
        let derived =
            Blob::derived(Arc::new(Masked(Blob::derived(Arc::new(Masked(blob.clone()))))));
        let doubled = Blob::concat(vec![blob.clone(), blob.clone()]);
        for blob in [&blob, &derived, &doubled] {
            let mut buffer = [0; 8];
            blob.read_at((4 << 30) + 5, &mut buffer).expect("read");
            assert_eq!(&buffer, b"far away");
            let slice = blob.slice((5 << 30) + 1, (1 << 30) - 1).expect("a slice");
            let end = slice.slice((1 << 30) - 8, 7).expect("a slice");
            assert_eq!(end.bytes().expect("bytes"), &b"the end"[..]);
        }
        let mut buffer = [0; 8];
        doubled.read_at((10 << 30) + 5, &mut buffer).expect("read");
        assert_eq!(&buffer, b"far away");
        assert_eq!(doubled.len(), 12 << 30);
        assert!(doubled.slice(12 << 30, 1).is_err());
    }
    let mapped = Blob::open(&path, true).expect("a file").bytes().expect("mapped, not read");
    assert_eq!(mapped.len() as u64, 6 << 30);
    assert_eq!(&mapped[(4 << 30) + 5..][..8], b"far away");
}

#[test]
fn irregular_files_are_rejected_without_blocking() {
    let dir = dir();
    let fifo = dir.path().join("pipe");
    pipe(&fifo);
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket"));
    for (path, found) in [
        (fifo.as_path(), "a pipe"),
        (dir.path(), "a directory"),
        (Path::new("/dev/null"), "a device"),
        (Path::new("/dev/zero"), "a device"),
    ] {
        let owned = path.to_path_buf();
        let error = in_time(move || Blob::open(&owned, true)).expect_err("no file");
        let expected = format!("expected a regular file at `{}`, found {found}", path.display());
        assert_eq!(error.to_string(), expected);
    }
    let socket = dir.path().join("socket");
    in_time(move || Blob::open(&socket, true)).expect_err("no file");
    let missing = Blob::open(dir.path().join("missing"), true).expect_err("no file");
    assert!(missing.to_string().starts_with("cannot open `"), "{missing}");
}

#[test]
fn a_file_is_unchanged_until_it_is_truncated_or_modified() {
    type Change = fn(&Path);
    let truncate: Change = |path| {
        OpenOptions::new().write(true).open(path).expect("open").set_len(9).expect("set_len");
    };
    let append: Change = |path| {
        OpenOptions::new().write(true).open(path).expect("open").set_len(11).expect("set_len");
    };
    let modify: Change = |path| {
        std::fs::write(path, [1; 10]).expect("write");
        // The clock of a file system may stand still for a moment.
        let later = SystemTime::now() + Duration::from_secs(2);
        File::options().write(true).open(path).expect("open").set_modified(later).expect("touch");
    };
    for (change, what) in [
        (truncate, "it had 10 bytes and now has 9"),
        (append, "it had 10 bytes and now has 11"),
        (modify, "it was modified"),
    ] {
        let dir = dir();
        let path = file(dir.path(), "source", &[0; 10]);
        let blob = Blob::open(&path, true).expect("a file");
        let part = blob.slice(2, 3).expect("a slice");
        let joined = Blob::concat(vec![Blob::memory(vec![0]), Blob::concat(vec![part.clone()])]);
        for blob in [&blob, &part, &joined] {
            blob.check_unchanged().expect("nothing happened yet");
        }
        change(&path);
        for blob in [&blob, &part, &joined] {
            let error = blob.check_unchanged().expect_err("it changed");
            let expected = format!("`{}` changed while it was read: {what}", path.display());
            assert_eq!(error.to_string(), expected);
        }
    }
}

#[test]
fn computed_bytes_check_their_source_for_changes() {
    let dir = dir();
    let path = file(dir.path(), "source", &[0; 10]);
    let source = Blob::open(&path, false).expect("a file");
    let derived = Blob::derived(Arc::new(Masked(source)));
    derived.check_unchanged().expect("nothing happened yet");
    file(dir.path(), "source", &[0; 9]);
    for blob in [&derived, &derived.slice(1, 2).expect("a slice")] {
        assert!(matches!(blob.check_unchanged(), Err(Error::Changed { .. })), "{blob:?}");
    }
}

#[test]
fn file_ranges_are_reported_through_slices_concatenations_and_computations() {
    let dir = dir();
    let [one, two] = [("one", 5), ("two", 7)].map(|(name, size)| {
        Blob::open(file(dir.path(), name, &vec![0; size]), false).expect("open")
    });
    let joined = Blob::concat(vec![one.slice(1, 3).expect("inside"), Blob::memory(vec![9]), two]);
    let derived = Blob::derived(Arc::new(Masked(joined)));
    let ranges: Vec<_> = derived
        .file_ranges()
        .map(|(file, offset, len)| (file.path().file_name().expect("a name"), offset, len))
        .collect();
    assert_eq!(ranges, [("one".as_ref(), 1, 3), ("two".as_ref(), 0, 7)]);
}

#[test]
fn a_derivation_is_returned_only_for_all_of_its_bytes() {
    struct Other;
    impl Derive for Other {
        fn len(&self) -> u64 {
            10
        }
        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
            Ok(())
        }
        fn source(&self) -> Option<&Blob> {
            None
        }
    }
    let memory = Blob::memory(vec![7; 10]);
    let derived = Blob::derived(Arc::new(Masked(memory.clone())));
    let found = derived.derivation::<Masked>().expect("a computation");
    assert_eq!(found.0.bytes().expect("bytes"), vec![7; 10]);
    assert!(derived.slice(0, 10).expect("all").derivation::<Masked>().is_some());
    for (offset, len) in [(0, 9), (1, 9), (0, 0)] {
        let slice = derived.slice(offset, len).expect("a slice");
        assert!(slice.derivation::<Masked>().is_none(), "{offset} {len}");
    }
    assert!(derived.derivation::<Other>().is_none() && memory.derivation::<Masked>().is_none());
}

#[test]
fn a_file_that_is_replaced_is_still_the_old_one() {
    let dir = dir();
    let path = file(dir.path(), "source", b"old");
    let blob = Blob::open(&path, false).expect("a file");
    std::fs::rename(file(dir.path(), "other", b"new"), &path).expect("rename");
    assert_eq!(blob.bytes().expect("bytes"), &b"old"[..]);
    blob.check_unchanged().expect("the file that is open did not change");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error() {
    let dir = dir();
    for mmap in [false, true] {
        let path = file(dir.path(), "source", &vec![1; 300_000]);
        let blob = Blob::open(&path, mmap).expect("a file");
        OpenOptions::new().write(true).open(&path).expect("open").set_len(100_000).expect("shrink");
        blob.read_at(99_000, &mut [0; 1000]).expect("what is left");
        let results = [
            blob.read_at(99_001, &mut [0; 1000]),
            blob.read_at(200_000, &mut [0; 1000]),
            blob.bytes().map(drop),
            blob.for_each_chunk(|_| Ok(())),
            blob.slice(150_000, 100).expect("inside what was there").bytes().map(drop),
        ];
        for result in results {
            let error = result.expect_err("bytes that are gone");
            assert!(matches!(error, Error::Changed { .. }), "mmap {mmap}: {error:?}");
            assert!(error.to_string().contains("it ends before byte"), "{error}");
        }
    }
}

#[test]
fn one_file_under_two_names_is_the_same_file() {
    let dir = dir();
    let path = file(dir.path(), "one", b"content");
    std::fs::hard_link(&path, dir.path().join("link")).expect("a link");
    let open = |name| SourceFile::open(dir.path().join(name), false).expect("a file");
    assert_eq!(open("one").identity(), open("link").identity());
    file(dir.path(), "two", b"content");
    assert_ne!(open("one").identity(), open("two").identity());
}

#[test]
fn messages_name_the_file_and_the_offset() {
    let dir = dir();
    let path = file(dir.path(), "model", &[0; 100]);
    let blob = Blob::open(&path, false).expect("a file").slice(40, 20).expect("a slice");
    let error = blob.slice(5, 5).expect("a slice").malformed(2, "a tensor", "nothing");
    let expected = format!("`{}` at offset 47: expected a tensor, found nothing", path.display());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn blobs_read_together_equal_blobs_read_alone() {
    let dir = dir();
    for len in [0, 1, 63, 64, 1000, 40 << 20] {
        let bytes = Random::new(9).bytes(len);
        let blobs: Vec<Blob> =
            kinds(dir.path(), &bytes).into_iter().map(|(_, blob)| blob).collect();
        let all = Blob::read_all(&blobs, &Progress::default()).expect("readable");
        assert_eq!(all.len(), blobs.len());
        for read in all {
            assert!(read == bytes, "{len}");
            assert_eq!(read.as_ptr().align_offset(64), 0);
        }
    }
    assert!(Blob::read_all(&[], &Progress::default()).expect("nothing").is_empty());
}

#[test]
fn reading_counts_and_can_be_stopped() {
    let (dir, bytes) = (dir(), Random::new(9).bytes(40 << 20));
    let path = dir.path().join("bytes");
    std::fs::write(&path, &bytes).expect("written");
    let blobs = [Blob::open(&path, true).expect("opens")];
    let progress = Progress::default();
    Blob::read_all(&blobs, &progress).expect("readable");
    assert_eq!(progress.done(), 40 << 20);
    let progress = Progress::default();
    progress.cancel();
    assert!(matches!(Blob::read_all(&blobs, &progress), Err(Error::Cancelled)));
    assert!(progress.done() < 40 << 20, "it went on: {}", progress.done());
}

#[test]
fn insufficient_memory_is_an_error() {
    struct Endless;
    impl Derive for Endless {
        fn len(&self) -> u64 {
            1 << 62
        }
        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
            panic!("nothing to read into")
        }
        fn source(&self) -> Option<&Blob> {
            None
        }
    }
    let endless = Blob::derived(Arc::new(Endless));
    let error = endless.read().expect_err("too much");
    assert!(matches!(error, Error::Memory { .. }), "{error}");
    let both = [endless.clone(), endless.clone(), endless.clone(), endless];
    assert!(matches!(Blob::read_all(&both, &Progress::default()), Err(Error::Memory { .. })));
}

//! Cursors: exact at every boundary, and no length in a file makes them allocate or read beyond its end.

#![expect(clippy::disallowed_methods, reason = "makes files to read")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{Random, dir, file};
use lodstone_store::{Blob, Cursor, Error};

/// An allocator that records the largest allocation of each thread.
struct Largest;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: forwards all calls to the system allocator.
#[expect(unsafe_code, reason = "an allocator is unsafe by nature")]
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: upheld by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: upheld by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: upheld by the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: upheld by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Largest = Largest;

/// Maximum size of header reads.
const WINDOW: u64 = 4096;

#[test]
fn integers_are_little_endian_and_move_the_cursor() {
    let mut bytes = vec![1, 0, 0, 0x80, 0xfe, 0xff, 0xff, 0xff];
    bytes.extend([2, 0, 0, 0, 0, 0, 0, 0x90, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    bytes.extend(b"abc");
    let blob = Blob::memory(bytes);
    let mut cursor = Cursor::new(&blob);
    assert_eq!(cursor.u32("a number").expect("u32"), 0x8000_0001);
    assert_eq!(cursor.i32("a number").expect("i32"), -2);
    assert_eq!(cursor.u64("a number").expect("u64"), 0x9000_0000_0000_0002);
    assert_eq!(cursor.i64("a number").expect("i64"), -3);
    assert_eq!(cursor.array::<2>("letters").expect("array"), *b"ab");
    assert_eq!((cursor.position(), cursor.remaining()), (26, 1));
    assert_eq!(cursor.bytes(1, "a letter").expect("bytes"), b"c");
    assert_eq!(cursor.remaining(), 0);
    cursor.need(0, "nothing").expect("nothing is always there");
    assert_eq!(cursor.bytes(0, "nothing").expect("bytes"), b"");
    assert!(cursor.blob(0, "nothing").expect("blob").is_empty());
}

#[test]
fn reads_past_the_end_report_the_position_the_expected_value_and_the_bytes_left() {
    let dir = dir();
    let path = file(dir.path(), "model", &[0; 20]);
    let blob = Blob::open(&path, false).expect("a file").slice(3, 10).expect("a slice");
    type Read = fn(&mut Cursor<'_>) -> Result<(), Error>;
    let reads: [(u64, Read); 8] = [
        (4, |cursor| cursor.u32("the thing").map(drop)),
        (4, |cursor| cursor.i32("the thing").map(drop)),
        (8, |cursor| cursor.u64("the thing").map(drop)),
        (8, |cursor| cursor.i64("the thing").map(drop)),
        (5, |cursor| cursor.array::<5>("the thing").map(drop)),
        (6, |cursor| cursor.bytes(6, "the thing").map(drop)),
        (7, |cursor| cursor.blob(7, "the thing").map(drop)),
        (9, |cursor| cursor.need(9, "the thing")),
    ];
    for (len, read) in reads {
        for left in 0..len {
            let mut cursor = Cursor::at(&blob, 10 - left);
            let error = read(&mut cursor).expect_err("not enough is left");
            let expected = format!(
                "`{}` at offset {}: expected the thing ({len} bytes), found {left} bytes left",
                path.display(),
                13 - left
            );
            assert_eq!(error.to_string(), expected);
            assert_eq!(cursor.position(), 10 - left, "a failed read leaves the cursor");
        }
        read(&mut Cursor::at(&blob, 10 - len)).expect("just enough is left");
    }
}

#[test]
fn a_length_beyond_the_end_allocates_nothing() {
    for blob in [Blob::memory(vec![0; 100]), Blob::memory(vec![])] {
        for claim in [1 << 20, 1 << 32, 1 << 63, u64::MAX] {
            LARGEST.set(0);
            let mut cursor = Cursor::new(&blob);
            let results = [
                cursor.bytes(claim, "data").map(drop),
                cursor.blob(claim, "data").map(drop),
                cursor.need(claim, "data"),
            ];
            let largest = LARGEST.get();
            for result in results {
                let error = result.expect_err("a claim of too much");
                assert!(error.to_string().contains(&format!("({claim} bytes)")), "{error}");
            }
            assert!(largest < 1000, "{claim}: {largest} bytes at once");
        }
    }
}

#[test]
fn the_allocations_of_a_test_are_seen() {
    LARGEST.set(0);
    Cursor::new(&Blob::memory(vec![0; 50_000])).bytes(50_000, "data").expect("bytes");
    assert_eq!(LARGEST.get(), 50_000);
}

#[test]
fn a_position_beyond_the_end_has_nothing_left() {
    let blob = Blob::memory(vec![0; 10]);
    for position in [11, 1 << 40, u64::MAX] {
        let mut cursor = Cursor::at(&blob, position);
        assert_eq!(cursor.remaining(), 0);
        let error = cursor.u32("a number").expect_err("nothing is there");
        assert!(error.to_string().contains(&format!("offset {position}")), "{error}");
        cursor.seek(6);
        cursor.u32("a number").expect("back inside");
    }
}

#[test]
fn values_that_straddle_the_window_are_read_whole() {
    let mut random = Random::new(3);
    let bytes = random.bytes(3 * 4096 + 5);
    let blob = Blob::memory(bytes.clone());
    let expect = |at: u64| {
        let at = usize::try_from(at).expect("small");
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
    };
    for edge in [WINDOW, 2 * WINDOW, 3 * WINDOW] {
        for at in edge - 9..(edge + 2).min(blob.len() - 8 + 1) {
            // With the window filled from the start, from another position, and empty.
            for filled in [Some(0), Some(at - 1), Some(at - 100), None] {
                let mut cursor = Cursor::at(&blob, filled.unwrap_or(at));
                if filled.is_some() {
                    cursor.u32("what fills the window").expect("u32");
                }
                cursor.seek(at);
                assert_eq!(cursor.u64("a value").expect("u64"), expect(at), "{at} {filled:?}");
                assert_eq!(cursor.position(), at + 8);
            }
        }
    }
}

#[test]
fn reads_of_any_size_in_any_order_agree_with_the_bytes() {
    let mut random = Random::new(4);
    let bytes = random.bytes(20_000);
    let blob = Blob::memory(bytes.clone());
    let mut cursor = Cursor::new(&blob);
    for _ in 0..2000 {
        match random.below(8) {
            0 => cursor.seek(random.below(blob.len() + 1)),
            kind => {
                let most = [1, 9, 100, 4095, 4098, 9000, 30_000]
                    [usize::try_from(kind - 1).expect("small")];
                let len = random.below(most + 1).min(cursor.remaining());
                let at = usize::try_from(cursor.position()).expect("small");
                let expected = &bytes[at..at + usize::try_from(len).expect("small")];
                let found = if kind % 2 == 0 {
                    cursor.bytes(len, "bytes").expect("bytes")
                } else {
                    cursor.blob(len, "bytes").expect("blob").bytes().expect("bytes").to_vec()
                };
                assert!(found == expected, "{len} bytes at {at}");
            }
        }
    }
}

#[test]
fn skipped_data_is_not_read() {
    struct Unreadable;
    impl lodstone_store::Derive for Unreadable {
        fn source(&self) -> Option<&Blob> {
            None
        }

        fn len(&self) -> u64 {
            1 << 40
        }
        fn read_at(&self, offset: u64, _: &mut [u8]) -> lodstone_store::Result<()> {
            panic!("read at {offset}")
        }
    }
    let data = Blob::derived(std::sync::Arc::new(Unreadable));
    let blob = Blob::concat(vec![data, Blob::memory(b"tail".to_vec())]);
    let mut cursor = Cursor::new(&blob);
    assert_eq!(cursor.blob(1 << 40, "data").expect("a blob").len(), 1 << 40);
    assert_eq!(cursor.array::<4>("the tail").expect("array"), *b"tail");
}

#[test]
fn errors_about_an_earlier_position_report_that_position() {
    let blob = Blob::memory(vec![0; 10]);
    let cursor = Cursor::at(&blob, 7);
    let here = cursor.error("a size", "none").to_string();
    assert_eq!(here, "`memory` at offset 7: expected a size, found none");
    let there = cursor.error_at(2, "a size", "none").to_string();
    assert_eq!(there, "`memory` at offset 2: expected a size, found none");
}

#[test]
fn a_recording_cursor_lists_what_it_reads() {
    let blob = Blob::memory(b"\x02\0\0\0hi\x07\0\xff\xfe rest".to_vec());
    let mut cursor = Cursor::recording(&blob);
    cursor.u32("a guess").expect("read");
    cursor.seek(0);
    let len = cursor.u32("the size of a text").expect("read");
    cursor.set_tensor(Some(3));
    cursor.nested(len.into(), "a text", |text| text.bytes(2, "a text")).expect("read");
    cursor.u16("a number").expect("read");
    cursor.explain(|| "seven".to_owned());
    cursor.array::<2>("the end").expect("read");
    assert_eq!(cursor.again(4, 6, "a text").expect("read"), b"hi");
    cursor.label(8, "the mark", || "ff".to_owned());
    cursor.blob(cursor.remaining(), "elements").expect("skipped");
    let (fields, complete) = cursor.into_fields();
    complete.expect("all fields");
    let rows: Vec<_> = fields
        .iter()
        .map(|field| (field.offset, field.len, field.name.as_str(), field.value.as_str()))
        .collect();
    let expected = [
        (0, 4, "size of a text", "2"),
        (4, 2, "text", "\"hi\""),
        (6, 2, "number", "7 (seven)"),
        (8, 2, "mark", "ff"),
        (10, 5, "elements", "5 bytes"),
    ];
    assert_eq!(rows, expected);
    assert_eq!((fields[0].tensor, fields[1].tensor), (None, Some(3)));
}

#[test]
fn a_cursor_that_fails_keeps_what_it_recorded() {
    let blob = Blob::memory(vec![1, 0, 0, 0, 9]);
    let mut cursor = Cursor::recording(&blob);
    cursor.u32("a count").expect("read");
    cursor.u32("a value").expect_err("the end");
    assert_eq!(cursor.into_fields().0.len(), 1);
}

#[test]
fn too_many_fields_are_an_error() {
    let blob = Blob::memory(vec![0; 300_000]);
    let mut cursor = Cursor::recording(&blob);
    while cursor.remaining() > 0 {
        cursor.array::<1>("a byte").expect("read");
    }
    let (fields, complete) = cursor.into_fields();
    let error = complete.expect_err("too many").to_string();
    assert!(error.contains("at offset 250000: expected at most 250000 fields"), "{error}");
    assert_eq!(fields.len(), 250_000);
    let mut cursor = Cursor::recording(&blob);
    while cursor.remaining() > 0 {
        cursor.array::<1>("a byte").expect("read");
    }
    // As one field, they are not too many.
    cursor.seek(0);
    cursor.blob(300_000, "bytes").expect("skipped");
    let (fields, complete) = cursor.into_fields();
    complete.expect("one field");
    assert_eq!(fields.len(), 1);
}

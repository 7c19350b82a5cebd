//! Which requests reads cause.

use std::thread;

use lodstone_remote::Stats;
use lodstone_store::{Blob, Cursor, Dir, Links, ReadRange, SourceFile};

use crate::common::{Server, content, options, range};

#[test]
fn opening_costs_one_request_and_small_files_no_other() {
    let server = Server::of(&[("/dir/model", content(50_000))]);
    let (location, stats) = server.location("/dir/model");
    assert!(location.exists().expect("inspected") && !location.is_dir().expect("inspected"));
    assert!(location.stamp().unwrap().len == 50_000);
    let blob = Blob::open(&location, false).unwrap();
    assert!(blob.read().unwrap() == content(50_000));
    assert_eq!(stats.requests(), 1);
    server.check(&stats);
}

#[test]
fn absent_names_are_remembered() {
    let server = Server::of(&[]);
    let (location, stats) = server.location("/dir/model");
    for _ in 0..3 {
        assert!(!location.exists().expect("inspected") && !location.is_there().unwrap());
        assert!(Blob::open(&location, false).is_err());
    }
    // The file, and the table of its chunks.
    assert_eq!(stats.requests(), 2);
    server.check(&stats);
}

#[test]
fn every_range_names_the_version_that_was_opened() {
    let server = Server::of(&[("/model", content(500_000))]);
    let (location, _) = server.location("/model");
    Blob::open(&location, false).unwrap().read().unwrap();
    let tags: Vec<_> =
        server.log().iter().map(|request| request.header("if-match").map(str::to_owned)).collect();
    assert_eq!(tags, [None, Some("\"1\"".to_owned())]);
}

#[test]
fn close_ranges_are_requested_together() {
    let len = 20 << 20;
    let server = Server::of(&[("/model", content(len))]);
    let (location, stats) = server.location("/model");
    let file = SourceFile::open(&location, false).unwrap();
    let at = [1 << 20, (1 << 20) + 500_000, 8 << 20, 19 << 20];
    let mut buffers = vec![vec![0; 100_000]; at.len()];
    let mut ranges: Vec<ReadRange<'_>> = at
        .iter()
        .zip(&mut buffers)
        .map(|(at, buffer)| ReadRange { offset: *at as u64, buffer })
        .collect();
    file.read_ranges(&mut ranges).unwrap();
    for (at, buffer) in at.iter().zip(&buffers) {
        assert!(*buffer == content(len)[*at..at + 100_000]);
    }
    assert_eq!(stats.requests(), 4, "the first two are close");
    // Long ranges are split.
    let whole = Blob::open(&location, false).unwrap().read().unwrap();
    assert!(whole == content(len));
    assert!(server.log().iter().filter_map(range).all(|(start, end)| end - start <= 8 << 20));
    server.check(&stats);
}

#[test]
fn headers_are_read_ahead() {
    let server = Server::of(&[("/model", content(4 << 20))]);
    let (location, stats) = server.location("/model");
    let blob = Blob::open(&location, false).unwrap();
    let mut cursor = Cursor::new(&blob);
    while cursor.remaining() > 0 {
        cursor.u32("a word").unwrap();
    }
    assert!(stats.requests() <= 8, "{}", stats.requests());
    assert_eq!(stats.received(), 4 << 20, "every byte once");
    server.check(&stats);
}

#[test]
fn a_copied_range_is_requested_in_large_parts() {
    let server = Server::of(&[("/model", content(40 << 20))]);
    let (location, stats) = server.location("/model");
    let blob = Blob::open(&location, false).unwrap().slice(1 << 20, 30 << 20).unwrap();
    let mut read = 0;
    blob.for_each_chunk::<lodstone_store::Error>(|chunk| {
        read += chunk.len();
        Ok(())
    })
    .unwrap();
    assert_eq!(read, 30 << 20);
    assert_eq!(stats.requests(), 5, "the head, and 8 MiB each");
    assert_eq!(stats.received(), (64 << 10) + (30 << 20), "nothing beyond the range");
}

#[test]
fn the_end_of_an_archive_is_read_backwards() {
    let len = 1 << 20;
    let server = Server::of(&[("/model", content(len))]);
    let (location, stats) = server.location("/model");
    let blob = Blob::open(&location, false).unwrap();
    for back in (22..60_000).step_by(100) {
        let mut end = [0; 22];
        blob.read_at(len as u64 - back, &mut end).unwrap();
    }
    assert_eq!(stats.requests(), 2);
}

#[test]
fn threads_read_at_the_same_time_inside_a_runtime_too() {
    let len = 3 << 20;
    let server = Server::of(&[("/model", content(len))]);
    let (location, stats) = server.location("/model");
    let blob = Blob::open(&location, false).unwrap();
    let expected = content(len);
    thread::scope(|scope| {
        for number in 0..8 {
            let (blob, expected) = (&blob, &expected);
            scope.spawn(move || {
                let at = number * 300_000;
                let part = blob.slice(at as u64, 300_000).unwrap().read().unwrap();
                assert!(part == expected[at..at + 300_000]);
            });
        }
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let again = lodstone_remote::location(&server.url("/model"), &options()).unwrap();
        assert!(Blob::open(&again, false).unwrap().read().unwrap() == expected);
    });
    assert!(stats.requests() >= 2);
}

#[test]
fn names_beside_a_file_are_files_of_the_server() {
    let server =
        Server::of(&[("/dir/a%20b/model.onnx", content(10)), ("/dir/a%20b/100%25", content(20))]);
    let (location, _) = server.location("/dir/a%20b/model.onnx");
    assert!(location.display().to_string().ends_with("/dir/a b/model.onnx"));
    let dir = Dir::open(location.directory(), Links::Confined, false).unwrap();
    assert_eq!(dir.open_file("100%").unwrap().unwrap().len(), 20);
    assert!(dir.open_file("none").unwrap().is_none());
    assert!(dir.open_file("../model.onnx").is_err());
    assert!(location.directory().list().is_err(), "there are no listings");
}

#[test]
fn a_query_belongs_to_its_file_and_is_not_shown() {
    let server = Server::of(&[("/model?signature=secret", content(10)), ("/other", content(20))]);
    let (location, _) = server.location("/model?signature=secret");
    assert!(!location.display().to_string().contains("secret"));
    assert_eq!(Blob::open(&location, false).unwrap().len(), 10);
    assert_eq!(Blob::open(location.with_file_name("other"), false).unwrap().len(), 20);
}

#[test]
fn the_cache_is_bounded() {
    let len = 3 << 20;
    let server = Server::of(&[("/model", content(len))]);
    let stats = Stats::default();
    let small = options().with_max_cached(200_000).with_stats(stats.clone());
    let location = lodstone_remote::location(&server.url("/model"), &small).unwrap();
    let blob = Blob::open(&location, false).unwrap();
    for _ in 0..2 {
        assert!(blob.read().unwrap() == content(len));
    }
    assert!(stats.received() >= 2 * (len as u64) - 200_000);
    server.check(&stats);
}

//! Servers that do not respond as they should.

use std::time::{Duration, Instant};

use lodstone_remote::{Fault, Interrupt};
use lodstone_store::{Blob, Error};

use crate::common::{Logged, Reply, Server, content, options, range};

const LEN: usize = 300_000;

/// Returns the error of reading a file of [`LEN`] bytes at a server.
fn error(respond: impl Fn(&Logged, usize) -> Reply + Send + Sync + 'static) -> Error {
    let server = Server::start(respond);
    let (location, stats) = server.location("/dir/model.bin");
    let read = Blob::open(&location, false).and_then(|blob| blob.read());
    let error = read.expect_err("a server that does not respond as it should");
    assert!(error.to_string().contains("/dir/model.bin`"), "{error}");
    assert_eq!(stats.requests(), server.log().len() as u64, "{error}");
    error
}

/// Responds correctly to the first request, and with `later` to the others.
fn later(
    later: impl Fn(&Logged) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Logged, usize) -> Reply + Send + Sync + 'static {
    move |request, number| match number {
        0 => Reply::of(request, &content(LEN), "\"1\""),
        _ => later(request),
    }
}

fn honest(request: &Logged) -> Reply {
    Reply::of(request, &content(LEN), "\"1\"")
}

#[test]
fn a_server_without_ranges_is_an_error() {
    let whole = || Reply { status: 200, body: content(LEN), ..Reply::default() };
    for text in [error(move |_, _| whole()), error(later(move |_| whole()))] {
        assert!(matches!(Fault::of(&text), Some(Fault::NoRanges { .. })), "{text}");
    }
    // Unless the file fits the first range.
    let server =
        Server::start(|_, _| Reply { status: 200, body: content(100), ..Reply::default() });
    let (location, stats) = server.location("/model");
    assert!(Blob::open(&location, false).unwrap().read().unwrap() == content(100));
    server.check(&stats);
}

#[test]
fn a_short_response_is_an_error() {
    // The length is that of the body, but not of the range.
    let short = error(later(|request| {
        let mut reply = honest(request);
        reply.body.truncate(1000);
        reply
    }));
    let Some(Fault::Length { found: 1000, .. }) = Fault::of(&short) else { panic!("{short}") };
    assert!(short.to_string().contains("bytes 65536..300000 (234464 bytes), found 1000 bytes"));
    // The connection ends early.
    let cut = error(later(|request| Reply { cut: Some(1000), ..honest(request) }));
    assert!(matches!(Fault::of(&cut), Some(Fault::Network(_))), "{cut}");
}

#[test]
fn a_long_response_is_an_error() {
    let long = error(later(|request| {
        let mut reply = honest(request);
        reply.body.push(0);
        reply
    }));
    assert!(matches!(Fault::of(&long), Some(Fault::Length { found: 234_465, .. })), "{long}");
    let chunked = error(later(|request| {
        let mut reply = honest(request).with("Transfer-Encoding", "chunked");
        let begin = format!("{:x}\r\n", reply.body.len() + 5).into_bytes();
        reply.body = [&begin, &reply.body, b"extra\r\n0\r\n\r\n".as_slice()].concat();
        reply
    }));
    assert!(matches!(Fault::of(&chunked), Some(Fault::Length { .. })), "{chunked}");
}

#[test]
fn another_range_is_an_error() {
    for header in
        ["bytes 0-233463/300000", "bytes 65536-299998/300000", "bytes 65536-299999/*", "x"]
    {
        let other = error(later(move |request| honest(request).with("Content-Range", header)));
        assert!(matches!(Fault::of(&other), Some(Fault::Range { .. })), "{other}");
        assert!(other.to_string().contains(header), "{other}");
    }
    let none = error(later(|request| {
        let mut reply = honest(request);
        reply.headers.retain(|(name, _)| name != "Content-Range");
        reply
    }));
    assert!(none.to_string().contains("found the range `none`"), "{none}");
}

#[test]
fn an_unsatisfiable_range_is_an_error() {
    let other = error(later(|_| Reply::status(416)));
    assert!(other.to_string().contains("bytes 65536..300000, found status 416"), "{other}");
    let shrunk = error(later(|_| Reply::status(416).with("Content-Range", "bytes */10")));
    assert!(matches!(shrunk, Error::Changed { .. }), "{shrunk}");
    assert!(shrunk.to_string().contains("it had 300000 bytes, and has 10 now"), "{shrunk}");
    // An empty file has no ranges.
    let server = Server::start(|request, _| Reply::of(request, &[], "\"1\""));
    assert!(Blob::open(&server.location("/empty").0, false).unwrap().is_empty());
}

#[test]
fn changed_content_is_an_error() {
    // The server compares the tag.
    let compared = error(later(|request| Reply::of(request, &content(LEN), "\"2\"")));
    assert!(matches!(compared, Error::Changed { .. }), "{compared}");
    // The server ignores `If-Match`.
    let ignored = error(later(|request| honest(request).with("ETag", "\"2\"")));
    assert!(matches!(ignored, Error::Changed { .. }), "{ignored}");
    assert!(ignored.to_string().contains("entity tag was \"1\", and is \"2\" now"), "{ignored}");
    // There is no tag, but another size or time.
    let dated = |time: &str, len: usize, request: &Logged| {
        let mut reply = Reply::of(request, &content(len), "\"1\"").with("Last-Modified", time);
        reply.headers.retain(|(name, _)| name != "ETag");
        reply
    };
    for (time, len) in [("Friday", LEN), ("Monday", LEN + 1)] {
        let changed = error(move |request, number| match number {
            0 => dated("Monday", LEN, request),
            _ => dated(time, len, request),
        });
        assert!(matches!(changed, Error::Changed { .. }), "{changed}");
    }
    let weak = error(move |request, number| {
        let tag = if number == 0 { "W/\"1\"" } else { "W/\"2\"" };
        assert!(request.header("if-match").is_none(), "weak tags are never equal");
        honest(request).with("ETag", tag)
    });
    assert!(matches!(weak, Error::Changed { .. }), "{weak}");
}

#[test]
fn compressed_content_is_an_error() {
    let encoded = error(|request, _| {
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        honest(request).with("Content-Encoding", "gzip")
    });
    assert!(matches!(Fault::of(&encoded), Some(Fault::Encoded(_))), "{encoded}");
}

#[test]
fn a_silent_server_is_an_error() {
    let start = Instant::now();
    let pause = Duration::from_secs(5);
    let silent = error(move |request, _| Reply { pause, ..honest(request) });
    assert!(matches!(Fault::of(&silent), Some(Fault::Silence(_))), "{silent}");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

#[test]
fn a_server_that_sends_a_byte_from_time_to_time_is_an_error() {
    let start = Instant::now();
    let drip = Duration::from_millis(100);
    let slow = error(move |request, _| Reply { drip, ..honest(request) });
    assert!(matches!(Fault::of(&slow), Some(Fault::Slow { .. })), "{slow}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn waiting_is_interrupted() {
    let pause = Duration::from_secs(20);
    let server = Server::start(move |request, _| Reply { pause, ..honest(request) });
    let start = Instant::now();
    let interrupt = Interrupt::new(move || start.elapsed() > Duration::from_millis(200));
    let options = options().with_silence_timeout(Duration::from_secs(30)).with_interrupt(interrupt);
    let location = lodstone_remote::location(&server.url("/model"), &options).unwrap();
    let error = Blob::open(&location, false).expect_err("interrupted");
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn failures_are_retried_and_reported() {
    let failing = error(|_, _| Reply { status: 503, body: b"busy".to_vec(), ..Reply::default() });
    assert!(failing.to_string().contains("status 503: busy"), "{failing}");
    let server = Server::start(|request, number| match number {
        0 => Reply::status(503),
        _ => honest(request),
    });
    let (location, stats) = server.location("/model");
    Blob::open(&location, false).unwrap();
    assert_eq!(stats.requests(), 2);
    // Not these. The table of chunks is requested in place of a file that does not exist.
    for (status, requests) in [(400, 1), (401, 1), (403, 1), (404, 2)] {
        let server = Server::start(move |_, _| Reply::status(status));
        let (location, stats) = server.location("/model");
        Blob::open(&location, false).expect_err("failed");
        assert_eq!(stats.requests(), requests);
    }
}

#[test]
fn a_file_that_disappears_is_an_error() {
    let gone = error(later(|_| Reply::status(404)));
    assert!(matches!(Fault::of(&gone), Some(Fault::Missing)), "{gone}");
}

#[test]
fn nobody_listens() {
    let server = Server::of(&[]);
    let url = server.url("/model");
    drop(server);
    std::thread::sleep(Duration::from_millis(50));
    let location = lodstone_remote::location(&url, &options()).unwrap();
    let error = Blob::open(&location, false).expect_err("refused");
    assert!(matches!(Fault::of(&error), Some(Fault::Unreachable(_))), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn requested_ranges_are_those_of_the_reader() {
    let server = Server::of(&[("/model", content(64 << 20))]);
    let (location, stats) = server.location("/model");
    let blob = Blob::open(&location, false).unwrap();
    let part = blob.slice(40 << 20, 100_000).unwrap().read().unwrap();
    assert!(part == content(64 << 20)[40 << 20..(40 << 20) + 100_000]);
    let ranges: Vec<_> = server.log().iter().filter_map(range).collect();
    assert_eq!(ranges, [(0, 64 << 10), (40 << 20, (40 << 20) + 100_000)]);
    server.check(&stats);
}

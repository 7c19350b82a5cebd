//! A small web server that logs what it is sent, and misbehaves on request.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lodstone_remote::{Options, Stats};
use lodstone_store::Location;

/// A request as the server has seen it, and the size of the body that it sent.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) status: u16,
    pub(crate) sent: u64,
}

impl Logged {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// A response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The number of bytes of the body that are sent before the connection is closed; all by default.
    pub(crate) cut: Option<usize>,
    /// A pause before the response.
    pub(crate) pause: Duration,
    /// A pause before each byte of the body.
    pub(crate) drip: Duration,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// Responds to a request for a range as a server should.
    pub(crate) fn of(request: &Logged, content: &[u8], tag: &str) -> Self {
        if request.header("if-match").is_some_and(|expected| expected != tag) {
            return Self::status(412);
        }
        let len = content.len();
        let Some((start, end)) = range(request) else {
            let body = content.to_vec();
            return Self { status: 200, body, ..Self::default() }.with("ETag", tag);
        };
        if start >= len {
            return Self::status(416).with("Content-Range", format!("bytes */{len}"));
        }
        let end = end.min(len);
        Self { status: 206, body: content[start..end].to_vec(), ..Self::default() }
            .with("ETag", tag)
            .with("Content-Range", format!("bytes {start}-{}/{len}", end - 1))
    }
}

/// Returns the range of a request, end exclusive.
pub(crate) fn range(request: &Logged) -> Option<(usize, usize)> {
    let (start, last) = request.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    Some((start.parse().ok()?, last.parse::<usize>().ok()? + 1))
}

type Respond = dyn Fn(&Logged, usize) -> Reply + Send + Sync;

/// A server on loopback, which is closed on drop.
pub(crate) struct Server {
    address: SocketAddr,
    log: Arc<Mutex<Vec<Logged>>>,
    is_closed: Arc<AtomicBool>,
}

impl Server {
    /// Starts a server that responds with a function of the request and its number, from 0.
    pub(crate) fn start(respond: impl Fn(&Logged, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (log, is_closed) = (Arc::<Mutex<Vec<Logged>>>::default(), Arc::<AtomicBool>::default());
        let respond: Arc<Respond> = Arc::new(respond);
        let (shared, closed) = (Arc::clone(&log), Arc::clone(&is_closed));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if closed.load(Ordering::Relaxed) {
                    return;
                }
                let (log, respond) = (Arc::clone(&shared), Arc::clone(&respond));
                thread::spawn(move || serve(stream.unwrap(), &log, &*respond));
            }
        });
        Self { address, log, is_closed }
    }

    /// Starts a server of files, by path.
    pub(crate) fn of(files: &[(&str, Vec<u8>)]) -> Self {
        let files: HashMap<String, Vec<u8>> =
            files.iter().map(|(path, content)| ((*path).to_owned(), content.clone())).collect();
        Self::start(move |request, _| match files.get(&request.path) {
            Some(content) => Reply::of(request, content, "\"1\""),
            None => Reply::status(404),
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn log(&self) -> Vec<Logged> {
        self.log.lock().unwrap().clone()
    }

    /// Opens an address of this server.
    pub(crate) fn location(&self, path: &str) -> (Location, Stats) {
        let stats = Stats::default();
        let options = options().with_stats(stats.clone());
        (lodstone_remote::location(&self.url(path), &options).unwrap(), stats)
    }

    /// Compares what was counted with the log.
    pub(crate) fn check(&self, stats: &Stats) {
        let log = self.log();
        let sent: u64 = log.iter().map(|request| request.sent).sum();
        assert_eq!((stats.requests(), stats.received()), (log.len() as u64, sent), "{log:#?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Options for servers on loopback, which give up early.
pub(crate) fn options() -> Options {
    Options::default()
        .with_allow_private_addresses(true)
        .with_silence_timeout(Duration::from_millis(500))
        .with_max_retries(1)
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Logged>>, respond: &Respond) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap_or("").to_owned();
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) <= 2 {
                break;
            }
            if let Some((name, value)) = line.trim_end().split_once(": ") {
                headers.insert(name.to_lowercase(), value.to_owned());
            }
        }
        let length = headers.get("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let mut logged = Logged { path, headers, status: 0, sent: 0 };
        let number = log.lock().unwrap().len();
        let reply = respond(&logged, number);
        let sent = reply.cut.unwrap_or(reply.body.len()).min(reply.body.len());
        (logged.status, logged.sent) = (reply.status, sent as u64);
        log.lock().unwrap().push(logged);
        thread::sleep(reply.pause);
        let mut text = format!("HTTP/1.1 {} Status\r\n", reply.status);
        let lengths = ["Content-Length", "Transfer-Encoding"];
        let has_length = reply.headers.iter().any(|(name, _)| lengths.contains(&name.as_str()));
        for (name, value) in &reply.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !has_length {
            text += &format!("Content-Length: {}\r\n", reply.body.len());
        }
        text += "\r\n";
        let each = if reply.drip.is_zero() { sent.max(1) } else { 1 };
        let mut pieces = reply.body[..sent].chunks(each);
        let written = stream
            .write_all(text.as_bytes())
            .and_then(|()| {
                pieces.try_for_each(|piece| {
                    thread::sleep(reply.drip);
                    stream.write_all(piece)
                })
            })
            .and_then(|()| stream.flush());
        if written.is_err() || reply.cut.is_some() {
            return;
        }
    }
}

/// Returns bytes that differ everywhere.
pub(crate) fn content(len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(4)).map(|number| u32::try_from(number).unwrap());
    let mut bytes: Vec<u8> =
        words.flat_map(|number| number.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

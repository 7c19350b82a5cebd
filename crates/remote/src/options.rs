//! Options of remote stores, and what they count.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Options for opening remote stores.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Whether connections to loopback, private and link-local addresses are permitted. The endpoints of object stores and
    /// of the Hub that the environment names are always permitted.
    pub allow_private_addresses: bool,
    /// Maximum size of the bytes that a store keeps in memory.
    pub max_cached: u64,
    /// Maximum number of objects that a store opens: an index may list any number of files.
    pub max_objects: u64,
    /// Maximum number of requests of a store.
    pub max_requests: u64,
    /// Maximum time of a connection attempt.
    pub connect_timeout: Duration,
    /// Maximum time without a byte from the server, and the period in which it must send 1024 bytes a second.
    pub silence_timeout: Duration,
    /// Maximum number of retries of a request.
    pub max_retries: u32,
    /// The endpoint of the Hugging Face Hub [default: `HF_ENDPOINT`, or its public one].
    pub hub_endpoint: Option<String>,
    /// The access token for the Hub [default: `HF_TOKEN`].
    pub hub_token: Option<Secret>,
    /// Counts requests and bytes.
    pub stats: Stats,
    /// Cancels waiting calls.
    pub interrupt: Interrupt,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_private_addresses: false,
            max_cached: 64 << 20,
            max_objects: 10_000,
            max_requests: 1_000_000,
            connect_timeout: Duration::from_secs(10),
            silence_timeout: Duration::from_secs(30),
            max_retries: 4,
            hub_endpoint: variable("HF_ENDPOINT"),
            hub_token: variable("HF_TOKEN").map(Secret),
            stats: Stats::default(),
            interrupt: Interrupt::default(),
        }
    }
}

macro_rules! with {
    ($($(#[$doc:meta])* $function:ident($field:ident: $type:ty),)+) => {
        impl Options {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $function(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}

with! {
    with_allow_private_addresses(allow_private_addresses: bool),
    with_max_cached(max_cached: u64),
    with_max_objects(max_objects: u64),
    with_max_requests(max_requests: u64),
    with_connect_timeout(connect_timeout: Duration),
    with_silence_timeout(silence_timeout: Duration),
    with_max_retries(max_retries: u32),
    with_hub_endpoint(hub_endpoint: Option<String>),
    with_hub_token(hub_token: Option<Secret>),
    with_stats(stats: Stats),
    with_interrupt(interrupt: Interrupt),
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A text that is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Counts of requests and bytes; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Stats(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
}

impl Stats {
    /// Returns the number of HTTP requests that were sent, with redirects and retries.
    pub fn requests(&self) -> u64 {
        self.0.requests.load(Ordering::Relaxed)
    }

    /// Returns the size of the received bodies in bytes.
    pub fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }

    /// Returns the size of the sent bodies in bytes.
    pub fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }

    /// Counts a request with a body of `sent` bytes; returns the number of requests so far.
    pub(crate) fn request(&self, sent: u64) -> u64 {
        self.0.sent.fetch_add(sent, Ordering::Relaxed);
        self.0.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn receive(&self, bytes: u64) {
        self.0.received.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A function that returns whether the caller wants to stop. It is called while a call waits for a server.
#[derive(Clone, Default)]
pub struct Interrupt(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Interrupt {
    /// Wraps a function that returns whether the caller wants to stop.
    pub fn new(is_interrupted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_interrupted)))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.as_ref().is_some_and(|is_set| is_set())
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interrupt({})", self.is_set())
    }
}

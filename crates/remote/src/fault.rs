//! Why a remote store did not do what was requested.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use lodstone_store::Error;

/// The cause of an error of a remote store.
///
/// [`Error::Io`] wraps it, so that callers that do not depend on this crate see an ordinary error. [`Fault::of`]
/// returns it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The object does not exist.
    #[error("the server has no such object (status 404)")]
    Missing,
    /// The credentials do not permit the request.
    #[error("access denied (status {status}){detail}")]
    Denied {
        /// The status code, 401 or 403.
        status: u16,
        /// The reason that the server gives, with a separator; empty if it gives none.
        detail: String,
    },
    /// The server reported an error.
    #[error("status {status}{detail}")]
    Status {
        /// The status code.
        status: u16,
        /// The reason that the server gives, with a separator; empty if it gives none.
        detail: String,
    },
    /// The server ignores ranges.
    #[error(
        "the server does not support ranges: requested {range}, found status 200 with the whole file"
    )]
    NoRanges {
        /// The requested range.
        range: String,
    },
    /// The server returned another range.
    #[error("requested {expected}, found {found}")]
    Range {
        /// The requested range.
        expected: String,
        /// What the server returned.
        found: String,
    },
    /// A response is too short or too long.
    #[error("requested {range} ({expected} bytes), found {found} bytes")]
    Length {
        /// The requested range.
        range: String,
        /// The expected number of bytes.
        expected: u64,
        /// The number of bytes found, up to one more than expected.
        found: u64,
    },
    /// The bytes are compressed, so that offsets do not count bytes of the file.
    #[error("expected bytes as they are stored, found the encoding `{0}`")]
    Encoded(String),
    /// The object changed since it was opened.
    #[error("{0}")]
    Changed(String),
    /// A redirect leads where requests do not follow.
    #[error("refused a redirect to `{to}`: {why}")]
    Redirect {
        /// The host of the target.
        to: String,
        /// The violated rule.
        why: &'static str,
    },
    /// The host has an address of a private network.
    #[error("refused to connect to `{host}`: {address} is not a public address")]
    Private {
        /// The host.
        host: String,
        /// Its address.
        address: IpAddr,
    },
    /// No connection was made, so that the server has received nothing.
    #[error("{0}")]
    Unreachable(String),
    /// A connection failed.
    #[error("{0}")]
    Network(String),
    /// The server sent nothing for too long.
    #[error("the server sent nothing for {0} seconds")]
    Silence(u64),
    /// The server sent too little for too long.
    #[error("the server sent fewer than {least} bytes a second for {seconds} seconds")]
    Slow {
        /// The minimum rate.
        least: u64,
        /// The time in seconds.
        seconds: u64,
    },
    /// A limit of this process.
    #[error("expected {0} (a limit of this process), found more")]
    Limit(String),
    /// The store does not support the operation.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The object exists, and must not be replaced.
    #[error("the object exists")]
    Exists,
    /// Credentials, a region or another setting is missing or invalid.
    #[error("{0}")]
    Configuration(String),
    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
}

impl Fault {
    /// Returns the cause of an error, if a remote store caused it.
    pub fn of(error: &Error) -> Option<&Self> {
        match error {
            Error::Io { source, .. } => source.get_ref()?.downcast_ref(),
            _ => None,
        }
    }

    /// Wraps the fault with the failed action and its path.
    pub(crate) fn at(self, action: &'static str, path: &Path) -> Error {
        let kind = match &self {
            Self::Cancelled => return Error::Cancelled,
            Self::Changed(what) => {
                return Error::Changed { path: path.to_path_buf(), what: what.clone() };
            }
            Self::Exists => return Error::Exists { path: path.to_path_buf() },
            Self::Missing => io::ErrorKind::NotFound,
            Self::Denied { .. } | Self::Private { .. } | Self::Redirect { .. } => {
                io::ErrorKind::PermissionDenied
            }
            Self::Silence(_) | Self::Slow { .. } => io::ErrorKind::TimedOut,
            Self::Unsupported(_) => io::ErrorKind::Unsupported,
            Self::Configuration(_) => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        Error::io(action, path)(io::Error::new(kind, self))
    }

    /// Returns whether the same request may succeed a moment later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Network(_) | Self::Silence(_) | Self::Slow { .. } => true,
            Self::Status { status, .. } => *status == 429 || *status == 408 || *status >= 500,
            _ => false,
        }
    }
}

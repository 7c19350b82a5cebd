//! What a store needs from a server.
//!
//! | backend | reads | lists | writes |
//! |---|---|---|---|
//! | [`Bucket`](crate::bucket::Bucket) | yes | yes | yes |
//! | [`Web`](crate::web::Web) of a site | yes | no | no |
//! | [`Web`](crate::web::Web) of the Hub | yes | yes | no |

use std::ops::Range;

use bytes::Bytes;
use lodstone_store::Entry;

use crate::Fault;
use crate::bucket::Bucket;
use crate::web::Web;

/// A kind of server.
#[derive(Debug)]
pub(crate) enum Backend {
    Bucket(Bucket),
    Web(Box<Web>),
}

/// What distinguishes the content of an object from earlier and later content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// The entity tag, with quotes.
    pub(crate) tag: Option<String>,
    /// The time of the last change, as the server spells it.
    pub(crate) modified: Option<String>,
    /// The time of the last change in seconds since 1970; 0 if unknown.
    pub(crate) seconds: i64,
    /// The size in bytes.
    pub(crate) size: u64,
}

/// A part of an object.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) start: u64,
    pub(crate) bytes: Bytes,
    pub(crate) version: Version,
}

impl Version {
    /// Returns the entity tag for `If-Match`, which compares only strong ones.
    pub(crate) fn strong_tag(&self) -> Option<&str> {
        self.tag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }

    /// Fails if `now` is the version of other content.
    ///
    /// # Errors
    /// [`Fault::Changed`].
    pub(crate) fn expect(&self, now: &Self) -> Result<(), Fault> {
        let differ = |what: &str, before: &Option<String>, after: &Option<String>| {
            let (before, after) = (before.as_ref()?, after.as_ref()?);
            (before != after).then(|| format!("its {what} was {before}, and is {after} now"))
        };
        let tag = differ("entity tag", &self.tag, &now.tag);
        // Servers of one object may give it several times.
        let compares_time = self.tag.is_none() || now.tag.is_none();
        let time = || differ("time of change", &self.modified, &now.modified);
        let found = tag.or_else(|| if compares_time { time() } else { None });
        let sizes = || format!("it had {} bytes, and has {} now", self.size, now.size);
        match found.or_else(|| (self.size != now.size).then(sizes)) {
            Some(what) => Err(Fault::Changed(what)),
            None => Ok(()),
        }
    }
}

impl Backend {
    /// Reads a range of an object, up to its end if that is before the end of the range. With `known`, only that version
    /// of it.
    ///
    /// # Errors
    /// [`Fault::Missing`], [`Fault::Changed`], or another fault of the server.
    pub(crate) async fn get(
        &self,
        key: &str,
        range: Range<u64>,
        known: Option<&Version>,
    ) -> Result<Answer, Fault> {
        match self {
            Self::Bucket(bucket) => bucket.get(key, range, known).await,
            Self::Web(web) => web.get(key, range, known).await,
        }
    }

    /// Returns the entries of a directory; `None` if there is no such directory.
    pub(crate) async fn list(&self, key: &str) -> Result<Option<Vec<Entry>>, Fault> {
        match self {
            Self::Bucket(bucket) => bucket.list(key).await,
            Self::Web(web) => web.list(key).await,
        }
    }

    /// Returns whether there is a directory.
    pub(crate) async fn is_dir(&self, key: &str) -> Result<bool, Fault> {
        match self {
            Self::Bucket(bucket) => bucket.is_dir(key).await,
            // Sites have no directories.
            Self::Web(web) if !web.lists() => Ok(false),
            Self::Web(web) => Ok(web.list(key).await?.is_some()),
        }
    }

    /// Returns the keys of all objects below a directory, at most `max` and one more.
    pub(crate) async fn everything(&self, key: &str, max: usize) -> Result<Vec<String>, Fault> {
        match self {
            Self::Bucket(bucket) => bucket.everything(key, max).await,
            Self::Web(web) => web.everything(key, max).await,
        }
    }

    /// Returns the bucket, to which objects can be written.
    pub(crate) fn bucket(&self) -> Result<&Bucket, Fault> {
        match self {
            Self::Bucket(bucket) => Ok(bucket),
            Self::Web(_) => {
                Err(Fault::Unsupported("expected an object store, which can be written to"))
            }
        }
    }
}

/// Formats a range for errors.
pub(crate) fn bytes_of(range: &Range<u64>) -> String {
    format!("bytes {}..{}", range.start, range.end)
}

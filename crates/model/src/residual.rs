//! What a format said about a node beyond what the model says.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lodstone_store::Blob;

/// The bytes that a node was read from, opaque to everything but the format that wrote them.
///
/// A writer of the same format compares what they say with what the node says now, and puts only
/// the difference into them: unknown fields, presence and the choice between encodings survive,
/// and editing one operator leaves every other byte as it was. A writer of another format
/// ignores them. Two nodes that differ only in their residuals are equal.
///
/// Elements of tensors need not be among the bytes: a format may leave holes for them, and say with
/// what each is to be filled.
#[derive(Clone, Default)]
pub struct Residual(Option<(&'static str, Bytes, Arc<[Blob]>)>);

impl Residual {
    /// The encoding of a node in `format`.
    pub fn new(format: &'static str, bytes: Bytes) -> Self {
        Self::with_holes(format, bytes, Arc::default())
    }

    /// The encoding of a node in `format`, and what its holes are to be filled with.
    pub fn with_holes(format: &'static str, bytes: Bytes, holes: Arc<[Blob]>) -> Self {
        Self(Some((format, bytes, holes)))
    }

    /// The encoding, if it is one of `format`.
    pub fn of(&self, format: &str) -> Option<&Bytes> {
        self.with_holes_of(format).map(|(bytes, _)| bytes)
    }

    /// The encoding, if it is one of `format`, and what its holes are to be filled with.
    pub fn with_holes_of(&self, format: &str) -> Option<(&Bytes, &Arc<[Blob]>)> {
        let (_, bytes, holes) = self.0.as_ref().filter(|(owner, ..)| *owner == format)?;
        Some((bytes, holes))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Forgets what the format said.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

/// The format alone: the bytes say again what the node says.
impl fmt::Debug for Residual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Residual").field(&self.0.as_ref().map(|(format, ..)| *format)).finish()
    }
}

impl PartialEq for Residual {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Residual {}

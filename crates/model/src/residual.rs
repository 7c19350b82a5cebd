//! Format-specific details of a node beyond the model types.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lodstone_store::Blob;

/// The bytes that a node was read from, opaque to all but the format that wrote them.
///
/// A writer of the same format compares the decoded bytes with the node, and encodes only the differences:
/// unknown fields, field presence and the choice among encodings survive, and editing one operator leaves every
/// other byte unchanged. A writer of another format ignores the residual. Nodes that differ only in their residuals
/// are equal.
///
/// The bytes need not include tensor elements: a format may leave holes for them, and record the contents of each.
#[derive(Clone, Default)]
pub struct Residual(Option<Box<Kept>>);

/// The format, the bytes and the contents of their holes. Most nodes have none, and should stay small.
#[derive(Clone)]
struct Kept {
    format: &'static str,
    bytes: Bytes,
    holes: Arc<[Blob]>,
}

impl Residual {
    /// Creates the residual of a node encoded in `format`.
    pub fn new(format: &'static str, bytes: Bytes) -> Self {
        Self::with_holes(format, bytes, Arc::default())
    }

    /// Creates the residual of a node encoded in `format`, with the contents of its holes.
    pub fn with_holes(format: &'static str, bytes: Bytes, holes: Arc<[Blob]>) -> Self {
        Self(Some(Box::new(Kept { format, bytes, holes })))
    }

    /// Returns the bytes, if the residual is of `format`.
    pub fn of(&self, format: &str) -> Option<&Bytes> {
        self.with_holes_of(format).map(|(bytes, _)| bytes)
    }

    /// Returns the bytes and the contents of their holes, if the residual is of `format`.
    pub fn with_holes_of(&self, format: &str) -> Option<(&Bytes, &Arc<[Blob]>)> {
        let kept = self.0.as_ref().filter(|kept| kept.format == format)?;
        Some((&kept.bytes, &kept.holes))
    }

    /// Returns whether the residual is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Clears the residual.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

/// Prints the format only: the bytes repeat the contents of the node.
impl fmt::Debug for Residual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Residual").field(&self.0.as_ref().map(|kept| kept.format)).finish()
    }
}

impl PartialEq for Residual {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Residual {}

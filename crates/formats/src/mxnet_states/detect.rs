//! What states of optimizers look like.

use crate::Probe;

/// Whether a file is a pickle that refers to something of MXNet's near its beginning, or one under
/// the name of states: those that were never needed are plain numbers and `None`.
pub(super) fn detect(probe: &Probe<'_>) -> bool {
    let is_named = probe.path.extension().is_some_and(|extension| extension == "states");
    probe.entries.is_none() && is_pickle(probe.head) && (is_named || refers(probe.head))
}

/// Whether bytes may begin a pickle of a dict or a tuple, of any protocol.
fn is_pickle(head: &[u8]) -> bool {
    matches!(head, [0x80, 2..=5, _, ..] | [b'}', b'q' | b'.', ..] | [b'(', b'd' | b'(' | b'}', ..])
}

/// Whether something of MXNet's is imported: by a line, or by a text before the name.
fn refers(head: &[u8]) -> bool {
    const MODULE: &[u8] = b"mxnet.";
    let mut places = head.windows(MODULE.len()).enumerate().filter(|(_, window)| *window == MODULE);
    places.any(|(place, _)| {
        let before = head.get(..place).unwrap_or_default();
        matches!(before, [.., b'c'] | [.., 0x8c, _] | [.., b'X', _, 0, 0, 0])
    })
}

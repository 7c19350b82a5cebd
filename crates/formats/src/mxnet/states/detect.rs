//! Detection of optimizer states.

use lodstone_model::Limits;
use lodstone_store::Blob;

use crate::encoding::pickle::{Node, Steps, read_leniently};
use crate::format::Probe;

/// Returns whether a file is a pickle that refers to MXNet near its beginning, or has the extension
/// of states and contains only `None` states. Others also use the extension for pickles.
pub(super) fn detect(probe: &Probe<'_>) -> bool {
    let is_named = probe.path.extension().is_some_and(|extension| extension == "states");
    probe.entries.is_none()
        && is_pickle(probe.head)
        && (refers(probe.head) || (is_named && holds_none(probe.head)))
}

/// Returns whether `head` begins a dict of integers to `None`.
fn holds_none(head: &[u8]) -> bool {
    let mut steps = Steps { left: head.len() as u64, ..Steps::default() };
    let head = Blob::memory(head.to_vec());
    let tree = read_leniently(&head, 0, &Limits::default(), &mut steps).tree;
    let mut nodes = tree.nodes().map(|(_, node)| node);
    matches!(nodes.next(), Some(Node::Dict(_)))
        && tree.len() > 2
        && nodes.all(|node| matches!(node, Node::Int(_) | Node::None))
}

/// Returns whether `head` may begin a pickle of a dict or a tuple, of any protocol.
fn is_pickle(head: &[u8]) -> bool {
    matches!(head, [0x80, 2..=5, _, ..] | [b'}', b'q' | b'.', ..] | [b'(', b'd' | b'(' | b'}', ..])
}

/// Returns whether something of MXNet is imported: by a line, or by a string before the name.
fn refers(head: &[u8]) -> bool {
    const MODULE: &[u8] = b"mxnet.";
    let mut places = head.windows(MODULE.len()).enumerate().filter(|(_, window)| *window == MODULE);
    places.any(|(place, _)| {
        let before = head.get(..place).unwrap_or_default();
        matches!(before, [.., b'c'] | [.., 0x8c, _] | [.., b'X', _, 0, 0, 0])
    })
}

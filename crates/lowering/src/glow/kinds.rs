//! Kinds of nodes that share an ONNX operator with other kinds, recorded in the metadata of the model.
//!
//! ONNX's `Gemm` stands for Glow's `Gemm` and `FullyConnected`, and Glow's loader reads it as the first. Which node was
//! the second is no loss, since the computation is the same; it is recorded for the way back.

use std::collections::{BTreeMap, HashMap};

/// The metadata key. The value lists names and kinds as `name=Kind`, separated by `;`.
const KEY: &str = "com.facebook.glow.kinds";

/// Kinds that their ONNX operator does not determine.
const AMBIGUOUS: &[&str] = &["BatchedAdd", "BatchedMul", "Broadcast", "FullyConnected", "Splat"];

/// Whether the ONNX operator does not determine this kind of node.
pub(super) fn is_ambiguous(kind: &str) -> bool {
    AMBIGUOUS.contains(&kind)
}

/// Records kinds of nodes by their names.
pub(super) fn record(metadata: &mut BTreeMap<String, String>, kinds: &[(String, &str)]) {
    // Glow's names consist of letters and digits; other names could not be parsed again.
    let is_plain = |name: &str| !name.is_empty() && !name.contains([';', '=']);
    let recorded = kinds.iter().filter(|(name, _)| is_plain(name));
    let recorded: Vec<String> = recorded.map(|(name, kind)| format!("{name}={kind}")).collect();
    if !recorded.is_empty() {
        metadata.insert(KEY.to_owned(), recorded.join(";"));
    }
}

/// Removes the recorded kinds and returns them by name.
pub(super) fn take(metadata: &mut BTreeMap<String, String>) -> HashMap<String, &'static str> {
    let text = metadata.remove(KEY).unwrap_or_default();
    let recorded = text.split(';').filter_map(|entry| entry.split_once('='));
    let known = recorded.filter_map(|(name, kind)| {
        let kind = AMBIGUOUS.iter().find(|ambiguous| **ambiguous == kind)?;
        Some((name.to_owned(), *kind))
    });
    known.collect()
}

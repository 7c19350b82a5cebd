//! Kinds of nodes that become the same operator of ONNX as others, told by the metadata of the model.
//!
//! ONNX's `Gemm` is what `Gemm` and `FullyConnected` of Glow are, and Glow's loader takes it to be the
//! first. Which node was the other one is no loss, as everything is computed as before; it is told for
//! the way back.

use std::collections::{BTreeMap, HashMap};

/// The key: names and kinds, `name=Kind`, with `;` between.
const KEY: &str = "com.facebook.glow.kinds";

/// Kinds that their operator does not tell.
const UNTOLD: &[&str] = &["BatchedAdd", "BatchedMul", "Broadcast", "FullyConnected", "Splat"];

/// Whether an operator of ONNX does not tell that it was a node of this kind.
pub(super) fn is_untold(kind: &str) -> bool {
    UNTOLD.contains(&kind)
}

/// Tells kinds of nodes by their names.
pub(super) fn tell(metadata: &mut BTreeMap<String, String>, kinds: &[(String, &str)]) {
    // Names of Glow are letters and digits; others would not be read as they are.
    let is_plain = |name: &str| !name.is_empty() && !name.contains([';', '=']);
    let told = kinds.iter().filter(|(name, _)| is_plain(name));
    let told: Vec<String> = told.map(|(name, kind)| format!("{name}={kind}")).collect();
    if !told.is_empty() {
        metadata.insert(KEY.to_owned(), told.join(";"));
    }
}

/// Takes out what was told, by name.
pub(super) fn take(metadata: &mut BTreeMap<String, String>) -> HashMap<String, &'static str> {
    let text = metadata.remove(KEY).unwrap_or_default();
    let told = text.split(';').filter_map(|entry| entry.split_once('='));
    let known = told.filter_map(|(name, kind)| {
        let kind = UNTOLD.iter().find(|untold| **untold == kind)?;
        Some((name.to_owned(), *kind))
    });
    known.collect()
}

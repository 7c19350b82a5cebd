//! Symbols that MXNet 1.9.1 ran: `golden/mxnet`, and a folder that `make_cases.py` there wrote and `LODSTONE_MXNET_CASES` names.

use std::path::{Path, PathBuf};

use lodstone_formats::mxnet;
use lodstone_model::{Dialect, Tensor};

use super::equal::{self, Equal};
use super::evaluate::{arrays, declare, difference, lowered, names, open, prefixed};
use super::{Case, root};

/// Outputs that MXNet does not set in inference: it records whatever the memory held.
const UNSET: &[&str] = &["lr_mask"];

pub(crate) fn cases() -> Vec<Case> {
    let own = root().join("tests/golden/mxnet");
    let other = std::env::var_os("LODSTONE_MXNET_CASES").map(PathBuf::from);
    let cases = |folder: PathBuf| {
        names(&folder).into_iter().flat_map(move |name| {
            let equal = equal::of(Dialect::Mxnet, &name).map(Some);
            let all = std::iter::once(None).chain(equal);
            all.map(|equal| case(&folder, &name, equal)).collect::<Vec<_>>()
        })
    };
    std::iter::once(own).chain(other).flat_map(cases).collect()
}

fn case(folder: &Path, name: &str, equal: Option<&'static Equal>) -> Case {
    let mut model = open(&mxnet::BUNDLE, &folder.join(name)).unwrap();
    if let Some(equal) = equal {
        equal.put(&mut model);
    }
    let io = folder.join(format!("{name}-io.npz"));
    // oneDNN rounds weights and sums of quantized layers that here have single precision.
    let near = if name == "q_mkldnn" { 0.03 } else { 1e-5 };
    let ops: Vec<_> = model.main().unwrap().ops().cloned().collect();
    Case::new(Dialect::Mxnet, name, ops.iter(), move || {
        let arrays = arrays(&io);
        let inputs = prefixed(&arrays, "in:");
        let mut outputs = prefixed(&arrays, "out:");
        let number = |name: &str| name.split(':').next().unwrap().parse::<usize>().unwrap();
        outputs.sort_by_key(|(name, _)| number(name));
        declare(&mut model, &inputs);
        lowered(model, &inputs).map_or_else(Some, |found| differ(&found, &outputs, near))
    })
    .of(equal)
}

/// Describes the first output that differs.
fn differ(found: &[(String, Tensor)], recorded: &[(String, Tensor)], near: f64) -> Option<String> {
    if found.len() != recorded.len() {
        return Some(format!("{} outputs, expected {}", found.len(), recorded.len()));
    }
    found.iter().zip(recorded).find_map(|((name, found), (expected, recorded))| {
        let (_, expected) = expected.split_once(':').unwrap();
        if UNSET.contains(&expected) {
            return None;
        }
        // MXNet permits several outputs of one name; others get a number.
        if !name.starts_with(expected) {
            return Some(format!("output `{name}`, expected `{expected}`"));
        }
        difference(found, recorded, near).map(|wrong| format!("`{name}`: {wrong}"))
    })
}

//! Runs of MXNet in a larger collection: with `LODSTONE_CASES`, each program returns what MXNet returned, and so does
//! its export to ONNX.
//!
//! `mxnet-ops` of the collection has `NAME-symbol.json`, `NAME-0000.params`, and `NAME-io.npz` with inputs (`in:NAME`)
//! and outputs (`out:INDEX:NAME`). `LODSTONE_MXNET_CASES` names another folder of the same form.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]

mod mxnet_runs;

use std::fs;
use std::path::{Path, PathBuf};

use mxnet_runs::{difference, names};

fn folders() -> Vec<PathBuf> {
    let root = std::env::var_os("LODSTONE_CASES");
    let own = root.map(|root| Path::new(&root).join("mxnet-ops")).filter(|it| it.is_dir());
    let other = std::env::var_os("LODSTONE_MXNET_CASES").map(PathBuf::from);
    own.into_iter().chain(other).collect()
}

#[test]
fn one_operator_programs_return_what_mxnet_returned() {
    for folder in folders() {
        let (mut wrong, mut count) = (Vec::new(), 0);
        for name in names(&folder) {
            if fs::metadata(folder.join(format!("{name}-io.npz"))).is_err() {
                continue;
            }
            count += 1;
            if let Some(what) = difference(&folder, &name) {
                wrong.push(format!("{name}: {what}"));
            }
        }
        let failed = wrong.len();
        assert!(wrong.is_empty(), "{failed} of {count} differ:\n{}", wrong.join("\n"));
        assert!(count > 0, "{} has no cases", folder.display());
    }
}

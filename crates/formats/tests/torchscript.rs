//! Programs of TorchScript: archives of the collection become programs (`LODSTONE_CASES`), or a warning names the function
//! and the line that prevents it.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "tests read their own files"
)]

use std::fs;
use std::path::Path;

use lodstone_formats::torch::read_script_blob;
use lodstone_model::{Limits, Model};
use lodstone_store::Blob;

fn read(path: &Path) -> Option<Model> {
    let blob = Blob::memory(fs::read(path).expect("a file"));
    read_script_blob(&blob, &Limits::default()).ok()
}

#[test]
fn golden_modules_become_programs() {
    for name in ["script.pt", "trace.pt"] {
        let path = Path::new("tests/golden/torch").join(name);
        let model = read(&path).expect("a module");
        let main = model.main().unwrap_or_else(|| panic!("{name}: {:?}", model.report));
        assert!(main.ops().count() > 0, "{name}");
    }
}

/// Modules that are not translated, and a part of the warning.
const UNTRANSLATED: &[(&str, &str)] =
    &[("torch/n.pt", "an output is a List[int]"), ("torch/scripted.pt", "an index must be known")];

#[test]
fn modules_of_the_collection_become_programs() {
    let Some(root) = std::env::var_os("LODSTONE_CASES") else { return };
    let (mut wrong, mut count) = (Vec::new(), 0);
    for folder in ["torch", "torch-ops"] {
        for entry in fs::read_dir(Path::new(&root).join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = format!("{folder}/{}", path.file_name().expect("a name").to_string_lossy());
            if path.extension().is_none_or(|extension| extension != "pt") {
                continue;
            }
            let Some(model) = read(&path) else { continue };
            count += 1;
            let listed = UNTRANSLATED.iter().find(|(known, _)| *known == name);
            let warnings = format!("{:?}", model.report);
            let is_expected = match (model.main(), listed) {
                (Some(_), None) => true,
                (None, Some((_, what))) => warnings.contains(what),
                _ => false,
            };
            if !is_expected {
                wrong.push(format!("{name}: {warnings}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 0, "no modules");
}

//! Programs of TorchScript: with `LODSTONE_CASES`, each archive of the collection becomes a program, or a warning names the
//! function and line that prevents it.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]
#![expect(clippy::expect_used, reason = "tests")]

use std::fs;
use std::path::Path;

use lodstone_formats::torch;
use lodstone_model::{Limits, Model};
use lodstone_store::Blob;

#[test]
fn modules_of_one_operator_become_programs() {
    let Some(root) = std::env::var_os("LODSTONE_CASES") else { return };
    let (mut missing, mut count) = (Vec::new(), 0);
    let only = std::env::var("ONLY").unwrap_or_default();
    for entry in
        fs::read_dir(Path::new(&root).join(std::env::var("DIR_").unwrap_or("torch-ops".into())))
            .expect("a folder")
    {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "pt")
            || !path.to_string_lossy().contains(&only)
        {
            continue;
        }
        count += 1;
        let bytes = fs::read(&path).expect("a file");
        let read: Result<Model, _> =
            torch::read_script_blob(&Blob::memory(bytes), &Limits::default());
        let Ok(model) = read else {
            eprintln!("{}: not opened", path.display());
            continue;
        };
        if !only.is_empty() {
            eprintln!("{:#?}", model.main());
        }
        if model.main().is_none() {
            missing.push(format!("{}: {:?}", path.display(), model.report));
        }
    }
    assert!(missing.is_empty(), "{} of {count}:\n{}", missing.len(), missing.join("\n"));
}

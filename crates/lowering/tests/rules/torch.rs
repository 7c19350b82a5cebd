//! Modules of one or few operators that PyTorch 2.15 exported (`golden/torch`, and a folder that `make_cases.py` there wrote
//! and `LODSTONE_TORCH_CASES` names), and functions that it traced or scripted (`golden/torchscript`).

use std::path::{Path, PathBuf};

use lodstone_formats::torch;
use lodstone_model::{DType, Dialect, Tensor};

use super::equal::{self, Equal};
use super::evaluate::{arrays, declare, difference, lowered, names, open, prefixed};
use super::{Case, root};

pub(crate) fn cases() -> Vec<Case> {
    let golden = |name: &str| root().join("tests/golden").join(name);
    let other = std::env::var_os("LODSTONE_TORCH_CASES").map(PathBuf::from);
    let folders = [golden("torch"), golden("torchscript")].into_iter().chain(other);
    let cases = |folder: PathBuf| {
        names(&folder).into_iter().flat_map(move |name| {
            let equal = equal::of(Dialect::Torch, &name).map(Some);
            let all = std::iter::once(None).chain(equal);
            all.map(|equal| case(&folder, &name, equal)).collect::<Vec<_>>()
        })
    };
    folders.flat_map(cases).collect()
}

fn case(folder: &Path, name: &str, equal: Option<&'static Equal>) -> Case {
    let exported = folder.join(format!("{name}.pt2"));
    let script = folder.join(format!("{name}.pt"));
    let is_script = script.is_file();
    let model = match is_script {
        true => open(&torch::SCRIPT, &script),
        false => open(&torch::EXPORTED, &exported),
    };
    let mut model = model.unwrap_or_else(|error| panic!("{name}: {error}"));
    if let Some(equal) = equal {
        equal.put(&mut model);
    }
    let io = folder.join(format!("{name}-io.npz"));
    let ops: Vec<_> = model.main().unwrap().ops().cloned().collect();
    Case::new(Dialect::Torch, name, ops.iter(), move || {
        let arrays = arrays(&io);
        let inputs = prefixed(&arrays, "in:");
        let mut outputs = prefixed(&arrays, "out:");
        outputs.sort_by_key(|(number, _)| number.parse::<usize>().unwrap());
        let mut bound = model.clone();
        declare(&mut bound, &inputs);
        // For these dims, and for those that an exported program declares, some of which may be dynamic.
        let declared = (!is_script).then_some(("exported: ", model));
        [("", bound)].into_iter().chain(declared).find_map(|(what, model)| {
            let found = lowered(model, &inputs).map(|found| differ(&found, &outputs));
            found.unwrap_or_else(Some).map(|wrong| format!("{what}{wrong}"))
        })
    })
    .of(equal)
}

/// Describes the first output that differs. The next values of states follow the outputs.
fn differ(found: &[(String, Tensor)], recorded: &[(String, Tensor)]) -> Option<String> {
    if found.len() < recorded.len() {
        return Some(format!("{} outputs, expected {}", found.len(), recorded.len()));
    }
    found.iter().zip(recorded).find_map(|((name, found), (_, recorded))| {
        // Half precision has 11 bits.
        let near = if recorded.dtype == DType::Float16 { 1e-3 } else { 1e-5 };
        difference(found, recorded, near).map(|wrong| format!("`{name}`: {wrong}"))
    })
}

//! Runs of exported PyTorch programs: the golden ones, and those in a larger collection. Each program returns what
//! PyTorch returned, and so does its export to ONNX.
//!
//! `LODSTONE_TORCH_CASES` names a folder that `golden/torch/make_cases.py` made; `LODSTONE_TORCH_ONLY` a prefix of names.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]
#![expect(clippy::expect_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::torch_runs::{difference, inputs, names, numbers, recorded};
use lodstone::run::tensors;
use lodstone::{
    CompareOptions, ConvertOptions, Inputs, MemoryStore, RunOptions, compare, convert, open, run,
};

fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lowering/tests/golden/torch");
    let other = std::env::var_os("LODSTONE_TORCH_CASES").map(PathBuf::from);
    std::iter::once(own).chain(other).collect()
}

#[test]
fn one_operator_programs_return_what_torch_returned() {
    let only = std::env::var("LODSTONE_TORCH_ONLY").unwrap_or_default();
    for folder in folders() {
        let (mut wrong, mut count) = (Vec::new(), 0);
        for name in names(&folder).into_iter().filter(|name| name.starts_with(&only)) {
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
        assert!(count > 0 || !only.is_empty(), "{} has no cases", folder.display());
    }
}

/// Models of releases, with an input and the output that the release returned.
#[test]
fn models_of_releases_return_what_torch_returned() {
    let Some(root) = std::env::var_os("LODSTONE_CASES") else { return };
    let peers = Path::new(&root).join("peers/torch-2.15.0");
    for model in ["lenet", "lstm", "mlp", "resnet_like"] {
        let folder = peers.join(model);
        let read = |file: &str| open(folder.join(file)).expect("an array").parameters;
        let opened = open(folder.join("export.pt2")).expect("a model");
        let mut inputs = Inputs::default();
        inputs.values.extend(read("in0.npy").into_iter().map(|it| (None, it.tensor.into())));
        let found = tensors(run(&opened, inputs, &RunOptions::default()).expect(model));
        let expected = read("out.npy").remove(0).tensor;
        let found = &found.first().expect("an output").tensor;
        assert_eq!(found.shape, expected.shape, "{model}");
        let pairs = numbers(found).into_iter().zip(numbers(&expected));
        let far = pairs.filter(|(a, b)| (a - b).abs() > 1e-5 * b.abs().max(1.0)).count();
        assert_eq!(far, 0, "{model}: {far} elements differ");
    }
}

/// The next values of states are outputs of the export, and results of the program.
#[test]
fn a_program_with_states_equals_its_export() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lowering/tests/golden/torch");
    let model = open(folder.join("state.pt2")).expect("a model");
    let given = recorded(&folder, "state").0;
    let out = MemoryStore::default().location("out.onnx");
    convert(model.clone(), out.clone(), &ConvertOptions::default()).expect("an export");
    let copy = open(out).expect("the export");
    let options = CompareOptions::default();
    let found = compare(&model, &copy, inputs(&given), &options).expect("a comparison");
    assert!(found.same, "{found:?}");
    let outputs = found.values.iter().filter(|value| value.is_output);
    let names: Vec<&str> = outputs.map(|value| value.a.as_str()).collect();
    assert!(names.contains(&"count.next"), "{names:?}");
}

/// An output that operators write to later has the name of the output; what it was before gets another.
#[test]
fn outputs_that_are_written_to_keep_their_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lowering/tests/golden/torch");
    let model = open(folder.join("inplace_chunks.pt2")).expect("a model");
    let out = MemoryStore::default().location("out.onnx");
    let done = convert(model.clone(), out.clone(), &ConvertOptions::default()).expect("an export");
    assert!(done.report.warnings.is_empty(), "{:?}", done.report.warnings);
    let copy = open(out).expect("the export");
    let outputs = |model: &lodstone::Model| {
        let program = model.main().expect("a program");
        program.blocks.first().expect("a block").outputs.clone()
    };
    assert_eq!(outputs(&model), outputs(&copy));
    let given = recorded(&folder, "inplace_chunks").0;
    let found = compare(&model, &copy, inputs(&given), &CompareOptions::default());
    let found = found.expect("a comparison");
    assert!(found.same, "{found:?}");
}

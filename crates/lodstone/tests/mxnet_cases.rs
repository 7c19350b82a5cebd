//! Runs of MXNet in a larger collection: with `LODSTONE_CASES`, each program returns what MXNet returned, and so does
//! its export to ONNX.
//!
//! `mxnet-ops` of the collection has `NAME-symbol.json`, `NAME-0000.params`, and `NAME-io.npz` with inputs (`in:NAME`)
//! and outputs (`out:INDEX:NAME`). `LODSTONE_MXNET_CASES` names another folder of the same form.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::mxnet_runs::{difference_within, names, near, numbers};
use lodstone::ops::OperatorTarget;
use lodstone::run::tensors;
use lodstone::{Inputs, RunOptions, open, operators, run};

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
            if let Some(what) = difference_within(&folder, &name, &|_| near(&name)) {
                wrong.push(format!("{name}: {what}"));
            }
        }
        let failed = wrong.len();
        assert!(wrong.is_empty(), "{failed} of {count} differ:\n{}", wrong.join("\n"));
        assert!(count > 0, "{} has no cases", folder.display());
    }
}

/// Folders of whole networks with random parameters are named by `LODSTONE_MXNET_NETWORKS`; the script that makes them is
/// `golden/mxnet/make_networks.py`.
#[test]
fn networks_return_what_mxnet_returned() {
    let Some(folder) = std::env::var_os("LODSTONE_MXNET_NETWORKS").map(PathBuf::from) else {
        return;
    };
    let only = std::env::var("LODSTONE_MXNET_ONLY").unwrap_or_default();
    // Errors of single precision accumulate over a hundred layers.
    let near = |all: &[f64]| {
        let largest =
            all.iter().filter(|it| it.is_finite()).fold(1.0_f64, |most, it| most.max(it.abs()));
        1e-3 * largest
    };
    let (mut wrong, mut count) = (Vec::new(), 0);
    for name in names(&folder).into_iter().filter(|name| only.is_empty() || *name == only) {
        count += 1;
        if let Some(what) = difference_within(&folder, &name, &near) {
            wrong.push(format!("{name}: {what}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Models of old and new releases, with an input and the output that the release returned.
#[test]
fn models_of_releases_return_what_mxnet_returned() {
    let Some(root) = std::env::var_os("LODSTONE_CASES") else { return };
    let peers = Path::new(&root).join("peers");
    // MXNet 1.9.1 returns what we do for the models of old releases, whose recorded outputs differ: their files have
    // statistics of normalization that were never updated.
    let models = [
        ("mxnet-0.9.5-2/module_lenet/lenet", 0.02),
        ("mxnet-0.11.0/module_lenet/lenet", 0.02),
        ("mxnet-1.9.1/lenet/lenet", 1e-5),
        ("mxnet-1.9.1/module_mlp/mlp", 1e-5),
    ];
    for (model, near) in models {
        let path = peers.join(model);
        let read = |file: &str| open(path.with_file_name(file)).expect("an array").parameters;
        let opened = open(&path).expect("a model");
        let given = read("in0.npy");
        let mut inputs = Inputs::default();
        inputs.values.extend(given.into_iter().map(|it| (None, it.tensor.into())));
        let found = tensors(run(&opened, inputs, &RunOptions::default()).expect(model));
        let expected = read("out.npy");
        assert_eq!(found.len(), 1, "{model}");
        let (found, expected) = (&found[0].tensor, &expected[0].tensor);
        assert_eq!(found.shape, expected.shape, "{model}");
        let pairs = numbers(found).into_iter().zip(numbers(expected));
        let far = pairs.filter(|(a, b)| (a - b).abs() > near * b.abs().max(1.0)).count();
        assert_eq!(far, 0, "{model}: {far} elements differ");
    }
}

/// Programs of published models, without parameters.
#[test]
fn operators_of_published_models_are_supported() {
    let Some(root) = std::env::var_os("LODSTONE_CASES") else { return };
    let folder = Path::new(&root).join("mxnet-symbols");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for name in names(&folder) {
        count += 1;
        let model = open(folder.join(format!("{name}-symbol.json"))).expect(&name);
        for target in [OperatorTarget::Onnx, OperatorTarget::Run] {
            let report = operators(&model, target).expect(&name);
            let rows = report.operators.iter().filter(|row| row.unsupported > 0);
            wrong.extend(rows.map(|row| format!("{name}: {} {:?}", row.kind, row.reasons)));
        }
    }
    assert!(wrong.is_empty(), "of {count}:\n{}", wrong.join("\n"));
    assert!(count > 0, "{} has no programs", folder.display());
}

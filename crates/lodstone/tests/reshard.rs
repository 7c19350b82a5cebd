//! Division of models into shards: checkpoints that PyTorch and PaddlePaddle wrote, in every format and number of shards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lodstone::{
    Change, DiffOptions, Loss, Model, OpenOptions, Planned, Progress, ReshardOptions, Step,
    StoreError, diff, open, reshard, verify,
};

const FORMATS: [&str; 3] = ["torch-distributed", "paddle-distributed", "safetensors"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden").join(name)
}

/// All checkpoints that several processes wrote.
fn checkpoints() -> Vec<PathBuf> {
    let is_whole = |path: &PathBuf| path.is_dir() && open(path).is_ok();
    let of = |name: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(golden(name)).expect("golden files");
        entries.map(|entry| entry.expect("an entry").path()).filter(is_whole).collect()
    };
    let found: Vec<_> = ["torch_sharded", "paddle_sharded/3.0.0", "paddle_sharded/3.3.1"]
        .into_iter()
        .flat_map(of)
        .collect();
    assert!(found.len() >= 12, "{found:?}");
    found
}

fn options(to: &str, shards: usize) -> ReshardOptions {
    let allow = vec![Loss::Metadata, Loss::DType, Loss::Sparse];
    ReshardOptions::default()
        .with_to(Some(to.to_owned()))
        .with_shards(Some(shards))
        .with_allow(allow)
}

/// Compares the tensors of two models by name.
fn assert_equal(one: &Model, other: &Model) {
    let found = diff(one.clone(), other, &DiffOptions::default()).expect("compared");
    let mut changes = found.tensors.iter().flat_map(|tensor| &tensor.changes);
    assert!(changes.all(|change| matches!(change, Change::Moved)), "{found:?}");
}

#[test]
fn checkpoints_are_divided_into_any_number_of_shards() {
    for path in checkpoints() {
        let model = open(&path).expect("a model");
        let (mut last, mut from) = (model.clone(), path.clone());
        let dir = tempfile::tempdir().expect("a directory");
        for (number, shards) in [1, 2, 3, 7].into_iter().enumerate() {
            for to in FORMATS {
                let out = dir.path().join(format!("{to}-{shards}"));
                // From the golden files, and on from what was written before.
                let source = if number % 2 == 0 { model.clone() } else { last.clone() };
                let done = reshard(source, &out, &options(to, shards))
                    .unwrap_or_else(|error| panic!("{} to {to}: {error}", from.display()));
                assert!((1..=shards).contains(&done.shards) && done.continued == 0);
                let again = open(&out).expect("a model");
                assert_eq!(again.format, to);
                assert_equal(&model, &again);
                let found = verify(&out, &OpenOptions::default(), &Progress::default());
                let found = found.expect("verified");
                assert!(
                    found.whole && found.sealed,
                    "{} to {to}: {:?}",
                    from.display(),
                    found.findings
                );
                (last, from) = (again, out);
            }
        }
    }
}

#[test]
fn tensors_are_divided_along_any_axis() {
    let model = open(golden("torch_sharded/dtensor")).expect("a model");
    let rank = model.parameters.iter().map(|it| it.tensor.shape.len()).max().unwrap_or(0);
    assert!(rank >= 2);
    let dir = tempfile::tempdir().expect("a directory");
    for axis in 0..rank {
        let has = model.parameters.iter().filter(|it| it.tensor.shape.len() > axis);
        let axes = has.map(|it| (globset_escape(&it.name), axis)).collect();
        let out = dir.path().join(axis.to_string());
        let options = options("torch-distributed", 3).with_axes(axes);
        reshard(model.clone(), &out, &options).expect("divided");
        assert_equal(&model, &open(&out).expect("a model"));
    }
    let beyond = options("torch-distributed", 3).with_axes(vec![("*".to_owned(), rank)]);
    let error = reshard(model.clone(), dir.path().join("beyond"), &beyond).expect_err("refused");
    assert!(error.to_string().contains(&format!("axis {rank}")), "{error}");
    let unknown = options("torch-distributed", 3).with_axes(vec![("no.such".to_owned(), 0)]);
    let error = reshard(model.clone(), dir.path().join("none"), &unknown).expect_err("refused");
    assert!(error.to_string().contains("no.such"), "{error}");
    let whole = options("safetensors", 3).with_axes(vec![("*".to_owned(), 0)]);
    reshard(model, dir.path().join("whole"), &whole).expect_err("safetensors holds whole tensors");
}

/// Returns a pattern that matches a name only.
fn globset_escape(name: &str) -> String {
    name.replace('[', "[[]").replace('*', "[*]").replace('?', "[?]")
}

#[test]
fn values_of_a_checkpoint_are_kept_by_its_own_format() {
    let path = golden("torch_sharded/fsdp");
    let (dir, model) = (tempfile::tempdir().expect("a directory"), open(path).expect("a model"));
    assert!(model.metadata.contains_key("epoch"), "{:?}", model.metadata);
    let strict = ReshardOptions::default().with_shards(Some(2));
    let same = dir.path().join("same");
    reshard(model.clone(), &same, &strict).expect("nothing is lost");
    let again = open(&same).expect("a model");
    assert_eq!(again.metadata, model.metadata);
    let names = |model: &Model| -> Vec<String> {
        let mut names: Vec<_> = model.parameters.iter().map(|it| it.name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&again), names(&model));
    let lossy =
        reshard(model, dir.path().join("lossy"), &strict.with_to(Some(FORMATS[1].to_owned())));
    assert!(lossy.expect_err("values would be lost").to_string().contains("epoch"));
    assert!(!dir.path().join("lossy").exists());
}

#[test]
fn chunks_follow_a_plan() {
    let model = open(golden("torch_sharded/dtensor")).expect("a model");
    let tensor = model.parameters.iter().find(|it| it.tensor.shape.len() == 2);
    let tensor = tensor.expect("a matrix").clone();
    let (name, [rows, columns]) = (tensor.name, [tensor.tensor.shape[0], tensor.tensor.shape[1]]);
    let entry = |shard: usize, offsets: [u64; 2], sizes: [u64; 2]| {
        serde_json::from_value::<Planned>(serde_json::json!({
            "shard": shard, "offsets": offsets, "sizes": sizes
        }))
        .expect("an entry")
    };
    let plan = |entries: Vec<Planned>| BTreeMap::from([(name.clone(), entries)]);
    let dir = tempfile::tempdir().expect("a directory");
    let good = vec![
        entry(0, [0, 0], [1, columns]),
        entry(2, [1, 0], [rows - 1, 1]),
        entry(1, [1, 1], [rows - 1, columns - 1]),
    ];
    let out = dir.path().join("good");
    let of = |entries: Vec<Planned>| options("torch-distributed", 3).with_plan(plan(entries));
    reshard(model.clone(), &out, &of(good.clone())).expect("divided");
    assert_equal(&model, &open(&out).expect("a model"));

    let wrong = [
        ("a hole", good[1..].to_vec()),
        ("an overlap", [good.clone(), vec![entry(2, [0, 0], [1, 1])]].concat()),
        ("outside", vec![entry(0, [0, 0], [rows, columns + 1])]),
        ("overflow", vec![entry(0, [u64::MAX, 0], [2, columns])]),
        ("no such shard", vec![entry(3, [0, 0], [rows, columns])]),
        ("rank", vec![]),
    ];
    for (what, entries) in wrong {
        let out = dir.path().join("wrong");
        reshard(model.clone(), &out, &of(entries)).expect_err(what);
        assert!(!out.exists(), "{what}");
    }
    let unknown = BTreeMap::from([("no.such".to_owned(), good)]);
    let options = options("torch-distributed", 3).with_plan(unknown);
    reshard(model, dir.path().join("unknown"), &options).expect_err("no such tensor");
}

#[test]
fn interrupted_work_is_continued() {
    let path = golden("torch_sharded/fsdp");
    let model = open(&path).expect("a model");
    for to in FORMATS {
        // Steps between two commits are alike: stop at some of them.
        for stop in (0..).step_by(5) {
            let dir = tempfile::tempdir().expect("a directory");
            let out = dir.path().join("out");
            let done = Arc::new(AtomicUsize::new(0));
            let steps = Arc::clone(&done);
            let watched = Progress::watched(move |_: &Step<'_>| {
                match steps.fetch_add(1, Ordering::Relaxed) == stop {
                    true => Err(StoreError::Cancelled),
                    false => Ok(()),
                }
            });
            let stopped = reshard(model.clone(), &out, &options(to, 3).with_progress(watched));
            if done.load(Ordering::Relaxed) <= stop {
                stopped.expect("it was not stopped");
                assert!(stop >= 20, "{to}: {stop} steps");
                break;
            }
            if stopped.is_err() {
                // Another division does not continue it.
                if out.join("resharding").exists() {
                    let other = reshard(model.clone(), &out, &options(to, 2));
                    let other = other.expect_err("another division").to_string();
                    assert!(other.contains("unfinished resharding"), "{other}");
                }
                reshard(model.clone(), &out, &options(to, 3))
                    .unwrap_or_else(|error| panic!("{to}, step {stop}: {error}"));
            }
            assert_equal(&model, &open(&out).expect("a model"));
            assert!(!out.join("resharding").exists());
            let again = reshard(model.clone(), &out, &options(to, 3)).expect_err("it is there");
            assert!(again.to_string().contains("exists"), "{again}");
        }
    }
}

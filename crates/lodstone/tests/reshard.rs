//! Division of models into shards: checkpoints that PyTorch and PaddlePaddle wrote, in every format and number of shards.

#![expect(
    clippy::disallowed_methods,
    reason = "lists golden files, and looks for what was written"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lodstone::diff::Change;
use lodstone::formats::Planned;
use lodstone::reshard::ReshardOptions;
use lodstone::store::{Error as StoreError, Step};
use lodstone::{
    ConvertOptions, DType, DiffOptions, Loss, Model, OpenOptions, Parameter, Progress, Tensor,
    convert, diff, open, reshard, verify,
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
    let entry_of =
        |shard: usize, offsets: Vec<u64>, sizes: Vec<u64>| Planned { shard, offsets, sizes };
    let entry = |shard: usize, offsets: [u64; 2], sizes: [u64; 2]| {
        entry_of(shard, offsets.to_vec(), sizes.to_vec())
    };
    let plan = |entries: Vec<Planned>| BTreeMap::from([(name.clone(), entries)]);
    let dir = tempfile::tempdir().expect("a directory");
    let good = vec![
        entry(0, [0, 0], [1, columns]),
        entry(2, [1, 0], [rows - 1, 1]),
        entry(1, [1, 1], [rows - 1, columns - 1]),
    ];
    let out = dir.path().join("good");
    let of = |entries: Vec<Planned>| options("torch-distributed", 4).with_plan(plan(entries));
    reshard(model.clone(), &out, &of(good.clone())).expect("divided");
    assert_equal(&model, &open(&out).expect("a model"));

    let wrong = [
        ("a hole", good[1..].to_vec()),
        ("an overlap", {
            let mut chunks = good.clone();
            chunks[2].sizes = vec![rows - 2, columns - 1];
            chunks.push(entry(3, [0, 0], [1, columns - 1]));
            chunks
        }),
        ("two in one file", [good.clone(), vec![entry(2, [0, 0], [1, 1])]].concat()),
        ("one without elements", [good.clone(), vec![entry(3, [0, 0], [0, 0])]].concat()),
        ("outside", vec![entry(0, [0, 0], [rows, columns + 1])]),
        ("overflow", vec![entry(0, [u64::MAX, 0], [2, columns])]),
        ("no such shard", vec![entry(4, [0, 0], [rows, columns])]),
        ("none", vec![]),
        ("rank", vec![entry_of(0, vec![0], vec![rows])]),
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
        let mut continued = 0;
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
                assert!(stop >= 20 && continued >= 10, "{to}: {stop} steps, {continued} continued");
                break;
            }
            if stopped.is_err() {
                // No reader takes it for a model, and another division does not continue it.
                if out.join("resharding/plan.json").exists() {
                    let unread = [
                        open(&out).map(drop),
                        verify(&out, &OpenOptions::default(), &Progress::default()).map(drop),
                        lodstone::open::only_tensor(&out, &OpenOptions::default()).map(drop),
                        lodstone::seal(&out, &OpenOptions::default(), false, &Progress::default())
                            .map(drop),
                    ];
                    for read in unread {
                        let error = read.expect_err("unfinished work").to_string();
                        assert!(error.contains("unfinished resharding"), "{to}: {error}");
                    }
                    let other = reshard(model.clone(), &out, &options(to, 2));
                    let other = other.expect_err("another division").to_string();
                    assert!(other.contains("unfinished resharding"), "{other}");
                }
                let done = reshard(model.clone(), &out, &options(to, 3))
                    .unwrap_or_else(|error| panic!("{to}, step {stop}: {error}"));
                continued += done.continued;
            }
            assert_equal(&model, &open(&out).expect("a model"));
            assert!(!out.join("resharding").exists());
            let again = reshard(model.clone(), &out, &options(to, 3)).expect_err("it is there");
            assert!(again.to_string().contains("exists"), "{again}");
        }
    }
}

#[test]
fn work_on_another_input_is_not_continued() {
    let dir = tempfile::tempdir().expect("a directory");
    let (input, out) = (dir.path().join("input.safetensors"), dir.path().join("out"));
    let model = open(golden("torch_sharded/dtensor")).expect("a model");
    let write = |model: Model| {
        let options = ConvertOptions::default().with_allow(vec![Loss::Metadata]);
        convert(model, &input, &options).expect("written");
    };
    write(model.clone());
    let steps = AtomicUsize::new(0);
    let watched =
        Progress::watched(move |_: &Step<'_>| match steps.fetch_add(1, Ordering::Relaxed) {
            100 => Err(StoreError::Cancelled),
            _ => Ok(()),
        });
    let stopping = options("torch-distributed", 3).with_progress(watched);
    reshard(open(&input).expect("a model"), &out, &stopping).expect_err("stopped");
    assert!(out.join("resharding").exists());
    let mut edited = model;
    let last = edited.parameters.iter_mut().find(|it| it.tensor.data.len() > 8).expect("a tensor");
    let zeros = vec![0; usize::try_from(last.tensor.data.len()).expect("small")];
    last.tensor.data = lodstone::Blob::memory(zeros);
    write(edited);
    let other = reshard(open(&input).expect("a model"), &out, &options("torch-distributed", 3));
    assert!(other.expect_err("another input").to_string().contains("unfinished resharding"));
}

#[test]
fn two_tensors_of_one_name_are_refused() {
    let mut model = open(golden("torch_sharded/dtensor")).expect("a model");
    let again = model.parameters[0].clone();
    model.parameters.push(again);
    let dir = tempfile::tempdir().expect("a directory");
    for to in FORMATS {
        let refused = reshard(model.clone(), dir.path().join(to), &options(to, 2));
        let refused = refused.expect_err("one would be lost").to_string();
        assert!(refused.contains(&model.parameters[0].name), "{refused}");
    }
}

#[test]
fn metadata_of_shards_without_an_index_is_a_named_loss() {
    let dir = tempfile::tempdir().expect("a directory");
    let input = dir.path().join("in");
    std::fs::create_dir(&input).expect("created");
    for number in [1, 2] {
        let bytes = lodstone::Blob::memory(vec![number; 4]);
        let tensor = Tensor::dense(DType::Uint8, vec![4], bytes);
        let info = format!(r#"{{"w": {{"saved_offsets": [{}]}}}}"#, 4 * (number - 1));
        let metadata = [("DCP_SHARDING_INFO", &*info), ("step", "100")];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let parameters = vec![Parameter { name: "w".to_owned(), tensor }];
        let shard = Model { parameters, metadata, ..Model::default() };
        let file = input.join(format!("shard-0000{number}-model-00001-of-00001.safetensors"));
        convert(shard, file, &ConvertOptions::default()).expect("written");
    }
    let model = open(&input).expect("a model");
    assert_eq!(model.format, "torch-distributed");
    let strict = ReshardOptions::default().with_shards(Some(2));
    let refused = reshard(model, dir.path().join("out"), &strict).expect_err("it would be lost");
    assert!(refused.to_string().contains("step"), "{refused}");
}

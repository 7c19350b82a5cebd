//! Serials: saved, found again, restored, refused, removed.

#![expect(clippy::disallowed_methods, reason = "looks with its own eyes")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;

use std::path::Path;
use std::sync::mpsc;

use common::{CONTAINERS, Data, Training, bytes, entries, manager, of, state};
use lodstone_checkpoint::{
    Container, Error, Manager, ManagerOptions, Numerics, RANDOM_STATE, Serial, Snapshot,
    get_checkpoint_loader, latest, serials,
};
use lodstone_model::{DType, Kind, Lod, Parameter, Tensor};
use lodstone_paddle::executor::{Dirs, Executor, Scope};
use lodstone_store::{Blob, Error as StoreError, Progress, StepKind};

fn steps(dir: &Path) -> Vec<u64> {
    serials(dir).unwrap().iter().map(|serial| serial.step).collect()
}

fn small(seed: u64) -> Snapshot {
    Snapshot::of_tensors([bytes("a", 100, seed), bytes("b", 3000, seed + 1)]).unwrap()
}

#[test]
fn a_run_that_is_resumed_is_the_one_that_never_stopped() {
    for container in CONTAINERS {
        let dir = tempfile::tempdir().unwrap();
        let mut training = Training::begin();
        training.until(4);
        of(container, dir.path()).save(4, &training.snapshot()).unwrap();
        let mut resumed = Training::resume(dir.path());
        assert_eq!((resumed.step, resumed.state()), (4, training.state()), "{container:?}");
        training.until(9);
        resumed.until(9);
        assert_eq!(resumed.state(), training.state(), "{container:?}");
    }
}

#[test]
fn without_the_state_of_random_numbers_it_would_be_another() {
    let dir = tempfile::tempdir().unwrap();
    let mut training = Training::begin();
    training.until(2);
    manager(dir.path(), 1).save(2, &training.snapshot()).unwrap();
    let mut resumed = Training::resume(dir.path());
    resumed.scope.remove(RANDOM_STATE);
    training.until(4);
    resumed.until(4);
    assert_ne!(resumed.state(), training.state());
}

#[test]
fn the_loader_of_a_serial_is_a_program_that_fills_an_empty_scope() {
    for container in [Container::Combined, Container::Each, Container::Sized] {
        let dir = tempfile::tempdir().unwrap();
        let mut training = Training::begin();
        training.until(2);
        let saved = of(container, dir.path()).save(2, &training.snapshot()).unwrap();
        let (path, mut scope) = (saved.serial.path(), Scope::default());
        let loader = get_checkpoint_loader(path).unwrap();
        Executor::default().run(&loader, &mut scope, &[], &[], &Dirs::one(path)).unwrap();
        assert_eq!(state(&scope), training.state(), "{container:?}");
    }
}

#[test]
fn the_manifest_says_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut training = Training::begin();
    training.until(1);
    let saved = manager(dir.path(), 3).save(120, &training.snapshot().with("epoch", 7)).unwrap();
    assert_eq!(entries(dir.path()), [".lock.lodstone", "step-00000120"]);
    assert_eq!(entries(saved.serial.path()), ["loader", "manifest.json", "params"]);
    let manifest = saved.serial.manifest().unwrap();
    assert_eq!((manifest.step, manifest.container), (120, Container::Combined));
    assert_eq!(manifest.metadata["epoch"], 7);
    assert_eq!(manifest.random, [RANDOM_STATE]);
    assert_eq!(manifest.schedule, ["@LR_DECAY_COUNTER@"]);
    assert_eq!(manifest.numerics, Numerics::here());
    let names: Vec<&str> = manifest.variables.iter().map(|var| var.name.as_str()).collect();
    assert_eq!(names, training.scope.names().collect::<Vec<_>>());
    let files: Vec<&str> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(files, ["params", "loader/__model__"]);
    assert_eq!(manifest.programs.main.unwrap().len(), 64);
    assert!(manifest.programs.startup.is_some());

    // Elements begin where the widest vectors want them.
    let tensors = saved.serial.tensors().unwrap();
    let offsets = tensors.iter().map(|it| it.tensor.data.file_range().unwrap().1);
    assert!(offsets.into_iter().all(|offset| offset % 64 == 0));
}

#[test]
fn plain_tensors_need_no_program() {
    let table = Tensor {
        kind: Kind::SelectedRows { rows: Blob::memory(vec![1, 0, 0, 0, 0, 0, 0, 0]), height: 9 },
        ..Tensor::dense(DType::Float32, vec![1, 2], Blob::memory(vec![7; 8]))
    };
    let grouped = Tensor {
        lod: Lod(vec![vec![0, 1, 3]]),
        ..Tensor::dense(DType::Int64, vec![3], Blob::memory(vec![5; 24]))
    };
    let none = Tensor::dense(DType::Float16, vec![0, 4], Blob::default());
    let named = |(name, tensor): (&str, Tensor)| Parameter { name: name.to_owned(), tensor };
    let odd: Vec<_> = [("t", table), ("layer/g", grouped), ("none", none)].map(named).into();
    for (container, tensors) in [
        (Container::Combined, odd.clone()),
        (Container::Each, odd.clone()),
        (Container::Sized, odd),
        (Container::Safetensors, vec![bytes("z", 5, 1), bytes("a", 20_000_000, 2)]),
        (Container::Combined, Vec::new()),
        (Container::Safetensors, Vec::new()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let snapshot = Snapshot::of_tensors(tensors.clone()).unwrap();
        let saved = of(container, dir.path()).save(0, &snapshot).unwrap();
        assert_eq!(saved.serial.verify(&Progress::default()).unwrap(), [""; 0]);
        let mut scope = Scope::default();
        let restored = saved.serial.restore(&mut scope).unwrap();
        assert_eq!(restored.loaded.len(), tensors.len());
        for Parameter { name, tensor } in &tensors {
            let found = scope.tensor(name).unwrap();
            assert_eq!(
                (found.dtype, &found.shape, &found.lod),
                (tensor.dtype, &tensor.shape, &tensor.lod),
                "{container:?} {name}"
            );
            for (found, wanted) in found.blobs().zip(tensor.blobs()) {
                assert_eq!(found.bytes().unwrap(), wanted.bytes().unwrap(), "{container:?} {name}");
            }
        }
    }
}

#[test]
fn names_of_tensors_are_there_and_each_is_one() {
    for (names, what) in [(["a", "a"], "two tensors"), (["", "a"], "no name")] {
        let error = Snapshot::of_tensors(names.map(|name| bytes(name, 1, 1))).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn what_a_container_has_no_place_for_is_refused_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut parameter = bytes("g", 3, 1);
    parameter.tensor.lod = Lod(vec![vec![0, 3]]);
    let snapshot = Snapshot::of_tensors([parameter]).unwrap();
    let error = of(Container::Safetensors, dir.path()).save(1, &snapshot).unwrap_err();
    assert!(error.to_string().contains("LoD of the tensor `g`"), "{error}");
    assert_eq!(entries(dir.path()), [".lock.lodstone"]);
}

#[test]
fn as_many_serials_are_kept_as_are_asked_for_and_others_entries_stay() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for foreign in ["step-5", "step-00000007", "step-x", "notes"] {
        std::fs::create_dir(dir.join(foreign)).unwrap();
    }
    std::fs::write(dir.join("step-00000008"), "a file").unwrap();
    let mut manager = manager(dir, 2);
    let mut removed = Vec::new();
    for step in [1, 2, 3, 100_000_000, 9] {
        removed.push(manager.save(step, &small(step)).unwrap().removed);
    }
    // The one that was just saved stays, though there are newer ones.
    assert_eq!(steps(dir), [9, 100_000_000]);
    assert_eq!(removed, [vec![], vec![], vec![1], vec![2], vec![3]]);
    assert_eq!(latest(dir).unwrap().unwrap().step, 100_000_000);
    let left = entries(dir);
    assert_eq!(
        left,
        [
            ".lock.lodstone",
            "notes",
            "step-00000007",
            "step-00000008",
            "step-00000009",
            "step-100000000",
            "step-5",
            "step-x"
        ]
    );
}

#[test]
fn the_last_that_is_whole_is_never_removed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut all = Manager::open(dir, ManagerOptions::default()).unwrap();
    for step in 1..=4 {
        all.save(step, &small(step)).unwrap();
    }
    // Of a size that it cannot have: what is left of the newest two counts for nothing.
    for step in [3, 4] {
        std::fs::write(dir.join(format!("step-{step:08}/params")), "x").unwrap();
    }
    assert_eq!(all.prune(1).unwrap(), [1]);
    assert_eq!(steps(dir), [2, 3, 4]);
    std::fs::write(dir.join("step-00000002/manifest.json"), "{}").unwrap();
    assert_eq!(all.prune(1).unwrap(), [0; 0]);
    assert_eq!(all.save(5, &small(5)).unwrap().serial.step, 5);
    assert_eq!(all.prune(0).unwrap(), [2, 3, 4]);
    assert_eq!(steps(dir), [5]);
}

#[test]
fn a_serial_is_asked_for_by_its_step_and_can_be_gone_back_to() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let none = Serial::named(dir, 3).unwrap_err().to_string();
    assert!(none.contains("no checkpoint at") && none.contains("there is none"), "{none}");
    assert_eq!(latest(dir.join("absent")).unwrap(), None);
    let mut manager = Manager::open(dir, ManagerOptions::default()).unwrap();
    for step in [10, 20, 30] {
        manager.save(step, &small(step)).unwrap();
    }
    let other = Serial::named(dir, 3).unwrap_err().to_string();
    assert!(other.contains("10, 20, 30"), "{other}");
    assert!(matches!(manager.rewind(15), Err(Error::Absent { .. })));
    assert_eq!(manager.rewind(10).unwrap(), [30, 20]);
    assert_eq!(latest(dir).unwrap(), Some(Serial::named(dir, 10).unwrap()));
    // A serial that is there is replaced.
    manager.save(10, &small(77)).unwrap();
    let found = Serial::named(dir, 10).unwrap().tensors().unwrap();
    assert_eq!(
        found[0].tensor.data.read().unwrap(),
        bytes("a", 100, 77).tensor.data.read().unwrap()
    );
}

#[test]
fn every_flipped_bit_is_found_when_it_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let mut training = Training::begin();
    training.until(1);
    let saved = manager(dir.path(), 1).save(1, &training.snapshot()).unwrap();
    let serial = saved.serial;
    let before = state(&training.scope);
    for name in ["params", "manifest.json", "loader/__model__"] {
        let path = serial.path().join(name);
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 23 + 1) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&path, &flipped).unwrap();
            let restored = serial.restore(&mut training.scope);
            assert!(restored.is_err(), "{name}, byte {at}");
            let found = serial.verify(&Progress::default());
            assert!(found.is_err() || found.is_ok_and(|found| !found.is_empty()), "{name}, {at}");
        }
        std::fs::write(&path, &whole[1..]).unwrap();
        assert!(serial.restore(&mut training.scope).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(serial.restore(&mut training.scope).is_err(), "{name}");
        std::fs::write(&path, &whole).unwrap();
    }
    assert_eq!(state(&training.scope), before);
    assert_eq!(serial.verify(&Progress::default()).unwrap(), [""; 0]);
}

#[test]
fn damage_is_told_with_the_tensor_that_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let saved = manager(dir.path(), 1).save(1, &small(1)).unwrap();
    let (path, offset) = {
        let tensors = saved.serial.tensors().unwrap();
        let (_, offset) = tensors[1].tensor.data.file_range().unwrap();
        (saved.serial.path().join("params"), usize::try_from(offset).unwrap())
    };
    let mut flipped = std::fs::read(&path).unwrap();
    flipped[offset + 5] ^= 4;
    std::fs::write(&path, flipped).unwrap();
    let found = saved.serial.verify(&Progress::default()).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("`params`") && found[0].contains("tensor `b`"), "{found:?}");
    let error = saved.serial.restore(&mut Scope::default()).unwrap_err().to_string();
    assert!(error.contains("tensor `b`"), "{error}");
}

#[test]
fn a_second_writer_is_refused_until_the_first_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let first = manager(dir.path(), 1);
    let second = Manager::open(dir.path(), ManagerOptions::default());
    assert!(matches!(second, Err(Error::Store(StoreError::Locked { .. }))), "{second:?}");
    drop(first);
    Manager::open(dir.path(), ManagerOptions::default()).unwrap();
}

#[test]
fn a_scope_that_lacks_a_variable_cannot_be_saved() {
    let training = Training::begin();
    let mut scope = training.scope.clone();
    scope.remove("fc_0.w_0");
    let error = training.contents.snapshot(&scope).unwrap_err().to_string();
    assert!(error.contains("`fc_0.w_0`"), "{error}");
}

#[test]
fn a_snapshot_is_of_one_moment_and_copies_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (release, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(Some(wait));
    // The save cannot go on before training has.
    let progress = Progress::watched(move |step| {
        if step.kind == StepKind::Create
            && let Some(wait) = wait.lock().unwrap().take()
        {
            wait.recv().unwrap();
        }
        Ok(())
    });
    let options = ManagerOptions::default().with_progress(progress);
    let mut manager = Manager::open(dir.path(), options).unwrap();
    let mut training = Training::begin();
    training.until(2);
    let (wanted, snapshot) = (training.state(), training.snapshot());
    for Parameter { name, tensor } in snapshot.tensors() {
        assert!(tensor.data.is(&training.scope.tensor(name).unwrap().data), "{name} is a copy");
    }
    assert!(manager.save_in_background(2, snapshot).is_none());
    training.until(5);
    assert_ne!(training.state(), wanted);
    assert_eq!(latest(dir.path()).unwrap(), None);
    release.send(()).unwrap();
    let saved = manager.wait().unwrap().unwrap();
    let mut scope = Scope::default();
    saved.serial.restore(&mut scope).unwrap();
    assert_eq!(state(&scope), wanted);
    assert!(manager.wait().unwrap().is_none());
}

#[test]
fn a_save_in_the_background_that_fails_is_told_and_the_next_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let fails = std::sync::atomic::AtomicBool::new(true);
    let progress = Progress::watched(move |step| {
        let fails =
            step.kind == StepKind::Sync && fails.swap(false, std::sync::atomic::Ordering::Relaxed);
        match fails {
            true => Err(StoreError::io("sync", step.path)(std::io::ErrorKind::StorageFull.into())),
            false => Ok(()),
        }
    });
    let options = ManagerOptions::default().with_progress(progress);
    let mut manager = Manager::open(dir.path(), options).unwrap();
    assert!(manager.save_in_background(1, small(1)).is_none());
    let failed = manager.save_in_background(2, small(2)).unwrap();
    assert!(failed.unwrap_err().to_string().contains("cannot sync"));
    assert_eq!(manager.wait().unwrap().unwrap().serial.step, 2);
    assert_eq!(steps(dir.path()), [2]);
    // What is dropped is saved to its end.
    assert!(manager.save_in_background(3, small(3)).is_none());
    drop(manager);
    assert_eq!(steps(dir.path()), [2, 3]);
}

#[test]
fn what_training_feeds_on_is_where_it_was() {
    let mut data = Data::new();
    let first = data.next();
    let order = data.order;
    let second = data.next();
    data.order = order;
    let again = data.next();
    assert_eq!(again[0].1.data.bytes().unwrap(), second[0].1.data.bytes().unwrap());
    assert_ne!(first[0].1.data.bytes().unwrap(), second[0].1.data.bytes().unwrap());
}

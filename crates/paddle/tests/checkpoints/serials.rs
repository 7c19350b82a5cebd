//! Serials of a training run: saving, listing, restoring and rejecting them.

use std::sync::mpsc;

use lodstone_checkpoint::{Container, Manager, ManagerOptions, Snapshot, latest};
use lodstone_model::Parameter;
use lodstone_paddle::checkpoint::{get_checkpoint_loader, numerics, restore, verify};
use lodstone_paddle::executor::{Dirs, Executor, RANDOM_STATE, Scope};
use lodstone_store::{Progress, StepKind};

use super::common::{CONTAINERS, assert_same, entries, manager, of, plain_tensors};
use super::training::{Data, Training, state};

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
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
fn the_manifest_lists_the_contents() {
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
    assert_eq!(manifest.numerics, Some(numerics()));
    let names: Vec<&str> = manifest.variables.iter().map(|var| var.name.as_str()).collect();
    assert_eq!(names, training.scope.names().collect::<Vec<_>>());
    let files: Vec<&str> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(files, ["params", "loader/__model__"]);
    assert_eq!(manifest.programs.main.unwrap().len(), 64);
    assert!(manifest.programs.startup.is_some());

    // Elements are aligned for the widest vectors.
    let tensors = saved.serial.tensors().unwrap();
    let offsets = tensors.iter().map(|it| it.tensor.data.file_range().unwrap().1);
    assert!(offsets.into_iter().all(|offset| offset % 64 == 0));
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
            let restored = restore(&serial, &mut training.scope);
            assert!(restored.is_err(), "{name}, byte {at}");
            let found = verify(&serial, &Progress::default());
            assert!(found.is_err() || found.is_ok_and(|found| !found.is_empty()), "{name}, {at}");
        }
        std::fs::write(&path, &whole[1..]).unwrap();
        assert!(restore(&serial, &mut training.scope).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(restore(&serial, &mut training.scope).is_err(), "{name}");
        std::fs::write(&path, &whole).unwrap();
    }
    assert_eq!(state(&training.scope), before);
    assert_eq!(verify(&serial, &Progress::default()).unwrap(), [""; 0]);
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
    // The save cannot finish before training continues.
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
    restore(&saved.serial, &mut scope).unwrap();
    assert_eq!(state(&scope), wanted);
    assert!(manager.wait().unwrap().is_none());
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

#[test]
fn tensors_without_a_program_are_restored_into_a_scope() {
    for (container, tensors) in plain_tensors() {
        let dir = tempfile::tempdir().unwrap();
        let snapshot = Snapshot::of_tensors(tensors).unwrap();
        let saved = of(container, dir.path()).save(0, &snapshot).unwrap();
        assert_eq!(verify(&saved.serial, &Progress::default()).unwrap(), [""; 0]);
        let mut scope = Scope::default();
        let restored = restore(&saved.serial, &mut scope).unwrap();
        assert_eq!(restored.loaded.len(), snapshot.tensors().len());
        assert_eq!(restored.warnings, [""; 0]);
        for wanted in snapshot.tensors() {
            assert_same(scope.tensor(&wanted.name).unwrap(), wanted, container);
        }
    }
}

//! Serials of tensors: saving, listing, reading, rejecting and removing them, without programs.

#![expect(clippy::disallowed_methods, reason = "checks files independently of the store")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{assert_same, bytes, entries, manager, of, plain_tensors};
use lodstone_checkpoint::{
    BoxError, Container, Error, Loader, Manager, ManagerOptions, Numerics, Origin, Programs,
    Serial, Snapshot, latest, serials,
};
use lodstone_model::{Lod, Parameter};
use lodstone_store::{Blob, Error as StoreError, Progress, StepKind};

fn steps(dir: &Path) -> Vec<u64> {
    serials(dir).unwrap().iter().map(|serial| serial.step).collect()
}

fn small(seed: u64) -> Snapshot {
    Snapshot::of_tensors([bytes("a", 100, seed), bytes("b", 3000, seed + 1)]).unwrap()
}

#[test]
fn plain_tensors_need_no_program() {
    for (container, tensors) in plain_tensors() {
        let dir = tempfile::tempdir().unwrap();
        let snapshot = Snapshot::of_tensors(tensors).unwrap();
        let saved = of(container, dir.path()).save(0, &snapshot).unwrap();
        assert_eq!(saved.serial.verify(&Progress::default()).unwrap(), [""; 0]);
        assert!(!saved.serial.manifest().unwrap().has_loader());
        for found in [saved.serial.tensors().unwrap(), load(&saved.serial).unwrap()] {
            assert_eq!(found.len(), snapshot.tensors().len());
            for (found, wanted) in found.iter().zip(snapshot.tensors()) {
                assert_eq!(found.name, wanted.name);
                assert_same(&found.tensor, wanted, container);
            }
        }
    }
}

#[test]
fn names_of_tensors_are_present_and_unique() {
    for (names, what) in [(["a", "a"], "two tensors"), (["", "a"], "no name")] {
        let error = Snapshot::of_tensors(names.map(|name| bytes(name, 1, 1))).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn tensors_that_a_container_cannot_hold_are_rejected_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut parameter = bytes("g", 3, 1);
    parameter.tensor.lod = Lod(vec![vec![0, 3]]);
    let snapshot = Snapshot::of_tensors([parameter]).unwrap();
    let error = of(Container::Safetensors, dir.path()).save(1, &snapshot).unwrap_err();
    assert!(error.to_string().contains("LoD of the tensor `g`"), "{error}");
    assert_eq!(entries(dir.path()), [".lock.lodstone"]);
}

#[test]
fn the_newest_serials_are_kept_and_foreign_entries_are_not_touched() {
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
    // The serial that was just saved is kept, although there are newer ones.
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
fn the_last_intact_serial_is_never_removed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut all = Manager::open(dir, ManagerOptions::default()).unwrap();
    for step in 1..=4 {
        all.save(step, &small(step)).unwrap();
    }
    // The size does not match: the remains of the newest two do not count.
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
fn a_serial_is_found_by_its_step_and_rewind_removes_later_ones() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let none = Serial::named(dir, 3).unwrap_err().to_string();
    assert!(
        none.contains("no checkpoint at") && none.contains("the directory has no checkpoints"),
        "{none}"
    );
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
    // An existing serial is replaced.
    manager.save(10, &small(77)).unwrap();
    let found = Serial::named(dir, 10).unwrap().tensors().unwrap();
    assert_eq!(
        found[0].tensor.data.read().unwrap(),
        bytes("a", 100, 77).tensor.data.read().unwrap()
    );
}

#[test]
fn damage_is_reported_with_its_tensor() {
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
    let error = load(&saved.serial).unwrap_err().to_string();
    assert!(error.contains("tensor `b`"), "{error}");
}

#[test]
fn a_second_writer_is_rejected_until_the_first_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let first = manager(dir.path(), 1);
    let second = Manager::open(dir.path(), ManagerOptions::default());
    assert!(matches!(second, Err(Error::Store(StoreError::Locked { .. }))), "{second:?}");
    drop(first);
    Manager::open(dir.path(), ManagerOptions::default()).unwrap();
}

#[test]
fn a_failed_background_save_is_reported_and_the_next_succeeds() {
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
    // Dropping a manager waits for the save.
    assert!(manager.save_in_background(3, small(3)).is_none());
    drop(manager);
    assert_eq!(steps(dir.path()), [2, 3]);
}

fn load(serial: &Serial) -> Result<Vec<Parameter>, Error> {
    serial.load(&serial.manifest()?)
}

#[test]
fn the_manifest_lists_the_tensors_and_what_was_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let numerics = Numerics { engine: "engine 1".to_owned(), simd: "wide".to_owned() };
    let snapshot = small(1).with("epoch", 7);
    let mut manager = manager(dir.path(), 2);
    for (step, numerics) in [(1, None), (2, Some(numerics))] {
        let snapshot = match &numerics {
            Some(numerics) => snapshot.clone().with_numerics(numerics.clone()),
            None => snapshot.clone(),
        };
        let saved = manager.save(step, &snapshot).unwrap();
        assert_eq!(entries(saved.serial.path()), ["manifest.json", "params"]);
        let manifest = saved.serial.manifest().unwrap();
        assert_eq!((manifest.step, manifest.container), (step, Container::Combined));
        assert_eq!((manifest.numerics, &manifest.metadata["epoch"]), (numerics, &7.into()));
        let names: Vec<&str> = manifest.variables.iter().map(|var| var.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!((manifest.programs.main, manifest.programs.startup), (None, None));
        assert!(manifest.random.is_empty() && manifest.schedule.is_empty());
    }
}

#[test]
fn every_flipped_bit_is_found_when_it_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let serial = manager(dir.path(), 1).save(1, &small(1)).unwrap().serial;
    for name in ["params", "manifest.json"] {
        let path = serial.path().join(name);
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 97 + 1) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&path, &flipped).unwrap();
            assert!(load(&serial).is_err(), "{name}, byte {at}");
            let found = serial.verify(&Progress::default());
            assert!(found.is_err() || found.is_ok_and(|found| !found.is_empty()), "{name}, {at}");
        }
        std::fs::write(&path, &whole).unwrap();
    }
    load(&serial).unwrap();
}

#[test]
fn a_serial_of_the_first_version_is_read_without_its_program() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/serials");
    let serial = Serial::find(golden, None).unwrap();
    assert_eq!(serial.verify(&Progress::default()).unwrap(), [""; 0]);
    let manifest = serial.manifest().unwrap();
    assert!(manifest.has_loader() && manifest.numerics.is_some());
    let names: Vec<String> = manifest.variables.iter().map(|var| var.name.clone()).collect();
    let loaded: Vec<String> = load(&serial).unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!((loaded.len(), loaded), (12, names));
}

/// The loader of an opaque program.
#[derive(Debug)]
struct Opaque(Vec<&'static str>);

impl Loader for Opaque {
    fn files(&self, container: Container) -> Result<Vec<(String, Blob)>, BoxError> {
        if container == Container::Safetensors {
            return Err("no operator loads it".into());
        }
        let file = |name: &&str| ((*name).to_owned(), Blob::memory(name.as_bytes().to_vec()));
        Ok(self.0.iter().map(file).collect())
    }
}

#[test]
fn any_loader_is_stored_and_sealed() {
    let of_program = |files: &[&'static str]| {
        let programs = Programs { main: Some("0".repeat(64)), startup: None };
        let (random, schedule) = (vec!["a".to_owned()], vec!["b".to_owned()]);
        let loader = Arc::new(Opaque(files.to_vec()));
        small(1).with_origin(Origin { programs, random, schedule, loader })
    };
    let dir = tempfile::tempdir().unwrap();
    let snapshot = of_program(&["program", "parts/0"]);
    let saved = manager(dir.path(), 1).save(1, &snapshot).unwrap();
    let manifest = saved.serial.manifest().unwrap();
    let files: Vec<&str> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(files, ["params", "loader/program", "loader/parts/0"]);
    assert_eq!(
        (manifest.random.as_slice(), manifest.schedule.as_slice()),
        (&["a".to_owned()][..], &["b".to_owned()][..])
    );
    let program = saved.serial.file(&manifest, "loader/program").unwrap();
    assert_eq!(program.read().unwrap().as_ref(), b"program");

    let path = saved.serial.path().join("loader/program");
    std::fs::write(&path, "proGram").unwrap();
    let manifest = saved.serial.manifest().unwrap();
    assert!(saved.serial.file(&manifest, "loader/program").unwrap().read().is_err());
    let found = saved.serial.verify(&Progress::default()).unwrap();
    assert!(found.len() == 1 && found[0].contains("`loader/program`"), "{found:?}");
    // Tensors need no program.
    assert_eq!(load(&saved.serial).unwrap().len(), 2);

    let error = of(Container::Safetensors, dir.path()).save(2, &snapshot).unwrap_err();
    assert_eq!(error.to_string(), "no operator loads it");
    assert_eq!(steps(dir.path()), [1]);
}

//! Checkpoints in object stores.

use std::thread;

use lodstone_checkpoint::{
    Container, Error, Manager, ManagerOptions, Serial, Snapshot, latest, serials,
};
use lodstone_model::{DType, Parameter, Tensor};
use lodstone_store::{Blob, Error as StoreError, Progress};

use super::each;

fn snapshot(value: u8) -> Snapshot {
    let tensor = Tensor::dense(DType::Uint8, vec![1000], Blob::memory(vec![value; 1000]));
    Snapshot::of_tensors([Parameter { name: "weights".to_owned(), tensor }]).unwrap()
}

fn values(serial: &Serial) -> Vec<u8> {
    let manifest = serial.manifest().unwrap();
    let tensors = serial.load(&manifest).unwrap();
    tensors[0].tensor.data.read().unwrap().to_vec()
}

#[test]
fn serials_are_saved_listed_verified_and_removed() {
    let containers =
        [Container::Combined, Container::Each, Container::Sized, Container::Safetensors];
    for (number, container) in containers.into_iter().enumerate() {
        each(&format!("checkpoints/{number}"), |open| {
            let options = ManagerOptions::default().with_keep(Some(2)).with_container(container);
            let mut manager = Manager::open(open(), options).unwrap();
            for step in 1..=4 {
                let saved = manager.save(step, &snapshot(u8::try_from(step).unwrap())).unwrap();
                assert!(saved.warnings.is_empty(), "{:?}", saved.warnings);
            }
            let found = serials(open()).unwrap();
            assert_eq!(found.iter().map(|serial| serial.step).collect::<Vec<_>>(), [3, 4]);
            for serial in &found {
                assert!(serial.verify(&Progress::default()).unwrap().is_empty());
                assert_eq!(values(serial), vec![u8::try_from(serial.step).unwrap(); 1000]);
            }
            assert_eq!(manager.rewind(3).unwrap(), [4]);
            assert_eq!(latest(open()).unwrap().unwrap().step, 3);
        });
    }
}

#[test]
fn a_step_is_saved_once() {
    each("checkpoints/once", |open| {
        let mut manager = Manager::open(open(), ManagerOptions::default()).unwrap();
        manager.save(7, &snapshot(1)).unwrap();
        let again = manager.save(7, &snapshot(2)).expect_err("it exists");
        assert!(matches!(again, Error::Store(StoreError::Exists { .. })), "{again}");
        assert_eq!(values(&latest(open()).unwrap().unwrap()), [1; 1000]);
    });
}

#[test]
fn of_several_managers_one_saves_a_step() {
    each("checkpoints/race", |open| {
        let outcomes: Vec<_> = thread::scope(|scope| {
            let writers = (1..=6).map(|writer| {
                scope.spawn(move || {
                    let mut manager = Manager::open(open(), ManagerOptions::default())?;
                    manager.save(5, &snapshot(writer)).map(|_| writer)
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let won: Vec<u8> =
            outcomes.iter().filter_map(|outcome| outcome.as_ref().ok().copied()).collect();
        let [won] = won.as_slice() else { panic!("{outcomes:?}") };
        assert_eq!(values(&latest(open()).unwrap().unwrap()), [*won; 1000]);
    });
}

#[test]
fn a_directory_has_one_manager() {
    each("checkpoints/lock", |open| {
        let manager = Manager::open(open(), ManagerOptions::default()).unwrap();
        let other = Manager::open(open(), ManagerOptions::default()).expect_err("locked");
        assert!(matches!(other, Error::Store(StoreError::Locked { .. })), "{other}");
        drop(manager);
        Manager::open(open(), ManagerOptions::default()).unwrap();
    });
}

#[test]
fn data_without_a_manifest_is_no_checkpoint() {
    each("checkpoints/unfinished", |open| {
        let mut manager = Manager::open(open(), ManagerOptions::default()).unwrap();
        manager.save(1, &snapshot(1)).unwrap();
        // As a writer leaves it that is killed before it publishes the manifest.
        let mut commit = lodstone_store::Commit::directory(
            open().join("step-00000002/data-0123456789abcdef"),
            Progress::default(),
        )
        .unwrap();
        commit.write::<StoreError>("params", |out| out.put(b"data")).unwrap();
        commit.publish().unwrap();
        assert_eq!(latest(open()).unwrap().unwrap().step, 1);
        manager.save(2, &snapshot(2)).unwrap();
        assert_eq!(values(&latest(open()).unwrap().unwrap()), [2; 1000]);
    });
}

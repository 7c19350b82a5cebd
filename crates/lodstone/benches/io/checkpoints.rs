//! Checkpoints: what they are measured by, and how.

use std::time::Duration;

use lodstone::checkpoint::{
    Container, Contents, Manager, ManagerOptions, Serial, Snapshot, is_checkpointed,
};
use lodstone::program::Network;
use lodstone::runtime::Scope;
use lodstone::{Dim, Model, TensorType, ValueType, Var};

use crate::limits;
use crate::systems::{
    Files, LOAD_LIMITS, Limit, Operation, SAFETENSORS, WRITE_LIMITS, model, timed,
};

/// The serial that is restored, and its variables.
const RESTORED: &str = "serials";
const PARAMS: &str = "serials/step-00000001/params";

/// Serials that are written; each turn removes those of the one before.
const WRITTEN: &str = "serials-written";

/// A snapshot of a model, whose parameters a program has.
fn snapshot(model: &Model) -> Snapshot {
    let (mut main, startup) = (Network::new().main, Network::new().startup);
    let mut scope = Scope::default();
    for parameter in &model.parameters {
        let tensor = &parameter.tensor;
        let shape = Some(tensor.shape.iter().copied().map(Dim::Known).collect());
        let value = TensorType { dtype: tensor.dtype, shape, lod_level: 0 };
        let (name, value) = (parameter.name.clone(), ValueType::tensor(value));
        let var = Var { name, value, persistable: true, is_parameter: true, ..Var::default() };
        assert!(is_checkpointed(&var));
        main.blocks[0].vars.push(var);
        scope.set(&parameter.name, tensor.clone());
    }
    let contents = Contents::of(&main, &startup, None).expect("a program");
    contents.snapshot(&scope).expect("all variables")
}

/// What is loaded from the safetensors, to be saved.
fn loaded(files: &Files) -> Snapshot {
    let mut model = model(&files.at(SAFETENSORS));
    model.load().expect("loaded");
    snapshot(&model)
}

fn manager(files: &Files, directory: &str, container: Container) -> Manager {
    let options = ManagerOptions { container, ..ManagerOptions::default() };
    Manager::open(&files.at(directory), options).expect("a directory")
}

/// Writes the serial that is restored.
pub(crate) fn make(files: &Files, model: &Model) {
    let mut manager = manager(files, RESTORED, Container::Combined);
    manager.save(1, &snapshot(model)).expect("saved");
}

/// A manager of an empty directory.
fn begun(files: &Files, container: Container) -> Manager {
    let _ = std::fs::remove_dir_all(files.at(WRITTEN));
    limits::settle(&files.at("out"));
    manager(files, WRITTEN, container)
}

fn save(files: &Files, container: Container) -> Duration {
    let (snapshot, mut manager) = (loaded(files), begun(files, container));
    timed(|| manager.save(1, &snapshot).expect("saved"))
}

/// How long training waits for a save that goes on beside it.
fn stall(files: &Files) -> Duration {
    let (snapshot, mut manager) = (loaded(files), begun(files, Container::Combined));
    let time = timed(|| manager.save_in_background(1, snapshot.clone()));
    manager.wait().expect("saved");
    time
}

fn restore(files: &Files) -> Duration {
    let serial = Serial::named(&files.at(RESTORED), 1).expect("a serial");
    timed(|| {
        let mut scope = Scope::default();
        serial.restore(&mut scope).expect("whole");
        scope
    })
}

const RESTORE: &[Limit] = &[("combined, verified", &[PARAMS], restore)];

pub(crate) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "save a checkpoint, durable",
        cold: false,
        target: Some(0.95),
        limits: WRITE_LIMITS,
        ours: &[
            ("combined", &[SAFETENSORS], |files| save(files, Container::Combined)),
            ("size-prefixed", &[SAFETENSORS], |files| save(files, Container::Sized)),
            ("a file for each", &[SAFETENSORS], |files| save(files, Container::Each)),
            ("safetensors", &[SAFETENSORS], |files| save(files, Container::Safetensors)),
        ],
        asked: Some("save"),
    },
    Operation {
        name: "stall of a background save",
        cold: false,
        target: None,
        limits: &[("memcpy", &[SAFETENSORS], |files| {
            let bytes = limits::read(&files.at(SAFETENSORS));
            timed(|| limits::copy_memory(&bytes))
        })],
        ours: &[("combined", &[SAFETENSORS], stall)],
        asked: Some("stall"),
    },
    Operation {
        name: "restore a checkpoint",
        cold: false,
        target: Some(0.9),
        limits: LOAD_LIMITS,
        ours: RESTORE,
        asked: Some("restore"),
    },
    Operation {
        name: "restore a checkpoint, cold",
        cold: true,
        target: Some(0.9),
        limits: LOAD_LIMITS,
        ours: RESTORE,
        asked: None,
    },
];

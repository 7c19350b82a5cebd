//! Benchmarks of checkpoints, and their limits.

use std::time::Duration;

use lodstone::checkpoint::{Container, Manager, ManagerOptions, Serial, Snapshot};
use lodstone::model::{TensorType, ValueType, Var};
use lodstone::paddle::checkpoint::{Contents, restore as restored};
use lodstone::paddle::executor::{Dirs, Prepared, Scope};
use lodstone::paddle::program::{Network, Operator, Variable};
use lodstone::{DType, Dim, Model, Parameter, Tensor};

use crate::limits;
use crate::systems::{Files, Limit, Operation, SAFETENSORS, WRITE_LIMITS, model, timed};

/// The serial that is restored, and its variables.
const RESTORED: &str = "serials";
const PARAMS: &str = "serials/step-00000001/params";

/// The directory for written serials; each turn removes those of the previous one.
const WRITTEN: &str = "serials-written";

/// A model whose parameters a program declares and updates with their gradients.
struct Trained {
    step: Prepared,
    contents: Contents,
    scope: Scope,
}

impl Trained {
    fn of(model: &Model) -> Self {
        let (mut main, startup) = (Network::new().main, Network::new().startup);
        let mut scope = Scope::default();
        let rate = Tensor::dense(DType::Float32, vec![1], 1e-3_f32.to_le_bytes().to_vec().into());
        let mut keep = |name: &str, tensor: &Tensor, is_parameter| {
            let shape = Some(tensor.shape.iter().copied().map(Dim::Known).collect());
            let value = TensorType::new(tensor.dtype, shape);
            let (name, value) = (name.to_owned(), ValueType::tensor(value));
            scope.set(&name, tensor.clone());
            Var { name, value, persistable: true, is_parameter, ..Var::default() }
        };
        let block = &mut main.blocks[0];
        block.vars.push(keep("rate", &rate, false));
        for Parameter { name, tensor } in &model.parameters {
            // Any initial bytes will do as gradients.
            let gradient = format!("{name}@GRAD");
            block.vars.extend([keep(name, tensor, true), keep(&gradient, tensor, false)]);
            let [rate, name, gradient] = ["rate", name, &gradient].map(Variable::named);
            let op = Operator::new("sgd").input("Param", [&name]).input("Grad", [&gradient]);
            let op = op.input("LearningRate", [&rate]).output("ParamOut", [&name]);
            block.ops.push(op.finish().expect("an operator"));
        }
        let step = Prepared::new(&main, &[]).expect("a program");
        let is_parameter = |var: &Var| var.is_parameter;
        let mut contents = main.clone();
        contents.blocks[0].vars.retain(is_parameter);
        let contents = Contents::of(&contents, &startup, None).expect("a program");
        Self { step, contents, scope }
    }

    fn snapshot(&self) -> Snapshot {
        self.contents.snapshot(&self.scope).expect("all variables")
    }

    fn step(&mut self) {
        self.step.run(&mut self.scope, &[], &Dirs::default()).expect("a step");
    }
}

/// Returns a snapshot of a model.
fn snapshot(model: &Model) -> Snapshot {
    Trained::of(model).snapshot()
}

/// Loads the tensors to save from the safetensors file.
fn loaded(files: &Files) -> Snapshot {
    let mut model = model(&files.at(SAFETENSORS));
    model.load().expect("loaded");
    snapshot(&model)
}

fn manager(files: &Files, directory: &str, container: Container) -> Manager {
    let options = ManagerOptions::default().with_container(container);
    Manager::open(files.at(directory), options).expect("a directory")
}

/// Writes the serial that is restored.
pub(crate) fn make(files: &Files, model: &Model) {
    let mut manager = manager(files, RESTORED, Container::Combined);
    manager.save(1, &snapshot(model)).expect("saved");
}

/// Returns a manager of an empty directory.
fn begun(files: &Files, container: Container) -> Manager {
    let _ = std::fs::remove_dir_all(files.at(WRITTEN));
    limits::settle(&files.at("out"));
    manager(files, WRITTEN, container)
}

fn save(files: &Files, container: Container) -> Duration {
    let (snapshot, mut manager) = (loaded(files), begun(files, container));
    timed(|| manager.save(1, &snapshot).expect("saved"))
}

/// Measures how long training waits for a background save to start.
fn stall(files: &Files) -> Duration {
    let (snapshot, mut manager) = (loaded(files), begun(files, Container::Combined));
    let time = timed(|| manager.save_in_background(1, snapshot.clone()));
    manager.wait().expect("saved");
    time
}

/// Measures how much longer the step after the start of a background save takes, including the wait.
fn slower(files: &Files) -> Duration {
    let mut model = model(&files.at(SAFETENSORS));
    model.load().expect("loaded");
    let (mut trained, mut manager) = (Trained::of(&model), begun(files, Container::Combined));
    let mut alone = [(); 5].map(|()| timed(|| trained.step()));
    alone.sort();
    let beside = timed(|| {
        manager.save_in_background(1, trained.snapshot());
        trained.step();
    });
    manager.wait().expect("saved");
    beside.saturating_sub(alone[2])
}

fn restore(files: &Files) -> Duration {
    let serial = Serial::named(files.at(RESTORED), 1).expect("a serial");
    timed(|| {
        let mut scope = Scope::default();
        restored(&serial, &mut scope).expect("whole");
        scope
    })
}

/// Reads the same file: the speed of a disk differs between files.
const RESTORE_LIMITS: &[Limit] = &[
    ("read into memory", &[PARAMS], |files| timed(|| limits::read(&files.at(PARAMS)))),
    ("read into large pages", &[PARAMS], |files| timed(|| limits::read_large(&files.at(PARAMS)))),
    ("read through 1 MiB", &[PARAMS], |files| timed(|| limits::read_through(&files.at(PARAMS)))),
];

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
        name: "background save, next step",
        cold: false,
        // 1.2 times the limit.
        target: Some(0.83),
        limits: &[("memcpy", &[SAFETENSORS], |files| {
            let bytes = limits::read(&files.at(SAFETENSORS));
            timed(|| limits::copy_memory(&bytes))
        })],
        ours: &[("combined", &[SAFETENSORS], slower)],
        asked: Some("slower"),
    },
    Operation {
        name: "restore a checkpoint",
        cold: false,
        target: Some(0.9),
        limits: RESTORE_LIMITS,
        ours: RESTORE,
        asked: Some("restore"),
    },
    Operation {
        name: "restore a checkpoint, cold",
        cold: true,
        target: Some(0.9),
        limits: RESTORE_LIMITS,
        ours: RESTORE,
        asked: None,
    },
];

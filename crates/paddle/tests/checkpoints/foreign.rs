//! Checkpoints in PaddlePaddle's formats, restored into a scope. The tests of these formats compare the contents of the
//! files with PaddlePaddle's.

use std::path::{Path, PathBuf};

use lodstone_formats::{OpenOptions, paddle, paddle::pickle, paddle::program};
use lodstone_model::{DType, Limits, Model, Program};
use lodstone_paddle::checkpoint::{Error, RestoreOptions, is_checkpointed, restore_models};
use lodstone_paddle::executor::Scope;
use lodstone_paddle::program::layers::{self, Fc};
use lodstone_paddle::program::optimizer::{Adam, Optimizer};
use lodstone_paddle::program::{Network, Variable};
use lodstone_store::{Blob, Location};

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden").join(path)
}

fn open(path: &Path) -> Model {
    (paddle::BUNDLE.read)(&Location::from(path), &OpenOptions::default()).unwrap()
}

fn pickle(path: &Path) -> Model {
    let blob = Blob::open(path, false).unwrap();
    pickle::read_blob(&blob, &Limits::default()).unwrap()
}

fn program(path: &Path) -> Program {
    let blob = Blob::open(path, false).unwrap();
    program::read(&blob, &path.display().to_string(), &Limits::default()).unwrap()
}

/// Restores models for a program, all of whose variables must be found; returns the scope.
fn restored(models: &[Model], main: &Program) -> Scope {
    let mut scope = Scope::default();
    let done = restore_models(models, Some(main), &mut scope, &RestoreOptions::default());
    let done = done.unwrap();
    let mut wanted: Vec<&str> =
        main.vars().filter(|var| is_checkpointed(var)).map(|var| var.name.as_str()).collect();
    wanted.sort_unstable();
    assert_eq!(done.loaded, wanted);
    assert!(scope.names().eq(wanted));
    scope
}

fn assert_same(scope: &Scope, other: &Scope) {
    assert!(scope.names().eq(other.names()));
    for name in scope.names() {
        let [tensor, other] = [scope, other].map(|scope| scope.tensor(name).unwrap());
        assert_eq!((tensor.dtype, &tensor.shape), (other.dtype, &other.shape), "{name}");
        assert_eq!(tensor.data.read().unwrap(), other.data.read().unwrap(), "{name}");
    }
}

#[test]
fn persistables_of_1_8_5_and_2_6_2_are_checkpoints_whatever_files_they_are_in() {
    for (release, train) in [("1.8.5", "program.pb"), ("2.6.2", "train.pb")] {
        let dir = golden(&format!("paddle/{release}/lenet"));
        let main = program(&dir.join(train));
        let each = restored(&[open(&dir.join("persistables"))], &main);
        // The combined file has no names: they come from the program.
        let combined = open(&dir.join("persistables.combined"));
        let alone = restore_models(
            std::slice::from_ref(&combined),
            None,
            &mut Scope::default(),
            &RestoreOptions::default(),
        );
        assert!(alone.unwrap_err().to_string().contains("which requires a program"));
        assert_same(&restored(&[combined], &main), &each);
    }
}

#[test]
fn what_static_save_of_2_6_2_wrote_is_a_checkpoint() {
    let dir = golden("paddle/2.6.2/lenet");
    let saved = open(&dir.join("saved/lenet"));
    let main = saved.main().cloned().unwrap();
    let scope = restored(&[saved], &main);
    let vars: Vec<&str> = main.vars().map(|var| var.name.as_str()).collect();
    assert!(scope.names().any(|name| name.contains("_moment1_")) && vars.len() > 10);
}

/// A network with PaddlePaddle's names of variables in `state_dict()`.
fn dense() -> Network {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(4)], DType::Float32);
    let named = |name: &str| lodstone_paddle::program::ParamAttr {
        name: Some(name.to_owned()),
        ..lodstone_paddle::program::ParamAttr::default()
    };
    let fc = Fc { weight: named("linear_0.w_0"), bias: Some(named("linear_0.b_0")), ..Fc::new(3) };
    let out: Variable = layers::fc(&mut net, &x, &fc).unwrap();
    let loss = layers::mean(&mut net, &out).unwrap();
    Optimizer::new(Adam::default(), 0.5).minimize(&mut net, &loss).unwrap();
    net
}

#[test]
fn the_state_of_an_optimizer_and_its_schedule_come_back() {
    for release in ["2.6.2", "3.3.1"] {
        let dir = golden(&format!("paddle_pickle/{release}"));
        let models = ["state_p4.pdparams", "adam.pdopt"].map(|name| pickle(&dir.join(name)));
        let (net, mut scope) = (dense(), Scope::default());
        let strict = RestoreOptions::default();
        let refused = restore_models(&models, Some(&net.main), &mut scope, &strict);
        let Err(Error::Mismatch(mismatch)) = refused else { panic!("{refused:?}") };
        assert!(mismatch.extra.iter().any(|name| name.starts_with("batch_norm")), "{mismatch}");
        assert_eq!((mismatch.missing.len(), scope.names().count()), (0, 0), "{mismatch}");

        let partial = RestoreOptions::default().with_partial(true);
        let done = restore_models(&models, Some(&net.main), &mut scope, &partial).unwrap();
        let scheduler = &done.metadata["LR_Scheduler"];
        assert_eq!(scheduler["last_epoch"].as_i64(), Some(1), "{scheduler}");
        // The program keeps its learning rate as a variable.
        let rate = scope.tensor("learning_rate_0").unwrap().data.read().unwrap();
        let rate = f32::from_le_bytes(rate.as_ref().try_into().unwrap());
        let last = scheduler["last_lr"].as_f64().unwrap();
        assert!((f64::from(rate) - last).abs() < 1e-6, "{rate}, {last}");
        let weight = models[0].parameters.iter().find(|it| it.tensor.shape == [4, 3]).unwrap();
        assert_ne!(weight.name, "linear_0.w_0", "it is saved by a structured name");
        let found = scope.tensor("linear_0.w_0").unwrap();
        assert_eq!(found.data.read().unwrap(), weight.tensor.data.read().unwrap());
        assert!(scope.tensor("linear_0.w_0_moment1_0").is_some());
    }
}

#[test]
fn checkpoints_of_a_larger_collection_are_restored() {
    let Some(cases) = std::env::var_os("LODSTONE_CASES").map(PathBuf::from) else {
        #[expect(clippy::print_stdout, reason = "reports what was skipped")]
        {
            println!("LODSTONE_CASES is not set: only the golden files were tried");
        }
        return;
    };
    let peers = cases.join("peers");
    let with_program = [
        ("paddle-1.8.5/lenet/save/m", None),
        ("paddle-1.8.5/text_conv_gru/save/m", None),
        ("paddle-1.8.5/text_lstm/save/m", None),
        ("paddle-1.8.5/lenet/vars", Some("paddle-1.8.5/lenet/program_main.pb")),
        ("paddle-1.8.5/lenet/vars_combined/all", Some("paddle-1.8.5/lenet/program_main.pb")),
        ("paddle-1.8.5/text_lstm/vars", Some("paddle-1.8.5/text_lstm/program_main.pb")),
        ("paddle-2.6.2/lenet_static/save/lenet", None),
        ("paddle-2.6.2/lenet_static/save_p4/lenet", None),
        ("paddle-2.6.2/lenet_static/vars", Some("paddle-2.6.2/lenet_static/program_main_train.pb")),
        (
            "paddle-2.6.2/lenet_static/vars_combined/all",
            Some("paddle-2.6.2/lenet_static/program_main_train.pb"),
        ),
        ("paddle-3.3.1-nopir/static_train/save", None),
    ];
    for (path, main) in with_program {
        let model = open(&peers.join(path));
        let main =
            main.map_or_else(|| model.main().cloned().unwrap(), |main| program(&peers.join(main)));
        assert!(restored(&[model], &main).names().count() > 5, "{path}");
    }
    // PIR programs cannot be read: everything is restored by the names in the files.
    for path in ["paddle-3.3.1/static_train/save", "paddle-3.0.0/static_train/save"] {
        let (model, mut scope) = (open(&peers.join(path)), Scope::default());
        let options = RestoreOptions::default();
        restore_models(std::slice::from_ref(&model), None, &mut scope, &options).unwrap();
        assert_eq!(scope.names().count(), model.parameters.len(), "{path}");
        assert!(scope.names().any(|name| name.contains("moment1")), "{path}");
    }
}

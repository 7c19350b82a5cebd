//! A serial that must stay readable in all future versions. `LODSTONE_REWRITE_EXPECTED=1` writes it anew.

use std::path::{Path, PathBuf};

use lodstone_checkpoint::{Manager, ManagerOptions, Serial};
use lodstone_model::{DType, Tensor};
use lodstone_paddle::checkpoint::{Contents, restore, verify};
use lodstone_paddle::executor::{Dirs, Executor, Prepared, Scope};
use lodstone_paddle::program::Network;
use lodstone_paddle::program::layers::{self, Fc};
use lodstone_paddle::program::optimizer::{Adam, Optimizer};
use lodstone_store::{Blob, Progress};

const STEP: u64 = 3;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../checkpoint/tests/golden/serials")
}

/// A network with all kinds of training state, and its prepared program.
fn network() -> (Network, Prepared) {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(3)], DType::Float32);
    let x = layers::dropout(&mut net, &x, 0.5, false).unwrap();
    let y = layers::fc(&mut net, &x, &Fc::new(2)).unwrap();
    let loss = layers::mean(&mut net, &y).unwrap();
    let rate = layers::exponential_decay(&mut net, 0.5, 2, 0.5, true).unwrap();
    Optimizer::new(Adam::default(), &rate).minimize(&mut net, &loss).unwrap();
    let run = Prepared::new(&net.main, &[loss.name()]).unwrap();
    (net, run)
}

fn step(run: &Prepared, scope: &mut Scope) -> Vec<u8> {
    let bytes: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|it| it.to_le_bytes()).collect();
    let x = Tensor::dense(DType::Float32, vec![1, 3], Blob::memory(bytes));
    let loss = run.run(scope, &[("x", x)], &Dirs::default()).unwrap();
    loss[0].data.read().unwrap().to_vec()
}

/// Writes the serial.
fn write() {
    let ((net, run), mut scope) = (network(), Scope::default());
    Executor::default().run(&net.startup, &mut scope, &[], &[], &Dirs::default()).unwrap();
    (0..STEP).for_each(|_| drop(step(&run, &mut scope)));
    let snapshot = Contents::of(&net.main, &net.startup, None).unwrap().snapshot(&scope).unwrap();
    let _ = std::fs::remove_dir_all(golden());
    let mut manager = Manager::open(golden(), ManagerOptions::default()).unwrap();
    manager.save(STEP, &snapshot.with("order", 7)).unwrap();
    std::fs::remove_file(golden().join(".lock.lodstone")).unwrap();
}

#[test]
fn a_serial_of_the_first_version_is_read() {
    if std::env::var_os("LODSTONE_REWRITE_EXPECTED").is_some() {
        write();
    }
    let serial = Serial::named(golden(), STEP).unwrap();
    assert_eq!(verify(&serial, &Progress::default()).unwrap(), Vec::<String>::new());
    let mut scope = Scope::default();
    let restored = restore(&serial, &mut scope).unwrap();
    assert_eq!((restored.step, &restored.metadata["order"]), (STEP, &7.into()));
    let expected = [
        "@LR_DECAY_COUNTER@",
        "@RANDOM_STATE@",
        "fc_0.b_0",
        "fc_0.b_0_beta1_pow_acc_0",
        "fc_0.b_0_beta2_pow_acc_0",
        "fc_0.b_0_moment1_0",
        "fc_0.b_0_moment2_0",
        "fc_0.w_0",
        "fc_0.w_0_beta1_pow_acc_0",
        "fc_0.w_0_beta2_pow_acc_0",
        "fc_0.w_0_moment1_0",
        "fc_0.w_0_moment2_0",
    ];
    assert_eq!(restored.loaded, expected);
    let counter = scope.tensor("@LR_DECAY_COUNTER@").unwrap().data.read().unwrap();
    assert_eq!(counter.as_ref(), (STEP - 1).to_le_bytes());
    // The state is enough to continue.
    let (_, run) = network();
    step(&run, &mut scope);
}

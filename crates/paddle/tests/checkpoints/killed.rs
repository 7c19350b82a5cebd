//! A training run that is killed at random and resumed, repeatedly.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lodstone_checkpoint::{Serial, latest, serials};
use lodstone_paddle::checkpoint::verify;
use lodstone_store::Progress;

use super::common::manager;
use super::common::saver::{BEGUN, SAVED, Saver, command, kills, print_line, random, task};
use super::training::Training;

/// The number of steps between two saves, and of all steps.
pub(crate) const EVERY: u64 = 4;
pub(crate) const STEPS: u64 = 60;

/// The number of serials to keep.
const KEEP: usize = 2;

/// Trains in the directory in the environment; does nothing without one.
#[test]
fn the_saver() {
    if let Some((_, _, dir)) = task() {
        train(&dir);
    }
}

/// Continues training, and saves in the background.
fn train(dir: &Path) {
    let mut manager = manager(dir, KEEP);
    let mut training = Training::resume(dir);
    print_line(BEGUN);
    while training.step < STEPS {
        training.step();
        if training.step.is_multiple_of(EVERY) {
            let before = manager.save_in_background(training.step, training.snapshot());
            if let Some(saved) = before.transpose().unwrap() {
                print_line(&format!("{SAVED}{}", saved.serial.step));
            }
        }
    }
    manager.wait().unwrap();
}

/// Returns the command of a training run in a directory.
fn saver(dir: &Path) -> Command {
    command("checkpoints::killed::the_saver", "train", 0, dir)
}

#[test]
fn killed_and_resumed_training_equals_an_uninterrupted_run() {
    let mut whole = Training::begin();
    whole.until(STEPS);
    let (dir, mut state) = (tempfile::tempdir().unwrap(), 424_242);
    let (dir, kills) = (dir.path(), kills(50));
    let (mut killed, mut resumed) = (0, 0);
    loop {
        // Each run has another number of threads than the previous one.
        let mut command = saver(dir);
        command.env("RAYON_NUM_THREADS", (1 + killed % 4).to_string());
        let saver = Saver::begin(command);
        if killed == kills {
            assert!(saver.end().done);
            break;
        }
        std::thread::sleep(Duration::from_micros(random(&mut state) % 250_000));
        let ended = saver.kill();
        killed += 1;
        if let Some(serial) = latest(dir).unwrap() {
            assert_eq!(verify(&serial, &Progress::default()).unwrap(), [""; 0], "{ended:?}");
            resumed += 1;
            if serial.step == STEPS {
                // The run had finished: the next one starts from an earlier serial, or from the beginning.
                for serial in serials(dir).unwrap().iter().skip(usize::from(killed % 2 == 0)) {
                    std::fs::remove_dir_all(serial.path()).unwrap();
                }
            }
        }
    }
    assert!(resumed * 2 > kills, "{resumed} of {kills} resumed");
    let serial = Serial::named(dir, STEPS - STEPS % EVERY).unwrap();
    assert_eq!(Training::of(&serial).state(), whole.state());
}

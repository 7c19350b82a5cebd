//! Savers that are killed, at random and at every step, and faults at every step: the latest serial is always intact, and
//! no acknowledged save is lost.

#![expect(clippy::disallowed_methods, reason = "checks files independently of the store")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod child;
#[path = "../common/mod.rs"]
mod common;
mod faults;

use std::path::Path;
use std::time::Duration;

use child::{KEEP, content, saver};
use common::entries;
use common::saver::{Ended, Saver, kills, random};
use lodstone_checkpoint::serials;
use lodstone_store::Progress;

/// Fails unless all visible serials are intact and have the saved contents; returns the latest step.
fn check(dir: &Path, ended: &Ended) -> Option<u64> {
    let mut last = None;
    for serial in serials(dir).unwrap() {
        let step = serial.step;
        let found = serial.verify(&Progress::default()).unwrap();
        assert_eq!(found, [""; 0], "step {step}: {ended:?}");
        for (found, wanted) in serial.tensors().unwrap().iter().zip(content(step).tensors()) {
            let (found, wanted) = (&found.tensor.data, &wanted.tensor.data);
            assert_eq!(found.read().unwrap(), wanted.read().unwrap(), "step {step}: {ended:?}");
        }
        last = Some(step);
    }
    last
}

/// Returns the hidden entries; all visible ones must be serials.
fn hidden(dir: &Path) -> Vec<String> {
    let mut names = entries(dir);
    names.retain(|name| !name.starts_with("step-") && name != ".lock.lodstone");
    names
}

#[test]
fn no_acknowledged_save_is_lost_when_the_saver_is_killed() {
    let (dir, mut state) = (tempfile::tempdir().unwrap(), 88_172_645_463_325_252);
    let (dir, mut next, mut left_over) = (dir.path(), 1, 0);
    let (mut acknowledged, kills) = (None, kills(500));
    for number in 0..kills {
        let saver = Saver::begin(saver("save", next, dir));
        std::thread::sleep(Duration::from_micros(random(&mut state) % 30_000));
        let ended = saver.kill();
        acknowledged = ended.saved.or(acknowledged);
        let found = check(dir, &ended);
        assert!(found >= acknowledged, "kill {number}: {found:?}, {acknowledged:?}: {ended:?}");
        left_over += usize::from(!hidden(dir).is_empty());
        next = found.map_or(1, |step| step + 1);
    }
    assert!(next > kills / 4 && left_over > 0, "{next} saves, {left_over} were cut off");
    assert!(Saver::begin(saver("once", next, dir)).end().done);
    assert_eq!(hidden(dir), [""; 0], "what was torn is cleaned by the next save");
    assert_eq!(serials(dir).unwrap().len(), KEEP);
}

#[test]
fn a_saver_may_be_killed_at_any_step() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, mut torn) = (dir.path(), 0);
    for step in [1, 2] {
        assert!(Saver::begin(saver("once", step, dir)).end().done);
    }
    let mut last_before = 2;
    for step in 0.. {
        // Every second saver replaces an existing serial.
        let next = last_before + step % 2;
        let ended = Saver::begin(saver(&step.to_string(), next, dir)).end();
        let found = check(dir, &ended).unwrap();
        assert!(found == last_before || found == next, "{step}: {ended:?}");
        assert!(ended.saved.is_none_or(|saved| saved == found), "{step}: {ended:?}");
        torn += usize::from(!hidden(dir).is_empty());
        last_before = found;
        if ended.done {
            assert!(step > 15 && torn > 8, "{step} steps, {torn} were torn");
            break;
        }
    }
    assert_eq!(hidden(dir), [""; 0]);
}

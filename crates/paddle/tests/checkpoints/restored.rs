//! Checkpoints that are restored into the programs that they were saved from, and into others.

use std::collections::BTreeMap;

use lodstone_model::Dim;
use lodstone_paddle::checkpoint::{Contents, Error, RestoreOptions, restore, restore_for};
use lodstone_paddle::executor::Scope;

use super::common::{CONTAINERS, manager, of};
use super::training::{Training, digits, forward, started, state};

#[test]
fn all_mismatches_are_reported_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let training = Training::begin();
    let saved = manager(dir.path(), 1).save(1, &training.snapshot()).unwrap();
    let (mut net, ..) = digits();
    let vars = &mut net.main.blocks[0].vars;
    let weight = vars.iter_mut().find(|var| var.name == "fc_0.w_0").unwrap();
    weight.value.tensor_type_mut().unwrap().shape = Some(vec![Dim::Known(64), Dim::Known(11)]);
    let bias = vars.iter_mut().find(|var| var.name == "fc_0.b_0").unwrap();
    bias.name = "bias".to_owned();
    let rate = vars.iter_mut().find(|var| var.name == "@LR_DECAY_COUNTER@").unwrap();
    rate.persistable = false;

    let mut scope = Scope::default();
    let options = RestoreOptions::default();
    let refused = restore_for(&saved.serial, &net.main, &mut scope, &options);
    let Err(Error::Mismatch(mismatch)) = refused else { panic!("{refused:?}") };
    assert_eq!(mismatch.missing, ["bias"]);
    assert_eq!(mismatch.extra, ["@LR_DECAY_COUNTER@", "fc_0.b_0"]);
    assert_eq!(mismatch.misshapen.len(), 1);
    let said = mismatch.to_string();
    for part in [
        "missing: `bias`",
        "`fc_0.b_0`",
        "`fc_0.w_0`: expected float32[64, 11], found float32[64, 10]",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(scope.names().count(), 0);

    // Matching variables are loaded, and a map renames others.
    let renames = BTreeMap::from([("fc_0.b_0".to_owned(), "bias".to_owned())]);
    let options = RestoreOptions::default().with_partial(true).with_renames(renames);
    let restored = restore_for(&saved.serial, &net.main, &mut scope, &options).unwrap();
    assert_eq!(restored.mismatch.missing, [""; 0]);
    assert_eq!(restored.mismatch.extra, ["@LR_DECAY_COUNTER@"]);
    assert_eq!(restored.mismatch.misshapen, mismatch.misshapen);
    assert!(restored.loaded.contains(&"bias".to_owned()));
    assert!(scope.tensor("fc_0.w_0").is_none() && scope.tensor("fc_0.b_0").is_none());
    assert_eq!(restored.warnings, ["the checkpoint was saved from another program"]);

    let renames = BTreeMap::from([("absent".to_owned(), "bias".to_owned())]);
    let options = options.with_renames(renames);
    let error = restore_for(&saved.serial, &net.main, &mut scope, &options).unwrap_err();
    assert!(error.to_string().contains("`absent`"), "{error}");
}

#[test]
fn a_restore_for_the_same_program_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let mut training = Training::begin();
    training.until(3);
    let saved = manager(dir.path(), 1).save(3, &training.snapshot()).unwrap();
    let mut scope = Scope::default();
    let options = RestoreOptions::default();
    let restored = restore_for(&saved.serial, &training.net.main, &mut scope, &options).unwrap();
    assert_eq!((restored.step, restored.warnings.as_slice()), (3, &[][..]));
    assert_eq!(state(&scope), training.state());
}

#[test]
fn what_is_not_saved_begins_again() {
    for container in CONTAINERS {
        let dir = tempfile::tempdir().unwrap();
        let (net, ..) = digits();
        let is_no_moment = |var: &lodstone_model::Var| !var.name.contains("_moment");
        let contents = Contents::of(&net.main, &net.startup, Some(&is_no_moment)).unwrap();
        let scope = started(&net);
        let snapshot = contents.snapshot(&scope).unwrap();
        let saved = of(container, dir.path()).save(1, &snapshot).unwrap();
        for whole in [true, false] {
            let mut again = Scope::default();
            let restored = match whole {
                true => restore(&saved.serial, &mut again),
                false => {
                    let options = RestoreOptions::default();
                    restore_for(&saved.serial, &net.main, &mut again, &options)
                }
            };
            let restored = restored.unwrap();
            assert_eq!(restored.initialised.len(), 10, "{:?}", restored.initialised);
            assert!(restored.initialised.iter().all(|name| name.contains("_moment")));
            assert_eq!(state(&again), state(&scope), "{container:?}");
        }
    }
}

#[test]
fn what_infers_takes_its_weights_out_of_a_checkpoint_of_training() {
    let dir = tempfile::tempdir().unwrap();
    let mut training = Training::begin();
    training.until(2);
    let saved = manager(dir.path(), 1).save(2, &training.snapshot()).unwrap();
    let (net, ..) = forward();
    let (mut scope, options) = (Scope::default(), RestoreOptions::default().with_partial(true));
    let restored = restore_for(&saved.serial, &net.main, &mut scope, &options).unwrap();
    assert_eq!(restored.mismatch.missing, [""; 0]);
    assert!(!restored.mismatch.extra.is_empty());
    for name in scope.names() {
        let wanted = training.scope.tensor(name).unwrap().data.bytes().unwrap();
        assert_eq!(scope.tensor(name).unwrap().data.bytes().unwrap(), wanted, "{name}");
    }
}

//! Checkpoints that a training program saves by its own operators, and their loaders.

use std::path::Path;

use lodstone_model::{Program, Var};
use lodstone_paddle::checkpoint::{
    CheckpointOptions, Error, build_checkpoint_loader, check_loader, get_checkpoint_loader,
    is_checkpointed, make_checkpoint,
};
use lodstone_paddle::executor::{Dirs, Executor, Prepared, Scope};
use lodstone_paddle::program::layers::{self, Fc};
use lodstone_paddle::program::optimizer::{Optimizer, Sgd};
use lodstone_paddle::program::{
    LoadOptions, Network, Placement, Variable, for_test, inference, saved_records, stale_saves,
};

use super::common::entries;
use super::training::{Data, digits, forward, started, state};

/// Runs a training program for a number of steps.
fn train(main: &Program, scope: &mut Scope, data: &mut Data, steps: u64, dir: &Path) {
    let run = Prepared::new(main, &[]).unwrap();
    for _ in 0..steps {
        run.run(scope, &data.next(), &Dirs::one(dir)).unwrap();
    }
}

fn restored(dir: &Path) -> Scope {
    let (mut scope, loader) = (Scope::default(), get_checkpoint_loader(dir).unwrap());
    Executor::default().run(&loader, &mut scope, &[], &[], &Dirs::one(dir)).unwrap();
    scope
}

fn combined() -> LoadOptions {
    let placement = Placement::Combined("params".to_owned());
    LoadOptions::default().with_placement(placement)
}

fn kinds(program: &Program) -> Vec<&str> {
    program.blocks[0].ops.iter().map(|op| op.kind.as_str()).collect()
}

#[test]
fn a_program_that_trains_saves_itself_and_its_loader_brings_it_back() {
    let placements = [
        Placement::Combined("params".to_owned()),
        Placement::Each,
        Placement::Merged("params".to_owned()),
    ];
    for placement in placements {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("a/checkpoint");
        let (mut net, ..) = digits();
        let options = CheckpointOptions::default().with_placement(placement);
        make_checkpoint(&dir, None, &mut net.startup, &mut net.main, &options).unwrap();
        assert_eq!(stale_saves(&net.main), []);
        let (mut scope, mut data) = (started(&net), Data::new());
        train(&net.main, &mut scope, &mut data, 3, &dir);

        let again = restored(&dir);
        assert_eq!(state(&again), state(&scope), "{options:?}");
        let wanted: Vec<&Var> = net.main.vars().filter(|var| is_checkpointed(var)).collect();
        assert_eq!(again.names().count(), wanted.len());
    }
}

#[test]
fn a_run_resumed_by_the_loader_equals_an_uninterrupted_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut net, ..) = digits();
    let options = CheckpointOptions::default();
    make_checkpoint(dir.path(), None, &mut net.startup, &mut net.main, &options).unwrap();
    let (mut scope, mut data) = (started(&net), Data::new());
    train(&net.main, &mut scope, &mut data, 3, dir.path());
    // Includes dropout: its random numbers continue, too.
    let (mut again, mut same) = (restored(dir.path()), Data::new());
    same.order = data.order;
    train(&net.main, &mut scope, &mut data, 3, dir.path());
    train(&net.main, &mut again, &mut same, 3, dir.path());
    assert_eq!(state(&again), state(&scope));
}

#[test]
fn it_saves_every_so_many_runs_and_goes_on_counting_when_it_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut net, ..) = digits();
    let options = CheckpointOptions::default().with_every(3);
    make_checkpoint(dir, None, &mut net.startup, &mut net.main, &options).unwrap();
    assert_eq!(net.main.blocks.len(), 2);
    let (mut scope, mut data, mut saved) = (started(&net), Data::new(), Vec::new());
    for run in 1..=7 {
        train(&net.main, &mut scope, &mut data, 1, dir);
        match run {
            1 | 2 => assert_eq!(entries(dir), ["loader"]),
            3 | 6 => saved = state(&scope),
            _ => {}
        }
        if run >= 3 {
            assert_eq!(state(&restored(dir)), saved, "run {run}");
        }
    }
    // The checkpoint was saved after 6 runs: the third run from there saves again.
    let mut scope = restored(dir);
    train(&net.main, &mut scope, &mut data, 2, dir);
    assert_eq!(state(&restored(dir)), saved);
    train(&net.main, &mut scope, &mut data, 1, dir);
    assert_eq!(state(&restored(dir)), state(&scope));
}

#[test]
fn what_infers_is_left_without_the_operators_that_save() {
    let dir = tempfile::tempdir().unwrap();
    let (mut net, shares, _) = digits();
    let options = CheckpointOptions::default().with_every(3);
    make_checkpoint(dir.path(), None, &mut net.startup, &mut net.main, &options).unwrap();
    let inferring = inference(&net.main, &["image"], &[shares.name()]).unwrap();
    let saves = |program: &Program| program.ops().any(|op| op.kind.starts_with("save"));
    assert!(saves(&net.main));
    assert!(!saves(&inferring) && !kinds(&inferring).contains(&"conditional_block"));
    assert!(!kinds(&for_test(&net.main)).contains(&"increment"));
}

#[test]
fn initialisers_of_what_is_not_loaded_come_first_and_loads_last() {
    let (net, ..) = digits();
    let is_weight = |var: &&Var| var.is_parameter;
    let vars: Vec<Var> = net.main.vars().filter(is_weight).cloned().collect();
    let loader = build_checkpoint_loader(&vars, Some(&net.startup), &combined()).unwrap();
    check_loader(&loader, &net.main).unwrap();
    let kinds = kinds(&loader);
    let (last, first) = kinds.split_last().unwrap();
    assert_eq!(*last, "load_combine");
    assert!(!first.is_empty() && first.iter().all(|kind| *kind == "fill_constant"), "{first:?}");
    // No weight is drawn in vain.
    let drawn = |var: &Var| {
        loader.blocks[0].ops[..first.len()]
            .iter()
            .any(|op| op.writes().any(|name| name == var.name))
    };
    assert!(!vars.iter().any(drawn));

    let alone = build_checkpoint_loader(&vars, None, &LoadOptions::default()).unwrap();
    assert!(self::kinds(&alone).iter().all(|kind| *kind == "load"));
    assert_eq!(alone.blocks[0].ops.len(), vars.len());
}

#[test]
fn a_subset_of_a_merged_file_is_loaded_by_the_names_of_its_records() {
    let dir = tempfile::tempdir().unwrap();
    let (mut net, ..) = digits();
    let placement = Placement::Merged("params".to_owned());
    let options = CheckpointOptions::default().with_placement(placement);
    make_checkpoint(dir.path(), None, &mut net.startup, &mut net.main, &options).unwrap();
    let (mut scope, mut data) = (started(&net), Data::new());
    train(&net.main, &mut scope, &mut data, 2, dir.path());

    let vars: Vec<Var> = net.main.vars().filter(|var| is_checkpointed(var)).cloned().collect();
    for part in vars.chunks(3) {
        let unknown = combined().with_placement(options.placement.clone());
        let error = build_checkpoint_loader(part, Some(&net.startup), &unknown).unwrap_err();
        assert!(error.to_string().contains("order"), "{error}");

        let records = saved_records(&net.main, "params").unwrap();
        let known = unknown.with_records(records);
        let loader = build_checkpoint_loader(part, Some(&net.startup), &known).unwrap();
        let mut again = Scope::default();
        Executor::default().run(&loader, &mut again, &[], &[], &Dirs::one(dir.path())).unwrap();
        for var in part {
            let (saved, loaded) = (scope.tensor(&var.name), again.tensor(&var.name));
            let bytes = |tensor: &lodstone_model::Tensor| tensor.data.read().unwrap();
            assert_eq!(saved.map(bytes), loaded.map(bytes), "{}", var.name);
        }
    }
}

#[test]
fn a_load_wins_where_an_initialiser_has_to_stay_for_another() {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(2)], lodstone_model::DType::Float32);
    layers::fc(&mut net, &x, &Fc::new(2)).unwrap();
    // The bias is initialized with the weight's initial value, so the weight's initializer is needed for both.
    let [weight, bias] = ["fc_0.w_0", "fc_0.b_0"].map(Variable::named);
    let copy = lodstone_paddle::program::Operator::new("assign").input("X", [&weight]);
    let ops = &mut net.startup.blocks[0].ops;
    ops.retain(|op| op.writes().any(|name| name == weight.name()));
    ops.push(copy.output("Out", [&bias]).finish().unwrap());

    let is_weight = |var: &&Var| var.name == weight.name();
    let vars: Vec<Var> = net.main.vars().filter(is_weight).cloned().collect();
    let loader = build_checkpoint_loader(&vars, Some(&net.startup), &combined()).unwrap();
    let kinds = kinds(&loader);
    assert_eq!(kinds.len(), 3, "{kinds:?}");
    assert_eq!(kinds[1..], ["assign", "load_combine"]);
}

#[test]
fn what_a_predicate_leaves_out_begins_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut net, ..) = digits();
    let begun = started(&net);
    let is_no_moment = |var: &Var| !var.name.contains("_moment");
    let options = CheckpointOptions::default();
    make_checkpoint(dir.path(), Some(&is_no_moment), &mut net.startup, &mut net.main, &options)
        .unwrap();
    let mut scope = started(&net);
    train(&net.main, &mut scope, &mut Data::new(), 2, dir.path());
    let again = restored(dir.path());
    for (name, bytes) in state(&again) {
        let from = if name.contains("_moment") { &begun } else { &scope };
        assert_eq!(bytes, from.tensor(&name).unwrap().data.bytes().unwrap(), "{name}");
    }
    assert_eq!(state(&again).len(), state(&scope).len());
}

#[test]
fn a_loader_that_misses_variables_is_refused_with_their_names_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let (mut net, ..) = digits();
    let is_rate = |var: &Var| var.name == "@LR_DECAY_COUNTER@";
    let lost = |op: &lodstone_model::Op| op.writes().any(|name| name.contains("beta1_pow"));
    net.startup.blocks[0].ops.retain(|op| !lost(op));
    let before = net.clone();
    let options = CheckpointOptions::default().with_every(2);
    let made =
        make_checkpoint(dir.path(), Some(&is_rate), &mut net.startup, &mut net.main, &options);
    let Err(Error::Incomplete { names }) = made else { panic!("{made:?}") };
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(names.iter().all(|name| name.contains("beta1_pow")), "{names:?}");
    let said = Error::Incomplete { names: names.clone() }.to_string();
    assert!(names.iter().all(|name| said.contains(&format!("`{name}`"))), "{said}");
    assert_eq!((&net.main, &net.startup), (&before.main, &before.startup));
    assert_eq!(entries(dir.path()), [""; 0]);
}

#[test]
fn saves_before_an_optimizer_are_reported_with_their_variables() {
    let dir = tempfile::tempdir().unwrap();
    let (mut net, _, loss) = forward();
    let options = CheckpointOptions::default();
    make_checkpoint(dir.path(), None, &mut net.startup, &mut net.main, &options).unwrap();
    assert_eq!(stale_saves(&net.main), []);
    Optimizer::new(Sgd, 0.1).minimize(&mut net, &loss).unwrap();
    let stale = stale_saves(&net.main);
    assert_eq!(stale.len(), 1);
    assert_eq!(stale[0].path, "params");
    let parameters = net.main.vars().filter(|var| var.is_parameter).map(|var| var.name.clone());
    let mut parameters: Vec<String> = parameters.collect();
    parameters.sort();
    assert_eq!(stale[0].variables, parameters);
    assert!(stale[0].to_string().contains("before an optimizer updates"));
}

#[test]
fn variables_of_one_step_or_one_trainer_are_not_saved() {
    let var = |name: &str| Var { name: name.to_owned(), persistable: true, ..Var::default() };
    for (name, saved) in [
        ("w", true),
        ("w@GRAD", false),
        ("w.trainer_1", false),
        ("w.block0", false),
        ("w.block0_moment", true),
        ("stage.block1.w_0", true),
        ("w.block", true),
    ] {
        assert_eq!(is_checkpointed(&var(name)), saved, "{name}");
    }
}

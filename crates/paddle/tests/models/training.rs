//! Training programs continue from where PaddlePaddle stopped, with the same losses
//! (`golden/make_paddle_training.py`).

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use lodstone_formats::OpenOptions;
use lodstone_model::{AttributeValue, Block, Model, Op, Program};
use lodstone_paddle::executor::{Dirs, Error, Prepared, Scope};
use lodstone_schema::finding::Code;
use lodstone_schema::paddle::set_forward_block;
use lodstone_store::Progress;
use serde_json::Value;

use super::{feed, open};
use crate::bits;

/// The recordings of each release, and their number of networks.
const RECORDED: &[(&str, &str, usize)] = &[
    ("1.8.5", include_str!("../golden/paddle_training/1.8.5.json"), 7),
    ("2.6.2", include_str!("../golden/paddle_training/2.6.2.json"), 6),
];

/// The maximum relative difference of two losses: sums are computed in another order, and the differences of parameters
/// accumulate.
const TOLERANCE: f64 = 1e-5;

/// Opens a network in its recorded state.
fn network(release: &str, case: &Value) -> Model {
    let name = case["name"].as_str().unwrap();
    let folder = format!("tests/golden/paddle_training/{release}/{name}");
    let variables = Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder).join("variables");
    let options = OpenOptions::default().with_params(Some(variables.into()));
    open(&format!("{folder}/program.pb"), &options)
}

/// Describes how the continued training of a network fails.
fn failure(release: &str, case: &Value) -> Option<String> {
    let model = network(release, case);
    let loss = case["loss"].as_str().unwrap();
    let prepared = match Prepared::new(model.main().unwrap(), &[loss]) {
        Ok(prepared) => prepared,
        Err(error) => return Some(error.to_string()),
    };
    if std::env::var_os(bits::FILE).is_some() {
        go_on(&format!("{release} {}", case["name"]), &prepared, &model, case);
    }
    let mut scope = Scope::of(&model).unwrap();
    for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        let found = match prepared.run(&mut scope, &feed(&step["feed"]), &Dirs::default()) {
            Ok(found) => found,
            Err(error) => return Some(format!("step {number}: {error}")),
        };
        let bytes = found.first().unwrap().data.bytes().unwrap();
        let found = f64::from(f32::from_le_bytes(bytes.as_ref().try_into().unwrap()));
        let wanted = step["loss"].as_f64().unwrap();
        let apart = (found - wanted).abs() / wanted.abs();
        if apart.is_nan() || apart > TOLERANCE {
            return Some(format!("step {number}: a loss of {found} rather than {wanted}"));
        }
    }
    None
}

/// Records the bits of many steps: the losses, and finally all variables.
fn go_on(what: &str, prepared: &Prepared, model: &Model, case: &Value) {
    let mut scope = Scope::of(model).unwrap();
    let steps = case["steps"].as_array().unwrap();
    for number in 0..20 {
        let feed = feed(&steps[number % steps.len()]["feed"]);
        let found = prepared.run(&mut scope, &feed, &Dirs::default()).unwrap();
        bits::keep(&format!("{what} {number}"), &found);
    }
    let mut names: Vec<&str> = scope.names().collect();
    names.sort_unstable();
    bits::keep(what, names.into_iter().filter_map(|name| scope.tensor(name)));
}

#[test]
fn training_goes_on_as_where_it_was_begun() {
    for (release, recorded, count) in RECORDED {
        let cases: Vec<Value> = serde_json::from_str(recorded).unwrap();
        assert_eq!(cases.len(), *count);
        let failed: Vec<String> = cases
            .iter()
            .filter_map(|case| Some(format!("{}: {}", case["name"], failure(release, case)?)))
            .collect();
        assert!(failed.is_empty(), "{release}: {failed:#?}");
    }
}

/// Networks with blocks.
const WITH_BLOCKS: &[&str] = &["dynamic_rnn_memory", "loop", "branches", "branches_in_loop"];

/// The memory of tensors of a damaged run, and the maximum number of steps of a loop that has lost its end.
const MEMORY: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_millis(100);

/// Returns variations of an operator and its block.
fn damaged(op: &Op, block: &Block, blocks: i32) -> Vec<Vec<Op>> {
    let mut made = vec![vec![], vec![op.clone(), op.clone()]];
    let mut with = |change: &dyn Fn(&mut Op)| {
        let mut other = op.clone();
        change(&mut other);
        made.push(vec![other]);
    };
    for place in 0..op.inputs.len() {
        with(&|op| drop(op.inputs.remove(place)));
        with(&|op| op.inputs.get_mut(place).unwrap().args.reverse());
        with(&|op| drop(op.inputs.get_mut(place).unwrap().args.pop()));
    }
    for place in 0..op.outputs.len() {
        with(&|op| drop(op.outputs.remove(place)));
        with(&|op| drop(op.outputs.get_mut(place).unwrap().args.pop()));
    }
    for name in block.vars.iter().step_by(7).map(|var| &var.name) {
        with(&|op| op.inputs.iter_mut().for_each(|it| it.args.fill(name.clone())));
        with(&|op| op.outputs.iter_mut().for_each(|it| it.args.fill(name.clone())));
    }
    if op.blocks().next().is_some() {
        for number in -1..=blocks {
            with(&|op| set_block(op, number));
        }
        with(&|op| op.attributes.retain(|attribute| attribute.name != "original_output_grad"));
        with(&|op| op.attributes.clear());
    }
    made
}

fn set_block(op: &mut Op, number: i32) {
    let mut values = op.attributes.iter_mut().map(|attribute| &mut attribute.value);
    if let Some(value) = values.find(|value| matches!(value, AttributeValue::Block(_))) {
        *value = AttributeValue::Block(number);
    }
}

/// Returns programs that differ from one in a single operator, or in the forward block of a block.
fn variants(program: &Program) -> Vec<(String, Program)> {
    let count = i32::try_from(program.blocks.len()).unwrap();
    let mut made = Vec::new();
    for (number, block) in program.blocks.iter().enumerate() {
        let changed = |change: &dyn Fn(&mut Block)| {
            let mut other = program.clone();
            change(other.blocks.get_mut(number).unwrap());
            other
        };
        for (place, op) in block.ops.iter().enumerate() {
            for (way, ops) in damaged(op, block, count).into_iter().enumerate() {
                let what = format!("block {number}, {place}, {}, way {way}", op.kind);
                let splice = |block: &mut Block| drop(block.ops.splice(place..=place, ops.clone()));
                made.push((what, changed(&splice)));
            }
        }
        for forward in -1..=count {
            let what = format!("block {number} of the gradients of {forward}");
            made.push((what, changed(&|block| set_forward_block(block, Some(forward)))));
            let what = format!("block {number} in {forward}");
            made.push((what, changed(&|block| block.parent = forward)));
        }
    }
    made
}

/// Runs a program once, with a maximum number of steps.
fn run(program: &Program, scope: &mut Scope, case: &Value) -> Result<(), Error> {
    let prepared = Prepared::new(program, &[case["loss"].as_str().unwrap()])?;
    let dirs = Dirs { progress: Progress::default(), ..Dirs::default() };
    let (progress, (done, waits)) = (dirs.progress.clone(), channel::<()>());
    let watch = std::thread::spawn(move || {
        if waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            progress.cancel();
        }
    });
    let result = prepared.run(scope, &feed(&case["steps"][0]["feed"]), &dirs);
    drop(done);
    watch.join().unwrap();
    result.map(drop)
}

#[test]
fn damaged_programs_that_train_are_answered() {
    let (mut trained, mut refused) = (0, 0);
    for (release, recorded, _) in RECORDED {
        let cases: Vec<Value> = serde_json::from_str(recorded).unwrap();
        let is_meant = |case: &&Value| WITH_BLOCKS.contains(&case["name"].as_str().unwrap());
        for case in cases.iter().filter(is_meant) {
            let model = network(release, case);
            let before = Scope::of(&model).unwrap().with_memory(MEMORY);
            for (what, program) in variants(model.main().unwrap()) {
                let mut scope = before.clone();
                let Err(error) = run(&program, &mut scope, case) else {
                    trained += 1;
                    continue;
                };
                refused += 1;
                let name = &case["name"];
                let is_defect =
                    error.finding().is_some_and(|finding| finding.code == Code::Internal);
                assert!(!is_defect, "{name}, {what}: {error}");
                let is_same =
                    |name| format!("{:?}", scope.get(name)) == format!("{:?}", before.get(name));
                assert!(before.names().all(is_same), "{name}, {what}: {error}");
            }
        }
    }
    assert!(trained > 1_000 && refused > 1_000, "{trained} trained, {refused} refused");
}

//! Optimizers and schedules append the same operators as PaddlePaddle 2.6.2, and schedules give the same learning rates
//! (`golden/make_paddle_optimizer_programs.py`); optimizers that 2.6.2 does not have append those of 1.8.5
//! (`golden/make_paddle_old_optimizer_programs.py`).

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::collections::HashSet;

use crate::support::{compare, recorded};
use lodstone_model::DType;
use lodstone_paddle::executor::{Dirs, Executor, Scope};
use lodstone_paddle::program::layers::{self, Fc};
use lodstone_paddle::program::optimizer::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, Clip, Decay, DecayedAdagrad, Dpsgd, Ftrl, Lamb,
    LarsMomentum, Momentum, Optimizer, RmsProp, Rule, Sgd,
};
use lodstone_paddle::program::{Network, Operator, Result, Variable};
use serde_json::Value;

type Pairs = Vec<(Variable, Variable)>;
type Learns = (&'static str, fn(&mut Network, &Pairs) -> Result<()>);
type Schedule = (&'static str, fn(&mut Network) -> Result<Variable>);

const LEARNS: &[Learns] = &[
    ("sgd", |net, pairs| sgd().apply(net, pairs)),
    // The schedule is computed in Python: the program is the same.
    ("sgd_scheduled", |net, pairs| sgd().apply(net, pairs)),
    ("momentum", |net, pairs| slow(Momentum::default()).apply(net, pairs)),
    ("momentum_nesterov", |net, pairs| {
        slow(Momentum { momentum: 0.8, use_nesterov: true }).apply(net, pairs)
    }),
    ("momentum_l2", |net, pairs| {
        slow(Momentum::default()).decay(Decay::L2(0.05)).apply(net, pairs)
    }),
    ("momentum_l1", |net, pairs| {
        slow(Momentum::default()).decay(Decay::L1(0.05)).apply(net, pairs)
    }),
    ("adagrad", |net, pairs| slow(Adagrad::default()).apply(net, pairs)),
    ("adagrad_begun", |net, pairs| {
        slow(Adagrad { epsilon: 1e-3, initial_accumulator_value: 0.5 }).apply(net, pairs)
    }),
    ("adam", |net, pairs| Optimizer::new(Adam::default(), 0.001).apply(net, pairs)),
    ("adam_options", |net, pairs| {
        let rule = Adam { beta1: 0.8, beta2: 0.95, epsilon: 1e-6, lazy_mode: true };
        Optimizer::new(rule, 0.01).apply(net, pairs)
    }),
    ("adamw", |net, pairs| Optimizer::new(AdamW::default(), 0.001).apply(net, pairs)),
    ("adamw_options", |net, pairs| {
        let rule =
            AdamW { beta1: 0.8, beta2: 0.95, epsilon: 1e-6, weight_decay: 0.1, lazy_mode: false };
        Optimizer::new(rule, 0.01).apply(net, pairs)
    }),
    ("rmsprop", |net, pairs| slow(RmsProp::default()).apply(net, pairs)),
    ("rmsprop_options", |net, pairs| {
        slow(RmsProp { rho: 0.9, epsilon: 1e-4, momentum: 0.5, centered: true }).apply(net, pairs)
    }),
    ("lamb", |net, pairs| Optimizer::new(Lamb::default(), 0.001).apply(net, pairs)),
    ("lamb_options", |net, pairs| {
        let (beta1, beta2, epsilon) = (0.8, 0.95, 1e-5);
        let rule = Lamb { lamb_weight_decay: 0.1, beta1, beta2, epsilon, always_adapt: true };
        Optimizer::new(rule, 0.01).apply(net, pairs)
    }),
    ("adamax", |net, pairs| Optimizer::new(Adamax::default(), 0.001).apply(net, pairs)),
    ("adamax_options", |net, pairs| {
        let rule = Adamax { beta1: 0.8, beta2: 0.95, epsilon: 1e-6 };
        Optimizer::new(rule, 0.01).apply(net, pairs)
    }),
    ("adadelta", |net, pairs| Optimizer::new(Adadelta::default(), 0.001).apply(net, pairs)),
    ("adadelta_options", |net, pairs| {
        Optimizer::new(Adadelta { epsilon: 1e-4, rho: 0.9 }, 1.0).apply(net, pairs)
    }),
    ("lars_momentum", |net, pairs| slow(LarsMomentum::default()).apply(net, pairs)),
    ("lars_momentum_options", |net, pairs| {
        let (epsilon, rescale_grad) = (1e-6, 0.5);
        let (momentum, lars_coeff, lars_weight_decay) = (0.8, 0.01, 0.1);
        let rule = LarsMomentum { momentum, lars_coeff, lars_weight_decay, epsilon, rescale_grad };
        slow(rule).apply(net, pairs)
    }),
    ("clip_by_value", |net, pairs| sgd().clip(Clip::Value(-0.25, 0.5)).apply(net, pairs)),
    ("clip_by_norm", |net, pairs| sgd().clip(Clip::Norm(0.5)).apply(net, pairs)),
    ("clip_by_global_norm", |net, pairs| sgd().clip(Clip::GlobalNorm(0.5)).apply(net, pairs)),
    ("decay_l1", |net, pairs| sgd().decay(Decay::L1(0.05)).apply(net, pairs)),
    ("decay_l2", |net, pairs| {
        Optimizer::new(Adam::default(), 0.001).decay(Decay::L2(0.05)).apply(net, pairs)
    }),
    ("clip_and_decay", |net, pairs| {
        sgd().clip(Clip::GlobalNorm(0.5)).decay(Decay::L2(0.05)).apply(net, pairs)
    }),
];

/// Optimizers that only 1.8.5 has.
const LEARNS_OLD: &[Learns] = &[
    ("decayed_adagrad", |net, pairs| slow(DecayedAdagrad::default()).apply(net, pairs)),
    ("decayed_adagrad_options", |net, pairs| {
        slow(DecayedAdagrad { decay: 0.9, epsilon: 1e-4 }).apply(net, pairs)
    }),
    ("ftrl", |net, pairs| slow(Ftrl::default()).apply(net, pairs)),
    ("ftrl_options", |net, pairs| {
        slow(Ftrl { l1: 0.05, l2: 0.05, lr_power: -0.75 }).apply(net, pairs)
    }),
    ("dpsgd", |net, pairs| slow(Dpsgd::default()).apply(net, pairs)),
    ("dpsgd_options", |net, pairs| {
        slow(Dpsgd { clip: 10.0, batch_size: 16.0, sigma: 1.0, seed: 0 }).apply(net, pairs)
    }),
];

/// Optimizers for a table with selected rows as its gradient.
const LEARNS_ROWS: &[Learns] = &[
    ("rows", |net, pairs| {
        let rule = Adam { lazy_mode: true, ..Adam::default() };
        Optimizer::new(rule, 0.001).apply(net, pairs)
    }),
    ("rows_clip_by_norm", |net, pairs| sgd().clip(Clip::Norm(0.5)).apply(net, pairs)),
    ("rows_clip_by_global_norm", |net, pairs| sgd().clip(Clip::GlobalNorm(0.5)).apply(net, pairs)),
    ("rows_decay", |net, pairs| slow(Momentum::default()).decay(Decay::L1(0.05)).apply(net, pairs)),
    ("rows_clip_and_decay", |net, pairs| {
        sgd().clip(Clip::GlobalNorm(0.5)).decay(Decay::L2(0.05)).apply(net, pairs)
    }),
];

const SCHEDULES: &[Schedule] = &[
    ("noam", |net| layers::noam_decay(net, 64, 4, 0.5)),
    ("exponential", |net| layers::exponential_decay(net, 0.1, 3, 0.9, false)),
    ("exponential_staircase", |net| layers::exponential_decay(net, 0.1, 3, 0.9, true)),
    ("natural_exp", |net| layers::natural_exp_decay(net, 0.1, 3, 0.9, false)),
    ("natural_exp_staircase", |net| layers::natural_exp_decay(net, 0.1, 3, 0.9, true)),
    ("inverse_time", |net| layers::inverse_time_decay(net, 0.1, 3, 0.9, false)),
    ("inverse_time_staircase", |net| layers::inverse_time_decay(net, 0.1, 3, 0.9, true)),
    ("polynomial", |net| layers::polynomial_decay(net, 0.1, 6, 0.01, 2.0, false)),
    ("polynomial_cycle", |net| layers::polynomial_decay(net, 0.1, 4, 0.01, 1.0, true)),
    ("piecewise", |net| layers::piecewise_decay(net, &[3, 6], &[0.1, 0.05, 0.01])),
    ("cosine", |net| layers::cosine_decay(net, 0.1, 2, 5)),
    ("warmup", |net| layers::linear_lr_warmup(net, 0.1, 4, 0.01, 0.1)),
    ("warmup_exponential", |net| {
        let rate = layers::exponential_decay(net, 0.1, 3, 0.9, false)?;
        layers::linear_lr_warmup(net, &rate, 4, 0.01, 0.1)
    }),
];

fn sgd() -> Optimizer<Sgd> {
    slow(Sgd)
}

fn slow<R: Rule>(rule: R) -> Optimizer<R> {
    Optimizer::new(rule, 0.1)
}

fn of(part: &str) -> serde_json::Map<String, Value> {
    recorded("paddle_optimizer_programs.json")[part].as_object().unwrap().clone()
}

/// A network, and variables with the names of the gradients of its parameters.
fn net() -> (Network, Pairs) {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(6)], DType::Float32);
    let y = layers::fc(&mut net, &x, &Fc::new(4)).unwrap();
    layers::mean(&mut net, &y).unwrap();
    let pair = |name: &str| {
        let (param, grad) = (Variable::named(name), Variable::named(&format!("{name}@GRAD")));
        net.append(Operator::new("scale").input("X", [&param]).output("Out", [&grad])).unwrap();
        (param, grad)
    };
    let pairs = ["fc_0.w_0", "fc_0.b_0"].map(pair).to_vec();
    (net, pairs)
}

/// A table, and its gradient of selected rows.
fn table() -> (Network, Pairs) {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None], DType::Int64);
    let y = layers::embedding_with(&mut net, &x, [6, 4], None, true).unwrap();
    let loss = layers::mean(&mut net, &y).unwrap();
    let pairs = net.append_backward(&loss, &[]).unwrap();
    (net, pairs)
}

#[test]
fn optimizers_append_what_paddlepaddle_appends() {
    check(&of("learns"), LEARNS, net);
    check(&of("learns_rows"), LEARNS_ROWS, table);
    let old = recorded("paddle_old_optimizer_programs.json");
    check(old["learns"].as_object().unwrap(), LEARNS_OLD, net);
}

/// Fails if the operators that are appended for gradients differ from the recorded ones.
fn check(
    recorded: &serde_json::Map<String, Value>,
    cases: &[Learns],
    net: fn() -> (Network, Pairs),
) {
    assert_eq!(recorded.len(), cases.len());
    let mut found = Vec::new();
    for (name, make) in cases {
        let (mut net, pairs) = net();
        let ops = net.main.blocks[0].ops.len();
        let vars: HashSet<String> =
            net.main.blocks[0].vars.iter().map(|var| var.name.clone()).collect();
        make(&mut net, &pairs).map_err(|error| format!("{name}: {error}")).unwrap();
        net.main.blocks[0].ops.drain(..ops);
        net.main.blocks[0].vars.retain(|var| !vars.contains(&var.name));
        let differences = compare(&net, &[], &recorded[*name]);
        found.extend(differences.into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn schedules_append_what_paddlepaddle_appends() {
    let recorded = of("schedules");
    assert_eq!(recorded.len(), SCHEDULES.len());
    let mut found = Vec::new();
    for (name, make) in SCHEDULES {
        let mut net = Network::new();
        let rate = make(&mut net).map_err(|error| format!("{name}: {error}")).unwrap();
        let differences = compare(&net, &[rate], &recorded[*name]);
        found.extend(differences.into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the learning rate of the next step.
fn next(net: &Network, rate: &Variable, scope: &mut Scope) -> f32 {
    let fetched = Executor::default()
        .run(&net.main, scope, &[], &[rate.name()], &Dirs::default())
        .map_err(|error| error.to_string())
        .unwrap();
    let bytes = fetched[0].data.bytes().unwrap();
    f32::from_le_bytes(bytes[..].try_into().unwrap())
}

fn begun(net: &Network) -> Scope {
    let mut scope = Scope::default();
    Executor::default().run(&net.startup, &mut scope, &[], &[], &Dirs::default()).unwrap();
    scope
}

#[test]
fn schedules_give_the_learning_rates_that_paddlepaddle_gave() {
    let recorded = of("schedules");
    for (name, make) in SCHEDULES {
        let mut net = Network::new();
        let rate = make(&mut net).unwrap();
        let mut scope = begun(&net);
        for (step, wanted) in recorded[*name]["rates"].as_array().unwrap().iter().enumerate() {
            let (wanted, found) = (wanted.as_f64().unwrap(), next(&net, &rate, &mut scope));
            let near = (f64::from(found) - wanted).abs() <= 1e-6 * wanted.abs() + 1e-9;
            assert!(near, "{name}, step {step}: expected {wanted}, found {found}");
        }
    }
}

/// The persistable variables are the whole state of a schedule: another scope with the same values gives the same bits.
#[test]
fn schedules_go_on_where_they_were_kept() {
    for (name, make) in SCHEDULES {
        let mut net = Network::new();
        let rate = make(&mut net).unwrap();
        let mut scope = begun(&net);
        for _ in 0..5 {
            next(&net, &rate, &mut scope);
        }
        let mut other = Scope::default();
        for var in net.main.blocks[0].vars.iter().filter(|var| var.persistable) {
            other.set(&var.name, scope.tensor(&var.name).unwrap().clone());
        }
        for _ in 0..5 {
            let [one, two] = [&mut scope, &mut other].map(|scope| next(&net, &rate, scope));
            assert_eq!(one.to_bits(), two.to_bits(), "{name}");
        }
    }
}

#[test]
fn schedules_that_contradict_themselves_are_refused() {
    let mut net = Network::new();
    assert!(layers::piecewise_decay(&mut net, &[3], &[0.1]).is_err());
    assert!(layers::piecewise_decay(&mut net, &[], &[]).is_err());
}

#[test]
fn a_schedule_is_the_learning_rate_of_an_optimizer() {
    let (mut net, pairs) = net();
    let rate = layers::exponential_decay(&mut net, 0.1, 3, 0.9, false).unwrap();
    Optimizer::new(Sgd, &rate).apply(&mut net, &pairs).unwrap();
    let ops = &net.main.blocks[0].ops;
    assert_eq!(ops[0].kind, "increment");
    let learns: Vec<_> = ops.iter().filter(|op| op.kind == "sgd").collect();
    assert_eq!(learns.len(), 2);
    assert!(learns.iter().all(|op| op.input("LearningRate") == [rate.name()]));
}

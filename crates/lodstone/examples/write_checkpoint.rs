//! Trains a few steps, and writes everything that another framework needs to continue in the same way.
//!
//!     cargo run --locked --package lodstone --example write_checkpoint -- OUT
//!     cargo run --locked --package lodstone --example write_checkpoint -- OUT check
//!
//! `OUT` gets the directories `main` with the training program, `checkpoint` with the files that it saved every three
//! steps, and `serials` with the same state as a serial; `feed.npz`; `state.npz` with the variables of step 3 and
//! `expected.npz` with those of step 6. Then, `check` loads the files that the other framework saved in `checkpoint`,
//! and compares them with `changed.npz`.

#![expect(clippy::print_stdout, reason = "tells what it found")]

use std::path::Path;

use lodstone::checkpoint::{Manager, ManagerOptions};
use lodstone::paddle::checkpoint::{
    CheckpointOptions, Contents, get_checkpoint_loader, make_checkpoint,
};
use lodstone::paddle::executor::{Dirs, Executor, Prepared, RANDOM_STATE, Scope};
use lodstone::paddle::program::layers::{self, Fc};
use lodstone::paddle::program::optimizer::{Adam, Optimizer};
use lodstone::paddle::program::{Form, Network, save_program};
use lodstone::{ConvertOptions, DType, Model, Parameter, Tensor};

type Failure = Box<dyn std::error::Error>;

const STEPS: u64 = 3;

fn main() -> Result<(), Failure> {
    let out = std::env::args().nth(1).ok_or("usage: write_checkpoint OUT")?;
    let out = Path::new(&out);
    if std::env::args().nth(2).is_some_and(|what| what == "check") {
        return check(out);
    }
    let (mut net, checkpoint) = (network()?, out.join("checkpoint"));
    let options = CheckpointOptions::default().with_every(STEPS);
    make_checkpoint(&checkpoint, None, &mut net.startup, &mut net.main, &options)?;
    save_program(&net.main, out.join("main"), Form::Binary)?;

    let mut scope = Scope::default();
    Executor::default().run(&net.startup, &mut scope, &[], &[], &Dirs::default())?;
    let (run, feed) = (Prepared::new(&net.main, &[])?, feed()?);
    let given: Vec<_> = feed.iter().map(|one| (one.name.as_str(), one.tensor.clone())).collect();
    let mut train = |dirs: &Dirs| {
        (0..STEPS).try_for_each(|_| run.run(&mut scope, &given, dirs).map(drop))?;
        Ok::<_, Failure>(scope.clone())
    };
    let begun = train(&Dirs::one(&checkpoint))?;
    let gone_on = train(&Dirs::one(out.join("ours")))?;
    let snapshot = Contents::of(&net.main, &net.startup, None)?.snapshot(&begun)?;
    Manager::open(out.join("serials"), ManagerOptions::default())?.save(STEPS, &snapshot)?;

    let files =
        [("feed.npz", feed), ("state.npz", values(&begun)), ("expected.npz", values(&gone_on))];
    for (name, parameters) in files {
        let model = Model { parameters, ..Model::default() };
        lodstone::convert(model, out.join(name), &ConvertOptions::default())?;
    }
    Ok(())
}

/// Loads the variables that operators of the main program saved, and compares them with the expected ones.
fn check(out: &Path) -> Result<(), Failure> {
    let (mut scope, checkpoint) = (Scope::default(), out.join("checkpoint"));
    let loader = get_checkpoint_loader(&checkpoint)?;
    Executor::default().run(&loader, &mut scope, &[], &[], &Dirs::one(&checkpoint))?;
    let wanted = lodstone::open(out.join("changed.npz"))?;
    for Parameter { name, tensor } in &wanted.parameters {
        let found = scope.tensor(name).ok_or_else(|| format!("`{name}` was not loaded"))?;
        if found.shape != tensor.shape || found.data.bytes()? != tensor.data.bytes()? {
            return Err(format!("`{name}` is not what was saved").into());
        }
    }
    println!("{} variables are what was saved", wanted.parameters.len());
    Ok(())
}

/// A network of two layers, trained by Adam with a decaying learning rate. It draws random numbers without dropping
/// anything, because those of other frameworks differ.
fn network() -> Result<Network, Failure> {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(4)], DType::Float32);
    let y = layers::data(&mut net, "y", &[None, Some(2)], DType::Float32);
    let hidden = layers::fc(&mut net, &x, &Fc::new(8).act("tanh"))?;
    let hidden = layers::dropout(&mut net, &hidden, 0.0, false)?;
    let out = layers::fc(&mut net, &hidden, &Fc::new(2))?;
    let loss = layers::square_error_cost(&mut net, &out, &y)?;
    let loss = layers::mean(&mut net, &loss)?;
    let rate = layers::exponential_decay(&mut net, 0.1, 2, 0.5, false)?;
    Optimizer::new(Adam::default(), &rate).minimize(&mut net, &loss)?;
    Ok(net)
}

fn feed() -> Result<Vec<Parameter>, Failure> {
    let tensor = |name: &str, width: u64, factor: i16| {
        let numbers = (0..16 * i16::try_from(width).unwrap_or(0)).map(|number| {
            let number = number.wrapping_mul(factor) % 101;
            f32::from(number - 50) / 50.0
        });
        let tensor = Tensor::from_vec(vec![16, width], numbers.collect())?;
        Ok::<_, Failure>(Parameter { name: name.to_owned(), tensor })
    };
    Ok(vec![tensor("x", 4, 37)?, tensor("y", 2, 53)?])
}

/// Returns all tensors of a scope except for the state of our random numbers, which other frameworks lack.
fn values(scope: &Scope) -> Vec<Parameter> {
    let names = scope.names().filter(|name| *name != RANDOM_STATE);
    let values = names.filter_map(|name| Some((name, scope.tensor(name)?)));
    values
        .map(|(name, tensor)| Parameter { name: name.to_owned(), tensor: tensor.clone() })
        .collect()
}

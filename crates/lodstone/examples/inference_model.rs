//! Saves a model for inference during training, and runs it.
//!
//!     cargo run --locked --release --package lodstone --example inference_model -- OUT
//!
//! `OUT/program` is the program without training operators; `OUT/checkpoint` has its weights, which the loader in that
//! directory restores. The model runs in a separate process.

#![expect(clippy::print_stdout, reason = "tells what it does")]

mod digits;

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use digits::{Failure, network, recognized, train};
use lodstone::model::Var;
use lodstone::paddle::checkpoint::{CheckpointOptions, get_checkpoint_loader, make_checkpoint};
use lodstone::paddle::executor::{Dirs, Executor, Scope};
use lodstone::paddle::program::optimizer::{Adam, Optimizer};
use lodstone::paddle::program::{Form, inference, load_program, save_program};
use lodstone::{Model, Parameter};

const STEPS: u64 = 400;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().ok_or("usage: inference_model OUT")?;
    if arguments.next().is_some_and(|what| what == "use") {
        return infer(Path::new(&out));
    }
    learn(Path::new(&out))?;
    let used = Command::new(std::env::current_exe()?).args([&out, "use"]).status()?;
    if used.success() { Ok(()) } else { Err("it could not be used".into()) }
}

fn learn(out: &Path) -> Result<(), Failure> {
    let (mut net, shares, loss) = network()?;
    let inferring = inference(&net.main, &["image"], &[shares.name()])?;
    Optimizer::new(Adam::default(), 0.004).minimize(&mut net, &loss)?;

    // The inference program needs only its own variables; saved after the optimizer, they are those of the last step.
    let own: HashSet<&str> = inferring.vars().map(|var| var.name.as_str()).collect();
    let is_own = |var: &Var| own.contains(var.name.as_str());
    let (checkpoint, options) =
        (out.join("checkpoint"), CheckpointOptions::default().with_every(50));
    make_checkpoint(&checkpoint, Some(&is_own), &mut net.startup, &mut net.main, &options)?;
    save_program(&inferring, out.join("program"), Form::Binary)?;

    let (mut scope, dirs) = (Scope::default(), Dirs::one(&checkpoint));
    Executor::default().run(&net.startup, &mut scope, &[], &[], &dirs)?;
    let mean = train(&net.main, loss.name(), &mut scope, (0, STEPS), &dirs)?;
    println!("{STEPS} steps, loss {mean:.4}");
    Ok(())
}

fn infer(out: &Path) -> Result<(), Failure> {
    let (checkpoint, mut scope) = (out.join("checkpoint"), Scope::default());
    let loader = get_checkpoint_loader(&checkpoint)?;
    Executor::default().run(&loader, &mut scope, &[], &[], &Dirs::one(&checkpoint))?;
    let tensors = scope.names().filter_map(|name| Some((name, scope.tensor(name)?)));
    let parameters = tensors
        .map(|(name, tensor)| Parameter { name: name.to_owned(), tensor: tensor.clone() })
        .collect();
    let programs = load_program(out.join("program"))?.into();
    let (right, all) = recognized(&Model { programs, parameters, ..Model::default() })?;
    println!("{right} of {all} held-out images are recognized");
    if right * 100 >= all * 95 { Ok(()) } else { Err("fewer than 95 % are right".into()) }
}

//! Trains, and saves checkpoints during training with operators of the program, at a fixed interval.
//!
//!     cargo run --locked --release --package lodstone --example save_checkpoint -- OUT
//!
//! `OUT` gets the directories `main` and `startup` with the programs, and `checkpoint` with the loader and its
//! files. `load_checkpoint` continues from there; so does PaddlePaddle 2.6.2 (`interop/paddle_checkpoint.py`).

#![expect(clippy::print_stdout, reason = "tells what it does")]

mod digits;

use std::path::Path;

use digits::{Failure, network, train};
use lodstone::paddle::checkpoint::{CheckpointOptions, make_checkpoint};
use lodstone::paddle::executor::{Dirs, Executor, Scope};
use lodstone::paddle::program::optimizer::{Adam, Optimizer};
use lodstone::paddle::program::{Form, layers, save_program};

const STEPS: u64 = 100;

fn main() -> Result<(), Failure> {
    let out = std::env::args().nth(1).ok_or("usage: save_checkpoint OUT")?;
    let (out, checkpoint) = (Path::new(&out), Path::new(&out).join("checkpoint"));
    let (mut net, _, loss) = network()?;
    let rate = layers::exponential_decay(&mut net, 0.004, 100, 0.9, false)?;
    Optimizer::new(Adam::default(), &rate).minimize(&mut net, &loss)?;
    // After the optimizer, so that the state after each step is saved completely.
    let options = CheckpointOptions::default().with_every(20);
    make_checkpoint(&checkpoint, None, &mut net.startup, &mut net.main, &options)?;
    save_program(&net.main, out.join("main"), Form::Binary)?;
    save_program(&net.startup, out.join("startup"), Form::Binary)?;

    let mut scope = Scope::default();
    Executor::default().run(&net.startup, &mut scope, &[], &[], &Dirs::default())?;
    // Steps 100 to 110 are lost: the checkpoint is of step 100.
    let dirs = Dirs::one(&checkpoint);
    let mean = train(&net.main, loss.name(), &mut scope, (0, STEPS + 10), &dirs)?;
    println!("{STEPS} steps and 10 more, loss {mean:.4}: {}", loss.name());
    Ok(())
}

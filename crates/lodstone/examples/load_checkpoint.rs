//! Loads a checkpoint and continues training, without the code that built the network.
//!
//!     cargo run --locked --release --package lodstone --example load_checkpoint -- OUT
//!
//! `OUT` is the output of `save_checkpoint`, or of PaddlePaddle, which may have continued from there.

#![expect(clippy::print_stdout, reason = "tells what it does")]

mod digits;

use std::path::Path;

use digits::{Failure, train};
use lodstone::paddle::checkpoint::get_checkpoint_loader;
use lodstone::paddle::executor::{Dirs, Executor, Scope};
use lodstone::paddle::program::load_program;

/// The variable that counts runs.
const COUNTER: &str = "checkpoint_counter_0";

fn main() -> Result<(), Failure> {
    let out = std::env::args().nth(1).ok_or("usage: load_checkpoint OUT")?;
    let (out, checkpoint) = (Path::new(&out), Path::new(&out).join("checkpoint"));
    let dirs = Dirs::one(&checkpoint);

    let (mut scope, loader) = (Scope::default(), get_checkpoint_loader(&checkpoint)?);
    Executor::default().run(&loader, &mut scope, &[], &[], &dirs)?;
    let counter = scope.tensor(COUNTER).ok_or("nothing counts the runs")?;
    let done = counter.to_vec::<i64>()?.first().copied().unwrap_or(0).cast_unsigned();
    println!("{} variables of step {done}", scope.names().count());

    let main = load_program(out.join("main"))?;
    let losses = main.ops().find(|op| op.kind == "reduce_mean").map(|op| op.output("Out"));
    let loss = losses.and_then(|names| names.first()).ok_or("the program has no loss")?;
    let mean = train(&main, loss, &mut scope, (done, done + 100), &dirs)?;
    println!("100 steps more, loss {mean:.4}");
    if mean < 0.5 { Ok(()) } else { Err("it has not gone on from what it had learned".into()) }
}

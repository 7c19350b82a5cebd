//! Trains a small convolutional network on handwritten digits, and saves it for inference.
//!
//!     cargo run --locked --release --package lodstone --example train_digits -- OUT
//!
//! A separate process checks the model; it opens `OUT` like any other model.

#![expect(clippy::print_stdout, reason = "tells what it does")]

mod digits;

use std::io::Write;
use std::path::Path;
use std::process::Command;

use digits::{BATCH, Failure, network, recognized, train};
use lodstone::paddle::executor::{Dirs, Executor, Scope};
use lodstone::paddle::program::optimizer::{Adam, Optimizer};
use lodstone::paddle::program::{
    Form, Placement, SaveOptions, inference, persistables, save, save_program,
};

const EPOCHS: u64 = 12;
const RATE: f64 = 0.004;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().ok_or("usage: train_digits OUT")?;
    if arguments.next().is_some_and(|what| what == "check") {
        return check(Path::new(&out));
    }
    learn(Path::new(&out))?;
    let checked = Command::new(std::env::current_exe()?).args([&out, "check"]).status()?;
    if checked.success() { Ok(()) } else { Err("the check failed".into()) }
}

fn learn(out: &Path) -> Result<(), Failure> {
    let (mut net, shares, loss) = network()?;
    // The inference program has no training operators.
    let inferring = inference(&net.main, &["image"], &[shares.name()])?;
    Optimizer::new(Adam::default(), RATE).minimize(&mut net, &loss)?;

    let batches = digits::tensor(&digits::digits("train.npz")?, "image")?.shape[0] / BATCH;
    let mut scope = Scope::default();
    Executor::default().run(&net.startup, &mut scope, &[], &[], &Dirs::default())?;
    for epoch in 0..EPOCHS {
        let steps = (epoch * batches, (epoch + 1) * batches);
        let mean = train(&net.main, loss.name(), &mut scope, steps, &Dirs::default())?;
        print!("\repoch {:2} of {EPOCHS}, loss {mean:.4}", epoch + 1);
        std::io::stdout().flush()?;
    }
    println!();

    let placement = Placement::Combined("__params__".to_owned());
    let options = SaveOptions::default().with_placement(placement);
    let mut saver = inferring.clone();
    saver.blocks.iter_mut().for_each(|block| block.ops.clear());
    save(&mut saver, &persistables(&inferring, |_| true), "", &options)?;
    Executor::default().run(&saver, &mut scope, &[], &[], &Dirs::one(out))?;
    save_program(&inferring, out, Form::Binary)?;
    Ok(())
}

/// Returns the share of held-out images that a saved model recognizes.
fn check(out: &Path) -> Result<(), Failure> {
    let (right, all) = recognized(&lodstone::open(out)?)?;
    println!("{right} of {all} held-out images are recognized");
    if right * 100 >= all * 97 { Ok(()) } else { Err("fewer than 97 % are right".into()) }
}

//! Builds a network with a loop and branches, runs it, and writes everything that another framework needs to do the
//! same.
//!
//!     cargo run --locked --package lodstone --example write_programs -- OUT
//!     cargo run --locked --package lodstone --example write_programs -- OUT check
//!
//! `OUT` gets the directories `main`, `startup`, `loader` and `saver`, each with a program, `parameters` with the
//! results of the startup program and the saver, `feed.npz` and `expected.npz`. Then, `check` runs the loader on the
//! files that the other framework saved, and compares the variables with `changed.npz`.

#![expect(clippy::disallowed_methods, reason = "makes its directory")]
#![expect(clippy::print_stdout, reason = "tells what it found")]

use std::path::Path;

use lodstone::paddle::executor::{Dirs, Executor, Scope};
use lodstone::paddle::program::layers::{self, Conv2d, Fc, Pooling};
use lodstone::paddle::program::{
    Form, LoadOptions, Network, SaveOptions, Variable, load, load_program, persistables, save,
    save_program,
};
use lodstone::{ConvertOptions, DType, Model, Parameter, Tensor};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let out = std::env::args().nth(1).ok_or("usage: write_programs OUT")?;
    let out = Path::new(&out);
    if std::env::args().nth(2).is_some_and(|what| what == "check") {
        return check(out);
    }
    std::fs::create_dir_all(out)?;
    let (net, fetch) = network()?;
    let vars = persistables(&net.main, |_| true);

    let mut empty = net.main.clone();
    empty.blocks.truncate(1);
    empty.blocks.iter_mut().for_each(|block| block.ops.clear());
    let mut saver = empty;
    save(&mut saver, &vars, "parameters", &SaveOptions::default())?;
    let mut loader = Network::new().main;
    load(&mut loader, &vars, &saver, "parameters", &LoadOptions::default())?;
    let programs =
        [("main", &net.main), ("startup", &net.startup), ("loader", &loader), ("saver", &saver)];
    for (name, program) in programs {
        save_program(program, out.join(name), Form::Binary)?;
    }

    let (mut executor, mut scope) = (Executor::default(), Scope::default());
    executor.run(&net.startup, &mut scope, &[], &[], &Dirs::default())?;
    executor.run(&saver, &mut scope, &[], &[], &Dirs::one(out))?;
    let feed = feed()?;
    let names: Vec<&str> = fetch.iter().map(Variable::name).collect();
    let given: Vec<_> = feed.iter().map(|one| (one.name.as_str(), one.tensor.clone())).collect();
    let results = executor.run(&net.main, &mut scope, &given, &names, &Dirs::default())?;
    let named = names.iter().map(|name| (*name).to_owned()).zip(results);
    let results = named.map(|(name, tensor)| Parameter { name, tensor }).collect();
    for (name, parameters) in [("feed.npz", feed), ("expected.npz", results)] {
        let model = Model { parameters, ..Model::default() };
        lodstone::convert(model, out.join(name), &ConvertOptions::default())?;
    }
    Ok(())
}

/// Loads the variables that operators of the loader restore, and compares them with the expected ones.
fn check(out: &Path) -> Result<(), Failure> {
    let (mut scope, loader) = (Scope::default(), load_program(out.join("loader"))?);
    Executor::default().run(&loader, &mut scope, &[], &[], &Dirs::one(out))?;
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

/// A network for images of digits: its programs, and the values to fetch.
fn network() -> Result<(Network, Vec<Variable>), Failure> {
    let mut net = Network::new();
    let image = layers::data(&mut net, "image", &[None, Some(1), Some(8), Some(8)], DType::Float32);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    let conv = Conv2d { padding: [1, 1], act: Some("relu"), ..Conv2d::new(4, 3) };
    let x = layers::conv2d(&mut net, &image, &conv)?;
    let x = layers::batch_norm(&mut net, &x, true)?;
    let x = layers::pool2d(&mut net, &x, Pooling::Max, [2, 2], [2, 2], [0, 0])?;
    let x = layers::dropout(&mut net, &x, 0.25, true)?;
    let x = layers::fc(&mut net, &x, &Fc::new(16).act("tanh"))?;
    let x = layers::layer_norm(&mut net, &x, 1)?;
    let logits = layers::fc(&mut net, &x, &Fc::new(10))?;
    let shares = layers::softmax(&mut net, &logits)?;
    let loss = layers::softmax_with_cross_entropy(&mut net, &logits, &label)?;
    let loss = layers::mean(&mut net, &loss)?;
    let right = layers::accuracy(&mut net, &shares, &label, 1)?;
    let mut fetch = vec![shares.clone(), loss, right];
    fetch.extend(refined(&mut net, &shares)?);
    Ok((net, fetch))
}

/// Iterates over the probabilities: a loop, an array of the results of its iterations, and branches in it.
fn refined(net: &mut Network, shares: &Variable) -> Result<[Variable; 3], Failure> {
    let rounds = net.state("rounds", DType::Int64, &[1], 0.0)?;
    let count = layers::fill_constant(net, &[1], DType::Int64, 0.0)?;
    let limit = layers::fill_constant(net, &[1], DType::Int64, 4.0)?;
    let level = layers::fill_constant(net, &[1], DType::Float32, 0.12)?;
    let array = layers::create_array(net, DType::Float32)?;
    layers::array_write(net, shares, &count, &array)?;
    let below = layers::less_than(net, &count, &limit)?;
    net.while_loop(&below, |net| {
        let last = layers::array_read(net, &array, &count)?;
        let mean = layers::mean(net, &last)?;
        let is_low = layers::less_than(net, &mean, &level)?;
        let next = layers::cond(
            net,
            &is_low,
            |net| Ok(vec![layers::scale(net, &last, 1.5, 0.01)?]),
            |net| Ok(vec![layers::fc(net, &last, &Fc::new(10).act("sigmoid"))?]),
        )?;
        layers::increment(net, &count, 1.0)?;
        for next in &next {
            layers::array_write(net, next, &count, &array)?;
        }
        net.conditional_block(&is_low, |net| layers::increment(net, &rounds, 1.0))?;
        let again = layers::less_than(net, &count, &limit)?;
        layers::assign_to(net, &again, &below)
    })?;
    Ok([layers::array_read(net, &array, &count)?, layers::array_length(net, &array)?, rounds])
}

fn feed() -> Result<Vec<Parameter>, Failure> {
    let image = (0..4_i16 * 64).map(|number| f32::from(number * 37 % 101 - 50) / 50.0);
    let image = Tensor::from_vec(vec![4, 1, 8, 8], image.collect())?;
    let label = Tensor::from_vec(vec![4, 1], vec![3_i64, 7, 0, 9])?;
    let named = |(name, tensor): (&str, Tensor)| Parameter { name: name.to_owned(), tensor };
    Ok([("image", image), ("label", label)].map(named).into())
}

//! Programs that Rust and Python build alike: the recorded bytes are compared here and in the tests of the Python package
//! (`crates/python/tests/golden/built.py`). `LODSTONE_REWRITE_EXPECTED=1` rewrites them.

#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]

use std::error::Error;
use std::path::Path;

use lodstone::DType;
use lodstone::paddle::checkpoint::{CheckpointOptions, make_checkpoint};
use lodstone::paddle::program::layers::{self, Conv2d, Fc, Pooling};
use lodstone::paddle::program::optimizer::{Adam, Clip, Decay, Optimizer};
use lodstone::paddle::program::{Form, Initializer, Network, ParamAttr, Update, encode};

fn built(directory: &Path) -> Result<Network, Box<dyn Error>> {
    let mut net = Network::new();
    let image = [None, Some(1), Some(8), Some(8)];
    let mut x = layers::data(&mut net, "image", &image, DType::Float32);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    for filters in [16, 32] {
        let conv = Conv2d { padding: [1, 1], bias: None, ..Conv2d::new(filters, 3) };
        x = layers::conv2d(&mut net, &x, &conv)?;
        x = layers::batch_norm(&mut net, &x, false)?;
        x = layers::relu(&mut net, &x)?;
        x = layers::pool2d(&mut net, &x, Pooling::Max, [2, 2], [2, 2], [0, 0])?;
    }
    let x = layers::dropout(&mut net, &x, 0.2, false)?;
    let x = layers::reshape(&mut net, &x, &[0, -1])?;
    let weight = ParamAttr {
        initializer: Some(Initializer::Normal { mean: 0.0, deviation: 0.5, seed: 3 }),
        update: Update { decay: Some(Decay::L2(0.25)), ..Update::default() },
        ..ParamAttr::named("hidden")
    };
    let hidden = Fc { weight, act: Some("tanh"), ..Fc::new(24) };
    let x = layers::fc(&mut net, &x, &hidden)?;
    let x = layers::layer_norm(&mut net, &x, 1)?;
    let logits = layers::fc(&mut net, &x, &Fc::new(10))?;
    let shares = layers::softmax(&mut net, &logits)?;
    layers::accuracy(&mut net, &shares, &label, 1)?;
    let losses = layers::cross_entropy(&mut net, &shares, &label)?;
    let loss = layers::mean(&mut net, &losses)?;
    let count = layers::fill_constant(&mut net, &[1], DType::Int64, 0.0)?;
    let limit = layers::fill_constant(&mut net, &[1], DType::Int64, 3.0)?;
    let goes_on = layers::less_than(&mut net, &count, &limit)?;
    net.while_loop(&goes_on, |net| {
        layers::increment(net, &count, 1.0)?;
        let again = layers::less_than(net, &count, &limit)?;
        layers::assign_to(net, &again, &goes_on)
    })?;
    let loss = layers::cond(
        &mut net,
        &goes_on,
        |net| Ok(vec![layers::scale(net, &loss, 2.0, 0.0)?]),
        |net| Ok(vec![layers::scale(net, &loss, 3.0, 0.0)?]),
    )?;
    let rate = layers::exponential_decay(&mut net, 0.004, 100, 0.9, false)?;
    let adam = Optimizer::new(Adam::default(), &rate);
    let adam = adam.decay(Decay::L2(0.5)).clip(Clip::GlobalNorm(1.0));
    adam.minimize(&mut net, loss.first().ok_or("no loss")?)?;
    let options = CheckpointOptions::default().with_every(20);
    make_checkpoint(directory, None, &mut net.startup, &mut net.main, &options)?;
    Ok(net)
}

#[test]
fn programs_have_the_recorded_bytes() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let net = built(directory.path())?;
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/tests/golden");
    for (name, program) in [("built_main", &net.main), ("built_startup", &net.startup)] {
        let path = golden.join(name).with_extension("pb");
        let bytes = encode(program, Form::Binary)?;
        if std::env::var_os("LODSTONE_REWRITE_EXPECTED").is_some() {
            std::fs::write(&path, &bytes)?;
        }
        assert!(std::fs::read(&path)? == bytes, "{name} differs from {}", path.display());
    }
    Ok(())
}

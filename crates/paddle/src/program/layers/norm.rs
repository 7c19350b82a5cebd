//! Normalization and dropout.

use super::sizes;
use crate::program::error::{Result, variable};
use crate::program::initializers::Initializer;
use crate::program::network::{Network, ParamAttr, Variable};
use crate::program::operator::Operator;

/// Normalizes each channel: by the statistics of the batch in training, by running statistics if `is_test`.
///
/// # Errors
/// If the number of channels is unknown.
pub fn batch_norm(net: &mut Network, x: &Variable, is_test: bool) -> Result<Variable> {
    let name = net.name("batch_norm");
    let dtype = net.dtype(x)?;
    let Some(channels) = net.shape(x)?.get(1).copied().flatten() else {
        return variable(x.name(), "the number of channels, the second dim, must be known");
    };
    let (weight, bias) = (format!("{name}.w"), format!("{name}.b"));
    let usual = ParamAttr::default();
    let one = Initializer::Constant(1.0);
    let scale = net.parameter(&usual, &weight, dtype, &[channels], one)?;
    let offset = net.parameter(&usual, &bias, dtype, &[channels], Initializer::Constant(0.0))?;
    let mean = net.state(&weight, dtype, &[channels], 0.0)?;
    let variance = net.state(&weight, dtype, &[channels], 1.0)?;
    let [saved_mean, saved_variance] =
        [0, 1].map(|_| Variable::named(&net.name(&format!("{name}.tmp"))));
    let norm = Operator::new("batch_norm")
        .input("X", [x])
        .input("Scale", [&scale])
        .input("Bias", [&offset])
        .input("Mean", [&mean])
        .input("Variance", [&variance])
        .output("MeanOut", [&mean])
        .output("VarianceOut", [&variance])
        .output("SavedMean", [&saved_mean])
        .output("SavedVariance", [&saved_variance])
        .attribute("is_test", is_test);
    // Memory that a GPU reserves for the gradient; unused on CPUs.
    let reserve = Variable::named(&net.name(&format!("{name}.tmp")));
    let norm = if is_test { norm } else { norm.output("ReserveSpace", [&reserve]) };
    let y = net.call(&name, "Y", norm)?;
    for kept in [saved_mean, saved_variance, reserve] {
        net.stop(kept.name(), true);
    }
    Ok(y)
}

/// Normalizes each example over its dims from `begin`.
///
/// # Errors
/// If those dims are unknown.
pub fn layer_norm(net: &mut Network, x: &Variable, begin: usize) -> Result<Variable> {
    let name = net.name("layer_norm");
    let dtype = net.dtype(x)?;
    let size: u64 = sizes(net, x, begin)?.iter().product();
    let usual = ParamAttr::default();
    let one = Initializer::Constant(1.0);
    let scale = net.parameter(&usual, &format!("{name}.w"), dtype, &[size], one)?;
    let zero = Initializer::Constant(0.0);
    let bias = net.parameter(&usual, &format!("{name}.b"), dtype, &[size], zero)?;
    let [mean, variance] = [0, 1].map(|_| Variable::named(&net.name(&format!("{name}.tmp"))));
    let norm = Operator::new("layer_norm")
        .input("X", [x])
        .input("Scale", [&scale])
        .input("Bias", [&bias])
        .output("Mean", [&mean])
        .output("Variance", [&variance])
        .int("begin_norm_axis", begin);
    let y = net.call(&name, "Y", norm)?;
    for kept in [mean, variance] {
        net.stop(kept.name(), true);
    }
    Ok(y)
}

/// Drops elements with a probability in training.
///
/// # Errors
/// If the variable does not exist.
pub fn dropout(
    net: &mut Network,
    x: &Variable,
    probability: f32,
    is_test: bool,
) -> Result<Variable> {
    let name = net.name("dropout");
    let mask = Variable::named(&net.name(&format!("{name}.tmp")));
    let drop = Operator::new("dropout")
        .input("X", [x])
        .output("Mask", [&mask])
        .attribute("dropout_prob", probability)
        .attribute("is_test", is_test)
        .attribute("dropout_implementation", "upscale_in_train");
    net.call(&name, "Out", drop)
}

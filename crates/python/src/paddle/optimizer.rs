//! Optimizers by name.

use lodstone::paddle::program::Variable;
use lodstone::paddle::program::optimizer::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, Clip, DecayedAdagrad, Dpsgd, Ftrl, Lamb, LarsMomentum,
    Momentum, Optimizer, RmsProp, Rule, Sgd,
};
use pyo3::prelude::*;

use super::build::{Parents, decay, rate};
use crate::arguments::{Arguments, unknown};

/// Appends the updates of parameters by their gradients.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the arguments of an optimizer in Python")]
pub(crate) fn apply_optimizer(
    py: Python<'_>,
    network: Parents<'_>,
    kind: &str,
    facts: Arguments<'_>,
    learning_rate: &Bound<'_, PyAny>,
    clip: Option<(String, f32, f32)>,
    regularizer: Option<(String, f32)>,
    pairs: Vec<(String, String)>,
) -> PyResult<()> {
    let mut optimizer = Optimizer::new(rule(kind, &facts)?, rate(learning_rate)?);
    if let Some(clip) = clip {
        optimizer = optimizer.clip(self::clip(&clip)?);
    }
    if let Some(decay) = decay(regularizer)? {
        optimizer = optimizer.decay(decay);
    }
    let named = |name: &String| Variable::named(name);
    let pairs: Vec<_> = pairs.iter().map(|(a, b)| (named(a), named(b))).collect();
    network.with(py, |net| optimizer.apply(net, &pairs))
}

fn clip((kind, first, second): &(String, f32, f32)) -> PyResult<Clip> {
    Ok(match kind.as_str() {
        "value" => Clip::Value(*first, *second),
        "norm" => Clip::Norm(*first),
        "global_norm" => Clip::GlobalNorm(*first),
        other => return Err(unknown("grad_clip", other)),
    })
}

/// Returns an update rule from its name and arguments.
fn rule(kind: &str, facts: &Arguments<'_>) -> PyResult<Box<dyn Rule>> {
    let number = |name: &str| facts.get::<f32>(name);
    let flag = |name: &str| facts.get::<bool>(name);
    Ok(match kind {
        "sgd" => Box::new(Sgd),
        "momentum" => Box::new(Momentum {
            momentum: number("momentum")?,
            use_nesterov: flag("use_nesterov")?,
        }),
        "adagrad" => Box::new(Adagrad {
            epsilon: number("epsilon")?,
            initial_accumulator_value: number("initial_accumulator_value")?,
        }),
        "adam" => Box::new(Adam {
            beta1: number("beta1")?,
            beta2: number("beta2")?,
            epsilon: number("epsilon")?,
            lazy_mode: flag("lazy_mode")?,
        }),
        "adamw" => Box::new(AdamW {
            beta1: number("beta1")?,
            beta2: number("beta2")?,
            epsilon: number("epsilon")?,
            weight_decay: number("weight_decay")?,
            lazy_mode: flag("lazy_mode")?,
        }),
        "rmsprop" => Box::new(RmsProp {
            rho: number("rho")?,
            epsilon: number("epsilon")?,
            momentum: number("momentum")?,
            centered: flag("centered")?,
        }),
        "lamb" => Box::new(Lamb {
            lamb_weight_decay: number("lamb_weight_decay")?,
            beta1: number("beta1")?,
            beta2: number("beta2")?,
            epsilon: number("epsilon")?,
            always_adapt: flag("always_adapt")?,
        }),
        "adadelta" => Box::new(Adadelta { epsilon: number("epsilon")?, rho: number("rho")? }),
        "adamax" => Box::new(Adamax {
            beta1: number("beta1")?,
            beta2: number("beta2")?,
            epsilon: number("epsilon")?,
        }),
        "decayed_adagrad" => {
            Box::new(DecayedAdagrad { decay: number("decay")?, epsilon: number("epsilon")? })
        }
        "dpsgd" => Box::new(Dpsgd {
            clip: number("clip")?,
            batch_size: number("batch_size")?,
            sigma: number("sigma")?,
            seed: facts.get("seed")?,
        }),
        "ftrl" => {
            Box::new(Ftrl { l1: number("l1")?, l2: number("l2")?, lr_power: number("lr_power")? })
        }
        "lars_momentum" => Box::new(LarsMomentum {
            momentum: number("momentum")?,
            lars_coeff: number("lars_coeff")?,
            lars_weight_decay: number("lars_weight_decay")?,
            epsilon: number("epsilon")?,
            rescale_grad: number("rescale_grad")?,
        }),
        other => return Err(unknown("optimizer", other)),
    })
}

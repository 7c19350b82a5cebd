//! Update rules: operators, their accumulators and their attributes.

use super::{Accumulator, Decay};
use crate::program::operator::Operator;

/// An update rule. Its fields are named like PaddlePaddle's arguments.
pub trait Rule {
    /// The kind of its operator.
    fn kind(&self) -> &'static str;

    /// The accumulators of each parameter, in the order in which they are created.
    fn accumulators(&self) -> Vec<Accumulator>;

    /// Sets the attributes of the operator.
    fn attributes(&self, operator: Operator, decay: Option<Decay>) -> Operator;

    /// Whether the operator itself applies this weight decay.
    fn decays(&self, _: Decay) -> bool {
        false
    }
}

impl<R: Rule + ?Sized> Rule for Box<R> {
    fn kind(&self) -> &'static str {
        (**self).kind()
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        (**self).accumulators()
    }

    fn attributes(&self, operator: Operator, decay: Option<Decay>) -> Operator {
        (**self).attributes(operator, decay)
    }

    fn decays(&self, decay: Decay) -> bool {
        (**self).decays(decay)
    }
}

/// Gradient descent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sgd;

/// Gradient descent with momentum.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct Momentum {
    pub momentum: f32,
    pub use_nesterov: bool,
}

/// Steps that decrease with the sum of squared gradients (Duchi et al., 2011).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct Adagrad {
    pub epsilon: f32,
    pub initial_accumulator_value: f32,
}

/// Steps by moving averages of gradients and their squares (Kingma and Ba, 2015).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct Adam {
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    pub lazy_mode: bool,
}

/// [`Adam`] with decoupled weight decay (Loshchilov and Hutter, 2019).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct AdamW {
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    pub weight_decay: f32,
    pub lazy_mode: bool,
}

/// Steps that are normalized by a moving average of squared gradients (Hinton, 2012).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct RmsProp {
    pub rho: f32,
    pub epsilon: f32,
    pub momentum: f32,
    pub centered: bool,
}

/// [`Adam`] with steps proportional to the norm of the parameter (You et al., 2020).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct Lamb {
    pub lamb_weight_decay: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    pub always_adapt: bool,
}

impl Default for Momentum {
    fn default() -> Self {
        Self { momentum: 0.9, use_nesterov: false }
    }
}

impl Default for Adagrad {
    fn default() -> Self {
        Self { epsilon: 1e-6, initial_accumulator_value: 0.0 }
    }
}

impl Default for Adam {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, lazy_mode: false }
    }
}

impl Default for AdamW {
    fn default() -> Self {
        let (beta1, beta2, epsilon) = (0.9, 0.999, 1e-8);
        Self { beta1, beta2, epsilon, weight_decay: 0.01, lazy_mode: false }
    }
}

impl Default for RmsProp {
    fn default() -> Self {
        Self { rho: 0.95, epsilon: 1e-6, momentum: 0.0, centered: false }
    }
}

impl Default for Lamb {
    fn default() -> Self {
        let (beta1, beta2, epsilon) = (0.9, 0.999, 1e-6);
        Self { lamb_weight_decay: 0.01, beta1, beta2, epsilon, always_adapt: false }
    }
}

/// An accumulator with the dims of the parameter.
fn like(slot: &'static str, name: &'static str) -> Accumulator {
    Accumulator { slot, name, is_one: false, value: 0.0 }
}

/// Two moments, and the powers of their decays for bias correction.
fn moments(beta1: f32, beta2: f32) -> Vec<Accumulator> {
    let power = |slot, name, value| Accumulator { slot, name, is_one: true, value };
    vec![
        like("Moment1", "moment1"),
        like("Moment2", "moment2"),
        power("Beta1Pow", "beta1_pow_acc", beta1),
        power("Beta2Pow", "beta2_pow_acc", beta2),
    ]
}

/// Sets the decays of moments, and the epsilon.
fn fading(operator: Operator, beta1: f32, beta2: f32, epsilon: f32) -> Operator {
    operator.attribute("beta1", beta1).attribute("beta2", beta2).attribute("epsilon", epsilon)
}

impl Rule for Sgd {
    fn kind(&self) -> &'static str {
        "sgd"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        Vec::new()
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        operator
    }
}

impl Rule for Momentum {
    fn kind(&self) -> &'static str {
        "momentum"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        vec![like("Velocity", "velocity")]
    }

    fn attributes(&self, operator: Operator, decay: Option<Decay>) -> Operator {
        let operator =
            operator.attribute("mu", self.momentum).attribute("use_nesterov", self.use_nesterov);
        match decay {
            Some(Decay::L2(share)) => operator
                .attribute("regularization_method", "l2_decay")
                .attribute("regularization_coeff", share),
            _ => operator,
        }
    }

    fn decays(&self, decay: Decay) -> bool {
        matches!(decay, Decay::L2(_))
    }
}

impl Rule for Adagrad {
    fn kind(&self) -> &'static str {
        "adagrad"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        vec![Accumulator { value: self.initial_accumulator_value, ..like("Moment", "moment") }]
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        operator.attribute("epsilon", self.epsilon)
    }
}

impl Rule for Adam {
    fn kind(&self) -> &'static str {
        "adam"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        moments(self.beta1, self.beta2)
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        fading(operator, self.beta1, self.beta2, self.epsilon)
            .attribute("lazy_mode", self.lazy_mode)
    }
}

impl Rule for AdamW {
    fn kind(&self) -> &'static str {
        "adamw"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        moments(self.beta1, self.beta2)
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        fading(operator, self.beta1, self.beta2, self.epsilon)
            .attribute("lazy_mode", self.lazy_mode)
            .attribute("with_decay", true)
            .attribute("coeff", self.weight_decay)
    }
}

impl Rule for RmsProp {
    fn kind(&self) -> &'static str {
        "rmsprop"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        vec![
            like("Moment", "momentum"),
            like("MeanSquare", "mean_square"),
            like("MeanGrad", "mean_grad"),
        ]
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        operator
            .attribute("decay", self.rho)
            .attribute("epsilon", self.epsilon)
            .attribute("momentum", self.momentum)
            .attribute("centered", self.centered)
    }
}

impl Rule for Lamb {
    fn kind(&self) -> &'static str {
        "lamb"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        moments(self.beta1, self.beta2)
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        fading(operator, self.beta1, self.beta2, self.epsilon)
            .attribute("weight_decay", self.lamb_weight_decay)
            .attribute("always_adapt", self.always_adapt)
    }
}

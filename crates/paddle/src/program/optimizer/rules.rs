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

/// [`Adagrad`] with a moving average of squared gradients instead of their sum.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct DecayedAdagrad {
    pub decay: f32,
    pub epsilon: f32,
}

/// Steps by moving averages of squared gradients and squared steps (Zeiler, 2012).
///
/// As in PaddlePaddle 2.x, the learning rate is a factor of each step, usually 1; 1.x ignores it.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct Adadelta {
    pub epsilon: f32,
    pub rho: f32,
}

/// [`Adam`] with the largest recent gradient in place of the second moment (Kingma and Ba, 2015).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct Adamax {
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
}

/// Gradient descent that keeps many parameters at zero (McMahan et al., 2013).
///
/// `l2` has its documented meaning; PaddlePaddle 1.8.5 writes `l1` in its place.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct Ftrl {
    pub l1: f32,
    pub l2: f32,
    pub lr_power: f32,
}

/// [`Momentum`] with a learning rate for each parameter, proportional to its norm (You et al., 2017).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct LarsMomentum {
    pub momentum: f32,
    pub lars_coeff: f32,
    pub lars_weight_decay: f32,
    pub epsilon: f32,
    pub rescale_grad: f32,
}

/// Gradient descent with differential privacy (Abadi et al., 2016): gradients are clipped, and normal noise is added.
///
/// With a `seed`, the noise is the same in each step, as in PaddlePaddle. With 0, it is drawn from the generator of the
/// scope, where PaddlePaddle uses the time as the seed.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `Rule`")]
pub struct Dpsgd {
    pub clip: f32,
    pub batch_size: f32,
    pub sigma: f32,
    pub seed: i32,
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

impl Default for DecayedAdagrad {
    fn default() -> Self {
        Self { decay: 0.95, epsilon: 1e-6 }
    }
}

impl Default for Adadelta {
    fn default() -> Self {
        Self { epsilon: 1e-6, rho: 0.95 }
    }
}

impl Default for Adamax {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

impl Default for Ftrl {
    fn default() -> Self {
        Self { l1: 0.0, l2: 0.0, lr_power: -0.5 }
    }
}

impl Default for LarsMomentum {
    fn default() -> Self {
        let (momentum, lars_coeff, lars_weight_decay) = (0.9, 0.001, 0.0005);
        Self { momentum, lars_coeff, lars_weight_decay, epsilon: 0.0, rescale_grad: 1.0 }
    }
}

impl Default for Dpsgd {
    fn default() -> Self {
        Self { clip: 0.9, batch_size: 0.999, sigma: 1e-8, seed: 0 }
    }
}

/// An accumulator with the dims of the parameter.
fn like(slot: &'static str, name: &'static str) -> Accumulator {
    Accumulator { slot, name, is_one: false, value: 0.0, factor: None }
}

/// Two moments, and the powers of their decays for bias correction.
fn moments(beta1: f32, beta2: f32) -> Vec<Accumulator> {
    let power = |slot, name, value| Accumulator { slot, name, is_one: true, value, factor: None };
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

impl Rule for DecayedAdagrad {
    fn kind(&self) -> &'static str {
        "decayed_adagrad"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        vec![like("Moment", "moment")]
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        operator.attribute("decay", self.decay).attribute("epsilon", self.epsilon)
    }
}

impl Rule for Adadelta {
    fn kind(&self) -> &'static str {
        "adadelta"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        vec![
            like("AvgSquaredGrad", "_avg_squared_grad"),
            like("AvgSquaredUpdate", "_avg_squared_update"),
        ]
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        operator.attribute("epsilon", self.epsilon).attribute("rho", self.rho)
    }
}

impl Rule for Adamax {
    fn kind(&self) -> &'static str {
        "adamax"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        let power = Accumulator {
            is_one: true,
            value: self.beta1,
            factor: Some(self.beta1),
            ..like("Beta1Pow", "beta1_pow_acc")
        };
        vec![like("Moment", "moment"), like("InfNorm", "inf_norm"), power]
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        fading(operator, self.beta1, self.beta2, self.epsilon)
    }
}

impl Rule for Ftrl {
    fn kind(&self) -> &'static str {
        "ftrl"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        vec![like("SquaredAccumulator", "squared"), like("LinearAccumulator", "linear")]
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        operator
            .attribute("l1", self.l1)
            .attribute("l2", self.l2)
            .attribute("lr_power", self.lr_power)
    }
}

impl Rule for LarsMomentum {
    fn kind(&self) -> &'static str {
        "lars_momentum"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        vec![like("Velocity", "velocity")]
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        operator
            .attribute("mu", self.momentum)
            .attribute("lars_coeff", self.lars_coeff)
            .attribute("lars_weight_decay", vec![self.lars_weight_decay])
            .attribute("epsilon", self.epsilon)
            .attribute("rescale_grad", self.rescale_grad)
    }
}

impl Rule for Dpsgd {
    fn kind(&self) -> &'static str {
        "dpsgd"
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        Vec::new()
    }

    fn attributes(&self, operator: Operator, _: Option<Decay>) -> Operator {
        operator
            .attribute("clip", self.clip)
            .attribute("batch_size", self.batch_size)
            .attribute("sigma", self.sigma)
            .attribute("seed", self.seed)
    }
}

//! Optimizers: operators that update parameters by their gradients, and their accumulators.
//!
//! Accumulators and the learning rate are persistable variables, like parameters: saving and loading all of them resumes
//! a run exactly where it ended.
//!
//! Source of truth: programs that `paddle.optimizer` of PaddlePaddle 2.6.2 built; and `paddle.fluid` of 1.8.5, for
//! `DecayedAdagrad`, `Dpsgd` and `Ftrl`, which 2.6.2 has only as operators.
//!
//! ```
//! use lodstone_paddle::program::optimizer::{Adam, Clip, Optimizer};
//! use lodstone_paddle::program::{Network, Variable};
//!
//! fn train(net: &mut Network, pairs: &[(Variable, Variable)]) -> lodstone_paddle::program::Result<()> {
//!     Optimizer::new(Adam::default(), 0.001).clip(Clip::GlobalNorm(1.0)).apply(net, pairs)
//! }
//! ```

mod gradients;
mod rules;

pub use gradients::{Clip, Decay};
pub use rules::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, DecayedAdagrad, Dpsgd, Ftrl, Lamb, LarsMomentum,
    Momentum, RmsProp, Rule, Sgd,
};

use crate::program::layers::scale;

pub use crate::program::layers::Rate;

use lodstone_model::{AttributeValue, ByteString};
use lodstone_schema::paddle::updated_slot;

use crate::program::error::Result;
use crate::program::initializers::Initializer;
use crate::program::network::{Network, ParamAttr, Variable};
use crate::program::operator::{Operator, single};
use crate::program::role::{OPTIMIZES, SCHEDULES, set, set_role};

/// A parameter and its gradient.
pub type Pair = (Variable, Variable);

/// An optimizer: an update rule, a learning rate, and the treatment of gradients.
#[derive(Clone, Debug)]
pub struct Optimizer<R> {
    rule: R,
    rate: Rate,
    clip: Option<Clip>,
    decay: Option<Decay>,
}

/// An accumulator of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Accumulator {
    /// The slot of the operator that reads it; the slot that writes it has the suffix `Out` ([`updated_slot`]).
    pub slot: &'static str,
    /// The suffix of its name, after that of the parameter.
    pub name: &'static str,
    /// Whether it has a single element; otherwise, it has the dims of the parameter.
    pub is_one: bool,
    /// The initial value.
    pub value: f32,
    /// The factor by which it is multiplied after each step, if the operator of the rule does not write it.
    pub factor: Option<f32>,
}

impl<R: Rule> Optimizer<R> {
    /// Creates an optimizer from a rule and a learning rate.
    pub fn new(rule: R, rate: impl Into<Rate>) -> Self {
        Self { rule, rate: rate.into(), clip: None, decay: None }
    }

    /// Clips gradients.
    #[must_use]
    pub fn clip(mut self, clip: Clip) -> Self {
        self.clip = Some(clip);
        self
    }

    /// Applies weight decay.
    #[must_use]
    pub fn decay(mut self, decay: Decay) -> Self {
        self.decay = Some(decay);
        self
    }

    /// Appends the gradients of a loss, and the updates of parameters; returns each parameter with its gradient.
    ///
    /// # Errors
    /// Like [`Network::append_backward`] and [`apply`](Self::apply).
    pub fn minimize(&self, net: &mut Network, loss: &Variable) -> Result<Vec<Pair>> {
        let pairs = net.append_backward(loss, &[])?;
        self.apply(net, &pairs)?;
        Ok(pairs)
    }

    /// Appends the updates of parameters by their gradients, in the order of the parameters' names.
    ///
    /// # Errors
    /// If a parameter or a gradient does not exist, or they do not match.
    pub fn apply(&self, net: &mut Network, pairs: &[Pair]) -> Result<()> {
        let mut pairs = pairs.to_vec();
        pairs.sort_by(|(a, _), (b, _)| a.name().cmp(b.name()));
        if let Some(clip) = self.clip {
            clip.apply(net, &mut pairs)?;
        }
        let general = self.decay.filter(|decay| !self.rule.decays(*decay));
        for pair in &mut pairs {
            if let Some(decay) = net.update(&pair.0).decay.or(general) {
                decay.apply(net, pair)?;
            }
        }
        let Some((first, _)) = pairs.first() else { return Ok(()) };
        let rate = match &self.rate {
            Rate::Variable(rate) => rate.clone(),
            Rate::Number(rate) => {
                let dtype = net.dtype(first)?;
                net.state("learning_rate", dtype, &[], single(*rate))?
            }
        };
        let kept: Vec<Vec<(Accumulator, Variable)>> =
            pairs.iter().map(|(param, _)| self.accumulate(net, param)).collect::<Result<_>>()?;
        for ((param, grad), kept) in pairs.iter().zip(&kept) {
            let rate = scaled(net, &rate, net.update(param).learning_rate)?;
            let mut op = Operator::new(self.rule.kind())
                .input("Param", [param])
                .input("Grad", [grad])
                .input("LearningRate", [&rate])
                .output("ParamOut", [param]);
            for (accumulator, var) in kept {
                op = op.input(accumulator.slot, [var]);
                if accumulator.factor.is_none() {
                    op = op.output(&updated_slot(accumulator.slot), [var]);
                }
            }
            let op = self.rule.attributes(op, self.decay);
            marked(net, OPTIMIZES, &[param, grad], |net| net.append(op))?;
        }
        for ((param, grad), kept) in pairs.iter().zip(kept) {
            for (accumulator, var) in &kept {
                let Some(factor) = accumulator.factor else { continue };
                let op = Operator::new("scale").input("X", [var]).output("Out", [var]);
                let op = op.attribute("scale", factor);
                marked(net, OPTIMIZES, &[param, grad], |net| net.append(op))?;
            }
        }
        Ok(())
    }

    /// Adds the accumulators of a parameter.
    fn accumulate(
        &self,
        net: &mut Network,
        param: &Variable,
    ) -> Result<Vec<(Accumulator, Variable)>> {
        let dtype = net.dtype(param)?;
        let shape: Vec<u64> =
            net.shape(param)?.into_iter().map(Option::unwrap_or_default).collect();
        let mut made = Vec::new();
        for accumulator in self.rule.accumulators() {
            let base = format!("{}_{}", param.name(), accumulator.name);
            let shape = if accumulator.is_one { &[1][..] } else { &shape };
            let begin = Initializer::Constant(accumulator.value);
            let var = net.untrained(&ParamAttr::default(), &base, dtype, shape, begin)?;
            net.stop(var.name(), false);
            made.push((accumulator, var));
        }
        Ok(made)
    }
}

/// Returns the learning rate of a parameter: the general one, multiplied by its factor.
fn scaled(net: &mut Network, rate: &Variable, factor: f32) -> Result<Variable> {
    // As PaddlePaddle compares it: the factor is 1 unless it is set.
    if factor.total_cmp(&1.0).is_eq() {
        return Ok(rate.clone());
    }
    marked(net, SCHEDULES | OPTIMIZES, &[], |net| scale(net, rate, factor, 0.0))
}

/// Sets the role, the parameter and the gradient of all operators that `work` appends.
pub(crate) fn marked<T>(
    net: &mut Network,
    role: i32,
    of: &[&Variable],
    work: impl FnOnce(&mut Network) -> Result<T>,
) -> Result<T> {
    let before: Vec<usize> = net.main.blocks.iter().map(|block| block.ops.len()).collect();
    let made = work(net)?;
    // All operators of a new block are new.
    let before = before.into_iter().chain(std::iter::repeat(0));
    for (block, from) in net.main.blocks.iter_mut().zip(before) {
        for op in block.ops.iter_mut().skip(from) {
            let names = of.iter().map(|var| ByteString::from(var.name())).collect();
            set_role(op, role);
            set(op, "op_role_var", AttributeValue::Strings(names));
        }
    }
    Ok(made)
}

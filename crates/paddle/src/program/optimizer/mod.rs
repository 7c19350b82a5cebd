//! Optimizers: operators that change parameters by their gradients, and what they keep from step to step.
//!
//! What is kept (accumulators, the learning rate) is a variable that persists, as a parameter is: who saves and
//! loads all of them goes on exactly where a run ended.
//!
//! Source of truth: programs that `paddle.optimizer` of PaddlePaddle 2.6.2 made.
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
pub use rules::{Adagrad, Adam, AdamW, Lamb, Momentum, RmsProp, Rule, Sgd};

pub use crate::program::layers::Rate;

use lodstone_model::{AttributeValue, ByteString};

use crate::program::error::Result;
use crate::program::initializers::Initializer;
use crate::program::network::{Network, Parameter, Variable};
use crate::program::operator::{Operator, single};
use crate::program::role::{OPTIMIZES, set, set_role};

/// A parameter and its gradient.
pub type Pair = (Variable, Variable);

/// How parameters are changed.
#[derive(Clone, Debug)]
pub struct Optimizer<R> {
    rule: R,
    rate: Rate,
    clip: Option<Clip>,
    decay: Option<Decay>,
}

/// What a rule keeps of a parameter.
#[derive(Clone, Copy, Debug)]
pub struct Accumulator {
    /// The slot of the operator that reads it; it is written in that with `Out` behind.
    pub slot: &'static str,
    /// What stands behind the name of the parameter in its name.
    pub name: &'static str,
    /// Whether it is one number; it has the extents of the parameter otherwise.
    pub is_one: bool,
    /// What it begins with.
    pub value: f32,
}

impl<R: Rule> Optimizer<R> {
    /// A rule at a learning rate.
    pub fn new(rule: R, rate: impl Into<Rate>) -> Self {
        Self { rule, rate: rate.into(), clip: None, decay: None }
    }

    /// With gradients that are kept within bounds.
    #[must_use]
    pub fn clip(mut self, clip: Clip) -> Self {
        self.clip = Some(clip);
        self
    }

    /// With parameters that are pulled to zero.
    #[must_use]
    pub fn decay(mut self, decay: Decay) -> Self {
        self.decay = Some(decay);
        self
    }

    /// Appends the gradients of a loss, and what changes parameters by them; gives each parameter with its gradient.
    ///
    /// # Errors
    /// As [`Network::append_backward`] and [`apply`](Self::apply).
    pub fn minimize(&self, net: &mut Network, loss: &Variable) -> Result<Vec<Pair>> {
        let pairs = net.append_backward(loss, &[])?;
        self.apply(net, &pairs)?;
        Ok(pairs)
    }

    /// Appends what changes parameters by their gradients, in the order of the parameters' names.
    ///
    /// # Errors
    /// If a parameter or a gradient is not there, or they do not fit each other.
    pub fn apply(&self, net: &mut Network, pairs: &[Pair]) -> Result<()> {
        let mut pairs = pairs.to_vec();
        pairs.sort_by(|(a, _), (b, _)| a.name().cmp(b.name()));
        if let Some(clip) = self.clip {
            clip.apply(net, &mut pairs)?;
        }
        if let Some(decay) = self.decay.filter(|decay| !self.rule.decays(*decay)) {
            decay.apply(net, &mut pairs)?;
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
        for ((param, grad), kept) in pairs.iter().zip(kept) {
            let mut op = Operator::new(self.rule.kind())
                .input("Param", [param])
                .input("Grad", [grad])
                .input("LearningRate", [&rate])
                .output("ParamOut", [param]);
            for (accumulator, var) in &kept {
                let out = format!("{}Out", accumulator.slot);
                op = op.input(accumulator.slot, [var]).output(&out, [var]);
            }
            let op = self.rule.attributes(op, self.decay);
            marked(net, OPTIMIZES, &[param, grad], |net| net.append(op))?;
        }
        Ok(())
    }

    /// What is kept of a parameter.
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
            let var = net.kept(&Parameter::default(), &base, dtype, shape, begin)?;
            net.stop(var.name(), false);
            made.push((accumulator, var));
        }
        Ok(made)
    }
}

/// Gives operators that `work` appends a role, and says of which parameter and gradient they are.
pub(crate) fn marked<T>(
    net: &mut Network,
    role: i32,
    of: &[&Variable],
    work: impl FnOnce(&mut Network) -> Result<T>,
) -> Result<T> {
    let before: Vec<usize> = net.main.blocks.iter().map(|block| block.ops.len()).collect();
    let made = work(net)?;
    for (number, block) in net.main.blocks.iter_mut().enumerate() {
        let from = before.get(number).copied().unwrap_or(0);
        for op in block.ops.iter_mut().skip(from) {
            let names = of.iter().map(|var| ByteString::from(var.name())).collect();
            set_role(op, role);
            set(op, "op_role_var", AttributeValue::Strings(names));
        }
    }
    Ok(made)
}

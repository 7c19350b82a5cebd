//! Learning-rate schedules, as operators of the program.
//!
//! The step is counted in a persistable variable, [`COUNTER`]: a program that loads it continues the count. All results are
//! single float32 values.
//!
//! Source of truth: programs that `paddle.optimizer.lr` of PaddlePaddle 2.6.2 built (its functions, not its classes,
//! which compute in Python).

use std::f64::consts::PI;

use lodstone_model::DType;

use super::math::unary;
use super::{assign_to, cast, cond, elementwise, less_than, scale};
use crate::program::error::{self, Result};
use crate::program::initializers::Initializer;
use crate::program::network::{Network, ParamAttr, Variable};
use crate::program::operator::{Operator, single};
use crate::program::optimizer::marked;
use crate::program::role::SCHEDULES;

/// The variable that counts steps.
pub const COUNTER: &str = "@LR_DECAY_COUNTER@";

/// `rate * sqrt(size)^-1 * min(step^-0.5, step * warmup^-1.5)`, with steps from 1 (Vaswani et al., 2017).
///
/// # Errors
/// If the network has a different variable with the counter's name.
pub fn noam_decay(net: &mut Network, size: u64, warmup: u64, rate: f64) -> Result<Variable> {
    let step = step_counter(net, 1)?;
    marked(net, SCHEDULES, &[], |net| {
        let falls = power(net, &step, -0.5)?;
        let rises = times(net, &step, (warmup as f64).powf(-1.5))?;
        let least = elementwise(net, "min", &falls, &rises, -1)?;
        times(net, &least, rate * (size as f64).powf(-0.5))
    })
}

/// `rate * decay^(step / steps)`; in a staircase, the exponent is rounded down.
///
/// # Errors
/// Like [`noam_decay`].
pub fn exponential_decay(
    net: &mut Network,
    rate: f64,
    steps: u64,
    decay: f64,
    staircase: bool,
) -> Result<Variable> {
    by_share(net, steps, staircase, |net, share| {
        let base = number(net, &[1], decay)?;
        let decayed = elementwise(net, "pow", &base, share, -1)?;
        times(net, &decayed, rate)
    })
}

/// `rate * exp(-decay * step / steps)`; in a staircase, the quotient is rounded down.
///
/// # Errors
/// Like [`noam_decay`].
pub fn natural_exp_decay(
    net: &mut Network,
    rate: f64,
    steps: u64,
    decay: f64,
    staircase: bool,
) -> Result<Variable> {
    by_share(net, steps, staircase, |net, share| {
        let exponent = times(net, share, -decay)?;
        let decayed = unary(net, "exp", &exponent)?;
        times(net, &decayed, rate)
    })
}

/// `rate / (1 + decay * step / steps)`; in a staircase, the quotient is rounded down.
///
/// # Errors
/// Like [`noam_decay`].
pub fn inverse_time_decay(
    net: &mut Network,
    rate: f64,
    steps: u64,
    decay: f64,
    staircase: bool,
) -> Result<Variable> {
    by_share(net, steps, staircase, |net, share| {
        let decayed = times(net, share, decay)?;
        let below = scale(net, &decayed, 1.0, 1.0)?;
        let rate = number(net, &[1], rate)?;
        elementwise(net, "div", &rate, &below, -1)
    })
}

/// `(rate - end) * (1 - step / steps)^power + end`. After `steps`, the rate stays at `end`; with `cycle`, `steps` is
/// multiplied as often as the step requires.
///
/// # Errors
/// Like [`noam_decay`].
pub fn polynomial_decay(
    net: &mut Network,
    rate: f64,
    steps: u64,
    end: f64,
    power: f64,
    cycle: bool,
) -> Result<Variable> {
    let step = step_counter(net, 0)?;
    marked(net, SCHEDULES, &[], |net| {
        let share = match cycle {
            true => cycled(net, &step, steps)?,
            false => {
                let last = constant(net, steps as f64, false)?;
                let step = elementwise(net, "min", &step, &last, -1)?;
                times(net, &step, 1.0 / steps as f64)?
            }
        };
        let rest = scale(net, &share, -1.0, 1.0)?;
        let curve = self::power(net, &rest, power)?;
        let above = times(net, &curve, rate - end)?;
        scale(net, &above, 1.0, single(end))
    })
}

/// Returns the step divided by the required number of cycles of `steps`, at least one.
fn cycled(net: &mut Network, step: &Variable, steps: u64) -> Result<Variable> {
    let share = times(net, step, 1.0 / steps as f64)?;
    let cycles = unary(net, "ceil", &share)?;
    let [zero, one] = [constant(net, 0.0, false)?, constant(net, 1.0, false)?];
    let begins = super::equal(net, step, &zero)?;
    let needed = cond(net, &begins, |_| Ok(vec![one]), |_| Ok(vec![cycles.clone()]))?;
    for needed in &needed {
        assign_to(net, needed, &cycles)?;
    }
    let all = times(net, &cycles, steps as f64)?;
    elementwise(net, "div", step, &all, -1)
}

/// A rate for each interval of steps; `bounds` are the ends of the intervals, and there is one more rate.
///
/// # Errors
/// If the number of rates differs; otherwise like [`noam_decay`].
pub fn piecewise_decay(net: &mut Network, bounds: &[u64], rates: &[f64]) -> Result<Variable> {
    let [pieces @ .., last] = rates else { return wrong("expected at least one rate") };
    if pieces.len() != bounds.len() {
        return wrong("expected one rate more than bounds");
    }
    let step = step_counter(net, 0)?;
    let rate = persistable_rate(net, "learning_rate")?;
    let set = |net: &mut Network, condition: &Variable, value: f64| {
        let fill = Operator::filled(&[1], DType::Float32, value).output("Out", [&rate]);
        net.conditional_block(condition, |net| net.append(fill))
    };
    marked(net, SCHEDULES, &[], |net| {
        let mut later: Option<Variable> = None;
        for (bound, value) in bounds.iter().zip(pieces) {
            let bound = constant(net, *bound as f64, true)?;
            let before = less_than(net, &step, &bound)?;
            let behind = super::logical_not(net, &before)?;
            let (now, rest) = match &later {
                None => (before, behind),
                Some(later) => {
                    let rest = super::logical_and(net, later, &behind)?;
                    (super::logical_and(net, later, &before)?, rest)
                }
            };
            set(net, &now, *value)?;
            later = Some(rest);
        }
        match &later {
            Some(later) => set(net, later, *last),
            None => {
                net.append(Operator::filled(&[1], DType::Float32, *last).output("Out", [&rate]))
            }
        }
    })?;
    Ok(rate)
}

/// `rate / 2 * (cos(pi * epoch / epochs) + 1)`, with a number of steps per epoch (Loshchilov and Hutter, 2017).
///
/// # Errors
/// Like [`noam_decay`].
pub fn cosine_decay(net: &mut Network, rate: f64, steps: u64, epochs: u64) -> Result<Variable> {
    by_share(net, steps, true, |net, epoch| {
        let turned = times(net, epoch, PI)?;
        let angle = times(net, &turned, 1.0 / epochs as f64)?;
        let wave = unary(net, "cos", &angle)?;
        let above = scale(net, &wave, 1.0, 1.0)?;
        times(net, &above, rate * 0.5)
    })
}

/// Increases linearly from `start` to `end` in `steps` steps, and then follows `rate`.
///
/// # Errors
/// Like [`noam_decay`].
pub fn linear_lr_warmup(
    net: &mut Network,
    rate: impl Into<Rate>,
    steps: u64,
    start: f64,
    end: f64,
) -> Result<Variable> {
    let warm = persistable_rate(net, "learning_rate_warmup")?;
    let step = step_counter(net, 0)?;
    let rate = rate.into();
    marked(net, SCHEDULES, &[], |net| {
        let rate = match rate {
            Rate::Number(rate) => constant(net, rate, false)?,
            Rate::Variable(rate) => rate,
        };
        let last = number(net, &[], steps as f64)?;
        let warms = less_than(net, &step, &last)?;
        let rises = |net: &mut Network| {
            let share = times(net, &step, 1.0 / steps as f64)?;
            let above = times(net, &share, end - start)?;
            Ok(vec![scale(net, &above, 1.0, single(start))?])
        };
        for now in cond(net, &warms, rises, |_| Ok(vec![rate]))? {
            assign_to(net, &now, &warm)?;
        }
        Ok(())
    })?;
    Ok(warm)
}

/// A learning rate: a number, or a variable of one element.
#[derive(Clone, Debug)]
pub enum Rate {
    /// A number, in a persistable variable: the caller may change it before a step.
    Number(f64),
    /// The value of a variable.
    Variable(Variable),
}

impl From<f64> for Rate {
    fn from(rate: f64) -> Self {
        Self::Number(rate)
    }
}

impl From<&Variable> for Rate {
    fn from(rate: &Variable) -> Self {
        Self::Variable(rate.clone())
    }
}

fn wrong<T>(what: &str) -> Result<T> {
    error::operator("piecewise_decay", what)
}

/// Returns the step as float32; it is incremented once per run, before everything else.
fn step_counter(net: &mut Network, begin: i8) -> Result<Variable> {
    let is_new = !net.has(COUNTER);
    let named = ParamAttr::named(COUNTER);
    let before = Initializer::Constant(f32::from(begin) - 1.0);
    let counter = net.untrained(&named, "", DType::Int64, &[1], before)?;
    if is_new {
        net.begin_on_processor(&counter);
        let count = Operator::new("increment").input("X", [&counter]).output("Out", [&counter]);
        net.prepend(count.attribute("step", 1.0_f32).attribute("op_role", SCHEDULES))?;
    }
    marked(net, SCHEDULES, &[], |net| cast(net, &counter, DType::Float32))
}

/// Adds a persistable learning rate.
fn persistable_rate(net: &mut Network, name: &str) -> Result<Variable> {
    let named = ParamAttr::named(name);
    net.untrained(&named, "", DType::Float32, &[1], Initializer::Constant(0.0))
}

fn times(net: &mut Network, x: &Variable, factor: f64) -> Result<Variable> {
    scale(net, x, single(factor), 0.0)
}

/// Returns the result of a function of `step / steps`.
fn by_share(
    net: &mut Network,
    steps: u64,
    whole: bool,
    rate: impl FnOnce(&mut Network, &Variable) -> Result<Variable>,
) -> Result<Variable> {
    let step = step_counter(net, 0)?;
    marked(net, SCHEDULES, &[], |net| {
        let share = share(net, &step, steps, whole)?;
        rate(net, &share)
    })
}

/// Returns `step / steps`, rounded down if `whole`.
fn share(net: &mut Network, step: &Variable, steps: u64, whole: bool) -> Result<Variable> {
    let share = times(net, step, 1.0 / steps as f64)?;
    if whole { unary(net, "floor", &share) } else { Ok(share) }
}

fn power(net: &mut Network, x: &Variable, exponent: f64) -> Result<Variable> {
    let exponent = number(net, &[], exponent)?;
    elementwise(net, "pow", x, &exponent, -1)
}

/// Returns a constant operand.
fn number(net: &mut Network, shape: &[u64], value: f64) -> Result<Variable> {
    let fill = Operator::new("fill_constant")
        .longs("shape", shape)
        .dtype("dtype", DType::Float32)
        .attribute("value", single(value));
    net.call("fill_constant", "Out", fill)
}

/// Returns a constant of one element.
fn constant(net: &mut Network, value: f64, on_processor: bool) -> Result<Variable> {
    let name = net.name("fill_constant");
    let fill = Operator::filled(&[1], DType::Float32, value).attribute("force_cpu", on_processor);
    net.call(&name, "Out", fill)
}

//! Clipping and regularization of gradients.

use super::{Pair, marked};
use crate::program::error::Result;
use crate::program::layers::{elementwise, fill_constant};
use crate::program::network::{Network, Variable};
use crate::program::operator::Operator;
use crate::program::role::OPTIMIZES;

/// Clipping of gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clip {
    /// Clips each element to a range.
    Value(f32, f32),
    /// Clips the norm of each gradient.
    Norm(f32),
    /// Clips the norm of all gradients together.
    GlobalNorm(f32),
}

/// Regularization: weight decay by gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decay {
    /// Independent of the size of the parameters.
    L1(f32),
    /// Proportional to the parameters.
    L2(f32),
}

impl Clip {
    /// Replaces gradients by clipped ones.
    pub(super) fn apply(self, net: &mut Network, pairs: &mut [Pair]) -> Result<()> {
        let (kind, bounds) = match self {
            Self::Value(least, most) => ("clip", vec![("min", least), ("max", most)]),
            Self::Norm(most) => ("clip_by_norm", vec![("max_norm", most)]),
            Self::GlobalNorm(most) => return by_global_norm(net, pairs, most),
        };
        for (param, grad) in pairs {
            if !net.update(param).clips {
                continue;
            }
            let name = net.name(kind);
            let clipped = Variable::named(&net.name(&format!("{name}.tmp")));
            let operator = Operator::new(kind).input("X", [&*grad]).output("Out", [&clipped]);
            let operator =
                bounds.iter().fold(operator, |op, (name, value)| op.attribute(name, *value));
            marked(net, OPTIMIZES, &[param, &clipped], |net| net.append(operator))?;
            *grad = clipped;
        }
        Ok(())
    }
}

fn by_global_norm(net: &mut Network, pairs: &[Pair], most: f32) -> Result<()> {
    let pairs: Vec<&Pair> = pairs.iter().filter(|(param, _)| net.update(param).clips).collect();
    let Some((last, last_grad)) = pairs.last() else { return Ok(()) };
    let dtype = net.dtype(last)?;
    let mut squares = Vec::new();
    for (param, grad) in &pairs {
        squares.push(marked(net, OPTIMIZES, &[param, grad], |net| {
            let all = match has_rows(net, grad)? {
                true => {
                    let merged = called(net, "merge_selected_rows", grad)?;
                    called(net, "get_tensor_from_selected_rows", &merged)?
                }
                false => grad.clone(),
            };
            called(net, "squared_l2_norm", &all)
        })?);
    }
    let factor = marked(net, OPTIMIZES, &[last, last_grad], |net| {
        let name = net.name("add_n");
        let sum = net.call(&name, "Out", Operator::new("sum").input("X", &squares))?;
        let norm = called(net, "sqrt", &sum)?;
        let most = fill_constant(net, &[1], dtype, f64::from(most))?;
        let longest = elementwise(net, "max", &most, &norm, -1)?;
        elementwise(net, "div", &most, &longest, -1)
    })?;
    for (param, grad) in pairs {
        let scaled = Operator::new("elementwise_mul").input("X", [grad]).input("Y", [&factor]);
        let scaled = scaled.output("Out", [grad]);
        marked(net, OPTIMIZES, &[param, grad], |net| net.append(scaled))?;
    }
    Ok(())
}

/// Whether a gradient has selected rows.
fn has_rows(net: &Network, grad: &Variable) -> Result<bool> {
    Ok(net.info(grad)?.value.is_selected_rows())
}

/// Appends an operator of one input and one output.
fn called(net: &mut Network, kind: &str, x: &Variable) -> Result<Variable> {
    let name = net.name(kind);
    net.call(&name, "Out", Operator::new(kind).input("X", [x]))
}

impl Decay {
    /// Adds the weight decay to a gradient: in place, or to a copy for selected rows.
    pub(super) fn apply(self, net: &mut Network, (param, grad): &mut Pair) -> Result<()> {
        let (param, given) = (&*param, grad.clone());
        let sum = match has_rows(net, &given)? {
            true => Variable::named(&format!("{}@NEWGRAD@", given.name())),
            false => given.clone(),
        };
        marked(net, OPTIMIZES, &[param, &given], |net| {
            let pull = match self {
                Self::L1(share) => {
                    let sign = generated(net, Operator::new("sign").input("X", [param]))?;
                    scaled(net, &sign, share)?
                }
                Self::L2(share) => scaled(net, param, share)?,
            };
            net.append(Operator::new("sum").input("X", [&given, &pull]).output("Out", [&sum]))
        })?;
        *grad = sum;
        Ok(())
    }
}

fn scaled(net: &mut Network, x: &Variable, share: f32) -> Result<Variable> {
    generated(net, Operator::new("scale").input("X", [x]).attribute("scale", share))
}

fn generated(net: &mut Network, operator: Operator) -> Result<Variable> {
    let out = Variable::named(&net.name("_generated_var"));
    net.append(operator.output("Out", [&out]))?;
    Ok(out)
}

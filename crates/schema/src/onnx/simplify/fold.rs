//! Constant folding.

use std::sync::Arc;

use lodstone_model::{Op, Parameter, Recipe, Tensor};

use super::{Fact, Pass};
use crate::onnx::infer::ValueInfo;
use crate::{Finding, Origin};

/// Operators that draw random numbers.
const RANDOM: [&str; 6] = [
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
];

/// Operators that narrow elements. A result that is smaller than the constant it replaces may exceed the bound of one
/// constant.
const NARROWING: [&str; 2] = ["Cast", "QuantizeLinear"];

impl<'p, 'a> Pass<'p, 'a> {
    /// Replaces an operator by constants, if its results are known and within bounds; returns whether it did.
    pub(super) fn fold(&mut self, op: &'p Op, facts: &[Option<Fact<'a>>]) -> Result<bool, Finding> {
        let is_random = RANDOM.contains(&op.kind.as_str()) || op.kind == "Dropout";
        if is_random || op.blocks().next().is_some() || self.writes_output(op)? {
            return Ok(false);
        }
        let made = match self.inferred(op)? {
            Some(known) => vec![self.made(op, facts, 0, known)],
            None => match self.evaluated(op, facts)? {
                Some(made) => made,
                None => return Ok(false),
            },
        };
        // The tensor of a `Constant` belongs to the model, so bounds do not apply.
        let is_new = op.kind != "Constant";
        let sizes = made.iter().map(|tensor| tensor.data.len());
        let size = sizes.clone().fold(0, u64::saturating_add);
        let is_large = sizes.max().is_some_and(|size| size > self.bounds.each)
            && !self.is_narrowed(op, facts)?;
        if is_new && (is_large || self.folded.saturating_add(size) > self.bounds.all) {
            return Ok(false);
        }
        self.folded = self.folded.saturating_add(if is_new { size } else { 0 });
        for (name, tensor) in op.output("").iter().zip(made) {
            if name.is_empty() {
                continue;
            }
            let constant = Arc::new(tensor.clone());
            let new = self.define(name, Some(Arc::clone(&constant)))?;
            let block = self.scopes.innermost()?.number;
            self.origins.insert(block, name, Origin::Folded(constant));
            let parameter = Parameter { name: new.to_string(), tensor };
            self.written()?.initializers.push(parameter);
        }
        Ok(true)
    }

    /// Returns the integers that inference found an operator to compute: shapes, and values computed from them.
    fn inferred(&self, op: &Op) -> Result<Option<Tensor>, Finding> {
        let [output] = op.output("") else { return Ok(None) };
        let block = self.scopes.innermost()?.number;
        let info = self.infos.get(block).and_then(|infos| infos.get(output));
        Ok(info.filter(|_| op.kind != "Constant").and_then(ValueInfo::constant))
    }

    /// Whether an operator narrows the elements of a constant, and the result fits within the bound of all constants.
    fn is_narrowed(&self, op: &Op, facts: &[Option<Fact<'a>>]) -> Result<bool, Finding> {
        let ([output], Some(Some(first))) = (op.output(""), facts.first()) else {
            return Ok(false);
        };
        let infos = self.infos.get(self.scopes.innermost()?.number);
        let size = infos.and_then(|infos| infos.get(output)).and_then(ValueInfo::nbytes);
        let before = first.constant.as_ref().map(|constant| constant.data.len());
        let fits = |size: u64| self.folded.saturating_add(size) <= self.bounds.all;
        let is_less = size.zip(before).is_some_and(|(size, before)| size < before && fits(size));
        Ok(is_less && NARROWING.contains(&op.kind.as_str()))
    }

    /// Evaluates an operator on constants.
    fn evaluated(
        &self,
        op: &Op,
        facts: &[Option<Fact<'a>>],
    ) -> Result<Option<Vec<Tensor>>, Finding> {
        let block = self.scopes.innermost()?.number;
        let infos = self.infos.get(block);
        let size = |name: &str| infos.and_then(|infos| infos.get(name)).and_then(ValueInfo::nbytes);
        let is_small = |size: u64| size <= self.bounds.each;
        // Results that are too large are not computed at all.
        let fits = op.kind == "Constant"
            || self.is_narrowed(op, facts)?
            || op.writes().all(|name| size(name).is_some_and(is_small));
        let constant = |(name, fact): (&String, &'_ Option<Fact<'a>>)| match fact {
            _ if name.is_empty() => Some(None),
            Some(fact) if fact.name.is_empty() => Some(None),
            Some(fact) => fact.constant.clone().map(Some),
            None => None,
        };
        let inputs = op.input("").iter().zip(facts).map(constant).collect::<Option<Vec<_>>>();
        Ok(inputs.filter(|_| fits).and_then(|inputs| {
            let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_deref).collect();
            let made = self.evaluator.evaluate(op, &inputs)?;
            let made = made.into_iter().enumerate();
            let made = made.map(|(output, tensor)| {
                // The tensor of a `Constant` has the recipe that it had as an attribute.
                let is_new = op.kind != "Constant";
                let recipe = if is_new {
                    Recipe::computed(op, &inputs, output)
                } else {
                    tensor.recipe.clone()
                };
                Tensor { recipe, ..tensor }
            });
            let made: Vec<Tensor> = made.collect();
            Some(made).filter(|made| made.len() >= op.output("").len())
        }))
    }

    /// Returns a result of an operator with its recipe, as far as the operands are constants.
    fn made(&self, op: &Op, facts: &[Option<Fact<'a>>], output: usize, tensor: Tensor) -> Tensor {
        let constants =
            facts.iter().map(|fact| fact.as_ref().and_then(|it| it.constant.as_deref()));
        let constants: Vec<Option<&Tensor>> = constants.collect();
        let is_omitted =
            |fact: &Option<Fact<'a>>| fact.as_ref().is_none_or(|fact| fact.name.is_empty());
        let is_whole =
            facts.iter().zip(&constants).all(|(fact, it)| it.is_some() || is_omitted(fact));
        match is_whole {
            true => Tensor { recipe: Recipe::computed(op, &constants, output), ..tensor },
            false => tensor,
        }
    }
}

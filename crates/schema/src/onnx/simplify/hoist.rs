//! Branches whose condition is known.

use lodstone_model::{AttributeValue, Op};

use super::{Fact, Pass};
use crate::Finding;
use crate::onnx::blocks::copy;
use crate::onnx::infer::ValueInfo;

impl<'p, 'a> Pass<'p, 'a> {
    /// Replaces an `If` by the branch that it takes, if that is known; returns whether it did.
    pub(super) fn hoist(
        &mut self,
        op: &'p Op,
        facts: &[Option<Fact<'a>>],
    ) -> Result<bool, Finding> {
        let condition = facts.first().and_then(Option::as_ref).filter(|_| op.kind == "If");
        let Some(taken) = condition.and_then(truth) else { return Ok(false) };
        let name = if taken { "then_branch" } else { "else_branch" };
        let Some(AttributeValue::Block(branch)) = op.attribute(name) else { return Ok(false) };
        let is_output = self.writes_output(op)?;
        self.scopes.body(*branch)?;
        let block = self.scopes.innermost()?.block;
        self.constants(block.initializers.iter(), &[])?;
        for (number, op) in block.ops.iter().enumerate() {
            self.scopes.reach(number, op)?;
            self.op(op)?;
        }
        let results = block.outputs.iter().map(|name| self.scopes.see(name).cloned());
        let results: Vec<Option<Fact<'a>>> = results.collect();
        self.scopes.leave()?;
        for (name, result) in op.output("").iter().zip(results) {
            let Some(fact) = result.filter(|_| !name.is_empty()) else { continue };
            if is_output {
                let to = self.define(name, None)?;
                self.written()?.ops.push(copy(&fact.name, &to));
            } else {
                self.keep(name, fact)?;
            }
        }
        Ok(true)
    }
}

/// Returns the Boolean value of a constant.
fn truth(fact: &Fact<'_>) -> Option<bool> {
    let constant = fact.constant.as_deref().map(ValueInfo::of);
    let known = constant.as_ref().or(fact.info)?.ints()?;
    match known.as_slice() {
        [one] => Some(*one != 0),
        _ => None,
    }
}

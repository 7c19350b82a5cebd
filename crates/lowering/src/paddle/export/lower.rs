//! Operators that a rule lowers, and the LoD of their results.

use std::borrow::Cow;
use std::collections::HashMap;

use lodstone_model::{DType, Dim, Op, Tensor};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{EMPTY, LodRule, Share, SharedLod, operator};

use super::variables::Bound;
use super::walk::{Site, Walk};
use crate::frame::{Scope, Step};
use crate::onnx::{Value, int};
use crate::paddle::operator::{Operator, Outcome, Rule, level_of};
use crate::paddle::{LodLevel, Output, VariableFacts, check_size};

impl<'p> Walk<'p> {
    /// Lowers an operator by its rule.
    pub(super) fn lower(&mut self, site: &mut Site<'_, 'p>, rule: Rule) -> Step {
        if self.dialect.left_out.contains(&(site.at.block, site.at.number)) {
            return self.pass(site);
        }
        let op = self.without_unread(site.op);
        let replaced = self.restored_factors(site)?;
        let replaced = replaced.as_ref().map_or(&[][..], |factors| factors);
        self.graph.begin(&site.op.kind);
        let facts = ScopeFacts { scope: site.scope, parameters: &self.parameters, replaced };
        let mut operator = Operator::new(&op, self.dialect.release, &mut self.graph, &facts);
        rule(&mut operator)?;
        let outputs = operator.outputs;
        let shared = match operator_lod(&site.op.kind) {
            Some(LodRule::Shared(shared)) => Some(shared),
            _ => None,
        };
        for output in outputs {
            check_size(&output)?;
            let level = |level: &LodLevel| {
                let info = ValueInfo::tensor(DType::Int64, Some(vec![level.count.clone()]));
                Some(Value::new(level.value.as_deref()?, info))
            };
            let lod = match (&output.lod, shared) {
                (Some(levels), _) => levels.iter().filter_map(level).collect(),
                (None, Some(shared)) => self.shared(site, shared, &output.slot, &output)?,
                (None, None) => Vec::new(),
            };
            let value = Value::new(&output.value, output.info);
            self.bind(site, &output.variable, &value, lod)?;
        }
        Ok(())
    }

    /// Returns the operator without the outputs that nothing reads.
    fn without_unread(&self, op: &Op) -> Op {
        let mut op = op.clone();
        for name in op.outputs.iter_mut().flat_map(|operand| &mut operand.args) {
            if !self.is_read(name) {
                EMPTY.clone_into(name);
            }
        }
        op
    }

    /// Returns the LoD of an output that shares that of an input.
    fn shared(
        &mut self,
        site: &Site<'_, 'p>,
        shared: &SharedLod,
        slot: &str,
        output: &Output,
    ) -> Step<Vec<Value>> {
        let Some(share) = shared.source(slot) else { return Ok(Vec::new()) };
        let sources = self.sources(site, share)?;
        let rows = output.info.shape().and_then(<[Dim]>::first).cloned();
        let Some(rows) = rows else { return Ok(Vec::new()) };
        let differs = |source: &Value| {
            let dims = source.info().shape().and_then(<[Dim]>::first);
            match (dims, &rows) {
                (Some(Dim::Known(a)), Dim::Known(b)) => a != b,
                (Some(a), b) if a == b => false,
                // A reshape may regroup the rows in any way.
                (Some(_), _) => site.op.kind.starts_with("reshape"),
                (None, _) => true,
            }
        };
        if share.joins {
            return Ok(self.joined(&sources, &rows)?);
        }
        let place = site.op.output(slot).iter().position(|name| *name == output.variable);
        let source = place.and_then(|place| sources.get(place)).or(sources.first());
        let source = source.filter(|(source, _)| !differs(source));
        Ok(source.map(|(_, lod)| lod.clone()).unwrap_or_default())
    }

    fn sources(&self, site: &Site<'_, 'p>, share: Share) -> Step<Vec<(Value, Vec<Value>)>> {
        let mut sources = Vec::new();
        for name in site.op.input(share.input).iter().filter(|name| *name != EMPTY) {
            if let Bound::Tensor(value, lod) = self.bound(site, name, share.input)? {
                sources.push((value, lod));
            }
        }
        Ok(sources)
    }

    /// Returns the LoD of tensors that are stacked side by side, or whose rows are concatenated.
    fn joined(&mut self, sources: &[(Value, Vec<Value>)], rows: &Dim) -> Outcome<Vec<Value>> {
        let Some(((first, lod), rest)) = sources.split_first() else { return Ok(Vec::new()) };
        let is_same = first.info().shape().and_then(<[Dim]>::first) == Some(rows);
        if rest.is_empty() || is_same || lod.is_empty() {
            return Ok(lod.clone());
        }
        let mut lod = lod.clone();
        for (_, more) in rest {
            if more.len() != lod.len() {
                return Ok(Vec::new());
            }
            for (level, more) in lod.iter_mut().zip(more) {
                let end = self.graph.slice(level, 0, -1, i64::MAX)?;
                let more = self.graph.slice(more, 0, 1, i64::MAX)?;
                let more = self.graph.add(&more, &end)?;
                *level = self.graph.call("Concat", &[&*level, &more], [int("axis", 0)])?;
            }
        }
        Ok(lod)
    }
}

fn operator_lod(kind: &str) -> Option<&'static LodRule> {
    operator(kind).map(|row| &row.lod)
}

/// The variables of a block, as rules see them.
struct ScopeFacts<'a, 'p> {
    scope: &'a Scope<Bound>,
    parameters: &'a HashMap<&'p str, Cow<'p, Tensor>>,
    /// The values of variables that the operator reads instead.
    replaced: &'a [(&'p str, Value)],
}

impl ScopeFacts<'_, '_> {
    fn tensor(&self, variable: &str) -> Option<(&Value, &Vec<Value>)> {
        match self.scope.get(variable)? {
            Bound::Tensor(value, lod) => {
                let replaced = self.replaced.iter().find(|(name, _)| *name == variable);
                Some((replaced.map_or(value, |(_, value)| value), lod))
            }
            _ => None,
        }
    }
}

impl VariableFacts for ScopeFacts<'_, '_> {
    fn info(&self, variable: &str) -> Option<ValueInfo> {
        self.tensor(variable).map(|(value, _)| value.info().clone())
    }

    fn contents(&self, variable: &str) -> Option<Vec<i64>> {
        self.tensor(variable)?.0.info().ints()
    }

    fn parameter(&self, variable: &str) -> Option<&Tensor> {
        let (value, _) = self.tensor(variable)?;
        self.parameters.get(value.name()).map(AsRef::as_ref)
    }

    fn lod(&self, variable: &str) -> Vec<LodLevel> {
        let levels = self.tensor(variable).map_or(&[][..], |(_, lod)| lod);
        levels.iter().map(level_of).collect()
    }

    fn value_of(&self, variable: &str) -> String {
        self.tensor(variable).map_or(variable, |(value, _)| value.name()).to_owned()
    }
}

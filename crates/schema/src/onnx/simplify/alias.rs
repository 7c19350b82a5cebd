//! Operators whose output equals an existing value.

use std::sync::Arc;

use lodstone_model::{Attribute, AttributeValue, DType, Op};

use super::{Fact, Pass};
use crate::Finding;
use crate::onnx::dtype;

impl<'p, 'a> Pass<'p, 'a> {
    /// Makes the output of an operator an alias of an existing value that it equals; returns whether it did.
    pub(super) fn alias(
        &mut self,
        op: &'p Op,
        facts: &[Option<Fact<'a>>],
    ) -> Result<bool, Finding> {
        let [output] = op.output("") else { return Ok(false) };
        let Some(Some(input)) = facts.first() else { return Ok(false) };
        let same = match op.kind.as_str() {
            "Identity" => Some(input.clone()),
            "Cast" | "CastLike" => {
                let like = facts.get(1).and_then(Option::as_ref);
                let to = cast_to(op).or_else(|| like.and_then(Fact::dtype));
                Some(input.clone()).filter(|_| to.is_some() && to == input.dtype())
            }
            "Transpose" => match composed(op, input) {
                Some((source, order)) if order.is_sorted() => Some(source.clone()),
                _ => None,
            },
            _ => None,
        };
        match same {
            Some(same) if !same.name.is_empty() && !self.writes_output(op)? => {
                self.computes(&same, &op.sources)?;
                self.keep(output, same)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Lets a `Transpose` of a `Transpose` read the input of the first one, and records the composed permutation.
    pub(super) fn transpose(
        &mut self,
        op: &'p Op,
        facts: &[Option<Fact<'a>>],
        changed: &mut Op,
    ) -> Result<(), Finding> {
        let Some(Some(input)) = facts.first().filter(|_| op.kind == "Transpose") else {
            return Ok(());
        };
        let ([output], Some((source, order))) = (op.output(""), composed(op, input)) else {
            return Ok(());
        };
        let source = source.clone();
        changed.sources = self.sources_of(input)?.and(&changed.sources);
        if let Some(arg) = changed.inputs.first_mut().and_then(|operand| operand.args.first_mut()) {
            *arg = source.name.to_string();
        }
        let longs = order.iter().map(|at| i64::try_from(*at)).collect::<Result<_, _>>();
        let longs = longs.map_err(|_| Finding::internal("an axis is not an integer"))?;
        let perm = Attribute { name: "perm".to_owned(), value: AttributeValue::Longs(longs) };
        changed.attributes = vec![perm];
        let names = &mut self.scopes.innermost_mut()?.names;
        if let Some(fact) = names.get_mut(output.as_str()) {
            fact.transposed = Some(Arc::new((source, order)));
        }
        Ok(())
    }
}

impl Fact<'_> {
    fn dtype(&self) -> Option<DType> {
        let constant = self.constant.as_ref().map(|tensor| tensor.dtype);
        let inferred = || self.info.and_then(|info| info.shape().map(|_| info.dtype()));
        constant.or_else(inferred)
    }

    fn rank(&self) -> Option<usize> {
        let constant = self.constant.as_ref().map(|tensor| tensor.shape.len());
        constant.or_else(|| self.info?.shape().map(<[_]>::len))
    }
}

/// Returns the target type of a `Cast`.
fn cast_to(op: &Op) -> Option<DType> {
    match op.attribute("to") {
        Some(AttributeValue::Long(code)) => dtype::from_code(i32::try_from(*code).ok()?),
        _ => None,
    }
}

/// Returns the value that a chain of `Transpose` operators starts from, and the composed permutation.
fn composed<'f, 'a>(op: &Op, input: &'f Fact<'a>) -> Option<(&'f Fact<'a>, Vec<usize>)> {
    let order = match op.attribute("perm") {
        Some(AttributeValue::Longs(order)) => {
            order.iter().map(|at| usize::try_from(*at)).collect::<Result<Vec<_>, _>>().ok()?
        }
        Some(_) => return None,
        None => (0..input.rank()?).rev().collect(),
    };
    let mut seen = order.clone();
    seen.sort_unstable();
    if !seen.into_iter().eq(0..order.len()) || input.rank() != Some(order.len()) {
        return None;
    }
    match input.transposed.as_deref() {
        None => Some((input, order)),
        Some((source, first)) => {
            let composed = order.iter().map(|at| first.get(*at).copied()).collect::<Option<_>>()?;
            Some((source, composed))
        }
    }
}

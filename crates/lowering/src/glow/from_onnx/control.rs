//! Branches and loops, which Glow does not have: branches are resolved and loops are unrolled.

use lodstone_model::{AttributeValue, DType, Dim, Op};
use lodstone_schema::onnx::infer::{Element, ValueInfo};

use super::graph::Value;
use super::known::value_of;
use super::op::{Cx, Entry, Fault};
use super::storage::info_of;
use super::walk::Walk;

/// The maximum number of iterations of a loop, as in Glow.
const MAX_TIMES: i64 = 20;

impl Walk<'_> {
    /// Translates the branch that is taken, which must be known.
    pub(super) fn branch(
        &mut self,
        op: &Op,
        inputs: &[Option<usize>],
    ) -> Result<Vec<Option<usize>>, Fault> {
        let taken = self.condition(inputs.first().copied().flatten())?;
        let name = if taken { "then_branch" } else { "else_branch" };
        let block = block_of(op, name)?;
        self.body(block, Vec::new())
    }

    /// Unrolls a loop.
    pub(super) fn unroll(
        &mut self,
        op: &Op,
        inputs: &[Option<usize>],
    ) -> Result<Vec<Option<usize>>, Fault> {
        let block = block_of(op, "body")?;
        let most = match inputs.first().copied().flatten() {
            Some(entry) => self.integer(entry).ok_or("expected a constant trip count")?,
            None => i64::MAX,
        };
        // Glow ignores the condition that the body of a loop without a condition returns.
        let conditional = inputs.get(1).copied().flatten();
        let mut goes_on = match conditional {
            Some(entry) => self.condition(Some(entry))?,
            None => true,
        };
        let mut carried: Vec<Option<usize>> = inputs.iter().skip(2).copied().collect();
        let scans = op.output("").len().saturating_sub(carried.len());
        let mut scanned: Vec<Vec<usize>> = vec![Vec::new(); scans];
        let mut turn = 0;
        while goes_on && turn < most {
            if turn >= MAX_TIMES {
                return Err(format!(
                    "expected a loop of at most {MAX_TIMES} iterations, found more"
                )
                .into());
            }
            let number = self.add(known(&[], DType::Int64, turn));
            let goes = self.add(known(&[], DType::Bool, 1));
            let mut given = vec![Some(number), Some(goes)];
            given.extend(carried.iter().copied());
            let mut given_back = self.body(block, given)?.into_iter();
            let next = given_back.next().flatten();
            if conditional.is_some() {
                goes_on = self.condition(next)?;
            }
            carried = given_back.by_ref().take(carried.len()).collect();
            for (all, value) in scanned.iter_mut().zip(given_back) {
                all.push(value.ok_or("expected a scan output, found none")?);
            }
            turn += 1;
        }
        let mut outputs = carried;
        for values in scanned {
            let asked = op.output("").get(outputs.len()).is_some_and(|name| !name.is_empty());
            if values.is_empty() && asked {
                let what =
                    "a loop without iterations has an empty output, and Glow has no empty tensors";
                return Err(what.into());
            }
            let collected = match asked {
                true => Some(self.collect(op, outputs.len(), values)?),
                false => None,
            };
            outputs.push(collected);
        }
        Ok(outputs)
    }

    /// Stacks the values of all iterations along a new axis.
    fn collect(&mut self, op: &Op, index: usize, turns: Vec<usize>) -> Result<usize, Fault> {
        let mut values: Vec<Value> = Vec::new();
        for entry in turns {
            values.push(value_of(&mut self.graph, &mut self.entries, entry)?);
        }
        let name = op.output("").get(index).cloned().unwrap_or_default();
        let base = if op.name.is_empty() { format!("Loop_{name}") } else { op.name.clone() };
        let (inputs, outputs) = (Vec::new(), Vec::new());
        let (graph, entries) = (&mut self.graph, &mut self.entries);
        let mut cx = Cx { graph, entries, op, base, inputs, outputs };
        let mut rows = Vec::new();
        for value in values {
            let mut shape = vec![1];
            shape.extend(cx.shape(value));
            rows.push(cx.reshape(value, &shape, "row")?);
        }
        let value = cx.concat(rows, 0, "")?;
        let info = info_of(&self.graph.type_of(value));
        Ok(self.add(Entry { name, info, value: Some(value), ..Entry::default() }))
    }

    fn integer(&self, entry: usize) -> Option<i64> {
        match self.entries.get(entry)?.info.ints()?.as_slice() {
            [number] => Some(*number),
            _ => None,
        }
    }

    fn condition(&self, entry: Option<usize>) -> Result<bool, Fault> {
        let entry = entry.ok_or("expected a condition, found none")?;
        if let Some(place) = self.entries.get(entry).and_then(|entry| entry.fault) {
            return Err(Fault::Before(place));
        }
        let known = self.integer(entry).map(|number| number != 0);
        known.ok_or_else(|| "expected a constant condition, found a computed one".into())
    }
}

/// Creates an entry for a known integer.
fn known(shape: &[u64], dtype: DType, number: i64) -> Entry {
    let dims = shape.iter().map(|dim| Dim::Known(*dim)).collect();
    let mut info = ValueInfo::tensor(dtype, Some(dims));
    info.contents = Some(vec![Element::Int(number)].into());
    Entry { name: "turn".to_owned(), info, ..Entry::default() }
}

fn block_of(op: &Op, name: &str) -> Result<i32, Fault> {
    match op.attribute(name) {
        Some(AttributeValue::Block(block)) => Ok(*block),
        _ => Err(format!("expected a graph in `{name}`").into()),
    }
}

//! Choices and loops. A body is a closure that gets the values of its inputs and returns its results; what it emits becomes
//! a block of the result.

use std::collections::HashSet;

use lodstone_model::{Attribute, AttributeValue, Block, DType, Dim, Op};
use lodstone_schema::Finding;
use lodstone_schema::numbers::{exact, length};
use lodstone_schema::onnx::infer::{ValueInfo, common_type};

use super::{Dialect, Frame, Step};
use crate::onnx::{Value, blocks, int, ints};

/// What one turn of a loop returns.
pub(crate) struct Turn {
    /// Whether another one follows: a Boolean scalar.
    pub(crate) goes_on: Value,
    /// The next states.
    pub(crate) next: Vec<Value>,
    /// Results that are stacked.
    pub(crate) made: Vec<Value>,
}

/// The results of a loop.
pub(crate) struct Looped {
    /// The last states.
    pub(crate) states: Vec<Value>,
    /// The results of all turns, stacked.
    pub(crate) stacked: Vec<Value>,
}

/// Slices along the first axis over which a [`scan`](Frame::scan) runs.
pub(crate) struct Slices<'a> {
    pub(crate) data: &'a [Value],
    pub(crate) is_reverse: bool,
}

impl<'m, D: Dialect<'m>> Frame<'m, D> {
    /// Emits operators into a list of their own.
    pub(crate) fn apart<T>(
        &mut self,
        name: &str,
        make: impl FnOnce(&mut Self) -> Step<T>,
    ) -> Step<(Vec<Op>, T)> {
        let around = std::mem::take(&mut self.graph.ops);
        self.graph.begin(name);
        let made = make(self);
        let ops = std::mem::replace(&mut self.graph.ops, around);
        self.graph.begin(name);
        Ok((ops, made?))
    }

    /// Adds a block of the result, whose outputs get names of their own; returns its attribute.
    pub(crate) fn block(
        &mut self,
        name: &str,
        inputs: &[Value],
        ops: Vec<Op>,
        results: &[Value],
    ) -> Step<AttributeValue> {
        let written: HashSet<String> = ops.iter().flat_map(Op::writes).map(str::to_owned).collect();
        let mut seen = HashSet::new();
        let (copies, outputs) = self.apart(name, |frame| {
            let one = |value: &Value| {
                let is_own = written.contains(value.name()) && seen.insert(value.name().to_owned());
                if is_own { Ok(value.clone()) } else { frame.graph.call("Identity", &[value], []) }
            };
            Ok(results.iter().map(one).collect::<Result<Vec<_>, Finding>>()?)
        })?;
        let names = |values: &[Value]| values.iter().map(|it| it.name().to_owned()).collect();
        self.blocks.push(Block {
            name: self.graph.names.fresh("block"),
            vars: inputs.iter().chain(&outputs).map(blocks::declared).collect(),
            inputs: names(inputs),
            outputs: names(&outputs),
            ops: ops.into_iter().chain(copies).collect(),
            ..Block::default()
        });
        Ok(AttributeValue::Block(exact(self.blocks.len())?))
    }

    /// Creates an input of a block.
    pub(crate) fn block_input(&mut self, base: &str, info: ValueInfo) -> Value {
        Value::new(&self.graph.names.fresh(base), info)
    }

    /// Returns a condition as a Boolean scalar.
    pub(crate) fn truth(&mut self, value: &Value) -> Step<Value> {
        let value = self.graph.cast(value, DType::Bool)?;
        Ok(self.graph.reshape(&value, &[])?)
    }

    /// Emits a choice between two bodies, whose results have the same types.
    pub(crate) fn choose(
        &mut self,
        name: &str,
        condition: &Value,
        mut body: impl FnMut(&mut Self, bool) -> Step<Vec<Value>>,
    ) -> Step<Vec<Value>> {
        let (ops, results) = self.apart(name, |frame| body(frame, true))?;
        let then = (self.block(name, &[], ops, &results)?, results);
        let (ops, results) = self.apart(name, |frame| body(frame, false))?;
        let other = (self.block(name, &[], ops, &results)?, results);
        self.branch(condition, then, other)
    }

    /// Emits a choice between two blocks with their results, which have the same types.
    pub(crate) fn branch(
        &mut self,
        condition: &Value,
        (then_block, then): (AttributeValue, Vec<Value>),
        (else_block, other): (AttributeValue, Vec<Value>),
    ) -> Step<Vec<Value>> {
        if then.len() != other.len() {
            let (then, other) = (then.len(), other.len());
            return Err(format!("the branches have {then} and {other} results").into());
        }
        let mut infos = Vec::new();
        for (index, (a, b)) in then.iter().zip(&other).enumerate() {
            let dtype = |value: &Value| value.value_type().tensor_type().map(|it| it.dtype);
            let common = common_type(a.value_type(), b.value_type());
            let common = common.filter(|_| dtype(a) == dtype(b)).ok_or_else(|| {
                let (a, b) = (a.dtype(), b.dtype());
                format!("expected one type of result {index} from both branches, found {a} and {b}")
            })?;
            infos.push(ValueInfo::from(common));
        }
        let attributes = [("then_branch", then_block), ("else_branch", else_block)]
            .map(|(name, value)| Attribute { name: name.to_owned(), value });
        Ok(self.graph.emit_typed("If", &[Some(condition)], attributes, infos))
    }

    /// Emits a loop that begins if `begins`, and has at most `most` turns. The dims of states may change, their ranks may
    /// not.
    pub(crate) fn repeat(
        &mut self,
        name: &str,
        (most, begins): (Option<&Value>, &Value),
        first: &[Value],
        body: impl FnOnce(&mut Self, &[Value]) -> Step<Turn>,
    ) -> Step<Looped> {
        let own: Vec<Value> =
            first.iter().map(|value| self.block_input("state", type_of(value))).collect();
        let (ops, turn) = self.apart(name, |frame| body(frame, &own))?;
        let Turn { goes_on, next, made } = turn;
        check_states(&own, &next)?;
        let [number, flag] =
            [("iteration", DType::Int64), ("condition", DType::Bool)].map(|(base, dtype)| {
                self.block_input(base, ValueInfo::tensor(dtype, Some(Vec::new())))
            });
        let inputs: Vec<Value> = [number, flag].into_iter().chain(own).collect();
        let returned: Vec<Value> =
            std::iter::once(&goes_on).chain(&next).chain(&made).cloned().collect();
        let block = self.block(name, &inputs, ops, &returned)?;
        let mut infos: Vec<ValueInfo> = first.iter().map(type_of).collect();
        for value in &made {
            infos.push(stacked(value, Dim::Unknown)?);
        }
        let operands: Vec<Option<&Value>> =
            [most, Some(begins)].into_iter().chain(first.iter().map(Some)).collect();
        let body = vec![Attribute { name: "body".to_owned(), value: block }];
        let mut states = self.graph.emit_typed("Loop", &operands, body, infos);
        let stacked = states.split_off(first.len());
        Ok(Looped { states, stacked })
    }

    /// Emits a loop over slices of data. The body gets the states and the slices, and returns the next states and results
    /// that are stacked.
    pub(crate) fn scan(
        &mut self,
        name: &str,
        first: &[Value],
        Slices { data, is_reverse }: Slices<'_>,
        body: impl FnOnce(&mut Self, &[Value], &[Value]) -> Step<(Vec<Value>, Vec<Value>)>,
    ) -> Step<Looped> {
        let count = data.first().ok_or("expected data")?.shape()?.first().cloned();
        let count = count.ok_or("expected data of at least rank 1")?;
        let own: Vec<Value> =
            first.iter().map(|value| self.block_input("state", type_of(value))).collect();
        let mut parts = Vec::new();
        for value in data {
            parts.push(self.block_input("slice", slice_of(value)?));
        }
        let (ops, (next, made)) = self.apart(name, |frame| body(frame, &own, &parts))?;
        check_states(&own, &next)?;
        let inputs: Vec<Value> = own.into_iter().chain(parts).collect();
        let returned: Vec<Value> = next.into_iter().chain(made.iter().cloned()).collect();
        let block = self.block(name, &inputs, ops, &returned)?;
        let mut attributes = vec![
            Attribute { name: "body".to_owned(), value: block },
            int("num_scan_inputs", length(data.len())),
        ];
        if is_reverse {
            attributes.push(ints("scan_input_directions", &vec![1; data.len()]));
            attributes.push(ints("scan_output_directions", &vec![1; made.len()]));
        }
        let mut infos: Vec<ValueInfo> = first.iter().map(type_of).collect();
        for value in &made {
            infos.push(stacked(value, count.clone())?);
        }
        let given: Vec<Option<&Value>> = first.iter().chain(data).map(Some).collect();
        let mut states = self.graph.emit_typed("Scan", &given, attributes, infos);
        let stacked = states.split_off(first.len());
        Ok(Looped { states, stacked })
    }
}

/// Returns the type of a value, without its contents.
pub(crate) fn type_of(value: &Value) -> ValueInfo {
    ValueInfo::from(value.value_type().clone())
}

/// Returns the type of a slice along the first axis.
fn slice_of(value: &Value) -> Step<ValueInfo> {
    let dims = value.shape()?.get(1..).ok_or("expected data of at least rank 1")?;
    Ok(ValueInfo::tensor(value.dtype(), Some(dims.to_vec())))
}

/// Returns the type of stacked values.
fn stacked(value: &Value, count: Dim) -> Step<ValueInfo> {
    let dims = std::iter::once(count).chain(value.shape()?.iter().cloned()).collect();
    Ok(ValueInfo::tensor(value.dtype(), Some(dims)))
}

/// Fails unless the next states have the types of states.
fn check_states(before: &[Value], after: &[Value]) -> Step {
    if before.len() != after.len() {
        return Err(format!("expected {} states, found {}", before.len(), after.len()).into());
    }
    let is_same = |(before, after): (&Value, &Value)| {
        before.dtype() == after.dtype() && before.rank().ok() == after.rank().ok()
    };
    match before.iter().zip(after).all(is_same) {
        true => Ok(()),
        false => Err("a state of a loop changes its type".into()),
    }
}

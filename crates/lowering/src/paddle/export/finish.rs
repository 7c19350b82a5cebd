//! Writes the ONNX program as a model.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Model, Op, Report};
use lodstone_schema::{Findings, Origins};

use super::variables::{Bound, ranked};
use super::walk::Walk;
use crate::frame::Step;
use crate::onnx::Value;
use crate::paddle::operator::Outcome;

/// The names of values.
#[derive(Default)]
struct Taken {
    /// Of all that operators of the main block write.
    written: HashSet<String>,
    /// Of the outputs so far.
    outputs: HashSet<String>,
}

impl Walk<'_> {
    /// Returns the model and the origins of its values.
    ///
    /// # Errors
    /// All findings of the walk, and outputs that hold nothing.
    pub(super) fn written(mut self, report: &mut Report) -> Result<(Model, Origins), Findings> {
        if self.findings.is_empty() {
            self.fuse();
        }
        let mut taken = Taken::default();
        taken.written.extend(self.graph.ops.iter().flat_map(Op::writes).map(str::to_owned));
        let source = self.model;
        let fetch = |walk: &mut Self, name: &str, _: &[Value]| walk.fetch(name, &mut taken);
        let (mut model, origins) = self.finish(report, fetch, |_, _, _| ())?;
        let places = source.parameters.iter().zip(0..);
        let places: HashMap<&str, usize> = places.map(|(it, at)| (it.name.as_str(), at)).collect();
        // Constants follow the parameters.
        let place = |name: &str| {
            let place = places.get(name).copied();
            (place.is_none(), place)
        };
        model.parameters.sort_by_key(|parameter| place(&parameter.name));
        model.structured_names = source.structured_names.clone();
        Ok((model, origins))
    }

    /// Returns an output, and one for each of its LoD levels that is not an input or a constant.
    fn fetch(&mut self, name: &str, taken: &mut Taken) -> Step<(Value, Vec<Value>)> {
        let (_, var) = self.declaration(0, name)?;
        let (value, lod) = match self.scope.find(name)? {
            Some(Bound::Tensor(value, lod)) => (ranked(var, value), lod.clone()),
            Some(_) => return Err("only tensors can be outputs of an ONNX program".into()),
            None => return Err("no operator writes it".into()),
        };
        if value.value_type().tensor_type().is_some_and(|tensor| tensor.shape.is_none()) {
            return Err("rank must be known".into());
        }
        let value = self.output_value(&value, name, taken)?;
        let mut levels = Vec::new();
        for (level, offsets) in lod.iter().enumerate() {
            if taken.written.contains(offsets.name()) {
                let name = self.graph.names.fresh(&format!("{name}.lod{level}"));
                levels.push(self.output_value(offsets, &name, taken)?);
            }
        }
        Ok((value, levels))
    }

    /// Returns a value under the name of an output, which no other value may have.
    fn output_value(&mut self, value: &Value, name: &str, taken: &mut Taken) -> Outcome<Value> {
        // An output before this one may have given the value its name.
        let swapped = self.swapped.get(value.name());
        let value = swapped.map_or(value.clone(), |name| Value::new(name, value.info().clone()));
        let is_written = taken.written.contains(value.name());
        if value.name() == name && is_written && taken.outputs.insert(name.to_owned()) {
            return Ok(value);
        }
        let is_taken = self.dialect.given.has(name) || taken.outputs.contains(name);
        let name = if is_taken { self.graph.names.fresh(name) } else { name.to_owned() };
        let is_output = self.main_block().outputs.iter().any(|it| it == value.name())
            || taken.outputs.contains(value.name());
        taken.written.insert(name.clone());
        taken.outputs.insert(name.clone());
        if is_written && !is_output {
            taken.written.remove(value.name());
            self.swapped.insert(value.name().to_owned(), name.clone());
            return Ok(Value::new(&name, value.info().clone()));
        }
        self.graph.begin("fetch");
        self.graph.name(&value, &name, &name)
    }
}

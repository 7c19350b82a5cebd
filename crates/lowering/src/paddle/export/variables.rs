//! Variables: what they hold, their declarations, and those that hold something before the first operator.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{DType, Dim, Kind, Tensor, TensorType, ValueType, Var};
use lodstone_schema::numbers::exact;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::quoted;
use lodstone_schema::paddle::interface;

use super::walk::Walk;
use crate::onnx::{Graph, Value};
use crate::paddle::operator::Outcome;

/// What a variable holds.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// A tensor, and the offsets of its LoD levels, outermost first.
    Tensor(Value, Vec<Value>),
    /// An array: a sequence of tensors, and the type of its members, if it has any.
    Array(Value, Option<TensorType>),
    /// A rank table: the indices of sequences, the longest first, and their lengths in this order.
    Ranks(Value, Value),
}

/// The names that values have been given, in order.
#[derive(Debug, Default)]
pub(super) struct Given<'p> {
    order: Vec<&'p str>,
    all: HashSet<&'p str>,
}

impl<'p> Given<'p> {
    pub(super) fn add(&mut self, name: &'p str) {
        if self.all.insert(name) {
            self.order.push(name);
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.all.contains(name)
    }

    pub(super) fn count(&self) -> usize {
        self.order.len()
    }

    /// Takes back all names but the first ones.
    pub(super) fn truncate(&mut self, count: usize) {
        for name in self.order.drain(count.min(self.order.len())..) {
            self.all.remove(name);
        }
    }
}

impl<'p> Walk<'p> {
    /// Binds persistable variables to the parameters.
    pub(super) fn states(&mut self) {
        let parameters = self.model.parameters.iter();
        let parameters: HashMap<&str, &Tensor> =
            parameters.map(|it| (it.name.as_str(), &it.tensor)).collect();
        for (index, block) in self.program.blocks.iter().enumerate() {
            let mut variables: HashMap<String, Option<Bound>> =
                block.vars.iter().map(|var| (var.name.clone(), None)).collect();
            for var in block.vars.iter().filter(|var| var.persistable) {
                let name = var.name.as_str();
                let Some(tensor) = parameters.get(name) else { continue };
                let place = || format!("the parameter {}", quoted(name));
                if !matches!(tensor.kind, Kind::Dense) && self.is_read(name) {
                    self.findings.add(place(), "only dense tensors are supported");
                    continue;
                }
                let lod = tensor.lod.0.iter().map(|level| offsets(&mut self.graph, level));
                let lod = match lod.collect() {
                    Ok(lod) => lod,
                    Err(finding) => {
                        self.findings.add(place(), finding);
                        continue;
                    }
                };
                self.dialect.given.add(name);
                let bound = Bound::Tensor(Value::new(name, ValueInfo::of(tensor)), lod);
                match index {
                    0 => self.scope.bind(name, bound),
                    _ => drop(variables.insert(name.to_owned(), Some(bound))),
                }
            }
            self.dialect.variables.push(Arc::new(variables));
        }
    }

    /// Declares the inputs, and those of their LoD levels.
    pub(super) fn inputs(&mut self) {
        let inputs = interface(self.program).inputs;
        for (name, _) in &self.dialect.options.lod {
            if !inputs.contains(&name.as_str()) {
                let what = "the program has no such input, to set the LoD of";
                self.findings.add(format!("the input {}", quoted(name)), what);
            }
        }
        let mut seen = HashSet::new();
        for name in inputs.into_iter().filter(|name| seen.insert(*name)) {
            if let Err(finding) = self.fed(name) {
                self.findings.add(format!("the input {}", quoted(name)), finding);
            }
        }
    }

    fn fed(&mut self, name: &'p str) -> Outcome {
        let (_, var) = self.declaration(0, name)?;
        let ValueType::Tensor(tensor) = &var.value else {
            return Err("expected a tensor".into());
        };
        let symbol = |(axis, dim): (usize, &Dim)| match dim {
            // The rows of all sequences together are never fixed.
            _ if axis == 0 && tensor.lod_level > 0 => Dim::Symbol(Arc::from(format!("{name}.0"))),
            Dim::Unknown => Dim::Symbol(Arc::from(format!("{name}.{axis}"))),
            known => known.clone(),
        };
        let shape = tensor.shape.as_ref().map(|dims| dims.iter().enumerate().map(symbol));
        let value = self.input(name, TensorType::new(tensor.dtype, shape.map(Iterator::collect)));
        self.dialect.given.add(name);
        let given = self.dialect.options.lod.iter().filter(|(input, _)| input == name);
        let mut lod = Vec::new();
        for (_, offsets) in given {
            lod.push(self::offsets(&mut self.graph, offsets)?);
        }
        let open = if lod.is_empty() { 0..tensor.lod_level } else { 0..0 };
        for level in open {
            let level = self.graph.names.fresh(&format!("{name}.lod{level}"));
            let count = Dim::Symbol(Arc::from(format!("{level}.0")));
            lod.push(self.input(&level, TensorType::new(DType::Int64, Some(vec![count]))));
        }
        self.scope.bind(name, Bound::Tensor(value, lod));
        Ok(())
    }

    /// Returns the block that declares the variable which a name refers to in a block, and the declaration.
    ///
    /// # Errors
    /// If no block declares it.
    pub(super) fn declaration(&self, block: usize, name: &str) -> Outcome<(usize, &'p Var)> {
        let mut at = block;
        // The parents of blocks come before them: each step makes the index smaller.
        loop {
            if let Some(var) = self.dialect.vars.get(at).and_then(|vars| vars.get(name)) {
                return Ok((at, *var));
            }
            let parent = self.program.blocks.get(at).map(|block| block.parent);
            match parent.and_then(|parent| usize::try_from(parent).ok()) {
                Some(parent) if parent < at => at = parent,
                _ => return Err(format!("no block declares `{name}`").into()),
            }
        }
    }
}

/// Adds the offsets of a LoD level.
fn offsets(graph: &mut Graph, level: &[u64]) -> Outcome<Value> {
    let offsets = level.iter().map(|offset| exact(*offset)).collect::<Outcome<Vec<i64>>>()?;
    Ok(graph.longs(&offsets))
}

/// Returns a value with the rank that the program declares, if it is not inferred.
pub(super) fn ranked(var: &Var, value: &Value) -> Value {
    let rank = var.value.tensor_type().and_then(|declared| Some(declared.shape.as_ref()?.len()));
    match (value.value_type(), rank) {
        (ValueType::Tensor(tensor), Some(rank)) if tensor.shape.is_none() => {
            let shape = Some(vec![Dim::Unknown; rank]);
            Value::new(value.name(), ValueInfo::tensor(tensor.dtype, shape))
        }
        _ => value.clone(),
    }
}

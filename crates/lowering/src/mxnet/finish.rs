//! Writes the ONNX program as a model.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{Model, Op, Report, Var};
use lodstone_schema::mxnet::likely_parameters;
use lodstone_schema::onnx::quoted;
use lodstone_schema::{Code, Finding, Findings, Origin, Origins};

use super::node::Outcome;
use super::walk::{Bound, Walk};
use crate::onnx::{Value, blocks};

/// The problem of a parameter that the files do not hold.
const NO_VALUE: &str = "it has no value: parameters of the program were not found";

impl Walk<'_> {
    /// Returns the model and the origins of its values.
    ///
    /// # Errors
    /// All findings of the walk, and outputs that nothing computes.
    pub(super) fn finish(mut self, report: &mut Report) -> Result<(Model, Origins), Findings> {
        let names = self.program.blocks.first().map_or(&[][..], |main| &main.outputs);
        let mut outputs: Vec<Value> = Vec::new();
        for name in if self.findings.is_empty() { names } else { &[] } {
            match self.output(name, &outputs) {
                Ok(value) => {
                    if value.name() != name {
                        report.warn(format!(
                            "the output {} is named {}: an input or another output has its name",
                            quoted(name),
                            quoted(value.name())
                        ));
                    }
                    outputs.push(value);
                }
                Err(finding) => self.findings.add(format!("the output {}", quoted(name)), finding),
            }
        }
        if self.findings.is_empty() {
            self.check_values();
        }
        if !self.findings.is_empty() {
            return Err(self.findings);
        }
        self.assemble(outputs).map_err(|finding| {
            let mut findings = Findings::default();
            findings.add("the program", finding);
            findings
        })
    }

    /// Returns the value of an output, under a name that no other output has.
    fn output(&mut self, name: &str, others: &[Value]) -> Outcome {
        let value = match self.scope.get(name) {
            Some(Bound::Value(value)) => value.clone(),
            Some(Bound::Untrained) => return Err("it is not computed in inference".into()),
            _ => return Err("nothing computes it".into()),
        };
        self.graph.output(&value, name, others)
    }

    /// Reports inputs of unknown rank, which ONNX does not have, and parameters without a value that operators read.
    fn check_values(&mut self) {
        let likely = likely_parameters(self.program);
        let is_open = |var: &&Var| var.value.tensor_type().is_none_or(|it| it.shape.is_none());
        for var in self.inputs.iter().filter(is_open) {
            if likely.contains(&var.name) {
                let place = format!("the parameter {}", quoted(&var.name));
                self.findings.add(place, NO_VALUE);
                continue;
            }
            let what = format!("the rank of `{}` must be known", var.name);
            let place = format!("the input {}", quoted(&var.name));
            self.findings.push(Finding::new(Code::UnknownDims, what).at(place));
        }
        let inner = self.blocks.iter().flat_map(|block| &block.ops);
        let read = self.graph.ops.iter().chain(inner).flat_map(Op::reads);
        let read: HashSet<&str> = read.collect();
        let vars = self.program.blocks.first().map_or(&[][..], |main| &main.vars);
        let given = vars.iter().filter(|var| var.persistable && read.contains(var.name.as_str()));
        for var in given.filter(|var| !self.parameters.contains_key(var.name.as_str())) {
            let place = format!("the parameter {}", quoted(&var.name));
            self.findings.add(place, NO_VALUE);
        }
    }

    fn assemble(self, outputs: Vec<Value>) -> Result<(Model, Origins), Finding> {
        let origins = self.origins();
        let ends = (self.inputs, outputs.as_slice());
        let none = HashMap::new();
        let model =
            blocks::assembled(self.model, self.graph, ends, self.blocks, &self.parameters, &none)?;
        Ok((model, origins))
    }

    /// Returns the values of the result by the names of those of the program.
    fn origins(&self) -> Origins {
        let mut origins = Origins::default();
        for (name, bound) in &self.scope {
            if let Bound::Value(value) = bound {
                origins.insert(0, name, Origin::Value(Arc::from(value.name())));
            }
        }
        origins
    }
}

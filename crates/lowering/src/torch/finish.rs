//! Writes the ONNX program as a model.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{Model, Op, Report, Var};
use lodstone_schema::onnx::quoted;
use lodstone_schema::{Code, Finding, Findings, Origin, Origins};

use super::arguments::{Arguments, Item};
use super::node::{Node, Outcome};
use super::walk::{Bound, Walk};
use crate::onnx::{Value, blocks};

/// The ending of the output that holds the next value of a parameter, buffer or input.
const NEXT: &str = ".next";

/// The names of values that operators compute, and of outputs.
#[derive(Default)]
struct Taken {
    computed: HashSet<String>,
    outputs: HashSet<String>,
}

impl Taken {
    /// Returns whether a name belongs to what an operator has computed, which the program writes to later.
    fn is_intermediate(&self, name: &str) -> bool {
        self.computed.contains(name) && !self.outputs.contains(name)
    }
}

impl Walk<'_> {
    /// Returns the model and the origins of its values.
    ///
    /// # Errors
    /// All findings of the walk, and outputs that nothing computes.
    pub(super) fn finish(mut self, report: &mut Report) -> Result<(Model, Origins), Findings> {
        let names = self.program.blocks.first().map_or(&[][..], |main| &main.outputs);
        let mut outputs: Vec<Value> = Vec::new();
        let mut swapped = HashMap::new();
        let mut taken = Taken::default();
        let mut seen = 0;
        for name in if self.findings.is_empty() { names } else { &[] } {
            for op in self.graph.ops.iter().skip(seen) {
                taken.computed.extend(op.writes().map(str::to_owned));
            }
            seen = self.graph.ops.len();
            match self.output(name, &taken) {
                Ok(value) => {
                    let is_swapped = taken.is_intermediate(name) && !swapped.contains_key(name);
                    if value.name() != name && is_swapped {
                        swapped.insert(name.clone(), value.name().to_owned());
                        swapped.insert(value.name().to_owned(), name.clone());
                    } else if value.name() != name {
                        report.warn(format!(
                            "the output {} is named {}: an input, a parameter or another output has its name",
                            quoted(name),
                            quoted(value.name())
                        ));
                    }
                    taken.outputs.insert(value.name().to_owned());
                    outputs.push(value);
                }
                Err(finding) => self.findings.add(format!("the output {}", quoted(name)), finding),
            }
        }
        if self.findings.is_empty() {
            self.next_states(&mut outputs, report);
            self.check_values();
        }
        if !self.findings.is_empty() {
            return Err(self.findings);
        }
        self.assemble(outputs, &swapped).map_err(|finding| {
            let mut findings = Findings::default();
            findings.add("the program", finding);
            findings
        })
    }

    /// Returns the value of an output, under a name that no other value has.
    fn output(&mut self, name: &str, taken: &Taken) -> Outcome {
        self.graph.begin(name);
        let mut scope = std::mem::take(&mut self.scope);
        let item = self.item(name, &mut scope);
        self.scope = scope;
        let value = match item? {
            Some(Item::Tensor(value) | Item::Number(value)) => value,
            Some(item @ Item::Constant(_)) => {
                let number = item.number().ok_or("it is a constant that is no number")?;
                let op = Op::default();
                let mut node = Node::new(&mut self.graph, &op, Arguments::new(&op, Vec::new()));
                node.number_of(number.dtype(), number)?
            }
            _ => return Err("nothing computes it".into()),
        };
        if value.rank().is_err() {
            return Err(Finding::new(Code::UnknownDims, "its rank must be known"));
        }
        if value.name() == name && taken.is_intermediate(name) {
            return Ok(value);
        }
        let is_free = !taken.computed.contains(name)
            && !self.inputs.iter().any(|input| input.name == name)
            && !self.parameters.contains_key(name)
            && !taken.outputs.contains(name);
        let name = if is_free { name.to_owned() } else { self.graph.names.fresh(name) };
        self.graph.begin(&name);
        // A value that an operator of its own computes keeps it.
        let copied = self.graph.call("Identity", &[&value], [])?;
        self.graph.name(&copied, &name, &name)
    }

    /// Adds an output for each parameter, buffer and input that the program has written to.
    fn next_states(&mut self, outputs: &mut Vec<Value>, report: &mut Report) {
        let written: Vec<(String, Value)> = self
            .tensors
            .bases
            .iter()
            .filter(|base| base.version > 0)
            .filter_map(|base| Some((base.state.clone()?, base.value.clone())))
            .collect();
        for (state, value) in written {
            let name = self.graph.names.fresh(&format!("{state}{NEXT}"));
            self.graph.begin(&name);
            let copied = self.graph.call("Identity", &[&value], []);
            match copied.and_then(|copied| self.graph.name(&copied, &name, &name)) {
                Ok(value) => outputs.push(value),
                Err(finding) => self.findings.add(format!("the state {}", quoted(&state)), finding),
            }
            report.warn(format!(
                "the program writes to {}: the next value is the output {}",
                quoted(&state),
                quoted(&name)
            ));
        }
    }

    /// Reports inputs of unknown rank, which ONNX does not have, and parameters without a value that operators read.
    fn check_values(&mut self) {
        let is_open = |var: &&Var| var.value.tensor_type().is_none_or(|it| it.shape.is_none());
        for var in self.inputs.iter().filter(is_open) {
            let what = format!("the rank of `{}` must be known", var.name);
            let place = format!("the input {}", quoted(&var.name));
            self.findings.push(Finding::new(Code::UnknownDims, what).at(place));
        }
    }

    /// Returns the model, with names `swapped`.
    fn assemble(
        self,
        outputs: Vec<Value>,
        swapped: &HashMap<String, String>,
    ) -> Result<(Model, Origins), Finding> {
        let origins = self.origins(swapped);
        let ends = (self.inputs, outputs.as_slice());
        let model = blocks::assembled(
            self.model,
            self.graph,
            ends,
            self.blocks,
            &self.parameters,
            swapped,
        )?;
        Ok((model, origins))
    }

    /// Returns the values of the result by the names of those of the program.
    fn origins(&self, swapped: &HashMap<String, String>) -> Origins {
        let mut origins = Origins::default();
        for (name, bound) in &self.scope {
            let value = match bound {
                Bound::Tensor(reference) => &reference.value,
                Bound::Number(value) => value,
                _ => continue,
            };
            let value = swapped.get(value.name()).map_or(value.name(), String::as_str);
            origins.insert(0, name, Origin::Value(Arc::from(value)));
        }
        origins
    }
}

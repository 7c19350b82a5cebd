//! Writes the ONNX program as a model.

use std::collections::HashSet;

use lodstone_model::{Model, Report};
use lodstone_schema::onnx::quoted;
use lodstone_schema::{Findings, Origins};

use super::arguments::{Arguments, Item};
use super::node::{Node, no_complex};
use super::walk::{EMPTY, Walk};
use crate::frame::Step;
use crate::onnx::Value;

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
    pub(super) fn written(self, report: &mut Report) -> Result<(Model, Origins), Findings> {
        let mut taken = Taken::default();
        let mut seen = 0;
        let output = |walk: &mut Self, name: &str, _: &[Value]| {
            for op in walk.graph.ops.iter().skip(seen) {
                taken.computed.extend(op.writes().map(str::to_owned));
            }
            seen = walk.graph.ops.len();
            let value = walk.returned(name, &taken)?;
            let is_swapped = taken.is_intermediate(name) && !walk.swapped.contains_key(name);
            if value.name() != name && is_swapped {
                walk.swapped.insert(name.to_owned(), value.name().to_owned());
                walk.swapped.insert(value.name().to_owned(), name.to_owned());
            }
            taken.outputs.insert(value.name().to_owned());
            Ok((value, Vec::new()))
        };
        self.finish(report, output, Self::next_states)
    }

    /// Returns the value of an output, under a name that no other value has.
    fn returned(&mut self, name: &str, taken: &Taken) -> Step<Value> {
        self.graph.begin(name);
        let mut scope = std::mem::take(&mut self.scope);
        let item = self.item(name, &mut scope);
        self.scope = scope;
        let value = match item? {
            Item::Tensor(value) | Item::Number(value) => value,
            item @ Item::Constant(_) => {
                let number = item.number().ok_or("it is a constant that is no number")?;
                let mut node =
                    Node::new(&mut self.graph, &EMPTY, Arguments::new(&EMPTY, Vec::new()));
                node.number_of(number.dtype(), number)?
            }
            Item::Complex(_) => return Err(no_complex().into()),
            Item::Absent => return Err("it is `None`".into()),
        };
        value.rank()?;
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
        Ok(self.graph.name(&copied, &name, &name)?)
    }

    /// Adds an output for each parameter, buffer and input that the program has written to.
    fn next_states(&mut self, outputs: &mut Vec<Value>, report: &mut Report) {
        let written: Vec<(String, Value)> = self
            .dialect
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
}

//! Writes the ONNX program as a model.

use std::collections::HashSet;

use lodstone_model::{Block, Model, Op, Report};
use lodstone_schema::onnx::quoted;
use lodstone_schema::{Finding, Findings, Origins};

use super::scope::Bound;
use super::walk::Walk;
use crate::onnx::{Value, blocks};
use crate::paddle::operator::Outcome;

/// The outputs of the program.
#[derive(Default)]
struct Outputs {
    values: Vec<Value>,
    names: HashSet<String>,
    /// The names of all values that operators of the main block write.
    written: HashSet<String>,
}

impl Outputs {
    fn push(&mut self, value: Value) {
        self.names.insert(value.name().to_owned());
        self.values.push(value);
    }
}

impl Walk<'_> {
    /// Returns the model and the origins of its values.
    ///
    /// # Errors
    /// All findings of the walk, and outputs that hold nothing.
    pub(super) fn finish(mut self, report: &mut Report) -> Result<(Model, Origins), Findings> {
        let mut outputs = Outputs::default();
        if self.findings.is_empty() {
            self.fuse();
            let written = self.graph.ops.iter().flat_map(Op::writes);
            outputs.written = written.map(str::to_owned).collect();
            for name in self.outputs.clone() {
                if let Err(finding) = self.fetch(name, &mut outputs, report) {
                    self.findings.add(format!("the output {}", quoted(name)), finding);
                }
            }
        }
        if !self.findings.is_empty() {
            return Err(self.findings);
        }
        if !self.keeps.is_empty() {
            let kinds: Vec<String> = self.keeps.iter().map(|kind| quoted(kind)).collect();
            let kept = "operators were kept that no runtime has";
            report.warn(format!("{kept}: {}", kinds.join(", ")));
        }
        self.assemble(outputs.values).map_err(|finding| {
            let mut findings = Findings::default();
            findings.add("the program", finding);
            findings
        })
    }

    /// Adds an output, and one for each of its LoD levels that is not an input or a constant.
    fn fetch(&mut self, name: &str, outputs: &mut Outputs, report: &mut Report) -> Outcome {
        let key = self.scope.key(0, name)?;
        let (value, lod) = match self.scope.get(key) {
            Some(Bound::Tensor(value, lod)) => (value.clone(), lod.clone()),
            Some(_) => return Err("only tensors can be outputs of an ONNX program".into()),
            None => return Err("no operator writes it".into()),
        };
        let value = self.ranked(key, &value);
        if value.value_type().tensor_type().is_some_and(|tensor| tensor.shape.is_none()) {
            return Err("rank must be known".into());
        }
        let named = self.output_value(&value, name, outputs)?;
        if named.name() != name {
            report.warn(format!(
                "the output {} is named {}: an input or another output has its name",
                quoted(name),
                quoted(named.name())
            ));
        }
        outputs.push(named);
        for (level, offsets) in lod.iter().enumerate() {
            if outputs.written.contains(offsets.name()) {
                let name = self.graph.names.fresh(&format!("{name}.lod{level}"));
                let named = self.output_value(offsets, &name, outputs)?;
                outputs.push(named);
            }
        }
        Ok(())
    }

    /// Returns a value under the name of an output, which no other value may have.
    fn output_value(&mut self, value: &Value, name: &str, outputs: &mut Outputs) -> Outcome<Value> {
        // An output before this one may have given the value its name.
        let renamed = self.renamed.get(value.name());
        let value = &renamed.map_or(value.clone(), |name| Value::new(name, value.info().clone()));
        let is_written = outputs.written.contains(value.name());
        if value.name() == name && is_written && !outputs.names.contains(name) {
            return Ok(value.clone());
        }
        let is_taken = self.given.has(name) || outputs.names.contains(name);
        let name = if is_taken { self.graph.names.fresh(name) } else { name.to_owned() };
        let is_output =
            self.outputs.contains(&value.name()) || outputs.names.contains(value.name());
        outputs.written.insert(name.clone());
        if is_written && !is_output {
            self.rename(value.name(), &name);
            outputs.written.remove(value.name());
            return Ok(Value::new(&name, value.info().clone()));
        }
        self.graph.begin("fetch");
        self.graph.name(value, &name, &name)
    }

    /// Renames a value wherever operators name it.
    fn rename(&mut self, from: &str, to: &str) {
        let inner = self.blocks.iter_mut().flat_map(|block| &mut block.ops);
        for op in self.graph.ops.iter_mut().chain(inner) {
            let operands = op.inputs.iter_mut().chain(&mut op.outputs);
            let args = operands.flat_map(|operand| &mut operand.args);
            args.filter(|arg| *arg == from).for_each(|arg| to.clone_into(arg));
        }
        self.renamed.insert(from.to_owned(), to.to_owned());
    }

    fn assemble(self, outputs: Vec<Value>) -> Result<(Model, Origins), Finding> {
        let origins = self.origins(&self.renamed);
        let main = Block {
            parent: -1,
            name: "main".to_owned(),
            inputs: self.inputs.iter().map(|var| var.name.clone()).collect(),
            outputs: outputs.iter().map(|value| value.name().to_owned()).collect(),
            vars: self.inputs.into_iter().chain(outputs.iter().map(blocks::declared)).collect(),
            ops: self.graph.ops,
            ..Block::default()
        };
        let ordered = blocks::ordered(main, self.blocks)?;
        let read: HashSet<&str> =
            ordered.iter().flat_map(|block| &block.ops).flat_map(Op::reads).collect();
        let kept = self.model.parameters.iter().filter(|it| read.contains(it.name.as_str()));
        let made = self.graph.constants.into_iter().filter(|it| read.contains(it.name.as_str()));
        let mut parameters: Vec<_> = kept.cloned().chain(made).collect();
        // LoD enters the program as values of its own.
        parameters.iter_mut().for_each(|parameter| parameter.tensor.lod = Default::default());
        let domain = self.options.custom_domain.as_ref().filter(|_| !self.keeps.is_empty());
        let domain = domain.map(|domain| (domain.clone(), 1));
        let model = Model {
            format: self.model.format.clone(),
            programs: blocks::program(ordered, domain)?.into(),
            parameters,
            structured_names: self.model.structured_names.clone(),
            files: self.model.files.clone(),
            checksums: self.model.checksums.clone(),
            ..Model::default()
        };
        Ok((model, origins))
    }
}

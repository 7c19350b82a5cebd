//! Writes the ONNX program as a model.

use std::collections::{HashMap, HashSet};

use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, Dialect, Loss, Model, Op, Program, Report,
    Topology,
};
use lodstone_schema::Finding;
use lodstone_schema::glow::SAVE;
use lodstone_schema::{Origin, Origins};

use super::{DOMAIN, Work};
use crate::glow::kinds::record;

/// The producer name; Glow's own name would make its reader expect Glow's operators.
const PRODUCER: &str = "lodstone";

impl Work<'_> {
    /// Returns the model and the origins of its values. Losses are added to the report.
    ///
    /// # Errors
    /// An internal error if no release of ONNX has the emitted operators.
    pub(super) fn finish(mut self, report: &mut Report) -> Result<(Model, Origins), Finding> {
        let metadata = self.model.metadata.iter().filter(|(key, _)| {
            let is_partition = *key == "numPartitions" || key.starts_with("partition_");
            if is_partition {
                self.losses.entry(Loss::Hints).or_default().push(format!("`{key}`"));
            }
            !is_partition
        });
        let mut metadata = metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
        record(&mut metadata, &self.kinds);
        for (loss, places) in self.losses {
            places.into_iter().for_each(|place| report.lose(loss, place));
        }
        let (opset, ir_version) = self.graph.versions()?;
        let outputs = &self.main.outputs;
        let (ops, renamed) = unsaved(self.graph.ops, outputs);
        let read: HashSet<&str> =
            ops.iter().flat_map(Op::reads).chain(outputs.iter().map(String::as_str)).collect();
        let was_read: HashSet<&str> = self.main.ops.iter().flat_map(Op::reads).collect();
        let is_needed = |name: &str| read.contains(name) || !was_read.contains(name);
        let kept = self.model.parameters.iter().filter(|p| is_needed(&p.name)).cloned();
        let made = self.graph.constants.into_iter().filter(|p| read.contains(p.name.as_str()));
        let parameters: Vec<_> = kept.chain(made).collect();
        // Variables of removed constants and values are removed.
        let names: HashSet<&str> = (parameters.iter().map(|p| p.name.as_str()))
            .chain(ops.iter().flat_map(Op::writes))
            .chain(self.main.inputs.iter().map(String::as_str))
            .collect();
        self.vars.retain(|var| names.contains(var.name.as_str()));
        let mut origins = Origins::default();
        for (name, given) in &self.values {
            let value = renamed.get(given.value.name()).map_or(given.value.name(), String::as_str);
            origins.insert(0, name, Origin::Value(value.into()));
        }
        origins.retain(|name| names.contains(name));
        let text = |value: &str| AttributeValue::String(ByteString::from(value));
        let producer = Attribute { name: "producer_name".to_owned(), value: text(PRODUCER) };
        let mut operator_versions = vec![(String::new(), opset)];
        operator_versions.extend(self.keeps.then(|| (DOMAIN.to_owned(), 1)));
        let main = Block {
            vars: self.vars,
            inputs: self.main.inputs.clone(),
            outputs: self.main.outputs.clone(),
            name: self.main.name.clone(),
            parent: self.main.parent,
            ops,
            ..Block::default()
        };
        let program = Program::from(Topology {
            version: Some(ir_version),
            operator_versions,
            attributes: vec![producer],
            blocks: vec![main],
            ..Topology::new(Dialect::Onnx)
        });
        let model = Model {
            format: self.model.format.clone(),
            programs: program.into(),
            parameters,
            metadata,
            files: self.model.files.clone(),
            checksums: self.model.checksums.clone(),
            ..Model::default()
        };
        Ok((model, origins))
    }
}

/// Removes copies that only give a value the name of an output: the operator that computes it can write that name.
/// Returns the renamed values.
fn unsaved(ops: Vec<Op>, outputs: &[String]) -> (Vec<Op>, HashMap<String, String>) {
    let outputs: HashSet<&str> = outputs.iter().map(String::as_str).collect();
    let written: HashSet<&str> = ops.iter().flat_map(Op::writes).collect();
    let mut names: HashMap<String, String> = HashMap::new();
    let mut gone = HashSet::new();
    for (number, op) in ops.iter().enumerate() {
        let (Some(from), Some(to)) = (op.input("").first(), op.output("").first()) else {
            continue;
        };
        let is_save = op.kind == SAVE && op.domain.is_empty() && outputs.contains(to.as_str());
        let is_free = written.contains(from.as_str())
            && !outputs.contains(from.as_str())
            && !names.contains_key(from);
        if is_save && is_free {
            names.insert(from.clone(), to.clone());
            gone.insert(number);
        }
    }
    let kept = ops.iter().enumerate().filter(|(number, _)| !gone.contains(number));
    let mut kept: Vec<Op> = kept.map(|(_, op)| op.clone()).collect();
    for op in &mut kept {
        let operands = op.inputs.iter_mut().chain(&mut op.outputs);
        for name in operands.flat_map(|operand| &mut operand.args) {
            if let Some(new) = names.get(name) {
                name.clone_from(new);
            }
        }
    }
    (kept, names)
}

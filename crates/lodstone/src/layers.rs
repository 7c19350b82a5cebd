//! The number and size of the parameters of a model, by layer.

use std::collections::{BTreeMap, HashMap};

use lodstone_model::{Model, Op, Parameter};
use lodstone_schema::{conventions, weights};
use serde::Serialize;

use crate::numbers::element_count;

/// Parameters by layer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Layers {
    /// The version of this structure.
    pub schema: u32,
    /// The total of all parameters.
    pub total: Layer,
    /// The parameters by the first operator that reads them, in program order; those that no operator reads are last,
    /// without a name. Empty if there is no program.
    pub operators: Vec<Layer>,
    /// The parameters by name prefix, each including all longer prefixes, in the order of names.
    pub prefixes: Vec<Layer>,
}

/// A group of parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// The name: that of an operator, or a prefix of names (`encoder.layer.3`).
    pub name: String,
    /// The operator kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The number of tensors.
    pub tensors: usize,
    /// The number of elements.
    pub elements: u64,
    /// The size in bytes.
    pub nbytes: u64,
}

impl Layer {
    fn add(&mut self, parameter: &Parameter) {
        self.tensors += 1;
        self.elements = self.elements.saturating_add(element_count(&parameter.tensor.shape));
        self.nbytes = self.nbytes.saturating_add(parameter.tensor.nbytes());
    }
}

/// Counts the parameters of a model by layer.
pub fn layers(model: &Model) -> Layers {
    let mut layers = Layers { schema: 1, ..Layers::default() };
    let weights = weights(model);
    weights.iter().for_each(|parameter| layers.total.add(parameter));
    layers.operators = operators(model, &weights);
    layers.prefixes = prefixes(&weights);
    layers
}

fn operators(model: &Model, weights: &[Parameter]) -> Vec<Layer> {
    let Some(program) = model.main() else { return Vec::new() };
    let variable_of = conventions(program).variable_of;
    let mut readers: HashMap<&str, usize> = HashMap::new();
    let ops: Vec<&Op> = program.ops().collect();
    for (number, op) in ops.iter().enumerate() {
        for name in op.reads() {
            let _ = readers.entry(name).or_insert(number);
        }
    }
    let mut layers: BTreeMap<usize, Layer> = BTreeMap::new();
    for parameter in weights {
        let reader = readers.get(variable_of(&parameter.name)).copied().unwrap_or(usize::MAX);
        let layer = layers.entry(reader).or_insert_with(|| {
            let Some(op) = ops.get(reader) else { return Layer::default() };
            let written = || op.writes().next().unwrap_or_default();
            let name = if op.name.is_empty() { written() } else { &op.name };
            Layer { name: name.to_owned(), kind: op.kind.clone(), ..Layer::default() }
        });
        layer.add(parameter);
    }
    layers.into_values().collect()
}

/// The separators of name components.
const DIVIDERS: [char; 2] = ['.', '/'];

/// The maximum depth of name prefixes.
const MAX_DEPTH: usize = 8;

fn prefixes(weights: &[Parameter]) -> Vec<Layer> {
    let mut layers: BTreeMap<&str, Layer> = BTreeMap::new();
    for parameter in weights {
        for (end, _) in parameter.name.match_indices(DIVIDERS).take(MAX_DEPTH) {
            let prefix = parameter.name.get(..end).unwrap_or_default();
            if !prefix.is_empty() {
                let named = || Layer { name: prefix.to_owned(), ..Layer::default() };
                layers.entry(prefix).or_insert_with(named).add(parameter);
            }
        }
    }
    layers.into_values().collect()
}

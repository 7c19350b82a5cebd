//! Running programs that declare no types of their inputs: they are lowered for the types of the values of each run.

use lodstone_model::{DType, Dim, Model, TensorType, ValueType};
use lodstone_store::Progress;

use super::engine;
use super::{Output, RunOptions, Runner, Value};
use crate::Result;

/// The element type and the shape of each input, by name.
type Types = Vec<(String, DType, Vec<u64>)>;

/// The number of types for which a program stays prepared.
const MAX_PREPARED: usize = 4;

struct Shaped {
    model: Model,
    options: RunOptions,
    /// The last types, the most recent ones last.
    prepared: Vec<(Types, Box<dyn Runner>)>,
}

/// Prepares a program. One without inputs, or whose inputs are all declared, is lowered at once.
///
/// # Errors
/// Those of [`engine::prepare`].
pub(crate) fn prepare(model: &Model, options: &RunOptions) -> Result<Box<dyn Runner>> {
    let main = model.main().and_then(|program| program.blocks.first());
    let fed = main.into_iter().flat_map(|main| &main.vars).filter(|var| !var.persistable);
    let is_known = |dim: &Dim| matches!(dim, Dim::Known(_));
    let is_declared = |value: &ValueType| {
        let shape = value.tensor_type().and_then(|of| of.shape.as_ref());
        shape.is_some_and(|shape| shape.iter().all(is_known))
    };
    if fed.map(|var| &var.value).all(is_declared) {
        return engine::prepare(model, options);
    }
    let (model, options) = (model.clone(), options.clone());
    Ok(Box::new(Shaped { model, options, prepared: Vec::new() }))
}

impl Runner for Shaped {
    fn run(&mut self, inputs: Vec<(String, Value)>, progress: &Progress) -> Result<Vec<Output>> {
        let types: Types = inputs
            .iter()
            .filter_map(|(name, value)| match value {
                Value::Tensor(tensor) => Some((name.clone(), tensor.dtype, tensor.shape.clone())),
                _ => None,
            })
            .collect();
        let known = self.prepared.iter().position(|(known, _)| *known == types);
        let (types, mut runner) = match known {
            Some(index) => self.prepared.remove(index),
            None => {
                let runner = self.prepared_for(&types)?;
                (types, runner)
            }
        };
        let outputs = runner.run(inputs, progress);
        if self.prepared.len() >= MAX_PREPARED {
            self.prepared.remove(0);
        }
        self.prepared.push((types, runner));
        outputs
    }
}

impl Shaped {
    fn prepared_for(&self, types: &Types) -> Result<Box<dyn Runner>> {
        let mut model = self.model.clone();
        let main = model.programs.main_mut().and_then(|program| program.blocks.first_mut());
        for var in main.into_iter().flat_map(|main| &mut main.vars) {
            if let Some((_, dtype, shape)) = types.iter().find(|(name, ..)| *name == var.name) {
                let dims = shape.iter().map(|dim| Dim::Known(*dim)).collect();
                var.value = ValueType::tensor(TensorType::new(*dtype, Some(dims)));
            }
        }
        engine::prepare(&model, &self.options)
    }
}

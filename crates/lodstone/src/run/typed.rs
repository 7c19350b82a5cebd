//! Running programs that are lowered for the types of the inputs of each run, since their operators depend on them.

use std::collections::VecDeque;

use lodstone_model::{DType, Dim, Model, TensorType};
use lodstone_store::Progress;

use super::{Output, RunOptions, Runner, Value, engine, required_inputs};
use crate::{Error, Result};

/// The maximum number of prepared programs that are kept, each for other types of inputs.
const MAX_KEPT: usize = 4;

/// The types of inputs: names, element types and dims.
type Types = Vec<(String, DType, Vec<u64>)>;

struct Typed {
    model: Model,
    options: RunOptions,
    /// The names of the inputs.
    inputs: Vec<String>,
    /// The last prepared programs, the latest first.
    prepared: VecDeque<(Types, Box<dyn Runner>)>,
}

/// Prepares a program whose operators are lowered when the types of its inputs are known.
pub(crate) fn prepare(model: &Model, options: &RunOptions) -> Result<Box<dyn Runner>> {
    let (mut inputs, optional) = required_inputs(model)?;
    inputs.extend(optional);
    if inputs.is_empty() {
        return engine::prepare(model, options);
    }
    let (model, options) = (model.clone(), options.clone());
    Ok(Box::new(Typed { model, options, inputs, prepared: VecDeque::new() }))
}

impl Typed {
    /// Returns the inputs of the program among `inputs`. Other variables of the program, such as labels, are not read.
    fn own(&self, inputs: Vec<(String, Value)>) -> Result<Vec<(String, Value)>> {
        let main = self.model.main().and_then(|program| program.blocks.first());
        let vars = main.map_or(&[][..], |main| &main.vars);
        let is_free = |name: &str| vars.iter().any(|var| var.name == name && !var.persistable);
        let mut own = Vec::new();
        for (name, value) in inputs {
            match () {
                () if self.inputs.contains(&name) => own.push((name, value)),
                () if is_free(&name) => {}
                () => return Err(Error::Absent(format!("there is no input `{name}`"))),
            }
        }
        Ok(own)
    }

    /// Returns the program, prepared for inputs of these types.
    fn prepared(&mut self, types: Types) -> Result<&mut Box<dyn Runner>> {
        match self.prepared.iter().position(|(known, _)| *known == types) {
            Some(place) => {
                let known = self.prepared.remove(place);
                self.prepared.extend(known);
            }
            None => {
                let model = declared(&self.model, &types)?;
                let runner = engine::prepare(&model, &self.options)?;
                self.prepared.push_back((types, runner));
            }
        }
        if self.prepared.len() > MAX_KEPT {
            self.prepared.pop_front();
        }
        let last = self.prepared.back_mut().map(|(_, runner)| runner);
        last.ok_or_else(|| Error::Absent("no program was prepared".to_owned()))
    }
}

/// Returns the model with the types of its inputs declared.
fn declared(model: &Model, types: &Types) -> Result<Model> {
    let mut model = model.clone();
    let main = model.programs.main_mut().and_then(|program| program.blocks.first_mut());
    for var in main.into_iter().flat_map(|main| &mut main.vars) {
        let Some((name, dtype, dims)) = types.iter().find(|(name, ..)| *name == var.name) else {
            continue;
        };
        if let Some(tensor) = var.value.tensor_type()
            && tensor.shape.is_some()
            && !tensor.admits(dims)
        {
            let what = format!("the input `{name}` is declared as {tensor}, not {dims:?}");
            return Err(Error::Absent(what));
        }
        let dims = dims.iter().map(|dim| Dim::Known(*dim)).collect();
        var.value = TensorType::new(*dtype, Some(dims)).into();
    }
    Ok(model)
}

impl Runner for Typed {
    fn run(&mut self, inputs: Vec<(String, Value)>, progress: &Progress) -> Result<Vec<Output>> {
        let inputs = self.own(inputs)?;
        let mut types = Types::new();
        for (name, value) in &inputs {
            let Value::Tensor(tensor) = value else {
                return Err(Error::Absent(format!("the input `{name}` must be a tensor")));
            };
            types.push((name.clone(), tensor.dtype, tensor.shape.clone()));
        }
        types.sort_by(|a, b| a.0.cmp(&b.0));
        self.prepared(types)?.run(inputs, progress)
    }
}

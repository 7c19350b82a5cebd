//! Running programs that are lowered for the types of the inputs of each run, since their operators depend on them.
//!
//! Exports use the declared types, of which some dims may be unknown.

use std::collections::VecDeque;

use lodstone_model::{AttributeValue, DType, Dim, Element, Model, Tensor, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_store::Progress;

use super::{Output, RunOptions, Runner, Value, engine, inputs_of};
use crate::shapes::fix_inputs;
use crate::{Error, Result};

/// The maximum number of prepared programs that are kept, each for other types of inputs.
const MAX_KEPT: usize = 4;

/// The types of inputs: names, element types and dims.
pub(super) type Types = Vec<(String, DType, Vec<u64>)>;

/// Inputs that are numbers, with their values.
type Numbers = Vec<(String, AttributeValue)>;

/// A program that was prepared for some inputs.
struct Prepared {
    types: Types,
    /// The numbers that it was prepared for; empty if it takes any.
    fixed: Numbers,
    runner: Box<dyn Runner>,
}

struct Typed {
    model: Model,
    options: RunOptions,
    /// The names of the inputs.
    inputs: Vec<String>,
    /// The last prepared programs, the latest last.
    prepared: VecDeque<Prepared>,
}

/// Prepares a program whose operators are lowered when the types of its inputs are known.
pub(crate) fn prepare(model: &Model, options: &RunOptions) -> Result<Box<dyn Runner>> {
    let (inputs, _) = inputs_of(model)?;
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
                () => return Err(Error::no_input(&name, self.inputs.iter().map(String::as_str))),
            }
        }
        Ok(own)
    }

    /// Returns the values of the inputs that are declared as numbers.
    fn numbers(&self, inputs: &[(String, Value)]) -> Result<Numbers> {
        let main = self.model.main().and_then(|program| program.blocks.first());
        let vars = main.map_or(&[][..], |main| &main.vars);
        let mut numbers = Numbers::new();
        for (name, value) in inputs {
            let declared = vars.iter().find(|var| var.name == *name).map(|var| &var.value);
            if let (Some(ValueType::Scalar(dtype)), Value::Tensor(tensor)) = (declared, value) {
                numbers.push((name.clone(), number(name, *dtype, tensor)?));
            }
        }
        Ok(numbers)
    }

    /// Returns the program, prepared for inputs of these types. One that cannot be lowered for any numbers is prepared for
    /// the given ones.
    fn prepared(&mut self, types: Types, numbers: Numbers) -> Result<&mut Prepared> {
        let fits = |known: &Prepared| {
            known.types == types && (known.fixed.is_empty() || known.fixed == numbers)
        };
        match self.prepared.iter().position(fits) {
            Some(place) => {
                let known = self.prepared.remove(place);
                self.prepared.extend(known);
            }
            None => {
                let mut model = declared(&self.model, &types)?;
                let prepared = match engine::prepare(&model, &self.options) {
                    Err(_) if !numbers.is_empty() => {
                        fix_inputs(&mut model, &numbers)?;
                        let runner = engine::prepare(&model, &self.options)?;
                        Prepared { types, fixed: numbers, runner }
                    }
                    runner => Prepared { types, fixed: Numbers::new(), runner: runner? },
                };
                self.prepared.push_back(prepared);
            }
        }
        if self.prepared.len() > MAX_KEPT {
            self.prepared.pop_front();
        }
        let last = self.prepared.back_mut();
        last.ok_or_else(|| Error::Internal(Finding::internal("no program was prepared")))
    }
}

/// Returns the element of a scalar of this type.
fn only<T: Element + Copy>(tensor: &Tensor) -> Option<T> {
    tensor.to_vec().ok()?.first().copied()
}

/// Returns the value of an input that is declared as a number.
fn number(name: &str, dtype: DType, tensor: &Tensor) -> Result<AttributeValue> {
    let wrong = || {
        let found = TensorType::new(
            tensor.dtype,
            Some(tensor.shape.iter().map(|dim| Dim::Known(*dim)).collect()),
        );
        let why = format!("expected a number of {dtype}, found {found}");
        Error::InvalidInput { name: name.to_owned(), why }
    };
    if !tensor.shape.is_empty() || tensor.dtype != dtype {
        return Err(wrong());
    }
    let value = match dtype {
        DType::Bool => only(tensor).map(AttributeValue::Bool),
        DType::Int64 => only(tensor).map(AttributeValue::Long),
        DType::Float32 => only(tensor).map(|value: f32| AttributeValue::Double(value.into())),
        _ => only(tensor).map(AttributeValue::Double),
    };
    value.ok_or_else(wrong)
}

/// Returns the model with the types of its inputs declared.
pub(super) fn declared(model: &Model, types: &Types) -> Result<Model> {
    let mut model = model.clone();
    let main = model.programs.main_mut().and_then(|program| program.blocks.first_mut());
    for var in main.into_iter().flat_map(|main| &mut main.vars) {
        let Some((name, dtype, dims)) = types.iter().find(|(name, ..)| *name == var.name) else {
            continue;
        };
        if matches!(var.value, ValueType::Scalar(_)) {
            continue;
        }
        if let Some(tensor) = var.value.tensor_type()
            && tensor.shape.is_some()
            && !tensor.admits(dims)
        {
            let why = format!("expected {tensor}, found dims {dims:?}");
            return Err(Error::InvalidInput { name: name.clone(), why });
        }
        let dims = dims.iter().map(|dim| Dim::Known(*dim)).collect();
        var.value = TensorType::new(*dtype, Some(dims)).into();
    }
    Ok(model)
}

impl Runner for Typed {
    fn run(&mut self, inputs: Vec<(String, Value)>, progress: &Progress) -> Result<Vec<Output>> {
        let mut inputs = self.own(inputs)?;
        let numbers = self.numbers(&inputs)?;
        let mut types = Types::new();
        for (name, value) in &inputs {
            let tensor = value.tensor().map_err(|finding| Error::input(name, finding))?;
            types.push((name.clone(), tensor.dtype, tensor.shape.clone()));
        }
        types.sort_by(|a, b| a.0.cmp(&b.0));
        let prepared = self.prepared(types, numbers)?;
        inputs.retain(|(name, _)| !prepared.fixed.iter().any(|(fixed, _)| fixed == name));
        prepared.runner.run(inputs, progress)
    }

    fn outputs(&self) -> Vec<String> {
        match self.options.fetch.as_slice() {
            [] => engine::outputs(&self.model),
            names => names.to_vec(),
        }
    }
}

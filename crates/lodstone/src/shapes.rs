//! Fixing the dynamic dims of inputs, and inputs that are numbers.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::{AttributeValue, Block, DType, Dim, Model, TensorType, ValueType};
use lodstone_schema::conventions;

use crate::{Error, Result};

/// The symbol that exporters write for dims without a known symbol: dims with this symbol need not be equal.
const ANONYMOUS: &str = "?";

/// Makes inputs of the main program constants: those that are declared as an integer, a fraction or a truth value, such as
/// `rate: int`. What depends on them, such as a branch, is then decided when the program is translated.
///
/// # Errors
/// If an input does not exist, is no number, or has another type; then nothing is changed.
pub fn fix_inputs(model: &mut Model, values: &[(String, AttributeValue)]) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let inputs = inputs_of(model);
    main_of(model, "input_values", "values")?;
    if let Some((name, _)) = values.iter().find(|(name, _)| !inputs.contains(name)) {
        return Err(Error::no_input(name, inputs.iter().map(String::as_str)));
    }
    lodstone_lowering::fix_inputs(model, values)
        .map_err(|(name, finding)| Error::input(name, finding))
}

/// Declares the element types of inputs of a program that does not declare them.
///
/// # Errors
/// If an input does not exist, or has another type; then nothing is changed.
pub fn fix_types(model: &mut Model, types: &[(String, DType)]) -> Result<()> {
    if types.is_empty() {
        return Ok(());
    }
    let inputs = inputs_of(model);
    let main = main_of(model, "input_types", "types")?;
    for (number, (name, dtype)) in types.iter().enumerate() {
        let tensor = declared_input(main, &inputs, name)?;
        if tensor.dtype != DType::Unspecified && tensor.dtype != *dtype {
            return Err(wrong(name, format!("expected {tensor}, found {dtype}")));
        }
        if types.iter().take(number).any(|(known, other)| known == name && other != dtype) {
            return Err(wrong(name, "it is given two different types"));
        }
    }
    for var in &mut main.vars {
        let dtype = types.iter().find(|(name, _)| *name == var.name);
        if let (ValueType::Tensor(tensor), Some((_, dtype))) = (&mut var.value, dtype) {
            tensor.dtype = *dtype;
        }
    }
    Ok(())
}

/// Returns the inputs of the main program that are fed.
fn inputs_of(model: &Model) -> Vec<String> {
    let is_fed = |name: &&str| !model.parameters.iter().any(|parameter| parameter.name == **name);
    let inputs = model.main().map(|program| (conventions(program).interface)(program).inputs);
    inputs.unwrap_or_default().into_iter().filter(is_fed).map(str::to_owned).collect()
}

fn main_of<'m>(model: &'m mut Model, option: &'static str, what: &str) -> Result<&'m mut Block> {
    let main = model.programs.main_mut().and_then(|program| program.blocks.first_mut());
    let why = || format!("cannot fix input {what}: the model has no program");
    main.ok_or_else(|| Error::InvalidOption { option, why: why() })
}

fn wrong(name: &str, why: impl Into<String>) -> Error {
    Error::InvalidInput { name: name.to_owned(), why: why.into() }
}

/// Returns the declared type of an input that is a tensor.
fn declared_input<'b>(main: &'b Block, inputs: &[String], name: &str) -> Result<&'b TensorType> {
    if !inputs.iter().any(|input| input == name) {
        return Err(Error::no_input(name, inputs.iter().map(String::as_str)));
    }
    match main.vars.iter().find(|var| var.name == name).map(|var| &var.value) {
        Some(ValueType::Tensor(tensor)) => Ok(tensor),
        _ => Err(wrong(name, "it is not declared to be a tensor")),
    }
}

/// Declares the shapes of inputs of a program. A symbol that gets a value is replaced wherever the main graph declares it;
/// a dim that is given as unknown stays dynamic.
///
/// # Errors
/// If an input does not exist, a shape contradicts its declaration, or a fixed dim is given as unknown; then nothing is changed.
pub fn fix_shapes(model: &mut Model, shapes: &[(String, Vec<Dim>)]) -> Result<()> {
    if shapes.is_empty() {
        return Ok(());
    }
    let inputs = inputs_of(model);
    let main = main_of(model, "input_shapes", "shapes")?;
    let mut symbols: HashMap<Arc<str>, (u64, &str)> = HashMap::new();
    let mut declared: HashMap<&str, Vec<Dim>> = HashMap::new();
    for (name, shape) in shapes {
        let tensor = declared_input(main, &inputs, name)?;
        let contradicts = || {
            let given = TensorType::new(tensor.dtype, Some(shape.clone()));
            wrong(name, format!("expected {tensor}, found {given}"))
        };
        let dims = tensor.shape.as_deref().unwrap_or_default();
        if tensor.shape.is_some() && dims.len() != shape.len() {
            return Err(contradicts());
        }
        for (axis, (dim, given)) in dims.iter().zip(shape).enumerate() {
            match (symbol(dim), dim, given) {
                (_, Dim::Known(size), Dim::Unknown) => {
                    let why = format!(
                        "it is declared as {tensor}: dim {axis} is fixed to {size}, and `?` does not make it dynamic"
                    );
                    return Err(wrong(name, why));
                }
                (Some(symbol), _, Dim::Known(value)) => {
                    let (known, input) =
                        *symbols.entry(Arc::clone(symbol)).or_insert((*value, name));
                    if known != *value {
                        let why = format!(
                            "two values for the symbol `{symbol}`: {known} (input `{input}`) and {value} \
                             (input `{name}`)"
                        );
                        return Err(wrong(name, why));
                    }
                }
                (_, Dim::Known(_), Dim::Known(_))
                | (_, Dim::Known(_) | Dim::Symbol(_), Dim::Symbol(_))
                    if dim != given =>
                {
                    return Err(contradicts());
                }
                _ => {}
            }
        }
        let made = match tensor.shape {
            Some(_) => dims.iter().zip(shape).map(|(dim, given)| chosen(dim, given)).collect(),
            None => shape.clone(),
        };
        if declared.get(name.as_str()).is_some_and(|before| *before != made) {
            return Err(wrong(name, "it is given two different shapes"));
        }
        declared.insert(name, made);
    }
    for var in &mut main.vars {
        let shape = declared.get(var.name.as_str());
        if let (ValueType::Tensor(tensor), Some(shape)) = (&mut var.value, shape) {
            // Frameworks without declared types leave the element type open.
            tensor.shape = Some(shape.clone());
        }
        for tensor in var.value.tensors_mut() {
            fix(tensor, shape.cloned(), &symbols);
        }
    }
    Ok(())
}

/// Returns a declared dim, or what is given in its place.
fn chosen(dim: &Dim, given: &Dim) -> Dim {
    match given {
        Dim::Unknown => dim.clone(),
        given => given.clone(),
    }
}

/// Returns the symbol that a dim shares with others.
fn symbol(dim: &Dim) -> Option<&Arc<str>> {
    match dim {
        Dim::Symbol(symbol) => Some(symbol).filter(|symbol| &***symbol != ANONYMOUS),
        _ => None,
    }
}

fn fix(tensor: &mut TensorType, shape: Option<Vec<Dim>>, symbols: &HashMap<Arc<str>, (u64, &str)>) {
    if shape.is_some() {
        tensor.shape = shape;
    }
    for dim in tensor.shape.iter_mut().flatten() {
        if let Some((value, _)) = symbol(dim).and_then(|symbol| symbols.get(symbol)) {
            *dim = Dim::Known(*value);
        }
    }
}

//! A node test: a model whose parameters are its inputs and its expected outputs.

use std::collections::BTreeMap;

use lodstone_engine::{
    Budget, Context, Dense, Error, Executable, ExecutableOptions, Mode, Threads, Value,
};
use lodstone_model::{DType, Model, Parameter, Program, Tensor};
use lodstone_schema::Finding;

/// The configuration of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) mode: Mode,
    /// Whether the inputs are constants of the program.
    pub(crate) constants: bool,
}

pub(crate) const WAYS: [Way; 4] = [
    Way { mode: Mode::Fast, constants: false },
    Way { mode: Mode::Reference, constants: false },
    Way { mode: Mode::Fast, constants: true },
    Way { mode: Mode::Reference, constants: true },
];

pub(crate) fn finding(error: Error) -> Finding {
    match error {
        Error::Op(error) => error.finding,
        Error::Program(finding) => finding,
        other => other.to_string().into(),
    }
}

/// The memory budget: hostile cases ask for more.
pub(crate) const MEMORY: u64 = 64 << 20;

/// A value with its name.
pub(crate) type Named = (String, Value);

/// Runs a program on named values; returns the outputs that its first block names.
pub(crate) fn run_program(
    program: Program,
    values: Vec<Named>,
    way: Way,
) -> Result<Vec<Value>, Finding> {
    let (mut parameters, mut inputs) = (Vec::new(), Vec::new());
    for (name, value) in values {
        match value.tensor() {
            Ok(tensor) if way.constants => parameters.push(Parameter { name, tensor }),
            _ => inputs.push((name, value)),
        }
    }
    run_with(parameters, program, inputs, way.mode)
}

/// Runs a program with constants on inputs.
pub(crate) fn run_with(
    parameters: Vec<Parameter>,
    mut program: Program,
    inputs: Vec<Named>,
    mode: Mode,
) -> Result<Vec<Value>, Finding> {
    let block = program.blocks.first_mut().ok_or("there is no graph")?;
    block.vars.clear();
    block.inputs = inputs.iter().map(|(name, _)| name.clone()).collect();
    let mut model = Model { parameters, ..Model::default() };
    model.set_main(program);
    let (budget, threads) = (Budget::new(MEMORY), Threads::default());
    let context = Context::new(&budget, &threads);
    let options = ExecutableOptions::default().with_mode(mode);
    let executable = Executable::new(&model, &options, context).map_err(finding)?;
    let inputs = inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    executable.run(inputs, context).map_err(finding)
}

/// Values other than single tensors, as `make_onnx_nodes.py` describes them.
pub(crate) fn structures(model: &Model) -> serde_json::Map<String, serde_json::Value> {
    let text = model.metadata.get("lodstone.values");
    text.map(|text| serde_json::from_str(text).expect("JSON")).unwrap_or_default()
}

/// Returns a value by its description; it takes the tensors of a model.
pub(crate) fn assembled(
    structure: &serde_json::Value,
    tensors: &mut BTreeMap<String, Tensor>,
) -> Result<Value, Finding> {
    use serde_json::Value as Json;
    if let Some(name) = structure.as_str() {
        return Value::of(&tensors.remove(name).expect("there"));
    }
    match (structure.get("sequence"), structure.get("optional")) {
        (Some(Json::Array(each)), _) => {
            let each = each.iter().map(|one| assembled(one, tensors));
            Ok(Value::Sequence(each.collect::<Result<_, _>>()?))
        }
        (_, Some(Json::Null)) => Ok(Value::Optional(None)),
        (_, Some(inside)) => Ok(Value::Optional(Some(Box::new(assembled(inside, tensors)?)))),
        _ => panic!("{structure} is no value"),
    }
}

/// A node test.
pub(crate) struct Case {
    pub(crate) program: Program,
    pub(crate) inputs: Vec<Named>,
    pub(crate) expected: Vec<Named>,
}

/// Separates the parts of a model that `make_onnx_nodes.py` wrote.
pub(crate) fn case_of(mut model: Model) -> Result<Case, Finding> {
    let structures = structures(&model);
    let parameters = std::mem::take(&mut model.parameters);
    let mut order: Vec<String> = parameters.iter().map(|it| it.name.clone()).collect();
    let mut tensors: BTreeMap<String, Tensor> =
        parameters.into_iter().map(|it| (it.name, it.tensor)).collect();
    let mut all = Vec::new();
    for (name, structure) in structures {
        all.push((name, assembled(&structure, &mut tensors)?));
    }
    order.retain(|name| tensors.contains_key(name));
    for name in order {
        let value = Value::of(&tensors.remove(&name).expect("there"))?;
        all.push((name, value));
    }
    let program = model.programs.into_main().ok_or("there is no program")?;
    let (mut expected, mut inputs) = (Vec::new(), Vec::new());
    for (name, value) in all {
        match name.strip_prefix("expected.") {
            Some(name) => expected.push((name.to_owned(), value)),
            None => inputs.push((name, value)),
        }
    }
    Ok(Case { program, inputs, expected })
}

/// Runs a case; returns the recorded and the computed outputs.
pub(crate) fn compute(model: Model, way: Way) -> Result<(Vec<Named>, Vec<Value>), Finding> {
    let Case { mut program, inputs, expected } = case_of(model)?;
    let block = program.blocks.first_mut().ok_or("there is no graph")?;
    block.outputs = expected.iter().map(|(name, _)| name.clone()).collect();
    Ok((expected, run_program(program, inputs, way)?))
}

/// Runs a case, and compares the outputs.
pub(crate) fn run(model: Model, way: Way) -> Result<(), Finding> {
    let (expected, made) = compute(model, way)?;
    are_same(&made, &expected)
}

pub(crate) fn are_same(found: &[Value], expected: &[Named]) -> Result<(), Finding> {
    for (found, (name, expected)) in found.iter().zip(expected) {
        same(found, expected).map_err(|what| format!("`{name}`: {what}"))?;
    }
    Ok(())
}

pub(crate) fn same(found: &Value, expected: &Value) -> Result<(), Finding> {
    match (found, expected) {
        (Value::Sequence(found), Value::Sequence(expected)) if found.len() == expected.len() => {
            found.iter().zip(expected).try_for_each(|(found, expected)| same(found, expected))
        }
        (Value::Optional(Some(found)), Value::Optional(Some(expected))) => same(found, expected),
        (Value::Strings(found), Value::Strings(expected)) if found == expected => Ok(()),
        // The package does not distinguish a value from an optional value.
        (found, Value::Optional(Some(expected))) => same(found, expected),
        (Value::Optional(None), Value::Optional(None)) => Ok(()),
        (found, expected) => compare(&found.tensor()?, &expected.tensor()?),
    }
}

pub(crate) fn compare(found: &Tensor, expected: &Tensor) -> Result<(), Finding> {
    if (found.dtype, &found.shape) != (expected.dtype, &expected.shape) {
        let show = |tensor: &Tensor| format!("{} {:?}", tensor.dtype, tensor.shape);
        return Err(format!("{}, expected {}", show(found), show(expected)).into());
    }
    let (relative, absolute) = match expected.dtype {
        DType::Float16 | DType::BFloat16 => (1e-2, 1e-3),
        DType::Float32 | DType::Float64 => (1e-3, 1e-5),
        _ => (0.0, 0.0),
    };
    let numbers = |tensor: &Tensor| Dense::of(tensor)?.to_f64();
    let exact = relative == 0.0;
    if exact && found.data.bytes().unwrap() == expected.data.bytes().unwrap() {
        return Ok(());
    }
    for (place, (found, expected)) in numbers(found)?.iter().zip(numbers(expected)?).enumerate() {
        let same = *found == expected || (found.is_nan() && expected.is_nan());
        let near = (found - expected).abs() <= absolute + relative * expected.abs();
        if !(same || near && expected.is_finite()) {
            return Err(format!("element {place} is {found}, expected {expected}").into());
        }
    }
    if exact { Err("the bytes differ".into()) } else { Ok(()) }
}

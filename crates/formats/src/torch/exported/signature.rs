//! The signature of a program: which inputs of the main graph are parameters, and which outputs are states.

use std::collections::{BTreeSet, HashMap, HashSet};

use lodstone_model::{Block, Op, Operand, Var};

use super::arguments::Argument;
use super::graph::Reader;
use super::json::{Signature, Specification, Union};
use crate::error::Result;

/// Applies the signature to the main block: parameters get the names of the module's attributes, and are no inputs;
/// mutations become operators. Returns the names of parameters by the names of their variables, for parameters that
/// cannot have their own name: that of an input or output.
pub(super) fn apply<'a>(
    reader: &mut Reader<'a>,
    signature: &Signature<'a>,
    (inputs, outputs): (&[Union<'a>], &[Union<'a>]),
    block: &mut Block,
) -> Result<HashMap<String, String>> {
    if signature.input_specs.len() != inputs.len() {
        let expected = format!("{} specifications of inputs", inputs.len());
        return Err(reader.invalid(&expected, signature.input_specs.len().to_string()));
    }
    if signature.output_specs.len() != outputs.len() {
        let expected = format!("{} specifications of outputs", outputs.len());
        return Err(reader.invalid(&expected, signature.output_specs.len().to_string()));
    }
    let mut states: HashMap<String, String> = HashMap::new();
    let mut objects = BTreeSet::new();
    let mut own = Vec::new();
    for (number, (spec, input)) in signature.input_specs.iter().zip(inputs).enumerate() {
        let read = specification(reader, spec);
        let read = read.map_err(|error| error.inside(format!("the input {number}")))?;
        let Argument::Value(name) = reader.argument(input)? else { continue };
        let attribute = match &*spec.kind {
            "user_input" => {
                own.push(name);
                continue;
            }
            "parameter" => read.parameter_name,
            "buffer" => read.buffer_name,
            "tensor_constant" => read.tensor_constant_name,
            "custom_obj" => {
                objects.insert(name.clone());
                read.custom_obj_name
            }
            "token" | "constant_input" => continue,
            other => {
                let found = format!("`{other}`");
                return Err(reader.invalid("a known kind of input", found));
            }
        };
        let Some(attribute) = attribute else {
            return Err(reader.invalid("the name of a parameter", format!("none of `{name}`")));
        };
        states.insert(name, attribute);
    }
    block.inputs = own;
    let mut results = Vec::new();
    for (number, (spec, output)) in signature.output_specs.iter().zip(outputs).enumerate() {
        let read = specification(reader, spec);
        let read = read.map_err(|error| error.inside(format!("the output {number}")))?;
        let value = match reader.argument(output)? {
            Argument::Value(value) => Some(value),
            _ => None,
        };
        let target = match &*spec.kind {
            "user_output" | "loss_output" | "gradient_to_parameter" | "gradient_to_user_input" => {
                results.push(number);
                continue;
            }
            "buffer_mutation" => read.buffer_name,
            "parameter_mutation" => read.parameter_name,
            "user_input_mutation" => read.user_input_name.clone(),
            "token" => continue,
            other => {
                let found = format!("`{other}`");
                return Err(reader.invalid("a known kind of output", found));
            }
        };
        let (Some(target), Some(value)) = (target, value) else {
            return Err(
                reader.invalid("what is written to, and a value", format!("`{}`", spec.kind))
            );
        };
        let is_input = spec.kind == "user_input_mutation";
        let found = states.iter().find(|(_, attribute)| **attribute == target && !is_input);
        let name = found.map_or(target, |(name, _)| name.clone());
        block.ops.push(mutation(&name, &value));
    }
    keep_outputs(block, outputs, &results, reader)?;
    Ok(rename(block, &states, &objects))
}

/// Returns the operator that writes a value to a state.
fn mutation(state: &str, value: &str) -> Op {
    let operand =
        |slot: &str, name: &str| Operand { slot: slot.to_owned(), args: vec![name.to_owned()] };
    Op {
        name: format!("{state}_mutation"),
        kind: "aten::copy_".to_owned(),
        inputs: vec![operand("self", state), operand("src", value)],
        ..Op::default()
    }
}

/// Keeps the outputs of the module among those of the graph. The block has an output for each that is a value.
fn keep_outputs<'a>(
    block: &mut Block,
    outputs: &[Union<'a>],
    kept: &[usize],
    reader: &Reader<'a>,
) -> Result<()> {
    let mut names = std::mem::take(&mut block.outputs).into_iter();
    for (number, output) in outputs.iter().enumerate() {
        let count = match reader.argument(output)? {
            Argument::Constant(lodstone_model::AttributeValue::None) => 0,
            Argument::List(members) => members.len(),
            _ => 1,
        };
        let own: Vec<String> = names.by_ref().take(count).collect();
        if kept.contains(&number) {
            block.outputs.extend(own);
        }
    }
    Ok(())
}

/// Gives variables of the module's state the names of its attributes.
fn rename(
    block: &mut Block,
    states: &HashMap<String, String>,
    objects: &BTreeSet<String>,
) -> HashMap<String, String> {
    let interface: HashSet<&String> = block.inputs.iter().chain(&block.outputs).collect();
    let (mut names, mut odd, mut seen) = (HashMap::new(), HashMap::new(), HashSet::new());
    let mut sorted: Vec<(&String, &String)> = states.iter().collect();
    sorted.sort();
    for (name, attribute) in sorted {
        match (!interface.contains(attribute) || attribute == name)
            && seen.insert(attribute.clone())
        {
            true => {
                names.insert(name.clone(), attribute.clone());
            }
            false => {
                odd.insert(name.clone(), attribute.clone());
            }
        }
    }
    // Other values that have the name of an attribute.
    let taken: HashSet<String> = block.vars.iter().map(|var| var.name.clone()).collect();
    let targets: HashSet<String> = names.values().cloned().collect();
    let others = taken.iter().filter(|name| targets.contains(*name) && !names.contains_key(*name));
    let others: Vec<String> = others.cloned().collect();
    for name in others {
        let mut number = 1_usize;
        let mut fresh = format!("{name}_value");
        while taken.contains(&fresh) || targets.contains(&fresh) {
            number += 1;
            fresh = format!("{name}_value_{number}");
        }
        odd.remove(&name);
        names.insert(name, fresh);
    }
    let renamed = |name: &mut String| {
        if let Some(new) = names.get(name.as_str()) {
            name.clone_from(new);
        }
    };
    for op in &mut block.ops {
        let operands = op.inputs.iter_mut().chain(&mut op.outputs);
        operands.flat_map(|operand| &mut operand.args).for_each(renamed);
        op.attributes.iter_mut().for_each(|it| it.value.edit_names(renamed));
    }
    block.outputs.iter_mut().for_each(renamed);
    let is_state = |var: &Var| states.contains_key(&var.name);
    for var in &mut block.vars {
        var.persistable = is_state(var) && !objects.contains(&var.name);
        renamed(&mut var.name);
    }
    odd
}

fn specification<'a>(reader: &Reader<'a>, spec: &Union<'a>) -> Result<Specification> {
    serde_json::from_str(spec.value.get())
        .map_err(|error| reader.wrong(&error, spec.value, "a specification"))
}

//! Inputs that are numbers, as constants.

use lodstone_model::{Attribute, AttributeValue, Block, DType, Model, Op, Operand, ValueType};
use lodstone_schema::Finding;

use super::node::Outcome;

/// Returns the operator that makes an input of a type a constant.
fn constant(name: &str, dtype: DType, value: &AttributeValue) -> Outcome<Op> {
    let value = match (dtype, value) {
        (DType::Bool, AttributeValue::Bool(_)) | (DType::Int64, AttributeValue::Long(_)) => {
            value.clone()
        }
        (DType::Float32 | DType::Float64, AttributeValue::Double(_)) => value.clone(),
        #[expect(clippy::cast_precision_loss, reason = "as Python converts an integer")]
        (DType::Float32 | DType::Float64, AttributeValue::Long(value)) => {
            AttributeValue::Double(*value as f64)
        }
        _ => return Err(format!("expected a number of {dtype}").into()),
    };
    Ok(Op {
        kind: "prim::Constant".to_owned(),
        name: name.to_owned(),
        outputs: vec![Operand { slot: String::new(), args: vec![name.to_owned()] }],
        attributes: vec![Attribute { name: "value".to_owned(), value }],
        ..Op::default()
    })
}

/// Returns the operator that makes an input of a program a constant.
fn fixed(main: &Block, name: &str, value: &AttributeValue) -> Outcome<Op> {
    if !main.inputs.iter().any(|input| input == name) {
        return Err("the program does not have it".into());
    }
    match main.vars.iter().find(|var| var.name == name).map(|var| &var.value) {
        Some(ValueType::Scalar(dtype)) => constant(name, *dtype, value),
        _ => Err("it is not declared as a number".into()),
    }
}

/// Makes inputs of the main program constants, see [`crate::fix_inputs`].
pub(crate) fn fix_inputs(
    model: &mut Model,
    values: &[(String, AttributeValue)],
) -> Result<(), (String, Finding)> {
    let main = model.programs.main_mut().and_then(|program| program.blocks.first_mut());
    let mut constants = Vec::new();
    for (name, value) in values {
        let made = main.as_deref().ok_or_else(|| Finding::from("there is no program"));
        let made = made.and_then(|main| fixed(main, name, value));
        constants.push(made.map_err(|finding| (name.clone(), finding))?);
    }
    let Some(main) = main else { return Ok(()) };
    main.inputs.retain(|input| !values.iter().any(|(name, _)| name == input));
    main.ops.splice(0..0, constants);
    Ok(())
}

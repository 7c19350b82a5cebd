//! Inputs that are numbers, as constants.

use lodstone_model::{Attribute, AttributeValue, DType, Model, Op, Operand, ValueType};
use lodstone_schema::onnx::quoted;

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
        _ => return Err(format!("the input {} is of {dtype}", quoted(name)).into()),
    };
    Ok(Op {
        kind: "prim::Constant".to_owned(),
        name: name.to_owned(),
        outputs: vec![Operand { slot: String::new(), args: vec![name.to_owned()] }],
        attributes: vec![Attribute { name: "value".to_owned(), value }],
        ..Op::default()
    })
}

/// Makes inputs of the main program constants, see [`crate::fix_inputs`].
pub(crate) fn fix_inputs(model: &mut Model, values: &[(String, AttributeValue)]) -> Outcome<()> {
    let main = model.programs.main_mut().and_then(|program| program.blocks.first_mut());
    let main = main.ok_or("there is no program")?;
    let mut constants = Vec::new();
    for (name, value) in values {
        if !main.inputs.contains(name) {
            let all = main.inputs.iter().map(|name| quoted(name));
            let all = all.collect::<Vec<_>>().join(", ");
            let what = format!("there is no input {}; the inputs are {all}", quoted(name));
            return Err(what.into());
        }
        let declared = main.vars.iter().find(|var| var.name == *name).map(|var| &var.value);
        let Some(ValueType::Scalar(dtype)) = declared else {
            return Err(format!("the input {} is not a number", quoted(name)).into());
        };
        constants.push(constant(name, *dtype, value)?);
    }
    main.inputs.retain(|input| !values.iter().any(|(name, _)| name == input));
    main.ops.splice(0..0, constants);
    Ok(())
}

//! Roles of operators: bits of PaddlePaddle's attribute `op_role`.

use lodstone_model::{Attribute, AttributeValue, Op, Program};
use lodstone_schema::paddle::GRAD;

/// Computes gradients.
pub(crate) const BACKWARD: i32 = 1;

/// Updates parameters.
pub const OPTIMIZES: i32 = 2;

/// Computes learning rates.
pub const SCHEDULES: i32 = 16;

/// Computes the loss, or its initial gradient.
pub(crate) const LOSS: i32 = 256;

/// Returns the role of an operator; 0 if none is set.
pub fn role(op: &Op) -> i32 {
    match op.attribute("op_role") {
        Some(AttributeValue::Int(role)) => *role,
        _ => 0,
    }
}

/// Returns the loss of a program: the variable whose gradient the backward pass starts from.
pub fn loss(program: &Program) -> Option<&str> {
    let begins = |op: &&Op| role(op) & (BACKWARD | LOSS) == BACKWARD | LOSS;
    let first = program.ops().find(begins)?;
    first.writes().find_map(|name| name.strip_suffix(GRAD))
}

/// Sets the role of an operator.
pub fn set_role(op: &mut Op, role: i32) {
    set(op, "op_role", AttributeValue::Int(role));
}

/// Sets an attribute of an operator, replacing one of the same name.
pub(crate) fn set(op: &mut Op, name: &str, value: AttributeValue) {
    match op.attributes.iter_mut().find(|attribute| attribute.name == name) {
        Some(attribute) => attribute.value = value,
        None => op.attributes.push(Attribute { name: name.to_owned(), value }),
    }
}

//! What operators of PaddlePaddle are for: bits of their attribute `op_role`.

use lodstone_model::{Attribute, AttributeValue, Op};

/// Computes gradients.
pub(crate) const BACKWARD: i32 = 1;

/// Changes parameters.
pub(crate) const OPTIMIZES: i32 = 2;

/// Changes learning rates.
pub(crate) const SCHEDULES: i32 = 16;

/// Computes the loss, or begins with its gradient.
pub(crate) const LOSS: i32 = 256;

/// The role of an operator; none if nothing is told.
pub(crate) fn role(op: &Op) -> i32 {
    match op.attribute("op_role") {
        Some(AttributeValue::Int(role)) => *role,
        _ => 0,
    }
}

/// Gives an operator a role.
pub(crate) fn set_role(op: &mut Op, role: i32) {
    set(op, "op_role", AttributeValue::Int(role));
}

/// Gives an operator an attribute, in the place of another of its name.
pub(crate) fn set(op: &mut Op, name: &str, value: AttributeValue) {
    match op.attributes.iter_mut().find(|attribute| attribute.name == name) {
        Some(attribute) => attribute.value = value,
        None => op.attributes.push(Attribute { name: name.to_owned(), value }),
    }
}

//! What operators of PaddlePaddle are for: bits of their attribute `op_role`.

use lodstone_model::{Attribute, AttributeValue, Op, Program};
use lodstone_schema::paddle::GRAD;

/// Computes gradients.
pub(crate) const BACKWARD: i32 = 1;

/// Changes parameters.
pub const OPTIMIZES: i32 = 2;

/// Changes learning rates.
pub const SCHEDULES: i32 = 16;

/// Computes the loss, or begins with its gradient.
pub(crate) const LOSS: i32 = 256;

/// The role of an operator; none if nothing is told.
pub fn role(op: &Op) -> i32 {
    match op.attribute("op_role") {
        Some(AttributeValue::Int(role)) => *role,
        _ => 0,
    }
}

/// The variable that a program minimizes: the one whose gradient it begins with.
pub fn loss(program: &Program) -> Option<&str> {
    let begins = |op: &&Op| role(op) & (BACKWARD | LOSS) == BACKWARD | LOSS;
    let first = program.ops().find(begins)?;
    first.writes().find_map(|name| name.strip_suffix(GRAD))
}

/// Gives an operator a role.
pub fn set_role(op: &mut Op, role: i32) {
    set(op, "op_role", AttributeValue::Int(role));
}

/// Gives an operator an attribute, in the place of another of its name.
pub(crate) fn set(op: &mut Op, name: &str, value: AttributeValue) {
    match op.attributes.iter_mut().find(|attribute| attribute.name == name) {
        Some(attribute) => attribute.value = value,
        None => op.attributes.push(Attribute { name: name.to_owned(), value }),
    }
}

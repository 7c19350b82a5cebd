//! Roles of operators: bits of the attribute `op_role`.

use lodstone_model::{AttributeValue, Op, Program};

use super::GRAD;

/// Computes gradients.
pub const BACKWARD: i32 = 1;

/// Updates parameters.
pub const OPTIMIZES: i32 = 2;

/// Computes learning rates.
pub const SCHEDULES: i32 = 16;

/// Computes the loss, or its initial gradient.
pub const LOSS: i32 = 256;

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

//! Setting roles of operators.

use lodstone_model::{Attribute, AttributeValue, Op};

pub(crate) use lodstone_schema::paddle::{BACKWARD, LOSS};
pub use lodstone_schema::paddle::{OPTIMIZES, SCHEDULES, loss, role};

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

//! What only PaddlePaddle says of variables, operators and blocks: fields of `framework.proto` beside attributes.

use lodstone_model::{AttributeValue, Block, Op, Var};

const NEED_CHECK_FEED: &str = "paddle.need_check_feed";
const STOP_GRADIENT: &str = "paddle.stop_gradient";
const IS_TARGET: &str = "paddle.is_target";
const FORWARD_BLOCK: &str = "paddle.forward_block";

/// Whether what is fed to a variable has to fit its type.
pub fn need_check_feed(var: &Var) -> bool {
    var.reserved.is_set(NEED_CHECK_FEED)
}

/// Sets whether what is fed to a variable has to fit its type.
pub fn set_need_check_feed(var: &mut Var, value: bool) {
    var.reserved.set_flag(NEED_CHECK_FEED, value);
}

/// Whether gradients end at a variable.
pub fn stop_gradient(var: &Var) -> bool {
    var.reserved.is_set(STOP_GRADIENT)
}

/// Sets whether gradients end at a variable.
pub fn set_stop_gradient(var: &mut Var, value: bool) {
    var.reserved.set_flag(STOP_GRADIENT, value);
}

/// The variable, with gradients ending at it if `value`.
#[must_use]
pub fn with_stop_gradient(mut var: Var, value: bool) -> Var {
    set_stop_gradient(&mut var, value);
    var
}

/// Whether pruning has to keep an operator.
pub fn is_target(op: &Op) -> bool {
    op.reserved.is_set(IS_TARGET)
}

/// Sets whether pruning has to keep an operator.
pub fn set_is_target(op: &mut Op, value: bool) {
    op.reserved.set_flag(IS_TARGET, value);
}

/// The number of the block that a block has the gradients of.
pub fn forward_block(block: &Block) -> Option<i32> {
    match block.reserved.get(FORWARD_BLOCK) {
        Some(AttributeValue::Int(number)) => Some(*number),
        _ => None,
    }
}

/// Sets the number of the block that a block has the gradients of.
pub fn set_forward_block(block: &mut Block, number: Option<i32>) {
    block.reserved.set(FORWARD_BLOCK, number.map(AttributeValue::Int));
}

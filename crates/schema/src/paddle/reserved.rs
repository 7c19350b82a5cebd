//! PaddlePaddle's fields of variables, operators and blocks in `framework.proto` that other dialects do not have.

use lodstone_model::{AttributeValue, Block, Op, Var};

const NEED_CHECK_FEED: &str = "paddle.need_check_feed";
const STOP_GRADIENT: &str = "paddle.stop_gradient";
const IS_TARGET: &str = "paddle.is_target";
const FORWARD_BLOCK: &str = "paddle.forward_block";

/// Whether a value that is fed to a variable must have its type.
pub fn need_check_feed(var: &Var) -> bool {
    var.reserved.is_set(NEED_CHECK_FEED)
}

/// Sets whether a value that is fed to a variable must have its type.
pub fn set_need_check_feed(var: &mut Var, value: bool) {
    var.reserved.set_flag(NEED_CHECK_FEED, value);
}

/// Whether gradients stop at a variable.
pub fn stop_gradient(var: &Var) -> bool {
    var.reserved.is_set(STOP_GRADIENT)
}

/// Sets whether gradients stop at a variable.
pub fn set_stop_gradient(var: &mut Var, value: bool) {
    var.reserved.set_flag(STOP_GRADIENT, value);
}

/// Returns the variable with `stop_gradient` set to `value`.
#[must_use]
pub fn with_stop_gradient(mut var: Var, value: bool) -> Var {
    set_stop_gradient(&mut var, value);
    var
}

/// Whether pruning must keep an operator.
pub fn is_target(op: &Op) -> bool {
    op.reserved.is_set(IS_TARGET)
}

/// Sets whether pruning must keep an operator.
pub fn set_is_target(op: &mut Op, value: bool) {
    op.reserved.set_flag(IS_TARGET, value);
}

/// Returns the index of the block whose gradients a block computes.
pub fn forward_block(block: &Block) -> Option<i32> {
    match block.reserved.get(FORWARD_BLOCK) {
        Some(AttributeValue::Int(number)) => Some(*number),
        _ => None,
    }
}

/// Sets the index of the block whose gradients a block computes.
pub fn set_forward_block(block: &mut Block, number: Option<i32>) {
    block.reserved.set(FORWARD_BLOCK, number.map(AttributeValue::Int));
}

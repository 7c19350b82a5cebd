//! Inference programs, derived from training programs.

use lodstone_model::{AttributeValue, Holder, Op, Program, Var};
use lodstone_schema::paddle::attributes;

use crate::program::error::{Result, block_mut};
use crate::program::network::Variable;
use crate::program::operator::Operator;
use crate::program::prune::prune;
use crate::program::role::{BACKWARD, OPTIMIZES, SCHEDULES, role, set};

/// The roles of operators that compute gradients, or update parameters or learning rates.
const TRAINS: i32 = BACKWARD | OPTIMIZES | SCHEDULES;

/// Returns the program for evaluation: without gradients and parameter updates, and with `is_test` set where operators
/// have it (dropout drops nothing, batch normalization uses its running statistics).
pub fn for_test(program: &Program) -> Program {
    let mut program = program.clone();
    for block in &mut program.blocks {
        block.ops.retain(|op| role(op) & TRAINS == 0);
        block.ops.iter_mut().for_each(test);
    }
    program
}

fn test(op: &mut Op) {
    if attributes(&op.kind).any(|parameter| parameter.name == "is_test") {
        set(op, "is_test", AttributeValue::Bool(true));
    }
}

/// Returns the program that computes `targets` from `feeds`, as inference models have it: [`for_test`], [`prune`]d, with
/// `feed` and `fetch` operators in their order.
///
/// # Errors
/// Like [`prune`].
pub fn inference(program: &Program, feeds: &[&str], targets: &[&str]) -> Result<Program> {
    let mut program = prune(&for_test(program), feeds, targets)?;
    let [feed, fetch] = ["feed", "fetch"].map(Variable::named);
    let mut ops = Vec::new();
    for (column, name) in (0_i32..).zip(feeds) {
        let op = Operator::new("feed").input("X", [&feed]);
        ops.push(op.output("Out", [&Variable::named(name)]).attribute("col", column).finish()?);
    }
    let block = block_mut(&mut program, 0)?;
    ops.append(&mut block.ops);
    for (column, name) in (0_i32..).zip(targets) {
        let op = Operator::new("fetch").input("X", [&Variable::named(name)]);
        ops.push(op.output("Out", [&fetch]).attribute("col", column).finish()?);
    }
    block.ops = ops;
    for (var, holder) in [(feed, Holder::FeedMinibatch), (fetch, Holder::FetchList)] {
        let (name, value) = (var.name().to_owned(), holder.into());
        block.vars.push(Var { name, value, persistable: true, ..Var::default() });
    }
    Ok(program)
}

//! Inference programs, derived from training programs.

use lodstone_model::{Holder, Program, Var};

use crate::program::error::{Error, Result, block_mut, variable};
use crate::program::network::Variable;
use crate::program::operator::Operator;

pub use lodstone_schema::paddle::for_test;

/// Returns the operators of a program that compute `targets` from `feeds`: [`lodstone_schema::paddle::prune`].
///
/// # Errors
/// If a target is neither computed nor fed, a needed operator would overwrite a fed variable, or the first block does not
/// declare a fed variable.
pub fn prune(program: &Program, feeds: &[&str], targets: &[&str]) -> Result<Program> {
    let declared = program.blocks.first().map_or(&[][..], |block| &block.vars);
    for name in feeds {
        if !declared.iter().any(|var| var.name == *name) {
            return variable(name, "the program does not have this variable, so it cannot be fed");
        }
    }
    lodstone_schema::paddle::prune(program, feeds, targets)
        .map_err(|error| Error::Variable { name: error.variable, finding: error.finding })
}

/// Returns the program that computes `targets` from `feeds`, as inference models have it: [`for_test`], [`prune`]d, with
/// `feed` and `fetch` operators in their order.
///
/// # Errors
/// Like [`prune`]; also if there are no targets.
pub fn inference(program: &Program, feeds: &[&str], targets: &[&str]) -> Result<Program> {
    if targets.is_empty() {
        return variable("fetch", "an inference program needs at least one target");
    }
    with_interface(prune(&for_test(program), feeds, targets)?, feeds, targets)
}

/// Adds `feed` and `fetch` operators to a program that has none.
///
/// # Errors
/// If the program has no blocks.
pub fn with_interface(mut program: Program, feeds: &[&str], targets: &[&str]) -> Result<Program> {
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

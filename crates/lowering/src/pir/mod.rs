//! Lowering of PIR programs to `ProgramDesc` operators.
//!
//! Running and exporting programs of PaddlePaddle 3 use what exists for those of PaddlePaddle 2: this folder only
//! translates between the two. Most operators are renamed by the table of the schema; the others are listed here.
//!
//! | PIR | `ProgramDesc` | by |
//! |---|---|---|
//! | operators with a counterpart | the operator of the row in `pir_operators.tsv` | `table` |
//! | values, assigned once | variables; an operator that works in place writes its operand | `walk` |
//! | numbers and lists as operands (`full`, `full_int_array`) | attributes, or tensors if they are computed | `constants` |
//! | lists (`builtin.combine`, `builtin.split`) | slots of several variables | `walk` |
//! | parameters, `pd_op.data`, `pd_op.fetch` | persistable variables, `feed`, `fetch` | `special` |
//! | `pd_op.while`, `pd_op.if`, `cf.yield` | `while`, `conditional_block` and `select_input` | `control` |
//! | gradients, optimizers | the same, with the roles of the operators | `roles` |
//! | operators of PaddlePaddle 3 alone | several operators | `composed` |
//! | operators that compute something else in 2.6.2, if the program is written | operators that compute the same | `older` |
//! | attributes, inputs and types that 2.6.2 requires | the same, if the program is written | `registry` |
//!
//! The walk writes variables and operators of PaddlePaddle rather than an ONNX graph; names, failures and places are those of
//! `frame`.
//!
//! The result is in the form of PaddlePaddle 2.6.2. Its operators compute what they compute in the release of the source,
//! which it follows, until it is written.
//!
//! Source of truth: `paddle/fluid/ir_adaptor/translator` of PaddlePaddle 3.3.1, which translates in the other direction,
//! and results that PaddlePaddle gave.

mod attributes;
mod composed;
mod constants;
mod control;
mod older;
mod registry;
mod roles;
mod special;
mod table;
mod walk;

use lodstone_model::{Dialect, Model, Report};
use lodstone_schema::{Finding, Findings, Origins};

use crate::{LowerError, LowerOptions, OperatorCoverage, RuleName, frame, paddle};
use walk::{Translated, Walk};

/// Returns the names of all rules. Other operators are rows of a table.
pub(crate) fn names() -> Vec<RuleName> {
    special::names().collect()
}

pub(crate) use special::name;

/// Returns the kinds of operators of `ProgramDesc` that compute something else since 2.6.2, which are rewritten for that
/// release.
pub fn older_kinds() -> Vec<&'static str> {
    older::kinds().collect()
}

/// Translates the main program of a model to a program of PaddlePaddle 2.6.2.
///
/// # Errors
/// All operators without a counterpart, with their places.
pub(crate) fn to_paddle(model: &Model, report: &mut Report) -> Result<(Model, Origins), Findings> {
    let mut translated = translate(model, false)?;
    translated.add_unreleased();
    let (mut model, origins) = translated.complete()?;
    older::write(&mut model, report)?;
    Ok((model, origins))
}

/// Translates the main program of a model to operators of a `ProgramDesc` that follows the release of the source, to run
/// it. Returns the origins of its values. A model without a program, or with one of another dialect, is not changed.
///
/// # Errors
/// All operators without a counterpart, with their places; the model is then unchanged.
pub fn to_run(model: &mut Model) -> Result<Origins, LowerError> {
    if model.main().is_none_or(|program| program.dialect != Dialect::Pir) {
        return Ok(Origins::default());
    }
    let translated = translate(model, false).and_then(Translated::complete);
    let (translated, origins) =
        translated.map_err(|findings| LowerError::new(Dialect::Paddle, findings))?;
    *model = translated;
    Ok(origins)
}

/// Translates as far as possible. With `keeps`, operators without a counterpart are kept under their own name.
///
/// # Errors
/// If the model has no program, or it contradicts itself as a whole.
fn translate(model: &Model, keeps: bool) -> Result<Translated, Findings> {
    let Some(program) = model.main() else {
        let mut findings = Findings::default();
        findings.add("the program", "expected a program, found none");
        return Err(findings);
    };
    let mut walk = Walk::new(program, keeps);
    walk.main();
    Ok(walk.finish(model))
}

/// Translates the main program of a model to ONNX.
///
/// # Errors
/// All operators without an equivalent, with their places: those that PaddlePaddle 2 does not have, or else those that
/// ONNX does not have.
pub(crate) fn to_onnx(
    model: &Model,
    options: &LowerOptions,
    report: &mut Report,
) -> Result<(Model, Origins), Findings> {
    let (model, first) = translate(model, options.custom_domain.is_some())?.complete()?;
    let (model, second) = paddle::to_onnx(&model, options, report)?;
    Ok((model, first.then(&second)))
}

/// What is known of an operator of the translated program, by the first variable that it writes: the lowest opset that
/// can express it, and why it is not supported.
pub type Support = (String, (Option<i64>, Option<Finding>));

/// Tries to export each operator of the main program.
///
/// # Errors
/// If the program contradicts itself as a whole.
pub(crate) fn coverage(model: &Model) -> Result<Vec<OperatorCoverage>, Finding> {
    coverage_by(model, |translated| {
        let covered = paddle::covered(translated)?.into_iter();
        Ok(covered.map(|(name, covered)| (name, (covered.opset, covered.finding))).collect())
    })
}

/// Returns which operators of the main program are supported: those that can be translated to operators which are
/// supported themselves. An operator that becomes an attribute is supported.
///
/// # Errors
/// If the program contradicts itself as a whole.
pub fn coverage_by(
    model: &Model,
    support: impl Fn(&Model) -> Result<Vec<Support>, Finding>,
) -> Result<Vec<OperatorCoverage>, Finding> {
    let mut translated = translate(model, false).map_err(frame::first)?;
    // A program of which only a part was translated may contradict itself.
    if translated.findings.is_empty() {
        for (name, (opset, finding)) in support(&translated.model)? {
            let place = translated.sources.get(&name);
            let Some(covered) = place.and_then(|place| translated.covered.get_mut(place)) else {
                continue;
            };
            covered.opset = covered.opset.max(opset);
            covered.finding = covered.finding.take().or(finding);
        }
    }
    Ok(translated.covered.into_values().collect())
}

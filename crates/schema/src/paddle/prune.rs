//! Pruning: the part of a program that some results need, and programs for evaluation.

use std::collections::{HashMap, HashSet};

use super::{
    BACKWARD, OPTIMIZES, SCHEDULES, attributes, forward_block, is_target, need_check_feed,
    operator, role, set_forward_block,
};
use crate::Finding;
use crate::prune::{Touched, Unprunable, assembled, replace_main};
use lodstone_model::{
    Attribute, AttributeValue, Holder, Model, Op, Operand, Program, ValueType, Var,
};

/// The roles of operators that compute gradients, or update parameters or learning rates.
const TRAINS: i32 = BACKWARD | OPTIMIZES | SCHEDULES;

fn variable<T>(name: &str, what: impl Into<Finding>) -> Result<T, Unprunable> {
    Err(Unprunable { variable: name.to_owned(), finding: what.into() })
}

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
    if attributes(&op.kind).all(|parameter| parameter.name != "is_test") {
        return;
    }
    let is_test = AttributeValue::Bool(true);
    match op.attributes.iter_mut().find(|attribute| attribute.name == "is_test") {
        Some(attribute) => attribute.value = is_test,
        None => op.attributes.push(Attribute { name: "is_test".to_owned(), value: is_test }),
    }
}

/// Returns the operators of a program that compute `targets` from `feeds`, with the variables that they name; blocks
/// that none of them runs are removed.
///
/// Versions of variables are tracked: an operator is kept if the value that it writes is read later or is a target,
/// not because another value of the same name is. So operators that update variables in place survive. A fed variable
/// has the fed value before any operator reads it; if the first operator that uses it writes it, the fed value replaces
/// that result. Blocks are kept as they are, since a value that is written late in a loop is read early in the next
/// iteration. Operators that update parameters are not kept.
///
/// # Errors
/// If a target is neither computed nor fed, or a needed operator would overwrite a fed variable.
pub fn prune(program: &Program, feeds: &[&str], targets: &[&str]) -> Result<Program, Unprunable> {
    pruned(program, feeds, targets, |op, _, is_needed| {
        (is_target(op) || is_needed) && role(op) & OPTIMIZES == 0
    })
}

/// Prunes like [`prune`], where `keeps` decides about each operator, by whether what it writes is needed.
fn pruned(
    program: &Program,
    feeds: &[&str],
    targets: &[&str],
    keeps: impl Fn(&Op, &Touched<'_>, bool) -> bool,
) -> Result<Program, Unprunable> {
    let Some(main) = program.blocks.first() else {
        return variable(targets.first().unwrap_or(&""), "the program has no blocks");
    };
    let vars: HashMap<&str, &Var> = main.vars.iter().map(|var| (var.name.as_str(), var)).collect();
    for target in targets {
        if !vars.contains_key(target) {
            return variable(target, "the program does not have this variable");
        }
    }
    let touches: Vec<Touched> = main.ops.iter().map(|op| Touched::by(program, op)).collect();
    let replaced: HashMap<&str, usize> =
        feeds.iter().filter_map(|name| Some((*name, replaced(name, &vars, &touches)?))).collect();
    // The versions that are needed: names, with their values after the current operator.
    let mut needed: HashSet<&str> = targets.iter().copied().collect();
    let mut kept = Vec::new();
    let mut computed: HashSet<&str> = feeds.iter().copied().collect();
    for (number, (op, touched)) in main.ops.iter().zip(&touches).enumerate().rev() {
        let is_fed = |name: &str| replaced.get(name) == Some(&number);
        let fed = touched.writes.iter().find(|name| is_fed(name) && needed.contains(*name));
        let is_needed = |name: &&str| needed.contains(name) && !is_fed(name);
        let keeps = keeps(op, touched, touched.writes.iter().any(is_needed));
        if let (true, Some(fed)) = (keeps, fed) {
            return variable(
                fed,
                format!("it is fed, but `{}`, which is needed, writes it", op.kind),
            );
        }
        for name in touched.writes.iter().filter(|name| keeps || is_fed(name)) {
            computed.insert(name);
            // A loop or a branch may also leave a variable unchanged, like other members of an array.
            let whole = vars.get(name).is_some_and(|var| is_whole(var));
            let perhaps = touched.perhaps || op.kind == "select_output";
            if is_fed(name) || (whole && !perhaps) {
                needed.remove(name);
            }
        }
        if keeps {
            needed.extend(&touched.reads);
            kept.push(op.clone());
        }
    }
    for target in targets {
        let given = vars.get(target).is_some_and(|var| var.persistable || need_check_feed(var));
        if !given && !computed.contains(target) {
            return variable(target, "it is neither computed nor fed");
        }
    }
    kept.reverse();
    Ok(assemble(program, kept))
}

/// Returns the operator whose result a fed variable replaces; `None` if it is read before it is written, or declared as
/// fed.
fn replaced(name: &str, vars: &HashMap<&str, &Var>, touches: &[Touched]) -> Option<usize> {
    let (reads, writes) = (
        |touched: &Touched| touched.reads.contains(name),
        |touched: &Touched| touched.writes.contains(name),
    );
    let first = touches.iter().position(|touched| reads(touched) || writes(touched))?;
    let is_data = vars.get(name).is_some_and(|var| need_check_feed(var));
    (!is_data && touches.get(first).is_some_and(|touched| !reads(touched))).then_some(first)
}

/// Whether a write to a variable replaces its whole value.
fn is_whole(var: &Var) -> bool {
    var.value.is_selected_rows()
        || matches!(var.value, ValueType::Unspecified | ValueType::Tensor(_))
}

/// Returns a program of these operators, with the variables that they name and the blocks that they run.
fn assemble(program: &Program, ops: Vec<Op>) -> Program {
    let (mut made, numbers) = assembled(program, ops);
    let named: HashSet<String> =
        made.ops().flat_map(|op| op.reads().chain(op.writes())).map(str::to_owned).collect();
    for block in &mut made.blocks {
        let forward = forward_block(block).and_then(|number| numbers.get(&number).copied());
        set_forward_block(block, forward);
        block.vars.retain(|var| named.contains(&var.name));
    }
    made
}

/// Operators by which programs return variables.
const FETCHES: [&str; 2] = ["fetch", "fetch_v2"];

/// Makes variables what the main program fetches, and removes the operators that neither compute them nor have other
/// effects: files, output, and persistable variables that change.
pub(super) fn select(model: &mut Model, outputs: &[&str]) -> Result<(), Unprunable> {
    let Some(program) = model.main() else { return Ok(()) };
    let persistable: HashSet<&str> =
        program.vars().filter(|var| var.persistable).map(|var| var.name.as_str()).collect();
    let keeps = |op: &Op, touched: &Touched<'_>, is_needed: bool| {
        // Statistics of normalizations do not change in tests.
        let is_test = matches!(op.attribute("is_test"), Some(AttributeValue::Bool(true)));
        let is_risk = |kind: &&str| operator(kind).is_some_and(|row| row.risk.is_some());
        let has_effects = touched.kinds.iter().any(is_risk)
            || !is_test && touched.writes.iter().any(|name| persistable.contains(name));
        !FETCHES.contains(&op.kind.as_str()) && (is_needed || has_effects)
    };
    let mut program = pruned(program, &[], outputs, keeps)?;
    let Some(main) = program.blocks.first_mut() else { return Ok(()) };
    let holder = "fetch";
    for (column, name) in (0_i32..).zip(outputs) {
        let operand = |slot: &str, name: &str| {
            vec![Operand { slot: slot.to_owned(), args: vec![name.to_owned()] }]
        };
        let column = AttributeValue::Int(column);
        main.ops.push(Op {
            kind: "fetch".to_owned(),
            inputs: operand("X", name),
            outputs: operand("Out", holder),
            attributes: vec![Attribute { name: "col".to_owned(), value: column }],
            ..Op::default()
        });
    }
    if !main.vars.iter().any(|var| var.name == holder) {
        let (name, value) = (holder.to_owned(), Holder::FetchList.into());
        main.vars.push(Var { name, value, persistable: true, ..Var::default() });
    }
    replace_main(model, program);
    Ok(())
}

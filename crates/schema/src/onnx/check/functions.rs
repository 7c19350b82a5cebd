//! Functions: what they are called, which sets of operators they use, and that none calls itself.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Function, Op};

use super::walk::Walk;
use super::{Checked, Imports, gathered, quoted};
use crate::Findings;
use crate::onnx::{domain_name, operator};

/// What an operator says of the function that it calls, and a function of itself.
type Name<'m> = (&'m str, &'m str, &'m str);

fn name_of(function: &Function) -> Name<'_> {
    (domain_name(&function.domain), &function.name, &function.overload)
}

/// Checks all functions of a program.
pub(super) fn check(checked: Checked<'_>, findings: &mut Findings) {
    let functions = &checked.program.functions;
    let mut by_name = HashMap::new();
    for (number, function) in functions.iter().enumerate() {
        if by_name.insert(name_of(function), number).is_some() {
            findings.add(place(function), "is there twice");
        }
    }
    calls(checked, &by_name, findings);
    // What the model does not say a version of is of the version that the first function says.
    let mut merged: Imports<'_> = HashMap::new();
    let told = functions.iter().flat_map(|function| &function.operator_versions);
    for (domain, version) in checked.program.operator_versions.iter().chain(told) {
        merged.entry(domain_name(domain)).or_insert(*version);
    }
    for function in functions {
        one(checked, function, &merged, findings);
    }
}

fn place(function: &Function) -> String {
    format!("the function {}", quoted(&function.name))
}

fn one<'m>(
    checked: Checked<'m>,
    function: &'m Function,
    merged: &Imports<'m>,
    findings: &mut Findings,
) {
    let place = place(function);
    if function.name.is_empty() {
        findings.add(place.as_str(), "has no name");
    }
    if function.domain.is_empty() {
        findings.add(place.as_str(), "does not say which set of operators it belongs to");
    }
    let imports = gathered(&function.operator_versions, &place, findings);
    let index = usize::try_from(function.block).unwrap_or(usize::MAX);
    let block = checked.program.blocks.get(index);
    let mut outputs = HashSet::new();
    for name in block.iter().flat_map(|block| &block.outputs) {
        if !outputs.insert(name) {
            findings.add(place.as_str(), format!("has the output {} twice", quoted(name)));
        }
    }
    let mut attributes = HashSet::new();
    for name in &function.required {
        if !attributes.insert(name) {
            findings.add(place.as_str(), format!("has the attribute {} twice", quoted(name)));
        }
    }
    for (number, op) in block.iter().flat_map(|block| &block.ops).enumerate() {
        if let Some(wrong) = unlike(op, &imports, merged) {
            let kind = quoted(&op.kind);
            findings.add(format!("{place}, operator {number} ({kind})"), wrong);
        }
    }
    Walk::new(checked, imports, Some(function)).check(findings);
}

/// Whether an operator is another by the version that the function says than by that of the model: who
/// puts the function in place of its call makes it that of the model.
fn unlike(op: &Op, imports: &Imports<'_>, merged: &Imports<'_>) -> Option<String> {
    let domain = domain_name(&op.domain);
    let (own, models) = (imports.get(domain)?, merged.get(domain)?);
    let since = |version| operator(domain, &op.kind, version).map(|operator| operator.since);
    if own == models || since(*own) == since(*models) {
        return None;
    }
    let domain = quoted(domain);
    Some(format!("is another in {domain} {own}, of the function, than in {models}, of the model"))
}

/// Finds functions that call themselves, through whatever others.
fn calls(checked: Checked<'_>, by_name: &HashMap<Name<'_>, usize>, findings: &mut Findings) {
    let program = checked.program;
    let mut called: Vec<Vec<usize>> = Vec::new();
    for function in &program.functions {
        let (mut open, mut seen) = (vec![function.block], HashSet::new());
        let mut callees = Vec::new();
        while let Some(number) = open.pop() {
            let index = usize::try_from(number).unwrap_or(usize::MAX);
            let Some(block) = program.blocks.get(index).filter(|_| seen.insert(number)) else {
                continue;
            };
            for op in &block.ops {
                let name = (domain_name(&op.domain), op.kind.as_str(), op.overload.as_str());
                callees.extend(by_name.get(&name).copied());
                open.extend(op.blocks());
            }
        }
        callees.sort_unstable();
        callees.dedup();
        called.push(callees);
    }
    // Functions whose callees are all done are done; what is left calls itself, or what does.
    let mut callers: Vec<Vec<usize>> = vec![Vec::new(); called.len()];
    let mut waiting: Vec<usize> = called.iter().map(Vec::len).collect();
    for (caller, callees) in called.iter().enumerate() {
        for callee in callees {
            if let Some(callers) = callers.get_mut(*callee) {
                callers.push(caller);
            }
        }
    }
    let mut done: Vec<usize> =
        (0..called.len()).filter(|number| waiting.get(*number) == Some(&0)).collect();
    while let Some(number) = done.pop() {
        for caller in callers.get(number).into_iter().flatten() {
            if let Some(left) = waiting.get_mut(*caller) {
                *left -= 1;
                if *left == 0 {
                    done.push(*caller);
                }
            }
        }
    }
    for (function, left) in program.functions.iter().zip(waiting) {
        if left > 0 {
            findings.add(place(function), "calls itself, or a function that does");
        }
    }
}

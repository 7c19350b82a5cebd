//! Checks of functions: names, opsets, and recursion.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Function, Op};

use super::walk::Walk;
use super::{Checked, Imports, gathered, quoted};
use crate::Findings;
use crate::onnx::blocks::block_of;
use crate::onnx::{domain_name, operator};

/// What identifies a function: domain, name and overload.
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
            findings.add(place(function), "is a duplicate");
        }
    }
    calls(checked, &by_name, findings);
    // The version of an opset that the model does not declare is that of the first function that declares it.
    let mut merged: Imports<'_> = HashMap::new();
    let declared = functions.iter().flat_map(|function| &function.operator_versions);
    for (domain, version) in checked.program.operator_versions.iter().chain(declared) {
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
        findings.add(place.as_str(), "has no domain");
    }
    let imports = gathered(&function.operator_versions, &place, findings);
    let block = block_of(checked.program, function.block);
    let mut outputs = HashSet::new();
    for name in block.iter().flat_map(|block| &block.outputs) {
        if !outputs.insert(name) {
            findings.add(place.as_str(), format!("has duplicate output {}", quoted(name)));
        }
    }
    let mut attributes = HashSet::new();
    for name in &function.required {
        if !attributes.insert(name) {
            findings.add(place.as_str(), format!("has duplicate attribute {}", quoted(name)));
        }
    }
    for (number, op) in block.iter().flat_map(|block| &block.ops).enumerate() {
        if let Some(wrong) = version_conflict(op, &imports, merged) {
            let kind = quoted(&op.kind);
            findings.add(format!("{place}, operator {number} ({kind})"), wrong);
        }
    }
    Walk::new(checked, imports, Some(function)).check(findings);
}

/// Whether an operator differs between the opset version of the function and that of the model: inlining makes it an
/// operator of the model's.
fn version_conflict(op: &Op, imports: &Imports<'_>, merged: &Imports<'_>) -> Option<String> {
    let domain = domain_name(&op.domain);
    let (own, models) = (imports.get(domain)?, merged.get(domain)?);
    let since = |version| operator(domain, &op.kind, version).map(|operator| operator.since);
    if own == models || since(*own) == since(*models) {
        return None;
    }
    let domain = quoted(domain);
    Some(format!("differs between {domain} {own} of the function and {models} of the model"))
}

/// Finds functions that call themselves, directly or indirectly.
fn calls(checked: Checked<'_>, by_name: &HashMap<Name<'_>, usize>, findings: &mut Findings) {
    let program = checked.program;
    let mut called: Vec<Vec<usize>> = Vec::new();
    for function in &program.functions {
        let (mut open, mut seen) = (vec![function.block], HashSet::new());
        let mut callees = Vec::new();
        while let Some(number) = open.pop() {
            let Some(block) = block_of(program, number).filter(|_| seen.insert(number)) else {
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
    // A function is done once all of its callees are. Those that remain call themselves or a recursive function.
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
            findings.add(place(function), "is recursive, or calls a recursive function");
        }
    }
}

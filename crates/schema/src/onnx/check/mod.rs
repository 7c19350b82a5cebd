//! Whether a model is what ONNX's specification asks for.
//!
//! It finds what `onnx.checker.check_model` finds, all of it rather than the first, and of types what
//! `full_check` does, as far as they are declared or handed in: [`check_with`] takes types that were
//! inferred. Shapes are not looked at, and the values of operators are not computed.
//!
//! | part | rules |
//! |---|---|
//! | here | versions of the representation and of the sets of operators |
//! | `walk` | names: each is written once, before it is read, where it can be seen |
//! | `values` | types of inputs and outputs; initializers and other tensors |
//! | `node` | an operator beside the table: kind, number of inputs and outputs, attributes |
//! | `types` | types of what an operator reads and writes |
//! | `functions` | names, sets of operators and calls of functions |
//!
//! What a reader of files has already refused or decided is not seen here: tensors whose elements do not
//! fit their shapes, attributes that have a value of another type beside theirs.
//!
//! Source of truth: `checker.cc` and `OpSchema::Verify` of onnx 1.23.2. Where this is stricter or laxer,
//! `crates/formats/tests/golden/onnx_check` has a model for it, and the reason.

mod functions;
mod node;
mod types;
mod values;
mod walk;

use std::collections::HashMap;

use lodstone_model::{Model, Parameter, Program, ValueType};

use self::walk::Walk;
use super::{domain_name, introduced, newest_ir_version, quoted};
use crate::Findings;

/// What is wrong with a model by ONNX's rules; nothing if it has no program.
pub fn check(model: &Model) -> Findings {
    check_with(model, &[])
}

/// The same, with the types of values that are known beyond those that the program declares: by block
/// and name.
pub fn check_with(model: &Model, inferred: &[HashMap<String, ValueType>]) -> Findings {
    let mut findings = Findings::default();
    let Some(program) = model.main() else { return findings };
    let ir_version = ir_version(program, &mut findings);
    let imports = imports(program, ir_version, &mut findings);
    let checked = Checked { program, parameters: &model.parameters, inferred, ir_version };
    Walk::new(checked, imports, None).check(&mut findings);
    if ir_version >= introduced::FUNCTIONS {
        functions::check(checked, &mut findings);
    }
    findings
}

/// What is being checked.
#[derive(Clone, Copy, Debug)]
struct Checked<'m> {
    program: &'m Program,
    /// The initializers of the first block.
    parameters: &'m [Parameter],
    /// Types that are known beyond those that are declared, by block.
    inferred: &'m [HashMap<String, ValueType>],
    ir_version: i64,
}

/// Versions of the sets of operators, by domain.
type Imports<'m> = HashMap<&'m str, i64>;

fn ir_version(program: &Program, findings: &mut Findings) -> i64 {
    let newest = newest_ir_version();
    match program.version {
        None | Some(0) => {
            findings.add("the model", "has no IR version");
            // What follows is judged by today's rules.
            newest
        }
        Some(version) => {
            if version > newest {
                let what = format!("has the IR version {version}; {newest} is the newest known");
                findings.add("the model", what);
            }
            version
        }
    }
}

fn imports<'m>(program: &'m Program, ir_version: i64, findings: &mut Findings) -> Imports<'m> {
    let versions = &program.operator_versions;
    let has_sets = ir_version >= introduced::OPERATOR_SETS;
    if has_sets && versions.is_empty() {
        findings.add("the model", "does not say which sets of operators it uses");
    }
    if !has_sets && !versions.is_empty() {
        let what = format!("says sets of operators, which IR version {ir_version} has not");
        findings.add("the model", what);
    }
    let mut imports = gathered(versions, "the model", findings);
    if !has_sets {
        imports.entry(domain_name("")).or_insert(1);
    }
    imports
}

/// Sets of operators by domain, the last of several.
fn gathered<'m>(
    versions: &'m [(String, i64)],
    place: &str,
    findings: &mut Findings,
) -> Imports<'m> {
    let mut imports = Imports::new();
    for (domain, version) in versions {
        if i32::try_from(*version).is_err() {
            let what = format!("uses version {version} of {}, which none can be", quoted(domain));
            findings.add(place, what);
        }
        // The checker lets the last count; what runs the model may take another.
        let other = imports.insert(domain_name(domain), *version);
        if let Some(other) = other.filter(|other| other != version) {
            let domain = quoted(domain_name(domain));
            findings.add(place, format!("uses versions {other} and {version} of {domain}"));
        }
    }
    imports
}

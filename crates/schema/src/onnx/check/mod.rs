//! Checks of a model against ONNX's specification.
//!
//! They find what `onnx.checker.check_model` finds, but all problems rather than the first, and the type errors that
//! `full_check` finds, as far as types are declared or passed in: [`check_with`] takes inferred types. Shapes are not
//! checked, and no operator is computed.
//!
//! | part | rules |
//! |---|---|
//! | here | the IR version and the versions of the opsets |
//! | `walk` | names: each is written once, before it is read, where it is visible |
//! | `values` | types of inputs and outputs; initializers and other tensors |
//! | `node` | an operator against the table: kind, number of inputs and outputs, attributes |
//! | `types` | types of the inputs and outputs of an operator |
//! | `functions` | names, opsets and calls of functions |
//!
//! Problems that the reader of a file rejects or resolves are not visible here: tensors whose elements do not fit their
//! shapes, attributes with a second value of another type.
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

/// Checks a model against ONNX's rules. A model without a program has no findings.
pub fn check(model: &Model) -> Findings {
    check_with(model, &[])
}

/// Checks a model like [`check`], with inferred types beside those that the program declares, by block and name.
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

/// The model that is checked.
#[derive(Clone, Copy, Debug)]
struct Checked<'m> {
    program: &'m Program,
    /// The initializers of the first block.
    parameters: &'m [Parameter],
    /// Inferred types, by block and name.
    inferred: &'m [HashMap<String, ValueType>],
    ir_version: i64,
}

/// The versions of opsets, by domain.
type Imports<'m> = HashMap<&'m str, i64>;

fn ir_version(program: &Program, findings: &mut Findings) -> i64 {
    let newest = newest_ir_version();
    match program.version {
        None | Some(0) => {
            findings.add("the model", "has no IR version");
            // The newest rules apply to the rest.
            newest
        }
        Some(version) => {
            if version > newest {
                let what = format!("has IR version {version}; the newest known is {newest}");
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
        findings.add("the model", "declares no opsets");
    }
    if !has_sets && !versions.is_empty() {
        let what = format!("declares opsets, which IR version {ir_version} does not have");
        findings.add("the model", what);
    }
    let mut imports = gathered(versions, "the model", findings);
    if !has_sets {
        imports.entry(domain_name("")).or_insert(1);
    }
    imports
}

/// Returns opset versions by domain, the last declaration of each.
fn gathered<'m>(
    versions: &'m [(String, i64)],
    place: &str,
    findings: &mut Findings,
) -> Imports<'m> {
    let mut imports = Imports::new();
    for (domain, version) in versions {
        if i32::try_from(*version).is_err() {
            let what =
                format!("uses version {version} of {}, which is out of range", quoted(domain));
            findings.add(place, what);
        }
        // The checker uses the last declaration; runtimes may use another.
        let other = imports.insert(domain_name(domain), *version);
        if let Some(other) = other.filter(|other| other != version) {
            let domain = quoted(domain_name(domain));
            findings.add(place, format!("uses versions {other} and {version} of {domain}"));
        }
    }
    imports
}

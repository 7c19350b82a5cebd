//! Risks in the program and metadata of a model.

use std::path::Path;

use lodstone_model::{AttributeValue, Model, Op, Program, some};
use lodstone_schema::{Conventions, Risk, conventions};
use lodstone_store::{Error as StoreError, check_relative};

use super::DangerKind;
use super::findings::Findings;

/// Adds the findings of the program and metadata of a model.
pub(super) fn look(path: &Path, model: &Model, findings: &mut Findings) {
    for (_, program) in model.programs.iter() {
        let conventions = conventions(program);
        operators(path, program, conventions, findings);
        let count = conventions.count_source(program);
        if count > 0 {
            let attribute = conventions.source.unwrap_or_default();
            let message = format!(
                "paths and source lines of the training script in `{attribute}`: {}",
                some(sources(program, attribute).iter().map(|line| format!("`{line}`")))
            );
            findings.add(DangerKind::Source, path, &format!("{count} operators"), message);
        }
        // Names of parameters become file names if each parameter has its own file.
        let kept = program.vars().filter(|var| var.persistable);
        for var in kept {
            if let Err(StoreError::Escapes { why, .. }) = check_relative(&var.name) {
                let message =
                    format!("a file of this name would be outside of the directory: {why}");
                findings.add(DangerKind::Path, path, &format!("variable `{}`", var.name), message);
            }
        }
    }
    for (key, value) in &model.metadata {
        if is_private(value) {
            let message = format!("a path on the machine that wrote it: `{value}`");
            findings.add(DangerKind::Source, path, &format!("metadata `{key}`"), message);
        }
    }
}

fn operators(path: &Path, program: &Program, conventions: &Conventions, findings: &mut Findings) {
    let unknown = (conventions.unknown_operators)(program);
    for (number, block) in program.blocks.iter().enumerate() {
        for (index, op) in block.ops.iter().enumerate() {
            let place = format!("block {number}, operator {index} (`{}`)", op.kind);
            let risk = (conventions.risk)(&op.kind);
            if let Some(risk) = risk {
                findings.add(DangerKind::Operator, path, &place, risk.describe());
            } else if unknown.binary_search(&(op.domain.as_str(), op.kind.as_str())).is_ok()
                && !conventions.runtime_domains.contains(&op.domain.as_str())
            {
                let message = format!(
                    "is not an operator of {}: {}",
                    conventions.framework,
                    Risk::Runs.describe()
                );
                findings.add(DangerKind::Operator, path, &place, message);
            }
            for (attribute, text) in texts(op, conventions) {
                if risk.is_some()
                    && let Err(StoreError::Escapes { why, .. }) = check_relative(&text)
                {
                    let message = format!("`{attribute}` is `{text}`: {why}");
                    // Other strings are not paths.
                    if text.contains(['/', '\\']) {
                        findings.add(DangerKind::Path, path, &place, message);
                    }
                } else if is_private(&text) {
                    let message =
                        format!("`{attribute}` is a path on the machine that wrote it: `{text}`");
                    findings.add(DangerKind::Source, path, &place, message);
                }
            }
        }
    }
}

/// Returns the strings among the attributes of an operator, except for references to the training script.
fn texts(op: &Op, conventions: &Conventions) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for attribute in &op.attributes {
        if Some(attribute.name.as_str()) == conventions.source {
            continue;
        }
        let values = attribute.value.leaves().flat_map(|value| match value {
            AttributeValue::String(value) => std::slice::from_ref(value),
            AttributeValue::Strings(values) => values,
            _ => &[],
        });
        texts.extend(values.map(|value| (attribute.name.clone(), value.to_string())));
    }
    texts
}

/// Returns the files of the training script.
fn sources(program: &Program, attribute: &str) -> Vec<String> {
    let lines =
        program.ops().filter_map(|op| op.attribute(attribute)).flat_map(|value| match value {
            AttributeValue::Strings(lines) => lines.as_slice(),
            _ => &[],
        });
    let mut files: Vec<String> = lines
        .filter_map(|line| {
            let line = line.to_string();
            let (_, rest) = line.split_once("File \"")?;
            Some(rest.split_once('"')?.0.to_owned())
        })
        .collect();
    files.sort();
    files.dedup();
    // List files of the framework last, as they reveal less than those of the user.
    let installed =
        |file: &String| file.contains("site-packages") || file.contains("dist-packages");
    files.sort_by_key(installed);
    files
}

/// Returns whether a string is an absolute path of a user's machine.
fn is_private(text: &str) -> bool {
    const TOPS: [&str; 8] = ["home", "root", "Users", "mnt", "data", "tmp", "workspace", "opt"];
    let drive = matches!(text.as_bytes(), [b'A'..=b'Z' | b'a'..=b'z', b':', b'\\' | b'/', ..]);
    let below = text.strip_prefix('/').and_then(|rest| rest.split_once('/'));
    drive || below.is_some_and(|(top, _)| TOPS.contains(&top))
}

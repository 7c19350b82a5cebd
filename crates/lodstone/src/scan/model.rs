//! Risks in the program and metadata of a model.

use std::path::Path;

use lodstone_formats::reader_of_texts;
use lodstone_model::{AttributeValue, Limits, Model, Op, Program, some};
use lodstone_schema::{Conventions, Risk, conventions};
use lodstone_store::{Blob, Error as StoreError, check_relative};

use super::DangerKind;
use super::findings::Findings;

/// Adds the findings of the program and metadata of a model.
pub(super) fn look(path: &Path, model: &Model, limits: &Limits, findings: &mut Findings) {
    for (_, program) in model.programs.iter() {
        nets_in_texts(path, program, limits, findings);
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
                let message = match context_of(op) {
                    Some(context) => format!("{}: {context}", risk.describe()),
                    None => risk.describe().to_owned(),
                };
                findings.add(DangerKind::Operator, path, &place, message);
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

/// Returns what an operator of ONNX Runtime with a compiled graph makes an accelerator load: a file, or its own bytes.
fn context_of(op: &Op) -> Option<String> {
    if op.kind != "EPContext" {
        return None;
    }
    let is_embedded =
        op.attribute("embed_mode").is_none_or(|mode| *mode != AttributeValue::Long(0));
    Some(match op.attribute("ep_cache_context") {
        Some(AttributeValue::String(file)) if !is_embedded => {
            format!("an execution provider loads the file `{file}`")
        }
        _ => "an execution provider loads a compiled graph".to_owned(),
    })
}

/// Adds the findings of nets in text format that are arguments of operators, such as the `step_net` of a
/// `RecurrentNetwork`, and of nets in these.
fn nets_in_texts(path: &Path, program: &Program, limits: &Limits, findings: &mut Findings) {
    /// Maximum levels of nets in texts.
    const MAX_LEVELS: usize = 8;
    let Some(read) = reader_of_texts(program.dialect) else { return };
    let conventions = conventions(program);
    let texts_of = |program: &Program| -> Vec<(String, String)> {
        let texts = program.ops().flat_map(|op| {
            let place = move |(name, text)| (format!("`{name}` of `{}`", op.kind), text);
            texts(op, conventions).into_iter().map(place)
        });
        texts.filter(|(_, text)| has_operator(text)).collect()
    };
    let mut level = texts_of(program);
    for _ in 0..MAX_LEVELS {
        for (place, text) in std::mem::take(&mut level) {
            let blob = Blob::memory(text.into_bytes());
            let Ok(net) = read(&blob, limits) else {
                let message = "may be a net, and could not be read";
                findings.add(DangerKind::Operator, path, &place, message);
                continue;
            };
            for (_, program) in net.programs.iter() {
                operators(path, program, conventions, findings);
                level.extend(texts_of(program));
            }
        }
    }
    for (place, _) in level {
        findings.add(DangerKind::Operator, path, &place, "nets are nested too deeply");
    }
}

/// Returns whether a text has the beginning of an operator in text format, `op {`.
fn has_operator(text: &str) -> bool {
    text.match_indices("op").any(|(at, name)| {
        let (before, rest) = text.split_at(at);
        let rest = rest.trim_start_matches(name).trim_start();
        // A comment may be between both.
        !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && rest.starts_with(['{', '<', ':', '#'])
    })
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

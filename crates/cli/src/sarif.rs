//! Scans as SARIF 2.1.0, the format of code-scanning services (OASIS, 2020).
//!
//! | scan | SARIF |
//! |---|---|
//! | kind of finding, `unknown` | rule |
//! | finding, unknown file | result, at a file and a place in it |
//! | findings beyond the listed ones | notification of the invocation |

use std::fmt::Write;
use std::path::Path;

use lodstone::scan::{Danger, DangerKind, Scan, Unknown};
use serde_json::{Value, json};

use crate::stores::scheme_of;

/// The rule of files that were not understood.
const UNKNOWN: &str = "unknown";

/// Returns the log of a run; `is_complete` if every path was scanned.
pub(crate) fn log(scans: &[Scan], is_complete: bool) -> Value {
    let rules = DangerKind::ALL.iter().map(|kind| rule(kind.name(), kind.describe()));
    let unknown = rule(UNKNOWN, "a file, or a part of it, was not understood");
    let rules: Vec<Value> = rules.chain([unknown]).collect();
    let findings = scans.iter().flat_map(|scan| &scan.findings).map(finding);
    let unknown = scans.iter().flat_map(|scan| &scan.unknown).map(not_understood);
    let results: Vec<Value> = findings.chain(unknown).collect();
    let total: usize = scans.iter().map(|scan| scan.finding_count + scan.unknown_count).sum();
    let mut notifications = Vec::new();
    if total > results.len() {
        let text = format!("{} more results are not listed", total - results.len());
        notifications.push(json!({ "level": "note", "message": { "text": text } }));
    }
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "lodstone",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "invocations": [{
                "executionSuccessful": is_complete,
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        }],
    })
}

fn rule(id: &str, text: &str) -> Value {
    json!({ "id": id, "shortDescription": { "text": text } })
}

fn finding(danger: &Danger) -> Value {
    let level = if danger.kind == DangerKind::Source { "note" } else { "error" };
    let mut physical = json!({ "artifactLocation": { "uri": uri(&danger.file) } });
    let offset = danger.place.strip_prefix("byte ").and_then(|offset| offset.parse::<u64>().ok());
    if let Some(offset) = offset {
        physical["region"] = json!({ "byteOffset": offset });
    }
    json!({
        "ruleId": danger.kind.name(),
        "level": level,
        "message": { "text": format!("{}: {}", danger.place, danger.message) },
        "locations": [{
            "physicalLocation": physical,
            "logicalLocations": [{ "fullyQualifiedName": danger.place }],
        }],
    })
}

fn not_understood(unknown: &Unknown) -> Value {
    let text = match &unknown.member {
        Some(member) => format!("member `{member}`: {}", unknown.reason),
        None => unknown.reason.clone(),
    };
    let physical = json!({ "artifactLocation": { "uri": uri(&unknown.file) } });
    json!({
        "ruleId": UNKNOWN,
        "level": "warning",
        "message": { "text": text },
        "locations": [{ "physicalLocation": physical }],
    })
}

/// A path as a URI reference (RFC 3986).
fn uri(path: &Path) -> String {
    let mut uri = String::new();
    let mut path = path;
    if path.is_absolute() {
        uri += "file://";
    } else if let Some((scheme, rest)) = scheme_of(path) {
        uri += &format!("{scheme}://");
        path = Path::new(rest);
    }
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(*byte));
            }
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

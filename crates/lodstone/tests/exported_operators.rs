//! The tables of operators in documents are those of the code: what is exported, and what runs operator by operator.
//!
//! With `LODSTONE_REWRITE_EXPECTED=1`, the tables are rewritten.

#![expect(clippy::disallowed_methods, reason = "reads and writes a document")]

use std::fmt::Write;
use std::path::Path;

use lodstone_lowering::paddle::exported_kinds;
use lodstone_schema::paddle::{Operator, Plan, REASONS, operator, operators};

/// Returns the table of exported operators: an operator in a row, with the releases that have it.
fn exported() -> String {
    let kinds = exported_kinds();
    let mut table = format!("{} operators are exported:\n\n", kinds.len());
    table += "| operator | releases |\n|---|---|\n";
    for kind in kinds {
        let releases = operator(kind).map(|row| row.releases.join(", ")).unwrap_or_default();
        let releases = if releases.is_empty() { "before 1.8.5".to_owned() } else { releases };
        writeln!(table, "| `{kind}` | {releases} |").expect("a string");
    }
    table
}

/// Returns the table of operators whose networks run operator by operator: a reason in a row.
fn apart() -> String {
    let mut table = "| operators | why |\n|---|---|\n".to_owned();
    for reason in &REASONS {
        let has_reason =
            |row: &&Operator| matches!(row.plan, Some(Plan::Apart(own)) if own == reason);
        let kinds: Vec<String> =
            operators().filter(has_reason).map(|row| format!("`{}`", row.kind)).collect();
        let kinds = match reason.name {
            "gradient" => format!("{} gradients", kinds.len()),
            _ => kinds.join(", "),
        };
        writeln!(table, "| {kinds} | {} |", reason.text).expect("a string");
    }
    table
}

/// Fails unless a document has a table between two marks.
fn check(document: &str, name: &str, expected: &str) {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document);
    let text = std::fs::read_to_string(&path).expect("the document");
    let (before, rest) = text.split_once(&begin).expect("the begin of the table");
    let (found, after) = rest.split_once(&end).expect("the end of the table");
    if std::env::var_os("LODSTONE_REWRITE_EXPECTED").is_some() {
        std::fs::write(&path, format!("{before}{begin}{expected}{end}{after}")).expect("written");
    } else {
        assert_eq!(found, expected, "set LODSTONE_REWRITE_EXPECTED=1 to rewrite the table");
    }
}

#[test]
fn the_document_lists_all_operators_that_are_exported() {
    check("paddle-to-onnx.md", "operators", &exported());
}

#[test]
fn the_document_lists_all_operators_whose_networks_run_operator_by_operator() {
    check("numerics.md", "operators", &apart());
}

#[test]
fn an_operator_that_is_planned_is_exported_and_one_without_equivalent_is_not() {
    let kinds = exported_kinds();
    // An export has outputs in place of `fetch_v2`.
    for row in operators().filter(|row| row.kind != "fetch_v2") {
        let is_exported = kinds.contains(&row.kind);
        let expected = match row.plan {
            Some(Plan::Whole | Plan::Interface) => true,
            Some(Plan::Apart(reason)) if reason.name == "native" => false,
            Some(Plan::Apart(reason))
                if ["uncompared", "boxes", "rounding"].contains(&reason.name) =>
            {
                true
            }
            _ => continue,
        };
        assert_eq!(is_exported, expected, "`{}`: {:?}", row.kind, row.plan);
    }
}

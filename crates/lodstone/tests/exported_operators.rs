//! The table of operators in `docs/paddle-to-onnx.md` lists what the code exports.
//!
//! With `LODSTONE_REWRITE_EXPECTED=1`, the table is rewritten.

#![expect(clippy::disallowed_methods, reason = "reads and writes a document")]

use std::fmt::Write;
use std::path::Path;

use lodstone_lowering::paddle::exported_kinds;
use lodstone_schema::paddle::operator;

const BEGIN: &str = "<!-- operators -->\n";
const END: &str = "<!-- end of operators -->";

/// Returns the table: an operator in a row, with the releases that have it and how it runs.
fn table() -> String {
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

#[test]
fn the_document_lists_all_operators_that_are_exported() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/paddle-to-onnx.md");
    let text = std::fs::read_to_string(&path).expect("the document");
    let (before, rest) = text.split_once(BEGIN).expect("the begin of the table");
    let (found, after) = rest.split_once(END).expect("the end of the table");
    let expected = table();
    if std::env::var_os("LODSTONE_REWRITE_EXPECTED").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).expect("written");
    } else {
        assert_eq!(found, expected, "set LODSTONE_REWRITE_EXPECTED=1 to rewrite the table");
    }
}

//! `lodstone scan`.

use std::io::{self, Write};

use lodstone::{Danger, DangerKind, Scan};

use crate::Failure;
use crate::args::Scan as Arguments;
use crate::say::{self, count, plain};

/// Says whether a model does and tells nothing that it should not.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let options = arguments.files.options(None);
    let found = lodstone::scan(&arguments.path, &options)?;
    if arguments.json {
        say::json(&found)?;
    } else {
        say::to_stdout(|out| Ok(describe(&found, &arguments.path.display().to_string(), out)?))?;
    }
    if found.findings.is_empty() && !found.unread.is_empty() {
        return Err(found.unread.join("; ").into());
    }
    found.unread.iter().for_each(|why| say::warning(&format!("not looked into: {why}")));
    Ok(found.clean)
}

fn describe(found: &Scan, path: &str, out: &mut impl Write) -> io::Result<()> {
    let files = count(found.files, "file");
    let findings = match found.findings.len() {
        0 if !found.unread.is_empty() => "cannot be told".to_owned(),
        0 => "nothing found".to_owned(),
        number => count(number, "finding"),
    };
    writeln!(out, "{}: {findings} in {files}", plain(path))?;
    let mut file = None;
    for danger in &found.findings {
        if file != Some(&danger.file) && found.files > 1 {
            writeln!(out, "{}", plain(&danger.file.display().to_string()))?;
        }
        file = Some(&danger.file);
        let Danger { place, message, .. } = danger;
        writeln!(out, "  {:<9} {}: {}", word(danger.kind), plain(place), plain(message))?;
    }
    Ok(())
}

fn word(kind: DangerKind) -> &'static str {
    match kind {
        DangerKind::Callable => "callable",
        DangerKind::Operator => "operator",
        DangerKind::Path => "path",
        DangerKind::Archive => "archive",
        DangerKind::Source => "source",
        _ => "other",
    }
}

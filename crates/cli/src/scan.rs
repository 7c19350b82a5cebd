//! `lodstone scan`.

use std::io::{self, Write};

use lodstone::{Danger, DangerKind, Progress, Scan, ScanOptions, Unknown, Verdict};

use crate::args::Scan as Arguments;
use crate::say::{self, count, plain};
use crate::stores::at;
use crate::{Answer, Failure, progress};

/// Lists what a model could do, and what of it is not understood.
pub(crate) fn run(arguments: &Arguments) -> Result<Answer, Failure> {
    let progress = Progress::default();
    progress::cancel_when_asked(&progress)?;
    let options = ScanOptions::default()
        .with_open(arguments.files.options(None)?)
        .with_ignore(arguments.ignore.clone())
        .with_progress(progress.clone());
    let path = at(&arguments.path)?;
    let scan = || lodstone::scan(&path, &options);
    let found = progress::show(&progress, None, scan)?;
    if arguments.json {
        say::json(&found)?;
    } else {
        say::to_stdout(|out| Ok(describe(&found, &arguments.path.display().to_string(), out)?))?;
    }
    Ok(match found.verdict {
        Verdict::Clean => Answer::Yes,
        Verdict::Findings => Answer::No,
        _ => Answer::Unknown,
    })
}

fn describe(found: &Scan, path: &str, out: &mut impl Write) -> io::Result<()> {
    let mut parts = vec![match found.finding_count {
        0 => "no findings".to_owned(),
        number => count(number, "finding"),
    }];
    for (number, what) in [(found.unknown_count, "unknown"), (found.ignored_count, "ignored")] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    let files = count(found.files, "file");
    writeln!(out, "{}: {} in {files}", plain(path), parts.join(", "))?;
    let mut file = None;
    for danger in &found.findings {
        if file != Some(&danger.file) && found.files > 1 {
            writeln!(out, "{}", plain(&danger.file.display().to_string()))?;
        }
        file = Some(&danger.file);
        let Danger { place, message, .. } = danger;
        writeln!(out, "  {:<9} {}: {}", word(danger.kind), plain(place), plain(message))?;
    }
    more(found.finding_count - found.findings.len(), out)?;
    list("unknown", &found.unknown, found.unknown_count, out)?;
    list("ignored", &found.ignored, found.ignored_count, out)
}

fn list(word: &str, files: &[Unknown], all: usize, out: &mut impl Write) -> io::Result<()> {
    for Unknown { file, member, reason } in files {
        let mut place = plain(&file.display().to_string());
        if let Some(member) = member {
            place += &format!(", member `{}`", plain(member));
        }
        writeln!(out, "{word} {place}: {}", plain(reason))?;
    }
    more(all - files.len(), out)
}

fn more(number: usize, out: &mut impl Write) -> io::Result<()> {
    if number == 0 { Ok(()) } else { writeln!(out, "  and {number} more") }
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

//! `lodstone scan`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use lodstone::scan::{Accepted, Danger, DangerKind, Scan, Unknown, Verdict};
use lodstone::{Progress, ScanOptions};

use crate::args::options::Files;
use crate::args::values::kinds;
use crate::console::{self, count, plain};
use crate::paths::{About, each};
use crate::stores::{at, for_parts, shown};
use crate::{Answer, Failure, progress, sarif};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone scan model.pdparams
  lodstone scan downloaded/                      every file in the directory tree
  lodstone scan downloaded/ --ignore '*.png'     accept unknown files with these names
  lodstone scan model.pdmodel --ignore source    accept paths of the training script
  lodstone scan model.joblib --allow-import sklearn.pipeline.Pipeline
  lodstone scan downloaded/ --only callable --sarif > scan.sarif
  lodstone scan checkpoint.pt --json")]
pub(crate) struct Arguments {
    /// Files, directories, or prefixes that the files of a model share
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Report only findings of this kind; may be repeated
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    pub(crate) only: Vec<String>,
    /// Ignore findings of this kind, or accept unknown files whose path below PATH, or name, matches
    /// (`*`, `?`, `[..]`, `{a,b}`); findings in accepted files still count; may be repeated
    #[arg(long, value_name = "KIND|GLOB")]
    pub(crate) ignore: Vec<String>,
    /// Accept pickles that import this callable and call it with any arguments, such as
    /// `sklearn.pipeline.Pipeline`; what it returns may not be called; may be repeated
    #[arg(long, value_name = "MODULE.NAME")]
    pub(crate) allow_import: Vec<String>,
    /// Print JSON (schema 2), one document for each path
    #[arg(long)]
    pub(crate) json: bool,
    /// Print SARIF 2.1.0, for code-scanning services
    #[arg(long, conflicts_with = "json")]
    pub(crate) sarif: bool,
    #[command(flatten)]
    pub(crate) files: Files,
}

/// Lists the risks of models, and the files that were not understood.
pub(crate) fn run(arguments: &Arguments) -> Result<Answer, Failure> {
    let progress = Progress::default();
    progress::cancel_on_interrupt(&progress)?;
    let kind = |name: &String| DangerKind::ALL.iter().copied().find(|kind| kind.name() == name);
    let only: Vec<DangerKind> = arguments.only.iter().filter_map(kind).collect();
    let ignored: Vec<DangerKind> = arguments.ignore.iter().filter_map(kind).collect();
    let globs = arguments.ignore.iter().filter(|name| kind(name).is_none());
    let is_ignored =
        |kind: &DangerKind| ignored.contains(kind) || !(only.is_empty() || only.contains(kind));
    let options = ScanOptions::default()
        .with_open(arguments.files.options(None)?)
        .with_ignore(globs.cloned().collect())
        .with_ignore_kinds(DangerKind::ALL.iter().copied().filter(is_ignored).collect())
        .with_allow_imports(arguments.allow_import.clone())
        .with_progress(progress.clone());
    let mut scans = Vec::new();
    let answer = each(&arguments.paths, |path| {
        let location = at(path)?;
        let options = options.clone().with_open(for_parts(path, options.open.clone()));
        let scan = || lodstone::scan(&location, &options);
        let found = progress::show(&progress, None, scan)?;
        let answer = match found.verdict {
            Verdict::Clean => Answer::Yes,
            Verdict::Findings => Answer::No,
            _ => Answer::Unknown,
        };
        if arguments.sarif {
            scans.push(found);
        } else {
            print(&found, path, arguments.json)?;
        }
        Ok(answer)
    })?;
    if arguments.sarif {
        console::json(&sarif::log(&scans, answer != Answer::Failed))?;
    }
    Ok(answer)
}

fn print(found: &Scan, path: &Path, json: bool) -> Result<(), Failure> {
    if json {
        return console::json(&About::new(path, found));
    }
    console::to_stdout(|out| Ok(describe(found, &shown(path), out)?))
}

fn describe(found: &Scan, path: &str, out: &mut impl Write) -> io::Result<()> {
    let mut parts = vec![match found.finding_count {
        0 => "no findings".to_owned(),
        number => count(number, "finding"),
    }];
    if found.ignored_finding_count > 0 {
        parts.push(format!("{} ignored", count(found.ignored_finding_count, "finding")));
    }
    for (number, what) in [(found.unknown_count, "unknown"), (found.ignored_count, "ignored")] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    if !found.accepted.is_empty() {
        parts.push(format!("{} accepted", count(found.accepted.len(), "import")));
    }
    let files = count(found.files, "file");
    writeln!(out, "{}: {} in {files}", plain(path), parts.join(", "))?;
    let mut file = None;
    for danger in &found.findings {
        if file != Some(&danger.file) && found.files > 1 {
            writeln!(out, "{}", plain(&danger.file.display().to_string()))?;
        }
        file = Some(&danger.file);
        let Danger { kind, place, message, .. } = danger;
        writeln!(out, "  {:<9} {}: {}", kind.name(), plain(place), plain(message))?;
    }
    more(found.finding_count - found.findings.len(), out)?;
    for Accepted { file, member, name } in &found.accepted {
        writeln!(out, "accepted {}: `{}`", place_of(file, member.as_deref()), plain(name))?;
    }
    list("unknown", &found.unknown, found.unknown_count, out)?;
    list("ignored", &found.ignored, found.ignored_count, out)
}

fn list(word: &str, files: &[Unknown], all: usize, out: &mut impl Write) -> io::Result<()> {
    for Unknown { file, member, reason } in files {
        let place = place_of(file, member.as_deref());
        writeln!(out, "{word} {place}: {}", plain(reason))?;
    }
    more(all - files.len(), out)
}

fn place_of(file: &Path, member: Option<&str>) -> String {
    let place = plain(&file.display().to_string());
    match member {
        Some(member) => format!("{place}, member `{}`", plain(member)),
        None => place,
    }
}

fn more(number: usize, out: &mut impl Write) -> io::Result<()> {
    if number == 0 { Ok(()) } else { writeln!(out, "  and {number} more") }
}

//! Output: data to stdout, everything else to stderr.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use anstyle::{AnsiColor, Style};
use bytesize::ByteSize;
use clap::Parser;
use lodstone::Model;
use lodstone::model::{Report, some};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::args::Arguments;
use crate::plain::PlainJson;
use crate::stores::shown;
use crate::{Failure, hint};

pub(crate) use crate::plain::plain;

/// How much is printed to stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Errors only.
    Quiet,
    /// Also warnings, notes and progress.
    Normal,
    /// Also details: opened models, times, causes of errors.
    Verbose,
}

/// The verbosity of the running command, as a number.
static VERBOSITY: AtomicU8 = AtomicU8::new(Verbosity::Normal as u8);

pub(crate) fn set_verbosity(verbosity: Verbosity) {
    VERBOSITY.store(verbosity as u8, Ordering::Relaxed);
}

/// Whether the running command prints JSON, and has not yet.
static EXPECTS_DOCUMENT: AtomicBool = AtomicBool::new(false);

/// Whether the running command prints JSON.
static JSON: AtomicBool = AtomicBool::new(false);

pub(crate) fn set_json(is: bool) {
    JSON.store(is, Ordering::Relaxed);
    expect_document();
}

/// Begins another document, of a command that prints one for each path.
pub(crate) fn expect_document() {
    EXPECTS_DOCUMENT.store(JSON.load(Ordering::Relaxed), Ordering::Relaxed);
}

fn prints(min: Verbosity) -> bool {
    VERBOSITY.load(Ordering::Relaxed) >= min as u8
}

/// Writes data.
pub(crate) fn out(bytes: &[u8]) -> Result<(), Failure> {
    to_stdout(|out| Ok(out.write_all(bytes)?))
}

/// Writes data by calling `write` with a buffered stdout.
pub(crate) fn to_stdout(
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    EXPECTS_DOCUMENT.store(false, Ordering::Relaxed);
    let mut stdout = BufWriter::new(io::stdout().lock());
    write(&mut stdout)?;
    Ok(stdout.flush()?)
}

/// Writes the summary of a command to stdout, unless quiet.
pub(crate) fn summary(text: &str) -> Result<(), Failure> {
    if prints(Verbosity::Normal) { out(text.as_bytes()) } else { Ok(()) }
}

/// Writes data as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    to_stdout(|out| {
        let format = PlainJson(PrettyFormatter::new());
        let mut serializer = Serializer::with_formatter(&mut *out, format);
        value.serialize(&mut serializer).map_err(io::Error::from)?;
        Ok(out.write_all(b"\n")?)
    })
}

/// An error as JSON.
#[derive(Serialize)]
struct Failed {
    /// Version of this structure.
    schema: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    error: Description,
}

#[derive(Serialize)]
struct Description {
    /// What kind of error it is, if the library reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Reports an error, its causes (if verbose) and a hint.
pub(crate) fn error(failure: &(dyn Error + 'static)) {
    error_about(None, failure);
}

/// Reports an error, which may be that of one of several paths. It is the document of a command that should print JSON and
/// has not.
pub(crate) fn error_about(path: Option<&Path>, failure: &(dyn Error + 'static)) {
    if EXPECTS_DOCUMENT.load(Ordering::Relaxed) {
        let kind = lodstone::ErrorKind::of(failure).map(lodstone::ErrorKind::name);
        let error = Description { kind, message: failure.to_string(), hint: hint::of(failure) };
        // A closed stdout is reported below, if anywhere.
        let _ = json(&Failed { schema: 1, path: path.map(shown), error });
    }
    line("error", AnsiColor::Red, &failure.to_string());
    let (mut shown, mut next) = (failure.to_string(), failure.source());
    while let Some(cause) = next {
        let text = cause.to_string();
        if prints(Verbosity::Verbose) && !shown.contains(&text) {
            line("cause", AnsiColor::Red, &text);
        }
        (shown, next) = (text, cause.source());
    }
    if let Some(hint) = hint::of(failure) {
        line("hint", AnsiColor::Cyan, &hint);
    }
}

/// Reports invalid arguments, or prints the requested help, and exits.
pub(crate) fn usage(arguments: &[OsString], error: &clap::Error) -> ! {
    // clap quotes arguments verbatim, so the escaped ones are parsed instead. They fail in the same way, unless
    // the only problem is that they are not UTF-8; that error quotes none.
    let escaped = arguments.iter().map(|argument| plain(&argument.to_string_lossy()));
    Arguments::try_parse_from(escaped).err().as_ref().unwrap_or(error).exit()
}

/// Reports a warning, unless quiet.
pub(crate) fn warning(text: &str) {
    if prints(Verbosity::Normal) {
        line("warning", AnsiColor::Yellow, text);
    }
}

/// Reports warnings.
pub(crate) fn warnings<T: AsRef<str>>(texts: &[T]) {
    texts.iter().for_each(|text| warning(text.as_ref()));
}

/// Reports the warnings and losses of a conversion.
pub(crate) fn report(report: &Report) {
    warnings(&report.warnings);
    for (loss, places) in &report.losses {
        warning(&format!("lost {}: {}", loss.describe(), some(places)));
    }
}

/// Writes a requested report that is not data to stderr.
pub(crate) fn details(text: &[u8]) {
    // A closed stderr cannot be reported anywhere.
    let _ = anstream::stderr().write_all(text);
}

/// Reports an action, unless quiet.
pub(crate) fn note(text: &str) {
    if prints(Verbosity::Normal) {
        let _ = writeln!(anstream::stderr(), "{}", plain(text));
    }
}

/// Reports an opened model, if verbose.
pub(crate) fn opened(path: &Path, model: &Model) {
    let weights = lodstone::inspect::weights(model);
    let (files, tensors) = (count(model.files.len(), "file"), count(weights.len(), "tensor"));
    let size = size(weights.iter().map(|weight| weight.tensor.nbytes()).sum());
    detail(&format!("opened {}: {}, {files}, {tensors}, {size}", shown(path), model.format));
}

/// Reports a detail, if verbose.
pub(crate) fn detail(text: &str) {
    if prints(Verbosity::Verbose) {
        let _ = writeln!(anstream::stderr(), "{}", plain(text));
    }
}

fn line(label: &str, color: AnsiColor, text: &str) {
    let style = Style::new().fg_color(Some(color.into())).bold();
    // A closed stderr cannot be reported anywhere.
    let _ = writeln!(anstream::stderr(), "{style}{label}:{style:#} {}", plain(&short(text)));
}

/// Truncates the middle of a long text: a name in it may have millions of characters.
fn short(text: &str) -> String {
    const MAX_LEN: usize = 2000;
    if text.len() <= MAX_LEN {
        return text.to_owned();
    }
    let head: String = text.chars().take(MAX_LEN / 2).collect();
    let tail: String = text.chars().rev().take(MAX_LEN / 4).collect();
    format!("{head} [...] {}", tail.chars().rev().collect::<String>())
}

/// Returns whether the error is that the reader has closed stdout.
pub(crate) fn is_broken_pipe(failure: &(dyn Error + 'static)) -> bool {
    let error = match failure.downcast_ref::<lodstone::Error>() {
        Some(lodstone::Error::Output(error)) => Some(error),
        _ => failure.downcast_ref::<io::Error>(),
    };
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Formats a size in bytes: `24.4 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

/// Formats a count: `1 tensor`, `2 tensors`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

//! Where words go: data to stdout, everything else to stderr.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use clap::Parser;
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::args::Arguments;
use crate::plain::PlainJson;
use crate::{Failure, hint};

pub(crate) use crate::plain::plain;

/// Writes data.
pub(crate) fn out(bytes: &[u8]) -> Result<(), Failure> {
    to_stdout(|out| Ok(out.write_all(bytes)?))
}

/// Lets `write` write data.
pub(crate) fn to_stdout(
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut stdout = BufWriter::new(io::stdout().lock());
    write(&mut stdout)?;
    Ok(stdout.flush()?)
}

/// Writes data as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    to_stdout(|out| {
        let format = PlainJson(PrettyFormatter::new());
        let mut serializer = Serializer::with_formatter(&mut *out, format);
        value.serialize(&mut serializer).map_err(io::Error::from)?;
        Ok(out.write_all(b"\n")?)
    })
}

/// Reports an error and what can be done about it.
pub(crate) fn error(failure: &(dyn Error + 'static)) {
    line("error", AnsiColor::Red, &failure.to_string());
    if let Some(hint) = hint::of(failure) {
        line("hint", AnsiColor::Cyan, &hint);
    }
}

/// Reports what is wrong with the arguments, or answers what they ask for, and ends.
pub(crate) fn usage(arguments: &[OsString], error: &clap::Error) -> ! {
    let harmless = arguments.iter().map(|argument| plain(&argument.to_string_lossy()));
    // It says arguments as they are. Those that do nothing to a terminal are as wrong, unless all that
    // is wrong is that they are not UTF-8, and then it says none.
    Arguments::try_parse_from(harmless).err().as_ref().unwrap_or(error).exit()
}

/// Reports what a user should know.
pub(crate) fn warning(text: &str) {
    line("warning", AnsiColor::Yellow, text);
}

/// Reports what was done.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", plain(text));
}

fn line(label: &str, color: AnsiColor, text: &str) {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colored = io::stderr().is_terminal() && !no_color;
    let style =
        if colored { Style::new().fg_color(Some(color.into())).bold() } else { Style::new() };
    // Nothing can be said about a stderr that is closed.
    let _ = writeln!(io::stderr(), "{style}{label}:{style:#} {}", plain(&short(text)));
}

/// The beginning of a text and its end, if it is too long to be read: a name in it may have millions
/// of characters.
fn short(text: &str) -> String {
    const LONGEST: usize = 2000;
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let head: String = text.chars().take(LONGEST / 2).collect();
    let tail: String = text.chars().rev().take(LONGEST / 4).collect();
    format!("{head} [...] {}", tail.chars().rev().collect::<String>())
}

/// Whether who reads our output has had enough.
pub(crate) fn is_broken_pipe(failure: &(dyn Error + 'static)) -> bool {
    let error = match failure.downcast_ref::<lodstone::Error>() {
        Some(lodstone::Error::Output(error)) => Some(error),
        _ => failure.downcast_ref::<io::Error>(),
    };
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        // Tenths, to the nearest, in integers.
        Some((name, unit)) => {
            let unit = u128::from(*unit);
            let tenths = (u128::from(bytes) * 10 + unit / 2) / unit;
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

/// `1 tensor`, `2 tensors`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

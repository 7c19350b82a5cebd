//! Where words go: data to stdout, everything else to stderr.

use std::error::Error;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

use crate::{Failure, hint};

/// Writes data.
pub(crate) fn out(bytes: &[u8]) -> Result<(), Failure> {
    to_stdout(|out| Ok(out.write_all(bytes)?))
}

/// Lets `write` write data.
pub(crate) fn to_stdout(
    write: impl FnOnce(&mut io::StdoutLock<'static>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    write(&mut stdout)?;
    Ok(stdout.flush()?)
}

/// Reports an error and what can be done about it.
pub(crate) fn error(failure: &(dyn Error + 'static)) {
    line("error", AnsiColor::Red, &failure.to_string());
    if let Some(hint) = hint::of(failure) {
        line("hint", AnsiColor::Cyan, &hint);
    }
}

/// Reports what a user should know.
pub(crate) fn warning(text: &str) {
    line("warning", AnsiColor::Yellow, text);
}

/// Reports what was done.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn line(label: &str, color: AnsiColor, text: &str) {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colored = io::stderr().is_terminal() && !no_color;
    let style =
        if colored { Style::new().fg_color(Some(color.into())).bold() } else { Style::new() };
    // Nothing can be said about a stderr that is closed.
    let _ = writeln!(io::stderr(), "{style}{label}:{style:#} {text}");
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

/// The first few of many names.
pub(crate) fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `1 tensor`, `2 tensors`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

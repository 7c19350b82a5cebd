//! Where words go: data to stdout, everything else to stderr.

use std::error::Error;
use std::io::{self, BufWriter, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

use crate::{Failure, hint};

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
pub(crate) fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    to_stdout(|out| {
        serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
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

/// Reports what a user should know.
pub(crate) fn warning(text: &str) {
    line("warning", AnsiColor::Yellow, text);
}

/// Reports what was done.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", plain(text));
}

/// Text that does nothing to a terminal: names in a model may hold control characters, and others
/// that change the order or the look of what is around them.
pub(crate) fn plain(text: &str) -> String {
    let acts = |character: char| {
        character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(character, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            plain.extend(character.escape_default());
        } else {
            plain.push(character);
        }
    }
    plain
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

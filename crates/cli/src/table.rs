//! Columns of text, written as they come: a model may have a million rows.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::say::plain;

/// Columns that a cell may be wide; what is longer is cut. (`--json` has everything.)
const WIDEST: usize = 100;

/// Writes a table; `rows` is asked twice, first for widths. Columns in `right` are aligned there.
pub(crate) fn write<I: Iterator<Item = Vec<String>>>(
    out: &mut impl Write,
    header: &[&str],
    right: &[usize],
    rows: impl Fn() -> I,
) -> io::Result<()> {
    let mut widths: Vec<usize> = header.iter().map(|name| name.width()).collect();
    for row in rows() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cut(&cell).width());
        }
    }
    let header = header.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(header).chain(rows()) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = cut(cell);
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            line.push_str("  ");
            let aligned = if right.contains(&column) { blanks + &cell } else { cell + &blanks };
            line.push_str(&aligned);
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// What fits into a cell, harmless to a terminal.
pub(crate) fn cut(cell: &str) -> String {
    // More would be cut anyway; a name may have millions of characters.
    let head: String = cell.chars().take(WIDEST + 1).collect();
    let text = plain(&head);
    if text.width() <= WIDEST {
        return text;
    }
    let mut width = 0;
    let fits = |character: &char| {
        width += character.width().unwrap_or(0);
        width < WIDEST
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

//! Tables that fit the terminal, written row by row because a model may have a million rows.

use std::io::{self, Write};

use terminal_size::{Width, terminal_size_of};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::console::plain;

/// Maximum width of a cell, in columns of the terminal; longer text is cut (`--json` prints all of it).
const MAX_WIDTH: usize = 100;

/// Minimum width to which cells are cut to fit a terminal.
const MIN_WIDTH: usize = 12;

/// Spaces before each cell.
const GAP: usize = 2;

/// Writes a table; `rows` is called twice, first for the widths. Columns in `right` are aligned to the right. On a
/// terminal the widest columns are cut until the table fits.
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
    if let Some((Width(columns), _)) = terminal_size_of(io::stdout()) {
        shrink(&mut widths, columns.into());
    }
    let header = header.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(header).chain(rows()) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = cut_to(cell, *width);
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            line.push_str(&" ".repeat(GAP));
            let aligned = if right.contains(&column) { padding + &cell } else { cell + &padding };
            line.push_str(&aligned);
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Narrows the widest columns until a row fits.
fn shrink(widths: &mut [usize], columns: usize) {
    while widths.iter().map(|width| width + GAP).sum::<usize>() > columns
        && let Some(widest) = widths.iter_mut().max()
        && *widest > MIN_WIDTH
    {
        *widest -= 1;
    }
}

/// Escapes control characters, and cuts the text to the width of a cell.
pub(crate) fn cut(cell: &str) -> String {
    cut_to(cell, MAX_WIDTH)
}

/// Escapes control characters, and cuts the text to a width.
pub(crate) fn cut_to(cell: &str, max_width: usize) -> String {
    // A name may have millions of characters.
    let head: String = cell.chars().take(MAX_WIDTH + 1).collect();
    let text = plain(&head);
    if text.width() <= max_width {
        return text;
    }
    let mut width = 0;
    let fits = |character: &char| {
        width += character.width().unwrap_or(0);
        width < max_width
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

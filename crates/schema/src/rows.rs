//! Tables whose rows are parsed when they are first used: a process uses few of them.

use std::sync::OnceLock;

/// Rows by name.
pub(crate) struct Rows<T> {
    /// The lines, by name; lines of one name are in the order of the table.
    lines: Vec<(&'static str, &'static str)>,
    /// The parsed rows, at the index of the first line of each.
    parsed: Vec<OnceLock<Box<T>>>,
    parse: fn(&mut dyn Iterator<Item = &'static str>) -> T,
}

impl<T> Rows<T> {
    /// Groups the lines of a table by the name in a column. `parse` gets all lines of a name.
    pub(crate) fn new(
        table: &'static str,
        column: usize,
        parse: fn(&mut dyn Iterator<Item = &'static str>) -> T,
    ) -> Self {
        let named = |line: &'static str| (line.split('\t').nth(column).unwrap_or_default(), line);
        let mut lines: Vec<(&str, &str)> = table.lines().map(named).collect();
        lines.sort_by_key(|(name, _)| *name);
        let parsed = lines.iter().map(|_| OnceLock::new()).collect();
        Self { lines, parsed, parse }
    }

    /// Returns the row called `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.row(self.lines.partition_point(|(known, _)| *known < name), name)
    }

    /// Returns all rows, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        let firsts = self.lines.iter().enumerate().filter(|(index, (name, _))| {
            let before = index.checked_sub(1).and_then(|before| self.lines.get(before));
            before.is_none_or(|(before, _)| before != name)
        });
        firsts.filter_map(|(index, (name, _))| self.row(index, name))
    }

    /// Returns the row whose first line has an index, if it has this name.
    fn row(&self, first: usize, name: &str) -> Option<&T> {
        let lines = self.lines.get(first..)?.iter();
        let mut lines =
            lines.take_while(|(known, _)| *known == name).map(|(_, line)| *line).peekable();
        lines.peek()?;
        Some(self.parsed.get(first)?.get_or_init(|| Box::new((self.parse)(&mut lines))))
    }
}

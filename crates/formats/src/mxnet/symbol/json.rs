//! JSON in the style of dmlc-core: two spaces per level, a space after each comma, short lists on one
//! line, and only five escapes.

/// The text being written.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
    /// For each open list or object: whether each member has its own line, and whether there is one already.
    open: Vec<(bool, bool)>,
}

impl Text {
    pub(super) fn begin(&mut self, bracket: char, lines: bool) {
        self.text.push(bracket);
        self.open.push((lines, false));
    }

    pub(super) fn end(&mut self, bracket: char) {
        if let Some((true, true)) = self.open.pop() {
            self.line();
        }
        self.text.push(bracket);
    }

    /// Starts the next member of a list.
    pub(super) fn next(&mut self) {
        let Some((lines, some)) = self.open.last_mut() else { return };
        let lines = *lines;
        if std::mem::replace(some, true) {
            self.text.push_str(", ");
        }
        if lines {
            self.line();
        }
    }

    /// Starts the next member of an object.
    pub(super) fn key(&mut self, key: &str) {
        self.next();
        self.string(key);
        self.text.push_str(": ");
    }

    pub(super) fn string(&mut self, string: &str) {
        self.text.push('"');
        for character in string.chars() {
            match character {
                '\r' => self.text.push_str("\\r"),
                '\n' => self.text.push_str("\\n"),
                '\t' => self.text.push_str("\\t"),
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                other => self.text.push(other),
            }
        }
        self.text.push('"');
    }

    pub(super) fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Writes a list of integers.
    pub(super) fn numbers(&mut self, numbers: &[usize]) {
        /// Maximum length of a list on one line.
        const SHORT: usize = 10;
        self.begin('[', numbers.len() > SHORT);
        for number in numbers {
            self.next();
            self.text.push_str(&number.to_string());
        }
        self.end(']');
    }

    /// Writes a list of short lists of integers.
    pub(super) fn entries(&mut self, entries: &[[usize; 3]]) {
        const SHORT: usize = 10;
        self.begin('[', entries.len() > SHORT);
        for [node, output, version] in entries {
            self.next();
            self.text.push_str(&format!("[{node}, {output}, {version}]"));
        }
        self.end(']');
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn line(&mut self) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("  ", self.open.len()));
    }
}

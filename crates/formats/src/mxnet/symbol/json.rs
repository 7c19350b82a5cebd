//! JSON as dmlc-core writes it: two blanks a level, a blank behind each comma, short lists in one
//! line, and no escapes but five.

/// A text that is being written.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
    /// Whether each open list or object has a line for each member, and has one already.
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

    /// Goes to the next member of a list.
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

    /// Goes to the next member of an object.
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

    /// A list of numbers.
    pub(super) fn numbers(&mut self, numbers: &[usize]) {
        /// Up to so many are in one line.
        const SHORT: usize = 10;
        self.begin('[', numbers.len() > SHORT);
        for number in numbers {
            self.next();
            self.text.push_str(&number.to_string());
        }
        self.end(']');
    }

    /// A list of short lists of numbers.
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

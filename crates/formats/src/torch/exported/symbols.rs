//! Symbolic sizes: text as SymPy's `srepr` writes it, such as `Mul(Integer(2), Symbol('s0', integer=True))`.
//!
//! A symbol becomes a symbolic dim of its name, other expressions one whose name is the expression in infix notation.

use std::fmt::Write;

/// The maximum size of an expression in bytes.
const MAX_BYTES: usize = 1 << 14;

/// The maximum nesting depth of an expression.
const MAX_DEPTH: usize = 32;

/// A symbolic size.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Integer(i64),
    Symbol(String),
    /// A function of others.
    Call(String, Vec<Expression>),
}

/// Parses an expression; `None` if it is not one, or is too large.
pub(super) fn parse(text: &str) -> Option<Expression> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut parser = Parser { rest: text.trim() };
    let parsed = parser.expression(0)?;
    parser.rest.trim().is_empty().then_some(parsed)
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn take(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn while_of(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|it| !is_part(it)).unwrap_or(self.rest.len());
        let (found, rest) = self.rest.split_at(end);
        self.rest = rest;
        found
    }

    fn expression(&mut self, depth: usize) -> Option<Expression> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.rest = self.rest.trim_start();
        if let Some(number) = self.number() {
            return Some(Expression::Integer(number));
        }
        let name = self.while_of(|it| it.is_alphanumeric() || matches!(it, '_' | '.'));
        if name.is_empty() {
            return None;
        }
        if self.take("(").is_none() {
            // Functions of older releases are written as names of symbols: `s0`.
            return Some(Expression::Symbol(name.to_owned()));
        }
        if name == "Symbol" {
            return self.symbol();
        }
        let mut arguments = Vec::new();
        while self.take(")").is_none() {
            if !arguments.is_empty() {
                self.take(",")?;
            }
            let before = self.rest;
            // Assumptions, such as `evaluate=False`, are not arguments.
            let key = self.rest.trim_start();
            if let Some((key, _)) = key.split_once('=')
                && key.chars().all(|it| it.is_alphanumeric() || it == '_')
            {
                self.while_of(|it| !matches!(it, ',' | ')'));
                continue;
            }
            self.rest = before;
            arguments.push(self.expression(depth + 1)?);
        }
        let name = name.rsplit('.').next().unwrap_or(name);
        match (name, arguments.as_slice()) {
            ("Integer", [Expression::Integer(number)]) => Some(Expression::Integer(*number)),
            _ => Some(Expression::Call(name.to_owned(), arguments)),
        }
    }

    fn number(&mut self) -> Option<i64> {
        let is_number = self.rest.starts_with(|it: char| it.is_ascii_digit())
            || self.rest.strip_prefix('-')?.starts_with(|it: char| it.is_ascii_digit());
        if !is_number {
            return None;
        }
        let digits = self.while_of(|it| it == '-' || it.is_ascii_digit());
        digits.parse().ok()
    }

    /// `'s0', positive=True, integer=True)`, after the parenthesis.
    fn symbol(&mut self) -> Option<Expression> {
        self.take("'")?;
        let name = self.while_of(|it| it != '\'').to_owned();
        self.take("'")?;
        self.while_of(|it| it != ')');
        self.take(")")?;
        (!name.is_empty()).then_some(Expression::Symbol(name))
    }
}

/// Infix operators, by the name of the function.
const INFIX: [(&str, &str); 8] = [
    ("Add", " + "),
    ("FloorDiv", "//"),
    ("CleanDiv", "//"),
    ("Mod", "%"),
    ("PythonMod", "%"),
    ("Mul", "*"),
    ("Pow", "**"),
    ("IntTrueDiv", "/"),
];

impl Expression {
    /// Returns the expression in infix notation.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    /// The depth is that of the parser.
    fn write(&self, text: &mut String) {
        match self {
            Self::Integer(number) => {
                let _ = write!(text, "{number}");
            }
            Self::Symbol(name) => text.push_str(name),
            Self::Call(name, arguments) => {
                let infix = INFIX.iter().find(|(known, _)| known == name).map(|(_, sign)| *sign);
                if infix.is_none() {
                    let _ = write!(text, "{name}(");
                }
                for (index, argument) in arguments.iter().enumerate() {
                    if index > 0 {
                        text.push_str(infix.unwrap_or(", "));
                    }
                    let is_nested = infix.is_some() && matches!(argument, Self::Call(..));
                    text.push_str(if is_nested { "(" } else { "" });
                    argument.write(text);
                    text.push_str(if is_nested { ")" } else { "" });
                }
                if infix.is_none() {
                    text.push(')');
                }
            }
        }
    }
}

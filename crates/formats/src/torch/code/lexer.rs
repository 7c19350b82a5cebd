//! Text to tokens.
//!
//! Blocks are indented by spaces. Inside of brackets, line breaks and indentation have no meaning.

use super::SyntaxError;

/// The maximum size of a file of code, in bytes. Files of the largest published models have a few MiB.
const MAX_SOURCE: usize = 256 << 20;

/// The maximum number of nested blocks.
const MAX_BLOCKS: usize = 128;

/// A token and the line it begins in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) line: u32,
    pub(super) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    /// A name or a keyword.
    Name(String),
    /// An integer without its sign.
    Int(u64),
    Float(f64),
    /// The imaginary part of a complex number.
    Imaginary(f64),
    String(String),
    /// A bracket, an operator or a separator.
    Symbol(&'static str),
    /// The end of a logical line.
    Newline,
    Indent,
    Dedent,
    End,
}

const SYMBOLS: &[&str] =
    &["->", "(", ")", "[", "]", "{", "}", ",", ":", ".", "=", "-", "+", "*", "@", ";"];

struct Lexer<'a> {
    rest: &'a str,
    line: u32,
    /// The number of open brackets.
    open: usize,
    /// The indentations of the open blocks.
    indents: Vec<usize>,
    tokens: Vec<Token>,
}

/// Returns the tokens of a text; the last one is the end.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, SyntaxError> {
    let mut lexer = Lexer { rest: text, line: 1, open: 0, indents: vec![0], tokens: Vec::new() };
    if text.len() > MAX_SOURCE {
        return Err(lexer.error(format!("the code has more than {} MiB", MAX_SOURCE >> 20)));
    }
    while !lexer.rest.is_empty() {
        lexer.line()?;
    }
    if lexer.open > 0 {
        return Err(lexer.error("a bracket is not closed"));
    }
    for _ in 1..lexer.indents.len() {
        lexer.push(TokenKind::Dedent);
    }
    lexer.push(TokenKind::End);
    Ok(lexer.tokens)
}

impl Lexer<'_> {
    fn error(&self, what: impl Into<String>) -> SyntaxError {
        SyntaxError { line: self.line, what: what.into() }
    }

    fn push(&mut self, kind: TokenKind) {
        self.tokens.push(Token { line: self.line, kind });
    }

    /// Removes and returns the first `count` bytes, which are whole characters.
    fn take(&mut self, count: usize) -> &str {
        let (taken, rest) = self.rest.split_at_checked(count).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Reads a logical line: at its start, the indentation counts.
    fn line(&mut self) -> Result<(), SyntaxError> {
        let blank = self.rest.len() - self.rest.trim_start_matches([' ', '\t']).len();
        let indent = self.take(blank);
        let has_tab = indent.contains('\t');
        if self.rest.starts_with(['\n', '\r', '#']) || self.rest.is_empty() {
            return self.end_of_line();
        }
        if has_tab {
            return Err(self.error("a line is indented by tabs"));
        }
        self.indent(blank)?;
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            match self.rest.chars().next() {
                None => break,
                Some('\n' | '\r' | '#') if self.open == 0 => break,
                Some('\n' | '\r' | '#') => self.end_of_line()?,
                Some(_) => self.token()?,
            }
        }
        self.push(TokenKind::Newline);
        self.end_of_line()
    }

    /// Skips a comment and the line break.
    fn end_of_line(&mut self) -> Result<(), SyntaxError> {
        let end = self.rest.find('\n');
        let line = self.take(end.map_or(self.rest.len(), |end| end + 1)).trim();
        let is_blank = line.is_empty() || line.starts_with('#');
        if !is_blank {
            return Err(self.error("expected the end of the line"));
        }
        self.line = self.line.saturating_add(1);
        Ok(())
    }

    fn indent(&mut self, columns: usize) -> Result<(), SyntaxError> {
        // Outside of blocks, nothing is indented.
        let last = |indents: &[usize]| indents.last().copied().unwrap_or(0);
        if columns > last(&self.indents) {
            if self.indents.len() > MAX_BLOCKS {
                return Err(self.error(format!("more than {MAX_BLOCKS} nested blocks")));
            }
            self.indents.push(columns);
            self.push(TokenKind::Indent);
        }
        while columns < last(&self.indents) {
            self.indents.pop();
            self.push(TokenKind::Dedent);
        }
        match columns == last(&self.indents) {
            true => Ok(()),
            false => Err(self.error("the indentation is that of no block")),
        }
    }

    fn token(&mut self) -> Result<(), SyntaxError> {
        let first = self.rest.chars().next().unwrap_or('\0');
        let second = self.rest.chars().nth(1).unwrap_or('\0');
        match first {
            '"' | '\'' => self.string(first),
            '0'..='9' => self.number(),
            '.' if second.is_ascii_digit() => self.number(),
            'a'..='z' | 'A'..='Z' | '_' => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
                let name = self.take(end).to_owned();
                self.push(TokenKind::Name(name));
                Ok(())
            }
            _ => {
                let symbol = SYMBOLS.iter().find(|symbol| self.rest.starts_with(**symbol));
                let Some(symbol) = symbol else {
                    return Err(self.error(format!("`{}` has no meaning", first.escape_default())));
                };
                match *symbol {
                    "(" | "[" | "{" => self.open = self.open.saturating_add(1),
                    ")" | "]" | "}" => {
                        let open = self.open.checked_sub(1);
                        self.open = open.ok_or_else(|| self.error("no bracket is open"))?;
                    }
                    _ => {}
                }
                self.take(symbol.len());
                self.push(TokenKind::Symbol(symbol));
                Ok(())
            }
        }
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        let bytes = self.rest.as_bytes();
        let digits = |from: usize| {
            let count = bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
            from + count
        };
        let mut end = digits(0);
        let mut is_float = false;
        if bytes.get(end) == Some(&b'.') {
            is_float = true;
            end = digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent > end + 1 + sign {
                is_float = true;
                end = exponent;
            }
        }
        let is_imaginary = matches!(bytes.get(end), Some(b'j' | b'J'));
        let text = self.take(end).to_owned();
        let wrong = |lexer: &Self| lexer.error(format!("`{text}` is not a number"));
        let kind = match (is_float || is_imaginary, text.parse::<f64>(), text.parse::<u64>()) {
            (false, _, Ok(number)) => TokenKind::Int(number),
            (true, Ok(number), _) if is_imaginary => {
                self.take(1);
                TokenKind::Imaginary(number)
            }
            (true, Ok(number), _) => TokenKind::Float(number),
            _ => return Err(wrong(self)),
        };
        if self.rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            return Err(wrong(self));
        }
        self.push(kind);
        Ok(())
    }

    /// Reads a string in quotes, with the escapes of C.
    fn string(&mut self, quote: char) -> Result<(), SyntaxError> {
        self.take(1);
        let mut bytes = Vec::new();
        loop {
            let Some(next) = self.rest.chars().next() else {
                return Err(self.error("a string is not closed"));
            };
            self.take(next.len_utf8());
            match next {
                '\n' => return Err(self.error("a string is not closed")),
                '\\' => self.escape(&mut bytes)?,
                next if next == quote => break,
                next => bytes.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        let text = String::from_utf8(bytes).map_err(|_| self.error("a string is not UTF-8"))?;
        self.push(TokenKind::String(text));
        Ok(())
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), SyntaxError> {
        let unknown = |lexer: &Self| lexer.error("an unknown escape in a string");
        let next = self.rest.chars().next().ok_or_else(|| unknown(self))?;
        if let '0'..='7' = next {
            let is_octal = |byte: &u8| (b'0'..=b'7').contains(byte);
            let count = self.rest.bytes().take(3).take_while(is_octal).count();
            let digits = self.take(count);
            bytes.push(u8::from_str_radix(digits, 8).map_err(|_| unknown(self))?);
            return Ok(());
        }
        self.take(next.len_utf8());
        bytes.push(match next {
            'n' => b'\n',
            't' => b'\t',
            'r' => b'\r',
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'v' => 11,
            '\\' => b'\\',
            '"' => b'"',
            '\'' => b'\'',
            'x' => {
                let digits = self.take(2);
                u8::from_str_radix(digits, 16).map_err(|_| unknown(self))?
            }
            _ => return Err(unknown(self)),
        });
        Ok(())
    }
}

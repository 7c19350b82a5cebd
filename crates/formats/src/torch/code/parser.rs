//! Tokens to the syntax tree.

use std::rc::Rc;

use super::SyntaxError;
use super::lexer::{Token, TokenKind, tokens};
use super::syntax::{Class, Expression, FormalParameter, Function, Kind, Source, Statement, Step};

/// The maximum depth of an expression: the printer names longer parts.
const MAX_DEPTH: usize = 200;

type Outcome<T> = Result<T, SyntaxError>;

/// The arguments of a call, by position and by name.
type Arguments = (Vec<Expression>, Vec<(String, Expression)>);

/// Parses a file of code.
///
/// # Errors
/// The first part that is not in the language, with its line.
pub(crate) fn parse(text: &str) -> Outcome<Source> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let mut source = Source::default();
    loop {
        match parser.peek() {
            TokenKind::End => return Ok(source),
            TokenKind::Newline => parser.skip(),
            TokenKind::Name(name) if name == "class" => source.classes.push(parser.class()?),
            TokenKind::Name(name) if name == "def" => {
                source.functions.push(Rc::new(parser.function()?));
            }
            // `import __torch__.torch.nn.modules.conv` in 1.3.
            TokenKind::Name(name) if name == "import" => {
                parser.skip();
                if !matches!(parser.peek(), TokenKind::Name(name) if name == "__torch__") {
                    return Err(parser.unexpected("a module of the archive"));
                }
                parser.expression()?;
                parser.newline()?;
            }
            // `op_version_set = 1` until 1.4.
            TokenKind::Name(name) if name == "op_version_set" => {
                parser.skip();
                parser.expect("=")?;
                parser.expression()?;
                parser.newline()?;
            }
            _ => return Err(parser.unexpected("a class or a function")),
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    /// The depth of the expression that is being read.
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &TokenKind {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> &TokenKind {
        let token = self.tokens.get(self.next.saturating_add(ahead));
        token.map_or(&TokenKind::End, |token| &token.kind)
    }

    fn line(&self) -> u32 {
        let token = self.tokens.get(self.next).or(self.tokens.last());
        // A file without tokens has no line.
        token.map_or(0, |token| token.line)
    }

    fn skip(&mut self) {
        self.next = self.next.saturating_add(1);
    }

    fn error(&self, what: impl Into<String>) -> SyntaxError {
        SyntaxError { line: self.line(), what: what.into() }
    }

    fn unexpected(&self, expected: &str) -> SyntaxError {
        let found = match self.peek() {
            TokenKind::Name(name) => format!("`{name}`"),
            TokenKind::Int(number) => format!("`{number}`"),
            TokenKind::Float(number) => format!("`{number}`"),
            TokenKind::Imaginary(number) => format!("`{number}j`"),
            TokenKind::String(_) => "a string".to_owned(),
            TokenKind::Symbol(symbol) => format!("`{symbol}`"),
            TokenKind::Newline => "the end of the line".to_owned(),
            TokenKind::Indent | TokenKind::Dedent => "another indentation".to_owned(),
            TokenKind::End => "the end of the code".to_owned(),
        };
        self.error(format!("expected {expected}, found {found}"))
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), TokenKind::Symbol(found) if *found == symbol)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), TokenKind::Name(found) if found == word)
    }

    /// Skips a symbol, if it is next.
    fn accept(&mut self, symbol: &str) -> bool {
        let is_next = self.is(symbol);
        if is_next {
            self.skip();
        }
        is_next
    }

    fn expect(&mut self, symbol: &str) -> Outcome<()> {
        match self.accept(symbol) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{symbol}`"))),
        }
    }

    fn word(&mut self, word: &str) -> Outcome<()> {
        match self.is_word(word) {
            true => {
                self.skip();
                Ok(())
            }
            false => Err(self.unexpected(&format!("`{word}`"))),
        }
    }

    fn name(&mut self) -> Outcome<String> {
        match self.peek() {
            TokenKind::Name(name) => {
                let name = name.clone();
                self.skip();
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    fn string(&mut self) -> Outcome<String> {
        match self.peek() {
            TokenKind::String(text) => {
                let text = text.clone();
                self.skip();
                Ok(text)
            }
            _ => Err(self.unexpected("a string")),
        }
    }

    fn newline(&mut self) -> Outcome<()> {
        match self.peek() {
            TokenKind::Newline => {
                self.skip();
                Ok(())
            }
            TokenKind::End | TokenKind::Dedent => Ok(()),
            _ => Err(self.unexpected("the end of the line")),
        }
    }

    /// Opens an indented block after a colon.
    fn indent(&mut self) -> Outcome<()> {
        self.expect(":")?;
        self.newline()?;
        match self.peek() {
            TokenKind::Indent => {
                self.skip();
                Ok(())
            }
            _ => Err(self.unexpected("an indented block")),
        }
    }

    /// Reads the lines of an indented block, one call of `line` for each.
    fn block(&mut self, mut line: impl FnMut(&mut Self) -> Outcome<()>) -> Outcome<()> {
        self.indent()?;
        loop {
            match self.peek() {
                TokenKind::Dedent => {
                    self.skip();
                    return Ok(());
                }
                TokenKind::End => return Ok(()),
                TokenKind::Newline => self.skip(),
                _ => line(self)?,
            }
        }
    }

    fn class(&mut self) -> Outcome<Class> {
        self.word("class")?;
        let name = self.name()?;
        let mut base = String::new();
        if self.accept("(") {
            base = self.name()?;
            self.expect(")")?;
        }
        let mut class = Class {
            name,
            base,
            attributes: Vec::new(),
            constants: Vec::new(),
            lists: Vec::new(),
            methods: Vec::new(),
        };
        self.block(|parser| parser.member(&mut class))?;
        Ok(class)
    }

    /// Reads a line of a class. An attribute may have the name of a keyword.
    fn member(&mut self, class: &mut Class) -> Outcome<()> {
        let is_attribute = matches!(self.peek_at(1), TokenKind::Symbol(":" | "="));
        if self.is_word("def") && !is_attribute {
            class.methods.push(Rc::new(self.function()?));
            return Ok(());
        }
        if self.is_word("pass") && !is_attribute {
            self.skip();
            return self.newline();
        }
        let name = self.name()?;
        if name == "__annotations__" && self.accept("[") {
            let attribute = self.string()?;
            self.expect("]")?;
            self.expect("=")?;
            let kind = self.expression()?;
            class.attributes.push((attribute, kind));
            return self.newline();
        }
        if self.accept(":") {
            let kind = self.expression()?;
            if self.accept("=") {
                let value = self.expression()?;
                class.constants.push((name, value));
            } else {
                class.attributes.push((name, kind));
            }
            return self.newline();
        }
        self.expect("=")?;
        let value = self.expression()?;
        match value.kind {
            Kind::List(names) if name.starts_with("__") => {
                let names = names.into_iter().filter_map(|name| match name.kind {
                    Kind::String(name) => Some(name),
                    _ => None,
                });
                class.lists.push((name, names.collect()));
            }
            _ => class.constants.push((name, value)),
        }
        self.newline()
    }

    fn function(&mut self) -> Outcome<Function> {
        self.word("def")?;
        let name = self.name()?;
        self.expect("(")?;
        let mut parameters = Vec::new();
        while !self.accept(")") {
            if self.accept("*") {
                self.accept(",");
                continue;
            }
            let name = self.name()?;
            let kind = if self.accept(":") { Some(self.expression()?) } else { None };
            let default = if self.accept("=") { Some(self.expression()?) } else { None };
            parameters.push(FormalParameter { name, kind, default });
            if !self.is(")") {
                self.expect(",")?;
            }
        }
        if self.accept("->") {
            self.expression()?;
        }
        let body = self.statements()?;
        Ok(Function { name, parameters, body })
    }

    fn statements(&mut self) -> Outcome<Vec<Statement>> {
        let mut statements = Vec::new();
        self.block(|parser| {
            let line = parser.line();
            statements.push(Statement { line, step: parser.step()? });
            Ok(())
        })?;
        Ok(statements)
    }

    fn step(&mut self) -> Outcome<Step> {
        // A keyword that is a variable is followed by what follows a variable.
        let is_variable = matches!(self.peek_at(1), TokenKind::Symbol("=" | "." | "," | ":"));
        let word = match self.peek() {
            TokenKind::Name(name) if !is_variable => name.clone(),
            _ => String::new(),
        };
        match word.as_str() {
            "pass" => {
                self.skip();
                self.newline()?;
                Ok(Step::Pass)
            }
            "return" => {
                self.skip();
                let value = match self.peek() {
                    TokenKind::Newline | TokenKind::End | TokenKind::Dedent => None,
                    _ => Some(self.expressions()?),
                };
                self.newline()?;
                Ok(Step::Return(value))
            }
            "if" => {
                self.skip();
                let condition = self.expression()?;
                let then = self.statements()?;
                let mut otherwise = Vec::new();
                if self.is_word("else") {
                    self.skip();
                    otherwise = self.statements()?;
                }
                Ok(Step::If { condition, then, otherwise })
            }
            "while" => {
                self.skip();
                let condition = self.expression()?;
                Ok(Step::While { condition, body: self.statements()? })
            }
            "for" => {
                self.skip();
                let target = self.name()?;
                self.word("in")?;
                self.word("range")?;
                self.expect("(")?;
                let count = self.expression()?;
                self.accept(",");
                self.expect(")")?;
                Ok(Step::For { target, count, body: self.statements()? })
            }
            "with" => {
                self.skip();
                let context = self.expression()?;
                let mut target = None;
                if self.is_word("as") {
                    self.skip();
                    target = Some(self.name()?);
                }
                Ok(Step::With { context, target, body: self.statements()? })
            }
            "def" => Ok(Step::Define(Rc::new(self.function()?))),
            _ => self.assignment(),
        }
    }

    /// Reads an assignment, or an expression whose value is dropped.
    fn assignment(&mut self) -> Outcome<Step> {
        let mut left = vec![self.expression()?];
        let mut unpacks = false;
        while self.accept(",") {
            if self.is("=") {
                unpacks = true;
                break;
            }
            left.push(self.expression()?);
        }
        let has_type = left.len() == 1 && !unpacks && self.accept(":");
        if has_type {
            self.expression()?;
        }
        if !self.accept("=") {
            self.newline()?;
            return match left.pop() {
                Some(_) if has_type => Ok(Step::Pass),
                Some(value) if left.is_empty() => Ok(Step::Evaluate(value)),
                _ => Err(self.error("expected an assignment")),
            };
        }
        let mut values = vec![self.expression()?];
        while self.accept(",") {
            values.push(self.expression()?);
        }
        self.newline()?;
        if let ([Expression { kind: Kind::Attribute(object, name), .. }], [value]) =
            (left.as_slice(), values.as_slice())
        {
            let (object, name, value) = ((**object).clone(), name.clone(), value.clone());
            return Ok(Step::SetAttribute { object, name, value });
        }
        unpacks = (unpacks || left.len() > 1) && values.len() == 1;
        if !unpacks && left.len() != values.len() {
            let what = format!("{} targets are assigned {} values", left.len(), values.len());
            return Err(self.error(what));
        }
        let target = |target: Expression| match target.kind {
            Kind::Name(name) => Ok(name),
            _ => Err(SyntaxError {
                line: target.line,
                what: "expected the name of a variable on the left".to_owned(),
            }),
        };
        let targets = left.into_iter().map(target).collect::<Outcome<_>>()?;
        Ok(Step::Assign { targets, unpacks, values })
    }

    /// Reads expressions between commas: a tuple, unless there is only one.
    fn expressions(&mut self) -> Outcome<Expression> {
        let line = self.line();
        let first = self.expression()?;
        if !self.is(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.accept(",") {
            if matches!(self.peek(), TokenKind::Newline | TokenKind::End) {
                break;
            }
            all.push(self.expression()?);
        }
        Ok(Expression { line, kind: Kind::Tuple(all) })
    }

    fn expression(&mut self) -> Outcome<Expression> {
        let depth = self.depth;
        let expression = self.nested();
        self.depth = depth;
        expression
    }

    /// Counts a level of an expression.
    fn deeper(&mut self) -> Outcome<()> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => Err(self.error(format!("an expression has more than {MAX_DEPTH} levels"))),
            false => Ok(()),
        }
    }

    fn nested(&mut self) -> Outcome<Expression> {
        self.deeper()?;
        let line = self.line();
        let mut expression = Expression { line, kind: self.atom()? };
        loop {
            let object = |expression: Expression| Box::new(expression);
            if self.accept(".") {
                self.deeper()?;
                let name = self.name()?;
                expression = Expression { line, kind: Kind::Attribute(object(expression), name) };
            } else if self.accept("(") {
                self.deeper()?;
                let (arguments, named) = self.arguments()?;
                let callee = object(expression);
                expression = Expression { line, kind: Kind::Call { callee, arguments, named } };
            } else if self.accept("[") {
                self.deeper()?;
                let kind = self.index(expression)?;
                expression = Expression { line, kind };
            } else {
                return Ok(expression);
            }
        }
    }

    fn arguments(&mut self) -> Outcome<Arguments> {
        let (mut arguments, mut named) = (Vec::new(), Vec::new());
        while !self.accept(")") {
            let is_named = matches!(self.peek(), TokenKind::Name(_))
                && matches!(self.peek_at(1), TokenKind::Symbol("="));
            if is_named {
                let name = self.name()?;
                self.expect("=")?;
                named.push((name, self.expression()?));
            } else {
                arguments.push(self.expression()?);
            }
            if !self.is(")") {
                self.expect(",")?;
            }
        }
        Ok((arguments, named))
    }

    /// Reads an index, a slice, or the arguments of a type.
    fn index(&mut self, object: Expression) -> Outcome<Kind> {
        let line = self.line();
        let object = Box::new(object);
        let first = if self.is(":") { None } else { Some(self.expression()?) };
        if self.accept(":") {
            let end = if self.is("]") { None } else { Some(Box::new(self.expression()?)) };
            self.expect("]")?;
            return Ok(Kind::Slice(object, first.map(Box::new), end));
        }
        let Some(first) = first else { return Err(self.unexpected("an index")) };
        let mut all = vec![first];
        let mut is_tuple = false;
        while self.accept(",") {
            is_tuple = true;
            if self.is("]") {
                break;
            }
            all.push(self.expression()?);
        }
        self.expect("]")?;
        let index = match all.pop() {
            Some(only) if !is_tuple => only,
            last => {
                all.extend(last);
                Expression { line, kind: Kind::Tuple(all) }
            }
        };
        Ok(Kind::Index(object, Box::new(index)))
    }

    fn atom(&mut self) -> Outcome<Kind> {
        let token = self.peek().clone();
        match token {
            TokenKind::Name(name) => {
                self.skip();
                Ok(match name.as_str() {
                    "None" => Kind::None,
                    "True" => Kind::Bool(true),
                    "False" => Kind::Bool(false),
                    "inf" => Kind::Float(f64::INFINITY),
                    "nan" => Kind::Float(f64::NAN),
                    _ => Kind::Name(name),
                })
            }
            TokenKind::String(first) => {
                self.skip();
                let mut text = first;
                while let TokenKind::String(more) = self.peek() {
                    text.push_str(more);
                    self.skip();
                }
                Ok(Kind::String(text))
            }
            TokenKind::Int(_) | TokenKind::Float(_) | TokenKind::Imaginary(_) => self.number(false),
            TokenKind::Symbol("-") => {
                self.skip();
                self.number(true)
            }
            TokenKind::Symbol("(") => {
                self.skip();
                self.parenthesized()
            }
            TokenKind::Symbol("[") => {
                self.skip();
                let mut elements = Vec::new();
                while !self.accept("]") {
                    elements.push(self.expression()?);
                    if !self.is("]") {
                        self.expect(",")?;
                    }
                }
                Ok(Kind::List(elements))
            }
            TokenKind::Symbol("{") => {
                self.skip();
                let mut entries = Vec::new();
                while !self.accept("}") {
                    let key = self.expression()?;
                    self.expect(":")?;
                    entries.push((key, self.expression()?));
                    if !self.is("}") {
                        self.expect(",")?;
                    }
                }
                Ok(Kind::Dict(entries))
            }
            _ => Err(self.unexpected("an expression")),
        }
    }

    fn parenthesized(&mut self) -> Outcome<Kind> {
        let mut elements = Vec::new();
        let mut is_tuple = true;
        while !self.accept(")") {
            elements.push(self.expression()?);
            is_tuple = self.is(",") || elements.len() > 1;
            if !self.is(")") {
                self.expect(",")?;
            }
        }
        match elements.pop() {
            Some(only) if !is_tuple => Ok(only.kind),
            last => {
                elements.extend(last);
                Ok(Kind::Tuple(elements))
            }
        }
    }

    /// Reads a number; a complex one has two parts.
    fn number(&mut self, is_negative: bool) -> Outcome<Kind> {
        let sign = if is_negative { -1.0 } else { 1.0 };
        let token = self.peek().clone();
        let real = match token {
            TokenKind::Int(number) => {
                self.skip();
                let number = i128::from(number) * if is_negative { -1 } else { 1 };
                let number = i64::try_from(number);
                return number.map(Kind::Int).map_err(|_| self.error("an integer is too large"));
            }
            TokenKind::Imaginary(number) => {
                self.skip();
                return Ok(Kind::Complex(0.0, sign * number));
            }
            TokenKind::Float(number) => number,
            TokenKind::Name(name) if name == "inf" => f64::INFINITY,
            TokenKind::Name(name) if name == "nan" => f64::NAN,
            _ => return Err(self.unexpected("a number")),
        };
        self.skip();
        let real = sign * real;
        let imaginary_sign = match self.peek() {
            TokenKind::Symbol("+") => 1.0,
            TokenKind::Symbol("-") => -1.0,
            _ => return Ok(Kind::Float(real)),
        };
        self.skip();
        match self.peek() {
            TokenKind::Imaginary(number) => {
                let imaginary = imaginary_sign * *number;
                self.skip();
                Ok(Kind::Complex(real, imaginary))
            }
            _ => Err(self.unexpected("the imaginary part of a number")),
        }
    }
}

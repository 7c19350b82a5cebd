//! The machine: opcodes to a tree of values. It imports nothing and calls nothing; there is no code
//! in it that could.

use std::collections::HashMap;

use lodstone_model::Limits;
use lodstone_store::{Blob, Cursor, Progress};

use super::opcode::{self, Argument, Opcode, Span};
use super::text;
use super::text::Encoding;
use super::tree::{How, Id, Node, Object, Tree};
use crate::{Error, Result};

/// Largest integer in bytes. Those of model files have eight.
const INTEGER: u64 = 1024;

/// Bytes of lines that are as long to read as an opcode.
const LINE: u64 = 8;

/// Reads the pickle at `start`.
///
/// # Errors
/// If it is none: what was expected, and where. If it needs what a file cannot hold (buffers out of
/// band), or more than the limits allow.
pub(crate) fn read(blob: &Blob, start: u64, limits: &Limits) -> Result<Tree> {
    let mut steps = Steps { left: u64::MAX, ..Steps::default() };
    let mut machine = Machine::new(blob, start, limits, Mode::Strict, &mut steps);
    let root = machine.run()?;
    Ok(machine.into_tree(root))
}

/// What there is of a pickle that may be damaged.
pub(crate) struct Found {
    pub(crate) tree: Tree,
    /// Whether it goes on to `STOP`.
    pub(super) whole: bool,
    /// Whether nothing in it had to be excused.
    pub(super) sound: bool,
    /// Whether it has more values or opcodes than are allowed: what follows those was not looked at.
    pub(super) cut: bool,
}

/// Reads what there is of a pickle that may be damaged, beyond where CPython stops, in `steps`
/// opcodes at most, which are taken off.
pub(crate) fn read_leniently(blob: &Blob, start: u64, limits: &Limits, steps: &mut Steps) -> Found {
    read_as(Mode::Lenient, blob, start, limits, steps)
}

/// Reads a pickle up to the opcode at which each of CPython's two unpicklers has raised: what one of them
/// reaches is in the tree, and hardly anything else.
pub(crate) fn read_as_cpython(
    blob: &Blob,
    start: u64,
    limits: &Limits,
    steps: &mut Steps,
) -> Found {
    read_as(Mode::Cpython, blob, start, limits, steps)
}

fn read_as(mode: Mode, blob: &Blob, start: u64, limits: &Limits, steps: &mut Steps) -> Found {
    let mut machine = Machine::new(blob, start, limits, mode, steps);
    let root = machine.run().ok();
    let (whole, sound, cut) = (root.is_some(), !machine.excused, machine.full);
    Found { tree: machine.into_tree(root.unwrap_or(Id(0))), whole, sound, cut }
}

/// Opcodes that may still be read, and a way to stop before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    pub(crate) left: u64,
    /// Whoever waits for a scan may cancel it.
    pub(crate) progress: Progress,
}

impl Steps {
    /// Opcodes between two looks at whether the scan was cancelled.
    const LOOK: u64 = 1 << 16;

    /// Takes off one opcode; false if there is none left, or the scan was cancelled.
    fn take(&mut self) -> bool {
        if self.left.is_multiple_of(Self::LOOK) && self.progress.advance(0).is_err() {
            return false;
        }
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or_default();
        left.is_some()
    }
}

/// What is done about errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Everything that no pickler writes is an error.
    Strict,
    /// What CPython may let pass is passed over; what makes both of its unpicklers raise is an error.
    Cpython,
    /// Missing operands are taken for unknown ones.
    Lenient,
}

struct Machine<'a> {
    blob: &'a Blob,
    cursor: Cursor<'a>,
    limits: &'a Limits,
    mode: Mode,
    /// Whether anything was passed over.
    excused: bool,
    /// Opcodes that may still be done.
    steps: &'a mut Steps,
    /// Whether there are more of them, or of values, than are allowed.
    full: bool,
    nodes: Vec<Node>,
    places: Vec<u64>,
    stack: Vec<Id>,
    /// Heights of the stack at which marks are.
    marks: Vec<usize>,
    memo: Memo,
    /// Where the frame ends that the cursor is in.
    frame: Option<u64>,
    /// The opcode at hand and its place.
    opcode: &'static str,
    at: u64,
}

/// What was put aside, by number. Numbers that ascend from 0, as picklers use them, cost nothing
/// but the value; others an entry of a table, however large they are.
#[derive(Default)]
struct Memo {
    dense: Vec<Id>,
    sparse: HashMap<u64, Id>,
    /// Numbers that do not fit 64 bits, in digits: one of CPython's unpicklers takes them.
    large: HashMap<String, Id>,
}

/// A number of an entry of the memo that is written in digits.
enum Number {
    Small(u64),
    Large(String),
}

impl Memo {
    fn put(&mut self, number: u64, id: Id) {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        if let Some(known) = self.dense.get_mut(index) {
            *known = id;
        } else if index == self.dense.len() {
            self.sparse.remove(&number);
            self.dense.push(id);
        } else {
            self.sparse.insert(number, id);
        }
    }

    fn get(&self, number: u64) -> Option<Id> {
        let dense = usize::try_from(number).ok().and_then(|index| self.dense.get(index));
        dense.or_else(|| self.sparse.get(&number)).copied()
    }

    fn len(&self) -> u64 {
        (self.dense.len() + self.sparse.len() + self.large.len()) as u64
    }
}

impl<'a> Machine<'a> {
    fn new(
        blob: &'a Blob,
        start: u64,
        limits: &'a Limits,
        mode: Mode,
        steps: &'a mut Steps,
    ) -> Self {
        let cursor = Cursor::at(blob, start);
        let (nodes, places, stack, marks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (memo, frame, opcode, at) = (Memo::default(), None, "", start);
        let (excused, full) = (false, false);
        Self {
            blob,
            cursor,
            limits,
            mode,
            excused,
            steps,
            full,
            nodes,
            places,
            stack,
            marks,
            memo,
            frame,
            opcode,
            at,
        }
    }

    fn is_strict(&self) -> bool {
        self.mode == Mode::Strict
    }

    /// Whether something is passed over that CPython may let pass.
    fn excuse(&mut self) -> bool {
        self.excused |= !self.is_strict();
        !self.is_strict()
    }

    /// Whether something is passed over that makes both unpicklers of CPython raise.
    fn excuse_more(&mut self) -> bool {
        self.mode == Mode::Lenient && self.excuse()
    }

    fn into_tree(self, root: Id) -> Tree {
        let end = self.cursor.position();
        Tree { blob: self.blob.clone(), nodes: self.nodes, places: self.places, root, end }
    }

    /// Runs to `STOP` and gives the value it leaves.
    fn run(&mut self) -> Result<Id> {
        loop {
            self.at = self.cursor.position();
            self.take_step()?;
            let torn = !self.is_strict();
            let (opcode, argument) = opcode::read(&mut self.cursor, self.blob, torn)?;
            self.steps.left = self.steps.left.saturating_sub(argument.searched() / LINE);
            self.opcode = opcode.name;
            self.check_frame()?;
            if opcode.code == b'.' {
                return self.pop();
            }
            self.step(opcode, argument)?;
        }
    }

    fn take_step(&mut self) -> Result<()> {
        if self.steps.take() {
            return Ok(());
        }
        self.full = true;
        Err(self.error("fewer opcodes", "more"))
    }

    /// An opcode and its argument lie in the frame or behind it. CPython's two unpicklers do not
    /// agree about those that begin in one and end outside; no pickler writes them.
    fn check_frame(&mut self) -> Result<()> {
        let Some(end) = self.frame.filter(|_| self.is_strict()) else { return Ok(()) };
        if self.at >= end {
            self.frame = None;
            return Ok(());
        }
        let position = self.cursor.position();
        if position <= end {
            return Ok(());
        }
        let expected = format!("{} inside its frame, which ends at {end}", self.opcode);
        Err(self.error(expected, format!("that it ends at {position}")))
    }

    #[expect(clippy::too_many_lines, reason = "a line or two for each opcode")]
    fn step(&mut self, opcode: Opcode, argument: Argument) -> Result<()> {
        let node = match (opcode.code, argument) {
            (0x80, Argument::Number(protocol)) => {
                if !(0..=5).contains(&protocol) && !self.excuse_more() {
                    return Err(self.error("a pickle protocol from 0 to 5", protocol.to_string()));
                }
                return Ok(());
            }
            (0x95, Argument::Data(frame)) => return self.enter(frame),

            (b'(', _) => {
                self.marks.push(self.stack.len());
                return Ok(());
            }
            (b'0', _) => {
                // A mark on top is what is popped then.
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.pop()?;
                }
                return Ok(());
            }
            (b'1', _) => return self.pop_mark().map(|_| ()),
            (b'2', _) => {
                let top = self.top()?;
                self.stack.push(top);
                return Ok(());
            }

            (b'p', Argument::Line(line)) => {
                let number = self.decimal(line)?;
                return self.put(number);
            }
            (b'q' | b'r', Argument::Number(number)) => {
                return self.put(Number::Small(number.cast_unsigned()));
            }
            (0x94, _) => {
                let number = Number::Small(self.memo.len());
                return self.put(number);
            }
            (b'g', Argument::Line(line)) => {
                let number = self.decimal(line)?;
                return self.get(&number);
            }
            (b'h' | b'j', Argument::Number(number)) => {
                return self.get(&Number::Small(number.cast_unsigned()));
            }

            (b'N', _) => Node::None,
            (0x88, _) => Node::Bool(true),
            (0x89, _) => Node::Bool(false),
            (b'J' | b'K' | b'M', Argument::Number(value)) => Node::Int(value),
            (b'I' | b'L', Argument::Line(line)) => self.integer(line, opcode.code == b'I')?,
            (0x8a | 0x8b, Argument::Data(span)) => self.long(span)?,
            (b'G', Argument::Float(value)) => Node::Float(value),
            (b'F', Argument::Line(line)) => self.float(line)?,

            (b'X' | 0x8c | 0x8d, Argument::Data(span)) => Node::Text(span, Encoding::Utf8),
            (b'V', Argument::Line(span)) => Node::Text(span, Encoding::Escaped),
            (b'T' | b'U', Argument::Data(span)) => Node::Text(span, Encoding::Bytes),
            (b'S', Argument::Line(span)) => self.quoted(span)?,
            (b'B' | b'C' | 0x8e, Argument::Data(span)) => Node::Bytes(span),
            (0x96, Argument::Data(span)) => Node::ByteArray(span),
            // A view that nobody can write to takes the place of what is on top.
            (0x98, _) if self.excuse() => return self.top().map(|_| ()),
            (0x97, _) if self.excuse() => Node::Unknown,
            (0x97 | 0x98, _) => {
                let expected = "a pickle that is whole in its file";
                return Err(self.error(expected, "a buffer that is kept elsewhere (out of band)"));
            }

            (b']', _) => Node::List(Vec::new()),
            (b')', _) => Node::Tuple(Vec::new()),
            (b'}', _) => Node::Dict(Vec::new()),
            (0x8f, _) => Node::Set(Vec::new()),
            (b'l', _) => Node::List(self.pop_mark()?),
            (b't', _) => Node::Tuple(self.pop_mark()?),
            (0x91, _) => Node::FrozenSet(self.pop_mark()?),
            (b'd', _) => Node::Dict(self.pop_pairs()?),
            (0x85..=0x87, _) => {
                let count = usize::from(opcode.code - 0x84);
                let mut items = Vec::with_capacity(count);
                (0..count).try_for_each(|_| self.pop().map(|item| items.push(item)))?;
                items.reverse();
                Node::Tuple(items)
            }

            (b'a', _) => {
                let item = self.pop()?;
                return self.extend(vec![item]);
            }
            (b'e', _) => {
                let items = self.pop_mark()?;
                return self.extend(items);
            }
            (0x90, _) => {
                let items = self.pop_mark()?;
                return self.add(items);
            }
            (b's', _) => {
                let value = self.pop()?;
                let key = self.pop()?;
                return self.set(vec![(key, value)]);
            }
            (b'u', _) => {
                let pairs = self.pop_pairs()?;
                return self.set(pairs);
            }

            (b'c', Argument::Lines(module, name)) => self.global(module, name)?,
            (0x93, _) => {
                let name = self.pop()?;
                let module = self.pop()?;
                let words = [module, name].map(|id| self.may_be_text(id));
                let excused = match words {
                    [Some(true), Some(true)] => true,
                    // What a call gives may be a text.
                    [Some(false), _] | [_, Some(false)] => self.excuse_more(),
                    _ => self.excuse(),
                };
                if !excused {
                    return Err(
                        self.error("a module and a name, two texts", self.found(&[module, name]))
                    );
                }
                Node::Global(module, name)
            }
            (0x82..=0x84, Argument::Number(code)) => Node::Extension(code),
            (b'P', Argument::Line(span)) => {
                let id = self.new_node(Node::Text(span, Encoding::Utf8))?;
                Node::Persistent(id)
            }
            (b'Q', _) => Node::Persistent(self.pop()?),

            (b'R' | 0x81, _) => {
                let arguments = self.pop()?;
                let callable = self.pop()?;
                let how = if opcode.code == b'R' { How::Reduce } else { How::New };
                self.object(how, callable, arguments, None)?
            }
            (0x92, _) => {
                let named = self.pop()?;
                let arguments = self.pop()?;
                let callable = self.pop()?;
                self.object(How::NewEx, callable, arguments, Some(named))?
            }
            (b'i', Argument::Lines(module, name)) => {
                // One of CPython's unpicklers imports before it looks for the mark.
                let global = self.global(module, name)?;
                let callable = self.new_node(global)?;
                let items = self.pop_mark()?;
                let arguments = self.new_node(Node::Tuple(items))?;
                self.object(How::Inst, callable, arguments, None)?
            }
            (b'o', _) => {
                let mut items = self.pop_mark()?;
                if items.is_empty() && !self.excuse_more() {
                    return Err(self.error("a class above the mark", "nothing"));
                }
                let callable = if items.is_empty() { self.unknown()? } else { items.remove(0) };
                let arguments = self.new_node(Node::Tuple(items))?;
                self.object(How::Obj, callable, arguments, None)?
            }
            (b'b', _) => {
                let state = self.pop()?;
                return self.build(state);
            }
            _ => return Err(self.error("an opcode with its argument", opcode.name)),
        };
        self.push(node)
    }

    fn enter(&mut self, frame: Span) -> Result<()> {
        if !self.is_strict() {
            return Ok(());
        }
        if let Some(end) = self.frame {
            let expected = format!("no frame inside the one that ends at {end}");
            return Err(self.error(expected, "another"));
        }
        self.cursor.need(frame.len, "a frame")?;
        self.frame = Some(frame.start.saturating_add(frame.len));
        Ok(())
    }

    fn new_node(&mut self, node: Node) -> Result<Id> {
        self.limits.go_on()?;
        let id =
            u32::try_from(self.nodes.len()).ok().filter(|_| self.nodes.len() < self.limits.nodes);
        let Some(id) = id else {
            self.full = true;
            return Err(self.over_limit(format!("at most {} values", self.limits.nodes)));
        };
        self.nodes.push(node);
        self.places.push(self.at);
        Ok(Id(id))
    }

    fn push(&mut self, node: Node) -> Result<()> {
        let id = self.new_node(node)?;
        self.stack.push(id);
        Ok(())
    }

    fn unknown(&mut self) -> Result<Id> {
        self.new_node(Node::Unknown)
    }

    /// The height below which nothing may be taken: that of the last mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&mut self) -> Result<Id> {
        match self.stack.last().copied() {
            Some(top) if self.stack.len() > self.floor() => Ok(top),
            _ if self.excuse_more() => self.unknown(),
            _ => Err(self.error(format!("a value on the stack for {}", self.opcode), "none")),
        }
    }

    fn pop(&mut self) -> Result<Id> {
        let top = self.top()?;
        if self.stack.len() > self.floor() {
            self.stack.pop();
        }
        Ok(top)
    }

    /// What is above the last mark, and the mark.
    fn pop_mark(&mut self) -> Result<Vec<Id>> {
        match self.marks.pop() {
            Some(height) => Ok(self.stack.split_off(height.min(self.stack.len()))),
            None if self.excuse_more() => Ok(Vec::new()),
            None => Err(self.error(format!("a mark on the stack for {}", self.opcode), "none")),
        }
    }

    fn pop_pairs(&mut self) -> Result<Vec<(Id, Id)>> {
        let items = self.pop_mark()?;
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() && !self.excuse_more() {
            let found = format!("{} values", items.len());
            return Err(self.error("keys and values in pairs", found));
        }
        Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect())
    }

    fn put(&mut self, number: Number) -> Result<()> {
        let top = self.top()?;
        match number {
            Number::Small(number) => self.memo.put(number, top),
            Number::Large(digits) => _ = self.memo.large.insert(digits, top),
        }
        Ok(())
    }

    fn get(&mut self, number: &Number) -> Result<()> {
        let known = match number {
            Number::Small(number) => self.memo.get(*number),
            Number::Large(digits) => self.memo.large.get(digits).copied(),
        };
        match known {
            Some(id) => self.stack.push(id),
            None if self.excuse_more() => self.push(Node::Unknown)?,
            None => {
                let number = match number {
                    Number::Small(number) => number.to_string(),
                    Number::Large(digits) => format!("of {} digits", digits.len()),
                };
                let expected = format!("a value that was put under the number {number}");
                return Err(self.error(expected, "none"));
            }
        }
        Ok(())
    }

    fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(usize::try_from(id.0).ok()?)
    }

    /// The value on top, to be changed.
    fn target(&mut self) -> Result<Option<&mut Node>> {
        let top = self.top()?;
        Ok(usize::try_from(top.0).ok().and_then(|index| self.nodes.get_mut(index)))
    }

    /// Appends to the list on top, or to an object that is one.
    fn extend(&mut self, items: Vec<Id>) -> Result<()> {
        match self.target()? {
            Some(Node::List(list)) => list.extend(items),
            Some(Node::Object(object)) => object.items.extend(items),
            _ => return self.wrong_target("a list to append to", items),
        }
        Ok(())
    }

    fn add(&mut self, items: Vec<Id>) -> Result<()> {
        match self.target()? {
            Some(Node::Set(set)) => set.extend(items),
            Some(Node::Object(object)) => object.items.extend(items),
            _ => return self.wrong_target("a set to add to", items),
        }
        Ok(())
    }

    fn set(&mut self, pairs: Vec<(Id, Id)>) -> Result<()> {
        let changeable = pairs.iter().find(|(key, _)| {
            let node = self.node(*key);
            matches!(node, Some(Node::List(_) | Node::Dict(_) | Node::Set(_) | Node::ByteArray(_)))
        });
        if let Some((key, _)) = changeable.copied()
            && !self.excuse_more()
        {
            // What is no dict may take it.
            let is_dict = matches!(self.target()?, Some(Node::Dict(_)));
            if is_dict || !self.excuse() {
                return Err(self.error("a key that can be hashed", self.found(&[key])));
            }
        }
        match self.target()? {
            Some(Node::Dict(dict)) => dict.extend(pairs),
            Some(Node::Object(object)) => object.pairs.extend(pairs),
            _ => {
                let items = pairs.into_iter().flat_map(<[Id; 2]>::from).collect();
                return self.wrong_target("a dict to set items of", items);
            }
        }
        Ok(())
    }

    fn build(&mut self, state: Id) -> Result<()> {
        let lenient = !self.is_strict();
        match self.target()? {
            Some(Node::Object(object)) => object.state.push(state),
            // The attributes of what is imported, for everybody who imports it.
            Some(Node::Global(..)) if lenient => {
                self.excused = true;
                let class = self.top()?;
                let node = self.object(How::Patch, class, state, None)?;
                return self.new_node(node).map(|_| ());
            }
            _ => return self.wrong_target("an object to give a state", vec![state]),
        }
        Ok(())
    }

    fn wrong_target(&mut self, expected: &str, values: Vec<Id>) -> Result<()> {
        let raises = !values.is_empty() && self.refuses_items()?;
        if if raises { self.excuse_more() } else { self.excuse() } {
            // They are handed to something all the same.
            return self.new_node(Node::Tuple(values)).map(|_| ());
        }
        let top = self.top()?;
        Err(self.error(format!("{expected} for {}", self.opcode), self.found(&[top])))
    }

    /// Whether the value on top has none of the methods by which the opcode would add to it. A state
    /// that says nothing is taken by every value.
    fn refuses_items(&mut self) -> Result<bool> {
        let (opcode, target) = (self.opcode, self.target()?);
        let is_plain = match target {
            Some(
                Node::None
                | Node::Bool(_)
                | Node::Int(_)
                | Node::BigInt(_)
                | Node::Digits(_)
                | Node::Float(_)
                | Node::Text(..)
                | Node::Bytes(_)
                | Node::Tuple(_)
                | Node::FrozenSet(_),
            ) => true,
            Some(Node::Dict(_)) => !matches!(opcode, "SETITEM" | "SETITEMS"),
            Some(Node::Set(_)) => opcode != "ADDITEMS",
            _ => false,
        };
        Ok(is_plain && opcode != "BUILD")
    }

    /// Whether a value is a text; `None` if that is not known before it is made.
    fn may_be_text(&self, id: Id) -> Option<bool> {
        match self.node(id)? {
            Node::Text(..) => Some(true),
            Node::Object(_) | Node::Persistent(_) | Node::Extension(_) | Node::Unknown => None,
            _ => Some(false),
        }
    }

    fn object(&mut self, how: How, callable: Id, arguments: Id, named: Option<Id>) -> Result<Node> {
        if !matches!(self.node(arguments), Some(Node::Tuple(_))) && !self.excuse() {
            let expected = format!("arguments in a tuple for {}", self.opcode);
            return Err(self.error(expected, self.found(&[arguments])));
        }
        let (state, items, pairs) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Node::Object(Box::new(Object { how, callable, arguments, named, state, items, pairs })))
    }

    fn global(&mut self, module: Span, name: Span) -> Result<Node> {
        if self.mode == Mode::Cpython && !(self.is_utf8(module)? && self.is_utf8(name)?) {
            return Err(self.error("a module and a name in UTF-8", "others"));
        }
        let module = self.new_node(Node::Text(module, Encoding::Utf8))?;
        let name = self.new_node(Node::Text(name, Encoding::Utf8))?;
        Ok(Node::Global(module, name))
    }

    /// Whether a line is UTF-8, as both unpicklers of CPython need names to be. A very long one may be.
    fn is_utf8(&self, line: Span) -> Result<bool> {
        const LONGEST: u64 = 1 << 20;
        if line.len > LONGEST {
            return Ok(true);
        }
        let bytes = self.blob.slice(line.start, line.len)?.read()?;
        Ok(std::str::from_utf8(&bytes).is_ok())
    }

    /// A line that is a short text.
    fn word(&self, line: Span) -> Result<String> {
        // Leading zeros may go on and on.
        let most = if self.is_strict() { INTEGER } else { 64 * INTEGER };
        let short = Span { len: line.len.min(most + 1), ..line };
        let mut bytes = self.blob.slice(short.start, short.len)?.read()?;
        // The C library reads up to a zero byte.
        if let (Some(end), false) = (bytes.iter().position(|byte| *byte == 0), self.is_strict()) {
            bytes.truncate(end);
        }
        let text = (line.len <= most).then(|| text::decode(&bytes, Encoding::Utf8)).flatten();
        text.ok_or_else(|| {
            let found = format!("{} bytes", line.len);
            self.error(format!("a number of at most {most} digits for {}", self.opcode), found)
        })
    }

    /// The number of an entry of the memo.
    fn decimal(&self, line: Span) -> Result<Number> {
        let mut word = self.word(line)?;
        if !self.is_strict() {
            // As `int` of Python takes them.
            word.retain(|c| c != '_');
        }
        let number = word.trim();
        if let Some(number) = number.parse().ok().filter(|number: &i64| *number >= 0) {
            return Ok(Number::Small(number.cast_unsigned()));
        }
        let digits = number.strip_prefix('+').unwrap_or(number).trim_start_matches('0');
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && !self.is_strict() {
            return Ok(Number::Large(digits.to_owned()));
        }
        let expected = format!("a number from 0 on for {}", self.opcode);
        Err(self.error(expected, format!("`{}`", word.escape_debug())))
    }

    fn integer(&mut self, line: Span, has_bools: bool) -> Result<Node> {
        let word = match self.word(line) {
            Err(_) if self.excuse() => return Ok(Node::Unknown),
            word => word?,
        };
        let digits = word.trim();
        let digits = if has_bools { digits } else { digits.strip_suffix('L').unwrap_or(digits) };
        match (has_bools, digits) {
            (true, "00") => return Ok(Node::Bool(false)),
            (true, "01") => return Ok(Node::Bool(true)),
            _ => {}
        }
        if let Ok(value) = digits.parse() {
            return Ok(Node::Int(value));
        }
        let all = digits.strip_prefix('-').unwrap_or(digits);
        if !all.is_empty() && all.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Node::Digits(Span { len: digits.len() as u64, ..line }));
        }
        // CPython takes other bases too, and underscores.
        let other = text::may_be_integer(digits);
        if if other { self.excuse() } else { self.excuse_more() } {
            return Ok(Node::Unknown);
        }
        let expected = format!("decimal digits for {}", self.opcode);
        Err(self.error(expected, format!("`{}`", word.escape_debug())))
    }

    fn long(&mut self, span: Span) -> Result<Node> {
        if span.len > INTEGER && self.excuse() {
            return Ok(Node::Unknown);
        }
        if span.len > INTEGER {
            return Err(self.over_limit(format!("an integer of at most {INTEGER} bytes")));
        }
        let bytes = self.blob.slice(span.start, span.len)?.read()?;
        if bytes.len() > 8 {
            return Ok(Node::BigInt(span));
        }
        // The sign goes on in the bytes that are missing.
        let sign = if bytes.last().is_some_and(|last| *last >= 0x80) { 0xff } else { 0 };
        let mut whole = [sign; 8];
        whole.iter_mut().zip(bytes.iter()).for_each(|(to, from)| *to = *from);
        Ok(Node::Int(i64::from_le_bytes(whole)))
    }

    fn float(&mut self, line: Span) -> Result<Node> {
        let word = match self.word(line) {
            Err(_) if self.excuse() => return Ok(Node::Unknown),
            word => word?,
        };
        if let Ok(value) = word.trim().parse() {
            return Ok(Node::Float(value));
        }
        let other = text::may_be_float(word.trim());
        if if other { self.excuse() } else { self.excuse_more() } {
            return Ok(Node::Float(f64::NAN));
        }
        let found = format!("`{}`", word.escape_debug());
        Err(self.error("a decimal fraction for FLOAT", found))
    }

    /// A text in quotes. Without them both unpicklers of CPython raise.
    fn quoted(&mut self, line: Span) -> Result<Node> {
        let edge = |at: u64, len: u64| -> Result<bytes::Bytes> {
            Ok(self.blob.slice(line.start.saturating_add(at), len)?.read()?)
        };
        // Blanks may follow, for old ones.
        const BLANKS: u64 = 64;
        let last = line.len.min(BLANKS);
        let first = edge(0, line.len.min(1))?;
        let end = edge(line.len - last, last)?;
        let end = end.trim_ascii_end();
        let is_quoted = match (first.first(), end.last()) {
            (Some(open @ (b'\'' | b'"')), Some(close)) => open == close && line.len > 1,
            // It may end further up.
            (Some(b'\'' | b'"'), None) => true,
            _ => false,
        };
        if !is_quoted && !self.is_strict() && !self.excuse_more() {
            return Err(self.error("a text in quotes for STRING", "none"));
        }
        Ok(Node::Text(line, Encoding::Quoted))
    }

    fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        self.blob.malformed(self.at, expected, found).into()
    }

    fn over_limit(&self, limit: impl Into<String>) -> Error {
        self.blob.over_limit(self.at, limit).into()
    }

    /// What values are, for a message.
    fn found(&self, ids: &[Id]) -> String {
        let kind = |id: &Id| match self.node(*id) {
            Some(Node::None) => "None",
            Some(Node::Bool(_)) => "a bool",
            Some(Node::Int(_) | Node::BigInt(_) | Node::Digits(_)) => "an integer",
            Some(Node::Float(_)) => "a float",
            Some(Node::Text(..)) => "a text",
            Some(Node::Bytes(_)) => "bytes",
            Some(Node::ByteArray(_)) => "a bytearray",
            Some(Node::List(_)) => "a list",
            Some(Node::Tuple(_)) => "a tuple",
            Some(Node::Dict(_)) => "a dict",
            Some(Node::Set(_) | Node::FrozenSet(_)) => "a set",
            Some(Node::Global(..) | Node::Extension(_)) => "something to be imported",
            Some(Node::Persistent(_)) => "a persistent id",
            Some(Node::Object(_)) => "an object",
            Some(Node::Unknown) | None => "nothing that is known",
        };
        ids.iter().map(kind).collect::<Vec<_>>().join(" and ")
    }
}

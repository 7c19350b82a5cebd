//! The pickle machine: converts opcodes to a tree of values. It contains no code that imports or calls
//! anything.
//!
//! Readers and scans use the same machine: strict, or like CPython up to where both of its unpicklers have raised, or
//! lenient beyond that.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use lodstone_model::Limits;
use lodstone_store::{Blob, Ceiling, Cursor, Progress};

use super::known::Allowed;
use super::opcode::{self, Argument, Opcode, Span};
use super::text;
use super::text::Encoding;
use super::tree::{How, Id, Node, Object, Tree};
use crate::error::{Error, Result};

mod wrapped;

pub(crate) use wrapped::Wrapped;

/// The size of data that picklers put outside of frames.
const LARGE: u64 = 64 << 10;

/// The size of opcodes from which picklers put them into a frame.
const MIN_FRAME: u64 = 4;

/// Maximum size of an integer in bytes. Those of model files have eight.
const MAX_INTEGER: u64 = 1024;

/// The number of bytes of a line that count as one opcode.
const LINE_BYTES_PER_STEP: u64 = 8;

/// Reads the pickle at `start`.
///
/// # Errors
/// Fails with what was expected, and where, if the bytes are not a pickle, if the pickle is not self-contained
/// (out-of-band buffers), or if it exceeds the limits.
pub(crate) fn read(blob: &Blob, start: u64, limits: &Limits) -> Result<Tree> {
    let mut steps = Steps { left: u64::MAX, ..Steps::default() };
    let mut machine = Machine::new(blob, start, limits, Mode::Strict, &mut steps);
    let root = machine.run()?;
    Ok(machine.into_tree(root))
}

/// Reads the pickle at `start`, in which calls may have an argument that is not in a tuple.
///
/// # Errors
/// The errors of [`read`].
pub(crate) fn read_bare(blob: &Blob, start: u64, limits: &Limits) -> Result<Tree> {
    let mut steps = Steps { left: u64::MAX, ..Steps::default() };
    let mut machine = Machine::new(blob, start, limits, Mode::Bare, &mut steps);
    let root = machine.run()?;
    Ok(machine.into_tree(root))
}

/// The contents of a pickle that may be damaged.
pub(crate) struct Found {
    pub(crate) tree: Tree,
    /// Whether the pickle continues to `STOP`.
    pub(super) whole: bool,
    /// Whether no error was ignored.
    pub(super) sound: bool,
    /// Whether the pickle exceeds the limit of values or opcodes: the rest was not inspected.
    pub(super) cut: bool,
    /// The first place where the readers of CPython disagree about frames, which no pickler writes.
    pub(super) torn: Option<(u64, &'static str)>,
}

/// Reads as much as possible of a pickle that may be damaged, beyond the point where CPython stops. At most `steps`
/// opcodes are read, which are subtracted.
pub(crate) fn read_leniently(blob: &Blob, start: u64, limits: &Limits, steps: &mut Steps) -> Found {
    read_as(Mode::Lenient, blob, start, limits, steps)
}

/// Reads a pickle up to the opcode at which both unpicklers of CPython have raised: the tree contains what one of them
/// reaches, and hardly anything else.
pub(crate) fn read_as_cpython(
    blob: &Blob,
    start: u64,
    limits: &Limits,
    steps: &mut Steps,
) -> Found {
    read_as(Mode::Cpython, blob, start, limits, steps)
}

/// Reads a pickle as joblib does: where an array is built, its elements follow in the file. Returns these, too.
pub(crate) fn read_as_joblib(
    blob: &Blob,
    limits: &Limits,
    steps: &mut Steps,
) -> (Found, Vec<Wrapped>) {
    let mut machine = Machine::new(blob, 0, limits, Mode::Cpython, steps);
    machine.wrapped = Some(Vec::new());
    let root = machine.run().ok();
    let wrapped = machine.wrapped.take().unwrap_or_default();
    (machine.into_found(root), wrapped)
}

fn read_as(mode: Mode, blob: &Blob, start: u64, limits: &Limits, steps: &mut Steps) -> Found {
    let mut machine = Machine::new(blob, start, limits, mode, steps);
    let root = machine.run().ok();
    machine.into_found(root)
}

/// The remaining number of opcodes, a way to cancel, and the imports that a scan accepts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    pub(crate) left: u64,
    /// Progress of the scan, through which it can be cancelled.
    pub(crate) progress: Progress,
    /// Imports that the user accepts.
    pub(crate) allowed: Arc<Allowed>,
    /// Those of them that were met since the last call of `take_accepted`.
    pub(crate) accepted: BTreeSet<String>,
}

impl Steps {
    /// The number of opcodes between two checks for cancellation.
    const CHECK_INTERVAL: u64 = 1 << 16;

    /// Returns the accepted imports since the last call.
    pub(crate) fn take_accepted(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.accepted)
    }

    /// Counts an opcode; returns false if none is left, or the scan was cancelled.
    fn take(&mut self) -> bool {
        if self.left.is_multiple_of(Self::CHECK_INTERVAL) && self.progress.advance(0).is_err() {
            return false;
        }
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or_default();
        left.is_some()
    }
}

/// The handling of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Everything that no pickler writes is an error.
    Strict,
    /// The same, but an argument of a call may be any value: some frameworks write their own pickles.
    Bare,
    /// What CPython may accept is ignored; what makes both of its unpicklers raise is an error.
    Cpython,
    /// Missing operands are replaced by unknown values.
    Lenient,
}

struct Machine<'a> {
    blob: &'a Blob,
    cursor: Cursor<'a>,
    limits: &'a Limits,
    mode: Mode,
    /// Whether an error was ignored.
    excused: bool,
    /// The remaining opcodes.
    steps: &'a mut Steps,
    /// Whether the limit of opcodes or values was exceeded.
    full: bool,
    nodes: Vec<Node>,
    places: Vec<u64>,
    stack: Vec<Id>,
    /// The stack heights of marks.
    marks: Vec<usize>,
    memo: Memo,
    /// The end of the current frame.
    frame: Option<u64>,
    /// Whether there was a frame.
    framed: bool,
    /// The bytes of opcodes outside of frames since the last one.
    loose: u64,
    torn: Option<(u64, &'static str)>,
    /// The elements of arrays of joblib, which follow the state of each; `None` if the pickle is read without joblib.
    wrapped: Option<Vec<Wrapped>>,
    /// The name of the current opcode, and its offset.
    opcode: &'static str,
    at: u64,
}

/// The memo. Indices that ascend from 0, as picklers use them, cost nothing
/// but the value; others cost a table entry, however large they are.
#[derive(Default)]
struct Memo {
    dense: Vec<Id>,
    sparse: HashMap<u64, Id>,
    /// Indices that exceed 64 bits, as digits: one of CPython's unpicklers accepts them.
    large: HashMap<String, Id>,
}

/// A memo index in decimal digits.
enum Number {
    Small(u64),
    Large(String),
}

impl Memo {
    fn put(&mut self, number: u64, id: Id) {
        let index = usize::try_from(number).ok();
        if let Some(known) = index.and_then(|index| self.dense.get_mut(index)) {
            *known = id;
        } else if index == Some(self.dense.len()) {
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
        let (excused, full, framed, loose, torn) = (false, false, false, 0, None);
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
            framed,
            loose,
            torn,
            wrapped: None,
            opcode,
            at,
        }
    }

    fn is_strict(&self) -> bool {
        matches!(self.mode, Mode::Strict | Mode::Bare)
    }

    /// Returns whether to ignore something that CPython may accept.
    fn excuse(&mut self) -> bool {
        self.excused |= !self.is_strict();
        !self.is_strict()
    }

    /// Returns whether to ignore something that makes both unpicklers of CPython raise.
    fn excuse_if_lenient(&mut self) -> bool {
        self.mode == Mode::Lenient && self.excuse()
    }

    fn into_found(self, root: Option<Id>) -> Found {
        let (whole, sound, cut) = (root.is_some(), !self.excused, self.full);
        let torn = self.torn;
        Found { tree: self.into_tree(root.unwrap_or(Id(0))), whole, sound, cut, torn }
    }

    fn into_tree(self, root: Id) -> Tree {
        let end = self.cursor.position();
        Tree { blob: self.blob.clone(), nodes: self.nodes, places: self.places, root, end }
    }

    /// Runs to `STOP` and returns the resulting value.
    fn run(&mut self) -> Result<Id> {
        loop {
            self.at = self.cursor.position();
            self.take_step()?;
            let torn = !self.is_strict();
            let (opcode, argument) = opcode::read(&mut self.cursor, self.blob, torn)?;
            self.steps.left =
                self.steps.left.saturating_sub(argument.searched() / LINE_BYTES_PER_STEP);
            self.opcode = opcode.name;
            self.check_frame()?;
            self.follow_frame(opcode, argument);
            if opcode.code == b'.' {
                return self.pop();
            }
            self.step(opcode, argument)?;
        }
    }

    /// Notices in a scan what picklers do not write: they put all opcodes into frames, except for a few bytes, and for large data
    /// with its size.
    fn follow_frame(&mut self, opcode: Opcode, argument: Argument) {
        if self.is_strict() {
            return;
        }
        let end = self.cursor.position();
        if let Some(frame) = self.frame {
            match self.at < frame {
                true if end <= frame => {
                    if opcode.is_frame() {
                        self.tear("a frame begins inside another one");
                    } else if opcode.is_stop() && end < frame {
                        self.tear("a pickle ends inside a frame");
                    }
                    return;
                }
                true => self.tear("a frame ends inside an opcode"),
                false => {}
            }
            self.frame = None;
        }
        match argument {
            _ if opcode.is_frame() || opcode.is_stop() => {}
            Argument::Data(span) if span.len >= LARGE => {}
            _ if opcode.code == 0x80 => return,
            _ => {
                self.loose += end - self.at;
                return;
            }
        }
        if self.loose >= MIN_FRAME && (self.framed || opcode.is_frame()) {
            self.tear("opcodes are outside of frames");
        }
        self.loose = 0;
    }

    fn tear(&mut self, how: &'static str) {
        self.torn = self.torn.or(Some((self.at, how)));
    }

    fn take_step(&mut self) -> Result<()> {
        if self.steps.take() {
            return Ok(());
        }
        self.full = true;
        Err(self.error("fewer opcodes", "more"))
    }

    /// Checks that an opcode and its argument are inside the frame or after it. CPython's two unpicklers
    /// disagree about those that cross its end; no pickler writes them.
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
        Err(self.error(expected, format!("its end at {position}")))
    }

    #[expect(clippy::too_many_lines, reason = "a line or two for each opcode")]
    fn step(&mut self, opcode: Opcode, argument: Argument) -> Result<()> {
        let node = match (opcode.code, argument) {
            (0x80, Argument::Number(protocol)) => {
                if !(0..=5).contains(&protocol) && !self.excuse_if_lenient() {
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
                // A mark on top is popped instead.
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
            // A read-only view replaces the value on top.
            (0x98, _) if self.excuse() => return self.top().map(|_| ()),
            (0x97, _) if self.excuse() => Node::Unknown,
            (0x97 | 0x98, _) => {
                let expected = "a self-contained pickle";
                return Err(self.error(expected, "an out-of-band buffer"));
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
                    // The result of a call may be a string.
                    [Some(false), _] | [_, Some(false)] => self.excuse_if_lenient(),
                    _ => self.excuse(),
                };
                if !excused {
                    return Err(
                        self.error("a module and a name as strings", self.found(&[module, name]))
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
                if items.is_empty() && !self.excuse_if_lenient() {
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
            self.framed = true;
            self.frame = Some(frame.start.saturating_add(frame.len));
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
        self.limits.check_cancelled()?;
        let id =
            u32::try_from(self.nodes.len()).ok().filter(|_| self.nodes.len() < self.limits.nodes);
        let Some(id) = id else {
            self.full = true;
            return Err(self.over_limit(self.limits.at_most_nodes("values")));
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

    /// Returns the stack height of the last mark, below which nothing may be popped.
    fn floor(&self) -> usize {
        // Without a mark, everything may be.
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&mut self) -> Result<Id> {
        match self.stack.last().copied() {
            Some(top) if self.stack.len() > self.floor() => Ok(top),
            _ if self.excuse_if_lenient() => self.unknown(),
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

    /// Pops the values above the last mark, and the mark.
    fn pop_mark(&mut self) -> Result<Vec<Id>> {
        match self.marks.pop() {
            Some(height) => Ok(self.stack.split_off(height.min(self.stack.len()))),
            None if self.excuse_if_lenient() => Ok(Vec::new()),
            None => Err(self.error(format!("a mark on the stack for {}", self.opcode), "none")),
        }
    }

    fn pop_pairs(&mut self) -> Result<Vec<(Id, Id)>> {
        let items = self.pop_mark()?;
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() && !self.excuse_if_lenient() {
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
            None if self.excuse_if_lenient() => self.push(Node::Unknown)?,
            None => {
                let number = match number {
                    Number::Small(number) => number.to_string(),
                    Number::Large(digits) => format!("of {} digits", digits.len()),
                };
                let expected = format!("memo entry {number}");
                return Err(self.error(expected, "none"));
            }
        }
        Ok(())
    }

    fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(usize::try_from(id.0).ok()?)
    }

    /// Returns the value on top for modification.
    fn target(&mut self) -> Result<Option<&mut Node>> {
        let top = self.top()?;
        Ok(usize::try_from(top.0).ok().and_then(|index| self.nodes.get_mut(index)))
    }

    /// Appends to the list on top, or to an object of a list class.
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
            && !self.excuse_if_lenient()
        {
            // An object other than a dict may accept the key.
            let is_dict = matches!(self.target()?, Some(Node::Dict(_)));
            if is_dict || !self.excuse() {
                return Err(self.error("a hashable key", self.found(&[key])));
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
            Some(Node::Object(object)) => {
                object.state.push(state);
                self.read_wrapped()
            }
            // The state becomes the attributes of the imported object, for all its users.
            Some(Node::Global(..)) if lenient => {
                self.excused = true;
                let class = self.top()?;
                let node = self.object(How::Patch, class, state, None)?;
                self.new_node(node).map(|_| ())
            }
            _ => self.wrong_target("an object to give a state", vec![state]),
        }
    }

    fn wrong_target(&mut self, expected: &str, values: Vec<Id>) -> Result<()> {
        let raises = !values.is_empty() && self.refuses_items()?;
        if if raises { self.excuse_if_lenient() } else { self.excuse() } {
            // The values are passed to something all the same.
            return self.new_node(Node::Tuple(values)).map(|_| ());
        }
        let top = self.top()?;
        Err(self.error(format!("{expected} for {}", self.opcode), self.found(&[top])))
    }

    /// Returns whether the value on top has no method by which the opcode would add to it. A state
    /// without contents is accepted by every value.
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

    /// Returns whether a value is a string; `None` if that depends on a call.
    fn may_be_text(&self, id: Id) -> Option<bool> {
        match self.node(id)? {
            Node::Text(..) => Some(true),
            Node::Object(object) if self.is_wrapper(object) => Some(false),
            Node::Object(_) | Node::Persistent(_) | Node::Extension(_) | Node::Unknown => None,
            _ => Some(false),
        }
    }

    fn object(&mut self, how: How, callable: Id, arguments: Id, named: Option<Id>) -> Result<Node> {
        let is_tuple = matches!(self.node(arguments), Some(Node::Tuple(_)));
        if !is_tuple && self.mode != Mode::Bare && !self.excuse() {
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

    /// Returns whether a line is UTF-8, as both unpicklers of CPython require of names. A very long one may be.
    fn is_utf8(&self, line: Span) -> Result<bool> {
        const MAX_LEN: u64 = 1 << 20;
        if line.len > MAX_LEN {
            return Ok(true);
        }
        let bytes = self.blob.slice(line.start, line.len)?.read()?;
        Ok(std::str::from_utf8(&bytes).is_ok())
    }

    /// Returns a line of limited length.
    fn word(&self, line: Span) -> Result<String> {
        // A number may have many leading zeros.
        let max = if self.is_strict() { MAX_INTEGER } else { 64 * MAX_INTEGER };
        let short = Span { len: line.len.min(max + 1), ..line };
        let mut bytes = self.blob.slice(short.start, short.len)?.read()?;
        // The C library stops at a zero byte.
        if let (Some(end), false) = (bytes.iter().position(|byte| *byte == 0), self.is_strict()) {
            bytes.truncate(end);
        }
        let text = (line.len <= max).then(|| text::decode(&bytes, Encoding::Utf8)).flatten();
        text.ok_or_else(|| {
            let found = format!("{} bytes", line.len);
            self.error(format!("a number of at most {max} digits for {}", self.opcode), found)
        })
    }

    /// Parses a memo index.
    fn decimal(&self, line: Span) -> Result<Number> {
        let mut word = self.word(line)?;
        if !self.is_strict() {
            // Python's `int` accepts underscores.
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
        let expected = format!("a nonnegative integer for {}", self.opcode);
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
        // CPython also accepts other bases and underscores.
        let other = text::may_be_integer(digits);
        if if other { self.excuse() } else { self.excuse_if_lenient() } {
            return Ok(Node::Unknown);
        }
        let expected = format!("decimal digits for {}", self.opcode);
        Err(self.error(expected, format!("`{}`", word.escape_debug())))
    }

    fn long(&mut self, span: Span) -> Result<Node> {
        if span.len > MAX_INTEGER && self.excuse() {
            return Ok(Node::Unknown);
        }
        if span.len > MAX_INTEGER {
            return Err(self.over_limit(format!("an integer of at most {MAX_INTEGER} bytes")));
        }
        let bytes = self.blob.slice(span.start, span.len)?.read()?;
        if bytes.len() > 8 {
            return Ok(Node::BigInt(span));
        }
        // Sign-extend to the missing bytes.
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
        if if other { self.excuse() } else { self.excuse_if_lenient() } {
            return Ok(Node::Float(f64::NAN));
        }
        let found = format!("`{}`", word.escape_debug());
        Err(self.error("a decimal fraction for FLOAT", found))
    }

    /// Parses a quoted string. Without quotes, both unpicklers of CPython raise.
    fn quoted(&mut self, line: Span) -> Result<Node> {
        let edge = |at: u64, len: u64| -> Result<bytes::Bytes> {
            Ok(self.blob.slice(line.start.saturating_add(at), len)?.read()?)
        };
        // Old unpicklers allow trailing blanks.
        const BLANKS: u64 = 64;
        let last = line.len.min(BLANKS);
        let first = edge(0, line.len.min(1))?;
        let end = edge(line.len - last, last)?;
        let end = end.trim_ascii_end();
        let is_quoted = match (first.first(), end.last()) {
            (Some(open @ (b'\'' | b'"')), Some(close)) => open == close && line.len > 1,
            // The string may end earlier.
            (Some(b'\'' | b'"'), None) => true,
            _ => false,
        };
        if !is_quoted && !self.is_strict() && !self.excuse_if_lenient() {
            return Err(self.error("a quoted string for STRING", "none"));
        }
        Ok(Node::Text(line, Encoding::Quoted))
    }

    fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        self.blob.malformed(self.at, expected, found).into()
    }

    fn over_limit(&self, limit: impl Into<Ceiling>) -> Error {
        self.blob.over_limit(self.at, limit).into()
    }

    /// Describes values for a message.
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
            Some(Node::Global(..) | Node::Extension(_)) => "an import",
            Some(Node::Persistent(_)) => "a persistent id",
            Some(Node::Object(_)) => "an object",
            Some(Node::Unknown) | None => "an unknown value",
        };
        ids.iter().map(kind).collect::<Vec<_>>().join(" and ")
    }
}

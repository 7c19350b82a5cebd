//! Arrays in pickles of joblib. Its pickler writes a `NumpyArrayWrapper` in place of an array, and then the elements into the
//! same file. Its unpickler reads them after the opcode that gives the wrapper its state.
//!
//! | element type | what follows `BUILD` |
//! |---|---|
//! | with objects | a pickle of the array |
//! | other | the length of the padding in a byte and the padding, since joblib 1.2; the elements |
//!
//! The size of the elements decides where the next opcode is, so an element type or a shape with a doubtful size is an
//! error. An array inside of a frame is an error, too: the unpickler would read the elements after the frame.
//!
//! Source of truth: `joblib/numpy_pickle.py` of joblib 1.6, and `arraydescr_setstate` of NumPy 2.4.

use super::{Found, Machine, Mode, read_as};
use crate::encoding::pickle::opcode::Span;
use crate::encoding::pickle::rows::WRAPPER;
use crate::encoding::pickle::text;
use crate::encoding::pickle::tree::{Id, Node, Object};
use crate::error::Result;

/// The elements of an array.
pub(crate) enum Wrapped {
    /// Numbers or texts.
    Elements(Span),
    /// A pickle.
    Pickle(Box<Found>),
}

/// What a wrapper says about the elements.
enum Size {
    Objects,
    Bytes { len: u64, is_padded: bool },
}

/// Maximum length of a name of an element type, or of an import.
const MAX_WORD: u64 = 64;

/// The byte that pads elements.
const PADDING: u8 = 0xff;

impl Machine<'_> {
    /// Reads the elements of the value on top, if it is a wrapper.
    pub(super) fn read_wrapped(&mut self) -> Result<()> {
        let top = self.top()?;
        let Some(Node::Object(object)) = self.node(top) else { return Ok(()) };
        if self.is_strict() || !self.is_wrapper(object) {
            return Ok(());
        }
        if self.wrapped.is_none() {
            // Without joblib, the pickle of an array of objects is read as part of the one around it, and begins with a frame.
            self.loose = 0;
            return Ok(());
        }
        let size = match object.state.as_slice() {
            [state] => self.size_of(*state),
            _ => None,
        };
        let start = self.cursor.position();
        let is_framed = self.frame.is_some_and(|end| self.at < end && start < end);
        let Some(size) = size.filter(|_| !is_framed) else {
            return Err(self.error("an array of joblib of a certain size", "another"));
        };
        // Opcodes before and after an array are in frames of their own, or too few for one.
        self.loose = 0;
        let wrapped = match size {
            Size::Objects => {
                let pickle = read_as(Mode::Cpython, self.blob, start, self.limits, self.steps);
                let (is_sound, end) = (pickle.whole && pickle.sound, pickle.tree.end);
                self.full |= pickle.cut;
                self.cursor.seek(end);
                self.keep(Wrapped::Pickle(Box::new(pickle)));
                if !is_sound {
                    return Err(self.error("a pickle of an array", "another"));
                }
                return Ok(());
            }
            Size::Bytes { len, is_padded } => {
                if is_padded {
                    let [padding] = self.cursor.array("the length of the padding")?;
                    let padding = self.cursor.bytes(padding.into(), "padding")?;
                    if padding.iter().any(|byte| *byte != PADDING) {
                        return Err(self.error("padding of `ff` before an array", "other bytes"));
                    }
                }
                self.cursor.need(len, "the elements of an array")?;
                Span { start: self.cursor.position(), len }
            }
        };
        self.cursor.seek(wrapped.start.saturating_add(wrapped.len));
        self.keep(Wrapped::Elements(wrapped));
        Ok(())
    }

    /// Returns whether a value is an instance of the class that joblib writes in place of an array.
    pub(super) fn is_wrapper(&self, object: &Object) -> bool {
        self.is_import(object.callable, WRAPPER.0, WRAPPER.1)
    }

    fn keep(&mut self, wrapped: Wrapped) {
        if let Some(all) = &mut self.wrapped {
            all.push(wrapped);
        }
    }

    /// Returns the size of the elements; `None` if the state is not one that joblib writes.
    fn size_of(&self, state: Id) -> Option<Size> {
        let Node::Dict(pairs) = self.node(state)? else { return None };
        let (mut shape, mut dtype, mut is_padded, mut names) = (None, None, false, Vec::new());
        for (name, value) in pairs {
            let name = self.short_text(*name)?;
            match (name.as_str(), self.node(*value)?) {
                ("subclass" | "order" | "allow_mmap", _) => {}
                ("shape", Node::Tuple(dims)) => shape = Some(dims),
                ("dtype", _) => dtype = Some(*value),
                ("numpy_array_alignment_bytes", Node::None) => {}
                ("numpy_array_alignment_bytes", Node::Int(_)) => is_padded = true,
                _ => return None,
            }
            if names.contains(&name) {
                return None;
            }
            names.push(name);
        }
        let mut len = match self.element(dtype?)? {
            Element::Objects => return Some(Size::Objects),
            Element::Bytes(size) => size,
        };
        for dim in shape? {
            let Node::Int(dim) = self.node(*dim)? else { return None };
            len = len.checked_mul(u64::try_from(*dim).ok()?)?;
        }
        Some(Size::Bytes { len: i64::try_from(len).is_ok().then_some(len)?, is_padded })
    }

    /// Returns the size of an element type, `numpy.dtype(NAME, False, True)` with one state. The state decides about the
    /// size of texts and structures, and its flags about objects, so they must be those of the name.
    fn element(&self, id: Id) -> Option<Element> {
        /// The flags of a type of objects.
        const OBJECTS: i64 = 0x3f;
        /// Flags of texts and structures that have no objects: that they are initialized, need Python, or are aligned.
        const PLAIN: i64 = 0x98;
        let Node::Object(object) = self.node(id)? else { return None };
        let ([state], Node::Tuple(arguments)) =
            (object.state.as_slice(), self.node(object.arguments)?)
        else {
            return None;
        };
        let Node::Tuple(parts) = self.node(*state)? else { return None };
        let ([version, _, part, names, fields, size, _, flags]
        | [version, _, part, names, fields, size, _, flags, _]) = parts.as_slice()
        else {
            return None;
        };
        if !self.is_import(object.callable, "numpy", "dtype") || !self.is_none(*part) {
            return None;
        }
        let name = self.short_text(*arguments.first()?)?;
        let (kind, digits) = name.split_at_checked(1)?;
        let width: u64 = digits.parse().ok()?;
        let (version, size, flags) = (self.int(*version)?, self.int(*size)?, self.int(*flags)?);
        let is_simple = self.is_none(*names) && self.is_none(*fields);
        if !matches!(version, 3 | 4) || !(is_simple || kind == "V") {
            return None;
        }
        match (kind, width) {
            ("O", _) if flags == OBJECTS => Some(Element::Objects),
            ("b", 1)
            | ("i" | "u", 1 | 2 | 4 | 8)
            | ("f", 2 | 4 | 8 | 16)
            | ("c", 8 | 16 | 32)
            | ("M" | "m", 8)
                if flags == 0 && size == -1 =>
            {
                Some(Element::Bytes(width))
            }
            ("S" | "U" | "V", 1..) => {
                let bytes = width.checked_mul(if kind == "U" { 4 } else { 1 })?;
                let is_same = i64::try_from(bytes).is_ok_and(|bytes| bytes == size);
                (is_same && flags & !PLAIN == 0).then_some(Element::Bytes(bytes))
            }
            _ => None,
        }
    }

    fn is_none(&self, id: Id) -> bool {
        matches!(self.node(id), Some(Node::None))
    }

    fn int(&self, id: Id) -> Option<i64> {
        match self.node(id)? {
            Node::Int(value) => Some(*value),
            _ => None,
        }
    }

    fn is_import(&self, id: Id, module: &str, name: &str) -> bool {
        let Some(Node::Global(of, word)) = self.node(id) else { return false };
        self.short_text(*of).is_some_and(|of| of == module)
            && self.short_text(*word).is_some_and(|word| word == name)
    }

    fn short_text(&self, id: Id) -> Option<String> {
        let Node::Text(span, encoding) = self.node(id)? else { return None };
        let span = Some(span).filter(|span| span.len <= MAX_WORD)?;
        let bytes = self.blob.slice(span.start, span.len).ok()?.read().ok()?;
        text::decode(&bytes, *encoding)
    }
}

/// An element type.
enum Element {
    Objects,
    /// Its size.
    Bytes(u64),
}

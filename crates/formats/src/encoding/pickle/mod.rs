//! Pickles, read without Python and without doing what they say.
//!
//! A pickle is a program for a machine with a stack, a memo and two opcodes that import and call
//! anything there is. The machine here has the stack and the memo. What a pickle would import or
//! call becomes a value like any other (`Node::Global`, `Node::Object`), and a format says by a
//! table (`Rule`) which of them it knows and what they stand for. Everything else is an error that
//! names it, wherever it stands: also in what the pickle throws away.
//!
//! | layer | file |
//! |---|---|
//! | bytes to opcodes with their arguments, never more than what is left | `opcode` |
//! | opcodes to a tree of values, shared ones once; frames; the memo | `machine`, `tree` |
//! | texts, and bytes that are written as texts | `text` |
//! | what may be referred to, and in which form | `shapes` |
//! | arrays, element types and numbers of NumPy | `array` |
//! | how values lie in each other; plain ones as JSON | `survey`, `json` |
//! | a pickle without the elements of its tensors, for a write-back | `kept` |
//! | what a hostile pickle would import and call, however damaged it is | `scan` |
//! | what honest pickles of tensors import and call | `known` |
//! | values to bytes | `write` |
//!
//! Values lie side by side and refer to each other by number: nothing recurses, and what is shared
//! is there once. Whoever walks them as a tree has to count its steps and to notice circles.
//! Large bytes are never read here.
//!
//! Frames: CPython's two unpicklers and `pickletools` differ about opcodes that lie across the end
//! of a frame, and about frames in frames. Both are refused, so that what is seen here is what any
//! of them sees.
//!
//! Source of truth: `Lib/pickle.py`, `Lib/pickletools.py` and `Modules/_pickle.c` of CPython 3.13.
//!
//! Not supported: buffers out of band (`NEXT_BUFFER`), integers of more than 1024 bytes.

mod array;
pub(crate) mod json;
mod kept;
pub(crate) mod known;
mod machine;
mod opcode;
mod scan;
mod shapes;
mod survey;
mod text;
mod tree;
pub(crate) mod write;

pub(crate) use array::Array;
pub(crate) use kept::{Kept, Piece, is_one};
pub(crate) use machine::{Steps, read, read_leniently};
pub(crate) use opcode::Span;
pub use scan::{Finding, scan, scan_calls};
pub(crate) use scan::{Import, Loads, STEPS, loads, scan_within, steps_of};
pub(crate) use shapes::{BUILTINS, Builds, Data, MULTIARRAY, Rule, Shapes, Value, rule};
pub(crate) use survey::survey;
pub(crate) use text::Encoding;
pub(crate) use text::{Latin1, Spelling};
pub(crate) use tree::{Id, Node, Tree};

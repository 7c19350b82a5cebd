//! Pickles, read without Python and without executing them.
//!
//! A pickle is a program for a machine with a stack, a memo and two opcodes that can import and call
//! anything. The machine here has the stack and the memo. What a pickle would import or
//! call becomes a value (`Node::Global`, `Node::Object`), and each format has a
//! table (`Rule`) of those that it allows, and what they represent. Everything else is an error that
//! names it, wherever it occurs, even in values that the pickle discards.
//!
//! | layer | file |
//! |---|---|
//! | bytes to opcodes with their arguments, bounds-checked | `opcode` |
//! | opcodes to a tree of values, each shared value once; frames; the memo | `machine`, `tree` |
//! | arrays of joblib, whose elements are between opcodes | `machine/wrapped` |
//! | strings, and bytes that are encoded as strings | `text` |
//! | allowed references and their forms | `shapes` |
//! | arrays, element types and scalars of NumPy | `array` |
//! | the elements of arrays, row-major and little-endian | `decoded` |
//! | the nesting of values; plain values as JSON | `survey`, `json` |
//! | a pickle without the elements of its tensors, for writing it back | `kept` |
//! | what a hostile pickle would import and call, however damaged it is | `scan` |
//! | imports and calls of honest pickles of tensors; the table of those of any framework | `known`, `rows` |
//! | modules that an installation of Python may have | `modules` |
//! | values to bytes | `write` |
//! | opcodes with their offsets, as a byte map | `map` |
//!
//! Values are stored in a flat list and refer to each other by index: nothing recurses, and shared values
//! are stored once. Code that walks them as a tree must count its steps and detect cycles.
//! Large bytes are never read here.
//!
//! Frames: CPython's two unpicklers and `pickletools` disagree about opcodes that cross the end
//! of a frame, and about nested frames. Both are rejected, so that the values seen here are those that each
//! of them sees.
//!
//! Source of truth: `Lib/pickle.py`, `Lib/pickletools.py` and `Modules/_pickle.c` of CPython 3.13.
//!
//! Not supported: out-of-band buffers (`NEXT_BUFFER`), integers of more than 1024 bytes.

mod array;
mod decoded;
pub(crate) mod json;
mod kept;
pub(crate) mod known;
mod machine;
mod map;
mod modules;
mod opcode;
mod rows;
mod scan;
mod shapes;
mod survey;
mod text;
mod tree;
pub(crate) mod write;

pub(crate) use array::Array;
pub(crate) use decoded::{Decoded, stored};
pub(crate) use kept::{Kept, Piece, is_one};
pub(crate) use known::Allowed;
pub(crate) use machine::{Steps, read, read_bare, read_leniently};
pub(crate) use map::map;
pub(crate) use modules::{is_name, may_exist};
pub(crate) use opcode::Span;
pub use scan::{Finding, scan, scan_calls};
pub(crate) use scan::{Import, Loads, STEPS, loads, loads_of_joblib, scan_within, steps_of};
pub(crate) use shapes::{BUILTINS, Builds, Data, MULTIARRAY, Rule, Shapes, Value, rule};
pub(crate) use survey::{survey, survey_by};
pub(crate) use text::Encoding;
pub(crate) use text::{Latin1, Spelling};
pub(crate) use tree::{Id, Node, Object, Tree};

//! The code of TorchScript: a subset of Python in which all operators are calls.
//!
//! | module | contents |
//! |---|---|
//! | `lexer` | text to tokens, with indentation |
//! | `syntax` | the syntax tree |
//! | `parser` | tokens to the syntax tree |
//!
//! PyTorch's printer writes one file for each Python module. Statements are assignments, calls, `return`, `pass`, `if`
//! with `else`, `while`, `for` over `range`, `with`, `def` and `class`. Expressions are literals, names, attributes,
//! indices, calls, and displays of tuples, lists and dictionaries. `inf` and `nan` are literals. Keywords of Python may be
//! names of attributes: `class : Tensor`.
//!
//! Source of truth: `python_print.cpp` and `lexer.h` of PyTorch 2.15, and files of 1.2 to 2.15.

mod lexer;
mod parser;
mod syntax;

pub(crate) use parser::parse;
pub(crate) use syntax::{
    Class, Expression, FormalParameter, Function, Kind, Source, Statement, Step,
};

/// An error in a file of code.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {what}")]
pub(crate) struct SyntaxError {
    /// The line, counted from 1.
    pub(crate) line: u32,
    /// What was expected and found.
    pub(crate) what: String,
}

#[cfg(test)]
mod tests;

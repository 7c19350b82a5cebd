//! TorchScript's code to a program: calls are inlined, and what is known when the file is read is computed.
//!
//! | code | program |
//! |---|---|
//! | a call of a method, function or closure | the statements of its body |
//! | an operator on tensors, or on numbers that the program computes | an operator of the overload that its arguments select |
//! | arithmetic of constants, lists, strings, dictionaries, objects | nothing: computed here |
//! | `if` with a known condition | one branch |
//! | `if` with another condition | `prim::If`; a branch that raises an exception is left out |
//! | `while`, `for` with known counts | their body, repeatedly |
//! | other loops | `prim::Loop` with the variables that the body assigns |
//! | an attribute that is a tensor | the parameter of this path |
//! | an assignment to an attribute that is a tensor | `prim::SetAttr` at the end |
//!
//! | module | contents |
//! |---|---|
//! | `value` | values, constant or computed |
//! | `charge` | the memory that the evaluation takes |
//! | `evaluator` | statements and expressions |
//! | `control`, `loops` | branches and loops that depend on computed values |
//! | `call` | what a call refers to |
//! | `resolve` | the overload of an operator |
//! | `constant` | operators on constants |
//! | `objects` | attributes of objects of the archive |
//! | `emit` | operators of the program |
//! | `quantized` | quantized tensors |
//! | `prune` | removal of results that nothing reads |
//! | `uses` | element types of inputs |
//!
//! Source of truth: the interpreter and `schema_matching.cpp` of PyTorch 2.15.

mod call;
mod charge;
mod constant;
mod control;
mod emit;
mod evaluator;
mod loops;
mod objects;
mod prune;
mod quantized;
mod resolve;
mod uses;
mod value;

pub(crate) use charge::Budget;
pub(crate) use evaluator::{Code, deep, evaluate, methods};

/// Why code could not be translated, with the function and the line.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{function}`, line {line}: {what}")]
pub(crate) struct Failure {
    pub(crate) function: String,
    pub(crate) line: u32,
    pub(crate) what: String,
}

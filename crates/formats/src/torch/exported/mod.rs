//! Exported programs (`torch.export.save`): archives with the extension `.pt2`.
//!
//! Since 2.8, an archive has one folder with these members:
//!
//! | member | contents |
//! |---|---|
//! | `archive_format`, `archive_version` | `pt2`, `0` |
//! | `models/NAME.json` | a program; several are possible |
//! | `data/weights/NAME_weights_config.json` | parameters and buffers by name: file, element type, dims, strides, offset |
//! | `data/weights/weight_N` | the elements of a storage, which several tensors may share |
//! | `data/constants/NAME_constants_config.json`, `tensor_N` | the same, of constants |
//!
//! The programs of 2.5 to 2.7 are members without a folder: `serialized_exported_program.json`, and pickles of tensors
//! `serialized_state_dict.pt` and `serialized_constants.pt`.
//!
//! A program is JSON (`json`):
//!
//! | object | in the model |
//! |---|---|
//! | `graph_module.graph` | the main block (`graph`) |
//! | node | an operator; its named arguments are slots and attributes (`arguments`) |
//! | `tensor_values`, `sym_int_values`, ... | the types of variables |
//! | symbolic expression, as text of SymPy | a dim (`symbols`) |
//! | `signature` | the names of parameters, inputs and outputs; a mutation is an operator `aten::copy_` at the end |
//! | graph in an argument | a block |
//! | `range_constraints` | the attribute `range_constraints` of the program |
//!
//! Not supported: tensors that are stored as pickles of subclasses, and programs of other major versions than 7 and 8.
//!
//! Source of truth: `torch/_export/serde/schema.py` of 2.5.1, 2.6.0, 2.8.0 and 2.15.0, and files that they wrote.

mod arguments;
mod enums;
mod graph;
mod json;
mod read;
mod signature;
mod symbols;

pub(crate) use read::attach;

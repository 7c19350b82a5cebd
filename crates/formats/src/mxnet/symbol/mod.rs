//! MXNet programs: `-symbol.json`.
//!
//! | key | value |
//! |---|---|
//! | `nodes` | the nodes, each behind those that it reads |
//! | `arg_nodes` | numbers of the nodes that are variables |
//! | `node_row_ptr` | number of the first output of each node, and of all; since 0.9 |
//! | `heads` | entries that leave the graph |
//! | `attrs` | `{"mxnet_version": ["int", 10901], ...}`; since 0.9 |
//!
//! | key of a node | value |
//! |---|---|
//! | `op` | the operator, or `null` for a variable |
//! | `name` | its name |
//! | `attrs` (`attr` to 0.11; `param` to 0.8, with `attr` for what users said) | texts by key |
//! | `inputs` | entries: `[node, output, version]`, to 0.8 `[node, output]` |
//! | `control_deps` | nodes that run before it |
//! | `backward_source_id` | the node that it is the gradient of, or -1; to 0.8 |
//! | `subgraphs` | graphs that it runs: `_foreach`, `_cond`, `_sg_mkldnn_conv`, ... |
//!
//! In the model a graph is a block, its variables are those of the block, and its nodes the
//! operators. Inputs have positions: all are in one operand without a slot. Values are called as
//! MXNet calls them (`conv0_output`); where that names two, the later gets a number. Variables of
//! one name in a graph are one. `control_deps` and `backward_source_id` are operands of that name,
//! and `subgraphs` is an attribute of that name. Attributes stay the texts they are.
//!
//! Old files are upgraded as MXNet does it (`upgrade.rs`). A write-back of a program that was not
//! edited is its text; others are written as MXNet 1.9.1 writes them.
//!
//! Source of truth: `src/core/saveload_json.cc` and `src/nnvm/legacy_json_util.cc` of MXNet, `json.h`
//! of dmlc-core, and files that 0.9.5, 0.11.0, 1.5.1, 1.9.1 and 2.0.0b1 wrote.
//!
//! Not supported: names that are not UTF-8, and control characters that JSON has to escape.

mod detect;
mod graph;
mod json;
mod read;
mod upgrade;
mod write;

pub use detect::is_symbol;
pub use read::read;
pub use write::write;

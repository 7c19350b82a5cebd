//! MXNet programs: `-symbol.json`.
//!
//! | key | value |
//! |---|---|
//! | `nodes` | the nodes, each after those that it reads |
//! | `arg_nodes` | indices of the nodes that are variables |
//! | `node_row_ptr` | index of the first output of each node, and the total; since 0.9 |
//! | `heads` | entries that are outputs of the graph |
//! | `attrs` | `{"mxnet_version": ["int", 10901], ...}`; since 0.9 |
//!
//! | key of a node | value |
//! |---|---|
//! | `op` | the operator, or `null` for a variable |
//! | `name` | its name |
//! | `attrs` (`attr` to 0.11; `param` to 0.8, with `attr` for user attributes) | strings by key |
//! | `inputs` | entries: `[node, output, version]`, to 0.8 `[node, output]` |
//! | `control_deps` | nodes that run before it |
//! | `backward_source_id` | the node of which it is the gradient, or -1; to 0.8 |
//! | `subgraphs` | graphs that it runs: `_foreach`, `_cond`, `_sg_mkldnn_conv`, ... |
//!
//! In the model a graph is a block, its variables are those of the block, and its nodes the
//! operators. Inputs are positional: all are in one operand without a slot. Values have MXNet's
//! names (`conv0_output`); if two values share a name, the later one gets a number. Variables of
//! the same name in a graph are one. `control_deps` and `backward_source_id` become operands of that name,
//! and `subgraphs` an attribute of that name. Attributes remain strings.
//!
//! Old files are upgraded as in MXNet (`upgrade.rs`). An unedited program is written back as
//! its original text; others are written in the format of MXNet 1.9.1.
//!
//! Source of truth: `src/core/saveload_json.cc` and `src/nnvm/legacy_json_util.cc` of MXNet, `json.h`
//! of dmlc-core, and files that 0.9.5, 0.11.0, 1.5.1, 1.9.1 and 2.0.0b1 wrote.
//!
//! Not supported: names that are not UTF-8, and control characters that JSON must escape.

mod detect;
mod graph;
mod json;
mod read;
mod upgrade;
mod write;

pub use detect::is_symbol;
pub use read::read;
pub use write::write;

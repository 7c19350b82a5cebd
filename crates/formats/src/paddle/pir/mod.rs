//! Programs of PaddlePaddle 3: PIR (`X.json`, `inference.json`).
//!
//! | object | keys |
//! |---|---|
//! | file | `base_code` (`magic` "pir", `version`, `trainable`), `program` |
//! | program | `regions`\* |
//! | region | `#` "`region_k`", `blocks`\* |
//! | block | `#` "`block_k`", `args`\*, `kwargs` (args by keyword, since 3.1), `ops`\* |
//! | arg | `#` value id, `TT` type |
//! | operator | `#` name, `I`\* operands, `O`\* results, `A`\* attributes, `OA`\* attributes of results, `regions`\* |
//! | operand | `%` value id; 0 is an omitted operand |
//! | result | `%` value id, `TT` type; the type `NULL` is a result that is not produced |
//! | attribute | `N` name, `AT` (`#` type, `D` value, or `VD` "NaN", "INF", "-INF") |
//! | parameter | `#` "p", `A` [`is_distributed`, `is_parameter`, `need_clip`, name], `O` one result, `OA` [persistable, `stop_gradient`, trainable] |
//! | type | `#` type, `D` its parts: of a tensor element type, dims, layout, LoD, offset |
//!
//! Names begin with the number of a dialect: `0` is `builtin`, `1` `pd_op`, `2` `cf`, `3` `custom_op`, `4`
//! `pd_dist`. The version is 1 in 3.0, 2 in 3.1, 3 in 3.2 and 4 in 3.3; the types of some attributes differ
//! between them.
//!
//! In the model, a region is a block. Values have the names of parameters, inputs (`pd_op.data`) and outputs
//! (`pd_op.fetch`), or their id as PaddlePaddle prints it (`%5`). Operands are positional: all are in one
//! slot without a name. Operators have their whole name (`pd_op.conv2d`).
//!
//! Programs are written unchanged only, as their original text.
//!
//! Source of truth: `paddle/fluid/pir/serialize_deserialize` of PaddlePaddle, and files that 3.0.0b2, 3.0.0, 3.1.1,
//! 3.2.2 and 3.3.1 wrote.
//!
//! Not supported: regions of several blocks, which PaddlePaddle does not write.

mod attributes;
mod detect;
mod json;
mod read;
mod types;
mod write;

pub use detect::is_pir;
pub use read::read;
pub use write::write;

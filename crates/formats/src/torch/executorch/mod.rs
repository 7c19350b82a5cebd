//! ExecuTorch: programs (`.pte`), and tensors beside them (`.ptd`).
//!
//! Both are FlatBuffers with an extended header after the identifier, and segments behind them:
//!
//! | bytes | contents |
//! |---|---|
//! | `u32`, `ET12` or `FT01` | offset of the root table, and the identifier of the schema |
//! | `eh00`, `u32`, `u64`, `u64`, `u64` | header of a program, absent in old files: its size, the end of the FlatBuffer, the start of the segments, their size (in headers of more than 24 bytes) |
//! | `FH01`, `u32`, `u64`, `u64`, `u64`, `u64` | header of tensors: its size, its padded size, the size of the FlatBuffer without it, the start of the segments, their size |
//! | | tables, as in `program.fbs` and `flat_tensor.fbs` |
//! | | segments: ranges of constants, of the data of delegates, and of named data |
//!
//! | module | contents |
//! |---|---|
//! | `file` | the header and the segments |
//! | `plan` | methods: inputs, outputs, operators, delegates |
//! | `constants` | the tensors of a program |
//! | `tensors` | the tensors of a `.ptd` file |
//! | `read` | models |
//! | `opaque` | the parts that only a backend can interpret, for scans; byte maps |
//!
//! Constants are views of the file. They have the name that the file records, or that of their place in it:
//! `constant.N`, `mutable.M.N`. A program is a list of calls whose operators and backends are part of the runtime. It is
//! described by metadata, not translated.
//!
//! Source of truth: `schema/program.fbs`, `exir/_serialize/_program.py` and `extension/flat_tensor` of ExecuTorch 1.5, and
//! files that it wrote.
//!
//! Not supported: running and editing programs; files with test inputs (`.bpte`).

mod constants;
mod file;
mod opaque;
mod plan;
mod read;
mod tensors;

pub(super) use file::{PROGRAM, TENSORS};
pub(super) use opaque::{map, opaque};
pub(super) use read::read;
pub use read::read_blob;

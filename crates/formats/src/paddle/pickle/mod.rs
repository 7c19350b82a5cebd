//! Files of `paddle.save` and its predecessors: pickles (`.pdparams`, `.pdopt`, `.pdtensor`,
//! `.pdiparams.info`, `.pdstates`, `.distcp`, `.metadata`).
//!
//! | object | in the pickle | in the model |
//! |---|---|---|
//! | state dict | dict of arrays, then `StructuredToParameterName@@`: structured names to parameter names | a tensor each, and metadata |
//! | static state dict (`static.save`) | dict of arrays | a tensor each |
//! | tensor, alone or in lists and dicts | `builtins.tuple((name, array))` | a tensor, named by its path |
//! | static tensor | `builtins.eval('data', {'data': array})` | the same |
//! | NumPy array | an array | the same |
//! | large array, protocols 2 and 3 | parts `name@@.0`, `name@@.1`, and `UnpackBigParamInfor@@` (sic): shape and parts of each | one tensor |
//! | anything else | plain values | metadata: path to JSON |
//!
//! A path joins keys and indices with dots: `LR_Scheduler`, `n.0`, `m.k.1`; a tensor that is the whole
//! object has none. A value without tensors is one entry. Its JSON has lists for tuples and sets,
//! `{"__bytes__": HEX}` for bytes, `{"__class__": NAME, ..}` for instances in `.metadata`, `[re, im]`
//! for complex numbers, and strings for numbers that JSON lacks. The own name of a tensor is the
//! entry `PATH@name`, unless PaddlePaddle generated it (`generated_tensor_0`).
//!
//! bfloat16 is pickled as uint16 and float8 as int8. Only a program declares the actual type; see `paddle`.
//!
//! Elements are slices of the file. Protocol 2 encodes them as strings, which are scanned once at opening,
//! in chunks, and decoded on read.
//!
//! An unedited file is written back byte for byte; an edited one as the same objects in
//! protocol 4, with split arrays in one piece. New files are a dict of arrays in protocol 4. The module of
//! arrays is `numpy.core.multiarray`, which exists in NumPy 1 and 2.
//!
//! Source of truth: `framework/io.py` and `framework/io_utils.py` of PaddlePaddle, and files that
//! 1.8.5, 2.6.2, 3.0.0 and 3.3.1 wrote.
//!
//! Not supported: other imports, arrays of objects, text, dates or
//! structures; sparse tensors, which PaddlePaddle itself fails to save; data after the pickle.

mod array;
mod contents;
mod edit;
mod read;
mod write;

pub use read::read_blob;
pub(crate) use write::write;

pub(crate) use read::{Early, is_pickle, read_early, read_structured_names, warn_bits};
pub(crate) use write::put_model;
pub(in crate::paddle) use write::{check, put_arrays};

use lodstone_model::DType;

use crate::encoding::pickle::known::Use;
use crate::encoding::pickle::{BUILTINS, Builds, MULTIARRAY, Rule, rule};

/// The name of the format, and the owner of the residuals of its models and tensors.
pub(crate) const NAME: &str = "paddle-pickle";

/// The key of the table from structured names to names of variables.
pub(crate) const TABLE: &str = "StructuredToParameterName@@";

/// The key of the table of split arrays and their parts.
const CUT: &str = "UnpackBigParamInfor@@";

/// Types whose bits PaddlePaddle pickles as integers, with the integer types.
pub(crate) const AS_INTEGERS: [(DType, DType); 3] = [
    (DType::BFloat16, DType::Uint16),
    (DType::Float8E4M3Fn, DType::Int8),
    (DType::Float8E5M2, DType::Int8),
];

/// The modules before and since 3.3.
const DISTRIBUTED: &[&str] =
    &["paddle.distributed.checkpoint.metadata", "paddle.distributed.flex_checkpoint.dcp.metadata"];

/// All allowed imports.
const RULES: &[Rule] = &[
    rule(&["numpy"], "ndarray", Builds::Ndarray),
    rule(&["numpy"], "dtype", Builds::Dtype),
    rule(MULTIARRAY, "_reconstruct", Builds::Reconstruct),
    rule(MULTIARRAY, "scalar", Builds::Scalar),
    rule(&["numpy.core.numeric", "numpy._core.numeric"], "_frombuffer", Builds::FromBuffer),
    rule(&["_codecs"], "encode", Builds::Encode),
    rule(&["collections"], "OrderedDict", Builds::OrderedDict),
    rule(BUILTINS, "tuple", Builds::Tuple),
    rule(BUILTINS, "eval", Builds::Eval(EVAL)),
    rule(BUILTINS, "bytes", Builds::Bytes),
    rule(BUILTINS, "bytearray", Builds::ByteArray),
    rule(BUILTINS, "set", Builds::Set),
    rule(BUILTINS, "frozenset", Builds::Set),
    rule(BUILTINS, "complex", Builds::Complex),
    rule(DISTRIBUTED, "Metadata", Builds::Record),
    rule(DISTRIBUTED, "LocalTensorMetadata", Builds::Record),
    rule(DISTRIBUTED, "LocalTensorIndex", Builds::Record),
];

/// The form of a static tensor, for messages.
const EVAL: &str = "`eval('data', {'data': array})`, as PaddlePaddle writes a tensor";

/// Returns the allowed use of an import; `None` if pickles of tensors do not need it.
pub(crate) fn imports(module: &str, name: &str) -> Option<Use> {
    (builds(module, name)? == Builds::Record).then_some(Use::RECORD)
}

/// Returns what an import represents.
pub(crate) fn builds(module: &str, name: &str) -> Option<Builds> {
    Rule::find(RULES, module, name)
}

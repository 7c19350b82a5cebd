//! What `paddle.save` and its predecessors write: pickles (`.pdparams`, `.pdopt`, `.pdtensor`,
//! `.pdiparams.info`, `.pdstates`, `.distcp`, `.metadata`).
//!
//! | object | in the pickle | here |
//! |---|---|---|
//! | state dict | dict of arrays, then `StructuredToParameterName@@`: names to names of parameters | a tensor each, and metadata |
//! | static state dict (`static.save`) | dict of arrays | a tensor each |
//! | tensor, alone or in lists and dicts | `builtins.tuple((name, array))` | a tensor, called by its path |
//! | static tensor | `builtins.eval('data', {'data': array})` | the same |
//! | array of NumPy | an array | the same |
//! | large array, protocols 2 and 3 | parts `name@@.0`, `name@@.1`, and `UnpackBigParamInfor@@` (sic): shape and parts of each | one tensor |
//! | anything else | plain values | metadata: path to JSON |
//!
//! A path joins keys and places with dots: `LR_Scheduler`, `n.0`, `m.k.1`; a tensor that is all there
//! is has none. A value that holds no tensor is one entry. Its JSON has lists for tuples and sets,
//! `{"__bytes__": HEX}` for bytes, `{"__class__": NAME, ..}` for what `.metadata` has, `[re, im]`
//! for complex numbers, and texts for numbers that JSON lacks. A name that a tensor itself has is the
//! entry `PATH@name`, unless PaddlePaddle made it up (`generated_tensor_0`).
//!
//! bfloat16 is pickled as uint16 and float8 as int8. Only a program knows; see `paddle`.
//!
//! Elements are slices of the file. Protocol 2 writes them as text, which is read once at opening,
//! a piece at a time, and decoded when it is read again.
//!
//! What was read and not edited is written as it was, byte for byte; edited, as the same objects in
//! protocol 4, cut arrays in one piece. Fresh files are a dict of arrays in protocol 4. The module of
//! arrays is `numpy.core.multiarray`, which NumPy 1 and 2 know.
//!
//! Source of truth: `framework/io.py` and `framework/io_utils.py` of PaddlePaddle, and files that
//! 1.8.5, 2.6.2, 3.0.0 and 3.3.1 wrote.
//!
//! Not supported: anything else that a pickle can refer to, arrays of objects, text, dates or
//! structures; sparse tensors, which PaddlePaddle itself fails to save; anything after the pickle.

mod array;
mod contents;
mod edit;
mod read;
mod write;

pub use read::read_blob;
pub(crate) use write::write;

pub(crate) use read::{Early, is_pickle, read_early, read_structured_names, warn_bits};
pub(crate) use write::put_model;

use lodstone_model::DType;

use crate::encoding::pickle::known::Use;
use crate::encoding::pickle::{BUILTINS, Builds, MULTIARRAY, Rule, rule};

/// Name of the format, and owner of the residuals of its models and tensors.
pub(crate) const NAME: &str = "paddle-pickle";

/// Names of structured parameters to those of variables.
pub(crate) const TABLE: &str = "StructuredToParameterName@@";

/// Which arrays were cut, and into what.
const CUT: &str = "UnpackBigParamInfor@@";

/// Types whose bits PaddlePaddle pickles as integers, and as which.
pub(crate) const AS_INTEGERS: [(DType, DType); 3] = [
    (DType::BFloat16, DType::Uint16),
    (DType::Float8E4M3Fn, DType::Int8),
    (DType::Float8E5M2, DType::Int8),
];

/// Before and since 3.3.
const DISTRIBUTED: &[&str] =
    &["paddle.distributed.checkpoint.metadata", "paddle.distributed.flex_checkpoint.dcp.metadata"];

/// All that these pickles may refer to.
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

/// How a static tensor is written, for messages.
const EVAL: &str = "`eval('data', {'data': array})`, as PaddlePaddle writes a tensor";

/// What may be done with a name of a module; `None` if pickles of tensors do not need it.
pub(crate) fn imports(module: &str, name: &str) -> Option<Use> {
    (builds(module, name)? == Builds::Record).then_some(Use::Attributes)
}

/// What something that a pickle imports stands for.
fn builds(module: &str, name: &str) -> Option<Builds> {
    Rule::find(RULES, module, name)
}

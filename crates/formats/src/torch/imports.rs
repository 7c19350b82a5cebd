//! Imports and calls of PyTorch's pickles of tensors.

use crate::encoding::pickle::known::{Row, Use, find};

/// Returns the allowed use of an import; `None` if pickles of tensors do not need it.
pub(crate) fn imports(module: &str, name: &str) -> Option<Use> {
    find(KNOWN, module, name)
}

const KNOWN: &[Row] = &[
    ("torch._utils", REBUILDS, Use::Call),
    ("torch", NAMES, Use::Call),
    ("torch.serialization", &["_get_layout"], Use::Call),
    ("torch.distributed.checkpoint.metadata", METADATA, Use::Attributes),
    ("torch.distributed.checkpoint.metadata", &["TensorProperties"], Use::State),
    ("torch.distributed.checkpoint.filesystem", &["_StorageInfo"], Use::Attributes),
    ("torch.storage", &["UntypedStorage", "TypedStorage"], Use::Call),
];

const METADATA: &[&str] = &[
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorStorageMetadata",
    "_MEM_FORMAT_ENCODING",
];

const REBUILDS: &[&str] = &[
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
    "_rebuild_parameter",
    "_rebuild_qtensor",
    "_rebuild_sparse_tensor",
    "_rebuild_meta_tensor_no_storage",
    "_rebuild_nested_tensor",
];

#[rustfmt::skip]
const NAMES: &[&str] = &[
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
    "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage",
    "QInt8Storage", "QInt32Storage", "QUInt8Storage", "ShortStorage", "Size", "device", "bfloat16", "bool",
    "complex128", "complex32", "complex64", "float16", "float32", "float4_e2m1fn_x2", "float64",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "int16", "int32",
    "int64", "int8", "per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric",
    "per_tensor_affine", "per_tensor_symmetric", "uint16", "uint32", "uint64", "uint8",
];

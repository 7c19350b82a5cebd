//! Imports and calls of PyTorch's pickles of tensors.

use crate::encoding::pickle::known::{Row, Use, find};

/// Returns the allowed use of an import; `None` if pickles of tensors do not need it.
pub(crate) fn imports(module: &str, name: &str) -> Option<Use> {
    // The layers of PyTorch: classes, which are created without arguments and given attributes.
    let is_layer = module.starts_with("torch.nn.modules.")
        && name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric());
    find(KNOWN, module, name).or(is_layer.then_some(Use::State))
}

const KNOWN: &[Row] = &[
    ("torch._utils", REBUILDS, Use::Call),
    ("torch._tensor", &["_rebuild_from_type_v2"], Use::Call),
    ("torch.tensor", &["_rebuild_from_type"], Use::Call),
    ("torch.nn.parameter", &["Buffer", "Parameter"], Use::State),
    ("torch.autograd.variable", &["Variable"], Use::State),
    ("torch.jit._pickle", TAGS, Use::Call),
    ("torch.cuda", NAMES, Use::Call),
    // Options of a training script.
    ("argparse", &["Namespace"], Use::Attributes),
    ("types", &["SimpleNamespace"], Use::Attributes),
    ("torch", NAMES, Use::Call),
    ("torch.serialization", &["_get_layout"], Use::Call),
    ("torch.distributed.checkpoint.metadata", METADATA, Use::Attributes),
    ("torch.distributed.checkpoint.metadata", &["TensorProperties"], Use::State),
    ("torch.distributed.checkpoint.filesystem", &["_StorageInfo"], Use::Attributes),
    ("torch.storage", &["UntypedStorage", "TypedStorage"], Use::Call),
];

/// The functions of TorchScript that return their argument.
const TAGS: &[&str] = &[
    "build_boollist",
    "build_doublelist",
    "build_intlist",
    "build_tensorlist",
    "restore_type_tag",
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
    "_rebuild_parameter_with_state",
    "_rebuild_wrapper_subclass",
    "_rebuild_device_tensor_from_cpu_tensor",
    "_rebuild_device_tensor_from_numpy",
];

#[rustfmt::skip]
const NAMES: &[&str] = &[
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
    "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage",
    "QInt8Storage", "QInt32Storage", "QUInt2x4Storage", "QUInt4x2Storage", "QUInt8Storage", "ShortStorage",
    "Size", "Tensor", "device", "qint32", "qint8", "quint2x4", "quint4x2", "quint8", "bits16", "bits1x8", "bits2x4",
    "bits4x2", "bits8", "bfloat16", "bool",
    "complex128", "complex32", "complex64", "float16", "float32", "float4_e2m1fn_x2", "float64",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "int16", "int32",
    "int64", "int8", "per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric",
    "per_tensor_affine", "per_tensor_symmetric", "uint16", "uint32", "uint64", "uint8",
];

//! What pickles of tensors refer to when they are honest.

use lodstone_formats::pickle::Finding;
use lodstone_schema::mxnet;

/// Whether a pickle of tensors imports this, and calls it in this way.
pub(crate) fn is_harmless<'a>(
    module: &str,
    name: &str,
    uses: impl Iterator<Item = &'a Finding> + Clone,
) -> bool {
    // Classes of TorchScript, which are compiled from the archive, and no module of Python.
    if module.split('.').next() == Some("__torch__") {
        return true;
    }
    if uses.clone().any(|finding| finding.how == "patch") {
        return false;
    }
    let mut known = HARMLESS.iter().filter(|(known, _)| *known == module);
    let is_known = known.any(|(_, names)| names.contains(&name));
    if !is_known && mxnet::pickled(module, name).is_none() {
        return false;
    }
    let mut calls = uses.filter(|finding| finding.how != "import").peekable();
    match name {
        // PaddlePaddle hands static tensors through `eval('data', {'data': array})`, and nothing
        // else. What is handed on, as `__setstate__` of an object, is called with anything.
        "eval" => {
            let as_paddle = |call: &Finding| {
                call.how == "reduce" && call.arguments.starts_with("('data', {'data': ")
            };
            calls.peek().is_some() && calls.all(as_paddle)
        }
        // Protocols 0 and 1 make instances with it, of a class that is looked at by itself.
        "_reconstructor" => calls.all(|call| {
            let bases = ["__builtin__", "builtins"];
            let mut ends = bases.iter().map(|base| format!(", {base}.object, None)"));
            call.how == "build"
                || (call.how == "reduce" && ends.any(|end| call.arguments.ends_with(&end)))
        }),
        _ => true,
    }
}

/// What pickles of tensors refer to, by module. Everything else is worth a look.
const HARMLESS: &[(&str, &[&str])] = &[
    ("numpy", &["ndarray", "dtype"]),
    ("numpy.core.multiarray", &["_reconstruct", "scalar"]),
    ("numpy._core.multiarray", &["_reconstruct", "scalar"]),
    ("numpy.core.numeric", &["_frombuffer"]),
    ("numpy._core.numeric", &["_frombuffer"]),
    ("_codecs", &["encode"]),
    ("collections", &["OrderedDict"]),
    ("builtins", BUILTINS),
    ("__builtin__", BUILTINS),
    ("copy_reg", &["_reconstructor"]),
    ("copyreg", &["_reconstructor"]),
    ("paddle.distributed.checkpoint.metadata", PADDLE_METADATA),
    ("paddle.distributed.flex_checkpoint.dcp.metadata", PADDLE_METADATA),
    (
        "torch._utils",
        &[
            "_rebuild_tensor",
            "_rebuild_tensor_v2",
            "_rebuild_tensor_v3",
            "_rebuild_parameter",
            "_rebuild_qtensor",
            "_rebuild_sparse_tensor",
            "_rebuild_meta_tensor_no_storage",
            "_rebuild_nested_tensor",
        ],
    ),
    (
        "torch",
        &[
            "BFloat16Storage",
            "BoolStorage",
            "ByteStorage",
            "CharStorage",
            "ComplexDoubleStorage",
            "ComplexFloatStorage",
            "DoubleStorage",
            "FloatStorage",
            "HalfStorage",
            "IntStorage",
            "LongStorage",
            "QInt8Storage",
            "QInt32Storage",
            "QUInt8Storage",
            "ShortStorage",
            "Size",
            "device",
            "bfloat16",
            "bool",
            "complex128",
            "complex32",
            "complex64",
            "float16",
            "float32",
            "float4_e2m1fn_x2",
            "float64",
            "float8_e4m3fn",
            "float8_e4m3fnuz",
            "float8_e5m2",
            "float8_e5m2fnuz",
            "float8_e8m0fnu",
            "int16",
            "int32",
            "int64",
            "int8",
            "per_channel_affine",
            "per_channel_affine_float_qparams",
            "per_channel_symmetric",
            "per_tensor_affine",
            "per_tensor_symmetric",
            "uint16",
            "uint32",
            "uint64",
            "uint8",
        ],
    ),
    ("torch.serialization", &["_get_layout"]),
    (
        "torch.jit._pickle",
        &[
            "build_boollist",
            "build_doublelist",
            "build_intlist",
            "build_tensor_from_id",
            "build_tensorlist",
            "restore_type_tag",
        ],
    ),
    (
        "torch.distributed.checkpoint.metadata",
        &[
            "BytesStorageMetadata",
            "ChunkStorageMetadata",
            "Metadata",
            "MetadataIndex",
            "StorageMeta",
            "TensorProperties",
            "TensorStorageMetadata",
            "_MEM_FORMAT_ENCODING",
        ],
    ),
    ("torch.distributed.checkpoint.filesystem", &["_StorageInfo"]),
    ("torch.storage", &["UntypedStorage", "TypedStorage"]),
];
const BUILTINS: &[&str] =
    &["tuple", "set", "frozenset", "complex", "bytes", "bytearray", "eval", "object"];
const PADDLE_METADATA: &[&str] = &["Metadata", "LocalTensorMetadata", "LocalTensorIndex"];

//! Imports and calls of PyTorch's pickles of tensors and layers.

use std::sync::LazyLock;

use super::layers::LAYERS;
use crate::encoding::pickle::known::Takes::{
    Any, Bool, Dict, Int, Ints, List, Text, Tuple, Values,
};
use crate::encoding::pickle::known::{Is, Row, State, Table, Takes, Use};

/// Returns the allowed use of an import; `None` if pickles of tensors do not need it.
pub(crate) fn imports(module: &str, name: &str) -> Option<Use> {
    KNOWN.find(module, name)
}

/// Returns whether pickles of tensors import names of a module.
pub(crate) fn has_module(module: &str) -> bool {
    KNOWN.has_module(module)
}

/// All rows. Layers are classes, which are created without arguments and given attributes.
static KNOWN: LazyLock<Table> = LazyLock::new(|| {
    let layers = LAYERS.iter().map(|(module, names)| {
        let module: &'static [&'static str] = std::slice::from_ref(module);
        (module, *names, Use::RECORD)
    });
    Table::new(ROWS.iter().copied().chain(layers))
});

const STORAGE: Takes = Takes::Is(Is::Storage);
const TENSOR: Takes = Takes::Is(Is::Array);
const CLASS: Takes = Takes::Is(Is::Class);
const NONE: Takes = Takes::None;

const UTILS: &[&str] = &["torch._utils"];
const DISTRIBUTED: &[&str] = &["torch.distributed.checkpoint.metadata"];

const ROWS: &[Row] = &[
    (UTILS, &["_rebuild_tensor"], Use::function(&[&[STORAGE, Int, Ints, Ints]], Is::Array)),
    (
        UTILS,
        &["_rebuild_tensor_v2"],
        Use::function(
            &[
                &[STORAGE, Int, Ints, Ints, Bool, Dict],
                &[STORAGE, Int, Ints, Ints, Bool, NONE],
                &[STORAGE, Int, Ints, Ints, Bool, Dict, Values],
            ],
            Is::Array,
        ),
    ),
    (
        UTILS,
        &["_rebuild_tensor_v3"],
        Use::function(
            &[
                &[STORAGE, Int, Ints, Ints, Bool, Dict, CLASS],
                &[STORAGE, Int, Ints, Ints, Bool, Dict, CLASS, Values],
            ],
            Is::Array,
        ),
    ),
    (
        UTILS,
        &["_rebuild_parameter"],
        Use::function(&[&[TENSOR, Bool, Dict], &[TENSOR, Bool, NONE]], Is::Array),
    ),
    (
        UTILS,
        &["_rebuild_parameter_with_state"],
        Use::function(&[&[TENSOR, Bool, Dict, Values]], Is::Array),
    ),
    (
        UTILS,
        &["_rebuild_qtensor"],
        Use::function(&[&[STORAGE, Int, Ints, Ints, Tuple, Bool, Dict]], Is::Array),
    ),
    (UTILS, &["_rebuild_sparse_tensor"], Use::function(&[&[Any, Tuple]], Is::Array)),
    (
        UTILS,
        &["_rebuild_meta_tensor_no_storage"],
        Use::function(&[&[CLASS, Ints, Ints, Bool]], Is::Array),
    ),
    (
        UTILS,
        &["_rebuild_nested_tensor"],
        Use::function(
            &[&[TENSOR, TENSOR, TENSOR, TENSOR], &[TENSOR, TENSOR, TENSOR, Any]],
            Is::Array,
        ),
    ),
    (
        UTILS,
        &["_rebuild_wrapper_subclass"],
        Use::function(&[&[CLASS, CLASS, Ints, Ints, Int, Any, Any, Bool]], Is::Array),
    ),
    (
        UTILS,
        &["_rebuild_device_tensor_from_numpy", "_rebuild_device_tensor_from_cpu_tensor"],
        Use::function(&[&[TENSOR, CLASS, Any, Bool]], Is::Array),
    ),
    (
        &["torch._tensor"],
        &["_rebuild_from_type_v2"],
        Use::function(&[&[Takes::Rebuild, CLASS, Takes::ItsArguments, Values]], Is::Array),
    ),
    (
        &["torch.tensor"],
        &["_rebuild_from_type"],
        Use::function(&[&[Takes::Rebuild, CLASS, Takes::ItsArguments, Values]], Is::Array),
    ),
    (
        &["torch.nn.parameter"],
        &["Buffer", "Parameter"],
        Use::class(VARIABLES, Is::Array).with(State::Values),
    ),
    (
        &["torch.autograd.variable"],
        &["Variable"],
        Use::class(VARIABLES, Is::Array).with(State::Values),
    ),
    (&["torch.jit._pickle"], TAGS, Use::function(&[&[List], &[Tuple]], Is::Other)),
    (&["torch.jit._pickle"], &["build_tensor_from_id"], Use::function(&[&[Int]], Is::Other)),
    (&["torch.jit._pickle"], &["restore_type_tag"], Use::function(&[&[Any, Text]], Is::Other)),
    (&["torch", "torch.cuda"], NAMES, Use::value(Is::Class)),
    (&["torch"], &["Size"], Use::class(&[&[Ints]], Is::Ints)),
    (&["torch"], &["device"], Use::class(&[&[Text], &[Text, Int]], Is::Other)),
    (&["torch.storage"], &["UntypedStorage", "TypedStorage"], Use::value(Is::Class)),
    (&["torch.serialization"], &["_get_layout"], Use::function(&[&[Text]], Is::Other)),
    // Functions of activations and losses, which layers keep.
    (&["torch.nn.functional"], FUNCTIONAL, Use::value(Is::Other)),
    (&["torch._C._nn"], NATIVE, Use::value(Is::Other)),
    (&["torch._C"], &["_VariableFunctionsClass"], Use::value(Is::Functions)),
    // Options of a training script.
    (&["argparse"], &["Namespace"], Use::RECORD),
    (&["types"], &["SimpleNamespace"], Use::RECORD),
    (&["torch.utils.data.dataset"], &["ConcatDataset", "Subset", "TensorDataset"], Use::RECORD),
    (DISTRIBUTED, METADATA, Use::RECORD),
    (DISTRIBUTED, &["_MEM_FORMAT_ENCODING"], Use::class(&[&[Int]], Is::Other)),
    (DISTRIBUTED, &["TensorProperties"], Use::RECORD.with(State::Values)),
    (&["torch.distributed.checkpoint.filesystem"], &["_StorageInfo"], Use::RECORD),
];

/// The arguments of variables. In tape archives, a tensor is a persistent id.
const VARIABLES: &[&[Takes]] = &[&[], &[TENSOR], &[TENSOR, Bool], &[STORAGE], &[STORAGE, Bool]];

/// The functions of TorchScript that return their argument.
const TAGS: &[&str] = &["build_boollist", "build_doublelist", "build_intlist", "build_tensorlist"];

const METADATA: &[&str] = &[
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorStorageMetadata",
];

#[rustfmt::skip]
const FUNCTIONAL: &[&str] = &[
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "cross_entropy", "dropout", "elu", "gelu", "glu",
    "hardsigmoid", "hardswish", "hardtanh", "interpolate", "l1_loss", "leaky_relu", "log_softmax", "logsigmoid", "mish",
    "mse_loss", "nll_loss", "normalize", "pad", "relu", "relu6", "rrelu", "selu", "sigmoid", "silu", "softmax",
    "softplus", "softsign", "tanh", "tanhshrink",
];

const NATIVE: &[&str] =
    &["avg_pool2d", "elu_", "gelu", "linear", "log_sigmoid", "one_hot", "softplus", "softshrink"];

#[rustfmt::skip]
const NAMES: &[&str] = &[
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
    "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage",
    "QInt8Storage", "QInt32Storage", "QUInt2x4Storage", "QUInt4x2Storage", "QUInt8Storage", "ShortStorage",
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor", "Tensor", "qint32", "qint8", "quint2x4", "quint4x2", "quint8", "bits16", "bits1x8", "bits2x4",
    "bits4x2", "bits8", "bfloat16", "bool",
    "complex128", "complex32", "complex64", "float16", "float32", "float4_e2m1fn_x2", "float64",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "int16", "int32",
    "int64", "int8", "per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric",
    "per_tensor_affine", "per_tensor_symmetric", "uint16", "uint32", "uint64", "uint8",
];

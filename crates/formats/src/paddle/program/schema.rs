//! Tables of the messages of `framework.proto`. For fields and values that 3.x renamed without
//! changing their numbers (`LOD_TENSOR`, `lod_tensor`), they contain both names.

use crate::encoding::protobuf::schema::{Enum, Kind, Message, many, one};

use Kind::{Bool, Bytes, Double, Float, Int};

const fn message(message: &'static Message) -> Kind {
    Kind::Message(message)
}

pub(crate) static PROGRAM: Message = Message {
    name: "ProgramDesc",
    fields: &[
        many(1, &["blocks"], message(&BLOCK)),
        one(3, &["op_compatible_map"], message(&OP_COMPATIBLE_MAP)),
        one(4, &["version"], message(&VERSION)),
        one(5, &["op_version_map"], message(&OP_VERSION_MAP)),
    ],
};

pub(crate) static BLOCK: Message = Message {
    name: "BlockDesc",
    fields: &[
        one(1, &["idx"], Int),
        one(2, &["parent_idx"], Int),
        many(3, &["vars"], message(&VAR)),
        many(4, &["ops"], message(&OP)),
        one(5, &["forward_block_idx"], Int),
    ],
};

pub(crate) static VAR: Message = Message {
    name: "VarDesc",
    fields: &[
        one(1, &["name"], Bytes),
        one(2, &["type"], message(&VAR_TYPE)),
        one(3, &["persistable"], Bool),
        one(4, &["need_check_feed"], Bool),
        one(5, &["is_parameter"], Bool),
        one(6, &["stop_gradient"], Bool),
        many(7, &["attrs"], message(&VAR_ATTRIBUTE)),
    ],
};

static VAR_ATTRIBUTE: Message = Message {
    name: "VarDesc.Attr",
    fields: &[
        one(1, &["name"], Bytes),
        one(2, &["type"], Kind::Enum(&ATTRIBUTE_TYPE)),
        one(3, &["i"], Int),
        one(4, &["s"], Bytes),
        many(5, &["ints"], Int),
    ],
};

static VAR_TYPE: Message = Message {
    name: "VarType",
    fields: &[
        one(1, &["type"], Kind::Enum(&TYPE)),
        one(2, &["selected_rows"], message(&TENSOR_DESC)),
        one(3, &["lod_tensor", "dense_tensor"], message(&LOD_TENSOR_DESC)),
        one(4, &["tensor_array"], message(&LOD_TENSOR_DESC)),
        one(5, &["reader"], message(&READER_DESC)),
        one(7, &["tuple"], message(&TUPLE)),
        one(8, &["string"], message(&TENSOR_DESC)),
        one(9, &["strings"], message(&TENSOR_DESC)),
        one(10, &["vocab"], message(&TENSOR_DESC)),
        one(11, &["sparse_coo"], message(&TENSOR_DESC)),
        one(12, &["sparse_csr"], message(&TENSOR_DESC)),
    ],
};

pub(crate) static TENSOR_DESC: Message = Message {
    name: "TensorDesc",
    fields: &[one(1, &["data_type"], Kind::Enum(&TYPE)), many(2, &["dims"], Int)],
};

static LOD_TENSOR_DESC: Message = Message {
    name: "LoDTensorDesc",
    fields: &[
        one(1, &["tensor"], message(&TENSOR_DESC)),
        one(2, &["lod_level", "legacy_lod_level"], Int),
    ],
};

static READER_DESC: Message = Message {
    name: "ReaderDesc",
    fields: &[many(1, &["lod_tensor", "dense_tensor"], message(&LOD_TENSOR_DESC))],
};

static TUPLE: Message =
    Message { name: "Tuple", fields: &[many(1, &["element_type"], Kind::Enum(&TYPE))] };

pub(crate) static OP: Message = Message {
    name: "OpDesc",
    fields: &[
        many(1, &["inputs"], message(&OPERAND)),
        many(2, &["outputs"], message(&OPERAND)),
        one(3, &["type"], Bytes),
        many(4, &["attrs"], message(&OP_ATTRIBUTE)),
        one(5, &["is_target"], Bool),
    ],
};

static OPERAND: Message = Message {
    name: "OpDesc.Var",
    fields: &[one(1, &["parameter"], Bytes), many(2, &["arguments"], Bytes)],
};

static OP_ATTRIBUTE: Message = Message {
    name: "OpDesc.Attr",
    fields: &[
        one(1, &["name"], Bytes),
        one(2, &["type"], Kind::Enum(&ATTRIBUTE_TYPE)),
        one(3, &["i"], Int),
        one(4, &["f"], Float),
        one(5, &["s"], Bytes),
        many(6, &["ints"], Int),
        many(7, &["floats"], Float),
        many(8, &["strings"], Bytes),
        one(10, &["b"], Bool),
        many(11, &["bools"], Bool),
        one(12, &["block_idx"], Int),
        one(13, &["l"], Int),
        many(14, &["blocks_idx"], Int),
        many(15, &["longs"], Int),
        many(16, &["float64s"], Double),
        one(17, &["var_name"], Bytes),
        many(18, &["vars_name"], Bytes),
        one(19, &["float64"], Double),
        one(20, &["scalar"], message(&SCALAR)),
        many(21, &["scalars"], message(&SCALAR)),
    ],
};

static SCALAR: Message = Message {
    name: "Scalar",
    fields: &[
        one(1, &["type"], Kind::Enum(&SCALAR_TYPE)),
        one(2, &["b"], Bool),
        one(3, &["i"], Int),
        one(4, &["r"], Double),
        one(5, &["c"], message(&COMPLEX)),
    ],
};

static COMPLEX: Message =
    Message { name: "Complex", fields: &[one(1, &["r"], Double), one(2, &["i"], Double)] };

static VERSION: Message = Message { name: "Version", fields: &[one(1, &["version"], Int)] };

static OP_VERSION_MAP: Message =
    Message { name: "OpVersionMap", fields: &[many(1, &["pair"], message(&OP_VERSION_PAIR))] };

static OP_VERSION_PAIR: Message = Message {
    name: "OpVersionPair",
    fields: &[one(1, &["op_name"], Bytes), one(2, &["op_version"], message(&VERSION))],
};

static OP_COMPATIBLE_MAP: Message = Message {
    name: "OpCompatibleMap",
    fields: &[
        many(1, &["pair"], message(&OP_COMPATIBLE_PAIR)),
        one(2, &["default_required_version"], Bytes),
    ],
};

static OP_COMPATIBLE_PAIR: Message = Message {
    name: "OpCompatiblePair",
    fields: &[one(1, &["op_name"], Bytes), one(2, &["compatible_info"], message(&COMPATIBLE_INFO))],
};

static COMPATIBLE_INFO: Message = Message {
    name: "CompatibleInfo",
    fields: &[one(1, &["version"], Bytes), one(2, &["type"], Kind::Enum(&COMPATIBLE_TYPE))],
};

static COMPATIBLE_TYPE: Enum = Enum {
    values: &[
        (0, &["COMPATIBLE"]),
        (1, &["DEFINITELY_NOT"]),
        (2, &["POSSIBLE"]),
        (3, &["BUG_FIX"]),
        (4, &["PRECISION_CHANGE"]),
    ],
};

static SCALAR_TYPE: Enum =
    Enum { values: &[(1, &["BOOLEAN"]), (2, &["LONG"]), (3, &["FLOAT64"]), (4, &["COMPLEX128"])] };

pub(crate) static ATTRIBUTE_TYPE: Enum = Enum {
    values: &[
        (0, &["INT"]),
        (1, &["FLOAT"]),
        (2, &["STRING"]),
        (3, &["INTS"]),
        (4, &["FLOATS"]),
        (5, &["STRINGS"]),
        (6, &["BOOLEAN"]),
        (7, &["BOOLEANS"]),
        (8, &["BLOCK"]),
        (9, &["LONG"]),
        (10, &["BLOCKS"]),
        (11, &["LONGS"]),
        (12, &["FLOAT64S"]),
        (13, &["VAR"]),
        (14, &["VARS"]),
        (15, &["FLOAT64"]),
        (16, &["SCALAR"]),
        (17, &["SCALARS"]),
    ],
};

pub(crate) static TYPE: Enum = Enum {
    values: &[
        (0, &["BOOL"]),
        (1, &["INT16"]),
        (2, &["INT32"]),
        (3, &["INT64"]),
        (4, &["FP16"]),
        (5, &["FP32"]),
        (6, &["FP64"]),
        (7, &["LOD_TENSOR", "DENSE_TENSOR"]),
        (8, &["SELECTED_ROWS"]),
        (9, &["FEED_MINIBATCH"]),
        (10, &["FETCH_LIST"]),
        (11, &["STEP_SCOPES"]),
        (12, &["LOD_RANK_TABLE"]),
        (13, &["LOD_TENSOR_ARRAY", "DENSE_TENSOR_ARRAY"]),
        (14, &["PLACE_LIST"]),
        (15, &["READER"]),
        (17, &["RAW"]),
        (18, &["TUPLE"]),
        (19, &["SIZE_T"]),
        (20, &["UINT8"]),
        (21, &["INT8"]),
        (22, &["BF16"]),
        (23, &["COMPLEX64"]),
        (24, &["COMPLEX128"]),
        (25, &["STRING"]),
        (26, &["STRINGS"]),
        (27, &["VOCAB"]),
        (28, &["FEED_LIST"]),
        (29, &["PSTRING"]),
        (30, &["SPARSE_COO"]),
        (31, &["SPARSE_CSR"]),
        (32, &["FP8_E4M3FN"]),
        (33, &["FP8_E5M2"]),
        (37, &["UINT32"]),
        (38, &["UINT64"]),
    ],
};

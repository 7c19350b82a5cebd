//! Tables of the messages of `caffe2.proto`, `metanet.proto` and `predictor_consts.proto`.

use crate::encoding::protobuf::schema::{Enum, Kind, Message, many, one, packed, runs};

use Kind::{Bool, Bytes, Double, Elements, Float, Int};

const fn message(message: &'static Message) -> Kind {
    Kind::Message(message)
}

pub(crate) static NET: Message = Message {
    name: "NetDef",
    fields: &[
        one(1, &["name"], Bytes),
        many(2, &["op"], message(&OP)),
        one(3, &["type"], Bytes),
        one(4, &["num_workers"], Int),
        one(5, &["device_option"], message(&DEVICE)),
        many(6, &["arg"], message(&ARGUMENT)),
        many(7, &["external_input"], Bytes),
        many(8, &["external_output"], Bytes),
        many(9, &["partition_info"], message(&PARTITION)),
    ],
};

pub(crate) static OP: Message = Message {
    name: "OperatorDef",
    fields: &[
        many(1, &["input"], Bytes),
        many(2, &["output"], Bytes),
        one(3, &["name"], Bytes),
        one(4, &["type"], Bytes),
        many(5, &["arg"], message(&ARGUMENT)),
        one(6, &["device_option"], message(&DEVICE)),
        one(7, &["engine"], Bytes),
        many(8, &["control_input"], Bytes),
        one(9, &["is_gradient_op"], Bool),
        one(10, &["debug_info"], Bytes),
        one(11, &["domain"], Bytes),
        one(12, &["op_version"], Int),
    ],
};

pub(crate) static ARGUMENT: Message = Message {
    name: "Argument",
    fields: &[
        one(1, &["name"], Bytes),
        one(2, &["f"], Float),
        one(3, &["i"], Int),
        runs(one(4, &["s"], Bytes)),
        runs(many(5, &["floats"], Float)),
        runs(many(6, &["ints"], Int)),
        runs(many(7, &["strings"], Bytes)),
        one(8, &["n"], message(&NET)),
        many(9, &["nets"], message(&NET)),
        one(10, &["t"], message(&TENSOR)),
        many(11, &["tensors"], message(&TENSOR)),
        many(12, &["qtensors"], message(&QTENSOR)),
    ],
};

static DEVICE: Message = Message {
    name: "DeviceOption",
    fields: &[
        one(1, &["device_type"], Int),
        one(2, &["device_id"], Int),
        one(3, &["random_seed"], Int),
        one(4, &["node_name"], Bytes),
        one(5, &["numa_node_id"], Int),
        many(6, &["extra_info"], Bytes),
    ],
};

static PARTITION: Message = Message {
    name: "PartitionInfo",
    fields: &[
        one(1, &["name"], Bytes),
        many(2, &["device_id"], Int),
        one(3, &["extra_info"], Bytes),
        many(4, &["backend_options"], message(&BACKEND_OPTIONS)),
    ],
};

static BACKEND_OPTIONS: Message = Message {
    name: "BackendOptions",
    fields: &[one(1, &["backend_name"], Bytes), many(2, &["option"], message(&OPTION))],
};

static OPTION: Message = Message {
    name: "OptionEntry",
    fields: &[one(1, &["key"], Bytes), one(2, &["val", "value"], Bytes)],
};

pub(crate) static TENSOR: Message = Message {
    name: "TensorProto",
    fields: &[
        many(1, &["dims"], Int),
        one(2, &["data_type"], Kind::Enum(&DATA_TYPE)),
        packed(3, &["float_data"], Float),
        packed(4, &["int32_data"], Int),
        one(5, &["byte_data"], Elements),
        many(6, &["string_data"], Bytes),
        one(7, &["name"], Bytes),
        one(8, &["device_detail"], message(&DEVICE)),
        packed(9, &["double_data"], Double),
        packed(10, &["int64_data"], Int),
        one(11, &["segment"], message(&SEGMENT)),
        one(12, &["storage_type"], Kind::Enum(&STORAGE_TYPE)),
        one(13, &["raw_data"], Elements),
        one(14, &["external_data"], message(&EXTERNAL)),
        one(15, &["data_format"], Int),
    ],
};

static SEGMENT: Message =
    Message { name: "Segment", fields: &[one(1, &["begin"], Int), one(2, &["end"], Int)] };

static EXTERNAL: Message = Message {
    name: "ExternalDataProto",
    fields: &[
        one(1, &["source_type"], Int),
        one(2, &["record_id"], Bytes),
        one(3, &["offset"], Int),
        many(4, &["strides"], Int),
        one(5, &["record_size"], Int),
    ],
};

static STORAGE_TYPE: Enum =
    Enum { values: &[(1, &["TYPED"]), (2, &["RAW"]), (3, &["EXTERNAL"]), (4, &["NO_CONTENT"])] };

static DATA_TYPE: Enum = Enum {
    values: &[
        (0, &["UNDEFINED"]),
        (1, &["FLOAT"]),
        (2, &["INT32"]),
        (3, &["BYTE"]),
        (4, &["STRING"]),
        (5, &["BOOL"]),
        (6, &["UINT8"]),
        (7, &["INT8"]),
        (8, &["UINT16"]),
        (9, &["INT16"]),
        (10, &["INT64"]),
        (12, &["FLOAT16"]),
        (13, &["DOUBLE"]),
        (14, &["ZERO_COLLISION_HASH"]),
        (15, &["REBATCHING_BUFFER"]),
    ],
};

pub(crate) static QTENSOR: Message = Message {
    name: "QTensorProto",
    fields: &[
        many(1, &["dims"], Int),
        one(2, &["precision"], Int),
        one(3, &["scale"], Double),
        one(4, &["bias"], Double),
        one(5, &["is_signed"], Bool),
        packed(6, &["data"], Int),
        one(7, &["name"], Bytes),
        one(8, &["data_type"], Kind::Enum(&DATA_TYPE)),
        many(9, &["scales"], Double),
        many(10, &["biases"], Double),
        one(11, &["axis"], Int),
        one(12, &["is_multiparam"], Bool),
    ],
};

pub(crate) static BLOB: Message = Message {
    name: "BlobProto",
    fields: &[
        one(1, &["name"], Bytes),
        one(2, &["type"], Bytes),
        one(3, &["tensor"], message(&TENSOR)),
        runs(one(4, &["content"], Bytes)),
        one(5, &["qtensor"], message(&QTENSOR)),
        one(6, &["content_num_chunks"], Int),
        one(7, &["content_chunk_id"], Int),
    ],
};

/// `MetaNetDef`, of which the nets and the lists of blobs are read.
pub(crate) static META_NET: Message = Message {
    name: "MetaNetDef",
    fields: &[
        many(1, &["blobs"], message(&BLOBS_MAP)),
        many(2, &["nets"], message(&NETS_MAP)),
        one(3, &["modelInfo"], message(&MODEL_INFO)),
        many(4, &["plans"], message(&PLANS_MAP)),
        many(5, &["applicationSpecificInfo"], message(&OPTION)),
        many(6, &["blobsOrder"], Bytes),
        many(7, &["preLoadBlobs"], Bytes),
        one(8, &["requestSchema"], Bytes),
        one(9, &["inferenceRequestSchema"], Bytes),
    ],
};

static BLOBS_MAP: Message =
    Message { name: "BlobsMap", fields: &[one(1, &["key"], Bytes), many(2, &["value"], Bytes)] };

static NETS_MAP: Message = Message {
    name: "NetsMap",
    fields: &[one(1, &["key"], Bytes), one(2, &["value"], message(&NET))],
};

static PLANS_MAP: Message = Message {
    name: "PlansMap",
    fields: &[one(1, &["key"], Bytes), one(2, &["val", "value"], Bytes)],
};

static MODEL_INFO: Message = Message {
    name: "ModelInfo",
    fields: &[
        one(1, &["project"], Bytes),
        one(2, &["modelClass"], Bytes),
        one(3, &["version"], Bytes),
        one(4, &["predictorType"], Bytes),
        one(5, &["modelId"], Bytes),
    ],
};

//! Tables of the messages of `onnx.proto`.

use crate::encoding::protobuf::schema::{Enum, Kind, Message, many, one, packed};

use Kind::{Bytes, Double, Elements, Float, Int, Uint};

const fn message(message: &'static Message) -> Kind {
    Kind::Message(message)
}

pub(crate) static MODEL: Message = Message {
    name: "ModelProto",
    fields: &[
        one(1, &["ir_version"], Int),
        one(2, &["producer_name"], Bytes),
        one(3, &["producer_version"], Bytes),
        one(4, &["domain"], Bytes),
        one(5, &["model_version"], Int),
        one(6, &["doc_string"], Bytes),
        one(7, &["graph"], message(&GRAPH)),
        many(8, &["opset_import"], message(&OPERATOR_SET)),
        many(14, &["metadata_props"], message(&ENTRY)),
        many(20, &["training_info"], message(&TRAINING_INFO)),
        many(25, &["functions"], message(&FUNCTION)),
        many(26, &["configuration"], message(&DEVICE_CONFIGURATION)),
    ],
};

/// `StringStringEntryProto`.
pub(crate) static ENTRY: Message = Message {
    name: "StringStringEntryProto",
    fields: &[one(1, &["key"], Bytes), one(2, &["value"], Bytes)],
};

static OPERATOR_SET: Message = Message {
    name: "OperatorSetIdProto",
    fields: &[one(1, &["domain"], Bytes), one(2, &["version"], Int)],
};

pub(crate) static GRAPH: Message = Message {
    name: "GraphProto",
    fields: &[
        many(1, &["node"], message(&NODE)),
        one(2, &["name"], Bytes),
        many(5, &["initializer"], message(&TENSOR)),
        one(10, &["doc_string"], Bytes),
        many(11, &["input"], message(&VALUE_INFO)),
        many(12, &["output"], message(&VALUE_INFO)),
        many(13, &["value_info"], message(&VALUE_INFO)),
        many(14, &["quantization_annotation"], message(&TENSOR_ANNOTATION)),
        many(15, &["sparse_initializer"], message(&SPARSE_TENSOR)),
        many(16, &["metadata_props"], message(&ENTRY)),
    ],
};

static TENSOR_ANNOTATION: Message = Message {
    name: "TensorAnnotation",
    fields: &[
        one(1, &["tensor_name"], Bytes),
        many(2, &["quant_parameter_tensor_names"], message(&ENTRY)),
    ],
};

pub(crate) static NODE: Message = Message {
    name: "NodeProto",
    fields: &[
        many(1, &["input"], Bytes),
        many(2, &["output"], Bytes),
        one(3, &["name"], Bytes),
        one(4, &["op_type"], Bytes),
        many(5, &["attribute"], message(&ATTRIBUTE)),
        one(6, &["doc_string"], Bytes),
        one(7, &["domain"], Bytes),
        one(8, &["overload"], Bytes),
        many(9, &["metadata_props"], message(&ENTRY)),
        many(10, &["device_configurations"], message(&NODE_DEVICE_CONFIGURATION)),
    ],
};

pub(crate) static ATTRIBUTE: Message = Message {
    name: "AttributeProto",
    fields: &[
        one(1, &["name"], Bytes),
        one(2, &["f"], Float),
        one(3, &["i"], Int),
        one(4, &["s"], Bytes),
        one(5, &["t"], message(&TENSOR)),
        one(6, &["g"], message(&GRAPH)),
        many(7, &["floats"], Float),
        many(8, &["ints"], Int),
        many(9, &["strings"], Bytes),
        many(10, &["tensors"], message(&TENSOR)),
        many(11, &["graphs"], message(&GRAPH)),
        one(13, &["doc_string"], Bytes),
        one(14, &["tp"], message(&TYPE)),
        many(15, &["type_protos"], message(&TYPE)),
        one(20, &["type"], Kind::Enum(&ATTRIBUTE_TYPE)),
        one(21, &["ref_attr_name"], Bytes),
        one(22, &["sparse_tensor"], message(&SPARSE_TENSOR)),
        many(23, &["sparse_tensors"], message(&SPARSE_TENSOR)),
    ],
};

static ATTRIBUTE_TYPE: Enum = Enum {
    values: &[
        (0, &["UNDEFINED"]),
        (1, &["FLOAT"]),
        (2, &["INT"]),
        (3, &["STRING"]),
        (4, &["TENSOR"]),
        (5, &["GRAPH"]),
        (6, &["FLOATS"]),
        (7, &["INTS"]),
        (8, &["STRINGS"]),
        (9, &["TENSORS"]),
        (10, &["GRAPHS"]),
        (11, &["SPARSE_TENSOR"]),
        (12, &["SPARSE_TENSORS"]),
        (13, &["TYPE_PROTO"]),
        (14, &["TYPE_PROTOS"]),
    ],
};

pub(crate) static TENSOR: Message = Message {
    name: "TensorProto",
    fields: &[
        many(1, &["dims"], Int),
        // An `int32` in the specification, so that text format uses the number.
        one(2, &["data_type"], Int),
        one(3, &["segment"], message(&SEGMENT)),
        packed(4, &["float_data"], Float),
        packed(5, &["int32_data"], Int),
        many(6, &["string_data"], Bytes),
        packed(7, &["int64_data"], Int),
        one(8, &["name"], Bytes),
        one(9, &["raw_data"], Elements),
        packed(10, &["double_data"], Double),
        packed(11, &["uint64_data"], Uint),
        one(12, &["doc_string"], Bytes),
        many(13, &["external_data"], message(&ENTRY)),
        one(14, &["data_location"], Kind::Enum(&DATA_LOCATION)),
        many(16, &["metadata_props"], message(&ENTRY)),
    ],
};

static SEGMENT: Message = Message {
    name: "TensorProto.Segment",
    fields: &[one(1, &["begin"], Int), one(2, &["end"], Int)],
};

static DATA_LOCATION: Enum = Enum { values: &[(0, &["DEFAULT"]), (1, &["EXTERNAL"])] };

pub(crate) static SPARSE_TENSOR: Message = Message {
    name: "SparseTensorProto",
    fields: &[
        one(1, &["values"], message(&TENSOR)),
        one(2, &["indices"], message(&TENSOR)),
        many(3, &["dims"], Int),
    ],
};

pub(crate) static VALUE_INFO: Message = Message {
    name: "ValueInfoProto",
    fields: &[
        one(1, &["name"], Bytes),
        one(2, &["type"], message(&TYPE)),
        one(3, &["doc_string"], Bytes),
        many(4, &["metadata_props"], message(&ENTRY)),
    ],
};

static TYPE: Message = Message {
    name: "TypeProto",
    fields: &[
        one(1, &["tensor_type"], message(&TENSOR_TYPE)),
        one(4, &["sequence_type"], message(&SEQUENCE_TYPE)),
        one(5, &["map_type"], message(&MAP_TYPE)),
        one(6, &["denotation"], Bytes),
        one(7, &["opaque_type"], message(&OPAQUE_TYPE)),
        one(8, &["sparse_tensor_type"], message(&SPARSE_TENSOR_TYPE)),
        one(9, &["optional_type"], message(&OPTIONAL_TYPE)),
    ],
};

static TENSOR_TYPE: Message = Message {
    name: "TypeProto.Tensor",
    fields: &[one(1, &["elem_type"], Int), one(2, &["shape"], message(&SHAPE))],
};

static SPARSE_TENSOR_TYPE: Message =
    Message { name: "TypeProto.SparseTensor", fields: TENSOR_TYPE.fields };

static SEQUENCE_TYPE: Message =
    Message { name: "TypeProto.Sequence", fields: &[one(1, &["elem_type"], message(&TYPE))] };

static OPTIONAL_TYPE: Message =
    Message { name: "TypeProto.Optional", fields: &[one(1, &["elem_type"], message(&TYPE))] };

static MAP_TYPE: Message = Message {
    name: "TypeProto.Map",
    fields: &[one(1, &["key_type"], Int), one(2, &["value_type"], message(&TYPE))],
};

static OPAQUE_TYPE: Message = Message {
    name: "TypeProto.Opaque",
    fields: &[one(1, &["domain"], Bytes), one(2, &["name"], Bytes)],
};

static SHAPE: Message =
    Message { name: "TensorShapeProto", fields: &[many(1, &["dim"], message(&DIMENSION))] };

static DIMENSION: Message = Message {
    name: "TensorShapeProto.Dimension",
    fields: &[
        one(1, &["dim_value"], Int),
        one(2, &["dim_param"], Bytes),
        one(3, &["denotation"], Bytes),
    ],
};

pub(crate) static FUNCTION: Message = Message {
    name: "FunctionProto",
    fields: &[
        one(1, &["name"], Bytes),
        many(4, &["input"], Bytes),
        many(5, &["output"], Bytes),
        many(6, &["attribute"], Bytes),
        many(7, &["node"], message(&NODE)),
        one(8, &["doc_string"], Bytes),
        many(9, &["opset_import"], message(&OPERATOR_SET)),
        one(10, &["domain"], Bytes),
        many(11, &["attribute_proto"], message(&ATTRIBUTE)),
        many(12, &["value_info"], message(&VALUE_INFO)),
        one(13, &["overload"], Bytes),
        many(14, &["metadata_props"], message(&ENTRY)),
    ],
};

static TRAINING_INFO: Message = Message {
    name: "TrainingInfoProto",
    fields: &[
        one(1, &["initialization"], message(&GRAPH)),
        one(2, &["algorithm"], message(&GRAPH)),
        many(3, &["initialization_binding"], message(&ENTRY)),
        many(4, &["update_binding"], message(&ENTRY)),
    ],
};

static DEVICE_CONFIGURATION: Message = Message {
    name: "DeviceConfigurationProto",
    fields: &[one(1, &["name"], Bytes), one(2, &["num_devices"], Int), many(3, &["device"], Bytes)],
};

static NODE_DEVICE_CONFIGURATION: Message = Message {
    name: "NodeDeviceConfigurationProto",
    fields: &[
        one(1, &["configuration_id"], Bytes),
        many(2, &["sharding_spec"], message(&SHARDING_SPEC)),
        one(3, &["pipeline_stage"], Int),
    ],
};

static SHARDING_SPEC: Message = Message {
    name: "ShardingSpecProto",
    fields: &[
        one(1, &["tensor_name"], Bytes),
        many(2, &["device"], Int),
        many(3, &["index_to_device_group_map"], message(&INT_INT_LIST_ENTRY)),
        many(4, &["sharded_dim"], message(&SHARDED_DIM)),
    ],
};

static INT_INT_LIST_ENTRY: Message = Message {
    name: "IntIntListEntryProto",
    fields: &[one(1, &["key"], Int), many(2, &["value"], Int)],
};

static SHARDED_DIM: Message = Message {
    name: "ShardedDimProto",
    fields: &[one(1, &["axis"], Int), many(2, &["simple_sharding"], message(&SIMPLE_SHARDED_DIM))],
};

static SIMPLE_SHARDED_DIM: Message = Message {
    name: "SimpleShardedDimProto",
    fields: &[
        one(1, &["dim_value"], Int),
        one(2, &["dim_param"], Bytes),
        one(3, &["num_shards"], Int),
    ],
};

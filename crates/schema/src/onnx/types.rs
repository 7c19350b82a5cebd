//! ONNX's names of types: of values, `seq(tensor(float))`, and of attributes, `INTS`.
//!
//! Source of truth: `data_type_utils.cc` and `AttributeProto.AttributeType` of onnx 1.23.2.

use lodstone_model::{AttributeValue, DType, ValueType};

use super::dtype::element_name;

/// Returns ONNX's name for the type of dense tensors of an element type.
pub fn tensor_name(dtype: DType) -> Option<String> {
    element_name(dtype).map(|name| format!("tensor({name})"))
}

/// Returns ONNX's name for a type, without shapes, such as `seq(tensor(float))`; `None` if part of it is unknown.
pub fn type_name(value: &ValueType) -> Option<String> {
    match value {
        ValueType::Tensor(tensor) => tensor_name(tensor.dtype),
        ValueType::Sparse(tensor) => {
            element_name(tensor.dtype).map(|name| format!("sparse_tensor({name})"))
        }
        ValueType::List(element) => Some(format!("seq({})", type_name(element)?)),
        ValueType::Optional(element) => Some(format!("optional({})", type_name(element)?)),
        ValueType::Dict(key, value) => {
            Some(format!("map({},{})", element_name(*key)?, type_name(value)?))
        }
        ValueType::Class(name) if !name.is_empty() => Some(name.clone()),
        ValueType::Unspecified
        | ValueType::Scalar(_)
        | ValueType::Tuple(_)
        | ValueType::Class(_)
        | ValueType::Holder(_)
        | ValueType::Unknown(_) => None,
    }
}

/// The types of attributes, by their codes from 1.
const KINDS: [&str; 14] = [
    "FLOAT",
    "INT",
    "STRING",
    "TENSOR",
    "GRAPH",
    "FLOATS",
    "INTS",
    "STRINGS",
    "TENSORS",
    "GRAPHS",
    "SPARSE_TENSOR",
    "SPARSE_TENSORS",
    "TYPE_PROTO",
    "TYPE_PROTOS",
];

/// Returns ONNX's name for the type of an attribute; for a reference, the type of its target.
pub fn attribute_kind(value: &AttributeValue) -> &'static str {
    use AttributeValue as A;
    match value {
        A::Float(_) => "FLOAT",
        A::Long(_) => "INT",
        A::String(_) => "STRING",
        A::Tensor(_) => "TENSOR",
        A::Block(_) => "GRAPH",
        A::Floats(_) => "FLOATS",
        A::Longs(_) => "INTS",
        A::Strings(_) => "STRINGS",
        A::Tensors(_) => "TENSORS",
        A::Blocks(_) => "GRAPHS",
        A::SparseTensor(_) => "SPARSE_TENSOR",
        A::SparseTensors(_) => "SPARSE_TENSORS",
        A::Type(_) => "TYPE_PROTO",
        A::Types(_) => "TYPE_PROTOS",
        A::Reference { kind, .. } | A::Unknown(kind) => {
            let index = usize::try_from(*kind).ok().and_then(|code| code.checked_sub(1));
            index.and_then(|index| KINDS.get(index)).copied().unwrap_or("UNDEFINED")
        }
        // Attribute types of other frameworks.
        _ => "UNDEFINED",
    }
}

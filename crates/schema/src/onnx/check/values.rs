//! What values say of themselves, and tensors.

use lodstone_model::{DType, Kind, Tensor, ValueType, Var};

/// What the type of an input or output of the main graph lacks.
pub(super) fn incomplete(var: Option<&Var>) -> Option<&'static str> {
    let value = var.map(|var| &var.value)?;
    let undefined = DType::Unknown(0);
    match value {
        ValueType::Unspecified => Some("has no type"),
        ValueType::Tensor(tensor) | ValueType::Sparse(tensor) => match tensor {
            tensor if tensor.is_unspecified() || tensor.dtype == undefined => {
                Some("has no element type")
            }
            tensor if tensor.shape.is_none() => Some("has no shape"),
            _ => None,
        },
        ValueType::Dict(key, _) if *key == undefined => Some("has no type of keys"),
        ValueType::Dict(_, inner) | ValueType::List(inner) | ValueType::Optional(inner) => {
            (**inner == ValueType::Unspecified).then_some("does not say what is in it")
        }
        ValueType::Scalar(_)
        | ValueType::Tuple(_)
        | ValueType::Class(_)
        | ValueType::Holder(_)
        | ValueType::Unknown(_) => None,
    }
}

/// Whether a tensor is a sparse one in ONNX's sense.
pub(super) fn is_sparse(tensor: &Tensor) -> bool {
    matches!(tensor.kind, Kind::Coo { .. })
}

/// What is wrong with a tensor. Its elements are not read, the places of those of a sparse one are.
pub(super) fn broken(tensor: &Tensor) -> Option<String> {
    match tensor.dtype {
        DType::Unknown(0) => return Some("has no element type".to_owned()),
        // Two types of which the reader of files knows no more than the codes.
        DType::Unknown(27 | 28) => {}
        dtype if super::super::dtype::element_name(dtype).is_none() => {
            return Some(format!("is of {dtype}, which is no type of ONNX"));
        }
        _ => {}
    }
    match &tensor.kind {
        Kind::Absent => Some("has no elements".to_owned()),
        Kind::Coo { .. } if tensor.shape.is_empty() => {
            Some("is a sparse tensor without dimensions".to_owned())
        }
        Kind::Coo { .. } if tensor.shape.contains(&0) => {
            Some(format!("is a sparse tensor of shape {:?}, one of which is 0", tensor.shape))
        }
        Kind::Coo { .. } => match tensor.broken_indices() {
            Ok(broken) => broken,
            Err(error) => Some(format!("has indices that cannot be read: {error}")),
        },
        Kind::Dense | Kind::Strings { .. } => None,
        kind => Some(format!("is {}, which ONNX has not", kind.name())),
    }
}

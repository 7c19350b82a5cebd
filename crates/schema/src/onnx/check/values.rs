//! Checks of declared types, and of tensors.

use lodstone_model::{DType, Kind, Tensor, ValueType, Var};

/// Describes what the type of an input or output of the main graph lacks.
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
        ValueType::Dict(key, _) if *key == undefined => Some("has no key type"),
        ValueType::Dict(_, inner) | ValueType::List(inner) | ValueType::Optional(inner) => {
            (**inner == ValueType::Unspecified).then_some("has no element type")
        }
        ValueType::Class(name) => name.is_empty().then_some("has an opaque type without a name"),
        ValueType::Scalar(_)
        | ValueType::Tuple(_)
        | ValueType::Holder(_)
        | ValueType::Unknown(_) => None,
    }
}

/// Whether a tensor is sparse in ONNX's sense.
pub(super) fn is_sparse(tensor: &Tensor) -> bool {
    matches!(tensor.kind, Kind::Coo { .. })
}

/// Describes what is wrong with a tensor. Its elements are not read, except for 6-bit ones; the indices of a sparse
/// tensor are.
pub(super) fn broken(tensor: &Tensor) -> Option<String> {
    match tensor.dtype {
        DType::Unknown(0) => return Some("has no element type".to_owned()),
        dtype if super::super::dtype::element_name(dtype).is_none() => {
            return Some(format!("has element type {dtype}, which ONNX does not have"));
        }
        _ => {}
    }
    match &tensor.kind {
        Kind::Absent => Some("has no elements".to_owned()),
        Kind::Coo { .. } if tensor.shape.is_empty() => {
            Some("is a sparse tensor of rank 0".to_owned())
        }
        Kind::Coo { .. } if tensor.shape.contains(&0) => {
            Some(format!("is a sparse tensor with a dim of 0: {:?}", tensor.shape))
        }
        Kind::Coo { .. } => match tensor.broken_indices() {
            Ok(broken) => broken,
            Err(error) => Some(format!("has indices that cannot be read: {error}")),
        },
        Kind::Dense if matches!(tensor.dtype, DType::Float6E2M3 | DType::Float6E3M2) => {
            padding(tensor)
        }
        Kind::Dense | Kind::Strings { .. } => None,
        kind => Some(format!("is {}, which ONNX does not have", kind.name())),
    }
}

/// Checks that the padding bits after the last 6-bit element are 0.
fn padding(tensor: &Tensor) -> Option<String> {
    let count = tensor.shape.iter().try_fold(1u64, |count, dim| count.checked_mul(*dim))?;
    let used = count % 4 * 6 % 8;
    let last = tensor.data.len().checked_sub(1)?;
    let mut byte = [0];
    if let Err(error) = tensor.data.read_at(last, &mut byte) {
        return Some(format!("has elements that cannot be read: {error}"));
    }
    let [byte] = byte;
    (used > 0 && byte >> used != 0)
        .then(|| "has padding bits after its last element that are not 0".to_owned())
}

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
        ValueType::Class(name) => name.is_empty().then_some("has no name of its opaque type"),
        ValueType::Scalar(_)
        | ValueType::Tuple(_)
        | ValueType::Holder(_)
        | ValueType::Unknown(_) => None,
    }
}

/// Whether a tensor is a sparse one in ONNX's sense.
pub(super) fn is_sparse(tensor: &Tensor) -> bool {
    matches!(tensor.kind, Kind::Coo { .. })
}

/// What is wrong with a tensor. Its elements are not read, but for those of six bits; the places of those of a sparse one
/// are.
pub(super) fn broken(tensor: &Tensor) -> Option<String> {
    match tensor.dtype {
        DType::Unknown(0) => return Some("has no element type".to_owned()),
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
        Kind::Dense if matches!(tensor.dtype, DType::Float6E2M3 | DType::Float6E3M2) => {
            padding(tensor)
        }
        Kind::Dense | Kind::Strings { .. } => None,
        kind => Some(format!("is {}, which ONNX has not", kind.name())),
    }
}

/// What is wrong with the bits behind the last element of six bits: they are 0.
fn padding(tensor: &Tensor) -> Option<String> {
    let count = tensor.shape.iter().try_fold(1u64, |count, extent| count.checked_mul(*extent))?;
    let used = count % 4 * 6 % 8;
    let last = tensor.data.len().checked_sub(1)?;
    let mut byte = [0];
    if let Err(error) = tensor.data.read_at(last, &mut byte) {
        return Some(format!("has elements that cannot be read: {error}"));
    }
    let [byte] = byte;
    (used > 0 && byte >> used != 0)
        .then(|| "has bits behind its last element that are not 0".to_owned())
}

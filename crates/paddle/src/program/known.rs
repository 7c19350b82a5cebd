//! What is known of a variable while its program is made.

use lodstone_model::{Dim, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::ValueInfo;

/// What is known of a variable.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Its type, and of small tensors their elements.
    pub(crate) info: ValueInfo,
    /// The block that declares it.
    pub(crate) block: usize,
}

/// A type as programs have it: symbols are extents that are not known.
pub(crate) fn written(value: &ValueType) -> ValueType {
    let mut value = match value {
        ValueType::Unspecified => TensorType::default().into(),
        value => value.clone(),
    };
    let tensors = value.tensors_mut().into_iter();
    for dim in tensors.flat_map(|tensor| tensor.shape.iter_mut().flatten()) {
        if !matches!(dim, Dim::Known(_)) {
            *dim = Dim::Unknown;
        }
    }
    value
}

/// Forgets extents.
pub(crate) fn forget(info: &mut ValueInfo, axes: &[usize]) {
    info.contents = None;
    let dims = info.value.tensor_type_mut().and_then(|tensor| tensor.shape.as_mut());
    for (axis, dim) in dims.into_iter().flatten().enumerate() {
        if axes.contains(&axis) {
            *dim = Dim::Unknown;
        }
    }
}

/// Adds what is told of a variable that is written again; says whether that is new. Only extents of which
/// nothing was known can be: others have been built upon.
pub(crate) fn merge(known: &mut ValueInfo, told: &ValueInfo) -> Result<bool, Finding> {
    let (is, becomes) = (known.value.kind(), told.value.kind());
    if is != becomes {
        return Err(format!("it is a {is}, and cannot be written as a {becomes}").into());
    }
    let pair = known.value.tensor_type_mut().zip(told.value.tensor_type());
    let Some((known, told)) = pair else { return Ok(false) };
    if known.dtype != told.dtype {
        return Err(
            format!("it has {}, and cannot be written with {}", known.dtype, told.dtype).into()
        );
    }
    let (Some(dims), Some(more)) = (&known.shape, &told.shape) else {
        let is_new = known.shape.is_none() && told.shape.is_some();
        known.shape = known.shape.take().or_else(|| told.shape.clone());
        return Ok(is_new);
    };
    let differs = |(a, b): (&Dim, &Dim)| matches!((a, b), (Dim::Known(a), Dim::Known(b)) if a != b);
    if dims.len() != more.len() || dims.iter().zip(more).any(differs) {
        return Err(format!(
            "it has the extents {}, and cannot be written with {}; say which of them vary before",
            show(dims),
            show(more)
        )
        .into());
    }
    Ok(false)
}

fn show(dims: &[Dim]) -> String {
    let one = |dim: &Dim| match dim {
        Dim::Known(extent) => extent.to_string(),
        _ => "?".to_owned(),
    };
    format!("[{}]", dims.iter().map(one).collect::<Vec<_>>().join(", "))
}

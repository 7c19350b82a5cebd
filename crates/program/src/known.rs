//! What is known of a variable while its program is made.

use lodstone_model::{Dim, TensorType, ValueType, VarKind};
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
    let plain = |tensor: &TensorType| TensorType {
        shape: tensor.shape.as_ref().map(|dims| {
            let dim = |dim: &Dim| match dim {
                Dim::Known(extent) => Dim::Known(*extent),
                _ => Dim::Unknown,
            };
            dims.iter().map(dim).collect()
        }),
        ..tensor.clone()
    };
    let kind = if value.kind == VarKind::Unspecified { VarKind::Tensor } else { value.kind };
    ValueType { kind, tensors: value.tensors.iter().map(plain).collect(), ..value.clone() }
}

/// Forgets extents.
pub(crate) fn forget(info: &mut ValueInfo, axes: &[usize]) {
    info.contents = None;
    let dims = info.value.tensors.first_mut().and_then(|tensor| tensor.shape.as_mut());
    for (axis, dim) in dims.into_iter().flatten().enumerate() {
        if axes.contains(&axis) {
            *dim = Dim::Unknown;
        }
    }
}

/// Adds what is told of a variable that is written again; says whether that is new. Only extents of which
/// nothing was known can be: others have been built upon.
pub(crate) fn merge(known: &mut ValueInfo, told: &ValueInfo) -> Result<bool, Finding> {
    if known.value.kind != told.value.kind {
        return Err(format!(
            "it is a {:?}, and cannot be written as a {:?}",
            known.value.kind, told.value.kind
        )
        .into());
    }
    let pair = known.value.tensors.first_mut().zip(told.value.tensors.first());
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

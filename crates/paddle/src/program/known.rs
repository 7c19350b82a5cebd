//! Known facts about a variable while its program is built.

use lodstone_model::{Dim, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::ValueInfo;

/// Known facts about a variable.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Its type, and for small tensors their elements.
    pub(crate) info: ValueInfo,
    /// The block that declares it.
    pub(crate) block: usize,
}

/// Returns a type as programs declare it: symbols become unknown dims.
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

/// Makes dims unknown.
pub(crate) fn forget(info: &mut ValueInfo, axes: &[usize]) {
    info.contents = None;
    let dims = info.value.tensor_type_mut().and_then(|tensor| tensor.shape.as_mut());
    for (axis, dim) in dims.into_iter().flatten().enumerate() {
        if axes.contains(&axis) {
            *dim = Dim::Unknown;
        }
    }
}

/// Merges the type that is written to a variable again; returns whether the known type changes. Only unknown dims may
/// change: later operators rely on the others.
pub(crate) fn merge(known: &mut ValueInfo, found: &ValueInfo) -> Result<bool, Finding> {
    let (is, becomes) = (known.value.kind(), found.value.kind());
    if is != becomes {
        return Err(format!("a {is} cannot be overwritten with a {becomes}").into());
    }
    let pair = known.value.tensor_type_mut().zip(found.value.tensor_type());
    let Some((known, found)) = pair else { return Ok(false) };
    if known.dtype != found.dtype {
        return Err(format!("expected {}, found {}", known.dtype, found.dtype).into());
    }
    let (Some(dims), Some(more)) = (&known.shape, &found.shape) else {
        let is_new = known.shape.is_none() && found.shape.is_some();
        known.shape = known.shape.take().or_else(|| found.shape.clone());
        return Ok(is_new);
    };
    let differs = |(a, b): (&Dim, &Dim)| matches!((a, b), (Dim::Known(a), Dim::Known(b)) if a != b);
    if dims.len() != more.len() || dims.iter().zip(more).any(differs) {
        return Err(format!(
            "the dims {} cannot be overwritten with {}; declare dims that vary first",
            show(dims),
            show(more)
        )
        .into());
    }
    Ok(false)
}

fn show(dims: &[Dim]) -> String {
    let one = |dim: &Dim| match dim {
        Dim::Known(size) => size.to_string(),
        _ => "?".to_owned(),
    };
    format!("[{}]", dims.iter().map(one).collect::<Vec<_>>().join(", "))
}

//! Arithmetic of dims, each of which is known, a symbol, or unknown.

use lodstone_model::{DType, Dim, TensorType, ValueType};

use super::value::UNDEFINED;
use crate::Finding;
use crate::numbers::{Axis, Rank};

/// The maximum rank that inference follows; frameworks support at most 64 dims.
pub(super) const MAX_RANK: usize = 256;

/// A result, or the finding.
pub(super) type Checked<T> = Result<T, Finding>;

/// Merges two statements about a dim; `None` if they contradict each other.
pub(super) fn merged(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) if a != b => None,
        (Dim::Known(_), _) => Some(a.clone()),
        (_, Dim::Known(_)) | (Dim::Unknown, _) => Some(b.clone()),
        _ => Some(a.clone()),
    }
}

/// Merges two statements about a shape; `None` if they contradict each other.
pub(super) fn merged_shapes(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    if a.len() != b.len() {
        return None;
    }
    a.iter().zip(b).map(|(a, b)| merged(a, b)).collect()
}

/// Returns what two shapes have in common: what is known of a value that has either shape.
pub(super) fn common_shape(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let common = |(a, b): (&Dim, &Dim)| if a == b { a.clone() } else { Dim::Unknown };
    (a.len() == b.len()).then(|| a.iter().zip(b).map(common).collect())
}

/// Merges two statements about a type; `None` if they contradict each other.
pub fn merged_types(a: &ValueType, b: &ValueType) -> Option<ValueType> {
    use ValueType as V;
    // The result is as deep as the deeper of the two, so that nesting it again never fails.
    match (a, b) {
        // An unspecified type contradicts nothing.
        (V::Unspecified, other) | (other, V::Unspecified) => Some(other.clone()),
        (V::Tensor(a), V::Tensor(b)) => merged_tensors(a, b).map(V::Tensor),
        (V::Sparse(a), V::Sparse(b)) => merged_tensors(a, b).map(V::Sparse),
        (V::List(a), V::List(b)) => V::list(merged_types(a, b)?).ok(),
        (V::Optional(a), V::Optional(b)) => V::optional(merged_types(a, b)?).ok(),
        (V::Dict(key, a), V::Dict(other, b)) if key == other => {
            V::dict(*key, merged_types(a, b)?).ok()
        }
        (a, b) => (a == b).then(|| a.clone()),
    }
}

fn merged_tensors(a: &TensorType, b: &TensorType) -> Option<TensorType> {
    let dtype = match (a.dtype, b.dtype) {
        (UNDEFINED, dtype) | (dtype, UNDEFINED) => dtype,
        (a, b) => (a == b).then_some(a)?,
    };
    let shape = match (&a.shape, &b.shape) {
        (Some(a), Some(b)) => Some(merged_shapes(a, b)?),
        (a, b) => a.clone().or_else(|| b.clone()),
    };
    Some(TensorType { dtype, shape, ..a.clone() })
}

/// Returns what two types of the same kind have in common; `None` if their kinds differ.
pub fn common_type(a: &ValueType, b: &ValueType) -> Option<ValueType> {
    use ValueType as V;
    let inner = |a: &V, b: &V| match (a, b) {
        (V::Unspecified, V::Unspecified) => Some(V::Unspecified),
        (a, b) => common_type(a, b),
    };
    match (a, b) {
        // A sequence of an unknown type, such as an empty one, does not contradict another.
        (V::Unspecified, _) | (_, V::Unspecified) => None,
        (V::Tensor(a), V::Tensor(b)) => Some(V::Tensor(common_tensors(a, b))),
        (V::Sparse(a), V::Sparse(b)) => Some(V::Sparse(common_tensors(a, b))),
        (V::List(a), V::List(b)) => V::list(inner(a, b)?).ok(),
        (V::Optional(a), V::Optional(b)) => V::optional(inner(a, b)?).ok(),
        (V::Dict(key, a), V::Dict(other, b)) if key == other => V::dict(*key, inner(a, b)?).ok(),
        (a, b) => (a == b).then(|| a.clone()),
    }
}

fn common_tensors(a: &TensorType, b: &TensorType) -> TensorType {
    let shape = match (&a.shape, &b.shape) {
        (Some(a), Some(b)) => common_shape(a, b),
        _ => None,
    };
    let dtype = if a.dtype == b.dtype { a.dtype } else { UNDEFINED };
    TensorType { dtype, shape, ..a.clone() }
}

/// Broadcasts shapes as NumPy does; `None` if any of them is unknown.
pub(super) fn broadcast(shapes: &[Option<&[Dim]>]) -> Checked<Option<Vec<Dim>>> {
    let Some(shapes) = shapes.iter().copied().collect::<Option<Vec<_>>>() else { return Ok(None) };
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut all = Vec::with_capacity(rank);
    for place in 0..rank {
        let mut dim = Dim::Known(1);
        for shape in &shapes {
            // Aligned at the end; missing dims are 1.
            let Some(from) = (place + shape.len()).checked_sub(rank) else { continue };
            let Some(next) = shape.get(from) else { continue };
            dim = broadcast_dims(&dim, next).ok_or_else(|| {
                let shapes: Vec<_> = shapes.iter().map(|shape| show(shape)).collect();
                format!("expected shapes that broadcast, found {}", shapes.join(" and "))
            })?;
        }
        all.push(dim);
    }
    Ok(Some(all))
}

/// Broadcasts two dims: one of them is 1, or they are equal.
fn broadcast_dims(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(1), other) | (other, Dim::Known(1)) => Some(other.clone()),
        (Dim::Known(a), Dim::Known(b)) => (a == b).then_some(Dim::Known(*a)),
        (Dim::Known(known), _) | (_, Dim::Known(known)) => Some(Dim::Known(*known)),
        (a, b) if a == b => Some(a.clone()),
        _ => Some(Dim::Unknown),
    }
}

/// Returns the product of dims; a symbol is kept if all others are 1.
pub(super) fn product(dims: &[Dim]) -> Dim {
    if dims.contains(&Dim::Known(0)) {
        return Dim::Known(0);
    }
    let mut all = Dim::Known(1);
    for dim in dims {
        all = match (&all, dim) {
            (Dim::Known(a), Dim::Known(b)) => Dim::Known(a.saturating_mul(*b)),
            (Dim::Known(1), other) | (other, Dim::Known(1)) => other.clone(),
            _ => Dim::Unknown,
        };
    }
    all
}

/// Returns the sum of dims; a symbol is kept if the other is 0.
pub(super) fn sum(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) => Dim::Known(a.saturating_add(*b)),
        (Dim::Known(0), other) | (other, Dim::Known(0)) => other.clone(),
        _ => Dim::Unknown,
    }
}

/// Computes a dim from another one; if that is known, the result must be a valid dim.
pub(super) fn mapped(
    dim: &Dim,
    what: &str,
    calculate: impl Fn(i128) -> Option<i128>,
) -> Checked<Dim> {
    let Dim::Known(size) = dim else { return Ok(Dim::Unknown) };
    let result = calculate(i128::from(*size));
    match result.map(u64::try_from) {
        Some(Ok(size)) => Ok(Dim::Known(size)),
        Some(Err(_)) => {
            let found = result.unwrap_or_default();
            let range = if found < 0 { "of at least 0" } else { "below 2^63" };
            Err(format!("expected {what} {range}, found {found} (of {size})").into())
        }
        None => Ok(Dim::Unknown),
    }
}

/// Returns the index of an axis, which may count from the end.
pub(super) fn axis_of(axis: i64, rank: usize) -> Checked<usize> {
    Rank::new(rank).axis(axis).map(Axis::index)
}

/// Returns which of `rank` axes are listed, each at most once.
pub(super) fn axes_of(axes: &[i64], rank: usize) -> Checked<Vec<bool>> {
    let mut named = vec![false; rank];
    for axis in axes {
        let place = axis_of(*axis, rank)?;
        match named.get_mut(place) {
            Some(known) if !*known => *known = true,
            _ => return Err(format!("expected distinct axes, found {axis} twice").into()),
        }
    }
    Ok(named)
}

/// Formats a shape for display: `[2, batch, ?]`.
pub(super) fn show(dims: &[Dim]) -> String {
    let dims: Vec<_> = dims.iter().map(Dim::to_string).collect();
    format!("[{}]", dims.join(", "))
}

/// Formats a type for display: `sequence of float32[2, ?]`.
pub fn show_type(value: &ValueType) -> String {
    let tensor = |tensor: &TensorType| match tensor.dtype {
        UNDEFINED | DType::Unspecified => match &tensor.shape {
            Some(shape) => format!("tensor{}", show(shape)),
            None => "tensor".to_owned(),
        },
        _ => tensor.to_string(),
    };
    match value {
        ValueType::Unspecified => "anything".to_owned(),
        ValueType::Tensor(of) => tensor(of),
        ValueType::Sparse(of) => format!("sparse {}", tensor(of)),
        ValueType::Scalar(dtype) => dtype.to_string(),
        ValueType::List(element) => format!("sequence of {}", show_type(element)),
        ValueType::Optional(element) => format!("optional {}", show_type(element)),
        ValueType::Dict(key, value) => format!("map of {key} to {}", show_type(value)),
        ValueType::Tuple(members) => {
            format!("tuple of {}", members.iter().map(show_type).collect::<Vec<_>>().join(", "))
        }
        ValueType::Class(name) if name.is_empty() => "opaque".to_owned(),
        ValueType::Class(name) => name.clone(),
        ValueType::Holder(_) | ValueType::Unknown(_) => {
            let kinds = std::iter::once(value.kind().into_owned());
            kinds.chain(value.tensors().into_iter().map(tensor)).collect::<Vec<_>>().join(" ")
        }
    }
}

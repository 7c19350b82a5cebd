//! What rules require of the dims of values: errors name the value.

use lodstone_model::Dim;
use lodstone_schema::numbers::{Axis, Rank, exact, known};
use lodstone_schema::{Code, Finding};

use super::Value;

type Outcome<T> = Result<T, Finding>;

/// The maximum number of elements of a value: only broken attributes lead to more.
pub(crate) const MAX_ELEMENTS: u64 = 1 << 31;

/// Returns the rank of a value, as attributes of operators have it.
pub(crate) fn rank(value: &Value) -> Outcome<i64> {
    value.rank().map(Rank::number)
}

/// Returns the index of an axis of a rank; negative ones count from the end.
pub(crate) fn place_in(rank: i64, axis: i64) -> Outcome<i64> {
    Rank::new(exact(rank)?).axis(axis).map(Axis::number)
}

/// Returns a dim, if it is known.
pub(crate) fn dim_of(value: &Value, axis: i64) -> Option<i64> {
    known(value.shape().ok()?.get(usize::try_from(axis).ok()?)?).ok()?
}

/// Returns a dim that must be known; negative axes count from the end.
pub(crate) fn required_dim(value: &Value, axis: i64) -> Outcome<i64> {
    let axis = value.rank()?.axis(axis)?;
    let unknown = || {
        let what = format!("dim {} of `{}` must be known", axis.number(), value.name());
        Finding::new(Code::UnknownDims, what)
    };
    value.size(axis.number())?.ok_or_else(unknown)
}

/// Returns the product of dims, which may not overflow.
pub(crate) fn product(dims: &[i64]) -> Outcome<i64> {
    let all = dims.iter().try_fold(1_i64, |all, dim| all.checked_mul(*dim));
    all.filter(|all| all.unsigned_abs() <= MAX_ELEMENTS)
        .ok_or_else(|| format!("the dims {dims:?} have too many elements").into())
}

/// Fails if a value is unreasonably large.
pub(crate) fn check_size(value: &Value) -> Outcome<()> {
    let known = value.shape().unwrap_or_default().iter().filter_map(|dim| match dim {
        Dim::Known(size) => Some(*size),
        _ => None,
    });
    let known: Vec<u64> = known.collect();
    let elements = known.iter().try_fold(1_u64, |all, size| all.checked_mul(*size));
    match known.contains(&0) || elements.is_some_and(|elements| elements <= MAX_ELEMENTS) {
        true => Ok(()),
        false => Err(format!("the result would have the dims {known:?}").into()),
    }
}

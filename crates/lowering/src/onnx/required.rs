//! What rules require of the dims of values: errors name the value.

use lodstone_model::Dim;
use lodstone_schema::numbers::{Axis, Rank, exact, known};
use lodstone_schema::{Code, Finding};

use super::Value;

type Outcome<T> = Result<T, Finding>;

/// The maximum number of elements of a value: only broken attributes lead to more.
pub(crate) const MAX_ELEMENTS: u64 = 1 << 31;

/// Returns the rank of a value, which must be known.
pub(crate) fn rank_of(value: &Value) -> Outcome<Rank> {
    let unknown = |_| {
        Finding::new(Code::UnknownDims, format!("the rank of `{}` must be known", value.name()))
    };
    value.rank().map_err(unknown)
}

/// Returns the rank of a value, as attributes of operators have it.
pub(crate) fn rank(value: &Value) -> Outcome<i64> {
    rank_of(value).map(Rank::number)
}

/// Returns the index of an axis of a rank; negative ones count from the end.
pub(crate) fn place_in(rank: i64, axis: i64) -> Outcome<i64> {
    Rank::new(exact(rank)?).axis(axis).map(Axis::number)
}

/// Returns a dim, if it is known.
pub(crate) fn dim_of(value: &Value, axis: i64) -> Option<i64> {
    known(value.shape().ok()?.get(usize::try_from(axis).ok()?)?).ok()?
}

/// Returns a dim that must be known.
pub(crate) fn required_dim(value: &Value, axis: i64) -> Outcome<i64> {
    let rank = rank(value)?;
    if !(0..rank).contains(&axis) {
        return Err(format!("expected an axis of rank {rank}, found {axis}").into());
    }
    let unknown = || {
        let what = format!("dim {axis} of `{}` must be known", value.name());
        Finding::new(Code::UnknownDims, what)
    };
    dim_of(value, axis).ok_or_else(unknown)
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

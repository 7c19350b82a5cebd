//! Comparison of two tensors that should be equal.

use lodstone_model::{DType, Kind, Tensor};
use lodstone_store::{Blob, Error as StoreError};

use super::{Change, DiffOptions, ValueDifference};
use crate::Result;
use crate::adapt::permuted;
use crate::cast::{Caster, is_target};
use crate::numbers::numbers;

/// How a tensor was transformed into another.
#[derive(Clone, Debug, Default)]
pub(super) struct Relation {
    pub(super) changes: Vec<Change>,
    pub(super) values: Option<ValueDifference>,
}

/// The number of bytes of each side that are compared at once.
const CHUNK: usize = 128 << 10;

/// The maximum rank for which every permutation is tried: the layouts of convolutions have rank four, and higher
/// ranks have too many permutations.
const MAX_PERMUTED_RANK: usize = 4;

/// Finds how `a` became `b`: an exact transformation if there is one, or else the differences of the values.
pub(super) fn compare(a: &Tensor, b: &Tensor, options: &DiffOptions) -> Result<Relation> {
    if let Some(changes) = exact(a, b, options)? {
        return Ok(Relation { changes, values: None });
    }
    if !same_kind(a, b) {
        return Ok(Relation { changes: vec![Change::Stored, Change::Changed], values: None });
    }
    let same_places = dims(a).eq(dims(b)) && equal_places(a, b, options)?;
    let values = if same_places { values(a, b, options)? } else { None };
    let mut changes = Vec::new();
    changes.extend((a.lod != b.lod).then_some(Change::Stored));
    changes.extend((a.dtype != b.dtype).then_some(Change::Cast));
    changes.extend((a.shape != b.shape).then_some(Change::Reshaped));
    // Within the tolerance, if no element counts as changed.
    if values.as_ref().is_some_and(|values| values.count == 0) {
        return Ok(Relation { changes, values: None });
    }
    changes.push(Change::Changed);
    Ok(Relation { changes, values })
}

/// Returns whether the elements of two tensors are at the same positions, for kinds with indices.
fn equal_places(a: &Tensor, b: &Tensor, options: &DiffOptions) -> Result<bool> {
    let (mut places_a, mut places_b) = (a.blobs().skip(1), b.blobs().skip(1));
    loop {
        match (places_a.next(), places_b.next()) {
            (Some(a), Some(b)) if equal_bytes(a, b, options)? => {}
            (None, None) => break,
            _ => return Ok(false),
        }
    }
    Ok(count(a) == count(b) && height(a) == height(b) && vocabulary(a) == vocabulary(b))
}

/// Returns the number of rows of the whole tensor, where its shape does not include it.
fn height(tensor: &Tensor) -> Option<i64> {
    match &tensor.kind {
        Kind::SelectedRows { height, .. } => Some(*height),
        _ => None,
    }
}

/// Returns the changes that transform `a` exactly into `b`, if there are any.
pub(super) fn exact(a: &Tensor, b: &Tensor, options: &DiffOptions) -> Result<Option<Vec<Change>>> {
    if !same_kind(a, b) || count(a) != count(b) {
        return Ok(None);
    }
    let sparse = !matches!(a.kind, Kind::Dense);
    let mut changes = Vec::new();
    changes.extend((a.lod != b.lod).then_some(Change::Stored));
    if equal_values(a, b, options)? {
        changes.extend((a.dtype != b.dtype).then_some(Change::Cast));
        changes.extend((a.shape != b.shape).then_some(Change::Reshaped));
        return Ok((!sparse || a.shape == b.shape).then_some(changes));
    }
    if sparse {
        return Ok(None);
    }
    for order in orders(a, b) {
        let Some(other) = permuted(a, &order, b.shape.clone()) else { continue };
        if equal_values(&other, b, options)? {
            changes.push(Change::Transposed);
            changes.extend((a.dtype != b.dtype).then_some(Change::Cast));
            return Ok(Some(changes));
        }
    }
    Ok(None)
}

/// Returns whether two tensors have the same storage layout, regardless of their elements.
fn same_kind(a: &Tensor, b: &Tensor) -> bool {
    a.kind.name() == b.kind.name()
}

fn count(tensor: &Tensor) -> Option<u64> {
    tensor.dtype.bits().filter(|bits| *bits > 0).map(|bits| tensor.data.len() * 8 / u64::from(bits))
}

/// Returns the dims other than 1, which do not affect the order of elements.
fn dims(tensor: &Tensor) -> impl Iterator<Item = &u64> {
    tensor.shape.iter().filter(|dim| **dim != 1)
}

/// Returns the permutations of the dims of `a` that give the shape of `b`, without those that do not move
/// elements.
fn orders(a: &Tensor, b: &Tensor) -> Vec<Vec<usize>> {
    let rank = a.shape.len();
    if rank != b.shape.len() || !(2..=MAX_PERMUTED_RANK).contains(&rank) || a.data.is_empty() {
        return Vec::new();
    }
    let mut orders = vec![Vec::new()];
    for wanted in &b.shape {
        let mut longer = Vec::new();
        for order in &orders {
            for (axis, dim) in a.shape.iter().enumerate() {
                if dim == wanted && !order.contains(&axis) {
                    longer.push(order.iter().copied().chain([axis]).collect());
                }
            }
        }
        orders = longer;
    }
    let moves = |order: &Vec<usize>| {
        let long = order.iter().filter(|axis| a.shape.get(**axis).is_some_and(|n| *n != 1));
        !long.is_sorted()
    };
    orders.retain(moves);
    orders
}

/// Returns whether two tensors have the same elements in the same order, or one has the elements of a cast of
/// the other.
fn equal_values(a: &Tensor, b: &Tensor, options: &DiffOptions) -> Result<bool> {
    if a.dtype == b.dtype {
        return Ok(equal_bytes(&a.data, &b.data, options)? && equal_places(a, b, options)?);
    }
    if !matches!(a.kind, Kind::Dense) {
        return Ok(false);
    }
    for (from, to) in [(a, b), (b, a)] {
        if !from.dtype.is_float() || !is_target(to.dtype) {
            continue;
        }
        let mut cast_one = from.clone();
        Caster::new(to.dtype)?.cast(&mut cast_one)?;
        if equal_bytes(&cast_one.data, &to.data, options)? {
            return Ok(true);
        }
    }
    let both_real = ![a.dtype, b.dtype].iter().any(|dtype| is_complex(*dtype));
    if both_real && !(is_target(a.dtype) && is_target(b.dtype)) {
        let strict = DiffOptions { rtol: 0.0, atol: 0.0, ..options.clone() };
        return Ok(values(a, b, &strict)?.is_some_and(|values| values.count == 0));
    }
    Ok(false)
}

fn is_complex(dtype: DType) -> bool {
    matches!(dtype, DType::Complex32 | DType::Complex64 | DType::Complex128)
}

fn vocabulary(tensor: &Tensor) -> &[(String, i32)] {
    match &tensor.kind {
        Kind::Vocabulary { tokens } => tokens,
        _ => &[],
    }
}

fn equal_bytes(a: &Blob, b: &Blob, options: &DiffOptions) -> Result<bool> {
    let mut equal = a.len() == b.len();
    if equal {
        in_step((a, 1), (b, 1), options, |a, b| {
            equal = a == b;
            equal
        })?;
    }
    Ok(equal)
}

/// Calls `each` with corresponding chunks of both sides until it returns `false`.
fn in_step(
    (a, size_a): (&Blob, usize),
    (b, size_b): (&Blob, usize),
    options: &DiffOptions,
    mut each: impl FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), StoreError> {
    let mut buffers = [Vec::new(), Vec::new()];
    let elements = (a.len() / size_a as u64).min(b.len() / size_b as u64);
    let mut done = 0;
    // Pairs usually differ early, if at all: start with small chunks.
    let mut max_count = 4096 / size_a.max(size_b);
    while done < elements {
        let count = usize::try_from(elements - done).unwrap_or(usize::MAX).min(max_count);
        let [of_a, of_b] = &mut buffers;
        of_a.resize(count * size_a, 0);
        of_b.resize(count * size_b, 0);
        a.read_at(done * size_a as u64, of_a)?;
        b.read_at(done * size_b as u64, of_b)?;
        options.progress.advance((of_a.len() + of_b.len()) as u64)?;
        if !each(of_a, of_b) {
            break;
        }
        done += count as u64;
        max_count = CHUNK / size_a.max(size_b);
    }
    Ok(())
}

/// Returns the element-wise differences, or `None` if the elements are not numbers.
fn values(a: &Tensor, b: &Tensor, options: &DiffOptions) -> Result<Option<ValueDifference>> {
    let (Some((data_a, a_as)), Some((data_b, b_as))) = (numbers(a), numbers(b)) else {
        return Ok(None);
    };
    let (size_a, size_b) = (a_as.size, b_as.size);
    if is_complex(a.dtype) != is_complex(b.dtype) {
        return Ok(None);
    }
    let same_type = a.dtype == b.dtype;
    let (mut found, mut max_abs, mut max_rel) = (ValueDifference::default(), 0.0_f64, 0.0_f64);
    let (mut dot, mut norm_a, mut norm_b) = (0.0, 0.0, 0.0);
    in_step((&data_a, size_a), (&data_b, size_b), options, |of_a, of_b| {
        for (bytes_a, bytes_b) in of_a.chunks_exact(size_a).zip(of_b.chunks_exact(size_b)) {
            let (x, y) = ((a_as.number)(bytes_a), (b_as.number)(bytes_b));
            found.elements += 1;
            if !x.is_nan() && !y.is_nan() {
                dot += x * y;
                norm_a += x * x;
                norm_b += y * y;
            }
            let integers =
                a_as.integer.zip(b_as.integer).map(|(of_a, of_b)| (of_a(bytes_a), of_b(bytes_b)));
            let equal = match integers {
                Some((x, y)) => x == y,
                None if same_type => bytes_a == bytes_b,
                None => x == y,
            };
            if equal || (x.is_nan() && y.is_nan()) {
                continue;
            }
            if x.is_nan() || y.is_nan() {
                found.count += 1;
                found.not_a_number += 1;
                continue;
            }
            #[expect(clippy::cast_precision_loss, reason = "only the difference is rounded")]
            let apart = match integers {
                Some((x, y)) => x.abs_diff(y) as f64,
                None if x == y => 0.0,
                None => (x - y).abs(),
            };
            let tolerated = options.atol + options.rtol * y.abs();
            // Infinity is within tolerance of infinity only, which is equal.
            let finite = x.is_finite() && y.is_finite();
            if finite && apart <= tolerated && tolerated > 0.0 {
                continue;
            }
            found.count += 1;
            max_abs = max_abs.max(apart);
            let larger = x.abs().max(y.abs());
            let relative = match apart {
                0.0 => 0.0,
                f64::INFINITY => (x / larger - y / larger).abs(),
                apart => apart / larger,
            };
            // Infinite on one side, or on both with different signs.
            max_rel = max_rel.max(if relative.is_nan() { 1.0 } else { relative });
        }
        true
    })?;
    if found.count > 0 {
        (found.max_abs, found.max_rel) = (Some(max_abs), Some(max_rel));
        let norm = f64::sqrt(norm_a) * f64::sqrt(norm_b);
        let cosine = (dot / norm).clamp(-1.0, 1.0);
        found.cosine = (norm > 0.0 && cosine.is_finite() && norm.is_finite()).then_some(cosine);
    }
    Ok(Some(found))
}

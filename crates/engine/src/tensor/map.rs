//! Functions of the elements at each place of one to three tensors.
//!
//! The function gets [`BLOCK`] elements of each tensor at a time, and is the only part that is compiled for each operator.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::blocks::{BLOCK, Blocks, PART};
use super::dense::Dense;
use super::element::Element;
use super::numbers::check_alike;
use super::storage::{bytes_of, zeroed};
use crate::dims::{common, inverse};
use crate::error::Outcome;
use crate::threads::each_chunk;

/// A function of elements: writes a result for each.
pub(crate) type Of<'f, T, U> = dyn Fn(&[T], &mut [U]) + Sync + 'f;

/// A function of the elements of two tensors.
pub(crate) type OfTwo<'f, A, B, U> = dyn Fn(&[A], &[B], &mut [U]) + Sync + 'f;

/// Applies a function to all elements. The result is stored in their order.
///
/// # Errors
/// If the elements are of another type, or memory is insufficient.
pub(crate) fn map<T: Element, U: Element>(
    x: &Dense,
    to: DType,
    of: &Of<'_, T, U>,
) -> Outcome<Dense> {
    // A view of a whole tensor with its dims in another order is handled in the order of memory.
    let order = x.order_in_memory();
    let whole = match &order {
        Some(axes) => x.permuted(axes)?,
        None => x.clone(),
    };
    let blocks = Blocks::<T>::new(&whole, whole.dims())?;
    let mut made = zeroed(blocks.count())?;
    each_chunk(&mut made, PART, |scratch: &mut Vec<T>, number, into: &mut [U]| {
        for (block, into) in into.chunks_mut(BLOCK).enumerate() {
            let begin = number * PART + block * BLOCK;
            of(blocks.get(begin..begin + into.len(), scratch), into);
        }
        Ok(())
    })?;
    let made = Dense::of_elements(to, whole.dims(), bytes_of(made))?;
    match order {
        Some(axes) => made.permuted(&inverse(&axes)),
        None => Ok(made),
    }
}

/// Applies a function to the elements of two tensors, which are broadcast.
///
/// # Errors
/// If the elements are of other types, the dims do not broadcast, or memory is insufficient.
pub(crate) fn map_two<A: Element, B: Element, U: Element>(
    a: &Dense,
    b: &Dense,
    to: DType,
    of: &OfTwo<'_, A, B, U>,
) -> Outcome<Dense> {
    if a.dims() == b.dims() && a.strides() == b.strides() {
        // Both in the order of memory.
        if let Some(axes) = a.order_in_memory() {
            let made = map_two(&a.permuted(&axes)?, &b.permuted(&axes)?, to, of)?;
            return made.permuted(&inverse(&axes));
        }
    }
    let dims = common(a.dims(), b.dims())?;
    let (left, right) = (Blocks::<A>::new(a, &dims)?, Blocks::<B>::new(b, &dims)?);
    let mut made = zeroed(dims.iter().product())?;
    each_chunk(&mut made, PART, |scratch: &mut (Vec<A>, Vec<B>), number, into: &mut [U]| {
        for (block, into) in into.chunks_mut(BLOCK).enumerate() {
            let begin = number * PART + block * BLOCK;
            let places = begin..begin + into.len();
            of(left.get(places.clone(), &mut scratch.0), right.get(places, &mut scratch.1), into);
        }
        Ok(())
    })?;
    Dense::of_elements(to, dims, bytes_of(made))
}

/// Returns the elements of `yes` where a mask is true, and those of `no` elsewhere. All are broadcast.
///
/// # Errors
/// As [`map_two`].
pub(crate) fn choose<T: Element>(mask: &Dense, yes: &Dense, no: &Dense) -> Outcome<Dense> {
    let dims = common(&common(mask.dims(), yes.dims())?, no.dims())?;
    let mask = Blocks::<u8>::new(mask, &dims)?;
    let to = no.dtype();
    let (yes, no) = (Blocks::<T>::new(yes, &dims)?, Blocks::<T>::new(no, &dims)?);
    let mut made = zeroed::<T>(dims.iter().product())?;
    type Scratch<T> = (Vec<u8>, Vec<T>, Vec<T>);
    each_chunk(&mut made, PART, |scratch: &mut Scratch<T>, number, into| {
        for (block, into) in into.chunks_mut(BLOCK).enumerate() {
            let begin = number * PART + block * BLOCK;
            let places = begin..begin + into.len();
            let mask = mask.get(places.clone(), &mut scratch.0);
            let yes = yes.get(places.clone(), &mut scratch.1);
            let no = no.get(places, &mut scratch.2);
            for (((into, mask), yes), no) in into.iter_mut().zip(mask).zip(yes).zip(no) {
                *into = if *mask == 0 { *no } else { *yes };
            }
        }
        Ok(())
    })?;
    Dense::of_elements(to, dims, bytes_of(made))
}

/// Applies one of two functions to floats.
///
/// # Errors
/// If the elements are no floats, or memory is insufficient.
pub(crate) fn real(
    x: &Dense,
    single: &Of<'_, f32, f32>,
    double: &Of<'_, f64, f64>,
) -> Outcome<Dense> {
    match x.dtype() {
        DType::Float64 => map(x, DType::Float64, double),
        DType::Float32 => map(x, DType::Float32, single),
        half @ (DType::Float16 | DType::BFloat16) => {
            map(&x.cast_to(DType::Float32)?, DType::Float32, single)?.cast_to(half)
        }
        other => Err(wrong(other)),
    }
}

/// Applies one of two functions to the floats of two tensors of one type, which are broadcast.
///
/// # Errors
/// If the elements are no floats, the dims do not broadcast, or memory is insufficient.
pub(crate) fn real_two(
    a: &Dense,
    b: &Dense,
    single: &OfTwo<'_, f32, f32, f32>,
    double: &OfTwo<'_, f64, f64, f64>,
) -> Outcome<Dense> {
    check_alike(a, b)?;
    match a.dtype() {
        DType::Float64 => map_two(a, b, DType::Float64, double),
        DType::Float32 => map_two(a, b, DType::Float32, single),
        half @ (DType::Float16 | DType::BFloat16) => {
            let (a, b) = (a.cast_to(DType::Float32)?, b.cast_to(DType::Float32)?);
            map_two(&a, &b, DType::Float32, single)?.cast_to(half)
        }
        other => Err(wrong(other)),
    }
}

/// Applies a predicate to floats.
///
/// # Errors
/// If the elements are no floats, or memory is insufficient.
pub(crate) fn test(
    x: &Dense,
    single: &Of<'_, f32, u8>,
    double: &Of<'_, f64, u8>,
) -> Outcome<Dense> {
    match x.dtype() {
        DType::Float64 => map(x, DType::Bool, double),
        DType::Float32 => map(x, DType::Bool, single),
        DType::Float16 | DType::BFloat16 => map(&x.cast_to(DType::Float32)?, DType::Bool, single),
        other => Err(wrong(other)),
    }
}

fn wrong(found: DType) -> Finding {
    format!("expected floats, found {found}").into()
}

/// Applies an expression to each float: `floats!(tensor, T => |x| x.exp())`, where `T` is `f32` or `f64`.
macro_rules! floats {
    ($x:expr, $T:ident => |$v:ident| $of:expr) => {
        $crate::tensor::map::real(
            $x,
            &|from: &[f32], into: &mut [f32]| {
                #[allow(dead_code, reason = "not every expression names the type")]
                type $T = f32;
                into.iter_mut().zip(from).for_each(|(into, from)| {
                    let $v = *from;
                    *into = $of;
                });
            },
            &|from: &[f64], into: &mut [f64]| {
                #[allow(dead_code, reason = "not every expression names the type")]
                type $T = f64;
                into.iter_mut().zip(from).for_each(|(into, from)| {
                    let $v = *from;
                    *into = $of;
                });
            },
        )
    };
}

/// Applies expressions to a block of floats one after the other: `steps!(tensor, |x| x.exp(), |x, y| x * y)`, where `y` is the
/// result of the expression before. The processor works on several elements of a step at a time, which it cannot where the
/// functions of one element wait for each other.
macro_rules! steps {
    ($x:expr, |$v:ident| $first:expr, $(|$w:pat_param, $y:ident| $next:expr),+) => {{
        macro_rules! all {
            () => {
                |from, into| {
                    for (into, from) in into.iter_mut().zip(from) {
                        let $v = *from;
                        *into = $first;
                    }
                    $(for (into, from) in into.iter_mut().zip(from) {
                        let ($w, $y) = (*from, *into);
                        *into = $next;
                    })+
                }
            };
        }
        let single: &$crate::tensor::map::Of<'_, f32, f32> = &all!();
        let double: &$crate::tensor::map::Of<'_, f64, f64> = &all!();
        $crate::tensor::map::real($x, single, double)
    }};
}

/// Applies an expression to each float of two tensors, which are broadcast: `floats_of_two!(a, b, |x, y| x + y)`.
macro_rules! floats_of_two {
    ($a:expr, $b:expr, |$x:ident, $y:ident| $of:expr) => {
        $crate::tensor::map::real_two(
            $a,
            $b,
            &|a: &[f32], b: &[f32], into: &mut [f32]| {
                into.iter_mut().zip(a.iter().zip(b)).for_each(|(into, (a, b))| {
                    let ($x, $y) = (*a, *b);
                    *into = $of;
                });
            },
            &|a: &[f64], b: &[f64], into: &mut [f64]| {
                into.iter_mut().zip(a.iter().zip(b)).for_each(|(into, (a, b))| {
                    let ($x, $y) = (*a, *b);
                    *into = $of;
                });
            },
        )
    };
}

/// Returns whether a condition holds for each float: `floats_are!(tensor, |x| x.is_nan())`.
macro_rules! floats_are {
    ($x:expr, |$v:ident| $of:expr) => {
        $crate::tensor::map::test(
            $x,
            &|from: &[f32], into: &mut [u8]| {
                into.iter_mut().zip(from).for_each(|(into, from)| {
                    let $v = *from;
                    *into = u8::from($of);
                });
            },
            &|from: &[f64], into: &mut [u8]| {
                into.iter_mut().zip(from).for_each(|(into, from)| {
                    let $v = *from;
                    *into = u8::from($of);
                });
            },
        )
    };
}

pub(crate) use {floats, floats_are, floats_of_two, steps};

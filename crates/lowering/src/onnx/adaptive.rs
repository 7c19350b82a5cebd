//! Adaptive pools: a number of windows along each axis of an image, whatever its dims are.
//!
//! Window `i` of `count` over `dim` elements begins at `i * dim / count`, rounded down, and ends at `(i + 1) * dim / count`,
//! rounded up: windows cover the image together, and may overlap. A mean is divided by the elements of its window.
//!
//! | framework | operators | by |
//! |---|---|---|
//! | PaddlePaddle | means of `pool2d` and `pool3d`; `max_pool2d_with_index` | `AdaptStartIndex` in `pooling.h`; recorded `pool2d-41` |
//! | PaddlePaddle, maxima of `pool2d` | not adaptive: as many windows as the size of the kernel, of that size, without padding | `pool_kernel_impl.h`; recorded `pool2d-17` |
//! | MXNet | `_contrib_AdaptiveAvgPooling2D` | `START_IND` in `contrib/adaptive_avg_pooling-inl.h` |
//! | PyTorch | `adaptive_avg_pool*`, `adaptive_max_pool*`; places count in the plane | `native/AdaptivePooling.h`; recorded `adaptive_avg_pool2d_3` |
//! | Glow | `AdaptiveAvgPool` | `START_IND` in `InterpreterNodes.cpp` |

use std::ops::Range;

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;

use super::bins::Bins;
use super::sizes::{Size, known_sizes};
use super::windows::check_images;
use super::{Graph, Value, ints};

type Outcome<T = Value> = Result<T, Finding>;

/// The maximum number of windows along an axis, and of elements along an axis whose places are stored.
const MAX_WINDOWS: i64 = 1 << 20;

/// What is computed of each window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pooled {
    Mean,
    Maximum,
}

impl Pooled {
    const fn of_image(self) -> &'static str {
        match self {
            Self::Mean => "GlobalAveragePool",
            Self::Maximum => "GlobalMaxPool",
        }
    }

    const fn of_windows(self) -> &'static str {
        match self {
            Self::Mean => "AveragePool",
            Self::Maximum => "MaxPool",
        }
    }

    const fn of_axes(self) -> &'static str {
        match self {
            Self::Mean => "ReduceMean",
            Self::Maximum => "ReduceMax",
        }
    }
}

/// Returns the elements of each of `count` windows.
pub(crate) fn bins(count: i64, dim: i64) -> Outcome<Vec<Range<i64>>> {
    check_count(count)?;
    let bin = |number: i64| {
        let end = (number + 1).checked_mul(dim)?.checked_add(count - 1)?;
        Some(number.checked_mul(dim)? / count..end / count)
    };
    let bins = (0..count).map(bin).collect::<Option<_>>();
    bins.ok_or_else(|| format!("{count} windows over a dim of {dim} are too many").into())
}

fn check_count(count: i64) -> Outcome<()> {
    match (0..=MAX_WINDOWS).contains(&count) {
        true => Ok(()),
        false => Err(format!("expected 0 to {MAX_WINDOWS} windows, found {count}").into()),
    }
}

/// Returns the sizes of the windows that adaptive windows are, if those along each axis are equal and do not overlap.
fn equal_windows(x: &Value, counts: &[Size]) -> Outcome<Option<Vec<i64>>> {
    let Some(counts) = known_sizes(counts) else { return Ok(None) };
    let mut sizes = Vec::new();
    for (axis, count) in (2..).zip(counts) {
        match x.size(axis)? {
            Some(dim) if dim > 0 && dim.checked_rem(count) == Some(0) => sizes.push(dim / count),
            _ => return Ok(None),
        }
    }
    Ok(Some(sizes))
}

impl Graph {
    /// Returns the mean or the maximum of each of `counts` windows along the spatial axes of images, which are
    /// `[batch, channels, ..]`.
    ///
    /// # Errors
    /// If the images have another rank, or no elements along an axis.
    pub(crate) fn adaptive_pool(&mut self, x: &Value, counts: &[Size], what: Pooled) -> Outcome {
        check_images(x, counts.len())?;
        // Runtimes have pools of these types only.
        if matches!(x.dtype(), DType::Float16 | DType::Float32) {
            if counts.iter().all(|count| matches!(count, Size::Known(1))) {
                return self.call(what.of_image(), &[x], []);
            }
            if let Some(sizes) = equal_windows(x, counts)? {
                let attributes = [ints("kernel_shape", &sizes), ints("strides", &sizes)];
                return self.call(what.of_windows(), &[x], attributes);
            }
        }
        let mut y = x.clone();
        for (axis, count) in (2..).zip(counts) {
            y = self.pooled_along(&y, axis, count, what)?;
        }
        Ok(y)
    }

    /// Returns the maximum of each of `counts` windows, and its place in the plane of the image.
    ///
    /// # Errors
    /// Those of [`adaptive_pool`](Self::adaptive_pool).
    pub(crate) fn adaptive_maxima(&mut self, x: &Value, counts: &[Size]) -> Outcome<[Value; 2]> {
        check_images(x, counts.len())?;
        let bins = (2..).zip(counts).map(|(axis, count)| self.bins(x, axis, count));
        let bins = bins.collect::<Outcome<Vec<_>>>()?;
        self.maxima_of(x, &bins)
    }

    fn bins(&mut self, x: &Value, axis: i64, count: &Size) -> Outcome<Bins> {
        let dim = self.size_of(x, axis)?;
        if let Size::Known(0) = dim {
            return Err(format!("expected images with elements, found dim {axis} of 0").into());
        }
        if let Size::Known(count) = count {
            check_count(*count)?;
        }
        match (count, &dim) {
            (Size::Known(count), Size::Known(dim)) if *dim <= MAX_WINDOWS => {
                let windows = bins(*count, *dim)?.into_iter().map(Iterator::collect);
                Bins::listed(self, &windows.collect::<Vec<_>>())
            }
            _ => Bins::adaptive(self, count, &dim),
        }
    }

    /// Reduces the windows along an axis.
    fn pooled_along(&mut self, x: &Value, axis: i64, count: &Size, what: Pooled) -> Outcome {
        if let Size::Known(count) = count
            && x.size(axis)? == Some(*count)
        {
            return Ok(x.clone());
        }
        if let Size::Known(1) = count {
            return self.reduce(what.of_axes(), x, &[axis], true);
        }
        let bins = self.bins(x, axis, count)?;
        let all = self.gather(x, &bins.places, axis)?;
        let (Pooled::Mean, Some(uneven)) = (what, &bins.uneven) else {
            return self.reduce(what.of_axes(), &all, &[axis + 1], false);
        };
        let behind = exact(x.rank()?.number() - 1 - axis)?;
        let (inside, zero) =
            (self.with_axes(&uneven.inside, behind)?, self.number(x.dtype(), 0.0)?);
        let all = self.choose(&inside, &all, &zero)?;
        let sums = self.reduce("ReduceSum", &all, &[axis + 1], false)?;
        let sizes = self.cast(&uneven.sizes, x.dtype())?;
        let sizes = self.with_axes(&sizes, behind)?;
        self.div(&sums, &sizes)
    }
}

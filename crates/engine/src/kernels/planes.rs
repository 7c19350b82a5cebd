//! Maximum pooling of images.
//!
//! The elements at one place of all windows are brought together, and compared with the maxima so far: whole vectors at a
//! time, whatever the size of the windows.

use std::ops::Range;

use lodstone_model::DType;
use pulp::NullaryFnOnce;

use crate::dims::long;
use crate::error::Outcome;
use crate::gemm::gather;
use crate::geometry::Windows;
use crate::simd::dispatch;
use crate::tensor::{Dense, Element, elements};
use crate::threads::each;

/// The number of elements below which a thread handles further images.
const MIN_SHARE: usize = 1 << 14;

/// The number of windows that are handled at a time, so that they stay in the cache.
const BLOCK: usize = 1 << 12;

/// The number of elements of the widest vectors. Blocks are filled up to a multiple of it.
const WIDTH: usize = 16;

/// An image, and the windows over it.
pub(super) struct Planes<'w> {
    pub(super) windows: &'w Windows,
    /// Height and width.
    pub(super) dims: [usize; 2],
    /// The numbers of windows down and across.
    pub(super) steps: [usize; 2],
    /// How elements are counted for indices, if those are wanted.
    pub(super) places: Option<Order>,
}

/// The order of the elements of an image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    RowMajor,
    ColumnMajor,
}

/// The windows along an axis that have an element at one place of theirs.
struct Lane {
    windows: Range<usize>,
    /// The index of the element in a window 0; it is that many strides larger in another window.
    origin: isize,
}

/// The windows along an axis, by the places in them.
struct Axis {
    lanes: Vec<Lane>,
    stride: usize,
}

/// The places of windows along both axes.
struct Geometry {
    down: Axis,
    across: Axis,
    /// The place `down` in a window has the bits from this one on, in the number of an element of a window.
    shift: u32,
    /// For each window down and across, whether it has any element.
    reached: [Vec<bool>; 2],
}

/// What a block of windows is computed in.
#[derive(Default)]
struct Scratch<T> {
    /// The elements at one place of the windows.
    lane: Vec<T>,
    best: Vec<T>,
    /// The place of the maximum in each window.
    which: Vec<u32>,
}

/// The place in a window without elements.
const NONE: u32 = u32::MAX;

impl Planes<'_> {
    /// Returns the maximum of each window, and its index in the whole tensor, if wanted: the first if several elements are
    /// equal. If a window has NaNs, only the elements after the last NaN count; if there are none, the result is that NaN.
    /// An empty window has the lowest value, and the index -1. `None` for types that are not floats.
    pub(super) fn greatest(&self, x: &Dense) -> Outcome<Option<(Dense, Option<Dense>)>> {
        Ok(match x.dtype() {
            DType::Float32 => Some(self.all(x, [f32::NAN, f32::NEG_INFINITY])?),
            DType::Float64 => Some(self.all(x, [f64::NAN, f64::NEG_INFINITY])?),
            _ => None,
        })
    }

    fn all<T: Element + Default>(
        &self,
        x: &Dense,
        limits: [T; 2],
    ) -> Outcome<(Dense, Option<Dense>)> {
        let values = elements::<T>(x, crate::tensor::Order::RowMajor)?;
        let ([height, width], [down, across]) = (self.dims, self.steps);
        let (size, of_image) = ((height * width).max(1), (down * across).max(1));
        let geometry = Geometry::new(self)?;
        let [_, lowest] = limits;
        let count = values.len() / size * of_image;
        let mut found = vec![lowest; count];
        let mut places = self.places.map(|_| vec![-1; count]);
        let together = MIN_SHARE.div_ceil(size);
        let mut left = places.as_mut().map(|places| places.chunks_mut(of_image * together));
        let parts = values.chunks(size * together).zip(found.chunks_mut(of_image * together));
        let parts: Vec<_> = parts
            .map(|(images, best)| {
                (images, best, left.as_mut().and_then(Iterator::next).unwrap_or_default())
            })
            .collect();
        each(parts, |scratch: &mut Scratch<T>, part, (images, best, places)| {
            let mut places = places.chunks_mut(of_image);
            let images = images.chunks_exact(size).zip(best.chunks_mut(of_image)).enumerate();
            for (image, (values, best)) in images {
                let places = places.next().unwrap_or_default();
                let base = (part * together + image) * size;
                self.image(&geometry, limits, (base, values), best, places, scratch);
            }
            Ok(())
        })?;
        let mut shape = x.shape();
        shape.truncate(2);
        shape.extend([down, across]);
        let places = places.map(|places| Dense::from_vec(places, shape.clone())).transpose()?;
        Ok((Dense::from_vec(found, shape)?, places))
    }

    /// Fills the maxima of the windows of an image, and their indices unless that is empty. `base` is the index of the first
    /// element.
    fn image<T: Element>(
        &self,
        geometry: &Geometry,
        limits: [T; 2],
        (base, image): (usize, &[T]),
        best: &mut [T],
        places: &mut [i64],
        scratch: &mut Scratch<T>,
    ) {
        let ([_, width], [_, across]) = (self.dims, self.steps);
        let rows = (BLOCK / across.max(1)).max(1);
        let mut places = places.chunks_mut((rows * across).max(1));
        for (block, best) in best.chunks_mut((rows * across).max(1)).enumerate() {
            let places = places.next().unwrap_or_default();
            let begin = block * rows;
            let rows = begin..begin + best.len() / across.max(1);
            geometry.begin(rows.clone(), limits, scratch);
            let wants_places = !places.is_empty();
            let rows_of_block = rows.clone();
            dispatch(Block { geometry, image, width, rows: rows_of_block, wants_places, scratch });
            let (values, _) = scratch.best.split_at(best.len());
            best.copy_from_slice(values);
            let windows = rows.flat_map(|row| (0..across).map(move |column| [row, column]));
            for ((place, which), window) in places.iter_mut().zip(&scratch.which).zip(windows) {
                // A window in the padding has no element.
                let Some([row, column]) = geometry.element(*which, window) else {
                    *place = -1;
                    continue;
                };
                let [height, width] = self.dims;
                *place = long(match self.places {
                    Some(Order::ColumnMajor) => base + column * height + row,
                    _ => base + row * width + column,
                });
            }
        }
    }
}

impl Geometry {
    fn new(planes: &Planes<'_>) -> Outcome<Self> {
        let axis = |axis, dim, steps| planes.windows.axis(axis, dim, steps);
        let ([height, width], [steps, steps_across]) = (planes.dims, planes.steps);
        let (down, across) = (axis(0, height, steps)?, axis(1, width, steps_across)?);
        let shift = across.lanes.len().next_power_of_two().trailing_zeros();
        let end = down.lanes.len().checked_mul(1 << shift);
        if end.is_none_or(|end| end > NONE as usize) {
            return Err("windows have too many elements".into());
        }
        let reached = [down.reached(steps), across.reached(steps_across)];
        Ok(Self { down, across, shift, reached })
    }

    /// Begins a block, the windows of some rows.
    fn begin<T: Copy>(&self, rows: Range<usize>, [nan, lowest]: [T; 2], scratch: &mut Scratch<T>) {
        let Scratch { lane, best, which } = scratch;
        let [down, across] = &self.reached;
        best.clear();
        for row in down.get(rows).unwrap_or_default() {
            // Any element replaces NaN.
            best.extend(across.iter().map(|reached| if *row && *reached { nan } else { lowest }));
        }
        let whole = best.len().next_multiple_of(WIDTH);
        best.resize(whole, lowest);
        lane.clear();
        lane.resize(whole, lowest);
        which.clear();
        which.resize(whole, NONE);
    }

    /// Returns the row and the column of an element of a window, by its number; `None` for that of no element.
    fn element(&self, number: u32, [row, column]: [usize; 2]) -> Option<[usize; 2]> {
        let [down, over] = [number >> self.shift, number & ((1 << self.shift) - 1)];
        let down = self.down.lanes.get(down as usize).filter(|_| number != NONE)?;
        let over = self.across.lanes.get(over as usize)?;
        Some([self.down.index(down, row), self.across.index(over, column)])
    }
}

/// The windows of some rows of an image.
struct Block<'a, T> {
    geometry: &'a Geometry,
    image: &'a [T],
    width: usize,
    rows: Range<usize>,
    wants_places: bool,
    scratch: &'a mut Scratch<T>,
}

impl<T: Element> Block<'_, T> {
    /// Compares the elements with the maxima.
    #[inline(always)]
    fn compare<const PLACES: bool>(self) {
        let Self { geometry, image, width, rows, scratch, .. } = self;
        let Scratch { lane, best, which } = scratch;
        let ([_, across], padded) = (&geometry.reached, lane.len());
        let across = across.len();
        for (number, down) in (0_u32..).zip(&geometry.down.lanes) {
            let windows = down.windows.start.max(rows.start)..down.windows.end.min(rows.end);
            if windows.is_empty() {
                continue;
            }
            for (beside, over) in (0..).zip(&geometry.across.lanes) {
                // It fits, by `new`.
                let number = (number << geometry.shift) | beside;
                let columns = &over.windows;
                for window in windows.clone() {
                    let from = geometry.down.index(down, window) * width;
                    let first = from + geometry.across.index(over, columns.start);
                    let begin = (window - rows.start) * across;
                    let to = lane.get_mut(begin + columns.start..begin + columns.end);
                    gather(image, first, geometry.across.stride, to.unwrap_or_default());
                }
                let mut merge = |part: Range<usize>| {
                    let lane = lane.get(part.clone()).unwrap_or_default().iter();
                    let best = best.get_mut(part.clone()).unwrap_or_default();
                    // A NaN fails the comparison: it is taken, and replaced by the next element.
                    if PLACES {
                        let which = which.get_mut(part).unwrap_or_default();
                        for ((value, best), which) in lane.zip(best).zip(which) {
                            let stays = *best >= *value;
                            *best = if stays { *best } else { *value };
                            *which = if stays { *which } else { number };
                        }
                    } else {
                        for (value, best) in lane.zip(best) {
                            *best = if *best >= *value { *best } else { *value };
                        }
                    }
                };
                let at = |row: usize| (row - rows.start) * across;
                if columns.len() < across {
                    let part = |row| at(row) + columns.start..at(row) + columns.end;
                    windows.clone().map(part).for_each(merge);
                } else if windows.end < rows.end {
                    merge(at(windows.start)..at(windows.end));
                } else {
                    // What follows the last window is not used.
                    merge(at(windows.start)..padded);
                }
            }
        }
    }
}

impl<T: Element> NullaryFnOnce for Block<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        match self.wants_places {
            true => self.compare::<true>(),
            false => self.compare::<false>(),
        }
    }
}

impl Axis {
    /// Returns the index of the element of a lane in a window.
    fn index(&self, lane: &Lane, window: usize) -> usize {
        (window * self.stride).saturating_add_signed(lane.origin)
    }

    /// Returns for each of `steps` windows whether it has any element.
    fn reached(&self, steps: usize) -> Vec<bool> {
        let mut reached = vec![false; steps];
        for lane in &self.lanes {
            reached.get_mut(lane.windows.clone()).unwrap_or_default().fill(true);
        }
        reached
    }
}

impl Windows {
    /// Returns the windows along an axis of an image by the places in them.
    fn axis(&self, axis: usize, dim: usize, steps: usize) -> Outcome<Axis> {
        let at = |list: &[usize]| crate::dims::dim_at(list, axis);
        let (size, stride, apart) = (at(&self.size)?, at(&self.strides)?, at(&self.dilations)?);
        let befores: Vec<usize> = self.pads.iter().map(|(before, _)| *before).collect();
        let before = at(&befores)?;
        let lane = |number: usize| {
            let shift = number * apart;
            let begin = before.saturating_sub(shift).div_ceil(stride);
            let end = (dim + before).saturating_sub(shift).div_ceil(stride).min(steps);
            let origin = shift.cast_signed() - before.cast_signed();
            (begin < end).then_some(Lane { windows: begin..end, origin })
        };
        // Places beyond are in the padding of all windows.
        let end = (dim + before).div_ceil(apart).min(size);
        Ok(Axis { lanes: (0..end).filter_map(lane).collect(), stride })
    }
}

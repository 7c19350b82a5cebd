//! Convolutions whose filters are packed, on images whose channels are innermost.

use std::ops::Range;

use lodstone_model::{DType, Op};
use lodstone_schema::Finding;
use pulp::bytemuck::cast_slice_mut;

use super::call::{EpilogueArguments, FastCall, FastKernel, one};
use super::planes::Planes;
use super::winograd::{self, Winograd};
use crate::budget::{Budget, Charge};
use crate::call::Call;
use crate::dims::count;
use crate::error::Outcome;
use crate::gemm::{
    Buffer, Buffers, Columns, Epilogue, PackedMatrix, RowBlock, RowSlices, Rows, SLACK,
    StridedRows, gather, part_of,
};
use crate::geometry::Windows;
use crate::layout::{ordered, raw, tensor};
use crate::simd::lanes;
use crate::tensor::{Dense, Order};
use crate::threads::sharing;
use crate::value::Value;

pub(crate) const CONVOLVE: FastKernel = FastKernel::new(accepts, convolve);

/// A convolution of one or two spatial dims, whose filter is packed.
#[derive(Debug)]
pub(crate) struct Convolution {
    /// The dims of the filter.
    filter: Vec<usize>,
    groups: usize,
    weights: Weights,
    bias: Option<Vec<f32>>,
}

#[derive(Debug)]
enum Weights {
    Product(PackedMatrix),
    /// One filter for each channel: `[window][channel]`.
    EachChannel(Vec<f32>),
    /// Of a transposed convolution.
    Transposed(PackedMatrix),
    /// Of one whose windows are next to each other: one matrix for each line of a window.
    Tiles(Vec<PackedMatrix>),
    Winograd(Winograd),
}

/// The number of elements of a window up to which filters are packed from the order of their dims.
const LARGE: usize = 16;

/// The change of each result channel that a normalization makes: it is multiplied, then something is added.
#[derive(Clone, Debug)]
pub(crate) struct Affine {
    pub(crate) scale: Vec<f32>,
    pub(crate) shift: Vec<f32>,
}

/// What a convolution does to one image size.
#[derive(Debug)]
pub(super) struct Geometry {
    pub(super) channels: usize,
    /// The height and width of the images, of the windows, and of the results.
    pub(super) image: [usize; 2],
    pub(super) window: [usize; 2],
    pub(super) steps: [usize; 2],
    pub(super) strides: [usize; 2],
    pub(super) dilations: [usize; 2],
    /// The padding before the images; what is cropped before the results of a transposed convolution.
    pub(super) pads: [usize; 2],
}

/// A convolution of images of certain dims.
pub(crate) struct ShapedConvolution<'c> {
    convolution: &'c Convolution,
    geometry: Geometry,
    /// The dims of the results.
    pub(super) dims: Vec<usize>,
    /// The charge for the memory in which it computes.
    _workspace: Charge,
}

/// The windows of images as rows of a matrix.
pub(super) struct Unfolded<'a, T> {
    pub(super) geometry: &'a Geometry,
    pub(super) image: &'a [T],
    /// The number of channels of a group.
    pub(super) channels: usize,
}

impl Convolution {
    /// Packs the filter of a convolution, as a constant or in `buffers` for one run; returns `None` if there is no fast kernel
    /// for it.
    ///
    /// # Errors
    /// If attributes are wrong, or memory is insufficient.
    pub(crate) fn new(
        op: &Op,
        filter: &Dense,
        bias: Option<&Dense>,
        affine: Option<&Affine>,
        buffers: Option<&Buffers>,
    ) -> Outcome<Option<Self>> {
        let room = |count: usize| match buffers {
            Some(buffers) => buffers.take(count),
            None => Buffer::constant(count),
        };
        let dims = filter.dims().to_vec();
        let groups = count(Call::new(op, &[])?.int("group", 1))?;
        let (3..=4, [outer, each, window @ ..]) = (dims.len(), dims.as_slice()) else {
            return Ok(None);
        };
        let is_single = |it: &Dense| it.dtype() == DType::Float32;
        if groups == 0 || dims.contains(&0) || !outer.is_multiple_of(groups) {
            return Ok(None);
        }
        let results = if is_transposed(op) { each * groups } else { *outer };
        if !is_single(filter) || !bias.is_none_or(is_single) {
            return Ok(None);
        }
        let line = window.last().copied().unwrap_or(1);
        let (sides, window) = (window, window.iter().product::<usize>());
        // Of a large window, as the gradient of a filter has it, the channels would be far from each other.
        let is_large = window > LARGE && !is_transposed(op);
        let order = if is_large { Order::ChannelsLast } else { Order::RowMajor };
        let values = raw(filter, order)?;
        let mut bias = match bias {
            Some(bias) if bias.dims() != [results] => return Ok(None),
            Some(bias) => Some(ordered(bias, Order::RowMajor)?.to_vec()),
            None => None,
        };
        if let Some(Affine { scale, shift }) = affine {
            let old = bias.unwrap_or_else(|| vec![0.0; results]);
            let sides = old.iter().zip(scale).zip(shift);
            bias = Some(sides.map(|((old, scale), shift)| old * scale + shift).collect());
        }
        let scales = affine.map(|it| it.scale.as_slice());
        let columns = results / groups;
        // A filter of one run is not used often enough.
        let uses_winograd = buffers.is_none() && *sides == [3, 3] && groups == 1;
        let uses_winograd = uses_winograd && winograd::is_worth(*each, columns);
        let scale = |first: usize, into: &mut [f32]| {
            let scales = scales.map(|scales| part_of(scales, first, into.len()));
            let scaled = into.iter_mut().zip(scales.unwrap_or_default());
            scaled.for_each(|(value, scale)| *value *= scale);
        };
        let mut rows = Columns::new(&values, each * window);
        let weights = if is_transposed(op) {
            let inner = outer / groups;
            // The elements of a window, each with all its channels.
            let read = |[group, row, column]: [usize; 3], into: &mut [f32]| {
                let mut done = 0;
                while done < into.len() {
                    let (place, first) = ((column + done) / each, (column + done) % each);
                    let (_, rest) = into.split_at_mut(done);
                    let (now, _) = rest.split_at_mut((each - first).min(rest.len()));
                    let input = (group * inner + row) * each + first;
                    gather(&values, input * window + place, window, cast_slice_mut(now));
                    scale(group * each + first, now);
                    done += now.len();
                }
            };
            let width = line * each;
            let tiles = tiles(op)?.unwrap_or_default().into_iter().map(i64::cast_unsigned);
            if tiles.eq(sides.iter().map(|side| *side as u64)) && width >= lanes() {
                bias = bias.map(|bias| bias.repeat(line));
                let of = |place: usize| {
                    PackedMatrix::new([1, inner, width], inner, room, |[_, row, column], into| {
                        read([0, row, place * width + column], into);
                    })
                };
                Weights::Tiles((0..window / line).map(of).collect::<Outcome<_>>()?)
            } else {
                let size = [groups, inner, window * each];
                Weights::Transposed(PackedMatrix::new(size, inner, room, read)?)
            }
        } else if uses_winograd && is_dense(op)? {
            let size = [*each, columns];
            Weights::Winograd(Winograd::new(size, room, |[place, channel, first], into| {
                rows.read([channel * window + place, first], into);
                scale(first, into);
            })?)
        } else {
            let is_in_order = groups == 1 && (window == 1 || is_large);
            let mut read = |first: usize, row: usize, into: &mut [f32]| {
                let (place, channel) = (row / each, row % each);
                let at = if is_large { row } else { channel * window + place };
                match is_in_order {
                    true => rows.read([row, first], into),
                    false => {
                        let into = cast_slice_mut(into);
                        gather(&values, first * each * window + at, each * window, into);
                    }
                }
                scale(first, into);
            };
            if *each == 1 && columns == 1 {
                let mut weights = vec![0.0; window * results];
                let places = weights.chunks_exact_mut(results).enumerate();
                places.for_each(|(place, into)| read(0, place, into));
                Weights::EachChannel(weights)
            } else {
                // A line of a window is contiguous, with all its channels.
                let is_joined = groups == 1 && dilation(op)? == 1;
                let joined = if is_joined { line * each } else { *each };
                let size = [groups, window * each, columns];
                Weights::Product(PackedMatrix::new(
                    size,
                    joined,
                    room,
                    |[group, row, column], into| {
                        read(group * columns + column, row, into);
                    },
                )?)
            }
        };
        Ok(Some(Self { filter: dims, groups, weights, bias }))
    }

    /// Returns the size of the packed filter in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        match &self.weights {
            Weights::Product(packed) | Weights::Transposed(packed) => packed.nbytes(),
            Weights::Tiles(lines) => lines.iter().map(PackedMatrix::nbytes).sum(),
            Weights::EachChannel(values) => size_of_val(values.as_slice()) as u64,
            Weights::Winograd(it) => it.nbytes(),
        }
    }

    /// Returns the convolution of images of the given dims, by a number of threads.
    ///
    /// # Errors
    /// If the images do not fit the filter, or what it computes in does not fit into the budget.
    pub(super) fn with_dims(
        &self,
        op: &Op,
        dims: &[usize],
        budget: &Budget,
        threads: usize,
    ) -> Outcome<ShapedConvolution<'_>> {
        let call = Call::new(op, &[])?;
        let ([examples, channels, sides @ ..], [outer, each, size @ ..]) =
            (dims, self.filter.as_slice())
        else {
            return Err("expected batch and channel dims".into());
        };
        let (windows, steps, results) = match self.weights {
            Weights::Transposed(_) | Weights::Tiles(_) => {
                let (windows, more) = Windows::transposed(&call, dims, &self.filter)?;
                let steps = windows.transposed_dims(sides, &more)?;
                (windows, steps, each * self.groups)
            }
            _ => {
                let windows = Windows::of(&call, size, sides)?;
                windows.check(dims, &self.filter, self.groups)?;
                let steps = windows.steps(sides)?;
                (windows, steps, *outer)
            }
        };
        let geometry = Geometry::of(&windows, *channels, sides, &steps)?;
        let products = match &self.weights {
            Weights::Transposed(packed) => geometry.products(*examples, packed),
            Weights::Winograd(it) => it.workspace(&geometry).saturating_mul(threads),
            Weights::Product(packed) => Planes::of(&geometry, packed)
                .map_or(0, |planes| planes.copied().saturating_mul(threads)),
            _ => 0,
        };
        let workspace = budget.reserve(products.saturating_mul(size_of::<f32>()) as u64)?;
        let dims = [&[*examples, results], steps.as_slice()].concat();
        Ok(ShapedConvolution { convolution: self, geometry, dims, _workspace: workspace })
    }
}

/// Returns whether the images of a convolution may have a fast kernel.
fn accepts(inputs: &[Option<&Value>]) -> bool {
    let image = inputs.first().copied().flatten().and_then(|it| it.dense().ok());
    image.is_some_and(|it| it.dtype() == DType::Float32 && !it.dims().contains(&0))
}

/// Convolves images with a filter that is computed, as in training, or returns `None` if the kernel must run instead.
fn convolve(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    let FastCall { op, inputs, buffers, budget } = *call;
    let input = |number: usize| inputs.get(number).copied().flatten().map(Value::dense).transpose();
    let (Some(x), Some(filter), bias) = (input(0)?, input(1)?, input(2)?) else { return Ok(None) };
    let Some(convolution) = Convolution::new(op, filter, bias, None, Some(buffers))? else {
        return Ok(None);
    };
    let _packed = budget.reserve(convolution.nbytes())?;
    let shaped = convolution.with_dims(op, x.dims(), budget, sharing())?;
    Ok(one(shaped.run(x, EpilogueArguments::default(), buffers, |_, _| Ok(()))?))
}

/// Returns the dilation of the last dim.
pub(crate) fn dilation(op: &Op) -> Outcome<i64> {
    let call = Call::new(op, &[])?;
    Ok(call.ints("dilations").and_then(<[i64]>::last).copied().unwrap_or(1))
}

/// Returns whether all strides and dilations are 1.
pub(crate) fn is_dense(op: &Op) -> Outcome<bool> {
    let call = Call::new(op, &[])?;
    let lists = ["strides", "dilations"].into_iter().filter_map(|name| call.ints(name));
    Ok(lists.flatten().all(|it| *it == 1))
}

/// Returns the strides of a transposed convolution that neither crops nor adds anything: windows of that size are next to
/// each other.
pub(crate) fn tiles(op: &Op) -> Outcome<Option<Vec<i64>>> {
    let call = Call::new(op, &[])?;
    let all = |name: &str, number: i64| {
        call.ints(name).is_none_or(|list| list.iter().all(|it| *it == number))
    };
    let is_plain = ["auto_pad", "output_shape"].iter().all(|name| op.attribute(name).is_none());
    let is_whole = all("dilations", 1) && all("output_padding", 0) && all("pads", 0);
    let fits = is_transposed(op) && is_plain && is_whole && call.int("group", 1) == 1;
    Ok(call.ints("strides").filter(|_| fits).map(<[i64]>::to_vec))
}

/// Returns whether a convolution is transposed.
pub(crate) fn is_transposed(op: &Op) -> bool {
    op.kind == "ConvTranspose"
}

impl ShapedConvolution<'_> {
    /// Returns whether tensors can be added to the results.
    pub(super) fn supports_residual(&self) -> bool {
        match &self.convolution.weights {
            Weights::Product(packed) => Planes::of(&self.geometry, packed).is_none(),
            Weights::Winograd(_) => true,
            _ => false,
        }
    }

    /// Convolves images of these dims. `then` is called with the offset of each add_bias_and_clamp part of the result, whose channels
    /// are innermost.
    ///
    /// # Errors
    /// If the images are not in single precision.
    pub(super) fn run(
        self,
        x: &Dense,
        epilogue: EpilogueArguments<'_>,
        buffers: &Buffers,
        then: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<Dense> {
        let Self {
            convolution: Convolution { groups, weights, bias, .. },
            geometry,
            dims,
            _workspace,
        } = self;
        let planes = match weights {
            Weights::Product(packed) => Planes::of(&geometry, packed),
            _ => None,
        };
        let order = if planes.is_some() { Order::RowMajor } else { Order::ChannelsLast };
        let image = ordered(x, order)?;
        let mut out = buffers.take(dims.iter().product())?;
        let added = epilogue.added(Order::ChannelsLast, &dims)?;
        let epilogue =
            Epilogue { bias: bias.as_deref(), added: added.as_deref(), clamp: epilogue.limits };
        match weights {
            Weights::Product(packed) => {
                let channels = geometry.channels / groups;
                if let Some(planes) = planes {
                    planes.convolve(&image, packed, epilogue, &mut out, then)?;
                } else if geometry.is_pointwise() {
                    let (stride, group_width) = (geometry.channels, channels);
                    let rows = StridedRows { stride, group_width, values: &image };
                    packed.multiply(&rows, epilogue, &mut out, then)?;
                } else {
                    let rows = Unfolded { geometry: &geometry, image: &image, channels };
                    packed.multiply(&rows, epilogue, &mut out, then)?;
                }
            }
            Weights::EachChannel(weights) => {
                geometry.convolve_each(&image, weights, epilogue, &mut out, then)?;
            }
            Weights::Winograd(it) => {
                it.convolve(&geometry, &image, epilogue, (&mut out, buffers), then)?;
            }
            Weights::Tiles(lines) => {
                geometry.convolve_tiles(&image, lines, epilogue, &mut out, then)?;
            }
            Weights::Transposed(packed) => {
                let weights = (packed, *groups);
                geometry.convolve_transposed(&image, weights, epilogue, &mut out, then)?;
            }
        }
        tensor(out, dims, Order::ChannelsLast)
    }
}

/// Returns the spatial dims as two, the first of which may be added.
fn plane(dims: &[usize], first: usize) -> Outcome<[usize; 2]> {
    match dims {
        [width] => Ok([first, *width]),
        [height, width] => Ok([*height, *width]),
        _ => Err(Finding::internal("a fast convolution has one or two spatial dims")),
    }
}

impl Geometry {
    /// Returns what windows do to images of the given sides.
    pub(super) fn of(
        windows: &Windows,
        channels: usize,
        sides: &[usize],
        steps: &[usize],
    ) -> Outcome<Self> {
        let before: Vec<usize> = windows.pads.iter().map(|pad| pad.0).collect();
        Ok(Self {
            channels,
            image: plane(sides, 1)?,
            window: plane(&windows.size, 1)?,
            steps: plane(steps, 1)?,
            strides: plane(&windows.strides, 1)?,
            dilations: plane(&windows.dilations, 1)?,
            pads: plane(&before, 0)?,
        })
    }

    /// Returns whether the windows are the pixels of the images.
    pub(super) fn is_pointwise(&self) -> bool {
        let [window, strides, pads] = [self.window, self.strides, self.pads];
        window == [1, 1] && strides == [1, 1] && pads == [0, 0] && self.image == self.steps
    }

    /// Returns the example of a result, and the place in the image where its window begins, before the padding is removed.
    pub(super) fn place(&self, row: usize) -> (usize, [usize; 2]) {
        let [height, width] = self.steps;
        let (line, column) = (row / width.max(1), row % width.max(1));
        let [down, right] = self.strides;
        (line / height.max(1), [line % height.max(1) * down, column * right])
    }

    /// Returns the places of results from `first` on, as [`place`](Self::place) does.
    pub(super) fn places(&self, first: usize) -> impl Iterator<Item = (usize, [usize; 2])> {
        let ([rows, columns], [down, right]) = (self.steps, self.strides);
        std::iter::successors(Some(self.place(first)), move |&(example, [top, left])| {
            let next = match (left + right == columns * right, top + down == rows * down) {
                (false, _) => (example, [top, left + right]),
                (true, false) => (example, [top + down, 0]),
                (true, true) => (example + 1, [0, 0]),
            };
            Some(next)
        })
    }

    /// Returns how far the last element of a window is from the first.
    pub(super) fn reach(&self) -> [usize; 2] {
        let ([rows, columns], [down, right]) = (self.window, self.dilations);
        [rows.saturating_sub(1) * down, columns.saturating_sub(1) * right]
    }

    /// Returns the coordinate of an element of a window in an image, if it is not in the padding.
    pub(super) fn inside(&self, begin: usize, number: usize, axis: usize) -> Option<usize> {
        let of = |sides: &[usize; 2]| sides.get(axis).copied();
        let at = (begin + number * of(&self.dilations)?).checked_sub(of(&self.pads)?)?;
        (at < of(&self.image)?).then_some(at)
    }
}

/// Elements of a window that are neighbours in memory: those of some of its columns, with their channels.
pub(super) struct Run {
    /// The place of the first column in the window, less the padding.
    down: isize,
    right: isize,
    /// The number of columns.
    columns: usize,
    /// The channel of the first element.
    channel: usize,
    /// Where the first element is, after the first pixel of a window that is in the image.
    offset: usize,
    /// The places of the elements in the unfolded window.
    place: Range<usize>,
}

impl<T: Copy> Unfolded<'_, T> {
    /// Returns where the elements of a run begin in the images, and the columns of the run that are in an image; `None` if
    /// no column is.
    fn part(
        &self,
        group: usize,
        run: &Run,
        (example, [top, left]): (usize, [usize; 2]),
    ) -> Option<(usize, Range<usize>)> {
        let ([height, width], channels) = (self.geometry.image, self.geometry.channels);
        let line = top.checked_add_signed(run.down).filter(|line| *line < height)?;
        let begin = left.cast_signed() + run.right;
        let skipped = (-begin).max(0).cast_unsigned().min(run.columns);
        let end = (width.cast_signed() - begin).max(0).cast_unsigned().min(run.columns);
        if skipped >= end {
            return None;
        }
        // The first column in the image has all its channels, unless it is the first of the run.
        let channel = if skipped == 0 { run.channel } else { 0 };
        let column = (example * height + line) * width;
        let column = column.strict_add_signed(begin + skipped.cast_signed());
        Some((column * channels + group * self.channels + channel, skipped..end))
    }

    /// Returns the runs of some elements of a window.
    pub(super) fn runs(&self, inner: Range<usize>) -> Vec<Run> {
        let geometry = self.geometry;
        let ([_, width], [down, right]) = (geometry.window, geometry.dilations);
        let [above, before] = geometry.pads.map(usize::cast_signed);
        let [_, image] = geometry.image;
        let is_joined = right == 1 && self.channels == geometry.channels;
        let (mut runs, mut at) = (Vec::new(), inner.start);
        while at < inner.end {
            let (tap, channel) = (at / self.channels, at % self.channels);
            let (row, column) = (tap / width, tap % width);
            let columns = if is_joined { width - column } else { 1 };
            let len = (columns * self.channels - channel).min(inner.end - at);
            runs.push(Run {
                down: (row * down).cast_signed() - above,
                right: (column * right).cast_signed() - before,
                columns: (channel + len).div_ceil(self.channels),
                channel,
                offset: (row * down * image + column * right) * geometry.channels + channel,
                place: at - inner.start..at - inner.start + len,
            });
            at += len;
        }
        runs
    }

    /// Returns where the channels of a group begin in the first pixel of a window, if all of it is in the image.
    fn whole(&self, group: usize, (example, [top, left]): (usize, [usize; 2])) -> Option<usize> {
        let ([height, width], [above, before]) = (self.geometry.image, self.geometry.pads);
        let [down, right] = self.geometry.reach();
        let (top, left) = (top.checked_sub(above)?, left.checked_sub(before)?);
        let is_inside = top + down < height && left + right < width;
        let pixel = (example * height + top) * width + left;
        is_inside.then_some(pixel * self.geometry.channels + group * self.channels)
    }

    /// Writes the elements of the window at a place; those in the padding are `blank`.
    pub(super) fn write(
        &self,
        group: usize,
        runs: &[Run],
        place: (usize, [usize; 2]),
        blank: T,
        into: &mut [T],
    ) {
        if let Some(first) = self.whole(group, place) {
            for run in runs {
                copy(self.image, first + run.offset, run.place.clone(), into);
            }
            return;
        }
        for run in runs {
            let Some(into) = into.get_mut(run.place.clone()) else { continue };
            let Some((place, columns)) = self.part(group, run, place) else {
                into.fill(blank);
                continue;
            };
            let element = |column: usize| {
                (column * self.channels).saturating_sub(run.channel).min(into.len())
            };
            let (from, to) = (element(columns.start), element(columns.end));
            let (before, rest) = into.split_at_mut(from);
            let (now, after) = rest.split_at_mut(to - from);
            before.fill(blank);
            after.fill(blank);
            now.copy_from_slice(part_of(self.image, place, now.len()));
        }
    }
}

/// Copies elements of an image to a place in `into`. What follows may be overwritten, too.
#[inline(always)]
pub(super) fn copy<T: Copy>(image: &[T], mut from: usize, mut place: Range<usize>, into: &mut [T]) {
    while !place.is_empty() {
        let there = into.get_mut(place.start..).and_then(<[T]>::first_chunk_mut::<SLACK>);
        let source = image.get(from..).and_then(<[T]>::first_chunk::<SLACK>);
        let (Some(there), Some(source)) = (there, source) else {
            if let Some(into) = into.get_mut(place.clone()) {
                into.copy_from_slice(part_of(image, from, place.len()));
            }
            return;
        };
        *there = *source;
        place.start += SLACK;
        from += SLACK;
    }
}

impl Rows for Unfolded<'_, f32> {
    fn read<'r>(
        &'r self,
        block: &RowBlock,
        is_in_place: bool,
        unfolded: &'r mut Vec<f32>,
    ) -> RowSlices<'r> {
        let RowBlock { group, first, count, ref inner } = *block;
        let (runs, places) = (self.runs(inner.clone()), self.geometry.places(first).take(count));
        let write = |at, into: &mut [f32]| self.write(group, &runs, at, 0.0, into);
        let ([run], true) = (runs.as_slice(), is_in_place) else {
            return block.unfold(count, places, unfolded, write);
        };
        let begin = |at| match self.whole(group, at) {
            Some(first) => Some(first + run.offset),
            None => self.part(group, run, at).filter(|it| it.1 == (0..run.columns)).map(|it| it.0),
        };
        let mut outside = Vec::new();
        let inside: Vec<Option<usize>> = places
            .map(|at| {
                let begin = begin(at);
                outside.extend(begin.is_none().then_some(at));
                begin
            })
            .collect();
        let others = block.unfold(outside.len(), outside.into_iter(), unfolded, write);
        let mut others = (0..).map(|number| others.row(number));
        let row = |begin: Option<usize>| {
            begin.map(|begin| part_of(self.image, begin, inner.len())).or_else(|| others.next())
        };
        RowSlices::Each(inside.into_iter().filter_map(row).collect())
    }
}

impl Affine {
    /// Returns what a normalization with known statistics does, or `None` if it also computes statistics.
    pub(crate) fn new(op: &Op, inputs: &[&Dense]) -> Outcome<Option<Self>> {
        let call = Call::new(op, &[])?;
        let [scale, bias, mean, variance] = inputs else { return Ok(None) };
        let fits = |it: &&Dense| it.dims().len() == 1 && it.dtype() == DType::Float32;
        if call.int("training_mode", 0) != 0 || !inputs.iter().all(fits) {
            return Ok(None);
        }
        let read = |it: &Dense| ordered(it, Order::RowMajor);
        let (scale, bias, mean, variance) =
            (read(scale)?, read(bias)?, read(mean)?, read(variance)?);
        let epsilon = call.float("epsilon", 1e-5);
        let sides = scale.iter().zip(variance.iter());
        let scale: Vec<f32> =
            sides.map(|(scale, variance)| scale / (variance + epsilon).sqrt()).collect();
        let sides = bias.iter().zip(mean.iter()).zip(&scale);
        let shift = sides.map(|((bias, mean), scale)| bias - mean * scale).collect();
        Ok(Some(Self { scale, shift }))
    }
}

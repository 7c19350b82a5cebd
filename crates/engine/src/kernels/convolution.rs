//! Convolutions of any number of spatial dims.

use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::call::{Call, Outputs, one};
use crate::dims::{bounded, count, dim_at};
use crate::error::Outcome;
use crate::fast;
use crate::fast::Packing;
use crate::geometry::{Windows, spatial};
use crate::operator::Operator;
use crate::tensor::{Dense, Number, Order, add_product, bytes_of, elements, wrapped, zeroed};
use crate::threads::{each, sharing};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Conv", conv)
        .fast(fast::convolution::CONVOLVE)
        .packed(Packing::Convolution)
        .error(1e-6)
        .working(2, 6)
        .copies()
        .channels_last()
        .threaded(),
    Operator::dense("ConvTranspose", conv_transpose)
        .fast(fast::convolution::CONVOLVE)
        .packed(Packing::Convolution)
        .error(1e-6)
        .working(4, 40)
        .copies()
        .channels_last()
        .threaded(),
];

/// The number of windows whose elements are brought together at a time.
const WINDOWS: usize = 256;

fn conv(call: &Call<'_>) -> Outputs {
    one(convolved(call, call.input(0)?, call.input(1)?, call.optional(2))?)
}

/// Convolves a tensor with a filter, by the attributes of the operator.
pub(super) fn convolved(
    call: &Call<'_>,
    x: &Dense,
    filter: &Dense,
    bias: Option<&Dense>,
) -> Outcome<Dense> {
    let (shape, size) = (x.shape(), filter.shape());
    let windows = Windows::of(call, spatial(&size)?, spatial(&shape)?)?;
    let groups = count(call.int("group", 1))?;
    windows.check(&shape, &size, groups)?;
    let steps = windows.steps(spatial(&shape)?)?;
    // Both in another order, and the elements of the windows that a thread computes at a time.
    let width = u64::from(x.bits() / 8).max(4);
    let columns = steps.iter().product::<usize>().min(WINDOWS);
    let columns = [dim_at(&size, 1)?, windows.size.iter().product(), columns];
    let _copies = (
        call.workspace(&shape, width)?,
        call.workspace(&size, width)?,
        call.workspace(&columns, width.saturating_mul(sharing() as u64))?,
    );
    let (wide, filter) = (x.widened()?, filter.widened()?);
    let plan = Plan { windows: &windows, groups, steps, is_transposed: false };
    let y = match wide.dtype() {
        DType::Float64 => plan.run::<f64>(&wide, &filter)?,
        DType::Float32 => plan.run::<f32>(&wide, &filter)?,
        other => return Err(format!("expected floats, found {other}").into()),
    };
    biased(y, bias)?.cast_to(x.dtype())
}

/// Adds a number to each channel.
fn biased(y: Dense, bias: Option<&Dense>) -> Outcome<Dense> {
    let Some(bias) = bias else { return Ok(y) };
    let mut dims = vec![1; y.dims().len() - 1];
    if let Some(channels) = dims.first_mut() {
        *channels = bias.count();
    }
    y.plus(&bias.cast_to(y.dtype())?.reshaped(dims)?)
}

fn conv_transpose(call: &Call<'_>) -> Outputs {
    let (x, filter) = (call.input(0)?, call.input(1)?);
    let (windows, more) = Windows::transposed(call, x.dims(), filter.dims())?;
    let groups = count(call.int("group", 1))?;
    let steps = windows.transposed_dims(spatial(x.dims())?, &more)?;
    let (wide, filter) = (x.widened()?, filter.widened()?);
    let plan = Plan { windows: &windows, groups, steps, is_transposed: true };
    let y = match wide.dtype() {
        DType::Float64 => plan.run::<f64>(&wide, &filter)?,
        DType::Float32 => plan.run::<f32>(&wide, &filter)?,
        other => return Err(format!("expected floats, found {other}").into()),
    };
    one(biased(y, call.optional(2))?.cast_to(x.dtype())?)
}

/// A convolution, or a transposed one.
struct Plan<'w> {
    windows: &'w Windows,
    groups: usize,
    /// The spatial dims of the result.
    steps: Vec<usize>,
    is_transposed: bool,
}

/// Elements at successive places of a line, and where they are in a line of the input: `begin`, and `stride` further each.
struct Line {
    places: std::ops::Range<usize>,
    begin: usize,
    stride: usize,
}

impl Plan<'_> {
    /// # Errors
    /// If memory is insufficient.
    fn run<T: Number>(&self, x: &Dense, filter: &Dense) -> Outcome<Dense> {
        let ([examples, channels, dims @ ..], [first, second, ..]) = (x.dims(), filter.dims())
        else {
            return Err("expected batch and channel dims".into());
        };
        let inputs = channels / self.groups;
        // Channels of a group in the result: filters are [results, inputs of a group, ...], and [inputs, results of a group,
        // ...] if transposed.
        let results = if self.is_transposed { *second } else { first / self.groups };
        let whole = [&[*examples, results * self.groups], &self.steps[..]].concat();
        let (values, weights) =
            (elements::<T>(x, Order::RowMajor)?, elements::<T>(filter, Order::RowMajor)?);
        let mut made = zeroed::<T>(bounded(&whole)?)?;
        let plane = self.steps.iter().product::<usize>();
        let image = dims.iter().product::<usize>();
        let size = self.windows.size.iter().product::<usize>();
        // Some channels of a group and an example for each thread.
        let parts = sharing().div_ceil(examples * self.groups);
        let at_once = results.div_ceil(parts).max(1);
        let mut items = Vec::new();
        for (number, group) in made.chunks_mut((results * plane).max(1)).enumerate() {
            let chunks = group.chunks_mut((at_once * plane).max(1)).enumerate();
            items.extend(chunks.map(|(chunk, into)| (number, chunk * at_once, into)));
        }
        let lost = || Finding::internal("elements of a convolution are missing");
        each(items, |columns: &mut Vec<T>, _, (number, begin, into)| {
            let (example, group) = (number / self.groups, number % self.groups);
            let from = (example * channels + group * inputs) * image;
            let input = values.get(from..from + inputs * image).ok_or_else(lost)?;
            if self.is_transposed {
                let from = group * inputs * results * size;
                let weights = weights.get(from..from + inputs * results * size).ok_or_else(lost)?;
                for (result, into) in (begin..).zip(into.chunks_exact_mut(plane.max(1))) {
                    let weights = weights.chunks_exact(size).skip(result).step_by(results);
                    for (input, weights) in input.chunks_exact(image).zip(weights) {
                        self.spread(dims, input, weights, into);
                    }
                }
                return Ok(());
            }
            let rows = (group * results + begin) * inputs * size;
            let weights = weights.get(rows..).ok_or_else(lost)?;
            for first in (0..plane).step_by(WINDOWS) {
                let places = first..plane.min(first + WINDOWS);
                self.unfold(dims, input, places.clone(), columns);
                let rows = weights.chunks_exact(inputs * size);
                for (into, row) in into.chunks_exact_mut(plane).zip(rows) {
                    add_product(row, columns, into.get_mut(places.clone()).ok_or_else(lost)?);
                }
            }
            Ok(())
        })?;
        wrapped(bytes_of(made), whole, Order::RowMajor, T::DTYPE)
    }

    /// Brings the elements of some windows together: a row for each channel and each place in a window.
    fn unfold<T: Number>(
        &self,
        dims: &[usize],
        input: &[T],
        windows: std::ops::Range<usize>,
        into: &mut Vec<T>,
    ) {
        let image = dims.iter().product::<usize>();
        let size = self.windows.size.iter().product::<usize>();
        let len = windows.len();
        into.clear();
        into.resize(input.len() / image * size * len, T::zeroed());
        let mut rows = into.chunks_exact_mut(len);
        for channel in input.chunks_exact(image) {
            for place in 0..size {
                let Some(row) = rows.next() else { return };
                self.lines(dims, place, windows.clone(), |line| {
                    let from = channel.get(line.begin..).unwrap_or_default();
                    let from = from.iter().step_by(line.stride);
                    let into = row.get_mut(line.places).unwrap_or_default();
                    into.iter_mut().zip(from).for_each(|(into, from)| *into = *from);
                });
            }
        }
    }

    /// Calls `each` for the elements of the input at a place in some windows: the parts of lines that are inside.
    fn lines(
        &self,
        dims: &[usize],
        place: usize,
        windows: std::ops::Range<usize>,
        mut each: impl FnMut(Line),
    ) {
        let Windows { size, strides, dilations, pads } = self.windows;
        // The offset of the element from the beginning of a window along each axis.
        let mut rest = place;
        let axes = size.iter().zip(dilations).zip(strides.iter().zip(pads));
        let mut sides = Vec::with_capacity(size.len());
        for ((size, dilation), (stride, (before, _))) in axes.rev() {
            sides.push((*stride, rest % size * dilation, *before));
            rest /= size;
        }
        sides.reverse();
        let (Some((across, steps)), Some((wide, dims)), Some((last, sides))) =
            (self.steps.split_last(), dims.split_last(), sides.split_last())
        else {
            // Without spatial dims, a window is an element.
            return each(Line { places: 0..1, begin: 0, stride: 1 });
        };
        let (stride, offset, before) = *last;
        let mut window = windows.start;
        while window < windows.end {
            let (mut row, first) = (window / across, window % across);
            let count = (across - first).min(windows.end - window);
            // The index of the line of the input, unless it is in the padding.
            let (mut line, mut step, mut is_inside) = (0, 1, true);
            for ((steps, dim), (stride, offset, before)) in steps.iter().zip(dims).zip(sides).rev()
            {
                let place = row % steps * stride + offset;
                row /= steps;
                match place.checked_sub(*before).filter(|it| it < dim) {
                    Some(inside) => line += inside * step,
                    None => is_inside = false,
                }
                step *= dim;
            }
            if is_inside {
                // The windows whose element is inside of the line.
                let low =
                    before.saturating_sub(offset).div_ceil(stride).clamp(first, first + count);
                let high = (wide + before).saturating_sub(offset).div_ceil(stride);
                let high = high.clamp(low, first + count);
                if low < high {
                    let begin = line * wide + low * stride + offset - before;
                    let moved = window - windows.start;
                    let places = moved + low - first..moved + high - first;
                    each(Line { places, begin, stride });
                }
            }
            window += count;
        }
    }

    /// Adds the elements of a channel, times weights, to the places of a channel of a transposed convolution.
    fn spread<T: Number>(&self, dims: &[usize], input: &[T], weights: &[T], into: &mut [T]) {
        // The windows of the convolution that this one is the gradient of: its result is the input here.
        let turned =
            Plan { windows: self.windows, groups: 1, steps: dims.to_vec(), is_transposed: false };
        for (place, weight) in weights.iter().enumerate() {
            turned.lines(&self.steps, place, 0..input.len(), |line| {
                let from = input.get(line.places).unwrap_or_default();
                let into = into.get_mut(line.begin..).unwrap_or_default();
                let into = into.iter_mut().step_by(line.stride);
                into.zip(from).for_each(|(into, from)| *into = into.plus(from.times(*weight)));
            });
        }
    }
}

//! Convolutions whose filters are packed, on images whose channels are innermost.

use lodstone_model::{DType, Op};
use pulp::bytemuck::cast_slice_mut;

use super::call::{EpilogueArguments, FastCall, FastKernel, one};
use super::first_layer::FirstLayer;
use super::im2col::{Geometry, Unfolded};
use super::winograd::{self, Winograd};
use crate::budget::{Budget, Charge};
use crate::call::Call;
use crate::dims::count;
use crate::error::Outcome;
use crate::gemm::{Buffer, Buffers, Columns, Epilogue, PackedMatrix, StridedRows, gather, part_of};
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
    Depthwise(Vec<f32>),
    /// Of a transposed convolution.
    Transposed(PackedMatrix),
    /// Of one whose windows are next to each other: one matrix for each line of a window.
    Adjacent(Vec<PackedMatrix>),
    Winograd(Winograd),
}

/// The number of elements of a window up to which filters are packed from the order of their dims.
const LARGE_WINDOW: usize = 16;

/// The change of each result channel that a normalization makes: it is multiplied, then something is added.
#[derive(Clone, Debug)]
pub(crate) struct Affine {
    pub(crate) scale: Vec<f32>,
    pub(crate) shift: Vec<f32>,
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
        let allocate = |count: usize| match buffers {
            Some(buffers) => buffers.take(count),
            None => Buffer::constant(count),
        };
        let dims = filter.dims().to_vec();
        let groups = count(Call::new(op, &[])?.int("group", 1))?;
        let (3..=4, [outer, per_group, window @ ..]) = (dims.len(), dims.as_slice()) else {
            return Ok(None);
        };
        let is_single = |it: &Dense| it.dtype() == DType::Float32;
        if groups == 0 || dims.contains(&0) || !outer.is_multiple_of(groups) {
            return Ok(None);
        }
        let results = if is_transposed(op) { per_group * groups } else { *outer };
        if !is_single(filter) || !bias.is_none_or(is_single) {
            return Ok(None);
        }
        let Some(&line) = window.last() else { return Ok(None) };
        let (sides, window) = (window, window.iter().product::<usize>());
        // Of a large window, as the gradient of a filter has it, the channels would be far from each other.
        let is_large = window > LARGE_WINDOW && !is_transposed(op);
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
        let uses_winograd = uses_winograd && winograd::is_faster(*per_group, columns);
        let scale = |first: usize, into: &mut [f32]| {
            let scales = scales.map(|scales| part_of(scales, first, into.len()));
            let scaled = into.iter_mut().zip(scales.unwrap_or_default());
            scaled.for_each(|(value, scale)| *value *= scale);
        };
        let mut rows = Columns::new(&values, per_group * window);
        let weights = if is_transposed(op) {
            let inner = outer / groups;
            // The elements of a window, each with all its channels.
            let read = |[group, row, column]: [usize; 3], into: &mut [f32]| {
                let mut done = 0;
                while done < into.len() {
                    let (tap, first) = ((column + done) / per_group, (column + done) % per_group);
                    let (_, rest) = into.split_at_mut(done);
                    let (now, _) = rest.split_at_mut((per_group - first).min(rest.len()));
                    let input = (group * inner + row) * per_group + first;
                    gather(&values, input * window + tap, window, cast_slice_mut(now));
                    scale(group * per_group + first, now);
                    done += now.len();
                }
            };
            let width = line * per_group;
            let adjacent =
                adjacent_strides(op)?.unwrap_or_default().into_iter().map(i64::cast_unsigned);
            if adjacent.eq(sides.iter().map(|side| *side as u64)) && width >= lanes() {
                bias = bias.map(|bias| bias.repeat(line));
                let of = |tap: usize| {
                    PackedMatrix::new(
                        [1, inner, width],
                        inner,
                        allocate,
                        |[_, row, column], into| {
                            read([0, row, tap * width + column], into);
                        },
                    )
                };
                Weights::Adjacent((0..window / line).map(of).collect::<Outcome<_>>()?)
            } else {
                let size = [groups, inner, window * per_group];
                Weights::Transposed(PackedMatrix::new(size, inner, allocate, read)?)
            }
        } else if uses_winograd && is_dense(op)? {
            let size = [*per_group, columns];
            Weights::Winograd(Winograd::new(size, allocate, |[tap, channel, first], into| {
                rows.read([channel * window + tap, first], into);
                scale(first, into);
            })?)
        } else {
            let is_in_order = groups == 1 && (window == 1 || is_large);
            let mut read = |first: usize, row: usize, into: &mut [f32]| {
                let (tap, channel) = (row / per_group, row % per_group);
                let at = if is_large { row } else { channel * window + tap };
                match is_in_order {
                    true => rows.read([row, first], into),
                    false => {
                        let into = cast_slice_mut(into);
                        gather(&values, first * per_group * window + at, per_group * window, into);
                    }
                }
                scale(first, into);
            };
            if *per_group == 1 && columns == 1 {
                let mut weights = vec![0.0; window * results];
                let taps = weights.chunks_exact_mut(results).enumerate();
                taps.for_each(|(tap, into)| read(0, tap, into));
                Weights::Depthwise(weights)
            } else {
                // A line of a window is contiguous, with all its channels.
                let is_joined = groups == 1 && dilation(op)? == 1;
                let joined = if is_joined { line * per_group } else { *per_group };
                let size = [groups, window * per_group, columns];
                Weights::Product(PackedMatrix::new(
                    size,
                    joined,
                    allocate,
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
            Weights::Adjacent(lines) => lines.iter().map(PackedMatrix::nbytes).sum(),
            Weights::Depthwise(values) => size_of_val(values.as_slice()) as u64,
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
        let ([examples, channels, sides @ ..], [outer, per_group, size @ ..]) =
            (dims, self.filter.as_slice())
        else {
            return Err("expected batch and channel dims".into());
        };
        let (windows, steps, results) = match self.weights {
            Weights::Transposed(_) | Weights::Adjacent(_) => {
                let (windows, more) = Windows::transposed(&call, dims, &self.filter)?;
                let steps = windows.transposed_dims(sides, &more)?;
                (windows, steps, per_group * self.groups)
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
            Weights::Product(packed) => match FirstLayer::of(&geometry, packed) {
                Some(first_layer) => first_layer.copied().saturating_mul(threads),
                None => 0,
            },
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

/// Returns the dilation of the last dim. Absent ones are 1.
pub(crate) fn dilation(op: &Op) -> Outcome<i64> {
    Ok(match Call::new(op, &[])?.ints("dilations") {
        Some([.., last]) => *last,
        _ => 1,
    })
}

/// Returns whether all strides and dilations are 1.
pub(crate) fn is_dense(op: &Op) -> Outcome<bool> {
    let call = Call::new(op, &[])?;
    let lists = ["strides", "dilations"].into_iter().filter_map(|name| call.ints(name));
    Ok(lists.flatten().all(|it| *it == 1))
}

/// Returns the strides of a transposed convolution that neither crops nor adds anything: windows of that size are next to
/// each other.
pub(crate) fn adjacent_strides(op: &Op) -> Outcome<Option<Vec<i64>>> {
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
            Weights::Product(packed) => FirstLayer::of(&self.geometry, packed).is_none(),
            Weights::Winograd(_) => true,
            _ => false,
        }
    }

    /// Convolves images of these dims. `finish_block` is called with the offset of each finished part of the result, whose channels
    /// are innermost.
    ///
    /// # Errors
    /// If the images are not in single precision.
    pub(super) fn run(
        self,
        x: &Dense,
        epilogue: EpilogueArguments<'_>,
        buffers: &Buffers,
        finish_block: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<Dense> {
        let Self {
            convolution: Convolution { groups, weights, bias, .. },
            geometry,
            dims,
            _workspace,
        } = self;
        let first_layer = match weights {
            Weights::Product(packed) => FirstLayer::of(&geometry, packed),
            _ => None,
        };
        let order = if first_layer.is_some() { Order::RowMajor } else { Order::ChannelsLast };
        let image = ordered(x, order)?;
        let mut out = buffers.take(dims.iter().product())?;
        let added = epilogue.added(Order::ChannelsLast, &dims)?;
        let epilogue =
            Epilogue { bias: bias.as_deref(), added: added.as_deref(), clamp: epilogue.limits };
        match weights {
            Weights::Product(packed) => {
                let channels = geometry.channels / groups;
                if let Some(first_layer) = first_layer {
                    first_layer.convolve(&image, packed, epilogue, &mut out, finish_block)?;
                } else if geometry.is_pointwise() {
                    let (stride, group_width) = (geometry.channels, channels);
                    let rows = StridedRows { stride, group_width, values: &image };
                    packed.multiply(&rows, epilogue, &mut out, finish_block)?;
                } else {
                    let rows = Unfolded { geometry: &geometry, image: &image, channels };
                    packed.multiply(&rows, epilogue, &mut out, finish_block)?;
                }
            }
            Weights::Depthwise(weights) => {
                geometry.convolve_depthwise(&image, weights, epilogue, &mut out, finish_block)?;
            }
            Weights::Winograd(it) => {
                it.convolve(&geometry, &image, epilogue, (&mut out, buffers), finish_block)?;
            }
            Weights::Adjacent(lines) => {
                geometry.convolve_adjacent(&image, lines, epilogue, &mut out, finish_block)?;
            }
            Weights::Transposed(packed) => {
                let weights = (packed, *groups);
                geometry.convolve_transposed(&image, weights, epilogue, &mut out, finish_block)?;
            }
        }
        tensor(out, dims, Order::ChannelsLast)
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

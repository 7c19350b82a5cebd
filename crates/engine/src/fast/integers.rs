//! Convolutions and products of 8-bit integers with constant weights, which are packed.

use lodstone_model::Op;

use super::call::{FastCall, one};
use super::epilogue::{ByteProduct, DepthwiseSums, IntegerEpilogue};
use super::im2col::{Geometry, Unfolded};
use super::int8::{ByteMatrices, ByteRows, ContiguousBytes, MAX_INNER, PackedBytes};
use super::quantized::{ByteElements, Inputs, shift, sign, zeros_of};
use crate::call::Call;
use crate::dims::count;
use crate::error::Outcome;
use crate::gemm;
use crate::geometry::Windows;
use crate::simd::wide;
use crate::tensor::{Dense, Order};

/// The packed weights of `ConvInteger`, `MatMulInteger`, `QGemm`, `QLinearConv` or `QLinearMatMul`.
#[derive(Debug)]
pub(crate) struct Integers {
    kind: IntegerKind,
    /// Whether the weights are those of a transposed matrix.
    is_transposed: bool,
    /// The dims of the weights.
    dims: Vec<usize>,
    groups: usize,
    weights: Weights,
}

#[derive(Debug)]
enum Weights {
    Product(PackedBytes),
    /// One filter for each channel, less its zero point: `[window][channel]`. Sums over windows are exact in single precision.
    Depthwise(Vec<f32>),
}

/// The maximum number of elements of a window that are summed in single precision: products are below 2^16.
const MAX_WINDOW: usize = 256;

/// The number of rows of a matrix that are turned at a time.
const BLOCK: usize = 16;

/// An operator on 8-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IntegerKind {
    ConvInteger,
    MatMulInteger,
    QGemm,
    QLinearConv,
    QLinearMatMul,
}

impl IntegerKind {
    /// Returns whether an operator reads the transposed weights, or `None` if there is no fast kernel for its attributes.
    pub(crate) fn is_transposed(self, op: &Op) -> Outcome<Option<bool>> {
        let call = Call::new(op, &[])?;
        Ok(match self {
            Self::QGemm if call.int("transA", 0) != 0 => None,
            Self::QGemm => Some(call.int("transB", 0) != 0),
            _ => Some(false),
        })
    }

    fn is_convolution(self) -> bool {
        matches!(self, Self::ConvInteger | Self::QLinearConv)
    }

    /// Returns the inputs that are the weights, and their zero point.
    pub(crate) fn weights(self) -> [usize; 2] {
        match self {
            Self::ConvInteger | Self::MatMulInteger => [1, 3],
            Self::QGemm | Self::QLinearConv | Self::QLinearMatMul => [3, 5],
        }
    }
}

impl Integers {
    /// Packs the weights of an operator, or returns `None` if there is no fast kernel for them.
    pub(crate) fn new(
        (kind, is_transposed): (IntegerKind, bool),
        op: &Op,
        weights: &Dense,
        zero: Option<&Dense>,
    ) -> Outcome<Option<Self>> {
        let dims = weights.dims().to_vec();
        let groups = match kind.is_convolution() {
            true => count(Call::new(op, &[])?.int("group", 1))?,
            false => 1,
        };
        let size = match (kind.is_convolution(), dims.as_slice()) {
            (true, [results, per_group, window @ ..]) if matches!(window.len(), 1 | 2) => {
                let inner = window.iter().fold(*per_group, |inner, dim| inner.saturating_mul(*dim));
                [groups, inner, results / groups.max(1)]
            }
            (false, [columns, inner]) if is_transposed => [1, *inner, *columns],
            (false, [inner, columns]) => [1, *inner, *columns],
            _ => return Ok(None),
        };
        let [_, inner, columns] = size;
        let divides = !kind.is_convolution() || dims.first() == Some(&(groups * columns));
        if dims.contains(&0) || groups == 0 || !divides || inner > MAX_INNER {
            return Ok(None);
        }
        let Some(values) = ByteElements::of(weights, Order::RowMajor)? else { return Ok(None) };
        // Unsigned weights become signed ones.
        let (sign, shift) = (sign(weights.dtype()) ^ 0x80, 128 - shift(weights.dtype()));
        let Some(zeros) = zeros_of(zero, weights.dtype(), groups * columns)? else {
            return Ok(None);
        };
        let zeros: Vec<i32> = zeros.into_iter().map(|zero| zero - shift).collect();
        let weights = match (kind, dims.as_slice()) {
            (IntegerKind::ConvInteger | IntegerKind::QLinearConv, [results, 1, ..])
                if columns == 1 && inner <= MAX_WINDOW =>
            {
                // The elements of a window, each for all results.
                let mut taps = vec![0.0; inner * results];
                let filters = values.chunks_exact(inner).zip(&zeros).enumerate();
                for (result, (filter, zero)) in filters {
                    let into = taps.iter_mut().skip(result).step_by(*results);
                    #[expect(clippy::cast_precision_loss, reason = "9 bits")]
                    into.zip(filter).for_each(|(into, byte)| {
                        *into = (i32::from((byte ^ sign).cast_signed()) - zero) as f32;
                    });
                }
                Weights::Depthwise(taps)
            }
            _ => {
                let mut matrices = ByteMatrices::zeroed(size);
                match (kind, dims.as_slice()) {
                    (
                        IntegerKind::ConvInteger | IntegerKind::QLinearConv,
                        [_, per_group, window @ ..],
                    ) => {
                        // The elements of a window, each with all its channels.
                        let window = window.iter().product::<usize>();
                        for (filter, into) in values.chunks_exact(inner).zip(matrices.columns()) {
                            for (channel, elements) in filter.chunks_exact(window).enumerate() {
                                let into = into.iter_mut().skip(channel).step_by(*per_group);
                                into.zip(elements).for_each(|(into, byte)| *into = *byte);
                            }
                        }
                    }
                    _ if is_transposed => {
                        let lines = values.chunks_exact(inner).zip(matrices.columns());
                        lines.for_each(|(line, into)| into.copy_from_slice(line));
                    }
                    _ => {
                        // A few rows at a time, so that they stay in the cache.
                        for (block, lines) in values.chunks(BLOCK * columns).enumerate() {
                            for (column, into) in matrices.columns().enumerate() {
                                let into = into.iter_mut().skip(block * BLOCK);
                                let from = lines.iter().skip(column).step_by(columns);
                                into.zip(from).for_each(|(into, byte)| *into = *byte);
                            }
                        }
                    }
                }
                matrices.columns().flatten().for_each(|byte| *byte ^= sign);
                Weights::Product(PackedBytes::new(matrices, zeros)?)
            }
        };
        Ok(Some(Self { kind, is_transposed, dims, groups, weights }))
    }

    /// Returns the size of the packed weights in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        match &self.weights {
            Weights::Product(weights) => weights.nbytes(),
            Weights::Depthwise(weights) => size_of_val(weights.as_slice()) as u64,
        }
    }

    /// Returns the number of columns, of all groups.
    fn width(&self) -> usize {
        match (self.kind.is_convolution() || self.is_transposed, self.dims.as_slice()) {
            (false, [_, columns]) => *columns,
            (_, [results, ..]) => *results,
            _ => 0,
        }
    }

    /// Computes the operator, or returns `None` if the kernel must run instead.
    pub(super) fn run(&self, call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
        let inputs = Inputs(call.inputs);
        let Some(x) = inputs.dense(0).filter(|x| x.count() > 0) else { return Ok(None) };
        let Some(zero) = inputs.zero(2, x.dtype())? else { return Ok(None) };
        let Some(epilogue) = IntegerEpilogue::of(&inputs, self.kind, self.width(), call.op)? else {
            return Ok(None);
        };
        match self.kind.is_convolution() {
            true => self.convolved(call, x, zero, &epilogue),
            false => self.multiplied(x, zero, &epilogue),
        }
    }

    fn multiplied(
        &self,
        x: &Dense,
        zero: i32,
        epilogue: &IntegerEpilogue,
    ) -> Outcome<Option<Vec<Dense>>> {
        let (Weights::Product(weights), [outer @ .., inner]) = (&self.weights, x.dims()) else {
            return Ok(None);
        };
        let Some(values) = ByteElements::of(x, Order::RowMajor)? else { return Ok(None) };
        if *inner != weights.inner() || outer.len() != 1 && matches!(self.kind, IntegerKind::QGemm)
        {
            return Ok(None);
        }
        let dims = [outer, &[self.width()]].concat();
        let (sign, zero) = (sign(x.dtype()), zero + shift(x.dtype()));
        let rows = ContiguousBytes { inner: *inner, values: &values, sign };
        epilogue.apply(&ByteProduct { weights, rows, zero }, dims, Order::RowMajor).map(one)
    }

    fn convolved(
        &self,
        call: &FastCall<'_>,
        x: &Dense,
        zero: i32,
        epilogue: &IntegerEpilogue,
    ) -> Outcome<Option<Vec<Dense>>> {
        let order = Order::ChannelsLast;
        let ([examples, channels, sides @ ..], [_, _, size @ ..]) =
            (x.dims(), self.dims.as_slice())
        else {
            return Ok(None);
        };
        let Some(values) = ByteElements::of(x, order)? else { return Ok(None) };
        let (sign, zero) = (sign(x.dtype()), zero + shift(x.dtype()));
        let Ok(blank) = u8::try_from(zero) else { return Ok(None) };
        let windows = Windows::of(&call.attributes()?, size, sides)?;
        windows.check(x.dims(), &self.dims, self.groups)?;
        let steps = windows.steps(sides)?;
        let geometry = Geometry::of(&windows, *channels, sides, &steps)?;
        let dims = [&[*examples, self.width()], steps.as_slice()].concat();
        let weights = match &self.weights {
            Weights::Product(weights) => weights,
            Weights::Depthwise(weights) => {
                let (count, size) = (dims.iter().product::<usize>(), size_of::<f32>());
                let bytes = values.len().saturating_add(count).saturating_mul(size);
                let _workspace = call.budget.reserve(bytes as u64)?;
                #[expect(clippy::cast_precision_loss, reason = "9 bits")]
                let number = move |byte: &u8| (i32::from(byte ^ sign) - zero) as f32;
                let mut image = call.buffers.take(values.len())?;
                let pairs = image.iter_mut().zip(values.iter());
                wide!(move pairs.for_each(|(into, byte)| *into = number(byte)));
                let mut sums = call.buffers.take(count)?;
                let plain = gemm::Epilogue::default();
                geometry.convolve_depthwise(&image, weights, plain, &mut sums, |_, _| Ok(()))?;
                return epilogue
                    .apply(&DepthwiseSums { width: self.width(), sums: &sums }, dims, order)
                    .map(one);
            }
        };
        if geometry.is_pointwise() && self.groups == 1 {
            let rows = ContiguousBytes { inner: *channels, values: &values, sign };
            return epilogue.apply(&ByteProduct { weights, rows, zero }, dims, order).map(one);
        }
        let channels = channels / self.groups;
        let unfolded = Unfolded { geometry: &geometry, image: &values, channels };
        let rows = ByteWindows { unfolded, inner: weights.inner(), blank: blank ^ sign, sign };
        epilogue.apply(&ByteProduct { weights, rows, zero }, dims, order).map(one)
    }
}

/// The windows of images of bytes.
struct ByteWindows<'a> {
    unfolded: Unfolded<'a, u8>,
    inner: usize,
    /// The elements of the padding.
    blank: u8,
    sign: u8,
}

impl ByteRows for ByteWindows<'_> {
    fn unfold(&self, group: usize, first: usize, stride: usize, into: &mut [u8]) {
        let runs = self.unfolded.runs(0..self.inner);
        let origins = self.unfolded.geometry.origins(first);
        for (into, origin) in into.chunks_mut(stride).zip(origins) {
            let (into, _) = into.split_at_mut(self.inner);
            self.unfolded.write(group, &runs, origin, self.blank, into);
            into.iter_mut().for_each(|byte| *byte ^= self.sign);
        }
    }
}

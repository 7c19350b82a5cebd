//! Convolutions and products of 8-bit integers with constant weights, which are packed.

use std::ops::Deref;

use burn_backend::{Bytes as Memory, DType as BurnType};
use lodstone_model::{DType, Op};
use pulp::bytemuck::cast_slice;

use super::bytes::{ByteLines, ByteRows, Bytes, MAX_INNER};
use super::convolution::{Geometry, Unfolded};
use super::layout::{Elements, Order, elements, tensor, wrapped};
use super::product::part_of;
use super::quantize::{exact, wide_code};
use super::{Task, one};
use crate::dense::Dense;
use crate::fused::wide;
use crate::item::Outcome;
use crate::kernels::{Call, Windows, count};
use crate::threads::each_chunk;
use crate::value::Value;

/// The packed weights of `ConvInteger`, `MatMulInteger`, `QGemm`, `QLinearConv` or `QLinearMatMul`.
#[derive(Debug)]
pub(crate) struct Integers {
    kind: Kind,
    /// The dims of the weights.
    dims: Vec<usize>,
    groups: usize,
    weights: Weights,
}

#[derive(Debug)]
enum Weights {
    Product(Bytes),
    /// One filter for each channel, less its zero point: `[window][channel]`. Sums over windows are exact in single precision.
    EachChannel(Vec<f32>),
}

/// The maximum number of elements of a window that are summed in single precision: products are below 2^16.
const MAX_WINDOW: usize = 256;

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    ConvInteger,
    MatMulInteger,
    /// Whether the matrix is turned.
    QGemm(bool),
    QLinearConv,
    QLinearMatMul,
}

impl Kind {
    /// Returns the kind of an operator, or `None` if there is no fast kernel for it.
    pub(crate) fn of(op: &Op) -> Outcome<Option<Self>> {
        let call = Call::new(op, &[])?;
        Ok(match (op.domain.as_str(), op.kind.as_str()) {
            ("" | "ai.onnx", "ConvInteger") => Some(Self::ConvInteger),
            ("" | "ai.onnx", "MatMulInteger") => Some(Self::MatMulInteger),
            ("" | "ai.onnx", "QLinearConv") => Some(Self::QLinearConv),
            ("" | "ai.onnx", "QLinearMatMul") => Some(Self::QLinearMatMul),
            ("com.microsoft", "QGemm") if call.int("transA", 0) == 0 => {
                Some(Self::QGemm(call.int("transB", 0) != 0))
            }
            _ => None,
        })
    }

    fn is_convolution(self) -> bool {
        matches!(self, Self::ConvInteger | Self::QLinearConv)
    }

    /// Returns the inputs that are the weights, and their zero point.
    pub(crate) fn weights(self) -> [usize; 2] {
        match self {
            Self::ConvInteger | Self::MatMulInteger => [1, 3],
            Self::QGemm(_) | Self::QLinearConv | Self::QLinearMatMul => [3, 5],
        }
    }
}

impl Integers {
    /// Packs the weights of an operator, or returns `None` if there is no fast kernel for them.
    pub(crate) fn new(
        kind: Kind,
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
            (true, [results, each, window @ ..]) if matches!(window.len(), 1 | 2) => {
                let inner = window.iter().fold(*each, |inner, dim| inner.saturating_mul(*dim));
                [groups, inner, results.checked_div(groups).unwrap_or(0)]
            }
            (false, [columns, inner]) if kind == Kind::QGemm(true) => [1, *inner, *columns],
            (false, [inner, columns]) => [1, *inner, *columns],
            _ => return Ok(None),
        };
        let [_, inner, columns] = size;
        let divides = !kind.is_convolution() || dims.first() == Some(&(groups * columns));
        if dims.contains(&0) || groups == 0 || !divides || inner > MAX_INNER {
            return Ok(None);
        }
        let Some(values) = Octets::of(weights, Order::RowMajor)? else { return Ok(None) };
        // Unsigned weights become signed ones.
        let (sign, shift) = (sign(weights.dtype()) ^ 0x80, 128 - shift(weights.dtype()));
        let zeros = match zero.map(whole).transpose()? {
            None => vec![-shift; groups * columns],
            Some(zeros) => match zeros.as_slice() {
                [one] => vec![one - shift; groups * columns],
                all if all.len() == groups * columns => {
                    all.iter().map(|zero| zero - shift).collect()
                }
                _ => return Ok(None),
            },
        };
        let at =
            |place: usize| (values.get(place).copied().unwrap_or_default() ^ sign).cast_signed();
        let weights = match (kind, dims.as_slice()) {
            (Kind::ConvInteger | Kind::QLinearConv, [results, 1, ..])
                if columns == 1 && inner <= MAX_WINDOW =>
            {
                let places = (0..inner).flat_map(|place| (0..*results).map(move |it| (place, it)));
                #[expect(clippy::cast_precision_loss, reason = "9 bits")]
                let one = |(place, result): (usize, usize)| {
                    let zero = zeros.get(result).copied().unwrap_or_default();
                    (i32::from(at(result * inner + place)) - zero) as f32
                };
                Weights::EachChannel(places.map(one).collect())
            }
            (Kind::ConvInteger | Kind::QLinearConv, [_, each, window @ ..]) => {
                // The elements of a window, each with all its channels.
                let window = window.iter().product::<usize>();
                Weights::Product(Bytes::new(size, zeros, |group, row, column| {
                    let (place, channel) = (row / each, row % each);
                    at(((group * columns + column) * each + channel) * window + place)
                }))
            }
            (Kind::QGemm(true), _) => {
                Weights::Product(Bytes::new(size, zeros, |_, row, column| at(column * inner + row)))
            }
            _ => Weights::Product(Bytes::new(size, zeros, |_, row, column| {
                at(row * columns + column)
            })),
        };
        Ok(Some(Self { kind, dims, groups, weights }))
    }

    /// Returns the size of the packed weights in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        match &self.weights {
            Weights::Product(weights) => weights.nbytes(),
            Weights::EachChannel(weights) => size_of_val(weights.as_slice()) as u64,
        }
    }

    /// Returns the number of columns, of all groups.
    fn width(&self) -> usize {
        match (self.kind, self.dims.as_slice()) {
            (Kind::MatMulInteger | Kind::QGemm(false) | Kind::QLinearMatMul, [_, columns]) => {
                *columns
            }
            (_, [results, ..]) => *results,
            _ => 0,
        }
    }

    /// Computes the operator, or returns `None` if the kernel must run instead.
    pub(super) fn run(&self, task: &Task<'_>) -> Outcome<Option<Vec<Dense>>> {
        let inputs = Inputs(task.inputs);
        let Some(x) = inputs.dense(0).filter(|x| x.count() > 0) else { return Ok(None) };
        let zero = match inputs.numbers(2)?.as_slice() {
            [] => 0,
            [zero] => *zero,
            _ => return Ok(None),
        };
        let Some(finish) = Finish::of(&inputs, self, task.op)? else { return Ok(None) };
        match self.kind.is_convolution() {
            true => self.convolved(task, x, zero, &finish),
            false => self.multiplied(x, zero, &finish),
        }
    }

    fn multiplied(&self, x: &Dense, zero: i32, finish: &Finish) -> Outcome<Option<Vec<Dense>>> {
        let (Weights::Product(weights), [outer @ .., inner]) = (&self.weights, x.dims()) else {
            return Ok(None);
        };
        let Some(values) = Octets::of(x, Order::RowMajor)? else { return Ok(None) };
        if *inner != weights.inner() || outer.len() != 1 && matches!(self.kind, Kind::QGemm(_)) {
            return Ok(None);
        }
        let dims = [outer, &[self.width()]].concat();
        let (sign, zero) = (sign(x.dtype()), zero + shift(x.dtype()));
        let rows = ByteLines { inner: *inner, values: &values, sign };
        finish.made(&Multiplied { weights, rows, zero }, dims, Order::RowMajor).map(one)
    }

    fn convolved(
        &self,
        task: &Task<'_>,
        x: &Dense,
        zero: i32,
        finish: &Finish,
    ) -> Outcome<Option<Vec<Dense>>> {
        let order = Order::ChannelsLast;
        let ([examples, channels, sides @ ..], [_, _, size @ ..]) =
            (x.dims(), self.dims.as_slice())
        else {
            return Ok(None);
        };
        let Some(values) = Octets::of(x, order)? else { return Ok(None) };
        let (sign, zero) = (sign(x.dtype()), zero + shift(x.dtype()));
        let Ok(blank) = u8::try_from(zero) else { return Ok(None) };
        let windows = Windows::of(&Call::new(task.op, &[])?, size, sides)?;
        windows.check(x.dims(), &self.dims, self.groups)?;
        let steps = windows.steps(sides)?;
        let geometry = Geometry::of(&windows, *channels, sides, &steps)?;
        let dims = [&[*examples, self.width()], steps.as_slice()].concat();
        let weights = match &self.weights {
            Weights::Product(weights) => weights,
            Weights::EachChannel(weights) => {
                let (count, made) = (dims.iter().product::<usize>(), size_of::<f32>());
                let bytes = values.len().saturating_add(count).saturating_mul(made);
                let _workspace = task.budget.reserve(bytes as u64)?;
                #[expect(clippy::cast_precision_loss, reason = "9 bits")]
                let number = |byte: &u8| (i32::from(byte ^ sign) - zero) as f32;
                let image: Vec<f32> = values.iter().map(number).collect();
                let mut sums = task.buffers.take(count);
                let plain = super::product::Finish::default();
                geometry.convolve_each(&image, weights, plain, &mut sums, |_, _| Ok(()))?;
                return finish
                    .made(&Exact { width: self.width(), sums: &sums }, dims, order)
                    .map(one);
            }
        };
        if geometry.is_pointwise() && self.groups == 1 {
            let rows = ByteLines { inner: *channels, values: &values, sign };
            return finish.made(&Multiplied { weights, rows, zero }, dims, order).map(one);
        }
        let channels = channels / self.groups;
        let unfolded = Unfolded { geometry: &geometry, image: &values, channels };
        let rows = ByteWindows { unfolded, inner: weights.inner(), blank: blank ^ sign, sign };
        finish.made(&Multiplied { weights, rows, zero }, dims, order).map(one)
    }
}

/// Returns the bit of each byte that turns signed bytes into unsigned ones, for a type of 8 bits.
pub(super) fn sign(dtype: DType) -> u8 {
    if dtype == DType::Int8 { 0x80 } else { 0 }
}

/// Returns the number by which that makes them greater.
pub(super) fn shift(dtype: DType) -> i32 {
    sign(dtype).into()
}

/// The bytes of a tensor of 8-bit integers in one order.
pub(super) enum Octets {
    Signed(Elements<i8>),
    Unsigned(Elements<u8>),
}

impl Octets {
    /// Returns the bytes of a tensor, or `None` if it is of another type.
    pub(super) fn of(tensor: &Dense, order: Order) -> Outcome<Option<Self>> {
        Ok(match tensor.dtype() {
            DType::Int8 => Some(Self::Signed(elements(tensor, order)?)),
            DType::Uint8 => Some(Self::Unsigned(elements(tensor, order)?)),
            _ => None,
        })
    }
}

impl Deref for Octets {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Signed(values) => cast_slice(values),
            Self::Unsigned(values) => values,
        }
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
    fn unfold(&self, group: usize, first: usize, apart: usize, into: &mut [u8]) {
        let runs = self.unfolded.runs(0..self.inner);
        let places = self.unfolded.geometry.places(first);
        for (into, place) in into.chunks_mut(apart).zip(places) {
            let (into, _) = into.split_at_mut(self.inner);
            self.unfolded.write(group, &runs, place, self.blank, into);
            into.iter_mut().for_each(|byte| *byte ^= self.sign);
        }
    }
}

/// The inputs of an operator.
pub(super) struct Inputs<'a>(pub(super) &'a [Option<&'a Value>]);

impl<'a> Inputs<'a> {
    pub(super) fn dense(&self, number: usize) -> Option<&'a Dense> {
        match self.0.get(number) {
            Some(Some(Value::Dense(dense))) => Some(dense),
            _ => None,
        }
    }

    pub(super) fn floats(&self, number: usize) -> Outcome<Vec<f64>> {
        self.dense(number).map_or(Ok(Vec::new()), Dense::to_f64)
    }

    /// Returns the whole numbers of an input; none if it is omitted.
    pub(super) fn numbers(&self, number: usize) -> Outcome<Vec<i32>> {
        self.dense(number).map_or(Ok(Vec::new()), whole)
    }
}

/// Returns the elements of a tensor of integers of at most 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "they fit")]
fn whole(tensor: &Dense) -> Outcome<Vec<i32>> {
    Ok(tensor.to_f64()?.into_iter().map(|number| number as i32).collect())
}

/// What happens to sums.
enum Finish {
    /// They are the result.
    Sums,
    Codes(Scaled, f64, [f64; 2], BurnType),
    Reals(Scaled),
}

/// How sums become real numbers.
struct Scaled {
    /// What is added to the sums of each column.
    bias: Vec<f64>,
    /// The factor of each column.
    scales: Vec<f64>,
    /// What the products are divided by.
    divisor: f64,
}

impl Scaled {
    /// Calls `put` with the real number of each sum of a row.
    #[inline(always)]
    fn each<T>(&self, sums: &[i32], out: &mut [T], put: impl Fn(f64) -> T) {
        let columns = self.scales.iter().zip(&self.bias);
        let all = sums.iter().zip(out).zip(columns);
        // A division takes longer than all the rest.
        if self.divisor == 1.0 {
            wide(|| {
                all.for_each(|((sum, out), (scale, bias))| {
                    *out = put((f64::from(*sum) + bias) * scale);
                });
            });
        } else {
            wide(|| {
                all.for_each(|((sum, out), (scale, bias))| {
                    *out = put((f64::from(*sum) + bias) * scale / self.divisor);
                });
            });
        }
    }
}

impl Finish {
    /// Returns what an operator does with its sums, or `None` if there is no fast kernel for it.
    fn of(inputs: &Inputs<'_>, of: &Integers, op: &Op) -> Outcome<Option<Self>> {
        // The bias, the scale of the result, and its zero point.
        let [bias, own, center] = match of.kind {
            Kind::ConvInteger | Kind::MatMulInteger => return Ok(Some(Self::Sums)),
            Kind::QGemm(_) => [6, 7, 8],
            Kind::QLinearConv | Kind::QLinearMatMul => [8, 6, 7],
        };
        let [left, right, own_scale, zero] =
            [1, 4, own, center].map(|number| inputs.floats(number));
        let (left, right, own_scale, zero) = (left?, right?, own_scale?, zero?);
        let (width, bias) = (of.width(), inputs.floats(bias)?);
        let fits = |list: &[f64]| list.len() == width;
        let [left] = left.as_slice() else { return Ok(None) };
        if !(right.len() == 1 || fits(&right)) || !(bias.is_empty() || fits(&bias)) {
            return Ok(None);
        }
        let bias = if bias.is_empty() { vec![0.0; width] } else { bias };
        let right = right.iter().cycle().take(width);
        let alpha = f64::from(Call::new(op, &[])?.float("alpha", 1.0));
        let is_gemm = matches!(of.kind, Kind::QGemm(_));
        let scaled = match (own_scale.as_slice(), is_gemm) {
            ([], true) => {
                let scales = right.map(|right| left * right * alpha).collect();
                return Ok(Some(Self::Reals(Scaled { bias, scales, divisor: 1.0 })));
            }
            ([own], true) => {
                let scales = right.map(|right| left * right * alpha).collect();
                Scaled { bias, scales, divisor: *own }
            }
            ([own], false) => {
                let scales = right.map(|right| left * right / own).collect();
                Scaled { bias, scales, divisor: 1.0 }
            }
            _ => return Ok(None),
        };
        // Without a zero point, the type is that of the first input.
        let (zero, number) = match zero.as_slice() {
            [] if is_gemm => (0.0, 0),
            [zero] => (*zero, center),
            _ => return Ok(None),
        };
        Ok(match inputs.dense(number).map(Dense::dtype) {
            Some(DType::Int8) => Some(Self::Codes(scaled, zero, [-128.0, 127.0], BurnType::I8)),
            Some(DType::Uint8) => Some(Self::Codes(scaled, zero, [0.0, 255.0], BurnType::U8)),
            _ => None,
        })
    }

    /// Returns the result of the given dims.
    fn made(&self, sums: &impl Sums, dims: Vec<usize>, order: Order) -> Outcome<Dense> {
        let count = dims.iter().product();
        match self {
            Self::Sums => {
                let mut made = vec![0_i32; count];
                sums.each(&mut made, |sums, out| out.copy_from_slice(sums))?;
                wrapped(Memory::from_elems(made), count, dims, order, BurnType::I32)
            }
            Self::Codes(scaled, zero, limits, dtype) => {
                let mut made = vec![0_u8; count];
                sums.each(&mut made, |sums, out| {
                    scaled.each(sums, out, |number| wide_code(number, *zero, *limits));
                })?;
                wrapped(Memory::from_elems(made), count, dims, order, *dtype)
            }
            Self::Reals(scaled) => {
                let mut made = vec![0_f32; count];
                #[expect(clippy::cast_possible_truncation, reason = "rounds")]
                sums.each(&mut made, |sums, out| {
                    scaled.each(sums, out, |number| number as f32);
                })?;
                tensor(made, dims, order)
            }
        }
    }
}

/// The sums of products, in rows.
trait Sums {
    /// Calls `finish` with each row, and the part of `out` that belongs to it.
    fn each<T: Send>(&self, out: &mut [T], finish: impl Fn(&[i32], &mut [T]) + Sync)
    -> Outcome<()>;
}

/// The product of rows, whose zero point as unsigned bytes is `zero`, with weights.
struct Multiplied<'a, R> {
    weights: &'a Bytes,
    rows: R,
    zero: i32,
}

impl<R: ByteRows> Sums for Multiplied<'_, R> {
    fn each<T: Send>(
        &self,
        out: &mut [T],
        finish: impl Fn(&[i32], &mut [T]) + Sync,
    ) -> Outcome<()> {
        self.weights.multiply(&self.rows, self.zero, out, finish)
    }
}

/// Sums that are exact in single precision.
struct Exact<'a> {
    width: usize,
    sums: &'a [f32],
}

/// The number of elements that one processor handles at a time.
const PIECE: usize = 1 << 14;

impl Sums for Exact<'_> {
    fn each<T: Send>(
        &self,
        out: &mut [T],
        finish: impl Fn(&[i32], &mut [T]) + Sync,
    ) -> Outcome<()> {
        let size = (PIECE / self.width.max(1)).max(1) * self.width;
        each_chunk(out, size, |row: &mut Vec<i32>, number, out| {
            let sums = part_of(self.sums, number * size, out.len());
            let rows = sums.chunks_exact(self.width.max(1));
            for (sums, out) in rows.zip(out.chunks_exact_mut(self.width.max(1))) {
                row.clear();
                wide(|| row.extend(sums.iter().map(|sum| exact(*sum))));
                finish(row, out);
            }
            Ok(())
        })
    }
}

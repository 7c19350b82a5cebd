//! Convolutions and products of 8-bit integers with constant weights, which are packed.

use std::ops::Deref;

use burn_backend::{Bytes as Memory, DType as BurnType};
use lodstone_model::{DType, Op};
use pulp::bytemuck::cast_slice;

use super::bytes::{ByteLines, ByteRows, Bytes, MAX_INNER};
use super::convolution::{Geometry, Unfolded};
use super::layout::{Elements, Order, elements, wrapped};
use super::{Task, one};
use crate::dense::Dense;
use crate::fused::wide;
use crate::item::Outcome;
use crate::kernels::{Call, Windows, count};
use crate::value::Value;

/// The packed weights of `ConvInteger`, `MatMulInteger`, `QLinearConv` or `QLinearMatMul`.
#[derive(Debug)]
pub(crate) struct Integers {
    kind: Kind,
    /// The dims of the weights.
    dims: Vec<usize>,
    groups: usize,
    weights: Bytes,
}

/// The operators, by the numbers of their inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    is_convolution: bool,
    /// Whether the result is quantized, too.
    is_quantized: bool,
    /// The zero point of the first input.
    zero: usize,
    pub(crate) weights: usize,
    pub(crate) weights_zero: usize,
}

impl Kind {
    /// Returns the kind of an operator, or `None` if it is another one.
    pub(crate) fn of(op: &Op) -> Option<Self> {
        if !matches!(op.domain.as_str(), "" | "ai.onnx") {
            return None;
        }
        let (is_convolution, is_quantized) = match op.kind.as_str() {
            "ConvInteger" => (true, false),
            "MatMulInteger" => (false, false),
            "QLinearConv" => (true, true),
            "QLinearMatMul" => (false, true),
            _ => return None,
        };
        // Quantized operators have scales, too.
        let (weights, weights_zero) = if is_quantized { (3, 5) } else { (1, 3) };
        Some(Self { is_convolution, is_quantized, zero: 2, weights, weights_zero })
    }
}

impl Integers {
    /// Packs the weights of an operator, or returns `None` if there is no fast kernel for them.
    pub(crate) fn new(op: &Op, weights: &Dense, zero: Option<&Dense>) -> Outcome<Option<Self>> {
        let Some(kind) = Kind::of(op) else { return Ok(None) };
        let dims = weights.dims().to_vec();
        let groups = match kind.is_convolution {
            true => count(Call::new(op, &[])?.int("group", 1))?,
            false => 1,
        };
        let size = match dims.as_slice() {
            [results, each, window @ ..]
                if kind.is_convolution && matches!(window.len(), 1 | 2) =>
            {
                let inner = window.iter().fold(*each, |inner, dim| inner.saturating_mul(*dim));
                [groups, inner, results.checked_div(groups).unwrap_or(0)]
            }
            [inner, columns] if !kind.is_convolution => [1, *inner, *columns],
            _ => return Ok(None),
        };
        let [groups, inner, columns] = size;
        let divides = !kind.is_convolution || dims.first() == Some(&(groups * columns));
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
        let weights = match (kind.is_convolution, dims.as_slice()) {
            (true, [_, each, window @ ..]) => {
                // The elements of a window, each with all its channels.
                let window = window.iter().product::<usize>();
                Bytes::new(size, zeros, |group, row, column| {
                    let (place, channel) = (row / each, row % each);
                    at(((group * columns + column) * each + channel) * window + place)
                })
            }
            _ => Bytes::new(size, zeros, |_, row, column| at(row * columns + column)),
        };
        Ok(Some(Self { kind, dims, groups, weights }))
    }

    /// Returns the size of the packed weights in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        self.weights.nbytes()
    }

    /// Computes the operator, or returns `None` if the kernel must run instead.
    pub(super) fn run(&self, task: &Task<'_>) -> Outcome<Option<Vec<Dense>>> {
        let inputs = Inputs(task.inputs);
        let Some(x) = inputs.dense(0).filter(|x| x.count() > 0) else { return Ok(None) };
        // Signed bytes become unsigned ones.
        let (sign, shift) = (sign(x.dtype()), shift(x.dtype()));
        let zero = match inputs.numbers(self.kind.zero)?.as_slice() {
            [] => shift,
            [zero] => zero + shift,
            _ => return Ok(None),
        };
        let Ok(blank) = u8::try_from(zero) else { return Ok(None) };
        let quantization = match self.kind.is_quantized {
            true => match Quantization::of(&inputs, self.weights.width())? {
                Some(quantization) => Some(quantization),
                None => return Ok(None),
            },
            false => None,
        };
        let product = Product { weights: &self.weights, zero, quantization };
        if !self.kind.is_convolution {
            let Some(values) = Octets::of(x, Order::RowMajor)? else { return Ok(None) };
            let [outer @ .., inner] = x.dims() else { return Ok(None) };
            if *inner != self.weights.inner() {
                return Ok(None);
            }
            let dims = [outer, &[self.weights.width()]].concat();
            let rows = ByteLines { inner: *inner, values: &values, sign };
            return product.made(&rows, dims, Order::RowMajor).map(one);
        }
        let Some(values) = Octets::of(x, Order::ChannelsLast)? else { return Ok(None) };
        let ([examples, channels, sides @ ..], [_, _, size @ ..]) =
            (x.dims(), self.dims.as_slice())
        else {
            return Ok(None);
        };
        let windows = Windows::of(&Call::new(task.op, &[])?, size, sides)?;
        windows.check(x.dims(), &self.dims, self.groups)?;
        let steps = windows.steps(sides)?;
        let geometry = Geometry::of(&windows, *channels, sides, &steps)?;
        let dims = [&[*examples, self.weights.width()], steps.as_slice()].concat();
        if geometry.is_pointwise() && self.groups == 1 {
            let rows = ByteLines { inner: *channels, values: &values, sign };
            return product.made(&rows, dims, Order::ChannelsLast).map(one);
        }
        let channels = channels / self.groups;
        let unfolded = Unfolded { geometry: &geometry, image: &values, channels };
        let inner = self.weights.inner();
        let rows = ByteWindows { unfolded, inner, blank: blank ^ sign, sign };
        product.made(&rows, dims, Order::ChannelsLast).map(one)
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

/// How sums become 8-bit integers.
struct Quantization {
    /// What is added to the sums of each column.
    bias: Vec<f64>,
    /// The factor of each column.
    scales: Vec<f64>,
    zero: f64,
    limits: [f64; 2],
    dtype: BurnType,
}

impl Quantization {
    /// Returns the quantization of an operator with `width` columns, or `None` if there is no fast kernel for it.
    fn of(inputs: &Inputs<'_>, width: usize) -> Outcome<Option<Self>> {
        let [left, right, own, zero] = [1, 4, 6, 7].map(|number| inputs.floats(number));
        let (left, right, own, zero) = (left?, right?, own?, zero?);
        let ([left], [own], [zero]) = (left.as_slice(), own.as_slice(), zero.as_slice()) else {
            return Ok(None);
        };
        let bias = inputs.floats(8)?;
        let fits = |list: &[f64]| list.len() == width;
        if !(right.len() == 1 || fits(&right)) || !(bias.is_empty() || fits(&bias)) {
            return Ok(None);
        }
        let (limits, dtype) = match inputs.dense(7).map(Dense::dtype) {
            Some(DType::Int8) => ([-128.0, 127.0], BurnType::I8),
            Some(DType::Uint8) => ([0.0, 255.0], BurnType::U8),
            _ => return Ok(None),
        };
        let scales = right.iter().cycle().take(width).map(|right| left * right / own).collect();
        let bias = if bias.is_empty() { vec![0.0; width] } else { bias };
        Ok(Some(Self { bias, scales, zero: *zero, limits, dtype }))
    }

    /// Quantizes a row of sums.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between the limits; signed numbers keep their bits"
    )]
    fn apply(&self, sums: &[i32], out: &mut [u8]) {
        let [least, most] = self.limits;
        wide(|| {
            let columns = self.scales.iter().zip(&self.bias);
            for ((sum, out), (scale, bias)) in sums.iter().zip(out).zip(columns) {
                let exact = (f64::from(*sum) + bias) * scale;
                let code = (exact.round_ties_even() + self.zero).clamp(least, most);
                *out = code as i32 as u8;
            }
        });
    }
}

/// The product of some rows with packed weights.
struct Product<'a> {
    weights: &'a Bytes,
    /// The zero point of the rows, as unsigned bytes.
    zero: i32,
    quantization: Option<Quantization>,
}

impl Product<'_> {
    /// Returns the result, of the given dims.
    fn made(&self, rows: &impl ByteRows, dims: Vec<usize>, order: Order) -> Outcome<Dense> {
        let count = dims.iter().product();
        let Some(quantization) = &self.quantization else {
            let mut sums = vec![0_i32; count];
            self.weights.multiply(rows, self.zero, &mut sums, |sums, out| {
                out.copy_from_slice(sums);
            })?;
            return wrapped(Memory::from_elems(sums), count, dims, order, BurnType::I32);
        };
        let mut codes = vec![0_u8; count];
        self.weights.multiply(rows, self.zero, &mut codes, |sums, out| {
            quantization.apply(sums, out);
        })?;
        wrapped(Memory::from_elems(codes), count, dims, order, quantization.dtype)
    }
}

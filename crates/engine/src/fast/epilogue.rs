//! The epilogue of products of 8-bit integers: their sums become integers, quantized or real numbers.

use lodstone_model::{DType, Op};

use super::int8::{ByteRows, PackedBytes, Strip};
use super::integers::IntegerKind;
use super::quantized::{Inputs, exact, limits, wide_code};
use crate::call::Call;
use crate::error::Outcome;
use crate::gemm::part_of;
use crate::layout::numbers;
use crate::simd::wide;
use crate::tensor::{Dense, Order, bytes_of, wrapped};
use crate::threads::each_chunk;

/// What the sums become.
pub(super) enum IntegerEpilogue {
    /// They are the result.
    Sums,
    Codes(Scaled, f64, [f64; 2], DType),
    Reals(Scaled),
}

/// How sums become real numbers.
pub(super) struct Scaled {
    /// What is added to the sums of each column.
    bias: Vec<f64>,
    /// The factor of each column.
    scales: Vec<f64>,
    /// What the products are divided by.
    divisor: f64,
}

impl Scaled {
    /// Writes what `put` returns for the real number of each sum.
    #[inline(always)]
    fn write<S: Sum, T>(
        &self,
        strip: &Strip,
        sums: &[S],
        out: &mut [T],
        put: impl Fn(f64) -> T + Copy,
    ) {
        let (first, count) = (strip.columns.start, strip.columns.len());
        let (scales, bias) =
            (part_of(&self.scales, first, count), part_of(&self.bias, first, count));
        let rows = strip.rows(sums, out);
        // What is captured by reference might overlap with the result, and would be loaded for each element.
        let divisor = self.divisor;
        // A division takes longer than all the rest.
        if divisor == 1.0 {
            wide!(move {
                for (sums, out) in rows {
                    let columns = scales.iter().zip(bias);
                    for ((sum, out), (scale, bias)) in sums.iter().zip(out).zip(columns) {
                        *out = put((sum.real() + bias) * scale);
                    }
                }
            });
        } else {
            wide!(move {
                for (sums, out) in rows {
                    let columns = scales.iter().zip(bias);
                    for ((sum, out), (scale, bias)) in sums.iter().zip(out).zip(columns) {
                        *out = put((sum.real() + bias) * scale / divisor);
                    }
                }
            });
        }
    }
}

impl IntegerEpilogue {
    /// Returns the epilogue of an operator with a number of columns, or `None` if there is no fast kernel for it.
    pub(super) fn of(
        inputs: &Inputs<'_>,
        kind: IntegerKind,
        columns: usize,
        op: &Op,
    ) -> Outcome<Option<Self>> {
        // The bias, the scale of the result, and its zero point.
        let [bias, own, center] = match kind {
            IntegerKind::ConvInteger | IntegerKind::MatMulInteger => return Ok(Some(Self::Sums)),
            IntegerKind::QGemm => [6, 7, 8],
            IntegerKind::QLinearConv | IntegerKind::QLinearMatMul => [8, 6, 7],
        };
        let is_gemm = matches!(kind, IntegerKind::QGemm);
        let (Some(left), Some(right), Some(divisor)) =
            (inputs.list(1)?, inputs.list(4)?, inputs.list(own)?)
        else {
            return Ok(None);
        };
        // A matrix that is added may have one row.
        let row = inputs.dense(bias).filter(|bias| matches!(bias.dims(), [1, _]) && is_gemm);
        let bias = match row {
            Some(row) => Some(row.to_f64()?),
            None => inputs.list(bias)?,
        };
        let Some(bias) = bias else { return Ok(None) };
        let fits = |list: &[f64]| list.len() == columns || list.len() == 1;
        let ([left], true, true) = (left.as_slice(), fits(&right), bias.is_empty() || fits(&bias))
        else {
            return Ok(None);
        };
        if !is_gemm && bias.len() != columns && !bias.is_empty() {
            return Ok(None);
        }
        let bias = if bias.is_empty() { vec![0.0] } else { bias };
        let bias = bias.into_iter().cycle().take(columns).collect();
        let right = right.into_iter().cycle().take(columns);
        let alpha = f64::from(Call::new(op, &[])?.float("alpha", 1.0));
        let scaled = match (divisor.as_slice(), is_gemm) {
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
        let like = match inputs.dense(center) {
            Some(zero) => zero,
            None if is_gemm => match inputs.dense(0) {
                Some(x) => x,
                None => return Ok(None),
            },
            None => return Ok(None),
        };
        let Some(zero) = inputs.zero(center, like.dtype())? else { return Ok(None) };
        let dtype = like.dtype();
        Ok(limits(dtype)
            .map(|limits| Self::Codes(scaled, zero.into(), limits.map(f64::from), dtype)))
    }

    /// Computes the result of the given dims.
    pub(super) fn apply(&self, sums: &impl Sums, dims: Vec<usize>, order: Order) -> Outcome<Dense> {
        let count = dims.iter().product();
        match self {
            Self::Sums => {
                let mut results = vec![0_i32; count];
                sums.for_each_strip(&mut results, |strip, sums, out| {
                    let rows = strip.rows(sums, out);
                    wide!(move {
                        for (sums, out) in rows {
                            let pairs = out.iter_mut().zip(sums);
                            pairs.for_each(|(out, sum)| *out = sum.whole());
                        }
                    });
                })?;
                wrapped(bytes_of(results), dims, order, DType::Int32)
            }
            Self::Codes(scaled, zero, limits, dtype) => {
                let mut results = vec![0_u8; count];
                let (zero, limits) = (*zero, *limits);
                sums.for_each_strip(&mut results, |strip, sums, out| {
                    scaled.write(strip, sums, out, move |number| wide_code(number, zero, limits));
                })?;
                wrapped(results.into(), dims, order, *dtype)
            }
            Self::Reals(scaled) => {
                let mut results = vec![0_f32; count];
                #[expect(clippy::cast_possible_truncation, reason = "rounds")]
                sums.for_each_strip(&mut results, |strip, sums, out| {
                    scaled.write(strip, sums, out, |number| number as f32);
                })?;
                numbers(results, dims, order)
            }
        }
    }
}

/// The sums of products.
pub(super) trait Sums {
    type Sum: Sum;

    /// Calls `epilogue` with strips of sums, and the rows of `out` that they belong to.
    fn for_each_strip<T: Send>(
        &self,
        out: &mut [T],
        epilogue: impl Fn(&Strip, &[Self::Sum], &mut [T]) + Sync,
    ) -> Outcome<()>;
}

/// A whole number of fewer than 32 bits.
pub(super) trait Sum: Copy {
    fn whole(self) -> i32;
    fn real(self) -> f64;
}

impl Sum for i32 {
    #[inline(always)]
    fn whole(self) -> i32 {
        self
    }

    #[inline(always)]
    fn real(self) -> f64 {
        self.into()
    }
}

impl Sum for f32 {
    #[inline(always)]
    fn whole(self) -> i32 {
        exact(self)
    }

    #[inline(always)]
    fn real(self) -> f64 {
        self.into()
    }
}

/// The product of rows, whose zero point as unsigned bytes is `zero`, with weights.
pub(super) struct ByteProduct<'a, R> {
    pub(super) weights: &'a PackedBytes,
    pub(super) rows: R,
    pub(super) zero: i32,
}

impl<R: ByteRows> Sums for ByteProduct<'_, R> {
    type Sum = i32;

    fn for_each_strip<T: Send>(
        &self,
        out: &mut [T],
        epilogue: impl Fn(&Strip, &[i32], &mut [T]) + Sync,
    ) -> Outcome<()> {
        self.weights.multiply(&self.rows, self.zero, out, epilogue)
    }
}

/// Sums that are exact in single precision.
pub(super) struct DepthwiseSums<'a> {
    pub(super) width: usize,
    pub(super) sums: &'a [f32],
}

/// The number of elements that one processor handles at a time.
const CHUNK: usize = 1 << 14;

impl Sums for DepthwiseSums<'_> {
    type Sum = f32;

    fn for_each_strip<T: Send>(
        &self,
        out: &mut [T],
        epilogue: impl Fn(&Strip, &[f32], &mut [T]) + Sync,
    ) -> Outcome<()> {
        let width = self.width.max(1);
        let size = (CHUNK / width).max(1) * width;
        let strip = Strip { group: 0, columns: 0..width, width, stride: width, offset: 0 };
        each_chunk(out, size, |(): &mut (), number, out| {
            let sums = part_of(self.sums, number * size, out.len());
            epilogue(&strip, sums, out);
            Ok(())
        })
    }
}

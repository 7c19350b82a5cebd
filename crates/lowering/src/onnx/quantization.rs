//! Quantization: which integers stand for numbers, and which numbers integers stand for.
//!
//! An integer `q` stands for `(q - zero) * scale`. A *step* is such an integer before it is clipped, as a float.
//!
//! | framework and release | scale, and what integers are | by |
//! |---|---|---|
//! | PaddlePaddle 2.6.2, `fake_quantize_*`, `quantize_linear` | the greatest magnitude becomes `2^(bits - 1) - 1`; a scale up to 1e-30 grows by 1e-6; `ZeroPoint`, `qmin` and `qmax` are not read | `fake_quantize_op.cu.h`; run |
//! | PaddlePaddle 2.6.2, `round_type` 0 | halves to even, then clipped: the least integer is used | the same; run |
//! | PaddlePaddle 2.6.2, `round_type` 1 | clipped to the scale, then halves away from 0: the least integer is not used | the same; run |
//! | PaddlePaddle 2.6.2, moving averages | `accumulated = rate * accumulated + greatest`, `state = rate * state + 1`, and their ratio | `FindMovingAverageAbsMaxFunctor` |
//! | MXNet 1.9.1, `_contrib_quantize`, `_contrib_requantize` | the greatest magnitude of the range becomes 127 or 255, also of a range that does not begin at 0; halves to even; -128 is used | run by oneDNN |
//! | MXNet 1.9.1, `_contrib_quantize_v2`, `_contrib_dequantize`, sums, `_contrib_quantized_batch_norm` | it becomes 127.5 or 255.5 | run by oneDNN |
//! | MXNet 1.9.1, ranges of results | calibrated ones as they are; of sums, both ranges added; of `_contrib_quantize` and `_v2` to int8, symmetric; of `_contrib_requantize` to uint8, from 0 | run by oneDNN |
//! | MXNet 1.9.1, products | a step is `range / 127 * range / 127`, with 255 for data of uint8, but not in `_contrib_quantized_conv` | run by oneDNN |
//! | MXNet 1.9.1, `_contrib_quantized_elemwise_mul` | int8 only; a product is `range / 127.5 * range / 127.5`, calibrated results are 127.5 of the range, cut to integers | run |
//! | MXNet 1.9.1, `_contrib_quantized_batch_norm` | uint8 becomes int8 before; numbers are divided by the root of 1 and epsilon besides | `mkldnn_quantized_batch_norm.cc`; run |
//! | MXNet 1.9.1, biases | of `_contrib_quantized_fully_connected` from steps of 127.5 and 255.5, cut to integers; `_contrib_quantized_conv` of uint8 adds the integers as they are | run by oneDNN |
//! | MXNet 1.9.1, `_contrib_quantized_conv` of int8 | steps of 127, as of products: only GPUs run it | `quantized_conv.cu` |
//! | MXNet 1.9.1, `_contrib_quantize_asym` | `x * scale + shift`, and the integer below that and 0.5 | `quantize_asym-inl.h` |
//! | MXNet 1.9.1, `_contrib_quantized_rnn` | `x * scale + shift`, halves to even; weights by row, the greatest magnitude becomes 127 | recorded `quantized_rnn` |
//! | PyTorch 2.15, `fake_quantize_*`, `quantized_decomposed::quantize_*` | multiplied by the inverse, halves to even, the zero point added, then clipped | `QuantizedOpKernels.cpp`, `fx/_decomposed.py`; run |
//! | PyTorch 2.15, zero points that are floats | added before rounding | `_fake_quant_per_channel_cachemask_cpu_helper`; run |
//! | PyTorch 2.15, `choose_qparams` | from the range of elements and 0; the scale is at least `eps`; the zero point is clipped | `determine_qparams` |
//! | Caffe2, `Int8*` | `uint8`, divided by the scale, halves to even, the zero point added, then clipped; of biases, `int32` and the product of the others' scales | `QuantizeUint8` in `int8_utils.h`; run |
//! | Caffe2, `Int8FC` with `dequantize_output` | rows by their greatest magnitude, which becomes 127; of zeros, the scale is 0.1 | Glow's `Caffe2ModelLoader.cpp` |
//! | Caffe2, `quantize_groupwise` | a scale and an offset for each channel, beside the filter | Glow's `Caffe2ModelLoader.cpp` |
//! | Glow's loader of Caffe2 | both with `int8`, less by 128 | the same |
//! | Glow | divided by the scale, the offset added, halves to even, then clipped; offsets have 32 bits | `Quantization/Base/Base.h` |
//!
//! ONNX's `QuantizeLinear` divides, rounds halves to even, adds the zero point, and clips to the type. It stands for the others
//! where only results of floats that are exact halves differ, and runtimes compute with integers because of it. Integers of
//! numbers that are not finite are those of the runtime.

use std::ops::RangeInclusive;

use lodstone_model::{DType, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;
use lodstone_store::Blob;

use super::{Graph, Value, int};

type Outcome<T = Value> = Result<T, Finding>;

/// The least largest magnitude that a step is derived from, so that no step is 0.
pub(crate) const LEAST_MAGNITUDE: f64 = 1e-30;

/// Returns the integers of a type.
fn integers(dtype: DType) -> Outcome<RangeInclusive<i64>> {
    match dtype {
        DType::Int8 => Ok(i8::MIN.into()..=i8::MAX.into()),
        DType::Uint8 => Ok(0..=u8::MAX.into()),
        DType::Int16 => Ok(i16::MIN.into()..=i16::MAX.into()),
        DType::Int32 => Ok(i32::MIN.into()..=i32::MAX.into()),
        DType::Int64 => Ok(i64::MIN..=i64::MAX),
        other => Err(format!("expected quantized integers, found {other}").into()),
    }
}

/// The least and the greatest integer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

impl Bounds {
    /// The greatest `f64` within 64 bits.
    const GREATEST_LONG: f64 = 9_223_372_036_854_774_784.0;

    /// Creates bounds.
    ///
    /// # Errors
    /// If the least integer exceeds the greatest.
    pub(crate) fn new(least: f64, greatest: f64) -> Outcome<Self> {
        match least <= greatest {
            true => Ok(Self { least, greatest }),
            false => Err(format!("expected integers up to {greatest}, found {least}").into()),
        }
    }

    /// Returns the bounds of a type.
    #[expect(clippy::cast_precision_loss, reason = "integers of up to 32 bits, or powers of 2")]
    pub(crate) fn of(dtype: DType) -> Outcome<Self> {
        let all = integers(dtype)?;
        let greatest = (*all.end() as f64).min(Self::GREATEST_LONG);
        Ok(Self { least: *all.start() as f64, greatest })
    }

    /// Returns the bounds of signed integers with a number of bits, from 2 to 16.
    pub(crate) fn of_bits(bits: i64) -> Outcome<Self> {
        let exponent = i32::try_from(bits).ok().filter(|bits| (2..=16).contains(bits));
        let found = || Finding::from(format!("expected 2 to 16 bits, found {bits}"));
        let limit = 2_f64.powi(exponent.ok_or_else(found)? - 1);
        Ok(Self { least: -limit, greatest: limit - 1.0 })
    }

    /// Returns the bounds, which must be within those of a type.
    pub(crate) fn within(self, dtype: DType) -> Outcome<Self> {
        let all = Self::of(dtype)?;
        match self.least >= all.least && self.greatest <= all.greatest {
            true => Ok(self),
            false => {
                let Self { least, greatest } = self;
                Err(format!("expected integers of {dtype}, found {least} to {greatest}").into())
            }
        }
    }
}

/// How numbers become integers, in which order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rounding {
    /// Halves are rounded to even, and the zero point is added.
    Even,
    /// The zero point is added, and halves are rounded to even.
    EvenAfterZero,
    /// The zero point is added, and halves are rounded up.
    UpAfterZero,
    /// Halves are rounded away from 0, and the zero point is added.
    Away,
    /// Numbers are rounded towards 0, and the zero point is added.
    Cut,
}

/// How numbers are scaled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scale<'v> {
    DivideBy(&'v Value),
    MultiplyBy(&'v Value),
}

/// The grid of a quantized tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Grid {
    pub(crate) scale: f32,
    pub(crate) zero: i64,
    pub(crate) dtype: DType,
}

impl Grid {
    /// Creates a grid.
    ///
    /// # Errors
    /// If the scale is not positive, or the type does not have the zero point.
    pub(crate) fn new(scale: f32, zero: i64, dtype: DType) -> Outcome<Self> {
        let all = integers(dtype)?;
        if !scale.is_finite() || scale <= 0.0 {
            return Err(format!("expected a positive scale, found {scale}").into());
        }
        match all.contains(&zero) {
            true => Ok(Self { scale, zero, dtype }),
            false => Err(format!("expected a zero point of {dtype}, found {zero}").into()),
        }
    }

    /// Whether ONNX's `DequantizeLinear` has the grid. It has no 64 bits, and no zero point of 32 bits but 0.
    pub(crate) fn is_linear(&self) -> bool {
        match self.dtype {
            DType::Int32 => self.zero == 0,
            DType::Int64 => false,
            dtype => integers(dtype).is_ok_and(|all| all.contains(&self.zero)),
        }
    }
}

impl Graph {
    fn zero_of(&mut self, grid: Grid) -> Outcome {
        #[expect(clippy::cast_precision_loss, reason = "zero points have at most 32 bits")]
        self.number(grid.dtype, grid.zero as f64)
    }

    /// Returns the integers of numbers.
    pub(crate) fn quantized(&mut self, x: &Value, grid: Grid) -> Outcome {
        let scale = self.number(DType::Float32, f64::from(grid.scale))?;
        if grid.is_linear() && grid.dtype != DType::Int32 {
            let zero = self.zero_of(grid)?;
            return self.call("QuantizeLinear", &[x, &scale, &zero], []);
        }
        // `float64` holds every 32-bit integer.
        let steps = self.div(x, &scale)?;
        let steps = self.cast(&steps, DType::Float64)?;
        #[expect(clippy::cast_precision_loss, reason = "zero points have at most 32 bits")]
        let steps = self.plus(&steps, grid.zero as f64)?;
        let steps = self.call("Round", &[&steps], [])?;
        self.bounded(&steps, Bounds::of(grid.dtype)?, grid.dtype)
    }

    /// Returns the numbers of integers.
    pub(crate) fn dequantized(&mut self, x: &Value, grid: Grid) -> Outcome {
        let scale = self.number(DType::Float32, f64::from(grid.scale))?;
        match grid.dtype {
            _ if !grid.is_linear() => self.spelled(x, grid.zero, &scale),
            DType::Int32 => self.call("DequantizeLinear", &[x, &scale], []),
            _ => {
                let zero = self.zero_of(grid)?;
                self.call("DequantizeLinear", &[x, &scale, &zero], [])
            }
        }
    }

    /// Returns the numbers of integers by arithmetic.
    fn spelled(&mut self, x: &Value, zero: i64, scale: &Value) -> Outcome {
        let wide = self.cast(x, DType::Int64)?;
        let zero = self.long(zero);
        let steps = self.sub(&wide, &zero)?;
        let steps = self.cast(&steps, DType::Float32)?;
        self.mul(&steps, scale)
    }

    /// Returns the numbers of the addend of a product, whose factors have scales with this product, if they are known.
    ///
    /// Runtimes that see `DequantizeLinear` of 32 bits there assume, without checking, that its scale is the product of
    /// the others; if it is not, the addend is dequantized by arithmetic.
    pub(crate) fn addend(&mut self, x: &Value, grid: Grid, product: Option<f32>) -> Outcome {
        if grid.dtype != DType::Int32 || product == Some(grid.scale) {
            return self.dequantized(x, grid);
        }
        let scale = self.number(DType::Float32, f64::from(grid.scale))?;
        self.spelled(x, grid.zero, &scale)
    }

    /// Returns the numbers of integers with a scale and an offset for each index of the first dim: `[rows, ..]`.
    ///
    /// Zero points of `DequantizeLinear` have the type of the integers; offsets are wider.
    pub(crate) fn dequantized_rows(
        &mut self,
        x: &Value,
        scales: &Value,
        offsets: &Value,
    ) -> Outcome {
        let wide = self.cast(x, DType::Int32)?;
        let offsets = self.cast(offsets, DType::Int32)?;
        let (offsets, scales) = (self.along_rows(&offsets, x)?, self.along_rows(scales, x)?);
        let steps = self.sub(&wide, &offsets)?;
        let steps = self.cast(&steps, DType::Float32)?;
        self.mul(&steps, &scales)
    }

    /// Returns the numbers of integers by row, whose offsets are known, with `DequantizeLinear` if zero points can be these.
    pub(crate) fn dequantized_rows_by(
        &mut self,
        x: &Value,
        scales: &Value,
        offsets: (&Value, Option<Vec<i32>>),
    ) -> Outcome {
        let (offsets, known) = offsets;
        let narrow = |offset: &i32| i8::try_from(*offset).map(i8::cast_unsigned).ok();
        let known = known.filter(|_| x.dtype() == DType::Int8);
        let zeros: Option<Vec<u8>> = known.and_then(|all| all.iter().map(narrow).collect());
        let Some(zeros) = zeros else { return self.dequantized_rows(x, scales, offsets) };
        let dims = vec![length(zeros.len()).cast_unsigned()];
        let tensor = Tensor::dense(DType::Int8, dims, Blob::memory(zeros));
        let zeros = self.tensor(tensor, offsets.name());
        self.call("DequantizeLinear", &[x, scales, &zeros], [int("axis", 0)])
    }

    /// Returns the steps of numbers.
    pub(crate) fn steps_of(
        &mut self,
        x: &Value,
        scale: Scale<'_>,
        zero: Option<&Value>,
        rounding: Rounding,
    ) -> Outcome {
        let scaled = self.rescaled(x, scale)?;
        let moved = |graph: &mut Self, steps: Value| match zero {
            Some(zero) => graph.add(&steps, zero),
            None => Ok(steps),
        };
        match rounding {
            Rounding::Even => {
                let whole = self.call("Round", &[&scaled], [])?;
                moved(self, whole)
            }
            Rounding::Away => {
                let whole = self.rounded_away(&scaled)?;
                moved(self, whole)
            }
            Rounding::Cut => {
                let size = self.call("Abs", &[&scaled], [])?;
                let size = self.call("Floor", &[&size], [])?;
                let sign = self.call("Sign", &[&scaled], [])?;
                let whole = self.mul(&size, &sign)?;
                moved(self, whole)
            }
            Rounding::EvenAfterZero => {
                let steps = moved(self, scaled)?;
                self.call("Round", &[&steps], [])
            }
            Rounding::UpAfterZero => {
                let steps = moved(self, scaled)?;
                let steps = self.plus(&steps, 0.5)?;
                self.call("Floor", &[&steps], [])
            }
        }
    }

    fn rescaled(&mut self, x: &Value, scale: Scale<'_>) -> Outcome {
        match scale {
            Scale::DivideBy(scale) => self.div(x, scale),
            Scale::MultiplyBy(scale) => self.mul(x, scale),
        }
    }

    /// Rounds halves away from 0.
    fn rounded_away(&mut self, x: &Value) -> Outcome {
        let size = self.call("Abs", &[x], [])?;
        let whole = self.call("Floor", &[&size], [])?;
        let rest = self.sub(&size, &whole)?;
        let half = self.number(x.dtype(), 0.5)?;
        let is_up = self.call("GreaterOrEqual", &[&rest, &half], [])?;
        let up = self.cast(&is_up, x.dtype())?;
        let size = self.add(&whole, &up)?;
        let sign = self.call("Sign", &[x], [])?;
        self.mul(&size, &sign)
    }

    /// Returns steps clipped to bounds, as integers of a type.
    pub(crate) fn bounded(&mut self, steps: &Value, bounds: Bounds, to: DType) -> Outcome {
        let steps = self.clamp(steps, bounds.least, bounds.greatest)?;
        self.cast(&steps, to)
    }

    /// Returns the numbers of steps.
    pub(crate) fn numbers_of(
        &mut self,
        steps: &Value,
        zero: Option<&Value>,
        scale: Scale<'_>,
    ) -> Outcome {
        match zero {
            Some(zero) => {
                let steps = self.sub(steps, zero)?;
                self.rescaled(&steps, scale)
            }
            None => self.rescaled(steps, scale),
        }
    }

    /// Returns the greatest magnitude over axes.
    pub(crate) fn magnitude(&mut self, x: &Value, axes: &[i64], keep: bool) -> Outcome {
        let sizes = self.call("Abs", &[x], [])?;
        if axes.is_empty() {
            return Ok(sizes);
        }
        self.reduce("ReduceMax", &sizes, axes, keep)
    }

    /// Returns the least and the greatest of elements and 0, over axes.
    pub(crate) fn range_with_zero(
        &mut self,
        x: &Value,
        axes: &[i64],
        keep: bool,
    ) -> Outcome<[Value; 2]> {
        let least = self.reduce("ReduceMin", x, axes, keep)?;
        let most = self.reduce("ReduceMax", x, axes, keep)?;
        let zero = self.number(x.dtype(), 0.0)?;
        Ok([self.call("Min", &[&least, &zero], [])?, self.call("Max", &[&most, &zero], [])?])
    }

    /// Returns `any` in place of a scale that is 0: of zeros, any will do.
    pub(crate) fn unless_zero(&mut self, scale: &Value, any: f64) -> Outcome {
        let zero = self.number(scale.dtype(), 0.0)?;
        let any = self.number(scale.dtype(), any)?;
        let is_zero = self.call("Equal", &[scale, &zero], [])?;
        self.choose(&is_zero, &any, scale)
    }

    /// Returns the distance of two numbers with neighboring integers, if the magnitude becomes the greatest integer: a number,
    /// or a list.
    pub(crate) fn step_of(&mut self, magnitude: &Value, greatest: f64, is_list: bool) -> Outcome {
        let least = self.number(magnitude.dtype(), LEAST_MAGNITUDE)?;
        let magnitude = self.call("Max", &[magnitude, &least], [])?;
        let greatest = self.number(magnitude.dtype(), greatest)?;
        let step = self.div(&magnitude, &greatest)?;
        self.reshape(&step, if is_list { &[-1] } else { &[] })
    }

    /// Applies ONNX's `QuantizeLinear` or `DequantizeLinear` to signed integers of 8 bits around 0.
    pub(crate) fn linear(
        &mut self,
        kind: &str,
        x: &Value,
        step: &Value,
        axis: Option<i64>,
    ) -> Outcome {
        let zero = match step.known_dims() {
            Some(dims) if dims.is_empty() => self.number(DType::Int8, 0.0)?,
            Some(dims) => self.filled(DType::Int8, 0.0, &dims)?,
            None => {
                let zero = self.times(step, 0.0)?;
                self.cast(&zero, DType::Int8)?
            }
        };
        let axis = axis.map(|axis| int("axis", axis));
        let [y] = self.emit_all(kind, &[Some(x), Some(step), Some(&zero)], axis)?;
        Ok(y)
    }

    /// Returns the numbers of integers of which the greatest stands for a magnitude.
    pub(crate) fn fractions(
        &mut self,
        steps: &Value,
        magnitudes: &[&Value],
        greatest: f64,
    ) -> Outcome {
        let mut all = steps.clone();
        for magnitude in magnitudes {
            all = self.mul(&all, magnitude)?;
        }
        let greatest = self.number(all.dtype(), greatest)?;
        self.div(&all, &greatest)
    }
}

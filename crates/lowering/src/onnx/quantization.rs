//! Grids of quantized numbers: an integer `q` stands for `(q - zero) * scale`.
//!
//! | framework | grid | rounding | by |
//! |---|---|---|---|
//! | Caffe2, `Int8*` | `uint8`, scale and zero point of the tensor; of biases, `int32` and the product of the others' scales | halves to even | `int8_quantize_op.h`; recorded `int8` |
//! | Caffe2, `quantize_groupwise` | a scale and an offset for each channel, beside the filter | | Glow's `Caffe2ModelLoader.cpp` |
//! | Glow's loader of Caffe2 | both with `int8`, less by 128 | | the same |

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::{Graph, Value};

type Outcome<T = Value> = Result<T, Finding>;

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
        let range = match dtype {
            DType::Uint8 => 0..=255,
            DType::Int8 => -128..=127,
            DType::Int32 => i64::from(i32::MIN)..=i64::from(i32::MAX),
            other => return Err(format!("expected quantized integers, found {other}").into()),
        };
        if !scale.is_finite() || scale <= 0.0 {
            return Err(format!("expected a positive scale, found {scale}").into());
        }
        match range.contains(&zero) {
            true => Ok(Self { scale, zero, dtype }),
            false => Err(format!("expected a zero point of {dtype}, found {zero}").into()),
        }
    }
}

impl Graph {
    fn scale_and_zero(&mut self, grid: Grid) -> Outcome<[Value; 2]> {
        let scale = self.number(DType::Float32, f64::from(grid.scale))?;
        #[expect(clippy::cast_precision_loss, reason = "zero points are small")]
        let zero = self.number(grid.dtype, grid.zero as f64)?;
        Ok([scale, zero])
    }

    /// Returns the integers of numbers.
    pub(crate) fn quantized(&mut self, x: &Value, grid: Grid) -> Outcome {
        let [scale, zero] = self.scale_and_zero(grid)?;
        self.call("QuantizeLinear", &[x, &scale, &zero], [])
    }

    /// Returns the numbers of integers.
    pub(crate) fn dequantized(&mut self, x: &Value, grid: Grid) -> Outcome {
        let [scale, zero] = self.scale_and_zero(grid)?;
        self.call("DequantizeLinear", &[x, &scale, &zero], [])
    }
}

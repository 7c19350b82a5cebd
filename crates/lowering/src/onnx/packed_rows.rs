//! Tables whose rows are integers with a scale and an offset: `number = integer * scale + offset`.
//!
//! | operator | a row | by |
//! |---|---|---|
//! | Caffe2, `Fused8BitRowwise` | bytes, then scale and offset as floats of 32 bits | `fused_rowwise_8bit_conversion_ops.h` |
//! | Caffe2, `Fused4BitRowwise` | halves of bytes, the low one first, then scale and offset as floats of 16 bits | `fused_rowwise_nbit_conversion_ops.h` |
//! | Caffe2, `8BitsRowwise` | bytes; scale and offset are a row of another table | `lengths_reducer_rowwise_8bit_ops.h` |
//! | Glow | the same, where scales and offsets that are apart are two vectors | `Base.h`, `ElemKind` |

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::required::required_dim;
use super::{Graph, Value};

type Outcome<T = Value> = Result<T, Finding>;

/// How rows are packed that end with their scale and their offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    /// The bits of an integer: 4 or 8.
    pub(crate) bits: i64,
    /// The size in bytes of scale and offset: 2 or 4.
    pub(crate) size: i64,
}

impl Packing {
    /// Returns the number of bytes of the integers of a row.
    ///
    /// # Errors
    /// If the row is too short.
    pub(crate) fn bytes(self, width: i64) -> Outcome<i64> {
        match width - 2 * self.size {
            bytes if bytes >= 0 => Ok(bytes),
            _ => Err("the rows are too short for a scale and an offset".into()),
        }
    }
}

impl Graph {
    /// Returns the numbers of rows of bytes: `[rows, width]` become `[rows, numbers]`.
    pub(crate) fn unpacked_rows(&mut self, rows: &Value, packing: Packing) -> Outcome {
        let width = required_dim(rows, 1)?;
        let elements = packing.bytes(width)?;
        let bytes = self.slice(rows, 1, 0, elements)?;
        let mut values = self.cast(&bytes, DType::Float32)?;
        if packing.bits == 4 {
            values = self.halves(&values, elements)?;
        }
        let scale = self.slice(rows, 1, elements, elements + packing.size)?;
        let scale = self.number_of_bytes(&scale, packing.size)?;
        let offset = self.slice(rows, 1, elements + packing.size, width)?;
        let offset = self.number_of_bytes(&offset, packing.size)?;
        let values = self.mul(&values, &scale)?;
        self.add(&values, &offset)
    }

    /// Both halves of each byte, the low one first.
    fn halves(&mut self, bytes: &Value, count: i64) -> Outcome {
        let sixteenth = self.times(bytes, 1.0 / 16.0)?;
        let high = self.call("Floor", &[&sixteenth], [])?;
        let shifted = self.times(&high, 16.0)?;
        let low = self.sub(bytes, &shifted)?;
        let (low, high) = (self.unsqueeze(&low, &[2])?, self.unsqueeze(&high, &[2])?);
        let both = self.concat(&[&low, &high], 2)?;
        let rows = bytes.size(0)?;
        match rows {
            Some(rows) => self.reshape(&both, &[rows, count.saturating_mul(2)]),
            None => self.reshape(&both, &[-1, count.saturating_mul(2)]),
        }
    }

    /// Decodes the float in the four or two bytes of each row: `[rows, bytes]` become `[rows, 1]`.
    ///
    /// ONNX has no operator for it. Sign, exponent and fraction are extracted by division; `float64` holds all intermediate
    /// values exactly.
    fn number_of_bytes(&mut self, bytes: &Value, size: i64) -> Outcome {
        // The number of bytes, the bits of the fraction, the exponent bias.
        let (count, fraction_bits, bias) = match size {
            4 => (4, 23, 127.0),
            2 => (2, 10, 15.0),
            _ => return Err(Finding::internal(format!("no float has {size} bytes"))),
        };
        let places: Vec<f32> = (0..count).map(|byte| 256f32.powi(byte)).collect();
        let places = self.singles(&places);
        let places = self.cast(&places, DType::Float64)?;
        let bits = self.cast(bytes, DType::Float64)?;
        let bits = self.mul(&bits, &places)?;
        let bits = self.reduce("ReduceSum", &bits, &[1], true)?;
        let (sign, bits) = self.split_at_power(&bits, 2f64.powi(8 * count - 1))?;
        let unit = 2f64.powi(fraction_bits);
        let (exponent, fraction) = self.split_at_power(&bits, unit)?;
        let fraction = self.times(&fraction, 1.0 / unit)?;
        // Subnormal values have no leading one, and the exponent of the smallest normal value.
        let zero = self.number(DType::Float64, 0.0)?;
        let one = self.number(DType::Float64, 1.0)?;
        let is_small = self.call("Equal", &[&exponent, &zero], [])?;
        let leading = self.choose(&is_small, &zero, &one)?;
        let exponent = self.call("Max", &[&exponent, &one], [])?;
        let exponent = self.plus(&exponent, -bias)?;
        let two = self.number(DType::Float64, 2.0)?;
        let power = self.call("Pow", &[&two, &exponent], [])?;
        let size = self.add(&leading, &fraction)?;
        let size = self.mul(&size, &power)?;
        let sign = self.times(&sign, -2.0)?;
        let sign = self.plus(&sign, 1.0)?;
        let number = self.mul(&size, &sign)?;
        self.cast(&number, DType::Float32)
    }

    /// Splits integers into the parts above and below a power of two.
    fn split_at_power(&mut self, value: &Value, power: f64) -> Outcome<(Value, Value)> {
        let above = self.times(value, 1.0 / power)?;
        let above = self.call("Floor", &[&above], [])?;
        let taken = self.times(&above, power)?;
        let below = self.sub(value, &taken)?;
        Ok((above, below))
    }
}

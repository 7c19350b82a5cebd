//! Small constants that operators use. Equal constants are stored once.

use bytes::Bytes;
use half::{bf16, f16};
use lodstone_model::{DType, Parameter, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_store::Blob;

use super::{Graph, Value};

/// Constants with equal keys are equal.
pub(super) type Key = (DType, Vec<u64>, Bytes);

impl Graph {
    /// Adds a list of integers.
    pub(crate) fn longs(&mut self, values: &[i64]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(DType::Int64, vec![values.len() as u64], bytes)
    }

    /// Adds a list of floats.
    pub(crate) fn singles(&mut self, values: &[f32]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(DType::Float32, vec![values.len() as u64], bytes)
    }

    /// Adds a matrix of floats: all of a row, then of the next one.
    pub(crate) fn matrix(&mut self, values: &[f32], dims: [u64; 2]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(DType::Float32, dims.to_vec(), bytes)
    }

    /// Adds a matrix of Booleans.
    pub(crate) fn flags(&mut self, values: &[bool], dims: [u64; 2]) -> Value {
        let bytes = values.iter().map(|value| u8::from(*value)).collect();
        self.constant(DType::Bool, dims.to_vec(), bytes)
    }

    /// Adds a list of floats of 64 bits.
    pub(crate) fn doubles(&mut self, values: &[f64]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(DType::Float64, vec![values.len() as u64], bytes)
    }

    /// Adds an integer scalar.
    pub(crate) fn long(&mut self, value: i64) -> Value {
        self.constant(DType::Int64, Vec::new(), value.to_le_bytes().to_vec())
    }

    /// Adds a scalar of a type; values that the type cannot hold are rounded or clamped.
    ///
    /// # Errors
    /// If the type is not numeric.
    pub(crate) fn number(&mut self, dtype: DType, value: f64) -> Result<Value, Finding> {
        let bytes = encoded(dtype, value)
            .ok_or_else(|| format!("expected a numeric type, found {dtype}"))?;
        Ok(self.constant(dtype, Vec::new(), bytes))
    }

    /// Returns a list of one value of a type.
    ///
    /// # Errors
    /// If the type is not numeric.
    pub(crate) fn one_number(&mut self, dtype: DType, value: f64) -> Result<Tensor, Finding> {
        let bytes = encoded(dtype, value)
            .ok_or_else(|| format!("expected a numeric type, found {dtype}"))?;
        Ok(Tensor::dense(dtype, vec![1], Blob::memory(bytes)))
    }

    fn constant(&mut self, dtype: DType, shape: Vec<u64>, bytes: Vec<u8>) -> Value {
        let bytes = Bytes::from(bytes);
        let key = (dtype, shape.clone(), bytes.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let value = self.tensor(Tensor::dense(dtype, shape, Blob::memory(bytes)), "constant");
        self.recent.push(key.clone());
        self.known.insert(key, value.clone());
        value
    }

    /// Adds a tensor, with a name derived from `base`.
    pub(crate) fn tensor(&mut self, tensor: Tensor, base: &str) -> Value {
        let name = self.names.fresh(base);
        let value = Value::new(&name, ValueInfo::of(&tensor));
        self.constants.push(Parameter { name, tensor });
        value
    }
}

/// Returns the bytes of a value of a type.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate, as intended"
)]
fn encoded(dtype: DType, value: f64) -> Option<Vec<u8>> {
    Some(match dtype {
        DType::Bool => vec![u8::from(value != 0.0)],
        DType::Int8 => (value as i8).to_le_bytes().to_vec(),
        DType::Uint8 => (value as u8).to_le_bytes().to_vec(),
        DType::Int16 => (value as i16).to_le_bytes().to_vec(),
        DType::Int32 => (value as i32).to_le_bytes().to_vec(),
        DType::Int64 => (value as i64).to_le_bytes().to_vec(),
        DType::Float16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::BFloat16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        DType::Float32 => (value as f32).to_le_bytes().to_vec(),
        DType::Float64 => value.to_le_bytes().to_vec(),
        _ => return None,
    })
}

//! Values of ONNX Runtime.

use std::hash::Hash;

use bytes::Bytes;
use half::{bf16, f16};
use lodstone_model::{DType, Kind, Tensor};
use lodstone_store::Blob;
use ort::value::{
    DynTensor, DynValue, DynValueTypeMarker, IntoTensorElementType, PrimitiveTensorElementType,
    Sequence, Shape, TensorElementType, ValueType,
};

use crate::run::Value;

/// An element of a tensor, as little-endian bytes.
trait Element: PrimitiveTensorElementType + Copy + std::fmt::Debug + 'static {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, into: &mut [u8]);
}

macro_rules! elements {
    ($($type:ty),*) => { $(
        impl Element for $type {
            fn read(bytes: &[u8]) -> Self {
                bytes.try_into().map(Self::from_le_bytes).unwrap_or_default()
            }

            fn write(self, into: &mut [u8]) {
                into.copy_from_slice(&self.to_le_bytes());
            }
        }
    )* };
}

elements!(f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8);

impl Element for bool {
    fn read(bytes: &[u8]) -> Self {
        bytes != [0]
    }

    fn write(self, into: &mut [u8]) {
        into.copy_from_slice(&[self.into()]);
    }
}

/// The dims and bytes of a tensor.
type Elements = (Shape, Vec<u8>);

/// The conversions of an element type.
struct Conversion {
    dtype: DType,
    theirs: TensorElementType,
    input: fn(Vec<i64>, &[u8]) -> ort::Result<DynValue>,
    output: fn(&DynValue) -> ort::Result<Elements>,
}

fn conversion<T: Element>(dtype: DType, theirs: TensorElementType) -> Conversion {
    Conversion {
        dtype,
        theirs,
        input: |shape, bytes| {
            let elements: Vec<T> = bytes.chunks_exact(size_of::<T>()).map(T::read).collect();
            Ok(ort::value::Tensor::from_array((shape, elements))?.into_dyn())
        },
        output: |tensor| {
            let (shape, elements) = tensor.try_extract_tensor::<T>()?;
            let mut bytes = vec![0; size_of_val(elements)];
            let places = bytes.chunks_exact_mut(size_of::<T>());
            elements.iter().zip(places).for_each(|(element, into)| element.write(into));
            Ok((shape.clone(), bytes))
        },
    }
}

fn conversions() -> [Conversion; 13] {
    use TensorElementType as T;
    [
        conversion::<f64>(DType::Float64, T::Float64),
        conversion::<f32>(DType::Float32, T::Float32),
        conversion::<f16>(DType::Float16, T::Float16),
        conversion::<bf16>(DType::BFloat16, T::Bfloat16),
        conversion::<i64>(DType::Int64, T::Int64),
        conversion::<i32>(DType::Int32, T::Int32),
        conversion::<i16>(DType::Int16, T::Int16),
        conversion::<i8>(DType::Int8, T::Int8),
        conversion::<u64>(DType::Uint64, T::Uint64),
        conversion::<u32>(DType::Uint32, T::Uint32),
        conversion::<u16>(DType::Uint16, T::Uint16),
        conversion::<u8>(DType::Uint8, T::Uint8),
        conversion::<bool>(DType::Bool, T::Bool),
    ]
}

/// Converts an input.
pub(super) fn input(value: &Value) -> Result<DynValue, String> {
    match value {
        Value::Tensor(tensor) => input_tensor(tensor),
        Value::Sequence(values) => {
            let values =
                values.iter().map(|value| input(value)?.downcast().map_err(|it| it.to_string()));
            let values = values.collect::<Result<Vec<DynTensor>, String>>()?;
            Ok(Sequence::new(values).map_err(|error| error.to_string())?.into_dyn())
        }
        Value::Map { .. } | Value::Absent => Err("expected a tensor or a sequence".to_owned()),
    }
}

fn input_tensor(tensor: &Tensor) -> Result<DynValue, String> {
    let dims = tensor.shape.iter().map(|dim| i64::try_from(*dim));
    let shape: Vec<i64> = dims.collect::<Result<_, _>>().map_err(|_| "it is too large")?;
    let failed = |error: ort::Error| error.to_string();
    match &tensor.kind {
        Kind::Strings { elements } => {
            let text = |text: &Bytes| String::from_utf8(text.to_vec());
            let texts = elements.iter().map(text).collect::<Result<Vec<_>, _>>();
            let texts = texts.map_err(|_| "ONNX Runtime takes only strings in UTF-8")?;
            let tensor = ort::value::Tensor::from_string_array((shape, texts.as_slice()));
            Ok(tensor.map_err(failed)?.into_dyn())
        }
        Kind::Dense => {
            let known = conversions().into_iter().find(|it| it.dtype == tensor.dtype);
            let known =
                known.ok_or_else(|| format!("the type {} is not supported", tensor.dtype))?;
            let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
            (known.input)(shape, &bytes).map_err(failed)
        }
        kind => Err(format!("expected a dense tensor, found {}", kind.name())),
    }
}

/// Converts an output.
pub(super) fn output(value: &DynValue) -> Result<Value, String> {
    let failed = |error: ort::Error| error.to_string();
    match value.dtype() {
        ValueType::Tensor { ty, .. } => Ok(Value::Tensor(tensor(value, *ty)?)),
        ValueType::Sequence(_) => {
            let values = value.try_extract_sequence::<DynValueTypeMarker>().map_err(failed)?;
            Ok(Value::Sequence(values.iter().map(output).collect::<Result<_, _>>()?))
        }
        ValueType::Optional(_) => Ok(Value::Absent),
        ValueType::Map { key, value: kind } => map(value, *key, *kind),
    }
}

/// Converts a map. Of the types that ONNX Runtime allows, these are the ones that operators return.
fn map(value: &DynValue, key: TensorElementType, kind: TensorElementType) -> Result<Value, String> {
    use TensorElementType as T;
    match (key, kind) {
        (T::Int64, T::Float32) => entries::<i64, f32>(value, DType::Float32, long_keys),
        (T::Int64, T::Float64) => entries::<i64, f64>(value, DType::Float64, long_keys),
        (T::Int64, T::Int64) => entries::<i64, i64>(value, DType::Int64, long_keys),
        (T::String, T::Float32) => entries::<String, f32>(value, DType::Float32, string_keys),
        (T::String, T::Float64) => entries::<String, f64>(value, DType::Float64, string_keys),
        (T::String, T::Int64) => entries::<String, i64>(value, DType::Int64, string_keys),
        _ => Err(format!("maps from {key:?} to {kind:?} are not supported")),
    }
}

fn entries<K: IntoTensorElementType + Clone + Hash + Eq, V: Element>(
    map: &DynValue,
    dtype: DType,
    keys: fn(Vec<K>) -> Tensor,
) -> Result<Value, String> {
    let entries = map.try_extract_key_values::<K, V>().map_err(|error| error.to_string())?;
    let (names, values): (Vec<K>, Vec<V>) = entries.into_iter().unzip();
    let value = |value: V| {
        let mut bytes = vec![0; size_of::<V>()];
        value.write(&mut bytes);
        Value::Tensor(Tensor::dense(dtype, Vec::new(), Blob::memory(bytes)))
    };
    Ok(Value::Map { keys: keys(names), values: values.into_iter().map(value).collect() })
}

fn long_keys(keys: Vec<i64>) -> Tensor {
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    Tensor::dense(DType::Int64, vec![keys.len() as u64], Blob::memory(bytes))
}

fn string_keys(keys: Vec<String>) -> Tensor {
    let mut tensor = Tensor::dense(DType::String, vec![keys.len() as u64], Blob::default());
    tensor.kind = Kind::Strings { elements: keys.into_iter().map(Bytes::from).collect() };
    tensor
}

fn tensor(value: &DynValue, kind: TensorElementType) -> Result<Tensor, String> {
    let failed = |error: ort::Error| error.to_string();
    let dims = |shape: &Shape| shape.iter().map(|dim| dim.unsigned_abs()).collect::<Vec<u64>>();
    if kind == TensorElementType::String {
        let (shape, texts) = value.try_extract_strings().map_err(failed)?;
        let mut strings = Tensor::dense(DType::String, dims(shape), Blob::default());
        strings.kind = Kind::Strings { elements: texts.into_iter().map(Bytes::from).collect() };
        return Ok(strings);
    }
    let known = conversions().into_iter().find(|it| it.theirs == kind);
    let known = known.ok_or_else(|| format!("the type {kind:?} is not supported"))?;
    let (shape, bytes) = (known.output)(value).map_err(failed)?;
    Ok(Tensor::dense(known.dtype, dims(&shape), Blob::memory(bytes)))
}

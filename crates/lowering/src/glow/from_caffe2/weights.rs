//! Inputs and weights: their types in Glow.

use lodstone_model::{AttributeValue, Block, DType, Kind, Op, Tensor, Var};
use lodstone_schema::glow::{ElemKind, Storage, Type};
use lodstone_schema::numbers::{exact, known_dims};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::{Code, Finding};

use crate::caffe2::inputs::dtype_by_use;
use crate::caffe2::signed::{SHIFT, signed};
use crate::glow::from_onnx::graph::{Graph, Value, checked, kind_of};
use crate::glow::from_onnx::op::Entry;

/// Whether a fill is a constant of the model.
pub(super) fn is_stored(op: &Op, tensor: &Tensor) -> bool {
    op.input("").is_empty() && !matches!(tensor.kind, Kind::Absent) && !is_splat(op, tensor)
}

/// Whether all elements of a constant fill are still those of its operator, which becomes a node then. Large ones stay
/// constants, since all elements have to be compared.
fn is_splat(op: &Op, tensor: &Tensor) -> bool {
    /// The maximum size in bytes.
    const MAX_READ: u64 = 1 << 20;
    if op.kind != "ConstantFill" || tensor.dtype != DType::Float32 || tensor.data.len() > MAX_READ {
        return false;
    }
    let dims = match op.attribute("shape") {
        Some(AttributeValue::Longs(dims)) => dims.as_slice(),
        _ => &[],
    };
    let value = match op.attribute("value") {
        Some(AttributeValue::Float(value)) => *value,
        _ => 0.0,
    };
    let is_shaped = dims
        .iter()
        .map(|dim| u64::try_from(*dim).ok())
        .eq(tensor.shape.iter().map(|dim| Some(*dim)));
    let Ok(bytes) = tensor.data.bytes() else { return false };
    is_shaped && bytes.as_chunks::<4>().0.iter().all(|it| *it == value.to_le_bytes())
}

/// Returns the entry of a weight, which the operator `fill` fills.
///
/// # Errors
/// If its scale or zero point has another type.
pub(super) fn entry(name: &str, tensor: &Tensor, fill: Option<&Op>) -> Result<Entry, Finding> {
    let kind = fill.map_or("", |fill| fill.kind.as_str());
    let mut tensor = tensor.clone();
    let mut storage = Storage::default();
    match (kind, tensor.dtype) {
        ("Int8GivenTensorFill", DType::Uint8) => {
            let (scale, zero) = quantization(fill)?;
            tensor = signed(&tensor);
            storage.kind = Some(ElemKind::Int8Q);
            storage.quantization = Some((scale, zero.saturating_sub(SHIFT)));
        }
        ("Int8GivenIntTensorFill", DType::Int32) => {
            storage.kind = Some(ElemKind::Int32Q);
            storage.quantization = Some(quantization(fill)?);
        }
        (_, DType::Uint8) => {
            storage.kind = Some(ElemKind::UInt8Q);
            storage.quantization = Some((0.0, 0));
        }
        _ => {}
    }
    let info = ValueInfo::of(&tensor);
    Ok(Entry { name: name.to_owned(), info, tensor: Some(tensor), storage, ..Entry::default() })
}

/// Returns the scale and the zero point of a quantized fill, by default 1 and 0.
fn quantization(fill: Option<&Op>) -> Result<(f32, i32), Finding> {
    let scale = match fill.and_then(|fill| fill.attribute("Y_scale")) {
        None => 1.0,
        Some(AttributeValue::Float(scale)) => *scale,
        Some(_) => return Err("expected a float as `Y_scale`".into()),
    };
    let zero = match fill.and_then(|fill| fill.attribute("Y_zero_point")) {
        None => 0,
        Some(AttributeValue::Long(zero)) => exact(*zero)?,
        Some(_) => return Err("expected an integer as `Y_zero_point`".into()),
    };
    Ok((scale, zero))
}

/// Adds a placeholder for an input.
///
/// # Errors
/// If its shape is unknown, or Glow does not have its type.
pub(super) fn placeholder(graph: &mut Graph, var: &Var, main: &Block) -> Result<Value, Finding> {
    let declared = var.value.tensor_type();
    let dims = declared.and_then(|declared| declared.shape.as_ref());
    let Some(shape) = dims.and_then(|dims| known_dims(dims)) else {
        let what = match dims {
            None => "its shape is unknown: nets declare none",
            Some(_) => "its shape has unknown dims, which Glow does not support",
        };
        return Err(Finding::new(Code::UnknownDims, what));
    };
    let dtype = match declared.map_or(DType::Unspecified, |declared| declared.dtype) {
        DType::Unspecified => dtype_by_use(std::slice::from_ref(main), &var.name),
        dtype => dtype,
    };
    let kind = match dtype {
        // A table of rows that end with their own scales.
        DType::Uint8 => ElemKind::UInt8Q,
        dtype => kind_of(dtype).ok_or_else(|| format!("Glow has no element type {dtype}"))?,
    };
    let quantization = kind.is_quantized().then_some((1.0, 0));
    let of = checked(Type { kind, shape, strides: None, quantization })?;
    let storage = Storage { kind: Some(kind), quantization, ..Storage::default() };
    Ok(graph.placeholder(&var.name, of, storage))
}

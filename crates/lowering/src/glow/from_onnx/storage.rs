//! Inputs and constants of a program: types with scales and offsets, and storage properties.
//!
//! ONNX declares scale and offset where integers are read (`DequantizeLinear`), Glow where they are stored. A doc string
//! that Glow wrote also declares them, and takes precedence if it matches the element type.

use std::collections::HashMap;

use lodstone_model::{Block, ByteString, DType, Dim, Kind, Model, Op, Tensor, Var};
use lodstone_schema::glow::{ElemKind, Storage, Type};
use lodstone_schema::onnx::domain_name;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::{Code, Finding};

use super::graph::{Graph, Value, checked, kind_of};
use super::known::dims_from;
use crate::glow::elements::floats_of;

/// Scales and offsets of values by name, where all readers agree on them.
pub(super) type Hints<'p> = HashMap<&'p str, (f32, i32)>;

/// Returns the scales and offsets with which the readers of inputs and constants dequantize them.
pub(super) fn hints<'p>(model: &'p Model, main: &'p Block) -> Hints<'p> {
    let constants: HashMap<&str, &Tensor> =
        model.parameters.iter().map(|p| (p.name.as_str(), &p.tensor)).collect();
    let mut found: HashMap<&str, Option<(f32, i32)>> = HashMap::new();
    for op in &main.ops {
        let reads: &[usize] = match (domain_name(&op.domain), op.kind.as_str()) {
            ("ai.onnx", "DequantizeLinear") => &[0],
            ("ai.onnx", "QLinearConv" | "QLinearMatMul") => &[0, 3],
            _ => &[],
        };
        for (index, name) in op.input("").iter().enumerate() {
            let reads = reads.contains(&index);
            let parameters = reads.then(|| read_by(op, index, &constants)).flatten();
            match found.get_mut(name.as_str()) {
                Some(known) if *known != parameters => *known = None,
                Some(_) => {}
                None => drop(found.insert(name, parameters)),
            }
        }
    }
    found.into_iter().filter_map(|(name, parameters)| Some((name, parameters?))).collect()
}

/// Returns the scale and the offset that follow an operand.
fn read_by(op: &Op, operand: usize, constants: &HashMap<&str, &Tensor>) -> Option<(f32, i32)> {
    let input = |after: usize| op.input("").get(operand + after).map(String::as_str);
    let [scale] = floats_of(constants.get(input(1)?)?)?.try_into().ok()?;
    let offset = match input(2).filter(|name| !name.is_empty()) {
        Some(zero) => match ValueInfo::of(constants.get(zero)?).ints()?.as_slice() {
            [zero] => i32::try_from(*zero).ok()?,
            _ => return None,
        },
        None => 0,
    };
    Some((scale, offset))
}

/// Returns the quantized kind of an element type.
pub(super) fn quantized_kind(dtype: DType) -> Option<ElemKind> {
    Some(match dtype {
        DType::Int8 => ElemKind::Int8Q,
        DType::Uint8 => ElemKind::UInt8Q,
        DType::Int16 => ElemKind::Int16Q,
        DType::Int32 => ElemKind::Int32Q,
        _ => return None,
    })
}

/// Parses the storage properties of a doc string; `None` if it is other text.
pub(super) fn parse_storage(text: Option<&ByteString>, dtype: DType) -> Option<Storage> {
    let text = text?.to_string();
    let storage = match text.starts_with('$') {
        true => Storage::parse(&text).ok()?,
        false => of_standard(&text)?,
    };
    let kind = storage.kind?;
    (kind.dtype() == dtype && kind.is_quantized() == storage.quantization.is_some())
        .then_some(storage)
}

/// Parses the doc string that Glow's writer gives a quantized constant in ONNX's own operators: `i8:0.5:3`, or
/// just `i8` in old files.
fn of_standard(text: &str) -> Option<Storage> {
    let mut parts = text.split(':');
    let kind = ElemKind::from_name(parts.next()?).filter(|kind| kind.is_quantized())?;
    let quantization = match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => (1.0, 0),
        (Some(scale), Some(offset), None) => (scale.parse().ok()?, offset.parse().ok()?),
        _ => return None,
    };
    Some(Storage { kind: Some(kind), quantization: Some(quantization), ..Storage::default() })
}

/// Returns the storage properties of a constant.
pub(super) fn of_tensor(tensor: &Tensor, hint: Option<&(f32, i32)>) -> Storage {
    if let Some(storage) = parse_storage(tensor.doc_string.as_deref(), tensor.dtype) {
        return storage;
    }
    let hinted = hint.and_then(|hint| Some((quantized_kind(tensor.dtype)?, *hint)));
    let (kind, quantization) = hinted.unzip();
    Storage { kind, quantization, ..Storage::default() }
}

/// Returns the storage properties of an output, from its doc string and type.
pub(super) fn of_output(var: Option<&Var>, of: &Type) -> Storage {
    let storage =
        var.and_then(|var| parse_storage(var.doc_string(), of.kind.dtype())).unwrap_or_default();
    Storage {
        kind: Some(of.kind),
        quantization: of.quantization,
        strides: of.strides.clone(),
        ..storage
    }
}

/// Adds a placeholder for an input.
pub(super) fn placeholder(
    graph: &mut Graph,
    name: &str,
    var: Option<&Var>,
    info: &ValueInfo,
    hints: &Hints<'_>,
) -> Result<Value, Finding> {
    let dtype = info.dtype();
    let Some(dims) = info.shape() else {
        return Err("expected a tensor of a declared shape".into());
    };
    let Some(shape) = dims_from(info) else {
        let unknown = dims.iter().find(|dim| !matches!(dim, Dim::Known(_)));
        let unknown = unknown.map(ToString::to_string).unwrap_or_default();
        let wrong = format!("expected constant dims, found `{unknown}`: shapes of Glow are fixed");
        return Err(Finding::new(Code::UnknownDims, wrong));
    };
    let parse_storage = var.and_then(|var| parse_storage(var.doc_string(), dtype));
    let hint = hints.get(name).copied();
    let storage = parse_storage.unwrap_or_else(|| {
        let quantized = hint.zip(quantized_kind(dtype));
        let kind = quantized.map(|(_, kind)| kind).or_else(|| kind_of(dtype));
        Storage { kind, quantization: quantized.map(|(hint, _)| hint), ..Storage::default() }
    });
    let no_kind = || format!("Glow has no element type {dtype}");
    let kind = storage.kind.ok_or_else(no_kind)?;
    let quantization = kind.is_quantized().then_some(storage.quantization.unwrap_or((1.0, 0)));
    let of = checked(Type { kind, shape, strides: storage.strides.clone(), quantization })?;
    Ok(graph.placeholder(name, of, storage))
}

/// Returns the ONNX type of a value of a Glow type.
pub(crate) fn info_of(of: &Type) -> ValueInfo {
    let dims = of.shape.iter().map(|dim| u64::try_from(*dim).map_or(Dim::Unknown, Dim::Known));
    ValueInfo::tensor(of.kind.dtype(), Some(dims.collect()))
}

/// Whether a tensor has all of its elements.
pub(super) fn is_dense(tensor: &Tensor) -> bool {
    matches!(tensor.kind, Kind::Dense)
}

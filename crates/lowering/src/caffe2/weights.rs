//! Inputs and weights: their types in Glow.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{AttributeValue, Block, DType, Kind, Model, Op, Tensor, Var};
use lodstone_schema::glow::{ElemKind, Storage, Type};
use lodstone_schema::numbers::{exact, known_dims};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::{Code, Finding};
use lodstone_store::{Blob, Derive};

use crate::glow::from_onnx::graph::{Graph, Value, checked, kind_of};
use crate::glow::from_onnx::op::Entry;

/// The difference between unsigned and signed 8-bit integers: Glow computes with signed ones.
pub(super) const SHIFT: i32 = 128;

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
            tensor.dtype = DType::Int8;
            tensor.data = Blob::derived(Arc::new(Signed { source: tensor.data }));
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

/// Unsigned bytes as signed ones, less by [`SHIFT`].
struct Signed {
    source: Blob,
}

impl Derive for Signed {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> lodstone_store::Result<()> {
        self.source.read_at(offset, buffer)?;
        buffer.iter_mut().for_each(|byte| *byte ^= 0x80);
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
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
        DType::Unspecified => expected(main, &var.name),
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

/// Inputs of operators that are not floats: the operator, the input, and its element type.
const INTEGERS: &[(&str, usize, DType)] = &[
    ("BatchGather", 1, DType::Int64),
    ("BatchOneHot", 1, DType::Int32),
    ("BatchSparseToDense", 0, DType::Int32),
    ("BatchSparseToDense", 1, DType::Int64),
    ("Embedding", 1, DType::Int64),
    ("EmbeddingBag", 2, DType::Int64),
    ("EmbeddingBag", 3, DType::Int64),
    ("FillExamplesWithIndicator", 1, DType::Int32),
    ("Gather", 1, DType::Int64),
    ("GatherND", 1, DType::Int64),
    ("GatherRanges", 1, DType::Int32),
    ("LengthsRangeFill", 0, DType::Int32),
    ("LengthsSum", 1, DType::Int32),
    ("LengthsToRanges", 0, DType::Int32),
    ("Mod", 0, DType::Int64),
    ("ScatterAssign", 1, DType::Int64),
    ("SparseLabelSplit", 0, DType::Int32),
    ("SparseLabelSplit", 1, DType::Int64),
    ("SparseLengthsSum", 1, DType::Int64),
    ("SparseLengthsSum", 2, DType::Int32),
    ("SparseLengthsSum8BitsRowwise", 1, DType::Int64),
    ("SparseLengthsSum8BitsRowwise", 2, DType::Int32),
    ("SparseLengthsSumFused4BitRowwise", 1, DType::Int64),
    ("SparseLengthsSumFused4BitRowwise", 2, DType::Int32),
    ("SparseLengthsSumFused8BitRowwise", 1, DType::Int64),
    ("SparseLengthsSumFused8BitRowwise", 2, DType::Int32),
    ("SparseLengthsWeightedSum", 2, DType::Int64),
    ("SparseLengthsWeightedSum", 3, DType::Int32),
    ("SparseLengthsWeightedSum8BitsRowwise", 2, DType::Int64),
    ("SparseLengthsWeightedSum8BitsRowwise", 3, DType::Int32),
    ("SparseLengthsWeightedSumFused4BitRowwise", 2, DType::Int64),
    ("SparseLengthsWeightedSumFused4BitRowwise", 3, DType::Int32),
    ("SparseLengthsWeightedSumFused8BitRowwise", 2, DType::Int64),
    ("SparseLengthsWeightedSumFused8BitRowwise", 3, DType::Int32),
    ("SparseToDense", 0, DType::Int64),
    ("SparseToDenseMask", 0, DType::Int64),
    ("SparseToDenseMask", 3, DType::Int32),
];

/// Returns the element type that the operators which read an input expect; floats by default.
fn expected(main: &Block, name: &str) -> DType {
    let reads =
        main.ops.iter().flat_map(|op| op.input("").iter().enumerate().map(move |it| (op, it)));
    let known = reads.filter(|(_, (_, read))| *read == name).find_map(|(op, (index, _))| {
        let found = INTEGERS.iter().find(|(kind, at, _)| *kind == op.kind && *at == index);
        found.map(|(.., dtype)| *dtype)
    });
    known.unwrap_or(DType::Float32)
}

/// Returns the names in the net of inputs and outputs for which Glow made others: its names have letters, digits and `_`.
pub(super) fn own_names(model: &Model) -> HashMap<String, String> {
    let main = model.main().and_then(|program| program.blocks.first());
    let Some(main) = main else { return HashMap::new() };
    let mut taken: HashSet<&str> = main.ops.iter().flat_map(Op::writes).collect();
    taken.extend(main.inputs.iter().map(String::as_str));
    taken.extend(model.parameters.iter().map(|parameter| parameter.name.as_str()));
    let mut names = HashMap::new();
    for var in &main.vars {
        let text = var.doc_string().map(ToString::to_string).unwrap_or_default();
        let own = Storage::parse(&text).ok().and_then(|storage| storage.loader_name);
        if let Some(own) = own.filter(|own| !taken.contains(own.as_str())) {
            names.insert(var.name.clone(), own);
        }
    }
    names
}

/// Removes Glow's storage properties from the doc strings of a model: its net has none.
pub(super) fn forget_storage(model: &mut Model) {
    for parameter in &mut model.parameters {
        parameter.tensor.doc_string = None;
    }
    let main = model.programs.main_mut().and_then(|main| main.blocks.first_mut());
    for var in main.into_iter().flat_map(|main| &mut main.vars) {
        var.attributes.retain(|attribute| attribute.name != Var::DOC_STRING);
    }
}

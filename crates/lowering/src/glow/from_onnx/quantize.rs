//! Quantization and dequantization.
//!
//! Operators on integers become dequantization, computation and quantization; `fused` merges these into one node.

use std::sync::Arc;

use lodstone_model::{DType, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Storage, Type};
use lodstone_store::{Blob, Derive};

use super::fused::{constant_of_moves, repeat_move};
use super::graph::{MemberValue, Value, plain};
use super::op::{Cx, Entry, Fault, Outcome, Rule, from_front, one};
use super::storage::{is_dense, quantized_kind};
use crate::glow::elements::{floats_of, ints_of};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("DequantizeLinear", |cx| {
        let axis = cx.int("axis", 1)?;
        let value = dequantized(cx, [0, 1, 2], axis)?;
        one(value)
    }),
    ("QLinearConv", convolution),
    ("QLinearMatMul", product),
    ("QuantizeLinear", |cx| {
        let value = cx.input(0)?;
        one(quantized(cx, value, [1, 2], "")?)
    }),
];

/// A constant with scales and offsets along an axis.
#[derive(Clone, Debug)]
pub(crate) struct Channels {
    /// The integers.
    pub(super) tensor: Tensor,
    pub(super) kind: ElemKind,
    pub(super) axis: usize,
    pub(super) scales: Vec<f32>,
    pub(super) offsets: Vec<i32>,
    /// The names of the constants of integers, scales and offsets.
    pub(super) names: [String; 3],
    /// The storage properties of the integers.
    pub(super) storage: Storage,
    /// The value of the integers, if the graph has it already.
    pub(super) integers: Option<Value>,
}

/// Returns the scales and the offset of each; the default offset is 0.
fn parameters(cx: &Cx<'_>, scale: usize, zero: usize) -> Result<(Vec<f32>, Vec<i32>), Fault> {
    let scales = match cx.tensor(scale) {
        Some(tensor) => floats_of(tensor).ok_or("expected float32 scales")?,
        None => cx.floats(scale)?,
    };
    let offsets = match cx.has(zero) {
        true => integers(cx, zero)?,
        false => vec![0; scales.len()],
    };
    if scales.len() != offsets.len() || scales.is_empty() {
        let found = (scales.len(), offsets.len());
        return Err(format!("expected one offset for each scale, found {found:?}").into());
    }
    Ok((scales, offsets))
}

/// Returns offsets, of which there may be more than inference follows.
fn integers(cx: &Cx<'_>, index: usize) -> Result<Vec<i32>, Fault> {
    match cx.tensor(index).and_then(ints_of) {
        Some(numbers) => Ok(numbers),
        None => {
            let narrow: Result<Vec<_>, _> =
                cx.ints(index)?.into_iter().map(i32::try_from).collect();
            Ok(narrow.map_err(|_| "expected 32-bit offsets")?)
        }
    }
}

/// Dequantizes a value; `at` are the inputs for the integers, their scale and their offset.
pub(super) fn dequantized(cx: &mut Cx<'_>, at: [usize; 3], axis: i64) -> Result<Value, Fault> {
    let [input, scale, zero] = at;
    let (scales, offsets) = parameters(cx, scale, zero)?;
    if cx.int("block_size", 0)? != 0 {
        return Err("Glow has no blockwise scales".into());
    }
    let result = ElemKind::Float;
    let ([scale], [offset]) = (&*scales, &*offsets) else {
        let names = [input, scale, zero].map(|index| cx.input_name(index));
        return channels(cx, input, names, axis, (scales, offsets));
    };
    let quantization = Some((*scale, *offset));
    let mut value = cx.input(input)?;
    let of = cx.type_of(value);
    if of.quantization != quantization || !of.kind.is_quantized() {
        // A constant that is dequantized in different ways becomes several constants.
        let (_, behind, moves) = constant_of_moves(cx.graph, value).ok_or_else(|| {
            let found = of.quantization;
            let expected = "expected integers of this scale and offset";
            format!("{expected}, {quantization:?}; found those of {found:?}")
        })?;
        let tensor = behind.tensor;
        let kind = quantized_kind(tensor.dtype)
            .ok_or_else(|| format!("Glow has no quantized type for {}", tensor.dtype))?;
        let storage = Storage { kind: Some(kind), quantization, ..Storage::default() };
        let shape = shape_of(&tensor)?;
        let of = Type { kind, quantization, ..plain(kind, shape) };
        let name = cx.input_name(input);
        value = moved(cx, &name, (of, storage, tensor), moves)?;
    }
    let of = plain(result, cx.shape(value));
    cx.node("Dequantize", "", &[value], Vec::new(), of)
}

/// Adds a constant with a scale for each channel: its elements are dequantized when they are read. A convolution with
/// it finds the integers again.
fn channels(
    cx: &mut Cx<'_>,
    input: usize,
    names: [String; 3],
    axis: i64,
    (scales, offsets): (Vec<f32>, Vec<i32>),
) -> Result<Value, Fault> {
    let (integers, tensor, storage, moves) = match cx.tensor(input).cloned() {
        Some(tensor) => (None, tensor, cx.storage(input), Vec::new()),
        None => {
            let value = cx.input(input)?;
            let behind = constant_of_moves(cx.graph, value);
            let (integers, constant, moves) =
                behind.ok_or("Glow supports per-channel scales only for constants")?;
            (Some(integers), constant.tensor, constant.stored.storage, moves)
        }
    };
    if !is_dense(&tensor) {
        return Err("expected a dense constant".into());
    }
    let axis = axis_behind(cx, from_front(axis, tensor.shape.len())?, &moves)?;
    let dim = tensor.shape.get(axis).and_then(|dim| usize::try_from(*dim).ok());
    let kind = quantized_kind(tensor.dtype)
        .ok_or_else(|| format!("Glow has no quantized type for {}", tensor.dtype))?;
    let fits = tensor.dtype.size_of(&tensor.shape) == Some(tensor.data.len());
    if dim != Some(scales.len()) || !fits {
        return Err(format!("{} scales do not match axis {axis}", scales.len()).into());
    }
    let shape = shape_of(&tensor)?;
    let [name, ..] = &names;
    let name = format!("{name}_float");
    let channels =
        Channels { tensor: tensor.clone(), kind, axis, scales, offsets, names, storage, integers };
    let inner =
        tensor.shape.iter().skip(axis + 1).fold(1, |all: u64, dim| all.saturating_mul(*dim));
    let steps = channels.scales.iter().copied().zip(channels.offsets.iter().copied()).collect();
    let numbers = Numbers { integers: tensor.clone(), steps, inner };
    let data = Blob::derived(Arc::new(numbers));
    let floats = Tensor::dense(DType::Float32, tensor.shape, data);
    let of = super::graph::checked(plain(ElemKind::Float, shape))?;
    let mut value = cx.graph.constant(&name, of, Storage::default(), floats);
    cx.graph.channels.insert(value, channels);
    for number in moves.into_iter().rev() {
        value = repeat_move(cx.graph, number, value).ok_or("the program becomes too many nodes")?;
    }
    Ok(value)
}

fn shape_of(tensor: &Tensor) -> Result<Vec<i64>, Fault> {
    let shape: Result<Vec<i64>, _> = tensor.shape.iter().map(|n| i64::try_from(*n)).collect();
    Ok(shape.map_err(|_| "the constant is too large")?)
}

/// Moves a constant like another one.
fn moved(
    cx: &mut Cx<'_>,
    name: &str,
    (of, storage, tensor): (Type, Storage, Tensor),
    moves: Vec<usize>,
) -> Result<Value, Fault> {
    let mut value = cx.graph.constant(name, of, storage, tensor);
    for number in moves.into_iter().rev() {
        value = repeat_move(cx.graph, number, value).ok_or("the program becomes too many nodes")?;
    }
    Ok(value)
}

/// Returns the axis of a constant that corresponds to an axis of its transposition.
fn axis_behind(cx: &Cx<'_>, axis: usize, moves: &[usize]) -> Result<usize, Fault> {
    let mut axis = axis;
    for number in moves {
        let node = cx.graph.nodes.get(*number).filter(|node| node.kind.kind == "Transpose");
        let order = node.and_then(|node| node.members.first()).map(|(_, member)| member);
        let Some(MemberValue::Ints(order)) = order else {
            return Err("Glow supports per-channel scales only for constants".into());
        };
        let before = order.get(axis).and_then(|axis| usize::try_from(*axis).ok());
        axis = before.ok_or("expected an axis of the constant")?;
    }
    Ok(axis)
}

/// Quantizes a value; `at` are the inputs for the scale and the offset.
pub(super) fn quantized(
    cx: &mut Cx<'_>,
    value: Value,
    at: [usize; 2],
    suffix: &str,
) -> Result<Value, Fault> {
    let [scale, zero] = at;
    let (scales, offsets) = parameters(cx, scale, zero)?;
    let ([scale], [offset]) = (&*scales, &*offsets) else {
        return Err("Glow quantizes with one scale, found one for each channel".into());
    };
    let dtype = cx.outputs.first().map_or(DType::Unknown(0), |info| info.dtype());
    let kind = quantized_kind(dtype).filter(|kind| *kind != ElemKind::Int32Q);
    let kind = kind.ok_or_else(|| format!("Glow has no quantized type for {dtype}"))?;
    if cx.type_of(value).kind.is_quantized() {
        return Err("expected floats, found integers".into());
    }
    let quantization = Some((*scale, *offset));
    let of = Type { quantization, ..plain(kind, cx.shape(value)) };
    cx.node("Quantize", suffix, &[value], Vec::new(), of)
}

/// Translates an integer product to a float product between dequantization and quantization.
fn product(cx: &mut Cx<'_>) -> Outcome {
    let (left, right) = (dequantized(cx, [0, 1, 2], 0)?, dequantized(cx, [3, 4, 5], 0)?);
    let result = super::linear::product(cx, left, right)?;
    one(quantized(cx, result, [6, 7], "quantize")?)
}

/// Translates an integer convolution likewise; its bias has the scale of the products.
fn convolution(cx: &mut Cx<'_>) -> Outcome {
    let (image, filter) = (dequantized(cx, [0, 1, 2], 0)?, dequantized(cx, [3, 4, 5], 0)?);
    let mut operands = vec![image, filter];
    if cx.has(8) {
        let (outer, _) = parameters(cx, 1, 2)?;
        let (each, _) = parameters(cx, 4, 5)?;
        let [scale] = *outer else {
            let wrong = format!("expected one scale of the image, found {}", outer.len());
            return Err(Finding::from(wrong).about_input(1).into());
        };
        let scales: Vec<f32> = each.iter().map(|each| each * scale).collect();
        let tensor = cx.tensor(8).cloned().ok_or("expected a constant bias")?;
        operands.push(match *scales {
            [scale] => {
                let quantization = Some((scale, 0));
                let shape = shape_of(&tensor)?;
                let of = Type { quantization, ..plain(ElemKind::Int32Q, shape.clone()) };
                let storage = Storage::default();
                let name = cx.input_name(8);
                let value = cx.graph.constant(&name, of, storage, tensor);
                let of = plain(ElemKind::Float, shape);
                cx.node("Dequantize", "bias", &[value], Vec::new(), of)?
            }
            _ => {
                let offsets = vec![0; scales.len()];
                let name = cx.input_name(8);
                let names = [name, String::new(), String::new()];
                channels(cx, 8, names, 0, (scales, offsets))?
            }
        });
    }
    let mut inputs = Vec::new();
    for value in operands {
        let info = super::storage::info_of(&cx.graph.type_of(value));
        inputs.push(Some(cx.entries.len()));
        cx.entries.push(Entry { info, value: Some(value), ..Entry::default() });
    }
    let mut inner = Cx {
        graph: &mut *cx.graph,
        entries: &mut *cx.entries,
        op: cx.op,
        base: cx.base.clone(),
        inputs,
        outputs: cx.outputs.clone(),
    };
    let result = super::conv::conv(&mut inner)?.into_iter().flatten().next();
    let result = result.ok_or_else(|| Finding::internal("a convolution has no result"))?;
    one(quantized(cx, result, [6, 7], "quantize")?)
}

/// The dequantized elements of a constant.
struct Numbers {
    integers: Tensor,
    /// The scale and the offset of each channel.
    steps: Vec<(f32, i32)>,
    /// The number of elements between those of one channel and the next.
    inner: u64,
}

impl Derive for Numbers {
    fn len(&self) -> u64 {
        self.integers.shape.iter().product::<u64>() * 4
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> lodstone_store::Result<()> {
        let range = offset..offset + buffer.len() as u64;
        let mut places = buffer.iter_mut();
        for element in offset / 4..range.end.div_ceil(4) {
            let bytes = (element * 4..).zip(self.number(element)?.to_le_bytes());
            let bytes = bytes.filter(|(at, _)| range.contains(at));
            bytes.zip(places.by_ref()).for_each(|((_, byte), place)| *place = byte);
        }
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.integers.data)
    }
}

impl Numbers {
    /// Dequantizes the integer at a position.
    #[expect(clippy::cast_precision_loss, reason = "the computation is defined in float32")]
    fn number(&self, element: u64) -> lodstone_store::Result<f32> {
        let data = &self.integers.data;
        let integer = match self.integers.dtype {
            DType::Int8 => i64::from(i8::from_le_bytes(bytes_at(data, element)?)),
            DType::Uint8 => i64::from(u8::from_le_bytes(bytes_at(data, element)?)),
            DType::Int16 => i64::from(i16::from_le_bytes(bytes_at(data, element)?)),
            _ => i64::from(i32::from_le_bytes(bytes_at(data, element)?)),
        };
        let count = self.steps.len().max(1) as u64;
        let channel = element / self.inner.max(1) % count;
        let step = usize::try_from(channel).ok().and_then(|channel| self.steps.get(channel));
        let (scale, offset) = step.ok_or_else(|| lodstone_store::Error::Malformed {
            origin: "a quantized constant".to_owned(),
            offset: element,
            expected: "a scale for each channel".to_owned(),
            found: format!("none for channel {channel}"),
        })?;
        Ok((integer - i64::from(*offset)) as f32 * scale)
    }
}

/// Reads the bytes of an element.
fn bytes_at<const N: usize>(data: &Blob, element: u64) -> lodstone_store::Result<[u8; N]> {
    let mut bytes = [0; N];
    data.read_at(element * N as u64, &mut bytes)?;
    Ok(bytes)
}

//! Weights and biases of nodes between integers: constants with one scale, or one for each channel.
//!
//! A bias must have the scale of the products, or be an exact multiple of it; a bias whose storage properties declare
//! its own scale is used as it is.

use lodstone_model::Tensor;
use lodstone_schema::glow::{ElemKind, Storage, Type};
use lodstone_schema::numbers::length;
use lodstone_store::Blob;

use super::fused::{dequantized_from, repeat_move};
use super::graph::{Graph, MemberValue, Source, Value, plain};
use super::quantize::Channels;
use crate::glow::elements::floats_of;

/// Returns the per-channel constant behind weights, and the node that transposes it.
pub(super) fn channels_of(graph: &Graph, value: Value) -> Option<(Channels, Option<usize>)> {
    let (at, number) = match graph.source(value) {
        Source::Result(number, _) => {
            let node = graph.nodes.get(number).filter(|node| node.kind.kind == "Transpose")?;
            (*node.inputs.first()?, Some(number))
        }
        _ => (value, None),
    };
    let channels = graph.channels.get(&at)?;
    (channels.axis == 0 && channels.kind == ElemKind::Int8Q).then(|| (channels.clone(), number))
}

fn scale_of(graph: &Graph, value: Value) -> Option<f32> {
    graph.type_of(value).quantization.map(|(scale, _)| scale)
}

/// Whether all elements of a value are zero.
fn is_zero(graph: &Graph, value: Value) -> bool {
    if let Some((node, _)) = graph.maker(value) {
        let number = node.members.first().map(|(_, member)| member);
        return node.kind.kind == "Splat" && number == Some(&MemberValue::Float(0.0));
    }
    match graph.source(value) {
        Source::Constant(number) => graph.constants.get(number).is_some_and(|constant| {
            let bytes = floats_of(&constant.tensor);
            bytes.is_some_and(|numbers| numbers.iter().all(|number| *number == 0.0))
        }),
        _ => false,
    }
}

/// Returns a bias as integers with the scale of the products.
pub(super) fn bias_of(
    graph: &mut Graph,
    name: &str,
    bias: Value,
    factors: &[Value; 2],
) -> Option<Value> {
    let [input, weights] = factors;
    let scale = scale_of(graph, *input)? * scale_of(graph, *weights)?;
    let shape = graph.shape(bias).to_vec();
    let of = Type { quantization: Some((scale, 0)), ..plain(ElemKind::Int32Q, shape) };
    if is_zero(graph, bias) {
        return zeros(graph, name, of);
    }
    if let Some(declared) = declared_bias(graph, bias) {
        return Some(declared);
    }
    if let Some(numbers) = multiples(graph, bias, &[scale]) {
        return stored(graph, &format!("{name}_bias"), of, numbers);
    }
    let (integers, moves) = dequantized_from(graph, bias)?;
    let found = graph.type_of(integers);
    let (_, offset) = found.quantization?;
    let fits = found.kind == ElemKind::Int32Q && offset == 0 && moves.is_empty();
    (fits && close(found.quantization?.0, scale)).then_some(integers)
}

/// Returns the integers of a bias whose storage properties declare its quantization: Glow's nodes accept any scale.
pub(super) fn declared_bias(graph: &Graph, bias: Value) -> Option<Value> {
    let (integers, moves) = dequantized_from(graph, bias)?;
    let Source::Constant(number) = graph.source(integers) else { return None };
    let storage = &graph.constants.get(number)?.stored.storage;
    // Only properties from a doc string include a layout.
    let is_declared = storage.layout.is_some() && storage.quantization.is_some();
    let is_kind = matches!(storage.kind, Some(ElemKind::Int8Q | ElemKind::Int32Q));
    (is_declared && is_kind && moves.is_empty()).then_some(integers)
}

/// Returns a constant as integer multiples of scales, if it is exactly that.
fn multiples(graph: &Graph, value: Value, scales: &[f32]) -> Option<Vec<u8>> {
    const EXACT: f32 = 16_777_216.0;
    let Source::Constant(number) = graph.source(value) else { return None };
    let numbers = floats_of(&graph.constants.get(number)?.tensor)?;
    let mut bytes = Vec::new();
    for (number, scale) in numbers.iter().zip(scales.iter().cycle()) {
        let count = (number / scale).round();
        #[expect(clippy::float_cmp, reason = "equality is intended")]
        let is_exact = count * scale == *number && count.abs() <= EXACT;
        #[expect(clippy::cast_possible_truncation, reason = "the bound is checked first")]
        let integer = is_exact.then_some(count as i32)?;
        bytes.extend(integer.to_le_bytes());
    }
    Some(bytes)
}

/// Whether two scales are equal up to rounding.
fn close(one: f32, other: f32) -> bool {
    (one - other).abs() <= other.abs() * 1e-6
}

/// The maximum number of zeros that are stored.
const MAX_ZEROS: i64 = 1 << 20;

fn zeros(graph: &mut Graph, name: &str, of: Type) -> Option<Value> {
    let count = super::graph::count(&of.shape).ok().filter(|count| *count <= MAX_ZEROS)?;
    let bytes = vec![0; usize::try_from(count).ok()?.checked_mul(4)?];
    stored(graph, &format!("{name}_bias"), of, bytes)
}

fn stored(graph: &mut Graph, name: &str, of: Type, bytes: Vec<u8>) -> Option<Value> {
    graph.afford(bytes.len())?;
    let dims = of.shape.iter().map(|dim| u64::try_from(*dim).ok()).collect::<Option<_>>()?;
    let tensor = Tensor::dense(of.kind.dtype(), dims, Blob::memory(bytes));
    Some(graph.constant(name, of, Storage::default(), tensor))
}

/// A convolution with a scale for each of its filters.
pub(super) fn channelwise(
    graph: &mut Graph,
    name: &str,
    input: Value,
    bias: Value,
    (channels, transpose): &(Channels, Option<usize>),
) -> Option<Vec<Value>> {
    let called = |part: &str| format!("{name}_{part}");
    let depth = length(channels.scales.len());
    let scale = scale_of(graph, input)?;
    let scales: Vec<f32> = channels.scales.iter().map(|of| of * scale).collect();
    let of_bias = plain(ElemKind::Int32Q, vec![depth]);
    let names = |part: &str| ["", "_scales", "_offsets"].map(|end| called(&format!("{part}{end}")));
    let none = vec![0; channels.scales.len()];
    let bias = match graph.channels.get(&bias).cloned() {
        Some(own) => {
            let fits = own.kind == ElemKind::Int32Q && own.scales.len() == scales.len();
            fits.then(|| spread(graph, &own, names("bias")))??
        }
        None => {
            let integers = match is_zero(graph, bias) {
                true => zeros(graph, name, of_bias)?,
                false => {
                    let numbers = multiples(graph, bias, &scales)?;
                    stored(graph, &called("bias"), of_bias, numbers)?
                }
            };
            let [_, of_scales, of_offsets] = names("bias");
            let scales = floats(graph, &of_scales, &scales)?;
            [integers, scales, longs(graph, &of_offsets, &none)?]
        }
    };
    let [filter, of_filter, offsets] = spread(graph, channels, names("filter"))?;
    let filter = match *transpose {
        Some(transpose) => repeat_move(graph, transpose, filter)?,
        None => filter,
    };
    let [bias, of_bias, bias_offsets] = bias;
    Some(vec![input, filter, bias, of_filter, offsets, of_bias, bias_offsets])
}

/// Adds the integers, scales and offsets of a per-channel constant; `names` are used where the source has no names.
pub(super) fn spread(
    graph: &mut Graph,
    channels: &Channels,
    names: [String; 3],
) -> Option<[Value; 3]> {
    let Channels { tensor, kind, storage, .. } = channels;
    let mut called = channels.names.iter().zip(names).map(|(own, other)| match own.as_str() {
        "" => other,
        own => own.to_owned(),
    });
    let (name, of_scales, of_offsets) = (called.next()?, called.next()?, called.next()?);
    let there = channels.integers.filter(|value| graph.type_of(*value).kind == *kind);
    let integers = match there {
        Some(value) => value,
        None => {
            let shape: Option<Vec<i64>> =
                tensor.shape.iter().map(|dim| i64::try_from(*dim).ok()).collect();
            let of = plain(*kind, shape?);
            // The readers have per-channel scales; those of the storage properties are kept for the writer.
            let quantization = storage.quantization.filter(|_| storage.kind == Some(*kind));
            let of = Type { quantization: quantization.or(of.quantization), ..of };
            graph.constant(&name, of, storage.clone(), tensor.clone())
        }
    };
    let scales = floats(graph, &of_scales, &channels.scales)?;
    Some([integers, scales, longs(graph, &of_offsets, &channels.offsets)?])
}

fn floats(graph: &mut Graph, name: &str, numbers: &[f32]) -> Option<Value> {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    stored(graph, name, row(ElemKind::Float, numbers.len()), bytes)
}

fn longs(graph: &mut Graph, name: &str, numbers: &[i32]) -> Option<Value> {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    stored(graph, name, row(ElemKind::Int32I, numbers.len()), bytes)
}

fn row(kind: ElemKind, count: usize) -> Type {
    plain(kind, vec![length(count)])
}

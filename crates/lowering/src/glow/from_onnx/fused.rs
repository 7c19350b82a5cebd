//! Fusion: integers that are dequantized, computed with, and quantized again become one node of quantized types.
//!
//! | in ONNX | in Glow |
//! |---|---|
//! | integers - DequantizeLinear - `Conv`, `MatMul`, `Add` - QuantizeLinear | the node between integers |
//! | the same with a scale for each channel of the weights | `ChannelwiseQuantizedConvolution` |
//! | the same around operators that only move elements, of one scale | the node between integers |
//!
//! Operators that only move elements (transposition, reshape) between a node and its integers move the integers instead.
//! A node keeps computing with floats where Glow's quantized node would mean something else: if its bias does not have
//! the scale of the products, or if other nodes also read the floats.

use std::collections::HashMap;

use lodstone_schema::Finding;
use lodstone_schema::glow::{Type, node as kind_of};
use lodstone_schema::places::at_mut;

use super::graph::{Constant, Graph, MemberValue, Node, Source, Value};
use super::walk::Walked;
use super::weights::{bias_of, channels_of, channelwise, declared_bias, spread};

/// The operands of a node that are integers where its result is, and the constraints on their types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// All of them, of any scale.
    All,
    /// All of them, of the scale of the result.
    Same,
    /// The first, of the scale of the result.
    First,
    /// The first two, and a bias with the product of their scales.
    Biased,
}

const NODES: &[(&str, Operands)] = &[
    ("Add", Operands::All),
    ("AvgPool", Operands::All),
    ("BatchMatMul", Operands::All),
    ("Broadcast", Operands::First),
    ("Concat", Operands::Same),
    ("Convolution", Operands::Biased),
    ("Convolution3D", Operands::Biased),
    ("Div", Operands::All),
    ("Flip", Operands::First),
    ("FullyConnected", Operands::Biased),
    ("Gather", Operands::First),
    ("Gemm", Operands::Biased),
    ("MatMul", Operands::All),
    ("Max", Operands::All),
    ("MaxPool", Operands::First),
    ("Min", Operands::All),
    ("Mul", Operands::All),
    ("Relu", Operands::All),
    ("Reshape", Operands::First),
    ("ResizeNearest", Operands::First),
    ("Slice", Operands::First),
    ("Sub", Operands::All),
    ("Tile", Operands::First),
    ("TopK", Operands::First),
    ("Transpose", Operands::First),
];

/// Nodes that only move elements of their single operand.
const MOVES: &[&str] = &["Broadcast", "Flip", "Reshape", "Slice", "Tile", "Transpose"];

/// The maximum number of moves between a node and its integers.
const MAX_MOVES: usize = 8;

/// Fuses dequantized, computed and quantized values into nodes between integers.
///
/// # Errors
/// An internal error if a node is missing or Glow does not have its kind.
pub(super) fn fuse(walked: &mut Walked) -> Result<(), Finding> {
    let Walked { graph, outputs, .. } = walked;
    let mut uses: HashMap<Value, usize> = HashMap::new();
    let read = graph.nodes.iter().flat_map(|node| node.reads());
    for value in read.chain(outputs.iter().map(|saved| saved.value)) {
        *uses.entry(value).or_default() += 1;
    }
    let mut instead: HashMap<Value, Value> = HashMap::new();
    for number in 0..graph.nodes.len() {
        // The operand may have been replaced before.
        for value in at_mut(&mut graph.nodes, number)?.reads_mut() {
            *value = instead.get(value).copied().unwrap_or(*value);
        }
        if let Some((quantized, value)) = around(graph, &uses, number).transpose()? {
            instead.insert(quantized, value);
        }
    }
    put(walked, &instead);
    let graph = &mut walked.graph;
    // Transpositions that cancelled out between floats may now be adjacent between integers.
    let mut instead: HashMap<Value, Value> = HashMap::new();
    for number in 0..graph.nodes.len() {
        let node = at_mut(&mut graph.nodes, number)?;
        for value in node.reads_mut() {
            *value = instead.get(value).copied().unwrap_or(*value);
        }
        let order = match (node.kind.kind, node.members.first()) {
            ("Transpose", Some((_, MemberValue::Ints(order)))) => order.clone(),
            _ => continue,
        };
        let (Some(result), Some(input)) = (node.results.first(), node.inputs.first()) else {
            continue;
        };
        let (result, input) = (*result, *input);
        if let Some(before) = graph.turned_back(input, &order) {
            instead.insert(result, instead.get(&before).copied().unwrap_or(before));
        }
    }
    put(walked, &instead);
    Ok(())
}

/// Replaces values in all nodes and outputs.
fn put(walked: &mut Walked, instead: &HashMap<Value, Value>) {
    for node in &mut walked.graph.nodes {
        for value in node.reads_mut() {
            *value = instead.get(value).copied().unwrap_or(*value);
        }
    }
    let saved = walked.outputs.iter_mut().map(|saved| &mut saved.value);
    for value in saved.chain(walked.named.iter_mut().map(|(_, value)| value)) {
        *value = instead.get(value).copied().unwrap_or(*value);
    }
}

/// Fuses a quantizing node with the nodes before it; returns its old result and the new one.
fn around(
    graph: &mut Graph,
    uses: &HashMap<Value, usize>,
    number: usize,
) -> Option<Result<(Value, Value), Finding>> {
    let quantize = graph.nodes.get(number).filter(|node| node.kind.kind == "Quantize")?;
    let (result, from) = (*quantize.results.first()?, *quantize.inputs.first()?);
    let of = graph.type_of(result);
    // The same integers, if nothing is computed between dequantizing and quantizing.
    if let Some((maker, _)) = graph.maker(from)
        && maker.kind.kind == "Dequantize"
    {
        let integers = *maker.inputs.first()?;
        return (graph.type_of(integers) == of).then_some(Ok((result, integers)));
    }
    let once = |value: Value| uses.get(&value) == Some(&1);
    // Back over moves whose results have no other reader.
    let mut moved = Vec::new();
    let mut at = from;
    loop {
        if !once(at) || moved.len() > MAX_MOVES {
            return None;
        }
        let Source::Result(maker, place) = graph.source(at) else { return None };
        let node = graph.nodes.get(maker)?;
        let operands = NODES.iter().find(|(kind, _)| *kind == node.kind.kind);
        let (_, operands) = *operands.filter(|_| place == 0)?;
        let is_move = MOVES.contains(&node.kind.kind);
        let before = node.inputs.first().copied();
        if let Some(inputs) = integers(graph, maker, operands, &of) {
            if let Err(lost) = replace(graph, maker, inputs) {
                return Some(Err(lost));
            }
            break;
        }
        if !is_move {
            return None;
        }
        moved.push(at);
        at = before?;
    }
    for value in moved.into_iter().chain([at]) {
        let shape = graph.shape(value).to_vec();
        graph.retype(value, Type { shape, ..of.clone() });
    }
    Some(Ok((result, from)))
}

/// The operands of a node as integers.
enum Integers {
    /// In the positions of its inputs and member values.
    Plain(Vec<Value>),
    /// Those of a convolution with a scale for each channel.
    Channelwise(Vec<Value>),
    /// Those of a product with a scale for each row of weights.
    Rowwise(Vec<Value>),
}

fn replace(graph: &mut Graph, number: usize, integers: Integers) -> Result<(), Finding> {
    let node = at_mut(&mut graph.nodes, number)?;
    match integers {
        Integers::Plain(values) => {
            for (old, new) in node.reads_mut().zip(values) {
                *old = new;
            }
            // Glow's own node computes only with floats.
            if node.kind.kind == "Gemm" {
                become_kind(node, "FullyConnected", &[])?;
            }
        }
        Integers::Channelwise(values) => {
            let members: Vec<&str> = node.members.iter().map(|(name, _)| *name).collect();
            let members: Vec<&str> = members.into_iter().filter(|name| *name != "Layout").collect();
            become_kind(node, "ChannelwiseQuantizedConvolution", &members)?;
            node.inputs = values;
        }
        Integers::Rowwise(values) => {
            become_kind(node, "RowwiseQuantizedFullyConnected", &[])?;
            node.inputs = values;
        }
    }
    Ok(())
}

/// Changes the kind of a node, keeping these of its members.
fn become_kind(node: &mut Node, kind: &str, members: &[&str]) -> Result<(), Finding> {
    let found = kind_of(kind);
    node.kind = found.ok_or_else(|| Finding::internal(format!("Glow has no node `{kind}`")))?;
    node.members.retain(|(name, _)| members.contains(name));
    Ok(())
}

fn integers(graph: &mut Graph, number: usize, operands: Operands, of: &Type) -> Option<Integers> {
    let node = graph.nodes.get(number)?;
    let reads: Vec<Value> = node.reads().collect();
    let is_convolution = node.kind.kind == "Convolution";
    let name = node.name.clone();
    let count = if operands == Operands::First { 1 } else { reads.len() };
    if operands == Operands::Biased {
        let [input, weights, bias] = *reads else { return None };
        let connects = |transposed| super::linear::is_fully_connected(graph, node, transposed);
        let (is_gemm, by_columns, by_rows) =
            (node.kind.kind == "Gemm", connects(false), connects(true));
        let input = integers_of(graph, input)?;
        if let Some(channels) = channels_of(graph, weights).filter(|_| is_convolution) {
            let values = channelwise(graph, &name, input, bias, &channels);
            return values.map(Integers::Channelwise);
        }
        if let Some((channels, None)) = channels_of(graph, weights).filter(|_| is_gemm && by_rows) {
            let bias = declared_bias(graph, bias)?;
            let names = ["weights", "scales", "offsets"].map(|part| format!("{name}_{part}"));
            let [weights, scales, offsets] = spread(graph, &channels, names)?;
            return Some(Integers::Rowwise(vec![input, weights, scales, offsets, bias]));
        }
        if is_gemm && !by_columns {
            return None;
        }
        let weights = integers_of(graph, weights)?;
        let bias = bias_of(graph, &name, bias, &[input, weights])?;
        return Some(Integers::Plain(vec![input, weights, bias]));
    }
    // All operands are checked before any node is created.
    for value in reads.iter().take(count) {
        let (integers, _) = dequantized_from(graph, *value)?;
        let found = graph.type_of(integers);
        let same = (found.kind, found.quantization) == (of.kind, of.quantization);
        if operands != Operands::All && !same || found.kind != of.kind {
            return None;
        }
    }
    let mut values = reads;
    for value in values.iter_mut().take(count) {
        *value = integers_of(graph, *value)?;
    }
    Some(Integers::Plain(values))
}

/// Returns the integers that a value is dequantized from, and the nodes that move it afterwards.
pub(super) fn dequantized_from(graph: &Graph, value: Value) -> Option<(Value, Vec<usize>)> {
    let (mut at, mut moves) = (value, Vec::new());
    loop {
        let Source::Result(number, 0) = graph.source(at) else { return None };
        let node = graph.nodes.get(number)?;
        let input = *node.inputs.first()?;
        match node.kind.kind {
            "Dequantize" => return Some((input, moves)),
            kind if MOVES.contains(&kind) && moves.len() < MAX_MOVES => moves.push(number),
            _ => return None,
        }
        at = input;
    }
}

/// Returns the integers that a value is dequantized from, moved likewise.
fn integers_of(graph: &mut Graph, value: Value) -> Option<Value> {
    let (mut integers, moves) = dequantized_from(graph, value)?;
    for number in moves.into_iter().rev() {
        integers = repeat_move(graph, number, integers)?;
    }
    Some(integers)
}

/// Returns the constant that a value is moved from, and the nodes that move it, the last first.
pub(super) fn constant_of_moves(
    graph: &Graph,
    value: Value,
) -> Option<(Value, Constant, Vec<usize>)> {
    let (mut at, mut moves) = (value, Vec::new());
    loop {
        let number = match graph.source(at) {
            Source::Constant(number) => {
                let constant = graph.constants.get(number)?;
                return Some((at, constant.clone(), moves));
            }
            Source::Result(number, 0) => number,
            _ => return None,
        };
        let node = graph.nodes.get(number)?;
        let moves_on = MOVES.contains(&node.kind.kind) && moves.len() < MAX_MOVES;
        moves_on.then(|| moves.push(number))?;
        at = *node.inputs.first()?;
    }
}

/// Repeats a move on another value.
pub(super) fn repeat_move(graph: &mut Graph, number: usize, value: Value) -> Option<Value> {
    let node = graph.nodes.get(number)?;
    let (kind, name, members) = (node.kind.kind, node.name.clone(), node.members.clone());
    let shape = graph.shape(*node.results.first()?).to_vec();
    let of = Type { shape, strides: None, ..graph.type_of(value) };
    let moved = graph.node(kind, &name, vec![value], members, vec![of]).ok()?.first().copied();
    // The node that continues to be read keeps the name; usually it is the new one.
    let made = graph.nodes.len().checked_sub(1)?;
    let given = std::mem::replace(&mut graph.nodes.get_mut(made)?.name, name);
    graph.nodes.get_mut(number)?.name = given;
    moved
}

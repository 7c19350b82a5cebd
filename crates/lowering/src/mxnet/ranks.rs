//! The dims and element types of inputs that a program does not declare, as far as its operators determine them.
//!
//! MXNet infers shapes from those that are given when a program is bound, so that files rarely have any. What reads an
//! input, directly or after operators that keep its shape, often determines its rank: the window of a convolution or a
//! pooling, and the weight of a convolution also the number of channels.

use std::collections::{HashSet, VecDeque};

use lodstone_model::{Block, DType, Dim, Op};
use lodstone_schema::mxnet::real_name;

use super::attributes::Attributes;

/// Operators that return a tensor of the shape of their first input.
const KEEPERS: &[&str] = &[
    "Activation",
    "BatchNorm",
    "BlockGrad",
    "Cast",
    "Dropout",
    "LeakyReLU",
    "_copy",
    "_div_scalar",
    "_minus_scalar",
    "_mul_scalar",
    "_plus_scalar",
    "_rdiv_scalar",
    "_rminus_scalar",
    "clip",
    "relu",
    "sigmoid",
    "tanh",
];

/// Returns the dims of an input. `dims_of` returns the dims of parameters.
pub(super) fn dims_by_use(
    block: &Block,
    input: &str,
    dims_of: impl Fn(&str) -> Option<Vec<u64>>,
) -> Option<Vec<Dim>> {
    let (mut seen, mut next) = (HashSet::from([input]), VecDeque::from([input]));
    while let Some(name) = next.pop_front() {
        let reads = |op: &Op| op.input("").iter().position(|read| read == name);
        for (op, place) in block.ops.iter().filter_map(|op| Some((op, reads(op)?))) {
            let found = match place {
                0 => window(op, &dims_of),
                _ => other_input(op, place),
            };
            if found.is_some() {
                return found;
            }
            if place > 0 {
                continue;
            }
            if KEEPERS.contains(&real_name(&op.kind)) {
                next.extend(op.writes().take(1).filter(|name| seen.insert(name)));
            }
        }
    }
    None
}

/// Operators whose operands have one element type.
const SAME_TYPE: &[&str] = &[
    "Convolution",
    "Deconvolution",
    "FullyConnected",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "LeakyReLU",
    "batch_dot",
    "broadcast_add",
    "broadcast_div",
    "broadcast_maximum",
    "broadcast_minimum",
    "broadcast_mul",
    "broadcast_power",
    "broadcast_sub",
    "dot",
    "elemwise_add",
    "elemwise_div",
    "elemwise_mul",
    "elemwise_sub",
];

/// Returns the element type of an input that the program does not declare: that of the parameter that an operator combines
/// it with. `dtype_of` returns the types of parameters.
pub(super) fn dtype_by_use(
    block: &Block,
    input: &str,
    dtype_of: impl Fn(&str) -> Option<DType>,
) -> Option<DType> {
    let (mut seen, mut next) = (HashSet::from([input]), VecDeque::from([input]));
    while let Some(name) = next.pop_front() {
        for op in block.ops.iter().filter(|op| op.input("").iter().any(|read| read == name)) {
            let kind = real_name(&op.kind);
            let mut others = op.input("").iter().filter(|_| SAME_TYPE.contains(&kind));
            if let Some(dtype) = others.find_map(|other| dtype_of(other)) {
                return Some(dtype);
            }
            let keeps = KEEPERS.contains(&kind) && kind != "Cast";
            if keeps && op.input("").first().is_some_and(|first| first == name) {
                next.extend(op.writes().take(1).filter(|name| seen.insert(name)));
            }
        }
    }
    None
}

/// Returns the dims of an input after the first one.
fn other_input(op: &Op, place: usize) -> Option<Vec<Dim>> {
    let rank = match (real_name(&op.kind), place) {
        ("CTCLoss", 1) => 2,
        ("CTCLoss", _) => 1,
        ("RNN" | "_contrib_quantized_rnn", 2 | 3) => 3,
        _ => return None,
    };
    Some(vec![Dim::Unknown; rank])
}

/// Returns the dims of the first input of an operator with a window, or of one over time.
fn window(op: &Op, dims_of: impl Fn(&str) -> Option<Vec<u64>>) -> Option<Vec<Dim>> {
    let attributes = Attributes::new(op);
    let kind = real_name(&op.kind);
    if matches!(kind, "CTCLoss" | "RNN" | "_contrib_quantized_rnn") {
        return Some(vec![Dim::Unknown; 3]);
    }
    if !matches!(kind, "Convolution" | "Deconvolution" | "Pooling") {
        return None;
    }
    let layout = attributes.find("layout").ok()?.filter(|layout| *layout != "None");
    let rank = match (attributes.ints_or_none("kernel").ok()?, layout) {
        (Some(kernel), _) if !kernel.is_empty() => kernel.len() + 2,
        (_, Some(layout)) => layout.len(),
        _ => return None,
    };
    let mut dims = vec![Dim::Unknown; rank];
    let weight = op.input("").get(1).filter(|_| kind != "Pooling").and_then(|name| dims_of(name));
    let groups = u64::try_from(attributes.int("num_group", 1).ok()?).ok()?;
    let is_first = layout.is_none_or(|layout| layout.starts_with("NC"));
    if let (Some(weight), true, Some(channels)) = (weight, is_first, dims.get_mut(1)) {
        let known = match kind {
            "Convolution" => weight.get(1)?.checked_mul(groups)?,
            _ => *weight.first()?,
        };
        *channels = Dim::Known(known);
    }
    Some(dims)
}

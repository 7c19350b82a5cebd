//! Dims that operators require to be equal.
//!
//! MXNet infers shapes in both directions: a fill of the shape `(0, 8)`, such as the first state of an unrolled recurrent
//! cell, has as many rows as the values that it meets. Here, dims are equal if an operator requires it, and a fill gets its
//! unknown dims from a value of an equal one.
//!
//! An attribute that cannot be read requires nothing here: the rule of the operator reports it.
//!
//! Source of truth: the shape inference of the operators of MXNet 1.9.1. Operators that are not listed require nothing.

use std::collections::HashMap;

use lodstone_model::{Block, Op};
use lodstone_schema::mxnet::real_name;

use super::attributes::Attributes;

/// The maximum rank of an MXNet tensor of these operators.
const MAX_RANK: usize = 8;

/// Operators whose operands and results all have one shape.
const ALL: &[&str] = &[
    "_equal",
    "_grad_add",
    "_greater",
    "_greater_equal",
    "_hypot",
    "_lesser",
    "_lesser_equal",
    "_logical_and",
    "_logical_or",
    "_logical_xor",
    "_maximum",
    "_minimum",
    "_mod",
    "_not_equal",
    "_power",
    "add_n",
    "elemwise_add",
    "elemwise_div",
    "elemwise_mul",
    "elemwise_sub",
];

/// Operators whose first result has the shape of the first operand.
const FIRST: &[&str] = &[
    "Activation",
    "BatchNorm",
    "BlockGrad",
    "Cast",
    "Dropout",
    "InstanceNorm",
    "L2Normalization",
    "LRN",
    "LayerNorm",
    "LeakyReLU",
    "LinearRegressionOutput",
    "LogisticRegressionOutput",
    "MAERegressionOutput",
    "MakeLoss",
    "SequenceMask",
    "SequenceReverse",
    "SoftmaxActivation",
    "SoftmaxOutput",
    "_copy",
    "_div_scalar",
    "_equal_scalar",
    "_greater_equal_scalar",
    "_greater_scalar",
    "_lesser_equal_scalar",
    "_lesser_scalar",
    "_maximum_scalar",
    "_minimum_scalar",
    "_minus_scalar",
    "_mod_scalar",
    "_mul_scalar",
    "_not_equal_scalar",
    "_plus_scalar",
    "_power_scalar",
    "_rdiv_scalar",
    "_rminus_scalar",
    "_rmod_scalar",
    "_rpower_scalar",
    "abs",
    "clip",
    "exp",
    "hard_sigmoid",
    "log",
    "log_softmax",
    "negative",
    "ones_like",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "sign",
    "softmax",
    "softsign",
    "sqrt",
    "square",
    "tanh",
    "zeros_like",
];

/// A dim: the name of a value, and the axis.
type Place<'m> = (&'m str, usize);

/// The dims of a graph, in sets of equal ones.
#[derive(Default)]
pub(super) struct EqualDims<'m> {
    numbers: HashMap<Place<'m>, usize>,
    places: Vec<Place<'m>>,
    /// The parents of a union-find.
    parents: Vec<usize>,
    ranks: HashMap<&'m str, usize>,
}

impl<'m> EqualDims<'m> {
    /// Collects the dims of a block. `rank_of` returns the ranks of its variables, as far as they are known.
    pub(super) fn of(block: &'m Block, rank_of: impl Fn(&str) -> Option<usize>) -> Self {
        let mut dims = Self::default();
        for var in &block.vars {
            let rank = rank_of(&var.name);
            dims.ranks.extend(rank.map(|rank| (var.name.as_str(), rank)));
        }
        for op in &block.ops {
            dims.operator(op);
        }
        dims
    }

    /// Returns all dims that equal a dim, in the order in which they were found.
    pub(super) fn equal_to(&self, name: &str, axis: usize) -> Vec<Place<'m>> {
        let Some(number) = self.numbers.get(&(name, axis)) else { return Vec::new() };
        let root = self.root(*number);
        let equal = |number: &usize| self.root(*number) == root;
        let all = (0..self.places.len()).filter(equal);
        all.filter_map(|number| self.places.get(number).copied()).collect()
    }

    fn root(&self, mut number: usize) -> usize {
        while let Some(parent) = self.parents.get(number).filter(|parent| **parent != number) {
            number = *parent;
        }
        number
    }

    fn number(&mut self, place: Place<'m>) -> usize {
        let next = self.places.len();
        let number = *self.numbers.entry(place).or_insert(next);
        if number == next {
            self.places.push(place);
            self.parents.push(number);
        }
        number
    }

    fn join(&mut self, a: Place<'m>, b: Place<'m>) {
        let (a, b) = (self.number(a), self.number(b));
        let (a, b) = (self.root(a), self.root(b));
        let (first, second) = (a.min(b), a.max(b));
        if let Some(parent) = self.parents.get_mut(second) {
            *parent = first;
        }
    }

    /// Makes the dims of two values equal along all axes but one.
    fn join_all(&mut self, a: &'m str, b: &'m str, except: Option<usize>) {
        for axis in (0..MAX_RANK).filter(|axis| Some(*axis) != except) {
            self.join((a, axis), (b, axis));
        }
        self.same_rank(a, b);
    }

    fn same_rank(&mut self, a: &'m str, b: &'m str) {
        match (self.ranks.get(a).copied(), self.ranks.get(b).copied()) {
            (Some(rank), None) => self.ranks.insert(b, rank),
            (None, Some(rank)) => self.ranks.insert(a, rank),
            _ => None,
        };
    }

    /// Returns the index of an axis of a value: of a negative one only if the rank is known.
    fn axis(&self, name: &str, axis: i64) -> Option<usize> {
        let rank = self.ranks.get(name).and_then(|rank| i64::try_from(*rank).ok());
        usize::try_from(if axis < 0 { axis.checked_add(rank?)? } else { axis }).ok()
    }

    fn operator(&mut self, op: &'m Op) {
        let (inputs, outputs) = (op.input(""), op.output(""));
        let (Some(first), Some(result)) = (inputs.first(), outputs.first()) else { return };
        let (first, result) = (first.as_str(), result.as_str());
        let attributes = Attributes::new(op);
        match real_name(&op.kind) {
            kind if ALL.contains(&kind) => {
                for other in inputs.iter().skip(1).chain(outputs) {
                    self.join_all(first, other, None);
                }
            }
            kind if FIRST.contains(&kind) => self.join_all(first, result, None),
            "where" => {
                for other in inputs.iter().skip(1) {
                    self.join_all(other, result, None);
                }
            }
            "FullyConnected" => match attributes.flag("flatten", true) {
                Ok(true) => {
                    self.join((first, 0), (result, 0));
                    self.ranks.insert(result, 2);
                }
                Ok(false) => {
                    let last = self.axis(first, -1);
                    self.join_all(first, result, last);
                }
                Err(_) => {}
            },
            "Convolution" | "Deconvolution" | "Embedding" | "Flatten" | "Pooling" => {
                self.join((first, 0), (result, 0));
            }
            "dot" if attributes.flag("transpose_a", false) == Ok(false) => {
                self.join((first, 0), (result, 0));
            }
            "batch_dot" => inputs.iter().for_each(|input| self.join((input, 0), (result, 0))),
            "Concat" | "stack" => self.joined(op, &attributes),
            "SliceChannel" => self.divided(op, &attributes),
            "slice_axis" => {
                let axis = attributes.int("axis", None).ok().and_then(|it| self.axis(first, it));
                if axis.is_some() {
                    self.join_all(first, result, axis);
                }
            }
            "SwapAxis" => {
                let axis = |name: &str| self.axis(first, attributes.int(name, 0).ok()?);
                let (Some(a), Some(b)) = (axis("dim1"), axis("dim2")) else { return };
                self.moved(first, result, |axis| match axis {
                    axis if axis == a => b,
                    axis if axis == b => a,
                    axis => axis,
                });
            }
            "transpose" => {
                let axes = attributes.ints("axes").unwrap_or_default();
                for (axis, from) in axes.iter().enumerate() {
                    if let Some(from) = self.axis(first, *from) {
                        self.join((first, from), (result, axis));
                    }
                }
                self.same_rank(first, result);
            }
            "expand_dims" => {
                let axis =
                    attributes.int("axis", None).ok().and_then(|it| usize::try_from(it).ok());
                let Some(new) = axis else { return };
                self.moved(first, result, |axis| if axis < new { axis } else { axis + 1 });
            }
            "Reshape" => self.reshaped(op, &attributes),
            "RNN" => {
                self.join((first, 1), (result, 1));
                for state in inputs.iter().skip(2) {
                    self.join((first, 1), (state, 1));
                }
            }
            "broadcast_like" | "reshape_like" if op.attributes.is_empty() => {
                if let Some(like) = inputs.get(1) {
                    self.join_all(like, result, None);
                }
            }
            _ => {}
        }
    }

    /// Makes each dim of a value equal to the dim of another one to which it moves.
    fn moved(&mut self, from: &'m str, to: &'m str, place: impl Fn(usize) -> usize) {
        for axis in 0..MAX_RANK {
            self.join((from, axis), (to, place(axis)));
        }
    }

    fn joined(&mut self, op: &'m Op, attributes: &Attributes<'_>) {
        let (inputs, Some(result)) = (op.input(""), op.output("").first()) else { return };
        let is_new = real_name(&op.kind) == "stack";
        let (name, default) = if is_new { ("axis", 0) } else { ("dim", 1) };
        let Some(first) = inputs.first() else { return };
        let axis = attributes.int(name, default).ok().and_then(|axis| self.axis(first, axis));
        let Some(along) = axis else { return };
        for input in inputs {
            match is_new {
                true => {
                    self.moved(input, result, |axis| if axis < along { axis } else { axis + 1 });
                    self.join_all(first, input, None);
                }
                false => self.join_all(input, result, Some(along)),
            }
        }
    }

    fn divided(&mut self, op: &'m Op, attributes: &Attributes<'_>) {
        let Some(first) = op.input("").first() else { return };
        let axis = attributes.int("axis", 1).ok().and_then(|axis| self.axis(first, axis));
        let (Some(along), Ok(squeezes)) = (axis, attributes.flag("squeeze_axis", false)) else {
            return;
        };
        let rank = self.ranks.get(first.as_str()).copied();
        for part in op.output("") {
            if !squeezes {
                self.join_all(first, part, Some(along));
                continue;
            }
            for axis in (0..MAX_RANK).filter(|axis| *axis != along) {
                let place = if axis < along { axis } else { axis - 1 };
                self.join((first, axis), (part, place));
            }
            if let Some(rank) = rank.and_then(|rank| rank.checked_sub(1)) {
                self.ranks.insert(part, rank);
            }
        }
    }

    /// Leading codes 0 of a new shape keep dims.
    fn reshaped(&mut self, op: &'m Op, attributes: &Attributes<'_>) {
        let (Some(first), Some(result)) = (op.input("").first(), op.output("").first()) else {
            return;
        };
        let is_reverse = attributes.flag("reverse", false).unwrap_or(true);
        let codes = attributes.ints("shape").unwrap_or_default();
        let kept = codes.iter().take_while(|code| **code == 0).count();
        for axis in 0..if is_reverse { 0 } else { kept } {
            self.join((first, axis), (result, axis));
        }
        if codes.iter().all(|code| *code >= -1) && !codes.is_empty() {
            self.ranks.insert(result, codes.len());
        }
    }
}

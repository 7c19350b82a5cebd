//! Programs that compute with quantized integers, as PaddlePaddle's older quantization writes them.
//!
//! | PaddlePaddle | ONNX |
//! |---|---|
//! | `fake_quantize_range_abs_max` and others without `dequantize` | `QuantizeLinear` |
//! | `conv2d`, `mul`, `matmul` of these integers and of integers as weights | `DequantizeLinear` of both, `Conv`, `MatMul` |
//! | `fake_dequantize_max_abs`, `fake_channel_wise_dequantize_max_abs` of the result | nothing |
//!
//! The result is the same, since products are linear in both factors, and runtimes find the operators that they compute with
//! integers. The scale of the weights is an attribute or a parameter of the operator that dequantizes.

use std::collections::{HashMap, HashSet};

use lodstone_model::{AttributeValue, DType, Op, Program};

use super::variables::Bound;
use super::walk::{Site, Walk};
use crate::frame::Step;
use crate::onnx::Value;
use crate::paddle::operator::Outcome;
use crate::paddle::quantize::holds_integers;

/// The greatest integer of 8 bits.
const GREATEST: f64 = 127.0;

/// Operators that multiply: the slots of both factors and of the result, and the axis of the weights, counted from the
/// end, along which the channels of the result lie.
const PRODUCTS: [(&str, [&str; 3], i64); 6] = [
    ("conv2d", ["Input", "Filter", "Output"], 4),
    ("depthwise_conv2d", ["Input", "Filter", "Output"], 4),
    ("conv2d_transpose", ["Input", "Filter", "Output"], 3),
    ("matmul", ["X", "Y", "Out"], 1),
    ("matmul_v2", ["X", "Y", "Out"], 1),
    ("mul", ["X", "Y", "Out"], 1),
];

/// The scales of weights.
enum Scales {
    /// The distance of two neighbors.
    Step(f64),
    /// The scale of each channel.
    Channels(Value),
}

/// A product of integers.
#[derive(Clone, Copy)]
pub(super) struct Product<'p> {
    /// The operator that dequantizes the result, and its index in the block.
    restores: (usize, &'p Op),
    factors: [&'p str; 2],
    /// The axis of the weights along which the channels of the result lie, counted from the end.
    axis: i64,
}

/// Returns the products of a program whose results only one operator reads, which dequantizes them; by block and index.
pub(super) fn products<'p>(
    program: &'p Program,
    outputs: &HashSet<&str>,
) -> HashMap<(usize, usize), Product<'p>> {
    let mut found = HashMap::new();
    let (mut reads, mut writes) = (HashMap::<&str, usize>::new(), HashMap::<&str, usize>::new());
    for op in program.ops() {
        op.reads().for_each(|name| *reads.entry(name).or_default() += 1);
        op.writes().for_each(|name| *writes.entry(name).or_default() += 1);
    }
    let is_single = |name: &str| {
        reads.get(name) == Some(&1) && writes.get(name) == Some(&1) && !outputs.contains(name)
    };
    for (block, ops) in program.blocks.iter().map(|block| &block.ops).enumerate() {
        let mut open = HashMap::new();
        for (number, op) in ops.iter().enumerate() {
            if let Some((_, [x, y, out], axis)) = PRODUCTS.iter().find(|row| row.0 == op.kind)
                && let ([x], [y], [out]) = (op.input(x), op.input(y), op.output(out))
                && is_single(out)
            {
                open.insert(out.as_str(), (number, [x.as_str(), y.as_str()], *axis));
            }
            let is_end = op.kind == "fake_dequantize_max_abs"
                || op.kind == "fake_channel_wise_dequantize_max_abs";
            if is_end
                && let [x] = op.input("X")
                && let Some((at, factors, axis)) = open.remove(x.as_str())
            {
                found.insert((block, at), Product { restores: (number, op), factors, axis });
            }
        }
    }
    found
}

impl<'p> Walk<'p> {
    /// Returns the factors of a product of integers as the numbers that they stand for, if the operator at a place is such
    /// a product. The operator that dequantizes the result is then left out.
    pub(super) fn restored_factors(
        &mut self,
        site: &Site<'_, 'p>,
    ) -> Outcome<Option<[(&'p str, Value); 2]>> {
        let place = (site.at.block, site.at.number);
        let Some(product) = self.dialect.products.get(&place).copied() else { return Ok(None) };
        let (number, end) = product.restores;
        let [x, weights] = product.factors.map(|name| known(site, name));
        let (Some(x), Some(weights)) = (x, weights) else { return Ok(None) };
        let Some((scale, scales)) = scales(site, end, product.axis) else { return Ok(None) };
        let integers = self.graph.narrow(&x).filter(|integers| integers.dtype() == DType::Int8);
        let Some(integers) = integers else { return Ok(None) };
        let is_turned = ["transpose_Y", "trans_y"]
            .iter()
            .any(|name| site.op.attribute(name) == Some(&AttributeValue::Bool(true)));
        let fits = self.parameters.get(weights.name()).is_some_and(|it| holds_integers(it))
            && match &scales {
                Scales::Step(_) => true,
                Scales::Channels(scales) => {
                    !is_turned && is_along(&x, &weights, scales, product.axis)
                }
            };
        if !fits {
            return Ok(None);
        }
        self.graph.begin(&end.kind);
        let graph = &mut self.graph;
        let own = graph.step_of(&scale, GREATEST, false)?;
        let x = graph.linear("DequantizeLinear", &integers, &own, None)?;
        let narrow = graph.cast(&weights, DType::Int8)?;
        let (step, axis) = match &scales {
            Scales::Channels(scales) => {
                let rank = weights.rank()?.number();
                (graph.step_of(scales, GREATEST, true)?, Some(rank - product.axis))
            }
            Scales::Step(step) => (graph.number(scale.dtype(), *step)?, None),
        };
        let weights = graph.linear("DequantizeLinear", &narrow, &step, axis)?;
        self.dialect.left_out.insert((site.at.block, number));
        let [x_name, weights_name] = product.factors;
        Ok(Some([(x_name, x), (weights_name, weights)]))
    }

    /// Passes on the result of a product whose factors were dequantized.
    pub(super) fn pass(&mut self, site: &mut Site<'_, 'p>) -> Step {
        let (value, lod) = self.tensor(site, "X")?;
        match self.result(site, "Out") {
            Some(out) => self.bind(site, out, &value, lod),
            None => Ok(()),
        }
    }
}

/// Returns the tensor that a variable holds, if it does.
fn known(site: &Site<'_, '_>, name: &str) -> Option<Value> {
    match site.scope.get(name)? {
        Bound::Tensor(value, _) => Some(value.clone()),
        _ => None,
    }
}

/// Returns the scale of the activations and those of the weights of an operator that dequantizes a product.
fn scales(site: &Site<'_, '_>, end: &Op, axis: i64) -> Option<(Value, Scales)> {
    if end.kind == "fake_dequantize_max_abs" {
        let scale = known(site, end.input("Scale").first()?)?;
        let Some(AttributeValue::Float(range)) = end.attribute("max_range") else {
            return None;
        };
        let step = GREATEST / f64::from(*range);
        return (step.is_finite() && step > 0.0).then_some((scale, Scales::Step(step)));
    }
    let columns = match end.attribute("x_num_col_dims") {
        Some(AttributeValue::Int(columns)) => *columns,
        _ => 1,
    };
    let bits = end.attribute("quant_bits");
    let [weights, scale] = end.input("Scales") else { return None };
    // The channels of images are the second dim.
    let fits = bits == Some(&AttributeValue::Ints(vec![8, 8])) && (axis > 1 || columns == 1);
    let scales = (known(site, scale)?, Scales::Channels(known(site, weights)?));
    fits.then_some(scales)
}

/// Whether weights have a scale for each channel of the result.
fn is_along(x: &Value, weights: &Value, scales: &Value, axis: i64) -> bool {
    let (Some(dims), Some(count)) = (weights.known_dims(), scales.known_dims()) else {
        return false;
    };
    let place = usize::try_from(axis).ok().and_then(|axis| dims.len().checked_sub(axis));
    let channels = place.and_then(|place| dims.get(place));
    let is_matrix = dims.len() == 2 && x.rank().is_ok_and(|rank| rank == 2);
    (axis > 1 || is_matrix) && channels.copied() == Some(count.iter().product())
}

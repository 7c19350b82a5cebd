//! Quantized operators that are neither convolutions nor products: they compute with the numbers of the integers.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::node::{Blob, Node, Outcome, Rule};
use super::signed::SHIFT;
use crate::onnx::Value;
use crate::onnx::quantization::Grid;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Int8Add", Rule::Quantized(|node| add(node, false))),
    ("Int8AddRelu", Rule::Quantized(|node| add(node, true))),
    ("Int8Dequantize", Rule::One(dequantize)),
    ("Int8Quantize", Rule::Quantized(quantize)),
    ("Int8Relu", Rule::Quantized(relu)),
    ("Int8Sum", Rule::Quantized(|node| add(node, false))),
    ("Int8SumRelu", Rule::Quantized(|node| add(node, true))),
];

impl Node<'_> {
    /// Quantizes a result to the grid of the arguments.
    pub(super) fn on_grid(&mut self, x: &Value) -> Outcome<Blob> {
        for name in ["Y_scale", "Y_zero_point"] {
            if !self.has(name) {
                return Err(
                    Finding::from(format!("expected `{name}`, found none")).about_attribute(name)
                );
            }
        }
        let (scale, zero) = (self.float("Y_scale", 1.0)?, self.int("Y_zero_point", 0)?);
        let grid = Grid::new(scale, zero.saturating_sub(SHIFT.into()), DType::Int8)?;
        let value = self.quantized(x, grid)?;
        Ok(Blob { value, grid: Some(grid) })
    }

    /// Returns the numbers of a bias: floats, or integers, by default on a grid of the scale `product`.
    pub(super) fn bias(&mut self, Blob { value, grid }: Blob, product: f32) -> Outcome {
        if value.dtype() == DType::Float32 {
            return Ok(value);
        }
        let grid = grid.map_or_else(|| Grid::new(product, 0, value.dtype()), Ok)?;
        self.addend(&value, grid, Some(product))
    }
}

fn quantize(node: &mut Node<'_>) -> Outcome<Blob> {
    let [x] = node.exactly()?;
    node.on_grid(&x)
}

fn dequantize(node: &mut Node<'_>) -> Outcome {
    node.grid_of(0)?;
    node.real(0)
}

fn relu(node: &mut Node<'_>) -> Outcome<Blob> {
    let x = node.real(0)?;
    let y = node.call("Relu", &[&x], [])?;
    node.on_grid(&y)
}

fn add(node: &mut Node<'_>, is_relu: bool) -> Outcome<Blob> {
    if node.count() != 2 {
        return Err(format!("expected 2 inputs, found {}", node.count()).into());
    }
    node.grid_of(0)?;
    node.grid_of(1)?;
    let (left, right) = (node.real(0)?, node.real(1)?);
    let sum = node.add(&left, &right)?;
    let sum = if is_relu { node.call("Relu", &[&sum], [])? } else { sum };
    node.on_grid(&sum)
}

//! Quantized operators. A quantized value is three: integers, and the smallest and largest number of their range.
//!
//! | type | number |
//! |---|---|
//! | int8 | `q * max(abs(min), abs(max)) / 127` |
//! | uint8 | `q * (max - min) / 255 + min` |
//! | int32 | `q * max(abs(min), abs(max)) / (2^31 - 1)` |

use lodstone_model::DType;

use super::activations::activate;
use super::linear::embedding;
use super::normalize::batch_norm;
use super::pool::pooling;
use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, axis_of, rank};
use crate::onnx::layout::Layout;
use crate::onnx::{Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_contrib_dequantize", Rule::One(dequantize)),
    ("_contrib_quantize", Rule::Many(quantize)),
    ("_contrib_quantize_asym", Rule::Many(quantize_asym)),
    ("_contrib_quantize_v2", Rule::Many(quantize_v2)),
    ("_contrib_quantized_act", Rule::Many(act)),
    ("_contrib_quantized_batch_norm", Rule::Many(normalized)),
    ("_contrib_quantized_concat", Rule::Many(concat)),
    ("_contrib_quantized_conv", Rule::Many(conv)),
    ("_contrib_quantized_elemwise_add", Rule::Many(|node| elementwise(node, "Add"))),
    ("_contrib_quantized_elemwise_mul", Rule::Many(|node| elementwise(node, "Mul"))),
    ("_contrib_quantized_embedding", Rule::Many(embedded)),
    ("_contrib_quantized_flatten", Rule::Many(flatten)),
    ("_contrib_quantized_fully_connected", Rule::Many(fully_connected)),
    ("_contrib_quantized_pooling", Rule::Many(pooled)),
    ("_contrib_requantize", Rule::Many(requantize)),
];

/// The largest number of 32 bits, and the largest float below it.
const LARGEST: f64 = 2_147_483_647.0;
const LARGEST_FLOAT: f64 = 2_147_483_520.0;

/// Numbers that are stored as integers.
#[derive(Clone)]
pub(in crate::mxnet) struct Quantized {
    pub(in crate::mxnet) data: Value,
    pub(in crate::mxnet) least: Value,
    pub(in crate::mxnet) most: Value,
}

impl Quantized {
    fn outputs(self) -> Vec<Value> {
        vec![self.data, self.least, self.most]
    }
}

/// The calibrated range of an operator, if it has one.
fn calibrated(node: &Node<'_>) -> Outcome<Option<(f64, f64)>> {
    let least = node.attributes.float_or_none("min_calib_range")?;
    let most = node.attributes.float_or_none("max_calib_range")?;
    match (least, most) {
        (Some(least), Some(most)) if least.is_finite() && most.is_finite() && least <= most => {
            Ok(Some((least, most)))
        }
        (None, None) => Ok(None),
        _ => Err("expected both ends of the calibrated range".into()),
    }
}

impl Node<'_> {
    fn scalar(&mut self, x: &Value) -> Outcome {
        self.reshape_to(x, &[])
    }

    /// Returns the larger size of the ends of a range.
    fn largest(&mut self, least: &Value, most: &Value) -> Outcome {
        let (least, most) = (self.call("Abs", &[least], [])?, self.call("Abs", &[most], [])?);
        self.call("Max", &[&least, &most], [])
    }

    /// Returns the numbers of integers.
    pub(in crate::mxnet) fn numbers(&mut self, x: &Quantized) -> Outcome {
        let (least, most) = (self.scalar(&x.least)?, self.scalar(&x.most)?);
        let floats = self.cast(&x.data, DType::Float32)?;
        if x.data.dtype() == DType::Uint8 {
            let range = self.sub(&most, &least)?;
            let level = self.times(&range, 1.0 / 255.0)?;
            let scaled = self.mul(&floats, &level)?;
            return self.add(&scaled, &least);
        }
        let steps = match x.data.dtype() {
            DType::Int8 => 127.0,
            DType::Int32 => LARGEST,
            other => return Err(format!("expected quantized integers, found {other}").into()),
        };
        let largest = self.largest(&least, &most)?;
        let level = self.times(&largest, 1.0 / steps)?;
        self.mul(&floats, &level)
    }

    /// Quantizes numbers to integers of a range.
    fn integers(
        &mut self,
        x: &Value,
        least: &Value,
        most: &Value,
        to: DType,
    ) -> Outcome<Quantized> {
        let (least, most) = (self.scalar(least)?, self.scalar(most)?);
        if to == DType::Uint8 {
            let range = self.sub(&most, &least)?;
            let steps = self.number(DType::Float32, 255.0)?;
            let scale = self.div(&steps, &range)?;
            let moved = self.sub(x, &least)?;
            let scaled = self.mul(&moved, &scale)?;
            let scaled = self.plus(&scaled, 0.5)?;
            let scaled = self.clamp(&scaled, 0.0, 255.0)?;
            let data = self.cast(&scaled, to)?;
            return self.ranged(data, &least, &most);
        }
        let largest = self.largest(&least, &most)?;
        let lowest = self.call("Neg", &[&largest], [])?;
        let (steps, half) = if to == DType::Int8 { (127.0, 0.5) } else { (LARGEST_FLOAT, 0.0) };
        let all = self.number(DType::Float32, steps)?;
        let scale = self.div(&all, &largest)?;
        let size = self.call("Abs", &[x], [])?;
        let scaled = self.mul(&size, &scale)?;
        let scaled = if half == 0.0 { scaled } else { self.plus(&scaled, half)? };
        let scaled = self.clamp(&scaled, 0.0, steps)?;
        let whole = self.call("Floor", &[&scaled], [])?;
        let sign = self.call("Sign", &[x], [])?;
        let signed = self.mul(&whole, &sign)?;
        let data = self.cast(&signed, to)?;
        self.ranged(data, &lowest, &largest)
    }

    /// Returns a quantized value with the ends of its range as vectors.
    fn ranged(&mut self, data: Value, least: &Value, most: &Value) -> Outcome<Quantized> {
        Ok(Quantized {
            data,
            least: self.reshape_to(least, &[1])?,
            most: self.reshape_to(most, &[1])?,
        })
    }

    /// Quantizes numbers to a range, or to that of the numbers. Without a range, integers have the type `open`.
    pub(in crate::mxnet) fn quantized(
        &mut self,
        x: &Value,
        range: Option<(f64, f64)>,
        open: DType,
    ) -> Outcome<Quantized> {
        let x = self.cast(x, DType::Float32)?;
        let Some((least, most)) = range else {
            let axes: Vec<i64> = (0..rank(&x)?).collect();
            let least = self.reduce("ReduceMin", &x, &axes, false)?;
            let most = self.reduce("ReduceMax", &x, &axes, false)?;
            return self.integers(&x, &least, &most, open);
        };
        let to = if least >= 0.0 { DType::Uint8 } else { DType::Int8 };
        let (least, most) =
            (self.number(DType::Float32, least)?, self.number(DType::Float32, most)?);
        self.integers(&x, &least, &most, to)
    }

    /// Returns a quantized input whose range is at the positions `range` and `range + 1`.
    fn quantized_input(&self, data: usize, range: usize) -> Outcome<Quantized> {
        Ok(Quantized {
            data: self.input(data)?,
            least: self.input(range)?,
            most: self.input(range + 1)?,
        })
    }

    fn out_type(&self, default: &'static str) -> Outcome<&'static str> {
        self.attributes.word("out_type", &["auto", "int8", "uint8"], default)
    }
}

fn dequantize(node: &mut Node<'_>) -> Outcome {
    node.at_most(3)?;
    node.attributes.word("out_type", &["float32"], "float32")?;
    let x = node.quantized_input(0, 1)?;
    node.numbers(&x)
}

fn quantize(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [x, least, most] = node.exactly()?;
    let to = match node.out_type("uint8")? {
        "int8" => DType::Int8,
        "uint8" => DType::Uint8,
        _ => return Err(wrong("out_type", "`int8` or `uint8`", "auto")),
    };
    node.integers(&x, &least, &most, to).map(Quantized::outputs)
}

/// Quantizes to a type of integers; `auto` is unsigned if the calibrated range has no negative numbers.
fn to_type(node: &mut Node<'_>, x: &Value, default: &'static str) -> Outcome<Vec<Value>> {
    let range = calibrated(node)?;
    let to = match (node.out_type(default)?, range) {
        ("uint8", _) => DType::Uint8,
        ("auto", Some((least, _))) if least >= 0.0 => DType::Uint8,
        _ => DType::Int8,
    };
    let Some((least, most)) = range else {
        return node.quantized(x, None, to).map(Quantized::outputs);
    };
    let (least, most) = (node.number(DType::Float32, least)?, node.number(DType::Float32, most)?);
    node.integers(x, &least, &most, to).map(Quantized::outputs)
}

/// Quantizes numbers to unsigned bytes; returns these, the scale, and the shift: `q = x * scale + shift`.
fn quantize_asym(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [x] = node.exactly()?;
    let range = calibrated(node)?;
    if x.dtype() != DType::Float32 {
        return Err(format!("expected float32, found {}", x.dtype()).into());
    }
    let (least, most) = match range {
        Some((least, most)) => {
            (node.filled(DType::Float32, least, &[1])?, node.filled(DType::Float32, most, &[1])?)
        }
        None => {
            let flat = node.reshape(&x, &[-1])?;
            let least = node.reduce("ReduceMin", &flat, &[0], true)?;
            (least, node.reduce("ReduceMax", &flat, &[0], true)?)
        }
    };
    let width = node.sub(&most, &least)?;
    let steps = node.number(DType::Float32, 255.0)?;
    let scale = node.div(&steps, &width)?;
    let largest = node.mul(&most, &scale)?;
    let shift = node.sub(&steps, &largest)?;
    let scaled = node.mul(&x, &scale)?;
    let scaled = node.add(&scaled, &shift)?;
    let scaled = node.plus(&scaled, 0.5)?;
    let scaled = node.clamp(&scaled, 0.0, 255.0)?;
    Ok(vec![node.cast(&scaled, DType::Uint8)?, scale, shift])
}

fn quantize_v2(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [x] = node.exactly()?;
    to_type(node, &x, "int8")
}

fn requantize(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    node.at_most(3)?;
    let x = node.quantized_input(0, 1)?;
    let numbers = node.numbers(&x)?;
    to_type(node, &numbers, "int8")
}

/// Applies a rule of floats to the integers of the first input, whose range the result keeps.
fn passed(
    node: &mut Node<'_>,
    x: &Quantized,
    rule: impl FnOnce(&mut Node<'_>) -> Outcome,
) -> Outcome<Vec<Value>> {
    let floats = node.cast(&x.data, DType::Float32)?;
    let y = node.with_inputs(vec![floats], rule)?;
    let y = node.call("Round", &[&y], [])?;
    let y = node.cast(&y, x.data.dtype())?;
    Ok(vec![y, x.least.clone(), x.most.clone()])
}

fn pooled(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    node.at_most(3)?;
    let x = node.quantized_input(0, 1)?;
    passed(node, &x, pooling)
}

fn act(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    node.at_most(3)?;
    node.attributes.required_word("act_type", &["relu"])?;
    let x = node.quantized_input(0, 1)?;
    passed(node, &x, |node| {
        let floats = node.input(0)?;
        activate(node, &floats, "relu")
    })
}

fn flatten(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    node.at_most(3)?;
    let x = node.quantized_input(0, 1)?;
    let data = node.call("Flatten", &[&x.data], [int("axis", 1)])?;
    Ok(vec![data, x.least, x.most])
}

fn embedded(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    node.at_most(4)?;
    let (ids, table) = (node.input(0)?, node.quantized_input(1, 2)?);
    let data = node.with_inputs(vec![ids, table.data], embedding)?;
    Ok(vec![data, table.least, table.most])
}

fn normalized(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    node.at_most(7)?;
    let x = node.quantized_input(0, 5)?;
    let range = calibrated(node)?;
    let mut inputs = vec![node.numbers(&x)?];
    for index in 1..5 {
        inputs.push(node.input(index)?);
    }
    let y = node.with_inputs(inputs, batch_norm)?;
    // The result is signed, also if the range is not.
    let Some((least, most)) = range else {
        return node.quantized(&y, None, DType::Int8).map(Quantized::outputs);
    };
    let (least, most) = (node.number(DType::Float32, least)?, node.number(DType::Float32, most)?);
    node.integers(&y, &least, &most, DType::Int8).map(Quantized::outputs)
}

/// Concatenates, after all are quantized to the range of all.
fn concat(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let count = node.count() / 3;
    if count == 0 || !node.count().is_multiple_of(3) {
        return Err(format!("expected three inputs for each part, found {}", node.count()).into());
    }
    let (mut parts, mut least, mut most) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..count {
        let part = node.quantized_input(index, count + 2 * index)?;
        parts.push(node.numbers(&part)?);
        least.push(part.least);
        most.push(part.most);
    }
    let is_unsigned = node.input(0)?.dtype() == DType::Uint8;
    let axis = axis_of(&node.input(0)?, node.attributes.int("dim", 1)?)?;
    let all = node.concat(&parts.iter().collect::<Vec<_>>(), axis)?;
    let least = node.call("Min", &least.iter().collect::<Vec<_>>(), [])?;
    let most = node.call("Max", &most.iter().collect::<Vec<_>>(), [])?;
    let to = if is_unsigned { DType::Uint8 } else { DType::Int8 };
    node.integers(&all, &least, &most, to).map(Quantized::outputs)
}

fn elementwise(node: &mut Node<'_>, kind: &str) -> Outcome<Vec<Value>> {
    node.at_most(6)?;
    let (x, y) = (node.quantized_input(0, 2)?, node.quantized_input(1, 4)?);
    let (x, y) = (node.numbers(&x)?, node.numbers(&y)?);
    let result = node.call(kind, &[&x, &y], [])?;
    if node.attributes.flag("enable_float_output", false)? {
        return Ok(vec![result]);
    }
    let range = calibrated(node)?;
    node.quantized(&result, range, DType::Int32).map(Quantized::outputs)
}

/// The quantized operands of a product, and the number of one step of its result.
struct Product {
    data: Value,
    weight: Value,
    bias: Option<Quantized>,
    level: Value,
}

impl Product {
    /// Takes the inputs data, weight and bias, followed by the ranges of each.
    fn of(node: &mut Node<'_>) -> Outcome<Self> {
        let has_bias = !node.attributes.flag("no_bias", false)?;
        let first = if has_bias { 3 } else { 2 };
        node.at_most(first * 3)?;
        let x = node.quantized_input(0, first)?;
        let weight = node.quantized_input(1, first + 2)?;
        let bias = if has_bias { Some(node.quantized_input(2, first + 4)?) } else { None };
        let steps = if x.data.dtype() == DType::Uint8 { 255.0 } else { 127.0 };
        let mut level = |x: &Quantized, steps: f64| {
            let (least, most) = (node.scalar(&x.least)?, node.scalar(&x.most)?);
            let largest = node.largest(&least, &most)?;
            node.times(&largest, 1.0 / steps)
        };
        let (own, other) = (level(&x, steps)?, level(&weight, 127.0)?);
        let level = node.mul(&own, &other)?;
        Ok(Self { data: x.data, weight: weight.data, bias, level })
    }

    /// Returns a bias in steps of the result.
    fn offset(&self, node: &mut Node<'_>) -> Outcome<Option<Value>> {
        let Some(bias) = &self.bias else { return Ok(None) };
        let numbers = node.numbers(bias)?;
        let steps = node.div(&numbers, &self.level)?;
        node.cast(&steps, DType::Int32).map(Some)
    }

    /// Returns the result with its range.
    fn outputs(&self, node: &mut Node<'_>, data: Value) -> Outcome<Vec<Value>> {
        let most = node.times(&self.level, LARGEST)?;
        let least = node.call("Neg", &[&most], [])?;
        node.ranged(data, &least, &most).map(Quantized::outputs)
    }
}

fn conv(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let product = Product::of(node)?;
    let kernel = node.kernel()?;
    let count = kernel.len();
    let pads = node.each("pad", count, 0, 0)?;
    if node.layout(Some(count))? == Layout::Last {
        return Err(wrong("layout", "the channels before the spatial dims", "another layout"));
    }
    let attributes = vec![
        ints("kernel_shape", &kernel),
        ints("strides", &node.each("stride", count, 1, 1)?),
        ints("dilations", &node.each("dilate", count, 1, 1)?),
        ints("pads", &[pads.clone(), pads].concat()),
        int("group", node.attributes.int("num_group", 1)?),
    ];
    node.attributes.ignore(&["num_filter"]);
    let [mut y] =
        node.emit_all("ConvInteger", &[Some(&product.data), Some(&product.weight)], attributes)?;
    if let Some(offset) = product.offset(node)? {
        let offset = node.along(&offset, 1, rank(&y)?)?;
        y = node.add(&y, &offset)?;
    }
    product.outputs(node, y)
}

fn fully_connected(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let mut product = Product::of(node)?;
    node.attributes.ignore(&["num_hidden"]);
    if node.attributes.flag("flatten", true)? && rank(&product.data)? != 2 {
        product.data = node.call("Flatten", &[&product.data], [int("axis", 1)])?;
    }
    let weight = node.turned(&product.weight)?;
    let mut y = node.call("MatMulInteger", &[&product.data, &weight], [])?;
    if let Some(offset) = product.offset(node)? {
        y = node.add(&y, &offset)?;
    }
    product.outputs(node, y)
}

//! Quantized operators. A quantized value is three: integers, and the smallest and largest number of their range.
//!
//! Its numbers are `q * max(abs(min), abs(max)) / greatest`. Which number of the integers is the greatest depends on the
//! operator and the type, see [`Levels`]; of int32, it is `2^31 - 1`.

use lodstone_model::DType;

use super::activations::activate;
use super::linear::embedding;
use super::normalize::batch_norm;
use super::pool::pooling;
use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, axis_of, rank};
use crate::onnx::layout::Layout;
use crate::onnx::quantization::{Bounds, Rounding, Scale};
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
    ("_contrib_quantized_elemwise_add", Rule::Many(added)),
    ("_contrib_quantized_elemwise_mul", Rule::Many(multiplied)),
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

/// The numbers of steps that the largest number of a range is, by type.
#[derive(Clone, Copy)]
pub(in crate::mxnet) struct Levels {
    int8: f64,
    uint8: f64,
}

impl Levels {
    /// Those of `_contrib_quantize`, `_contrib_requantize`, and products.
    const WHOLE: Self = Self { int8: 127.0, uint8: 255.0 };

    /// Those of all other operators.
    pub(in crate::mxnet) const HALVED: Self = Self { int8: 127.5, uint8: 255.5 };

    fn of(self, dtype: DType) -> Outcome<f64> {
        match dtype {
            DType::Int8 => Ok(self.int8),
            DType::Uint8 => Ok(self.uint8),
            DType::Int32 => Ok(LARGEST),
            other => Err(format!("expected quantized integers, found {other}").into()),
        }
    }

    /// Returns what the largest number of a range becomes, and the integers: of 32 bits, up to the largest float below theirs.
    fn greatest(self, dtype: DType) -> Outcome<(f64, Bounds)> {
        match dtype {
            DType::Int32 => Ok((LARGEST_FLOAT, Bounds::new(-LARGEST_FLOAT, LARGEST_FLOAT)?)),
            dtype => Ok((self.of(dtype)?, Bounds::of(dtype)?)),
        }
    }
}

impl Node<'_> {
    fn scalar(&mut self, x: &Value) -> Outcome {
        self.reshape_to(x, &[])
    }

    /// Returns the largest magnitude of a range.
    fn largest(&mut self, least: &Value, most: &Value) -> Outcome {
        let (least, most) = (self.scalar(least)?, self.scalar(most)?);
        let (least, most) = (self.call("Abs", &[&least], [])?, self.call("Abs", &[&most], [])?);
        self.call("Max", &[&least, &most], [])
    }

    /// Returns the number that an integer 1 stands for.
    fn level(&mut self, x: &Quantized, levels: Levels) -> Outcome {
        let largest = self.largest(&x.least, &x.most)?;
        self.times(&largest, 1.0 / levels.of(x.data.dtype())?)
    }

    /// Returns the numbers of integers.
    pub(in crate::mxnet) fn numbers(&mut self, x: &Quantized, levels: Levels) -> Outcome {
        let level = self.level(x, levels)?;
        let steps = self.cast(&x.data, DType::Float32)?;
        self.numbers_of(&steps, None, Scale::MultiplyBy(&level))
    }

    /// Returns the integers of numbers, by the range of a type.
    fn integers(
        &mut self,
        x: &Value,
        [least, most]: [&Value; 2],
        to: DType,
        (levels, rounding): (Levels, Rounding),
    ) -> Outcome {
        let largest = self.largest(least, most)?;
        let (greatest, bounds) = levels.greatest(to)?;
        let greatest = self.number(DType::Float32, greatest)?;
        let scale = self.div(&greatest, &largest)?;
        let steps = self.steps_of(x, Scale::MultiplyBy(&scale), None, rounding)?;
        self.bounded(&steps, bounds, to)
    }

    /// Returns a quantized value with the ends of its range as vectors.
    fn ranged(&mut self, data: Value, least: &Value, most: &Value) -> Outcome<Quantized> {
        Ok(Quantized {
            data,
            least: self.reshape_to(least, &[1])?,
            most: self.reshape_to(most, &[1])?,
        })
    }

    /// Returns the range that is symmetric around 0 and includes another.
    fn symmetric(&mut self, least: &Value, most: &Value) -> Outcome<[Value; 2]> {
        let largest = self.largest(least, most)?;
        Ok([self.call("Neg", &[&largest], [])?, largest])
    }

    fn range(&mut self, (least, most): (f64, f64)) -> Outcome<[Value; 2]> {
        Ok([self.number(DType::Float32, least)?, self.number(DType::Float32, most)?])
    }

    /// Returns the least and the greatest element.
    fn own_range(&mut self, x: &Value) -> Outcome<[Value; 2]> {
        let axes: Vec<i64> = (0..rank(x)?).collect();
        Ok([self.reduce("ReduceMin", x, &axes, false)?, self.reduce("ReduceMax", x, &axes, false)?])
    }

    /// Quantizes numbers to a range, which the result has.
    fn on_range(
        &mut self,
        x: &Value,
        [least, most]: [&Value; 2],
        to: DType,
        levels: Levels,
    ) -> Outcome<Quantized> {
        let data = self.integers(x, [least, most], to, (levels, Rounding::Even))?;
        self.ranged(data, least, most)
    }

    /// Quantizes the numbers of an operator of oneDNN to a calibrated range, or to that of the numbers.
    pub(in crate::mxnet) fn quantized(
        &mut self,
        x: &Value,
        range: Option<(f64, f64)>,
    ) -> Outcome<Quantized> {
        let x = self.cast(x, DType::Float32)?;
        let (to, [least, most]) = match range {
            Some(range) if range.0 >= 0.0 => (DType::Uint8, self.range(range)?),
            Some(range) => (DType::Int8, self.range(range)?),
            None => {
                let [least, most] = self.own_range(&x)?;
                (DType::Int32, self.symmetric(&least, &most)?)
            }
        };
        self.on_range(&x, [&least, &most], to, Levels::HALVED)
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
    if x.data.dtype() == DType::Int32 {
        return Err("expected integers of 8 bits, found int32".into());
    }
    node.numbers(&x, Levels::HALVED)
}

fn quantize(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [x, least, most] = node.exactly()?;
    let to = match node.out_type("uint8")? {
        "int8" => DType::Int8,
        "uint8" => DType::Uint8,
        _ => return Err(wrong("out_type", "`int8` or `uint8`", "auto")),
    };
    let [least, most] =
        if to == DType::Int8 { node.symmetric(&least, &most)? } else { [least, most] };
    node.on_range(&x, [&least, &most], to, Levels::WHOLE).map(Quantized::outputs)
}

/// Returns the type of quantized results; `auto` is unsigned if the calibrated range has no negative numbers.
fn type_of(node: &Node<'_>, range: Option<(f64, f64)>) -> Outcome<DType> {
    Ok(match (node.out_type("int8")?, range) {
        ("uint8", _) => DType::Uint8,
        ("auto", Some((least, _))) if least >= 0.0 => DType::Uint8,
        _ => DType::Int8,
    })
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
    let by = Scale::MultiplyBy(&scale);
    let steps = node.steps_of(&x, by, Some(&shift), Rounding::UpAfterZero)?;
    let data = node.bounded(&steps, Bounds::of(DType::Uint8)?, DType::Uint8)?;
    Ok(vec![data, scale, shift])
}

/// Integers pass.
fn quantize_v2(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [x] = node.exactly()?;
    let range = calibrated(node)?;
    let to = type_of(node, range)?;
    if !x.dtype().is_float() {
        if x.dtype() != to {
            return Err(format!("expected numbers or {to}, found {}", x.dtype()).into());
        }
        let all = Levels::HALVED.of(to)?;
        let least = if to == DType::Int8 { -all } else { 0.0 };
        let [least, most] = node.range(range.map_or((least, all), |range| range))?;
        return node.ranged(x, &least, &most).map(Quantized::outputs);
    }
    let [mut least, mut most] = match range {
        Some(range) => node.range(range)?,
        None => node.own_range(&x)?,
    };
    if to == DType::Int8 {
        [least, most] = node.symmetric(&least, &most)?;
    }
    node.on_range(&x, [&least, &most], to, Levels::HALVED).map(Quantized::outputs)
}

fn requantize(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    node.at_most(3)?;
    let x = node.quantized_input(0, 1)?;
    let numbers = node.numbers(&x, Levels::WHOLE)?;
    let range = calibrated(node)?;
    let to = type_of(node, range)?;
    let [least, most] = match range {
        Some(range) => node.range(range)?,
        None => node.own_range(&numbers)?,
    };
    let [mut least, most] = node.symmetric(&least, &most)?;
    if to == DType::Uint8 {
        least = node.number(DType::Float32, 0.0)?;
    }
    node.on_range(&numbers, [&least, &most], to, Levels::WHOLE).map(Quantized::outputs)
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

/// The result is signed, also if the data are not: these become signed before.
fn normalized(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    node.at_most(7)?;
    let mut x = node.quantized_input(0, 5)?;
    let range = calibrated(node)?.ok_or("expected a calibrated range, found none")?;
    if x.data.dtype() == DType::Uint8 {
        let floats = node.cast(&x.data, DType::Float32)?;
        let share = node.number(DType::Float32, Levels::HALVED.int8 / Levels::HALVED.uint8)?;
        let steps = node.steps_of(&floats, Scale::MultiplyBy(&share), None, Rounding::Even)?;
        x.data = node.bounded(&steps, Bounds::of(DType::Int8)?, DType::Int8)?;
    }
    let numbers = node.numbers(&x, Levels::HALVED)?;
    // oneDNN normalizes what has a variance of 1 already, and adds epsilon to it.
    let epsilon = node.attributes.float("eps", 1e-3)?;
    let mut inputs = vec![node.times(&numbers, (1.0 + epsilon).sqrt().recip())?];
    for index in 1..5 {
        inputs.push(node.input(index)?);
    }
    let y = node.with_inputs(inputs, batch_norm)?;
    let [least, most] = node.range(range)?;
    node.on_range(&y, [&least, &most], DType::Int8, Levels::HALVED).map(Quantized::outputs)
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
        parts.push(node.numbers(&part, Levels::HALVED)?);
        least.push(part.least);
        most.push(part.most);
    }
    let is_unsigned = node.input(0)?.dtype() == DType::Uint8;
    let axis = axis_of(&node.input(0)?, node.attributes.int("dim", 1)?)?;
    let all = node.concat(&parts.iter().collect::<Vec<_>>(), axis)?;
    let least = node.call("Min", &least.iter().collect::<Vec<_>>(), [])?;
    let most = node.call("Max", &most.iter().collect::<Vec<_>>(), [])?;
    let to = if is_unsigned { DType::Uint8 } else { DType::Int8 };
    node.on_range(&all, [&least, &most], to, Levels::HALVED).map(Quantized::outputs)
}

/// Adds numbers. Without a calibrated range, that of the result is the sum of both.
fn added(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    node.at_most(6)?;
    let (x, y) = (node.quantized_input(0, 2)?, node.quantized_input(1, 4)?);
    if x.data.dtype() != y.data.dtype() {
        let (x, y) = (x.data.dtype(), y.data.dtype());
        return Err(format!("expected integers of one type, found {x} and {y}").into());
    }
    if node.attributes.flag("enable_float_output", false)? {
        let (x, y) = (node.numbers(&x, Levels::HALVED)?, node.numbers(&y, Levels::HALVED)?);
        return Ok(vec![node.add(&x, &y)?]);
    }
    let largest = [node.largest(&x.least, &x.most)?, node.largest(&y.least, &y.most)?];
    let (to, [least, most]) = match calibrated(node)? {
        Some(range) => (x.data.dtype(), node.range(range)?),
        None => {
            let most = node.add(&largest[0], &largest[1])?;
            (DType::Int32, [node.call("Neg", &[&most], [])?, most])
        }
    };
    // Integers are scaled before they are added, which is exact if one range is a multiple of the others.
    let (greatest, bounds) = Levels::HALVED.greatest(to)?;
    let share = greatest / Levels::HALVED.of(x.data.dtype())?;
    let all = node.largest(&least, &most)?;
    let mut ratio = |largest: &Value| {
        let ratio = node.div(largest, &all)?;
        node.times(&ratio, share)
    };
    let ratios = [ratio(&largest[0])?, ratio(&largest[1])?];
    let steps = [node.cast(&x.data, DType::Float32)?, node.cast(&y.data, DType::Float32)?];
    let other = node.mul(&steps[1], &ratios[1])?;
    let (by, rounding) = (Scale::MultiplyBy(&ratios[0]), Rounding::EvenAfterZero);
    let sum = node.steps_of(&steps[0], by, Some(&other), rounding)?;
    let data = node.bounded(&sum, bounds, to)?;
    node.ranged(data, &least, &most).map(Quantized::outputs)
}

/// Multiplies integers. With a calibrated range, fractions of the result are cut.
fn multiplied(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    node.at_most(6)?;
    let (x, y) = (node.quantized_input(0, 2)?, node.quantized_input(1, 4)?);
    for value in [&x, &y] {
        if value.data.dtype() != DType::Int8 {
            return Err(format!("expected int8, found {}", value.data.dtype()).into());
        }
    }
    let factors = [node.cast(&x.data, DType::Int32)?, node.cast(&y.data, DType::Int32)?];
    let steps = node.mul(&factors[0], &factors[1])?;
    let is_float = node.attributes.flag("enable_float_output", false)?;
    let range = calibrated(node)?;
    if !is_float && range.is_none() {
        let level = [node.level(&x, Levels::WHOLE)?, node.level(&y, Levels::WHOLE)?];
        let level = node.mul(&level[0], &level[1])?;
        return node.of_product(steps, &level);
    }
    let level = [node.level(&x, Levels::HALVED)?, node.level(&y, Levels::HALVED)?];
    let level = node.mul(&level[0], &level[1])?;
    let steps = node.cast(&steps, DType::Float32)?;
    let numbers = node.numbers_of(&steps, None, Scale::MultiplyBy(&level))?;
    let Some(range) = range.filter(|_| !is_float) else { return Ok(vec![numbers]) };
    let [least, most] = node.range(range)?;
    let how = (Levels::HALVED, Rounding::Cut);
    let data = node.integers(&numbers, [&least, &most], DType::Int8, how)?;
    node.ranged(data, &least, &most).map(Quantized::outputs)
}

impl Node<'_> {
    /// Returns the integers of a product with the range of 32 bits, by the number that an integer 1 stands for.
    fn of_product(&mut self, data: Value, level: &Value) -> Outcome<Vec<Value>> {
        let most = self.times(level, LARGEST)?;
        let least = self.call("Neg", &[&most], [])?;
        self.ranged(data, &least, &most).map(Quantized::outputs)
    }
}

/// The quantized operands of a product.
struct Product {
    data: Quantized,
    weight: Quantized,
    bias: Option<Quantized>,
}

impl Product {
    /// Takes the inputs data, weight and bias, followed by the ranges of each.
    fn of(node: &mut Node<'_>) -> Outcome<Self> {
        let has_bias = !node.attributes.flag("no_bias", false)?;
        let first = if has_bias { 3 } else { 2 };
        node.at_most(first * 3)?;
        let data = node.quantized_input(0, first)?;
        let weight = node.quantized_input(1, first + 2)?;
        let bias = if has_bias { Some(node.quantized_input(2, first + 4)?) } else { None };
        Ok(Self { data, weight, bias })
    }

    /// Returns the number that an integer 1 of the result stands for.
    fn level(&self, node: &mut Node<'_>, levels: Levels) -> Outcome {
        let (data, weight) = (node.level(&self.data, levels)?, node.level(&self.weight, levels)?);
        node.mul(&data, &weight)
    }

    /// Returns the bias in steps of the result, whose fractions are cut: in single precision, in MXNet's order.
    fn offset(&self, node: &mut Node<'_>, levels: Levels) -> Outcome<Option<Value>> {
        let Some(bias) = &self.bias else { return Ok(None) };
        let mut inverse = |factor: &Quantized| {
            let largest = node.largest(&factor.least, &factor.most)?;
            let greatest = node.number(DType::Float32, levels.of(factor.data.dtype())?)?;
            node.div(&greatest, &largest)
        };
        let (data, weight) = (inverse(&self.data)?, inverse(&self.weight)?);
        let scale = node.mul(&data, &weight)?;
        let largest = node.largest(&bias.least, &bias.most)?;
        let scale = node.mul(&scale, &largest)?;
        let greatest = node.number(DType::Float32, levels.of(bias.data.dtype())?)?;
        let scale = node.div(&scale, &greatest)?;
        let steps = node.cast(&bias.data, DType::Float32)?;
        let steps = node.mul(&steps, &scale)?;
        node.cast(&steps, DType::Int32).map(Some)
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
    let (data, weight) = (&product.data.data, &product.weight.data);
    let [mut y] = node.emit_all("ConvInteger", &[Some(data), Some(weight)], attributes)?;
    // Data of uint8 are convolved on CPUs, whose kernel adds the integers of the bias, and has the range of int8.
    let is_unsigned = data.dtype() == DType::Uint8;
    let offset = match &product.bias {
        Some(bias) if is_unsigned => Some(node.cast(&bias.data, DType::Int32)?),
        _ => product.offset(node, Levels::WHOLE)?,
    };
    if let Some(offset) = offset {
        let offset = node.along(&offset, 1, rank(&y)?)?;
        y = node.add(&y, &offset)?;
    }
    let level = product.level(node, Levels { uint8: 127.0, ..Levels::WHOLE })?;
    node.of_product(y, &level)
}

fn fully_connected(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let product = Product::of(node)?;
    node.attributes.ignore(&["num_hidden"]);
    let mut data = product.data.data.clone();
    if node.attributes.flag("flatten", true)? && rank(&data)? != 2 {
        data = node.call("Flatten", &[&data], [int("axis", 1)])?;
    }
    let weight = node.turned(&product.weight.data)?;
    let mut y = node.call("MatMulInteger", &[&data, &weight], [])?;
    if let Some(offset) = product.offset(node, Levels::HALVED)? {
        y = node.add(&y, &offset)?;
    }
    let level = product.level(node, Levels::WHOLE)?;
    node.of_product(y, &level)
}

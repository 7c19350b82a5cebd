//! Complex tensors: their last dim in the graph holds the real and the imaginary part.
//!
//! Source of truth: `torch.stft`, `torch.fft` and results of PyTorch 2.15.

use lodstone_model::{AttributeValue, DType, Op, Tensor};

use super::binary::angle_of;
use crate::onnx::{Value, int};
use crate::torch::arguments::{Arguments, Item, Number, Size, wrong};
use crate::torch::node::{Made, Node, Outcome, Rule, no_complex, place_in, rank};

/// Operators that make complex tensors, or that get only these.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_fft_c2c", Rule::Made(core_transform)),
    ("aten::_fft_c2r", Rule::Made(core_inverse)),
    ("aten::_fft_r2c", Rule::Made(core_real_transform)),
    ("aten::angle", Rule::Made(angle)),
    ("aten::complex", Rule::Made(join)),
    ("aten::fft_fft", Rule::Made(|node| transform(node, false))),
    ("aten::fft_ifft", Rule::Made(|node| transform(node, true))),
    ("aten::fft_irfft", Rule::Made(inverse_real_transform)),
    ("aten::fft_rfft", Rule::Made(real_transform)),
    ("aten::imag", Rule::Made(|node| part(node, 1))),
    ("aten::stft", Rule::Made(short_transform)),
    ("aten::view_as_complex", Rule::Made(|node| node.tensor("self").map(Made::Complex))),
    ("aten::view_as_complex_copy", Rule::Made(|node| node.tensor("self").map(Made::Complex))),
    ("aten::view_as_real", Rule::Made(|node| whole(node).map(Made::Real))),
    ("aten::view_as_real_copy", Rule::Made(|node| whole(node).map(Made::Real))),
];

/// Operators on complex tensors that have another rule for real ones.
const OF_COMPLEX: &[(&str, Rule)] = &[
    ("aten::_conj", Rule::Made(conjugate)),
    ("aten::abs", Rule::Made(magnitude)),
    ("aten::absolute", Rule::Made(magnitude)),
    ("aten::add", Rule::Made(|node| sum(node, "Add"))),
    ("aten::alias", Rule::Made(same)),
    ("aten::clone", Rule::Made(same)),
    ("aten::conj", Rule::Made(conjugate)),
    ("aten::conj_physical", Rule::Made(conjugate)),
    ("aten::contiguous", Rule::Made(same)),
    ("aten::detach", Rule::Made(same)),
    ("aten::div", Rule::Made(quotient)),
    ("aten::mul", Rule::Made(product)),
    ("aten::neg", Rule::Made(negative)),
    ("aten::permute", Rule::Made(by_dims)),
    ("aten::real", Rule::Made(|node| part(node, 0))),
    ("aten::resolve_conj", Rule::Made(same)),
    ("aten::resolve_neg", Rule::Made(same)),
    ("aten::select", Rule::Made(by_dims)),
    ("aten::slice", Rule::Made(by_dims)),
    ("aten::squeeze", Rule::Made(by_dims)),
    ("aten::sub", Rule::Made(|node| sum(node, "Sub"))),
    ("aten::transpose", Rule::Made(by_dims)),
    ("aten::unsqueeze", Rule::Made(by_dims)),
];

/// Returns the rule of an operator that gets a complex tensor; `own` is that for real ones.
pub(in crate::torch) fn rule(kind: &str, own: Rule) -> Option<Rule> {
    if matches!(own, Rule::Made(_)) {
        return Some(own);
    }
    let name = kind.split('.').next().unwrap_or(kind);
    OF_COMPLEX.iter().find(|(known, _)| *known == name).map(|(_, rule)| *rule)
}

/// Returns a complex tensor as a real one, whose last dim holds the parts; `None` if it is real.
pub(in crate::torch) fn parts_of(tensor: &Tensor) -> Option<Tensor> {
    let dtype = match tensor.dtype {
        DType::Complex64 => DType::Float32,
        DType::Complex128 => DType::Float64,
        _ => return None,
    };
    let shape = tensor.shape.iter().copied().chain([2]).collect();
    Some(Tensor { dtype, shape, recipe: tensor.recipe.parts(), ..tensor.clone() })
}

/// Returns the parts of the argument `self`.
fn whole(node: &mut Node<'_>) -> Outcome {
    match operand(node, "self")? {
        (value, true) => Ok(value),
        (_, false) => Err("expected a complex tensor, found a real one".into()),
    }
}

/// Returns the argument `self`, which is real, with a last dim of 1.
fn real(node: &mut Node<'_>) -> Outcome {
    match operand(node, "self")? {
        (value, false) => Ok(value),
        (_, true) => Err(no_complex()),
    }
}

/// Returns the parts of a real or complex argument; the imaginary part of a real one is 0.
fn with_parts(node: &mut Node<'_>, name: &str) -> Outcome {
    let (value, is_complex) = operand(node, name)?;
    if is_complex {
        return Ok(value);
    }
    let value = if value.dtype().is_float() { value } else { node.cast(&value, DType::Float32)? };
    let zeros = node.times(&value, 0.0)?;
    node.concat(&[&value, &zeros], rank(&value)? - 1)
}

/// Returns an argument, and whether it is complex; a real one has a last dim of 1.
fn operand(node: &mut Node<'_>, name: &str) -> Outcome<(Value, bool)> {
    if let Some([Item::Complex(value)]) = node.arguments.items(name) {
        return Ok((value.clone(), true));
    }
    let value = node.tensor(name)?;
    let last = rank(&value)?;
    Ok((node.unsqueeze(&value, &[last])?, false))
}

fn same(node: &mut Node<'_>) -> Outcome<Made> {
    node.arguments.ignore(&["memory_format"]);
    whole(node).map(Made::Complex)
}

/// Returns the real (0) or imaginary (1) parts.
fn part_of(node: &mut Node<'_>, value: &Value, which: i64) -> Outcome {
    let index = node.scalar_of(&Size::Known(which))?;
    let last = rank(value)? - 1;
    node.gather(value, &index, last)
}

fn part(node: &mut Node<'_>, which: i64) -> Outcome<Made> {
    let value = whole(node)?;
    part_of(node, &value, which).map(Made::Real)
}

/// Joins real and imaginary parts.
fn joined(node: &mut Node<'_>, real: &Value, imaginary: &Value) -> Outcome {
    let last = rank(real)?;
    let (real, imaginary) = (node.unsqueeze(real, &[last])?, node.unsqueeze(imaginary, &[last])?);
    node.concat(&[&real, &imaginary], last)
}

fn join(node: &mut Node<'_>) -> Outcome<Made> {
    let (real, imaginary) = (node.tensor("real")?, node.tensor("imag")?);
    joined(node, &real, &imaginary).map(Made::Complex)
}

fn magnitude(node: &mut Node<'_>) -> Outcome<Made> {
    let value = whole(node)?;
    let axes = node.longs(&[rank(&value)? - 1]);
    node.call("ReduceL2", &[&value, &axes], [int("keepdims", 0)]).map(Made::Real)
}

fn angle(node: &mut Node<'_>) -> Outcome<Made> {
    let value = with_parts(node, "self")?;
    let (real, imaginary) = (part_of(node, &value, 0)?, part_of(node, &value, 1)?);
    angle_of(node, &imaginary, &real, value.dtype()).map(Made::Real)
}

fn conjugate(node: &mut Node<'_>) -> Outcome<Made> {
    let value = whole(node)?;
    let (real, imaginary) = (part_of(node, &value, 0)?, part_of(node, &value, 1)?);
    let imaginary = node.call("Neg", &[&imaginary], [])?;
    joined(node, &real, &imaginary).map(Made::Complex)
}

fn negative(node: &mut Node<'_>) -> Outcome<Made> {
    let value = whole(node)?;
    node.call("Neg", &[&value], []).map(Made::Complex)
}

/// Adds or subtracts; the imaginary part of a real tensor is 0.
fn sum(node: &mut Node<'_>, kind: &str) -> Outcome<Made> {
    if !matches!(node.arguments.number("alpha")?, None | Some(Number::Int(1))) {
        return Err(wrong("alpha", "1 for complex tensors", "another number"));
    }
    let both = [with_parts(node, "self")?, with_parts(node, "other")?];
    node.call(kind, &both.each_ref(), []).map(Made::Complex)
}

fn product(node: &mut Node<'_>) -> Outcome<Made> {
    let (left, is_left) = operand(node, "self")?;
    let (right, is_right) = operand(node, "other")?;
    if !(is_left && is_right) {
        let (left, right) = (node.cast(&left, DType::Float32)?, node.cast(&right, DType::Float32)?);
        return node.mul(&left, &right).map(Made::Complex);
    }
    // A number does not change the type.
    let (left, right) = match (rank(&left)?, rank(&right)?) {
        (1, 2..) => (node.cast(&left, right.dtype())?, right),
        _ => {
            let right = node.cast(&right, left.dtype())?;
            (left, right)
        }
    };
    let (a, b) = (part_of(node, &left, 0)?, part_of(node, &left, 1)?);
    let (c, d) = (part_of(node, &right, 0)?, part_of(node, &right, 1)?);
    let (ac, bd) = (node.mul(&a, &c)?, node.mul(&b, &d)?);
    let (ad, bc) = (node.mul(&a, &d)?, node.mul(&b, &c)?);
    let real = node.call("Sub", &[&ac, &bd], [])?;
    let imaginary = node.add(&ad, &bc)?;
    joined(node, &real, &imaginary).map(Made::Complex)
}

fn quotient(node: &mut Node<'_>) -> Outcome<Made> {
    let (left, is_left) = operand(node, "self")?;
    let (right, is_right) = operand(node, "other")?;
    if !is_left || is_right {
        return Err("only the quotient of a complex and a real tensor is supported".into());
    }
    let right = node.cast(&right, left.dtype())?;
    node.div(&left, &right).map(Made::Complex)
}

/// Applies an operator that only changes dims to the parts, whose dim stays the last one.
fn by_dims(node: &mut Node<'_>) -> Outcome<Made> {
    let value = whole(node)?;
    let own = rank(&value)? - 1;
    let mut op: Op = node.op.clone();
    let places = if node.name() == "unsqueeze" { own + 1 } else { own };
    for attribute in &mut op.attributes {
        if let ("dim" | "dim0" | "dim1", AttributeValue::Long(dim)) =
            (attribute.name.as_str(), &mut attribute.value)
        {
            *dim = place_in(places, *dim)?;
        }
        if let ("dims", AttributeValue::Longs(dims)) =
            (attribute.name.as_str(), &mut attribute.value)
        {
            for dim in dims.iter_mut() {
                *dim = place_in(own, *dim)?;
            }
            dims.push(own);
        }
    }
    let mut values = node.arguments.values.clone();
    for (_, items) in values.iter_mut().filter(|(slot, _)| *slot == "self") {
        *items = vec![Item::Tensor(value.clone())];
    }
    let rule = super::rule(&op.kind);
    let names: Vec<&str> = op.attributes.iter().map(|it| it.name.as_str()).collect();
    node.arguments.ignore(&names);
    node.arguments.ignore(&values.iter().map(|(slot, _)| *slot).collect::<Vec<_>>());
    let mut inner = Node::new(node, &op, Arguments::new(&op, values));
    match rule {
        Some(Rule::One(rule)) => rule(&mut inner).map(Made::Complex),
        _ => Err("complex tensors are not supported here".into()),
    }
}

/// The maximum length of a transform whose mirrored places are constants.
const MAX_LISTED: i64 = 1 << 20;

/// By what a transform is divided.
#[derive(Clone, Copy, PartialEq)]
enum Norm {
    One,
    Root,
    Length,
}

impl Norm {
    /// Returns the `norm` of a transform.
    fn of(node: &Node<'_>, is_inverse: bool) -> Outcome<Self> {
        let norm = node.arguments.text("norm")?.unwrap_or_else(|| "backward".to_owned());
        Ok(match (norm.as_str(), is_inverse) {
            ("ortho", _) => Self::Root,
            ("backward", false) | ("forward", true) => Self::One,
            ("backward", true) | ("forward", false) => Self::Length,
            (other, _) => return Err(wrong("norm", "backward, ortho or forward", other)),
        })
    }

    /// Returns the `normalization` of an operator of Core ATen.
    fn of_core(node: &Node<'_>) -> Outcome<Self> {
        match node.arguments.int("normalization")? {
            0 => Ok(Self::One),
            1 => Ok(Self::Root),
            2 => Ok(Self::Length),
            other => Err(wrong("normalization", "0, 1 or 2", &other.to_string())),
        }
    }

    /// Multiplies a transform of ONNX, whose inverse is divided by the length.
    fn scaled(self, node: &mut Node<'_>, x: &Value, length: &Size, is_inverse: bool) -> Outcome {
        let length = match length {
            Size::Known(length) => {
                let factor = self.factor(*length, is_inverse);
                return if factor == 1.0 { Ok(x.clone()) } else { node.times(x, factor) };
            }
            Size::Value(length) => node.cast(length, x.dtype())?,
        };
        match (self, is_inverse) {
            (Self::One, false) | (Self::Length, true) => Ok(x.clone()),
            (Self::One, true) => node.mul(x, &length),
            (Self::Length, false) => node.div(x, &length),
            (Self::Root, _) => {
                let root = node.call("Sqrt", &[&length], [])?;
                if is_inverse { node.mul(x, &root) } else { node.div(x, &root) }
            }
        }
    }

    /// Returns the factor for a known length.
    fn factor(self, length: i64, is_inverse: bool) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
        let length = length.max(1) as f64;
        match (self, is_inverse) {
            (Self::One, false) | (Self::Length, true) => 1.0,
            (Self::One, true) => length,
            (Self::Root, false) => 1.0 / length.sqrt(),
            (Self::Root, true) => length.sqrt(),
            (Self::Length, false) => 1.0 / length,
        }
    }
}

/// Transforms values with parts along a dim; returns parts.
fn transformed(
    node: &mut Node<'_>,
    value: &Value,
    (axis, length): &(i64, Size),
    (is_inverse, is_onesided): (bool, bool),
    norm: Norm,
) -> Outcome {
    let (size, place) = (node.scalar_of(length)?, node.scalar_of(&Size::Known(*axis))?);
    let attributes =
        [int("inverse", i64::from(is_inverse)), int("onesided", i64::from(is_onesided))];
    let made = node.call("DFT", &[value, &size, &place], attributes)?;
    norm.scaled(node, &made, length, is_inverse)
}

/// Returns the dim of a transform and its length.
fn along(node: &mut Node<'_>, value: &Value) -> Outcome<(i64, Size)> {
    let axis = place_in(rank(value)? - 1, node.arguments.int("dim")?)?;
    let length = match node.arguments.size("n")? {
        Some(length) => length,
        None => node.size_of(value, axis)?,
    };
    Ok((axis, length))
}

fn transform(node: &mut Node<'_>, is_inverse: bool) -> Outcome<Made> {
    let (value, is_complex) = operand(node, "self")?;
    let value = if is_complex { value } else { node.cast(&value, DType::Float32)? };
    let along = along(node, &value)?;
    let norm = Norm::of(node, is_inverse)?;
    transformed(node, &value, &along, (is_inverse, false), norm).map(Made::Complex)
}

fn real_transform(node: &mut Node<'_>) -> Outcome<Made> {
    let value = real(node)?;
    let along = along(node, &value)?;
    let norm = Norm::of(node, false)?;
    transformed(node, &value, &along, (false, true), norm).map(Made::Complex)
}

fn inverse_real_transform(node: &mut Node<'_>) -> Outcome<Made> {
    let value = with_parts(node, "self")?;
    let axis = place_in(rank(&value)? - 1, node.arguments.int("dim")?)?;
    let length = match node.arguments.size("n")? {
        Some(length) => length,
        // The even one.
        None => {
            let given = node.size_of(&value, axis)?;
            let steps = node.difference_of(&given, &Size::Known(1))?;
            node.product_of(&steps, &Size::Known(2))?
        }
    };
    let norm = Norm::of(node, true)?;
    to_real(node, &value, (axis, length), norm).map(Made::Real)
}

/// Returns the first elements along a dim; zeros follow if there are fewer.
fn with_size(node: &mut Node<'_>, value: &Value, axis: i64, size: &Size) -> Outcome {
    let given = node.size_of(value, axis)?;
    let lack = node.difference_of(size, &given)?;
    let lack = node.at_least(&lack, 0)?;
    let (mut value, axes) = (value.clone(), node.longs(&[axis]));
    if lack.known() != Some(0) {
        let pads = node.list_of(&[Size::Known(0), lack])?;
        let zero = node.number(value.dtype(), 0.0)?;
        value = node.call("Pad", &[&value, &pads, &zero, &axes], [])?;
    }
    let (start, end) = (node.longs(&[0]), node.list_of(std::slice::from_ref(size))?);
    node.call("Slice", &[&value, &start, &end, &axes], [])
}

/// The inverse of a transform of real values: the values that mirror others are added.
fn to_real(node: &mut Node<'_>, value: &Value, along: (i64, Size), norm: Norm) -> Outcome {
    let (axis, length) = (along.0, &along.1);
    if let Size::Known(length @ ..1) = length {
        return Err(wrong("n", "a length of at least 1", &length.to_string()));
    }
    let half = node.quotient_of(length, 2)?;
    let kept = node.sum_of(&half, &Size::Known(1))?;
    let value = with_size(node, value, axis, &kept)?;
    let indices = match length {
        Size::Known(length) if *length <= MAX_LISTED => {
            node.longs(&(1..(length + 1) / 2).rev().collect::<Vec<_>>())
        }
        Size::Known(_) | Size::Value(_) => {
            let up = node.sum_of(length, &Size::Known(1))?;
            let end = node.quotient_of(&up, 2)?;
            let last = node.difference_of(&end, &Size::Known(1))?;
            let (last, end, step) = (node.scalar_of(&last)?, node.long(0), node.long(-1));
            node.call("Range", &[&last, &end, &step], [])?
        }
    };
    let mirrored = node.gather(&value, &indices, axis)?;
    let (real, imaginary) = (part_of(node, &mirrored, 0)?, part_of(node, &mirrored, 1)?);
    let imaginary = node.call("Neg", &[&imaginary], [])?;
    let mirrored = joined(node, &real, &imaginary)?;
    let all = node.concat(&[&value, &mirrored], axis)?;
    let made = transformed(node, &all, &along, (true, false), norm)?;
    part_of(node, &made, 0)
}

/// Returns the dims of a transform of Core ATen, with their lengths.
fn core_dims(node: &mut Node<'_>, value: &Value) -> Outcome<Vec<(i64, Size)>> {
    let whole = rank(value)? - 1;
    let dims = node.arguments.ints("dim")?.into_iter();
    dims.map(|dim| {
        let axis = place_in(whole, dim)?;
        Ok((axis, node.size_of(value, axis)?))
    })
    .collect()
}

fn core_transform(node: &mut Node<'_>) -> Outcome<Made> {
    let mut value = with_parts(node, "self")?;
    let (norm, is_inverse) = (Norm::of_core(node)?, !node.arguments.flag("forward")?);
    for along in core_dims(node, &value)? {
        value = transformed(node, &value, &along, (is_inverse, false), norm)?;
    }
    Ok(Made::Complex(value))
}

fn core_real_transform(node: &mut Node<'_>) -> Outcome<Made> {
    let value = real(node)?;
    let (norm, is_onesided) = (Norm::of_core(node)?, node.arguments.flag("onesided")?);
    let dims = core_dims(node, &value)?;
    let Some((last, rest)) = dims.split_last() else {
        return with_parts(node, "self").map(Made::Complex);
    };
    let mut value = transformed(node, &value, last, (false, is_onesided), norm)?;
    for along in rest {
        value = transformed(node, &value, along, (false, false), norm)?;
    }
    Ok(Made::Complex(value))
}

fn core_inverse(node: &mut Node<'_>) -> Outcome<Made> {
    let mut value = with_parts(node, "self")?;
    let (norm, length) = (Norm::of_core(node)?, node.arguments.size("last_dim_size")?);
    let length = length.ok_or_else(|| wrong("last_dim_size", "a size", "nothing"))?;
    let dims = core_dims(node, &value)?;
    let (last, rest) = dims.split_last().ok_or_else(|| wrong("dim", "dims", "none"))?;
    for along in rest {
        value = transformed(node, &value, along, (true, false), norm)?;
    }
    to_real(node, &value, (last.0, length), norm).map(Made::Real)
}

/// Transforms frames of a signal.
fn short_transform(node: &mut Node<'_>) -> Outcome<Made> {
    let x = node.tensor("self")?;
    let length = node.arguments.int("n_fft")?;
    let step = node.arguments.optional_int("hop_length")?.unwrap_or(length / 4);
    let width = node.arguments.optional_int("win_length")?.unwrap_or(length);
    if length < 1 || step < 1 || !(1..=length).contains(&width) {
        return Err(format!("invalid frames of {length} values by steps of {step}").into());
    }
    let is_onesided = node.arguments.optional_flag("onesided")?.unwrap_or(true);
    let is_complex = node.arguments.optional_flag("return_complex")?.unwrap_or(false);
    if node.arguments.optional_flag("align_to_window")?.unwrap_or(false) {
        return Err(wrong("align_to_window", "false", "true"));
    }
    let is_row = rank(&x)? == 1;
    let mut signal = if is_row { node.unsqueeze(&x, &[0])? } else { x };
    if node.arguments.overload() == "center" && node.arguments.flag("center")? {
        let mode = node.arguments.text("pad_mode")?.unwrap_or_else(|| "reflect".to_owned());
        let mode = match mode.as_str() {
            "constant" | "reflect" => mode,
            "replicate" => "edge".to_owned(),
            other => return Err(wrong("pad_mode", "constant, reflect or replicate", other)),
        };
        let pads = node.longs(&[0, length / 2, 0, length / 2]);
        signal = node.call("Pad", &[&signal, &pads], [crate::onnx::text("mode", &mode)])?;
    } else {
        node.arguments.ignore(&["center", "pad_mode"]);
    }
    let dtype = signal.dtype();
    let window = match node.optional("window")? {
        Some(window) => node.cast(&window, dtype)?,
        None => {
            let (one, dims) = (node.number(dtype, 1.0)?, node.longs(&[width]));
            node.call("Expand", &[&one, &dims], [])?
        }
    };
    // A narrow window is in the middle.
    let window = match (length - width) / 2 {
        _ if width == length => window,
        left => {
            let pads = node.longs(&[left, length - width - left]);
            node.call("Pad", &[&window, &pads], [])?
        }
    };
    let signal = node.unsqueeze(&signal, &[2])?;
    let (step, size) = (node.scalar_of(&Size::Known(step))?, node.scalar_of(&Size::Known(length))?);
    let attributes = [int("onesided", i64::from(is_onesided))];
    let frames = node.call("STFT", &[&signal, &step, &window, &size], attributes)?;
    let mut made = node.transpose(&frames, &[0, 2, 1, 3])?;
    if node.arguments.flag("normalized")? {
        #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
        let scale = 1.0 / (length as f64).sqrt();
        made = node.times(&made, scale)?;
    }
    if is_row {
        let axes = node.longs(&[0]);
        made = node.call("Squeeze", &[&made, &axes], [])?;
    }
    Ok(if is_complex { Made::Complex(made) } else { Made::Real(made) })
}

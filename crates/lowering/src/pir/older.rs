//! Operators that compute something else in PaddlePaddle 2.6.2, in whose form a program is written.
//!
//! The rows of `paddle_operators.tsv` list the releases since which an operator computes something else. A program that
//! follows such a release is written with operators of 2.6.2 that compute the same; where there are none, that is a loss.
//!
//! | operators | changed in | written as |
//! |---|---|---|
//! | `reduce_max`, `reduce_min`, `reduce_amax`, `reduce_amin` | 3.0 | the same, and NaN where an element is NaN |
//! | `strided_slice` and its gradient | 3.0 | ends of negative strides as 2.6.2 reads them |
//! | `fill_constant`, `fill_any_like`, `fill_constant_batch_size_like` | 3.0, 3.2 | the rounded number, which a half holds exactly |
//! | `cast` to a half | 3.0, 3.2 | the same: a loss, since 2.6.2 truncates |
//! | `sigmoid_cross_entropy_with_logits` with weights, and its gradient | 3.0 | the same: a loss |
//! | `round` | 3.1 | twice the rounded half of what is halfway between two integers |
//! | `trace` and its gradient | 3.1 | with ascending axes |
//! | `elementwise_heaviside` | 3.1 | operands of equal rank |
//! | `elementwise_max`, `elementwise_min` | 3.1 | the same, and NaN where either operand is NaN |
//! | their gradients | 3.1 | the mean of the gradients for both orders of the operands |
//! | `reduce_max_grad`, `reduce_min_grad` | 3.1 | the same, with a warning |
//! | `hard_shrink` and its gradient | 3.1 | the next lower threshold; of float64 a loss |
//! | `linear_interp_v2`, `trilinear_interp_v2`, and their gradients, to a dim of 1 | 3.3 | the same: a loss |

use std::collections::HashMap;

use lodstone_model::{
    Attribute, AttributeValue, ByteString, DType, Dim, Loss, Model, Op, Report, TensorType,
    ValueType, Var,
};
use lodstone_schema::numbers::{Axis, Rank, known};
use lodstone_schema::paddle::{Release, codes, operator, truncates};
use lodstone_schema::{Finding, Findings};

use super::attributes::{double, doubles, long, longs};
use super::registry;
use super::walk::{INNER, MAIN, attribute, new_op, operand};
use crate::frame::{At, guarded};
use crate::onnx::Names;
use crate::onnx::layout::{Layout, PADDLE};

/// Writes an operator as 2.6.2 computes it.
pub(super) type Outcome<T = ()> = Result<T, Finding>;

type Rule = fn(&mut Writer<'_>, Op) -> Outcome;

/// The rules of operators that changed after 2.6.2.
const RULES: &[(&str, Rule)] = &[
    ("cast", cast),
    ("elementwise_heaviside", heaviside),
    ("elementwise_max", either),
    ("elementwise_max_grad", both_orders),
    ("elementwise_min", either),
    ("elementwise_min_grad", both_orders),
    ("fill_any_like", filled),
    ("fill_constant", filled),
    ("fill_constant_batch_size_like", filled),
    // Zero is exact in every element type.
    ("fill_zeros_like", same),
    // 2.6.2 refuses negative indices when it runs.
    ("gather_nd", same),
    ("hard_shrink", hard_shrink),
    ("hard_shrink_grad", hard_shrink),
    ("index_select", same),
    ("linear_interp_v2", interpolated),
    ("linear_interp_v2_grad", interpolated),
    ("reduce_amax", reduced),
    ("reduce_amin", reduced),
    ("reduce_max", reduced),
    ("reduce_max_grad", not_shared),
    ("reduce_min", reduced),
    ("reduce_min_grad", not_shared),
    ("round", round),
    ("scatter_nd_add", same),
    ("sigmoid_cross_entropy_with_logits", weighted),
    ("sigmoid_cross_entropy_with_logits_grad", weighted),
    ("strided_slice", strided_slice),
    ("strided_slice_grad", strided_slice),
    ("take_along_axis", same),
    ("trace", trace),
    ("trace_grad", trace),
    ("trilinear_interp_v2", interpolated),
    ("trilinear_interp_v2_grad", interpolated),
];

/// Writes the main program of a model as one of 2.6.2.
///
/// # Errors
/// Operators that contradict themselves, with their places.
pub(super) fn write(model: &mut Model, report: &mut Report) -> Result<(), Findings> {
    let Some(program) = model.main_mut() else { return Ok(()) };
    let release = Release::of(program);
    let mut names = Names::default();
    program.vars().for_each(|var| names.take(&var.name));
    let types = program.vars().map(|var| (var.name.clone(), var.value.clone())).collect();
    let mut writer =
        Writer { release, names, types, ops: Vec::new(), vars: Vec::new(), role: None, report };
    let mut findings = Findings::default();
    for (index, block) in program.blocks.iter_mut().enumerate() {
        for write in [restated, registry::fit] {
            for (number, op) in std::mem::take(&mut block.ops).into_iter().enumerate() {
                let place = At { part: MAIN, block: index, number }.place(INNER, &op);
                writer.role = op.attributes.iter().find(|it| it.name == "op_role").cloned();
                if let Err(finding) = guarded(|| write(&mut writer, op)) {
                    findings.push(finding.at(place));
                }
            }
            block.ops = std::mem::take(&mut writer.ops);
        }
        block.vars.append(&mut writer.vars);
    }
    program.version = Some(Release::WRITTEN.number());
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// Writes an operator by its rule, if it computes something else in 2.6.2.
fn restated(writer: &mut Writer<'_>, op: Op) -> Outcome {
    let rule = writer.rule(&op).unwrap_or(same);
    rule(writer, op)
}

/// A program that is being written.
pub(super) struct Writer<'r> {
    /// The release that the program follows.
    release: Release,
    names: Names,
    /// The types of the variables.
    types: HashMap<String, ValueType>,
    /// The operators of the current block.
    ops: Vec<Op>,
    /// The variables that the current block declares in addition.
    vars: Vec<Var>,
    /// The role of the operator that is being written.
    role: Option<Attribute>,
    report: &'r mut Report,
}

impl Writer<'_> {
    /// Returns the rule of an operator that computes something else than in 2.6.2.
    fn rule(&self, op: &Op) -> Option<Rule> {
        operator(&op.kind).filter(|row| row.has_changed_by(self.release))?;
        RULES.iter().find(|(kind, _)| *kind == op.kind).map(|(_, rule)| *rule)
    }

    /// Returns the type of a variable, if it is a tensor.
    pub(super) fn declared(&self, name: &str) -> Option<TensorType> {
        self.types.get(name)?.tensor_type().cloned()
    }

    /// Returns the type of the variable in an input slot.
    fn type_of(&self, op: &Op, slot: &str) -> Outcome<TensorType> {
        let tensor = self.declared(one(op.input(slot), slot)?);
        tensor.ok_or_else(|| format!("`{slot}` must be a tensor").into())
    }

    /// Appends an operator, which gets the role of the one that it is written for.
    pub(super) fn emit(&mut self, mut op: Op) {
        if op.attribute("op_role").is_none() {
            op.attributes.extend(self.role.clone());
        }
        self.ops.push(op);
    }

    fn fresh(&mut self, base: &str, tensor: TensorType) -> String {
        let name = self.names.fresh(base);
        let value = ValueType::Tensor(tensor);
        self.types.insert(name.clone(), value.clone());
        self.vars.push(Var { name: name.clone(), value, ..Var::default() });
        name
    }

    /// Appends an operator with a new variable as its output.
    pub(super) fn call(
        &mut self,
        kind: &str,
        inputs: &[(&str, &str)],
        attributes: Vec<Attribute>,
        tensor: &TensorType,
    ) -> String {
        let name = self.fresh(kind, tensor.clone());
        self.emit(new_op(kind, inputs, &[("Out", &name)], attributes));
        name
    }

    /// Returns a variable of type `tensor` in another element type.
    pub(super) fn cast(&mut self, name: &str, tensor: &TensorType, to: DType) -> Outcome<String> {
        let code =
            |dtype| codes::dtype_code(dtype).ok_or("expected an element type that tensors have");
        let types =
            vec![attribute("in_dtype", code(tensor.dtype)?), attribute("out_dtype", code(to)?)];
        Ok(self.call("cast", &[("X", name)], types, &with_dtype(tensor, to)))
    }

    /// Returns a tensor like another one, filled with a number.
    fn number_like(&mut self, like: &str, number: f32, tensor: &TensorType) -> String {
        let dtype = attribute("dtype", -1);
        self.call("fill_any_like", &[("X", like)], vec![attribute("value", number), dtype], tensor)
    }

    fn lose(&mut self, loss: Loss, op: &Op, what: &str) {
        let output = op.writes().next().unwrap_or_default();
        self.report.lose(loss, format!("`{}` of `{output}`: {what}", op.kind));
    }
}

fn one<'a>(names: &'a [String], slot: &str) -> Outcome<&'a str> {
    match names {
        [name] => Ok(name),
        _ => Err(format!("expected one `{slot}`, found {}", names.len()).into()),
    }
}

pub(super) fn with_dtype(tensor: &TensorType, dtype: DType) -> TensorType {
    TensorType { dtype, ..tensor.clone() }
}

fn int(op: &Op, name: &str) -> Option<i64> {
    op.attribute(name).and_then(long)
}

pub(super) fn set(op: &mut Op, name: &str, value: impl Into<AttributeValue>) {
    op.attributes.retain(|it| it.name != name);
    op.attributes.push(attribute(name, value));
}

fn same(writer: &mut Writer<'_>, op: Op) -> Outcome {
    writer.emit(op);
    Ok(())
}

/// A loss unless the elements are exact in the half.
fn cast(writer: &mut Writer<'_>, op: Op) -> Outcome {
    let to = int(&op, "out_dtype").and_then(|code| i32::try_from(code).ok()).map(codes::dtype);
    let from = writer.type_of(&op, "X")?.dtype;
    let is_exact = matches!(from, DType::Bool | DType::Int8 | DType::Uint8);
    if let Some(to) = to
        && to != from
        && !is_exact
        && truncates(to, Release::WRITTEN)
        && !truncates(to, writer.release)
    {
        writer.lose(Loss::Rounding, &op, &format!("PaddlePaddle 2.6.2 truncates to {to}"));
    }
    same(writer, op)
}

/// The number is rounded beforehand.
fn filled(writer: &mut Writer<'_>, mut op: Op) -> Outcome {
    let dtype = match int(&op, "dtype").and_then(|code| i32::try_from(code).ok()) {
        Some(code) if code >= 0 => codes::dtype(code),
        _ => writer.type_of(&op, "X")?.dtype,
    };
    if !truncates(dtype, Release::WRITTEN) || truncates(dtype, writer.release) {
        return same(writer, op);
    }
    let text = match op.attribute("str_value") {
        Some(AttributeValue::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let number = match text.trim() {
        "" => op.attribute("value").and_then(double),
        text => text.parse().ok(),
    };
    // A computed number is cast.
    let Some(number) = number else { return same(writer, op) };
    #[expect(clippy::cast_possible_truncation, reason = "PaddlePaddle rounds twice, too")]
    let single = number as f32;
    let rounded = match dtype {
        DType::BFloat16 => half::bf16::from_f32(single).to_f32(),
        _ => half::f16::from_f32(single).to_f32(),
    };
    set(&mut op, "value", rounded);
    if !text.trim().is_empty() {
        let text = format!("{rounded}").to_lowercase();
        set(&mut op, "str_value", AttributeValue::String(ByteString::from(text.as_str())));
    }
    same(writer, op)
}

/// `X` gets the rank of `Y`.
fn heaviside(writer: &mut Writer<'_>, mut op: Op) -> Outcome {
    let rank =
        |tensor: &TensorType| tensor.shape.as_ref().map(Vec::len).ok_or("rank must be known");
    let (x, y) = (writer.type_of(&op, "X")?, writer.type_of(&op, "Y")?);
    let missing = rank(&y)?.saturating_sub(rank(&x)?);
    if missing > 0 {
        let axes: Vec<i32> = (0..).take(missing).collect();
        let mut shape = vec![Dim::Known(1); missing];
        shape.extend(x.shape.iter().flatten().cloned());
        let wide = TensorType { shape: Some(shape), ..x.clone() };
        let name = one(op.input("X"), "X")?.to_owned();
        let mut of_shape = x.shape.unwrap_or_default();
        of_shape.insert(0, Dim::Known(0));
        let xshape = writer.fresh("xshape", TensorType { shape: Some(of_shape), ..wide.clone() });
        let out = writer.fresh("unsqueeze2", wide);
        let outputs = [("Out", out.as_str()), ("XShape", &xshape)];
        writer.emit(new_op("unsqueeze2", &[("X", &name)], &outputs, vec![attribute("axes", axes)]));
        op.inputs.retain(|slot| slot.slot != "X");
        op.inputs.insert(0, operand("X", vec![out]));
    }
    same(writer, op)
}

impl Writer<'_> {
    /// Appends an operator whose result becomes NaN where a truth value holds.
    fn emit_or_nan(&mut self, mut op: Op, is_nan: &str, tensor: &TensorType) -> Outcome {
        let out = one(op.output("Out"), "Out")?.to_owned();
        let number = self.fresh(&op.kind, tensor.clone());
        op.outputs = vec![operand("Out", vec![number.clone()])];
        self.emit(op);
        let nan = self.number_like(&number, f32::NAN, tensor);
        let inputs = [("Condition", is_nan), ("X", nan.as_str()), ("Y", number.as_str())];
        self.emit(new_op("where", &inputs, &[("Out", &out)], Vec::new()));
        Ok(())
    }
}

/// The extremum of elements, which is NaN if one of them is.
fn reduced(writer: &mut Writer<'_>, op: Op) -> Outcome {
    let tensor = writer.type_of(&op, "X")?;
    if !tensor.dtype.is_float() {
        return same(writer, op);
    }
    let x = one(op.input("X"), "X")?.to_owned();
    let whole = writer.types.get(one(op.output("Out"), "Out")?).and_then(ValueType::tensor_type);
    let whole = whole.cloned().unwrap_or_else(|| with_dtype(&TensorType::default(), tensor.dtype));
    let is_nan =
        writer.call("isnan_v2", &[("X", &x)], Vec::new(), &with_dtype(&tensor, DType::Bool));
    let axes = ["dim", "keep_dim", "reduce_all"];
    let own = op.attributes.iter().filter(|it| axes.contains(&it.name.as_str())).cloned();
    let any = writer.fresh("reduce_any", with_dtype(&whole, DType::Bool));
    let mut reduce = new_op("reduce_any", &[("X", &is_nan)], &[("Out", &any)], own.collect());
    // Axes in a variable.
    let given = op.inputs.iter().filter(|slot| slot.slot != "X" && !slot.args.is_empty());
    reduce.inputs.extend(given.cloned());
    writer.emit(reduce);
    writer.emit_or_nan(op, &any, &whole)
}

/// The extremum of two elements, which is NaN if either of them is.
fn either(writer: &mut Writer<'_>, op: Op) -> Outcome {
    let (x, y) = (writer.type_of(&op, "X")?, writer.type_of(&op, "Y")?);
    if !x.dtype.is_float() {
        return same(writer, op);
    }
    let whole = writer.types.get(one(op.output("Out"), "Out")?).and_then(ValueType::tensor_type);
    let whole = whole.cloned().unwrap_or_else(|| with_dtype(&TensorType::default(), x.dtype));
    let mut counts = Vec::new();
    for (slot, tensor) in [("X", &x), ("Y", &y)] {
        let name = one(op.input(slot), slot)?;
        let truth = with_dtype(tensor, DType::Bool);
        let is_nan = writer.call("isnan_v2", &[("X", name)], Vec::new(), &truth);
        counts.push(writer.cast(&is_nan, &truth, DType::Int32)?);
    }
    let axis = op.attributes.iter().filter(|it| it.name == "axis").cloned().collect();
    let operands: Vec<(&str, &str)> =
        ["X", "Y"].into_iter().zip(counts.iter().map(String::as_str)).collect();
    let counted = with_dtype(&whole, DType::Int32);
    let sum = writer.call("elementwise_add", &operands, axis, &counted);
    let is_nan = writer.cast(&sum, &counted, DType::Bool)?;
    writer.emit_or_nan(op, &is_nan, &whole)
}

/// In 2.6.2, the second of two equal operands gets the gradient.
fn both_orders(writer: &mut Writer<'_>, op: Op) -> Outcome {
    let mut swapped = op.clone();
    for operand in swapped.inputs.iter_mut().chain(&mut swapped.outputs) {
        operand.slot = match operand.slot.as_str() {
            "X" => "Y".to_owned(),
            "Y" => "X".to_owned(),
            "X@GRAD" => "Y@GRAD".to_owned(),
            "Y@GRAD" => "X@GRAD".to_owned(),
            _ => continue,
        };
    }
    let mut first = op;
    let mut means = Vec::new();
    for slot in ["X@GRAD", "Y@GRAD"] {
        let other = if slot == "X@GRAD" { "Y@GRAD" } else { "X@GRAD" };
        let [name] = first.output(slot) else { continue };
        let out = name.clone();
        let tensor = writer.types.get(&out).and_then(ValueType::tensor_type).cloned();
        let tensor = tensor.unwrap_or_default();
        let parts = [writer.fresh(&out, tensor.clone()), writer.fresh(&out, tensor.clone())];
        for ((op, slot), part) in
            [(&mut first, slot), (&mut swapped, other)].into_iter().zip(&parts)
        {
            let own = op.outputs.iter_mut().filter(|operand| operand.slot == slot);
            own.for_each(|operand| operand.args = vec![part.clone()]);
        }
        means.push((out, parts, tensor));
    }
    if first.attribute("axis").and_then(long).is_some_and(|axis| axis != -1) {
        return Err("expected the operands to be aligned at the end".into());
    }
    writer.emit(first);
    writer.emit(swapped);
    for (out, [x, y], tensor) in means {
        let axis = vec![attribute("axis", -1)];
        let sum = writer.call("elementwise_add", &[("X", &x), ("Y", &y)], axis, &tensor);
        let half = vec![
            attribute("scale", 0.5_f32),
            attribute("bias", 0.0_f32),
            attribute("bias_after_scale", true),
        ];
        writer.emit(new_op("scale", &[("X", &sum)], &[("Out", &out)], half));
    }
    Ok(())
}

/// Several equal extrema share the gradient; in 2.6.2, each gets all of it.
fn not_shared(writer: &mut Writer<'_>, op: Op) -> Outcome {
    let output = op.writes().next().unwrap_or_default();
    let what = "in PaddlePaddle 2.6.2, equal extrema do not share their gradient";
    writer.report.warn(format!("`{}` of `{output}`: {what}", op.kind));
    same(writer, op)
}

/// An element is kept from the threshold on; in 2.6.2, beyond it.
fn hard_shrink(writer: &mut Writer<'_>, mut op: Op) -> Outcome {
    let dtype = writer.type_of(&op, "X")?.dtype;
    let threshold = op.attribute("threshold").and_then(double);
    let threshold = threshold.ok_or("expected a number as `threshold`")?;
    if dtype == DType::Float64 {
        let what = "PaddlePaddle 2.6.2 makes elements at the threshold 0";
        writer.lose(Loss::Results, &op, what);
        return same(writer, op);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the operator has a float")]
    set(&mut op, "threshold", (threshold as f32).next_down());
    same(writer, op)
}

/// A dim of 1 is interpolated at the first element in 2.6.2.
fn interpolated(writer: &mut Writer<'_>, op: Op) -> Outcome {
    let is_set = |name| int(&op, name).is_some_and(|value| value != 0);
    let output = op.output("Out").first().or(op.input("Out@GRAD").first());
    let dims = output.and_then(|name| writer.types.get(name)?.tensor_type()?.shape.clone());
    let layout = match op.attribute("data_layout") {
        Some(AttributeValue::String(name)) => Layout::named(&name.to_string(), PADDLE),
        _ => Some(Layout::First),
    };
    let dims = dims.unwrap_or_default();
    let spatial = match layout {
        Some(Layout::Last) => dims.get(1..dims.len().saturating_sub(1)),
        Some(Layout::First) => dims.get(2..),
        None => None,
    };
    let spatial = spatial.unwrap_or_default();
    if is_set("align_corners") || is_set("align_mode") {
        return same(writer, op);
    }
    // An image that grows only has a dim of 1 where it had one.
    let scales = op.attribute("scale").and_then(doubles).unwrap_or_default();
    let is_computed = |slot: &str| !op.input(slot).is_empty();
    let grows = !scales.is_empty()
        && scales.iter().all(|scale| *scale >= 1.0)
        && !["OutSize", "SizeTensor", "Scale"].iter().any(|slot| is_computed(slot));
    let may_be_one = |dim: &Dim| !matches!(dim, Dim::Known(2..));
    if !grows && (spatial.is_empty() || spatial.iter().any(may_be_one)) {
        let what = "PaddlePaddle 2.6.2 takes the first element where a dim becomes 1";
        writer.lose(Loss::Results, &op, what);
    }
    same(writer, op)
}

/// Halfway between two integers, 2.6.2 rounds away from zero.
fn round(writer: &mut Writer<'_>, mut op: Op) -> Outcome {
    let tensor = writer.type_of(&op, "X")?;
    if !tensor.dtype.is_float() {
        return same(writer, op);
    }
    let (x, out) = (one(op.input("X"), "X")?.to_owned(), one(op.output("Out"), "Out")?.to_owned());
    let axis = || vec![attribute("axis", -1)];
    let times = |factor: f32| {
        vec![
            attribute("scale", factor),
            attribute("bias", 0.0_f32),
            attribute("bias_after_scale", true),
        ]
    };
    let away = writer.fresh("round", tensor.clone());
    op.outputs = vec![operand("Out", vec![away.clone()])];
    writer.emit(op);
    let rest = writer.call("elementwise_sub", &[("X", &away), ("Y", &x)], axis(), &tensor);
    let rest = writer.call("abs", &[("X", &rest)], Vec::new(), &tensor);
    let half = writer.number_like(&x, 0.5, &tensor);
    let truth = with_dtype(&tensor, DType::Bool);
    let is_half = writer.call("equal", &[("X", &rest), ("Y", &half)], axis(), &truth);
    let halved = writer.call("scale", &[("X", &x)], times(0.5), &tensor);
    let halved = writer.call("round", &[("X", &halved)], Vec::new(), &tensor);
    let even = writer.call("scale", &[("X", &halved)], times(2.0), &tensor);
    let inputs = [("Condition", is_half.as_str()), ("X", &even), ("Y", &away)];
    writer.emit(new_op("where", &inputs, &[("Out", &out)], Vec::new()));
    Ok(())
}

/// The weights of a binary loss apply to its logarithm alone in 2.6.2.
fn weighted(writer: &mut Writer<'_>, op: Op) -> Outcome {
    if !op.input("pos_weight").is_empty() {
        let what = "PaddlePaddle 2.6.2 applies `pos_weight` otherwise";
        writer.lose(Loss::Results, &op, what);
    }
    same(writer, op)
}

/// PaddlePaddle 3 treats the ends of slices with negative strides as NumPy does; in 2.6.2, -1 is before the first element,
/// and ends before it are the first element.
fn strided_slice(writer: &mut Writer<'_>, mut op: Op) -> Outcome {
    let list = |name: &str| op.attribute(name).and_then(longs);
    let strides = list("strides").ok_or("expected constant `strides`")?;
    if strides.iter().all(|stride| *stride > 0) {
        return same(writer, op);
    }
    let (Some(axes), Some(mut ends)) = (list("axes"), list("ends")) else {
        return Err("expected constant `ends` with negative strides".into());
    };
    let dims = writer.type_of(&op, "Input")?.shape;
    /// Ends at least as far before the first element as any tensor has elements.
    const BEFORE: i64 = -(1 << 30);
    for ((end, axis), stride) in ends.iter_mut().zip(axes).zip(strides) {
        if stride > 0 || *end >= 0 {
            continue;
        }
        let dim = dims.as_ref().and_then(|dims| {
            let axis = Rank::of(dims).axis(axis).ok()?;
            known(dims.get(axis.index())?).ok()?
        });
        *end = match dim {
            _ if *end <= BEFORE => -1,
            Some(dim) if end.saturating_add(dim) < 0 => -1,
            Some(dim) => *end + dim,
            None => return Err(format!("expected a known dim {axis} for the end {end}").into()),
        };
    }
    let ends = ends.into_iter().map(i32::try_from).collect::<Result<Vec<_>, _>>();
    set(&mut op, "ends", ends.map_err(|_| "expected ends of 32 bits")?);
    same(writer, op)
}

/// The rows are the first of the two axes; in 2.6.2, the one that comes first.
fn trace(writer: &mut Writer<'_>, mut op: Op) -> Outcome {
    let rank = writer.type_of(&op, "Input")?.shape.map(|shape| Rank::of(&shape));
    let place = |name: &str| {
        let axis = int(&op, name).unwrap_or(if name == "axis2" { 1 } else { 0 });
        match (axis, rank) {
            (_, Some(rank)) => rank.axis(axis).map(Axis::number),
            (..0, None) => Err("rank must be known".into()),
            (axis, None) => Ok(axis),
        }
    };
    let (rows, columns) = (place("axis1")?, place("axis2")?);
    if rows > columns {
        let narrow = |axis| i32::try_from(axis).map_err(|_| "expected axes of 32 bits");
        let offset = int(&op, "offset").ok_or("expected an integer as `offset`")?;
        set(&mut op, "axis1", narrow(columns)?);
        set(&mut op, "axis2", narrow(rows)?);
        set(&mut op, "offset", narrow(-offset)?);
    }
    same(writer, op)
}

/// Returns the kinds of operators that are rewritten.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(kind, _)| *kind)
}

//! Operators whose counterparts the table cannot express: inputs, outputs, lists, constants, arrays.

use lodstone_model::{AttributeValue, DType, Dim, Holder, Op, TensorType, ValueType, Var};
use lodstone_schema::onnx::quoted;
use lodstone_schema::paddle::codes;
use lodstone_schema::pir::{DATA, FEED, FETCH, PARAMETER, fetched};

use super::attributes::{self, double, long, longs};
use super::constants::{Constant, MAX_ELEMENTS};
use super::walk::{Bound, Walk, attribute, new_op, operand};
use super::{composed, control};
use crate::frame::Step;
use crate::rules::{RuleName, Rules, families};

pub(super) type Rule = for<'p> fn(&mut Walk<'p>, &'p Op) -> Step;

/// Rules by operator.
const RULES: &[(&str, Rule)] = &[
    (PARAMETER, |walk, op| stored(walk, op)),
    ("builtin.combine", |walk, op| combine(walk, op)),
    ("builtin.split", |walk, op| split(walk, op)),
    ("builtin.slice", |walk, op| member(walk, op)),
    ("cf.yield", |_, _| Ok(())),
    (DATA, |walk, op| input(walk, op)),
    (FEED, |walk, op| input(walk, op)),
    (FETCH, |walk, op| fetch(walk, op)),
    ("pd_op.arange", |walk, op| range(walk, op)),
    ("pd_op.array_read", |walk, op| array_read(walk, op)),
    ("pd_op.array_write_", |walk, op| array_write(walk, op)),
    ("pd_op.assert", |_, _| Ok(())),
    ("pd_op.assign_out_", |walk, op| assign_out(walk, op)),
    ("pd_op.assign_value", |walk, op| assign_value(walk, op, None)),
    ("pd_op.assign_value_", |walk, op| assign_value(walk, op, Some(0))),
    ("pd_op.create_array", |walk, op| create_array(walk, op)),
    ("pd_op.create_array_like", |walk, op| create_array_like(walk, op)),
    ("pd_op.depend", |walk, op| same(walk, op)),
    ("pd_op.empty", |walk, op| full(walk, op, Fill::Number(0.0))),
    ("pd_op.empty_like", |walk, op| full_like(walk, op, 0.0)),
    ("pd_op.full", |walk, op| full(walk, op, Fill::Attribute)),
    ("pd_op.full_", |walk, op| full(walk, op, Fill::Attribute)),
    ("pd_op.full_int_array", |walk, op| full_int_array(walk, op)),
    ("pd_op.full_with_tensor", |walk, op| full(walk, op, Fill::Operand)),
    ("pd_op.memcpy", |walk, op| same(walk, op)),
    ("pd_op.memcpy_d2h", |walk, op| same(walk, op)),
    ("pd_op.memcpy_h2d", |walk, op| same(walk, op)),
    ("pd_op.npu_identity", |walk, op| same(walk, op)),
    ("pd_op.ones", |walk, op| full(walk, op, Fill::Number(1.0))),
    ("pd_op.ones_like", |walk, op| full_like(walk, op, 1.0)),
    ("pd_op.print", |walk, op| same(walk, op)),
    ("pd_op.shape", |walk, op| shape(walk, op)),
    ("pd_op.shape64", |walk, op| shape(walk, op)),
    ("pd_op.share_data", |walk, op| same(walk, op)),
    ("pd_op.slice_array_dense", |walk, op| array_read(walk, op)),
    ("pd_op.split_with_num", |walk, op| split_with_num(walk, op)),
    ("pd_op.trans_layout", |walk, op| transpose(walk, op)),
    ("pd_op.tril", |walk, op| triangle(walk, op, ("tril_triu", "X", "Out"), true)),
    ("pd_op.tril_grad", |walk, op| triangle(walk, op, TRIANGLE_GRAD, true)),
    ("pd_op.triu", |walk, op| triangle(walk, op, ("tril_triu", "X", "Out"), false)),
    ("pd_op.triu_grad", |walk, op| triangle(walk, op, TRIANGLE_GRAD, false)),
    ("pd_op.zeros", |walk, op| full(walk, op, Fill::Number(0.0))),
    ("pd_op.zeros_like", |walk, op| full_like(walk, op, 0.0)),
];

/// Returns the rule of an operator. One that works in place has that of the operator that does not, unless it has its
/// own.
pub(super) fn rule(op: &Op) -> Option<Rule> {
    ALL.get(name(op)?.kind)
}

/// Returns the name of the rule of an operator.
pub(crate) fn name(op: &Op) -> Option<RuleName> {
    ALL.name(&op.kind).or_else(|| ALL.name(op.kind.strip_suffix('_')?))
}

/// Returns the names of all rules.
pub(super) fn names() -> impl Iterator<Item = RuleName> {
    ALL.names()
}

static ALL: Rules<Rule> = Rules::new(&[families![composed, control], &[("special", RULES)]]);

/// Whether an operator of the result makes a constant, which is not needed if nothing reads it.
pub(super) fn makes_constant(op: &Op) -> bool {
    op.inputs.is_empty() && ["fill_constant", "assign_value"].contains(&op.kind.as_str())
}

/// Returns an operand.
pub(super) fn arg(op: &Op, index: usize) -> Step<&str> {
    let arg = op.input("").get(index).map(String::as_str).filter(|arg| !arg.is_empty());
    arg.ok_or_else(|| format!("operand {index} is missing").into())
}

/// Returns the only result.
pub(super) fn result(op: &Op) -> Step<&str> {
    let result = op.output("").first().map(String::as_str).filter(|name| !name.is_empty());
    result.ok_or_else(|| "the result is missing".into())
}

/// Declares a parameter.
fn stored<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    walk.result(op, result(op)?);
    Ok(())
}

fn combine<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let member = |arg: &String| match arg.as_str() {
        "" => Ok(None),
        arg => walk.variable(arg).map(Some),
    };
    let members = op.input("").iter().map(member).collect::<Step<Vec<_>>>()?;
    walk.bind(result(op)?, Bound::List(members));
    Ok(())
}

/// Binds the members of a list.
fn split<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let members = members(walk, op)?;
    if members.len() != op.output("").len() {
        let (found, expected) = (op.output("").len(), members.len());
        return Err(format!("expected {expected} results, found {found}").into());
    }
    for (value, member) in op.output("").iter().zip(members) {
        match member {
            _ if value.is_empty() => {}
            Some(member) => walk.bind(value, Bound::Variable(member)),
            None => {
                let what = format!("the list has no value for the result {}", quoted(value));
                walk.values.refuse(value, what.into());
            }
        }
    }
    Ok(())
}

/// Binds a member of a list.
fn member<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let members = members(walk, op)?;
    let index = op.attribute("index").and_then(attributes::long);
    let index = index.and_then(|index| usize::try_from(index).ok());
    let member = index.and_then(|index| members.get(index).cloned().flatten());
    let member = member.ok_or("expected the index of a member as `index`")?;
    walk.bind(result(op)?, Bound::Variable(member));
    Ok(())
}

fn members(walk: &Walk<'_>, op: &Op) -> Step<Vec<Option<String>>> {
    match walk.bound(arg(op, 0)?)? {
        Bound::List(members) => Ok(members),
        _ => Err("expected a list".into()),
    }
}

/// Feeds an input; a persistable one is a parameter.
fn input<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let value = result(op)?;
    let is_stored = walk.vars.get(value).is_some_and(|var| var.persistable);
    let name = walk.result(op, value);
    if !is_stored {
        let column = attribute("col", walk.columns.0);
        walk.columns.0 += 1;
        walk.mark_fed();
        walk.emit(new_op("feed", &[("X", "feed")], &[("Out", &name)], vec![column]));
    }
    Ok(())
}

fn fetch<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let (value, output) = (arg(op, 0)?, result(op)?);
    let mut name = walk.variable(value)?;
    if name != output && fetched(op).is_none() {
        let copy = output.to_owned();
        walk.declare(Var { name: copy.clone(), value: walk.type_of(value), ..Var::default() });
        walk.emit(new_op("assign", &[("X", &name)], &[("Out", &copy)], Vec::new()));
        name = copy;
    }
    walk.bind(output, Bound::Variable(name.clone()));
    let column = attribute("col", walk.columns.1);
    walk.columns.1 += 1;
    walk.emit(new_op("fetch", &[("X", &name)], &[("Out", "fetch")], vec![column]));
    Ok(())
}

/// Binds the result to the first operand, which it equals.
fn same<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let bound = walk.bound(arg(op, 0)?)?;
    walk.bind(result(op)?, bound);
    Ok(())
}

/// Where an operator that fills a tensor has its number.
#[derive(Clone, Copy)]
enum Fill {
    Attribute,
    Operand,
    Number(f64),
}

/// Fills a tensor of a shape, which is an attribute or an operand.
fn full<'p>(walk: &mut Walk<'p>, op: &'p Op, fill: Fill) -> Step {
    let dtype = dtype_of(walk, op)?;
    let code = attributes::code(dtype)?;
    let mut new = new_op("fill_constant", &[], &[], vec![attribute("dtype", code)]);
    let number = match fill {
        Fill::Attribute => {
            let value = op.attribute("value").and_then(double);
            Some(value.ok_or("expected a number as `value`")?)
        }
        Fill::Operand => None,
        Fill::Number(number) => Some(number),
    };
    match number {
        Some(number) => {
            #[expect(clippy::cast_possible_truncation, reason = "the text is exact")]
            new.attributes.push(attribute("value", number as f32));
            new.attributes.push(attribute("str_value", text(number, dtype).as_str()));
        }
        None => {
            let value = walk.variable(arg(op, 0)?)?;
            new.inputs.push(operand("ValueTensor", vec![value]));
        }
    }
    let shape = match op.attribute("shape") {
        Some(shape) => Some(longs(shape).ok_or("expected integers as `shape`")?),
        None => {
            let index = usize::from(matches!(fill, Fill::Operand));
            composed::numbers(
                walk,
                op,
                index,
                &mut new,
                ("shape", "ShapeTensor", "ShapeTensorList"),
            )?
        }
    };
    if let Some(shape) = &shape {
        new.attributes.push(attribute("shape", shape.clone()));
    }
    let value = result(op)?;
    let overwritten = (op.kind == "pd_op.full_").then(|| op.input("").first()).flatten();
    let name = match overwritten {
        Some(output) => {
            let name = walk.variable(output)?;
            walk.constants.remove(&name);
            walk.bind(value, Bound::Variable(name.clone()));
            name
        }
        None => {
            let name = walk.result(op, value);
            let count = match shape.as_deref() {
                Some([]) => Some(1),
                Some([count]) => usize::try_from(*count).ok(),
                _ => None,
            };
            let constant =
                number.zip(count).and_then(|(it, count)| Constant::filled(it, dtype, count));
            walk.constants.extend(constant.map(|constant| (name.clone(), constant)));
            name
        }
    };
    new.outputs.push(operand("Out", vec![name]));
    walk.emit(new);
    Ok(())
}

/// Returns the text of a number, which is exact also for integers that a float cannot hold.
fn text(number: f64, dtype: DType) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "the operator converts it likewise")]
    match dtype.is_float() {
        // PaddlePaddle 2 parses numbers as C does: `nan`, `inf`.
        true => format!("{number}").to_lowercase(),
        false => format!("{}", number as i64),
    }
}

/// Returns the element type in an attribute, or that of the result.
fn dtype_of(walk: &Walk<'_>, op: &Op) -> Step<DType> {
    let named = match op.attribute("dtype") {
        Some(AttributeValue::String(name)) => attributes::dtype(name),
        _ => None,
    };
    let of_result = || walk.type_of(result(op).ok()?).tensor_type().map(|tensor| tensor.dtype);
    named.or_else(of_result).ok_or_else(|| "expected an element type as `dtype`".into())
}

/// Makes evenly spaced numbers. PaddlePaddle 2 takes their element type from the operands.
fn range<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let dtype = dtype_of(walk, op)?;
    let mut inputs = Vec::new();
    for (index, slot) in ["Start", "End", "Step"].into_iter().enumerate() {
        let variable = walk.variable(arg(op, index)?)?;
        inputs.push(operand(slot, vec![walk.cast(&variable, dtype)?]));
    }
    let name = walk.result(op, result(op)?);
    walk.emit(Op { inputs, ..new_op("range", &[], &[("Out", &name)], Vec::new()) });
    Ok(())
}

/// Fills a tensor like another one with a number.
fn full_like<'p>(walk: &mut Walk<'p>, op: &'p Op, number: f32) -> Step {
    let x = walk.variable(arg(op, 0)?)?;
    let code = attributes::code(dtype_of(walk, op)?)?;
    let name = walk.result(op, result(op)?);
    let attributes = vec![attribute("value", number), attribute("dtype", code)];
    walk.emit(new_op("fill_any_like", &[("X", &x)], &[("Out", &name)], attributes));
    Ok(())
}

/// Makes a list of integers.
fn full_int_array<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let values = op.attribute("value").and_then(longs);
    let values = values.ok_or("expected integers as `value`")?;
    let dtype = dtype_of(walk, op)?;
    let name = walk.result(op, result(op)?);
    let count = i32::try_from(values.len()).map_err(|_| "expected fewer integers")?;
    emit_values(walk, &name, vec![count], dtype, &AttributeValue::Longs(values.clone()))?;
    if values.len() <= MAX_ELEMENTS {
        walk.constants.insert(name, Constant::Longs(values));
    }
    Ok(())
}

fn assign_value<'p>(walk: &mut Walk<'p>, op: &'p Op, overwritten: Option<usize>) -> Step {
    let values = op.attribute("values").cloned();
    let values = values.ok_or("expected numbers as `values`")?;
    let shape = op.attribute("shape").and_then(longs).ok_or("expected integers as `shape`")?;
    let dtype = dtype_of(walk, op)?;
    let shape = shape.into_iter().map(i32::try_from).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| "expected dims of 32 bits")?;
    let value = result(op)?;
    let name = match overwritten.and_then(|index| op.input("").get(index)) {
        Some(output) => {
            let name = walk.variable(output)?;
            walk.bind(value, Bound::Variable(name.clone()));
            walk.constants.remove(&name);
            name
        }
        None => walk.result(op, value),
    };
    let is_list = shape.len() <= 1;
    emit_values(walk, &name, shape, dtype, &values)?;
    if is_list && overwritten.is_none() {
        let constant = match dtype.is_float() {
            true => attributes::doubles(&values).map(Constant::Doubles),
            false => longs(&values).map(Constant::Longs),
        };
        walk.constants.extend(constant.map(|constant| (name, constant)));
    }
    Ok(())
}

/// Appends an operator that makes a tensor of numbers. Element types that have no attribute for their values are cast.
fn emit_values(
    walk: &mut Walk<'_>,
    name: &str,
    shape: Vec<i32>,
    dtype: DType,
    values: &AttributeValue,
) -> Step {
    const TYPES: [(DType, &str); 5] = [
        (DType::Bool, "bool_values"),
        (DType::Int32, "int32_values"),
        (DType::Int64, "int64_values"),
        (DType::Float32, "fp32_values"),
        (DType::Float64, "fp64_values"),
    ];
    let stand_in = if dtype.is_float() { DType::Float64 } else { DType::Int64 };
    let known = TYPES.iter().find(|(known, _)| *known == dtype);
    let (held, slot) = match known {
        Some(known) => *known,
        None if dtype.is_float() => (stand_in, "fp64_values"),
        None => (stand_in, "int64_values"),
    };
    let like = match held {
        DType::Bool | DType::Int32 => AttributeValue::Ints(Vec::new()),
        DType::Int64 => AttributeValue::Longs(Vec::new()),
        DType::Float32 => AttributeValue::Floats(Vec::new()),
        _ => AttributeValue::Doubles(Vec::new()),
    };
    let numbers = attributes::convert(values, &like).ok_or("expected numbers as `values`")?;
    let code = |dtype| codes::dtype_code(dtype).ok_or("expected an element type that tensors have");
    let attributes =
        vec![attribute("shape", shape), attribute("dtype", code(held)?), attribute(slot, numbers)];
    if held == dtype {
        walk.emit(new_op("assign_value", &[], &[("Out", name)], attributes));
        return Ok(());
    }
    let shape = walk.declared(name).tensor_type().and_then(|tensor| tensor.shape.clone());
    let tensor = TensorType { dtype: held, shape, ..TensorType::default() };
    let wide = walk.call("assign_value", &[], attributes, ValueType::Tensor(tensor));
    let cast = vec![attribute("in_dtype", code(held)?), attribute("out_dtype", code(dtype)?)];
    walk.emit(new_op("cast", &[("X", &wide)], &[("Out", name)], cast));
    Ok(())
}

/// Writes a value to the variable of another one.
fn assign_out<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let (from, to) = (walk.variable(arg(op, 0)?)?, walk.variable(arg(op, 1)?)?);
    walk.constants.remove(&to);
    walk.bind(result(op)?, Bound::Variable(to.clone()));
    walk.emit(new_op("assign", &[("X", &from)], &[("Out", &to)], Vec::new()));
    Ok(())
}

/// Returns the shape of a tensor. The operator of PaddlePaddle 2 returns 32 bits.
fn shape<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let x = walk.variable(arg(op, 0)?)?;
    let value = result(op)?;
    let mut tensor = walk.type_of(value).tensor_type().cloned().unwrap_or_default();
    if tensor.dtype == DType::Int32 {
        let name = walk.result(op, value);
        walk.emit(new_op("shape", &[("Input", &x)], &[("Out", &name)], Vec::new()));
        return Ok(());
    }
    tensor.dtype = DType::Int32;
    let short = walk.call("shape", &[("Input", &x)], Vec::new(), ValueType::Tensor(tensor));
    let name = walk.result(op, value);
    let (from, to) = (attributes::code(DType::Int32)?, attributes::code(DType::Int64)?);
    let cast = vec![attribute("in_dtype", from), attribute("out_dtype", to)];
    walk.emit(new_op("cast", &[("X", &short)], &[("Out", &name)], cast));
    Ok(())
}

fn split_with_num<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let x = walk.variable(arg(op, 0)?)?;
    let num = op.attribute("num").and_then(attributes::long);
    let num = num.and_then(|num| i32::try_from(num).ok()).ok_or("expected an integer as `num`")?;
    let mut new = new_op(
        "split",
        &[("X", &x)],
        &[],
        vec![attribute("num", num), attribute("sections", Vec::<i32>::new())],
    );
    composed::number(walk, op, 1, &mut new, ("axis", "AxisTensor"))?;
    let names = walk.results(op, result(op)?);
    new.outputs.push(operand("Out", names));
    walk.emit(new);
    Ok(())
}

fn transpose<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let x = walk.variable(arg(op, 0)?)?;
    let perm = op.attribute("perm").and_then(longs).ok_or("expected integers as `perm`")?;
    let perm = perm.into_iter().map(i32::try_from).collect::<Result<Vec<_>, _>>();
    let perm = perm.map_err(|_| "expected axes as `perm`")?;
    let name = walk.result(op, result(op)?);
    let mut new =
        new_op("transpose2", &[("X", &x)], &[("Out", &name)], vec![attribute("axis", perm)]);
    walk.add_shape_output(&mut new, &x);
    walk.emit(new);
    Ok(())
}

/// The gradient of a triangle, and its slots.
const TRIANGLE_GRAD: (&str, &str, &str) = ("tril_triu_grad", "Out@GRAD", "X@GRAD");

/// Keeps the lower or the upper triangle.
fn triangle<'p>(
    walk: &mut Walk<'p>,
    op: &'p Op,
    (kind, input, output): (&str, &str, &str),
    lower: bool,
) -> Step {
    let x = walk.variable(arg(op, 0)?)?;
    // An absent `diagonal` is the main one.
    let diagonal = op.attribute("diagonal").map_or(Some(0), attributes::long);
    let diagonal = diagonal.and_then(|diagonal| i32::try_from(diagonal).ok());
    let diagonal = diagonal.ok_or("expected an integer of 32 bits as `diagonal`")?;
    let name = walk.result(op, result(op)?);
    let attributes = vec![attribute("diagonal", diagonal), attribute("lower", lower)];
    walk.emit(new_op(kind, &[(input, &x)], &[(output, &name)], attributes));
    Ok(())
}

/// Declares an array, which the first operator that writes to it creates.
fn create_array<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let name = walk.result(op, result(op)?);
    walk.array_lengths.insert(name, Some(0));
    Ok(())
}

/// Creates an array of tensors filled with a number, like those of another array. If the length of that is unknown, as it is after
/// a loop, the array is only declared.
fn create_array_like<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let like = walk.variable(arg(op, 0)?)?;
    let value = op.attribute("val").and_then(double).ok_or("expected a number as `val`")?;
    let name = walk.result(op, result(op)?);
    let count = walk.array_lengths.get(&like).copied().flatten();
    walk.array_lengths.insert(name.clone(), count);
    let ValueType::Holder(Holder::TensorArray(item)) = walk.declared(&like) else {
        return Err(format!("expected an array, found {}", quoted(&like)).into());
    };
    let (item, Some(count)) = (ValueType::Tensor(item), count) else { return Ok(()) };
    for place in 0..count {
        let one = Some(vec![Dim::Known(1)]);
        let i = walk.fresh("index", TensorType::new(DType::Int64, one).into());
        emit_values(walk, &i, vec![1], DType::Int64, &AttributeValue::Longs(vec![place]))?;
        let read = walk.fresh("item", item.clone());
        let operands = [("X", like.as_str()), ("I", i.as_str())];
        walk.emit(new_op("read_from_array", &operands, &[("Out", &read)], Vec::new()));
        let filled = walk.fresh("filled", item.clone());
        #[expect(clippy::cast_possible_truncation, reason = "PIR stores a float")]
        let attributes = vec![attribute("value", value as f32), attribute("dtype", -1)];
        walk.emit(new_op("fill_any_like", &[("X", &read)], &[("Out", &filled)], attributes));
        let operands = [("X", filled.as_str()), ("I", i.as_str())];
        walk.emit(new_op("write_to_array", &operands, &[("Out", &name)], Vec::new()));
    }
    Ok(())
}

fn array_write<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let array = walk.variable(arg(op, 0)?)?;
    let (x, i) = (walk.variable(arg(op, 1)?)?, walk.variable(arg(op, 2)?)?);
    let place = walk.constants.get(&i).and_then(Constant::scalar).as_ref().and_then(long);
    let place = place.filter(|place| walk.current == 0 && *place >= 0);
    let length = walk.array_lengths.get(&array).copied().flatten();
    let length = length.zip(place).map(|(length, place)| length.max(place.saturating_add(1)));
    walk.array_lengths.insert(array.clone(), length);
    let i = index(walk, &i);
    walk.emit(new_op("write_to_array", &[("X", &x), ("I", &i)], &[("Out", &array)], Vec::new()));
    if let Ok(value) = result(op) {
        walk.bind(value, Bound::Variable(array));
    }
    Ok(())
}

fn array_read<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let (array, i) = (arg(op, 0)?, arg(op, 1)?);
    if !walk.type_of(array).is_array() {
        return Err(format!("expected an array, found {}", quoted(array)).into());
    }
    let (array, i) = (walk.variable(array)?, walk.variable(i)?);
    let i = index(walk, &i);
    let name = walk.result(op, result(op)?);
    walk.emit(new_op(
        "read_from_array",
        &[("X", &array), ("I", &i)],
        &[("Out", &name)],
        Vec::new(),
    ));
    Ok(())
}

/// Returns an index of an array as a tensor of one element and one dim, as PaddlePaddle 2 expects it.
fn index(walk: &mut Walk<'_>, i: &str) -> String {
    let declared = walk.declared(i);
    let mut tensor = declared.tensor_type().cloned().unwrap_or_default();
    if tensor.shape.as_ref().is_none_or(|shape| !shape.is_empty()) {
        return i.to_owned();
    }
    tensor.shape = Some(vec![Dim::Known(1)]);
    let name = walk.fresh("index", ValueType::Tensor(tensor));
    let shape = attribute("shape", vec![1_i32]);
    let mut op = new_op("reshape2", &[("X", i)], &[("Out", &name)], vec![shape]);
    walk.add_shape_output(&mut op, i);
    walk.emit(op);
    name
}

/// Returns the type of an array of tensors.
pub(super) fn is_array(value: &ValueType) -> bool {
    matches!(value, ValueType::Holder(Holder::TensorArray(_)))
}

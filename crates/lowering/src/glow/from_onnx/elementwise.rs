//! Element-wise operators, with NumPy's broadcasting rules.

use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Type};

use super::graph::{MemberValue, Value, kind_of, plain};
use super::op::{Cx, Fault, Outcome, Rule, from_front, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Abs", |cx| unary(cx, "Abs")),
    ("Acos", |cx| unary(cx, "Acos")),
    ("Add", |cx| binary(cx, "Add")),
    ("And", |cx| binary(cx, "And")),
    ("Asin", |cx| unary(cx, "Asin")),
    ("Atan", |cx| unary(cx, "Atan")),
    ("BitwiseAnd", |cx| binary(cx, "BitwiseAnd")),
    ("BitwiseNot", |cx| unary(cx, "BitwiseNot")),
    ("BitwiseOr", |cx| binary(cx, "BitwiseOr")),
    ("BitwiseXor", |cx| binary(cx, "BitwiseXor")),
    ("Cast", cast),
    ("CastLike", cast),
    ("Ceil", |cx| unary(cx, "Ceil")),
    ("Clip", clip),
    ("Cos", |cx| unary(cx, "Cos")),
    ("Div", |cx| binary(cx, "Div")),
    ("Dropout", dropout),
    ("Equal", |cx| compare(cx, "CmpEQ", false)),
    ("Erf", |cx| unary(cx, "Erf")),
    ("Exp", |cx| unary(cx, "Exp")),
    ("Floor", |cx| unary(cx, "Floor")),
    ("Greater", |cx| compare(cx, "CmpLT", true)),
    ("GreaterOrEqual", |cx| compare(cx, "CmpLTE", true)),
    ("Less", |cx| compare(cx, "CmpLT", false)),
    ("LessOrEqual", |cx| compare(cx, "CmpLTE", false)),
    ("Log", |cx| unary(cx, "Log")),
    ("Max", |cx| several(cx, "Max")),
    ("Mean", mean),
    ("Min", |cx| several(cx, "Min")),
    ("Mod", modulo),
    ("Mul", |cx| binary(cx, "Mul")),
    ("Neg", |cx| unary(cx, "Neg")),
    ("Not", |cx| unary(cx, "Not")),
    ("Or", |cx| binary(cx, "Or")),
    ("Pow", power),
    ("Reciprocal", |cx| unary(cx, "Reciprocal")),
    ("Round", |cx| unary(cx, "Round")),
    ("Sign", |cx| unary(cx, "Sign")),
    ("Sin", |cx| unary(cx, "Sin")),
    ("Sqrt", |cx| unary(cx, "Sqrt")),
    ("Sub", |cx| binary(cx, "Sub")),
    ("Sum", |cx| several(cx, "Add")),
    ("Where", select),
    ("Xor", |cx| binary(cx, "Xor")),
];

/// Operators that predate NumPy's broadcasting rules: `axis` is the position of the second operand's dims.
pub(super) const OLD: &[(&str, Rule)] = &[
    ("Add", |cx| old(cx, "Add", false)),
    ("And", |cx| old(cx, "And", false)),
    ("Div", |cx| old(cx, "Div", false)),
    ("Equal", |cx| old(cx, "CmpEQ", false)),
    ("Greater", |cx| old(cx, "CmpLT", true)),
    ("Less", |cx| old(cx, "CmpLT", false)),
    ("Mul", |cx| old(cx, "Mul", false)),
    ("Or", |cx| old(cx, "Or", false)),
    ("Pow", |cx| old(cx, "Pow", false)),
    ("Sub", |cx| old(cx, "Sub", false)),
    ("Xor", |cx| old(cx, "Xor", false)),
];

pub(super) fn unary(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    one(cx.each(kind, value, "")?)
}

/// Returns the broadcast shape of several values, by NumPy's rules.
pub(super) fn together(shapes: &[&[i64]]) -> Result<Vec<i64>, Finding> {
    let rank = shapes.iter().map(|shape| shape.len()).fold(0, usize::max);
    let mut all = vec![1_i64; rank];
    for shape in shapes {
        for (to, dim) in all.iter_mut().rev().zip(shape.iter().rev()) {
            match (*to, *dim) {
                (_, 1) => {}
                (1, dim) => *to = dim,
                (known, dim) if known == dim => {}
                (known, dim) => {
                    return Err(format!("dims {known} and {dim} do not broadcast").into());
                }
            }
        }
    }
    Ok(all)
}

/// Broadcasts values to their common shape.
fn broadcast_all(cx: &mut Cx<'_>, values: &[Value]) -> Result<Vec<Value>, Fault> {
    let shapes: Vec<_> = values.iter().map(|value| cx.graph.shape(*value)).collect();
    let shape = together(&shapes)?;
    values.iter().map(|value| cx.broadcast(*value, &shape, "broadcast")).collect()
}

fn two(cx: &mut Cx<'_>) -> Result<(Value, Value), Fault> {
    let (left, right) = (cx.input(0)?, cx.input(1)?);
    match broadcast_all(cx, &[left, right])?.as_slice() {
        [left, right] => Ok((*left, *right)),
        _ => Err("expected two tensors".into()),
    }
}

fn binary(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let batched = match kind {
        "Add" => Some("BatchedAdd"),
        "Mul" => Some("BatchedMul"),
        _ => None,
    };
    if let Some(batched) = batched.filter(|batched| cx.was(batched)) {
        let (batch, slice) = (cx.input(0)?, cx.input(1)?);
        if cx.graph.shape(batch).get(1..) == Some(cx.graph.shape(slice)) {
            let of = cx.type_of(batch);
            return one(cx.node(batched, "", &[batch, slice], Vec::new(), of)?);
        }
    }
    let (left, right) = two(cx)?;
    one(cx.pair(kind, left, right, "")?)
}

fn compare(cx: &mut Cx<'_>, kind: &'static str, is_swapped: bool) -> Outcome {
    let (left, right) = two(cx)?;
    one(comparison(cx, kind, if is_swapped { [right, left] } else { [left, right] })?)
}

fn comparison(cx: &mut Cx<'_>, kind: &'static str, of: [Value; 2]) -> Result<Value, Fault> {
    let [left, _] = of;
    let result = plain(ElemKind::Bool, cx.shape(left));
    cx.node(kind, "", &of, Vec::new(), result)
}

fn old(cx: &mut Cx<'_>, kind: &'static str, is_swapped: bool) -> Outcome {
    let (left, right) = (cx.input(0)?, cx.input(1)?);
    let shape = cx.shape(left);
    let rank = cx.rank(right);
    let from_end =
        shape.len().checked_sub(rank).ok_or("expected a lower rank of the second operand")?;
    let axis = match cx.op.attribute("axis") {
        Some(_) => from_front(cx.int("axis", 0)?, shape.len())?,
        None => from_end,
    };
    let inside = shape.get(axis..).and_then(|rest| rest.get(..rank));
    let own = cx.shape(right);
    let fits = inside.is_some_and(|inside| inside.iter().zip(&own).all(|(a, b)| a == b || *b == 1));
    if !fits {
        return Err(format!("{own:?} does not broadcast to {shape:?} from axis {axis}").into());
    }
    let right = match own == shape {
        true => right,
        false => cx.broadcast_at(right, &shape, axis, "broadcast")?,
    };
    let of = if is_swapped { [right, left] } else { [left, right] };
    match kind.starts_with("Cmp") {
        true => one(comparison(cx, kind, of)?),
        false => one(cx.node(kind, "", &of, Vec::new(), cx.shaped(left, shape))?),
    }
}

/// Combines any number of values, two at a time.
fn several(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let mut result = cx.input(0)?;
    for index in 1..cx.count() {
        let next = cx.input(index)?;
        let both = broadcast_all(cx, &[result, next])?;
        if let [left, right] = both.as_slice() {
            result = cx.pair(kind, *left, *right, "")?;
        }
    }
    one(result)
}

fn power(cx: &mut Cx<'_>) -> Outcome {
    let (left, right) = two(cx)?;
    let kind = cx.type_of(left).kind;
    let right = match cx.type_of(right).kind == kind {
        true => right,
        false => cx.convert(right, kind, "exponent")?,
    };
    one(cx.pair("Pow", left, right, "")?)
}

/// Stacks the values along a new axis and computes the mean along it.
fn mean(cx: &mut Cx<'_>) -> Outcome {
    let mut values = Vec::new();
    for index in 0..cx.count() {
        values.push(cx.input(index)?);
    }
    if let [value] = values.as_slice() {
        return one(*value);
    }
    let shapes: Vec<_> = values.iter().map(|value| cx.graph.shape(*value)).collect();
    let shape = together(&shapes)?;
    let row: Vec<i64> = std::iter::once(1).chain(shape.iter().copied()).collect();
    let mut rows = Vec::new();
    for value in values {
        let value = cx.broadcast_always(value, &shape, "broadcast")?;
        rows.push(cx.reshape(value, &row, "row")?);
    }
    let all = cx.concat(rows, 0, "rows")?;
    let of = cx.shaped(all, shape);
    one(cx.node("BatchedReduceMean", "", &[all], vec![("Axes", MemberValue::Ints(vec![0]))], of)?)
}

fn cast(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let dtype = cx.outputs.first().map_or(lodstone_model::DType::Unknown(0), |info| info.dtype());
    let to = kind_of(dtype).ok_or_else(|| format!("Glow has no element type {dtype}"))?;
    let from = cx.type_of(value);
    if to.is_quantized() || from.kind.is_quantized() {
        return Err("Glow does not convert integers of 8 or 16 bits; quantize them".into());
    }
    one(cx.convert(value, to, "")?)
}

fn clip(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let (least, most) = (cx.number(1, f32::MIN)?, cx.number(2, f32::MAX)?);
    one(clipped(cx, value, least, most, "")?)
}

pub(super) fn clipped(
    cx: &mut Cx<'_>,
    value: Value,
    least: f32,
    most: f32,
    suffix: &str,
) -> Result<Value, Fault> {
    let of = cx.shaped(value, cx.shape(value));
    let members = vec![("Min", MemberValue::Float(least)), ("Max", MemberValue::Float(most))];
    cx.node("Clip", suffix, &[value], members, of)
}

fn dropout(cx: &mut Cx<'_>) -> Outcome {
    if cx.has(2) && cx.ints(2)?.iter().any(|number| *number != 0) {
        return Err("Glow has no dropout in training mode".into());
    }
    let value = cx.input(0)?;
    let mask = match cx.wants(1) {
        true => Some(cx.splat(1.0, plain(ElemKind::Bool, cx.shape(value)), "mask")?),
        false => None,
    };
    Ok(vec![Some(value), mask])
}

/// Creates a tensor of the shape of another one, filled with one value.
pub(super) fn filled(
    cx: &mut Cx<'_>,
    number: f32,
    like: Value,
    suffix: &str,
) -> Result<Value, Fault> {
    let of = Type { quantization: None, ..cx.shaped(like, cx.shape(like)) };
    cx.splat(number, of, suffix)
}

fn modulo(cx: &mut Cx<'_>) -> Outcome {
    let is_float = cx.flag("fmod", false)?;
    if is_float {
        return binary(cx, "Fmod");
    }
    // The result has the sign of the divisor, as in Python.
    let divisor = cx.ints(1)?;
    let [divisor] = divisor.as_slice() else {
        return Err("expected a constant divisor of one element".into());
    };
    if *divisor <= 0 {
        return Err(format!("expected a positive divisor, found {divisor}").into());
    }
    let value = cx.input(0)?;
    let shape = cx.shape_out(0)?;
    let value = cx.broadcast(value, &shape, "broadcast")?;
    let of = cx.shaped(value, shape);
    let members =
        vec![("Divisor", MemberValue::Int(*divisor)), ("SignFollowDivisor", MemberValue::Int(1))];
    one(cx.node("Modulo", "", &[value], members, of)?)
}

fn select(cx: &mut Cx<'_>) -> Outcome {
    let values = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
    let values = broadcast_all(cx, &values)?;
    let of = match values.as_slice() {
        [_, yes, _] => cx.shaped(*yes, cx.shape(*yes)),
        _ => return Err("expected three tensors".into()),
    };
    one(cx.node("Select", "", &values, Vec::new(), of)?)
}

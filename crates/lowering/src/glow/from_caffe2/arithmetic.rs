//! Operators of two or more operands, element by element.

use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;

use super::rules::of_kind;
use super::unary::power_of;
use crate::glow::from_onnx::graph::{MemberValue, Value};
use crate::glow::from_onnx::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Add", |cx| arithmetic(cx, "Add")),
    ("And", |cx| together(cx, "And", false)),
    ("Div", |cx| arithmetic(cx, "Div")),
    ("DotProduct", dot),
    ("EQ", |cx| compared(cx, "CmpEQ", false)),
    ("ElementwiseLinear", linear),
    ("GE", |cx| compared(cx, "CmpLTE", true)),
    ("GT", |cx| compared(cx, "CmpLT", true)),
    ("LE", |cx| compared(cx, "CmpLTE", false)),
    ("LT", |cx| compared(cx, "CmpLT", false)),
    ("Less", |cx| together(cx, "CmpLT", true)),
    ("Max", |cx| together(cx, "Max", false)),
    ("Mean", mean),
    ("Min", |cx| together(cx, "Min", false)),
    ("Mul", |cx| arithmetic(cx, "Mul")),
    ("NE", |cx| compared(cx, "CmpNEQ", false)),
    ("Or", |cx| together(cx, "Or", false)),
    ("PRelu", prelu),
    ("Pow", power),
    ("SigmoidCrossEntropyWithLogits", cross_entropy),
    ("Sub", |cx| arithmetic(cx, "Sub")),
    ("Sum", sum),
    ("Xor", |cx| together(cx, "Xor", false)),
];

/// Checks that a value can be broadcast to a shape whose dims from `axis` on it has.
fn fits(small: &[i64], large: &[i64], axis: usize) -> Result<(), Fault> {
    let part = large.get(axis..).and_then(|rest| rest.get(..small.len()));
    let is_fit =
        |part: &[i64]| part.iter().zip(small).all(|(large, small)| small == large || *small == 1);
    match part {
        Some(part) if is_fit(part) => Ok(()),
        _ => Err(format!("{small:?} does not broadcast to {large:?} from axis {axis}").into()),
    }
}

/// Broadcasts the right operand to the left one, or neither.
fn operands(cx: &mut Cx<'_>) -> Result<[Value; 2], Fault> {
    let (left, right) = (cx.input(0)?, cx.input(1)?);
    let (large, small) = (cx.shape(left), cx.shape(right));
    let pairs = large.iter().rev().zip(small.iter().rev());
    let is_aligned = pairs.into_iter().all(|(a, b)| a == b || *a == 1 || *b == 1);
    let is_broadcast = cx.flag("broadcast", false)? || large.len() != small.len() && is_aligned;
    if !is_broadcast {
        if large == small {
            return Ok([left, right]);
        }
        // Newer releases of Caffe2 broadcast both operands without an argument.
        return both(cx, left, right);
    }
    let axis = match cx.int("axis", -1)? {
        -1 if small.len() > large.len() => return both(cx, left, right),
        -1 => large.len() - small.len(),
        axis => usize::try_from(axis).map_err(|_| format!("expected an axis, found {axis}"))?,
    };
    fits(&small, &large, axis)?;
    Ok([left, cx.broadcast_at(right, &large, axis, "broadcast")?])
}

/// Broadcasts both operands to each other.
fn both(cx: &mut Cx<'_>, left: Value, right: Value) -> Result<[Value; 2], Fault> {
    let (a, b) = (cx.shape(left), cx.shape(right));
    let rank = a.len().max(b.len());
    let padded = |shape: &[i64]| {
        std::iter::repeat_n(1, rank - shape.len()).chain(shape.iter().copied()).collect::<Vec<_>>()
    };
    let pairs = padded(&a).into_iter().zip(padded(&b));
    let common: Option<Vec<i64>> = pairs
        .map(|(a, b)| match (a, b) {
            (a, b) if a == b => Some(a),
            (1, b) => Some(b),
            (a, 1) => Some(a),
            _ => None,
        })
        .collect();
    let common = common.ok_or_else(|| format!("{a:?} and {b:?} do not broadcast to each other"))?;
    Ok([cx.broadcast(left, &common, "broadcast")?, cx.broadcast(right, &common, "broadcast")?])
}

fn same_kind(cx: &Cx<'_>, values: &[Value]) -> Result<(), Fault> {
    let kinds: Vec<ElemKind> = values.iter().map(|value| cx.type_of(*value).kind).collect();
    match kinds.windows(2).all(|pair| pair.first() == pair.last()) {
        true => Ok(()),
        false => {
            let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
            Err(format!("expected operands of one element type, found {}", names.join(" and "))
                .into())
        }
    }
}

fn arithmetic(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let [left, right] = operands(cx)?;
    same_kind(cx, &[left, right])?;
    let of = cx.type_of(left);
    one(cx.node(kind, "", &[left, right], Vec::new(), of)?)
}

/// Raises to a power: the argument `exponent`, or the elements of a second operand.
fn power(cx: &mut Cx<'_>) -> Outcome {
    match (cx.op.attribute("exponent").is_some(), cx.count()) {
        (true, 1) => power_of(cx, cx.float("exponent", 0.0)?),
        (false, 2) => arithmetic(cx, "Pow"),
        (has_exponent, count) => {
            let exponent = if has_exponent { "and" } else { "without" };
            Err(format!("expected `exponent` or a second operand, found {count} operands {exponent} `exponent`").into())
        }
    }
}

/// Computes with operands that are broadcast to each other. `compares` is set if the result is Boolean.
fn together(cx: &mut Cx<'_>, kind: &'static str, compares: bool) -> Outcome {
    let (left, right) = (cx.input(0)?, cx.input(1)?);
    if cx.count() > 2 {
        return Err(format!("expected 2 operands, found {}", cx.count()).into());
    }
    let [left, right] = both(cx, left, right)?;
    same_kind(cx, &[left, right])?;
    let of = cx.type_of(left);
    let of = if compares { of_kind(ElemKind::Bool, of.shape) } else { of };
    one(cx.node(kind, "", &[left, right], Vec::new(), of)?)
}

fn compared(cx: &mut Cx<'_>, kind: &'static str, is_swapped: bool) -> Outcome {
    // Glow compares operands of different types and shapes, if only by name.
    let (left, right) = (cx.input(0)?, cx.input(1)?);
    let [left, right] = match kind {
        "CmpEQ" if cx.shape(left) == cx.shape(right) => [left, right],
        _ => operands(cx)?,
    };
    same_kind(cx, &[left, right])?;
    let of = of_kind(ElemKind::Bool, cx.shape(left));
    let operands = if is_swapped { [right, left] } else { [left, right] };
    one(cx.node(kind, "", &operands, Vec::new(), of)?)
}

fn all_inputs(cx: &mut Cx<'_>) -> Result<Vec<Value>, Fault> {
    let values = (0..cx.count()).map(|index| cx.input(index)).collect::<Result<Vec<_>, _>>()?;
    let first = *values.first().ok_or("expected operands, found none")?;
    for value in &values {
        if cx.shape(*value) != cx.shape(first) {
            let (a, b) = (cx.shape(first), cx.shape(*value));
            return Err(format!("expected operands of one shape, found {a:?} and {b:?}").into());
        }
    }
    same_kind(cx, &values)?;
    Ok(values)
}

fn sum(cx: &mut Cx<'_>) -> Outcome {
    let values = all_inputs(cx)?;
    let of = cx.type_of(*values.first().ok_or("expected operands, found none")?);
    match *values {
        [only] => one(only),
        [left, right] => one(cx.node("Add", "", &[left, right], Vec::new(), of)?),
        _ => {
            let stack = stacked(cx, &values, &of, true)?;
            one(cx.node(
                "BatchedReduceAdd",
                "",
                &[stack],
                vec![("Axis", MemberValue::Int(0))],
                of,
            )?)
        }
    }
}

/// Stacks operands along a new first dim: by a reshape of each, or of their concatenation.
fn stacked(cx: &mut Cx<'_>, values: &[Value], of: &Type, each: bool) -> Result<Value, Fault> {
    let mut single = vec![1];
    single.extend(&of.shape);
    if each {
        let expanded: Result<Vec<_>, _> =
            values.iter().map(|value| cx.reshape_always(*value, &single, "expanddims")).collect();
        return cx.concat(expanded?, 0, "");
    }
    let joined = cx.concat(values.to_vec(), 0, "concat")?;
    let mut shape = vec![length(values.len())];
    shape.extend(&of.shape);
    cx.reshape_always(joined, &shape, "reshape")
}

fn mean(cx: &mut Cx<'_>) -> Outcome {
    let values = all_inputs(cx)?;
    let of = cx.type_of(*values.first().ok_or("expected operands, found none")?);
    if let [only] = *values {
        return one(only);
    }
    if of.shape.is_empty() {
        return Err("expected operands of at least one dim, found scalars".into());
    }
    let stack = stacked(cx, &values, &of, false)?;
    let axes = vec![("Axes", MemberValue::Ints(vec![0]))];
    one(cx.node("BatchedReduceMean", "reduceMean", &[stack], axes, of)?)
}

fn prelu(cx: &mut Cx<'_>) -> Outcome {
    let (value, slope) = (cx.input(0)?, cx.input(1)?);
    let shape = cx.shape(value);
    let small = cx.shape(slope);
    fits(&small, &shape, 1)?;
    let slope = cx.broadcast_at(slope, &shape, 1, "")?;
    let of = cx.type_of(value);
    one(cx.node("PRelu", "", &[value, slope], Vec::new(), of)?)
}

fn linear(cx: &mut Cx<'_>) -> Outcome {
    let (value, weight, bias) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let shape = cx.shape(value);
    let axis = cx.axis("axis", 1, shape.len())?;
    for operand in [weight, bias] {
        let small = cx.shape(operand);
        fits(&small, &shape, axis)?;
    }
    let of = cx.type_of(value);
    let weight = cx.broadcast_at(weight, &shape, axis, "broadcastW")?;
    let bias = cx.broadcast_at(bias, &shape, axis, "broadcastB")?;
    let scaled = cx.node("Mul", "mul", &[weight, value], Vec::new(), of.clone())?;
    one(cx.node("Add", "add", &[scaled, bias], Vec::new(), of)?)
}

fn dot(cx: &mut Cx<'_>) -> Outcome {
    let values = all_inputs(cx)?;
    let [left, right] = *values else { return Err("expected 2 operands".into()) };
    let of = cx.type_of(left);
    let products = cx.node("Mul", "mul", &[left, right], Vec::new(), of.clone())?;
    match of.shape.as_slice() {
        [_] => one(products),
        [rows, _] => {
            let of = Type { shape: vec![*rows], ..of };
            one(cx.node(
                "BatchedReduceAdd",
                "bra",
                &[products],
                vec![("Axis", MemberValue::Int(1))],
                of,
            )?)
        }
        other => Err(format!("expected vectors or matrices, found {other:?}").into()),
    }
}

fn cross_entropy(cx: &mut Cx<'_>) -> Outcome {
    let values = all_inputs(cx)?;
    let [logits, targets] = *values else { return Err("expected 2 operands".into()) };
    let mut of = cx.type_of(logits);
    if of.shape.len() < 2 {
        return Err(format!("expected at least 2 dims, found {:?}", of.shape).into());
    }
    of.shape.pop();
    one(cx.node("SigmoidCrossEntropyWithLogits", "", &[logits, targets], Vec::new(), of)?)
}

//! The table of rules by kind, and what many rules need.

use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;
use lodstone_schema::onnx::quoted;
use lodstone_schema::places::at;

use super::{
    arithmetic, conv, fills, indexing, linear, normalize, pool, quantize, reduce, reshape, sparse,
    unary,
};
use crate::caffe2::signed::SHIFT;
use crate::glow::from_onnx::graph::{MemberValue, Value};
use crate::glow::from_onnx::op::{Cx, Fault, Rule};
use crate::rules::{Rules, families};

/// All rules.
static RULES: Rules<Rule> = Rules::new(&[families![
    arithmetic, conv, fills, indexing, linear, normalize, pool, quantize, reduce, reshape, sparse,
    unary
]]);

/// Returns the rule of an operator, if there is one.
pub(super) fn rule(kind: &str) -> Option<Rule> {
    RULES.get(kind)
}

/// Whether the channels are the last dim.
pub(super) fn is_nhwc(cx: &Cx<'_>) -> Result<bool, Fault> {
    match cx.text("order", "NCHW")?.as_str() {
        "NHWC" => Ok(true),
        "NCHW" => Ok(false),
        other => {
            Err(format!("expected `NCHW` or `NHWC` as `order`, found {}", quoted(other)).into())
        }
    }
}

/// The permutations that Glow names by the layout of their results.
const LAYOUTS: &[(&[usize], &str)] = &[
    (&[0, 2, 3, 1], "NHWC"),
    (&[3, 0, 1, 2], "NHWC"),
    (&[0, 2, 3, 4, 1], "NTHWC"),
    (&[0, 3, 1, 2], "NCHW"),
    (&[0, 4, 1, 2, 3], "NCTHW"),
    (&[1, 2, 0, 3], "HWNC"),
    (&[1, 2, 3, 0], "NHWC"),
];

/// Transposes a value, by a node in any case: Glow's loader removes none.
pub(super) fn transposed(
    cx: &mut Cx<'_>,
    value: Value,
    order: &[usize],
    suffix: &str,
) -> Result<Value, Fault> {
    let shape = cx.shape(value);
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..shape.len()) {
        let found = format!("{order:?}");
        return Err(format!("expected a permutation of {} dims, found {found}", shape.len()).into());
    }
    let picked =
        order.iter().map(|axis| at(&shape, *axis)).collect::<Result<Vec<i64>, Finding>>()?;
    let of = cx.shaped(value, picked);
    let layout =
        LAYOUTS.iter().find(|(known, _)| *known == order).map_or("*", |(_, layout)| layout);
    let members = vec![
        ("Shuffle", MemberValue::Ints(order.iter().map(|axis| length(*axis)).collect())),
        ("Layout", MemberValue::Text(layout.to_owned())),
    ];
    cx.node("Transpose", suffix, &[value], members, of)
}

/// Moves the channels of an image to the end.
pub(super) fn channels_last(cx: &mut Cx<'_>, value: Value) -> Result<Value, Fault> {
    let rank = cx.rank(value);
    match rank {
        4 => transposed(cx, value, &[0, 2, 3, 1], ""),
        _ => Err(format!("expected images of 4 dims, found {rank}").into()),
    }
}

/// Moves the channels of an image back.
pub(super) fn channels_first(cx: &mut Cx<'_>, value: Value) -> Result<Value, Fault> {
    transposed(cx, value, &[0, 3, 1, 2], "")
}

/// Returns the dims of an image whose channels are last: batch, height, width, channels.
pub(super) fn image(cx: &Cx<'_>, value: Value) -> Result<[i64; 4], Fault> {
    let shape = cx.shape(value);
    let found = shape.len();
    shape.try_into().map_err(|_| format!("expected images of 4 dims, found {found}").into())
}

/// Returns the type of a quantized result, from the arguments of the operator.
pub(super) fn quantized(cx: &Cx<'_>, shape: Vec<i64>) -> Result<Type, Fault> {
    for name in ["Y_scale", "Y_zero_point"] {
        if cx.op.attribute(name).is_none() {
            return Err(Finding::from(format!("expected `{name}`, found none"))
                .about_attribute(name)
                .into());
        }
    }
    let (scale, zero) = (cx.float("Y_scale", 1.0)?, cx.int("Y_zero_point", 0)?);
    let zero = i32::try_from(zero)
        .map_err(|_| format!("expected a 32-bit `Y_zero_point`, found {zero}"))?;
    if !scale.is_finite() || scale <= 0.0 {
        return Err(format!("expected a positive `Y_scale`, found {scale}").into());
    }
    let quantization = Some((scale, zero.saturating_sub(SHIFT)));
    Ok(Type { kind: ElemKind::Int8Q, shape, strides: None, quantization })
}

/// Returns a type of another element kind, without quantization.
pub(super) fn of_kind(kind: ElemKind, shape: Vec<i64>) -> Type {
    Type { kind, shape, strides: None, quantization: None }
}

/// Multiplies dims.
pub(super) fn product(dims: &[i64]) -> Result<i64, Fault> {
    let count = dims.iter().try_fold(1_i64, |count, dim| count.checked_mul(*dim));
    count.ok_or_else(|| "the shape is too large".into())
}

/// Returns the dims before an axis and those after it, multiplied.
pub(super) fn flattened(shape: &[i64], axis: usize) -> Result<[i64; 2], Fault> {
    let axis = axis.min(shape.len());
    let (before, after) = shape.split_at(axis);
    Ok([product(before)?, product(after)?])
}

/// Checks that an input has a rank.
pub(super) fn expect_rank(cx: &Cx<'_>, value: Value, rank: usize, what: &str) -> Result<(), Fault> {
    let found = cx.rank(value);
    match found == rank {
        true => Ok(()),
        false => Err(format!("expected {what} of rank {rank}, found rank {found}").into()),
    }
}

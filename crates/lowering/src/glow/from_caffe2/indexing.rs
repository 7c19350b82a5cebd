//! Gathers and scatters.

use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;

use super::reshape::integers;
use super::rules::{expect_rank, flattened, of_kind};
use crate::glow::from_onnx::graph::{MemberValue, Value};
use crate::glow::from_onnx::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchGather", |cx| gather(cx, 1)),
    ("BatchOneHot", one_hot),
    ("BatchSparseToDense", to_dense),
    ("FillExamplesWithIndicator", fill),
    ("Gather", |cx| gather(cx, 0)),
    ("GatherND", gather_nd),
    ("GatherRanges", ranges),
    ("ScatterAssign", assign),
    ("SparseLabelSplit", labels),
    ("SparseToDense", sparse),
    ("SparseToDenseMask", mask),
];

/// Reads indices, converted to integers if they are not.
fn indices(cx: &mut Cx<'_>, index: usize) -> Result<Value, Fault> {
    let value = cx.input(index)?;
    match cx.type_of(value).kind {
        ElemKind::Int32I | ElemKind::Int64I => Ok(value),
        _ => cx.convert(value, ElemKind::Int32I, "idx_convertToi32"),
    }
}

/// Checks that a value has integers of 32 or 64 bits.
fn expect_integers(cx: &Cx<'_>, value: Value, what: &str) -> Result<(), Fault> {
    match cx.type_of(value).kind {
        ElemKind::Int32I | ElemKind::Int64I => Ok(()),
        other => Err(format!("expected integers as {what}, found {}", other.name()).into()),
    }
}

fn gather(cx: &mut Cx<'_>, default: i64) -> Outcome {
    let data = cx.input(0)?;
    let shape = cx.shape(data);
    let axis = cx.axis("axis", default, shape.len())?;
    // A part of a known shape is a known shape.
    if let (Ok(numbers), Ok(places), 1) = (cx.ints(0), cx.ints(1), shape.len()) {
        let count = length(numbers.len());
        let pick = |place: &i64| {
            let place = if *place < 0 { place + count } else { *place };
            usize::try_from(place).ok().and_then(|place| numbers.get(place)).copied()
        };
        let picked: Option<Vec<i64>> = places.iter().map(pick).collect();
        let picked = picked.ok_or_else(|| format!("{places:?} is out of range of {count}"))?;
        let index = cx.input(1)?;
        if cx.rank(index) == 1 && cx.type_of(data).kind == ElemKind::Int64I {
            return one(integers(cx, 0, &picked)?);
        }
    }
    let places = indices(cx, 1)?;
    let mut result: Vec<i64> = shape.iter().take(axis).copied().collect();
    result.extend(cx.shape(places));
    result.extend(shape.iter().skip(axis + 1));
    let of = cx.shaped(data, result);
    let members = vec![("BatchDims", MemberValue::Int(length(axis)))];
    one(cx.node("Gather", "", &[data, places], members, of)?)
}

fn gather_nd(cx: &mut Cx<'_>) -> Outcome {
    let data = cx.input(0)?;
    let places = indices(cx, 1)?;
    let (shape, index) = (cx.shape(data), cx.shape(places));
    let depth = index.last().and_then(|depth| usize::try_from(*depth).ok());
    let depth = depth.filter(|depth| (1..=shape.len()).contains(depth));
    let depth = depth.ok_or_else(|| format!("indices of {index:?} do not match {shape:?}"))?;
    let mut result: Vec<i64> = index.iter().take(index.len() - 1).copied().collect();
    result.extend(shape.iter().skip(depth));
    let of = cx.shaped(data, result);
    one(cx.node("GatherND", "", &[data, places], vec![("BatchDims", MemberValue::Int(0))], of)?)
}

/// Reads the size of a result that depends on elements.
fn max_output(cx: &Cx<'_>) -> Result<i64, Fault> {
    let size = cx.int("maxOutputSize", -1)?;
    match (0..=i64::from(u32::MAX)).contains(&size) {
        true => Ok(size),
        false => Err("expected `maxOutputSize`: shapes of Glow are fixed".into()),
    }
}

fn ranges(cx: &mut Cx<'_>) -> Outcome {
    let (data, ranges) = (cx.input(0)?, cx.input(1)?);
    expect_rank(cx, data, 1, "data")?;
    expect_integers(cx, ranges, "ranges")?;
    let shape = cx.shape(ranges);
    let &[count, _, 2] = &*shape else {
        return Err(format!("expected ranges of pairs, found {shape:?}").into());
    };
    let results = vec![cx.shaped(data, vec![max_output(cx)?]), cx.shaped(ranges, vec![count])];
    let results = cx.nodes("GatherRanges", "", &[data, ranges], Vec::new(), results)?;
    Ok(results.into_iter().map(Some).collect())
}

fn one_hot(cx: &mut Cx<'_>) -> Outcome {
    let (data, lengths, values) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    expect_rank(cx, data, 2, "data")?;
    expect_rank(cx, lengths, 1, "lengths")?;
    expect_rank(cx, values, 1, "values")?;
    let (rows, columns) = (cx.dim(data, 0)?, cx.dim(values, 0)?);
    if cx.dim(data, 1)? != cx.dim(lengths, 0)? {
        return Err("expected a length for each column".into());
    }
    let of = cx.shaped(data, vec![rows, columns]);
    one(cx.node("BatchOneHot", "", &[data, lengths, values], Vec::new(), of)?)
}

fn assign(cx: &mut Cx<'_>) -> Outcome {
    let (data, places, slices) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    expect_rank(cx, places, 1, "indices")?;
    expect_integers(cx, places, "indices")?;
    let count = cx.dim(places, 0)?;
    let mut expected = cx.shape(data);
    expected.iter_mut().take(1).for_each(|dim| *dim = count);
    if cx.shape(slices) != expected {
        return Err(format!("expected slices of {expected:?}, found {:?}", cx.shape(slices)).into());
    }
    let places = cx.reshape_always(places, &[count, 1], "indices_2d")?;
    scatter(cx, data, places, slices, false, "")
}

fn scatter(
    cx: &mut Cx<'_>,
    data: Value,
    places: Value,
    slices: Value,
    adds: bool,
    suffix: &str,
) -> Outcome {
    let members = vec![("Cumulative", MemberValue::Int(adds.into()))];
    let of = cx.type_of(data);
    one(cx.node("ScatterData", suffix, &[data, places, slices], members, of)?)
}

fn sparse(cx: &mut Cx<'_>) -> Outcome {
    if cx.count() != 3 {
        return Err(format!("expected 3 inputs, found {}", cx.count()).into());
    }
    let (mut places, values, like) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    expect_integers(cx, places, "indices")?;
    let index = cx.shape(places);
    match *index {
        [count] => places = cx.reshape_always(places, &[count, 1], "indices2D")?,
        [_, 1] => {}
        _ => return Err(format!("expected indices of one column, found {index:?}").into()),
    }
    let mut shape = cx.shape(values);
    if shape.first() != index.first() {
        return Err(format!("indices of {index:?} do not match values of {shape:?}").into());
    }
    let rows = cx.dim(like, 0)?;
    shape.iter_mut().take(1).for_each(|dim| *dim = rows);
    let of = cx.shaped(values, shape);
    let data = cx.splat(0.0, of, "data")?;
    scatter(cx, data, places, values, true, "scatterData")
}

fn mask(cx: &mut Cx<'_>) -> Outcome {
    let (places, values, default) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    expect_integers(cx, places, "indices")?;
    let lengths = match cx.count() {
        4 => cx.input(3)?,
        3 => {
            let count = i32::try_from(cx.dim(places, 0)?).map_err(|_| "the shape is too large")?;
            let bytes = count.to_le_bytes().to_vec();
            cx.graph.constant_of("lengthsConstant", ElemKind::Int32I, Vec::new(), bytes)?
        }
        other => return Err(format!("expected 3 or 4 inputs, found {other}").into()),
    };
    let mask = cx.longs("mask")?.ok_or("expected `mask`, found none")?;
    let mut shape: Vec<i64> = cx.shape(lengths).first().copied().into_iter().collect();
    shape.push(length(mask.len()));
    shape.extend(cx.shape(default));
    let of = cx.shaped(values, shape);
    let members = vec![("Mask", MemberValue::Ints(mask))];
    one(cx.node("SparseToDenseMask", "", &[places, values, default, lengths], members, of)?)
}

/// Returns the rows of an indicator that are not 0, as many as `count`.
fn rows(cx: &mut Cx<'_>, indicator: Value, count: i64, suffix: &str) -> Result<Value, Fault> {
    let mut indicator = indicator;
    if cx.type_of(indicator).kind == ElemKind::Int64I {
        indicator = cx.convert(indicator, ElemKind::Int32I, "int64ToInt32")?;
    }
    let floats = cx.convert(indicator, ElemKind::Float, "intToFloat")?;
    let bools = cx.convert(floats, ElemKind::Bool, "floatToBool")?;
    let length = cx.dim(bools, 0)?;
    if count > length {
        return Err(
            format!("expected at least {count} rows of the indicator, found {length}").into()
        );
    }
    let of = of_kind(ElemKind::Int32I, vec![length, 1]);
    let places = cx.node("NonZero", "nonzero", &[bools], Vec::new(), of)?;
    let places = ended(cx, places)?;
    cx.slice(places, vec![0, 0], vec![count, 1], suffix)
}

/// Replaces everything behind the rows that were found, which begins with a number below 0, by -1.
fn ended(cx: &mut Cx<'_>, places: Value) -> Result<Value, Fault> {
    let of = cx.type_of(places);
    let halves = of_kind(ElemKind::Float16, of.shape.clone());
    let bools = of_kind(ElemKind::Bool, of.shape.clone());
    let zeros = cx.splat(0.0, of.clone(), "fixNZ_zeroes")?;
    let minus = cx.splat(-1.0, halves.clone(), "fixNZ_minusOnesFloat")?;
    let zeros_half = cx.splat(0.0, halves.clone(), "fixNZ_zeroesFloat")?;
    let ones = cx.splat(1.0, halves.clone(), "fixNZ_onesFloat")?;
    let floats = cx.convert(places, ElemKind::Float16, "fixNZ_float")?;
    let below = cx.node("CmpLT", "fixNZ_isNegBool", &[places, zeros], Vec::new(), bools.clone())?;
    let marks = cx.node(
        "Select",
        "fixNZ_isNegFloat",
        &[below, ones, zeros_half],
        Vec::new(),
        halves.clone(),
    )?;
    let marks = cx.convert(marks, ElemKind::Int32I, "fixNZ_isNegInt")?;
    let members = vec![
        ("Dim", MemberValue::Int(0)),
        ("Exclusive", MemberValue::Int(0)),
        ("Reverse", MemberValue::Int(0)),
    ];
    let sums = cx.node("CumSum", "fixNZ_cumSum", &[marks], members, of)?;
    let behind = cx.node("CmpLT", "fixNZ_isAfterBoundary", &[zeros, sums], Vec::new(), bools)?;
    let ended = cx.node(
        "Select",
        "fixNZ_withMinusOnesFloat",
        &[behind, minus, floats],
        Vec::new(),
        halves,
    )?;
    cx.convert(ended, ElemKind::Int32I, "fixNZ_withMinusOnesInt")
}

fn fill(cx: &mut Cx<'_>) -> Outcome {
    let (data, indicator) = (cx.input(0)?, cx.input(1)?);
    expect_integers(cx, indicator, "indicator")?;
    expect_rank(cx, indicator, 1, "an indicator")?;
    let shape = cx.shape(data);
    let [count, width] = flattened(&shape, 1)?;
    if shape.is_empty() {
        return Err("expected data of at least one dim, found a scalar".into());
    }
    let length = cx.dim(indicator, 0)?;
    let mut result = shape;
    result.iter_mut().take(1).for_each(|dim| *dim = length);
    let flat = cx.reshape_always(data, &[count, width], "data2D")?;
    let places = rows(cx, indicator, count, "indices")?;
    let of: Type = cx.shaped(data, vec![length, width]);
    let zeros = cx.splat(0.0, of.clone(), "zeros")?;
    let members = vec![("Cumulative", MemberValue::Int(1))];
    let filled = cx.node("ScatterData", "scatterData", &[zeros, places, flat], members, of)?;
    one(cx.reshape_always(filled, &result, "result")?)
}

fn to_dense(cx: &mut Cx<'_>) -> Outcome {
    let (lengths, places, values) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    for (value, what) in [(lengths, "lengths"), (places, "indices")] {
        expect_integers(cx, value, what)?;
        expect_rank(cx, value, 1, what)?;
    }
    let last = cx.int("dense_last_dim", 1)?;
    if last != 1 {
        return Err(
            format!("Glow has results of one column only, found `dense_last_dim` {last}").into()
        );
    }
    let count = cx.dim(places, 0)?;
    if cx.shape(values) != [count] {
        return Err(format!("expected {count} values, found {:?}", cx.shape(values)).into());
    }
    let of = of_kind(ElemKind::Float, vec![cx.dim(lengths, 0)?, 1]);
    let default = cx.float("default_value", 0.0)?;
    let selected = rows(cx, lengths, count, "indicesSlice")?;
    let data = cx.splat(default, of, "data")?;
    let values = cx.reshape_always(values, &[count, 1], "reshape")?;
    scatter(cx, data, selected, values, true, "scatterData")
}

fn labels(cx: &mut Cx<'_>) -> Outcome {
    let mut operands = Vec::new();
    for (index, name) in ["lengths1D", "indices1D", "values1D"].into_iter().enumerate() {
        let value = cx.input(index)?;
        let shape = cx.shape(value);
        operands.push(match *shape {
            [_] => value,
            [count, 1] => cx.reshape_always(value, &[count], name)?,
            _ => return Err(format!("expected a vector as input {index}, found {shape:?}").into()),
        });
    }
    let &[_, places, values] = operands.as_slice() else { return Err("expected 3 inputs".into()) };
    let items = cx.dim(places, 0)?;
    if cx.shape(values) != [items] {
        return Err(format!("expected {items} values, found {:?}", cx.shape(values)).into());
    }
    let count = cx.int("num_labels", 0)?;
    let outputs = length(cx.op.output("").len());
    if count < 1 || items % count != 0 || count.checked_mul(2).is_none_or(|most| outputs < most) {
        return Err(format!("expected `num_labels` that divides {items}, found {count}").into());
    }
    let each = items / count;
    let results = vec![
        cx.shaped(values, vec![count, each]),
        of_kind(ElemKind::Int32I, vec![count, each]),
        of_kind(ElemKind::Int32I, vec![items]),
    ];
    let members = vec![("NumLabels", MemberValue::Int(count))];
    let results = cx.nodes("SparseLabelSplit", "", &operands, members, results)?;
    let &[values, examples, offsets] = results.as_slice() else {
        return Err("expected 3 results".into());
    };
    let mut parts = Vec::new();
    for (stack, name) in [(values, "reshapeLabelValue"), (examples, "reshapeExampleId")] {
        for label in 0..count {
            let part = cx.slice(stack, vec![label, 0], vec![1, each], "split")?;
            parts.push(Some(cx.reshape_always(part, &[each], name)?));
        }
    }
    parts.push(cx.flag("keep_gradient_offset_map", false)?.then_some(offsets));
    Ok(parts)
}

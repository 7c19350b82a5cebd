//! Operators whose inputs or attributes have another form in older opsets.

use lodstone_model::{Attribute, AttributeValue, DType, Op, Tensor};
use lodstone_store::Blob;

use super::super::dtype;
use super::super::infer::ValueInfo;
use super::Adapter;
use super::rewrite::{
    Rewrite, axis_of, input, inputs, int, int_of, ints, output, outputs, text, text_of, without,
};
use crate::Finding;
use crate::numbers::length;

type Done = Result<(), Finding>;

pub(super) const ADAPTERS: &[(&str, Adapter)] = &[
    ("BatchNormalization", batch_normalization),
    ("CastLike", cast_like),
    ("Constant", constant),
    ("DFT", dft),
    ("Dropout", dropout),
    ("GridSample", grid_sample),
    ("Hardmax", along_axis),
    ("LogSoftmax", along_axis),
    ("Pad", pad),
    ("ReduceL1", reduce),
    ("ReduceL2", reduce),
    ("ReduceLogSum", reduce),
    ("ReduceLogSumExp", reduce),
    ("ReduceMax", reduce),
    ("ReduceMean", reduce),
    ("ReduceMin", reduce),
    ("ReduceProd", reduce),
    ("ReduceSum", reduce),
    ("ReduceSumSquare", reduce),
    ("Reshape", reshape),
    ("Resize", resize),
    ("RoiAlign", roi_align),
    ("Shape", shape),
    ("Softmax", along_axis),
    ("Split", split),
    ("Squeeze", axes),
    ("Unsqueeze", axes),
];

/// Returns the lowest opset in which the attributes and inputs of an operator have their meaning, where neither the names
/// of attributes nor types show it.
pub(super) fn lowest_meaning(rewrite: &Rewrite<'_>, op: &Op) -> i64 {
    let is = |name: &str, values: &[&str]| values.contains(&text_of(op, name, "").as_str());
    match op.kind.as_str() {
        // A scale for each element of an axis.
        "DequantizeLinear" | "QuantizeLinear" => {
            let scale = rewrite.info(input(op, 1)).and_then(ValueInfo::shape);
            if scale.is_some_and(<[_]>::is_empty) { 0 } else { 13 }
        }
        "OptionalHasElement" if input(op, 0).is_empty() => 18,
        "Pad" if is("mode", &["wrap"]) => 19,
        "Resize" if is("coordinate_transformation_mode", &["half_pixel_symmetric"]) => 19,
        "ScatterElements" | "ScatterND" if is("reduction", &["max", "min"]) => 18,
        _ => 0,
    }
}

/// Axes are an attribute up to opset 17, of `ReduceSum` up to 12.
fn reduce(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let x = input(op, 0);
    let mut attributes = without(op, &["noop_with_empty_axes"]);
    let found = match input(op, 1) {
        "" => Vec::new(),
        name => rewrite.ints(name)?,
    };
    if found.is_empty() && int_of(op, "noop_with_empty_axes", 0) != 0 {
        // The operators that are not sums still compute their function of each element.
        let (kind, args) = match op.kind.as_str() {
            "ReduceL1" | "ReduceL2" => ("Abs", vec![x]),
            "ReduceLogSum" => ("Log", vec![x]),
            "ReduceSumSquare" => ("Mul", vec![x, x]),
            _ => ("Identity", vec![x]),
        };
        return rewrite.emit_as(kind, &args, Vec::new(), &outputs(op));
    }
    if !found.is_empty() {
        attributes.push(ints("axes", &found));
    }
    rewrite.put(&op.kind, &[x], attributes, &outputs(op));
    Ok(())
}

/// Axes are an attribute up to opset 12.
fn axes(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let mut attributes = op.attributes.clone();
    if !input(op, 1).is_empty() {
        let found = rewrite.ints(input(op, 1))?;
        attributes.push(ints("axes", &found));
    }
    rewrite.put(&op.kind, &[input(op, 0)], attributes, &outputs(op));
    Ok(())
}

/// Sizes are an attribute up to opset 12, and required for unequal parts up to 17.
fn split(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let x = input(op, 0);
    let axis = int_of(op, "axis", 0);
    let attributes = without(op, &["num_outputs"]);
    let count = length(op.output("").len());
    let sizes = match input(op, 1) {
        "" => {
            let at = axis_of(axis, rewrite.rank(x)?)?.index();
            let whole = rewrite.dim(x, at)?;
            // The last part is smaller.
            let part = whole.checked_add(count - 1).and_then(|it| it.checked_div(count));
            let part = part.ok_or("has no parts")?;
            let size = |index: i64| whole.saturating_sub(index.saturating_mul(part));
            (0..count).map(|index| size(index).clamp(0, part)).collect()
        }
        name if rewrite.opset < 13 => rewrite.ints(name)?,
        name => {
            rewrite.put("Split", &[x, name], attributes, &outputs(op));
            return Ok(());
        }
    };
    if rewrite.opset < 13 {
        let attributes = attributes.into_iter().chain([ints("split", &sizes)]).collect();
        rewrite.put("Split", &[x], attributes, &outputs(op));
    } else {
        let sizes = rewrite.longs(&sizes);
        rewrite.put("Split", &[x, &sizes], attributes, &outputs(op));
    }
    Ok(())
}

/// Up to opset 13, a 0 always keeps a dim.
fn reshape(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let dims = rewrite.ints(input(op, 1));
    if !dims.is_ok_and(|dims| !dims.contains(&0)) {
        return Err("reshapes to a dim of 0".into());
    }
    rewrite.put("Reshape", &inputs(op), without(op, &["allowzero"]), &outputs(op));
    Ok(())
}

/// Up to opset 14, all dims are returned.
fn shape(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let (start, end) = (int_of(op, "start", 0), int_of(op, "end", i64::MAX));
    if op.attributes.is_empty() {
        return Err(
            format!("returns the dims of a value of {}", rewrite.dtype(input(op, 0))).into()
        );
    }
    let all = rewrite.emit("Shape", &[input(op, 0)], Vec::new())?;
    let (start, end) = (rewrite.longs(&[start]), rewrite.longs(&[end]));
    rewrite.emit_as("Slice", &[&all, &start, &end], Vec::new(), &outputs(op))
}

/// Up to opset 17, all axes are padded.
fn pad(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let (x, pads) = (input(op, 0), input(op, 1));
    if text_of(op, "mode", "constant") == "wrap" {
        return Err("pads with mode `wrap`".into());
    }
    let axes = input(op, 3);
    if axes.is_empty() {
        return Err(format!("pads a tensor of {}", rewrite.dtype(x)).into());
    }
    let (axes, found) = (rewrite.ints(axes)?, rewrite.ints(pads)?);
    let rank = rewrite.rank(x)?;
    let mut all = vec![0; 2 * rank];
    for (index, axis) in axes.iter().enumerate() {
        let axis = axis_of(*axis, rank)?.index();
        for (place, from) in [(axis, index), (axis + rank, index + axes.len())] {
            let (Some(pad), Some(value)) = (all.get_mut(place), found.get(from)) else {
                return Err("has fewer pads than axes".into());
            };
            *pad = *value;
        }
    }
    let all = rewrite.longs(&all);
    let mut inputs = vec![x, &all];
    if !input(op, 2).is_empty() {
        inputs.push(input(op, 2));
    }
    rewrite.emit_as("Pad", &inputs, op.attributes.clone(), &outputs(op))
}

/// Up to opset 17 there are no axes, up to 12 there must be a region and scales.
fn resize(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    if int_of(op, "antialias", 0) != 0 {
        return Err("resizes with `antialias`".into());
    }
    if text_of(op, "keep_aspect_ratio_policy", "stretch") != "stretch" {
        return Err("resizes with `keep_aspect_ratio_policy`".into());
    }
    if text_of(op, "coordinate_transformation_mode", "half_pixel") == "half_pixel_symmetric" {
        return Err("resizes with `half_pixel_symmetric`".into());
    }
    if op.attribute("axes").is_some() {
        return Err("resizes some axes".into());
    }
    let attributes = without(op, &["antialias", "keep_aspect_ratio_policy"]);
    let mut args = inputs(op);
    if rewrite.opset >= 13 {
        rewrite.put("Resize", &args, attributes, &outputs(op));
        return Ok(());
    }
    let none = |rewrite: &mut Rewrite<'_>| {
        rewrite.constant(Tensor::dense(DType::Float32, vec![0], Blob::memory(Vec::new())))
    };
    let empty = none(rewrite);
    for place in [1, 2] {
        match args.get_mut(place) {
            Some(name) if name.is_empty() => *name = &empty,
            _ => {}
        }
    }
    rewrite.put("Resize", &args, attributes, &outputs(op));
    Ok(())
}

/// Up to opset 12, these functions normalize over all axes from `axis` on.
fn along_axis(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let x = input(op, 0);
    let rank = rewrite.rank(x)?;
    let (axis, last) = (axis_of(int_of(op, "axis", -1), rank)?, axis_of(-1, rank)?);
    let mut order: Vec<i64> = (0..).take(rank).collect();
    let at_end = int("axis", last.number());
    if axis == last {
        rewrite.put(&op.kind, &[x], vec![at_end], &outputs(op));
        return Ok(());
    }
    // The axis is exchanged with the last one.
    order.swap(axis.index(), last.index());
    let moved = rewrite.emit("Transpose", &[x], vec![ints("perm", &order)])?;
    let made = rewrite.fresh(&op.kind);
    rewrite.put(&op.kind, &[&moved], vec![at_end], &[&made]);
    rewrite.put("Transpose", &[&made], vec![ints("perm", &order)], &outputs(op));
    Ok(())
}

/// Up to opset 13, whether it trains follows from its outputs.
fn batch_normalization(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    if int_of(op, "training_mode", 0) != 0 {
        return Err("trains".into());
    }
    rewrite.put("BatchNormalization", &inputs(op), without(op, &["training_mode"]), &[output(op)]);
    Ok(())
}

/// Up to opset 14, the type is that of an attribute.
fn cast_like(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let to = dtype::code(rewrite.dtype(input(op, 1))).filter(|to| *to != 0);
    let to = to.ok_or("casts to an unknown type")?;
    let mut attributes = op.attributes.clone();
    attributes.push(int("to", i64::from(to)));
    rewrite.emit_as("Cast", &[input(op, 0)], attributes, &outputs(op))
}

/// Up to opset 11, a constant is a tensor.
fn constant(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let [Attribute { name, value }] = op.attributes.as_slice() else {
        return Err("has no value".into());
    };
    let floats = |values: &[f32]| values.iter().flat_map(|it| it.to_le_bytes()).collect();
    let longs = |values: &[i64]| values.iter().flat_map(|it| it.to_le_bytes()).collect();
    let count = |count: usize| vec![count as u64];
    let (dtype, dims, bytes): (DType, Vec<u64>, Vec<u8>) = match (name.as_str(), value) {
        ("value_float", AttributeValue::Float(value)) => {
            (DType::Float32, Vec::new(), floats(&[*value]))
        }
        ("value_floats", AttributeValue::Floats(all)) => {
            (DType::Float32, count(all.len()), floats(all))
        }
        ("value_int", AttributeValue::Long(value)) => (DType::Int64, Vec::new(), longs(&[*value])),
        ("value_ints", AttributeValue::Longs(all)) => (DType::Int64, count(all.len()), longs(all)),
        _ => return Err(format!("has the attribute `{name}`").into()),
    };
    let value = AttributeValue::Tensor(Tensor::dense(dtype, dims, Blob::memory(bytes)).into());
    let attributes = vec![Attribute { name: "value".to_owned(), value }];
    rewrite.put("Constant", &[], attributes, &outputs(op));
    Ok(())
}

/// Up to opset 19, the axis is an attribute, and a real inverse does not exist.
fn dft(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let axis = match input(op, 2) {
        "" => -2,
        name => rewrite.ints(name)?.first().copied().ok_or("has no axis")?,
    };
    if int_of(op, "inverse", 0) != 0 && int_of(op, "onesided", 0) != 0 {
        return Err("transforms half of a spectrum".into());
    }
    let rank = rewrite.rank(input(op, 0))?;
    let axis = axis_of(axis, rank)?.number();
    let args: Vec<&str> = inputs(op).into_iter().take(2).collect();
    let attributes = op.attributes.iter().cloned().chain([int("axis", axis)]).collect();
    rewrite.put("DFT", &args, attributes, &outputs(op));
    Ok(())
}

/// Up to opset 11, nothing is dropped.
fn dropout(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let trains = input(op, 2);
    if !trains.is_empty() && rewrite.ints(trains)?.first() != Some(&0) {
        return Err("trains".into());
    }
    rewrite.put("Dropout", &[input(op, 0)], Vec::new(), &outputs(op));
    Ok(())
}

/// Up to opset 15, coordinates are not shifted.
fn roi_align(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    const MODE: &str = "coordinate_transformation_mode";
    if text_of(op, MODE, "half_pixel") != "output_half_pixel" {
        return Err("aligns regions by half a pixel".into());
    }
    rewrite.put("RoiAlign", &inputs(op), without(op, &[MODE]), &outputs(op));
    Ok(())
}

/// Up to opset 19, modes have other names, and there are two spatial dims.
fn grid_sample(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    if rewrite.opset < 16 {
        return Err("samples a grid".into());
    }
    if rewrite.rank(input(op, 0))? != 4 {
        return Err("samples a grid of other than two dims".into());
    }
    let mode = match text_of(op, "mode", "linear").as_str() {
        "linear" => "bilinear".to_owned(),
        "cubic" => "bicubic".to_owned(),
        other => other.to_owned(),
    };
    let attributes = without(op, &["mode"]).into_iter().chain([text("mode", &mode)]).collect();
    rewrite.put("GridSample", &inputs(op), attributes, &outputs(op));
    Ok(())
}

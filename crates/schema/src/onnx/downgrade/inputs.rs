//! Operators whose inputs or attributes have another form in older opsets.

use lodstone_model::{DType, Op, Tensor};
use lodstone_store::Blob;

use super::Adapter;
use super::rewrite::{
    Rewrite, input, inputs, int, int_of, ints, output, outputs, text, text_of, without,
};
use crate::Finding;

type Done = Result<(), Finding>;

pub(super) const ADAPTERS: &[(&str, Adapter)] = &[
    ("BatchNormalization", batch_normalization),
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
    ("Shape", shape),
    ("Softmax", along_axis),
    ("Split", split),
    ("Squeeze", axes),
    ("Unsqueeze", axes),
];

/// Axes are an attribute up to opset 17, of `ReduceSum` up to 12.
fn reduce(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let x = input(op, 0);
    if matches!(rewrite.dtype(x), DType::Bool) {
        return Err("reduces Booleans".into());
    }
    let mut attributes = without(op, &["noop_with_empty_axes"]);
    let found = match input(op, 1) {
        "" => Vec::new(),
        name => rewrite.ints(name)?,
    };
    if found.is_empty() && int_of(op, "noop_with_empty_axes", 0) != 0 {
        return rewrite.emit_as("Identity", &[x], Vec::new(), &outputs(op));
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
    let count = i64::try_from(op.output("").len()).unwrap_or(i64::MAX);
    let sizes = match input(op, 1) {
        "" => {
            let rank = i64::try_from(rewrite.rank(x)?).unwrap_or(i64::MAX);
            let at = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok();
            let dims = rewrite.dims(x);
            let whole = dims.ok().and_then(|dims| dims.get(at?).copied());
            let whole = whole.ok_or("splits a dim of unknown size into a number of parts")?;
            // The last part is smaller.
            let part = (whole + count - 1).checked_div(count).unwrap_or(0);
            (0..count).map(|index| (whole - index * part).clamp(0, part)).collect()
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
        let axis = if *axis < 0 { axis + i64::try_from(rank).unwrap_or(i64::MAX) } else { *axis };
        let axis = usize::try_from(axis).ok().filter(|axis| *axis < rank);
        let axis = axis.ok_or("pads an axis that does not exist")?;
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
    for (name, default) in [("antialias", 0), ("exclude_outside", 0)] {
        if name == "antialias" && int_of(op, name, default) != 0 {
            return Err("resizes with `antialias`".into());
        }
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
    let rank = i64::try_from(rewrite.rank(x)?).unwrap_or(i64::MAX);
    let axis = int_of(op, "axis", -1);
    let axis = if axis < 0 { axis + rank } else { axis };
    if axis + 1 == rank {
        rewrite.put(&op.kind, &[x], vec![int("axis", axis)], &outputs(op));
        return Ok(());
    }
    // The axis is exchanged with the last one.
    let mut order: Vec<i64> = (0..rank).collect();
    if let Ok(axis) = usize::try_from(axis) {
        let last = order.len().saturating_sub(1);
        if axis < last {
            order.swap(axis, last);
        }
    }
    let moved = rewrite.emit("Transpose", &[x], vec![ints("perm", &order)])?;
    let made = rewrite.fresh(&op.kind);
    rewrite.put(&op.kind, &[&moved], vec![int("axis", rank - 1)], &[&made]);
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

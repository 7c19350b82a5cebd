//! Attributes that are called otherwise, mean something else if they are not there, or are there no more.

use lodstone_model::{AttributeValue, DType};

use super::change::Change;
use crate::Finding;

/// `consumed_inputs` said which inputs may be written over.
pub(super) fn consumed(change: &mut Change<'_>) -> Result<(), Finding> {
    change.take("consumed_inputs");
    Ok(())
}

/// `is_test` of BatchNormalization and Dropout. Operators that do not say it were run for inference by
/// everybody, whatever the default; those that say that they train are something else now.
pub(super) fn test_mode(change: &mut Change<'_>) -> Result<(), Finding> {
    if change.int("is_test")? == Some(0) {
        return Err("is in training mode (`is_test` is 0)".into());
    }
    change.take("is_test");
    Ok(())
}

/// `spatial` of BatchNormalization.
pub(super) fn spatial(change: &mut Change<'_>) -> Result<(), Finding> {
    if change.int("spatial")?.is_some_and(|spatial| spatial != 1) {
        return Err("normalizes each place by itself (`spatial` is 0)".into());
    }
    change.take("spatial");
    Ok(())
}

/// BatchNormalization whose further outputs are used trains: they were others than they are now.
pub(super) fn inference(change: &mut Change<'_>) -> Result<(), Finding> {
    if change.outputs() > 1 {
        return Err("writes statistics of training, which are others now".into());
    }
    for operand in &mut change.op.outputs {
        operand.args.truncate(1);
    }
    Ok(())
}

/// What Dropout says of what it left out became `bool`.
pub(super) fn mask(change: &mut Change<'_>) -> Result<(), Finding> {
    let mask = change.output(1).to_owned();
    if mask.is_empty() {
        return Ok(());
    }
    let to = match change.dtype(change.input(0)) {
        Some(DType::Float32) => 1,
        Some(DType::Float16) => 10,
        Some(DType::Float64) => 11,
        _ => return Err("has a mask, and it cannot be told of which type".into()),
    };
    let name = change.fresh("mask");
    change.set_output(1, name.clone());
    let to = super::change::attribute("to", AttributeValue::Long(to));
    change.after("Cast", [&name], &mask, vec![to]);
    Ok(())
}

/// Types by the names that Cast of the first version had for them, and their codes.
const TYPES: [(&str, i64); 15] = [
    ("FLOAT", 1),
    ("UINT8", 2),
    ("INT8", 3),
    ("UINT16", 4),
    ("INT16", 5),
    ("INT32", 6),
    ("INT64", 7),
    ("STRING", 8),
    ("BOOL", 9),
    ("FLOAT16", 10),
    ("DOUBLE", 11),
    ("UINT32", 12),
    ("UINT64", 13),
    ("COMPLEX64", 14),
    ("COMPLEX128", 15),
];

/// `to` of Cast became a code.
pub(super) fn cast(change: &mut Change<'_>) -> Result<(), Finding> {
    let to = change.text("to")?.ok_or("has no attribute `to`")?;
    let code = TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&to));
    let (_, code) = code.ok_or("casts to a type that there is not")?;
    change.set("to", AttributeValue::Long(*code));
    Ok(())
}

/// Concat went along the second axis if nothing was said.
pub(super) fn concat(change: &mut Change<'_>) -> Result<(), Finding> {
    if change.op.attribute("axis").is_none() {
        change.set("axis", AttributeValue::Long(1));
    }
    Ok(())
}

/// Types that are no floating-point ones are computed no more.
pub(super) fn floats(change: &mut Change<'_>) -> Result<(), Finding> {
    match change.dtype(change.input(0)) {
        Some(dtype) if !dtype.is_float() => {
            Err(format!("computes {dtype}, which it does no more").into())
        }
        _ => Ok(()),
    }
}

/// `broadcast` of Gemm: what is not of the same shape is broadcast anyhow.
pub(super) fn gemm(change: &mut Change<'_>) -> Result<(), Finding> {
    change.take("broadcast");
    Ok(())
}

/// Modes of GridSample have the names that Resize has for them.
pub(super) fn grid_sample(change: &mut Change<'_>) -> Result<(), Finding> {
    let name = match change.text("mode")?.as_deref() {
        Some("bilinear") => "linear",
        Some("bicubic") => "cubic",
        _ => return Ok(()),
    };
    change.set("mode", AttributeValue::String(name.into()));
    Ok(())
}

/// Split says how many parts there are, where it does not say how large they are.
pub(super) fn num_outputs(change: &mut Change<'_>) -> Result<(), Finding> {
    if change.input(1).is_empty() {
        let outputs = change.op.outputs.iter().map(|operand| operand.args.len()).sum::<usize>();
        let outputs = i64::try_from(outputs).unwrap_or(i64::MAX);
        change.set("num_outputs", AttributeValue::Long(outputs));
    }
    Ok(())
}

/// `paddings` of Pad are `pads`.
pub(super) fn paddings(change: &mut Change<'_>) -> Result<(), Finding> {
    let pads = change.take("paddings").ok_or("has no attribute `paddings`")?;
    change.set("pads", pads);
    Ok(())
}

/// `p` of LpPool and GlobalLpPool became an integer. The former has to say over what it goes.
pub(super) fn power(change: &mut Change<'_>) -> Result<(), Finding> {
    if change.op.kind == "LpPool" && change.op.attribute("kernel_shape").is_none() {
        return Err("has no attribute `kernel_shape`".into());
    }
    let Some(value) = change.take("p") else { return Ok(()) };
    let whole = match value {
        AttributeValue::Float(p) if p.fract() == 0.0 => p.to_string().parse().ok(),
        _ => None,
    };
    let whole = whole.ok_or("has a `p` that is no integer, which it has to be now")?;
    change.set("p", AttributeValue::Long(whole));
    Ok(())
}

/// RoiAlign begins half a pixel earlier if nothing is said.
pub(super) fn roi_align(change: &mut Change<'_>) -> Result<(), Finding> {
    let mode = AttributeValue::String("output_half_pixel".into());
    change.set("coordinate_transformation_mode", mode);
    Ok(())
}

/// Scatter is ScatterElements.
pub(super) fn scatter(change: &mut Change<'_>) -> Result<(), Finding> {
    change.op.kind = "ScatterElements".to_owned();
    Ok(())
}

/// Selu has more digits of its numbers if they are not said.
pub(super) fn selu(change: &mut Change<'_>) -> Result<(), Finding> {
    change.take("consumed_inputs");
    for (name, number) in [("alpha", 1.6732), ("gamma", 1.0507)] {
        if change.op.attribute(name).is_none() {
            change.set(name, AttributeValue::Float(number));
        }
    }
    Ok(())
}

/// `output_sequence` of recurrent operators said whether the first output is written, which its being
/// there says.
pub(super) fn sequence(change: &mut Change<'_>) -> Result<(), Finding> {
    change.take("output_sequence");
    Ok(())
}

//! Attributes that were renamed, that were removed, or whose defaults changed.

use lodstone_model::{AttributeValue, DType};

use super::change::Change;
use crate::Finding;
use crate::numbers::length;

/// `consumed_inputs` listed the inputs that may be overwritten.
pub(super) fn consumed(change: &mut Change<'_>) -> Result<(), Finding> {
    change.take("consumed_inputs");
    Ok(())
}

/// `is_test` of BatchNormalization and Dropout. All runtimes ran operators without it for inference, whatever the
/// default; those in training mode mean something else now.
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
        return Err("normalizes each position by itself (`spatial` is 0)".into());
    }
    change.take("spatial");
    Ok(())
}

/// BatchNormalization with more than one output in use is training; the statistics that it writes have changed.
pub(super) fn inference(change: &mut Change<'_>) -> Result<(), Finding> {
    if (1..change.outputs()).any(|index| change.is_read(index)) {
        return Err("writes training statistics, whose meaning has changed".into());
    }
    for operand in &mut change.op.outputs {
        operand.args.truncate(1);
    }
    Ok(())
}

/// The mask of Dropout became `bool`.
pub(super) fn mask(change: &mut Change<'_>) -> Result<(), Finding> {
    let mask = change.output(1).to_owned();
    if mask.is_empty() {
        return Ok(());
    }
    let to = match change.dtype(change.input(0)) {
        Some(DType::Float32) => 1,
        Some(DType::Float16) => 10,
        Some(DType::Float64) => 11,
        _ => return Err("has a mask, and its element type is unknown".into()),
    };
    let name = change.fresh("mask");
    change.set_output(1, name.clone());
    let to = super::change::attribute("to", AttributeValue::Long(to));
    change.after("Cast", [&name], &mask, vec![to]);
    Ok(())
}

/// The type names of Cast in its first version, and their codes.
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
    let (_, code) = code.ok_or("casts to an unknown type")?;
    change.set("to", AttributeValue::Long(*code));
    Ok(())
}

/// The default axis of Concat was the second one.
pub(super) fn concat(change: &mut Change<'_>) -> Result<(), Finding> {
    if change.op.attribute("axis").is_none() {
        change.set("axis", AttributeValue::Long(1));
    }
    Ok(())
}

/// Types other than floating-point ones are no longer supported.
pub(super) fn floats(change: &mut Change<'_>) -> Result<(), Finding> {
    match change.dtype(change.input(0)) {
        Some(dtype) if !dtype.is_float() => {
            Err(format!("computes {dtype}, which is no longer supported").into())
        }
        _ => Ok(()),
    }
}

/// `broadcast` of Gemm, which now always broadcasts.
pub(super) fn gemm(change: &mut Change<'_>) -> Result<(), Finding> {
    change.take("broadcast");
    Ok(())
}

/// GridSample took over the names of modes from Resize.
pub(super) fn grid_sample(change: &mut Change<'_>) -> Result<(), Finding> {
    let name = match change.text("mode")?.as_deref() {
        Some("bilinear") => "linear",
        Some("bicubic") => "cubic",
        _ => return Ok(()),
    };
    change.set("mode", AttributeValue::String(name.into()));
    Ok(())
}

/// Split requires the number of parts if it has no sizes.
pub(super) fn num_outputs(change: &mut Change<'_>) -> Result<(), Finding> {
    if change.input(1).is_empty() {
        let outputs = change.op.outputs.iter().map(|operand| operand.args.len()).sum::<usize>();
        change.set("num_outputs", AttributeValue::Long(length(outputs)));
    }
    Ok(())
}

/// `paddings` of Pad are `pads`.
pub(super) fn paddings(change: &mut Change<'_>) -> Result<(), Finding> {
    let pads = change.take("paddings").ok_or("has no attribute `paddings`")?;
    change.set("pads", pads);
    Ok(())
}

/// `p` of LpPool and GlobalLpPool became an integer. LpPool requires `kernel_shape`.
pub(super) fn power(change: &mut Change<'_>) -> Result<(), Finding> {
    if change.op.kind == "LpPool" && change.op.attribute("kernel_shape").is_none() {
        return Err("has no attribute `kernel_shape`".into());
    }
    let Some(value) = change.take("p") else { return Ok(()) };
    let whole = match value {
        AttributeValue::Float(p) if p.fract() == 0.0 => p.to_string().parse().ok(),
        _ => None,
    };
    let whole = whole.ok_or("has a fractional `p`, which is no longer supported")?;
    change.set("p", AttributeValue::Long(whole));
    Ok(())
}

/// The default of RoiAlign was to begin half a pixel earlier.
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

/// The defaults of Selu got more digits.
pub(super) fn selu(change: &mut Change<'_>) -> Result<(), Finding> {
    change.take("consumed_inputs");
    for (name, number) in [("alpha", 1.6732), ("gamma", 1.0507)] {
        if change.op.attribute(name).is_none() {
            change.set(name, AttributeValue::Float(number));
        }
    }
    Ok(())
}

/// `output_sequence` of recurrent operators declared whether the first output is written, which its presence
/// now declares.
pub(super) fn sequence(change: &mut Change<'_>) -> Result<(), Finding> {
    change.take("output_sequence");
    Ok(())
}
